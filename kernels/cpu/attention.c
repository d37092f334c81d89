/* o = softmax(q k^T / sqrt(D)) v, causal, within examples, and its gradients                       Dao et al. 2022, algorithms 1 and 4
 *
 * Queries and keys of an example are cut into blocks of SIDE tokens, counted from the example's first one. Keys and values of a block become panels once and serve all query heads of their group.
 *   forward     task (block of queries, kv head): over the blocks of keys up to its own, scores of TILE_ROWS queries at a time stay in L1 between q k^T, softmax and p v.
 *   backward    task (block of keys, kv head): over the blocks of queries from its own on, dk and dv stay with the task, dq is added to in fp32. Blocks of keys add to a block of queries in their order:
 *               a task waits until the one before it is done with that block, and tasks are handed out in that order, so the wait always ends. Five products for each pair of blocks, none computed twice.
 * Which thread runs a task never shows: every sum has one order. A row of queries skips keys behind the last one that any of its block's rows sees. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <omp.h>
#include <sched.h>

#if VL == 16
#define SIDE 192
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

/* Room for a block of tokens as rows, as panels with a column a token, and as panels with a column an element of D. */
static int64_t rows_bytes(const struct dims *d) { return SIDE * row_words(d) * 4; }
static int64_t tokens_bytes(const struct dims *d) { return round_up(SIDE, TILE_COLS) * d->words * 4; }
static int64_t columns_bytes(const struct dims *d) { return PAIRS ? round_up(d->D, TILE_COLS) * SIDE_WORDS * 4 : rows_bytes(d); }

static struct block rows_of(word *out, const struct dims *d, const struct matrix *m, int64_t t0, int64_t t1)
{
    fill_block(out, row_words(d), m, ROWS, t0, t1, 0, d->D);
    return (struct block){out, row_words(d), 1};
}

static struct panels tokens_of(word *out, const struct dims *d, const struct matrix *m, int64_t t0, int64_t t1)
{
    fill_panels(out, d->words * TILE_COLS, m, ROWS, t0, t1, 0, d->D);
    return (struct panels){out, d->words * TILE_COLS, TILE_COLS};
}

/* In fp32 the rows of a block are such panels already. */
static struct panels columns_of(word *out, const struct dims *d, const struct matrix *m, int64_t t0, int64_t t1)
{
#if PAIRS
    fill_panels(out, SIDE_WORDS * TILE_COLS, m, COLS, 0, d->D, t0, t1);
    return (struct panels){out, SIDE_WORDS * TILE_COLS, TILE_COLS};
#else
    return (struct panels){rows_of(out, d, m, t0, t1).at, TILE_COLS, row_words(d)};
#endif
}

/* Rows of an fp32 matrix (rows, SIDE) as a block, and its columns: as it is, or rounded to pairs in out. */
static struct block scores_of(word *out, const float *x, int64_t rows, int64_t n)
{
#if PAIRS
    struct matrix m = {.f = x, .stride = SIDE};

    fill_block(out, SIDE_WORDS, &m, ROWS, 0, rows, 0, n);
    return (struct block){out, SIDE_WORDS, 1};
#else
    return (struct block){x, SIDE, 1};
#endif
}

static struct block turned_scores_of(word *out, const float *x, int64_t rows, int64_t n)
{
#if PAIRS
    struct matrix m = {.f = x, .stride = SIDE};

    fill_block(out, SIDE_WORDS, &m, COLS, 0, n, 0, rows);
    return (struct block){out, SIDE_WORDS, 1};
#else
    return (struct block){x, 1, SIDE};
#endif
}

/* From word k of row i on. */
static struct block from_row(struct block b, int64_t i, int64_t k)
{
    return (struct block){b.at + i * b.row + k * b.step, b.row, b.step};
}

/* ---- forward ---- */

/* State of rows of queries: those of one block, head after head, SIDE rows a head. */
struct queries {
    struct block q;
    float *o;      /* (rows, wide) */
    float *max;    /* (rows) a score near the largest so far, before scaling: exp is taken of differences to it */
    vf *sum;       /* (rows) partial sums of exp */
    float *score;  /* (TILE_ROWS, SIDE) */
    word *p;
};

static struct queries take_queries(struct pad *pad, const struct dims *d, int64_t rows)
{
    struct queries s = {
        .o = pad_take(pad, rows * d->wide * 4), .max = pad_take(pad, rows * 4), .sum = pad_take(pad, rows * (int64_t)sizeof(vf)),
        .score = pad_take(pad, TILE_ROWS * SIDE * 4), .p = pad_take(pad, TILE_ROWS * SIDE_WORDS * 4),
    };

    return s;
}

static void clear_queries(const struct queries *s, const struct dims *d, int64_t rows)
{
    memset(s->o, 0, (size_t)(rows * d->wide) * 4);
    for (int64_t i = 0; i < rows; i++) s->max[i] = -__builtin_inff(), s->sum[i] = (vf){0};
}

/* One row: scores (keys) -> p, and the row's maximum, sums and o brought up to date. Keys from `seen` on are hidden.
 * The maximum only has to keep exp within range: a new one counts when it is 2^8 times larger, so that o is scaled down rarely and the branch is foreseen. */
static void softmax_row(float *score, int64_t keys, int64_t seen, float *max, vf *sum, float *o, const struct dims *d)
{
    float c = d->scale * LOG2E;
    vf top = vsplat(-__builtin_inff()), part = {0};

    for (int64_t j = seen; j < round_up(keys, VL); j++) score[j] = -__builtin_inff();
    for (int64_t j = 0; j < keys; j += VL) top = vmax(vload(score + j), top);
    float new = vmax_of(top), rise = (new - *max) * c;
    if (rise > 8) {
        vf down = vexp2(vsplat(-rise));
        *max = new;
        *sum *= down;
        for (int64_t i = 0; i < d->wide; i += VL) vstore(o + i, vload(o + i) * down);
    }
    vf shift = vsplat(-*max * c);
    for (int64_t j = 0; j < keys; j += VL) {
        vf p = vexp2(vfma(vload(score + j), vsplat(c), shift));
        part += p;
        vstore(score + j, p);
    }
    *sum += part;
}

/* State's rows [at, at + rows) against `keys` keys, of which row i sees the first seen + i. */
static void attend(const struct queries *s, const struct dims *d, int64_t at, int rows, int64_t keys, int64_t seen, struct panels k, struct panels v)
{
    tile_sweep(rows, keys, d->words, from_row(s->q, at, 0), k, s->score, SIDE, SET);
    for (int i = 0; i < rows; i++) softmax_row(s->score + i * SIDE, keys, min64(keys, seen + i), &s->max[at + i], &s->sum[at + i], s->o + (at + i) * d->wide, d);
    tile_sweep(rows, d->D, words_of(keys), scores_of(s->p, s->score, rows, keys), v, s->o + at * d->wide, d->wide, ADD);
}

/* Row `at` divided by its sum, to o (D). Returns the sum. */
static float finish_query(elem *o, const struct queries *s, const struct dims *d, int64_t at)
{
    float sum = vsum(s->sum[at]), inverse = 1 / sum;

    FOR_VECTORS(i, lanes, d->D) elem_store(o + i, vload(s->o + at * d->wide + i) * inverse, lanes);
    return sum;
}

/* The queries of block b under head h, which begin at row `at`. */
static void finish_head(const struct queries *s, const struct dims *d, int64_t at, int64_t h, const struct tokens *b, elem *o, float *lse)
{
    float sum[SIDE];
    int64_t n = b->t1 - b->t0;

    for (int64_t i = 0; i < n; i++) sum[i] = finish_query(o + ((b->t0 + i) * d->H + h) * d->D, s, d, at + i);
    if (!lse) return;
    for (int64_t i = 0; i < n; i += VL) vstore(sum + i, vlog(vload(sum + i)));
    for (int64_t i = 0; i < n; i++) lse[(b->t0 + i) * d->H + h] = s->max[at + i] * d->scale + sum[i];
}

static void forward_task(struct pad pad, const struct dims *d, const struct tokens *b, int64_t g, elem *o, float *lse, const elem *q, const elem *k, const elem *v)
{
    int64_t group = d->H / d->G, together = min64(group, max64(1, 512 / d->wide)), n = b->t1 - b->t0, blocks = ceil_div(n, TILE_ROWS);
    struct matrix km = head_of(k, g, d->G, d->D), vm = head_of(v, g, d->G, d->D);
    struct queries s = take_queries(&pad, d, together * SIDE);
    word *kp = pad_take(&pad, tokens_bytes(d)), *vp = pad_take(&pad, columns_bytes(d)), *qp = pad_take(&pad, together * rows_bytes(d));

    for (int64_t h0 = g * group; h0 < (g + 1) * group; h0 += together) {
        int64_t heads = min64(together, (g + 1) * group - h0);

        clear_queries(&s, d, heads * SIDE);
        for (int64_t i = 0; i < heads; i++) {
            struct matrix qm = head_of(q, h0 + i, d->H, d->D);
            rows_of(qp + i * SIDE * row_words(d), d, &qm, b->t0, b->t1);
        }
        s.q = (struct block){qp, row_words(d), 1};
        for (int64_t k0 = b->example; k0 < b->t1; k0 += SIDE) {
            int64_t k1 = min64(k0 + SIDE, b->t1);
            struct panels keys = tokens_of(kp, d, &km, k0, k1), values = columns_of(vp, d, &vm, k0, k1);

            for (int64_t i = 0; i < heads * blocks; i++) {
                int64_t r0 = share(n, blocks, i % blocks), r1 = share(n, blocks, i % blocks + 1);
                attend(&s, d, i / blocks * SIDE + r0, (int)(r1 - r0), min64(k1, b->t0 + r1) - k0, b->t0 + r0 + 1 - k0, keys, values);
            }
        }
        for (int64_t i = 0; i < heads; i++) finish_head(&s, d, i * SIDE, h0 + i, b, o, lse);
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

/* What a task holds: its keys as operands, the sums of their gradients, and room for one head's block of queries. */
struct keys {
    struct panels k_tokens, v_tokens, k_columns;
    float *dk, *dv;                  /* (SIDE, wide) */
    word *q_rows, *dout_rows, *q_columns, *dout_columns;
    float *p, *ds;                   /* (SIDE, SIDE) queries by keys */
    word *rounded, *turned;          /* (TILE_ROWS, SIDE) queries by keys, (SIDE, SIDE) keys by queries */
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

/* dk or dv (keys, D) += x (queries, keys)^T times panels over queries. In the block of the diagonal no query sees a later key: row j begins at query j. */
static void add_to_keys(float *sum, const struct dims *d, const float *x, word *turned, struct panels b, int64_t keys, int64_t queries, bool diagonal)
{
    int64_t blocks = ceil_div(keys, TILE_ROWS);
    struct block a = turned_scores_of(turned, x, queries, keys);

    for (int64_t i = 0; i < blocks; i++) {
        int64_t r0 = share(keys, blocks, i), r1 = share(keys, blocks, i + 1), skip = diagonal ? r0 / WORD_UNITS : 0;
        struct panels from = {b.at + skip * b.step, b.next, b.step};

        tile_sweep((int)(r1 - r0), d->D, words_of(queries) - skip, from_row(a, r0, skip), from, sum + r0 * d->wide, d->wide, ADD);
    }
}

/* A head's block of queries as panels over its tokens: what its rows are already in fp32. */
static struct panels gradient_columns(word *out, const struct dims *d, const struct matrix *m, struct block rows, const struct tokens *b)
{
#if PAIRS
    return columns_of(out, d, m, b->t0, b->t1);
#else
    return (struct panels){rows.at, TILE_COLS, rows.row};
#endif
}

/* One head's queries of block b against the task's keys. */
static void head_gradient(const struct gradient *x, const struct keys *s, const struct tokens *b, int64_t h, int64_t k0, int64_t k1)
{
    const struct dims *d = &x->d;
    int64_t n = b->t1 - b->t0, blocks = ceil_div(n, TILE_ROWS);
    struct matrix qm = head_of(x->q, h, d->H, d->D), dm = head_of(x->dout, h, d->H, d->D);
    struct block q = rows_of(s->q_rows, d, &qm, b->t0, b->t1), dout = rows_of(s->dout_rows, d, &dm, b->t0, b->t1);

    for (int64_t i = 0; i < blocks; i++) {
        int64_t r0 = share(n, blocks, i), r1 = share(n, blocks, i + 1), keys = min64(k1, b->t0 + r1) - k0;
        float *p = s->p + r0 * SIDE, *ds = s->ds + r0 * SIDE;
        int rows = (int)(r1 - r0);

        tile_sweep(rows, keys, d->words, from_row(q, r0, 0), s->k_tokens, p, SIDE, SET);
        tile_sweep(rows, keys, d->words, from_row(dout, r0, 0), s->v_tokens, ds, SIDE, SET);
        for (int j = 0; j < rows; j++) {
            int64_t t = b->t0 + r0 + j;
            gradient_row(p + j * SIDE, ds + j * SIDE, keys, min64(keys, t + 1 - k0), x->lse[t * d->H + h], x->delta[t * d->H + h], d);
        }
        tile_sweep(rows, d->D, words_of(keys), scores_of(s->rounded, ds, rows, keys), s->k_columns, x->dq_sum + (h * x->T + b->t0 + r0) * d->wide, d->wide, k0 > b->example ? ADD : SET);
    }
    add_to_keys(s->dv, d, s->p, s->turned, gradient_columns(s->dout_columns, d, &dm, dout, b), k1 - k0, n, b->t0 == k0);
    add_to_keys(s->dk, d, s->ds, s->turned, gradient_columns(s->q_columns, d, &qm, q, b), k1 - k0, n, b->t0 == k0);
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
        .k_tokens = tokens_of(pad_take(&pad, tokens_bytes(d)), d, &km, own->t0, own->t1),
        .v_tokens = tokens_of(pad_take(&pad, tokens_bytes(d)), d, &vm, own->t0, own->t1),
        .k_columns = columns_of(pad_take(&pad, columns_bytes(d)), d, &km, own->t0, own->t1),
        .dk = pad_take(&pad, SIDE * d->wide * 4), .dv = pad_take(&pad, SIDE * d->wide * 4),
        .q_rows = pad_take(&pad, rows_bytes(d)), .dout_rows = pad_take(&pad, rows_bytes(d)),
        .p = pad_take(&pad, SIDE * SIDE * 4), .ds = pad_take(&pad, SIDE * SIDE * 4),
    };

    if (PAIRS) {
        s.q_columns = pad_take(&pad, columns_bytes(d));
        s.dout_columns = pad_take(&pad, columns_bytes(d));
        s.rounded = pad_take(&pad, TILE_ROWS * SIDE_WORDS * 4);
        s.turned = pad_take(&pad, SIDE * SIDE_WORDS * 4);
    }
    memset(s.dk, 0, (size_t)(SIDE * d->wide) * 4);
    memset(s.dv, 0, (size_t)(SIDE * d->wide) * 4);
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

/* The query heads of one group are the rows. q and o (H, D) of the token, k and v the cache of its sequence. */
static void decode_task(struct pad pad, const struct dims *d, int64_t g, elem *o, const elem *q, const elem *k, const elem *v, int64_t len)
{
    int64_t group = d->H / d->G;
    struct matrix qm = {.x = q + g * group * d->D, .stride = d->D}, km = head_of(k, g, d->G, d->D), vm = head_of(v, g, d->G, d->D);
    struct queries s = take_queries(&pad, d, TILE_ROWS);
    word *qp = pad_take(&pad, rows_bytes(d)), *kp = pad_take(&pad, tokens_bytes(d)), *vp = pad_take(&pad, columns_bytes(d));

    for (int64_t h = 0; h < group; h += TILE_ROWS) {
        int rows = (int)min64(TILE_ROWS, group - h);

        clear_queries(&s, d, rows);
        s.q = rows_of(qp, d, &qm, h, h + rows);
        for (int64_t k0 = 0; k0 < len; k0 += SIDE) {
            int64_t k1 = min64(k0 + SIDE, len);
            attend(&s, d, 0, rows, k1 - k0, k1 - k0, tokens_of(kp, d, &km, k0, k1), columns_of(vp, d, &vm, k0, k1));
        }
        for (int i = 0; i < rows; i++) finish_query(o + (g * group + h + i) * d->D, &s, d, i);
    }
}

void OP(attention_decode)(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H,
                          int G, int D)
{
    struct dims d = dims_of(H, G, D);

#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t i = 0; i < (int64_t)n * G; i++) {
        int64_t t = i / G, token = t * H * D, cache = (int64_t)sequence[t] * cap * G * D;

        decode_task(pad_of(dev, omp_get_thread_num()), &d, i % G, (elem *)o + token, (const elem *)q + token, (const elem *)kcache + cache, (const elem *)vcache + cache, len[t]);
    }
}
