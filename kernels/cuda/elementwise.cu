/* RoPE: (x_i, x_{i + D/2}) turned by the angle of (position, i); Su et al. 2021. 2 bytes read and written an element, tables from L2.
 * SwiGLU: y = g sigma(g) u;  dg = dy u (sigma + g sigma (1 - sigma)),  du = dy g sigma; Shazeer 2020, eq. 6. 4 bytes read and 2 written an element, backward 6 and 4 or 6.
 * All bound by memory. */
#include "kernels/cuda/vec.cuh"

#define THREADS 256

/* One thread a pair. */
static __global__ void rope_kernel(bf16 *x, const float *cos, const float *sin, const int32_t *pos, int64_t pairs, int heads, int D, bool inverse)
{
    int half = D / 2;

    for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < pairs; p += (int64_t)gridDim.x * THREADS) {
        int i = (int)(p % half);
        int64_t head = p / half, angle = (int64_t)pos[head / heads] * half + i;
        bf16 *at = x + head * D + i;
        float a = from_bf16(at[0]), b = from_bf16(at[half]), c = cos[angle], s = inverse ? -sin[angle] : sin[angle];

        at[0] = to_bf16(fmaf(a, c, -(b * s)));
        at[half] = to_bf16(fmaf(b, c, a * s));
    }
}

void cuda_rope(struct dev *dev, act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse)
{
    struct cuda *c = cuda_of(dev);
    int64_t pairs = (int64_t)T * heads * (D / 2);

    LAUNCH(c, c->main, (unsigned)smaller(ceil_div(pairs, THREADS), 1 << 20), THREADS, 0, rope_kernel, (bf16 *)x, cos, sin, pos, pairs, heads, D, inverse);
}

static __device__ __forceinline__ float sigmoid(float g) { return 1 / (1 + fexp(-g)); }

template <int N> static __global__ void swiglu_kernel(bf16 *y, const bf16 *gate, const bf16 *up, int64_t n)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    float g[N], u[N];

    if (i >= n) return;
    load_bf16<N>(g, gate + i);
    load_bf16<N>(u, up + i);
    for (int k = 0; k < N; k++) g[k] = g[k] * sigmoid(g[k]) * u[k];
    store_bf16<N>(y + i, g);
}

template <int N> static __global__ void swiglu_backward_kernel(bf16 *dgate, bf16 *dup, bf16 *y, const bf16 *dy, const bf16 *gate, const bf16 *up, int64_t n)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    float g[N], u[N], d[N], again[N];

    if (i >= n) return;
    load_bf16<N>(g, gate + i);
    load_bf16<N>(u, up + i);
    load_bf16<N>(d, dy + i);
    for (int k = 0; k < N; k++) {
        float s = sigmoid(g[k]), silu = g[k] * s;

        again[k] = silu * u[k];
        g[k] = d[k] * u[k] * fmaf(silu, 1 - s, s);
        u[k] = d[k] * silu;
    }
    store_bf16<N>(dgate + i, g);
    store_bf16<N>(dup + i, u);
    if (y) store_bf16<N>(y + i, again);
}

/* n / 8 vectors of eight, then what is left one by one. */
void cuda_swiglu(struct dev *dev, act *py, const act *pgate, const act *pup, int64_t n)
{
    struct cuda *c = cuda_of(dev);
    bf16 *y = (bf16 *)py;
    const bf16 *gate = (const bf16 *)pgate, *up = (const bf16 *)pup;
    int64_t wide = aligned16(y) && aligned16(gate) && aligned16(up) ? n / 8 * 8 : 0, rest = n - wide;

    LAUNCH(c, c->main, (unsigned)ceil_div(wide / 8, THREADS), THREADS, 0, swiglu_kernel<8>, y, gate, up, wide);
    LAUNCH(c, c->main, (unsigned)ceil_div(rest, THREADS), THREADS, 0, swiglu_kernel<1>, y + wide, gate + wide, up + wide, rest);
}

void cuda_swiglu_backward(struct dev *dev, act *pdgate, act *pdup, act *py, const act *pdy, const act *pgate, const act *pup, int64_t n)
{
    struct cuda *c = cuda_of(dev);
    bf16 *dgate = (bf16 *)pdgate, *dup = (bf16 *)pdup, *y = (bf16 *)py;
    const bf16 *dy = (const bf16 *)pdy, *gate = (const bf16 *)pgate, *up = (const bf16 *)pup;
    bool all = aligned16(dgate) && aligned16(dup) && aligned16(y) && aligned16(dy) && aligned16(gate) && aligned16(up);
    int64_t wide = all ? n / 8 * 8 : 0, rest = n - wide;

    LAUNCH(c, c->main, (unsigned)ceil_div(wide / 8, THREADS), THREADS, 0, swiglu_backward_kernel<8>, dgate, dup, y, dy, gate, up, wide);
    LAUNCH(c, c->main, (unsigned)ceil_div(rest, THREADS), THREADS, 0, swiglu_backward_kernel<1>, dgate + wide, dup + wide, y ? y + wide : NULL, dy + wide, gate + wide, up + wide, rest);
}
