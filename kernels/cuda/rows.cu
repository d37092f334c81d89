/* Whole rows moved by an index: 2 C bytes read and written a row. 16 bytes at a time where C and the addresses allow it. */
#include "kernels/cuda/vec.cuh"

#define THREADS 128

/* y[to(i)] = x[from(i)] with rows of `words` words; one thread block a row. */
template <typename word> static __global__ void move_kernel(word *y, const word *x, const int32_t *index, int words, bool scatter)
{
    int64_t from = scatter ? (int64_t)blockIdx.x : index[blockIdx.x], to = scatter ? index[blockIdx.x] : (int64_t)blockIdx.x;

    for (int i = (int)threadIdx.x; i < words; i += THREADS) y[to * words + i] = x[from * words + i];
}

static void move(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C, bool scatter)
{
    struct cuda *c = cuda_of(dev);

    if (C % 8 == 0 && aligned16(x) && aligned16(y))
        LAUNCH(c, c->main, (unsigned)n, THREADS, 0, move_kernel<uint4>, (uint4 *)y, (const uint4 *)x, index, C / 8, scatter);
    else LAUNCH(c, c->main, (unsigned)n, THREADS, 0, move_kernel<bf16>, (bf16 *)y, (const bf16 *)x, index, C, scatter);
}

void cuda_gather(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C)
{
    move(dev, y, x, index, n, C, false);
}

void cuda_scatter(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C)
{
    move(dev, y, x, index, n, C, true);
}
