/* Unigram segmentation: of all ways to cut a word into tokens the one with the greatest sum of scores (Kudo 2018), by dynamic programming. */
#ifndef PAWL_TEXT_UNIGRAM_H
#define PAWL_TEXT_UNIGRAM_H

#include "train/text/trie.h"
#include "train/text/vocab.h"

#include <stdbool.h>

struct unigram {
    struct trie trie;
    double *scores;     /* by id */
    double unk_score;   /* the lowest score - 10 */
    int32_t unk;        /* -1: an unknown character is an error of the file; it vanishes */
    int32_t bytes[256]; /* -1: none */
    bool byte_fallback;
};

struct unigram_node {
    double score; /* of the best cut that ends here */
    uint32_t from;
    int32_t id;   /* of its last token */
};

/* Scratch and result: tokens ids[0..n) begin at bytes at[0..n) of the word. */
struct unigram_path {
    struct unigram_node *nodes;
    int32_t *ids;
    uint32_t *at;
    size_t n, cap;
};
void unigram_word(const struct unigram *u, const char *word, size_t len, struct unigram_path *p);
void unigram_path_free(struct unigram_path *p);
void unigram_free(struct unigram *u);

#endif
