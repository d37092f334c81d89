/* c (rows, columns) (+)= block (rows, words) panel (words, columns): sums stay in registers while the words go by.
 * A step loads one row of the panel (TILE_VECTORS vectors, from L2) and, for each row, broadcasts one word of the block (from L1 or L2): with 14 rows of 2 vectors 16 loads feed 28
 * multiply-adds, so the two multipliers of a core are the limit, not its loads. One function for each number of rows, so that a short block costs what it has.
 * Where a sum is added to c it is added last: begun from c, terms below c's rounding would be swallowed one by one, such as the head's 49,000 words of probability 1e-9. */
#include "kernels/cpu/cpu.h"

#define AHEAD 16 /* words: a panel is read from L2 once a block, and waiting for it would cost a tenth */

static inline __attribute__((always_inline)) vf multiply_add(vf a, vf b, vf c)
{
#if PAIRS
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
#else
    return vfma(a, b, c);
#endif
}

static inline __attribute__((always_inline)) void run(int rows, int vectors, int64_t words, const struct block *block, const struct panels *panels, float *c, int64_t c_stride,
                                                      enum onto onto)
{
    const word *a = block->at, *panel = panels->at;
    int64_t row = block->row, a_step = block->step, b_step = panels->step;
    vf sum[TILE_ROWS][TILE_VECTORS], b[TILE_VECTORS];

    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = (vf){0};
    if (onto == GO_ON) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = vload(c + i * c_stride + v * VL);
    }
    for (; words > 0; words--) {
        UNROLL for (int v = 0; v < vectors; v++) b[v] = vload(panel + v * VL);
        UNROLL for (int v = 0; v < vectors * VL; v += 16) __builtin_prefetch(panel + AHEAD * b_step + v);
        UNROLL for (int i = 0; i < rows; i++) {
            vf ai = vsplat(a[i * row]);
            UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = multiply_add(ai, b[v], sum[i][v]);
        }
        a += a_step;
        panel += b_step;
    }
    if (onto == ADD) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sum[i][v] += vload(c + i * c_stride + v * VL);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) vstore(c + i * c_stride + v * VL, sum[i][v]);
}

typedef void tile_fn(int64_t words, const struct block *a, const struct panels *b, float *c, int64_t c_stride, enum onto onto);

#define TILE(rows)                                                                                                                 \
    static void tile_##rows##_1(int64_t words, const struct block *a, const struct panels *b, float *c, int64_t c_stride, enum onto onto) \
    {                                                                                                                              \
        run(rows, 1, words, a, b, c, c_stride, onto);                                                                               \
    }                                                                                                                              \
    static void tile_##rows##_2(int64_t words, const struct block *a, const struct panels *b, float *c, int64_t c_stride, enum onto onto) \
    {                                                                                                                              \
        run(rows, 2, words, a, b, c, c_stride, onto);                                                                               \
    }
TILE(1) TILE(2) TILE(3) TILE(4)
#if TILE_ROWS > 4
TILE(5) TILE(6)
#endif
#if TILE_ROWS > 6
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
#endif

#define ENTRY(rows) {tile_##rows##_1, tile_##rows##_2}
static tile_fn *const tiles[TILE_ROWS][TILE_VECTORS] = {
    ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4),
#if TILE_ROWS > 4
    ENTRY(5), ENTRY(6),
#endif
#if TILE_ROWS > 6
    ENTRY(7), ENTRY(8), ENTRY(9), ENTRY(10), ENTRY(11), ENTRY(12), ENTRY(13), ENTRY(14),
#endif
};

void tile_run(int rows, int vectors, int64_t words, struct block a, struct panels b, float *c, int64_t c_stride, enum onto onto)
{
    tiles[rows - 1][vectors - 1](words, &a, &b, c, c_stride, onto);
}

void tile_sweep(int rows, int64_t cols, int64_t words, struct block a, struct panels b, float *c, int64_t c_stride, enum onto onto)
{
    for (int64_t n = 0; n < cols; n += TILE_COLS, b.at += b.next) tile_run(rows, (int)ceil_div(min64(cols - n, TILE_COLS), VL), words, a, b, c + n, c_stride, onto);
}
