/* How examples fall into rows and rows into steps: fixed before a run starts, a pure function of data set and options.
 *
 * A row is the unit of the gradient tree, of dropout and of sharing among ranks: one example, or with packing one bin of examples that don't see each other.
 * Each epoch takes all rows once, in an order that is a pure function of (seed, epoch); a step takes the next global_batch rows, the last step of an epoch what is left. */
#ifndef PAWL_DATA_ROWS_H
#define PAWL_DATA_ROWS_H

#include "kernels/base/err.h"
#include "train/data/dataset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;

struct rows_options {
    int64_t sequence_len; /* size of a bin where packing */
    bool packing;
    bool shuffle;
    uint64_t seed;
    int64_t global_batch; /* rows a step */
    double num_epochs;
    int64_t max_steps;    /* 0: by num_epochs */
};
/* The options that stand in a configuration whose global batch is fixed (config_fix_batch). */
struct rows_options rows_options(const struct config *c);
/* For evaluation: one pass in order, batch rows at a time. */
struct rows_options rows_options_eval(const struct config *c, int64_t batch);

struct rows {
    struct rows_options opt;
    const struct dataset *data;   /* must outlive the rows */
    uint32_t count;
    uint32_t *first;              /* (count + 1) first item of each row */
    uint32_t *item;               /* example numbers; ascending within a row */
    int32_t *tokens, *supervised; /* (count) */
    int64_t total_tokens, total_supervised; /* of an epoch */
};

/* PAWL_EINVAL where there is no row. An example stands in floor(weight) rows, and once more where its hash falls below what is left of the weight. */
enum pawl_status rows_build(struct rows **out, const struct dataset *data, const struct rows_options *opt, struct err *err);
void rows_free(struct rows *r); /* NULL is allowed */

int64_t rows_steps_per_epoch(const struct rows *r); /* ceil(count / global_batch) */
int64_t rows_total_steps(const struct rows *r);     /* max_steps, or ceil(num_epochs * steps per epoch) */

/* Where step (1-based) stands: its epoch (0-based), its first position in the epoch's order, its number of rows. */
struct rows_step {
    int64_t epoch;
    uint32_t first, count;
};
struct rows_step rows_step(const struct rows *r, int64_t step);
/* Epochs that are over after this many steps: what metrics call epoch. */
double rows_epochs_done(const struct rows *r, int64_t step);

/* order (count) = the rows of an epoch. */
void rows_order(const struct rows *r, int64_t epoch, uint32_t *order);

/* Upper bounds over all sets of n rows, whatever the order: what the size table is made for. Their sums: the n longest, the n with most targets, the n with most examples. */
struct rows_limits {
    int rows;
    int64_t tokens, supervised, examples;
};
struct rows_limits rows_limits(const struct rows *r, int64_t n);

/* Share of bins that is filled: tokens / (rows * sequence_len). */
double rows_fill(const struct rows *r);

/* Of data set and options: equal hashes mean equal batches at every step. num_epochs and max_steps are left out. */
uint64_t rows_hash(const struct rows *r);

#endif
