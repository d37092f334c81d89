/* The sum of per-row gradients over a fixed binary tree on the row's index in the global batch.
 *
 * Node (0, i) is row i's gradient; node (l, i) = node (l - 1, 2i) + node (l - 1, 2i + 1), in that order. Rows arrive in order, and nodes that wait for their sibling are kept
 * one a level, as in a binary counter: level l is occupied when bit l of the number of rows so far is set. So the sum does not depend on how rows are cut into
 * micro-batches. It works slice by slice: each slice of the flat vector may be at another row. A rank that owns a run of rows holds maximal aligned subtrees in its levels. */
#ifndef PAWL_OPTIM_GRADTREE_H
#define PAWL_OPTIM_GRADTREE_H

#include "kernels/base/arena.h"
#include "kernels/ops.h"

#include <stdint.h>

struct gradtree {
    int64_t n;      /* elements of the flat vector */
    int levels;     /* floor(log2(rows)) + 1 */
    float **level;  /* (n) each */
};

/* Adds the level buffers for global batches of at most `rows` rows to the size table. */
void gradtree_reserve(struct gradtree *t, struct arena *a, int64_t n, int64_t rows);
void gradtree_free(struct gradtree *t);

/* Adds row's gradient of theta[offset, offset + count): slice is consumed. Every slice gets rows 0, 1, 2, ... in order. */
void gradtree_push(struct gradtree *t, struct dev *dev, int64_t row, int64_t offset, int64_t count, float *slice);
/* g (n) = the sum of `rows` rows: pending nodes are added from the smallest up, the older one first. The tree is then empty. rows may be 0. */
void gradtree_finish(struct gradtree *t, struct dev *dev, int64_t rows, float *g);

#endif
