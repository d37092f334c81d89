/* The sum of per-row gradients over a fixed binary tree on the row's index in the global batch.
 *
 * Node (0, i) is row i's gradient; node (l, i) = node (l - 1, 2i) + node (l - 1, 2i + 1), in that order. Rows arrive in order, and nodes that wait for their sibling are kept
 * one a level, as in a binary counter: level l is occupied when bit l of the number of rows so far is set. So the sum does not depend on how rows are cut into
 * micro-batches. It works slice by slice: each slice of the flat vector may be at another row.
 *
 * A tree may hold a run of rows [first, end) only, as a rank does: then it is left with the maximal aligned subtrees of the run, which whoever has those of all runs joins. */
#ifndef PAWL_OPTIM_GRADTREE_H
#define PAWL_OPTIM_GRADTREE_H

#include "kernels/base/arena.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stdint.h>

#define GRADTREE_LEVELS 32
#define GRADTREE_NODES (2 * GRADTREE_LEVELS) /* the most that a run of rows has */

struct gradtree {
    int64_t n;      /* elements of the flat vector */
    int64_t first;  /* of the run that is being summed; set by whoever pushes, before the first row of a step */
    int levels;     /* floor(log2(rows)) + 1 where the run begins with row 0 */
    float *level[GRADTREE_LEVELS]; /* (n) each; NULL where a run of rows needs none */
    float *left[GRADTREE_LEVELS];  /* (n) each: nodes whose older sibling began before the run */
    uint32_t has_level, has_left;  /* bits of those that are reserved */
};

/* Adds the level buffers for global batches of at most `rows` rows to the size table. */
void gradtree_reserve(struct gradtree *t, struct arena *a, int64_t n, int64_t rows);
/* Adds what the run [first, end) needs and is not there yet. The first call finds *t zeroed. */
void gradtree_reserve_run(struct gradtree *t, struct arena *a, int64_t n, int64_t first, int64_t end);

/* Adds row's gradient of theta[offset, offset + count): slice is consumed. Every slice gets rows first, first + 1, ... in order. */
void gradtree_push(struct gradtree *t, struct dev *dev, int64_t row, int64_t offset, int64_t count, float *slice);
/* Whether rows first .. first + count - 1 may be pushed and then forgotten: the nodes of the rows before them stay as they are, since no push writes to their levels. So it is
 * where first is a multiple of the smallest power of two that is not below count. */
bool gradtree_can_forget(int64_t first, int64_t count);
/* g (n) = the sum of rows 0 .. rows - 1: pending nodes are added from the smallest up, the older one first. The tree is then empty. rows may be 0. */
void gradtree_finish(struct gradtree *t, struct dev *dev, int64_t rows, float *g);

/* --- for several trees */

/* Rows [row, row + 2^level). */
struct gradtree_node {
    int64_t row;
    int level;
    float *data; /* of some slice */
};
/* The maximal aligned subtrees of [first, end), in order, without data; their number, at most GRADTREE_NODES. */
int gradtree_nodes(struct gradtree_node *nodes, int64_t first, int64_t end);
/* Where a tree that has summed its run holds such a node: (n). */
float *gradtree_data(const struct gradtree *t, const struct gradtree_node *node);
/* sum (count) = that of all nodes, which follow each other from row 0 on; count elements of each. nodes and their data are consumed; n may be 0. */
void gradtree_join(struct dev *dev, struct gradtree_node *nodes, int n, int64_t count, float *sum);

#endif
