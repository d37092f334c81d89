#include "train/text/regex.h"

#include "kernels/base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define JIT_STACK_MAX ((size_t)8 << 20)

struct regex {
    pcre2_code *code;
    bool jit;
};

/* Patterns are Oniguruma's, whose classes are spelled out where PCRE2's differ: U+180E is no white space since Unicode 6.3. */
#define SPACES "\\x{9}-\\x{d} \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* \w of Oniguruma: letters, marks, decimal and letter numbers, connectors, letters in circles, and six digits of Latin-1. */
#define WORDS "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

struct translation {
    const char *p;
    size_t len, at;
    struct err *err;
    int depth; /* of brackets within brackets */
};

static enum pawl_status refuse(const struct translation *t, const char *what)
{
    return err_set(t->err, PAWL_EINVAL, "regular expression, byte %zu: %s is not supported", t->at, what);
}

/* \p{Han} and \p{^Han}: PCRE2 would take the script's extensions as well; Oniguruma takes the characters of the script alone. */
static void add_property(struct translation *t, struct buf *out)
{
    static const char *const not_scripts[] = {"Any", "Alphabetic", "Alpha", "Lowercase", "Lower", "Uppercase", "Upper", "White_Space", "Emoji", "Ideographic"};
    const char *name = t->p + t->at + 3, *close = memchr(name, '}', t->len - t->at - 3);
    size_t n = close != NULL ? (size_t)(close - name) : 0, skip = n > 0 && *name == '^';
    bool script = n - skip > 2 && memchr(name, '=', n) == NULL && memchr(name, ':', n) == NULL;

    for (size_t i = 0; i < sizeof not_scripts / sizeof *not_scripts; i++) script &= strlen(not_scripts[i]) != n - skip || memcmp(not_scripts[i], name + skip, n - skip) != 0;
    buf_add(out, t->p + t->at, 3);
    t->at += 3;
    if (!script) return;
    if (skip) buf_addc(out, '^');
    buf_adds(out, "sc:");
    buf_add(out, name + skip, n - skip);
    t->at += n;
}

/* One escape at t->at, outside of brackets or inside. */
static enum pawl_status add_escape(struct translation *t, struct buf *out, bool inside)
{
    char next = t->at + 1 < t->len ? t->p[t->at + 1] : 0;

    switch (next) {
    case 's': buf_adds(out, inside ? SPACES : "[" SPACES "]"); break;
    case 'S': buf_adds(out, "[^" SPACES "]"); break;
    case 'w': buf_adds(out, inside ? WORDS : "[" WORDS "]"); break;
    case 'W': buf_adds(out, "[^" WORDS "]"); break;
    case 'h': buf_adds(out, inside ? "0-9a-fA-F" : "[0-9a-fA-F]"); break;
    case 'H': return refuse(t, "\\H");
    case 'u': /* four hexadecimal digits */
        if (t->len - t->at < 6) return refuse(t, "\\u without four digits");
        buf_adds(out, "\\x{");
        buf_add(out, t->p + t->at + 2, 4);
        buf_addc(out, '}');
        t->at += 6;
        return PAWL_OK;
    case 'p':
    case 'P':
        if (t->at + 2 < t->len && t->p[t->at + 2] == '{') {
            add_property(t, out);
            return PAWL_OK;
        }
        buf_add(out, t->p + t->at, 2);
        break;
    default: buf_add(out, t->p + t->at, t->at + 1 < t->len ? 2 : 1); break;
    }
    t->at += 2;
    return PAWL_OK;
}

static enum pawl_status add_class(struct translation *t, struct buf *out);

/* && and the bracket behind it, from t->at on: PCRE2 has no intersections, so what is to be in both is asked for ahead. */
static enum pawl_status add_intersection(struct translation *t, struct buf *ahead)
{
    t->at += 2;
    if (t->at == t->len || t->p[t->at] != '[') return refuse(t, "an intersection (&&) without brackets behind it");
    if (t->depth == 8) return refuse(t, "an intersection of more than 8 levels");
    t->depth++;
    buf_adds(ahead, "(?=");
    enum pawl_status st = add_class(t, ahead);
    buf_addc(ahead, ')');
    t->depth--;
    if (st == PAWL_OK && t->at < t->len && t->p[t->at] != ']' && t->p[t->at] != '&') st = refuse(t, "more behind an intersection (&&) in brackets");
    return st;
}

/* Brackets, from t->at on. What is not \s or not \w stands beside the others there, which PCRE2 has no spelling for: [^\W\d] is "\w, but none of \d". */
static enum pawl_status add_class(struct translation *t, struct buf *out)
{
    struct buf body = {0}, ahead = {0};
    const char *other = NULL; /* the class of which all others are meant */
    enum pawl_status st = PAWL_OK;

    t->at++;
    bool negated = t->at < t->len && t->p[t->at] == '^';
    t->at += negated;
    if (t->at < t->len && t->p[t->at] == ']') {
        buf_adds(&body, "\\]");
        t->at++;
    }
    for (; st == PAWL_OK && t->at < t->len && t->p[t->at] != ']';) {
        char c = t->p[t->at], next = t->at + 1 < t->len ? t->p[t->at + 1] : 0;
        if (c == '\\' && (next == 'S' || next == 'W')) {
            if (other != NULL) st = refuse(t, "more than one of \\S and \\W in brackets");
            other = next == 'S' ? SPACES : WORDS;
            t->at += 2;
        } else if (c == '\\') {
            st = add_escape(t, &body, true);
        } else if (c == '&' && next == '&') {
            st = add_intersection(t, &ahead);
        } else if (c == '[' && next == ':' && memmem(t->p + t->at, t->len - t->at, ":]", 2) != NULL) {
            static const struct { const char *name, *text; } posix[] = {{"[:space:]", SPACES}, {"[:word:]", WORDS}, {"[:digit:]", "\\p{Nd}"}, {"[:xdigit:]", "0-9a-fA-F"},
                                                                     {"[:upper:]", "\\p{Lu}"}, {"[:lower:]", "\\p{Ll}"}, {"[:ascii:]", "\\x00-\\x7f"}, {"[:blank:]", "\\p{Zs}\\t"}};
            size_t k = 0;
            while (k < sizeof posix / sizeof *posix && !(strlen(posix[k].name) <= t->len - t->at && memcmp(t->p + t->at, posix[k].name, strlen(posix[k].name)) == 0)) k++;
            if (k == sizeof posix / sizeof *posix) {
                st = refuse(t, "this class of POSIX");
            } else {
                buf_adds(&body, posix[k].text);
                t->at += strlen(posix[k].name);
            }
        } else {
            if (c == '[') buf_addc(&body, '\\'); /* Oniguruma would nest here; a bracket is what real files mean */
            buf_addc(&body, c);
            t->at++;
        }
    }
    if (st == PAWL_OK && t->at == t->len) st = refuse(t, "a bracket without its end");
    t->at++;
    const char *text = body.data ? body.data : "";
    /* Oniguruma's \w loses the digits of Latin-1 in there. */
    if (st == PAWL_OK && ahead.len > 0 && (other != NULL || body.len == 0 || strstr(text, WORDS) != NULL)) st = refuse(t, "\\S, \\w, \\W or nothing before an intersection (&&)");
    if (st == PAWL_OK && ahead.len > 0) buf_addf(out, negated ? "(?:(?!%s[%s])(?s:.))" : "(?:%s[%s])", ahead.data, text);
    else if (st == PAWL_OK && other == NULL) buf_addf(out, "[%s%s]", negated ? "^" : "", text);
    else if (st == PAWL_OK && negated && body.len > 0) buf_addf(out, "(?:(?![%s])[%s])", text, other);
    else if (st == PAWL_OK && negated) buf_addf(out, "[%s]", other);
    else if (st == PAWL_OK && body.len > 0) buf_addf(out, "(?:[%s]|[^%s])", text, other);
    else if (st == PAWL_OK) buf_addf(out, "[^%s]", other);
    buf_free(&body);
    buf_free(&ahead);
    return st;
}

static enum pawl_status translate(struct buf *out, const char *p, size_t len, struct err *err)
{
    struct translation t = {p, len, 0, err, 0};
    enum pawl_status st = PAWL_OK;

    while (st == PAWL_OK && t.at < len) {
        if (p[t.at] == '\\') st = add_escape(&t, out, false);
        else if (p[t.at] == '[') st = add_class(&t, out);
        else buf_addc(out, p[t.at++]);
    }
    return st;
}

enum pawl_status regex_compile(struct regex **out, const char *pattern, size_t len, struct err *err)
{
    struct buf text = {0};
    struct regex *r = xcalloc(1, sizeof *r);
    enum pawl_status st = translate(&text, pattern, len, err);
    int code = 0;
    PCRE2_SIZE at = 0;

    if (st != PAWL_OK) goto done;
    r->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.len, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, NULL);
    if (r->code == NULL) {
        PCRE2_UCHAR why[256] = "";
        pcre2_get_error_message(code, why, sizeof why);
        st = err_set(err, PAWL_EINVAL, "regular expression \"%.200s\": %s", pattern, (char *)why);
        goto done;
    }
    r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    *out = r;
    r = NULL;
done:
    buf_free(&text);
    regex_free(r);
    return st;
}

void regex_free(struct regex *r)
{
    if (r == NULL) return;
    pcre2_code_free(r->code);
    free(r);
}

void regex_search_begin(struct regex_search *s, const struct regex *r, const char *text, size_t len)
{
    *s = (struct regex_search){.regex = r, .text = text, .len = len};
    s->match = pcre2_match_data_create_from_pattern(r->code, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (s->match == NULL || s->context == NULL) xmalloc(SIZE_MAX); /* ends the program with the usual line */
}

enum pawl_status regex_search_next(struct regex_search *s, size_t from, bool *found, size_t *begin, size_t *end, struct err *err)
{
    PCRE2_SPTR text = (PCRE2_SPTR)s->text;
    int rc = pcre2_match(s->regex->code, text, s->len, from, PCRE2_NO_UTF_CHECK, s->match, s->context);

    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && s->stack == NULL) { /* the machine stack serves nearly every text */
        s->stack = pcre2_jit_stack_create(64 << 10, JIT_STACK_MAX, NULL);
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
        rc = pcre2_match(s->regex->code, text, s->len, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = pcre2_match(s->regex->code, text, s->len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->context);
    *found = rc > 0;
    if (rc == PCRE2_ERROR_NOMATCH) return PAWL_OK;
    if (rc <= 0) {
        PCRE2_UCHAR why[256] = "";
        pcre2_get_error_message(rc, why, sizeof why);
        return err_set(err, PAWL_EINVAL, "the tokenizer's regular expression gives up on this text at byte %zu: %s", from, (char *)why);
    }
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->match);
    *begin = v[0];
    *end = v[1];
    return PAWL_OK;
}

void regex_search_end(struct regex_search *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (struct regex_search){0};
}
