/* With p_tj = exp(q_t . k_j / sqrt(D) - lse_t), dp_tj = do_t . v_j, delta_t = do_t . o_t and ds_tj = p_tj (dp_tj - delta_t):
 *   dq_t = sum_j ds_tj k_j / sqrt(D),  dk_j = sum_t ds_tj q_t / sqrt(D),  dv_j = sum_t p_tj do_t.        Dao 2023, FlashAttention-2, section 3.1
 *
 * Two kernels, one that owns keys and one that owns queries, so that every sum is one thread block's, in one order, without atomics; p and dp are computed in both: 14 D operations a pair
 * of query and key instead of 10 D. The other side comes in steps of 64 rows (32 for wide heads, so that sums stay in registers), one step ahead of its use. */
#include "kernels/cuda/attention.cuh"

#define STEP(DP) ((DP) <= 80 ? 64 : 32)

/* Work of one head that both kernels read. */
struct backward {
    struct heads q, k, v, dout;
    const float *lse, *delta; /* (T, H) */
    const int32_t *example_start;
    int examples, D;
    float scale; /* 1 / sqrt(D) */
    bool wide;
};

POINTERS_OF(struct backward, s.q.p, s.k.p, s.v.p, s.dout.p, s.lse, s.delta, s.example_start)

/* One warp a (token, head). */
static __global__ void delta_kernel(float *delta, const bf16 *dout, const bf16 *o, int64_t n, int D)
{
    int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    float sum = 0;

    if (i >= n) return;
    for (int d = (int)threadIdx.x % WARP; d < D; d += WARP) sum = fmaf(from_bf16(dout[i * D + d]), from_bf16(o[i * D + d]), sum);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) delta[i] = sum;
}

/* lse (in units of log 2) and delta of N queries from `from` on; behind the end +inf, which makes p 0, and 0. */
template <int N> static __device__ __forceinline__ void load_rows(float *lse, float *delta, const struct backward &b, struct tile t, int from, int h)
{
    for (int i = (int)threadIdx.x; i < N; i += THREADS) {
        bool valid = from + i < t.len;
        int64_t at = (int64_t)(t.first + from + i) * b.q.heads + h;

        lse[i] = valid ? b.lse[at] * LOG2E : INFINITY;
        delta[i] = valid ? b.delta[at] : 0;
    }
}

/* ---- dk, dv: keys in rows, queries in columns ---- */

template <int DP>
static __global__ void __launch_bounds__(THREADS, 2) keys_kernel(bf16 *dk, bf16 *dv, struct backward b)
{
    const int N = STEP(DP), GROUP = b.q.heads / b.k.heads, g = (int)blockIdx.y, warp = (int)threadIdx.x / WARP;
    bf16 *shared_k = (bf16 *)shared_memory(), *shared_v = shared_k + TILE * PITCH(DP), *steps = shared_v + TILE * PITCH(DP);
    float *rows = (float *)(steps + 4 * N * PITCH(DP));
    struct tile t;

    if (!find_tile(&t, b.example_start, b.examples, (int)blockIdx.x)) return;
    const int each = (t.len - t.row + N - 1) / N, count = each * GROUP; /* steps of a head, of all heads of the group */
    float sum_k[DP / 8][4] = {}, sum_v[DP / 8][4] = {};
    const bf16 *own_k = shared_k + warp * 16 * PITCH(DP), *own_v = shared_v + warp * 16 * PITCH(DP);

    load_tile<DP, TILE>(shared_k, b.k, t, t.row, g, b.D, b.wide);
    load_tile<DP, TILE>(shared_v, b.v, t, t.row, g, b.D, b.wide);
    for (int s = 0; s <= count; s++) {
        if (s < count) { /* step s comes in while step s - 1 is worked on */
            bf16 *next = steps + s % 2 * 2 * N * PITCH(DP);
            float *next_rows = rows + s % 2 * 2 * N;
            int h = g * GROUP + s / each, from = t.row + s % each * N;

            load_tile<DP, N>(next, b.q, t, from, h, b.D, b.wide);
            load_tile<DP, N>(next + N * PITCH(DP), b.dout, t, from, h, b.D, b.wide);
            load_rows<N>(next_rows, next_rows + N, b, t, from, h);
        }
        ptx_commit();
        if (s == 0) continue;
        ptx_wait<1>();
        __syncthreads();

        const bf16 *q = steps + (s - 1) % 2 * 2 * N * PITCH(DP), *dout = q + N * PITCH(DP);
        const float *lse = rows + (s - 1) % 2 * 2 * N, *delta = lse + N;
        int from = t.row + (s - 1) % each * N;
        float p[N / 8][4], ds[N / 8][4];
        product_of_tiles<DP, N>(p, own_k, q);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int query = fragment_column(n, i);
                bool seen = t.row + warp * 16 + fragment_row(i) <= from + query;

                p[n][i] = seen ? ptx_exp2(fmaf(p[n][i], b.scale * LOG2E, -lse[query])) : 0;
            }
        add_product<DP, N>(sum_v, p, dout);
        product_of_tiles<DP, N>(ds, own_v, dout);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) ds[n][i] = p[n][i] * (ds[n][i] - delta[fragment_column(n, i)]);
        add_product<DP, N>(sum_k, ds, q);
        __syncthreads(); /* this step's buffers are the next but one's */
    }
    store_heads<DP>(dk, b.k.heads, t, g, b.D, sum_k, b.scale, b.scale);
    store_heads<DP>(dv, b.k.heads, t, g, b.D, sum_v, 1, 1);
}

/* ---- dq: queries in rows, keys in columns ---- */

template <int DP>
static __global__ void __launch_bounds__(THREADS, 2) queries_kernel(bf16 *dq, struct backward b)
{
    const int N = STEP(DP), h = (int)blockIdx.y, g = h / (b.q.heads / b.k.heads), warp = (int)threadIdx.x / WARP;
    bf16 *shared_q = (bf16 *)shared_memory(), *shared_d = shared_q + TILE * PITCH(DP), *steps = shared_d + TILE * PITCH(DP);
    float *lse = (float *)(steps + 4 * N * PITCH(DP)), *delta = lse + TILE;
    struct tile t;

    if (!find_tile(&t, b.example_start, b.examples, (int)(gridDim.x - 1 - blockIdx.x))) return;
    const int end = t.row + TILE < t.len ? t.row + TILE : t.len, count = (end + N - 1) / N;
    float sum[DP / 8][4] = {};
    const bf16 *own_q = shared_q + warp * 16 * PITCH(DP), *own_d = shared_d + warp * 16 * PITCH(DP);

    load_tile<DP, TILE>(shared_q, b.q, t, t.row, h, b.D, b.wide);
    load_tile<DP, TILE>(shared_d, b.dout, t, t.row, h, b.D, b.wide);
    load_rows<TILE>(lse, delta, b, t, t.row, h);
    for (int s = 0; s <= count; s++) {
        if (s < count) {
            bf16 *next = steps + s % 2 * 2 * N * PITCH(DP);

            load_tile<DP, N>(next, b.k, t, s * N, g, b.D, b.wide);
            load_tile<DP, N>(next + N * PITCH(DP), b.v, t, s * N, g, b.D, b.wide);
        }
        ptx_commit();
        if (s == 0) continue;
        ptx_wait<1>();
        __syncthreads();

        const bf16 *k = steps + (s - 1) % 2 * 2 * N * PITCH(DP), *v = k + N * PITCH(DP);
        float p[N / 8][4], ds[N / 8][4];
        product_of_tiles<DP, N>(p, own_q, k);
        product_of_tiles<DP, N>(ds, own_d, v);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = warp * 16 + fragment_row(i), key = (s - 1) * N + fragment_column(n, i);
                float e = key <= t.row + row ? ptx_exp2(fmaf(p[n][i], b.scale * LOG2E, -lse[row])) : 0;

                ds[n][i] = e * (ds[n][i] - delta[row]);
            }
        add_product<DP, N>(sum, ds, k);
        __syncthreads();
    }
    store_heads<DP>(dq, b.q.heads, t, h, b.D, sum, b.scale, b.scale);
}

template <int DP> static void launch(struct dev *dev, const struct attention_job *j, const struct backward *b, int64_t slots)
{
    struct cuda *c = cuda_of(dev);
    size_t shared = (2 * TILE + 4 * STEP(DP)) * PITCH(DP) * sizeof(bf16);

    LAUNCH(c, c->main, dim3((unsigned)slots, (unsigned)j->G), THREADS, shared + 4 * STEP(DP) * sizeof(float), keys_kernel<DP>, j->dk, j->dv, *b);
    LAUNCH(c, c->main, dim3((unsigned)slots, (unsigned)j->H), THREADS, shared + 2 * TILE * sizeof(float), queries_kernel<DP>, j->dq, *b);
}

void cuda_attention_backward(struct dev *dev, act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse,
                             const struct layout *lay, int H, int G, int D)
{
    struct cuda *c = cuda_of(dev);
    int64_t n = (int64_t)lay->T * H;
    float *delta = (float *)cuda_room(dev, (size_t)n * sizeof *delta, "attention's backward pass");
    const struct attention_job j = {(const bf16 *)q, (const bf16 *)k, (const bf16 *)v, (const bf16 *)o, (const bf16 *)dout, NULL, (bf16 *)dq, (bf16 *)dk, (bf16 *)dv, (float *)lse, delta,
                                    lay->example_start, lay->T, lay->examples, H, G, D};
    const struct backward b = {{j.q, H}, {j.k, G}, {j.v, G}, {j.dout, H}, lse, delta, lay->example_start, lay->examples, D, 1 / sqrtf((float)D),
                               D % 8 == 0 && aligned16(q) && aligned16(k) && aligned16(v) && aligned16(dout)};

    if (!delta) return;
    LAUNCH(c, c->main, (unsigned)ceil_div(n, 4), 4 * WARP, 0, delta_kernel, delta, j.dout, j.o, n, D);
#define TRY(DP) \
    if (D <= DP) { \
        launch<DP>(dev, &j, &b, tile_slots(lay)); \
        return; \
    }
    ALL_PADDED(TRY)
#undef TRY
    attention_plain_backward(dev, &j);
}
