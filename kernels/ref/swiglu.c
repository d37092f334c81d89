/* y = silu(g) u, silu(g) = g / (1 + e^-g)                                                          Shazeer 2020, eq. 6
 * silu'(g) = sigma + g sigma (1 - sigma), sigma = 1 / (1 + e^-g). */
#include "kernels/base/fmath.h"
#include "kernels/ref/ref.h"

void ref_swiglu(struct dev *dev, act *py, const act *pgate, const act *pup, int64_t n)
{
    float *y = py;
    const float *gate = pgate, *up = pup;

    for (int64_t i = 0; i < n; i++) y[i] = (float)(gate[i] / (1 + fm_exp(-(double)gate[i])) * up[i]);
}

void ref_swiglu_backward(struct dev *dev, act *pdgate, act *pdup, act *py, const act *pdy, const act *pgate, const act *pup, int64_t n)
{
    float *dgate = pdgate, *dup = pdup, *y = py;
    const float *dy = pdy, *gate = pgate, *up = pup;

    for (int64_t i = 0; i < n; i++) {
        double g = gate[i], u = up[i], d = dy[i], sigma = 1 / (1 + fm_exp(-g));

        dgate[i] = (float)(d * u * (sigma + g * sigma * (1 - sigma)));
        dup[i] = (float)(d * g * sigma);
        if (y) y[i] = (float)(g * sigma * u);
    }
}
