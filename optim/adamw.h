/* AdamW (Loshchilov & Hutter 2019, algorithm 2) in torch.optim.AdamW's order of operations. */
#ifndef PAWL_OPTIM_ADAMW_H
#define PAWL_OPTIM_ADAMW_H

#include "kernels/ops.h"

#include <stdint.h>

struct adamw_options {
    double beta1, beta2, eps, weight_decay;
};

/* The factors of optimizer step `step` (from 1) at this rate, computed in double and rounded once; clip multiplies the gradient. */
struct adamw adamw_factors(const struct adamw_options *o, int64_t step, double rate, double clip);

#endif
