/* The flat vector: nodes of the gradient tree, blocks of the norm, AdamW. 4 bytes an element and array: all bound by memory (adamw 4 reads and 3 writes of fp32, one of bf16).
 * The build has no contraction (-fmad=false), so adamw rounds after every operation, as kernels/ops.h asks. */
#include "kernels/cuda/vec.cuh"

#define THREADS 256

static unsigned blocks_for(int64_t n)
{
    return (unsigned)smaller(ceil_div(n, THREADS), 65536);
}

static __device__ __forceinline__ int64_t first_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ int64_t index_step() { return (int64_t)gridDim.x * blockDim.x; }

static __global__ void add_kernel(float *a, const float *b, int64_t n)
{
    for (int64_t i = first_index(); i < n; i += index_step()) a[i] += b[i];
}

void cuda_add(struct dev *dev, float *a, const float *b, int64_t n)
{
    LAUNCH(cuda_of(dev), cuda_of(dev)->main, blocks_for(n), THREADS, 0, add_kernel, a, b, n);
}

/* One thread block a block of the norm; a thread sums every THREADS-th element. */
static __global__ void sum_squares_kernel(double *out, const float *x, int64_t n, int64_t size)
{
    int64_t begin = blockIdx.x * size, end = begin + size < n ? begin + size : n;
    double sum = 0;

    for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) sum += (double)x[i] * x[i];
    sum = block_sum(sum, (double *)shared_memory());
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

void cuda_sum_squares(struct dev *dev, double *out, const float *x, int64_t n, int64_t block)
{
    LAUNCH(cuda_of(dev), cuda_of(dev)->main, (unsigned)ceil_div(n, block), THREADS, THREADS / WARP * sizeof(double), sum_squares_kernel, out, x, n, block);
}

/* kernels/base/hash.c on the card: one thread a block, whose words depend on each other; the blocks are many. */
#define MIX 0xc6a4a7935bd1e995u

static __global__ void hashes_kernel(uint64_t *out, const float *x, int64_t n, int64_t size, uint64_t first)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, begin = i * size, count = begin + size < n ? size : n - begin;
    const uint32_t *words = (const uint32_t *)x + begin;
    uint64_t h;

    if (count <= 0) return;
    h = (first + (uint64_t)i) ^ (uint64_t)count * sizeof *x * MIX;
#pragma unroll 8
    for (int64_t k = 0; k < count / 2; k++) {
        uint64_t word = (words[2 * k] | (uint64_t)words[2 * k + 1] << 32) * MIX;

        h = (h ^ (word ^ word >> 47) * MIX) * MIX;
    }
    if (count % 2) h = (h ^ words[count - 1]) * MIX;
    h = (h ^ h >> 47) * MIX;
    out[i] = h ^ h >> 47;
}

void cuda_block_hashes(struct dev *dev, uint64_t *out, const float *x, int64_t n, int64_t block, uint64_t first)
{
    LAUNCH(cuda_of(dev), cuda_of(dev)->main, (unsigned)ceil_div(ceil_div(n, block), WARP), WARP, 0, hashes_kernel, out, x, n, block, first);
}

POINTERS_OF(struct adamw, nullptr)

static __global__ void adamw_kernel(float *theta, bf16 *operand, float *m, float *v, const float *g, int64_t n, struct adamw h)
{
    for (int64_t i = first_index(); i < n; i += index_step()) {
        float gi = h.clip * g[i], mi = m[i] + h.rest1 * (gi - m[i]), vi = h.beta2 * v[i] + h.rest2 * gi * gi;
        float next = h.decay * theta[i] - h.step_size * mi / (sqrtf(vi) / h.root + h.eps);

        m[i] = mi;
        v[i] = vi;
        theta[i] = next;
        operand[i] = to_bf16(next);
    }
}

void cuda_adamw(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper)
{
    cuda_await_copies_out(cuda_of(dev));
    LAUNCH(cuda_of(dev), cuda_of(dev)->main, blocks_for(n), THREADS, 0, adamw_kernel, theta, (bf16 *)operand, m, v, g, n, *hyper);
}

static __global__ void round_kernel(bf16 *operand, const float *theta, int64_t n)
{
    for (int64_t i = first_index(); i < n; i += index_step()) operand[i] = to_bf16(theta[i]);
}

void cuda_round_operand(struct dev *dev, act *operand, const float *theta, int64_t n)
{
    LAUNCH(cuda_of(dev), cuda_of(dev)->main, blocks_for(n), THREADS, 0, round_kernel, (bf16 *)operand, theta, n);
}
