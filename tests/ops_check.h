/* The engine of test_ops.c: runs one op of every device over the same inputs and demands
 *   - the oracle's values within a tolerance (below),
 *   - the same bits for 1 and 3 threads, for each row alone as among others (where GEMMs are a library's, whose algorithm goes by the
 *     shape: values within the tolerance), and where an output buffer may be an input buffer,
 *   - every output element written, nothing behind a buffer or behind the scratch touched.
 * Devices that this machine lacks are skipped aloud. */
#ifndef PAWL_TESTS_OPS_CHECK_H
#define PAWL_TESTS_OPS_CHECK_H

#include "kernels/base/mem.h"
#include "kernels/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAX_TENSORS 14
#define MAX_ROWS 8
#define MAX_EXAMPLES 16
#define GUARD 256 /* bytes behind a buffer */

enum role { IN, OUT, INOUT };
enum kind { ACT, F32, I32, F64 };
enum span { TOKEN, ROW, ALL }; /* a job's row alone gets the part of its tokens, its own part, or the whole of a tensor */

struct tensor {
    const char *name;
    enum role role;
    enum kind kind;
    enum span span;
    int64_t width;     /* elements a token, a row, or in all */
    float scale;       /* an input without `given` is normal with this standard deviation */
    const void *given; /* float or int32_t */
    int terms;         /* an output: length of its sums */
    float units;       /* error of exp, rsqrt and the like in units of 2^-24; 0 stands for 4 */
    float size;        /* of what its sums come to where nothing cancels, if more than the output's own rms */
    float inner;       /* and how many roundings to act its terms have on the way; EXACT: all bits as the oracle's, rounded to act */
};

#define EXACT -1
#define NORMAL(n, k, s, w, deviation) {.name = n, .role = IN, .kind = k, .span = s, .width = w, .scale = deviation}
#define GIVEN(n, k, s, w, values) {.name = n, .role = IN, .kind = k, .span = s, .width = w, .given = values}
#define OUTPUT(n, k, s, w, sum, rounded) {.name = n, .role = OUT, .kind = k, .span = s, .width = w, .terms = sum, .inner = rounded}
#define UPDATED(n, k, s, w, deviation, values, rounded) \
    {.name = n, .role = INOUT, .kind = k, .span = s, .width = w, .scale = deviation, .given = values, .terms = 1, .inner = rounded}

struct rows {
    int n, T, examples;
    int32_t row_start[MAX_ROWS + 1], example_start[MAX_EXAMPLES + 1], pos[1024];
};

struct job {
    const char *name;
    struct dev_shapes shapes;
    struct rows rows;
    int64_t first_row;
    struct tensor t[MAX_TENSORS];
    struct weight W[3];
    void (*call)(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay);
    struct dropout drop;
    float s;
    int dims[6];                    /* for call */
    struct { int out, in; } alias[4]; /* the op may be given one buffer for both; pairs of 0, 0 are unused */
    float low_rank;                 /* roundings that a sum has more where its rank-r part is rounded first: the size of that part */
    /* Whether an output that differs is right all the same (argmax of almost equal logits). NULL: no. */
    bool (*forgive)(const struct job *j, int tensor, int64_t i, double got, float **ref);
};

/* ---- devices ---- */

static struct target {
    const char *device;
    enum dtype act;
    const char *isa;
    struct dev *dev[2]; /* by number of threads */
    bool library;       /* GEMMs by a library, see above; the rank-r part of a linear layer is one of its own */
} targets[] = {
    {"ref", DTYPE_F32, NULL, {0}, false},
    {"cpu", DTYPE_F32, "portable", {0}, false},
    {"cpu", DTYPE_BF16, "portable", {0}, false},
    {"cpu", DTYPE_F32, "avx2", {0}, false},
    {"cpu", DTYPE_BF16, "avx2", {0}, false},
    {"cpu", DTYPE_F32, "avx512", {0}, false},
    {"cpu", DTYPE_BF16, "avx512", {0}, false},
    {"cpu", DTYPE_F32, "avx512bf16", {0}, false},
    {"cpu", DTYPE_BF16, "avx512bf16", {0}, false},
    {"cuda", DTYPE_BF16, NULL, {0}, true},
};
static const char *only_device; /* the command line's: NULL for all */
static const int thread_counts[2] = {1, 3};
#define NTARGET (int)(sizeof targets / sizeof *targets)

static int open_targets(void **state)
{
    bool any = false;

    for (int i = 0; i < NTARGET; i++) {
        struct target *t = &targets[i];
        struct err err;

        if (only_device && strcmp(only_device, t->device)) continue;
        if (t->isa) setenv("PAWL_ISA", t->isa, 1);
        for (int k = 0; k < 2; k++)
            if (dev_open(&t->dev[k], t->device, t->act, thread_counts[k], &err) != PAWL_OK) {
                print_message("SKIPPED: %s %s %s: %s\n", t->device, t->isa ? t->isa : "", dtype_info[t->act].name, err.text);
                t->dev[k] = NULL;
                break;
            }
        unsetenv("PAWL_ISA");
        if (t->dev[0]) print_message("testing %s %s\n", t->dev[0]->name, dtype_info[t->act].name);
        any |= t->dev[0] != NULL;
    }
    if (!any) exit(77); /* skipped, for ctest */
    return 0;
}

static int close_targets(void **state)
{
    for (int i = 0; i < NTARGET; i++)
        for (int k = 0; k < 2; k++) dev_close(targets[i].dev[k]);
    return 0;
}

/* ---- inputs ---- */

/* Nearly normal, standard deviation 1. */
static float draw(uint32_t i, uint32_t stream)
{
    uint32_t w[4];

    philox4x32(w, rng_key(1234), i, stream, 0, 0);
    return (rng_unit(w[0]) + rng_unit(w[1]) + rng_unit(w[2]) + rng_unit(w[3]) - 2) * 1.7320508f;
}

/* Rows given as example lengths: {5, 0, 1, 3, 0, -1} is a row of one example and a row of two; 0 ends a row, -1 the list. */
static struct rows make_rows(const int *lengths)
{
    struct rows r = {0};

    for (; *lengths >= 0; lengths++) {
        if (*lengths == 0) {
            r.row_start[++r.n] = r.T;
            continue;
        }
        for (int i = 0; i < *lengths; i++) r.pos[r.T + i] = i;
        r.T += *lengths;
        r.example_start[++r.examples] = r.T;
    }
    assert_true(r.n <= MAX_ROWS && r.examples <= MAX_EXAMPLES && r.T <= 1024);
    return r;
}

/* Rows [from, to) as a layout of their own; starts is room for their borders. */
static struct layout part(const struct job *j, int from, int to, int32_t starts[MAX_ROWS + MAX_EXAMPLES + 2])
{
    const struct rows *r = &j->rows;
    int32_t t0 = r->row_start[from], *examples = starts + MAX_ROWS + 1;
    struct layout lay = {.T = r->row_start[to] - t0, .rows = to - from, .row_start = starts, .example_start = examples,
                         .pos = r->pos + t0, .first_row = j->first_row + from};

    for (int i = from; i <= to; i++) starts[i - from] = r->row_start[i] - t0;
    examples[0] = 0;
    for (int e = 0; e < r->examples; e++)
        if (r->example_start[e] >= t0 && r->example_start[e + 1] <= r->row_start[to]) examples[++lay.examples] = r->example_start[e + 1] - t0;
    return lay;
}

static int count_tensors(const struct job *j)
{
    int n = 0;

    while (n < MAX_TENSORS && j->t[n].name) n++;
    return n;
}

static int64_t elements(const struct job *j, const struct tensor *t)
{
    return t->width * (t->span == TOKEN ? j->rows.T : t->span == ROW ? j->rows.n : 1);
}

static size_t element_bytes(enum kind kind, enum dtype type)
{
    return kind == F64 ? 8 : kind == ACT && type == DTYPE_BF16 ? 2 : 4;
}

/* Values as the oracle takes them; of activations in bf16 only such values. */
static void *make_input(const struct job *j, int k, enum dtype type)
{
    const struct tensor *t = &j->t[k];
    int64_t n = elements(j, t);
    char *buf = xcalloc((size_t)n + 1, 8);

    if (t->role == OUT) {
        memset(buf, 0xff, (size_t)n * 8); /* NaN, -1 */
        return buf;
    }
    if (t->given) memcpy(buf, t->given, (size_t)n * 4);
    else
        for (int64_t i = 0; i < n; i++) ((float *)buf)[i] = t->scale * draw((uint32_t)i, (uint32_t)k);
    if (t->kind == ACT && type == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) ((float *)buf)[i] = bf16_to_f32(bf16_from_f32(((float *)buf)[i]));
    return buf;
}

/* ---- a device's copies ---- */

struct image {
    int n;
    void *p[MAX_TENSORS];        /* on the device */
    size_t bytes[MAX_TENSORS];   /* without the guard */
    char *initial[MAX_TENSORS];  /* bytes before a run, guard included */
    struct weight W[3];
    void *part[3][4];
    void *scratch;
    size_t scratch_bytes;
};

static void *put(struct dev *dev, const void *src, size_t bytes)
{
    void *p = dev->ops->alloc(dev, bytes);

    assert_non_null(p);
    dev->ops->upload(dev, p, src, bytes);
    return p;
}

static size_t weight_bytes(const struct weight *w)
{
    return w->type == DTYPE_NF4 || w->type == DTYPE_FP4 ? (size_t)(w->N * w->K + 1) / 2 : dtype_bytes(w->type, w->N * w->K);
}

static void put_weight(struct dev *dev, struct weight *to, void *parts[4], const struct weight *w)
{
    int64_t blocks = (w->N * w->K + NF4_BLOCK - 1) / NF4_BLOCK;

    *to = *w;
    if (!w->data) return;
    to->data = parts[0] = put(dev, w->data, weight_bytes(w));
    if (w->absmax) to->absmax = parts[1] = put(dev, w->absmax, (size_t)(w->type == DTYPE_INT8 ? w->N : blocks) * 4);
    if (w->absmax_q) {
        to->absmax_q = parts[1] = put(dev, w->absmax_q, (size_t)blocks);
        to->nested_absmax = parts[2] = put(dev, w->nested_absmax, (size_t)((blocks + NF4_NESTED - 1) / NF4_NESTED) * 4);
        to->nested_code = parts[3] = put(dev, w->nested_code, 256 * 4);
    }
}

static void image_make(struct image *im, const struct job *j, struct dev *dev, void **input)
{
    *im = (struct image){.n = count_tensors(j)};
    for (int k = 0; k < im->n; k++) {
        int64_t n = elements(j, &j->t[k]);
        bool half = j->t[k].kind == ACT && dev->act == DTYPE_BF16;

        im->bytes[k] = (size_t)n * element_bytes(j->t[k].kind, dev->act);
        im->initial[k] = xmalloc(im->bytes[k] + GUARD);
        memset(im->initial[k], 0xff, im->bytes[k] + GUARD);
        if (half && j->t[k].role != OUT)
            for (int64_t i = 0; i < n; i++) ((bf16 *)im->initial[k])[i] = bf16_from_f32(((float *)input[k])[i]);
        else memcpy(im->initial[k], input[k], im->bytes[k]);
        im->p[k] = put(dev, im->initial[k], im->bytes[k] + GUARD);
    }
    for (int i = 0; i < 3; i++) put_weight(dev, &im->W[i], im->part[i], &j->W[i]);
    im->scratch_bytes = dev->ops->scratch_bytes(dev, &j->shapes);
    im->scratch = dev->ops->alloc(dev, im->scratch_bytes + GUARD);
    assert_non_null(im->scratch);
}

static void image_drop(struct image *im, struct dev *dev)
{
    dev->ops->free(dev, im->scratch, im->scratch_bytes + GUARD);
    for (int k = 0; k < im->n; k++) {
        dev->ops->free(dev, im->p[k], im->bytes[k] + GUARD);
        free(im->initial[k]);
    }
    for (int i = 0; i < 3; i++) {
        int64_t blocks = (im->W[i].N * im->W[i].K + NF4_BLOCK - 1) / NF4_BLOCK;
        const size_t bytes[4] = {im->W[i].data ? weight_bytes(&im->W[i]) : 0,
                                 im->W[i].absmax_q ? (size_t)blocks : (size_t)(im->W[i].type == DTYPE_INT8 ? im->W[i].N : blocks) * 4,
                                 (size_t)((blocks + NF4_NESTED - 1) / NF4_NESTED) * 4, 256 * 4};

        for (int k = 0; k < 4; k++)
            if (im->part[i][k]) dev->ops->free(dev, im->part[i][k], bytes[k]);
    }
}

/* Runs rows [from, to). Where alias >= 0, that pair of tensors shares the input's buffer. out[k] is what the whole buffer of tensor k holds
 * afterwards. */
static void image_run(struct image *im, const struct job *j, struct dev *dev, int from, int to, int alias, char **out)
{
    int32_t starts[MAX_ROWS + MAX_EXAMPLES + 2];
    struct layout lay = part(j, from, to, starts);
    void *p[MAX_TENSORS], *buffer[MAX_TENSORS];
    char guard[GUARD];
    struct { const int32_t **at; int n; } arrays[] = {{&lay.row_start, lay.rows + 1}, {&lay.example_start, lay.examples + 1}, {&lay.pos, lay.T}};

    lay.host_row_start = lay.row_start;
    for (int k = 0; k < 3; k++) *arrays[k].at = put(dev, *arrays[k].at, (size_t)arrays[k].n * sizeof(int32_t));
    for (int k = 0; k < im->n; k++) {
        dev->ops->upload(dev, im->p[k], im->initial[k], im->bytes[k] + GUARD);
        buffer[k] = im->p[k];
    }
    if (alias >= 0) buffer[j->alias[alias].out] = im->p[j->alias[alias].in];
    for (int k = 0; k < im->n; k++) {
        int64_t skip = j->t[k].span == TOKEN ? j->rows.row_start[from] : j->t[k].span == ROW ? from : 0;

        p[k] = (char *)buffer[k] + (size_t)(skip * j->t[k].width) * element_bytes(j->t[k].kind, dev->act);
    }

    memset(guard, 0xff, sizeof guard);
    dev->scratch_bytes = im->scratch_bytes;
    dev->scratch = im->scratch;
    dev->ops->upload(dev, (char *)dev->scratch + dev->scratch_bytes, guard, GUARD);
    j->call(j, dev, p, im->W, &lay);
    dev->ops->download(dev, guard, (char *)dev->scratch + dev->scratch_bytes, GUARD);
    for (int i = 0; i < GUARD; i++)
        if ((uint8_t)guard[i] != 0xff) fail_msg("%s on %s: writes behind its scratch", j->name, dev->name);
    dev->scratch = NULL;
    for (int k = 0; k < 3; k++) dev->ops->free(dev, (void *)*arrays[k].at, (size_t)arrays[k].n * sizeof(int32_t));

    for (int k = 0; k < im->n; k++) {
        dev->ops->download(dev, out[k], buffer[k], im->bytes[k] + GUARD);
        for (int i = 0; i < GUARD; i++)
            if ((uint8_t)out[k][im->bytes[k] + (size_t)i] != 0xff) fail_msg("%s on %s: writes behind tensor %s", j->name, dev->name, j->t[k].name);
        if (j->t[k].role == IN && alias < 0 && memcmp(out[k], im->initial[k], im->bytes[k]) != 0)
            fail_msg("%s on %s: changes its input %s", j->name, dev->name, j->t[k].name);
    }
}

/* ---- comparing ---- */

static double value_at(enum kind kind, enum dtype type, const void *buf, int64_t i)
{
    switch (kind) {
    case I32: return ((const int32_t *)buf)[i];
    case F64: return ((const double *)buf)[i];
    case F32: return ((const float *)buf)[i];
    default: return type == DTYPE_BF16 ? bf16_to_f32(((const bf16 *)buf)[i]) : ((const float *)buf)[i];
    }
}

/* An element may differ by
 *   its own rounding, half a unit of its type (2^-8 of a bf16, 2^-24 of an fp32), and some units of fp32 for exp, rsqrt and the like;
 *   roundings to bf16 on the way, `inner` of them: of a factor of the element, 2^-8 of it each; of the terms of its sum, each of a deviation
 *   of some 2^-9 of the term. The errors of terms add up as the terms do, so the sum is off by a normal number of deviation inner 2^-9 rms;
 *   6 deviations for the worst of a million elements;
 *   fp32 sums in another order, of terms that carry those units: units + 2 sqrt(terms) times 2^-24 of the rms. */
static double tolerance(const struct tensor *t, enum dtype type, double want, double size, double inner)
{
    bool half = type == DTYPE_BF16;
    double own = half && t->kind == ACT ? 0x1p-8 : 0x1p-24, factor = half ? 0x1p-8 : 0x1p-24, term = half ? 0x1p-9 : 0x1p-24;
    double units = (t->units > 0 ? t->units : 4) * 0x1p-24;

    return (1.01 * own + inner * factor + units) * fabs(want) + 6 * inner * term * size +
           (units + 2 * sqrt(t->terms) * 0x1p-24) * fmax(size, t->size);
}

static double rms(const struct tensor *t, const void *buf, int64_t from, int64_t n)
{
    double sum = 0;

    for (int64_t i = from; i < from + n; i++) sum += value_at(t->kind, DTYPE_F32, buf, i) * value_at(t->kind, DTYPE_F32, buf, i);
    return sqrt(sum / (double)n);
}

/* Rows [from, to) of the outputs are the oracle's. */
static void compare(const struct job *j, const struct target *target, struct dev *dev, char **out, float **ref, int from, int to)
{
    for (int k = 0; k < count_tensors(j); k++) {
        const struct tensor *t = &j->t[k];
        int64_t n = elements(j, t);
        int64_t begin = t->width * (t->span == TOKEN ? j->rows.row_start[from] : t->span == ROW ? from : 0);
        int64_t end = t->width * (t->span == TOKEN ? j->rows.row_start[to] : t->span == ROW ? to : 1);
        double worst = 0, rms_of_all = rms(t, ref[k], 0, n), near = rms_of_all, inner = t->inner + (target->library && t->kind == ACT ? j->low_rank : 0);

        if (t->role == IN || (t->span == ALL && (from > 0 || to < j->rows.n))) continue;
        for (int64_t i = begin; i < end; i++) {
            double want = value_at(t->kind, DTYPE_F32, ref[k], i), got = value_at(t->kind, dev->act, out[k], i);
            if (t->width >= 16 && i % t->width == 0) near = fmax(rms_of_all, rms(t, ref[k], i, t->width)); /* some tokens are larger than others */
            double allowed = t->kind == I32 ? 0 : tolerance(t, dev->act, want, near, inner);

            if (t->inner < 0) {
                if (t->kind == ACT && dev->act == DTYPE_BF16) want = bf16_to_f32(bf16_from_f32((float)want));
                allowed = 0;
            }
            if (fabs(got - want) <= allowed || (j->forgive && j->forgive(j, k, i, got, ref))) {
                if (allowed > 0) worst = fmax(worst, fabs(got - want) / allowed);
                continue;
            }
            fail_msg("%s on %s %s: %s[%lld] (of %lld, %lld a token) is %.9g, expected %.9g, differs by %.3g, allowed %.3g", j->name, dev->name,
                     dtype_info[dev->act].name, t->name, (long long)i, (long long)n, (long long)t->width, got, want, fabs(got - want), allowed);
        }
        if (getenv("PAWL_TEST_VERBOSE"))
            print_message("%s on %s %s: %s at %.2f of its tolerance\n", j->name, dev->name, dtype_info[dev->act].name, t->name, worst);
    }
}

/* Rows [from, to) of the outputs have the same bits. */
static void same_bits(const struct job *j, struct dev *dev, char **a, char **b, int from, int to, const char *how)
{
    for (int k = 0; k < count_tensors(j); k++) {
        const struct tensor *t = &j->t[k];
        int64_t begin = t->span == TOKEN ? j->rows.row_start[from] : t->span == ROW ? from : 0;
        int64_t end = t->span == TOKEN ? j->rows.row_start[to] : t->span == ROW ? to : 1;
        size_t size = element_bytes(t->kind, dev->act);

        if (t->role == IN || (t->span == ALL && (from > 0 || to < j->rows.n))) continue;
        for (int64_t i = begin * t->width; i < end * t->width; i++)
            if (memcmp(a[k] + (size_t)i * size, b[k] + (size_t)i * size, size) != 0)
                fail_msg("%s on %s %s: %s[%lld] is %.9g, and %.9g %s", j->name, dev->name, dtype_info[dev->act].name, t->name, (long long)i,
                         value_at(t->kind, dev->act, a[k], i), value_at(t->kind, dev->act, b[k], i), how);
    }
}

static void check_on_target(const struct job *j, struct target *target, void **input, float **ref)
{
    char *first[MAX_TENSORS] = {0}, *again[MAX_TENSORS] = {0};
    struct image im;

    for (int k = 0; k < 2; k++) {
        struct dev *dev = target->dev[k];

        image_make(&im, j, dev, input);
        for (int i = 0; i < im.n && k == 0; i++) {
            first[i] = xmalloc(im.bytes[i] + GUARD);
            again[i] = xmalloc(im.bytes[i] + GUARD);
        }
        image_run(&im, j, dev, 0, j->rows.n, -1, k == 0 ? first : again);
        if (k == 0) compare(j, target, dev, first, ref, 0, j->rows.n);
        else same_bits(j, dev, first, again, 0, j->rows.n, "with another number of threads");
        if (k == 0) {
            for (int from = 0; from < j->rows.n; from++) {
                image_run(&im, j, dev, from, from + 1, -1, again);
                if (target->library) compare(j, target, dev, again, ref, from, from + 1);
                else same_bits(j, dev, first, again, from, from + 1, "with its row alone");
            }
            if (j->rows.n > 2) {
                image_run(&im, j, dev, 1, j->rows.n, -1, again);
                if (target->library) compare(j, target, dev, again, ref, 1, j->rows.n);
                else same_bits(j, dev, first, again, 1, j->rows.n, "without the first row");
            }
            for (int a = 0; a < 4 && j->alias[a].out != j->alias[a].in; a++) {
                image_run(&im, j, dev, 0, j->rows.n, a, again);
                same_bits(j, dev, first, again, 0, j->rows.n, "in the buffer of an input");
            }
        }
        image_drop(&im, dev);
    }
    for (int i = 0; i < MAX_TENSORS; i++) {
        free(first[i]);
        free(again[i]);
    }
}

/* Runs the job's op on the oracle and on every device, and compares. */
static void check_job(const struct job *j)
{
    static const enum dtype acts[] = {DTYPE_F32, DTYPE_BF16};
    int n = count_tensors(j);

    for (int a = 0; a < 2; a++) {
        struct dev oracle = {.ops = &ref_ops, .name = "the oracle", .act = DTYPE_F32, .threads = 1};
        void *input[MAX_TENSORS];
        char *ref[MAX_TENSORS];
        struct image im;
        bool wanted = false;

        for (int i = 0; i < NTARGET; i++) wanted |= targets[i].act == acts[a] && targets[i].dev[0];
        if (!wanted) continue;
        for (int k = 0; k < n; k++) input[k] = make_input(j, k, acts[a]);
        image_make(&im, j, &oracle, input);
        for (int k = 0; k < n; k++) ref[k] = xmalloc(im.bytes[k] + GUARD);
        image_run(&im, j, &oracle, 0, j->rows.n, -1, ref);
        image_drop(&im, &oracle);
        for (int i = 0; i < NTARGET; i++)
            if (targets[i].act == acts[a] && targets[i].dev[0]) check_on_target(j, &targets[i], input, (float **)ref);
        for (int k = 0; k < n; k++) {
            free(input[k]);
            free(ref[k]);
        }
    }
}

/* ---- weights ---- */

/* Where a GGUF block keeps its f16 scales, and the largest code that they multiply. */
static const struct scales { int at[2]; float largest; } scales_of[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = {{0, 0}, 8},     [DTYPE_Q4_1] = {{0, 2}, 15},    [DTYPE_Q5_0] = {{0, 0}, 16},     [DTYPE_Q5_1] = {{0, 2}, 31},
    [DTYPE_Q8_0] = {{0, 0}, 127},   [DTYPE_Q2_K] = {{80, 82}, 45},  [DTYPE_Q3_K] = {{108, 108}, 128}, [DTYPE_Q4_K] = {{0, 2}, 945},
    [DTYPE_Q5_K] = {{0, 2}, 1953},  [DTYPE_Q6_K] = {{208, 208}, 4096},
};

/* Parts of weights and given inputs, freed at the end. */
static void *keep[1024];
static int kept;

static void *kept_buffer(size_t bytes)
{
    assert_true(kept < (int)(sizeof keep / sizeof *keep));
    return keep[kept++] = xcalloc(1, bytes ? bytes : 1);
}

static int free_kept(void **state)
{
    while (kept > 0) free(keep[--kept]);
    return 0;
}

/* A random (N, K) of any type, of size 1 / sqrt(K) or so. */
static struct weight make_weight(enum dtype type, int64_t N, int64_t K, bool nested)
{
    struct weight w = {.type = type, .N = N, .K = K};
    size_t bytes = weight_bytes(&w);
    uint8_t *data = kept_buffer(bytes);
    int64_t blocks = (N * K + NF4_BLOCK - 1) / NF4_BLOCK;
    float size = 1 / sqrtf((float)K);

    w.data = data;
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t u[4];

        philox4x32(u, rng_key((uint64_t)type), (uint32_t)i, 99, 0, 0);
        memcpy(data + i, u, bytes - i < 4 ? bytes - i : 4);
    }
    if (type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16)
        for (int64_t i = 0; i < N * K; i++) {
            float x = size * draw((uint32_t)i, 77);

            if (type == DTYPE_F32) ((float *)data)[i] = x;
            else if (type == DTYPE_F16) ((f16 *)data)[i] = f16_from_f32(x);
            else ((bf16 *)data)[i] = bf16_from_f32(x);
        }
    if (scales_of[type].largest > 0)
        for (size_t b = 0; b < bytes / (size_t)dtype_info[type].bytes; b++)
            for (int k = 0; k < 2; k++) {
                f16 h = f16_from_f32(size * (1 + 0.3f * draw((uint32_t)b, 78 + (uint32_t)k)) / scales_of[type].largest);

                memcpy(data + b * (size_t)dtype_info[type].bytes + scales_of[type].at[k], &h, sizeof h);
            }
    if (type == DTYPE_INT8 || ((type == DTYPE_NF4 || type == DTYPE_FP4) && !nested)) {
        int64_t n = type == DTYPE_INT8 ? N : blocks;
        float *absmax = kept_buffer((size_t)n * 4);

        for (int64_t i = 0; i < n; i++) absmax[i] = size * (2 + 0.3f * draw((uint32_t)i, 80));
        w.absmax = absmax;
    } else if (type == DTYPE_NF4 || type == DTYPE_FP4) {
        uint8_t *q = kept_buffer((size_t)blocks);
        float *outer = kept_buffer((size_t)(blocks / NF4_NESTED + 1) * 4);

        for (int64_t i = 0; i < blocks; i++) q[i] = (uint8_t)(i * 37);
        for (int64_t i = 0; i <= blocks / NF4_NESTED; i++) outer[i] = size * (0.5f + 0.1f * draw((uint32_t)i, 81));
        w.absmax_q = q;
        w.nested_absmax = outer;
        w.nested_code = quant_dynamic_code;
        w.nested_offset = 2 * size;
    }
    return w;
}

#endif
