/* A model with its adapter on a device: forward, backward, inference. Owns the activations, not the weights.
 *
 * T tokens of a micro-batch, S supervised ones; other letters as in kernels/ops.h. All buffers stand in the caller's size table (net_reserve) before anything runs. */
#ifndef PAWL_MODEL_NET_H
#define PAWL_MODEL_NET_H

#include "kernels/base/arena.h"
#include "kernels/ops.h"
#include "optim/gradtree.h"
#include "train/data/batch.h"
#include "train/model/lora.h"
#include "train/model/model.h"

#include <stdbool.h>
#include <stdint.h>

enum net_mode {
    NET_INFER,              /* one layer's activations at a time */
    NET_TRAIN,              /* every layer's are kept for backward */
    NET_TRAIN_CHECKPOINTED, /* only what enters a layer is kept; the layer is computed again in backward (Chen et al. 2016) */
};

/* What backward needs of a layer. In NET_INFER and NET_TRAIN_CHECKPOINTED all layers share these buffers, but for x in the latter. */
struct layer_acts {
    act *x;              /* (T, C) the residual stream that enters */
    act *mid;            /* (T, C) the residual stream behind attention */
    act *q, *k, *v, *o;  /* (T, H D), (T, G D) twice, (T, H D): behind RoPE, and attention's output */
    act *q_raw, *k_raw;  /* before the norm per head, only with qk_norm */
    act *gate, *up;      /* (T, F) */
    act *h[MODULES];     /* (T, r) */
    float *attn_rstd, *ffn_rstd, *q_rstd, *k_rstd; /* (T), (T), (T, H), (T, G) */
    float *lse;          /* (T, H) */
};

/* Keys and values of n sequences of at most cap tokens, one cache a layer: (n, cap, G, D). */
struct kv_cache {
    int n, cap;
    act **k, **v; /* [layers] */
};

struct net {
    struct dev *dev;
    const struct model *model;
    const struct lora *lora; /* r may be 0 */
    const act *operand;      /* (lora->n) theta rounded to the operand type, on the device */
    enum net_mode mode;
    struct dev_shapes shapes; /* the largest that will be asked for */
    int max_S, max_rows, max_examples;

    struct layer_acts *layers;
    act *norm, *sum, *ffn;               /* (T, C), (T, C), (T, F): live within a layer */
    act *dx, *dnorm, *dq, *dk, *dv, *dout; /* training only */
    act *u[MODULES];                     /* (T, r) */
    float *grad;                         /* one LoRA pair's gradients of one row */
    float *final_rstd;                   /* (T) */
    float *loss;                         /* (S) */
    int32_t *argmax;                     /* (S) */
    bf16 *embedded;                      /* (T, C) on the host, of an embedding that stayed there; else NULL */
    int32_t *ids, *pos, *row_start, *example_start, *index, *target, *slot; /* the micro-batch on the device */
    void *scratch;                       /* what the device's ops use while this net runs */
    size_t scratch_bytes;
    float *cos, *sin;                    /* (positions, D/2) */
    int positions;
};

struct net_step {
    uint64_t seed; /* with step these decide the dropout masks */
    int64_t step;
    bool (*give_up)(void *ctx); /* asked before each layer, forward and backward; NULL: nobody is asked */
    void *ctx;
    void (*layer_done)(void *ctx, int layer); /* after the backward pass of each layer: its gradients are in the tree; NULL: nobody is told */
    bool drops;    /* who gives up drops the whole step, so the tree need not stay as it was */
};

/* Sets *n up and adds its buffers to the size table. limits: of any micro-batch that will be given; positions: longest example + 1.
 * dev, model, lora and operand (set before the first call) must outlive it. */
void net_reserve(struct net *n, struct arena *a, struct dev *dev, const struct model *model, const struct lora *lora, enum net_mode mode, struct rows_limits limits,
                 int positions);
/* After the arena was allocated: fills tables, lays out what layers share. */
void net_init(struct net *n);
void net_free(struct net *n);

/* Loss and gradients of one micro-batch: the loss of each supervised token goes to loss (S, host), the gradient of scale * their sum into the tree, row by row.
 * False where step.give_up said so: then the tree is as if the micro-batch had not begun. Where its nodes could not be kept (gradtree_can_forget) the backward pass does not ask,
 * unless step.drops says that nobody needs them. */
bool net_train(struct net *n, const struct micro *m, struct net_step step, float scale, struct gradtree *tree, float *loss);
/* Losses, and where argmax is not NULL the most likely token at each supervised place (S each, host), without dropout. */
void net_eval(struct net *n, const struct micro *m, float *loss, int32_t *argmax);

/* --- generation */

/* Adds the caches to the size table; n->mode is NET_INFER. The pointers k and v belong to the cache (kv_free). */
void kv_reserve(struct kv_cache *kv, struct arena *a, const struct net *n, int sequences, int cap);
void kv_free(struct kv_cache *kv);
/* Runs whole prompts (each example of the micro-batch is one), keeps their keys and values as sequences sequence[example], and writes the logits behind the last token of
 * each: logits (examples, V) fp32, on the device. */
void net_prefill(struct net *n, struct kv_cache *kv, const struct micro *m, const int32_t *sequence, float *logits);
/* One more token for each of count sequences: ids[i] becomes token pos[i] of sequence[i]; logits (count, V) on the device. */
void net_decode(struct net *n, struct kv_cache *kv, const int32_t *ids, const int32_t *pos, const int32_t *sequence, int count, float *logits);

#endif
