/* l = x W^T, loss = log(sum_v e^l_v) - l_target, dx = scale (sum_v softmax(l)_v W_v - W_target). */
#include "kernels/base/fmath.h"
#include "kernels/ref/ref.h"

#include <assert.h>

/* l (V) of one row; w is room for a row of W. */
static void logits_of(double *l, float *w, const float *x, const struct weight *W)
{
    for (int64_t v = 0; v < W->N; v++) {
        weight_row(W, v, 0, W->K, w);
        l[v] = 0;
        for (int64_t k = 0; k < W->K; k++) l[v] += (double)x[k] * w[k];
    }
}

static double log_sum_exp(const double *l, int64_t n, int64_t *argmax)
{
    double sum = 0;

    *argmax = 0;
    for (int64_t v = 1; v < n; v++)
        if (l[v] > l[*argmax]) *argmax = v;
    for (int64_t v = 0; v < n; v++) sum += fm_exp(l[v] - l[*argmax]);
    return l[*argmax] + fm_log(sum);
}

void ref_head_loss(struct dev *dev, float *loss, act *pdx, int32_t *argmax, const act *px, const struct weight *W, const int32_t *target, int S, float scale)
{
    int64_t V = W->N, C = W->K, best;
    double *l = dev->scratch, *sum = l + V;
    float *w = (float *)(sum + C);

    assert((size_t)(V + C) * sizeof *l + (size_t)C * sizeof *w <= dev->scratch_bytes);
    for (int64_t i = 0; i < S; i++) {
        logits_of(l, w, (const float *)px + i * C, W);
        double lse = log_sum_exp(l, V, &best);
        loss[i] = (float)(lse - l[target[i]]);
        if (argmax) argmax[i] = (int32_t)best;
        if (!pdx) continue;
        for (int64_t k = 0; k < C; k++) sum[k] = 0;
        for (int64_t v = 0; v < V; v++) {
            double p = fm_exp(l[v] - lse) - (v == target[i]);

            weight_row(W, v, 0, C, w);
            for (int64_t k = 0; k < C; k++) sum[k] += p * w[k];
        }
        for (int64_t k = 0; k < C; k++) ((float *)pdx)[i * C + k] = (float)(scale * sum[k]);
    }
}

void ref_logits(struct dev *dev, float *logits, const act *px, const struct weight *W, int n)
{
    double *l = dev->scratch;
    float *w = (float *)(l + W->N);

    assert((size_t)W->N * sizeof *l + (size_t)W->K * sizeof *w <= dev->scratch_bytes);
    for (int64_t i = 0; i < n; i++) {
        logits_of(l, w, (const float *)px + i * W->K, W);
        for (int64_t v = 0; v < W->N; v++) logits[i * W->N + v] = (float)l[v];
    }
}
