#include "train/run/sample.h"

#include "kernels/base/fmath.h"
#include "kernels/base/mem.h"
#include "kernels/base/rng.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    double p;
    int32_t id;
};

/* The most likely first; equal ones by id, so that the order is total. */
static int by_probability(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->p != y->p ? (x->p < y->p ? 1 : -1) : x->id - y->id;
}

static int32_t most_likely(const float *logits, int64_t V)
{
    int64_t best = 0;

    for (int64_t i = 1; i < V; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static void penalise(float *logits, int64_t V, double penalty, const int32_t *seen, int nseen)
{
    bool *done = xcalloc((size_t)V, sizeof *done);

    for (int i = 0; i < nseen; i++) {
        int32_t id = seen[i];

        if (done[id]) continue;
        done[id] = true;
        logits[id] = (float)(logits[id] > 0 ? (double)logits[id] / penalty : (double)logits[id] * penalty);
    }
    free(done);
}

int32_t sample_token(float *logits, int64_t V, const struct sample_options *opt, const int32_t *seen, int nseen, int64_t prompt, int64_t position)
{
    struct candidate *c;
    double best, sum = 0, kept = 0, at;
    int64_t n = 0;
    uint32_t w[4];
    int32_t id;

    if (opt->repetition_penalty != 1) penalise(logits, V, opt->repetition_penalty, seen, nseen);
    id = most_likely(logits, V);
    if (opt->temperature <= 0) return id;
    best = (double)logits[id];
    c = xreallocarray(NULL, (size_t)V, sizeof *c);
    for (int64_t i = 0; i < V; i++) {
        double p = fm_exp(((double)logits[i] - best) / opt->temperature);

        if (p < opt->min_p) continue;
        c[n++] = (struct candidate){p, (int32_t)i};
    }
    qsort(c, (size_t)n, sizeof *c, by_probability);
    if (opt->top_k > 0 && opt->top_k < n) n = opt->top_k;
    for (int64_t i = 0; i < n; i++) sum += c[i].p;
    for (int64_t i = 0; i < n; i++)
        if ((kept += c[i].p) >= opt->top_p * sum) n = i + 1;
    philox4x32(w, rng_key(opt->seed), (uint32_t)position, (uint32_t)prompt, (uint32_t)(prompt >> 32), 0x73616d70);
    at = (double)rng_unit(w[0]) * kept;
    id = c[n - 1].id;
    for (int64_t i = 0; i < n; i++)
        if ((at -= c[i].p) < 0) {
            id = c[i].id;
            break;
        }
    free(c);
    return id;
}
