/* o_t = sum_{j <= t} softmax(q_t . k_j / sqrt(D)) v_j within one example; lse_t = log sum_j exp(q_t . k_j / sqrt(D)).
 * Dao 2023, FlashAttention-2, algorithm 1: a thread block has TILE queries of one head and goes over the keys up to them, TILE at a time, with a running maximum and sum.
 *
 * Queries live in registers. While q k^T is computed the values come in, while p v is computed the next keys do. 4 D operations a pair of query and key on tensor cores, half of the pairs
 * of the square are skipped; 2 TILE (2 + T / TILE) D bytes a tile at most, mostly from L2. Tiles with most keys start first. */
#include "kernels/cuda/attention.cuh"

/* Scores of keys from key0 on -> p = 2^(score scale - max); the running maximum and sum of the lane's two rows; down: what the output so far is to be multiplied by. */
static __device__ __forceinline__ void softmax(float p[TILE / 8][4], float max[2], float sum[2], float down[2], float scale, int query0, int key0, int len, bool edge)
{
    float top[2] = {max[0], max[1]};

#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = key0 + fragment_column(n, i);

            p[n][i] = edge && (key > query0 + fragment_row(i) || key >= len) ? -INFINITY : p[n][i] * scale;
            top[i / 2] = fmaxf(top[i / 2], p[n][i]);
        }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        top[half] = fmaxf(top[half], __shfl_xor_sync(FULL_WARP, top[half], 1));
        top[half] = fmaxf(top[half], __shfl_xor_sync(FULL_WARP, top[half], 2));
        down[half] = ptx_exp2(max[half] - top[half]);
        sum[half] *= down[half];
        max[half] = top[half];
    }
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p[n][i] = ptx_exp2(p[n][i] - top[i / 2]);
            sum[i / 2] += p[n][i];
        }
}

template <int DP>
static __global__ void __launch_bounds__(THREADS, 2) attention_kernel(bf16 *o, float *lse, struct heads q, struct heads k, struct heads v, const int32_t *example_start, int examples, int D,
                                                                   float scale, bool wide)
{
    bf16 *shared_q = (bf16 *)shared_memory(), *shared_k = shared_q + TILE * PITCH(DP), *shared_v = shared_k + TILE * PITCH(DP);
    int warp = (int)threadIdx.x / WARP, h = (int)blockIdx.y, g = h / (q.heads / k.heads);
    struct tile t;

    if (!find_tile(&t, example_start, examples, (int)(gridDim.x - 1 - blockIdx.x))) return;
    load_tile<DP, TILE>(shared_q, q, t, t.row, h, D, wide);
    load_tile<DP, TILE>(shared_k, k, t, 0, g, D, wide);
    ptx_commit();
    ptx_wait<0>();
    __syncthreads();

    uint32_t query[DP / 16][4];
    float out[DP / 8][4] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
#pragma unroll
    for (int d = 0; d < DP / 16; d++) fragment_a(query[d], shared_q + warp * 16 * PITCH(DP) + d * 16, PITCH(DP));

    for (int key0 = 0; key0 <= t.row; key0 += TILE) {
        float p[TILE / 8][4] = {}, down[2];

        load_tile<DP, TILE>(shared_v, v, t, key0, g, D, wide);
        ptx_commit();
#pragma unroll
        for (int d = 0; d < DP / 16; d++)
#pragma unroll
            for (int n = 0; n < TILE; n += 16) {
                uint32_t b[4];

                fragment_b_transposed(b, shared_k + n * PITCH(DP) + d * 16, PITCH(DP));
                ptx_mma(p[n / 8], query[d], b);
                ptx_mma(p[n / 8 + 1], query[d], b + 2);
            }
        softmax(p, max, sum, down, scale, t.row + warp * 16, key0, t.len, key0 == t.row);
        ptx_wait<0>();
        __syncthreads(); /* the values are here, the keys are read */
        if (key0 < t.row) load_tile<DP, TILE>(shared_k, k, t, key0 + TILE, g, D, wide);
        ptx_commit();
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) out[n][i] *= down[i / 2];
        add_product<DP, TILE>(out, p, shared_v);
        ptx_wait<0>();
        __syncthreads(); /* the next keys are here, the values are read */
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
        sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
        int row = t.row + warp * 16 + fragment_row(2 * half);
        if (lse && threadIdx.x % 4 == 0 && row < t.len) lse[(int64_t)(t.first + row) * q.heads + h] = (float)(max[half] * 0.6931471805599453 + flog(sum[half]));
    }
    store_heads<DP>(o, q.heads, t, h, D, out, 1 / sum[0], 1 / sum[1]);
}

template <int DP> static void launch(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D)
{
    struct cuda *c = cuda_of(dev);
    bool wide = D % 8 == 0 && aligned16(q) && aligned16(k) && aligned16(v);
    const struct heads query = {(const bf16 *)q, H}, key = {(const bf16 *)k, G}, value = {(const bf16 *)v, G};

    LAUNCH(c, c->main, dim3((unsigned)tile_slots(lay), (unsigned)H), THREADS, 3 * TILE * PITCH(DP) * sizeof(bf16), attention_kernel<DP>, (bf16 *)o, lse, query, key, value,
           lay->example_start, lay->examples, D, LOG2E / sqrtf((float)D), wide);
}

void cuda_attention(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D)
{
#define TRY(DP) \
    if (D <= DP) { \
        launch<DP>(dev, o, lse, q, k, v, lay, H, G, D); \
        return; \
    }
    ALL_PADDED(TRY)
#undef TRY
    const struct attention_job j = {(const bf16 *)q, (const bf16 *)k, (const bf16 *)v, NULL, NULL, (bf16 *)o, NULL, NULL, NULL, lse, NULL, lay->example_start, lay->T, lay->examples, H, G, D};
    attention_plain(dev, &j);
}
