/* y = x / rms(x) * w, rms(x) = sqrt(mean(x^2) + eps)                                              Zhang & Sennrich 2019, eq. 4
 * With r = 1 / rms(x), dr/dx_i = -r^3 x_i / C, so dx_i = r (w_i dy_i - x_i r^2 mean_j(w_j dy_j x_j)). */
#include "kernels/base/fmath.h"
#include "kernels/ref/ref.h"

void ref_rmsnorm(struct dev *dev, act *py, float *rstd, const act *px, const float *w, int64_t n, int C, float eps)
{
    for (int64_t t = 0; t < n; t++) {
        float *y = (float *)py + t * C;
        const float *x = (const float *)px + t * C;
        double sum = 0;

        for (int i = 0; i < C; i++) sum += (double)x[i] * x[i];
        double r = 1 / fm_sqrt(sum / C + eps);
        for (int i = 0; i < C; i++) y[i] = (float)(x[i] * r * w[i]);
        if (rstd) rstd[t] = (float)r;
    }
}

void ref_add_rmsnorm(struct dev *dev, act *y, float *rstd, act *psum, const act *px, const act *pd, const float *w, int64_t n, int C, float eps)
{
    float *sum = psum;
    const float *x = px, *d = pd;

    for (int64_t i = 0; i < n * C; i++) sum[i] = x[i] + d[i];
    ref_rmsnorm(dev, y, rstd, sum, w, n, C, eps);
}

void ref_rmsnorm_backward(struct dev *dev, act *pdx, const act *pbase, const act *pdy, const act *px, const float *w, const float *rstd, int64_t n, int C)
{
    for (int64_t t = 0; t < n; t++) {
        float *dx = (float *)pdx + t * C;
        const float *base = pbase ? (const float *)pbase + t * C : NULL, *dy = (const float *)pdy + t * C, *x = (const float *)px + t * C;
        double r = rstd[t], sum = 0;

        for (int i = 0; i < C; i++) sum += (double)w[i] * dy[i] * x[i];
        for (int i = 0; i < C; i++) dx[i] = (float)((base ? base[i] : 0) + r * ((double)w[i] * dy[i] - x[i] * r * r * (sum / C)));
    }
}
