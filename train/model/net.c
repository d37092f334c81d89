/* The size table of a net, and the forward pass.
 *
 *   layer l:   n = norm(x_l);  q, k, v = n W + LoRA;  (q, k = norm per head);  RoPE;  o = attention;  mid = x_l + o W_o;
 *              n = norm(mid);  gate, up = n W;  x_{l+1} = mid + (silu(gate) up) W_down
 */
#include "train/model/net_internal.h"

#include "kernels/base/mem.h"

#include <stdlib.h>
#include <string.h>

static void reserve_layer(struct net *n, struct arena *a, struct layer_acts *l, size_t e)
{
    const struct model_spec *s = &n->model->spec;
    size_t T = (size_t)n->shapes.T, q = T * (size_t)(s->H * s->D), kv = T * (size_t)(s->G * s->D);

    arena_reserve(a, "activations", T * (size_t)s->C * e, &l->mid);
    arena_reserve(a, "activations", q * e, &l->q);
    arena_reserve(a, "activations", kv * e, &l->k);
    arena_reserve(a, "activations", kv * e, &l->v);
    arena_reserve(a, "activations", q * e, &l->o);
    if (s->family->qk_norm) {
        arena_reserve(a, "activations", q * e, &l->q_raw);
        arena_reserve(a, "activations", kv * e, &l->k_raw);
        arena_reserve(a, "activations", T * (size_t)s->H * 4, &l->q_rstd);
        arena_reserve(a, "activations", T * (size_t)s->G * 4, &l->k_rstd);
    }
    arena_reserve(a, "activations", T * (size_t)s->F * e, &l->gate);
    arena_reserve(a, "activations", T * (size_t)s->F * e, &l->up);
    for (int m = 0; m < MODULES && n->lora->r; m++) arena_reserve(a, "activations", T * (size_t)n->lora->r * e, &l->h[m]);
    arena_reserve(a, "activations", T * 4, &l->attn_rstd);
    arena_reserve(a, "activations", T * 4, &l->ffn_rstd);
    arena_reserve(a, "activations", T * (size_t)s->H * 4, &l->lse);
}

static void reserve_backward(struct net *n, struct arena *a, size_t e)
{
    const struct model_spec *s = &n->model->spec;
    size_t T = (size_t)n->shapes.T, q = T * (size_t)(s->H * s->D), kv = T * (size_t)(s->G * s->D), largest = 0;

    arena_reserve(a, "workspace", T * (size_t)s->C * e, &n->dx);
    arena_reserve(a, "workspace", T * (size_t)s->C * e, &n->dnorm);
    arena_reserve(a, "workspace", q * e, &n->dq);
    arena_reserve(a, "workspace", kv * e, &n->dk);
    arena_reserve(a, "workspace", kv * e, &n->dv);
    arena_reserve(a, "workspace", q * e, &n->dout);
    for (int m = 0; m < MODULES; m++) {
        int out, in;
        size_t size;

        arena_reserve(a, "workspace", T * (size_t)n->lora->r * e, &n->u[m]);
        module_shape(s, m, &out, &in);
        size = (size_t)(out + in) * (size_t)n->lora->r;
        largest = size > largest ? size : largest;
    }
    arena_reserve(a, "workspace", largest * sizeof(float), &n->grad);
}

void net_reserve(struct net *n, struct arena *a, struct dev *dev, const struct model *model, const struct lora *lora, enum net_mode mode, struct rows_limits limits,
                 int positions)
{
    const struct model_spec *s = &model->spec;
    size_t e = (size_t)dtype_info[dev->act].bytes, T = (size_t)limits.tokens, S = (size_t)limits.supervised;
    int kept = mode == NET_TRAIN ? s->layers : 1;

    *n = (struct net){.dev = dev, .model = model, .lora = lora, .mode = mode, .positions = positions, .max_S = (int)limits.supervised, .max_rows = limits.rows,
                      .max_examples = (int)limits.examples};
    n->shapes = (struct dev_shapes){.T = (int)limits.tokens, .C = s->C, .F = s->F, .H = s->H, .G = s->G, .D = s->D, .V = s->V, .r = lora->r};
    n->layers = xcalloc((size_t)s->layers, sizeof *n->layers);
    for (int l = 0; l < s->layers; l++) {
        if (l == 0 || mode != NET_INFER) arena_reserve(a, mode == NET_TRAIN_CHECKPOINTED ? "checkpoints" : "activations", T * (size_t)s->C * e, &n->layers[l].x);
        if (l < kept) reserve_layer(n, a, &n->layers[l], e);
    }
    arena_reserve(a, "workspace", T * (size_t)s->C * e, &n->norm);
    arena_reserve(a, "workspace", T * (size_t)s->C * e, &n->sum);
    arena_reserve(a, "workspace", T * (size_t)s->F * e, &n->ffn);
    if (mode != NET_INFER) reserve_backward(n, a, e);
    arena_reserve(a, "workspace", T * 4, &n->final_rstd);
    arena_reserve(a, "workspace", S * 4, &n->loss);
    arena_reserve(a, "workspace", S * 4, &n->argmax);
    arena_reserve(a, "batch", T * 4, &n->ids);
    arena_reserve(a, "batch", T * 4, &n->pos);
    arena_reserve(a, "batch", T * 4, &n->slot);
    arena_reserve(a, "batch", (size_t)(limits.rows + 1) * 4, &n->row_start);
    arena_reserve(a, "batch", (size_t)(limits.examples + 1) * 4, &n->example_start);
    arena_reserve(a, "batch", S * 4, &n->index);
    arena_reserve(a, "batch", S * 4, &n->target);
    arena_reserve(a, "tables", (size_t)positions * (size_t)(s->D / 2) * 4, &n->cos);
    arena_reserve(a, "tables", (size_t)positions * (size_t)(s->D / 2) * 4, &n->sin);
    n->scratch_bytes = dev->ops->scratch_bytes(dev, &n->shapes);
    arena_reserve(a, "scratch", n->scratch_bytes, &n->scratch);
}

void net_init(struct net *n)
{
    const struct model_spec *s = &n->model->spec;
    size_t size = (size_t)n->positions * (size_t)(s->D / 2);
    float *cos = xreallocarray(NULL, size, sizeof *cos), *sin = xreallocarray(NULL, size, sizeof *sin);

    for (int l = 1; l < s->layers && n->mode != NET_TRAIN; l++) { /* all layers use the first one's buffers */
        act *x = n->mode == NET_INFER ? n->layers[0].x : n->layers[l].x;

        n->layers[l] = n->layers[0];
        n->layers[l].x = x;
    }
    spec_rope_tables(s, n->positions, cos, sin);
    n->dev->ops->upload(n->dev, n->cos, cos, size * sizeof *cos);
    n->dev->ops->upload(n->dev, n->sin, sin, size * sizeof *sin);
    free(cos);
    free(sin);
    if (n->model->embed_on_host) n->embedded = xreallocarray(NULL, (size_t)n->shapes.T * (size_t)s->C, sizeof *n->embedded);
}

void net_free(struct net *n)
{
    free(n->layers);
    free(n->embedded);
    *n = (struct net){0};
}

const act *net_operand(const struct net *n, int64_t offset)
{
    return (const char *)n->operand + (size_t)offset * (size_t)dtype_info[n->dev->act].bytes;
}

/* The tokens on the device: their numbers, or the very rows of an embedding that is not there, rounded as embed does. */
static void upload_tokens(struct net *n, const int32_t *ids, int T)
{
    const struct weight *W = &n->model->embed;
    int C = n->model->spec.C;

    n->dev->ops->upload(n->dev, n->ids, ids, (size_t)T * sizeof *ids);
    if (!n->embedded) return;
#pragma omp parallel for schedule(static) num_threads(n->dev->threads)
    for (int t = 0; t < T; t++) {
        bf16 *to = n->embedded + (int64_t)t * C;
        float part[256];

        for (int k = 0; k < C; k += 256) {
            int end = k + 256 < C ? k + 256 : C;

            weight_row(W, ids[t], k, end, part);
            for (int i = k; i < end; i++) to[i] = bf16_from_f32(part[i - k]);
        }
    }
    n->dev->ops->upload(n->dev, n->layers[0].x, n->embedded, (size_t)T * (size_t)C * sizeof *n->embedded);
}

/* The micro-batch on the device; returns the layout that ops are to be given. */
struct layout net_upload(struct net *n, const struct micro *m)
{
    const struct ops *ops = n->dev->ops;
    struct layout lay = m->layout;

    upload_tokens(n, m->ids, lay.T);
    ops->upload(n->dev, n->pos, lay.pos, (size_t)lay.T * 4);
    ops->upload(n->dev, n->row_start, lay.row_start, (size_t)(lay.rows + 1) * 4);
    ops->upload(n->dev, n->example_start, lay.example_start, (size_t)(lay.examples + 1) * 4);
    ops->upload(n->dev, n->index, m->index, (size_t)m->S * 4);
    ops->upload(n->dev, n->target, m->target, (size_t)m->S * 4);
    lay.host_row_start = lay.row_start;
    lay.pos = n->pos, lay.row_start = n->row_start, lay.example_start = n->example_start;
    return lay;
}

struct dropout net_dropout(const struct pass *p, int site)
{
    if (!p->train || p->net->lora->dropout == 0) return (struct dropout){0};
    return (struct dropout){.p = (float)p->net->lora->dropout, .key = rng_derive(rng_key(p->step.seed), (uint32_t)p->step.step, (uint32_t)site, 0)};
}

/* y = x W^T + bias + s drop(x) A^T B^T; h is kept for backward. */
static void linear(const struct pass *p, int l, enum module m, act *y, const act *x)
{
    const struct net *n = p->net;
    const struct layer *layer = &n->model->layers[l];
    const struct lora_pair *pair = n->lora->r ? &n->lora->pair[l * MODULES + (int)m] : NULL;
    const struct ops *ops = n->dev->ops;

    if (pair && pair->a >= 0) {
        act *h = n->layers[l].h[m];

        ops->lora_down(n->dev, h, x, net_operand(n, pair->a), n->lora->scale, net_dropout(p, l * MODULES + (int)m), &p->lay, pair->in, n->lora->r);
        ops->linear(n->dev, y, x, &layer->lin[m], layer->bias[m], h, net_operand(n, pair->b), p->lay.T, n->lora->r);
    } else {
        ops->linear(n->dev, y, x, &layer->lin[m], layer->bias[m], NULL, NULL, p->lay.T, 0);
    }
}

/* Keeps k and v of this pass in the caches, and attends: within the pass (prefill, training), or to a cache (decoding). */
static void attend(const struct pass *p, int l)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = &n->layers[l];

    if (p->kv) {
        ops->scatter(n->dev, p->kv->k[l], a->k, n->slot, p->lay.T, s->G * s->D);
        ops->scatter(n->dev, p->kv->v[l], a->v, n->slot, p->lay.T, s->G * s->D);
    }
    if (p->decode_len)
        ops->attention_decode(n->dev, a->o, a->q, p->kv->k[l], p->kv->v[l], p->decode_sequence, p->decode_len, p->lay.T, p->kv->cap, s->H, s->G, s->D);
    else
        ops->attention(n->dev, a->o, p->train ? a->lse : NULL, a->q, a->k, a->v, &p->lay, s->H, s->G, s->D);
}

void net_attention_inputs(const struct pass *p, int l)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct layer *layer = &n->model->layers[l];
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = &n->layers[l];
    int T = p->lay.T;

    linear(p, l, MODULE_Q, layer->q_norm ? a->q_raw : a->q, n->norm);
    linear(p, l, MODULE_K, layer->k_norm ? a->k_raw : a->k, n->norm);
    linear(p, l, MODULE_V, a->v, n->norm);
    if (layer->q_norm) {
        ops->rmsnorm(n->dev, a->q, a->q_rstd, a->q_raw, layer->q_norm, (int64_t)T * s->H, s->D, s->norm_eps);
        ops->rmsnorm(n->dev, a->k, a->k_rstd, a->k_raw, layer->k_norm, (int64_t)T * s->G, s->D, s->norm_eps);
    }
    ops->rope(n->dev, a->q, n->cos, n->sin, p->lay.pos, T, s->H, s->D, false);
    ops->rope(n->dev, a->k, n->cos, n->sin, p->lay.pos, T, s->G, s->D, false);
}

/* From norm (of x_l, already computed) to what the layer adds to mid, in sum. */
void net_layer(const struct pass *p, int l)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct layer *layer = &n->model->layers[l];
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = &n->layers[l];
    int T = p->lay.T;

    net_attention_inputs(p, l);
    attend(p, l);
    linear(p, l, MODULE_O, n->sum, a->o);
    ops->add_rmsnorm(n->dev, n->norm, a->ffn_rstd, a->mid, a->x, n->sum, layer->ffn_norm, T, s->C, s->norm_eps);
    linear(p, l, MODULE_GATE, a->gate, n->norm);
    linear(p, l, MODULE_UP, a->up, n->norm);
    ops->swiglu(n->dev, n->ffn, a->gate, a->up, (int64_t)T * s->F);
    linear(p, l, MODULE_DOWN, n->sum, n->ffn);
}

bool net_given_up(const struct pass *p)
{
    if (!p->step.give_up || !p->step.give_up(p->step.ctx)) return false;
    p->net->dev->layer = -1;
    return true;
}

bool net_forward(const struct pass *p)
{
    const struct net *n = p->net;
    const struct model_spec *s = &n->model->spec;
    const struct ops *ops = n->dev->ops;
    struct layer_acts *a = n->layers;

    n->dev->scratch = n->scratch, n->dev->scratch_bytes = n->scratch_bytes; /* another net may have used the device in between */
    if (!n->embedded) ops->embed(n->dev, a[0].x, &n->model->embed, n->ids, p->lay.T);
    ops->rmsnorm(n->dev, n->norm, a[0].attn_rstd, a[0].x, n->model->layers[0].attn_norm, p->lay.T, s->C, s->norm_eps);
    for (int l = 0; l < s->layers; l++) {
        if (net_given_up(p)) return false;
        n->dev->layer = l;
        net_layer(p, l);
        n->dev->layer = l + 1 < s->layers ? l + 1 : -1;
        if (l + 1 < s->layers)
            ops->add_rmsnorm(n->dev, n->norm, a[l + 1].attn_rstd, a[l + 1].x, a[l].mid, n->sum, n->model->layers[l + 1].attn_norm, p->lay.T, s->C, s->norm_eps);
        else
            ops->add_rmsnorm(n->dev, n->norm, n->final_rstd, n->sum, a[l].mid, n->sum, n->model->final_norm, p->lay.T, s->C, s->norm_eps);
    }
    return true;
}

void net_eval(struct net *n, const struct micro *m, float *loss, int32_t *argmax)
{
    struct pass p = {.net = n, .lay = net_upload(n, m)};
    const struct ops *ops = n->dev->ops;
    int C = n->model->spec.C;

    net_forward(&p);
    ops->gather(n->dev, n->sum, n->norm, n->index, m->S, C);
    ops->head_loss(n->dev, n->loss, NULL, argmax ? n->argmax : NULL, n->sum, &n->model->head, n->target, m->S, 0);
    ops->download(n->dev, loss, n->loss, (size_t)m->S * sizeof *loss);
    if (argmax) ops->download(n->dev, argmax, n->argmax, (size_t)m->S * sizeof *argmax);
}

/* --- generation */

void kv_reserve(struct kv_cache *kv, struct arena *a, const struct net *n, int sequences, int cap)
{
    const struct model_spec *s = &n->model->spec;
    size_t bytes = (size_t)sequences * (size_t)cap * (size_t)(s->G * s->D) * (size_t)dtype_info[n->dev->act].bytes;

    *kv = (struct kv_cache){.n = sequences, .cap = cap};
    kv->k = xcalloc((size_t)s->layers, sizeof *kv->k);
    kv->v = xcalloc((size_t)s->layers, sizeof *kv->v);
    for (int l = 0; l < s->layers; l++) {
        arena_reserve(a, "key/value cache", bytes, &kv->k[l]);
        arena_reserve(a, "key/value cache", bytes, &kv->v[l]);
    }
}

void kv_free(struct kv_cache *kv)
{
    free(kv->k);
    free(kv->v);
    *kv = (struct kv_cache){0};
}

static void upload_ints(struct net *n, int32_t *to, const int32_t *from, int count)
{
    n->dev->ops->upload(n->dev, to, from, (size_t)count * sizeof *from);
}

static void head(struct net *n, const act *x, int count, float *logits)
{
    n->dev->ops->logits(n->dev, logits, x, &n->model->head, count);
}

void net_prefill(struct net *n, struct kv_cache *kv, const struct micro *m, const int32_t *sequence, float *logits)
{
    struct pass p = {.net = n, .lay = net_upload(n, m), .kv = kv};
    const struct layout *lay = &m->layout;
    int32_t *slot = xreallocarray(NULL, (size_t)lay->T, sizeof *slot), *last = xreallocarray(NULL, (size_t)lay->examples, sizeof *last);

    for (int e = 0; e < lay->examples; e++) {
        for (int t = lay->example_start[e]; t < lay->example_start[e + 1]; t++) slot[t] = sequence[e] * kv->cap + lay->pos[t];
        last[e] = lay->example_start[e + 1] - 1;
    }
    upload_ints(n, n->slot, slot, lay->T);
    net_forward(&p);
    upload_ints(n, n->slot, last, lay->examples);
    n->dev->ops->gather(n->dev, n->sum, n->norm, n->slot, lay->examples, n->model->spec.C);
    head(n, n->sum, lay->examples, logits);
    free(slot);
    free(last);
}

void net_decode(struct net *n, struct kv_cache *kv, const int32_t *ids, const int32_t *pos, const int32_t *sequence, int count, float *logits)
{
    int32_t *slot = xreallocarray(NULL, (size_t)count, sizeof *slot), *len = xreallocarray(NULL, (size_t)count, sizeof *len);
    struct pass p = {.net = n, .kv = kv};

    for (int i = 0; i < count; i++) {
        slot[i] = sequence[i] * kv->cap + pos[i];
        len[i] = pos[i] + 1;
    }
    upload_tokens(n, ids, count);
    upload_ints(n, n->pos, pos, count);
    upload_ints(n, n->slot, slot, count);
    upload_ints(n, n->index, sequence, count);
    upload_ints(n, n->target, len, count);
    p.decode_sequence = n->index, p.decode_len = n->target;
    p.lay = (struct layout){.T = count, .pos = n->pos}; /* without rows: what needs them, dropout, is off */
    net_forward(&p);
    head(n, n->norm, count, logits);
    free(slot);
    free(len);
}
