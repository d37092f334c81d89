/* The flat vector: nodes of the gradient tree, the norm's blocks, AdamW (kernels/ops.h states its operations one by one; fp32 here as anywhere). */
#include "kernels/base/fmath.h"
#include "kernels/ref/ref.h"

#include <string.h>

void ref_add(struct dev *dev, float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
}

void ref_sum_squares(struct dev *dev, double *out, const float *x, int64_t n, int64_t block)
{
    for (int64_t b = 0; b * block < n; b++) {
        int64_t end = (b + 1) * block < n ? (b + 1) * block : n;

        out[b] = 0;
        for (int64_t i = b * block; i < end; i++) out[b] += (double)x[i] * x[i];
    }
}

void ref_adamw(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *h)
{
    for (int64_t i = 0; i < n; i++) {
        float gi = h->clip * g[i];

        theta[i] *= h->decay;
        m[i] += h->rest1 * (gi - m[i]);
        v[i] = h->beta2 * v[i] + h->rest2 * gi * gi;
        theta[i] -= h->step_size * m[i] / ((float)fm_sqrt(v[i]) / h->root + h->eps);
    }
    ref_round_operand(dev, operand, theta, n);
}

void ref_round_operand(struct dev *dev, act *operand, const float *theta, int64_t n)
{
    if (n) memmove(operand, theta, (size_t)n * sizeof *theta);
}
