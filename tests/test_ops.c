/* Every op of every device against kernels/ref, over odd shapes; what is demanded stands in ops_check.h. */
#include "tests/ops_check.h"

#include "kernels/base/fmath.h"

#include <math.h>
#include <unistd.h>

#define EPS 1e-5f

static const int one_token[] = {1, 0, -1}, plain[] = {130, 0, -1}, nothing[] = {-1};
static const int packed[] = {17, 1, 33, 0, 64, 0, 5, 5, 5, 31, 0, 2, 0, -1};
static const int *const layouts[] = {one_token, plain, packed, nothing};
#define NLAYOUT 4

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static const float *positive(int64_t n, float low)
{
    float *x = kept_buffer((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++) x[i] = low + fabsf(draw((uint32_t)i, 50));
    return x;
}

static const float *normal(int64_t n, float scale, uint32_t stream)
{
    float *x = kept_buffer((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++) x[i] = bf16_to_f32(bf16_from_f32(scale * draw((uint32_t)i, stream)));
    return x;
}

static const int32_t *below(int64_t n, int limit)
{
    int32_t *x = kept_buffer((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];

        philox4x32(w, rng_key(5), (uint32_t)i, (uint32_t)limit, 0, 0);
        x[i] = (int32_t)(w[0] % (uint32_t)limit);
    }
    return x;
}

/* ---- norms ---- */

static void call_rmsnorm(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->rmsnorm(dev, p[0], j->dims[1] ? NULL : p[3], p[1], p[2], lay->T, j->dims[0], EPS);
}

static void call_add_rmsnorm(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->add_rmsnorm(dev, p[0], p[3], p[4], p[1], p[5], p[2], lay->T, j->dims[0], EPS);
}

static void call_rmsnorm_backward(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->rmsnorm_backward(dev, p[0], j->dims[1] ? NULL : p[1], p[2], p[3], p[4], p[5], lay->T, j->dims[0]);
}

static void norms_agree(void **state)
{
    static const int widths[] = {1, 7, 64, 100, 576, 1000};

    for (int i = 0; i < 6; i++)
        for (int l = 0; l < NLAYOUT; l++) {
            int C = widths[i];
            struct rows rows = make_rows(layouts[l]);
            struct dev_shapes shapes = {.T = rows.T, .C = C, .F = C, .H = 1, .G = 1, .D = C, .V = 1};
            struct job norm = {"rmsnorm", shapes, rows, 0,
                {OUTPUT("y", ACT, TOKEN, C, C, 0), NORMAL("x", ACT, TOKEN, C, 2), NORMAL("w", F32, ALL, C, 1), OUTPUT("rstd", F32, TOKEN, 1, C, 0)},
                .call = call_rmsnorm, .dims = {C, 0}, .alias = {{0, 1}}};
            struct job add = {"add_rmsnorm", shapes, rows, 0,
                {OUTPUT("y", ACT, TOKEN, C, C, 1), NORMAL("x", ACT, TOKEN, C, 2), NORMAL("w", F32, ALL, C, 1), OUTPUT("rstd", F32, TOKEN, 1, C, 1),
                 OUTPUT("sum", ACT, TOKEN, C, 1, 0), NORMAL("d", ACT, TOKEN, C, 0.5f)},
                .call = call_add_rmsnorm, .dims = {C}, .alias = {{4, 1}, {4, 5}}};
            struct job back = {"rmsnorm_backward", shapes, rows, 0,
                {OUTPUT("dx", ACT, TOKEN, C, C, 0), NORMAL("base", ACT, TOKEN, C, 1), NORMAL("dy", ACT, TOKEN, C, 1), NORMAL("x", ACT, TOKEN, C, 1),
                 NORMAL("w", F32, ALL, C, 1), GIVEN("rstd", F32, TOKEN, 1, positive(rows.T, 0.3f))},
                .call = call_rmsnorm_backward, .dims = {C, 0}, .alias = {{0, 1}, {0, 2}}};

            check_job(&norm);
            check_job(&add);
            check_job(&back);
            norm.dims[1] = 1, norm.t[3].name = NULL;
            back.dims[1] = 1, back.alias[0].in = 2, back.alias[1] = back.alias[2];
            check_job(&norm);
            check_job(&back);
        }
}

/* The sum that is normalised is the rounded one: y of add_rmsnorm is y of rmsnorm on that sum. */
static void add_rmsnorm_reads_its_rounded_sum(void **state)
{
    enum { T = 9, C = 100 };

    for (int i = 0; i < NTARGET; i++) {
        struct dev *dev = targets[i].dev[0];
        size_t bytes = T * C * element_bytes(ACT, targets[i].act);
        char x[T * C * 4], y1[T * C * 4], y2[T * C * 4], sum[T * C * 4];
        float w[C];
        void *p[5];

        if (!dev) continue;
        for (int k = 0; k < T * C; k++) {
            float v = draw((uint32_t)k, 3);

            if (dev->act == DTYPE_BF16) ((bf16 *)x)[k] = bf16_from_f32(v);
            else ((float *)x)[k] = v;
        }
        for (int k = 0; k < C; k++) w[k] = draw((uint32_t)k, 4);
        for (int k = 0; k < 4; k++) p[k] = put(dev, x, bytes);
        p[4] = put(dev, w, sizeof w);
        dev->ops->add_rmsnorm(dev, p[0], NULL, p[1], p[2], p[3], p[4], T, C, EPS);
        dev->ops->download(dev, y1, p[0], bytes);
        dev->ops->download(dev, sum, p[1], bytes);
        dev->ops->upload(dev, p[2], sum, bytes);
        dev->ops->rmsnorm(dev, p[3], NULL, p[2], p[4], T, C, EPS);
        dev->ops->download(dev, y2, p[3], bytes);
        assert_memory_equal(y1, y2, bytes);
        for (int k = 0; k < 5; k++) dev->ops->free(dev, p[k], k < 4 ? bytes : sizeof w);
    }
}

/* ---- linear layers ---- */

/* A bf16 device rounds what its type does not hold. */
static float inner_of(enum dtype type)
{
    return type != DTYPE_BF16;
}

static struct dev_shapes linear_shapes(int T, int64_t K, int64_t N, int r)
{
    return (struct dev_shapes){.T = T, .C = (int)K, .F = (int)N, .H = 1, .G = 1, .D = 16, .V = 16, .r = r};
}

static void call_linear(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    int r = j->dims[0];

    dev->ops->linear(dev, p[0], p[1], &W[0], j->dims[1] ? p[2] : NULL, r ? p[3] : NULL, r ? p[4] : NULL, lay->T, r);
}

static void check_linear(struct weight W, int r, bool bias, const int *lengths)
{
    int K = (int)W.K, N = (int)W.N;
    struct rows rows = make_rows(lengths);
    struct job j = {"linear", linear_shapes(rows.T, K, N, r), rows, 0,
        {OUTPUT("y", ACT, TOKEN, N, K + r, inner_of(W.type)), NORMAL("x", ACT, TOKEN, K, 1), NORMAL("bias", F32, ALL, N, 1),
         NORMAL("h", ACT, TOKEN, r, 0.3f), NORMAL("B", ACT, ALL, (int64_t)N * r, 0.3f)},
        .W = {W}, .call = call_linear, .dims = {r, bias}, .low_rank = 0.18f * sqrtf((float)r)};
    char name[64];

    snprintf(name, sizeof name, "linear %s K %d N %d r %d", dtype_info[W.type].name, K, N, r);
    j.name = name;
    check_job(&j);
}

static void call_linear_backward(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    struct linear_term terms[3];
    int n = j->dims[0], r = j->dims[1];

    for (int i = 0; i < n; i++) {
        terms[i] = (struct linear_term){.dy = p[1 + 3 * i], .W = &W[i], .r = r, .drop = j->drop};
        if (r) terms[i].u = p[2 + 3 * i], terms[i].A = p[3 + 3 * i];
        terms[i].drop.key = rng_derive(j->drop.key, (uint32_t)i, 0, 0);
    }
    dev->ops->linear_backward(dev, p[0], terms, n, lay);
}

static void check_linear_backward(const struct weight *W, int n, int r, float p, const int *lengths)
{
    int K = (int)W[0].K, N = 0;
    struct rows rows = make_rows(lengths);
    struct job j = {"linear_backward", {0}, rows, 1000, {{0}}, .call = call_linear_backward, .dims = {n, r}, .drop = {p, rng_key(77)},
        .low_rank = 0.18f * sqrtf((float)r) / (1 - p)};
    char name[64];

    for (int i = 0; i < n; i++) {
        N = max_int(N, (int)W[i].N);
        j.W[i] = W[i];
        j.t[1 + 3 * i] = (struct tensor)NORMAL("dy", ACT, TOKEN, W[i].N, 1);
        j.t[2 + 3 * i] = (struct tensor)NORMAL("u", ACT, TOKEN, r, 0.3f);
        j.t[3 + 3 * i] = (struct tensor)NORMAL("A", ACT, ALL, (int64_t)K * r, 0.3f);
    }
    j.t[0] = (struct tensor)OUTPUT("dx", ACT, TOKEN, K, n * (N + r), inner_of(W[0].type));
    j.shapes = linear_shapes(rows.T, K, N, r);
    snprintf(name, sizeof name, "linear_backward %s K %d N %d r %d terms %d p %g", dtype_info[W[0].type].name, K, (int)W[0].N, r, n, p);
    j.name = name;
    check_job(&j);
}

static const int three_rows[] = {20, 3, 0, 7, 0, 1, 0, -1};

static void linear_reads_every_weight_format(void **state)
{
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int nested = 0; nested < 2; nested++) {
            if (!weight_readable(t) || (nested && t != DTYPE_NF4 && t != DTYPE_FP4)) continue;
            struct weight W = make_weight(t, 40, 256, nested);

            check_linear(W, 4, false, three_rows);
            check_linear_backward(&W, 1, 4, 0, three_rows);
            W.interleaved = 8; /* five heads */
            check_linear(W, 0, true, three_rows);
            check_linear_backward(&W, 1, 0, 0, three_rows);
        }
}

static void linear_takes_odd_shapes(void **state)
{
    static const struct { enum dtype type; int K, N; } shapes[] = {
        {DTYPE_BF16, 1, 1},   {DTYPE_F32, 33, 17},  {DTYPE_BF16, 100, 130}, {DTYPE_F16, 576, 192}, {DTYPE_NF4, 36, 5},   {DTYPE_NF4, 100, 48},
        {DTYPE_NF4, 33, 7},   {DTYPE_NF4, 192, 65}, {DTYPE_Q4_1, 96, 33},   {DTYPE_Q8_0, 160, 9},  {DTYPE_INT8, 50, 11}, {DTYPE_F32, 512, 15},
        {DTYPE_BF16, 31, 514},
    };
    static const int ranks[] = {0, 1, 3, 8, 16, 33};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct weight W = make_weight(shapes[i].type, shapes[i].N, shapes[i].K, i % 2);
        int r = ranks[i % 6];

        for (int l = 0; l < NLAYOUT; l++) {
            check_linear(W, r, i % 3 == 0, layouts[l]);
            check_linear_backward(&W, 1, r, i % 2 ? 0.1f : 0, layouts[l]);
        }
    }
}

static void linear_backward_sums_terms(void **state)
{
    struct weight qkv[3] = {make_weight(DTYPE_NF4, 96, 64, true), make_weight(DTYPE_NF4, 32, 64, true), make_weight(DTYPE_Q4_0, 32, 64, false)};
    struct weight gate_up[2] = {make_weight(DTYPE_BF16, 170, 100, false), make_weight(DTYPE_BF16, 170, 100, false)};

    for (int l = 0; l < NLAYOUT; l++) {
        check_linear_backward(qkv, 3, 8, 0, layouts[l]);
        check_linear_backward(qkv, 3, 8, 0.25f, layouts[l]);
        check_linear_backward(qkv, 3, 0, 0, layouts[l]);
        check_linear_backward(gate_up, 2, 5, 0.1f, layouts[l]);
    }
}

static void call_lora_down(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->lora_down(dev, p[0], p[1], p[2], j->s, j->drop, lay, j->dims[0], j->dims[1]);
}

static void call_lora_up_backward(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->lora_up_backward(dev, p[0], p[1], p[2], j->s, lay->T, j->dims[0], j->dims[1]);
}

static void call_lora_grad(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    int64_t N = j->dims[0], K = j->dims[1], r = j->dims[2];

    for (int row = 0; row < lay->rows; row++)
        dev->ops->lora_grad(dev, (float *)p[0] + row * r * K, (float *)p[1] + row * N * r, p[2], p[3], p[4], p[5], j->drop, lay, row,
                            (int)N, (int)K, (int)r);
}

static void lora_agrees(void **state)
{
    static const struct { int N, K, r; float p; } cases[] = {
        {64, 64, 8, 0}, {65, 33, 1, 0.1f}, {30, 100, 3, 0.5f}, {192, 576, 16, 0}, {100, 100, 16, 0.05f}, {17, 130, 33, 0.25f}, {5, 2, 64, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int l = 0; l < NLAYOUT; l++) {
            int N = cases[i].N, K = cases[i].K, r = cases[i].r;
            float p = cases[i].p;
            struct rows rows = make_rows(layouts[l]);
            struct dev_shapes shapes = linear_shapes(rows.T, K, N, r);
            struct dropout drop = {p, rng_key(3)};
            struct job down = {"lora_down", shapes, rows, 7,
                {OUTPUT("h", ACT, TOKEN, r, K, p > 0), NORMAL("x", ACT, TOKEN, K, 1), NORMAL("A", ACT, ALL, (int64_t)r * K, 0.2f)},
                .call = call_lora_down, .drop = drop, .s = 2, .dims = {K, r}};
            struct job up = {"lora_up_backward", shapes, rows, 7,
                {OUTPUT("u", ACT, TOKEN, r, N, 0), NORMAL("dy", ACT, TOKEN, N, 1), NORMAL("B", ACT, ALL, (int64_t)N * r, 0.2f)},
                .call = call_lora_up_backward, .s = 0.7f, .dims = {N, r}};
            struct job grad = {"lora_grad", shapes, rows, 7,
                {OUTPUT("dA", F32, ROW, (int64_t)r * K, rows.T, p > 0), OUTPUT("dB", F32, ROW, (int64_t)N * r, rows.T, 0),
                 NORMAL("dy", ACT, TOKEN, N, 1), NORMAL("h", ACT, TOKEN, r, 1), NORMAL("u", ACT, TOKEN, r, 1), NORMAL("x", ACT, TOKEN, K, 1)},
                .call = call_lora_grad, .drop = drop, .dims = {N, K, r}};

            check_job(&down);
            check_job(&up);
            check_job(&grad);
        }
}

/* ---- attention ---- */

static void call_rope(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->rope(dev, p[0], p[1], p[2], lay->pos, lay->T, j->dims[0], j->dims[1], j->dims[2]);
}

static void rope_agrees(void **state)
{
    static const int sizes[] = {2, 16, 32, 64, 80, 96, 128};

    for (int i = 0; i < 7; i++)
        for (int l = 0; l < NLAYOUT; l++)
            for (int inverse = 0; inverse < 2; inverse++) {
                int D = sizes[i], heads = 1 + i % 3;
                struct rows rows = make_rows(layouts[l]);
                float *cos = kept_buffer((size_t)(D / 2) * 130 * sizeof *cos), *sin = kept_buffer((size_t)(D / 2) * 130 * sizeof *sin);
                struct job j = {"rope", {.T = rows.T, .C = D, .F = D, .H = heads, .G = heads, .D = D, .V = 1}, rows, 0,
                    {UPDATED("x", ACT, TOKEN, heads * D, 1, NULL, 0), GIVEN("cos", F32, ALL, D / 2 * 130, cos),
                     GIVEN("sin", F32, ALL, D / 2 * 130, sin)},
                    .call = call_rope, .dims = {heads, D, inverse}};

                for (int k = 0; k < D / 2 * 130; k++) {
                    double angle = k / (D / 2) * fm_pow(10000, -2.0 * (k % (D / 2)) / D);
                    cos[k] = (float)fm_cos(angle), sin[k] = (float)fm_sin(angle);
                }
                check_job(&j);
            }
}

static void call_attention(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->attention(dev, p[0], j->dims[3] ? NULL : p[4], p[1], p[2], p[3], lay, j->dims[0], j->dims[1], j->dims[2]);
}

static void call_attention_backward(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->attention_backward(dev, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], lay, j->dims[0], j->dims[1], j->dims[2]);
}

static void attention_agrees(void **state)
{
    static const struct { int H, G, D; } cases[] = {{1, 1, 16}, {2, 2, 32}, {9, 3, 64}, {4, 1, 80}, {3, 1, 96}, {2, 1, 128}, {8, 2, 16}, {2, 1, 20}, {2, 1, 160}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int l = 0; l < NLAYOUT; l++) {
            int H = cases[i].H, G = cases[i].G, D = cases[i].D;
            struct rows rows = make_rows(layouts[l]);
            struct dev_shapes shapes = {.T = rows.T, .C = H * D, .F = H * D, .H = H, .G = G, .D = D, .V = 1};
            const float *q = normal((int64_t)rows.T * H * D, 1.5f, 60);
            const float *k = normal((int64_t)rows.T * G * D, 1, 61), *v = normal((int64_t)rows.T * G * D, 1, 62);
            float *o = kept_buffer((size_t)rows.T * (size_t)(H * D) * sizeof *o), *lse = kept_buffer((size_t)rows.T * (size_t)H * sizeof *lse);
            struct job fwd = {"attention", shapes, rows, 0,
                {OUTPUT("o", ACT, TOKEN, H * D, rows.T, 1), GIVEN("q", ACT, TOKEN, H * D, q),
                 GIVEN("k", ACT, TOKEN, G * D, k), GIVEN("v", ACT, TOKEN, G * D, v), OUTPUT("lse", F32, TOKEN, H, D, 0)},
                .call = call_attention, .dims = {H, G, D, 0}};
            struct job back = {"attention_backward", shapes, rows, 0,
                {OUTPUT("dq", ACT, TOKEN, H * D, rows.T, 2), OUTPUT("dk", ACT, TOKEN, G * D, rows.T * H / G, 2),
                 OUTPUT("dv", ACT, TOKEN, G * D, rows.T * H / G, 1), NORMAL("dout", ACT, TOKEN, H * D, 1),
                 GIVEN("q", ACT, TOKEN, H * D, q), GIVEN("k", ACT, TOKEN, G * D, k), GIVEN("v", ACT, TOKEN, G * D, v),
                 GIVEN("o", ACT, TOKEN, H * D, o), GIVEN("lse", F32, TOKEN, H, lse)},
                .call = call_attention_backward, .dims = {H, G, D}};
            int32_t starts[MAX_ROWS + MAX_EXAMPLES + 2];
            struct layout lay = part(&fwd, 0, rows.n, starts);

            back.t[0].size = back.t[1].size = 4; /* dp - delta is 0 where a token sees itself alone, and is multiplied by numbers up to 4 */
            for (int t = 0; t < 3; t++) back.t[t].units = 16; /* of exp(s - lse) with s and lse up to 10 */
            fwd.t[0].units = 16;
            ref_ops.attention(NULL, o, lse, q, k, v, &lay, H, G, D);
            check_job(&fwd);
            check_job(&back);
            fwd.dims[3] = 1, fwd.t[4].name = NULL;
            if (l == 2) check_job(&fwd);
        }
}

static void call_attention_decode(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->attention_decode(dev, p[0], p[1], p[2], p[3], p[4], p[5], lay->T, j->dims[3], j->dims[0], j->dims[1], j->dims[2]);
}

static void attention_decode_agrees(void **state)
{
    enum { CAP = 150, SEQUENCES = 4 };
    static const struct { int H, G, D; } cases[] = {{1, 1, 16}, {9, 3, 64}, {4, 1, 80}, {2, 1, 128}, {2, 1, 160}};
    static const int tokens[] = {1, 0, 1, 0, 3, 0, -1};
    static const int32_t sequence[] = {0, 3, 1, 0, 2}, len[] = {1, 150, 37, 64, 16};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int H = cases[i].H, G = cases[i].G, D = cases[i].D;
        struct job j = {"attention_decode", {.T = 5, .C = H * D, .F = H * D, .H = H, .G = G, .D = D, .V = 1}, make_rows(tokens), 0,
            {OUTPUT("o", ACT, TOKEN, H * D, CAP, 1), NORMAL("q", ACT, TOKEN, H * D, 1.5f), NORMAL("k", ACT, ALL, SEQUENCES * CAP * G * D, 1),
             NORMAL("v", ACT, ALL, SEQUENCES * CAP * G * D, 1), GIVEN("sequence", I32, TOKEN, 1, sequence), GIVEN("len", I32, TOKEN, 1, len)},
            .call = call_attention_decode, .dims = {H, G, D, CAP}};

        j.t[0].units = 16; /* of exp(s - max), as attention */
        check_job(&j);
    }
}

/* ---- element by element, and whole rows ---- */

static void call_swiglu(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->swiglu(dev, p[0], p[1], p[2], (int64_t)lay->T * j->dims[0]);
}

static void call_swiglu_backward(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->swiglu_backward(dev, p[0], p[1], j->dims[1] ? NULL : p[5], p[2], p[3], p[4], (int64_t)lay->T * j->dims[0]);
}

static void swiglu_agrees(void **state)
{
    static const int widths[] = {1, 7, 160, 333};

    for (int i = 0; i < 4; i++)
        for (int l = 0; l < NLAYOUT; l++) {
            int F = widths[i];
            struct rows rows = make_rows(layouts[l]);
            struct dev_shapes shapes = {.T = rows.T, .C = F, .F = F, .H = 1, .G = 1, .D = F, .V = 1};
            float scale = i == 2 ? 40 : 2; /* 40: far beyond where e^-g leaves fp32 */
            struct job fwd = {"swiglu", shapes, rows, 0,
                {OUTPUT("y", ACT, TOKEN, F, 1, 0), NORMAL("gate", ACT, TOKEN, F, scale), NORMAL("up", ACT, TOKEN, F, 1)},
                .call = call_swiglu, .dims = {F}, .alias = {{0, 1}, {0, 2}}};
            struct job back = {"swiglu_backward", shapes, rows, 0,
                {OUTPUT("dgate", ACT, TOKEN, F, 1, 0), OUTPUT("dup", ACT, TOKEN, F, 1, 0), NORMAL("dy", ACT, TOKEN, F, 1),
                 NORMAL("gate", ACT, TOKEN, F, scale), NORMAL("up", ACT, TOKEN, F, 1), OUTPUT("y", ACT, TOKEN, F, 1, 0)},
                .call = call_swiglu_backward, .dims = {F, 0}, .alias = {{0, 3}, {1, 4}, {5, 2}}};

            fwd.t[0].units = back.t[0].units = back.t[1].units = back.t[5].units = 16; /* exp(-g), and g (1 - sigma) in the derivative, with g up to 7 */
            check_job(&fwd);
            check_job(&back);
            back.dims[1] = 1, back.t[5].name = NULL, back.alias[2].out = back.alias[2].in;
            check_job(&back);
        }
}

static void call_embed(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->embed(dev, p[0], &W[0], p[1], lay->T);
}

static void call_gather(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->gather(dev, p[0], p[1], p[2], lay->T, j->dims[0]);
}

static void call_scatter(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->scatter(dev, p[0], p[1], p[2], lay->T, j->dims[0]);
}

static void call_copy(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->copy(dev, p[0], p[1], (size_t)(lay->T * j->dims[0]) * sizeof(float));
}

static void call_zero(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->zero(dev, p[0], (size_t)(lay->T * j->dims[0]) * sizeof(float));
}

static void rows_are_moved(void **state)
{
    enum { SOURCE = 260 };

    for (int l = 0; l < NLAYOUT; l++) {
        struct rows rows = make_rows(layouts[l]);
        int32_t *apart = kept_buffer((size_t)rows.T * sizeof *apart);

        for (int t = 0; t < rows.T; t++) apart[t] = 2 * t < SOURCE ? 2 * t : 2 * t - SOURCE + 1;
        for (int C = 1; C < 100; C = 3 * C + 4) {
            struct dev_shapes shapes = {.T = SOURCE, .C = C, .F = C, .H = 1, .G = 1, .D = C, .V = 1};
            struct job gather = {"gather", shapes, rows, 0,
                {OUTPUT("y", ACT, TOKEN, C, 1, EXACT), NORMAL("x", ACT, ALL, SOURCE * C, 1), GIVEN("index", I32, TOKEN, 1, below(rows.T, SOURCE))},
                .call = call_gather, .dims = {C}};
            struct job scatter = {"scatter", shapes, rows, 0,
                {UPDATED("y", ACT, ALL, SOURCE * C, 1, NULL, EXACT), NORMAL("x", ACT, TOKEN, C, 1), GIVEN("index", I32, TOKEN, 1, apart)},
                .call = call_scatter, .dims = {C}};

            struct job copy = {"copy", shapes, rows, 0, {OUTPUT("to", F32, TOKEN, C, 1, EXACT), NORMAL("from", F32, TOKEN, C, 1)},
                .call = call_copy, .dims = {C}};

            check_job(&gather);
            check_job(&scatter);
            check_job(&copy);
            copy.name = "zero", copy.call = call_zero;
            check_job(&copy);
        }
        for (int t = 0; t < DTYPE_COUNT; t++) {
            if (!weight_readable(t)) continue;
            struct job embed = {"embed", {.T = rows.T, .C = 256, .F = 1, .H = 1, .G = 1, .D = 1, .V = 30}, rows, 0,
                {OUTPUT("y", ACT, TOKEN, 256, 1, 0), GIVEN("ids", I32, TOKEN, 1, below(rows.T, 30))},
                .W = {make_weight(t, 30, 256, true)}, .call = call_embed};

            check_job(&embed);
        }
    }
}

/* ---- head ---- */

static double dot_row(const struct weight *W, int64_t n, const float *x)
{
    float w[1024];
    double sum = 0;

    weight_row(W, n, 0, W->K, w);
    for (int64_t k = 0; k < W->K; k++) sum += (double)w[k] * x[k];
    return sum;
}

/* Another argmax is right where its logit is the largest but for rounding of W to bf16 (2^-9 of terms that add up to size 1) or of fp32 sums. */
static bool close_logits(const struct job *j, int tensor, int64_t i, double got, float **ref)
{
    const float *x = ref[3] + i * j->W[0].K;

    if (tensor != 2 || got < 0 || got >= (double)j->W[0].N) return false;
    return dot_row(&j->W[0], (int64_t)got, x) >= dot_row(&j->W[0], ((int32_t *)ref[2])[i], x) - 6 * 0x1p-9 * inner_of(j->W[0].type) - 0x1p-20;
}

static void call_head_loss(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->head_loss(dev, p[0], j->dims[0] ? NULL : p[1], j->dims[1] ? NULL : p[2], p[3], &W[0], p[4], lay->T, j->s);
}

static void call_logits(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->logits(dev, p[0], p[1], &W[0], lay->T);
}

static void head_agrees(void **state)
{
    static const struct { enum dtype type; int V, C; } cases[] = {
        {DTYPE_BF16, 1, 16}, {DTYPE_F32, 515, 33}, {DTYPE_BF16, 1000, 100}, {DTYPE_Q8_0, 320, 64}, {DTYPE_F16, 2049, 32},
        {DTYPE_Q6_K, 300, 256}, {DTYPE_NF4, 70, 96},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int l = 0; l < NLAYOUT; l++) {
            int V = cases[i].V, C = cases[i].C;
            struct rows rows = make_rows(V > 400 && l > 0 && l < 3 ? three_rows : layouts[l]);
            struct weight W = make_weight(cases[i].type, V, C, false);
            float inner = inner_of(W.type);
            struct dev_shapes shapes = {.T = rows.T, .C = C, .F = C, .H = 1, .G = 1, .D = C, .V = V};
            struct job loss = {"head_loss", shapes, rows, 0,
                {OUTPUT("loss", F32, TOKEN, 1, C, inner), OUTPUT("dx", ACT, TOKEN, C, V, 1 + inner),
                 OUTPUT("argmax", I32, TOKEN, 1, 1, 0), NORMAL("x", ACT, TOKEN, C, 1.5f), GIVEN("target", I32, TOKEN, 1, below(rows.T, V))},
                .W = {W}, .s = 0.01f, .call = call_head_loss, .alias = {{1, 3}}, .forgive = close_logits};
            struct job logits = {"logits", shapes, rows, 0, {OUTPUT("logits", F32, TOKEN, V, C, inner), NORMAL("x", ACT, TOKEN, C, 1.5f)},
                .W = {W}, .call = call_logits};

            loss.t[0].size = 1.5f, loss.t[1].size = 4 * loss.s / sqrtf((float)C); /* V = 1: l - l, W - W */
            check_job(&loss);
            check_job(&logits);
        }
}

/* Equal rows have equal logits, and the lower one is the argmax. */
static void argmax_is_the_lowest_of_equals(void **state)
{
    enum { V = 700, C = 40, S = 12 };
    struct weight W = make_weight(DTYPE_BF16, V, C, false);
    bf16 *w = (bf16 *)(uintptr_t)W.data;

    for (int v = V / 2; v < V; v++) memcpy(w + v * C, w + (v - V / 2) * C, C * sizeof *w);
    for (int i = 0; i < NTARGET; i++) {
        struct dev *dev = targets[i].dev[0];
        struct dev_shapes shapes = {.T = S, .C = C, .F = C, .H = 1, .G = 1, .D = C, .V = V};
        char x[S * C * 4];
        int32_t argmax[S];
        void *p[4], *parts[4] = {0};
        struct weight on;

        if (!dev) continue;
        for (int k = 0; k < S * C; k++)
            if (dev->act == DTYPE_BF16) ((bf16 *)x)[k] = bf16_from_f32(draw((uint32_t)k, 6));
            else ((float *)x)[k] = draw((uint32_t)k, 6);
        put_weight(dev, &on, parts, &W);
        p[0] = put(dev, x, S * C * element_bytes(ACT, dev->act));
        p[1] = put(dev, below(S, V), S * 4);
        p[2] = put(dev, argmax, sizeof argmax);
        p[3] = put(dev, argmax, sizeof argmax);
        dev->scratch_bytes = dev->ops->scratch_bytes(dev, &shapes);
        dev->scratch = dev->ops->alloc(dev, dev->scratch_bytes);
        dev->ops->head_loss(dev, p[3], NULL, p[2], p[0], &on, p[1], S, 1);
        dev->ops->download(dev, argmax, p[2], sizeof argmax);
        for (int s = 0; s < S; s++) assert_in_range(argmax[s], 0, V / 2 - 1);
        dev->ops->free(dev, dev->scratch, dev->scratch_bytes);
        dev->scratch = NULL;
        dev->ops->free(dev, p[0], S * C * element_bytes(ACT, dev->act));
        for (int k = 1; k < 4; k++) dev->ops->free(dev, p[k], sizeof argmax);
        dev->ops->free(dev, parts[0], weight_bytes(&W));
    }
}

/* ---- the flat vector ---- */

static void call_add(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->add(dev, p[0], p[1], (int64_t)lay->T * j->dims[0]);
}

static void call_sum_squares(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->sum_squares(dev, p[0], p[1], (int64_t)lay->T * j->dims[0], j->dims[0]);
}

static void call_sum_squares_short(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->sum_squares(dev, p[0], p[1], j->dims[1], j->dims[0]);
}

static void call_adamw(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    const struct adamw hyper = {.clip = 0.7f, .decay = 0.99999f, .rest1 = 0.1f, .beta2 = 0.999f, .rest2 = 0.001f, .root = 0.0446f,
                                .eps = 1e-8f, .step_size = 2e-3f};

    dev->ops->adamw(dev, p[0], p[1], p[2], p[3], p[4], (int64_t)lay->T * j->dims[0], &hyper);
}

static void call_round_operand(const struct job *j, struct dev *dev, void **p, const struct weight *W, const struct layout *lay)
{
    dev->ops->round_operand(dev, p[0], p[1], (int64_t)lay->T * j->dims[0]);
}

/* A NaN whose payload would round into infinity or zero stays one. */
static void a_nan_stays_one_when_rounded(void **state)
{
    static const uint32_t nans[] = {0x7fffffff, 0x7f800001, 0xffffffff, 0xff800001, 0x7fc00000};
    enum { N = 37 };
    float theta[N];
    bf16 operand[N];

    for (int i = 0; i < N; i++) memcpy(&theta[i], &nans[i % 5], sizeof *theta);
    for (int i = 0; i < NTARGET; i++) {
        struct dev *dev = targets[i].dev[0];
        void *from, *to;

        if (!dev || dev->act != DTYPE_BF16) continue;
        from = put(dev, theta, sizeof theta);
        to = put(dev, theta, sizeof operand);
        dev->ops->round_operand(dev, to, from, N);
        dev->ops->download(dev, operand, to, sizeof operand);
        for (int k = 0; k < N; k++) assert_true(isnan(bf16_to_f32(operand[k])));
        dev->ops->free(dev, from, sizeof theta);
        dev->ops->free(dev, to, sizeof operand);
    }
}

/* add, adamw and round_operand have the same bits on every device. */
static void flat_vector_ops_agree(void **state)
{
    static const int widths[] = {1, 5, 64, 301};

    for (int i = 0; i < 4; i++)
        for (int l = 0; l < NLAYOUT; l++) {
            int w = widths[i];
            struct rows rows = make_rows(layouts[l]);
            struct dev_shapes shapes = {.T = rows.T, .C = w, .F = w, .H = 1, .G = 1, .D = w, .V = 1};
            struct job add = {"add", shapes, rows, 0, {UPDATED("a", F32, TOKEN, w, 1, NULL, EXACT), NORMAL("b", F32, TOKEN, w, 1)},
                .call = call_add, .dims = {w}};
            struct job squares = {"sum_squares", shapes, rows, 0, {OUTPUT("out", F64, TOKEN, 1, w, 0), NORMAL("x", F32, TOKEN, w, 1)},
                .call = call_sum_squares, .dims = {w}};
            struct job adamw = {"adamw", shapes, rows, 0,
                {UPDATED("theta", F32, TOKEN, w, 0.1f, NULL, EXACT), OUTPUT("operand", ACT, TOKEN, w, 1, EXACT),
                 UPDATED("m", F32, TOKEN, w, 0.01f, NULL, EXACT), UPDATED("v", F32, TOKEN, w, 0, positive((int64_t)rows.T * w, 0), EXACT), NORMAL("g", F32, TOKEN, w, 0.02f)},
                .call = call_adamw, .dims = {w}};
            struct job round = {"round_operand", shapes, rows, 0, {OUTPUT("operand", ACT, TOKEN, w, 1, EXACT), NORMAL("theta", F32, TOKEN, w, 1)},
                .call = call_round_operand, .dims = {w}};

            check_job(&add);
            check_job(&squares);
            check_job(&adamw);
            check_job(&round);
        }
    struct job last = {"sum_squares with a short last block", {.T = 1, .C = 1, .F = 1, .H = 1, .G = 1, .D = 1, .V = 1}, make_rows(one_token), 0,
        {OUTPUT("out", F64, ALL, 4, 128, 0), NORMAL("x", F32, ALL, 3 * 128 + 41, 1)}, .call = call_sum_squares_short, .dims = {128, 3 * 128 + 41}};
    check_job(&last);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(norms_agree, free_kept),
        cmocka_unit_test(add_rmsnorm_reads_its_rounded_sum),
        cmocka_unit_test_teardown(linear_reads_every_weight_format, free_kept),
        cmocka_unit_test_teardown(linear_takes_odd_shapes, free_kept),
        cmocka_unit_test_teardown(linear_backward_sums_terms, free_kept),
        cmocka_unit_test_teardown(lora_agrees, free_kept),
        cmocka_unit_test_teardown(rope_agrees, free_kept),
        cmocka_unit_test_teardown(attention_agrees, free_kept),
        cmocka_unit_test_teardown(attention_decode_agrees, free_kept),
        cmocka_unit_test_teardown(swiglu_agrees, free_kept),
        cmocka_unit_test_teardown(rows_are_moved, free_kept),
        cmocka_unit_test_teardown(head_agrees, free_kept),
        cmocka_unit_test_teardown(argmax_is_the_lowest_of_equals, free_kept),
        cmocka_unit_test(a_nan_stays_one_when_rounded),
        cmocka_unit_test_teardown(flat_vector_ops_agree, free_kept),
    };

    only_device = argc > 1 ? argv[1] : NULL;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    /* More threads than cores must sleep while they wait for each other, and libgomp reads this before main. */
    if (!getenv("OMP_WAIT_POLICY")) {
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execv("/proc/self/exe", argv);
    }
    return cmocka_run_group_tests(tests, open_targets, close_targets);
}
