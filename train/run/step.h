/* One optimizer step in the pieces that training, the replay of a resume and a stop in mid-accumulation share. Private to train/run. */
#ifndef PAWL_RUN_STEP_H
#define PAWL_RUN_STEP_H

#include "train/run/trainer.h"

/* Losses and gradients of this rank's rows from *row on, micro-batch by micro-batch, into the gradient tree; *row and *loss (a sum) go on from what they are. PAWL_ESTOPPED, where
 * may_stop, between two micro-batches when the time that a notice leaves does not suffice for the rest, or within one that can't be finished in time and is given up. With several ranks
 * that gives up the whole step: the state is that of the last one. PAWL_ENUMERIC names the examples. */
enum pawl_status step_accumulate(struct trainer *t, const struct batch *b, int64_t *row, double *loss, bool may_stop, struct err *err);

struct step_sums {
    double norm;   /* of the gradient, before clipping */
    uint64_t hash; /* of the gradient, the same for any number of threads and ranks; 0 unless it was asked for */
};
/* The sum over all ranks' rows in g. *loss becomes that of all rows where others had some. *hashed, on rank 0: whether the hash is wanted; the others are told. *dropped: whether this rank
 * gave its rows up, then whether any did; then there is no sum. */
enum pawl_status step_gradient(struct trainer *t, const struct batch *b, bool *hashed, bool *dropped, double *loss, struct step_sums *out, struct err *err);
/* AdamW with clipping; theta, moments and the operand copy follow. */
enum pawl_status step_update(struct trainer *t, int64_t step, double norm, struct err *err);

/* Rows from `row` on took so long with all that they had queued: where a device works behind the calls, that is what a row takes. */
void step_waited(struct trainer *t, const struct batch *b, int64_t row, double seconds);
double step_learning_rate(const struct trainer *t, int64_t step);

#endif
