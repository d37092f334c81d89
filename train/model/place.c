/* The base in the memory of a device that has its own. */
#include "kernels/base/mem.h"
#include "kernels/ops.h"
#include "train/model/model.h"

#include <stdlib.h>

/* A pointer of the model that moves from the host's bytes to the device's. */
struct moved {
    const void **pointer;
    const void *from;
    size_t bytes;
};

struct moving {
    struct moved *items;
    size_t n;
};

/* pointer: the address of one; NULL stays NULL. */
static void add(struct moving *v, void *pointer, size_t bytes)
{
    const void **p = pointer;

    if (!*p) return;
    v->items = xreallocarray(v->items, v->n + 1, sizeof *v->items);
    v->items[v->n++] = (struct moved){p, *p, bytes};
}

static void add_weight(struct moving *v, struct weight *w)
{
    int64_t n = w->N * w->K, block = dtype_info[w->type].block;
    size_t blocks = (size_t)((n + NF4_BLOCK - 1) / NF4_BLOCK), nested = (blocks + NF4_NESTED - 1) / NF4_NESTED;

    add(v, &w->data, dtype_bytes(w->type, (n + block - 1) / block * block));
    add(v, &w->absmax, (w->type == DTYPE_INT8 ? (size_t)w->N : blocks) * sizeof *w->absmax);
    add(v, &w->absmax_q, blocks);
    add(v, &w->nested_absmax, nested * sizeof *w->nested_absmax);
    add(v, &w->nested_code, 256 * sizeof *w->nested_code);
}

static void add_layer(struct moving *v, struct layer *l, const struct model_spec *s)
{
    add(v, &l->attn_norm, (size_t)s->C * sizeof(float));
    add(v, &l->ffn_norm, (size_t)s->C * sizeof(float));
    add(v, &l->q_norm, (size_t)s->D * sizeof(float));
    add(v, &l->k_norm, (size_t)s->D * sizeof(float));
    for (int m = 0; m < MODULES; m++) {
        add_weight(v, &l->lin[m]);
        add(v, &l->bias[m], (size_t)l->lin[m].N * sizeof(float));
    }
}

enum pawl_status model_place(struct model *m, struct dev *dev, struct err *err)
{
    struct moving v = {0};
    bool tied = m->head.data == m->embed.data;
    enum pawl_status st;

    if (!dev->ops->available) return PAWL_OK;
    for (int l = 0; l < m->spec.layers; l++) add_layer(&v, &m->layers[l], &m->spec);
    add(&v, &m->final_norm, (size_t)m->spec.C * sizeof(float));
    add_weight(&v, &m->embed);
    if (!tied) add_weight(&v, &m->head);
    for (size_t i = 0; i < v.n; i++) arena_reserve(&m->placed, "weights", v.items[i].bytes, v.items[i].pointer);
    if ((st = dev_arena_alloc(dev, &m->placed, err)) != PAWL_OK) goto done;
    m->dev = dev;
    for (size_t i = 0; i < v.n; i++) dev->ops->upload(dev, (void *)*v.items[i].pointer, v.items[i].from, v.items[i].bytes);
    if (tied) m->head = m->embed;
    st = dev_check(dev, err);
done:
    if (!m->dev) arena_free(&m->placed);
    free(v.items);
    return st;
}
