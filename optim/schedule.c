#include "optim/schedule.h"

#include "kernels/base/fmath.h"

static const double pi = 3.141592653589793;

static double after_warmup(const struct schedule_options *s, int64_t done)
{
    int64_t left = s->total - done, span = s->total - s->warmup;
    double part, cosine;

    switch (s->kind) {
    case SCHEDULE_LINEAR: return left > 0 ? (double)left / (double)(span > 0 ? span : 1) : 0;
    case SCHEDULE_COSINE:
    case SCHEDULE_COSINE_WITH_MIN_LR:
        part = (double)(done - s->warmup) / (double)(span > 0 ? span : 1);
        cosine = 0.5 * (1 + fm_cos(pi * part));
        cosine = s->kind == SCHEDULE_COSINE ? cosine : cosine * (1 - s->min_ratio) + s->min_ratio;
        return cosine > 0 ? cosine : 0;
    case SCHEDULE_CONSTANT:
    case SCHEDULE_CONSTANT_WITH_WARMUP: break;
    }
    return 1;
}

double schedule_rate(const struct schedule_options *s, int64_t step)
{
    int64_t done = step - 1;

    if (s->kind != SCHEDULE_CONSTANT && done < s->warmup) return s->peak * ((double)done / (double)(s->warmup > 1 ? s->warmup : 1));
    return s->peak * after_warmup(s, done);
}
