/* {{ value|filter(arguments) }}, but for those that work on text (jinja_filters_text.c) */
#include "train/text/jinja_filters.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct jargs no_arguments = {0};
static struct jv f_float(struct jev *e, struct jv v, const struct jargs *a);

/* ---- getting parts of values: attribute="a.b.0" ---- */

static struct jv part(struct jev *e, struct jv v, struct jv path)
{
    if (path.type == JV_INT) return jitem(e, v, path);
    if (path.type != JV_STRING) jfail(e, "an attribute must be a string or an integer, not %s", jv_type_name(path));
    for (size_t at = 0; at <= path.len;) {
        const char *dot = memchr(path.s + at, '.', path.len - at);
        size_t end = dot ? (size_t)(dot - path.s) : path.len;
        bool digits = end > at && end - at < 10;
        for (size_t i = at; i < end; i++) digits &= path.s[i] >= '0' && path.s[i] <= '9';
        v = jitem(e, v, digits ? jv_int(strtol(path.s + at, NULL, 10)) : jv_string(path.s + at, end - at));
        at = end + 1;
    }
    return v;
}

/* The value that an element is sorted or compared by: its attribute if one is asked for, without case unless that is. */
static struct jv key_of(struct jev *e, struct jv v, struct jv attribute, bool case_sensitive)
{
    if (attribute.type != JV_NONE) v = part(e, v, attribute);
    return v.type == JV_STRING && !case_sensitive ? jfilter(e, "lower", v, &no_arguments) : v;
}

/* ---- JSON ---- */

static struct jv f_tojson(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv indent = jarg(a, 1, "indent", jv_none()), separators = jarg(a, 2, "separators", jv_none());
    struct jv_dump how = {.ensure_ascii = jv_truth(jarg(a, 0, "ensure_ascii", jv_bool(false))), .sort_keys = jv_truth(jarg(a, 3, "sort_keys", jv_bool(false)))};

    if (indent.type != JV_NONE && indent.type != JV_STRING) indent = jbinary(e, JOP_MUL, jv_string(" ", 1), indent);
    if (indent.type == JV_STRING) {
        how.indent = indent.s;
        how.indent_len = indent.len;
    }
    if (separators.type != JV_NONE) {
        struct jv item = jitem(e, separators, jv_int(0)), key = jitem(e, separators, jv_int(1));
        if (item.type != JV_STRING || key.type != JV_STRING) jfail(e, "separators must be two strings");
        how.item_separator = item.s;
        how.item_len = item.len;
        how.key_separator = key.s;
        how.key_len = key.len;
    }
    size_t begin = jtext_begin(e);
    const char *bad = jv_add_json(e->out, v, &how);
    if (bad != NULL) jfail(e, "Object of type %s is not JSON serializable", bad);
    return jtext_end(e, begin);
}

static struct jv f_from_json(struct jev *e, struct jv v, const struct jargs *a)
{
    struct json *j = NULL;
    struct err why = {0};

    v = jstr(e, v);
    if (json_parse(&j, v.s, v.len, &why) != PAWL_OK) jfail(e, "from_json: %.500s", why.text);
    /* The tree is copied as text and read again from memory that lives as long as the rendering: a tree of its own would leak where something fails. */
    struct jv out = jv_from_json(&e->pool, json_root(j));
    struct jv_list *todo = jv_new_list(&e->pool, JV_A_LIST, 8).list;
    struct jv holder = {.type = JV_LIST, .list = todo};
    jv_push(&e->pool, holder, out);
    for (uint32_t i = 0; i < todo->n; i++) { /* strings still point into the tree */
        struct jv c = todo->items[i];
        uint32_t n = c.type == JV_LIST ? c.list->n : c.type == JV_DICT ? c.dict->n : 0;
        for (uint32_t k = 0; k < n; k++) {
            struct jv *slots[2] = {c.type == JV_LIST ? &c.list->items[k] : &c.dict->values[k], c.type == JV_DICT ? &c.dict->keys[k] : NULL};
            for (int s = 0; s < 2; s++) {
                if (slots[s] == NULL) continue;
                if (slots[s]->type == JV_STRING || slots[s]->type == JV_BIGINT) slots[s]->s = pool_strndup(&e->pool, slots[s]->s, slots[s]->len);
                else if (slots[s]->type == JV_LIST || slots[s]->type == JV_DICT) jv_push(&e->pool, holder, *slots[s]);
            }
        }
    }
    if (out.type == JV_STRING || out.type == JV_BIGINT) out.s = pool_strndup(&e->pool, out.s, out.len);
    json_free(j);
    return out;
}

/* ---- numbers ---- */

static struct jv f_abs(struct jev *e, struct jv v, const struct jargs *a)
{
    if (!jv_number(v)) jfail(e, "bad operand type for abs(): '%s'", jv_type_name(v));
    if (v.type == JV_FLOAT) return jv_float(fabs(v.f));
    return jinteger(v) < 0 ? jbinary(e, JOP_SUB, jv_int(0), v) : jv_int(jinteger(v));
}

/* A whole string as a number; false if it is none. */
static bool parse_number(struct jv v, int base, bool whole, double *f, int64_t *i)
{
    char buffer[64], *end;
    size_t n = 0;

    while (v.len > 0 && (unsigned char)v.s[0] <= ' ') v.s++, v.len--;
    while (v.len > 0 && (unsigned char)v.s[v.len - 1] <= ' ') v.len--;
    for (uint32_t k = 0; k < v.len && n + 1 < sizeof buffer; k++)
        if (v.s[k] != '_') buffer[n++] = v.s[k];
    buffer[n] = 0;
    if (n == 0 || n + 1 == sizeof buffer) return false;
    char *digits = buffer + (buffer[0] == '-' || buffer[0] == '+');
    errno = 0;
    if (!whole) {
        *f = strtod(buffer, &end);
        return *end == 0 && strpbrk(digits, "xX") == NULL; /* Python reads no hexadecimal floats */
    }
    static const struct { int base; char letter; } prefixes[] = {{2, 'b'}, {8, 'o'}, {16, 'x'}};
    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
        if (digits[0] != '0' || (digits[1] | 32) != prefixes[k].letter || (base != 0 && base != prefixes[k].base)) continue;
        base = prefixes[k].base;
        memmove(digits, digits + 2, strlen(digits + 2) + 1);
        break;
    }
    if (*digits == '-' || *digits == '+' || *digits == 0) return false;
    *i = strtoll(buffer, &end, base == 0 ? 10 : base);
    return *end == 0 && errno == 0;
}

static struct jv bigint(struct jev *e, const char *s, size_t len)
{
    struct jv v = jv_copy_string(&e->pool, s, len);

    v.type = JV_BIGINT;
    v.kind = 0;
    return v;
}

/* An integer as Python prints it. */
static bool all_digits(struct jv v)
{
    uint32_t from = v.len > 1 && v.s[0] == '-';

    for (uint32_t i = from; i < v.len; i++)
        if (v.s[i] < '0' || v.s[i] > '9') return false;
    return v.len > from && v.s[from] != '0';
}

static struct jv f_int(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv fallback = jarg(a, 0, "default", jv_int(0));
    int base = (int)jarg_int(e, a, 1, "base", 10);
    double f = 0;
    int64_t i = 0;

    if (v.type == JV_INT || v.type == JV_BIGINT) return v;
    if (v.type == JV_BOOL) return jv_int(v.b);
    if (v.type == JV_UNDEFINED) jfail(e, "%.*s", (int)v.len, v.s);
    if (v.type == JV_STRING && (base == 0 || (base >= 2 && base <= 36)) && parse_number(v, base, true, &f, &i)) return jv_int(i);
    if (v.type == JV_STRING && base == 10 && v.len < 400 && all_digits(v)) return bigint(e, v.s, v.len);
    if (v.type == JV_FLOAT) f = v.f;
    else if (v.type != JV_STRING || !parse_number(v, 10, false, &f, &i)) return fallback;
    if (fabs(f) < 9.2e18) return jv_int((int64_t)f);
    if (!isfinite(f)) return fallback;
    char digits[400];
    return bigint(e, digits, (size_t)snprintf(digits, sizeof digits, "%.0f", f));
}

static struct jv f_float(struct jev *e, struct jv v, const struct jargs *a)
{
    double f = 0;
    int64_t i = 0;

    if (v.type == JV_UNDEFINED) jfail(e, "%.*s", (int)v.len, v.s);
    if (jv_number(v)) return jv_float(jv_to_double(v));
    if ((v.type == JV_STRING || v.type == JV_BIGINT) && parse_number(v, 10, false, &f, &i)) return jv_float(f);
    return jarg(a, 0, "default", jv_float(0));
}

static struct jv f_round(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t precision = jarg_int(e, a, 0, "precision", 0);
    struct jv method = jarg(a, 1, "method", jv_string("common", 6));
    char digits[400];

    if (!jv_number(v)) jfail(e, "type %s doesn't define __round__ method", jv_type_name(v));
    if (precision < -300 || precision > 300) jfail(e, "a precision of %lld", (long long)precision);
    double f = jv_to_double(v), scale = pow(10, (double)precision);
    if (jv_is(method, "ceil")) return jv_float((ceil(f * scale) + 0.0) / scale); /* + 0.0: Python's are integers, which have no -0 */
    if (jv_is(method, "floor")) return jv_float((floor(f * scale) + 0.0) / scale);
    if (!jv_is(method, "common")) jfail(e, "method must be common, ceil or floor");
    if (v.type != JV_FLOAT && precision < 0 && precision > -19) { /* an int stays one, halves go to the even ten */
        int64_t ten = 1, i = jinteger(v), r, down;
        for (int64_t k = precision; k < 0; k++) ten *= 10;
        r = i % ten < 0 ? i % ten + ten : i % ten;
        down = i - r;
        return jbinary(e, JOP_ADD, jv_int(down), jv_int(r > ten / 2 || (r == ten / 2 && down / ten % 2 != 0) ? ten : 0));
    }
    if (v.type != JV_FLOAT) return precision < 0 ? jv_int(0) : jv_int(jinteger(v));
    if (precision < 0) return jv_float(rint(f * scale) / scale);
    if (fabs(f) > 1e17) return v;
    snprintf(digits, sizeof digits, "%.*f", (int)precision, f); /* rounds the exact value, halves to even, as Python */
    return jv_float(strtod(digits, NULL));
}

static struct jv f_sum(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv attribute = jarg(a, 0, "attribute", jv_none()), sum = jarg(a, 1, "start", jv_int(0));
    struct jv_list *l = jiterate(e, v);

    for (uint32_t i = 0; i < l->n; i++) sum = jbinary(e, JOP_ADD, sum, attribute.type == JV_NONE ? l->items[i] : part(e, l->items[i], attribute));
    return sum;
}

/* ---- sequences ---- */

static struct jv f_length(struct jev *e, struct jv v, const struct jargs *a)
{
    switch (v.type) {
    case JV_UNDEFINED: return jv_int(0);
    case JV_STRING: jsteps(e, v.len / 16); return jv_int((int64_t)jv_length(v.s, v.len));
    case JV_DICT: return jv_int(v.dict->n);
    case JV_LIST:
        if (v.kind != JV_A_GENERATOR) return jv_int(v.list->n);
        break;
    case JV_LOOP: return jv_int(v.loop->items->n);
    default: break;
    }
    jfail(e, "object of type '%s' has no len()", jv_type_name(v));
}

static struct jv f_first(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv_list *l = jiterate(e, v);

    return l->n > 0 ? l->items[0] : jv_undefined("No first item, sequence was empty.");
}

static struct jv f_last(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv_list *l = jiterate(e, v);

    return l->n > 0 ? l->items[l->n - 1] : jv_undefined("No last item, sequence was empty.");
}

static struct jv copy_of(struct jev *e, const struct jv_list *l, enum jv_sequence kind)
{
    jroom(e, l->n * sizeof(struct jv));
    struct jv out = jv_new_list(&e->pool, kind, l->n);
    for (uint32_t i = 0; i < l->n; i++) jpush(e, out, l->items[i]);
    return out;
}

static struct jv f_list(struct jev *e, struct jv v, const struct jargs *a)
{
    return copy_of(e, jiterate(e, v), JV_A_LIST);
}

static struct jv f_reverse(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv out = copy_of(e, jiterate(e, v), v.type == JV_STRING ? JV_A_LIST : JV_A_GENERATOR);
    struct jv_list *l = out.list;

    for (uint32_t i = 0; i < l->n / 2; i++) {
        struct jv swap = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = swap;
    }
    if (v.type != JV_STRING) return out;
    size_t begin = jtext_begin(e);
    for (uint32_t i = 0; i < l->n; i++) buf_add(e->out, l->items[i].s, l->items[i].len);
    return jtext_end(e, begin);
}

static struct jv f_join(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv between = jstr(e, jarg(a, 0, "d", jv_string("", 0))), attribute = jarg(a, 1, "attribute", jv_none());
    struct jv_list *l = jiterate(e, v);
    struct jv out = jv_string("", 0);

    for (uint32_t i = 0; i < l->n; i++) {
        if (i > 0) out = jconcat(e, out, between);
        out = jconcat(e, out, jstr(e, attribute.type == JV_NONE ? l->items[i] : part(e, l->items[i], attribute)));
        out.kind = 0;
    }
    return out;
}

static struct jv f_items(struct jev *e, struct jv v, const struct jargs *a)
{
    if (v.type == JV_UNDEFINED) return jv_new_list(&e->pool, JV_A_GENERATOR, 0);
    if (v.type != JV_DICT) jfail(e, "Can only get item pairs from a mapping.");
    struct jv out = jmethod_of(v, "items", 5)->call(e, v, &no_arguments);
    out.kind = JV_A_GENERATOR;
    return out;
}

/* Merge sort: stable, and n log n whatever the order. keys[i] is what items[i] is compared by. */
static void sort(struct jev *e, struct jv *items, struct jv *keys, struct jv *room, uint32_t n, bool reverse)
{
    if (n < 2) return;
    uint32_t half = n / 2, i = 0, k = half, out = 0;
    sort(e, items, keys, room, half, reverse);
    sort(e, items + half, keys + half, room, n - half, reverse);
    jsteps(e, n);
    while (i < half || k < n) {
        int order = 0;
        if (i < half && k < n && !jv_compare(keys[i], keys[k], &order))
            jfail(e, "'<' not supported between instances of '%s' and '%s'", jv_type_name(keys[k]), jv_type_name(keys[i]));
        bool left = k == n || (i < half && (reverse ? order >= 0 : order <= 0));
        uint32_t from = left ? i++ : k++;
        room[2 * out] = items[from];
        room[2 * out++ + 1] = keys[from];
    }
    for (i = 0; i < n; i++) {
        items[i] = room[2 * i];
        keys[i] = room[2 * i + 1];
    }
}

static void sort_by(struct jev *e, struct jv list, struct jv keys, bool reverse)
{
    sort(e, list.list->items, keys.list->items, jalloc(e, list.list->n * 2 * sizeof(struct jv) + 1), list.list->n, reverse);
}

static struct jv f_sort(struct jev *e, struct jv v, const struct jargs *a)
{
    bool reverse = jv_truth(jarg(a, 0, "reverse", jv_bool(false))), sensitive = jv_truth(jarg(a, 1, "case_sensitive", jv_bool(false)));
    struct jv attribute = jarg(a, 2, "attribute", jv_none()), out = copy_of(e, jiterate(e, v), JV_A_LIST), keys = jv_new_list(&e->pool, JV_A_LIST, out.list->n);
    bool several = attribute.type == JV_STRING && memchr(attribute.s, ',', attribute.len) != NULL;
    struct jv names = several ? jmethod_of(attribute, "split", 5)->call(e, attribute, &(struct jargs){.at = &(struct jv){.type = JV_STRING, .len = 1, .s = ","}, .n = 1}) : jv_new_list(&e->pool, JV_A_LIST, 1);

    if (!several) jpush(e, names, attribute);
    for (uint32_t i = 0; i < out.list->n; i++) { /* compared as lists: equal parts need no order */
        struct jv key = jv_new_list(&e->pool, JV_A_LIST, names.list->n);
        for (uint32_t k = 0; k < names.list->n; k++) jpush(e, key, key_of(e, out.list->items[i], names.list->items[k], sensitive));
        jpush(e, keys, key);
    }
    sort_by(e, out, keys, reverse);
    return out;
}

static struct jv f_dictsort(struct jev *e, struct jv v, const struct jargs *a)
{
    bool sensitive = jv_truth(jarg(a, 0, "case_sensitive", jv_bool(false))), reverse = jv_truth(jarg(a, 2, "reverse", jv_bool(false)));
    struct jv by = jarg(a, 1, "by", jv_string("key", 3));

    if (v.type != JV_DICT) jfail(e, "'%s' object has no attribute 'items'", jv_type_name(v));
    if (!jv_is(by, "key") && !jv_is(by, "value")) jfail(e, "You can only sort by either \"key\" or \"value\"");
    struct jv out = jmethod_of(v, "items", 5)->call(e, v, &no_arguments), keys = jv_new_list(&e->pool, JV_A_LIST, out.list->n);
    for (uint32_t i = 0; i < out.list->n; i++)
        jpush(e, keys, key_of(e, jv_is(by, "key") ? v.dict->keys[i] : v.dict->values[i], jv_none(), sensitive));
    sort_by(e, out, keys, reverse);
    out.kind = JV_A_LIST;
    return out;
}

static struct jv extreme(struct jev *e, struct jv v, const struct jargs *a, int sign)
{
    bool sensitive = jv_truth(jarg(a, 0, "case_sensitive", jv_bool(false)));
    struct jv attribute = jarg(a, 1, "attribute", jv_none()), best_key = jv_none();
    struct jv_list *l = jiterate(e, v);
    uint32_t best = 0;

    if (l->n == 0) return jv_undefined("No aggregated item, sequence was empty.");
    for (uint32_t i = 0; i < l->n; i++) {
        struct jv key = key_of(e, l->items[i], attribute, sensitive);
        int order = 0;
        if (i > 0 && !jv_compare(key, best_key, &order)) jfail(e, "'<' not supported between instances of '%s' and '%s'", jv_type_name(key), jv_type_name(best_key));
        if (i > 0 && order * sign <= 0) continue;
        best = i;
        best_key = key;
    }
    return l->items[best];
}

static struct jv f_min(struct jev *e, struct jv v, const struct jargs *a) { return extreme(e, v, a, -1); }
static struct jv f_max(struct jev *e, struct jv v, const struct jargs *a) { return extreme(e, v, a, 1); }

static struct jv f_unique(struct jev *e, struct jv v, const struct jargs *a)
{
    bool sensitive = jv_truth(jarg(a, 0, "case_sensitive", jv_bool(false)));
    struct jv attribute = jarg(a, 1, "attribute", jv_none()), out = jv_new_list(&e->pool, JV_A_GENERATOR, 0), seen = jv_new_list(&e->pool, JV_A_LIST, 0);
    struct jv_list *l = jiterate(e, v);

    for (uint32_t i = 0; i < l->n; i++) {
        struct jv key = key_of(e, l->items[i], attribute, sensitive);
        if (key.type == JV_DICT || (key.type == JV_LIST && key.kind == JV_A_LIST)) jfail(e, "unhashable type: '%s'", jv_type_name(key));
        if (jcontains(e, seen, key)) continue;
        jpush(e, seen, key);
        jpush(e, out, l->items[i]);
    }
    return out;
}

static struct jv f_groupby(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv attribute = jarg(a, 0, "attribute", jv_none()), fallback = jarg(a, 1, "default", jv_none());
    bool sensitive = jv_truth(jarg(a, 2, "case_sensitive", jv_bool(false)));
    struct jv items = copy_of(e, jiterate(e, v), JV_A_LIST), keys = jv_new_list(&e->pool, JV_A_LIST, items.list->n), out = jv_new_list(&e->pool, JV_A_LIST, 0);

    for (uint32_t i = 0; i < items.list->n; i++) {
        struct jv key = part(e, items.list->items[i], attribute);
        if (key.type == JV_UNDEFINED && fallback.type != JV_NONE) key = fallback;
        jpush(e, keys, key_of(e, key, jv_none(), sensitive));
    }
    sort_by(e, items, keys, false);
    for (uint32_t i = 0, k; i < items.list->n; i = k) {
        struct jv pair = jv_new_list(&e->pool, JV_A_TUPLE, 2), group = jv_new_list(&e->pool, JV_A_LIST, 0), key = part(e, items.list->items[i], attribute);
        for (k = i; k < items.list->n && jv_equal(keys.list->items[k], keys.list->items[i]); k++) jpush(e, group, items.list->items[k]);
        jpush(e, pair, key.type == JV_UNDEFINED && fallback.type != JV_NONE ? fallback : key);
        jpush(e, pair, group);
        jpush(e, out, pair);
    }
    return out;
}

static struct jv f_batch(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t size = jarg_int(e, a, 0, "linecount", 1);
    struct jv fill = jarg(a, 1, "fill_with", jv_none()), out = jv_new_list(&e->pool, JV_A_GENERATOR, 0);
    struct jv_list *l = jiterate(e, v);

    if (size < 1) jfail(e, "batch: at least 1 item a row");
    for (uint32_t i = 0; i < l->n;) {
        struct jv row = jv_new_list(&e->pool, JV_A_LIST, 0);
        for (int64_t k = 0; k < size && (i < l->n || fill.type != JV_NONE); k++) jpush(e, row, i < l->n ? l->items[i++] : fill);
        jpush(e, out, row);
    }
    return out;
}

/* Columns of as equal a length as can be; the first ones are the longer ones. */
static struct jv f_slice(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t slices = jarg_int(e, a, 0, "slices", 1);
    struct jv fill = jarg(a, 1, "fill_with", jv_none()), out = jv_new_list(&e->pool, JV_A_GENERATOR, 0);
    struct jv_list *l = jiterate(e, v);
    uint32_t at = 0;

    if (slices < 1 || slices > 100000) jfail(e, "slice: 1 to 100000 slices");
    for (int64_t s = 0; s < slices; s++) {
        struct jv row = jv_new_list(&e->pool, JV_A_LIST, 0);
        int64_t n = l->n / slices + (s < l->n % slices);
        for (int64_t k = 0; k < n; k++) jpush(e, row, l->items[at++]);
        if (fill.type != JV_NONE && s >= l->n % slices) jpush(e, row, fill);
        jpush(e, out, row);
    }
    return out;
}

/* ---- other filters and tests over sequences ---- */

/* map, select and reject take None, like anything empty, for no elements. */
static struct jv_list *elements(struct jev *e, struct jv v)
{
    return jiterate(e, jv_truth(v) ? v : jv_undefined(""));
}

/* The arguments from `from` on. */
static struct jargs rest(const struct jargs *a, uint32_t from)
{
    return (struct jargs){.at = a->at ? a->at + (from < a->n ? from : a->n) : NULL, .n = a->n > from ? a->n - from : 0, .named = a->named, .n_named = a->n_named};
}

static struct jv f_map(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv attribute = jarg(a, UINT32_MAX, "attribute", jv_none()), fallback = jarg(a, UINT32_MAX, "default", jv_none());
    struct jv out = jv_new_list(&e->pool, JV_A_GENERATOR, 0);
    struct jv_list *l = elements(e, v);
    struct jargs more = rest(a, 1);
    const char *name = "";

    if (attribute.type == JV_NONE) {
        struct jv filter = jarg_string(e, a, 0, "filter");
        name = pool_strndup(&e->pool, filter.s, filter.len);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        struct jv item = attribute.type == JV_NONE ? jfilter(e, name, l->items[i], &more) : part(e, l->items[i], attribute);
        jpush(e, out, item.type == JV_UNDEFINED && attribute.type != JV_NONE && fallback.type != JV_NONE ? fallback : item);
    }
    return out;
}

static struct jv choose(struct jev *e, struct jv v, const struct jargs *a, bool by_attribute, bool keep)
{
    struct jv out = jv_new_list(&e->pool, JV_A_GENERATOR, 0), attribute = by_attribute ? jarg(a, 0, NULL, jv_undefined("Missing parameter for attribute name")) : jv_none();
    uint32_t first = by_attribute;
    struct jargs more = rest(a, first + 1);
    struct jv_list *l = elements(e, v);
    const char *name = NULL;

    if (attribute.type == JV_UNDEFINED) jfail(e, "Missing parameter for attribute name");
    if (a->n > first) {
        struct jv test = jarg_string(e, a, first, "test");
        name = pool_strndup(&e->pool, test.s, test.len);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        struct jv item = by_attribute ? part(e, l->items[i], attribute) : l->items[i];
        if ((name ? jtest(e, name, item, &more) : jv_truth(item)) == keep) jpush(e, out, l->items[i]);
    }
    return out;
}

static struct jv f_select(struct jev *e, struct jv v, const struct jargs *a) { return choose(e, v, a, false, true); }
static struct jv f_reject(struct jev *e, struct jv v, const struct jargs *a) { return choose(e, v, a, false, false); }
static struct jv f_selectattr(struct jev *e, struct jv v, const struct jargs *a) { return choose(e, v, a, true, true); }
static struct jv f_rejectattr(struct jev *e, struct jv v, const struct jargs *a) { return choose(e, v, a, true, false); }

/* ---- anything ---- */

static struct jv f_default(struct jev *e, struct jv v, const struct jargs *a)
{
    bool boolean = jv_truth(jarg(a, 1, "boolean", jv_bool(false)));

    return v.type == JV_UNDEFINED || (boolean && !jv_truth(v)) ? jarg(a, 0, "default_value", jv_string("", 0)) : v;
}

static struct jv f_attr(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv name = jarg_string(e, a, 0, "name");

    if (v.type == JV_DICT) { /* attributes only, no items */
        const struct jmethod *m = jmethod_of(v, name.s, name.len);
        if (m == NULL) return jv_undefined("'dict object' has no such attribute");
    }
    return jattr(e, v, pool_strndup(&e->pool, name.s, name.len), name.len);
}

static const struct jfilter filters[] = {
    {"abs", f_abs}, {"attr", f_attr}, {"batch", f_batch}, {"count", f_length}, {"d", f_default}, {"default", f_default}, {"dictsort", f_dictsort}, {"first", f_first},
    {"float", f_float}, {"from_json", f_from_json}, {"fromjson", f_from_json}, {"groupby", f_groupby}, {"int", f_int}, {"items", f_items}, {"join", f_join}, {"last", f_last},
    {"length", f_length}, {"list", f_list}, {"map", f_map}, {"max", f_max}, {"min", f_min}, {"reject", f_reject}, {"rejectattr", f_rejectattr}, {"reverse", f_reverse},
    {"round", f_round}, {"select", f_select}, {"selectattr", f_selectattr}, {"slice", f_slice}, {"sort", f_sort}, {"sum", f_sum}, {"tojson", f_tojson}, {"unique", f_unique},
    {NULL, NULL},
};

static const struct jfilter *find(const char *name)
{
    for (const struct jfilter *f = filters; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0) return f;
    for (const struct jfilter *f = jfilters_text; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

bool jfilter_is(const char *name)
{
    return find(name) != NULL;
}

struct jv jfilter(struct jev *e, const char *name, struct jv v, const struct jargs *a)
{
    const struct jfilter *f = find(name);

    if (f == NULL && strcmp(name, "random") == 0) jfail(e, "the filter random is not supported: the same data would become other tokens each time");
    if (f == NULL && strcmp(name, "urlize") == 0) jfail(e, "the filter urlize is not supported: it makes HTML, which no model's template does");
    if (f == NULL) jfail(e, "No filter named '%.100s' found.", name);
    jsteps(e, 1);
    return f->call(e, v, a);
}
