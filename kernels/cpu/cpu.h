/* Inside of the CPU backend. The sources of this folder are compiled once for each (instruction set, type of an activation), see isa.cmake;
 * every name shared among them gets the variant's suffix here, so that all variants stand side by side in one program.
 *
 * Everything with a sum over C, F, N, V or tokens is one machine: a tile of TILE_ROWS x TILE_COLS fp32 sums in registers (tile.c) that runs along the axis of summation over
 *   - a block of rows, (rows, words), unpacked from activations (block_rows, block_cols), and
 *   - a panel, (words, TILE_COLS), unpacked from a weight in whatever format or from activations (panel_rows, panel_cols).
 * A word is 32 bits: one fp32, or a pair of bf16 neighbours along the axis of summation where vdpbf16ps multiplies them (PAIRS). Blocks and panels live in the thread's scratch and
 * are small enough to stay in its L2 cache. A sum runs along its axis from first to last whatever the sizes of blocks, so bits do not depend on them.
 * Where an activation is bf16, weights are rounded to bf16 when unpacked, as bitsandbytes and PEFT compute with that dtype. */
#ifndef PAWL_CPU_H
#define PAWL_CPU_H

#include "kernels/cpu/simd.h"
#include "kernels/ops.h"

#include <stdbool.h>

#ifdef CPU_ACT_BF16
typedef bf16 elem;
#define ELEM_LOAD vload_bf16
#define ELEM_STORE vstore_bf16
#else
typedef float elem;
#define ELEM_LOAD vload
#define ELEM_STORE vstore
#endif

#if defined(__AVX512BF16__) && defined(CPU_ACT_BF16)
#define PAIRS 1
typedef bf16 unit; /* an operand of a multiplication */
#else
#define PAIRS 0
typedef float unit;
#endif
#define WORD_UNITS (PAIRS + 1)
typedef float word __attribute__((may_alias));

#define CPU_JOIN_(a, b) a##_##b
#define CPU_JOIN(a, b) CPU_JOIN_(a, b)
#define CPU(name) CPU_JOIN(name, CPU_VARIANT)
#define cpu_ops CPU(cpu_ops)

/* Sums kept in registers: as many as leave room for a row of the panel and one element of the block. */
#if VL == 16
#define TILE_ROWS 14
#elif VL == 8
#define TILE_ROWS 6
#else
#define TILE_ROWS 4
#endif
#define TILE_VECTORS 2
#define TILE_COLS (TILE_VECTORS * VL)

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
/* Words that hold n units. */
static inline int64_t words_of(int64_t n) { return (n + PAIRS) / WORD_UNITS; }
/* First of item i when n things are dealt out to `parts` in runs that differ by one at most. */
static inline int64_t share(int64_t n, int64_t parts, int64_t i) { return n / parts * i + min64(i, n % parts); }

/* ---- the first n lanes of a vector in memory; n <= VL, the others are read as 0 and not written ---- */

static inline vf elem_load(const elem *p, int64_t n)
{
    elem t[VL] = {0};

    if (n == VL) return ELEM_LOAD(p);
    memcpy(t, p, (size_t)n * sizeof *t);
    return ELEM_LOAD(t);
}

static inline void elem_store(elem *p, vf x, int64_t n)
{
    elem t[VL];

    if (n == VL) {
        ELEM_STORE(p, x);
        return;
    }
    ELEM_STORE(t, x);
    memcpy(p, t, (size_t)n * sizeof *t);
}

static inline vf f32_load(const float *p, int64_t n)
{
    float t[VL] = {0};

    if (n == VL) return vload(p);
    memcpy(t, p, (size_t)n * sizeof *t);
    return vload(t);
}

static inline void f32_store(float *p, vf x, int64_t n)
{
    float t[VL];

    if (n == VL) {
        vstore(p, x);
        return;
    }
    vstore(t, x);
    memcpy(p, t, (size_t)n * sizeof *t);
}

/* Runs the body behind it for vectors of elements [i, i + lanes), i < n. */
#define FOR_VECTORS(i, lanes, n) for (int64_t i = 0, lanes; lanes = min64(VL, (n) - i), i < (n); i += VL)

/* ---- tile.c ---- */

/* Word k of row i stands at at[i * row + k * step]. */
struct block {
    const word *at;
    int64_t row, step;
};

/* Word k of column j of panel p stands at at[p * next + k * step + j], j < TILE_COLS. */
struct panels {
    const word *at;
    int64_t next, step;
};

/* What becomes of c: it is set; a sum of its own is added to it at the end, so that many small ones count; or its sum goes on, with the bits of one that never left the registers. */
enum onto { SET, ADD, GO_ON };

#define tile_run CPU(tile_run)
/* c (rows, vectors * VL) from block (rows, words) times the first of the panels; 1 <= rows <= TILE_ROWS, 1 <= vectors <= TILE_VECTORS. */
void tile_run(int rows, int vectors, int64_t words, struct block a, struct panels b, float *c, int64_t c_stride, enum onto onto);

/* The same over as many panels as `cols` columns need; c is written up to the end of the last vector. */
#define tile_sweep CPU(tile_sweep)
void tile_sweep(int rows, int64_t cols, int64_t words, struct block a, struct panels b, float *c, int64_t c_stride, enum onto onto);

/* ---- panel.c ---- */

/* Which elements dropout keeps at one site of one micro-batch. lay NULL: all of them. */
struct mask {
    struct dropout drop;
    const struct layout *lay;
    int64_t token; /* of the micro-batch that row 0 of the masked matrix is */
};

/* A matrix to read: a stored weight, activations, or fp32; the last two with rows `stride` elements apart. What the mask does not keep counts as 0. */
struct matrix {
    const struct weight *W;
    const elem *x;
    const float *f;
    int64_t stride;
    struct mask mask;
};

/* Operands, filled from rectangles of m. `along` says where the sum runs:
 *   ROWS: the sum runs along the columns [s0, s1) of m (a row of m makes a row of the block, a column of the panel): x in y = x W^T, and W.
 *   COLS: the sum runs along the rows [s0, s1) of m: W in dx = dy W, and both operands of dB = dy^T h.
 * i0, i1: the rows of the block, or the columns of the product that the panels make: panel j holds columns i0 + j TILE_COLS and so on, stands at out + j panel_stride and has
 * rows of TILE_COLS words; columns behind i1 are zero up to the end of their vector. An odd end of the sum is filled with zero.
 * A block's rows are written up to the next multiple of VL words. */
enum along { ROWS, COLS };
#define fill_block CPU(fill_block)
#define fill_panels CPU(fill_panels)
void fill_block(word *out, int64_t out_stride, const struct matrix *m, enum along along, int64_t i0, int64_t i1, int64_t s0, int64_t s1);
void fill_panels(word *out, int64_t panel_stride, const struct matrix *m, enum along along, int64_t i0, int64_t i1, int64_t s0, int64_t s1);

/* ---- gemm.c ---- */

#define GEMM_TERMS 16

/* y (M, N) = scale * (sum of the terms, in their order, + bias). */
struct gemm {
    int64_t M, N;
    int terms;
    struct gemm_term {
        struct matrix a;      /* rows of the product, summed along a_along */
        struct matrix b;      /* columns of the product, summed along b_along */
        enum along a_along, b_along;
        int64_t depth;
        struct mask mask;     /* elements of this term's product that are not kept count as 0, the others are divided by 1 - p */
    } term[GEMM_TERMS];
    float scale;
    const float *bias;        /* (N) or NULL */
    elem *y;                  /* one of y and f */
    float *f;
    int64_t stride;           /* of a row of y or f */
    bool transposed;          /* f is (N, M) */
};
#define gemm_run CPU(gemm_run)
void gemm_run(struct dev *dev, const struct gemm *g);

/* ---- dropout.c ---- */

/* keep[i] = all ones where column k0 + i of row t is kept, else 0; i < n. k0 is a multiple of 4; keep has room for n rounded up to 4 VL. */
#define mask_row CPU(mask_row)
void mask_row(int32_t *keep, const struct mask *m, int64_t t, int64_t k0, int64_t n);

/* ---- scratch ---- */

#define THREAD_SCRATCH ((int64_t)4 << 20)

/* Memory handed out in pieces that start on a cache line. */
struct pad {
    char *at, *end;
};
#define pad_of CPU(pad_of)
#define pad_shared CPU(pad_shared)
#define pad_take CPU(pad_take)
/* A thread's own part of dev->scratch: THREAD_SCRATCH bytes, whatever the number of tokens. */
struct pad pad_of(const struct dev *dev, int thread);
/* The part behind those, for what grows with the micro-batch. */
struct pad pad_shared(const struct dev *dev);
void *pad_take(struct pad *p, int64_t bytes);

/* Bytes of the shared part that the ops named need. */
#define attention_shared CPU(attention_shared)
#define head_shared CPU(head_shared)
int64_t attention_shared(int64_t T, int64_t H, int64_t G, int64_t D);
int64_t head_shared(int64_t T, int64_t C, int threads);

/* ---- the ops, as kernels/ops.h has them ---- */

#define OP(name) CPU(cpu_##name)

void OP(embed)(struct dev *dev, act *y, const struct weight *W, const int32_t *ids, int T);
void OP(gather)(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);
void OP(scatter)(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);
void OP(rmsnorm)(struct dev *dev, act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps);
void OP(add_rmsnorm)(struct dev *dev, act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps);
void OP(rmsnorm_backward)(struct dev *dev, act *dx, const act *base, const act *dy, const act *x, const float *w, const float *rstd, int64_t n, int C);
void OP(lora_down)(struct dev *dev, act *h, const act *x, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r);
void OP(linear)(struct dev *dev, act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r);
void OP(lora_up_backward)(struct dev *dev, act *u, const act *dy, const act *B, float s, int T, int N, int r);
void OP(linear_backward)(struct dev *dev, act *dx, const struct linear_term *terms, int nterm, const struct layout *lay);
void OP(lora_grad)(struct dev *dev, float *dA, float *dB, const act *dy, const act *h, const act *u, const act *x, struct dropout drop, const struct layout *lay, int row,
                   int N, int K, int r);
void OP(rope)(struct dev *dev, act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse);
void OP(attention)(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D);
void OP(attention_backward)(struct dev *dev, act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse,
                            const struct layout *lay, int H, int G, int D);
void OP(attention_decode)(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H,
                          int G, int D);
void OP(swiglu)(struct dev *dev, act *y, const act *gate, const act *up, int64_t n);
void OP(swiglu_backward)(struct dev *dev, act *dgate, act *dup, act *y, const act *dy, const act *gate, const act *up, int64_t n);
void OP(head_loss)(struct dev *dev, float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale);
void OP(logits)(struct dev *dev, float *logits, const act *x, const struct weight *W, int n);
void OP(add)(struct dev *dev, float *a, const float *b, int64_t n);
void OP(sum_squares)(struct dev *dev, double *out, const float *x, int64_t n, int64_t block);
void OP(adamw)(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper);
void OP(round_operand)(struct dev *dev, act *operand, const float *theta, int64_t n);

#endif
