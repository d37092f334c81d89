/* Every op of the CPU backend on a model's shapes: time, GFLOP/s or GB/s, per cent of what this machine reaches at the same moment.
 *
 *   pawl_bench_kernels [--json] [--isa LIST] [--act bf16,f32] [--weights q4_1,nf4] [--threads N] [--tokens T] [--op PART-OF-A-NAME] [--seconds S] [--busy]
 *
 * Shapes are SmolLM2-135M's. The peak is measured between repetitions (the better of fp32 multiply-add and vdpbf16ps; for memory: reading what lies in cache is what training does, so the
 * bandwidth is a copy's of the op's size), and each op keeps its best repetition, so that a busy machine shifts both. Weights are random: time does not depend on their values. */
#include "kernels/base/mem.h"
#include "kernels/ops.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { C = 576, F = 1536, H = 9, G = 3, D = 64, V = 49152, R = 16 };

/* Wall time; with --busy the time this process was on a core, for a machine that others use too (one thread then). */
static clockid_t timer = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;

    clock_gettime(timer, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- peaks ---- */

#define PEAK_STEPS 200000
#define CHAINS 12

#ifdef __x86_64__
typedef float f16x __attribute__((vector_size(64)));
typedef float f8x __attribute__((vector_size(32)));

__attribute__((target("avx512f"))) static double fma512(void)
{
    f16x x[CHAINS] = {0}, y = _mm512_set1_ps(0.5f);

    for (int i = 0; i < PEAK_STEPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) x[j] = _mm512_fmadd_ps(x[j], y, y);
        __asm__ volatile("" : "+v"(x[0]), "+v"(x[1]), "+v"(x[2]), "+v"(x[3]), "+v"(x[4]), "+v"(x[5]), "+v"(x[6]), "+v"(x[7]), "+v"(x[8]), "+v"(x[9]), "+v"(x[10]), "+v"(x[11]));
    }
    return (double)PEAK_STEPS * CHAINS * 32;
}

__attribute__((target("avx512f,avx512bf16"))) static double dp512(void)
{
    f16x x[CHAINS] = {0}, y = _mm512_set1_ps(0.5f);

    for (int i = 0; i < PEAK_STEPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) x[j] = _mm512_dpbf16_ps(x[j], (__m512bh)y, (__m512bh)y);
        __asm__ volatile("" : "+v"(x[0]), "+v"(x[1]), "+v"(x[2]), "+v"(x[3]), "+v"(x[4]), "+v"(x[5]), "+v"(x[6]), "+v"(x[7]), "+v"(x[8]), "+v"(x[9]), "+v"(x[10]), "+v"(x[11]));
    }
    return (double)PEAK_STEPS * CHAINS * 64;
}

__attribute__((target("avx2,fma"))) static double fma256(void)
{
    f8x x[CHAINS] = {0}, y = _mm256_set1_ps(0.5f);

    for (int i = 0; i < PEAK_STEPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) x[j] = _mm256_fmadd_ps(x[j], y, y);
        __asm__ volatile("" : "+x"(x[0]), "+x"(x[1]), "+x"(x[2]), "+x"(x[3]), "+x"(x[4]), "+x"(x[5]), "+x"(x[6]), "+x"(x[7]), "+x"(x[8]), "+x"(x[9]), "+x"(x[10]), "+x"(x[11]));
    }
    return (double)PEAK_STEPS * CHAINS * 16;
}
#endif

/* Plain C, as the portable variant is. */
static double plain(void)
{
    typedef float f4x __attribute__((vector_size(16)));
    f4x x[8] = {{0}}, y = {0.5f, 0.5f, 0.5f, 0.5f};

    for (int i = 0; i < PEAK_STEPS; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) x[j] = x[j] * y + y;
#ifdef __x86_64__
        __asm__ volatile("" : "+x"(x[0]), "+x"(x[1]), "+x"(x[2]), "+x"(x[3]), "+x"(x[4]), "+x"(x[5]), "+x"(x[6]), "+x"(x[7]));
#endif
    }
    return (double)PEAK_STEPS * 8 * 8;
}

struct isa {
    const char *name;
    double (*peak)(void);
};
static const struct isa isas[] = {
#ifdef __x86_64__
    {"avx512bf16", dp512}, {"avx512", fma512}, {"avx2", fma256},
#endif
    {"portable", plain},
};
#define ISAS (int)(sizeof isas / sizeof *isas)

/* FLOP/s of all threads together. */
static double measure_peak(const struct isa *isa, int threads)
{
    double work = 0, t = now();

#pragma omp parallel num_threads(threads) reduction(+ : work)
    work += isa->peak();
    return work / (now() - t);
}

/* ---- what the ops work on ---- */

struct bench {
    struct dev *dev;
    int T;
    enum dtype type;
    size_t element;
    void *x, *h, *u, *y, *f, *f2, *q, *k, *v, *o, *dq, *dk, *dv, *A, *B;
    float *lse, *delta, *theta, *m, *mv, *g, *cos, *sin, *norm, *rstd, *logits, *loss;
    double *squares;
    int32_t *ids, *pos, *row_start, *example_start, *argmax, *index, *len, *sequence;
    struct weight qkv[3], out, gate, up, down, head;
    struct layout lay, one;
    int64_t params;
    struct adamw hyper;
};

static void *filled(struct bench *b, int64_t n)
{
    void *p = b->dev->ops->alloc(b->dev, (size_t)n * b->element);

    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];
        float value;

        if (i % 4 == 0) philox4x32(w, rng_key(7), (uint32_t)i, 0, 0, 0);
        value = rng_unit(w[i % 4]) - 0.5f;
        if (b->type == DTYPE_BF16) ((bf16 *)p)[i] = bf16_from_f32(value);
        else ((float *)p)[i] = value;
    }
    return p;
}

static float *floats(struct bench *b, int64_t n)
{
    float *p = b->dev->ops->alloc(b->dev, (size_t)n * 4);

    for (int64_t i = 0; i < n; i++) p[i] = 0.01f * (float)(i % 101);
    return p;
}

static struct weight matrix(int64_t N, int64_t K, enum dtype type)
{
    struct weight w = {.type = type, .N = N, .K = K};
    size_t bytes = dtype_bytes(type, N * K), blocks = (size_t)(N * K / NF4_BLOCK);
    uint8_t *data = xcalloc(1, bytes + 64);

    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
    if (dtype_info[type].block >= 32)
        for (size_t i = 0; i < bytes; i += (size_t)dtype_info[type].bytes) data[i + 1] = 0x2c; /* a scale of 2^-4 or so */
    if (type == DTYPE_BF16)
        for (size_t i = 1; i < bytes; i += 2) data[i] = 0x3c;
    w.data = data;
    if (type == DTYPE_NF4) {
        float *nested = xmalloc((blocks / NF4_NESTED + 1) * 4);

        for (size_t i = 0; i <= blocks / NF4_NESTED; i++) nested[i] = 0.01f;
        w.nested_absmax = nested;
        w.nested_code = quant_dynamic_code;
        w.absmax_q = xcalloc(1, blocks);
        w.nested_offset = 0.05f;
    }
    return w;
}

static void set_up(struct bench *b, enum dtype weights, enum dtype head, int tokens, int row)
{
    struct dev_shapes shapes = {.T = tokens, .C = C, .F = F, .H = H, .G = G, .D = D, .V = V, .r = R};
    int64_t T = tokens;

    b->T = tokens;
    b->type = b->dev->act;
    b->element = dtype_bytes(b->type, 1);
    b->dev->scratch_bytes = b->dev->ops->scratch_bytes(b->dev, &shapes);
    b->dev->scratch = b->dev->ops->alloc(b->dev, b->dev->scratch_bytes);
    b->x = filled(b, T * C), b->y = filled(b, T * F), b->f = filled(b, T * F), b->f2 = filled(b, T * F), b->h = filled(b, T * R), b->u = filled(b, T * R);
    b->q = filled(b, T * H * D), b->k = filled(b, T * G * D), b->v = filled(b, T * G * D), b->o = filled(b, T * H * D);
    b->dq = filled(b, T * H * D), b->dk = filled(b, T * G * D), b->dv = filled(b, T * G * D), b->A = filled(b, R * F), b->B = filled(b, R * F);
    b->lse = floats(b, T * H), b->norm = floats(b, C), b->rstd = floats(b, T), b->loss = floats(b, T), b->logits = floats(b, 4 * V);
    b->cos = floats(b, T * D / 2), b->sin = floats(b, T * D / 2);
    b->params = 4 << 20;
    b->theta = floats(b, b->params), b->m = floats(b, b->params), b->mv = floats(b, b->params), b->g = floats(b, b->params);
    b->squares = xmalloc((size_t)b->params / 4096 * 8);
    b->hyper = (struct adamw){1, 0.999f, 0.1f, 0.999f, 0.001f, 0.5f, 1e-8f, 1e-4f};
    b->ids = xcalloc((size_t)T, 4), b->pos = xcalloc((size_t)T, 4), b->argmax = xcalloc((size_t)T, 4), b->index = xcalloc((size_t)T, 4);
    b->row_start = xcalloc((size_t)T + 1, 4);
    b->len = xcalloc(8, 4), b->sequence = xcalloc(8, 4);
    for (int t = 0; t < T; t++) b->ids[t] = t * 97 % V, b->pos[t] = t % row, b->index[t] = t;
    for (int i = 0; i < 8; i++) b->len[i] = tokens / 8, b->sequence[i] = i;
    b->lay = (struct layout){.T = tokens, .rows = tokens / row, .examples = tokens / row, .row_start = b->row_start, .example_start = b->row_start, .pos = b->pos};
    for (int i = 0; i <= b->lay.rows; i++) b->row_start[i] = i * row;
    b->qkv[0] = matrix(C, C, weights), b->qkv[1] = matrix(G * D, C, weights), b->qkv[2] = matrix(G * D, C, weights);
    b->out = matrix(C, C, weights), b->gate = matrix(F, C, weights), b->up = matrix(F, C, weights), b->down = matrix(C, F, weights);
    b->head = matrix(V, C, head);
    /* attention's backward needs a true lse */
    b->dev->ops->attention(b->dev, b->o, b->lse, b->q, b->k, b->v, &b->lay, H, G, D);
}

/* ---- the ops ---- */

static const struct dropout none = {0};
static const struct dropout tenth = {.p = 0.1f, .key = {{1, 2}}};

static void linear_q(struct bench *b) { b->dev->ops->linear(b->dev, b->q, b->x, &b->qkv[0], NULL, b->h, b->B, b->T, R); }
static void linear_k(struct bench *b) { b->dev->ops->linear(b->dev, b->k, b->x, &b->qkv[1], NULL, b->h, b->B, b->T, R); }
static void linear_gate(struct bench *b) { b->dev->ops->linear(b->dev, b->f, b->x, &b->gate, NULL, b->h, b->B, b->T, R); }
static void linear_down(struct bench *b) { b->dev->ops->linear(b->dev, b->x, b->f, &b->down, NULL, b->h, b->B, b->T, R); }
static void linear_one(struct bench *b) { b->dev->ops->linear(b->dev, b->f, b->x, &b->gate, NULL, b->h, b->B, 1, R); }

static void backward(struct bench *b, void *dx, int n, const struct weight *const *W, void *const *dy, struct dropout drop)
{
    struct linear_term t[3];

    for (int i = 0; i < n; i++) t[i] = (struct linear_term){.dy = dy[i], .W = W[i], .u = b->u, .A = b->A, .r = R, .drop = drop};
    b->dev->ops->linear_backward(b->dev, dx, t, n, &b->lay);
}
static void back_qkv(struct bench *b) { backward(b, b->x, 3, (const struct weight *[]){&b->qkv[0], &b->qkv[1], &b->qkv[2]}, (void *[]){b->q, b->k, b->v}, none); }
static void back_qkv_drop(struct bench *b) { backward(b, b->x, 3, (const struct weight *[]){&b->qkv[0], &b->qkv[1], &b->qkv[2]}, (void *[]){b->q, b->k, b->v}, tenth); }
static void back_gate_up(struct bench *b) { backward(b, b->x, 2, (const struct weight *[]){&b->gate, &b->up}, (void *[]){b->f, b->f2}, none); }
static void back_down(struct bench *b) { backward(b, b->y, 1, (const struct weight *[]){&b->down}, (void *[]){b->x}, none); }
static void down_C(struct bench *b) { b->dev->ops->lora_down(b->dev, b->h, b->x, b->A, 2, none, &b->lay, C, R); }
static void down_C_drop(struct bench *b) { b->dev->ops->lora_down(b->dev, b->h, b->x, b->A, 2, tenth, &b->lay, C, R); }
static void down_F(struct bench *b) { b->dev->ops->lora_down(b->dev, b->h, b->f, b->A, 2, none, &b->lay, F, R); }
static void up_F(struct bench *b) { b->dev->ops->lora_up_backward(b->dev, b->u, b->f, b->B, 2, b->T, F, R); }
static void grad_gate(struct bench *b)
{
    for (int r = 0; r < b->lay.rows; r++) b->dev->ops->lora_grad(b->dev, b->theta, b->m, b->f, b->h, b->u, b->x, none, &b->lay, r, F, C, R);
}
static void attention(struct bench *b) { b->dev->ops->attention(b->dev, b->o, b->lse, b->q, b->k, b->v, &b->lay, H, G, D); }
static void attention_back(struct bench *b) { b->dev->ops->attention_backward(b->dev, b->dq, b->dk, b->dv, b->o, b->q, b->k, b->v, b->o, b->lse, &b->lay, H, G, D); }
static void decode(struct bench *b) { b->dev->ops->attention_decode(b->dev, b->o, b->q, b->k, b->v, b->sequence, b->len, 8, b->T / 8, H, G, D); }
static void head(struct bench *b) { b->dev->ops->head_loss(b->dev, b->loss, b->y, NULL, b->x, &b->head, b->ids, b->T, 1); }
static void head_eval(struct bench *b) { b->dev->ops->head_loss(b->dev, b->loss, NULL, b->argmax, b->x, &b->head, b->ids, b->T, 1); }
static void logits(struct bench *b) { b->dev->ops->logits(b->dev, b->logits, b->x, &b->head, 1); }
static void norm(struct bench *b) { b->dev->ops->add_rmsnorm(b->dev, b->o, b->rstd, b->y, b->x, b->q, b->norm, b->T, C, 1e-5f); }
static void norm_back(struct bench *b) { b->dev->ops->rmsnorm_backward(b->dev, b->y, b->o, b->q, b->x, b->norm, b->rstd, b->T, C); }
static void rope(struct bench *b) { b->dev->ops->rope(b->dev, b->q, b->cos, b->sin, b->pos, b->T, H, D, false); }
static void swiglu(struct bench *b) { b->dev->ops->swiglu(b->dev, b->y, b->f, b->f2, (int64_t)b->T * F); }
static void swiglu_back(struct bench *b) { b->dev->ops->swiglu_backward(b->dev, b->f, b->f2, b->y, b->y, b->f, b->f2, (int64_t)b->T * F); }
static void embed(struct bench *b) { b->dev->ops->embed(b->dev, b->x, &b->head, b->ids, b->T); }
static void gather(struct bench *b) { b->dev->ops->gather(b->dev, b->y, b->x, b->index, b->T, C); }
static void add(struct bench *b) { b->dev->ops->add(b->dev, b->m, b->g, b->params); }
static void squares(struct bench *b) { b->dev->ops->sum_squares(b->dev, b->squares, b->g, b->params, 4096); }
static void adamw(struct bench *b) { b->dev->ops->adamw(b->dev, b->theta, b->type == DTYPE_F32 ? (void *)b->theta : b->f, b->m, b->mv, b->g, b->type == DTYPE_F32 ? b->params : (int64_t)b->T * F, &b->hyper); }

/* Work of one call: multiplications and additions, or bytes that must move, from T tokens, rows of L tokens, elements of e bytes. */
static const struct op {
    const char *name, *shape;
    void (*run)(struct bench *b);
    double flops_token, flops_pair; /* a token; a token and one it attends to (half of L on average) */
    double flops;                   /* a call */
    double elements_token, bytes;   /* elements of act a token; bytes a call */
} ops[] = {
    {"linear", "q, o: 576x576+16", linear_q, 2.0 * C * (C + R), 0, 0, 0, 0},
    {"linear", "k, v: 192x576+16", linear_k, 2.0 * G * D * (C + R), 0, 0, 0, 0},
    {"linear", "gate, up: 1536x576+16", linear_gate, 2.0 * F * (C + R), 0, 0, 0, 0},
    {"linear", "down: 576x1536+16", linear_down, 2.0 * C * (F + R), 0, 0, 0, 0},
    {"linear, one token", "gate: 1536x576+16", linear_one, 0, 0, 2.0 * F * (C + R), 0, 0},
    {"linear_backward", "q k v: 960+48 to 576", back_qkv, 2.0 * C * (C + 2 * G * D + 3 * R), 0, 0, 0, 0},
    {"linear_backward", "q k v, dropout 0.1", back_qkv_drop, 2.0 * C * (C + 2 * G * D + 3 * R), 0, 0, 0, 0},
    {"linear_backward", "gate up: 3072+32 to 576", back_gate_up, 2.0 * C * (2 * F + 2 * R), 0, 0, 0, 0},
    {"linear_backward", "down: 576+16 to 1536", back_down, 2.0 * F * (C + R), 0, 0, 0, 0},
    {"lora_down", "576 to 16", down_C, 2.0 * C * R, 0, 0, 0, 0},
    {"lora_down", "576 to 16, dropout 0.1", down_C_drop, 2.0 * C * R, 0, 0, 0, 0},
    {"lora_down", "1536 to 16", down_F, 2.0 * F * R, 0, 0, 0, 0},
    {"lora_up_backward", "1536 to 16", up_F, 2.0 * F * R, 0, 0, 0, 0},
    {"lora_grad", "gate, all rows", grad_gate, 2.0 * (F + C) * R, 0, 0, 0, 0},
    {"attention", "9/3 heads of 64", attention, 0, 4.0 * H * D, 0, 0, 0},
    {"attention_backward", "9/3 heads of 64", attention_back, 0, 10.0 * H * D, 0, 0, 0},
    {"attention_decode", "8 sequences", decode, 0, 0, 0, 2.0 * G * D, 0},
    {"head_loss", "576 to 49152", head, 4.0 * C * V, 0, 0, 0, 0},
    {"head_loss, no gradient", "576 to 49152", head_eval, 2.0 * C * V, 0, 0, 0, 0},
    {"logits", "one token", logits, 0, 0, 2.0 * C * V, 0, 0},
    {"add_rmsnorm", "576", norm, 0, 0, 0, 4.0 * C, 0},
    {"rmsnorm_backward", "576", norm_back, 0, 0, 0, 4.0 * C, 0},
    {"rope", "9 heads of 64", rope, 0, 0, 0, 2.0 * H * D, 0},
    {"swiglu", "1536", swiglu, 0, 0, 0, 3.0 * F, 0},
    {"swiglu_backward", "1536", swiglu_back, 0, 0, 0, 6.0 * F, 0},
    {"embed", "576", embed, 0, 0, 0, 2.0 * C, 0},
    {"gather", "576", gather, 0, 0, 0, 2.0 * C, 0},
    {"add", "4 Mi fp32", add, 0, 0, 0, 0, 12.0 * (4 << 20)},
    {"sum_squares", "4 Mi fp32", squares, 0, 0, 0, 0, 4.0 * (4 << 20)},
    {"adamw", "T x 1536", adamw, 0, 0, 0, 14.0 * F, 0},
};
#define OPS (int)(sizeof ops / sizeof *ops)

/* Bytes read and written a second by copying what the op moves. */
static double measure_bandwidth(void *to, const void *from, size_t bytes, int threads)
{
    double t = now();

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < threads; i++) memcpy((char *)to + bytes / (size_t)threads * (size_t)i, (const char *)from + bytes / (size_t)threads * (size_t)i, bytes / (size_t)threads);
    return 2 * (double)bytes / (now() - t);
}

struct options {
    bool json;
    const char *isa, *act, *weights, *op;
    int threads, tokens, row;
    double seconds;
};

static void run_op(struct bench *b, const struct isa *isa, const struct op *op, const struct options *o, const char *weights, bool *first)
{
    double flops = op->flops + op->flops_token * b->T + op->flops_pair * b->T * (o->row + 1) / 2, bytes = op->bytes + op->elements_token * b->T * (double)b->element;
    double best = 1e30, peak = 0, end = now() + o->seconds;
    size_t copied = (size_t)b->T * F * b->element / 2;

    op->run(b);
    for (int n = 0; n < 3 || now() < end; n++) {
        double at_peak = flops > 0 ? measure_peak(isa, b->dev->threads) : measure_bandwidth(b->y, b->f, copied, b->dev->threads), t = now();

        op->run(b);
        t = now() - t;
        if (t < best) best = t;
        if (at_peak > peak) peak = at_peak;
    }
    double rate = (flops > 0 ? flops : bytes) / best;
    if (o->json)
        printf("%s\n {\"isa\":\"%s\",\"act\":\"%s\",\"weights\":\"%s\",\"threads\":%d,\"tokens\":%d,\"row\":%d,\"op\":\"%s\",\"shape\":\"%s\",\"seconds\":%.9f,\"unit\":\"%s\",\"rate\":%.4g,\"peak\":%.4g}",
               *first ? "" : ",", b->dev->name + 4, dtype_info[b->type].name, weights, b->dev->threads, b->T, o->row, op->name, op->shape, best, flops > 0 ? "flop/s" : "byte/s", rate, peak);
    else
        printf("%-10s %-4s %-5s %-22s %-24s %10.3f ms %8.1f %s %5.0f%%\n", b->dev->name + 4, dtype_info[b->type].name, weights, op->name, op->shape, best * 1e3, rate * 1e-9,
               flops > 0 ? "GFLOP/s" : "GB/s   ", 100 * rate / peak);
    *first = false;
    fflush(stdout);
}

static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    if (!list) return true;
    for (const char *p = list; (p = strstr(p, name)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == '\0' || p[n] == ',')) return true;
    return false;
}

static bool parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(key, "--json") == 0) {
            o->json = true;
            continue;
        }
        if (strcmp(key, "--busy") == 0) {
            timer = CLOCK_PROCESS_CPUTIME_ID;
            o->threads = 1;
            continue;
        }
        if (!value) return false;
        if (strcmp(key, "--isa") == 0) o->isa = value;
        else if (strcmp(key, "--act") == 0) o->act = value;
        else if (strcmp(key, "--weights") == 0) o->weights = value;
        else if (strcmp(key, "--op") == 0) o->op = value;
        else if (strcmp(key, "--threads") == 0) o->threads = atoi(value);
        else if (strcmp(key, "--tokens") == 0) o->tokens = atoi(value);
        else if (strcmp(key, "--row") == 0) o->row = atoi(value);
        else if (strcmp(key, "--seconds") == 0) o->seconds = atof(value);
        else return false;
        i++;
    }
    return o->tokens >= 8 && o->row > 0 && o->tokens % o->row == 0;
}

int main(int argc, char **argv)
{
    static const enum dtype acts[] = {DTYPE_BF16, DTYPE_F32}, weights[] = {DTYPE_Q4_1, DTYPE_NF4, DTYPE_Q8_0, DTYPE_BF16};
    struct options o = {.act = "bf16", .weights = "q4_1,nf4", .tokens = 2048, .row = 512, .seconds = 0.5};
    bool first = true;

    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: %s [--json] [--isa LIST] [--act bf16,f32] [--weights q4_1,nf4,q8_0,bf16] [--threads N] [--tokens T] [--row L] [--op TEXT] [--seconds S] [--busy]; L divides T\n", argv[0]);
        return 2;
    }
    if (o.json) printf("[");
    for (int i = 0; i < ISAS; i++) {
        if (!listed(o.isa, isas[i].name)) continue;
        setenv("PAWL_ISA", isas[i].name, 1);
        for (int a = 0; a < 2; a++)
            for (int w = 0; w < 4; w++) {
                struct bench b = {0};
                struct err err;

                if (!listed(o.act, dtype_info[acts[a]].name) || !listed(o.weights, dtype_info[weights[w]].name)) continue;
                if (dev_open(&b.dev, "cpu", acts[a], o.threads, &err) != PAWL_OK) {
                    fprintf(stderr, "%s\n", err.text);
                    continue;
                }
                set_up(&b, weights[w], DTYPE_Q8_0, o.tokens, o.row);
                for (int k = 0; k < OPS; k++)
                    if (!o.op || strstr(ops[k].name, o.op)) run_op(&b, &isas[i], &ops[k], &o, dtype_info[weights[w]].name, &first);
                dev_close(b.dev); /* the buffers go with the program */
            }
    }
    if (o.json) printf("\n]\n");
    return 0;
}
