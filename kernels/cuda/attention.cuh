/* What the attention kernels share: which tile of which example a thread block has, tiles of heads in shared memory, and their products on tensor cores.
 *
 * A tile of R rows and DP columns (the head size, padded with zeros to 64, 80, 96 or 128) has rows DP + 8 elements apart: an odd number of 16-byte steps, so that the eight rows of an
 * ldmatrix fall into different banks. Fragments: tests/emu/ptx.h. */
#ifndef PAWL_CUDA_ATTENTION_CUH
#define PAWL_CUDA_ATTENTION_CUH

#include "kernels/cuda/vec.cuh"

#define TILE 64        /* queries, or keys, that a thread block owns: 16 a warp */
#define WARPS 4
#define THREADS (WARPS * WARP)
#define PITCH(DP) ((DP) + 8)
#define ALL_PADDED(X) X(64) X(80) X(96) X(128)
#define PADDED_MAX 128

/* Heads of one tensor: token t, head h at p + (t heads + h) D. */
struct heads {
    const bf16 *p;
    int heads;
};

POINTERS_OF(struct heads, s.p)

/* Rows [row, row + TILE) of example [first, first + len), all from token `first`. */
struct tile {
    int first, len, row;
};

/* Tiles of all examples in a row: example e has slots from example_start[e] / TILE + e on, enough for its ceil(len / TILE) because floor(a + b) >= floor(a) + floor(b).
 * False: an unused slot. */
static inline int64_t tile_slots(const struct layout *lay) { return lay->T / TILE + lay->examples; }

static __device__ __forceinline__ bool find_tile(struct tile *out, const int32_t *example_start, int examples, int slot)
{
    int low = 0, high = examples;

    while (high - low > 1) {
        int mid = (low + high) / 2;

        if (example_start[mid] / TILE + mid <= slot) low = mid;
        else high = mid;
    }
    *out = {example_start[low], example_start[low + 1] - example_start[low], (slot - example_start[low] / TILE - low) * TILE};
    return out->row < out->len;
}

/* to (ROWS, DP) = rows from .. from + ROWS of an example's head, zeros where there are none. wide: 16 bytes at a time, on the way until ptx_wait. */
template <int DP, int ROWS> static __device__ __forceinline__ void load_tile(bf16 *to, struct heads x, struct tile t, int from, int head, int D, bool wide)
{
    const int64_t stride = (int64_t)x.heads * D;
    const bf16 *source = x.p + ((int64_t)t.first * x.heads + head) * D;

#pragma unroll
    for (int i = (int)threadIdx.x; i < ROWS * (DP / 8); i += THREADS) {
        int row = i / (DP / 8), column = i % (DP / 8) * 8;
        bool valid = from + row < t.len && column < D;
        const bf16 *at = valid ? source + (from + row) * stride + column : source;
        bf16 *out = to + row * PITCH(DP) + column;

        if (wide) ptx_copy16(out, at, valid);
        else
            for (int j = 0; j < 8; j++) out[j] = valid && column + j < D ? at[j] : 0;
    }
}

/* The 16 x 16 piece of a row-major tile as A. */
static __device__ __forceinline__ void fragment_a(uint32_t a[4], const bf16 *piece, int pitch)
{
    int lane = (int)threadIdx.x % WARP;

    ptx_ldmatrix(a, piece + (lane % 16) * pitch + lane / 16 * 8);
}

/* B (16 k, 16 n) = the transpose of a piece (16 n, 16 k): two fragments of 8 n. */
static __device__ __forceinline__ void fragment_b_transposed(uint32_t b[4], const bf16 *piece, int pitch)
{
    int lane = (int)threadIdx.x % WARP;

    ptx_ldmatrix(b, piece + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
}

/* B (16 k, 16 n) = a piece (16 k, 16 n). */
static __device__ __forceinline__ void fragment_b(uint32_t b[4], const bf16 *piece, int pitch)
{
    int lane = (int)threadIdx.x % WARP;

    ptx_ldmatrix_trans(b, piece + (lane % 16) * pitch + lane / 16 * 8);
}

/* c (16, N) = A (16, DP) B (N, DP)^T, both tiles. */
template <int DP, int N> static __device__ __forceinline__ void product_of_tiles(float c[N / 8][4], const bf16 *A, const bf16 *B)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
    for (int k = 0; k < DP; k += 16) {
        uint32_t a[4], b[4];

        fragment_a(a, A + k, PITCH(DP));
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            fragment_b_transposed(b, B + n * PITCH(DP) + k, PITCH(DP));
            ptx_mma(c[n / 8], a, b);
            ptx_mma(c[n / 8 + 1], a, b + 2);
        }
    }
}

/* out (16, DP) += p (16, N) B (N, DP), p rounded to bf16, B a tile. What a lane holds of a product is what it must hold of an A. */
template <int DP, int N> static __device__ __forceinline__ void add_product(float out[DP / 8][4], const float p[N / 8][4], const bf16 *B)
{
#pragma unroll
    for (int k = 0; k < N; k += 16) {
        const float *low = p[k / 8], *high = p[k / 8 + 1];
        const uint32_t a[4] = {ptx_pack(low[0], low[1]), ptx_pack(low[2], low[3]), ptx_pack(high[0], high[1]), ptx_pack(high[2], high[3])};

#pragma unroll
        for (int n = 0; n < DP; n += 16) {
            uint32_t b[4];

            fragment_b(b, B + k * PITCH(DP) + n, PITCH(DP));
            ptx_mma(out[n / 8], a, b);
            ptx_mma(out[n / 8 + 1], a, b + 2);
        }
    }
}

/* Row and column, in a product of a warp, of register i of the fragment at column n. */
static __device__ __forceinline__ int fragment_row(int i) { return (int)threadIdx.x % WARP / 4 + i / 2 * 8; }
static __device__ __forceinline__ int fragment_column(int n, int i) { return n * 8 + (int)threadIdx.x % 4 * 2 + i % 2; }

/* Rows of this warp's 16 x DP registers, times scale[row half], to rows t.row + 16 warp .. of an example's head. */
template <int DP> static __device__ __forceinline__ void store_heads(bf16 *to, int heads, struct tile t, int head, int D, const float x[DP / 8][4], float scale_low, float scale_high)
{
    int warp = (int)threadIdx.x / WARP;

#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = t.row + warp * 16 + fragment_row(2 * half), column = fragment_column(n, 0);
            float scale = half ? scale_high : scale_low;
            bf16 *at = to + ((int64_t)(t.first + row) * heads + head) * D + column;

            if (row >= t.len || column >= D) continue;
            if (D % 2 == 0) *(uint32_t *)at = ptx_pack(x[n][2 * half] * scale, x[n][2 * half + 1] * scale);
            else {
                at[0] = to_bf16(x[n][2 * half] * scale);
                if (column + 1 < D) at[1] = to_bf16(x[n][2 * half + 1] * scale);
            }
        }
}

/* ---- attention_plain.cu: the same for head sizes above PADDED_MAX ---- */

struct attention_job {
    const bf16 *q, *k, *v, *o, *dout;
    bf16 *out, *dq, *dk, *dv;
    float *lse, *delta;
    const int32_t *example_start;
    int T, examples, H, G, D;
};
POINTERS_OF(struct attention_job, s.q, s.k, s.v, s.o, s.dout, s.out, s.dq, s.dk, s.dv, s.lse, s.delta, s.example_start)
void attention_plain(struct dev *dev, const struct attention_job *j);
void attention_plain_backward(struct dev *dev, const struct attention_job *j);

#endif
