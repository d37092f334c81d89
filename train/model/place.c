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

static size_t data_bytes(const struct weight *w)
{
    int64_t block = dtype_info[w->type].block;

    return dtype_bytes(w->type, (w->N * w->K + block - 1) / block * block);
}

static void add_weight(struct moving *v, struct weight *w)
{
    int64_t n = w->N * w->K;
    size_t blocks = (size_t)((n + NF4_BLOCK - 1) / NF4_BLOCK), nested = (blocks + NF4_NESTED - 1) / NF4_NESTED;

    add(v, &w->data, data_bytes(w));
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

static bool is_tied(const struct model *m) { return m->head.data == m->embed.data; }

size_t model_embed_bytes(const struct model *m) { return is_tied(m) ? 0 : data_bytes(&m->embed); }

enum pawl_status model_place(struct model *m, struct dev *dev, struct err *err)
{
    struct moving v = {0};
    bool tied = is_tied(m);
    enum pawl_status st;

    if (!dev->ops->available) return PAWL_OK;
    for (int l = 0; l < m->spec.layers; l++) add_layer(&v, &m->layers[l], &m->spec);
    add(&v, &m->final_norm, (size_t)m->spec.C * sizeof(float));
    if (!m->embed_on_host) add_weight(&v, &m->embed);
    if (!tied) add_weight(&v, &m->head);
    for (size_t i = 0; i < v.n; i++) arena_reserve(&m->placed, "weights", v.items[i].bytes, v.items[i].pointer);
    if ((st = dev_arena_alloc(dev, &m->placed, err)) != PAWL_OK) {
        st = err_set(err, PAWL_ENOMEM, "memory of %s: the weights take %.1f MiB, %.1f MiB are free: take a smaller model, one in 4 bits (load_in_4bit), or device cpu", dev->name,
                     (double)arena_bytes(&m->placed) / 1048576, (double)dev->ops->available(dev) / 1048576);
        goto done;
    }
    m->dev = dev;
    for (size_t i = 0; i < v.n; i++) dev->ops->upload(dev, (void *)*v.items[i].pointer, v.items[i].from, v.items[i].bytes);
    if (tied) m->head = m->embed;
    st = dev_check(dev, err);
done:
    if (!m->dev) arena_free(&m->placed);
    free(v.items);
    return st;
}
