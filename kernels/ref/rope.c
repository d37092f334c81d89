/* (x_i, x_{i + D/2}) turned by the angle pos * freq_i: Su et al. 2021, eq. 34, in the half-split order of Hugging Face. */
#include "kernels/ref/ref.h"

void ref_rope(struct dev *dev, act *px, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse)
{
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < heads; h++) {
            float *x = (float *)px + (t * heads + h) * D;

            for (int i = 0; i < D / 2; i++) {
                double c = cos[(int64_t)pos[t] * (D / 2) + i], s = sin[(int64_t)pos[t] * (D / 2) + i], a = x[i], b = x[i + D / 2];

                if (inverse) s = -s;
                x[i] = (float)(a * c - b * s);
                x[i + D / 2] = (float)(b * c + a * s);
            }
        }
}
