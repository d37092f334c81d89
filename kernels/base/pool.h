/* A pool of small objects that are freed together. Not the size table of a training step (arena.h): this one grows. */
#ifndef PAWL_BASE_POOL_H
#define PAWL_BASE_POOL_H

#include <stddef.h>

struct pool_block;

/* Zero-initialise; free with pool_free. */
struct pool {
    struct pool_block *head;
    size_t used; /* bytes handed out so far: callers that bound their memory compare this with their limit */
};

/* 16-byte aligned, not zeroed, never NULL; valid until pool_free. */
void *pool_alloc(struct pool *p, size_t size);
/* A copy of s with a NUL behind it. */
char *pool_strndup(struct pool *p, const char *s, size_t len);
void pool_free(struct pool *p); /* and zeroes it */

#endif
