/* Attributes, items, slices and operators. */
#include "train/text/jinja_eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jv jundefined(struct jev *e, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t n = strlen(text);
    return (struct jv){.type = JV_UNDEFINED, .len = (uint32_t)n, .s = pool_strndup(&e->pool, text, n)};
}

/* ---- attributes and items ---- */

static const char *object_name(struct jv v)
{
    return v.type == JV_NONE ? "None" : jv_type_name(v);
}

_Noreturn void juse_of_undefined(struct jev *e, struct jv v)
{
    jfail(e, "%.*s", (int)v.len, v.s);
}

/* What a macro tells about itself. */
static struct jv macro_attr(struct jev *e, const struct jn *n, const char *name, bool *found)
{
    bool its_name = strcmp(name, "name") == 0;

    *found = its_name || strcmp(name, "arguments") == 0;
    if (!*found) return jv_none();
    if (its_name) return n->kind == JN_MACRO ? jv_string(n->text, n->len) : jv_none();
    struct jv out = jv_new_list(&e->pool, JV_A_TUPLE, n->n);
    for (uint32_t i = 0; i < n->n; i++) jpush(e, out, jv_string(n->list[i]->text, n->list[i]->len));
    return out;
}

static struct jv loop_attr(struct jev *e, const struct jv_loop *l, const char *name, bool *found)
{
    uint32_t i = l->index0, n = l->items->n;
    static const char *const names[] = {"index", "index0", "revindex", "revindex0", "length", "depth", "depth0", "first", "last", "previtem", "nextitem"};
    size_t k = 0;

    while (k < sizeof names / sizeof *names && strcmp(names[k], name) != 0) k++;
    *found = k < sizeof names / sizeof *names;
    switch (k) {
    case 0: return jv_int(i + 1);
    case 1: return jv_int(i);
    case 2: return jv_int(n - i);
    case 3: return jv_int((int64_t)n - i - 1);
    case 4: return jv_int(n);
    case 5: return jv_int(l->depth0 + 1);
    case 6: return jv_int(l->depth0);
    case 7: return jv_bool(i == 0);
    case 8: return jv_bool(i + 1 == n);
    case 9: return i > 0 ? l->items->items[i - 1] : jundefined(e, "there is no previous item");
    case 10: return i + 1 < n ? l->items->items[i + 1] : jundefined(e, "there is no next item");
    default: return jv_none();
    }
}

struct jv jattr(struct jev *e, struct jv v, const char *name, size_t len)
{
    struct jv out;
    bool found;

    if (v.type == JV_UNDEFINED) juse_of_undefined(e, v);
    const struct jmethod *m = jmethod_of(v, name, len);
    if (m != NULL) {
        struct jv_bound *b = jalloc(e, sizeof *b);
        *b = (struct jv_bound){v, m};
        return (struct jv){.type = JV_METHOD, .method = b};
    }
    if (v.type == JV_LOOP) {
        out = loop_attr(e, v.loop, name, &found);
        if (found) return out;
    }
    if (v.type == JV_MACRO) {
        out = macro_attr(e, v.macro->node, name, &found);
        if (found) return out;
    }
    if (v.type == JV_LIST && v.kind == JV_A_TUPLE && v.list->n == 2 && v.list->items[1].type == JV_LIST) { /* a pair of groupby */
        if (strcmp(name, "grouper") == 0) return v.list->items[0];
        if (strcmp(name, "list") == 0) return v.list->items[1];
    }
    if (v.type == JV_CYCLER && strcmp(name, "current") == 0 && v.cycler->items.n > 0) return v.cycler->items.items[v.cycler->at];
    if (v.type == JV_DICT || v.type == JV_NAMESPACE) {
        jsteps(e, v.dict->n);
        if (jv_get(v.dict, jv_string(name, len), &out)) return out;
    }
    return jundefined(e, v.type == JV_NONE ? "'%s' has no attribute '%.*s'" : "'%s object' has no attribute '%.*s'", object_name(v), (int)(len < 100 ? len : 100), name);
}

/* Index i of n, counted from the end if negative; -1: outside. */
static int64_t wrapped(int64_t i, int64_t n)
{
    if (i < 0) i += n;
    return i >= 0 && i < n ? i : -1;
}

struct jv jitem(struct jev *e, struct jv v, struct jv key)
{
    struct jv out;

    if (v.type == JV_UNDEFINED) juse_of_undefined(e, v);
    bool index = key.type == JV_INT || key.type == JV_BOOL;
    if (v.type == JV_LIST && index && v.kind <= JV_A_RANGE) {
        int64_t i = wrapped(jinteger(key), v.list->n);
        if (i >= 0) return v.list->items[i];
    } else if (v.type == JV_STRING && index) {
        jsteps(e, v.len / 16);
        int64_t i = wrapped(jinteger(key), (int64_t)jv_length(v.s, v.len));
        if (i >= 0) {
            size_t begin = jv_offset(v.s, v.len, (size_t)i);
            return jv_string(v.s + begin, jv_offset(v.s + begin, v.len - begin, 1));
        }
    } else if (v.type == JV_DICT) {
        jsteps(e, v.dict->n);
        if (jv_get(v.dict, key, &out)) return out;
    }
    if (key.type == JV_STRING) {
        struct jv name = jv_copy_string(&e->pool, key.s, key.len);
        return jattr(e, v, name.s, name.len);
    }
    struct buf b = {0};
    jv_add_repr(&b, key);
    out = jundefined(e, v.type == JV_NONE ? "%s has no element %.100s" : "'%s object' has no element %.100s", object_name(v), b.data);
    buf_free(&b);
    return out;
}

/* One bound of a slice: absent, or an integer, clamped as Python does. */
static int64_t bound(struct jev *e, const struct jn *n, int64_t absent, int64_t len, bool down)
{
    if (n == NULL) return absent;
    struct jv v = jeval(e, n);
    if (v.type == JV_NONE) return absent;
    if (v.type != JV_INT && v.type != JV_BOOL) jfail(e, "slice indices must be integers or None");
    int64_t i = jinteger(v);
    if (i < 0) i += len;
    if (i < 0) return down ? -1 : 0;
    if (i >= len) return down ? len - 1 : len;
    return i;
}

struct jv jslice(struct jev *e, struct jv v, const struct jn *n)
{
    if (v.type == JV_UNDEFINED) juse_of_undefined(e, v);
    if (v.type != JV_STRING && (v.type != JV_LIST || v.kind > JV_A_RANGE)) jfail(e, "'%s' object has no slices", object_name(v));
    int64_t len = v.type == JV_LIST ? v.list->n : (int64_t)jv_length(v.s, v.len), step = 1;
    if (n->c != NULL) {
        struct jv s = jeval(e, n->c);
        if (s.type == JV_INT || s.type == JV_BOOL) step = jinteger(s);
        else if (s.type != JV_NONE) jfail(e, "slice indices must be integers or None");
        if (step == 0) jfail(e, "slice step cannot be zero");
    }
    bool down = step < 0;
    int64_t from = bound(e, n->a, down ? len - 1 : 0, len, down), to = bound(e, n->b, down ? -1 : len, len, down);
    if (step > len || step < -len) step = down ? -len - 1 : len + 1; /* one element, and no overflow */

    jsteps(e, (uint64_t)len / 16);
    if (v.type == JV_STRING && step == 1) {
        if (from >= to) return jv_string("", 0);
        size_t begin = jv_offset(v.s, v.len, (size_t)from), size = jv_offset(v.s + begin, v.len - begin, (size_t)(to - from));
        return jv_string(v.s + begin, size);
    }
    struct jv_list *items = jiterate(e, v);
    struct jv out = jv_new_list(&e->pool, v.type == JV_LIST ? v.kind : JV_A_LIST, 8);
    for (int64_t i = from; down ? i > to : i < to; i += step) jpush(e, out, items->items[i]);
    if (v.type == JV_LIST) return out;
    size_t begin = jtext_begin(e);
    for (uint32_t i = 0; i < out.list->n; i++) buf_add(e->out, out.list->items[i].s, out.list->items[i].len);
    return jtext_end(e, begin);
}

struct jv_list *jiterate(struct jev *e, struct jv v)
{
    switch (v.type) {
    case JV_LIST: jsteps(e, v.list->n); return v.list;
    case JV_UNDEFINED: return jv_new_list(&e->pool, JV_A_LIST, 0).list;
    case JV_DICT: {
        jsteps(e, v.dict->n);
        jroom(e, v.dict->n * sizeof(struct jv));
        struct jv keys = jv_new_list(&e->pool, JV_A_LIST, v.dict->n);
        for (uint32_t i = 0; i < v.dict->n; i++) jv_push(&e->pool, keys, v.dict->keys[i]);
        return keys.list;
    }
    case JV_STRING: {
        jsteps(e, v.len);
        jroom(e, v.len * sizeof(struct jv));
        struct jv chars = jv_new_list(&e->pool, JV_A_LIST, v.len);
        for (size_t i = 0, n; i < v.len; i += n) {
            n = jv_offset(v.s + i, v.len - i, 1);
            jv_push(&e->pool, chars, jv_string(v.s + i, n));
        }
        return chars.list;
    }
    default: jfail(e, "'%s' object is not iterable", jv_type_name(v));
    }
}

bool jcontains(struct jev *e, struct jv in, struct jv what)
{
    struct jv unused;

    if (in.type == JV_STRING) {
        if (what.type != JV_STRING) jfail(e, "'in <string>' requires string as left operand, not %s", jv_type_name(what));
        jsteps(e, in.len / 16);
        return what.len == 0 || memmem(in.s, in.len, what.s, what.len) != NULL;
    }
    if (in.type == JV_DICT) {
        jsteps(e, in.dict->n);
        return jv_get(in.dict, what, &unused);
    }
    if (in.type != JV_LIST && in.type != JV_UNDEFINED) jfail(e, "argument of type '%s' is not iterable", jv_type_name(in));
    const struct jv_list *l = jiterate(e, in);
    for (uint32_t i = 0; i < l->n; i++)
        if (jv_equal(l->items[i], what)) return true;
    return false;
}

/* ---- operators ---- */

static _Noreturn void no_operator(struct jev *e, const char *op, struct jv a, struct jv b)
{
    jfail(e, "unsupported operand type(s) for %s: '%s' and '%s'", op, jv_type_name(a), jv_type_name(b));
}

static struct jv integers(struct jev *e, enum jn_op op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;

    if ((op == JOP_FLOORDIV || op == JOP_MOD || op == JOP_DIV) && b == 0) jfail(e, "division by zero");
    switch (op) {
    case JOP_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case JOP_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case JOP_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case JOP_DIV: return jv_float((double)a / (double)b);
    case JOP_FLOORDIV:
        if (a == INT64_MIN && b == -1) jfail(e, "an integer beyond 64 bits");
        r = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
        break;
    case JOP_MOD:
        r = b == -1 ? 0 : a % b;
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        break;
    default:
        if (b < 0 && a == 0) jfail(e, "0.0 cannot be raised to a negative power");
        if (b < 0) return jv_float(pow((double)a, (double)b));
        r = 1;
        for (int64_t base = a; b > 0 && !over; b >>= 1) {
            if (b & 1) over = __builtin_mul_overflow(r, base, &r);
            if (b > 1 && !over) over = __builtin_mul_overflow(base, base, &base);
        }
        break;
    }
    if (over) jfail(e, "an integer beyond 64 bits");
    return jv_int(r);
}

static struct jv floats(struct jev *e, enum jn_op op, double a, double b)
{
    if ((op == JOP_FLOORDIV || op == JOP_MOD || op == JOP_DIV) && b == 0) jfail(e, "float division by zero");
    switch (op) {
    case JOP_ADD: return jv_float(a + b);
    case JOP_SUB: return jv_float(a - b);
    case JOP_MUL: return jv_float(a * b);
    case JOP_DIV: return jv_float(a / b);
    case JOP_FLOORDIV: return jv_float(floor(a / b));
    case JOP_MOD: {
        double r = fmod(a, b);
        return jv_float(r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r);
    }
    default:
        if (a == 0 && b < 0) jfail(e, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b)) jfail(e, "a negative number cannot be raised to a fraction: complex numbers are not supported");
        return jv_float(pow(a, b));
    }
}

/* Markup escapes what is added to it. */
static struct jv escaped(struct jev *e, struct jv v)
{
    static const struct jargs none = {0};

    return v.kind == 1 ? v : jfilter(e, "escape", v, &none);
}

static struct jv joined(struct jev *e, struct jv a, struct jv b)
{
    jroom(e, ((size_t)a.list->n + b.list->n) * sizeof(struct jv));
    jsteps(e, (uint64_t)a.list->n + b.list->n);
    struct jv out = jv_new_list(&e->pool, a.kind, a.list->n + b.list->n);
    for (uint32_t i = 0; i < a.list->n; i++) jv_push(&e->pool, out, a.list->items[i]);
    for (uint32_t i = 0; i < b.list->n; i++) jv_push(&e->pool, out, b.list->items[i]);
    return out;
}

static struct jv repeated(struct jev *e, struct jv v, int64_t times)
{
    if (times <= 0) return v.type == JV_STRING ? jv_string("", 0) : jv_new_list(&e->pool, v.kind, 0);
    size_t unit = v.type == JV_STRING ? v.len : v.list->n * sizeof(struct jv);
    if (unit > 0 && (uint64_t)times > JINJA_MAX_OUTPUT / unit) jfail(e, "a repetition of more than 256 MiB");
    jsteps(e, (uint64_t)times * unit / 64);
    if (v.type == JV_STRING) {
        char *s = jalloc(e, unit * (size_t)times);
        for (int64_t i = 0; i < times; i++) memcpy(s + (size_t)i * unit, v.s, unit);
        return jv_string(s, unit * (size_t)times);
    }
    struct jv out = jv_new_list(&e->pool, v.kind, 0);
    for (int64_t i = 0; i < times && unit > 0; i++)
        for (uint32_t k = 0; k < v.list->n; k++) jpush(e, out, v.list->items[k]);
    return out;
}

struct jv jbinary(struct jev *e, enum jn_op op, struct jv a, struct jv b)
{
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};

    if (a.type == JV_UNDEFINED) juse_of_undefined(e, a);
    if (op == JOP_MOD && a.type == JV_STRING) return jformat_percent(e, a, b);
    if (b.type == JV_UNDEFINED) juse_of_undefined(e, b);
    if (jv_number(a) && jv_number(b)) {
        if (a.type == JV_FLOAT || b.type == JV_FLOAT) return floats(e, op, jv_to_double(a), jv_to_double(b));
        return integers(e, op, jinteger(a), jinteger(b));
    }
    bool lists = a.type == JV_LIST && b.type == JV_LIST && a.kind == b.kind && a.kind <= JV_A_TUPLE;
    if (op == JOP_ADD && a.type == JV_STRING && b.type == JV_STRING) {
        if (a.kind == b.kind) {
            struct jv out = jconcat(e, a, b);
            out.kind = a.kind;
            return out;
        }
        struct jv out = jconcat(e, escaped(e, a), escaped(e, b));
        out.kind = 1;
        return out;
    }
    if (op == JOP_ADD && a.type == JV_STRING) jfail(e, "can only concatenate str (not \"%s\") to str", jv_type_name(b));
    if (op == JOP_ADD && lists) return joined(e, a, b);
    if (op == JOP_MUL) {
        bool left = a.type == JV_INT || a.type == JV_BOOL;
        struct jv v = left ? b : a, times = left ? a : b;
        if ((v.type == JV_STRING || (v.type == JV_LIST && v.kind <= JV_A_TUPLE)) && (times.type == JV_INT || times.type == JV_BOOL)) return repeated(e, v, jinteger(times));
    }
    no_operator(e, signs[op], a, b);
}

static bool holds(struct jev *e, enum jn_op op, struct jv a, struct jv b)
{
    static const char *const signs[] = {[JOP_LT] = "<", [JOP_LE] = "<=", [JOP_GT] = ">", [JOP_GE] = ">="};
    int order = 0;

    switch (op) {
    case JOP_EQ: return jv_equal(a, b);
    case JOP_NE: return !jv_equal(a, b);
    case JOP_IN: return jcontains(e, b, a);
    case JOP_NOT_IN: return !jcontains(e, b, a);
    default: break;
    }
    if (a.type == JV_UNDEFINED) juse_of_undefined(e, a);
    if (b.type == JV_UNDEFINED) juse_of_undefined(e, b);
    if (!jv_compare(a, b, &order)) jfail(e, "'%s' not supported between instances of '%s' and '%s'", signs[op], jv_type_name(a), jv_type_name(b));
    return op == JOP_LT ? order < 0 : op == JOP_LE ? order <= 0 : op == JOP_GT ? order > 0 : order >= 0;
}

struct jv jcompare(struct jev *e, const struct jn *n)
{
    struct jv left = jeval(e, n->a);

    for (uint32_t i = 0; i < n->n; i++) {
        struct jv right = jeval(e, n->list[i]->a);
        if (!holds(e, n->list[i]->op, left, right)) return jv_bool(false);
        left = right;
    }
    return jv_bool(true);
}
