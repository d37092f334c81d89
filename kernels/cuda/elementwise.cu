/* RoPE: (x_i, x_{i + D/2}) turned by the angle of (position, i); Su et al. 2021. 2 bytes read and written an element, tables from L2.
 * SwiGLU: y = g sigma(g) u;  dg = dy u (sigma + g sigma (1 - sigma)),  du = dy g sigma; Shazeer 2020, eq. 6. 4 bytes read and 2 written an element, backward 6 and 4 or 6.
 * All bound by memory. */
#include "kernels/cuda/vec.cuh"

#define THREADS 256

/* One thread block a token, N pairs a thread at a time. */
template <int N> static __global__ void rope_kernel(bf16 *x, const float *cos, const float *sin, const int32_t *pos, int heads, int D, bool inverse)
{
    int half = D / 2, each = half / N;
    int64_t angle = (int64_t)pos[blockIdx.x] * half;
    bf16 *token = x + (int64_t)blockIdx.x * heads * D;

    for (int v = (int)threadIdx.x; v < heads * each; v += (int)blockDim.x) {
        int i = v % each * N;
        bf16 *at = token + v / each * D + i;
        float a[N], b[N], c[N], s[N];

        load_bf16<N>(a, at);
        load_bf16<N>(b, at + half);
        load_f32<N>(c, cos + angle + i);
        load_f32<N>(s, sin + angle + i);
        for (int k = 0; k < N; k++) {
            float turn = inverse ? -s[k] : s[k], low = fmaf(a[k], c[k], -(b[k] * turn));

            b[k] = fmaf(b[k], c[k], a[k] * turn);
            a[k] = low;
        }
        store_bf16<N>(at, a);
        store_bf16<N>(at + half, b);
    }
}

void cuda_rope(struct dev *dev, act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse)
{
    struct cuda *c = cuda_of(dev);
    bool wide = D % 16 == 0 && aligned16(x) && aligned16(cos) && aligned16(sin);
    unsigned threads = (unsigned)smaller(ceil_div((int64_t)heads * (D / 2) / (wide ? 8 : 1), WARP) * WARP, THREADS);

    if (wide) LAUNCH(c, c->main, (unsigned)T, threads, 0, rope_kernel<8>, (bf16 *)x, cos, sin, pos, heads, D, inverse);
    else LAUNCH(c, c->main, (unsigned)T, threads, 0, rope_kernel<1>, (bf16 *)x, cos, sin, pos, heads, D, inverse);
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
