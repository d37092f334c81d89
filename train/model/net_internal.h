/* What the passes of a net share. Private to train/model. */
#ifndef PAWL_MODEL_NET_INTERNAL_H
#define PAWL_MODEL_NET_INTERNAL_H

#include "train/model/net.h"

/* One pass over one micro-batch. */
struct pass {
    struct net *net;
    struct layout lay;             /* on the device */
    bool train;                    /* dropout on, lse kept */
    struct net_step step;
    struct kv_cache *kv;           /* keys and values are kept here, at net->slot; NULL: not kept */
    const int32_t *decode_sequence, *decode_len; /* (T) on the device: each token attends to its sequence's cache; NULL: to its example */
};

struct layout net_upload(struct net *n, const struct micro *m);
const act *net_operand(const struct net *n, int64_t offset);
struct dropout net_dropout(const struct pass *p, int site);

/* Whether step.give_up says that this pass is not wanted any more. */
bool net_given_up(const struct pass *p);
/* ids -> norm, the normalised stream that enters the head. False where it was given up. */
bool net_forward(const struct pass *p);
/* norm of x_l -> mid and sum of layer l. */
void net_layer(const struct pass *p, int l);
/* norm of x_l -> q, k, v of layer l. */
void net_attention_inputs(const struct pass *p, int l);

#endif
