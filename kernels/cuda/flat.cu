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
