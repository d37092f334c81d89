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

/* PCRE2 counts U+180E as white space, Unicode since 6.3 does not: \s is spelled out. \S inside brackets has no such spelling and stays. */
#define SPACES "\\x{9}-\\x{d} \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static enum pawl_status translate(struct buf *out, const char *p, size_t len, struct err *err)
{
    bool in_class = false;

    for (size_t i = 0; i < len; i++) {
        char c = p[i], next = i + 1 < len ? p[i + 1] : 0;
        if (c == '\\' && (next == 's' || (next == 'S' && !in_class))) {
            buf_adds(out, in_class ? SPACES : next == 's' ? "[" SPACES "]" : "[^" SPACES "]");
            i++;
        } else if (c == '\\' && i + 1 < len) {
            buf_add(out, p + i++, 2);
        } else if (in_class && c == '&' && next == '&') {
            return err_set(err, PAWL_EINVAL, "regular expression, byte %zu: intersections (&&) in brackets are not supported", i);
        } else {
            const char *close = in_class && c == '[' && next == ':' ? memmem(p + i, len - i, ":]", 2) : NULL;
            if (close != NULL) { /* [:name:] */
                buf_add(out, p + i, (size_t)(close - p) + 2 - i);
                i = (size_t)(close - p) + 1;
                continue;
            }
            if (in_class && c == '[') buf_addc(out, '\\'); /* Oniguruma would nest here; a bracket is what real files mean */
            if (c == '[' && !in_class) {
                in_class = true;
                buf_addc(out, c);
                if (next == '^') buf_addc(out, p[++i]);
                if (i + 1 < len && p[i + 1] == ']') buf_addc(out, p[++i]);
                continue;
            }
            if (c == ']') in_class = false;
            buf_addc(out, c);
        }
    }
    return PAWL_OK;
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
