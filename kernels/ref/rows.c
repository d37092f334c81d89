/* Ops that move whole rows: embedding, gather, scatter. */
#include "kernels/ref/ref.h"

#include <string.h>

void ref_embed(struct dev *dev, act *y, const struct weight *W, const int32_t *ids, int T)
{
    for (int64_t t = 0; t < T; t++) weight_row(W, ids[t], 0, W->K, (float *)y + t * W->K);
}

static void copy_row(float *y, int64_t to, const float *x, int64_t from, int C)
{
    memcpy(y + to * C, x + from * C, (size_t)C * sizeof *y);
}

void ref_gather(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C)
{
    for (int i = 0; i < n; i++) copy_row(y, i, x, index[i], C);
}

void ref_scatter(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C)
{
    for (int i = 0; i < n; i++) copy_row(y, index[i], x, i, C);
}
