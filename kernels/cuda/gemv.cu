/* y (T, N) = [x | h] [W | B]^T + bias for up to CUDA_GEMV_MAX tokens, as `generate` asks for, straight from the stored blocks: each weight is read once, 0.5 bytes an element of NF4, and
 * nothing else of size. Bound by memory.
 *
 * One warp an output row. A lane takes eight elements at a time, 256 apart, keeps a sum a token, and the warp adds its lanes' sums in a butterfly. x stands in shared memory, so that a row
 * costs it no traffic; long rows go through it in slices. */
#include "kernels/cuda/formats.cuh"

#define WARPS 8
#define SLICE CUDA_GEMV_SLICE

template <class F, int TOKENS, typename Y>
static __global__ void __launch_bounds__(WARPS *WARP) gemv_kernel(Y *y, const bf16 *x, struct weight w, const float *bias, const bf16 *h, const bf16 *B, int T, int r)
{
    float *codes = (float *)shared_memory();
    bf16 *slice = (bf16 *)(codes + CODES);
    int lane = (int)threadIdx.x % WARP;
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, row = n < w.N ? stored_row(w, n) * w.K : 0;
    float sum[TOKENS] = {};

    F::codes(codes);
    for (int64_t k0 = 0; k0 < w.K; k0 += SLICE) {
        int width = (int)(w.K - k0 < SLICE ? w.K - k0 : SLICE);

        __syncthreads();
        for (int i = (int)threadIdx.x * 8; i < TOKENS * width; i += WARPS * WARP * 8) {
            int t = i / width, k = i % width;

            if (t < T) *(uint4 *)(slice + t * SLICE + k) = *(const uint4 *)(x + t * w.K + k0 + k);
        }
        __syncthreads();
        if (n >= w.N) continue;
        for (int k = lane * 8; k < width; k += WARP * 8) {
            float a[8], b[8];

            F::template read<8>(w, codes, row + k0 + k, a);
#pragma unroll
            for (int t = 0; t < TOKENS; t++) {
                if (t >= T) break;
                load_bf16<8>(b, slice + t * SLICE + k);
#pragma unroll
                for (int i = 0; i < 8; i++) sum[t] = fmaf(a[i], b[i], sum[t]);
            }
        }
    }
    if (n >= w.N) return;
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        if (t >= T) break;
        for (int i = lane; i < r; i += WARP) sum[t] = fmaf(from_bf16(h[t * r + i]), from_bf16(B[n * r + i]), sum[t]);
        float total = warp_sum(sum[t]) + (bias ? bias[n] : 0);
        if (lane == 0) {
            if (sizeof(Y) == 2) *(bf16 *)(y + t * w.N + n) = to_bf16(total);
            else *(float *)(y + t * w.N + n) = total;
        }
    }
}

struct gemv {
    const bf16 *x, *h, *B;
    const float *bias;
    int T, r;
};

template <class F, int TOKENS> static void launch_tokens(struct cuda *c, void *y, bool y32, const struct weight *w, const struct gemv *g)
{
    unsigned blocks = (unsigned)ceil_div(w->N, WARPS);
    size_t shared = CODES * sizeof(float) + (size_t)TOKENS * SLICE * sizeof(bf16);

    if (y32) LAUNCH(c, c->main, blocks, WARPS * WARP, shared, (gemv_kernel<F, TOKENS, float>), (float *)y, g->x, *w, g->bias, g->h, g->B, g->T, g->r);
    else LAUNCH(c, c->main, blocks, WARPS * WARP, shared, (gemv_kernel<F, TOKENS, bf16>), (bf16 *)y, g->x, *w, g->bias, g->h, g->B, g->T, g->r);
}

template <class F> static void launch_gemv(struct cuda *c, void *y, bool y32, const struct weight *w, const struct gemv *g)
{
    if (g->T == 1) launch_tokens<F, 1>(c, y, y32, w, g);
    else launch_tokens<F, CUDA_GEMV_MAX>(c, y, y32, w, g);
}

/* The formats that models are kept in; others go through a slot and a GEMM. */
static const struct {
    enum dtype type;
    void (*launch)(struct cuda *c, void *y, bool y32, const struct weight *w, const struct gemv *g);
} kernels[] = {
    {DTYPE_BF16, launch_gemv<format_bf16>}, {DTYPE_NF4, launch_gemv<format_nf4>},   {DTYPE_FP4, launch_gemv<format_fp4>},   {DTYPE_Q4_0, launch_gemv<format_q4_0>},
    {DTYPE_Q4_1, launch_gemv<format_q4_1>}, {DTYPE_Q8_0, launch_gemv<format_q8_0>}, {DTYPE_Q4_K, launch_gemv<format_q4_k>}, {DTYPE_Q6_K, launch_gemv<format_q6_k>},
};

bool cuda_gemv(struct dev *dev, void *y, bool y32, const bf16 *x, const struct weight *W, const float *bias, const bf16 *h, const bf16 *B, int T, int r)
{
    const struct gemv g = {x, h, B, bias, T, r};

    if (W->K % 8 || !aligned16(x) || !aligned16(W->data)) return false;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].type == W->type) {
            kernels[i].launch(cuda_of(dev), y, y32, W, &g);
            return true;
        }
    return false;
}
