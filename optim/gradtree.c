#include "optim/gradtree.h"

#include <assert.h>
#include <stdbool.h>

static void reserve_level(struct gradtree *t, struct arena *a, float **buffer, uint32_t *has, int l)
{
    if (*has >> l & 1) return;
    *has |= UINT32_C(1) << l;
    arena_reserve(a, "gradient tree", (size_t)t->n * sizeof(float), &buffer[l]);
}

/* The level at which a row comes to rest after it was added to what waited for it. *orphan: its older sibling there is not of the run. */
static int resting_level(int64_t row, int64_t first, bool *orphan)
{
    int l = 0;

    *orphan = false;
    for (; row >> l & 1; l++) {
        *orphan = row + 1 - (INT64_C(2) << l) < first;
        if (*orphan) break;
    }
    assert(l < GRADTREE_LEVELS);
    return l;
}

void gradtree_reserve_run(struct gradtree *t, struct arena *a, int64_t n, int64_t first, int64_t end)
{
    t->n = n;
    for (int64_t row = first; row < end; row++) {
        bool orphan;
        int l = resting_level(row, first, &orphan);

        if (orphan) reserve_level(t, a, t->left, &t->has_left, l);
        else reserve_level(t, a, t->level, &t->has_level, l);
        if (l >= t->levels) t->levels = l + 1;
    }
}

void gradtree_reserve(struct gradtree *t, struct arena *a, int64_t n, int64_t rows)
{
    *t = (struct gradtree){0};
    gradtree_reserve_run(t, a, n, 0, rows ? rows : 1);
}

/* to = older + newer, where newer is `to` itself. IEEE addition commutes, so the order of the operands does not show in the bits. */
static void add_older(struct dev *dev, float *to, const float *older, int64_t count)
{
    dev->ops->add(dev, to, older, count);
}

void gradtree_push(struct gradtree *t, struct dev *dev, int64_t row, int64_t offset, int64_t count, float *slice)
{
    bool orphan;
    int rest = resting_level(row, t->first, &orphan);

    for (int l = 0; l < rest; l++) add_older(dev, slice, t->level[l] + offset, count);
    dev->ops->copy(dev, (orphan ? t->left : t->level)[rest] + offset, slice, (size_t)count * sizeof *slice);
}

bool gradtree_can_forget(int64_t first, int64_t count)
{
    int64_t span = 1;

    while (span < count) span *= 2;
    return first % span == 0;
}

void gradtree_finish(struct gradtree *t, struct dev *dev, int64_t rows, float *g)
{
    struct gradtree_node nodes[GRADTREE_NODES];
    int n = gradtree_nodes(nodes, 0, rows);

    for (int i = 0; i < n; i++) nodes[i].data = gradtree_data(t, &nodes[i]);
    gradtree_join(dev, nodes, n, t->n, g);
}

/* --- for several trees */

int gradtree_nodes(struct gradtree_node *nodes, int64_t first, int64_t end)
{
    int n = 0;

    while (first < end) {
        int l = 0;

        while ((first >> l & 1) == 0 && first + (INT64_C(2) << l) <= end) l++;
        nodes[n++] = (struct gradtree_node){.row = first, .level = l};
        first += INT64_C(1) << l;
    }
    return n;
}

float *gradtree_data(const struct gradtree *t, const struct gradtree_node *node)
{
    return (node->row >> node->level & 1 ? t->left : t->level)[node->level];
}

void gradtree_join(struct dev *dev, struct gradtree_node *nodes, int n, int64_t count, float *sum)
{
    int depth = 0;

    /* The front of the array is a stack of nodes that wait for their sibling. */
    for (int i = 0; i < n; i++) {
        struct gradtree_node top = nodes[i];

        while (depth && nodes[depth - 1].level == top.level && top.row >> top.level & 1) {
            add_older(dev, top.data, nodes[--depth].data, count);
            top.row = nodes[depth].row;
            top.level++;
        }
        nodes[depth++] = top;
    }
    if (!depth) {
        dev->ops->zero(dev, sum, (size_t)count * sizeof *sum);
        return;
    }
    dev->ops->copy(dev, sum, nodes[depth - 1].data, (size_t)count * sizeof *sum);
    while (--depth) add_older(dev, sum, nodes[depth - 1].data, count);
}
