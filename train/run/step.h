/* One optimizer step in the pieces that training, the replay of a resume and a stop in mid-accumulation share. Private to train/run. */
#ifndef PAWL_RUN_STEP_H
#define PAWL_RUN_STEP_H

#include "train/run/trainer.h"

/* Losses and gradients of the rows from *row on, micro-batch by micro-batch, into the gradient tree; *row and *loss (a sum) go on from what they are. PAWL_ESTOPPED between two
 * micro-batches where may_stop and the time that a notice leaves does not suffice for the rest, or within one that can't be finished in time and is given up. PAWL_ENUMERIC names the examples. */
enum pawl_status step_accumulate(struct trainer *t, const struct batch *b, int64_t *row, double *loss, bool may_stop, struct err *err);
/* The sum of the tree in g; *norm is its norm before clipping. */
enum pawl_status step_gradient(struct trainer *t, const struct batch *b, double *norm, struct err *err);
/* AdamW with clipping; theta, moments and the operand copy follow. */
void step_update(struct trainer *t, int64_t step, double norm);

double step_learning_rate(const struct trainer *t, int64_t step);
/* Of g; the same for any number of threads. */
uint64_t step_gradient_hash(const struct trainer *t);

#endif
