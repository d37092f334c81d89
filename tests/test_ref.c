/* The oracle's backward ops against central differences of its forward ops: for a random R, d/de sum(R f(x + e d)) = sum(g d) with g what
 * backward gives for dy = R. e = 2e-3: truncation is e^2 f''' / 6, rounding of fp32 outputs 6e-8 sqrt(n) |f| / e, both some 1e-4.
 * Allowed: 2e-3, and 2e-3 of a directional derivative of the usual size, which is sum |g d| / sqrt(n). */
#include "kernels/base/mem.h"
#include "kernels/base/fmath.h"
#include "kernels/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MAX 4096

static char scratch[1 << 20];
static struct dev dev = {.ops = &ref_ops, .name = "ref", .act = DTYPE_F32, .threads = 1, .scratch = scratch, .scratch_bytes = sizeof scratch};

static void fill(float *x, int64_t n, float scale, uint32_t stream)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];

        philox4x32(w, rng_key(11), (uint32_t)i, stream, 0, 0);
        x[i] = scale * (rng_unit(w[0]) + rng_unit(w[1]) + rng_unit(w[2]) + rng_unit(w[3]) - 2) * 1.7320508f;
    }
}

/* f computes y (ny) from the inputs that it knows. */
static double weighted(void (*f)(void), const float *y, const float *R, int64_t ny)
{
    double sum = 0;

    f();
    for (int64_t i = 0; i < ny; i++) sum += (double)R[i] * y[i];
    return sum;
}

/* g (n) is the gradient of sum(R y) with respect to x (n). */
static void check_gradient(const char *what, void (*f)(void), const float *y, const float *R, int64_t ny, float *x, const float *g, int64_t n)
{
    static float kept[MAX], d[MAX];
    const float e = 2e-3f;

    assert_true(n <= MAX);
    memcpy(kept, x, (size_t)n * sizeof *x);
    for (uint32_t trial = 0; trial < 8; trial++) {
        double up, down, expected = 0, size = 0;

        fill(d, n, 1, 500 + trial);
        if (trial >= 4) /* one element alone */
            for (int64_t i = 0; i < n; i++) d[i] = i == (int64_t)trial * 7919 % n;
        for (int64_t i = 0; i < n; i++) x[i] = kept[i] + e * d[i];
        up = weighted(f, y, R, ny);
        for (int64_t i = 0; i < n; i++) {
            float above = x[i];

            x[i] = kept[i] - e * d[i];
            expected += (double)g[i] * ((double)above - x[i]); /* what was really added after rounding */
            size += fabs((double)g[i] * d[i]);
        }
        down = weighted(f, y, R, ny);
        if (fabs((up - down) - expected) > 2 * e * (2e-3 * size / sqrt((double)(trial >= 4 ? 1 : n)) + 2e-3))
            fail_msg("%s, direction %u: the difference is %.9g, the gradient says %.9g", what, trial, (up - down) / (2 * e), expected / (2 * e));
        memcpy(x, kept, (size_t)n * sizeof *x);
    }
    f();
}

/* ---- rmsnorm ---- */

enum { T = 11, C = 24, N = 20, R_ = 3, H = 4, G = 2, D = 6, F = 15, V = 37 };
static const int32_t row_start[] = {0, 6, T}, example_start[] = {0, 4, 6, T}, pos[] = {0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4};
static const struct layout lay = {T, 2, 3, row_start, example_start, pos, 40, NULL};
static float x[MAX], y[MAX], w[MAX], r[MAX], out_weight[MAX], rstd[T], dx[MAX], base[MAX];

static void norm(void)
{
    ref_ops.rmsnorm(&dev, y, rstd, x, w, T, C, 1e-5f);
}

static void rmsnorm_backward_is_its_gradient(void **state)
{
    fill(x, T * C, 1, 1);
    fill(w, C, 1, 2);
    fill(r, T * C, 1, 3);
    fill(base, T * C, 1, 4);
    norm();
    ref_ops.rmsnorm_backward(&dev, dx, NULL, r, x, w, rstd, T, C);
    check_gradient("rmsnorm", norm, y, r, T * C, x, dx, T * C);

    float *sum = out_weight;
    ref_ops.rmsnorm_backward(&dev, sum, base, r, x, w, rstd, T, C);
    for (int i = 0; i < T * C; i++) assert_true(fabsf(sum[i] - (base[i] + dx[i])) <= 1e-6f * (fabsf(base[i]) + fabsf(dx[i])));
}

/* ---- linear with LoRA ---- */

static float W1[N * C], W2[V * C], A1[R_ * C], B1[N * R_], A2[R_ * C], B2[V * R_], bias[N];
static float h1[T * R_], h2[T * R_], y12[T * (N + V)], u1[T * R_], u2[T * R_];
static struct dropout drop1, drop2;
static const struct weight weight1 = {.type = DTYPE_F32, .N = N, .K = C, .data = W1}, weight2 = {.type = DTYPE_F32, .N = V, .K = C, .data = W2};

/* Two layers that share x, as q and k do. */
static void two_linears(void)
{
    ref_ops.lora_down(&dev, h1, x, A1, 1.5f, drop1, &lay, C, R_);
    ref_ops.lora_down(&dev, h2, x, A2, 0.5f, drop2, &lay, C, R_);
    ref_ops.linear(&dev, y12, x, &weight1, bias, h1, B1, T, R_);
    ref_ops.linear(&dev, y12 + T * N, x, &weight2, NULL, h2, B2, T, R_);
}

static void linear_backward_is_its_gradient(void **state)
{
    float dA[R_ * C], dB[N * R_], dA_all[R_ * C], dB_all[N * R_];

    for (int p = 0; p < 2; p++) {
        drop1 = (struct dropout){0.3f * (float)p, rng_key(1)};
        drop2 = (struct dropout){0.3f * (float)p, rng_key(2)};
        fill(x, T * C, 1, 1);
        fill(W1, N * C, 0.3f, 2);
        fill(W2, V * C, 0.3f, 3);
        fill(A1, R_ * C, 0.3f, 4);
        fill(A2, R_ * C, 0.3f, 5);
        fill(B1, N * R_, 0.3f, 6);
        fill(B2, V * R_, 0.3f, 7);
        fill(bias, N, 1, 8);
        fill(r, T * (N + V), 1, 9);
        two_linears();
        ref_ops.lora_up_backward(&dev, u1, r, B1, 1.5f, T, N, R_);
        ref_ops.lora_up_backward(&dev, u2, r + T * N, B2, 0.5f, T, V, R_);
        const struct linear_term terms[2] = {{r, &weight1, u1, A1, R_, drop1}, {r + T * N, &weight2, u2, A2, R_, drop2}};
        ref_ops.linear_backward(&dev, dx, terms, 2, &lay);
        check_gradient("linear, x", two_linears, y12, r, T * (N + V), x, dx, T * C);

        memset(dA_all, 0, sizeof dA_all);
        memset(dB_all, 0, sizeof dB_all);
        for (int row = 0; row < lay.rows; row++) {
            ref_ops.lora_grad(&dev, dA, dB, r, h1, u1, x, drop1, &lay, row, N, C, R_);
            ref_ops.add(&dev, dA_all, dA, R_ * C);
            ref_ops.add(&dev, dB_all, dB, N * R_);
        }
        check_gradient("linear, A", two_linears, y12, r, T * (N + V), A1, dA_all, R_ * C);
        check_gradient("linear, B", two_linears, y12, r, T * (N + V), B1, dB_all, N * R_);
    }
}

/* The mask keeps 1 - p of the elements, scales them so that the mean stays, and is a function of the row and the place in it alone. */
static void dropout_is_inverted_and_keyed_by_row(void **state)
{
    enum { K = 512, ROWS = 2 };
    static const int32_t starts[] = {0, 4, 8}, one[] = {0, 4};
    static float ones[8 * K], eye[K * K], h[8 * K], alone[4 * K];
    const struct layout both = {8, ROWS, ROWS, starts, starts, NULL, 5, NULL}, second = {4, 1, 1, one, one, NULL, 6, NULL};
    const struct dropout drop = {0.25f, rng_key(9)};
    int kept = 0;

    for (int i = 0; i < 8 * K; i++) ones[i] = 1;
    for (int i = 0; i < K; i++) eye[i * K + i] = 1;
    ref_ops.lora_down(&dev, h, ones, eye, 1, drop, &both, K, K);
    ref_ops.lora_down(&dev, alone, ones, eye, 1, drop, &second, K, K);
    assert_memory_equal(h + 4 * K, alone, sizeof alone);
    assert_memory_not_equal(h, alone, sizeof alone);
    for (int i = 0; i < 8 * K; i++) {
        assert_true(h[i] == 0 || fabsf(h[i] - 4 / 3.0f) < 1e-6f);
        kept += h[i] != 0;
    }
    assert_true(abs(kept - 6 * K) < 5 * sqrt(8 * K * 0.25 * 0.75)); /* five deviations */
}

/* ---- attention, rope ---- */

static float q[MAX], k[MAX], v[MAX], o[MAX], lse[T * H], dq[MAX], dk[MAX], dv[MAX], cosines[5 * D / 2], sines[5 * D / 2], turned[MAX];

static void attend(void)
{
    ref_ops.attention(&dev, o, lse, q, k, v, &lay, H, G, D);
}

static void attention_backward_is_its_gradient(void **state)
{
    fill(q, T * H * D, 1, 1);
    fill(k, T * G * D, 1, 2);
    fill(v, T * G * D, 1, 3);
    fill(r, T * H * D, 1, 4);
    attend();
    ref_ops.attention_backward(&dev, dq, dk, dv, r, q, k, v, o, lse, &lay, H, G, D);
    check_gradient("attention, q", attend, o, r, T * H * D, q, dq, T * H * D);
    check_gradient("attention, k", attend, o, r, T * H * D, k, dk, T * G * D);
    check_gradient("attention, v", attend, o, r, T * H * D, v, dv, T * G * D);
}

/* Token by token from caches gives what the whole sequence gives. */
static void decoding_is_attention(void **state)
{
    enum { CAP = 7 };
    static float cache_k[2 * CAP * G * D], cache_v[2 * CAP * G * D], one[H * D];
    static const int32_t sequence[] = {1};

    fill(q, T * H * D, 1, 1);
    fill(k, T * G * D, 1, 2);
    fill(v, T * G * D, 1, 3);
    attend();
    for (int32_t t = example_start[2]; t < example_start[3]; t++) {
        int32_t len = t - example_start[2] + 1;

        memcpy(cache_k + (CAP + len - 1) * G * D, k + t * G * D, G * D * sizeof *k);
        memcpy(cache_v + (CAP + len - 1) * G * D, v + t * G * D, G * D * sizeof *v);
        ref_ops.attention_decode(&dev, one, q + t * H * D, cache_k, cache_v, sequence, &len, 1, CAP, H, G, D);
        assert_memory_equal(one, o + t * H * D, sizeof one);
    }
}

static void rope_turns_back(void **state)
{
    for (int i = 0; i < 5 * D / 2; i++) {
        double angle = i / (D / 2) * fm_pow(100, -2.0 * (i % (D / 2)) / D);

        cosines[i] = (float)fm_cos(angle);
        sines[i] = (float)fm_sin(angle);
    }
    fill(x, T * H * D, 1, 1);
    memcpy(turned, x, sizeof turned);
    ref_ops.rope(&dev, turned, cosines, sines, pos, T, H, D, false);
    /* token 3, head 1, pair 2 by hand */
    int at = (3 * H + 1) * D;
    double angle = 3 * pow(100, -4.0 / D);
    assert_true(fabs(turned[at + 2] - (x[at + 2] * cos(angle) - x[at + 2 + D / 2] * sin(angle))) < 1e-6);
    assert_true(fabs(turned[at + 2 + D / 2] - (x[at + 2 + D / 2] * cos(angle) + x[at + 2] * sin(angle))) < 1e-6);
    ref_ops.rope(&dev, turned, cosines, sines, pos, T, H, D, true);
    for (int i = 0; i < T * H * D; i++) assert_true(fabsf(turned[i] - x[i]) < 1e-6f);
}

/* ---- swiglu ---- */

static float gate[T * F], up[T * F], dgate[T * F], dup[T * F];

static void activate(void)
{
    ref_ops.swiglu(&dev, y, gate, up, T * F);
}

static void swiglu_backward_is_its_gradient(void **state)
{
    static float again[T * F];

    fill(gate, T * F, 2, 1);
    fill(up, T * F, 1, 2);
    fill(r, T * F, 1, 3);
    activate();
    ref_ops.swiglu_backward(&dev, dgate, dup, again, r, gate, up, T * F);
    for (int i = 0; i < T * F; i++) assert_true(fabsf(again[i] - y[i]) <= 1e-6f * fabsf(y[i]));
    check_gradient("swiglu, gate", activate, y, r, T * F, gate, dgate, T * F);
    check_gradient("swiglu, up", activate, y, r, T * F, up, dup, T * F);
}

/* ---- head ---- */

static float loss[T];
static const int32_t target[T] = {0, 5, 36, 7, 7, 1, 2, 3, 20, 30, 11};

static void head(void)
{
    ref_ops.head_loss(&dev, loss, NULL, NULL, x, &weight2, target, T, 1);
}

static void head_gradient_is_that_of_the_scaled_sum(void **state)
{
    static float logits[T * V];
    int32_t argmax[T];

    fill(x, T * C, 1, 1);
    fill(W2, V * C, 0.5f, 2);
    for (int i = 0; i < T; i++) r[i] = 0.25f;
    ref_ops.head_loss(&dev, loss, dx, argmax, x, &weight2, target, T, 0.25f);
    check_gradient("head", head, loss, r, T, x, dx, T * C);

    ref_ops.logits(&dev, logits, x, &weight2, T);
    for (int i = 0; i < T; i++) {
        double sum = 0;
        int best = 0;

        for (int j = 0; j < V; j++) {
            sum += exp(logits[i * V + j]);
            if (logits[i * V + j] > logits[i * V + best]) best = j;
        }
        assert_true(fabs(loss[i] - (log(sum) - logits[i * V + target[i]])) < 1e-5);
        assert_int_equal(argmax[i], best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_backward_is_its_gradient),
        cmocka_unit_test(linear_backward_is_its_gradient),
        cmocka_unit_test(dropout_is_inverted_and_keyed_by_row),
        cmocka_unit_test(attention_backward_is_its_gradient),
        cmocka_unit_test(decoding_is_attention),
        cmocka_unit_test(rope_turns_back),
        cmocka_unit_test(swiglu_backward_is_its_gradient),
        cmocka_unit_test(head_gradient_is_that_of_the_scaled_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
