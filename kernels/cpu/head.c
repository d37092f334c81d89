/* loss = log(sum_v e^l_v) - l_target, l = x W^T, and dx = scale (sum_v softmax(l)_v W_v - W_target).
 *
 * The head is frozen, so its gradient is attention with W as keys and values: one pass over the vocabulary in chunks, with a running maximum, sum and dx (fp32, scaled down when the maximum rises).
 * A chunk of W is unpacked both ways, stays in L2 and meets all rows of a thread, TILE_ROWS at a time; their logits and p never leave L1. 4 S V C operations, as a head that keeps all logits. */
#include "kernels/cpu/cpu.h"

#if VL == 16
#define CHUNK_WORDS (300 * 1024) /* of both panels */
#else
#define CHUNK_WORDS (72 * 1024)
#endif
#define CHUNK_MAX 512

/* Rows of W in a chunk: the running sums are scaled at its borders, so this depends on C alone. */
static int64_t chunk_rows(int64_t C)
{
    int64_t rows = CHUNK_WORDS / (2 * max64(1, words_of(C))) / TILE_COLS * TILE_COLS;

    return max64(TILE_COLS, min64(rows, CHUNK_MAX));
}

static int64_t block_stride(int64_t C) { return round_up(words_of(C), VL) + VL; }
static int64_t token_words(int64_t C) { return chunk_rows(C) * words_of(C); }
static int64_t column_words(int64_t C) { return words_of(chunk_rows(C)) * round_up(C, TILE_COLS); }

/* Of the shared part, one for each thread. */
static int64_t own_bytes(int64_t C)
{
    return round_up(token_words(C) * 4, 64) + round_up(column_words(C) * 4, 64) + round_up(TILE_ROWS * block_stride(C) * 4, 64);
}

int64_t head_shared(int64_t T, int64_t C, int threads)
{
    return round_up(T * round_up(C, VL) * 4, 64) + 2 * round_up(T * 4, 64) + threads * own_bytes(C);
}

struct head {
    const struct matrix x, W;
    int64_t C, V, chunk, wide;
    const int32_t *target;
    float *loss;      /* holds the target's logit until the end */
    int32_t *argmax;
    float *dx;        /* (S, wide) sums, NULL: not wanted */
    float *max, *sum; /* (S) */
};

struct room {
    word *by_token, *by_column, *block, *p;
    float *logit;     /* (TILE_ROWS, chunk) */
};

static void note_argmax(int32_t *argmax, const float *logit, int64_t n, int64_t v0, float max, float old)
{
    if (!(max > old)) return; /* an equal one has a lower index already */
    for (int64_t v = 0; v < n; v++)
        if (logit[v] == max) {
            *argmax = (int32_t)(v0 + v);
            return;
        }
}

/* Logits of n words from v0 on -> exp(logit - max), running maximum and sum. */
static void softmax_row(const struct head *h, float *logit, int64_t row, int64_t v0, int64_t n)
{
    float old = h->max[row];
    vf top = vsplat(old), part = {0};

    if (h->target[row] >= v0 && h->target[row] < v0 + n) h->loss[row] = logit[h->target[row] - v0];
    for (int64_t v = n; v < round_up(n, VL); v++) logit[v] = -__builtin_inff();
    for (int64_t v = 0; v < n; v += VL) top = vmax(vload(logit + v), top);
    float max = vmax_of(top);
    if (h->argmax) note_argmax(&h->argmax[row], logit, n, v0, max, old);
    for (int64_t v = 0; v < n; v += VL) {
        vf p = vexp2(vfma(vload(logit + v), vsplat(LOG2E), vsplat(-max * LOG2E)));
        part += p;
        vstore(logit + v, p);
    }
    vf down = vexp2(vsplat((old - max) * LOG2E));
    h->sum[row] = h->sum[row] * down[0] + vsum(part);
    h->max[row] = max;
    if (h->dx && max != old)
        for (int64_t i = 0; i < h->wide; i += VL) vstore(h->dx + row * h->wide + i, vload(h->dx + row * h->wide + i) * down);
}

/* (rows, n) fp32 as a block: as it is, or rounded to pairs in out. */
static struct block as_block(word *out, const float *x, int64_t stride, int64_t rows, int64_t n)
{
#if PAIRS
    struct matrix m = {.f = x, .stride = stride};

    fill_block(out, stride / WORD_UNITS, &m, ROWS, 0, rows, 0, n);
    return (struct block){out, stride / WORD_UNITS, 1};
#else
    return (struct block){x, stride, 1};
#endif
}

/* Asks for share i of n of what rows [r0, r1) will be read from and added to. */
static void prefetch_rows(const struct head *h, int64_t r0, int64_t r1, int64_t i, int64_t n)
{
    for (int64_t r = r0 + share(r1 - r0, n, i); r < r0 + share(r1 - r0, n, i + 1); r++) {
        for (int64_t k = 0; h->dx && k < h->wide; k += 16) __builtin_prefetch(h->dx + r * h->wide + k, 1, 2);
        for (int64_t k = 0; k < h->C; k += 64 / (int64_t)sizeof(elem)) __builtin_prefetch(h->x.x + r * h->C + k, 0, 2);
    }
}

static void run_chunk(const struct head *h, const struct room *w, int64_t s0, int64_t s1, int64_t v0, int64_t n)
{
    int64_t blocks = ceil_div(s1 - s0, TILE_ROWS), stride = block_stride(h->C), words = words_of(h->C);
    struct panels tokens = {w->by_token, words * TILE_COLS, TILE_COLS}, columns = {w->by_column, words_of(h->chunk) * TILE_COLS, TILE_COLS};

    fill_panels(w->by_token, tokens.next, &h->W, ROWS, v0, v0 + n, 0, h->C);
    if (h->dx) fill_panels(w->by_column, columns.next, &h->W, COLS, 0, h->C, v0, v0 + n);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t r0 = s0 + share(s1 - s0, blocks, b), next = s0 + share(s1 - s0, blocks, min64(b + 2, blocks));
        int rows = (int)(s0 + share(s1 - s0, blocks, b + 1) - r0);

        fill_block(w->block, stride, &h->x, ROWS, r0, r0 + rows, 0, h->C);
        for (int64_t v = 0; v < n; v += TILE_COLS, tokens.at += tokens.next) {
            prefetch_rows(h, r0 + rows, next, v / TILE_COLS, ceil_div(n, TILE_COLS));
            tile_run(rows, (int)ceil_div(min64(n - v, TILE_COLS), VL), words, (struct block){w->block, stride, 1}, tokens, w->logit + v, h->chunk, SET);
        }
        tokens.at = w->by_token;
        for (int i = 0; i < rows; i++) softmax_row(h, w->logit + i * h->chunk, r0 + i, v0, n);
        if (h->dx) tile_sweep(rows, h->C, words_of(n), as_block(w->p, w->logit, h->chunk, rows, n), columns, h->dx + r0 * h->wide, h->wide, ADD);
    }
}

static void finish_row(const struct head *h, elem *dx, const struct weight *W, int64_t row, float scale)
{
    float inverse = 1 / h->sum[row];

    h->loss[row] = h->max[row] + vlog(vsplat(h->sum[row]))[0] - h->loss[row];
    if (!dx) return;
    for (int64_t k = 0; k < h->C; k += 256) {
        float w[256];
        int64_t n = min64(256, h->C - k);

        weight_row(W, h->target[row], k, k + n, w);
        FOR_VECTORS(i, lanes, n)
        {
            vf target = f32_load(w + i, lanes);
#ifdef CPU_ACT_BF16
            target = vround_bf16(target);
#endif
            elem_store(dx + row * h->C + k + i, (vload(h->dx + row * h->wide + k + i) * inverse - target) * scale, lanes);
        }
    }
}

void OP(head_loss)(struct dev *dev, float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale)
{
    struct pad shared = pad_shared(dev);
    int64_t C = W->K, wide = round_up(C, VL);
    float *dx_sum = pad_take(&shared, S * wide * 4);
    struct head h = {
        .x = {.x = x, .stride = C}, .W = {.W = W}, .C = C, .V = W->N, .chunk = chunk_rows(C), .wide = wide, .target = target, .loss = loss, .argmax = argmax,
        .dx = dx ? dx_sum : NULL, .max = pad_take(&shared, S * 4), .sum = pad_take(&shared, S * 4),
    };
    char *own = pad_take(&shared, dev->threads * own_bytes(C));

#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int i = 0; i < dev->threads; i++) {
        int64_t s0 = share(S, dev->threads, i), s1 = share(S, dev->threads, i + 1);
        struct pad part = {own + i * own_bytes(C), own + (i + 1) * own_bytes(C)}, pad = pad_of(dev, i);
        struct room w = {
            .by_token = pad_take(&part, token_words(C) * 4), .by_column = pad_take(&part, column_words(C) * 4), .block = pad_take(&part, TILE_ROWS * block_stride(C) * 4),
            .p = pad_take(&pad, TILE_ROWS * h.chunk * 4), .logit = pad_take(&pad, TILE_ROWS * h.chunk * 4),
        };

        if (s0 == s1) continue;
        for (int64_t s = s0; s < s1; s++) h.max[s] = -__builtin_inff(), h.sum[s] = 0;
        if (argmax) memset(argmax + s0, 0, (size_t)(s1 - s0) * sizeof *argmax);
        if (dx) memset(h.dx + s0 * wide, 0, (size_t)((s1 - s0) * wide) * 4);
        for (int64_t v = 0; v < h.V; v += h.chunk) run_chunk(&h, &w, s0, s1, v, min64(h.chunk, h.V - v));
        for (int64_t s = s0; s < s1; s++) finish_row(&h, dx, W, s, scale);
    }
}
