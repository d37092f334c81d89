/* A tensor in a file: what safetensors.h and gguf.h give. A view: everything belongs to the file object it came from. */
#ifndef PAWL_CKPT_TENSOR_H
#define PAWL_CKPT_TENSOR_H

#include "kernels/base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_RANK 8

struct tensor {
    const char *name;
    enum dtype dtype;
    int rank;                        /* 0 for a scalar */
    int64_t shape[TENSOR_MAX_RANK];  /* row-major, the last dimension is contiguous: (N, K) for y = x W^T */
    const void *data;                /* aligned for its element type */
    size_t bytes;                    /* of data, checked against shape and dtype */
};

/* Elements: the product of shape, which the readers have checked to fit. */
static inline int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* Sets bytes from dtype, rank and shape. False where the last dimension is not whole blocks, or where elements or bytes go beyond 63 bits. */
bool tensor_measure(struct tensor *t);

/* A name that can stand in messages and be looked up: not empty, no control characters (so no NUL). */
bool tensor_name_ok(const char *name, size_t len);

/* Writes "(576, 1536)" for messages; returns text. */
char *tensor_shape_text(char text[192], int rank, const int64_t *shape);

#endif
