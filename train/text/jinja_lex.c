/* Cuts a source into words as Jinja2's lexer does with trim_blocks and lstrip_blocks. */
#include "train/text/jinja_ast.h"

#include "kernels/base/utf8.h"
#include "train/text/unicode.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    const char *name, *s;
    size_t len, at;
    uint32_t line;
    struct jt *out;
    size_t n, cap;
    struct pool *pool;
    bool line_start; /* the text that comes begins a line */
    struct err *err;
};

static enum pawl_status fail(struct lexer *x, const char *what)
{
    return err_set(x->err, PAWL_EINVAL, "%s, line %u: %s", x->name, x->line, what);
}

static void add(struct lexer *x, enum jt_kind kind, const char *text, size_t len)
{
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 256;
        x->out = xreallocarray(x->out, x->cap, sizeof *x->out);
    }
    x->out[x->n++] = (struct jt){.kind = kind, .line = x->line, .text = text, .len = len};
}

/* Moves on to byte `to`, counting lines. */
static void go(struct lexer *x, size_t to)
{
    for (; x->at < to; x->at++) x->line += x->s[x->at] == '\n';
}

static size_t skip_space(const struct lexer *x, size_t at)
{
    while (at < x->len) {
        uint32_t cp = 0;
        int n = utf8_decode(x->s + at, x->len - at, &cp);
        if (n == 0 || !jv_space(cp)) break;
        at += (size_t)n;
    }
    return at;
}

static bool starts(const struct lexer *x, size_t at, const char *what)
{
    size_t n = strlen(what);

    return x->len - at >= n && memcmp(x->s + at, what, n) == 0;
}

/* Where the white space character begins that ends at `at`, which is above begin; `at`: another character ends there. */
static size_t last_space(const struct lexer *x, size_t begin, size_t at)
{
    size_t c = at - 1;
    uint32_t cp = 0;

    while (c > begin && ((unsigned char)x->s[c] & 0xC0) == 0x80) c--;
    utf8_decode(x->s + c, at - c, &cp);
    return jv_space(cp) ? c : at;
}

/* The end of text [begin, end) once a tag with modifier `sign` follows: '-' takes all white space before it; lstrip_blocks takes spaces that are alone
 * on the tag's line. */
static size_t trimmed(const struct lexer *x, size_t begin, size_t end, char sign, bool block)
{
    size_t at = end;

    if (sign == '-') {
        for (size_t c; at > begin && (c = last_space(x, begin, at)) < at;) at = c;
        return at;
    }
    if (sign == '+' || !block) return end;
    while (at > begin && x->s[at - 1] != '\n') {
        size_t c = last_space(x, begin, at);
        if (c == at) break;
        at = c;
    }
    bool alone = at > begin ? x->s[at - 1] == '\n' : x->line_start;
    return alone ? at : end;
}

/* If a tag of the given closing (2 bytes, with an optional sign before) ends at `at`: where the source goes on; else 0. */
static size_t closing(const struct lexer *x, size_t at, const char *close, bool block)
{
    if (starts(x, at, close)) {
        at += 2;
        return block && at < x->len && x->s[at] == '\n' ? at + 1 : at;
    }
    if (x->s[at] == '-' && starts(x, at + 1, close)) return skip_space(x, at + 3);
    if (x->s[at] == '+' && block && starts(x, at + 1, close)) return at + 3;
    return 0;
}

static void passed(struct lexer *x, size_t end)
{
    go(x, end);
    x->line_start = end > 0 && x->s[end - 1] == '\n';
}

/* ---- inside of tags ---- */

static enum pawl_status lex_string(struct lexer *x, size_t end)
{
    struct buf b = {0};

    for (size_t i = x->at + 1; i < end;) {
        if (x->s[i] != '\\') {
            buf_addc(&b, x->s[i++]);
            continue;
        }
        static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
        char c = x->s[i + 1];
        const char *e = strchr(from, c);
        int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        if (c == '\n') { /* a line that goes on */
            i += 2;
        } else if (e != NULL && c != 0) {
            buf_addc(&b, to[e - from]);
            i += 2;
        } else if (digits > 0 || (c >= '0' && c <= '7')) {
            uint32_t cp = 0;
            char utf8[4];
            size_t k = digits > 0 ? i + 2 : i + 1, stop = digits > 0 ? k + (size_t)digits : k + 3;
            for (; k < stop && k < end && (digits > 0 ? isxdigit((unsigned char)x->s[k]) : x->s[k] >= '0' && x->s[k] <= '7'); k++) {
                char d = x->s[k] | 0x20;
                cp = cp * (digits > 0 ? 16 : 8) + (uint32_t)(d >= 'a' ? d - 'a' + 10 : d - '0');
            }
            if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF) || (digits > 0 && k < stop)) {
                buf_free(&b);
                return fail(x, "an escape in this string is no character");
            }
            buf_add(&b, utf8, (size_t)utf8_encode(cp, utf8));
            i = k;
        } else {
            buf_addc(&b, '\\');
            i++;
        }
    }
    add(x, JT_STRING, pool_strndup(x->pool, b.data ? b.data : "", b.len), b.len);
    buf_free(&b);
    return PAWL_OK;
}

static size_t digits_end(const struct lexer *x, size_t at, int (*is)(int))
{
    while (at < x->len && (is((unsigned char)x->s[at]) || (x->s[at] == '_' && at + 1 < x->len && is((unsigned char)x->s[at + 1])))) at++;
    return at;
}

static void lex_number(struct lexer *x)
{
    size_t begin = x->at, end;
    enum jt_kind kind = JT_INT;
    char text[64];
    size_t n = 0;

    if (x->s[begin] == '0' && begin + 1 < x->len && strchr("xXbBoO", x->s[begin + 1]) != NULL) {
        end = digits_end(x, begin + 2, isxdigit);
    } else {
        bool attribute = x->n > 0 && x->out[x->n - 1].kind == JT_OP && x->out[x->n - 1].text[0] == '.'; /* a.0.b holds no float */
        end = digits_end(x, begin, isdigit);
        if (!attribute && end + 1 < x->len && x->s[end] == '.' && isdigit((unsigned char)x->s[end + 1])) {
            kind = JT_FLOAT;
            end = digits_end(x, end + 1, isdigit);
        }
        if (!attribute && end + 1 < x->len && (x->s[end] | 0x20) == 'e') {
            size_t e = end + 1 + (x->s[end + 1] == '+' || x->s[end + 1] == '-');
            if (e < x->len && isdigit((unsigned char)x->s[e])) {
                kind = JT_FLOAT;
                end = digits_end(x, e, isdigit);
            }
        }
    }
    for (size_t i = begin; i < end && n + 1 < sizeof text; i++)
        if (x->s[i] != '_') text[n++] = x->s[i];
    add(x, kind, pool_strndup(x->pool, text, n), n);
    go(x, end);
}

static size_t name_end(const struct lexer *x, size_t at)
{
    while (at < x->len) {
        int n;
        if (!(unicode_class_at(x->s, x->len, at, &n) & UC_WORD)) break;
        at += (size_t)n;
    }
    return at;
}

/* Words until the closing of the tag. */
static enum pawl_status lex_inside(struct lexer *x, const char *close, bool block)
{
    static const char *const ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"};
    char open[JINJA_MAX_NESTING];
    size_t depth = 0;
    uint32_t first = x->line;

    for (;;) {
        go(x, skip_space(x, x->at));
        if (x->at >= x->len) {
            x->line = first;
            return fail(x, block ? "this {% has no %}" : "this {{ has no }}");
        }
        size_t end = depth == 0 ? closing(x, x->at, close, block) : 0;
        if (end > 0) {
            add(x, block ? JT_BLOCK_END : JT_OUTPUT_END, close, 2);
            passed(x, end);
            return PAWL_OK;
        }
        char c = x->s[x->at];
        if (c == '\'' || c == '"') {
            size_t i = x->at + 1;
            while (i < x->len && x->s[i] != c) i += x->s[i] == '\\' ? 2 : 1;
            if (i >= x->len) return fail(x, "this string has no end");
            enum pawl_status st = lex_string(x, i);
            if (st != PAWL_OK) return st;
            go(x, i + 1);
            continue;
        }
        if (isdigit((unsigned char)c)) {
            lex_number(x);
            continue;
        }
        end = name_end(x, x->at);
        if (end > x->at) {
            add(x, JT_NAME, x->s + x->at, end - x->at);
            go(x, end);
            continue;
        }
        size_t k = 0;
        while (k < sizeof ops / sizeof *ops && !starts(x, x->at, ops[k])) k++;
        if (k == sizeof ops / sizeof *ops) return fail(x, "a character that is no part of the language");
        if (strchr("([{", ops[k][0]) != NULL) {
            if (depth == sizeof open) return fail(x, "brackets are nested too deeply");
            open[depth++] = ops[k][0] == '(' ? ')' : ops[k][0] == '[' ? ']' : '}';
        } else if (strchr(")]}", ops[k][0]) != NULL) {
            if (depth == 0 || open[depth - 1] != ops[k][0]) return fail(x, "a closing bracket that nothing opened");
            depth--;
        }
        add(x, JT_OP, ops[k], strlen(ops[k]));
        go(x, x->at + strlen(ops[k]));
    }
}

/* ---- tags ---- */

/* {% raw %} at `at`: where its text begins; 0: another tag. */
static size_t raw_begin(const struct lexer *x, size_t at)
{
    at += 2;
    if (at < x->len && (x->s[at] == '-' || x->s[at] == '+')) at++;
    at = skip_space(x, at);
    if (!starts(x, at, "raw") || name_end(x, at) != at + 3) return 0;
    at = skip_space(x, at + 3);
    if (starts(x, at, "%}")) return at + 2;
    return starts(x, at, "-%}") ? skip_space(x, at + 3) : 0;
}

static enum pawl_status lex_raw(struct lexer *x, size_t begin)
{
    for (size_t at = begin; at + 2 <= x->len; at++) {
        if (!starts(x, at, "{%")) continue;
        char sign = at + 2 < x->len ? x->s[at + 2] : 0;
        size_t i = at + 2 + (sign == '-' || sign == '+');
        i = skip_space(x, i);
        if (!starts(x, i, "endraw")) continue;
        i = skip_space(x, i + 6);
        size_t end = i < x->len ? closing(x, i, "%}", true) : 0;
        if (end == 0) continue;
        go(x, begin);
        x->line_start = false;
        size_t stop = trimmed(x, begin, at, sign, true);
        if (stop > begin) add(x, JT_TEXT, x->s + begin, stop - begin);
        passed(x, end);
        return PAWL_OK;
    }
    return fail(x, "this {% raw %} has no {% endraw %}");
}

static enum pawl_status lex_comment(struct lexer *x)
{
    for (size_t i = x->at + 2; i < x->len; i++) {
        size_t end = closing(x, i, "#}", true);
        if (end == 0) continue;
        passed(x, end);
        return PAWL_OK;
    }
    return fail(x, "this {# has no #}");
}

static enum pawl_status lex_all(struct lexer *x)
{
    while (x->at < x->len) {
        size_t tag = x->at;
        while (tag < x->len && !(x->s[tag] == '{' && tag + 1 < x->len && strchr("{%#", x->s[tag + 1]) != NULL && x->s[tag + 1] != 0)) tag++;
        if (tag == x->len) {
            add(x, JT_TEXT, x->s + x->at, tag - x->at);
            go(x, tag);
            break;
        }
        char kind = x->s[tag + 1], sign = tag + 2 < x->len ? x->s[tag + 2] : 0;
        if (sign != '-' && sign != '+') sign = 0;
        size_t stop = trimmed(x, x->at, tag, sign, kind != '{');
        if (stop > x->at) add(x, JT_TEXT, x->s + x->at, stop - x->at);
        go(x, tag);

        enum pawl_status st;
        size_t raw = kind == '%' ? raw_begin(x, tag) : 0;
        if (raw > 0) {
            st = lex_raw(x, raw);
        } else if (kind == '#') {
            st = lex_comment(x);
        } else {
            add(x, kind == '%' ? JT_BLOCK_BEGIN : JT_OUTPUT_BEGIN, "", 0);
            go(x, tag + 2 + (sign != 0));
            st = lex_inside(x, kind == '%' ? "%}" : "}}", kind == '%');
        }
        if (st != PAWL_OK) return st;
    }
    add(x, JT_EOF, "", 0);
    return PAWL_OK;
}

enum pawl_status jinja_lex(struct pool *pool, const char *name, const char *source, size_t len, struct jt **out, size_t *n, struct err *err)
{
    /* Line ends become \n, and one at the very end goes. */
    char *s = pool_alloc(pool, len + 1);
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n') continue;
        s[used++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (used > 0 && s[used - 1] == '\n') used--;
    s[used] = 0;

    struct lexer x = {.name = name, .s = s, .len = used, .line = 1, .pool = pool, .line_start = true, .err = err};
    size_t good = utf8_valid(s, used);
    if (good < used) return err_set(err, PAWL_EFORMAT, "%s: not UTF-8 at byte %zu", name, good);
    enum pawl_status st = lex_all(&x);
    if (st == PAWL_OK) {
        *out = pool_alloc(pool, x.n * sizeof **out);
        memcpy(*out, x.out, x.n * sizeof **out);
        *n = x.n;
    }
    free(x.out);
    return st;
}
