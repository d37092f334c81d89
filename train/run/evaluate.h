/* Losses and exact matches over held-out rows. */
#ifndef PAWL_RUN_EVALUATE_H
#define PAWL_RUN_EVALUATE_H

#include "train/data/rows.h"
#include "train/model/net.h"

struct evaluation {
    double loss;         /* mean over supervised tokens, nats */
    double perplexity;
    int64_t tokens;      /* supervised */
    int64_t examples;
    int64_t exact;       /* examples of which every supervised token is the model's first choice: what greedy decoding would write */
};

/* What a part of the rows gives. */
struct evaluation_sums {
    double *row_loss;    /* (rows->count) of the rows of the part */
    int64_t tokens, examples, exact;
};

/* All rows once, in order. net's limits cover any run of rows->opt.global_batch rows. matches (one byte an example of the data set) may be NULL.
 * progress: a line now and then. */
enum pawl_status evaluate(struct evaluation *out, struct net *net, const struct rows *rows, uint8_t *matches, bool progress, struct err *err);

/* The same in pieces, for ranks that share it out: rows of batches [begin, end) out of rows_steps_per_epoch; then the losses of all rows, added in order, so that no cut shows. */
enum pawl_status evaluate_batches(struct evaluation_sums *sums, struct net *net, const struct rows *rows, int64_t begin, int64_t end, uint8_t *matches, bool progress, struct err *err);
enum pawl_status evaluate_finish(struct evaluation *out, const struct evaluation_sums *all, const struct rows *rows, struct err *err);

#endif
