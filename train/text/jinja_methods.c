/* Methods of strings, dictionaries, lists, loops and cyclers. Those of Python that change their object are not there: the sandbox forbids them. */
#include "train/text/jinja_eval.h"

#include "kernels/base/utf8.h"
#include "train/text/unicode.h"

#include <string.h>
#include <utf8proc.h>

typedef struct jv method_fn(struct jev *e, struct jv self, const struct jargs *a);

/* ---- case ---- */

enum letter_case { LOWER, UPPER, TITLE };

/* Adds the character in another case. One that becomes several capitals (Unicode's SpecialCasing without conditions) is the capitals of its case folding. */
static void add_cased(struct buf *out, const char *s, size_t n, enum letter_case to)
{
    static utf8proc_int32_t (*const simple[])(utf8proc_int32_t) = {[LOWER] = utf8proc_tolower, [UPPER] = utf8proc_toupper, [TITLE] = utf8proc_totitle};
    uint32_t cp = 0;
    char utf8[4];
    utf8proc_int32_t folded[8];

    utf8_decode(s, n, &cp);
    uint32_t c = (uint32_t)simple[to]((utf8proc_int32_t)cp);
    if (to == LOWER && cp == 0x130) {
        buf_adds(out, "i\xcc\x87");
        return;
    }
    int last = UTF8PROC_BOUNDCLASS_START;
    bool single = to == LOWER || cp < 0x80 || (c != cp && to == TITLE) || utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_LU;
    utf8proc_ssize_t k = single ? 1 : utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 8, UTF8PROC_CASEFOLD, &last);
    if (k < 2 || k > 8) {
        buf_add(out, utf8, (size_t)utf8_encode(c, utf8));
        return;
    }
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        c = (uint32_t)(to == TITLE && i > 0 ? folded[i] : utf8proc_toupper(folded[i]));
        buf_add(out, utf8, (size_t)utf8_encode(c, utf8));
    }
}

/* A capital sigma is a final one behind a letter and not before one. */
static bool final_sigma(struct jv v, size_t at)
{
    int n;
    size_t before = at;

    if (at == 0 || at + 2 > v.len || memcmp(v.s + at, "\xce\xa3", 2) != 0) return false;
    do before--;
    while (before > 0 && ((unsigned char)v.s[before] & 0xC0) == 0x80);
    if (!(unicode_class_at(v.s, v.len, before, &n) & UC_LETTER)) return false;
    return at + 2 == v.len || !(unicode_class_at(v.s, v.len, at + 2, &n) & UC_LETTER);
}

/* first: the case of the first letter of the string (capitalize) or of each run of letters (title). */
static struct jv recase(struct jev *e, struct jv v, enum letter_case rest, bool first_up, bool every_word)
{
    size_t begin = jtext_begin(e);
    bool begins = true;

    jsteps(e, v.len / 8);
    for (size_t i = 0, n; i < v.len; i += n) {
        int k;
        unsigned c = unicode_class_at(v.s, v.len, i, &k);
        n = (size_t)k;
        if (rest == LOWER && !(first_up && begins) && final_sigma(v, i)) buf_adds(e->out, "\xcf\x82");
        else add_cased(e->out, v.s + i, n, first_up && begins ? TITLE : rest);
        begins = every_word && !(c & UC_LETTER);
    }
    return jtext_end(e, begin);
}

static struct jv s_lower(struct jev *e, struct jv v, const struct jargs *a) { return recase(e, v, LOWER, false, false); }
static struct jv s_upper(struct jev *e, struct jv v, const struct jargs *a) { return recase(e, v, UPPER, false, false); }
static struct jv s_capitalize(struct jev *e, struct jv v, const struct jargs *a) { return recase(e, v, LOWER, true, false); }
static struct jv s_title(struct jev *e, struct jv v, const struct jargs *a) { return recase(e, v, LOWER, true, true); }

static struct jv s_swapcase(struct jev *e, struct jv v, const struct jargs *a)
{
    size_t begin = jtext_begin(e);

    for (size_t i = 0; i < v.len;) {
        int n;
        unsigned c = unicode_class_at(v.s, v.len, i, &n);
        if (final_sigma(v, i)) buf_adds(e->out, "\xcf\x82");
        else add_cased(e->out, v.s + i, (size_t)n, c & UC_UPPER ? LOWER : UPPER);
        i += (size_t)n;
    }
    return jtext_end(e, begin);
}

static struct jv s_casefold(struct jev *e, struct jv v, const struct jargs *a)
{
    size_t begin = jtext_begin(e);
    char utf8[4];

    jsteps(e, v.len / 8);
    for (size_t i = 0, n; i < v.len; i += n) {
        utf8proc_int32_t folded[8];
        uint32_t cp = 0;
        int last = UTF8PROC_BOUNDCLASS_START;
        n = (size_t)utf8_decode(v.s + i, v.len - i, &cp);
        utf8proc_ssize_t k = utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 8, UTF8PROC_CASEFOLD, &last);
        for (utf8proc_ssize_t j = 0; j < k && j < 8; j++) buf_add(e->out, utf8, (size_t)utf8_encode((uint32_t)folded[j], utf8));
    }
    return jtext_end(e, begin);
}

/* ---- ends ---- */

static bool in_set(struct jv set, const char *c, size_t n)
{
    return memmem(set.s, set.len, c, n) != NULL;
}

/* Takes characters of `chars` (None: white space) off the left, the right, or both. */
static struct jv strip(struct jev *e, struct jv v, const struct jargs *a, bool left, bool right)
{
    struct jv chars = jarg(a, 0, "chars", jv_none());
    size_t begin = 0, end = v.len;

    if (chars.type != JV_NONE && chars.type != JV_STRING) jfail(e, "strip arg must be None or str, not %s", jv_type_name(chars));
    jsteps(e, v.len / 16);
    while (left && begin < end) {
        uint32_t cp = 0;
        int n = utf8_decode(v.s + begin, end - begin, &cp);
        if (n == 0 || !(chars.type == JV_NONE ? jv_space(cp) : in_set(chars, v.s + begin, (size_t)n))) break;
        begin += (size_t)n;
    }
    while (right && end > begin) {
        size_t at = end - 1;
        uint32_t cp = 0;
        while (at > begin && ((unsigned char)v.s[at] & 0xC0) == 0x80) at--;
        utf8_decode(v.s + at, end - at, &cp);
        if (!(chars.type == JV_NONE ? jv_space(cp) : in_set(chars, v.s + at, end - at))) break;
        end = at;
    }
    return jv_string(v.s + begin, end - begin);
}

static struct jv s_strip(struct jev *e, struct jv v, const struct jargs *a) { return strip(e, v, a, true, true); }
static struct jv s_lstrip(struct jev *e, struct jv v, const struct jargs *a) { return strip(e, v, a, true, false); }
static struct jv s_rstrip(struct jev *e, struct jv v, const struct jargs *a) { return strip(e, v, a, false, true); }

static bool begins(struct jv v, struct jv with) { return v.len >= with.len && memcmp(v.s, with.s, with.len) == 0; }
static bool ends(struct jv v, struct jv with) { return v.len >= with.len && memcmp(v.s + v.len - with.len, with.s, with.len) == 0; }

/* The part of v that arguments 1 and 2 (start and end, in code points, negative ones from the end) leave; false: start lies behind the end of v. */
static bool window(struct jev *e, struct jv v, const struct jargs *a, size_t *begin, size_t *end)
{
    *begin = 0;
    *end = v.len;
    if (a->n < 2) return true;
    int64_t n = (int64_t)jv_length(v.s, v.len), from = jarg_int(e, a, 1, NULL, 0), to = jarg_int(e, a, 2, NULL, n);
    if (from < 0) from = from + n < 0 ? 0 : from + n;
    if (to < 0) to = to + n < 0 ? 0 : to + n;
    *begin = jv_offset(v.s, v.len, (size_t)from);
    *end = jv_offset(v.s, v.len, (size_t)to);
    jsteps(e, v.len / 8);
    return from <= n && from <= to;
}

/* One string, or any of a tuple. */
static struct jv any_end(struct jev *e, struct jv v, const struct jargs *a, bool (*is)(struct jv, struct jv))
{
    struct jv with = jarg(a, 0, NULL, jv_none());
    size_t begin, end;

    bool inside = window(e, v, a, &begin, &end);
    v = inside ? jv_string(v.s + begin, end - begin) : v;
    if (with.type == JV_STRING && !inside) return jv_bool(false);
    if (with.type == JV_STRING) return jv_bool(is(v, with));
    if (with.type != JV_LIST || with.kind != JV_A_TUPLE) jfail(e, "first arg must be str or a tuple of str, not %s", jv_type_name(with));
    for (uint32_t i = 0; i < with.list->n; i++) {
        if (with.list->items[i].type != JV_STRING) jfail(e, "a tuple of str is expected, found %s in it", jv_type_name(with.list->items[i]));
        if (inside && is(v, with.list->items[i])) return jv_bool(true);
    }
    return jv_bool(false);
}

static struct jv s_startswith(struct jev *e, struct jv v, const struct jargs *a) { return any_end(e, v, a, begins); }
static struct jv s_endswith(struct jev *e, struct jv v, const struct jargs *a) { return any_end(e, v, a, ends); }

static struct jv s_removeprefix(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv p = jarg_string(e, a, 0, "prefix");

    return begins(v, p) ? jv_string(v.s + p.len, v.len - p.len) : v;
}

static struct jv s_removesuffix(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv p = jarg_string(e, a, 0, "suffix");

    return ends(v, p) ? jv_string(v.s, v.len - p.len) : v;
}

/* ---- searching ---- */

static const char *search(struct jv v, size_t from, struct jv what)
{
    return what.len == 0 ? v.s + from : memmem(v.s + from, v.len - from, what.s, what.len);
}

static const char *search_back(struct jv v, size_t end, struct jv what)
{
    for (size_t at = end; at + 1 > 0; at--)
        if (v.len - at >= what.len && at + what.len <= end && memcmp(v.s + at, what.s, what.len) == 0) return v.s + at;
    return NULL;
}

static struct jv find(struct jev *e, struct jv v, const struct jargs *a, bool back, bool must)
{
    struct jv what = jarg_string(e, a, 0, "sub");
    size_t begin, end;

    bool inside = window(e, v, a, &begin, &end);
    jsteps(e, v.len / 16 + (back ? v.len : 0));
    const char *hit = !inside ? NULL : back ? search_back(v, end, what) : search(jv_string(v.s, end), begin, what);
    if (hit != NULL && (size_t)(hit - v.s) < begin) hit = NULL;
    if (hit == NULL && must) jfail(e, "substring not found");
    return jv_int(hit ? (int64_t)jv_length(v.s, (size_t)(hit - v.s)) : -1);
}

static struct jv s_find(struct jev *e, struct jv v, const struct jargs *a) { return find(e, v, a, false, false); }
static struct jv s_rfind(struct jev *e, struct jv v, const struct jargs *a) { return find(e, v, a, true, false); }
static struct jv s_index(struct jev *e, struct jv v, const struct jargs *a) { return find(e, v, a, false, true); }
static struct jv s_rindex(struct jev *e, struct jv v, const struct jargs *a) { return find(e, v, a, true, true); }

static struct jv s_count(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv what = jarg_string(e, a, 0, "sub");
    int64_t n = 0;
    size_t begin, end;

    if (!window(e, v, a, &begin, &end)) return jv_int(0);
    v = jv_string(v.s + begin, end - begin);
    jsteps(e, v.len / 16);
    if (what.len == 0) return jv_int((int64_t)jv_length(v.s, v.len) + 1);
    for (const char *p = v.s; (p = search(v, (size_t)(p - v.s), what)) != NULL; p += what.len) n++;
    return jv_int(n);
}

static struct jv s_replace(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv from = jarg_string(e, a, 0, "old"), to = jarg_string(e, a, 1, "new");
    int64_t most = jarg_int(e, a, 2, "count", -1);
    size_t begin = jtext_begin(e), at = 0;

    for (int64_t n = 0; most < 0 || n < most; n++) {
        const char *hit = search(v, at, from);
        if (hit == NULL) break;
        size_t found = (size_t)(hit - v.s);
        jsteps(e, 1 + (found - at) / 16);
        buf_add(e->out, v.s + at, found - at);
        buf_add(e->out, to.s, to.len);
        at = found + from.len;
        if (from.len == 0) { /* between all characters, and at both ends */
            if (at == v.len) break;
            size_t next = jv_offset(v.s + at, v.len - at, 1);
            buf_add(e->out, v.s + at, next);
            at += next;
        }
        if (e->out->len > JINJA_MAX_OUTPUT) jfail(e, "a string of more than 256 MiB");
    }
    buf_add(e->out, v.s + at, v.len - at);
    return jtext_end(e, begin);
}

/* ---- cutting ---- */

static void push_part(struct jev *e, struct jv out, const char *s, size_t n)
{
    jpush(e, out, jv_string(s, n));
}

static size_t skip_spaces(struct jv v, size_t at, bool spaces)
{
    while (at < v.len) {
        uint32_t cp = 0;
        int n = utf8_decode(v.s + at, v.len - at, &cp);
        if (n == 0 || jv_space(cp) != spaces) break;
        at += (size_t)n;
    }
    return at;
}

static struct jv split_spaces(struct jev *e, struct jv v, int64_t most)
{
    struct jv out = jv_new_list(&e->pool, JV_A_LIST, 0);

    for (size_t at = skip_spaces(v, 0, true), end; at < v.len; at = skip_spaces(v, end, true)) {
        end = skip_spaces(v, at, false);
        if (most >= 0 && (int64_t)out.list->n >= most) {
            push_part(e, out, v.s + at, v.len - at); /* white space at the end stays */
            break;
        }
        push_part(e, out, v.s + at, end - at);
    }
    return out;
}

static struct jv s_split(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv by = jarg(a, 0, "sep", jv_none()), out;
    int64_t most = jarg_int(e, a, 1, "maxsplit", -1);
    size_t at = 0;

    jsteps(e, v.len / 16);
    if (by.type == JV_NONE) return split_spaces(e, v, most);
    by = jarg_string(e, a, 0, "sep");
    if (by.len == 0) jfail(e, "empty separator");
    out = jv_new_list(&e->pool, JV_A_LIST, 0);
    for (const char *hit; (most < 0 || (int64_t)out.list->n < most) && (hit = search(v, at, by)) != NULL; at = (size_t)(hit - v.s) + by.len)
        push_part(e, out, v.s + at, (size_t)(hit - v.s) - at);
    push_part(e, out, v.s + at, v.len - at);
    return out;
}

static struct jv reversed(struct jev *e, struct jv list)
{
    struct jv out = jv_new_list(&e->pool, JV_A_LIST, list.list->n);

    for (uint32_t i = list.list->n; i-- > 0;) jpush(e, out, list.list->items[i]);
    return out;
}

static struct jv s_rsplit(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv by = jarg(a, 0, "sep", jv_none()), out = jv_new_list(&e->pool, JV_A_LIST, 0);
    int64_t most = jarg_int(e, a, 1, "maxsplit", -1);
    size_t end = v.len;

    if (most < 0) return s_split(e, v, a);
    jsteps(e, v.len);
    if (by.type == JV_NONE) {
        while (end > 0 && (int64_t)out.list->n < most) {
            struct jv head = strip(e, jv_string(v.s, end), &(struct jargs){0}, false, true);
            size_t begin = head.len;
            if (begin == 0) break;
            while (begin > 0) {
                size_t c = begin - 1;
                uint32_t cp = 0;
                while (c > 0 && ((unsigned char)v.s[c] & 0xC0) == 0x80) c--;
                utf8_decode(v.s + c, begin - c, &cp);
                if (jv_space(cp)) break;
                begin = c;
            }
            push_part(e, out, v.s + begin, head.len - begin);
            end = begin;
        }
        struct jv head = strip(e, jv_string(v.s, end), &(struct jargs){0}, false, true);
        if (head.len > 0) jpush(e, out, head);
        return reversed(e, out);
    }
    by = jarg_string(e, a, 0, "sep");
    if (by.len == 0) jfail(e, "empty separator");
    for (const char *hit; (int64_t)out.list->n < most && (hit = search_back(v, end, by)) != NULL; end = (size_t)(hit - v.s)) {
        size_t from = (size_t)(hit - v.s) + by.len;
        push_part(e, out, v.s + from, end - from);
    }
    push_part(e, out, v.s, end);
    return reversed(e, out);
}

/* Bytes of the line end at v[at]: \n \r \r\n \v \f \x1c-\x1e \x85 U+2028 U+2029; 0: none. */
static size_t line_end(struct jv v, size_t at)
{
    unsigned char c = (unsigned char)v.s[at];

    if (c == '\r') return at + 1 < v.len && v.s[at + 1] == '\n' ? 2 : 1;
    if ((c >= '\n' && c <= '\f') || (c >= 0x1C && c <= 0x1E)) return 1;
    if (v.len - at >= 2 && memcmp(v.s + at, "\xc2\x85", 2) == 0) return 2;
    return v.len - at >= 3 && (memcmp(v.s + at, "\xe2\x80\xa8", 3) == 0 || memcmp(v.s + at, "\xe2\x80\xa9", 3) == 0) ? 3 : 0;
}

static struct jv s_splitlines(struct jev *e, struct jv v, const struct jargs *a)
{
    bool keep = jv_truth(jarg(a, 0, "keepends", jv_bool(false)));
    struct jv out = jv_new_list(&e->pool, JV_A_LIST, 0);
    size_t begin = 0;

    jsteps(e, v.len / 8);
    for (size_t at = 0, n; at < v.len; at += n ? n : 1) {
        n = line_end(v, at);
        if (n == 0) continue;
        push_part(e, out, v.s + begin, at - begin + (keep ? n : 0));
        begin = at + n;
    }
    if (begin < v.len) push_part(e, out, v.s + begin, v.len - begin);
    return out;
}

static struct jv partition(struct jev *e, struct jv v, const struct jargs *a, bool back)
{
    struct jv by = jarg_string(e, a, 0, "sep"), out = jv_new_list(&e->pool, JV_A_TUPLE, 3);

    if (by.len == 0) jfail(e, "empty separator");
    jsteps(e, v.len / 16 + (back ? v.len : 0));
    const char *hit = back ? search_back(v, v.len, by) : search(v, 0, by);
    size_t at = hit ? (size_t)(hit - v.s) : 0;
    struct jv empty = jv_string("", 0);
    jpush(e, out, hit ? jv_string(v.s, at) : back ? empty : v);
    jpush(e, out, hit ? by : empty);
    jpush(e, out, hit ? jv_string(v.s + at + by.len, v.len - at - by.len) : back ? v : empty);
    return out;
}

static struct jv s_partition(struct jev *e, struct jv v, const struct jargs *a) { return partition(e, v, a, false); }
static struct jv s_rpartition(struct jev *e, struct jv v, const struct jargs *a) { return partition(e, v, a, true); }

static struct jv s_join(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv_list *l = jiterate(e, jarg(a, 0, NULL, jv_none()));
    struct jv out = jv_string("", 0);

    for (uint32_t i = 0; i < l->n; i++) {
        if (l->items[i].type != JV_STRING) jfail(e, "sequence item %u: expected str instance, %s found", i, jv_type_name(l->items[i]));
        if (i > 0) out = jconcat(e, out, v);
        out = jconcat(e, out, l->items[i]);
    }
    return out;
}

/* ---- padding ---- */

static struct jv pad(struct jev *e, struct jv v, const struct jargs *a, bool left, bool right)
{
    struct jv fill = jarg(a, 1, "fillchar", jv_string(" ", 1));
    int64_t width = jarg_int(e, a, 0, "width", 0), n = (int64_t)jv_length(v.s, v.len), more = width - n;

    if (fill.type != JV_STRING || jv_length(fill.s, fill.len) != 1) jfail(e, "The fill character must be exactly one character long");
    if (more <= 0) return v;
    /* Python's center leans left where width and remainder are odd. */
    int64_t before = !left ? 0 : !right ? more : more / 2 + (more & width & 1);
    struct jv head = jbinary(e, JOP_MUL, fill, jv_int(before)), tail = jbinary(e, JOP_MUL, fill, jv_int(more - before));
    return jconcat(e, jconcat(e, head, v), tail);
}

static struct jv s_ljust(struct jev *e, struct jv v, const struct jargs *a) { return pad(e, v, a, false, true); }
static struct jv s_rjust(struct jev *e, struct jv v, const struct jargs *a) { return pad(e, v, a, true, false); }
static struct jv s_center(struct jev *e, struct jv v, const struct jargs *a) { return pad(e, v, a, true, true); }

static struct jv s_zfill(struct jev *e, struct jv v, const struct jargs *a)
{
    bool sign = v.len > 0 && (v.s[0] == '-' || v.s[0] == '+');
    struct jv list[2] = {jv_int(jarg_int(e, a, 0, "width", 0) - sign), jv_string("0", 1)};
    struct jv digits = pad(e, jv_string(v.s + sign, v.len - sign), &(struct jargs){.at = list, .n = 2}, true, false);

    return jconcat(e, jv_string(v.s, sign), digits);
}

/* ---- classes ---- */

/* Every character is of one of the classes, and there is one. */
static struct jv all(struct jv v, unsigned classes)
{
    for (size_t i = 0; i < v.len;) {
        int n;
        if (!(unicode_class_at(v.s, v.len, i, &n) & classes)) return jv_bool(false);
        i += (size_t)n;
    }
    return jv_bool(v.len > 0);
}

static struct jv s_isalpha(struct jev *e, struct jv v, const struct jargs *a) { return all(v, UC_LETTER); }
static struct jv s_isnumeric(struct jev *e, struct jv v, const struct jargs *a) { return all(v, UC_NUMBER); }
static struct jv s_isalnum(struct jev *e, struct jv v, const struct jargs *a) { return all(v, UC_LETTER | UC_NUMBER); }

/* Decimal digits; with others, also those in circles, brackets or raised (Numeric_Type=Digit). */
static struct jv digits(struct jv v, bool others)
{
    static const uint32_t ranges[][2] = {
        {0xB2, 0xB3}, {0xB9, 0xB9}, {0x1369, 0x1371}, {0x19DA, 0x19DA}, {0x2070, 0x2070}, {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247C},
        {0x2488, 0x2490}, {0x24EA, 0x24EA}, {0x24F5, 0x24FD}, {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788}, {0x278A, 0x2792}, {0x10A40, 0x10A43},
        {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
    };

    for (size_t i = 0, n; i < v.len; i += n) {
        uint32_t cp = 0;
        n = (size_t)utf8_decode(v.s + i, v.len - i, &cp);
        bool good = utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND;
        for (size_t k = 0; others && k < sizeof ranges / sizeof *ranges; k++) good |= cp >= ranges[k][0] && cp <= ranges[k][1];
        if (!good) return jv_bool(false);
    }
    return jv_bool(v.len > 0);
}

static struct jv s_isdecimal(struct jev *e, struct jv v, const struct jargs *a) { return digits(v, false); }
static struct jv s_isdigit(struct jev *e, struct jv v, const struct jargs *a) { return digits(v, true); }

static struct jv s_isprintable(struct jev *e, struct jv v, const struct jargs *a)
{
    for (size_t i = 0, n; i < v.len; i += n) {
        uint32_t cp = 0;
        n = (size_t)utf8_decode(v.s + i, v.len - i, &cp);
        if (!jv_printable(cp)) return jv_bool(false);
    }
    return jv_bool(true);
}

static struct jv s_isidentifier(struct jev *e, struct jv v, const struct jargs *a)
{
    int n;

    return jv_bool(v.len > 0 && (v.s[0] == '_' || (unicode_class_at(v.s, v.len, 0, &n) & UC_LETTER)) && all(v, UC_WORD).b);
}

/* Every run of letters with a case begins with a capital, which stands nowhere else. */
static struct jv s_istitle(struct jev *e, struct jv v, const struct jargs *a)
{
    bool inside = false, any = false;

    for (size_t i = 0; i < v.len;) {
        int n;
        unsigned c = unicode_class_at(v.s, v.len, i, &n);
        if ((c & UC_UPPER && inside) || (c & UC_LOWER && !inside)) return jv_bool(false);
        inside = (c & (UC_UPPER | UC_LOWER)) != 0;
        any |= inside;
        i += (size_t)n;
    }
    return jv_bool(any);
}

static struct jv s_expandtabs(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t size = jarg_int(e, a, 0, "tabsize", 8), column = 0;
    size_t begin = jtext_begin(e);

    if (size > 1000) jfail(e, "expandtabs: a tab of %lld columns", (long long)size);
    jsteps(e, v.len);
    for (size_t i = 0; i < v.len; i++) {
        char c = v.s[i];
        if (c == '\t') {
            for (int64_t k = size > 0 ? size - column % size : 0; k > 0; k--, column++) buf_addc(e->out, ' ');
            if (e->out->len > JINJA_MAX_OUTPUT) jfail(e, "a string of more than 256 MiB");
            continue;
        }
        buf_addc(e->out, c);
        if (((unsigned char)c & 0xC0) != 0x80) column++;
        if (c == '\n' || c == '\r') column = 0;
    }
    return jtext_end(e, begin);
}

static struct jv s_isspace(struct jev *e, struct jv v, const struct jargs *a) { return jv_bool(v.len > 0 && skip_spaces(v, 0, true) == v.len); }
static struct jv s_islower(struct jev *e, struct jv v, const struct jargs *a) { return jv_bool(jtest(e, "lower", v, a)); }
static struct jv s_isupper(struct jev *e, struct jv v, const struct jargs *a) { return jv_bool(jtest(e, "upper", v, a)); }

static struct jv s_isascii(struct jev *e, struct jv v, const struct jargs *a)
{
    for (uint32_t i = 0; i < v.len; i++)
        if ((unsigned char)v.s[i] >= 0x80) return jv_bool(false);
    return jv_bool(true);
}

static struct jv s_format(struct jev *e, struct jv v, const struct jargs *a) { return jformat_braces(e, v, a); }

/* ---- dictionaries and lists ---- */

static struct jv d_get(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv out = jarg(a, 1, "default", jv_none());

    jsteps(e, v.dict->n);
    jv_get(v.dict, jarg(a, 0, "key", jv_none()), &out);
    return out;
}

static struct jv view(struct jev *e, const struct jv_dict *d, bool keys, bool values)
{
    struct jv out = jv_new_list(&e->pool, keys && values ? JV_A_VIEW : keys ? JV_A_KEYS : JV_A_VALUES, d->n);

    for (uint32_t i = 0; i < d->n; i++) {
        struct jv pair = keys ? d->keys[i] : d->values[i];
        if (keys && values) {
            pair = jv_new_list(&e->pool, JV_A_TUPLE, 2);
            jpush(e, pair, d->keys[i]);
            jpush(e, pair, d->values[i]);
        }
        jpush(e, out, pair);
    }
    return out;
}

static struct jv d_items(struct jev *e, struct jv v, const struct jargs *a) { return view(e, v.dict, true, true); }
static struct jv d_keys(struct jev *e, struct jv v, const struct jargs *a) { return view(e, v.dict, true, false); }
static struct jv d_values(struct jev *e, struct jv v, const struct jargs *a) { return view(e, v.dict, false, true); }
static struct jv same(struct jev *e, struct jv v, const struct jargs *a) { return v; } /* nothing can change a copy either */

static struct jv l_index(struct jev *e, struct jv v, const struct jargs *a)
{
    jsteps(e, v.list->n);
    for (uint32_t i = 0; i < v.list->n; i++)
        if (jv_equal(v.list->items[i], jarg(a, 0, NULL, jv_none()))) return jv_int(i);
    jfail(e, "the value is not in the list");
}

static struct jv l_count(struct jev *e, struct jv v, const struct jargs *a)
{
    int64_t n = 0;

    jsteps(e, v.list->n);
    for (uint32_t i = 0; i < v.list->n; i++) n += jv_equal(v.list->items[i], jarg(a, 0, NULL, jv_none()));
    return jv_int(n);
}

/* ---- loops and cyclers ---- */

static struct jv loop_cycle(struct jev *e, struct jv v, const struct jargs *a)
{
    if (a->n == 0) jfail(e, "no items for cycling given");
    return a->at[v.loop->index0 % a->n];
}

static struct jv loop_changed(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv now = jv_new_list(&e->pool, JV_A_TUPLE, a->n);

    for (uint32_t i = 0; i < a->n; i++) jpush(e, now, a->at[i]);
    bool changed = v.loop->changed.type == JV_UNDEFINED || !jv_equal(v.loop->changed, now);
    v.loop->changed = now;
    return jv_bool(changed);
}

static struct jv cycler_next(struct jev *e, struct jv v, const struct jargs *a)
{
    struct jv_cycler *c = v.cycler;
    struct jv item = c->items.items[c->at];

    c->at = (c->at + 1) % c->items.n;
    return item;
}

static struct jv cycler_reset(struct jev *e, struct jv v, const struct jargs *a)
{
    v.cycler->at = 0;
    return jv_none();
}

static const struct jmethod of_string[] = {
    {"capitalize", s_capitalize}, {"casefold", s_casefold}, {"center", s_center}, {"count", s_count}, {"endswith", s_endswith}, {"expandtabs", s_expandtabs}, {"find", s_find},
    {"format", s_format}, {"index", s_index}, {"isalnum", s_isalnum}, {"isalpha", s_isalpha}, {"isascii", s_isascii}, {"isdecimal", s_isdecimal},
    {"isdigit", s_isdigit}, {"isidentifier", s_isidentifier}, {"islower", s_islower}, {"isnumeric", s_isnumeric}, {"isprintable", s_isprintable},
    {"isspace", s_isspace}, {"istitle", s_istitle}, {"isupper", s_isupper}, {"join", s_join},
    {"ljust", s_ljust}, {"lower", s_lower}, {"lstrip", s_lstrip}, {"partition", s_partition}, {"removeprefix", s_removeprefix},
    {"removesuffix", s_removesuffix}, {"replace", s_replace}, {"rfind", s_rfind}, {"rindex", s_rindex}, {"rjust", s_rjust}, {"rpartition", s_rpartition},
    {"rsplit", s_rsplit}, {"rstrip", s_rstrip}, {"split", s_split}, {"splitlines", s_splitlines}, {"startswith", s_startswith}, {"strip", s_strip},
    {"swapcase", s_swapcase}, {"title", s_title}, {"upper", s_upper}, {"zfill", s_zfill}, {0},
};
static const struct jmethod of_dict[] = {{"copy", same}, {"get", d_get}, {"items", d_items}, {"keys", d_keys}, {"values", d_values}, {0}};
static const struct jmethod of_list[] = {{"copy", same}, {"count", l_count}, {"index", l_index}, {0}};
static const struct jmethod of_loop[] = {{"changed", loop_changed}, {"cycle", loop_cycle}, {0}};
static const struct jmethod of_cycler[] = {{"next", cycler_next}, {"reset", cycler_reset}, {0}};

const struct jmethod *jmethod_of(struct jv v, const char *name, size_t len)
{
    const struct jmethod *m = v.type == JV_STRING ? of_string : v.type == JV_DICT ? of_dict : v.type == JV_LIST && v.kind <= JV_A_TUPLE ? of_list
                            : v.type == JV_LOOP ? of_loop : v.type == JV_CYCLER ? of_cycler : NULL;

    for (; m != NULL && m->name != NULL; m++)
        if (strlen(m->name) == len && memcmp(m->name, name, len) == 0) return m;
    return NULL;
}
