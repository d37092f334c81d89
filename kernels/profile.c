#include "kernels/profile.h"

#include "kernels/ops.h"
#include "kernels/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRACE_LIMIT (1 << 20)

enum op {
    OP_UPLOAD, OP_DOWNLOAD, OP_COPY, OP_ZERO, OP_EMBED, OP_RMSNORM, OP_ADD_RMSNORM, OP_RMSNORM_BACKWARD, OP_LORA_DOWN, OP_LINEAR, OP_LORA_UP_BACKWARD, OP_LINEAR_BACKWARD,
    OP_LORA_GRAD, OP_ROPE, OP_ATTENTION, OP_ATTENTION_BACKWARD, OP_ATTENTION_DECODE, OP_SWIGLU, OP_SWIGLU_BACKWARD, OP_GATHER, OP_SCATTER, OP_HEAD_LOSS, OP_LOGITS, OP_ADD,
    OP_SUM_SQUARES, OP_ADAMW, OP_ROUND_OPERAND, OPS
};

static const char *const op_names[OPS] = {
    "upload", "download", "copy", "zero", "embed", "rmsnorm", "add_rmsnorm", "rmsnorm_backward", "lora_down", "linear", "lora_up_backward", "linear_backward",
    "lora_grad", "rope", "attention", "attention_backward", "attention_decode", "swiglu", "swiglu_backward", "gather", "scatter", "head_loss", "logits", "add",
    "sum_squares", "adamw", "round_operand",
};

struct call {
    double begin, seconds; /* begin: since profile_open */
    int16_t layer, op;
};

struct sum {
    double seconds, flops;
    int64_t calls;
};

struct profile {
    struct dev *dev;
    const struct ops *inner;
    struct ops outer;
    double opened;              /* clock_seconds */
    struct sum op[OPS], *layer; /* layer[l + 1] */
    int layers;                 /* entries of layer */
    int64_t steps;              /* that ended */
    bool in_step;
    double begin, seconds;      /* of this step; of those that count, together */
    struct call *calls;
    size_t ncalls, cap;
};

static void trace(struct profile *p, enum op op, double begin, double seconds)
{
    if (p->ncalls == TRACE_LIMIT) return;
    if (p->ncalls == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 4096;
        p->calls = xreallocarray(p->calls, p->cap, sizeof *p->calls);
    }
    p->calls[p->ncalls++] = (struct call){begin, seconds, (int16_t)p->dev->layer, (int16_t)op};
}

static void wait_for(struct profile *p)
{
    int32_t nothing[2] = {0};

    if (p->inner->available) p->inner->download(p->dev, &nothing[0], &nothing[1], 0); /* a device with memory of its own: copies wait for queued work */
}

static void measured(struct profile *p, enum op op, double begin, double flops)
{
    int l = p->dev->layer + 1;
    double seconds;

    wait_for(p);
    seconds = clock_seconds() - p->opened - begin;
    trace(p, op, begin, seconds);
    if (!p->in_step || !p->steps) return;
    if (l >= p->layers) {
        p->layer = xreallocarray(p->layer, (size_t)l + 1, sizeof *p->layer);
        memset(p->layer + p->layers, 0, (size_t)(l + 1 - p->layers) * sizeof *p->layer);
        p->layers = l + 1;
    }
    for (int i = 0; i < 2; i++) {
        struct sum *s = i ? &p->layer[l] : &p->op[op];

        s->seconds += seconds;
        s->flops += flops;
        s->calls++;
    }
}

/* --- the work of each op in floating-point operations, a multiply-add being two; 0: bound by memory, not counted */

static double linear_flops(double T, const struct weight *W, double r)
{
    return 2 * T * ((double)W->N * (double)W->K + (double)W->N * r);
}

static double terms_flops(const struct linear_term *terms, int n, double T)
{
    double sum = 0;

    for (int i = 0; i < n; i++) sum += 2 * T * (double)terms[i].W->K * ((double)terms[i].W->N + terms[i].r);
    return sum;
}

/* Pairs of a token and one it attends to; where only rows are known on the host, as if each were one example. */
static double pairs(const struct layout *lay)
{
    const int32_t *start = lay->host_row_start ? lay->host_row_start : lay->example_start;
    int n = lay->host_row_start ? lay->rows : lay->examples;
    double sum = 0;

    for (int i = 0; i < n; i++) sum += (double)(start[i + 1] - start[i]) * (double)(start[i + 1] - start[i] + 1) / 2;
    return sum;
}

static double row_tokens(const struct layout *lay, int row)
{
    const int32_t *start = lay->host_row_start ? lay->host_row_start : lay->row_start;

    return start[row + 1] - start[row];
}

/* --- the table: each op as ops.h declares it */

#define UNPACK(...) __VA_ARGS__
#define MEASURED(name, OP, params, args, flops)                                \
    static void name(struct dev *dev, UNPACK params)                           \
    {                                                                          \
        struct profile *p = dev->profile;                                      \
        double begin = clock_seconds() - p->opened;                                       \
                                                                               \
        p->inner->name(dev, UNPACK args);                                      \
        measured(p, OP, begin, flops);                                         \
    }

MEASURED(upload, OP_UPLOAD, (void *dst, const void *src, size_t bytes), (dst, src, bytes), 0)
MEASURED(download, OP_DOWNLOAD, (void *dst, const void *src, size_t bytes), (dst, src, bytes), 0)
MEASURED(copy, OP_COPY, (void *dst, const void *src, size_t bytes), (dst, src, bytes), 0)
MEASURED(zero, OP_ZERO, (void *at, size_t bytes), (at, bytes), 0)
MEASURED(embed, OP_EMBED, (act *y, const struct weight *W, const int32_t *ids, int T), (y, W, ids, T), 0)
MEASURED(rmsnorm, OP_RMSNORM, (act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps), (y, rstd, x, w, n, C, eps), 0)
MEASURED(add_rmsnorm, OP_ADD_RMSNORM, (act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps),
         (y, rstd, sum, x, d, w, n, C, eps), 0)
MEASURED(rmsnorm_backward, OP_RMSNORM_BACKWARD, (act *dx, const act *base, const act *dy, const act *x, const float *w, const float *rstd, int64_t n, int C),
         (dx, base, dy, x, w, rstd, n, C), 0)
MEASURED(lora_down, OP_LORA_DOWN, (act *h, const act *x, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r), (h, x, A, s, drop, lay, K, r),
         2.0 * lay->T * K * r)
MEASURED(linear, OP_LINEAR, (act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r), (y, x, W, bias, h, B, T, r),
         linear_flops(T, W, r))
MEASURED(lora_up_backward, OP_LORA_UP_BACKWARD, (act *u, const act *dy, const act *B, float s, int T, int N, int r), (u, dy, B, s, T, N, r), 2.0 * T * N * r)
MEASURED(linear_backward, OP_LINEAR_BACKWARD, (act *dx, const struct linear_term *terms, int nterm, const struct layout *lay), (dx, terms, nterm, lay),
         terms_flops(terms, nterm, lay->T))
MEASURED(lora_grad, OP_LORA_GRAD, (float *dA, float *dB, const act *dy, const act *h, const act *u, const act *x, struct dropout drop, const struct layout *lay, int row, int N, int K, int r),
         (dA, dB, dy, h, u, x, drop, lay, row, N, K, r), 2.0 * row_tokens(lay, row) * r * ((double)N + K))
MEASURED(rope, OP_ROPE, (act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse), (x, cos, sin, pos, T, heads, D, inverse), 0)
MEASURED(attention, OP_ATTENTION, (act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D), (o, lse, q, k, v, lay, H, G, D),
         4.0 * H * D * pairs(lay))
MEASURED(attention_backward, OP_ATTENTION_BACKWARD, (act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse, const struct layout *lay, int H, int G, int D),
         (dq, dk, dv, dout, q, k, v, o, lse, lay, H, G, D), 10.0 * H * D * pairs(lay))
MEASURED(attention_decode, OP_ATTENTION_DECODE, (act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H, int G, int D),
         (o, q, kcache, vcache, sequence, len, n, cap, H, G, D), 0)
MEASURED(swiglu, OP_SWIGLU, (act *y, const act *gate, const act *up, int64_t n), (y, gate, up, n), 0)
MEASURED(swiglu_backward, OP_SWIGLU_BACKWARD, (act *dgate, act *dup, act *y, const act *dy, const act *gate, const act *up, int64_t n), (dgate, dup, y, dy, gate, up, n), 0)
MEASURED(gather, OP_GATHER, (act *y, const act *x, const int32_t *index, int n, int C), (y, x, index, n, C), 0)
MEASURED(scatter, OP_SCATTER, (act *y, const act *x, const int32_t *index, int n, int C), (y, x, index, n, C), 0)
MEASURED(head_loss, OP_HEAD_LOSS, (float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale),
         (loss, dx, argmax, x, W, target, S, scale), (dx ? 2 : 1) * linear_flops(S, W, 0))
MEASURED(logits, OP_LOGITS, (float *out, const act *x, const struct weight *W, int n), (out, x, W, n), linear_flops(n, W, 0))
MEASURED(add, OP_ADD, (float *a, const float *b, int64_t n), (a, b, n), 0)
MEASURED(sum_squares, OP_SUM_SQUARES, (double *out, const float *x, int64_t n, int64_t block), (out, x, n, block), 0)
MEASURED(adamw, OP_ADAMW, (float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper), (theta, operand, m, v, g, n, hyper), 0)
MEASURED(round_operand, OP_ROUND_OPERAND, (act *operand, const float *theta, int64_t n), (operand, theta, n), 0)

struct profile *profile_open(struct dev *dev)
{
    struct profile *p = xcalloc(1, sizeof *p);

    p->dev = dev;
    p->inner = dev->ops;
    p->outer = (struct ops){
        .name = dev->ops->name, .scratch_bytes = dev->ops->scratch_bytes, .check = dev->ops->check, .available = dev->ops->available, .alloc = dev->ops->alloc, .free = dev->ops->free,
        .upload = upload, .download = download, .copy = copy, .zero = zero, .embed = embed, .rmsnorm = rmsnorm, .add_rmsnorm = add_rmsnorm, .rmsnorm_backward = rmsnorm_backward,
        .lora_down = lora_down, .linear = linear, .lora_up_backward = lora_up_backward, .linear_backward = linear_backward, .lora_grad = lora_grad, .rope = rope,
        .attention = attention, .attention_backward = attention_backward, .attention_decode = attention_decode, .swiglu = swiglu, .swiglu_backward = swiglu_backward,
        .gather = gather, .scatter = scatter, .head_loss = head_loss, .logits = logits, .add = add, .sum_squares = sum_squares, .adamw = adamw, .round_operand = round_operand,
    };
    p->opened = clock_seconds();
    dev->profile = p;
    dev->ops = &p->outer;
    return p;
}

void profile_close(struct profile *p)
{
    if (!p) return;
    p->dev->ops = p->inner;
    p->dev->profile = NULL;
    free(p->layer);
    free(p->calls);
    free(p);
}

void profile_begin_step(struct profile *p)
{
    if (!p) return;
    p->in_step = true;
    p->begin = clock_seconds() - p->opened;
}

void profile_end_step(struct profile *p)
{
    if (!p) return;
    p->in_step = false;
    if (p->steps++) p->seconds += clock_seconds() - p->opened - p->begin;
}

/* --- telling */

static double ops_seconds(const struct profile *p)
{
    double sum = 0;

    for (int i = 0; i < OPS; i++) sum += p->op[i].seconds;
    return sum;
}

/* The op with the i-th most time. */
static int by_time(const struct profile *p, int i)
{
    for (int op = 0; op < OPS; op++) {
        int before = 0;

        for (int o = 0; o < OPS; o++) before += p->op[o].seconds > p->op[op].seconds || (p->op[o].seconds == p->op[op].seconds && o < op);
        if (before == i) return op;
    }
    return 0;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void profile_table(const struct profile *p, struct buf *out)
{
    int64_t n = p->steps - 1;
    double between = p->seconds - ops_seconds(p);

    if (n < 1) {
        buf_adds(out, "nothing to tell: a profile needs two steps, the first of which does not count\n");
        return;
    }
    buf_addf(out, "%lld steps of %.1f ms on %s\n\n%-20s%8s%12s%9s%12s\n", (long long)n, p->seconds / (double)n * 1e3, p->dev->name, "op", "calls", "ms a step", "share", "GFLOP/s");
    for (int i = 0; i < OPS; i++) {
        const struct sum *s = &p->op[by_time(p, i)];

        if (!s->calls) continue;
        buf_addf(out, "%-20s%8lld%12.2f%8.1f%%", op_names[by_time(p, i)], (long long)(s->calls / n), s->seconds / (double)n * 1e3, 100 * ratio(s->seconds, p->seconds));
        if (s->flops > 0) buf_addf(out, "%12.1f", ratio(s->flops, s->seconds) / 1e9);
        buf_addc(out, '\n');
    }
    buf_addf(out, "%-20s%8s%12.2f%8.1f%%\n\n%-20s%8s%12s%9s%12s\n", "between ops", "", between / (double)n * 1e3, 100 * ratio(between, p->seconds), "layer", "calls", "ms a step", "share", "GFLOP/s");
    for (int l = 0; l < p->layers; l++) {
        const struct sum *s = &p->layer[l];
        char name[16] = "outside";

        if (l) snprintf(name, sizeof name, "%d", l - 1);
        buf_addf(out, "%-20s%8lld%12.2f%8.1f%%%12.1f\n", name, (long long)(s->calls / n), s->seconds / (double)n * 1e3, 100 * ratio(s->seconds, p->seconds), ratio(s->flops, s->seconds) / 1e9);
    }
}

void profile_json(const struct profile *p, struct buf *out)
{
    double n = p->steps > 1 ? (double)(p->steps - 1) : 1;
    const char *comma = "";

    buf_addf(out, "{\"steps\": %lld, \"device\": \"%s\", \"step_ms\": %.4f, \"between_ops_ms\": %.4f, \"ops\": [", (long long)(p->steps > 1 ? p->steps - 1 : 0), p->dev->name,
             p->seconds / n * 1e3, (p->seconds - ops_seconds(p)) / n * 1e3);
    for (int i = 0; i < OPS; i++) {
        const struct sum *s = &p->op[by_time(p, i)];

        if (!s->calls) continue;
        buf_addf(out, "%s{\"op\": \"%s\", \"calls\": %.0f, \"ms\": %.4f, \"share\": %.4f, \"gflops\": %.2f}", comma, op_names[by_time(p, i)], (double)s->calls / n, s->seconds / n * 1e3,
                 ratio(s->seconds, p->seconds), ratio(s->flops, s->seconds) / 1e9);
        comma = ", ";
    }
    buf_adds(out, "], \"layers\": [");
    for (int l = 0; l < p->layers; l++)
        buf_addf(out, "%s{\"layer\": %d, \"ms\": %.4f, \"share\": %.4f, \"gflops\": %.2f}", l ? ", " : "", l - 1, p->layer[l].seconds / n * 1e3, ratio(p->layer[l].seconds, p->seconds),
                 ratio(p->layer[l].flops, p->layer[l].seconds) / 1e9);
    buf_adds(out, "]}\n");
}

void profile_trace(const struct profile *p, struct buf *out)
{
    buf_adds(out, "{\"traceEvents\": [\n");
    for (size_t i = 0; i < p->ncalls; i++) {
        const struct call *c = &p->calls[i];

        buf_addf(out, "{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"layer\": %d}}%s\n", op_names[c->op], c->begin * 1e6, c->seconds * 1e6,
                 c->layer, i + 1 < p->ncalls ? "," : "");
    }
    buf_adds(out, "], \"displayTimeUnit\": \"ms\"}\n");
}
