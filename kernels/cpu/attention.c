/* o = softmax(q k^T / sqrt(D)) v, causal, within examples, and its gradients                       Dao et al. 2022, algorithms 1 and 4
 *
 * Queries and keys of an example are cut into blocks of SIDE tokens, counted from the example's first one. Keys and values of a block become panels once and serve all query heads of their group.
 *   forward     task (block of queries, kv head): over the blocks of keys up to its own, scores of TILE_ROWS queries at a time stay in L1 between q k^T, softmax and p v.
 *   backward    task (block of keys, kv head): over the blocks of queries from its own on, dk and dv stay with the task, dq is added to in fp32. Blocks of keys add to a block of queries in their order:
 *               a task waits until the one before it is done with that block, and tasks are handed out in that order, so the wait always ends. Five products for each pair of blocks, none computed twice.
 * Which thread runs a task never shows: every sum has one order. A row of queries skips keys behind the last one that any of its block's rows sees. */
#include "kernels/cpu/cpu.h"

#include "kernels/base/fmath.h"

#include <assert.h>
#include <omp.h>
#include <sched.h>

#if VL == 16
#define SIDE 128
#else
#define SIDE 64
#endif
#define MAX_D 256

struct dims {
    int64_t H, G, D;
    int64_t words;   /* of D */
    int64_t wide;    /* D up to a whole vector: a row of fp32 sums */
    float scale;     /* 1 / sqrt(D) */
};

static struct dims dims_of(int H, int G, int D)
{
    assert(D <= MAX_D && H % G == 0);
    return (struct dims){H, G, D, words_of(D), round_up(D, VL), 1 / __builtin_sqrtf((float)D)};
}

/* A run of at most SIDE tokens of an example. */
struct tokens {
    int32_t example, end; /* first token of the example; behind its last */
    int32_t t0, t1;
};

/* The blocks of all examples, in order. */
static int64_t list_blocks(struct tokens *out, const struct layout *lay)
{
    int64_t n = 0;

    for (int e = 0; e < lay->examples; e++)
        for (int32_t first = lay->example_start[e], end = lay->example_start[e + 1], t = first; t < end; t += SIDE)
            out[n++] = (struct tokens){first, end, t, (int32_t)min64(t + SIDE, end)};
    return n;
}

int64_t attention_shared(int64_t T, int64_t H, int64_t G, int64_t D)
{
    return round_up(T * (int64_t)sizeof(struct tokens), 64) + round_up(T * G * 4, 64) + round_up(T * H * 4, 64) + round_up(T * H * round_up(D, VL) * 4, 64);
}

/* Head h of rows (T, heads, D). */
static struct matrix head_of(const elem *x, int64_t h, int64_t heads, int64_t D)
{
    return (struct matrix){.x = x + h * D, .stride = heads * D};
}

/* Words of a row of a block made from D columns, and from SIDE columns. */
static int64_t row_words(const struct dims *d) { return round_up(d->words, VL); }
#define SIDE_WORDS (SIDE / WORD_UNITS)

/* Panels of a block's keys (columns: tokens) and of its rows (columns: D). */
static int64_t panel_words(const struct dims *d) { return round_up(SIDE, TILE_COLS) * d->words; }
static int64_t cols_words(const struct dims *d) { return round_up(d->D, TILE_COLS) * SIDE_WORDS; }

static void fill_by_token(word *out, const struct dims *d, const struct matrix *m, int64_t t0, int64_t t1)
{
    fill_panels(out, d->words * TILE_COLS, m, ROWS, t0, t1, 0, d->D);
}

static void fill_by_column(word *out, const struct dims *d, const struct matrix *m, int64_t t0, int64_t t1)
{
    fill_panels(out, SIDE_WORDS * TILE_COLS, m, COLS, 0, d->D, t0, t1);
}

/* What tile_run takes as a block of rows: fp32 as it is, or rounded to bf16 pairs in out. */
static const word *as_block(word *out, const float *x, int64_t rows, int64_t n)
{
#if PAIRS
    struct matrix m = {.f = x, .stride = SIDE};

    fill_block(out, SIDE_WORDS, &m, ROWS, 0, rows, 0, n);
    return out;
#else
    return x;
#endif
}

/* ---- forward ---- */

/* State of the queries of one block, several heads: row hh SIDE + i. */
struct queries {
    word *q;       /* (rows, row_words) */
    float *o;      /* (rows, wide) */
    float *max;    /* (rows) largest score so far, before scaling */
    vf *sum;       /* (rows) partial sums of exp */
    float *score;  /* (TILE_ROWS, SIDE) */
    word *p;
};

/* One row: scores (keys) -> p, new maximum, old sums scaled down. Keys from `seen` on are hidden. */
static void softmax_row(float *score, int64_t keys, int64_t seen, float *max, vf *sum, float *o, const struct dims *d)
{
    float c = d->scale * LOG2E, old = *max;
    vf top = vsplat(old), part = {0};

    for (int64_t j = seen; j < round_up(keys, VL); j++) score[j] = -__builtin_inff();
    for (int64_t j = 0; j < keys; j += VL) top = vmax(vload(score + j), top);
    float new = vmax_of(top);
    for (int64_t j = 0; j < keys; j += VL) {
        vf p = vexp2(vfma(vload(score + j), vsplat(c), vsplat(-new * c)));
        part += p;
        vstore(score + j, p);
    }
    if (new != old) {
        vf down = vexp2(vsplat((old - new) * c));
        part = vfma(*sum, down, part);
        for (int64_t i = 0; i < d->wide; i += VL) vstore(o + i, vload(o + i) * down);
    } else part += *sum;
    *sum = part;
    *max = new;
}

/* Rows [r0, r1) of one head against keys [k0, k1); query i is token t0 + i. */
static void attend(const struct queries *s, const struct dims *d, int64_t at, int64_t r0, int64_t r1, int64_t t0, int64_t k0, int64_t k1, const word *k, const word *v)
{
    int64_t keys = min64(k1, t0 + r1) - k0;
    int rows = (int)(r1 - r0);

    tile_sweep(rows, keys, d->words, s->q + (at + r0) * row_words(d), row_words(d), k, d->words * TILE_COLS, s->score, SIDE, false);
    for (int i = 0; i < rows; i++) {
        int64_t row = at + r0 + i;
        softmax_row(s->score + i * SIDE, keys, min64(keys, t0 + r0 + i + 1 - k0), &s->max[row], &s->sum[row], s->o + row * d->wide, d);
    }
    tile_sweep(rows, d->D, words_of(keys), as_block(s->p, s->score, rows, keys), SIDE_WORDS, v, SIDE_WORDS * TILE_COLS, s->o + (at + r0) * d->wide, d->wide, true);
}

static void finish_queries(const struct queries *s, const struct dims *d, int64_t at, int64_t h, const struct tokens *b, elem *o, float *lse)
{
    for (int64_t t = b->t0; t < b->t1; t++) {
        int64_t row = at + t - b->t0;
        float sum = vsum(s->sum[row]), inverse = 1 / sum;

        FOR_VECTORS(i, lanes, d->D) elem_store(o + (t * d->H + h) * d->D + i, vload(s->o + row * d->wide + i) * inverse, lanes);
        if (lse) lse[t * d->H + h] = s->max[row] * d->scale + (float)fm_log(sum);
    }
}

static void forward_task(struct pad pad, const struct dims *d, const struct tokens *b, int64_t g, elem *o, float *lse, const elem *q, const elem *k, const elem *v)
{
    int64_t group = d->H / d->G, together = min64(group, max64(1, 512 / d->wide)), n = b->t1 - b->t0, rows = together * SIDE, blocks = ceil_div(n, TILE_ROWS);
    struct matrix km = head_of(k, g, d->G, d->D), vm = head_of(v, g, d->G, d->D);
    word *kp = pad_take(&pad, panel_words(d) * 4), *vp = pad_take(&pad, cols_words(d) * 4);
    struct queries s = {
        .q = pad_take(&pad, rows * row_words(d) * 4), .o = pad_take(&pad, rows * d->wide * 4), .max = pad_take(&pad, rows * 4), .sum = pad_take(&pad, rows * (int64_t)sizeof(vf)),
        .score = pad_take(&pad, TILE_ROWS * SIDE * 4), .p = pad_take(&pad, TILE_ROWS * SIDE_WORDS * 4),
    };

    for (int64_t h0 = g * group; h0 < (g + 1) * group; h0 += together) {
        int64_t heads = min64(together, (g + 1) * group - h0);

        memset(s.o, 0, (size_t)(rows * d->wide) * 4);
        for (int64_t i = 0; i < rows; i++) s.max[i] = -__builtin_inff(), s.sum[i] = (vf){0};
        for (int64_t hh = 0; hh < heads; hh++) {
            struct matrix qm = head_of(q, h0 + hh, d->H, d->D);
            fill_block(s.q + hh * SIDE * row_words(d), row_words(d), &qm, ROWS, b->t0, b->t1, 0, d->D);
        }
        for (int64_t k0 = b->example; k0 < b->t1; k0 += SIDE) {
            int64_t k1 = min64(k0 + SIDE, b->t1);

            fill_by_token(kp, d, &km, k0, k1);
            fill_by_column(vp, d, &vm, k0, k1);
            for (int64_t hh = 0; hh < heads; hh++)
                for (int64_t i = 0; i < blocks; i++) attend(&s, d, hh * SIDE, share(n, blocks, i), share(n, blocks, i + 1), b->t0, k0, k1, kp, vp);
        }
        for (int64_t hh = 0; hh < heads; hh++) finish_queries(&s, d, hh * SIDE, h0 + hh, b, o, lse);
    }
}

void OP(attention)(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D)
{
    struct dims d = dims_of(H, G, D);
    struct pad shared = pad_shared(dev);
    struct tokens *blocks = pad_take(&shared, lay->T * (int64_t)sizeof *blocks);
    int64_t n = list_blocks(blocks, lay) * G;

    /* From the end: the longest tasks of a long example come first, the short ones fill up. */
#pragma omp parallel num_threads(dev->threads)
    {
        struct pad pad = pad_of(dev, omp_get_thread_num());
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n; i++) forward_task(pad, &d, &blocks[(n - 1 - i) / G], (n - 1 - i) % G, o, lse, q, k, v);
    }
}

/* ---- backward ---- */

struct gradient {
    struct dims d;
    elem *dq, *dk, *dv;
    const elem *dout, *q, *k, *v;
    const float *lse;
    const struct tokens *blocks;
    float *delta;        /* (T, H) dout . o */
    float *dq_sum;       /* (H, T, wide) */
    int32_t *done;       /* (blocks, G) how many blocks of keys have been added to a block's dq */
    int64_t T;
};

/* What a task holds. */
struct keys {
    word *k_token, *v_token, *k_column; /* panels of the block of keys */
    float *dk, *dv;                     /* (SIDE, wide) sums */
    word *q_row, *dout_row;             /* (SIDE, row_words) of one head's block of queries */
    word *q_column, *dout_column;       /* the same as panels */
    float *p, *ds;                      /* (SIDE, SIDE) queries by keys */
    word *turned;                       /* (SIDE, SIDE) keys by queries */
    word *rounded;                      /* (TILE_ROWS, SIDE) */
};

/* p and ds of one row, from scores in p and dout v^T in ds; 0 from `seen` on. */
static void gradient_row(float *p, float *ds, int64_t keys, int64_t seen, float lse, float delta, const struct dims *d)
{
    float c = d->scale * LOG2E;
    vf shift = vsplat(-lse * LOG2E);

    for (int64_t j = seen; j < round_up(keys, VL); j++) p[j] = -__builtin_inff();
    for (int64_t j = 0; j < keys; j += VL) {
        vf pj = vexp2(vfma(vload(p + j), vsplat(c), shift));
        vstore(p + j, pj);
        vstore(ds + j, pj * (vload(ds + j) - delta));
    }
    for (int64_t j = round_up(keys, VL); j < SIDE; j += VL) {
        vstore(p + j, (vf){0});
        vstore(ds + j, (vf){0});
    }
}

/* dk or dv (keys, D) += turned (queries, keys)^T times panels over queries. In the block of the diagonal no query sees a later key: row j begins at query j. */
static void add_to_keys(float *sum, const struct dims *d, const float *from, word *turned, const word *panels, int64_t keys, int64_t queries, bool diagonal)
{
    struct matrix m = {.f = from, .stride = SIDE};
    int64_t blocks = ceil_div(keys, TILE_ROWS);

    fill_block(turned, SIDE_WORDS, &m, COLS, 0, keys, 0, queries);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t r0 = share(keys, blocks, i), r1 = share(keys, blocks, i + 1), skip = diagonal ? r0 / WORD_UNITS : 0;

        tile_sweep((int)(r1 - r0), d->D, words_of(queries) - skip, turned + r0 * SIDE_WORDS + skip, SIDE_WORDS, panels + skip * TILE_COLS, SIDE_WORDS * TILE_COLS,
                   sum + r0 * d->wide, d->wide, true);
    }
}

/* One head's queries of block b against the task's keys. */
static void head_gradient(const struct gradient *x, const struct keys *s, const struct tokens *b, int64_t h, int64_t k0, int64_t k1)
{
    const struct dims *d = &x->d;
    int64_t n = b->t1 - b->t0, blocks = ceil_div(n, TILE_ROWS), stride = row_words(d), token_stride = d->words * TILE_COLS, column_stride = SIDE_WORDS * TILE_COLS;
    struct matrix q = head_of(x->q, h, d->H, d->D), dout = head_of(x->dout, h, d->H, d->D);

    fill_block(s->q_row, stride, &q, ROWS, b->t0, b->t1, 0, d->D);
    fill_block(s->dout_row, stride, &dout, ROWS, b->t0, b->t1, 0, d->D);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t r0 = share(n, blocks, i), r1 = share(n, blocks, i + 1), keys = min64(k1, b->t0 + r1) - k0;
        float *p = s->p + r0 * SIDE, *ds = s->ds + r0 * SIDE;
        int rows = (int)(r1 - r0);

        tile_sweep(rows, keys, d->words, s->q_row + r0 * stride, stride, s->k_token, token_stride, p, SIDE, false);
        tile_sweep(rows, keys, d->words, s->dout_row + r0 * stride, stride, s->v_token, token_stride, ds, SIDE, false);
        for (int j = 0; j < rows; j++) {
            int64_t t = b->t0 + r0 + j;
            gradient_row(p + j * SIDE, ds + j * SIDE, keys, min64(keys, t + 1 - k0), x->lse[t * d->H + h], x->delta[t * d->H + h], d);
        }
        tile_sweep(rows, d->D, words_of(keys), as_block(s->rounded, ds, rows, keys), SIDE_WORDS, s->k_column, column_stride, x->dq_sum + (h * x->T + b->t0 + r0) * d->wide, d->wide,
                   k0 > b->example);
    }
    fill_by_column(s->q_column, d, &q, b->t0, b->t1);
    fill_by_column(s->dout_column, d, &dout, b->t0, b->t1);
    add_to_keys(s->dv, d, s->p, s->turned, s->dout_column, k1 - k0, n, b->t0 == k0);
    add_to_keys(s->dk, d, s->ds, s->turned, s->q_column, k1 - k0, n, b->t0 == k0);
}

/* Rows [t0, t1) of one head, times a factor, to (T, heads, D). */
static void store_rows(elem *out, const float *sum, const struct dims *d, int64_t h, int64_t heads, int64_t t0, int64_t t1, float factor)
{
    for (int64_t t = t0; t < t1; t++)
        FOR_VECTORS(i, lanes, d->D) elem_store(out + (t * heads + h) * d->D + i, vload(sum + (t - t0) * d->wide + i) * factor, lanes);
}

static void wait_for(const int32_t *counter, int32_t value)
{
    for (int spins = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) != value; spins++)
        if (spins > 1000) sched_yield();
}

static void backward_task(struct pad pad, const struct gradient *x, int64_t block, int64_t g)
{
    const struct dims *d = &x->d;
    const struct tokens *own = &x->blocks[block];
    int64_t group = d->H / d->G, later = ceil_div(own->end - own->t0, SIDE);
    int32_t turn = (own->t0 - own->example) / SIDE;
    struct matrix km = head_of(x->k, g, d->G, d->D), vm = head_of(x->v, g, d->G, d->D);
    struct keys s = {
        .k_token = pad_take(&pad, panel_words(d) * 4), .v_token = pad_take(&pad, panel_words(d) * 4), .k_column = pad_take(&pad, cols_words(d) * 4),
        .dk = pad_take(&pad, SIDE * d->wide * 4), .dv = pad_take(&pad, SIDE * d->wide * 4),
        .q_row = pad_take(&pad, SIDE * row_words(d) * 4), .dout_row = pad_take(&pad, SIDE * row_words(d) * 4),
        .q_column = pad_take(&pad, cols_words(d) * 4), .dout_column = pad_take(&pad, cols_words(d) * 4),
        .p = pad_take(&pad, SIDE * SIDE * 4), .ds = pad_take(&pad, SIDE * SIDE * 4), .turned = pad_take(&pad, SIDE * SIDE_WORDS * 4),
        .rounded = pad_take(&pad, TILE_ROWS * SIDE_WORDS * 4),
    };

    memset(s.dk, 0, (size_t)(SIDE * d->wide) * 4);
    memset(s.dv, 0, (size_t)(SIDE * d->wide) * 4);
    fill_by_token(s.k_token, d, &km, own->t0, own->t1);
    fill_by_token(s.v_token, d, &vm, own->t0, own->t1);
    fill_by_column(s.k_column, d, &km, own->t0, own->t1);
    for (int64_t i = block; i < block + later; i++) {
        const struct tokens *b = &x->blocks[i];

        wait_for(&x->done[i * d->G + g], turn);
        for (int64_t h = g * group; h < (g + 1) * group; h++) {
            head_gradient(x, &s, b, h, own->t0, own->t1);
            if (i == block) store_rows(x->dq, x->dq_sum + (h * x->T + b->t0) * d->wide, d, h, d->H, b->t0, b->t1, d->scale);
        }
        __atomic_store_n(&x->done[i * d->G + g], turn + 1, __ATOMIC_RELEASE);
    }
    store_rows(x->dk, s.dk, d, g, d->G, own->t0, own->t1, d->scale);
    store_rows(x->dv, s.dv, d, g, d->G, own->t0, own->t1, 1);
}

static void compute_delta(const struct gradient *x, const elem *o, int64_t t)
{
    const struct dims *d = &x->d;

    for (int64_t h = 0; h < d->H; h++) {
        int64_t at = (t * d->H + h) * d->D;
        vf sum = {0};

        FOR_VECTORS(i, lanes, d->D) sum = vfma(elem_load(x->dout + at + i, lanes), elem_load(o + at + i, lanes), sum);
        x->delta[t * d->H + h] = vsum(sum);
    }
}

void OP(attention_backward)(struct dev *dev, act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse,
                            const struct layout *lay, int H, int G, int D)
{
    struct pad shared = pad_shared(dev);
    struct gradient x = {.d = dims_of(H, G, D), .dq = dq, .dk = dk, .dv = dv, .dout = dout, .q = q, .k = k, .v = v, .lse = lse, .T = lay->T};
    struct tokens *blocks = pad_take(&shared, x.T * (int64_t)sizeof *blocks);
    int64_t n = list_blocks(blocks, lay);

    x.blocks = blocks;
    x.done = pad_take(&shared, n * G * 4);
    x.delta = pad_take(&shared, x.T * H * 4);
    x.dq_sum = pad_take(&shared, x.T * H * x.d.wide * 4);
    memset(x.done, 0, (size_t)(n * G) * 4);
#pragma omp parallel num_threads(dev->threads)
    {
        struct pad pad = pad_of(dev, omp_get_thread_num());
#pragma omp for schedule(static)
        for (int64_t t = 0; t < x.T; t++) compute_delta(&x, o, t);
#pragma omp for schedule(monotonic : dynamic)
        for (int64_t i = 0; i < n * G; i++) backward_task(pad, &x, i / G, i % G);
    }
}

/* ---- one new token for each sequence ---- */

static void decode_head(elem *o, const elem *q, const elem *k, const elem *v, int64_t n, int64_t stride, const struct dims *d)
{
    vf query[MAX_D / VL], sum[MAX_D / VL] = {0};
    float max = -__builtin_inff(), total = 0, c = d->scale * LOG2E, score[SIDE];

    FOR_VECTORS(i, lanes, d->D) query[i / VL] = elem_load(q + i, lanes);
    for (int64_t k0 = 0; k0 < n; k0 += SIDE) {
        int64_t keys = min64(SIDE, n - k0);
        float new = max;

        for (int64_t j = 0; j < keys; j++) {
            vf dot = {0};

            FOR_VECTORS(i, lanes, d->D) dot = vfma(query[i / VL], elem_load(k + (k0 + j) * stride + i, lanes), dot);
            score[j] = vsum(dot);
            new = new > score[j] ? new : score[j];
        }
        for (int64_t j = keys; j < SIDE; j++) score[j] = -__builtin_inff();
        for (int64_t j = 0; j < SIDE; j += VL) vstore(score + j, vexp2(vfma(vload(score + j), vsplat(c), vsplat(-new * c))));
        float down = vexp2(vsplat((max - new) * c))[0];
        total *= down;
        for (int64_t i = 0; i < d->D; i += VL) sum[i / VL] *= down;
        for (int64_t j = 0; j < keys; j++) {
            vf p = vsplat(score[j]);

            total += score[j];
            FOR_VECTORS(i, lanes, d->D) sum[i / VL] = vfma(p, elem_load(v + (k0 + j) * stride + i, lanes), sum[i / VL]);
        }
        max = new;
    }
    FOR_VECTORS(i, lanes, d->D) elem_store(o + i, sum[i / VL] / total, lanes);
}

void OP(attention_decode)(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H,
                          int G, int D)
{
    struct dims d = dims_of(H, G, D);

#pragma omp parallel for num_threads(dev->threads) schedule(static) collapse(2)
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < H; h++) {
            int64_t at = (i * H + h) * D, kv = ((int64_t)sequence[i] * cap * G + h / (H / G)) * D;

            decode_head((elem *)o + at, (const elem *)q + at, (const elem *)kcache + kv, (const elem *)vcache + kv, len[i], (int64_t)G * D, &d);
        }
}
