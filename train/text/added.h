/* Tokens that are found in a text before anything else is done to it: special tokens and those that were added to a vocabulary. */
#ifndef PAWL_TEXT_ADDED_H
#define PAWL_TEXT_ADDED_H

#include "train/text/trie.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct added_token {
    char *text;
    size_t len;
    int32_t id;
    bool special;
    bool single_word;    /* only where no word character stands beside it */
    bool lstrip, rstrip; /* takes the white space before, behind */
    bool normalized;     /* is looked for in the normalized text */
    bool ascii_strip;    /* rstrip is C's isspace, as llama.cpp has it */
};

/* Zero-initialise; free with added_free. */
struct added {
    struct added_token *tokens;
    size_t n;
    struct trie raw, normalized; /* values are indices of tokens */
};

/* Takes a copy of token->text. key: what stands for it in the text where the token is looked for (its normalized form), NULL: its text. */
void added_add(struct added *a, const struct added_token *token, const char *key, size_t key_len);
void added_free(struct added *a);

struct added_match {
    size_t begin, end;   /* with the white space that the token takes */
    const struct added_token *token;
};

/* The first token at or behind *at in the text whose unclaimed part begins at `from`; leftmost, then longest. *at moves on behind the match itself. */
bool added_next(const struct added *a, const struct trie *trie, bool special, const char *text, size_t len, size_t from, size_t *at,
                struct added_match *out);

#endif
