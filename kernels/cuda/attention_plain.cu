/* Attention for head sizes above 128, forward and backward: the formulas of attention.cu and attention_backward.cu without tensor cores. One warp a (token, head), its lanes share the
 * D elements; p is computed again wherever it is needed. Correct for any D up to CUDA_MAX_D, and slow: no model that pawl knows has such heads. */
#include "kernels/cuda/attention.cuh"

#define PARTS (CUDA_MAX_D / WARP)

/* The D elements of one token and head, some a lane. */
struct lanes {
    float x[PARTS];
};

static __device__ __forceinline__ struct lanes load_lanes(const bf16 *p, int D)
{
    struct lanes v;

#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        int d = i * WARP + (int)threadIdx.x % WARP;

        v.x[i] = d < D ? from_bf16(p[d]) : 0;
    }
    return v;
}

static __device__ __forceinline__ void store_lanes(bf16 *p, const struct lanes &v, int D, float scale)
{
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        int d = i * WARP + (int)threadIdx.x % WARP;

        if (d < D) p[d] = to_bf16(v.x[i] * scale);
    }
}

static __device__ __forceinline__ float dot(const struct lanes &a, const struct lanes &b)
{
    float sum = 0;

#pragma unroll
    for (int i = 0; i < PARTS; i++) sum = fmaf(a.x[i], b.x[i], sum);
    return warp_sum(sum);
}

static __device__ __forceinline__ void add(struct lanes *to, float f, const struct lanes &v)
{
#pragma unroll
    for (int i = 0; i < PARTS; i++) to->x[i] = fmaf(f, v.x[i], to->x[i]);
}

/* Item i of n of this warp, one warp an item. */
static __device__ __forceinline__ int64_t own_item() { return (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; }

static __global__ void forward_kernel(struct attention_job j, float scale)
{
    int64_t i = own_item(), stride = (int64_t)j.G * j.D;
    int t = (int)(i / j.H), h = (int)(i % j.H), g = h / (j.H / j.G);

    if (t >= j.T) return;
    int first = j.example_start[find_row(j.example_start, j.examples, t)];
    struct lanes q = load_lanes(j.q + i * j.D, j.D), out = {};
    float max = -INFINITY, sum = 0;
    for (int s = first; s <= t; s++) {
        float l = dot(q, load_lanes(j.k + s * stride + (int64_t)g * j.D, j.D)) * scale, next = fmaxf(max, l), down = fexp(max - next), e = fexp(l - next);

        sum = fmaf(sum, down, e);
        max = next;
#pragma unroll
        for (int k = 0; k < PARTS; k++) out.x[k] *= down;
        add(&out, e, load_lanes(j.v + s * stride + (int64_t)g * j.D, j.D));
    }
    store_lanes(j.out + i * j.D, out, j.D, 1 / sum);
    if (j.lse && threadIdx.x % WARP == 0) j.lse[i] = (float)(max + flog(sum));
}

/* p and ds of one query and key. */
static __device__ __forceinline__ void pair(float *p, float *ds, const struct attention_job &j, int64_t query, const struct lanes &q, const struct lanes &dout, const struct lanes &k,
                                            const struct lanes &v, float scale)
{
    *p = fexp(dot(q, k) * scale - j.lse[query]);
    *ds = *p * (dot(dout, v) - j.delta[query]);
}

static __global__ void queries_kernel(struct attention_job j, float scale)
{
    int64_t i = own_item();
    int t = (int)(i / j.H), h = (int)(i % j.H), g = h / (j.H / j.G);

    if (t >= j.T) return;
    struct lanes q = load_lanes(j.q + i * j.D, j.D), dout = load_lanes(j.dout + i * j.D, j.D), sum = {};
    for (int s = j.example_start[find_row(j.example_start, j.examples, t)]; s <= t; s++) {
        int64_t at = ((int64_t)s * j.G + g) * j.D;
        struct lanes k = load_lanes(j.k + at, j.D);
        float p, ds;

        pair(&p, &ds, j, i, q, dout, k, load_lanes(j.v + at, j.D), scale);
        add(&sum, ds, k);
    }
    store_lanes(j.dq + i * j.D, sum, j.D, scale);
}

static __global__ void keys_kernel(struct attention_job j, float scale)
{
    int64_t i = own_item();
    int s = (int)(i / j.G), g = (int)(i % j.G), group = j.H / j.G;

    if (s >= j.T) return;
    int end = j.example_start[find_row(j.example_start, j.examples, s) + 1];
    struct lanes k = load_lanes(j.k + i * j.D, j.D), v = load_lanes(j.v + i * j.D, j.D), sum_k = {}, sum_v = {};
    for (int h = g * group; h < (g + 1) * group; h++)
        for (int t = s; t < end; t++) {
            int64_t query = (int64_t)t * j.H + h;
            struct lanes q = load_lanes(j.q + query * j.D, j.D), dout = load_lanes(j.dout + query * j.D, j.D);
            float p, ds;

            pair(&p, &ds, j, query, q, dout, k, v, scale);
            add(&sum_k, ds, q);
            add(&sum_v, p, dout);
        }
    store_lanes(j.dk + i * j.D, sum_k, j.D, scale);
    store_lanes(j.dv + i * j.D, sum_v, j.D, 1);
}

static bool possible(struct dev *dev, int D)
{
    if (D > CUDA_MAX_D) cuda_fail(cuda_of(dev), "a head size of %d: up to %d is supported on this device", D, CUDA_MAX_D);
    return D <= CUDA_MAX_D;
}

void attention_plain(struct dev *dev, const struct attention_job *j)
{
    struct cuda *c = cuda_of(dev);

    if (possible(dev, j->D)) LAUNCH(c, c->main, (unsigned)ceil_div((int64_t)j->T * j->H, WARPS), THREADS, 0, forward_kernel, *j, 1 / sqrtf((float)j->D));
}

void attention_plain_backward(struct dev *dev, const struct attention_job *j)
{
    struct cuda *c = cuda_of(dev);

    if (!possible(dev, j->D)) return;
    LAUNCH(c, c->main, (unsigned)ceil_div((int64_t)j->T * j->H, WARPS), THREADS, 0, queries_kernel, *j, 1 / sqrtf((float)j->D));
    LAUNCH(c, c->main, (unsigned)ceil_div((int64_t)j->T * j->G, WARPS), THREADS, 0, keys_kernel, *j, 1 / sqrtf((float)j->D));
}
