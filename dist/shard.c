#include "dist/shard.h"

/* floor(n k / ranks) without the product. */
static int64_t part(int64_t n, int k, int ranks)
{
    return n / ranks * k + n % ranks * k / ranks;
}

struct range shard_rows(int64_t rows, int rank, int ranks)
{
    return (struct range){part(rows, rank, ranks), part(rows, rank + 1, ranks)};
}

struct range shard_slice(int64_t n, int64_t block, int rank, int ranks)
{
    int64_t blocks = (n + block - 1) / block;
    struct range r = {part(blocks, rank, ranks) * block, part(blocks, rank + 1, ranks) * block};

    return (struct range){r.begin < n ? r.begin : n, r.end < n ? r.end : n};
}

void shard_offsets(size_t *offset, int64_t n, int64_t block, size_t bytes, int ranks)
{
    offset[0] = 0;
    for (int k = 0; k < ranks; k++) offset[k + 1] = (size_t)shard_slice(n, block, k, ranks).end * bytes;
}
