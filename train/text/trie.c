#include "train/text/trie.h"

#include "kernels/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct trie_edge {
    uint32_t node; /* TRIE_NONE: free */
    uint32_t child;
    unsigned char byte;
};

static size_t slot_of(const struct trie *t, uint32_t node, unsigned char byte)
{
    uint64_t h = ((uint64_t)node << 8 | byte) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(h >> 32) & t->mask;

    while (t->edges[i].node != TRIE_NONE && (t->edges[i].node != node || t->edges[i].byte != byte)) i = (i + 1) & t->mask;
    return i;
}

static void resize_edges(struct trie *t, size_t slots)
{
    struct trie_edge *old = t->edges;
    size_t n = old ? t->mask + 1 : 0;

    t->edges = xreallocarray(NULL, slots, sizeof *t->edges);
    memset(t->edges, 0xFF, slots * sizeof *t->edges);
    t->mask = slots - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].node != TRIE_NONE) t->edges[slot_of(t, old[i].node, old[i].byte)] = old[i];
    free(old);
}

static uint32_t new_node(struct trie *t)
{
    if (t->nodes == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->values = xreallocarray(t->values, t->cap, sizeof *t->values);
    }
    t->values[t->nodes] = -1;
    return t->nodes++;
}

void trie_add(struct trie *t, const char *s, size_t len, int32_t value)
{
    if (t->nodes == 0) new_node(t);
    uint32_t node = TRIE_ROOT;
    for (size_t k = 0; k < len; k++) {
        unsigned char byte = (unsigned char)s[k];
        if (t->edges == NULL || (t->used + 1) * 2 > t->mask + 1) resize_edges(t, t->edges ? 2 * (t->mask + 1) : 64);
        struct trie_edge *e = &t->edges[slot_of(t, node, byte)];
        if (e->node == TRIE_NONE) {
            *e = (struct trie_edge){.node = node, .child = new_node(t), .byte = byte};
            t->used++;
            if (node == TRIE_ROOT) t->first[byte] = e->child;
        }
        node = e->child;
    }
    t->values[node] = value;
}

void trie_free(struct trie *t)
{
    free(t->edges);
    free(t->values);
    *t = (struct trie){0};
}

uint32_t trie_step(const struct trie *t, uint32_t node, unsigned char byte)
{
    if (node == TRIE_ROOT) return t->first[byte] ? t->first[byte] : TRIE_NONE; /* the root is nobody's child */
    const struct trie_edge *e = &t->edges[slot_of(t, node, byte)];
    return e->node == TRIE_NONE ? TRIE_NONE : e->child;
}

int32_t trie_longest(const struct trie *t, const char *s, size_t len, size_t *n)
{
    int32_t best = -1;
    uint32_t node = TRIE_ROOT;

    for (size_t i = 0; i < len; i++) {
        node = trie_step(t, node, (unsigned char)s[i]);
        if (node == TRIE_NONE) break;
        if (t->values[node] >= 0) {
            best = t->values[node];
            *n = i + 1;
        }
    }
    return best;
}
