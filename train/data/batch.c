#include "train/data/batch.h"

#include "kernels/base/hash.h"

#include <stdlib.h>
#include <string.h>

void batch_init(struct batch *b, const struct rows *rows)
{
    struct rows_limits lim = rows_limits(rows, rows->opt.global_batch);

    *b = (struct batch){.source = rows, .order_epoch = -1};
    b->ids = xreallocarray(NULL, (size_t)lim.tokens, sizeof *b->ids);
    b->target = xreallocarray(NULL, (size_t)lim.tokens, sizeof *b->target);
    b->pos = xreallocarray(NULL, (size_t)lim.tokens, sizeof *b->pos);
    b->row_start = xreallocarray(NULL, (size_t)lim.rows + 1, sizeof *b->row_start);
    b->row_example = xreallocarray(NULL, (size_t)lim.rows + 1, sizeof *b->row_example);
    b->row = xreallocarray(NULL, (size_t)lim.rows, sizeof *b->row);
    b->example_start = xreallocarray(NULL, (size_t)lim.examples + 1, sizeof *b->example_start);
    b->item = xreallocarray(NULL, (size_t)lim.examples, sizeof *b->item);
    b->order = xreallocarray(NULL, rows->count, sizeof *b->order);
}

void batch_free(struct batch *b)
{
    free(b->ids);
    free(b->target);
    free(b->pos);
    free(b->row_start);
    free(b->row_example);
    free(b->row);
    free(b->example_start);
    free(b->item);
    free(b->order);
    *b = (struct batch){0};
}

static void add_example(struct batch *b, uint32_t item)
{
    struct example e = dataset_example(b->source->data, item);
    int32_t *ids = b->ids + b->T, *target = b->target + b->T, *pos = b->pos + b->T;

    for (int i = 0; i < e.length; i++) {
        uint32_t next = i + 1 < e.length ? e.tokens[i + 1] : 0;

        ids[i] = (int32_t)(e.tokens[i] & TOKEN_ID);
        target[i] = next & TOKEN_SUPERVISED ? (int32_t)(next & TOKEN_ID) : TARGET_NONE;
        pos[i] = i;
    }
    b->item[b->examples] = item;
    b->example_start[b->examples++] = b->T;
    b->T += e.length;
    b->supervised += e.supervised;
}

static uint64_t batch_hash(const struct batch *b)
{
    uint64_t h = hash64((uint64_t)b->step, b->ids, (size_t)b->T * sizeof *b->ids);

    h = hash64(h, b->target, (size_t)b->T * sizeof *b->target);
    h = hash64(h, b->row_start, ((size_t)b->rows + 1) * sizeof *b->row_start);
    return hash64(h, b->example_start, ((size_t)b->examples + 1) * sizeof *b->example_start);
}

void batch_build(struct batch *b, int64_t step)
{
    const struct rows *r = b->source;
    struct rows_step at = rows_step(r, step);

    if (b->order_epoch != at.epoch) {
        rows_order(r, at.epoch, b->order);
        b->order_epoch = at.epoch;
    }
    b->step = step;
    b->epoch = at.epoch;
    b->T = b->rows = b->examples = b->supervised = 0;
    for (uint32_t i = 0; i < at.count; i++) {
        uint32_t row = b->order[at.first + i];

        b->row[b->rows] = row;
        b->row_example[b->rows] = b->examples;
        b->row_start[b->rows++] = b->T;
        for (uint32_t k = r->first[row]; k < r->first[row + 1]; k++) add_example(b, r->item[k]);
    }
    b->row_example[b->rows] = b->examples;
    b->row_start[b->rows] = b->T;
    b->example_start[b->examples] = b->T;
    b->hash = batch_hash(b);
}

#define PLACES 12

void batch_places(const struct batch *b, int first, int n, struct buf *out)
{
    int from = b->row_example[first], to = b->row_example[first + n];
    const char *file = NULL;

    for (int i = from; i < to; i++) {
        struct example e = dataset_example(b->source->data, b->item[i]);

        if (i - from == PLACES) {
            buf_addf(out, " and %d more examples", to - i);
            return;
        }
        if (file == NULL || strcmp(file, e.file)) buf_addf(out, "%s%s line %lld", file ? "; " : "", e.file, (long long)e.line);
        else buf_addf(out, ", %lld", (long long)e.line);
        file = e.file;
    }
}

/* --- micro-batches */

void micro_init(struct micro *m, struct rows_limits limits)
{
    *m = (struct micro){0};
    m->index = xreallocarray(NULL, (size_t)limits.supervised + 1, sizeof *m->index);
    m->target = xreallocarray(NULL, (size_t)limits.supervised + 1, sizeof *m->target);
    m->row_start = xreallocarray(NULL, (size_t)limits.rows + 1, sizeof *m->row_start);
    m->example_start = xreallocarray(NULL, (size_t)limits.examples + 1, sizeof *m->example_start);
}

void micro_free(struct micro *m)
{
    free(m->index);
    free(m->target);
    free(m->row_start);
    free(m->example_start);
    *m = (struct micro){0};
}

void micro_view(struct micro *m, const struct batch *b, int first, int n)
{
    int begin = b->row_start[first], end = b->row_start[first + n], from = b->row_example[first], to = b->row_example[first + n];

    for (int i = 0; i <= n; i++) m->row_start[i] = b->row_start[first + i] - begin;
    for (int i = from; i <= to; i++) m->example_start[i - from] = b->example_start[i] - begin;
    m->S = 0;
    for (int t = begin; t < end; t++) {
        if (b->target[t] == TARGET_NONE) continue;
        m->index[m->S] = t - begin;
        m->target[m->S++] = b->target[t];
    }
    m->ids = b->ids + begin;
    m->layout = (struct layout){
        .T = end - begin, .rows = n, .examples = to - from, .row_start = m->row_start, .example_start = m->example_start, .pos = b->pos + begin, .first_row = first,
    };
}
