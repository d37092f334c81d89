/* The size table: every big buffer of a run is declared by name and size, then all are allocated at once.
 *
 * Reserving costs nothing, so `pawl plan` reserves what `pawl train` would and prints the table: plan and run cannot disagree.
 * Buffers are 64-byte aligned and start zeroed. Nothing is allocated in a step. */
#ifndef PAWL_BASE_ARENA_H
#define PAWL_BASE_ARENA_H

#include "kernels/base/err.h"

#include <stddef.h>

struct arena_segment {
    const char *name; /* static text: "activations", "optimizer"; several buffers may share one, plan adds them up */
    size_t bytes;
    void *ptr;        /* address of the pointer that arena_alloc sets */
};

/* Zero-initialise. */
struct arena {
    struct arena_segment *seg;
    int nseg;
    void *base;
    size_t bytes; /* of the whole allocation */
    void *host;   /* what the host can touch: base itself, or where alloc gave memory of a device, a range of the same size that takes memory only where it is touched */
};

/* Declares a buffer; *ptr is set when the arena is allocated and must stay where it is until then. */
void arena_reserve(struct arena *a, const char *name, size_t bytes, void *ptr);
/* Bytes that the reservations so far need, alignment included. */
size_t arena_bytes(const struct arena *a);
/* Of all segments of this name. */
size_t arena_segment_bytes(const struct arena *a, const char *name);
/* Allocates from alloc(ctx, bytes), which returns zeroed memory or NULL (then PAWL_ENOMEM names the largest segment); NULL alloc: host memory, huge pages advised. */
enum pawl_status arena_alloc(struct arena *a, void *(*alloc)(void *ctx, size_t bytes), void *ctx, struct err *err);
/* Frees host memory (base is the caller's where alloc was not NULL) and zeroes the table. */
void arena_free(struct arena *a);
/* The place on the host of an address within a buffer: the address itself, but for memory of a device. */
static inline void *arena_host(const struct arena *a, const void *p)
{
    return (char *)a->host + ((const char *)p - (const char *)a->base);
}

#endif
