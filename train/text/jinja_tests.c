/* {{ value is test(arguments) }} */
#include "train/text/jinja_eval.h"

#include "kernels/base/utf8.h"
#include "train/text/unicode.h"

#include <string.h>

typedef bool test_fn(struct jev *e, struct jv v, const struct jargs *a);

static struct jv other(struct jev *e, const struct jargs *a)
{
    if (a->n == 0) jfail(e, "this test needs an argument");
    return a->at[0];
}

static bool t_defined(struct jev *e, struct jv v, const struct jargs *a) { return v.type != JV_UNDEFINED; }
static bool t_undefined(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_UNDEFINED; }
static bool t_none(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_NONE; }
static bool t_boolean(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_BOOL; }
static bool t_true(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_BOOL && v.b; }
static bool t_false(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_BOOL && !v.b; }
static bool t_integer(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_INT || v.type == JV_BIGINT; }
static bool t_float(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_FLOAT; }
static bool t_number(struct jev *e, struct jv v, const struct jargs *a) { return jv_number(v) || v.type == JV_BIGINT; }
static bool t_string(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_STRING; }
static bool t_mapping(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_DICT; }
static bool t_escaped(struct jev *e, struct jv v, const struct jargs *a) { return v.type == JV_STRING && v.kind == 1; }
static bool t_eq(struct jev *e, struct jv v, const struct jargs *a) { return jv_equal(v, other(e, a)); }
static bool t_ne(struct jev *e, struct jv v, const struct jargs *a) { return !jv_equal(v, other(e, a)); }
static bool t_in(struct jev *e, struct jv v, const struct jargs *a) { return jcontains(e, other(e, a), v); }

static bool t_iterable(struct jev *e, struct jv v, const struct jargs *a)
{
    return v.type == JV_STRING || v.type == JV_LIST || v.type == JV_DICT || v.type == JV_UNDEFINED || v.type == JV_LOOP;
}

static bool t_sequence(struct jev *e, struct jv v, const struct jargs *a)
{
    return v.type == JV_STRING || (v.type == JV_LIST && v.kind <= JV_A_RANGE) || v.type == JV_DICT || v.type == JV_UNDEFINED;
}

static bool t_callable(struct jev *e, struct jv v, const struct jargs *a)
{
    return v.type == JV_MACRO || v.type == JV_FUNCTION || v.type == JV_METHOD || v.type == JV_LOOP || v.type == JV_JOINER || v.type == JV_UNDEFINED;
}

static bool t_sameas(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv o = other(e, a);

    if (v.type != o.type) return false;
    if (v.type == JV_LIST || v.type == JV_DICT) return v.list == o.list;
    return jv_equal(v, o);
}

static int order(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv o = other(e, a);
    int c = 0;

    if (!jv_compare(v, o, &c)) jfail(e, "'<' not supported between instances of '%s' and '%s'", jv_type_name(v), jv_type_name(o));
    return c;
}

static bool t_lt(struct jev *e, struct jv v, const struct jargs *a) { return order(e, v, a) < 0; }
static bool t_le(struct jev *e, struct jv v, const struct jargs *a) { return order(e, v, a) <= 0; }
static bool t_gt(struct jev *e, struct jv v, const struct jargs *a) { return order(e, v, a) > 0; }
static bool t_ge(struct jev *e, struct jv v, const struct jargs *a) { return order(e, v, a) >= 0; }

static bool divides(struct jev *e, struct jv v, int64_t by)
{
    return jv_to_double(jbinary(e, JOP_MOD, v, jv_int(by))) == 0;
}

static bool t_even(struct jev *e, struct jv v, const struct jargs *a)
{
    if (!jv_number(v)) jfail(e, "is even: '%s' is no number", jv_type_name(v));
    return divides(e, v, 2);
}

static bool t_odd(struct jev *e, struct jv v, const struct jargs *a)
{
    if (!jv_number(v)) jfail(e, "is odd: '%s' is no number", jv_type_name(v));
    return jv_to_double(jbinary(e, JOP_MOD, v, jv_int(2))) == 1;
}

static bool t_divisibleby(struct jev *e, struct jv v, const struct jargs *a)
{
    if (!jv_number(v)) jfail(e, "is divisibleby: '%s' is no number", jv_type_name(v));
    return divides(e, v, jarg_int(e, a, 0, "num", 1));
}

/* str.islower and str.isupper: at least one letter with a case, and none of the other. */
static bool cased(struct jev *e, struct jv v, unsigned want, unsigned avoid)
{
    bool any = false;

    v = jstr(e, v);
    for (size_t i = 0; i < v.len;) {
        int n;
        unsigned c = unicode_class_at(v.s, v.len, i, &n);
        if (c & avoid) return false;
        any |= (c & want) != 0;
        i += (size_t)n;
    }
    return any;
}

static bool t_lower(struct jev *e, struct jv v, const struct jargs *a) { return cased(e, v, UC_LOWER, UC_UPPER); }
static bool t_upper(struct jev *e, struct jv v, const struct jargs *a) { return cased(e, v, UC_UPPER, UC_LOWER); }

static bool named(struct jev *e, struct jv v, bool (*is)(const char *name))
{
    return v.type == JV_STRING && is(pool_strndup(&e->pool, v.s, v.len));
}

static bool t_filter(struct jev *e, struct jv v, const struct jargs *a) { return named(e, v, jfilter_is); }
static bool t_test(struct jev *e, struct jv v, const struct jargs *a) { return named(e, v, jtest_is); }

static const struct {
    const char *name;
    test_fn *call;
} tests[] = {
    {"!=", t_ne}, {"<", t_lt}, {"<=", t_le}, {"==", t_eq}, {">", t_gt}, {">=", t_ge}, {"boolean", t_boolean}, {"callable", t_callable}, {"defined", t_defined},
    {"divisibleby", t_divisibleby}, {"eq", t_eq}, {"equalto", t_eq}, {"escaped", t_escaped}, {"even", t_even}, {"false", t_false}, {"filter", t_filter}, {"float", t_float},
    {"ge", t_ge}, {"greaterthan", t_gt}, {"gt", t_gt}, {"in", t_in}, {"integer", t_integer}, {"iterable", t_iterable}, {"le", t_le}, {"lessthan", t_lt},
    {"lower", t_lower}, {"lt", t_lt}, {"mapping", t_mapping}, {"ne", t_ne}, {"none", t_none}, {"number", t_number}, {"odd", t_odd}, {"sameas", t_sameas},
    {"sequence", t_sequence}, {"string", t_string}, {"test", t_test}, {"true", t_true}, {"undefined", t_undefined}, {"upper", t_upper},
};

bool jtest_is(const char *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(tests[i].name, name) == 0) return true;
    return false;
}

bool jtest(struct jev *e, const char *name, struct jv v, const struct jargs *a)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(tests[i].name, name) == 0) {
            jsteps(e, 1);
            return tests[i].call(e, v, a);
        }
    jfail(e, "No test named '%.100s' found.", name);
}
