/* The flat vector of trainable weights: nodes of the gradient tree, sums of squares by block, AdamW. Bound by memory. AdamW has no fma and the operations of kernels/ops.h one by one, so its bits are
 * those of every backend. */
#include "kernels/cpu/cpu.h"

#define RUN 4096 /* elements are dealt out in runs of this many */

void OP(add)(struct dev *dev, float *a, const float *b, int64_t n)
{
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t i = at, end = min64(at + RUN, n);

        for (; i + VL <= end; i += VL) vstore(a + i, vload(a + i) + vload(b + i));
        for (; i < end; i++) a[i] += b[i];
    }
}

void OP(sum_squares)(struct dev *dev, double *out, const float *x, int64_t n, int64_t block)
{
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t b = 0; b < ceil_div(n, block); b++) {
        int64_t i = b * block, end = min64(i + block, n);
        double sum = 0;
        vd lanes = {0};

        for (; i + VL <= end; i += VL) {
            vd v = __builtin_convertvector(vload(x + i), vd);
            lanes += v * v;
        }
        for (int j = 0; j < VL; j++) sum += lanes[j];
        for (; i < end; i++) sum += (double)x[i] * x[i];
        out[b] = sum;
    }
}

static inline void adamw_step(vf *theta, vf *m, vf *v, vf g, const struct adamw *h)
{
    g *= h->clip;
    *theta *= h->decay;
    *m = *m + (g - *m) * h->rest1;
    *v = *v * h->beta2 + g * h->rest2 * g;
    *theta = *theta - *m * h->step_size / (vsqrt(*v) / h->root + h->eps);
}

void OP(adamw)(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper)
{
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t end = min64(at + RUN, n);

        for (int64_t i = at; i < end; i += VL) {
            int64_t lanes = min64(VL, end - i);
            vf t = f32_load(theta + i, lanes), mi = f32_load(m + i, lanes), vari = f32_load(v + i, lanes);

            adamw_step(&t, &mi, &vari, f32_load(g + i, lanes), hyper);
            f32_store(theta + i, t, lanes);
            f32_store(m + i, mi, lanes);
            f32_store(v + i, vari, lanes);
            elem_store((elem *)operand + i, t, lanes);
        }
    }
}

void OP(round_operand)(struct dev *dev, act *operand, const float *theta, int64_t n)
{
#pragma omp parallel for num_threads(dev->threads) schedule(static)
    for (int64_t at = 0; at < n; at += RUN)
        for (int64_t i = at; i < min64(at + RUN, n); i += VL) {
            int64_t lanes = min64(VL, n - i);

            elem_store((elem *)operand + i, f32_load(theta + i, lanes), lanes);
        }
}
