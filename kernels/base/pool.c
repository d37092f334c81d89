#include "kernels/base/pool.h"

#include "kernels/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_MIN ((size_t)4096)
#define BLOCK_MAX ((size_t)1 << 20)

struct pool_block {
    struct pool_block *next;
    size_t size, used;
    size_t pad; /* keeps data 16-byte aligned */
    char data[];
};

void *pool_alloc(struct pool *p, size_t size)
{
    size_t need = (size + 15) & ~(size_t)15;
    struct pool_block *b = p->head;

    if (need < size) return xmalloc(SIZE_MAX); /* ends the program with the usual line */
    if (b == NULL || b->size - b->used < need) {
        /* Blocks double with the pool, so that a small one stays small and a big one has few. */
        size_t grow = b == NULL ? BLOCK_MIN : b->size * 2 > BLOCK_MAX ? BLOCK_MAX : b->size * 2;
        size_t cap = need > grow ? need : grow;
        struct pool_block *n = xmalloc(sizeof *n + cap);
        n->size = cap;
        n->used = 0;
        n->next = b;
        p->head = b = n;
    }
    void *out = b->data + b->used;
    b->used += need;
    p->used += need;
    return out;
}

char *pool_strndup(struct pool *p, const char *s, size_t len)
{
    char *out = pool_alloc(p, len + 1);

    if (len > 0) memcpy(out, s, len);
    out[len] = 0;
    return out;
}

void pool_free(struct pool *p)
{
    for (struct pool_block *b = p->head, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    *p = (struct pool){0};
}
