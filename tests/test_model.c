/* Forward, every LoRA gradient and whole runs of tiny models equal PEFT's (tests/golden, made by scripts/make_golden.py), on the oracle and on the CPU backend. */
#include "ckpt/safetensors.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "train/model/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GOLDEN PAWL_TESTS "/golden"

/* A model with its adapter on a device, as the trainer sets it up. */
struct rig {
    struct dev *dev;
    struct model *model;
    struct lora lora;
    struct arena arena;
    struct net net;
    struct gradtree tree;
    float *theta, *g;
    act *operand;
};

static void ok(enum pawl_status st, const struct err *err)
{
    if (st != PAWL_OK) fail_msg("%s", err->text);
}

static void rig_open(struct rig *rig, const char *model, const char *adapter, const char *device, enum dtype act_type, enum net_mode mode, struct rows_limits limits)
{
    struct err err;

    memset(rig, 0, sizeof *rig);
    ok(dev_open(&rig->dev, device, act_type, 2, &err), &err);
    ok(model_open(&rig->model, model, (struct model_storage){STORAGE_AS_IT_IS, DTYPE_NF4, true}, &err), &err);
    ok(lora_open(&rig->lora, &rig->model->spec, adapter, &err), &err);
    net_reserve(&rig->net, &rig->arena, rig->dev, rig->model, &rig->lora, mode, limits, 256);
    arena_reserve(&rig->arena, "theta", (size_t)rig->lora.n * 4, &rig->theta);
    arena_reserve(&rig->arena, "gradient", (size_t)rig->lora.n * 4, &rig->g);
    arena_reserve(&rig->arena, "operand", (size_t)rig->lora.n * 4, &rig->operand);
    gradtree_reserve(&rig->tree, &rig->arena, rig->lora.n, limits.rows);
    ok(arena_alloc(&rig->arena, NULL, NULL, &err), &err);
    net_init(&rig->net);
    ok(lora_read(&rig->lora, rig->theta, adapter, &err), &err);
    rig->dev->ops->round_operand(rig->dev, rig->operand, rig->theta, rig->lora.n);
    rig->net.operand = rig->operand;
}

static void rig_close(struct rig *rig)
{
    net_free(&rig->net);
    arena_free(&rig->arena);
    lora_free(&rig->lora);
    model_close(rig->model);
    dev_close(rig->dev);
}

/* The sequences of a golden case: each one a row, or all of them one packed row. */
struct sequences {
    struct safetensors *file;
    const int32_t *ids, *cu;
    const uint8_t *mask;
    int T, n;
};

static const void *data_of(const struct safetensors *s, const char *name)
{
    const struct tensor *t = safetensors_find(s, name);

    if (!t) fail_msg("%s: no tensor %s", safetensors_path(s), name);
    return t->data;
}

static void sequences_open(struct sequences *q, const char *path)
{
    struct err err;

    ok(safetensors_open(&q->file, path, &err), &err);
    q->ids = data_of(q->file, "ids");
    q->cu = data_of(q->file, "cu");
    q->mask = data_of(q->file, "mask");
    q->n = (int)safetensors_find(q->file, "cu")->shape[0] - 1;
    q->T = (int)safetensors_find(q->file, "ids")->shape[0];
}

/* Sequences first..first+n-1 as a micro-batch. */
static void micro_make(struct micro *m, const struct sequences *q, int first, int n, bool packed, int64_t first_row)
{
    int base = q->cu[first], T = q->cu[first + n] - base;
    int32_t *starts = xcalloc((size_t)n + 1, sizeof *starts), *pos = xcalloc((size_t)T, sizeof *pos);

    *m = (struct micro){.ids = q->ids + base};
    m->index = xcalloc((size_t)T, sizeof *m->index);
    m->target = xcalloc((size_t)T, sizeof *m->target);
    m->row_start = xcalloc((size_t)n + 1, sizeof *m->row_start);
    m->example_start = starts;
    for (int i = 0; i <= n; i++) starts[i] = q->cu[first + i] - base;
    if (packed) m->row_start[1] = T;
    else memcpy(m->row_start, starts, ((size_t)n + 1) * sizeof *starts);
    for (int i = 0; i < n; i++)
        for (int t = starts[i]; t < starts[i + 1]; t++) {
            pos[t] = t - starts[i];
            if (t + 1 < starts[i + 1] && q->mask[base + t + 1]) {
                m->index[m->S] = t;
                m->target[m->S++] = q->ids[base + t + 1];
            }
        }
    m->layout = (struct layout){.T = T, .rows = packed ? 1 : n, .examples = n, .row_start = m->row_start, .example_start = starts, .pos = pos, .first_row = first_row};
}

static void micro_drop(struct micro *m)
{
    free((void *)m->layout.pos);
    free(m->index);
    free(m->target);
    free(m->row_start);
    free(m->example_start);
}

static struct rows_limits limits_of(const struct sequences *q)
{
    return (struct rows_limits){.rows = q->n, .tokens = q->T, .supervised = q->T, .examples = q->n};
}

/* |a - b| relative to the largest of b: what an error in one element means depends on the scale of its tensor. */
static double distance(const float *a, const float *b, int64_t n)
{
    double worst = 0, scale = 1e-30;

    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        scale = fmax(scale, fabs((double)b[i]));
    }
    return worst / scale;
}

/* ||a - b|| / ||b|| */
static double distance_l2(const float *a, const float *b, int64_t n)
{
    double diff = 0, scale = 1e-60;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];

        diff += d * d;
        scale += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / scale);
}

static double golden_number(const char *dir, const char *key, const char *sub)
{
    char path[512];
    struct json *json;
    struct err err;
    double x;

    snprintf(path, sizeof path, "%s/case.json", dir);
    ok(json_parse_file(&json, path, &err), &err);
    x = json_number(json_get(sub ? json_get(json_root(json), sub) : json_root(json), key), NAN);
    json_free(json);
    return x;
}

static double mean(const float *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) sum += (double)x[i];
    return sum / n;
}

static void check_gradients(const struct rig *rig, const struct sequences *q, double (*measure)(const float *, const float *, int64_t), double tolerance)
{
    for (int i = 0; i < rig->lora.pairs; i++)
        for (int side = 0; side < 2; side++) {
            const struct lora_pair *p = &rig->lora.pair[i];
            char name[200];
            int64_t n = (int64_t)rig->lora.r * (side ? p->out : p->in);
            double d;

            snprintf(name, sizeof name, "grad.base_model.model.model.layers.%d.%s.lora_%c.weight", i / MODULES, module_info[i % MODULES].path, side ? 'B' : 'A');
            d = measure(rig->g + (side ? p->b : p->a), data_of(q->file, name), n);
            if (!(d <= tolerance)) fail_msg("%s: %s is %g away from PEFT's", safetensors_path(q->file), name, d);
        }
}

/* Loss and all gradients of the sequences, given in micro-batches of `micro` rows. */
static void train_case(const char *dir, const char *weights, const char *cases, const char *device, enum dtype act_type, enum net_mode mode, int micro, bool packed,
                       double loss_tolerance, double grad_tolerance)
{
    char path[512], adapter[512];
    struct sequences q;
    struct rig rig;
    float *loss;
    int S = 0;
    double expected;

    snprintf(path, sizeof path, "%s/%s", dir, cases);
    snprintf(adapter, sizeof adapter, "%s/llama/adapter", GOLDEN);
    sequences_open(&q, path);
    snprintf(path, sizeof path, "%s/adapter", dir);
    rig_open(&rig, weights, file_exists(path) ? path : adapter, device, act_type, mode, limits_of(&q));
    for (int t = 0; t < q.T; t++) S += q.mask[t];
    loss = xcalloc((size_t)S, sizeof *loss);
    for (int first = 0, done = 0; first < q.n; first += micro) {
        struct micro m;

        micro_make(&m, &q, first, first + micro <= q.n ? micro : q.n - first, packed, first);
        net_train(&rig.net, &m, (struct net_step){0}, 1.0f / (float)S, &rig.tree, loss + done);
        done += m.S;
        micro_drop(&m);
    }
    gradtree_finish(&rig.tree, rig.dev, packed ? 1 : q.n, rig.g);
    expected = golden_number(dir, "loss", packed ? "packed" : NULL);
    if (!(fabs(mean(loss, S) - expected) <= loss_tolerance * expected)) fail_msg("%s: loss %.9g, PEFT's %.9g", dir, mean(loss, S), expected);
    if (grad_tolerance > 0) check_gradients(&rig, &q, act_type == DTYPE_F32 ? distance : distance_l2, grad_tolerance);
    free(loss);
    safetensors_close(q.file);
    rig_close(&rig);
}

static const char *const families[] = {"llama", "llama_tied", "qwen2", "qwen3"};

/* 1e-5: fp32 sums of some hundred terms in another order, through a few layers. */
static void oracle_follows_peft(void **state)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char dir[512];

        snprintf(dir, sizeof dir, "%s/%s", GOLDEN, families[i]);
        train_case(dir, dir, "case.safetensors", "ref", DTYPE_F32, NET_TRAIN, 3, false, 1e-6, 1e-5);
        train_case(dir, dir, "case.safetensors", "ref", DTYPE_F32, NET_TRAIN_CHECKPOINTED, 1, false, 1e-6, 1e-5);
    }
}

static void cpu_fp32_follows_peft(void **state)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char dir[512];

        snprintf(dir, sizeof dir, "%s/%s", GOLDEN, families[i]);
        train_case(dir, dir, "case.safetensors", "cpu", DTYPE_F32, NET_TRAIN, 2, false, 2e-6, 2e-5);
    }
}

/* bf16 keeps 8 bits: an error of 2^-9 an operation, some dozens of them on the way to a gradient, averaging out over a loss. Gradients are compared by norm: the error is
 * noise, a tenth where a gradient is a small difference of large sums (q and k, behind the softmax). */
static void cpu_bf16_is_near_peft(void **state)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char dir[512];

        snprintf(dir, sizeof dir, "%s/%s", GOLDEN, families[i]);
        train_case(dir, dir, "case.safetensors", "cpu", DTYPE_BF16, NET_TRAIN, 2, false, 3e-3, 0.15);
    }
}

static void packed_examples_do_not_see_each_other(void **state)
{
    train_case(GOLDEN "/llama", GOLDEN "/llama", "packed.safetensors", "ref", DTYPE_F32, NET_TRAIN, 3, true, 1e-6, 1e-5);
    train_case(GOLDEN "/llama", GOLDEN "/llama", "packed.safetensors", "cpu", DTYPE_F32, NET_TRAIN, 3, true, 2e-6, 2e-5);
}

/* The same weights in F32, F16, BF16, Q8_0, Q4_0 and Q4_1 blocks, q and k rows permuted. */
static void gguf_equals_its_hugging_face_twin(void **state)
{
    train_case(GOLDEN "/llama", GOLDEN "/llama.gguf", "case.safetensors", "ref", DTYPE_F32, NET_TRAIN, 3, false, 1e-6, 1e-5);
    train_case(GOLDEN "/llama", GOLDEN "/llama.gguf", "case.safetensors", "cpu", DTYPE_F32, NET_TRAIN, 3, false, 2e-6, 2e-5);
}

static void bitsandbytes_directories_are_mapped(void **state)
{
    train_case(GOLDEN "/llama_nf4", GOLDEN "/llama_nf4", "case.safetensors", "ref", DTYPE_F32, NET_TRAIN, 3, false, 1e-6, 1e-5);
    train_case(GOLDEN "/llama_int8", GOLDEN "/llama_int8", "case.safetensors", "ref", DTYPE_F32, NET_TRAIN, 3, false, 1e-6, 0);
}

/* --- finite differences */

static double loss_at(struct rig *rig, const struct sequences *q, float *loss)
{
    double sum = 0;
    struct micro m;

    micro_make(&m, q, 0, q->n, false, 0);
    rig->dev->ops->round_operand(rig->dev, rig->operand, rig->theta, rig->lora.n);
    net_eval(&rig->net, &m, loss, NULL);
    for (int i = 0; i < m.S; i++) sum += (double)loss[i];
    sum /= m.S;
    micro_drop(&m);
    return sum;
}

/* The derivative of the loss along a random direction within each LoRA tensor, by central differences, against the gradient's projection on it.
 * The step moves the loss by some 1e-2, its fp32 rounding is 1e-7: 2e-3 of the derivative's own scale (the gradient's norm) leaves room for curvature. */
static void every_gradient_follows_finite_differences(void **state)
{
    const float step = 1e-2f;
    struct sequences q;
    struct rig rig;
    struct micro m;
    float *loss, *saved;

    sequences_open(&q, GOLDEN "/llama/case.safetensors");
    rig_open(&rig, GOLDEN "/llama", GOLDEN "/llama/adapter", "ref", DTYPE_F32, NET_TRAIN, limits_of(&q));
    loss = xcalloc((size_t)q.T, sizeof *loss);
    saved = xmalloc((size_t)rig.lora.n * sizeof *saved);
    memcpy(saved, rig.theta, (size_t)rig.lora.n * sizeof *saved);
    micro_make(&m, &q, 0, q.n, false, 0);
    net_train(&rig.net, &m, (struct net_step){0}, 1.0f / (float)m.S, &rig.tree, loss);
    gradtree_finish(&rig.tree, rig.dev, q.n, rig.g);
    for (int i = 0; i < 2 * rig.lora.pairs; i++) {
        const struct lora_pair *p = &rig.lora.pair[i / 2];
        int64_t at = i % 2 ? p->b : p->a, n = (int64_t)rig.lora.r * (i % 2 ? p->out : p->in);
        double along = 0, norm = 0, up, down, found;

        for (int sign = 0; sign < 2; sign++) {
            for (int64_t k = 0; k < n; k++) {
                uint32_t w[4];
                float d;

                philox4x32(w, rng_key(11), (uint32_t)k, (uint32_t)i, 0, 0);
                d = (w[0] & 1 ? 1.0f : -1.0f) / (float)sqrt((double)n);
                rig.theta[at + k] = saved[at + k] + (sign ? -step : step) * d;
                if (sign) continue;
                along += (double)d * (double)rig.g[at + k];
                norm += (double)rig.g[at + k] * (double)rig.g[at + k];
            }
            *(sign ? &down : &up) = loss_at(&rig, &q, loss);
        }
        memcpy(rig.theta + at, saved + at, (size_t)n * sizeof *saved);
        found = (up - down) / (2 * (double)step);
        if (!(fabs(found - along) <= 2e-3 * sqrt(norm) + 2e-5)) fail_msg("pair %d, lora_%c: %g by differences, %g by backward", i / 2, i % 2 ? 'B' : 'A', found, along);
    }
    micro_drop(&m);
    free(loss);
    free(saved);
    safetensors_close(q.file);
    rig_close(&rig);
}

/* --- a run of ten steps */

static const struct json_value *run_settings(struct json **json)
{
    struct err err;

    ok(json_parse_file(json, GOLDEN "/run/run.json", &err), &err);
    return json_root(*json);
}

static void near(double found, double expected, double tolerance, const char *what, int step)
{
    if (!(fabs(found - expected) <= tolerance * fabs(expected))) fail_msg("step %d: %s %.9g, PEFT's %.9g", step, what, found, expected);
}

/* Losses, norms and the final adapter of ten steps of AdamW with warm-up, cosine, weight decay and clipping, in micro-batches of `micro` rows. *final (freed by the
 * caller) is theta at the end; its bytes are returned. */
static size_t ten_steps(const char *device, int micro, double tolerance, float **final)
{
    struct sequences q;
    struct rig rig;
    struct json *json;
    const struct json_value *root = run_settings(&json), *set = json_get(root, "settings");
    struct schedule_options rates = {SCHEDULE_COSINE, 0, 0, 0, 0};
    struct adamw_options opt = {0};
    struct lora last;
    struct err err;
    size_t bytes;
    float *m, *v, *expected, loss[1024];
    double blocks[64];

    set = set ? set : root;
    rates.peak = json_number(json_get(set, "learning_rate"), NAN);
    rates.warmup = (int64_t)json_number(json_get(set, "warmup_steps"), NAN);
    rates.total = (int64_t)json_number(json_get(set, "total_steps"), 10);
    opt = (struct adamw_options){json_number(json_get(set, "adam_beta1"), 0.9), json_number(json_get(set, "adam_beta2"), 0.999), json_number(json_get(set, "adam_epsilon"), 1e-8),
                                 json_number(json_get(set, "weight_decay"), NAN)};
    sequences_open(&q, GOLDEN "/run/data.safetensors");
    rig_open(&rig, GOLDEN "/llama", GOLDEN "/llama/adapter", device, DTYPE_F32, NET_TRAIN,
             (struct rows_limits){.rows = 4, .tokens = q.T, .supervised = q.T, .examples = 4});
    m = xcalloc((size_t)rig.lora.n, sizeof *m);
    v = xcalloc((size_t)rig.lora.n, sizeof *v);
    for (int step = 1; step <= 10; step++) {
        const struct json_value *r = json_at(json_get(root, "steps"), (size_t)step - 1);
        double rate = schedule_rate(&rates, step), norm, sum = 0;
        struct adamw a;
        int S = 0, done = 0;

        for (int row = 4 * (step - 1); row < 4 * step; row++)
            for (int t = q.cu[row] + 1; t < q.cu[row + 1]; t++) S += q.mask[t];
        for (int first = 0; first < 4; first += micro) {
            struct micro mb;

            micro_make(&mb, &q, 4 * (step - 1) + first, micro, false, first);
            net_train(&rig.net, &mb, (struct net_step){0}, 1.0f / (float)S, &rig.tree, loss + done);
            done += mb.S;
            micro_drop(&mb);
        }
        gradtree_finish(&rig.tree, rig.dev, 4, rig.g);
        for (int i = 0; i < S; i++) sum += (double)loss[i];
        norm = clip_norm(rig.dev, rig.g, rig.lora.n, blocks);
        near(sum / S, json_number(json_get(r, "loss"), NAN), tolerance, "loss", step);
        near(norm, json_number(json_get(r, "grad_norm"), NAN), 10 * tolerance, "grad_norm", step);
        if (rate != json_number(json_get(r, "learning_rate"), NAN)) near(rate, json_number(json_get(r, "learning_rate"), NAN), 1e-15, "learning_rate", step);
        a = adamw_factors(&opt, step, rate, clip_factor(norm, json_number(json_get(set, "max_grad_norm"), NAN)));
        rig.dev->ops->adamw(rig.dev, rig.theta, rig.operand, m, v, rig.g, rig.lora.n, &a);
    }
    ok(lora_open(&last, &rig.model->spec, GOLDEN "/run/adapter_final", &err), &err);
    expected = xcalloc((size_t)last.n, sizeof *expected);
    ok(lora_read(&last, expected, GOLDEN "/run/adapter_final", &err), &err);
    if (!(distance(rig.theta, expected, last.n) <= 10 * tolerance)) fail_msg("the adapter differs by %g of its largest element", distance(rig.theta, expected, last.n));
    bytes = (size_t)rig.lora.n * sizeof **final;
    *final = xmalloc(bytes);
    memcpy(*final, rig.theta, bytes);
    free(expected);
    free(m);
    free(v);
    lora_free(&last);
    json_free(json);
    safetensors_close(q.file);
    rig_close(&rig);
    return bytes;
}

/* 2e-5: ten steps carry fp32 differences of 1e-6 along; Adam divides by small numbers. */
static void ten_steps_follow_peft_and_micro_batches_never_show(void **state)
{
    static const char *const devices[] = {"ref", "cpu"};

    for (int d = 0; d < 2; d++) {
        float *once, *pairs, *single;

        size_t bytes = ten_steps(devices[d], 4, 2e-5, &once);

        ten_steps(devices[d], 2, 2e-5, &pairs);
        ten_steps(devices[d], 1, 2e-5, &single);
        assert_memory_equal(once, pairs, bytes);
        assert_memory_equal(once, single, bytes);
        free(once);
        free(pairs);
        free(single);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_follows_peft),
        cmocka_unit_test(packed_examples_do_not_see_each_other),
        cmocka_unit_test(gguf_equals_its_hugging_face_twin),
        cmocka_unit_test(bitsandbytes_directories_are_mapped),
        cmocka_unit_test(cpu_fp32_follows_peft),
        cmocka_unit_test(cpu_bf16_is_near_peft),
        cmocka_unit_test(every_gradient_follows_finite_differences),
        cmocka_unit_test(ten_steps_follow_peft_and_micro_batches_never_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
