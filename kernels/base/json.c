#include "kernels/base/json.h"

#include "kernels/base/pool.h"
#include "kernels/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct json {
    struct json_value root;
    char *text;       /* every string and number, NUL-terminated, in the order of the file */
    struct pool pool; /* items and keys */
};

/* Members of the containers that are still open wait on a stack and are copied to the pool when their container closes.
 * A string or number never needs more room unescaped and terminated than it had with its quotes or its delimiter, so `out` never grows. */
struct parser {
    const char *start, *p, *end;
    char *out;
    struct json *json;
    struct json_value *stack; /* objects: key, value, key, value ... */
    size_t depth, count, cap;
    struct err *err;
};

static enum pawl_status fail(struct parser *s, const char *at, const char *what)
{
    size_t line = 1, column = 1;

    for (const char *c = s->start; c < at; c++) {
        column++;
        if (*c == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(s->err, PAWL_EFORMAT, "JSON, line %zu column %zu (byte %zu): %s", line, column, (size_t)(at - s->start), what);
}

static void skip_space(struct parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')) s->p++;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;

    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i], d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* s->p stands behind "\u". */
static enum pawl_status parse_unicode_escape(struct parser *s)
{
    const char *at = s->p - 2;
    int hi = hex4(s->p, s->end);

    if (hi < 0) return fail(s, at, "\\u needs four hexadecimal digits");
    s->p += 4;
    uint32_t cp = (uint32_t)hi;
    if (cp >= 0xD800 && cp <= 0xDFFF) {
        int lo = s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u' ? hex4(s->p + 2, s->end) : -1;
        if (cp > 0xDBFF || lo < 0xDC00 || lo > 0xDFFF) return fail(s, at, "half of a surrogate pair: no character can be read from it");
        cp = 0x10000 + ((cp - 0xD800) << 10) + ((uint32_t)lo - 0xDC00);
        s->p += 6;
    }
    s->out += utf8_encode(cp, s->out);
    return PAWL_OK;
}

static enum pawl_status parse_string(struct parser *s, struct json_value *v)
{
    const char *open = s->p++;

    *v = (struct json_value){.type = JSON_STRING, .text = s->out};
    for (;;) {
        const char *run = s->p;
        uint32_t cp;
        int n;

        while (s->p < s->end && *s->p != '"' && *s->p != '\\' && (unsigned char)*s->p >= 0x20) {
            if ((unsigned char)*s->p < 0x80) s->p++;
            else if ((n = utf8_decode(s->p, (size_t)(s->end - s->p), &cp)) > 0) s->p += n;
            else return fail(s, s->p, "not UTF-8 inside a string");
        }
        memcpy(s->out, run, (size_t)(s->p - run));
        s->out += s->p - run;
        if (s->p == s->end) return fail(s, open, "this string has no closing quote");
        if (*s->p == '"') break;
        if (*s->p != '\\') return fail(s, s->p, "a control character inside a string must be escaped");

        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *e = s->p + 1 < s->end && s->p[1] != 0 ? strchr(from, s->p[1]) : NULL;
        if (e != NULL) {
            *s->out++ = to[e - from];
            s->p += 2;
        } else if (s->p + 1 < s->end && s->p[1] == 'u') {
            s->p += 2;
            enum pawl_status st = parse_unicode_escape(s);
            if (st != PAWL_OK) return st;
        } else {
            return fail(s, s->p, "unknown escape; known are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
        }
    }
    s->p++;
    v->len = (size_t)(s->out - v->text);
    *s->out++ = 0;
    return PAWL_OK;
}

static bool skip_digits(struct parser *s)
{
    const char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9') s->p++;
    return s->p > from;
}

static enum pawl_status parse_number(struct parser *s, struct json_value *v)
{
    const char *from = s->p;

    *v = (struct json_value){.type = JSON_INT, .text = s->out};
    if (*s->p == '-') s->p++;
    const char *digits = s->p;
    if (!skip_digits(s)) return fail(s, from, "expected a value");
    if (*digits == '0' && s->p - digits > 1) return fail(s, from, "a number may not begin with 0");
    if (s->p < s->end && *s->p == '.') {
        v->type = JSON_FLOAT;
        s->p++;
        if (!skip_digits(s)) return fail(s, from, "digits are missing behind the decimal point");
    }
    if (s->p < s->end && (*s->p | 32) == 'e') {
        v->type = JSON_FLOAT;
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!skip_digits(s)) return fail(s, from, "digits are missing in the exponent");
    }
    v->len = (size_t)(s->p - from);
    memcpy(s->out, from, v->len);
    s->out[v->len] = 0;
    s->out += v->len + 1;
    v->number = strtod(v->text, NULL);
    return PAWL_OK;
}

static bool parse_word(struct parser *s, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return false;
    s->p += n;
    return true;
}

static struct json_value *push(struct parser *s)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->stack = xreallocarray(s->stack, s->cap, sizeof *s->stack);
    }
    return &s->stack[s->count++];
}

static uint32_t hash_key(const struct json_value *k)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < k->len; i++) h = (h ^ (unsigned char)k->text[i]) * 16777619u;
    return h ^ h >> 15;
}

/* Copies n pairs to the pool; of a key that stands twice the first place and the last value stay. */
static void close_object(struct parser *s, const struct json_value *pairs, size_t n, struct json_value *v)
{
    struct json_value *keys = pool_alloc(&s->json->pool, n * sizeof *keys);
    struct json_value *items = pool_alloc(&s->json->pool, n * sizeof *items);
    size_t slots = 16, used = 0;

    while (slots < 2 * n) slots *= 2;
    uint32_t small[64], *table = slots <= 64 ? small : xmalloc(slots * sizeof *table); /* index into keys + 1 */
    memset(table, 0, slots * sizeof *table);
    for (size_t i = 0; i < n; i++) {
        const struct json_value *k = &pairs[2 * i];
        size_t h = hash_key(k) & (slots - 1);
        while (table[h] != 0) {
            const struct json_value *old = &keys[table[h] - 1];
            if (old->len == k->len && memcmp(old->text, k->text, k->len) == 0) break;
            h = (h + 1) & (slots - 1);
        }
        if (table[h] == 0) {
            keys[used] = *k;
            table[h] = (uint32_t)++used;
        }
        items[table[h] - 1] = pairs[2 * i + 1];
    }
    if (table != small) free(table);
    *v = (struct json_value){.type = JSON_OBJECT, .len = used, .items = items, .keys = keys};
}

static enum pawl_status parse_value(struct parser *s, struct json_value *v);

/* An array or an object; s->p stands on its bracket. */
static enum pawl_status parse_container(struct parser *s, struct json_value *v)
{
    bool object = *s->p == '{';
    char close = object ? '}' : ']';
    const char *open = s->p;
    size_t base = s->count;
    enum pawl_status st;
    struct json_value one;

    if (++s->depth > JSON_MAX_DEPTH) return fail(s, open, "nested too deeply, the limit is 512");
    s->p++;
    skip_space(s);
    if (s->p < s->end && *s->p == close) s->p++;
    else
        for (;;) {
            if (object) {
                skip_space(s);
                if (s->p == s->end || *s->p != '"') return fail(s, s->p, "expected a key in double quotes");
                if ((st = parse_string(s, &one)) != PAWL_OK) return st;
                *push(s) = one;
                skip_space(s);
                if (s->p == s->end || *s->p != ':') return fail(s, s->p, "expected a colon behind the key");
                s->p++;
            }
            if ((st = parse_value(s, &one)) != PAWL_OK) return st;
            *push(s) = one;
            skip_space(s);
            if (s->p == s->end) return fail(s, open, object ? "this object is not closed" : "this array is not closed");
            if (*s->p == close) {
                s->p++;
                break;
            }
            if (*s->p != ',') return fail(s, s->p, object ? "expected a comma or } behind the value" : "expected a comma or ] behind the value");
            s->p++;
        }
    s->depth--;

    size_t n = s->count - base;
    const struct json_value *members = n > 0 ? s->stack + base : NULL;
    if (object) {
        close_object(s, members, n / 2, v);
    } else {
        struct json_value *items = pool_alloc(&s->json->pool, n * sizeof *items);
        if (n > 0) memcpy(items, members, n * sizeof *items);
        *v = (struct json_value){.type = JSON_ARRAY, .len = n, .items = items};
    }
    s->count = base;
    return PAWL_OK;
}

static enum pawl_status parse_value(struct parser *s, struct json_value *v)
{
    skip_space(s);
    if (s->p == s->end) return fail(s, s->p, "the text ends where a value is expected");
    switch (*s->p) {
    case '{':
    case '[':
        return parse_container(s, v);
    case '"':
        return parse_string(s, v);
    default:
        if (parse_word(s, "null")) *v = (struct json_value){.type = JSON_NULL};
        else if (parse_word(s, "true")) *v = (struct json_value){.type = JSON_BOOL, .boolean = true};
        else if (parse_word(s, "false")) *v = (struct json_value){.type = JSON_BOOL};
        else return parse_number(s, v);
        return PAWL_OK;
    }
}

enum pawl_status json_parse(struct json **out, const char *text, size_t len, struct err *err)
{
    struct json *j = xcalloc(1, sizeof *j);
    struct parser s = {.start = text, .p = text, .end = text + len, .json = j, .err = err};

    s.out = j->text = xmalloc(len + 2);
    enum pawl_status st = parse_value(&s, &j->root);
    if (st == PAWL_OK) {
        skip_space(&s);
        if (s.p != s.end) st = fail(&s, s.p, "more text behind the value");
    }
    free(s.stack);
    if (st == PAWL_OK) *out = j;
    else json_free(j);
    return st;
}

enum pawl_status json_parse_file(struct json **out, const char *path, struct err *err)
{
    enum pawl_status st;
    struct buf text = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) return err_sys(err, "%s: cannot be opened", path);
    for (;;) {
        char chunk[65536];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            st = err_sys(err, "%s: cannot be read", path);
            goto done;
        }
        if (n == 0) break;
        buf_add(&text, chunk, (size_t)n);
    }
    st = json_parse(out, text.len ? text.data : "", text.len, err);
    if (st != PAWL_OK && err != NULL) err_prefix(err, "%s", path);
done:
    buf_free(&text);
    close(fd);
    return st;
}

const struct json_value *json_root(const struct json *j)
{
    return &j->root;
}

void json_free(struct json *j)
{
    if (j == NULL) return;
    pool_free(&j->pool);
    free(j->text);
    free(j);
}

const struct json_value *json_get(const struct json_value *v, const char *key)
{
    size_t n = strlen(key);

    if (v == NULL || v->type != JSON_OBJECT) return NULL;
    for (size_t i = 0; i < v->len; i++)
        if (v->keys[i].len == n && memcmp(v->keys[i].text, key, n) == 0) return &v->items[i];
    return NULL;
}

const struct json_value *json_at(const struct json_value *v, size_t i)
{
    return v != NULL && v->type == JSON_ARRAY && i < v->len ? &v->items[i] : NULL;
}

const char *json_string(const struct json_value *v, const char *fallback)
{
    return v != NULL && v->type == JSON_STRING ? v->text : fallback;
}

double json_number(const struct json_value *v, double fallback)
{
    return v != NULL && (v->type == JSON_INT || v->type == JSON_FLOAT) ? v->number : fallback;
}

bool json_bool(const struct json_value *v, bool fallback)
{
    return v != NULL && v->type == JSON_BOOL ? v->boolean : fallback;
}

const char *json_kind(const struct json_value *v)
{
    static const char *const kinds[] = {"null", "a boolean", "a number", "a number", "a string", "an array", "an object"};

    return v ? kinds[v->type] : "nothing";
}

bool json_int64(const struct json_value *v, int64_t *out)
{
    if (v == NULL || v->type != JSON_INT) return false;
    errno = 0;
    long long x = strtoll(v->text, NULL, 10);
    if (errno != 0) return false;
    *out = x;
    return true;
}

void json_add_string(struct buf *b, const char *s, size_t len)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t run = 0;

    buf_addc(b, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        buf_add(b, s + run, i - run);
        run = i + 1;
        const char *e = c != 0 ? strchr(from, c) : NULL;
        if (e != NULL) buf_addf(b, "\\%c", to[e - from]);
        else buf_addf(b, "\\u%04x", c);
    }
    buf_add(b, s + run, len - run);
    buf_addc(b, '"');
}

void json_add_double(struct buf *b, double x)
{
    char text[40];

    if (!isfinite(x)) {
        buf_adds(b, "null");
        return;
    }
    /* %g drops trailing zeros, so nothing below 15 digits could be shorter. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    buf_adds(b, text);
}

void json_add_value(struct buf *b, const struct json_value *v)
{
    switch (v->type) {
    case JSON_NULL: buf_adds(b, "null"); break;
    case JSON_BOOL: buf_adds(b, v->boolean ? "true" : "false"); break;
    case JSON_INT:
    case JSON_FLOAT: buf_add(b, v->text, v->len); break;
    case JSON_STRING: json_add_string(b, v->text, v->len); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        buf_addc(b, v->type == JSON_ARRAY ? '[' : '{');
        for (size_t i = 0; i < v->len; i++) {
            if (i > 0) buf_addc(b, ',');
            if (v->type == JSON_OBJECT) {
                json_add_string(b, v->keys[i].text, v->keys[i].len);
                buf_addc(b, ':');
            }
            json_add_value(b, &v->items[i]);
        }
        buf_addc(b, v->type == JSON_ARRAY ? ']' : '}');
        break;
    }
}
