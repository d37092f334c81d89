/* The global batch of one step, flat, and views of runs of its rows: the micro-batches. */
#ifndef PAWL_DATA_BATCH_H
#define PAWL_DATA_BATCH_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"
#include "kernels/ops.h"
#include "train/data/rows.h"

#include <stdint.h>

#define TARGET_NONE (-1)

/* Arrays belong to the batch and have room for any step. */
struct batch {
    int64_t step;           /* 1-based; 0: nothing built yet */
    int64_t epoch;          /* 0-based */
    int T, rows, examples;
    int supervised;         /* targets: the denominator of the step's loss */
    uint64_t hash;          /* of ids, targets and layout */
    int32_t *ids;           /* (T) */
    int32_t *target;        /* (T) the id of the next token of the same example where that one is supervised, else TARGET_NONE */
    int32_t *pos;           /* (T) counts from 0 in each example */
    int32_t *row_start;     /* (rows + 1) in tokens */
    int32_t *example_start; /* (examples + 1) in tokens */
    int32_t *row_example;   /* (rows + 1) first example of each row */
    uint32_t *row;          /* (rows) index in struct rows */
    uint32_t *item;         /* (examples) index in the data set */

    const struct rows *source; /* must outlive the batch */
    int64_t order_epoch;       /* whose order is in order; -1: none */
    uint32_t *order;           /* (source->count) */
};

void batch_init(struct batch *b, const struct rows *rows);
void batch_free(struct batch *b); /* a zeroed batch is allowed */
/* Fills b with step >= 1, beyond the total as if the run went on. A pure function of rows and step. */
void batch_build(struct batch *b, int64_t step);

/* Adds "FILE lines 3, 9, 12; FILE2 line 1" of rows first..first+n-1 to out, cut short after a dozen: for messages about a step. */
void batch_places(const struct batch *b, int first, int n, struct buf *out);

/* A contiguous run of rows, as the ops want it. */
struct micro {
    struct layout layout;
    const int32_t *ids;      /* (layout.T) in the batch */
    int S;                   /* supervised tokens */
    int32_t *index;          /* (S) ascending, counted from the micro-batch's first token */
    int32_t *target;         /* (S) */
    int32_t *row_start, *example_start; /* storage of layout */
};

/* Room for any micro-batch within these limits. */
void micro_init(struct micro *m, struct rows_limits limits);
void micro_free(struct micro *m);
/* Rows first..first+n-1 of b; valid until b is built anew. No memory is allocated. */
void micro_view(struct micro *m, const struct batch *b, int first, int n);

#endif
