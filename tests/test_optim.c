/* Schedules and AdamW against transformers and torch (tests/golden/optim, made by scripts/make_golden.py), clipping and the gradient tree
 * against their definitions. */
#include "ckpt/safetensors.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"
#include "kernels/base/rng.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/gradtree.h"
#include "optim/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct dev dev = {.ops = &ref_ops, .name = "ref", .act = DTYPE_F32, .threads = 1};

static struct json *open_json(const char *path)
{
    struct json *j;
    struct err err;

    if (json_parse_file(&j, path, &err) != PAWL_OK) fail_msg("%s", err.text);
    return j;
}

static float draw(uint32_t i, uint32_t stream)
{
    uint32_t w[4];

    philox4x32(w, rng_key(21), i, stream, 0, 0);
    return rng_unit(w[0]) - 0.5f;
}

static const struct { const char *name; enum schedule kind; } schedules[] = {
    {"constant", SCHEDULE_CONSTANT}, {"linear", SCHEDULE_LINEAR}, {"cosine", SCHEDULE_COSINE},
    {"constant_with_warmup", SCHEDULE_CONSTANT_WITH_WARMUP}, {"cosine_with_min_lr", SCHEDULE_COSINE_WITH_MIN_LR},
};

/* 4 units of double: C's cos and ours may differ by one, and the products around it are rounded. */
static void rates_are_those_of_transformers(void **state)
{
    struct json *j = open_json(PAWL_TESTS "/golden/optim/schedules.json");
    const struct json_value *c;
    unsigned seen = 0;

    for (size_t i = 0; (c = json_at(json_root(j), i)) != NULL; i++) {
        const char *name = json_string(json_get(c, "lr_scheduler"), "");
        struct schedule_options s = {.peak = json_number(json_get(c, "learning_rate"), NAN),
                                     .min_ratio = json_number(json_get(c, "cosine_min_lr_ratio"), 0)};
        const struct json_value *rates = json_get(c, "rates");

        assert_true(json_int64(json_get(c, "warmup_steps"), &s.warmup) && json_int64(json_get(c, "max_steps"), &s.total) && rates->len > 0);
        for (unsigned k = 0; k < 5; k++)
            if (strcmp(schedules[k].name, name) == 0) s.kind = schedules[k].kind, seen |= 1u << k;
        for (size_t step = 1; step <= rates->len; step++) {
            double want = json_number(json_at(rates, step - 1), NAN), got = schedule_rate(&s, (int64_t)step);

            if (!(fabs(got - want) <= 4 * 0x1p-53 * s.peak))
                fail_msg("%s, warm-up %d, step %zu: %.17g, expected %.17g", name, (int)s.warmup, step, got, want);
        }
    }
    assert_int_equal(seen, 31);
    json_free(j);
}

static void a_rate_needs_no_history(void **state)
{
    struct schedule_options s = {.kind = SCHEDULE_COSINE, .peak = 1, .warmup = 10, .total = 100};

    assert_true(schedule_rate(&s, 1) == 0 && schedule_rate(&s, 11) == 1);
    assert_true(schedule_rate(&s, 101) == 0); /* at the horizon */
    s.total = 200;                            /* a new horizon, from here on */
    assert_true(schedule_rate(&s, 101) > 0.5);
    s.kind = SCHEDULE_COSINE_WITH_MIN_LR, s.min_ratio = 0.1;
    assert_true(fabs(schedule_rate(&s, 201) - 0.1) < 1e-15);
}

static void is_close(const float *got, const struct tensor *want, double unit, const char *what)
{
    const float *w = want->data;

    for (int64_t i = 0; i < tensor_elements(want); i++)
        if (!(fabs((double)got[i] - w[i]) <= unit * fabs(w[i]) + 0x1p-140)) fail_msg("%s[%d]: %.9g, expected %.9g", what, (int)i, got[i], w[i]);
}

/* Five steps of 257 numbers, gradients over 12 decades, rates up, down and 0. m and v: 4 units of fp32, because torch multiplies and adds in
 * one rounding where its vector code does. m cancels where gradients change sign, so it is measured against the sum of magnitudes that went
 * into it. theta: 2 units. */
static void adamw_follows_torch(void **state)
{
    struct json *j = open_json(PAWL_TESTS "/golden/optim/adamw.json");
    const struct json_value *root = json_root(j), *rates = json_get(root, "rates");
    struct adamw_options o = {.beta1 = json_number(json_get(root, "beta1"), NAN), .beta2 = json_number(json_get(root, "beta2"), NAN),
                              .eps = json_number(json_get(root, "epsilon"), NAN), .weight_decay = json_number(json_get(root, "weight_decay"), NAN)};
    struct safetensors *s;
    struct err err;
    enum { N = 257 };
    float theta[N], operand[N], m[N] = {0}, v[N] = {0};
    double size[N] = {0};

    if (safetensors_open(&s, PAWL_TESTS "/golden/optim/adamw.safetensors", &err) != PAWL_OK) fail_msg("%s", err.text);
    const struct tensor *start = safetensors_find(s, "theta.0");
    assert_true(start && tensor_elements(start) == N);
    memcpy(theta, start->data, sizeof theta);
    for (int step = 1; step <= (int)rates->len; step++) {
        char name[4][16];
        const struct tensor *t[4];

        for (int k = 0; k < 4; k++) {
            snprintf(name[k], sizeof name[k], "%s.%d", (const char *[]){"grad", "theta", "m", "v"}[k], step);
            t[k] = safetensors_find(s, name[k]);
            assert_non_null(t[k]);
        }
        struct adamw h = adamw_factors(&o, step, json_number(json_at(rates, (size_t)step - 1), NAN), 1);
        dev.ops->adamw(&dev, theta, operand, m, v, t[0]->data, N, &h);
        for (int i = 0; i < N; i++) {
            size[i] = o.beta1 * size[i] + (1 - o.beta1) * fabsf(((const float *)t[0]->data)[i]);
            if (!(fabs((double)m[i] - ((const float *)t[2]->data)[i]) <= 4 * 0x1p-23 * size[i] + 0x1p-140))
                fail_msg("%s[%d]: %.9g, expected %.9g", name[2], i, m[i], ((const float *)t[2]->data)[i]);
        }
        is_close(v, t[3], 4 * 0x1p-23, name[3]);
        is_close(theta, t[1], 2 * 0x1p-23, name[1]);
        assert_memory_equal(operand, theta, sizeof theta);
    }
    safetensors_close(s);
    json_free(j);
}

static void clipping_is_that_of_torch(void **state)
{
    enum { N = 3 * CLIP_BLOCK + 1000 };
    float *g = xmalloc(N * sizeof *g);
    double blocks[4], tail[2], sum = 0;

    for (uint32_t i = 0; i < N; i++) {
        g[i] = draw(i, 1);
        sum += (double)g[i] * g[i];
    }
    assert_int_equal(clip_blocks(N), 4);
    assert_int_equal(clip_blocks(0), 0);
    double norm = clip_norm(&dev, g, N, blocks);
    assert_true(fabs(norm - sqrt(sum)) < 1e-12 * norm);
    /* a shard that begins at a block has the same block sums */
    clip_norm(&dev, g + 2 * CLIP_BLOCK, N - 2 * CLIP_BLOCK, tail);
    assert_memory_equal(tail, blocks + 2, sizeof tail);

    assert_true(clip_factor(4, 1) == 1 / (4 + 1e-6));
    assert_true(clip_factor(0.5, 1) == 1 && clip_factor(0, 1) == 1);
    assert_true(clip_factor(1, 1) == 1 / (1 + 1e-6)); /* torch's epsilon tells even at the border */
    assert_true(clip_factor(100, 0) == 1);            /* no clipping asked for */
    free(g);
}

/* ---- the gradient tree ---- */

enum { ELEMENTS = 40, MOST_ROWS = 37 };
static float rows[MOST_ROWS][ELEMENTS];

/* Node over rows [first, first + n), n a power of two. */
static float node(int first, int n, int element)
{
    if (n == 1) return rows[first][element];
    return node(first, n / 2, element) + node(first + n / 2, n / 2, element);
}

/* Any count: the largest subtree on the left, plus the rest. */
static float tree_sum(int first, int n, int element)
{
    int subtree = 1;

    if (n == 0) return 0;
    while (2 * subtree <= n) subtree *= 2;
    if (subtree == n) return node(first, n, element);
    return node(first, subtree, element) + tree_sum(first + subtree, n - subtree, element);
}

/* Pushes rows in micro-batches of `micro`, slice by slice within one as backward produces them (last slice first). */
static void sum_by_tree(int count, int micro, const int *slices, float *g)
{
    struct arena a = {0};
    struct gradtree t;
    struct err err;

    gradtree_reserve(&t, &a, ELEMENTS, count);
    assert_int_equal(arena_alloc(&a, NULL, NULL, &err), PAWL_OK);
    for (int first = 0; first < count; first += micro)
        for (int end = ELEMENTS, k = 0; end > 0; end -= slices[k++])
            for (int row = first; row < first + micro && row < count; row++) {
                float slice[ELEMENTS];
                int n = slices[k];

                memcpy(slice, &rows[row][end - n], (size_t)n * sizeof *slice);
                gradtree_push(&t, &dev, row, end - n, n, slice);
            }
    gradtree_finish(&t, &dev, count, g);
    arena_free(&a);
}

static void pushed_rows_can_be_forgotten_where_it_is_said(void **state)
{
    struct arena a = {0};
    struct gradtree t;
    struct err err;
    float before[8][ELEMENTS], slice[ELEMENTS];
    int allowed = 0;

    gradtree_reserve(&t, &a, ELEMENTS, MOST_ROWS);
    assert_int_equal(arena_alloc(&a, NULL, NULL, &err), PAWL_OK);
    assert_true(t.levels <= 8);
    for (int first = 0; first + 8 <= MOST_ROWS; first++)
        for (int count = 1; count <= 8; count++) {
            bool kept = true;

            for (int row = 0; row < first + count; row++) {
                if (row == first)
                    for (int l = 0; l < t.levels; l++) memcpy(before[l], t.level[l], sizeof before[l]);
                for (int i = 0; i < ELEMENTS; i++) slice[i] = (float)(row * ELEMENTS + i + 1);
                gradtree_push(&t, &dev, row, 0, ELEMENTS, slice);
            }
            for (int l = 0; l < t.levels; l++) kept &= !(first >> l & 1) || !memcmp(before[l], t.level[l], sizeof before[l]);
            if (gradtree_can_forget(first, count) && !kept) fail_msg("rows %d .. %d destroy nodes of those before", first, first + count - 1);
            allowed += gradtree_can_forget(first, count);
            if (count == 1 || first == 0) assert_true(gradtree_can_forget(first, count));
            if (first == 3 && count == 2) assert_false(kept); /* the test can fail */
        }
    assert_true(allowed > MOST_ROWS);
    arena_free(&a);
}

static void tree_sums_do_not_depend_on_micro_batches(void **state)
{
    static const int whole[] = {ELEMENTS}, pieces[] = {7, 1, 30, 2};
    float g[ELEMENTS];
    int differs = 0;

    for (uint32_t i = 0; i < MOST_ROWS * ELEMENTS; i++) rows[i / ELEMENTS][i % ELEMENTS] = draw(i, 2) * (i % 3 ? 1 : 1000);
    for (int count = 0; count <= MOST_ROWS; count++)
        for (int micro = 1; micro <= 9; micro += 2)
            for (int s = 0; s < 2; s++) {
                for (int i = 0; i < ELEMENTS; i++) g[i] = NAN;
                sum_by_tree(count, micro, s ? pieces : whole, g);
                for (int i = 0; i < ELEMENTS; i++) {
                    float want = tree_sum(0, count, i), plain = 0;

                    for (int row = 0; row < count; row++) plain += rows[row][i];
                    if (g[i] != want) fail_msg("%d rows by %d: element %d is %.9g, expected %.9g", count, micro, i, g[i], want);
                    differs += g[i] != plain;
                }
            }
    assert_true(differs > 0); /* the test tells a tree from a plain sum */
}

/* Each rank pushes its run of rows into a tree of its own; the subtrees that are left of all are joined: the bits of one tree. */
static void runs_of_any_cut_join_to_the_same_sum(void **state)
{
    float g[ELEMENTS];

    for (int count = 1; count <= MOST_ROWS; count++)
        for (int ranks = 1; ranks <= 9; ranks++) {
            struct gradtree t[9] = {0};
            struct arena a[9] = {0};
            struct gradtree_node nodes[9 * GRADTREE_NODES];
            struct err err;
            int n = 0;

            for (int k = 0; k < ranks; k++) {
                int first = count * k / ranks, end = count * (k + 1) / ranks, mine;

                gradtree_reserve_run(&t[k], &a[k], ELEMENTS, first, end);
                if (first == end) continue;
                assert_int_equal(arena_alloc(&a[k], NULL, NULL, &err), PAWL_OK);
                t[k].first = first;
                for (int row = first; row < end; row++) {
                    float slice[ELEMENTS];

                    memcpy(slice, rows[row], sizeof slice);
                    gradtree_push(&t[k], &dev, row, 0, ELEMENTS, slice);
                }
                mine = gradtree_nodes(nodes + n, first, end);
                assert_true(mine <= 2 * t[k].levels);
                for (int i = 0; i < mine; i++) nodes[n + i].data = gradtree_data(&t[k], &nodes[n + i]);
                n += mine;
            }
            gradtree_join(&dev, nodes, n, ELEMENTS, g);
            for (int i = 0; i < ELEMENTS; i++)
                if (g[i] != tree_sum(0, count, i)) fail_msg("%d rows on %d ranks: element %d is %.9g, expected %.9g", count, ranks, i, g[i], tree_sum(0, count, i));
            for (int k = 0; k < ranks; k++) arena_free(&a[k]);
        }
}

static void an_aligned_run_is_one_subtree(void **state)
{
    struct gradtree_node nodes[GRADTREE_NODES];

    for (int k = 0; k < 4; k++) {
        assert_int_equal(gradtree_nodes(nodes, 4 * k, 4 * k + 4), 1);
        assert_int_equal(nodes[0].level, 2);
    }
    assert_int_equal(gradtree_nodes(nodes, 3, 6), 2); /* row 3, rows 4 and 5 */
    assert_int_equal(nodes[0].level, 0);
    assert_int_equal(nodes[1].level, 1);
    assert_int_equal(gradtree_nodes(nodes, 5, 5), 0);
}

static void tree_takes_log2_buffers(void **state)
{
    static const struct { int64_t rows; int levels; } sizes[] = {{0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 3}, {16, 5}, {31, 5}, {32, 6}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct arena a = {0};
        struct gradtree t;

        gradtree_reserve(&t, &a, 16, sizes[i].rows);
        assert_int_equal(t.levels, sizes[i].levels);
        assert_int_equal(arena_bytes(&a), sizes[i].levels * 64);
        assert_string_equal(a.seg[0].name, "gradient tree");
        arena_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_transformers),
        cmocka_unit_test(a_rate_needs_no_history),
        cmocka_unit_test(adamw_follows_torch),
        cmocka_unit_test(clipping_is_that_of_torch),
        cmocka_unit_test(pushed_rows_can_be_forgotten_where_it_is_said),
        cmocka_unit_test(tree_sums_do_not_depend_on_micro_batches),
        cmocka_unit_test(runs_of_any_cut_join_to_the_same_sum),
        cmocka_unit_test(an_aligned_run_is_one_subtree),
        cmocka_unit_test(tree_takes_log2_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
