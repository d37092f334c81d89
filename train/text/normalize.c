#include "train/text/normalize.h"

#include "train/text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void normalizer_add(struct normalizer *n, enum normalize_kind kind, const char *pattern, size_t pattern_len, const char *text, size_t text_len)
{
    n->steps = xreallocarray(n->steps, n->n + 1, sizeof *n->steps);
    n->steps[n->n++] = (struct normalize_step){
        .kind = kind,
        .pattern = pattern ? xstrndup(pattern, pattern_len) : NULL, .pattern_len = pattern_len,
        .text = text ? xstrndup(text, text_len) : NULL, .text_len = text_len,
    };
}

void normalizer_free(struct normalizer *n)
{
    for (size_t i = 0; i < n->n; i++) {
        free(n->steps[i].pattern);
        free(n->steps[i].text);
        free(n->steps[i].map);
        regex_free(n->steps[i].regex);
    }
    free(n->steps);
    *n = (struct normalizer){0};
}

/* ---- reading ---- */

static enum pawl_status decode_base64(const char *s, size_t len, unsigned char **out, size_t *n, struct err *err)
{
    unsigned char *bytes = xmalloc(len / 4 * 3 + 3);
    uint32_t bits = 0;
    int have = 0;

    *n = 0;
    for (size_t i = 0; i < len && s[i] != '='; i++) {
        char c = s[i];
        int v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
        if (v < 0) {
            free(bytes);
            return err_set(err, PAWL_EFORMAT, "normalizer: precompiled_charsmap is not base64 (byte %zu)", i);
        }
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes[(*n)++] = (unsigned char)(bits >> have);
        }
    }
    *out = bytes;
    return PAWL_OK;
}

/* A SentencePiece map: size of the double array in bytes, the array, then NUL-terminated replacements. */
static enum pawl_status read_charsmap(struct normalizer *out, const struct json_value *v, struct err *err)
{
    const struct json_value *blob = json_get(v, "precompiled_charsmap");
    uint32_t size;

    if (blob == NULL || blob->type != JSON_STRING || blob->len == 0) return PAWL_OK;
    normalizer_add(out, NORMALIZE_CHARSMAP, NULL, 0, NULL, 0);
    struct normalize_step *s = &out->steps[out->n - 1];
    enum pawl_status st = decode_base64(blob->text, blob->len, &s->map, &s->map_len, err);
    if (st != PAWL_OK) return st;
    if (s->map_len < 4) return err_set(err, PAWL_EFORMAT, "normalizer: precompiled_charsmap is cut off");
    memcpy(&size, s->map, 4);
    if (size % 4 != 0 || size > s->map_len - 4) return err_set(err, PAWL_EFORMAT, "normalizer: precompiled_charsmap is cut off or damaged");
    return PAWL_OK;
}

static enum pawl_status read_replace(struct normalizer *out, const struct json_value *v, struct err *err)
{
    const struct json_value *pattern = json_get(v, "pattern"), *regex = json_get(pattern, "Regex"), *string = json_get(pattern, "String");
    const struct json_value *content = json_get(v, "content"), *p = regex ? regex : string;

    if (p == NULL || p->type != JSON_STRING || p->len == 0 || content == NULL || content->type != JSON_STRING)
        return err_set(err, PAWL_EINVAL, "normalizer: Replace needs a pattern, {\"Regex\": ...} or {\"String\": ...}, and a content");
    normalizer_add(out, NORMALIZE_REPLACE, p->text, p->len, content->text, content->len);
    return regex ? regex_compile(&out->steps[out->n - 1].regex, p->text, p->len, err) : PAWL_OK;
}

enum pawl_status normalizer_from_json(struct normalizer *out, const struct json_value *v, bool *byte_level, struct err *err)
{
    static const struct {
        const char *name;
        enum normalize_kind kind;
    } plain[] = {
        {"NFC", NORMALIZE_NFC}, {"NFD", NORMALIZE_NFD}, {"NFKC", NORMALIZE_NFKC}, {"NFKD", NORMALIZE_NFKD}, {"Lowercase", NORMALIZE_LOWERCASE},
        {"StripAccents", NORMALIZE_STRIP_ACCENTS}, {"Strip", NORMALIZE_STRIP}, {"Prepend", NORMALIZE_PREPEND}, {"Nmt", NORMALIZE_NMT},
    };

    if (v == NULL || v->type == JSON_NULL) return PAWL_OK;
    const char *type = json_string(json_get(v, "type"), "(none)");
    if (strcmp(type, "Sequence") == 0) {
        const struct json_value *list = json_get(v, "normalizers");
        for (size_t i = 0; json_at(list, i) != NULL; i++) {
            if (*byte_level) return err_set(err, PAWL_EINVAL, "normalizer: ByteLevel is supported at the end of a Sequence only");
            enum pawl_status st = normalizer_from_json(out, json_at(list, i), byte_level, err);
            if (st != PAWL_OK) return st;
        }
        return PAWL_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        *byte_level = true;
        return PAWL_OK;
    }
    if (strcmp(type, "Replace") == 0) return read_replace(out, v, err);
    if (strcmp(type, "Precompiled") == 0) return read_charsmap(out, v, err);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(plain[i].name, type) != 0) continue;
        const struct json_value *prepend = json_get(v, "prepend");
        const char *text = json_string(prepend, "");
        normalizer_add(out, plain[i].kind, NULL, 0, text, strlen(text));
        out->steps[out->n - 1].left = json_bool(json_get(v, "strip_left"), json_bool(json_get(v, "left"), true));
        out->steps[out->n - 1].right = json_bool(json_get(v, "strip_right"), json_bool(json_get(v, "right"), true));
        return PAWL_OK;
    }
    return err_set(err, PAWL_EINVAL, "normalizer: type %s is not supported", type);
}

/* ---- Unicode normal forms ---- */

/* A character that stays itself in every text: it neither changes nor joins with the one before. */
static bool inert(uint32_t cp, bool compat)
{
    const utf8proc_property_t *prop = utf8proc_get_property((utf8proc_int32_t)cp);

    if (prop->combining_class != 0 || prop->decomp_seqindex != UINT16_MAX) return false;
    if (cp >= 0x1100 && cp <= 0x11FF) return false;            /* jamo join to syllables */
    if (cp >= 0xAC00 && cp <= 0xD7A3) return !compat;          /* syllables: composed already; D forms take them apart */
    unsigned c = unicode_class_of(cp);
    return !(c & UC_MARK);                                     /* some vowel signs of class 0 join with their letter */
}

/* A character that changes but does not join with the one before: what it becomes begins with an inert one. */
static bool begins_anew(uint32_t cp, utf8proc_option_t options, bool takes_apart)
{
    utf8proc_int32_t parts[32];
    int last = 0;
    options = (options & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 32, options, &last);

    return n > 0 && n <= 32 && inert((uint32_t)parts[0], takes_apart);
}

/* Adds the normal form of [begin, end). Where it begins and ends like the text, places are exact; between, they are the first changed byte's. */
static void add_form(struct piece *p, size_t begin, size_t end, utf8proc_option_t options)
{
    utf8proc_uint8_t *out = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)p->text + begin, (utf8proc_ssize_t)(end - begin), &out, options);

    if (n < 0) {
        piece_keep(p, begin, end);
        return;
    }
    size_t len = (size_t)n, old = end - begin, head = 0, tail = 0;
    const char *text = p->text + begin;
    while (head < len && head < old && (char)out[head] == text[head]) head++;
    while (tail < len - head && tail < old - head && (char)out[len - 1 - tail] == text[old - 1 - tail]) tail++;
    piece_keep(p, begin, begin + head);
    piece_put(p, (const char *)out + head, len - head - tail, begin + head);
    piece_keep(p, end - tail, end);
    free(out);
}

static void normal_form(struct piece *p, enum normalize_kind kind)
{
    static const utf8proc_option_t options[] = {
        [NORMALIZE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE, [NORMALIZE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [NORMALIZE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, [NORMALIZE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    bool takes_apart = kind == NORMALIZE_NFD || kind == NORMALIZE_NFKD, changed = false;
    size_t kept = 0, at = 0, before = 0; /* before: where the last inert character begins: what follows may join with it */

    while (at < p->len) {
        uint32_t cp = 0;
        int n = utf8_decode(p->text + at, p->len - at, &cp);
        if (n == 1 || inert(cp, takes_apart)) {
            before = at;
            at += (size_t)(n > 0 ? n : 1);
            continue;
        }
        size_t end = at + (size_t)n;
        while (end < p->len && (n = utf8_decode(p->text + end, p->len - end, &cp)) > 1 && !inert(cp, takes_apart) && !begins_anew(cp, options[kind], takes_apart)) end += (size_t)n;
        if (before < kept) before = kept;
        piece_keep(p, kept, before);
        add_form(p, before, end, options[kind]);
        changed = true;
        kept = before = at = end;
    }
    if (!changed) return;
    piece_keep(p, kept, p->len);
    piece_commit_text(p);
}

/* ---- the other steps ---- */

static void prepend(const struct normalize_step *s, struct piece *p)
{
    if (p->len == 0) return;
    piece_put(p, s->text, s->text_len, 0);
    piece_keep(p, 0, p->len);
    piece_commit_text(p);
}

static enum pawl_status replace(const struct normalize_step *s, struct piece *p, struct err *err)
{
    struct regex_search search = {0};
    size_t kept = 0, at = 0;
    bool changed = false;
    enum pawl_status st = PAWL_OK;

    if (s->regex != NULL) regex_search_begin(&search, s->regex, p->text, p->len);
    while (at <= p->len) {
        size_t begin = 0, end = 0;
        bool found = false;
        if (s->regex != NULL) {
            if ((st = regex_search_next(&search, at, &found, &begin, &end, err)) != PAWL_OK) break;
        } else {
            const char *hit = memmem(p->text + at, p->len - at, s->pattern, s->pattern_len);
            found = hit != NULL;
            begin = found ? (size_t)(hit - p->text) : 0;
            end = begin + s->pattern_len;
        }
        if (!found) break;
        piece_keep(p, kept, begin);
        piece_put(p, s->text, s->text_len, begin);
        changed = true;
        kept = at = end;
        if (begin == end) { /* an empty match: go on behind the next character */
            if (at == p->len) break;
            do at++;
            while (at < p->len && ((unsigned char)p->text[at] & 0xC0) == 0x80);
        }
    }
    if (s->regex != NULL) regex_search_end(&search);
    if (st != PAWL_OK || !changed) return st;
    piece_keep(p, kept, p->len);
    piece_commit_text(p);
    return PAWL_OK;
}

static void strip(const struct normalize_step *s, struct piece *p)
{
    size_t begin = 0, end = p->len;
    int n;

    while (s->left && begin < end && unicode_class_at(p->text, p->len, begin, &n) & UC_SPACE) begin += (size_t)n;
    while (s->right && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)p->text[last] & 0xC0) == 0x80) last--;
        if (!(unicode_class_at(p->text, p->len, last, &n) & UC_SPACE)) break;
        end = last;
    }
    if (begin == 0 && end == p->len) return;
    piece_keep(p, begin, end);
    piece_commit_text(p);
}

/* Lower case as Unicode's SpecialCasing has it without conditions: U+0130 becomes two characters. */
static void lowercase(struct piece *p)
{
    for (size_t at = 0; at < p->len;) {
        uint32_t cp = 0;
        char out[4];
        int n = utf8_decode(p->text + at, p->len - at, &cp);
        if (n == 0) n = 1;
        uint32_t low = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        if (cp == 0x130) piece_put(p, "i\xcc\x87", 3, at);
        else if (low == cp) piece_keep(p, at, at + (size_t)n);
        else piece_put(p, out, (size_t)utf8_encode(low, out), at);
        at += (size_t)n;
    }
    piece_commit_text(p);
}

static void strip_accents(struct piece *p)
{
    for (size_t at = 0; at < p->len;) {
        uint32_t cp = 0;
        int n = utf8_decode(p->text + at, p->len - at, &cp);
        if (n == 0) n = 1;
        bool accent = (unicode_class_of(cp) & UC_MARK && !unicode_is_recent(cp)) || cp == 0x1CF2 || cp == 0x1CF3; /* as the tables of Unicode 8 have it */
        if (!accent) piece_keep(p, at, at + (size_t)n);
        at += (size_t)n;
    }
    piece_commit_text(p);
}

/* SentencePiece's nmt rules: control characters go, other white space becomes a space. */
static void nmt(struct piece *p)
{
    for (size_t at = 0; at < p->len;) {
        uint32_t c = 0;
        int n = utf8_decode(p->text + at, p->len - at, &c);
        if (n == 0) n = 1;
        bool gone = (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
        bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                     c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
        if (space) piece_put(p, " ", 1, at);
        else if (!gone) piece_keep(p, at, at + (size_t)n);
        at += (size_t)n;
    }
    piece_commit_text(p);
}

/* The replacement of the shortest rule that text begins with, NULL if there is none. The double array is darts-clone's: a unit holds a label, an
 * offset to its children, and whether a value hangs below. */
static const char *charsmap_find(const struct normalize_step *s, const char *text, size_t len, size_t *bytes)
{
    uint32_t size, unit;

    memcpy(&size, s->map, 4);
    const unsigned char *array = s->map + 4;
    size_t units = size / 4, node = 0;
    if (units == 0) return NULL;
    memcpy(&unit, array, 4);
    node ^= unit >> 10 << ((unit & (1u << 9)) >> 6);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == 0) return NULL;
        node ^= c;
        if (node >= units) return NULL;
        memcpy(&unit, array + 4 * node, 4);
        if ((unit & ((1u << 31) | 0xFF)) != c) return NULL;
        node ^= unit >> 10 << ((unit & (1u << 9)) >> 6);
        if (!(unit >> 8 & 1)) continue;
        if (node >= units) return NULL;
        memcpy(&unit, array + 4 * node, 4);
        size_t found = unit & 0x7FFFFFFF, texts = s->map_len - 4 - size;
        if (found >= texts) return NULL;
        const char *out = (const char *)s->map + 4 + size + found;
        *bytes = strnlen(out, texts - found);
        return out;
    }
    return NULL;
}

/* The tokenizers library asks for a whole grapheme of up to 5 bytes first, which one rule then replaces, and else for each of its characters. */
static void charsmap(const struct normalize_step *s, struct piece *p)
{
    for (size_t at = 0; at < p->len;) {
        uint32_t a = 0, b = 0;
        utf8proc_int32_t state = 0;
        size_t n = (size_t)utf8_decode(p->text + at, p->len - at, &a), end = at + (n > 0 ? n : 1), bytes = 0;
        for (int k; end < p->len && (k = utf8_decode(p->text + end, p->len - end, &b)) > 0; end += (size_t)k, a = b)
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)a, (utf8proc_int32_t)b, &state)) break;
        const char *text = end - at < 6 ? charsmap_find(s, p->text + at, end - at, &bytes) : NULL;
        if (text != NULL) {
            piece_put(p, text, bytes, at);
            at = end;
            continue;
        }
        while (at < end) {
            int k = utf8_decode(p->text + at, p->len - at, &a);
            size_t m = (size_t)(k > 0 ? k : 1);
            text = charsmap_find(s, p->text + at, m, &bytes);
            if (text != NULL) piece_put(p, text, bytes, at);
            else piece_keep(p, at, at + m);
            at += m;
        }
    }
    piece_commit_text(p);
}

enum pawl_status normalizer_apply(const struct normalizer *n, struct piece *p, struct err *err)
{
    for (size_t i = 0; i < n->n; i++) {
        const struct normalize_step *s = &n->steps[i];
        enum pawl_status st = PAWL_OK;
        switch (s->kind) {
        case NORMALIZE_NFC:
        case NORMALIZE_NFD:
        case NORMALIZE_NFKC:
        case NORMALIZE_NFKD: normal_form(p, s->kind); break;
        case NORMALIZE_LOWERCASE: lowercase(p); break;
        case NORMALIZE_STRIP: strip(s, p); break;
        case NORMALIZE_STRIP_ACCENTS: strip_accents(p); break;
        case NORMALIZE_PREPEND: prepend(s, p); break;
        case NORMALIZE_REPLACE: st = replace(s, p, err); break;
        case NORMALIZE_NMT: nmt(p); break;
        case NORMALIZE_CHARSMAP: charsmap(s, p); break;
        }
        if (st != PAWL_OK) return st;
    }
    return PAWL_OK;
}
