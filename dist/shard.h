/* How work and state are shared out: pure functions, the same on every rank. */
#ifndef PAWL_DIST_SHARD_H
#define PAWL_DIST_SHARD_H

#include <stddef.h>
#include <stdint.h>

/* [begin, end) of rows or of elements. */
struct range {
    int64_t begin, end;
};
static inline int64_t range_count(struct range r)
{
    return r.end - r.begin;
}

/* The run of rows of the global batch that a rank computes: contiguous, in the order of ranks, sizes differ by one row at most. Runs of a short step may be empty. */
struct range shard_rows(int64_t rows, int rank, int ranks);

/* The slice of a flat vector of n elements that a rank owns: whole blocks of `block` elements (the last one may be short), sizes differ by one block at most. */
struct range shard_slice(int64_t n, int64_t block, int rank, int ranks);

/* offset[k] (ranks + 1): bytes before rank k's slice, where an element takes `bytes`. */
void shard_offsets(size_t *offset, int64_t n, int64_t block, size_t bytes, int ranks);

#endif
