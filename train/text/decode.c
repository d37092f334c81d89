#include "train/text/decode.h"

#include "kernels/base/utf8.h"

#include <stdlib.h>
#include <string.h>

void decoder_add(struct decoder *d, enum decode_kind kind, const char *pattern, const char *text, size_t start, size_t stop)
{
    d->steps = xreallocarray(d->steps, d->n + 1, sizeof *d->steps);
    d->steps[d->n++] = (struct decode_step){
        .kind = kind, .pattern = xstrdup(pattern), .pattern_len = strlen(pattern), .text = xstrdup(text), .text_len = strlen(text),
        .start = start, .stop = stop,
    };
}

void decoder_free(struct decoder *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->steps[i].pattern);
        free(d->steps[i].text);
    }
    free(d->steps);
    *d = (struct decoder){0};
}

enum pawl_status decoder_from_json(struct decoder *out, const struct json_value *v, struct err *err)
{
    if (v == NULL || v->type == JSON_NULL) return PAWL_OK;
    const char *type = json_string(json_get(v, "type"), "(none)");
    if (strcmp(type, "Sequence") == 0) {
        const struct json_value *list = json_get(v, "decoders");
        for (size_t i = 0; json_at(list, i) != NULL; i++) {
            enum pawl_status st = decoder_from_json(out, json_at(list, i), err);
            if (st != PAWL_OK) return st;
        }
    } else if (strcmp(type, "ByteLevel") == 0) {
        decoder_add(out, DECODE_BYTE_LEVEL, "", "", 0, 0);
    } else if (strcmp(type, "ByteFallback") == 0) {
        decoder_add(out, DECODE_BYTE_FALLBACK, "", "", 0, 0);
    } else if (strcmp(type, "Fuse") == 0) {
        decoder_add(out, DECODE_FUSE, "", "", 0, 0);
    } else if (strcmp(type, "Replace") == 0) {
        const char *pattern = json_string(json_get(json_get(v, "pattern"), "String"), "");
        if (*pattern == 0) return err_set(err, PAWL_EINVAL, "decoder: Replace is supported for a pattern {\"String\": ...} only");
        decoder_add(out, DECODE_REPLACE, pattern, json_string(json_get(v, "content"), ""), 0, 0);
    } else if (strcmp(type, "Strip") == 0) {
        double start = json_number(json_get(v, "start"), 0), stop = json_number(json_get(v, "stop"), 0);
        decoder_add(out, DECODE_STRIP, json_string(json_get(v, "content"), " "), "", start > 0 ? (size_t)start : 0, stop > 0 ? (size_t)stop : 0);
    } else if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_string(json_get(v, "prepend_scheme"), json_bool(json_get(v, "add_prefix_space"), true) ? "always" : "never");
        decoder_add(out, DECODE_METASPACE, json_string(json_get(v, "replacement"), "\xe2\x96\x81"), " ", 0, 0);
        out->steps[out->n - 1].drop_first = strcmp(scheme, "never") != 0;
    } else {
        return err_set(err, PAWL_EINVAL, "decoder: type %s is not supported", type);
    }
    return PAWL_OK;
}

void decode_list_add(struct decode_list *l, const char *s, size_t len)
{
    buf_add(&l->text, s, len);
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->ends = xreallocarray(l->ends, l->cap, sizeof *l->ends);
    }
    l->ends[l->n++] = l->text.len;
}

void decode_list_free(struct decode_list *l)
{
    buf_free(&l->text);
    free(l->ends);
    *l = (struct decode_list){0};
}

/* GPT-2 writes bytes that are printable in Latin-1 as themselves, and the others, in order, as U+0100 and up. */
static int byte_of_char(uint32_t cp)
{
    static const struct {
        uint16_t first, last;
    } hidden[] = {{0x00, 0x20}, {0x7F, 0xA0}, {0xAD, 0xAD}};

    if (cp < 0x100) {
        for (int i = 0; i < 3; i++)
            if (cp >= hidden[i].first && cp <= hidden[i].last) return -1;
        return (int)cp;
    }
    uint32_t k = cp - 0x100;
    for (int i = 0; i < 3; i++) {
        uint32_t n = hidden[i].last - hidden[i].first + 1u;
        if (k < n) return (int)(hidden[i].first + k);
        k -= n;
    }
    return -1;
}

int decode_char_of_byte(unsigned char byte, char out[4])
{
    uint32_t hidden = byte <= 0x20 ? byte : byte == 0xAD ? 0x43u : byte >= 0x7F && byte <= 0xA0 ? byte - 0x7Fu + 0x21 : UINT32_MAX;

    return utf8_encode(hidden == UINT32_MAX ? byte : 0x100 + hidden, out);
}

bool decode_byte_level(const char *s, size_t len, struct buf *out)
{
    size_t before = out->len;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        int n = utf8_decode(s + i, len - i, &cp), byte = n > 0 ? byte_of_char(cp) : -1;
        if (byte < 0) {
            out->len = before;
            return false;
        }
        buf_addc(out, (char)byte);
        i += (size_t)n;
    }
    return true;
}

bool decode_byte_token(const char *s, size_t len, unsigned char *byte)
{
    int v = 0;

    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return false;
    for (int i = 3; i < 5; i++) {
        int c = (unsigned char)s[i], d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return false;
        v = v << 4 | d;
    }
    *byte = (unsigned char)v;
    return true;
}

/* Bytes of the ill-formed sequence at s that one U+FFFD stands for: as many as begin a character that could have been. */
static size_t maximal_part(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xBF;

    size_t want = u[0] >= 0xF0 && u[0] <= 0xF4 ? 4 : u[0] >= 0xE0 && u[0] < 0xF0 ? 3 : 1;
    if (u[0] == 0xE0) low = 0xA0;
    if (u[0] == 0xED) high = 0x9F;
    if (u[0] == 0xF0) low = 0x90;
    if (u[0] == 0xF4) high = 0x8F;
    size_t n = 1;
    while (n < want && n < len && u[n] >= low && u[n] <= high) {
        n++;
        low = 0x80;
        high = 0xBF;
    }
    return n;
}

void decode_add_lossy(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t good = utf8_valid(s + i, len - i);
        buf_add(out, s + i, good);
        i += good;
        if (i == len) break;
        buf_adds(out, "\xef\xbf\xbd");
        i += maximal_part(s + i, len - i);
    }
}

/* Every string of the list through f, which adds its new form to *out. */
static void each(struct decode_list *l, const struct decode_step *s,
                 void (*f)(const struct decode_step *s, size_t i, const char *text, size_t len, struct buf *out))
{
    struct buf next = {0};

    for (size_t i = 0, begin = 0; i < l->n; i++) {
        size_t end = l->ends[i];
        f(s, i, l->text.data + begin, end - begin, &next);
        l->ends[i] = next.len;
        begin = end;
    }
    buf_adds(&next, ""); /* data is there even where all of it vanished */
    buf_free(&l->text);
    l->text = next;
}

static void replace(const struct decode_step *s, size_t i, const char *text, size_t len, struct buf *out)
{
    for (size_t at = 0;;) {
        const char *hit = s->pattern_len ? memmem(text + at, len - at, s->pattern, s->pattern_len) : NULL;
        if (hit == NULL) {
            buf_add(out, text + at, len - at);
            return;
        }
        buf_add(out, text + at, (size_t)(hit - text) - at);
        if (!(s->drop_first && i == 0)) buf_add(out, s->text, s->text_len);
        at = (size_t)(hit - text) + s->pattern_len;
    }
}

static void strip(const struct decode_step *s, size_t i, const char *text, size_t len, struct buf *out)
{
    size_t k = s->pattern_len;

    for (size_t n = 0; n < s->start && k > 0 && len >= k && memcmp(text, s->pattern, k) == 0; n++) {
        text += k;
        len -= k;
    }
    for (size_t n = 0; n < s->stop && k > 0 && len >= k && memcmp(text + len - k, s->pattern, k) == 0; n++) len -= k;
    buf_add(out, text, len);
}

/* A token outside of the alphabet (an added one) stays as it is. */
static void byte_level(const struct decode_step *s, size_t i, const char *text, size_t len, struct buf *out)
{
    if (!decode_byte_level(text, len, out)) buf_add(out, text, len);
}

/* Runs of byte tokens become the text that they spell, or a U+FFFD for each byte. */
static void byte_fallback(struct decode_list *l)
{
    struct decode_list next = {0};
    struct buf run = {0};

    for (size_t i = 0, begin = 0; i <= l->n; i++) {
        unsigned char byte = 0;
        size_t end = i < l->n ? l->ends[i] : begin;
        bool is_byte = i < l->n && decode_byte_token(l->text.data + begin, end - begin, &byte);
        if (!is_byte && run.len > 0) {
            if (utf8_valid(run.data, run.len) == run.len) decode_list_add(&next, run.data, run.len);
            else
                for (size_t k = 0; k < run.len; k++) decode_list_add(&next, "\xef\xbf\xbd", 3);
            run.len = 0;
        }
        if (is_byte) buf_addc(&run, (char)byte);
        else if (i < l->n) decode_list_add(&next, l->text.data + begin, end - begin);
        begin = end;
    }
    buf_free(&run);
    decode_list_free(l);
    *l = next;
}

void decoder_apply(const struct decoder *d, struct decode_list *list, struct buf *out)
{
    for (size_t k = 0; k < d->n && list->n > 0; k++) {
        const struct decode_step *s = &d->steps[k];
        switch (s->kind) {
        case DECODE_BYTE_LEVEL: each(list, s, byte_level); break;
        case DECODE_REPLACE:
        case DECODE_METASPACE: each(list, s, replace); break;
        case DECODE_STRIP: each(list, s, strip); break;
        case DECODE_BYTE_FALLBACK: byte_fallback(list); break;
        case DECODE_FUSE:
            list->ends[0] = list->text.len;
            list->n = 1;
            break;
        }
    }
    if (d->n > 0) decode_add_lossy(out, list->text.data ? list->text.data : "", list->text.len);
    for (size_t i = 0, begin = 0; d->n == 0 && i < list->n; begin = list->ends[i++]) {
        if (i > 0) buf_addc(out, ' ');
        buf_add(out, list->text.data + begin, list->ends[i] - begin);
    }
    decode_list_free(list);
}
