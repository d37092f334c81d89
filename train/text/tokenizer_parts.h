/* The inside of a tokenizer: the steps of its pipeline, and what its two constructors share. */
#ifndef PAWL_TEXT_TOKENIZER_PARTS_H
#define PAWL_TEXT_TOKENIZER_PARTS_H

#include "train/text/added.h"
#include "train/text/decode.h"
#include "train/text/merge.h"
#include "train/text/normalize.h"
#include "train/text/pretok.h"
#include "train/text/tokenizer.h"
#include "train/text/unigram.h"
#include "train/text/vocab.h"

#define TOKENIZER_MARK "\xe2\x96\x81" /* U+2581, SentencePiece's space */

enum tokenizer_model { TOKENIZER_BPE, TOKENIZER_UNIGRAM };

/* text -> added tokens | gaps -> normalizer -> added tokens of normalized text | gaps -> pre-tokenizer -> words -> model -> ids. */
struct tokenizer {
    struct added added;
    struct normalizer normalizer;
    struct pretok pretok;
    enum tokenizer_model model;
    struct merge_rules merges;
    struct unigram unigram;
    struct decoder decoder;

    struct vocab names; /* as the files write tokens; only the model's are found by their text */
    struct vocab added_names; /* of added tokens that are not the model's */
    struct vocab bytes; /* byte-level models: the bytes that tokens stand for */
    struct vocab shown; /* of added tokens that are found in normalized text: what they decode to */
    bool byte_level;

    /* A word may be cut in front of each U+2581 that no token has inside behind this character: exact, and keeps words short where there is no
     * pre-tokenizer. */
    bool cut_marks;
    uint32_t *mark_before; /* characters that stand before a U+2581 inside a token */
    size_t n_mark_before;

    int32_t *prefix, *suffix; /* what TOKENIZER_ADD_SPECIAL adds */
    size_t n_prefix, n_suffix;
    int32_t special[4];       /* by tokenizer_role; -1: none */
    uint8_t *is_special;      /* by id */
    size_t n_special;         /* of is_special */
    bool clean_spaces;        /* llama.cpp's detokenizer would */
    uint64_t hash;
};

struct tokenizer *tokenizer_new(void);
void tokenizer_mark_special(struct tokenizer *t, int32_t id);
void tokenizer_add_prefix(struct tokenizer *t, int32_t id);
void tokenizer_add_suffix(struct tokenizer *t, int32_t id);

/* "left right" merged, by rank; PAWL_EFORMAT where one of the three is no token. */
enum pawl_status tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_len, const char *right, size_t right_len, uint32_t rank,
                                     struct err *err);
/* After the names: what the model matches (t->bytes under byte_level), bytes, the table of whole words and the places for cuts. */
void tokenizer_finish_bpe(struct tokenizer *t);
/* Ids of "<0x00>" .. "<0xFF>", -1 where there is none. */
void tokenizer_byte_tokens(const struct tokenizer *t, int32_t bytes[256]);

#endif
