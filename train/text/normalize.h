/* What a tokenizer does to a text before it is cut: the normalizers of tokenizer.json. */
#ifndef PAWL_TEXT_NORMALIZE_H
#define PAWL_TEXT_NORMALIZE_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "train/text/piece.h"
#include "train/text/regex.h"

#include <stdbool.h>

enum normalize_kind {
    NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC, NORMALIZE_NFKD, NORMALIZE_LOWERCASE, NORMALIZE_STRIP, NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_PREPEND, NORMALIZE_REPLACE, NORMALIZE_NMT, NORMALIZE_CHARSMAP
};

struct normalize_step {
    enum normalize_kind kind;
    bool left, right;     /* strip */
    char *pattern, *text; /* replace: pattern (or regex) by text; prepend: text */
    size_t pattern_len, text_len;
    struct regex *regex;
    unsigned char *map;   /* charsmap: SentencePiece's compiled rules */
    size_t map_len;
};

struct normalizer {
    struct normalize_step *steps;
    size_t n;
};

/* The "normalizer" of a tokenizer.json, NULL and null included. byte_level: set where the last step is ByteLevel, whose work the vocabulary does. */
enum pawl_status normalizer_from_json(struct normalizer *out, const struct json_value *v, bool *byte_level, struct err *err);
/* One step more; the strings are copied. */
void normalizer_add(struct normalizer *n, enum normalize_kind kind, const char *pattern, size_t pattern_len, const char *text, size_t text_len);
void normalizer_free(struct normalizer *n);

enum pawl_status normalizer_apply(const struct normalizer *n, struct piece *p, struct err *err);

#endif
