/* One new token for each of n sequences: o = softmax(q k^T / sqrt(D)) v over the sequence's cache. 4 D bytes a cached token and key/value head, read once for each query head (heads of
 * a group share them in L2). Bound by memory.
 *
 * One thread block a (token, head). A warp takes every WARPS-th cached token, AHEAD of them at a time, its lanes share the D elements; each warp keeps a running maximum, sum and output (Milakov & Gimelshein 2018),
 * and the warps' are joined in their order. */
#include "kernels/cuda/vec.cuh"

#define WARPS 8
#define AHEAD 4 /* cached tokens that a warp reads at once: one by one it would wait for memory most of the time */

/* PARTS: elements of a lane. */
template <int PARTS>
static __global__ void __launch_bounds__(WARPS *WARP) decode_kernel(bf16 *o, const bf16 *q, const bf16 *kcache, const bf16 *vcache, const int32_t *sequence, const int32_t *len, int cap,
                                                                    int G, int D, float scale)
{
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, H = (int)gridDim.y, h = (int)blockIdx.y;
    int64_t i = blockIdx.x, stride = (int64_t)G * D, head = ((int64_t)sequence[i] * cap * G + h / (H / G)) * D;
    float *shared_max = (float *)shared_memory(), *shared_sum = shared_max + WARPS, *shared_o = shared_sum + WARPS; /* (WARPS, D) */
    float own[PARTS], out[PARTS] = {}, max = -INFINITY, sum = 0;

#pragma unroll
    for (int p = 0; p < PARTS; p++) own[p] = p * WARP + lane < D ? from_bf16(q[(i * H + h) * D + p * WARP + lane]) * scale : 0;
    for (int j = warp, n = len[i]; j < n; j += AHEAD * WARPS) {
        bf16 k[AHEAD][PARTS], v[AHEAD][PARTS];
        float dot[AHEAD], next = max;

#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                bool valid = j + a * WARPS < n && p * WARP + lane < D;
                int64_t at = head + (j + a * WARPS) * stride + p * WARP + lane;

                k[a][p] = valid ? kcache[at] : 0;
                v[a][p] = valid ? vcache[at] : 0;
            }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            dot[a] = 0;
#pragma unroll
            for (int p = 0; p < PARTS; p++) dot[a] = fmaf(own[p], from_bf16(k[a][p]), dot[a]);
            dot[a] = warp_sum(dot[a]);
            if (j + a * WARPS >= n) dot[a] = -INFINITY;
            next = fmaxf(next, dot[a]);
        }
        float down = fexp(max - next);
        sum *= down;
        max = next;
#pragma unroll
        for (int p = 0; p < PARTS; p++) out[p] *= down;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            float e = dot[a] == -INFINITY ? 0 : fexp(dot[a] - next);

            sum += e;
#pragma unroll
            for (int p = 0; p < PARTS; p++) out[p] = fmaf(e, from_bf16(v[a][p]), out[p]);
        }
    }
    if (lane == 0) shared_max[warp] = max, shared_sum[warp] = sum;
#pragma unroll
    for (int p = 0; p < PARTS; p++)
        if (p * WARP + lane < D) shared_o[warp * D + p * WARP + lane] = out[p];
    __syncthreads();
    for (int w = 0; w < WARPS; w++) max = w ? fmaxf(max, shared_max[w]) : shared_max[0];
    for (int d = (int)threadIdx.x; d < D; d += WARPS * WARP) {
        float total = 0, weights = 0;

        for (int w = 0; w < WARPS; w++) {
            float e = shared_sum[w] > 0 ? fexp(shared_max[w] - max) : 0;

            total = fmaf(shared_o[w * D + d], e, total);
            weights = fmaf(shared_sum[w], e, weights);
        }
        o[(i * H + h) * D + d] = to_bf16(total / weights);
    }
}

void cuda_attention_decode(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H, int G, int D)
{
    struct cuda *c = cuda_of(dev);
    dim3 grid((unsigned)n, (unsigned)H);
    size_t shared = (size_t)WARPS * (size_t)(D + 2) * sizeof(float);
    float scale = 1 / sqrtf((float)D);

    if (D > CUDA_MAX_D) {
        cuda_fail(c, "a head size of %d: up to %d is supported on this device", D, CUDA_MAX_D);
        return;
    }
#define TRY(PARTS) \
    if (D <= PARTS * WARP) { \
        LAUNCH(c, c->main, grid, WARPS * WARP, shared, decode_kernel<PARTS>, (bf16 *)o, (const bf16 *)q, (const bf16 *)kcache, (const bf16 *)vcache, sequence, len, cap, G, D, scale); \
        return; \
    }
    TRY(4) TRY(CUDA_MAX_D / WARP)
#undef TRY
}
