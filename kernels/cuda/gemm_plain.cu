/* D = alpha op(A) op(B) + beta D for the odd shapes that cuBLASLt has no algorithm for (blas.cu): one thread an element, the sum over k from 0 up in fp32. Slow, and right. */
#include "kernels/cuda/vec.cuh"

#define ROWS 8
#define COLUMNS 32

POINTERS_OF(struct gemm, s.A, s.B, s.D)

static __global__ void gemm_plain_kernel(struct gemm g)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / COLUMNS, column = (int64_t)blockIdx.y * COLUMNS + threadIdx.x % COLUMNS, at = row * g.ldd + column;
    float sum = 0;

    if (row >= g.M || column >= g.N) return;
    for (int64_t k = 0; k < g.K; k++)
        sum = fmaf(from_bf16(g.A[g.ta ? k * g.lda + row : row * g.lda + k]), from_bf16(g.B[g.tb ? column * g.ldb + k : k * g.ldb + column]), sum);
    sum *= g.alpha;
    if (g.d32) ((float *)g.D)[at] = g.beta != 0 ? fmaf(g.beta, ((float *)g.D)[at], sum) : sum;
    else ((bf16 *)g.D)[at] = to_bf16(g.beta != 0 ? fmaf(g.beta, from_bf16(((bf16 *)g.D)[at]), sum) : sum);
}

void cuda_gemm_plain(struct cuda *c, const struct gemm *g)
{
    LAUNCH(c, c->main, dim3((unsigned)ceil_div(g->M, ROWS), (unsigned)ceil_div(g->N, COLUMNS)), ROWS * COLUMNS, 0, gemm_plain_kernel, *g);
}
