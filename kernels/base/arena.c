#include "kernels/base/arena.h"

#include "kernels/base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static size_t aligned(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

void arena_reserve(struct arena *a, const char *name, size_t bytes, void *ptr)
{
    assert(!a->base);
    a->seg = xreallocarray(a->seg, (size_t)a->nseg + 1, sizeof *a->seg);
    a->seg[a->nseg++] = (struct arena_segment){name, bytes, ptr};
}

size_t arena_bytes(const struct arena *a)
{
    size_t total = 0;

    for (int i = 0; i < a->nseg; i++) total += aligned(a->seg[i].bytes);
    return total;
}

size_t arena_segment_bytes(const struct arena *a, const char *name)
{
    size_t bytes = 0;

    for (int i = 0; i < a->nseg; i++)
        if (!strcmp(a->seg[i].name, name)) bytes += a->seg[i].bytes;
    return bytes;
}

static void *host_alloc(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

enum pawl_status arena_alloc(struct arena *a, void *(*alloc)(void *ctx, size_t bytes), void *ctx, struct err *err)
{
    size_t off = 0;

    a->bytes = arena_bytes(a);
    a->host = host_alloc(a->bytes, alloc ? MAP_NORESERVE : 0);
    a->base = alloc && a->host ? alloc(ctx, a->bytes) : a->host;
    if (a->host && !alloc) madvise(a->host, a->bytes, MADV_HUGEPAGE);
    if (!a->base) {
        const struct arena_segment *largest = &a->seg[0];

        for (int i = 1; i < a->nseg; i++)
            if (a->seg[i].bytes > largest->bytes) largest = &a->seg[i];
        return err_set(err, PAWL_ENOMEM,
                       "out of memory: %.1f MiB are needed, %.1f MiB of them for %s: lower micro_batch_size or sequence_len, or set gradient_checkpointing: true",
                       (double)a->bytes / 1048576, (double)largest->bytes / 1048576, largest->name);
    }
    for (int i = 0; i < a->nseg; i++) {
        *(void **)a->seg[i].ptr = (char *)a->base + off;
        off += aligned(a->seg[i].bytes);
    }
    return PAWL_OK;
}

void arena_free(struct arena *a)
{
    if (a->host) munmap(a->host, a->bytes ? a->bytes : 1);
    free(a->seg);
    *a = (struct arena){0};
}
