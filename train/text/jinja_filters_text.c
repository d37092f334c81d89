/* Filters that work on text. */
#include "train/text/jinja_filters.h"

#include "kernels/base/utf8.h"
#include "train/text/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct jargs no_arguments = {0};

/* What a method of strings makes of str(v). */
static struct jv text(struct jev *e, struct jv v, const char *method, const struct jargs *a)
{
    struct jv s = jstr(e, v);

    s.kind = 0;
    return jmethod_of(s, method, strlen(method))->call(e, s, a);
}

static struct jv f_lower(struct jev *e, struct jv v, const struct jargs *a) { return text(e, v, "lower", &no_arguments); }
static struct jv f_upper(struct jev *e, struct jv v, const struct jargs *a) { return text(e, v, "upper", &no_arguments); }
static struct jv f_capitalize(struct jev *e, struct jv v, const struct jargs *a) { return text(e, v, "capitalize", &no_arguments); }
static struct jv f_trim(struct jev *e, struct jv v, const struct jargs *a) { return text(e, v, "strip", a); }
static struct jv f_string(struct jev *e, struct jv v, const struct jargs *a) { return jstr(e, v); }

static struct jv f_center(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv width = jv_int(jarg_int(e, a, 0, "width", 80));

    return text(e, v, "center", &(struct jargs){.at = &width, .n = 1});
}

static struct jv f_replace(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv list[3] = {jstr(e, jarg(a, 0, "old", jv_string("", 0))), jstr(e, jarg(a, 1, "new", jv_string("", 0))), jarg(a, 2, "count", jv_none())};

    return text(e, v, "replace", &(struct jargs){.at = list, .n = list[2].type == JV_NONE ? 2 : 3});
}

static struct jv f_safe(struct jev *e, struct jv v, const struct jargs *a)
{
    v = jstr(e, v);
    v.kind = 1;
    return v;
}

static struct jv f_escape(struct jev *e, struct jv v, const struct jargs *a)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};

    if (v.type == JV_STRING && v.kind == 1) return v;
    v = jstr(e, v);
    size_t begin = jtext_begin(e);
    for (uint32_t i = 0; i < v.len; i++) {
        const char *k = v.s[i] ? strchr(from, v.s[i]) : NULL;
        if (k != NULL) buf_adds(e->out, to[k - from]);
        else buf_addc(e->out, v.s[i]);
    }
    v = jtext_end(e, begin);
    v.kind = 1;
    return v;
}

static struct jv f_forceescape(struct jev *e, struct jv v, const struct jargs *a)
{
    v = jstr(e, v);
    v.kind = 0;
    return f_escape(e, v, a);
}

/* First letters of words are capitals; words begin behind white space and - ( { [ <. */
static struct jv f_title(struct jev *e, struct jv v, const struct jargs *a)
{
    bool begins = true;

    v = jstr(e, v);
    size_t begin = jtext_begin(e);
    for (size_t i = 0, n; i < v.len; i += n) {
        uint32_t cp = 0;
        n = jv_offset(v.s + i, v.len - i, 1);
        utf8_decode(v.s + i, n, &cp);
        bool between = jv_space(cp) || (cp < 0x80 && cp != 0 && strchr("-({[<", (int)cp) != NULL);
        struct jv c = text(e, jv_string(v.s + i, n), begins ? "upper" : "lower", &no_arguments);
        buf_add(e->out, c.s, c.len);
        begins = between;
    }
    return jtext_end(e, begin);
}

static struct jv f_indent(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv width = jarg(a, 0, "width", jv_int(4)), indent = width;
    bool first = jv_truth(jarg(a, 1, "first", jv_bool(false))), blank = jv_truth(jarg(a, 2, "blank", jv_bool(false)));

    if (v.type != JV_STRING) jfail(e, "indent: a string is expected, not %s", jv_type_name(v));
    if (width.type != JV_STRING) indent = jbinary(e, JOP_MUL, jv_string(" ", 1), width);
    v = jconcat(e, jstr(e, v), jv_string("\n", 1));
    struct jv lines = text(e, v, "splitlines", &no_arguments);
    size_t begin = jtext_begin(e);
    for (uint32_t i = 0; i < lines.list->n; i++) {
        struct jv line = lines.list->items[i];
        if (i > 0) buf_addc(e->out, '\n');
        if (i == 0 ? first : blank || line.len > 0) buf_add(e->out, indent.s, indent.len);
        buf_add(e->out, line.s, line.len);
        jsteps(e, 1);
        if (e->out->len > JINJA_MAX_OUTPUT) jfail(e, "a string of more than 256 MiB");
    }
    return jtext_end(e, begin);
}

static struct jv f_truncate(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t length = jarg_int(e, a, 0, "length", 255), leeway = jarg_int(e, a, 3, "leeway", 5);
    bool killwords = jv_truth(jarg(a, 1, "killwords", jv_bool(false)));
    struct jv end = jstr(e, jarg(a, 2, "end", jv_string("...", 3)));
    int64_t tail = (int64_t)jv_length(end.s, end.len);

    if (length < tail || leeway < 0) jfail(e, "expected length >= %lld, got %lld", (long long)tail, (long long)length);
    if (jinteger(jfilter(e, "length", v, &no_arguments)) <= length + leeway) return v;
    if (v.type != JV_STRING) jfail(e, "truncate: a string is expected, not %s", jv_type_name(v));
    size_t cut = jv_offset(v.s, v.len, (size_t)(length - tail));
    if (!killwords) {
        size_t space = cut;
        while (space > 0 && v.s[space - 1] != ' ') space--;
        if (space > 0) cut = space - 1;
    }
    return jconcat(e, jv_string(v.s, cut), end);
}

static void add_quoted(struct jev *e, struct jv v, bool query)
{
    v = jstr(e, v);
    for (uint32_t i = 0; i < v.len; i++) {
        unsigned char c = (unsigned char)v.s[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c != 0 && strchr(query ? "_.-~" : "_.-~/", c) != NULL);
        if (plain) buf_addc(e->out, (char)c);
        else if (query && c == ' ') buf_addc(e->out, '+');
        else buf_addf(e->out, "%%%02X", c);
    }
}

/* Of a string; of a mapping or pairs a query: a=1&b=2. */
static struct jv f_urlencode(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv_list *pairs = v.type == JV_LIST || v.type == JV_UNDEFINED ? jiterate(e, v) : NULL;

    if (v.type == JV_DICT) pairs = jmethod_of(v, "items", 5)->call(e, v, &no_arguments).list;
    size_t begin = jtext_begin(e);
    if (pairs == NULL) add_quoted(e, v, false);
    for (uint32_t i = 0; pairs != NULL && i < pairs->n; i++) {
        struct jv_list *pair = jiterate(e, pairs->items[i]);
        if (pair->n != 2) jfail(e, "urlencode: pairs are expected, found %u values", pair->n);
        if (i > 0) buf_addc(e->out, '&');
        add_quoted(e, pair->items[0], true);
        buf_addc(e->out, '=');
        add_quoted(e, pair->items[1], true);
    }
    return jtext_end(e, begin);
}

static struct jv f_xmlattr(struct jev *e, struct jv v, const struct jargs *a)
{
    bool space = jv_truth(jarg(a, 0, "autospace", jv_bool(true)));

    if (v.type != JV_DICT) jfail(e, "'%s' object has no attribute 'items'", jv_type_name(v));
    size_t begin = jtext_begin(e);
    for (uint32_t i = 0; i < v.dict->n; i++) {
        struct jv key = jstr(e, v.dict->keys[i]), value = v.dict->values[i];
        if (value.type == JV_NONE || value.type == JV_UNDEFINED) continue;
        for (uint32_t k = 0; k < key.len; k++)
            if (key.s[k] == 0 || strchr(" \t\n\r\f\v/>=", key.s[k]) != NULL) jfail(e, "Invalid character in attribute name: '%.*s'", (int)(key.len < 100 ? key.len : 100), key.s);
        struct jv name = jfilter(e, "escape", key, &no_arguments), what = jfilter(e, "escape", value, &no_arguments);
        if (space || e->out->len > begin) buf_addc(e->out, ' ');
        buf_add(e->out, name.s, name.len);
        buf_adds(e->out, "=\"");
        buf_add(e->out, what.s, what.len);
        buf_addc(e->out, '"');
    }
    return jtext_end(e, begin);
}

static struct jv f_filesizeformat(struct jev *e, struct jv v, const struct jargs *a)
{
    static const char letters[] = "kMGTPEZY";
    bool binary = jv_truth(jarg(a, 0, "binary", jv_bool(false)));
    double base = binary ? 1024 : 1000, bytes = jfilter(e, "float", v, &(struct jargs){.at = &(struct jv){.type = JV_FLOAT, .f = NAN}, .n = 1}).f;
    char out[64];
    int i = 0;

    if (isnan(bytes)) jfail(e, "filesizeformat: a number is expected, not %s", jv_type_name(v));
    if (bytes == 1) return jv_string("1 Byte", 6);
    if (bytes < base) snprintf(out, sizeof out, "%.0f Bytes", trunc(bytes) + 0.0);
    else {
        for (bytes /= base; bytes >= base && i < 7; i++) bytes /= base;
        snprintf(out, sizeof out, "%.1f %c%sB", bytes, binary && i == 0 ? 'K' : letters[i], binary ? "i" : "");
    }
    return jv_copy_string(&e->pool, out, strlen(out));
}

/* Runs of letters, digits and underscores. */
static struct jv f_wordcount(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t words = 0;
    bool inside = false;

    v = jstr(e, v);
    jsteps(e, v.len / 8);
    for (size_t i = 0, n; i < v.len; i += n) {
        uint32_t cp = 0;
        n = (size_t)utf8_decode(v.s + i, v.len - i, &cp);
        bool word = cp == '_' || (unicode_class_of(cp) & (UC_LETTER | UC_NUMBER)) != 0; /* Python's \w has no marks */
        words += word && !inside;
        inside = word;
    }
    return jv_int(words);
}

static struct jv f_format(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv args = a->n_named > 0 ? jv_new_dict(&e->pool, a->n_named) : jv_new_list(&e->pool, JV_A_TUPLE, a->n);

    for (uint32_t i = 0; a->n_named == 0 && i < a->n; i++) jpush(e, args, a->at[i]);
    for (uint32_t i = 0; i < a->n_named; i++) jv_put(&e->pool, args, jv_string(a->named[i].name, strlen(a->named[i].name)), a->named[i].value);
    return jformat_percent(e, jstr(e, v), args);
}

static struct jv f_pprint(struct jev *e, struct jv v, const struct jargs *a)
{
    struct buf b = {0};

    jv_add_repr(&b, v);
    return jtake(e, &b);
}

/* ---- lines of a width, as Python's textwrap has them ---- */

/* Text by code points. */
struct points {
    const char *s;
    uint32_t *cp, *at; /* at: where each begins; one entry more for the end */
    uint32_t n;
};

static struct points points_of(struct jev *e, struct jv v)
{
    struct points p = {.s = v.s, .cp = jalloc(e, ((size_t)v.len + 1) * sizeof *p.cp), .at = jalloc(e, ((size_t)v.len + 1) * sizeof *p.at)};

    for (size_t i = 0, n; i < v.len; i += n) {
        n = jv_offset(v.s + i, v.len - i, 1);
        utf8_decode(v.s + i, n, &p.cp[p.n]);
        p.at[p.n++] = (uint32_t)i;
    }
    p.at[p.n] = v.len;
    p.cp[p.n] = 0;
    jsteps(e, p.n);
    return p;
}

static bool wrap_space(uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool wrap_word(uint32_t c) { return c == '_' || (unicode_class_of(c) & (UC_LETTER | UC_NUMBER)) != 0; }
static bool wrap_letter(uint32_t c) { return c == '_' || (unicode_class_of(c) & UC_LETTER) != 0; }
static bool wrap_mark(uint32_t c) { return wrap_word(c) || (c != 0 && c < 0x80 && strchr("!\"'&.,?", (int)c) != NULL); }

/* Two dashes or more between words begin at i: where they end, else 0. */
static uint32_t dash_end(const struct points *p, uint32_t i)
{
    uint32_t end = i;

    if (i == 0 || !wrap_mark(p->cp[i - 1])) return 0;
    while (end < p->n && p->cp[end] == '-') end++;
    return end - i >= 2 && end < p->n && wrap_word(p->cp[end]) ? end : 0;
}

/* A word may be broken behind the hyphen at i. */
static bool breaks_behind(const struct points *p, uint32_t i)
{
    const uint32_t *c = p->cp + i;
    bool before = (i >= 2 && wrap_letter(c[-1]) && wrap_letter(c[-2])) || (i >= 3 && wrap_mark(c[-1]) && c[-2] == '-' && wrap_letter(c[-3]));

    if (!before || i + 2 >= p->n || !wrap_letter(c[1])) return false;
    return wrap_letter(c[2]) || (c[2] == '-' && i + 3 < p->n && wrap_letter(c[3]));
}

/* Where the piece that begins at i ends: white space, dashes, or a word or a part of one. */
static uint32_t piece_end(const struct points *p, uint32_t i, bool hyphens)
{
    uint32_t end = i;

    if (wrap_space(p->cp[i])) {
        while (end < p->n && wrap_space(p->cp[end])) end++;
        return end;
    }
    if (hyphens && (end = dash_end(p, i)) > 0) return end;
    for (end = i + 1; end < p->n && !wrap_space(p->cp[end]); end++) {
        if (hyphens && p->cp[end] == '-' && breaks_behind(p, end)) return end + 1;
        if (hyphens && p->cp[end] == '-' && dash_end(p, end) > 0) return end;
    }
    return end;
}

static bool blank(const struct points *p, uint32_t from, uint32_t to)
{
    while (from < to && jv_space(p->cp[from])) from++;
    return from == to;
}

/* How much of a word that is longer than a line still goes onto this one. */
static uint32_t cut_of(const struct points *p, uint32_t from, uint32_t to, uint32_t room, bool hyphens)
{
    if (hyphens && to - from > room) {
        uint32_t hyphen = from + room;
        while (hyphen > from && p->cp[hyphen - 1] != '-') hyphen--;
        for (uint32_t k = from; hyphen > from + 1 && k + 1 < hyphen; k++)
            if (p->cp[k] != '-') return hyphen - from;
    }
    return room;
}

/* One paragraph. A line is a run of the text, since nothing inside of it is changed. */
static void wrap(struct jev *e, const struct points *p, uint32_t width, bool words, bool hyphens, struct jv between, bool *any)
{
    uint32_t at = 0, end = p->n > 0 ? piece_end(p, 0, hyphens) : 0; /* the next piece */
    bool lines = false;

    while (at < p->n) {
        if (lines && blank(p, at, end)) {
            at = end;
            if (at == p->n) break;
            end = piece_end(p, at, hyphens);
        }
        uint32_t from = at, last = at; /* last: where the line's last piece begins */
        while (at < p->n && end - from <= width) {
            last = at;
            at = end;
            if (at < p->n) end = piece_end(p, at, hyphens);
        }
        if (at < p->n && end - at > width && (words || at == from)) {
            last = at;
            at = words ? at + cut_of(p, at, end, width - (at - from), hyphens) : end;
            if (at == end && at < p->n) end = piece_end(p, at, hyphens);
        }
        uint32_t to = blank(p, last, at) ? last : at;
        jsteps(e, 1);
        if (to == from) continue;
        if (*any) buf_add(e->out, between.s, between.len);
        buf_add(e->out, p->s + p->at[from], p->at[to] - p->at[from]);
        if (e->out->len > JINJA_MAX_OUTPUT) jfail(e, "a string of more than 256 MiB");
        lines = *any = true;
    }
}

static struct jv f_wordwrap(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t width = jarg_int(e, a, 0, "width", 79);
    bool words = jv_truth(jarg(a, 1, "break_long_words", jv_bool(true))), hyphens = jv_truth(jarg(a, 3, "break_on_hyphens", jv_bool(true)));
    struct jv between = jarg(a, 2, "wrapstring", jv_none());

    if (v.type != JV_STRING) jfail(e, "'%s' object has no attribute 'splitlines'", jv_type_name(v));
    if (between.type == JV_NONE) between = jv_string("\n", 1);
    if (between.type != JV_STRING) jfail(e, "wordwrap: wrapstring must be a string, not %s", jv_type_name(between));
    struct jv lines = text(e, v, "splitlines", &no_arguments);
    if (width <= 0 && lines.list->n > 0) jfail(e, "invalid width %lld (must be > 0)", (long long)width);
    size_t begin = jtext_begin(e);
    for (uint32_t i = 0; i < lines.list->n; i++) {
        struct points p = points_of(e, lines.list->items[i]);
        bool any = false;
        if (i > 0) buf_add(e->out, between.s, between.len);
        wrap(e, &p, width < UINT32_MAX ? (uint32_t)width : UINT32_MAX, words, hyphens, between, &any);
    }
    return jtext_end(e, begin);
}

/* ---- text without HTML ---- */

/* One entity behind the & at s: those of XML and numbers. There are two thousand names more, which would not be text of a template. */
static size_t add_entity(struct jev *e, const char *s, size_t len)
{
    static const struct { const char *name, *text; } names[] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\xc2\xa0"}};
    char out[4];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i].name);
        if (n > len || memcmp(names[i].name, s, n) != 0) continue;
        buf_adds(e->out, names[i].text);
        return n;
    }
    bool hex = len > 2 && s[1] == '#' && (s[2] | 32) == 'x';
    size_t at = hex ? 3 : 2, first = at;
    uint32_t cp = 0;
    for (; len > 1 && s[1] == '#' && at < len; at++) {
        int c = s[at] | 32, digit = s[at] >= '0' && s[at] <= '9' ? s[at] - '0' : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) break;
        cp = cp > 0x110000 ? cp : cp * (hex ? 16 : 10) + (uint32_t)digit;
    }
    if (at > first) {
        if (cp == 0 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) cp = 0xfffd;
        if ((cp >= 0x7f && cp < 0xa0) || (cp < ' ' && !wrap_space(cp))) jfail(e, "striptags: the character &#%u; is not supported", cp);
        buf_add(e->out, out, (size_t)utf8_encode(cp, out));
        return at + (at < len && s[at] == ';');
    }
    size_t name = 1;
    while (name < len && name < 33 && ((s[name] | 32) >= 'a' ? (s[name] | 32) <= 'z' : s[name] >= '0' && s[name] <= '9')) name++;
    if (name > 2) jfail(e, "striptags: %.*s may be an entity of HTML, of which amp, lt, gt, quot, apos, nbsp and numbers are supported", (int)name, s);
    buf_addc(e->out, '&');
    return 1;
}

/* Without tags and comments; from the first one on that has no end, all stays. */
static struct jv without_tags(struct jev *e, struct jv v)
{
    size_t begin = jtext_begin(e), at = 0;

    for (const char *hit; (hit = memchr(v.s + at, '<', v.len - at)) != NULL;) {
        size_t from = (size_t)(hit - v.s), left = v.len - from;
        bool comment = left >= 4 && memcmp(hit, "<!--", 4) == 0;
        const char *end = comment ? memmem(hit + 4, left - 4, "-->", 3) : memchr(hit, '>', left);
        if (end == NULL) break;
        buf_add(e->out, v.s + at, from - at);
        at = (size_t)(end - v.s) + (comment ? 3 : 1);
    }
    buf_add(e->out, v.s + at, v.len - at);
    return jtext_end(e, begin);
}

static struct jv f_striptags(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv space = jv_string(" ", 1);

    v = jstr(e, v);
    jsteps(e, v.len / 8);
    v = text(e, without_tags(e, v), "split", &no_arguments);
    v = jmethod_of(space, "join", 4)->call(e, space, &(struct jargs){.at = &v, .n = 1});
    size_t begin = jtext_begin(e);
    for (size_t i = 0; i < v.len;) {
        if (v.s[i] == '&') i += add_entity(e, v.s + i, v.len - i);
        else buf_addc(e->out, v.s[i++]);
    }
    return jtext_end(e, begin);
}

const struct jfilter jfilters_text[] = {
    {"capitalize", f_capitalize}, {"center", f_center}, {"e", f_escape}, {"escape", f_escape}, {"filesizeformat", f_filesizeformat}, {"forceescape", f_forceescape},
    {"format", f_format}, {"indent", f_indent}, {"lower", f_lower}, {"pprint", f_pprint}, {"replace", f_replace}, {"safe", f_safe}, {"string", f_string}, {"striptags", f_striptags},
    {"title", f_title}, {"trim", f_trim}, {"truncate", f_truncate}, {"upper", f_upper}, {"urlencode", f_urlencode}, {"wordcount", f_wordcount}, {"wordwrap", f_wordwrap},
    {"xmlattr", f_xmlattr}, {NULL, NULL},
};
