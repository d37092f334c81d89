/* Functions of the language and of transformers, and the two ways of formatting. */
#include "train/text/jinja_eval.h"

#include "kernels/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANGE 100000 /* the sandbox's own limit */

static struct jv g_raise_exception(struct jev *e, const struct jargs *a)
{
    struct jv message = jstr(e, jarg(a, 0, "message", jv_string("", 0)));

    e->raised = true;
    jfail(e, "%.*s", (int)(message.len < 1700 ? message.len : 1700), message.s);
}

static struct jv g_strftime_now(struct jev *e, const struct jargs *a)
{
    struct jv format = jarg_string(e, a, 0, "format");
    char text[1024];
    struct timespec t = {0};
    struct tm now;

    if (e->now != NULL) {
        now = *e->now;
    } else {
        clock_gettime(CLOCK_REALTIME, &t);
        localtime_r(&t.tv_sec, &now);
    }
    /* A first character keeps "empty" apart from "too long". As Python's datetime has it, %f is the microseconds, and a time without a zone has none to name. */
    char *f = jalloc(e, 3 * format.len + 2), *p = f;
    *p++ = '.';
    for (uint32_t i = 0; i < format.len; i++) {
        char next = format.s[i] == '%' && i + 1 < format.len ? format.s[i + 1] : 0;
        if (next == 'f') p += sprintf(p, "%06ld", t.tv_nsec / 1000);
        else if (next != 'z' && next != 'Z') *p++ = format.s[i];
        if (next == '%') *p++ = next;
        i += next == 'f' || next == 'z' || next == 'Z' || next == '%';
    }
    *p = 0;
    size_t n = strftime(text, sizeof text, f, &now);
    if (n == 0) jfail(e, "strftime_now: the result is too long");
    return jv_copy_string(&e->pool, text + 1, n - 1);
}

static struct jv g_range(struct jev *e, const struct jargs *a)
{
    int64_t from = a->n > 1 ? jarg_int(e, a, 0, NULL, 0) : 0, to = jarg_int(e, a, a->n > 1 ? 1 : 0, NULL, 0), step = jarg_int(e, a, 2, NULL, 1);

    if (a->n == 0 || a->n > 3) jfail(e, "range expected 1 to 3 arguments, got %u", a->n);
    if (step == 0) jfail(e, "range() arg 3 must not be zero");
    double span = ((double)to - (double)from) / (double)step;
    uint32_t n = span <= 0 ? 0 : (uint32_t)fmin(ceil(span), MAX_RANGE + 1.0);
    if (n > MAX_RANGE) jfail(e, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
    struct jv out = jv_new_list(&e->pool, JV_A_RANGE, n);
    for (uint32_t i = 0; i < n; i++) jpush(e, out, jv_int(from + (int64_t)i * step));
    return out;
}

/* Pairs of a mapping or a sequence of pairs, then keywords. */
static struct jv dict_of(struct jev *e, const struct jargs *a)
{
    struct jv out = jv_new_dict(&e->pool, a->n_named);

    if (a->n > 0 && a->at[0].type == JV_DICT) {
        for (uint32_t i = 0; i < a->at[0].dict->n; i++) jv_put(&e->pool, out, a->at[0].dict->keys[i], a->at[0].dict->values[i]);
    } else if (a->n > 0) {
        struct jv_list *l = jiterate(e, a->at[0]);
        for (uint32_t i = 0; i < l->n; i++) {
            struct jv_list *pair = jiterate(e, l->items[i]);
            if (pair->n != 2) jfail(e, "dictionary update sequence element #%u has length %u; 2 is required", i, pair->n);
            jsteps(e, out.dict->n);
            jroom(e, 64);
            jv_put(&e->pool, out, pair->items[0], pair->items[1]);
        }
    }
    for (uint32_t i = 0; i < a->n_named; i++) jv_put(&e->pool, out, jv_string(a->named[i].name, strlen(a->named[i].name)), a->named[i].value);
    return out;
}

static struct jv g_dict(struct jev *e, const struct jargs *a) { return dict_of(e, a); }

static struct jv g_namespace(struct jev *e, const struct jargs *a)
{
    struct jv out = dict_of(e, a);

    for (uint32_t i = 0; i < out.dict->n; i++) jnamespace_name(e, out.dict->keys[i]);
    out.type = JV_NAMESPACE;
    return out;
}

static struct jv cycler_over(struct jev *e, enum jv_type type, const struct jv *items, uint32_t n)
{
    struct jv list = jv_new_list(&e->pool, JV_A_LIST, n);
    struct jv_cycler *c = jalloc(e, sizeof *c);

    for (uint32_t i = 0; i < n; i++) jpush(e, list, items[i]);
    *c = (struct jv_cycler){.items = *list.list};
    return (struct jv){.type = (uint8_t)type, .cycler = c};
}

static struct jv g_cycler(struct jev *e, const struct jargs *a)
{
    if (a->n == 0) jfail(e, "at least one item has to be provided");
    return cycler_over(e, JV_CYCLER, a->at, a->n);
}

static struct jv g_joiner(struct jev *e, const struct jargs *a)
{
    struct jv sep = jarg(a, 0, "sep", jv_string(", ", 2));

    return cycler_over(e, JV_JOINER, &sep, 1);
}

static const struct jv_function functions[] = {
    {"raise_exception", g_raise_exception}, {"strftime_now", g_strftime_now}, {"range", g_range}, {"dict", g_dict}, {"namespace", g_namespace},
    {"cycler", g_cycler}, {"joiner", g_joiner},
};

const struct jv_function *jfunction(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) return &functions[i];
    return NULL;
}

/* ---- formatting ---- */

/* [[fill]align][sign][#][0][width][, or _][.precision][type] */
struct spec {
    char fill[4];
    int fill_len;
    char align; /* < > ^ =; 0: as the type has it */
    char sign;  /* + space; 0: minus only */
    bool alternate;
    char group; /* what stands between thousands: , or _; 0: nothing */
    int64_t width, precision; /* precision -1: none */
    char type;  /* 0: none */
};

static int64_t read_int(struct jev *e, const char **p, const char *end)
{
    int64_t n = 0;

    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
        n = n * 10 + (**p - '0');
        if (n > 1000000) jfail(e, "a width or precision beyond a million");
    }
    return n;
}

static void add_padded(struct jev *e, const struct spec *s, const char *sign, const char *text, size_t len, char align)
{
    int64_t more = s->width - (int64_t)jv_length(text, len) - (int64_t)strlen(sign), before = 0;

    if (more < 0) more = 0;
    if (s->align != 0) align = s->align;
    if (align == '>') before = more;
    else if (align == '^') before = more / 2;
    if (align == '=') buf_adds(e->out, sign);
    for (int64_t i = 0; i < (align == '=' ? more : before); i++) buf_add(e->out, s->fill, (size_t)s->fill_len);
    if (align != '=') buf_adds(e->out, sign);
    buf_add(e->out, text, len);
    for (int64_t i = 0; align != '=' && i < more - before; i++) buf_add(e->out, s->fill, (size_t)s->fill_len);
}

/* "1234567.5" with a comma or _ between the thousands; behind a prefix as 0x, of four digits each. */
static void add_groups(char *text, size_t size, char group, size_t prefix, size_t every)
{
    size_t n = strlen(text);

    for (size_t at = strcspn(text, ".e%"); at > prefix + every && n + 1 < size; at -= every) {
        memmove(text + at - every + 1, text + at - every, n - (at - every) + 1);
        text[at - every] = group;
        n++;
    }
}

/* |v| in base 2, 8, 10 or 16. */
static void integer_text(char *text, size_t size, const struct spec *s, char type, uint64_t i)
{
    char bits[65], format[8], *b = bits + sizeof bits - 1;

    if (type == 'b') {
        *b = 0;
        do *--b = (char)('0' + (i & 1));
        while ((i >>= 1) > 0);
        snprintf(text, size, "%s", b);
    } else {
        snprintf(format, sizeof format, "%%ll%c", type == 'd' || type == 'n' ? 'u' : type);
        snprintf(text, size, format, (unsigned long long)i);
    }
    if (s->alternate && strchr("xXob", type) != NULL) {
        memmove(text + 2, text, strlen(text) + 1);
        text[0] = '0';
        text[1] = type;
    }
}

/* A float without a type but with a precision: as g, but never without a point. */
static void plain_float(char *text, size_t size, double f, int64_t precision)
{
    int digits = precision == 0 ? 1 : (int)precision;

    snprintf(text, size, "%.*e", digits - 1, f);
    char *e = strchr(text, 'e');
    if (e == NULL) return; /* inf, nan */
    int exponent = atoi(e + 1);
    if (exponent >= -4 && exponent < digits - 1) {
        snprintf(text, size, "%.*g", digits, f);
        if (strchr(text, '.') == NULL) strcat(text, ".0");
        return;
    }
    char *end = e;
    if (digits > 1)
        while (end[-1] == '0' || end[-1] == '.')
            if (*--end == '.') break;
    memmove(end, e, strlen(e) + 1);
}

static void add_number(struct jev *e, const struct spec *s, struct jv v)
{
    char text[1100], format[16];
    bool whole = v.type != JV_FLOAT;
    char type = s->type && s->type != 'n' ? s->type : whole ? 'd' : s->type == 'n' ? 'g' : 'r';
    bool negative = v.type == JV_FLOAT ? signbit(v.f) : jinteger(v) < 0;
    const char *sign = negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";

    if (strchr("dxXobc", type) != NULL && !whole) jfail(e, "Unknown format code '%c' for object of type 'float'", type);
    if (strchr("dxXob", type) != NULL) {
        integer_text(text, sizeof text, s, type, negative ? 0 - (uint64_t)jinteger(v) : (uint64_t)jinteger(v));
    } else if (type == 'c') {
        if (jinteger(v) < 0 || jinteger(v) > 0x10FFFF || (jinteger(v) & ~0x7FFLL) == 0xD800) jfail(e, "%%c arg not in range(0x110000)");
        text[utf8_encode((uint32_t)jinteger(v), text)] = 0;
        add_padded(e, s, "", text, strlen(text), '<');
        return;
    } else if (strchr("feEFgG%", type) != NULL) {
        double f = fabs(jv_to_double(v)) * (type == '%' ? 100 : 1);
        snprintf(format, sizeof format, "%%.*%c", type == '%' ? 'f' : type);
        snprintf(text, sizeof text, format, (int)(s->precision < 0 ? 6 : s->precision < 300 ? s->precision : 300), f);
        if (type == '%') strcat(text, "%");
    } else if (type == 'r' && s->precision >= 0) {
        plain_float(text, sizeof text, fabs(v.f), s->precision < 300 ? s->precision : 300);
    } else if (type == 'r') {
        struct buf b = {0};
        jv_add_float(&b, fabs(v.f));
        snprintf(text, sizeof text, "%s", b.data);
        buf_free(&b);
    } else {
        jfail(e, "Unknown format code '%c' for object of type '%s'", type, jv_type_name(v));
    }
    bool based = strchr("xXob", type) != NULL;
    if (s->group != 0) add_groups(text, sizeof text, s->group, based && s->alternate ? 2 : 0, based ? 4 : 3);
    add_padded(e, s, sign, text, strlen(text), '>');
}

static void add_text(struct jev *e, const struct spec *s, struct jv text)
{
    size_t len = s->precision >= 0 ? jv_offset(text.s, text.len, (size_t)s->precision) : text.len;

    add_padded(e, s, "", text.s, len, '<');
}

static struct jv representation(struct jev *e, struct jv v)
{
    struct buf b = {0};

    jv_add_repr(&b, v);
    return jtake(e, &b);
}

/* A representation with all that is not ASCII escaped. */
static struct jv ascii(struct jev *e, struct jv v)
{
    size_t begin = jtext_begin(e);

    for (size_t i = 0, n; i < v.len; i += n) {
        uint32_t cp = 0;
        n = (size_t)utf8_decode(v.s + i, v.len - i, &cp);
        if (cp < 0x80) buf_addc(e->out, (char)cp);
        else if (cp < 0x100) buf_addf(e->out, "\\x%02x", cp);
        else if (cp < 0x10000) buf_addf(e->out, "\\u%04x", cp);
        else buf_addf(e->out, "\\U%08x", cp);
    }
    return jtext_end(e, begin);
}

/* One conversion of "%..." at *p, which stands behind the percent sign. */
static void percent(struct jev *e, const char **p, const char *end, struct jv args, uint32_t *used)
{
    struct spec s = {.fill = " ", .fill_len = 1, .precision = -1, .align = '>'};
    struct jv v;

    if (*p < end && **p == '(') {
        const char *close = memchr(*p, ')', (size_t)(end - *p));
        if (close == NULL) jfail(e, "incomplete format key");
        if (args.type != JV_DICT) jfail(e, "format requires a mapping");
        v = jitem(e, args, jv_string(*p + 1, (size_t)(close - *p) - 1));
        *p = close + 1;
        *used = UINT32_MAX;
    } else if (*p < end && **p == '%') {
        buf_addc(e->out, '%');
        (*p)++;
        return;
    } else {
        bool many = args.type == JV_LIST && args.kind == JV_A_TUPLE;
        if (*used >= (many ? args.list->n : 1)) jfail(e, "not enough arguments for format string");
        v = many ? args.list->items[*used] : args;
        (*used)++;
    }
    for (; *p < end && **p != 0 && strchr("-+ #0", **p) != NULL; (*p)++) {
        if (**p == '-') s.align = '<';
        else if (**p == '+' || **p == ' ') s.sign = **p;
        else if (**p == '#') s.alternate = true;
        else if (s.align != '<') {
            s.fill[0] = '0';
            s.align = '=';
        }
    }
    s.width = read_int(e, p, end);
    if (*p < end && **p == '.') {
        (*p)++;
        s.precision = read_int(e, p, end);
    }
    while (*p < end && **p != 0 && strchr("hlL", **p) != NULL) (*p)++;
    if (*p == end) jfail(e, "incomplete format");
    s.type = *(*p)++;
    if (s.type == 's' || s.type == 'r' || s.type == 'a' || (s.type == 'c' && v.type == JV_STRING && jv_length(v.s, v.len) == 1)) {
        if (s.align == '=') s.align = '>';
        if (s.type == 'r') v = representation(e, v);
        if (s.type == 'a') v = ascii(e, representation(e, v));
        add_text(e, &s, jstr(e, v));
        return;
    }
    if (!jv_number(v)) jfail(e, "%%%c format: a real number is required, not %s", s.type, jv_type_name(v));
    if ((s.type == 'd' || s.type == 'i' || s.type == 'u') && v.type == JV_FLOAT) {
        if (!(fabs(v.f) < 9e18)) jfail(e, "an integer beyond 64 bits");
        v = jv_int((int64_t)v.f);
    }
    if (s.type == 'u' || s.type == 'i') s.type = 'd';
    if (strchr("dxXocfFeEgG", s.type) == NULL) jfail(e, "unsupported format character '%c'", s.type);
    add_number(e, &s, v);
}

struct jv jformat_percent(struct jev *e, struct jv format, struct jv args)
{
    const char *p = format.s, *end = format.s + format.len;
    size_t begin = jtext_begin(e);
    uint32_t used = 0;

    while (p < end) {
        const char *next = memchr(p, '%', (size_t)(end - p));
        if (next == NULL) next = end;
        buf_add(e->out, p, (size_t)(next - p));
        p = next;
        if (p < end) {
            p++;
            percent(e, &p, end, args, &used);
        }
    }
    bool many = args.type == JV_LIST && args.kind == JV_A_TUPLE, indexed = args.type == JV_DICT || (args.type == JV_LIST && args.kind <= JV_A_RANGE && !many);
    if (used != UINT32_MAX && used < (many ? args.list->n : 1) && !indexed) jfail(e, "not all arguments converted during string formatting");
    return jtext_end(e, begin);
}

/* The value of "0.name[key]" in a replacement field. */
static struct jv field_value(struct jev *e, const char *p, const char *end, const struct jargs *a, uint32_t *automatic)
{
    const char *start = p;
    struct jv v;

    while (p < end && *p != '.' && *p != '[') p++;
    bool number = p > start;
    for (const char *c = start; c < p; c++) number &= *c >= '0' && *c <= '9';
    if (p == start || number) {
        if (*automatic == UINT32_MAX ? p == start : *automatic > 0 && p > start) jfail(e, "format: {} and {0} cannot stand together");
        uint32_t i = p == start ? (*automatic)++ : (uint32_t)strtoul(start, NULL, 10);
        if (p > start) *automatic = UINT32_MAX;
        if (i >= a->n) jfail(e, "Replacement index %u out of range for positional args tuple", i);
        v = a->at[i];
    } else {
        char *name = pool_strndup(&e->pool, start, (size_t)(p - start));
        v = jarg(a, UINT32_MAX, name, jv_undefined("a name in the format string is not given"));
        if (v.type == JV_UNDEFINED) jfail(e, "format: '%.100s' is not given", name);
    }
    while (p < end) {
        bool item = *p == '[';
        start = ++p;
        while (p < end && (item ? *p != ']' : *p != '.' && *p != '[')) p++;
        char *name = pool_strndup(&e->pool, start, (size_t)(p - start));
        bool digits = item && p > start && strspn(name, "0123456789") == (size_t)(p - start);
        v = digits ? jitem(e, v, jv_int(strtol(name, NULL, 10))) : item ? jitem(e, v, jv_string(name, (size_t)(p - start))) : jattr(e, v, name, (size_t)(p - start));
        if (item && p < end) p++;
    }
    return v;
}

static struct spec read_spec(struct jev *e, const char *p, const char *end)
{
    struct spec s = {.fill = " ", .fill_len = 1, .precision = -1};
    size_t first = jv_offset(p, (size_t)(end - p), 1);

    if (p + first < end && p[first] != 0 && strchr("<>^=", p[first]) != NULL) {
        memcpy(s.fill, p, first);
        s.fill_len = (int)first;
        s.align = p[first];
        p += first + 1;
    } else if (p < end && *p != 0 && strchr("<>^=", *p) != NULL) {
        s.align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' ')) s.sign = *p == '-' ? 0 : *p, p++;
    if (p < end && *p == '#') s.alternate = true, p++;
    if (p < end && *p == '0') {
        if (s.align == 0) {
            s.fill[0] = '0';
            s.align = '=';
        }
        p++;
    }
    s.width = read_int(e, &p, end);
    if (p < end && (*p == ',' || *p == '_')) s.group = *p++;
    if (p < end && *p == '.') {
        p++;
        s.precision = read_int(e, &p, end);
    }
    if (p < end) s.type = *p++;
    if (p != end) jfail(e, "Invalid format specifier");
    return s;
}

static void braces(struct jev *e, const char *p, const char *end, const struct jargs *a, uint32_t *automatic, bool outermost);

static void replacement_field(struct jev *e, const char *p, const char *end, const struct jargs *a, uint32_t *automatic)
{
    const char *name_end = p;

    while (name_end < end && *name_end != '!' && *name_end != ':') name_end++;
    struct jv v = field_value(e, p, name_end, a, automatic);
    p = name_end;
    if (p < end && *p == '!') {
        char how = p + 1 < end ? p[1] : 0;
        if (how != 'r' && how != 's' && how != 'a') jfail(e, "format: expected !r, !s or !a");
        v = how == 's' ? jstr(e, v) : representation(e, v);
        if (how == 'a') v = ascii(e, v);
        p += 2;
    }
    if (p < end && *p == ':') p++;
    if (p < end && memchr(p, '{', (size_t)(end - p)) != NULL) { /* fields inside of the specification */
        size_t begin = jtext_begin(e);
        braces(e, p, end, a, automatic, false);
        struct jv inner = jtext_end(e, begin);
        p = inner.s;
        end = p + inner.len;
    }
    struct spec s = p < end ? read_spec(e, p, end) : (struct spec){.fill = " ", .fill_len = 1, .precision = -1};
    if (jv_number(v) && p < end) add_number(e, &s, v);
    else if (p < end && v.type != JV_STRING) jfail(e, "unsupported format string passed to %s.__format__", jv_type_name(v));
    else if (s.type != 0 && s.type != 's') jfail(e, "Unknown format code '%c' for object of type '%s'", s.type, jv_type_name(v));
    else add_text(e, &s, jstr(e, v));
}

static void braces(struct jev *e, const char *p, const char *end, const struct jargs *a, uint32_t *automatic, bool outermost)
{
    while (p < end) {
        if (outermost && (*p == '{' || *p == '}') && p + 1 < end && p[1] == *p) {
            buf_addc(e->out, *p);
            p += 2;
        } else if (*p == '{') {
            const char *close = p + 1;
            for (int depth = 1; close < end; close++) {
                depth += (*close == '{') - (*close == '}');
                if (depth == 0) break;
                if (depth > 2) jfail(e, "Max string recursion exceeded");
            }
            if (close == end) jfail(e, "expected '}' before end of string");
            replacement_field(e, p + 1, close, a, automatic);
            p = close + 1;
        } else if (*p == '}') {
            jfail(e, "Single '}' encountered in format string");
        } else {
            buf_addc(e->out, *p++);
        }
    }
}

struct jv jformat_braces(struct jev *e, struct jv format, const struct jargs *a)
{
    size_t begin = jtext_begin(e);
    uint32_t automatic = 0;

    braces(e, format.s, format.s + format.len, a, &automatic, true);
    return jtext_end(e, begin);
}
