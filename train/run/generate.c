#include "train/run/generate.h"

#include "kernels/base/mem.h"
#include "train/run/stop.h"

#include <stdlib.h>
#include <string.h>

/* End-of-turn tokens by the names that families give them; a model stops at any of those that its vocabulary has as a special token. */
static const char *const end_of_turn[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>"};

/* One sequence in flight. */
struct slot {
    bool busy;
    size_t prompt;
    int32_t *ids; /* prompt and answer so far */
    int n, n_prompt;
    struct tokenizer_stream stream;
    struct buf text;
    size_t shown; /* bytes of text that piece has been given */
};

struct generator {
    const struct tokenizer *tokenizer;
    const struct generate_options *opt;
    const struct prompt *prompts;
    size_t n, next;
    int64_t first;
    struct slot *slots;
    int nslot, cap;
    struct net net;
    struct kv_cache kv;
    struct micro micro;
    struct arena arena;
    float *logits; /* on the device */
    bool *stops; /* (V) */
    void (*done)(void *ctx, size_t i, const struct answer *a);
    void (*piece)(void *ctx, size_t i, const char *text, size_t len);
    void *ctx;
};

static void find_stops(struct generator *g, int64_t V)
{
    int32_t eos = tokenizer_special(g->tokenizer, TOKENIZER_EOS);

    g->stops = xcalloc((size_t)V, sizeof *g->stops);
    if (eos >= 0 && eos < V) g->stops[eos] = true;
    for (size_t i = 0; i < sizeof end_of_turn / sizeof *end_of_turn; i++) {
        int32_t id = tokenizer_id(g->tokenizer, end_of_turn[i], strlen(end_of_turn[i]));

        if (id >= 0 && id < V && tokenizer_is_special(g->tokenizer, id)) g->stops[id] = true;
    }
}

/* Offset of the first stop text in the answer, or its length; *held is how many bytes at its end could be the beginning of one. */
static size_t find_stop_text(const struct generator *g, const struct slot *s, size_t *held)
{
    size_t at = s->text.len;

    *held = 0;
    for (size_t i = 0; i < g->opt->nstop; i++) {
        const char *stop = g->opt->stop[i], *hit = s->text.len ? memmem(s->text.data, s->text.len, stop, strlen(stop)) : NULL;

        if (hit && (size_t)(hit - s->text.data) < at) at = (size_t)(hit - s->text.data);
        for (size_t k = strlen(stop) - 1; k > *held; k--)
            if (k <= s->text.len && !memcmp(s->text.data + s->text.len - k, stop, k)) *held = k;
    }
    return at;
}

static void show(struct generator *g, struct slot *s, size_t until)
{
    if (g->piece && until > s->shown) g->piece(g->ctx, s->prompt, s->text.data + s->shown, until - s->shown);
    s->shown = until > s->shown ? until : s->shown;
}

static void finish(struct generator *g, struct slot *s, size_t len, const char *why)
{
    struct answer a = {s->text.data ? s->text.data : "", len, s->n - s->n_prompt, why};

    show(g, s, len);
    g->done(g->ctx, s->prompt, &a);
    s->busy = false;
    s->text.len = 0;
    s->shown = 0;
}

/* The next token of a sequence, from its logits; the slot is free again when that ends it. */
static void extend(struct generator *g, struct slot *s, float *logits)
{
    int32_t id = sample_token(logits, g->net.model->spec.V, &g->opt->sample, s->ids, s->n, g->first + (int64_t)s->prompt, s->n);
    size_t at, held;

    if (g->stops[id]) {
        tokenizer_stream_end(g->tokenizer, &s->stream, true, &s->text);
        finish(g, s, find_stop_text(g, s, &held), "stop");
        return;
    }
    s->ids[s->n++] = id;
    tokenizer_stream_push(g->tokenizer, &s->stream, id, true, &s->text);
    at = find_stop_text(g, s, &held);
    if (at < s->text.len) {
        struct buf rest = {0};

        tokenizer_stream_end(g->tokenizer, &s->stream, true, &rest);
        buf_free(&rest);
        finish(g, s, at, "stop");
    } else if (s->n - s->n_prompt >= g->opt->max_tokens) {
        tokenizer_stream_end(g->tokenizer, &s->stream, true, &s->text);
        finish(g, s, find_stop_text(g, s, &held), "length");
    } else {
        show(g, s, s->text.len - held);
    }
}

/* The next token of count sequences, from logits in this order. */
static enum pawl_status extend_all(struct generator *g, const int32_t *sequence, int count, struct err *err)
{
    struct dev *dev = g->net.dev;
    int64_t V = g->net.model->spec.V;
    float *logits = dev_fetch(dev, &g->arena, g->logits, (size_t)count * (size_t)V * sizeof *logits);
    enum pawl_status st = dev_check(dev, err);

    for (int i = 0; i < count && st == PAWL_OK; i++) extend(g, &g->slots[sequence[i]], logits + (int64_t)i * V);
    return st;
}

/* Gives free slots their prompts, as many as one pass takes, and runs those. */
static enum pawl_status admit(struct generator *g, struct err *err)
{
    struct layout *lay = &g->micro.layout;
    int32_t *ids = (int32_t *)g->micro.ids, *pos = (int32_t *)lay->pos, *sequence = g->micro.index; /* targets are not used: index is free */
    int T = 0, k = 0;

    for (int i = 0; i < g->nslot && g->next < g->n; i++) {
        const struct prompt *p = &g->prompts[g->next];
        struct slot *s = &g->slots[i];

        if (s->busy) continue;
        if (T + p->n > g->net.shapes.T) break;
        *s = (struct slot){.busy = true, .prompt = g->next++, .ids = s->ids, .n = p->n, .n_prompt = p->n, .text = s->text};
        memcpy(s->ids, p->ids, (size_t)p->n * sizeof *p->ids);
        memcpy(ids + T, p->ids, (size_t)p->n * sizeof *p->ids);
        for (int t = 0; t < p->n; t++) pos[T + t] = t;
        sequence[k] = i;
        T += p->n;
        g->micro.row_start[++k] = T;
        g->micro.example_start[k] = T;
    }
    if (!k) return PAWL_OK;
    lay->T = T, lay->rows = lay->examples = k;
    g->micro.S = 0;
    net_prefill(&g->net, &g->kv, &g->micro, sequence, g->logits);
    return extend_all(g, sequence, k, err);
}

static enum pawl_status decode(struct generator *g, struct err *err)
{
    int32_t *ids = (int32_t *)g->micro.ids, *pos = (int32_t *)g->micro.layout.pos, *sequence = g->micro.index;
    int k = 0;

    for (int i = 0; i < g->nslot; i++) {
        const struct slot *s = &g->slots[i];

        if (!s->busy) continue;
        ids[k] = s->ids[s->n - 1], pos[k] = s->n - 1, sequence[k++] = i;
    }
    if (!k) return PAWL_OK;
    net_decode(&g->net, &g->kv, ids, pos, sequence, k, g->logits);
    return extend_all(g, sequence, k, err);
}

static bool working(const struct generator *g)
{
    for (int i = 0; i < g->nslot; i++)
        if (g->slots[i].busy) return true;
    return g->next < g->n;
}

enum pawl_status generate(struct dev *dev, const struct model *model, const struct lora *lora, const act *operand, const struct tokenizer *tokenizer, const struct prompt *prompts,
                          size_t n, int64_t first, const struct generate_options *opt, void (*done)(void *ctx, size_t i, const struct answer *a),
                          void (*piece)(void *ctx, size_t i, const char *text, size_t len), void *ctx, struct err *err)
{
    struct generator g = {.tokenizer = tokenizer, .opt = opt, .prompts = prompts, .n = n, .first = first, .done = done, .piece = piece, .ctx = ctx};
    struct rows_limits limits;
    int longest = 0, T;
    int32_t *pos;
    enum pawl_status st;

    if (!n) return PAWL_OK;
    for (size_t i = 0; i < n; i++) longest = prompts[i].n > longest ? prompts[i].n : longest;
    g.nslot = n < (size_t)opt->parallel ? (int)n : opt->parallel;
    g.cap = longest + opt->max_tokens;
    T = longest > 512 ? longest : 512; /* several short prompts share a pass */
    limits = (struct rows_limits){.rows = g.nslot, .tokens = T > g.nslot ? T : g.nslot, .supervised = T > g.nslot ? T : g.nslot, .examples = g.nslot};
    net_reserve(&g.net, &g.arena, dev, model, lora, NET_INFER, limits, g.cap + 1);
    kv_reserve(&g.kv, &g.arena, &g.net, g.nslot, g.cap);
    arena_reserve(&g.arena, "logits", (size_t)g.nslot * (size_t)model->spec.V * sizeof *g.logits, &g.logits);
    if ((st = dev_arena_alloc(dev, &g.arena, err)) != PAWL_OK) goto done;
    net_init(&g.net);
    g.net.operand = operand;
    micro_init(&g.micro, limits);
    g.micro.ids = xcalloc((size_t)limits.tokens, sizeof *g.micro.ids);
    g.micro.layout.pos = pos = xcalloc((size_t)limits.tokens, sizeof *pos);
    g.micro.layout.row_start = g.micro.row_start, g.micro.layout.example_start = g.micro.example_start;
    g.micro.row_start[0] = g.micro.example_start[0] = 0;
    find_stops(&g, model->spec.V);
    g.slots = xcalloc((size_t)g.nslot, sizeof *g.slots);
    for (int i = 0; i < g.nslot; i++) g.slots[i].ids = xcalloc((size_t)g.cap + 1, sizeof *g.slots[i].ids);
    while (st == PAWL_OK && working(&g) && !stop_requested())
        if ((st = admit(&g, err)) == PAWL_OK) st = decode(&g, err);
    if (st == PAWL_OK && stop_requested()) st = err_set(err, PAWL_ESTOPPED, "stopped by %s", stop_reason());
    for (int i = 0; i < g.nslot; i++) {
        struct buf rest = {0};

        if (g.slots[i].busy) tokenizer_stream_end(tokenizer, &g.slots[i].stream, true, &rest);
        buf_free(&rest);
        buf_free(&g.slots[i].text);
        free(g.slots[i].ids);
    }
    free(g.slots);
    free((void *)g.micro.ids);
    free(pos);
    micro_free(&g.micro);
done:
    free(g.stops);
    net_free(&g.net);
    kv_free(&g.kv);
    dev_arena_free(dev, &g.arena);
    return st;
}
