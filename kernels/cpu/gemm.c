/* y (M, N) = scale * (sum of terms a_i b_i^T + bias): the loops around the tile.
 *
 *   thread        a rectangle of y: a run of panels, a run of rows
 *   group         as many panels as stay in L2 together, unpacked once and used for all rows
 *   pass          what of the sum fits the depth of a panel: whole terms, or pieces of them, laid end to end so that one run of the tile sums them (LoRA's few columns ride along)
 *   block         TILE_ROWS rows, unpacked once a group, and from L1 multiplied with each panel of it
 * Few rows (LoRA's gradients, decoding) would not pay for a group: there the rows are one block, and a panel is unpacked in L1 just before it is used.
 * With one pass a tile is finished at once; with more the sums wait in fp32, which holds them exactly as the registers would.
 * Cost of unpacking: (words of a panel) / M of the multiplications, and (words of a block) / (columns of a group). */
#include "kernels/cpu/cpu.h"

#define GEMM_DEPTH 2048               /* words of a panel: a longer sum is carried on through memory */
#define GEMM_PARTIAL (512 * 1024)     /* sums that wait for the next pass: they stream, so need not stay in L2 */
#define THIN_ROWS 32                  /* so few rows are one block, and panels so short that each stays in L1 */
#define THIN_DEPTH 256
#define THIN_COLS (4 * TILE_COLS)
#if VL == 16
#define GEMM_PANEL_WORDS ((PAIRS ? 200 : 400) * 1024) /* L2: 1 MB of Zen 4, 2 MB of Sapphire Rapids */
#else
#define GEMM_PANEL_WORDS (72 * 1024)  /* L2: 512 KB of Zen 2 and 3, 1 MB and more of Skylake servers */
#endif

#define MAX_PIECES 24

struct piece {
    const struct gemm_term *term;
    int64_t s0, s1; /* of the term's sum */
    int64_t at;     /* first word in the pass */
};

/* Pieces that run through the tile together; those with a mask of their own stand alone. */
struct pass {
    struct piece piece[MAX_PIECES];
    int pieces;
    int64_t words;
};

struct part {
    const struct gemm *g;
    word *panels, *block;
    bool thin;
    int64_t depth; /* of a pass */
    int64_t panel_stride, block_stride;
    float *tile, *partial, *masked;
};

/* Fills the pass with `depth` words from *term and *at on; false when nothing is left. */
static bool next_pass(struct pass *p, const struct gemm *g, int64_t depth, int *term, int64_t *at)
{
    p->pieces = 0;
    p->words = 0;
    while (*term < g->terms && p->words < depth && p->pieces < MAX_PIECES) {
        const struct gemm_term *t = &g->term[*term];
        int64_t end = min64(t->depth, *at + (depth - p->words) * WORD_UNITS);

        if (end < t->depth) end = end / 4 * 4; /* masks come in fours */
        if (end > *at) p->piece[p->pieces++] = (struct piece){t, *at, end, p->words};
        else if (t->depth > 0) break;
        p->words += words_of(end - *at);
        *at = end;
        if (end == t->depth) {
            ++*term;
            *at = 0;
        }
    }
    return p->pieces > 0;
}

static void fill_group(const struct part *w, const struct pass *pass, int64_t n0, int64_t n1)
{
    for (int i = 0; i < pass->pieces; i++) {
        const struct piece *p = &pass->piece[i];

        fill_panels(w->panels + p->at * TILE_COLS, w->panel_stride, &p->term->b, p->term->b_along, n0, n1, p->s0, p->s1);
    }
}

static void fill_rows(const struct part *w, const struct pass *pass, int64_t m0, int64_t m1)
{
    for (int i = 0; i < pass->pieces; i++) {
        const struct piece *p = &pass->piece[i];

        fill_block(w->block + p->at, w->block_stride, &p->term->a, p->term->a_along, m0, m1, p->s0, p->s1);
    }
}

/* Asks for share i of n of the activations of rows [m0, m1), so that they are in L2 when their turn comes. */
static void prefetch_rows(const struct pass *pass, int64_t m0, int64_t m1, int64_t i, int64_t n)
{
    for (int j = 0; j < pass->pieces; j++) {
        const struct piece *p = &pass->piece[j];
        const struct matrix *a = &p->term->a;

        if (p->term->a_along != ROWS) continue;
        for (int64_t m = m0 + share(m1 - m0, n, i); m < m0 + share(m1 - m0, n, i + 1); m++)
            for (const char *at = (const char *)(a->x + m * a->stride + p->s0), *end = (const char *)(a->x + m * a->stride + p->s1); at < end; at += 64) __builtin_prefetch(at, 0, 2);
    }
}

/* Asks for share i of n of the activations of columns [n0, n1), each row of which lies elsewhere, so that no prefetcher of the hardware sees them coming. */
static void prefetch_columns(const struct pass *pass, int64_t n0, int64_t n1, int64_t i, int64_t n)
{
    for (int j = 0; j < pass->pieces && n0 < n1; j++) {
        const struct piece *p = &pass->piece[j];
        const struct matrix *b = &p->term->b;
        int64_t depth = p->s1 - p->s0;

        if (p->term->b_along != COLS || !b->x) continue;
        for (int64_t s = p->s0 + share(depth, n, i); s < p->s0 + share(depth, n, i + 1); s++)
            for (const char *at = (const char *)(b->x + s * b->stride + n0), *end = (const char *)(b->x + s * b->stride + n1); at < end; at += 64) __builtin_prefetch(at, 0, 2);
    }
}

/* Asks for the lines of y that a tile will be written to. */
static inline void prefetch_tile(const struct gemm *g, int rows, int64_t m0, int64_t n0)
{
    if (!g->y) return;
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(g->y + (m0 + i) * g->stride + n0, 1);
        __builtin_prefetch(g->y + (m0 + i) * g->stride + n0 + TILE_COLS - 1, 1);
    }
}

/* c += what of the masked tile is kept, over 1 - p. */
static void add_masked(float *c, const float *masked, const struct mask *mask, int rows, int64_t m0, int64_t n0)
{
    int32_t keep[4 * VL];
    float factor = 1 / (1 - mask->drop.p);

    for (int i = 0; i < rows; i++) {
        mask_row(keep, mask, m0 + i, n0, TILE_COLS);
        for (int j = 0; j < TILE_COLS; j += VL) {
            vf kept = (vf)((vi)vload(masked + i * TILE_COLS + j) & (vi)vload(keep + j));
            vstore(c + i * TILE_COLS + j, vfma(kept, vsplat(factor), vload(c + i * TILE_COLS + j)));
        }
    }
}

/* The whole pass into one tile: neighbouring pieces without a mask in one run. */
static void run_pass(const struct part *w, const struct pass *pass, const word *block, const word *panel, float *c, bool add, int rows, int vectors, int64_t m0, int64_t n0)
{
    if (pass->pieces == 0) memset(c, 0, (size_t)(rows * TILE_COLS) * sizeof *c);
    for (int i = 0, j; i < pass->pieces; i = j) {
        const struct mask *mask = &pass->piece[i].term->mask;
        int64_t at = pass->piece[i].at;

        for (j = i + 1; j < pass->pieces && !mask->lay && !pass->piece[j].term->mask.lay; j++) {}
        int64_t words = (j < pass->pieces ? pass->piece[j].at : pass->words) - at;
        struct block a = {block + at, w->block_stride, 1};
        struct panels b = {panel + at * TILE_COLS, 0, TILE_COLS};

        if (!mask->lay) {
            tile_run(rows, vectors, words, a, b, c, TILE_COLS, add ? GO_ON : SET);
        } else {
            if (!add) memset(c, 0, (size_t)(rows * TILE_COLS) * sizeof *c);
            tile_run(rows, vectors, words, a, b, w->masked, TILE_COLS, SET);
            add_masked(c, w->masked, mask, rows, m0, n0);
        }
        add = true;
    }
}

/* One vector of a finished row, columns [n, n + lanes). */
static inline void store_vector(const struct gemm *g, vf x, int64_t m, int64_t n, int64_t lanes)
{
    if (g->bias) x += f32_load(g->bias + n, lanes);
    x *= g->scale;
    if (g->transposed) {
        for (int i = 0; i < lanes; i++) g->f[(n + i) * g->stride + m] = x[i];
    } else if (g->f) {
        f32_store(g->f + m * g->stride + n, x, lanes);
    } else {
        elem_store(g->y + m * g->stride + n, x, lanes);
    }
}

static void store_tile(const struct gemm *g, const float *c, int rows, int64_t m0, int64_t n0, int64_t n1)
{
    for (int i = 0; i < rows; i++)
        for (int64_t n = n0; n < n1; n += VL) store_vector(g, vload(c + i * TILE_COLS + n - n0), m0 + i, n, min64(VL, n1 - n));
}

/* Rows [m0, m1) of the group's columns [n0, n1) through one pass; sums wait in w->partial between passes, where there is more than one. */
static void run_rows(const struct part *w, const struct pass *pass, bool first, bool last, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
    fill_group(w, pass, n0, n1);

    int64_t blocks = ceil_div(m1 - m0, TILE_ROWS), panels = ceil_div(n1 - n0, TILE_COLS);

    for (int64_t b = 0; b < blocks; b++) {
        int64_t r0 = m0 + share(m1 - m0, blocks, b);
        int rows = (int)(m0 + share(m1 - m0, blocks, b + 1) - r0);
        int64_t next = m0 + share(m1 - m0, blocks, min64(b + 2, blocks));

        fill_rows(w, pass, r0, r0 + rows);
        for (int64_t i = 0; i < panels; i++) {
            int64_t n = n0 + i * TILE_COLS, end = min64(n + TILE_COLS, n1);
            float *c = w->partial ? w->partial + ((r0 - m0) * panels + i * rows) * TILE_COLS : w->tile;

            if (panels > 1) prefetch_rows(pass, r0 + rows, next, i, panels);
            if (last) prefetch_tile(w->g, rows, r0, n);
            run_pass(w, pass, w->block, w->panels + i * w->panel_stride, c, !first, rows, (int)ceil_div(end - n, VL), r0, n);
            if (last) store_tile(w->g, c, rows, r0, n, end);
        }
    }
}

/* The same for few rows: all of them are the block, and a panel is unpacked in L1 just before it is used; a few at a time where neighbouring columns lie side by side in memory. */
static void run_columns(const struct part *w, const struct pass *pass, bool first, bool last, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
    int64_t blocks = ceil_div(m1 - m0, TILE_ROWS), some = w->g->terms && w->g->term[0].b_along == COLS ? THIN_COLS : TILE_COLS;

    fill_rows(w, pass, m0, m1);
    for (int64_t n = n0; n < n1; n += TILE_COLS) {
        int64_t end = min64(n + TILE_COLS, n1), panel = (n - n0) % some / TILE_COLS;

        if (panel == 0) fill_group(w, pass, n, min64(n + some, n1));
        for (int64_t b = 0; b < blocks; b++) {
            int64_t r0 = share(m1 - m0, blocks, b), r1 = share(m1 - m0, blocks, b + 1);
            float *c = w->partial ? w->partial + (n - n0) * (m1 - m0) + r0 * TILE_COLS : w->tile;

            prefetch_columns(pass, min64(n1, n - panel * TILE_COLS + some), min64(n1, n - panel * TILE_COLS + 2 * some), panel * blocks + b, some / TILE_COLS * blocks);
            run_pass(w, pass, w->block + r0 * w->block_stride, w->panels + panel * w->panel_stride, c, !first, (int)(r1 - r0), (int)ceil_div(end - n, VL), m0 + r0, n);
            if (last) store_tile(w->g, c, (int)(r1 - r0), m0 + r0, n, end);
        }
    }
}

/* The sums of one group over rows [m0, m1), all passes. */
static void run_group(struct part *w, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
    struct pass pass, ahead;
    int term = 0;
    int64_t at = 0;
    bool first = true, more = next_pass(&pass, w->g, w->depth, &term, &at);

    do { /* once even without terms: y is 0 then */
        more = more && next_pass(&ahead, w->g, w->depth, &term, &at);
        w->block_stride = round_up(pass.words, VL) + VL;
        (w->thin ? run_columns : run_rows)(w, &pass, first, !more, m0, m1, n0, n1);
        first = false;
        if (more) pass = ahead;
    } while (more);
}

static void run_part(const struct gemm *g, struct pad pad, int64_t panel0, int64_t panel1, int64_t m0, int64_t m1)
{
    struct part w = {.g = g, .thin = m1 - m0 <= THIN_ROWS};
    int64_t words = 0, most = w.thin ? THIN_DEPTH : GEMM_DEPTH;

    for (int i = 0; i < g->terms; i++) words += words_of(g->term[i].depth);
    int64_t passes = max64(1, ceil_div(words, most));
    w.depth = passes == 1 ? most : round_up(ceil_div(words, passes), 64);
    w.panel_stride = max64(1, min64(words, w.depth)) * TILE_COLS;
    w.panels = pad_take(&pad, GEMM_PANEL_WORDS * (int64_t)sizeof(word));
    w.block = pad_take(&pad, max64(TILE_ROWS * (GEMM_DEPTH + 2 * VL), THIN_ROWS * (THIN_DEPTH + 2 * VL)) * (int64_t)sizeof(word));
    w.tile = pad_take(&pad, TILE_ROWS * TILE_COLS * (int64_t)sizeof(float));
    w.masked = pad_take(&pad, TILE_ROWS * TILE_COLS * (int64_t)sizeof(float));
    if (passes > 1) w.partial = pad_take(&pad, GEMM_PARTIAL * (int64_t)sizeof(float));

    int64_t panels = w.thin ? GEMM_PARTIAL / (THIN_ROWS * TILE_COLS) : max64(1, GEMM_PANEL_WORDS / w.panel_stride), groups = ceil_div(panel1 - panel0, panels);
    for (int64_t i = 0; i < groups; i++) {
        int64_t n0 = (panel0 + share(panel1 - panel0, groups, i)) * TILE_COLS, end = (panel0 + share(panel1 - panel0, groups, i + 1)) * TILE_COLS;
        int64_t chunk = w.partial ? max64(1, GEMM_PARTIAL / (end - n0)) : m1 - m0;

        for (int64_t m = m0; m < m1; m += chunk) run_group(&w, m, min64(m + chunk, m1), n0, min64(end, g->N));
    }
}

/* How many of the threads share the columns, the others the rows: what costs the busiest thread least. Unpacking a column costs as much as some 20 rows. */
static int column_shares(int threads, int64_t panels, int64_t M)
{
    int best = 1;
    int64_t least = INT64_MAX;

    for (int n = 1; n <= threads; n++) {
        if (threads % n) continue;
        int64_t cost = ceil_div(panels, n) * (ceil_div(M, threads / n) + 20);

        if (cost <= least) {
            least = cost;
            best = n;
        }
    }
    return best;
}

void gemm_run(struct dev *dev, const struct gemm *g)
{
    int64_t panels = ceil_div(g->N, TILE_COLS);

    if (g->M == 0 || g->N == 0) return;
    int across = column_shares(dev->threads, panels, g->M), down = dev->threads / across;
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int i = 0; i < across * down; i++) {
        int64_t p0 = share(panels, across, i % across), p1 = share(panels, across, i % across + 1);
        int64_t m0 = share(g->M, down, i / across), m1 = share(g->M, down, i / across + 1);

        if (p0 < p1 && m0 < m1) run_part(g, pad_of(dev, i), p0, p1, m0, m1);
    }
}
