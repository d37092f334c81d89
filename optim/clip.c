#include "optim/clip.h"

#include "kernels/base/fmath.h"

int64_t clip_blocks(int64_t n)
{
    return (n + CLIP_BLOCK - 1) / CLIP_BLOCK;
}

double clip_norm(struct dev *dev, const float *g, int64_t n, double *blocks)
{
    dev->ops->sum_squares(dev, blocks, g, n, CLIP_BLOCK);
    return clip_norm_of(blocks, clip_blocks(n));
}

double clip_norm_of(const double *blocks, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) sum += blocks[i];
    return fm_sqrt(sum);
}

double clip_factor(double norm, double max_norm)
{
    double factor = max_norm / (norm + 1e-6);

    return max_norm > 0 && factor < 1 ? factor : 1;
}
