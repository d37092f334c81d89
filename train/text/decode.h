/* Tokens back to text: the decoders of tokenizer.json. */
#ifndef PAWL_TEXT_DECODE_H
#define PAWL_TEXT_DECODE_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum decode_kind { DECODE_BYTE_LEVEL, DECODE_REPLACE, DECODE_BYTE_FALLBACK, DECODE_FUSE, DECODE_STRIP, DECODE_METASPACE };

struct decode_step {
    enum decode_kind kind;
    char *pattern, *text;        /* replace; metaspace: pattern is the replacement; strip: pattern is one character */
    size_t pattern_len, text_len;
    size_t start, stop;          /* strip: at most so many at either end */
    bool drop_first;             /* metaspace: the first token loses its replacements */
};

/* No steps: tokens are joined with spaces. */
struct decoder {
    struct decode_step *steps;
    size_t n;
};

enum pawl_status decoder_from_json(struct decoder *out, const struct json_value *v, struct err *err);
void decoder_add(struct decoder *d, enum decode_kind kind, const char *pattern, const char *text, size_t start, size_t stop);
void decoder_free(struct decoder *d);

/* The strings of the tokens, one behind the other; ends[i] is where string i ends. */
struct decode_list {
    struct buf text;
    size_t *ends;
    size_t n, cap;
};
void decode_list_add(struct decode_list *l, const char *s, size_t len);
void decode_list_free(struct decode_list *l);

/* Adds the text to *out, as bytes; *list is used up. */
void decoder_apply(const struct decoder *d, struct decode_list *list, struct buf *out);

/* The character that a byte is written as, in UTF-8; returns its bytes, 1 or 2. */
int decode_char_of_byte(unsigned char byte, char out[4]);
/* The bytes that the characters of a byte-level token stand for (GPT-2's alphabet), added to *out; false, and *out as it was, where one stands for none. */
bool decode_byte_level(const char *s, size_t len, struct buf *out);
/* Whether s is "<0xHH>", and which byte. */
bool decode_byte_token(const char *s, size_t len, unsigned char *byte);
/* Adds s; each ill-formed sequence becomes U+FFFD, as the Unicode standard recommends (one for each maximal part of a character). */
void decode_add_lossy(struct buf *out, const char *s, size_t len);

#endif
