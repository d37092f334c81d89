#include "optim/gradtree.h"

#include "kernels/base/mem.h"

#include <assert.h>
#include <stdlib.h>

void gradtree_reserve(struct gradtree *t, struct arena *a, int64_t n, int64_t rows)
{
    *t = (struct gradtree){.n = n, .levels = 1};
    while (rows >> t->levels) t->levels++;
    t->level = xcalloc((size_t)t->levels, sizeof *t->level);
    for (int l = 0; l < t->levels; l++) arena_reserve(a, "gradient tree", (size_t)n * sizeof(float), &t->level[l]);
}

void gradtree_free(struct gradtree *t)
{
    free(t->level);
    *t = (struct gradtree){0};
}

/* to = older + newer, where newer is `to` itself. IEEE addition commutes, so the order of the operands does not show in the bits. */
static void add_older(struct dev *dev, float *to, const float *older, int64_t count)
{
    dev->ops->add(dev, to, older, count);
}

void gradtree_push(struct gradtree *t, struct dev *dev, int64_t row, int64_t offset, int64_t count, float *slice)
{
    int l = 0;

    for (; row >> l & 1; l++) add_older(dev, slice, t->level[l] + offset, count);
    assert(l < t->levels);
    dev->ops->copy(dev, t->level[l] + offset, slice, (size_t)count * sizeof *slice);
}

void gradtree_finish(struct gradtree *t, struct dev *dev, int64_t rows, float *g)
{
    size_t bytes = (size_t)t->n * sizeof *g;
    bool empty = true;

    for (int l = 0; l < t->levels; l++) {
        if (!(rows >> l & 1)) continue;
        if (empty) dev->ops->copy(dev, g, t->level[l], bytes);
        else add_older(dev, g, t->level[l], t->n);
        empty = false;
    }
    if (empty) dev->ops->zero(dev, g, bytes);
}
