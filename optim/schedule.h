/* Learning rates: pure functions of the step, as transformers.optimization defines them. */
#ifndef PAWL_OPTIM_SCHEDULE_H
#define PAWL_OPTIM_SCHEDULE_H

#include <stdint.h>

enum schedule { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_CONSTANT_WITH_WARMUP, SCHEDULE_COSINE_WITH_MIN_LR };

struct schedule_options {
    enum schedule kind;
    double peak;           /* the configured rate */
    int64_t warmup, total; /* steps */
    double min_ratio;      /* COSINE_WITH_MIN_LR: the last rate over peak */
};

/* The rate used in optimizer step `step`, counted from 1: the first step of a warm-up has rate 0, as transformers has it. */
double schedule_rate(const struct schedule_options *s, int64_t step);

#endif
