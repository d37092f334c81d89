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

/* All rows once, in order. net's limits cover any run of rows->opt.global_batch rows. matches (one byte an example of the data set) may be NULL.
 * progress: a line now and then. */
enum pawl_status evaluate(struct evaluation *out, struct net *net, const struct rows *rows, uint8_t *matches, bool progress, struct err *err);

#endif
