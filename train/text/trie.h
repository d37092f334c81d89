/* A set of byte strings with values, for finding all of them that begin at a place of a text. */
#ifndef PAWL_TEXT_TRIE_H
#define PAWL_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; free with trie_free. Not changed by look-ups. */
struct trie {
    struct trie_edge *edges; /* hashed by node and byte */
    size_t mask, used;
    int32_t *values;         /* of nodes; -1: none ends here */
    uint32_t nodes, cap;
    uint32_t first[256];     /* child of the root: most places of a text begin nothing */
};

void trie_add(struct trie *t, const char *s, size_t len, int32_t value); /* len > 0, value >= 0; a later value wins */
void trie_free(struct trie *t);

#define TRIE_ROOT 0u
#define TRIE_NONE UINT32_MAX
uint32_t trie_step(const struct trie *t, uint32_t node, unsigned char byte); /* TRIE_NONE: no string goes on so */

/* The longest string that s begins with: its value and *n bytes; -1 if there is none. */
int32_t trie_longest(const struct trie *t, const char *s, size_t len, size_t *n);

#endif
