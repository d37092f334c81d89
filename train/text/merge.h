/* Byte pair encoding of one word: pairs of neighbouring tokens are merged, lowest rank first, leftmost among equals, until no pair has a rank. */
#ifndef PAWL_TEXT_MERGE_H
#define PAWL_TEXT_MERGE_H

#include "train/text/vocab.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_slot {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX: free */
    uint32_t rank;
    int32_t id;
};

/* The merge rules, in one of two forms: a list of pairs (BPE files), or "any two whose text together is a token, ranked by that token" (SentencePiece in GGUF). */
struct merge_rules {
    const struct vocab *vocab;
    struct merge_slot *slots; /* NULL: the second form */
    size_t mask, used;
    uint32_t *ranks;          /* by id, second form; UINT32_MAX: never made by merging */

    int32_t bytes[256];       /* tokens of single bytes: all symbols (byte-level), or what an unknown character falls back to; -1: none */
    int32_t ascii[128];       /* tokens of single characters, for the second kind of vocabulary: those of characters */
    bool byte_level;
    bool byte_fallback;
    int32_t unk;              /* -1: an unknown character vanishes */
    bool fuse_unk;
    bool whole_words;         /* ignore_merges: a word that is a token is that token */
    bool whole_newlines;      /* the same for words of line feeds only (Gemma 4 in llama.cpp) */
    /* 0: unknown yet, 1: the merges of this token's text give the token, 2: they don't. Worked out when first asked for; every thread finds the same. */
    _Atomic uint8_t *itself;
};

/* In the order of the file: the rank is the number of pairs before. A pair that stands twice keeps its last rank, as a hash map would. */
void merge_rules_add(struct merge_rules *r, int32_t left, int32_t right, uint32_t rank, int32_t id);
void merge_rules_free(struct merge_rules *r);

/* Scratch memory and result of merging: tokens ids[0..n) begin at bytes at[0..n) of the word, at[n] is its end. Under rules of the second form a character
 * that became part of no token has the id -1. Zero-initialise; free with merge_free. */
struct merge {
    int32_t *ids;
    uint32_t *at;
    size_t n, cap;
    uint32_t *rank;
    int32_t *made, *prev, *next;
    uint64_t *heap;
    size_t heap_n, heap_cap;
};
void merge_word(const struct merge_rules *r, const char *word, size_t len, struct merge *m);
void merge_free(struct merge *m);

#endif
