/* How a tokenizer cuts a text into words before the model sees it: the pre-tokenizers of tokenizer.json. */
#ifndef PAWL_TEXT_PRETOK_H
#define PAWL_TEXT_PRETOK_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "train/text/piece.h"
#include "train/text/regex.h"
#include "train/text/scan.h"

#include <stdbool.h>

enum pretok_kind { PRETOK_SCAN, PRETOK_REGEX, PRETOK_STRING, PRETOK_CLASS, PRETOK_PREFIX_SPACE, PRETOK_METASPACE };
/* What becomes of a delimiter, as Hugging Face names it. */
enum pretok_behavior { PRETOK_ISOLATED, PRETOK_REMOVED, PRETOK_MERGED_WITH_PREVIOUS, PRETOK_MERGED_WITH_NEXT, PRETOK_CONTIGUOUS };
enum pretok_prepend { PRETOK_ALWAYS, PRETOK_FIRST, PRETOK_NEVER };

struct pretok_step {
    enum pretok_kind kind;
    enum pretok_behavior behavior;
    bool invert;              /* what does not match is the delimiter */
    bool on_bytes;            /* stands behind ByteLevel: sees the characters that bytes are written as, and may cut inside of a character */
    struct scanner scanner;
    struct regex *regex;
    char *string;             /* the delimiter, or the replacement of Metaspace */
    size_t string_len;
    unsigned classes;         /* PRETOK_CLASS: each character of these classes is a delimiter */
    enum pretok_prepend prepend;
    bool split;               /* Metaspace: cut before each replacement */
};

struct pretok {
    struct pretok_step *steps;
    size_t n;
};

/* The "pre_tokenizer" of a tokenizer.json, NULL and null included. byte_level: set where ByteLevel is part of it. */
enum pawl_status pretok_from_json(struct pretok *out, const struct json_value *v, bool *byte_level, struct err *err);
/* A split by a regular expression, isolated; by a scanner where one is known. llama.cpp's lists are made of these. */
enum pawl_status pretok_add_regex(struct pretok *p, const char *pattern, size_t len, struct err *err);
void pretok_add_scanner(struct pretok *p, struct scanner s);
void pretok_free(struct pretok *p);

/* first: how many places (piece_origin) at the beginning of the piece are the beginning of the whole text; 0: the piece lies further on. */
enum pawl_status pretok_apply(const struct pretok *t, struct piece *p, size_t first, struct err *err);

#endif
