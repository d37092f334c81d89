/* Forward and backward of one micro-batch. Written so that it reads from the loss to the embedding; d-names are gradients of what they name.
 *
 * Kept from forward: what enters the layer, q k v o, gate and up, the h of each LoRA pair. Computed again: both norms and silu(gate) up; with
 * checkpointing all but what enters the layer, by the same calls in the same order, so that the bits are the same. */
#include "train/model/net_internal.h"

#include <assert.h>

static const struct lora_pair *pair_of(const struct net *n, int l, enum module m)
{
    const struct lora_pair *pair = n->lora->r ? &n->lora->pair[l * MODULES + (int)m] : NULL;

    return pair && pair->a >= 0 ? pair : NULL;
}

/* The term dy W + u A of a module's input gradient; makes u = s dy B on the way. */
static struct linear_term term(const struct pass *p, int l, enum module m, const act *dy)
{
    const struct net *n = p->net;
    const struct lora_pair *pair = pair_of(n, l, m);
    struct linear_term t = {.dy = dy, .W = &n->model->layers[l].lin[m]};

    if (!pair) return t;
    n->dev->ops->lora_up_backward(n->dev, n->u[m], dy, net_operand(n, pair->b), n->lora->scale, p->lay.T, pair->out, n->lora->r);
    t.u = n->u[m], t.A = net_operand(n, pair->a), t.r = n->lora->r;
    t.drop = net_dropout(p, l * MODULES + (int)m);
    return t;
}

/* dA and dB of a module whose input was x, row by row into the tree. u has been made by term(). */
static void lora_gradients(const struct pass *p, struct gradtree *tree, int l, enum module m, const act *dy, const act *x)
{
    const struct net *n = p->net;
    const struct lora_pair *pair = pair_of(n, l, m);
    int64_t na, nb;

    if (!pair) return;
    na = (int64_t)n->lora->r * pair->in, nb = (int64_t)pair->out * n->lora->r;
    for (int row = 0; row < p->lay.rows; row++) {
        n->dev->ops->lora_grad(n->dev, n->grad, n->grad + na, dy, n->layers[l].h[m], n->u[m], x, net_dropout(p, l * MODULES + (int)m), &p->lay, row, pair->out, pair->in,
                               n->lora->r);
        gradtree_push(tree, n->dev, p->lay.first_row + row, pair->a, na + nb, n->grad);
    }
}

/* dx: in, the gradient of x_{l+1}; out, of mid. */
static void backward_ffn(const struct pass *p, struct gradtree *tree, int l)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = &n->layers[l];
    int T = p->lay.T;
    struct linear_term down = term(p, l, MODULE_DOWN, n->dx), in[2];

    ops->linear_backward(n->dev, n->ffn, &down, 1, &p->lay);
    ops->swiglu_backward(n->dev, a->gate, a->up, n->ffn, n->ffn, a->gate, a->up, (int64_t)T * s->F); /* gate and up now hold their gradients */
    lora_gradients(p, tree, l, MODULE_DOWN, n->dx, n->ffn);
    ops->rmsnorm(n->dev, n->norm, NULL, a->mid, n->model->layers[l].ffn_norm, T, s->C, s->norm_eps);
    in[0] = term(p, l, MODULE_GATE, a->gate);
    in[1] = term(p, l, MODULE_UP, a->up);
    lora_gradients(p, tree, l, MODULE_GATE, a->gate, n->norm);
    lora_gradients(p, tree, l, MODULE_UP, a->up, n->norm);
    ops->linear_backward(n->dev, n->dnorm, in, 2, &p->lay);
    ops->rmsnorm_backward(n->dev, n->dx, n->dx, n->dnorm, a->mid, n->model->layers[l].ffn_norm, a->ffn_rstd, T, s->C);
}

/* Back through RoPE and the norm per head: dq and dk become gradients of what the projections gave. */
static void backward_heads(const struct pass *p, int l)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct layer *layer = &n->model->layers[l];
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = &n->layers[l];
    int T = p->lay.T;

    ops->rope(n->dev, n->dq, n->cos, n->sin, p->lay.pos, T, s->H, s->D, true);
    ops->rope(n->dev, n->dk, n->cos, n->sin, p->lay.pos, T, s->G, s->D, true);
    if (!layer->q_norm) return;
    ops->rmsnorm_backward(n->dev, n->dq, NULL, n->dq, a->q_raw, layer->q_norm, a->q_rstd, (int64_t)T * s->H, s->D);
    ops->rmsnorm_backward(n->dev, n->dk, NULL, n->dk, a->k_raw, layer->k_norm, a->k_rstd, (int64_t)T * s->G, s->D);
}

/* dx: in, the gradient of mid; out, of x_l. */
static void backward_attention(const struct pass *p, struct gradtree *tree, int l)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = &n->layers[l];
    int T = p->lay.T;
    struct linear_term out = term(p, l, MODULE_O, n->dx), in[3];

    lora_gradients(p, tree, l, MODULE_O, n->dx, a->o);
    ops->linear_backward(n->dev, n->dout, &out, 1, &p->lay);
    ops->attention_backward(n->dev, n->dq, n->dk, n->dv, n->dout, a->q, a->k, a->v, a->o, a->lse, &p->lay, s->H, s->G, s->D);
    backward_heads(p, l);
    ops->rmsnorm(n->dev, n->norm, NULL, a->x, n->model->layers[l].attn_norm, T, s->C, s->norm_eps);
    in[0] = term(p, l, MODULE_Q, n->dq);
    in[1] = term(p, l, MODULE_K, n->dk);
    in[2] = term(p, l, MODULE_V, n->dv);
    lora_gradients(p, tree, l, MODULE_Q, n->dq, n->norm);
    lora_gradients(p, tree, l, MODULE_K, n->dk, n->norm);
    lora_gradients(p, tree, l, MODULE_V, n->dv, n->norm);
    if (l == 0) return; /* the embedding is frozen */
    ops->linear_backward(n->dev, n->dnorm, in, 3, &p->lay);
    ops->rmsnorm_backward(n->dev, n->dx, n->dx, n->dnorm, a->x, n->model->layers[l].attn_norm, a->attn_rstd, T, s->C);
}

/* Losses, and dx = the gradient of x_L. After net_forward sum holds x_L and norm its norm. */
static void head_backward(const struct pass *p, const struct micro *m, float scale)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct ops *ops = n->dev->ops;

    ops->gather(n->dev, n->dnorm, n->norm, n->index, m->S, s->C);
    ops->head_loss(n->dev, n->loss, n->dnorm, NULL, n->dnorm, &n->model->head, n->target, m->S, scale);
    ops->zero(n->dev, n->dx, (size_t)p->lay.T * (size_t)s->C * (size_t)dtype_info[n->dev->act].bytes);
    ops->scatter(n->dev, n->dx, n->dnorm, n->index, m->S, s->C);
    ops->rmsnorm_backward(n->dev, n->dx, NULL, n->dx, n->sum, n->model->final_norm, n->final_rstd, p->lay.T, s->C);
}

bool net_train(struct net *n, const struct micro *m, struct net_step step, float scale, struct gradtree *tree, float *loss)
{
    struct pass p = {.net = n, .lay = net_upload(n, m), .train = true, .step = step};
    const struct model_spec *s = &n->model->spec;
    const struct ops *ops = n->dev->ops;

    assert(n->mode != NET_INFER);
    if (!net_forward(&p)) return false;
    if (!step.drops && !gradtree_can_forget(p.lay.first_row, p.lay.rows)) p.step.give_up = NULL;
    head_backward(&p, m, scale);
    ops->download(n->dev, loss, n->loss, (size_t)m->S * sizeof *loss);
    for (int l = s->layers - 1; l >= 0; l--) {
        if (net_given_up(&p)) return false;
        n->dev->layer = l;
        if (n->mode == NET_TRAIN_CHECKPOINTED) {
            struct layer_acts *a = &n->layers[l];

            ops->rmsnorm(n->dev, n->norm, a->attn_rstd, a->x, n->model->layers[l].attn_norm, p.lay.T, s->C, s->norm_eps);
            net_layer(&p, l);
        }
        backward_ffn(&p, tree, l);
        backward_attention(&p, tree, l);
        if (step.layer_done) step.layer_done(step.ctx, l);
    }
    n->dev->layer = -1;
    return true;
}
