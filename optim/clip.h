/* The norm of a gradient and the factor that clips it, as torch.nn.utils.clip_grad_norm_ defines them (Pascanu et al. 2013). */
#ifndef PAWL_OPTIM_CLIP_H
#define PAWL_OPTIM_CLIP_H

#include "kernels/ops.h"

#include <stdint.h>

/* Squares are summed within blocks of this many elements, then over blocks in order, in double: a shard border at a multiple of it never shows. */
#define CLIP_BLOCK 4096

int64_t clip_blocks(int64_t n);
/* sqrt of the sum of squares; blocks: room for clip_blocks(n) values on the host. */
double clip_norm(struct dev *dev, const float *g, int64_t n, double *blocks);
/* The same from the sums of all blocks. */
double clip_norm_of(const double *blocks, int64_t count);
/* min(1, max_norm / (norm + 1e-6)); 1 where max_norm is 0. */
double clip_factor(double norm, double max_norm);

#endif
