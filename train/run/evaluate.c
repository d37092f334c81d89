#include "train/run/evaluate.h"

#include "kernels/base/fmath.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/data/batch.h"
#include "train/run/stop.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* Whether each example's supervised tokens are all first choices. index ascends, so one walk over the supervised places suffices. */
static void count_matches(struct evaluation *ev, const struct micro *m, const struct batch *b, const int32_t *argmax, uint8_t *matches)
{
    int i = 0;

    for (int e = 0; e < m->layout.examples; e++) {
        bool all = true;
        int first = i;

        for (; i < m->S && m->index[i] < m->example_start[e + 1]; i++) all &= argmax[i] == m->target[i];
        if (i == first) continue;
        ev->examples++;
        ev->exact += all;
        if (matches) matches[b->item[e]] = all;
    }
}

enum pawl_status evaluate(struct evaluation *out, struct net *net, const struct rows *rows, uint8_t *matches, bool progress, struct err *err)
{
    struct evaluation ev = {0};
    struct batch b;
    struct micro m;
    struct rows_limits limits = rows_limits(rows, rows->opt.global_batch);
    float *loss = xreallocarray(NULL, (size_t)limits.supervised, sizeof *loss);
    int32_t *argmax = xreallocarray(NULL, (size_t)limits.supervised, sizeof *argmax);
    int64_t steps = rows_steps_per_epoch(rows);
    double sum = 0;
    time_t said = time(NULL);

    batch_init(&b, rows);
    micro_init(&m, limits);
    for (int64_t s = 1; s <= steps && !stop_requested(); s++) {
        batch_build(&b, s);
        micro_view(&m, &b, 0, b.rows);
        net_eval(net, &m, loss, argmax);
        for (int i = 0; i < m.S; i++) sum += (double)loss[i];
        ev.tokens += m.S;
        count_matches(&ev, &m, &b, argmax, matches);
        if (progress && (time(NULL) - said >= 2 || s == steps)) {
            log_progress("evaluating: %lld of %lld batches", (long long)s, (long long)steps);
            said = time(NULL);
        }
    }
    if (progress) log_progress_end();
    micro_free(&m);
    batch_free(&b);
    free(loss);
    free(argmax);
    if (stop_requested()) return err_set(err, PAWL_ESTOPPED, "stopped by %s while evaluating", stop_reason());
    ev.loss = ev.tokens ? sum / (double)ev.tokens : 0;
    ev.perplexity = fm_exp(ev.loss);
    if (!isfinite(ev.loss)) return err_set(err, PAWL_ENUMERIC, "the evaluation loss is %g: the model or its adapter is damaged", ev.loss);
    *out = ev;
    return PAWL_OK;
}
