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
static void count_matches(struct evaluation_sums *sums, const struct micro *m, const struct batch *b, const int32_t *argmax, uint8_t *matches)
{
    int i = 0;

    for (int e = 0; e < m->layout.examples; e++) {
        bool all = true;
        int first = i;

        for (; i < m->S && m->index[i] < m->example_start[e + 1]; i++) all &= argmax[i] == m->target[i];
        if (i == first) continue;
        sums->examples++;
        sums->exact += all;
        if (matches) matches[b->item[e]] = all;
    }
}

static void add_losses(double *row_loss, const struct micro *m, const float *loss)
{
    int i = 0;

    for (int r = 0; r < m->layout.rows; r++) {
        row_loss[r] = 0;
        for (; i < m->S && m->index[i] < m->row_start[r + 1]; i++) row_loss[r] += (double)loss[i];
    }
}

enum pawl_status evaluate_batches(struct evaluation_sums *sums, struct net *net, const struct rows *rows, int64_t begin, int64_t end, uint8_t *matches, bool progress, struct err *err)
{
    struct batch b;
    struct micro m;
    struct rows_limits limits = rows_limits(rows, rows->opt.global_batch);
    float *loss = xreallocarray(NULL, (size_t)limits.supervised, sizeof *loss);
    int32_t *argmax = xreallocarray(NULL, (size_t)limits.supervised, sizeof *argmax);
    time_t said = time(NULL);

    batch_init(&b, rows);
    micro_init(&m, limits);
    for (int64_t s = begin; s < end && !stop_requested(); s++) {
        batch_build(&b, s + 1);
        micro_view(&m, &b, 0, b.rows);
        net_eval(net, &m, loss, argmax);
        add_losses(sums->row_loss + rows_step(rows, s + 1).first, &m, loss);
        sums->tokens += m.S;
        count_matches(sums, &m, &b, argmax, matches);
        if (progress && (time(NULL) - said >= 2 || s + 1 == end)) {
            log_progress("evaluating: %lld of %lld batches", (long long)(s + 1 - begin), (long long)(end - begin));
            said = time(NULL);
        }
    }
    if (progress) log_progress_end();
    micro_free(&m);
    batch_free(&b);
    free(loss);
    free(argmax);
    return stop_requested() ? err_set(err, PAWL_ESTOPPED, "stopped by %s while evaluating", stop_reason()) : dev_check(net->dev, err);
}

enum pawl_status evaluate_finish(struct evaluation *out, const struct evaluation_sums *all, const struct rows *rows, struct err *err)
{
    struct evaluation ev = {.tokens = all->tokens, .examples = all->examples, .exact = all->exact};
    double sum = 0;

    for (uint32_t r = 0; r < rows->count; r++) sum += all->row_loss[r];
    ev.loss = ev.tokens ? sum / (double)ev.tokens : 0;
    ev.perplexity = fm_exp(ev.loss);
    if (!isfinite(ev.loss)) return err_set(err, PAWL_ENUMERIC, "the evaluation loss is %g: the model or its adapter is damaged", ev.loss);
    *out = ev;
    return PAWL_OK;
}

enum pawl_status evaluate(struct evaluation *out, struct net *net, const struct rows *rows, uint8_t *matches, bool progress, struct err *err)
{
    struct evaluation_sums sums = {.row_loss = xcalloc(rows->count, sizeof *sums.row_loss)};
    enum pawl_status st = evaluate_batches(&sums, net, rows, 0, rows_steps_per_epoch(rows), matches, progress, err);

    if (st == PAWL_OK) st = evaluate_finish(out, &sums, rows, err);
    free(sums.row_loss);
    return st;
}
