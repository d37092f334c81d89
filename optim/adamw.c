#include "optim/adamw.h"

#include "kernels/base/fmath.h"

struct adamw adamw_factors(const struct adamw_options *o, int64_t step, double rate, double clip)
{
    return (struct adamw){
        .clip = (float)clip,
        .decay = (float)(1 - rate * o->weight_decay),
        .rest1 = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1 - o->beta2),
        .root = (float)fm_sqrt(1 - fm_powi(o->beta2, (int)step)),
        .eps = (float)o->eps,
        .step_size = (float)(rate / (1 - fm_powi(o->beta1, (int)step))),
    };
}
