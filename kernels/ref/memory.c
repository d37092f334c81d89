#include "kernels/ref/ref.h"

#include <stdlib.h>
#include <string.h>

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A row of logits, a row of an input gradient (both double), a row of a weight in fp32. */
size_t ref_scratch_bytes(const struct dev *dev, const struct dev_shapes *s)
{
    size_t K = larger(larger((size_t)s->C, (size_t)s->F), (size_t)s->H * (size_t)s->D);

    return ((size_t)s->V + K) * sizeof(double) + K * sizeof(float);
}

void *ref_alloc(struct dev *dev, size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

void ref_free(struct dev *dev, void *p, size_t bytes)
{
    free(p);
}

void ref_copy(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    if (bytes) memcpy(dst, src, bytes);
}

void ref_zero(struct dev *dev, void *p, size_t bytes)
{
    if (bytes) memset(p, 0, bytes);
}
