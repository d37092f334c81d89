#include "train/text/jinja_value.h"

#include "kernels/base/utf8.h"
#include "train/text/unicode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct jv jv_copy_string(struct pool *pool, const char *s, size_t len)
{
    return jv_string(pool_strndup(pool, s, len), len);
}

struct jv jv_new_list(struct pool *pool, enum jv_sequence kind, uint32_t room)
{
    struct jv_list *l = pool_alloc(pool, sizeof *l);

    *l = (struct jv_list){.items = pool_alloc(pool, room * sizeof *l->items), .cap = room, .depth = 1};
    return (struct jv){.type = JV_LIST, .kind = (uint8_t)kind, .list = l};
}

struct jv jv_new_dict(struct pool *pool, uint32_t room)
{
    struct jv_dict *d = pool_alloc(pool, sizeof *d);

    *d = (struct jv_dict){.keys = pool_alloc(pool, room * sizeof *d->keys), .values = pool_alloc(pool, room * sizeof *d->values), .cap = room, .depth = 1};
    return (struct jv){.type = JV_DICT, .dict = d};
}

static void deepen(uint32_t *depth, struct jv child)
{
    if (jv_depth(child) >= *depth) *depth = jv_depth(child) + 1;
}

static struct jv *grown(struct pool *pool, struct jv *items, uint32_t n, uint32_t cap)
{
    struct jv *more = pool_alloc(pool, cap * sizeof *more);

    if (n > 0) memcpy(more, items, n * sizeof *more);
    return more;
}

void jv_push(struct pool *pool, struct jv list, struct jv item)
{
    struct jv_list *l = list.list;

    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 8;
        l->items = grown(pool, l->items, l->n, l->cap);
    }
    l->items[l->n++] = item;
    deepen(&l->depth, item);
}

static int64_t find_key(const struct jv_dict *d, struct jv key)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (jv_equal(d->keys[i], key)) return i;
    return -1;
}

void jv_put(struct pool *pool, struct jv dict, struct jv key, struct jv value)
{
    struct jv_dict *d = dict.dict;
    int64_t i = find_key(d, key);

    deepen(&d->depth, value);
    deepen(&d->depth, key);
    if (i >= 0) {
        d->values[i] = value;
        return;
    }
    if (d->n == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 8;
        d->keys = grown(pool, d->keys, d->n, d->cap);
        d->values = grown(pool, d->values, d->n, d->cap);
    }
    d->keys[d->n] = key;
    d->values[d->n++] = value;
}

bool jv_get(const struct jv_dict *d, struct jv key, struct jv *out)
{
    int64_t i = find_key(d, key);

    if (i >= 0) *out = d->values[i];
    return i >= 0;
}

bool jv_get_name(const struct jv_dict *d, const char *name, struct jv *out)
{
    return jv_get(d, jv_string(name, strlen(name)), out);
}

struct jv jv_from_json(struct pool *pool, const struct json_value *v)
{
    if (v == NULL) return jv_none();
    switch (v->type) {
    case JSON_NULL: return jv_none();
    case JSON_BOOL: return jv_bool(v->boolean);
    case JSON_FLOAT: return jv_float(v->number);
    case JSON_STRING: return jv_string(v->text, v->len);
    case JSON_INT: {
        int64_t x;
        return json_int64(v, &x) ? jv_int(x) : (struct jv){.type = JV_BIGINT, .len = (uint32_t)v->len, .s = v->text};
    }
    case JSON_ARRAY: {
        struct jv l = jv_new_list(pool, JV_A_LIST, (uint32_t)v->len);
        for (size_t i = 0; i < v->len; i++) jv_push(pool, l, jv_from_json(pool, &v->items[i]));
        return l;
    }
    case JSON_OBJECT: {
        struct jv d = jv_new_dict(pool, (uint32_t)v->len);
        for (size_t i = 0; i < v->len; i++) { /* keys are unique already */
            d.dict->keys[i] = jv_string(v->keys[i].text, v->keys[i].len);
            d.dict->values[i] = jv_from_json(pool, &v->items[i]);
            deepen(&d.dict->depth, d.dict->values[i]);
        }
        d.dict->n = (uint32_t)v->len;
        return d;
    }
    }
    return jv_none();
}

/* ---- truth, equality, order ---- */

bool jv_is(struct jv v, const char *text)
{
    return v.type == JV_STRING && v.len == strlen(text) && memcmp(v.s, text, v.len) == 0;
}

bool jv_truth(struct jv v)
{
    switch (v.type) {
    case JV_UNDEFINED:
    case JV_NONE: return false;
    case JV_BOOL: return v.b;
    case JV_INT: return v.i != 0;
    case JV_FLOAT: return v.f != 0;
    case JV_STRING: return v.len > 0;
    case JV_LIST: return v.kind == JV_A_GENERATOR || v.list->n > 0;
    case JV_DICT: return v.dict->n > 0;
    default: return true;
    }
}

bool jv_number(struct jv v)
{
    return v.type == JV_BOOL || v.type == JV_INT || v.type == JV_FLOAT;
}

double jv_to_double(struct jv v)
{
    return v.type == JV_FLOAT ? v.f : v.type == JV_BOOL ? (double)v.b : (double)v.i;
}

static int64_t integer(struct jv v)
{
    return v.type == JV_BOOL ? v.b : v.i;
}

static bool same_text(struct jv a, struct jv b)
{
    return a.len == b.len && memcmp(a.s, b.s, a.len) == 0;
}

bool jv_equal(struct jv a, struct jv b)
{
    if (jv_number(a) && jv_number(b)) {
        if (a.type == JV_FLOAT || b.type == JV_FLOAT) return jv_to_double(a) == jv_to_double(b);
        return integer(a) == integer(b);
    }
    if (a.type != b.type) return false;
    switch (a.type) {
    case JV_UNDEFINED:
    case JV_NONE: return true;
    case JV_STRING:
    case JV_BIGINT: return same_text(a, b);
    case JV_LIST:
        if (a.kind != b.kind || a.list->n != b.list->n) return false;
        for (uint32_t i = 0; i < a.list->n; i++)
            if (!jv_equal(a.list->items[i], b.list->items[i])) return false;
        return true;
    case JV_DICT:
        if (a.dict->n != b.dict->n) return false;
        for (uint32_t i = 0; i < a.dict->n; i++) {
            struct jv other;
            if (!jv_get(b.dict, a.dict->keys[i], &other) || !jv_equal(a.dict->values[i], other)) return false;
        }
        return true;
    default: return a.s == b.s; /* the same object */
    }
}

bool jv_compare(struct jv a, struct jv b, int *order)
{
    if (jv_number(a) && jv_number(b)) {
        if (a.type == JV_FLOAT || b.type == JV_FLOAT) {
            double x = jv_to_double(a), y = jv_to_double(b);
            *order = (x > y) - (x < y);
        } else {
            *order = (integer(a) > integer(b)) - (integer(a) < integer(b));
        }
        return true;
    }
    if (a.type != b.type) return false;
    if (a.type == JV_STRING) { /* UTF-8 sorts like code points */
        uint32_t n = a.len < b.len ? a.len : b.len;
        int c = n > 0 ? memcmp(a.s, b.s, n) : 0;
        *order = c != 0 ? (c > 0) - (c < 0) : (a.len > b.len) - (a.len < b.len);
        return true;
    }
    if (a.type == JV_LIST && a.kind == b.kind && a.kind <= JV_A_TUPLE) {
        for (uint32_t i = 0; i < a.list->n && i < b.list->n; i++) {
            if (jv_equal(a.list->items[i], b.list->items[i])) continue;
            return jv_compare(a.list->items[i], b.list->items[i], order);
        }
        *order = (a.list->n > b.list->n) - (a.list->n < b.list->n);
        return true;
    }
    return false;
}

const char *jv_type_name(struct jv v)
{
    static const char *const names[] = {
        [JV_UNDEFINED] = "Undefined", [JV_NONE] = "NoneType", [JV_BOOL] = "bool", [JV_INT] = "int", [JV_BIGINT] = "int", [JV_FLOAT] = "float",
        [JV_STRING] = "str", [JV_LIST] = "list", [JV_DICT] = "dict", [JV_NAMESPACE] = "Namespace", [JV_MACRO] = "Macro", [JV_FUNCTION] = "function",
        [JV_METHOD] = "method", [JV_LOOP] = "LoopContext", [JV_CYCLER] = "Cycler", [JV_JOINER] = "Joiner",
    };
    static const char *const sequences[] = {"list", "tuple", "range", "generator", "dict_items", "dict_keys", "dict_values"};

    return v.type == JV_LIST ? sequences[v.kind] : names[v.type];
}

/* ---- strings ---- */

size_t jv_length(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

size_t jv_offset(const char *s, size_t len, size_t index)
{
    size_t i = 0;

    while (i < len && index > 0) {
        do i++;
        while (i < len && ((unsigned char)s[i] & 0xC0) == 0x80);
        index--;
    }
    return i;
}

bool jv_space(uint32_t cp)
{
    return (cp >= 0x1C && cp <= 0x1F) || (unicode_class_of(cp) & UC_SPACE) != 0;
}

bool jv_printable(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return cp == ' ';
    default: return true;
    }
}

static void add_string_repr(struct buf *out, const char *s, size_t len)
{
    char quote = memchr(s, '\'', len) != NULL && memchr(s, '"', len) == NULL ? '"' : '\'';

    buf_addc(out, quote);
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        int n = utf8_decode(s + i, len - i, &cp);
        if (n == 0) n = 1;
        if (cp == (uint32_t)quote || cp == '\\') buf_addf(out, "\\%c", (char)cp);
        else if (cp == '\n') buf_adds(out, "\\n");
        else if (cp == '\r') buf_adds(out, "\\r");
        else if (cp == '\t') buf_adds(out, "\\t");
        else if (jv_printable(cp)) buf_add(out, s + i, (size_t)n);
        else if (cp < 0x100) buf_addf(out, "\\x%02x", cp);
        else if (cp < 0x10000) buf_addf(out, "\\u%04x", cp);
        else buf_addf(out, "\\U%08x", cp);
        i += (size_t)n;
    }
    buf_addc(out, quote);
}

/* The shortest digits that read back, laid out as Python does: an exponent below 1e-4 and from 1e16 on. */
void jv_add_float(struct buf *out, double f)
{
    char text[40];

    if (isnan(f)) {
        buf_adds(out, "nan");
        return;
    }
    if (isinf(f)) {
        buf_adds(out, f < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 0;
    do snprintf(text, sizeof text, "%.*e", digits, f);
    while (strtod(text, NULL) != f && ++digits < 17);

    char *e = strchr(text, 'e');
    int exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16) {
        *e = 0;
        buf_addf(out, "%se%c%02d", text, exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    int decimals = digits - exponent;
    buf_addf(out, "%.*f", decimals > 0 ? decimals : 1, f);
}

static void add_items(struct buf *out, const struct jv_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (i > 0) buf_adds(out, ", ");
        jv_add_repr(out, l->items[i]);
    }
}

/* Start, stop and step are not kept; the stop that is written is the nearest one that makes the same elements. */
static void add_range(struct buf *out, const struct jv_list *l)
{
    int64_t from = l->n > 0 ? l->items[0].i : 0, step = l->n > 1 ? l->items[1].i - from : 1;

    buf_addf(out, "range(%lld, %lld", (long long)from, (long long)(from + (int64_t)l->n * step));
    if (step != 1) buf_addf(out, ", %lld", (long long)step);
    buf_addc(out, ')');
}

static void add_dict_repr(struct buf *out, const struct jv_dict *d)
{
    buf_addc(out, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i > 0) buf_adds(out, ", ");
        jv_add_repr(out, d->keys[i]);
        buf_adds(out, ": ");
        jv_add_repr(out, d->values[i]);
    }
    buf_addc(out, '}');
}

void jv_add_repr(struct buf *out, struct jv v)
{
    static const char *const open[] = {"[", "(", "", "<generator ", "dict_items([", "dict_keys([", "dict_values(["};
    static const char *const close[] = {"]", ")", "", ">", "])", "])", "])"};

    switch (v.type) {
    case JV_UNDEFINED: buf_adds(out, "Undefined"); break;
    case JV_NONE: buf_adds(out, "None"); break;
    case JV_BOOL: buf_adds(out, v.b ? "True" : "False"); break;
    case JV_INT: buf_addf(out, "%lld", (long long)v.i); break;
    case JV_BIGINT: buf_add(out, v.s, v.len); break;
    case JV_FLOAT: jv_add_float(out, v.f); break;
    case JV_STRING: add_string_repr(out, v.s, v.len); break;
    case JV_LIST:
        buf_adds(out, open[v.kind]);
        if (v.kind == JV_A_RANGE) add_range(out, v.list);
        else add_items(out, v.list);
        if (v.kind == JV_A_TUPLE && v.list->n == 1) buf_addc(out, ',');
        buf_adds(out, close[v.kind]);
        break;
    case JV_DICT: add_dict_repr(out, v.dict); break;
    default: buf_addf(out, "<%s>", jv_type_name(v)); break;
    }
}

void jv_add_str(struct buf *out, struct jv v)
{
    if (v.type == JV_STRING) {
        buf_add(out, v.s, v.len);
    } else if (v.type == JV_NAMESPACE) { /* one inside of another value is not walked into: it may hold itself */
        buf_adds(out, "<Namespace ");
        add_dict_repr(out, v.dict);
        buf_addc(out, '>');
    } else if (v.type != JV_UNDEFINED) {
        jv_add_repr(out, v);
    }
}

/* ---- JSON ---- */

static void add_json_string(struct buf *out, const char *s, size_t len, bool ensure_ascii)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";

    buf_addc(out, '"');
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        int n = utf8_decode(s + i, len - i, &cp);
        const char *e;
        if (n == 0) n = 1;
        if (cp != 0 && cp < 0x80 && (e = strchr(from, (int)cp)) != NULL) buf_addf(out, "\\%c", to[e - from]);
        else if (cp < 0x20) buf_addf(out, "\\u%04x", cp);
        else if (!ensure_ascii || cp < 0x7F) buf_add(out, s + i, (size_t)n);
        else if (cp < 0x10000) buf_addf(out, "\\u%04x", cp);
        else buf_addf(out, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10), 0xDC00 + ((cp - 0x10000) & 0x3FF));
        i += (size_t)n;
    }
    buf_addc(out, '"');
}

static void new_line(struct buf *out, const struct jv_dump *how, int depth)
{
    if (how->indent == NULL) return;
    buf_addc(out, '\n');
    for (int i = 0; i < depth; i++) buf_add(out, how->indent, how->indent_len);
}

/* A scalar; false for containers and for what is no JSON. */
static bool add_scalar(struct buf *out, struct jv v, const struct jv_dump *how)
{
    switch (v.type) {
    case JV_NONE: buf_adds(out, "null"); return true;
    case JV_BOOL: buf_adds(out, v.b ? "true" : "false"); return true;
    case JV_INT:
    case JV_BIGINT: jv_add_repr(out, v); return true;
    case JV_FLOAT:
        if (isfinite(v.f)) jv_add_float(out, v.f);
        else buf_adds(out, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
        return true;
    case JV_STRING: add_json_string(out, v.s, v.len, how->ensure_ascii); return true;
    default: return false;
    }
}

static const char *add_key(struct buf *out, struct jv key, const struct jv_dump *how)
{
    if (key.type == JV_STRING) {
        add_json_string(out, key.s, key.len, how->ensure_ascii);
        return NULL;
    }
    if (!jv_number(key) && key.type != JV_NONE && key.type != JV_BIGINT) return jv_type_name(key);
    buf_addc(out, '"');
    add_scalar(out, key, how);
    buf_addc(out, '"');
    return NULL;
}

/* Indices of the keys in the order in which they are written. */
static uint32_t *key_order(const struct jv_dict *d, bool sorted)
{
    uint32_t *order = xreallocarray(NULL, d->n, sizeof *order);

    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t at = i;
        int c = 0;
        for (; sorted && at > 0 && jv_compare(d->keys[order[at - 1]], d->keys[i], &c) && c > 0; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

static const char *add_json(struct buf *out, struct jv v, const struct jv_dump *how, int depth)
{
    const char *bad = NULL;

    if (add_scalar(out, v, how)) return NULL;
    if (v.type == JV_LIST && v.kind <= JV_A_TUPLE) {
        buf_addc(out, '[');
        for (uint32_t i = 0; i < v.list->n && bad == NULL; i++) {
            if (i > 0) buf_add(out, how->item_separator, how->item_len);
            new_line(out, how, depth + 1);
            bad = add_json(out, v.list->items[i], how, depth + 1);
        }
        if (v.list->n > 0) new_line(out, how, depth);
        buf_addc(out, ']');
        return bad;
    }
    if (v.type != JV_DICT) return jv_type_name(v);
    uint32_t *order = key_order(v.dict, how->sort_keys);
    buf_addc(out, '{');
    for (uint32_t i = 0; i < v.dict->n && bad == NULL; i++) {
        if (i > 0) buf_add(out, how->item_separator, how->item_len);
        new_line(out, how, depth + 1);
        bad = add_key(out, v.dict->keys[order[i]], how);
        buf_add(out, how->key_separator, how->key_len);
        if (bad == NULL) bad = add_json(out, v.dict->values[order[i]], how, depth + 1);
    }
    if (v.dict->n > 0) new_line(out, how, depth);
    buf_addc(out, '}');
    free(order);
    return bad;
}

const char *jv_add_json(struct buf *out, struct jv v, const struct jv_dump *how)
{
    struct jv_dump h = *how;

    if (h.item_separator == NULL) {
        h.item_separator = h.indent ? "," : ", ";
        h.item_len = strlen(h.item_separator);
    }
    if (h.key_separator == NULL) {
        h.key_separator = ": ";
        h.key_len = 2;
    }
    return add_json(out, v, &h, 0);
}
