/* y = x r w, r = 1 / sqrt(mean(x^2) + eps)                                                        Zhang & Sennrich 2019, eq. 4
 * dx_i = base_i + r (w_i dy_i - x_i r^2 mean_j(w_j dy_j x_j)).
 * One thread block a token (rows of a head's size: one warp a row). The row is read twice, the second time from L1 or L2: 2 C bytes read and 2 C written, add_rmsnorm 4 C and 4 C,
 * backward 4 C (6 C with base) and 2 C. Bound by memory. */
#include "kernels/cuda/vec.cuh"

/* A row for each group of `threads`: a whole thread block, or a warp of it. */
struct lanes {
    int64_t row;
    int first, step; /* elements of this thread */
};

template <int N, bool BLOCK> static __device__ __forceinline__ struct lanes own_lanes()
{
    if (BLOCK) return {(int64_t)blockIdx.x, (int)threadIdx.x * N, (int)blockDim.x * N};
    return {(int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, (int)(threadIdx.x % WARP) * N, WARP * N};
}

template <bool BLOCK> static __device__ __forceinline__ float row_sum(float x)
{
    return BLOCK ? block_sum(x, (float *)shared_memory()) : warp_sum(x);
}

/* sum (not NULL) takes x + d, and is what is normed. */
template <int N, bool BLOCK>
static __global__ void norm_kernel(bf16 *y, float *rstd, bf16 *sum, const bf16 *x, const bf16 *d, const float *w, int64_t n, int C, float eps)
{
    struct lanes at = own_lanes<N, BLOCK>();
    float squares = 0;

    if (at.row >= n) return;
    const bf16 *source = (sum ? sum : x) + at.row * C;
    for (int i = at.first; i < C; i += at.step) {
        float a[N], b[N];

        load_bf16<N>(a, x + at.row * C + i);
        if (sum) {
            load_bf16<N>(b, d + at.row * C + i);
            for (int k = 0; k < N; k++) a[k] = from_bf16(to_bf16(a[k] + b[k]));
            store_bf16<N>(sum + at.row * C + i, a);
        }
        for (int k = 0; k < N; k++) squares = fmaf(a[k], a[k], squares);
    }
    float r = 1 / sqrtf(row_sum<BLOCK>(squares) / (float)C + eps);
    if (rstd && at.first == 0) rstd[at.row] = r;
    for (int i = at.first; i < C; i += at.step) {
        float a[N], scale[N];

        load_bf16<N>(a, source + i);
        load_f32<N>(scale, w + i);
        for (int k = 0; k < N; k++) a[k] = a[k] * r * scale[k];
        store_bf16<N>(y + at.row * C + i, a);
    }
}

template <int N, bool BLOCK>
static __global__ void norm_backward_kernel(bf16 *dx, const bf16 *base, const bf16 *dy, const bf16 *x, const float *w, const float *rstd, int64_t n, int C)
{
    struct lanes at = own_lanes<N, BLOCK>();
    float dot = 0;

    if (at.row >= n) return;
    for (int i = at.first; i < C; i += at.step) {
        float a[N], g[N], scale[N];

        load_bf16<N>(a, x + at.row * C + i);
        load_bf16<N>(g, dy + at.row * C + i);
        load_f32<N>(scale, w + i);
        for (int k = 0; k < N; k++) dot = fmaf(scale[k] * g[k], a[k], dot);
    }
    float r = rstd[at.row], mean = row_sum<BLOCK>(dot) / (float)C;
    for (int i = at.first; i < C; i += at.step) {
        float a[N], g[N], scale[N], b[N];

        load_bf16<N>(a, x + at.row * C + i);
        load_bf16<N>(g, dy + at.row * C + i);
        load_f32<N>(scale, w + i);
        if (base) load_bf16<N>(b, base + at.row * C + i);
        for (int k = 0; k < N; k++) {
            float own = r * fmaf(-a[k] * r * r, mean, scale[k] * g[k]);

            a[k] = base ? b[k] + own : own;
        }
        store_bf16<N>(dx + at.row * C + i, a);
    }
}

/* Threads of a row: about two vectors each. */
static int threads_for(int C)
{
    int threads = 128;

    while (threads < 1024 && threads * 16 < C) threads *= 2;
    return threads;
}

#define NORM_LAUNCH(kernel, n, C, wide, ...) \
    do { \
        struct cuda *c = cuda_of(dev); \
        int threads = threads_for(C); \
        size_t shared = (size_t)threads / WARP * sizeof(float); \
        if ((C) > 512 && (wide)) LAUNCH(c, c->main, (unsigned)(n), (unsigned)threads, shared, (kernel<8, true>), __VA_ARGS__); \
        else if ((C) > 512) LAUNCH(c, c->main, (unsigned)(n), (unsigned)threads, shared, (kernel<1, true>), __VA_ARGS__); \
        else if (wide) LAUNCH(c, c->main, (unsigned)ceil_div(n, 4), 128u, 0, (kernel<8, false>), __VA_ARGS__); \
        else LAUNCH(c, c->main, (unsigned)ceil_div(n, 4), 128u, 0, (kernel<1, false>), __VA_ARGS__); \
    } while (0)

static void norm(struct dev *dev, act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps)
{
    bool wide = C % 8 == 0 && aligned16(y) && aligned16(sum) && aligned16(x) && aligned16(d) && aligned16(w);

    NORM_LAUNCH(norm_kernel, n, C, wide, (bf16 *)y, rstd, (bf16 *)sum, (const bf16 *)x, (const bf16 *)d, w, n, C, eps);
}

void cuda_rmsnorm(struct dev *dev, act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps)
{
    norm(dev, y, rstd, NULL, x, NULL, w, n, C, eps);
}

void cuda_add_rmsnorm(struct dev *dev, act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps)
{
    norm(dev, y, rstd, sum, x, d, w, n, C, eps);
}

void cuda_rmsnorm_backward(struct dev *dev, act *dx, const act *base, const act *dy, const act *x, const float *w, const float *rstd, int64_t n, int C)
{
    bool wide = C % 8 == 0 && aligned16(dx) && aligned16(base) && aligned16(dy) && aligned16(x) && aligned16(w);

    NORM_LAUNCH(norm_backward_kernel, n, C, wide, (bf16 *)dx, (const bf16 *)base, (const bf16 *)dy, (const bf16 *)x, w, rstd, n, C);
}
