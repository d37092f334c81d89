/* Block formats against the programs that defined them: tests/golden/quant, made by scripts/make_golden.py with bitsandbytes and the gguf package. */
#include "ckpt/gguf.h"
#include "ckpt/safetensors.h"
#include "kernels/base/mem.h"
#include "kernels/weight.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct safetensors *open_golden(const char *name)
{
    struct safetensors *s;
    struct err err;
    char path[512];

    snprintf(path, sizeof path, PAWL_TESTS "/golden/quant/%s.safetensors", name);
    if (safetensors_open(&s, path, &err) != PAWL_OK) fail_msg("%s", err.text);
    return s;
}

/* Tensor "CASE.PART" or "CASE.KIND.PART". */
static const struct tensor *find(const struct safetensors *s, const char *name, const char *kind, const char *part)
{
    const struct tensor *t;
    char full[128];

    snprintf(full, sizeof full, "%s%s%s.%s", name, kind ? "." : "", kind ? kind : "", part);
    t = safetensors_find(s, full);
    if (!t) fail_msg("no golden tensor %s", full);
    return t;
}

/* All of w, row by row, equals want in every bit but the sign of zeros. */
static void reads_as(const struct weight *w, const float *want, const char *what)
{
    float *row = xmalloc((size_t)w->K * sizeof *row);

    for (int64_t n = 0; n < w->N; n++) {
        weight_row(w, n, 0, w->K, row);
        for (int64_t k = 0; k < w->K; k++)
            if (!(row[k] == want[n * w->K + k]))
                fail_msg("%s: row %lld, element %lld is %.9g, expected %.9g", what, (long long)n, (long long)k, row[k], want[n * w->K + k]);
    }
    free(row);
}

static const char *const cases[] = {"normal", "uniform", "zeros", "outliers", "tail", "nested", "ties", "bf16"};
static const struct { const char *name; enum dtype type; const float *code; } kinds[] = {
    {"nf4", DTYPE_NF4, quant_nf4_code}, {"fp4", DTYPE_FP4, quant_fp4_code},
};

static void code_tables_are_those_of_bitsandbytes(void **state)
{
    struct safetensors *s = open_golden("four_bit");

    for (int k = 0; k < 2; k++) assert_memory_equal(find(s, kinds[k].name, NULL, "code")->data, kinds[k].code, 16 * sizeof(float));
    assert_memory_equal(find(s, "nested", NULL, "code")->data, quant_dynamic_code, 256 * sizeof(float));
    safetensors_close(s);
}

static void four_bits_have_the_bytes_of_bitsandbytes(void **state)
{
    struct safetensors *s = open_golden("four_bit");

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k < 2; k++) {
            const struct tensor *x = find(s, cases[c], NULL, "x"), *packed = find(s, cases[c], kinds[k].name, "packed");
            int64_t n = tensor_elements(x), blocks = (n + NF4_BLOCK - 1) / NF4_BLOCK;
            uint8_t *codes = xcalloc((size_t)(n + 1) / 2, 1);
            float *absmax = xcalloc((size_t)blocks, sizeof *absmax);
            struct weight w = {.type = kinds[k].type, .N = x->shape[0], .K = n / x->shape[0], .data = codes, .absmax = absmax};

            quant_4bit(kinds[k].type, x->data, n, codes, absmax);
            assert_int_equal(packed->bytes, (n + 1) / 2);
            assert_memory_equal(codes, packed->data, packed->bytes);
            assert_memory_equal(absmax, find(s, cases[c], kinds[k].name, "absmax")->data, (size_t)blocks * sizeof *absmax);
            reads_as(&w, find(s, cases[c], kinds[k].name, "dequant")->data, cases[c]);
            free(codes);
            free(absmax);
        }
    safetensors_close(s);
}

static float ulp(float x)
{
    return nextafterf(fabsf(x), INFINITY) - fabsf(x);
}

/* bitsandbytes takes the mean in fp32 with torch's order of summation, we take it in double: 2 ulp. With its offset, all bytes are the same. */
static void double_quantisation_follows_bitsandbytes(void **state)
{
    struct safetensors *s = open_golden("four_bit");

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k < 2; k++) {
            const struct tensor *x = find(s, cases[c], NULL, "x"), *absmax = find(s, cases[c], kinds[k].name, "absmax");
            const struct tensor *want = find(s, cases[c], kinds[k].name, "nested_absmax"), *scales = find(s, cases[c], kinds[k].name, "nested_scales");
            float theirs = *(const float *)find(s, cases[c], kinds[k].name, "nested_offset")->data, offset;
            int64_t blocks = tensor_elements(absmax);
            uint8_t *q = xcalloc((size_t)blocks, 1);
            float *nested = xcalloc(scales->bytes, 1);

            quant_nested(absmax->data, blocks, q, nested, &offset);
            if (fabsf(offset - theirs) > 2 * ulp(theirs)) fail_msg("%s %s: offset %.9g, expected %.9g", cases[c], kinds[k].name, offset, theirs);
            quant_nested_with_offset(absmax->data, blocks, theirs, q, nested);
            assert_memory_equal(q, want->data, want->bytes);
            assert_memory_equal(nested, scales->data, scales->bytes);

            struct weight w = {.type = kinds[k].type, .N = x->shape[0], .K = tensor_elements(x) / x->shape[0],
                               .data = find(s, cases[c], kinds[k].name, "packed")->data, .absmax_q = q, .nested_absmax = nested,
                               .nested_code = quant_dynamic_code, .nested_offset = theirs};
            reads_as(&w, find(s, cases[c], kinds[k].name, "nested_dequant")->data, cases[c]);
            free(q);
            free(nested);
        }
    safetensors_close(s);
}

static void int8_has_the_bytes_of_bitsandbytes(void **state)
{
    static const char *const names[] = {"normal", "outliers", "zeros"};
    struct safetensors *s = open_golden("int8");

    for (int c = 0; c < 3; c++) {
        const struct tensor *x = find(s, names[c], NULL, "x"), *cb = find(s, names[c], NULL, "CB"), *scb = find(s, names[c], NULL, "SCB");
        int64_t N = x->shape[0], K = x->shape[1];
        int8_t *codes = xcalloc((size_t)(N * K), 1);
        float *absmax = xcalloc((size_t)N, sizeof *absmax);
        struct weight w = {.type = DTYPE_INT8, .N = N, .K = K, .data = codes, .absmax = absmax};

        quant_int8(x->data, N, K, codes, absmax);
        assert_memory_equal(codes, cb->data, cb->bytes);
        assert_memory_equal(absmax, scb->data, scb->bytes);
        reads_as(&w, find(s, names[c], NULL, "dequant")->data, names[c]);
        free(codes);
        free(absmax);
    }
    safetensors_close(s);
}

static void gguf_blocks_read_as_the_gguf_package_reads_them(void **state)
{
    static const struct { const char *name; enum dtype type; } formats[] = {
        {"Q4_0", DTYPE_Q4_0}, {"Q4_1", DTYPE_Q4_1}, {"Q5_0", DTYPE_Q5_0}, {"Q5_1", DTYPE_Q5_1}, {"Q8_0", DTYPE_Q8_0},
        {"Q2_K", DTYPE_Q2_K}, {"Q3_K", DTYPE_Q3_K}, {"Q4_K", DTYPE_Q4_K}, {"Q5_K", DTYPE_Q5_K}, {"Q6_K", DTYPE_Q6_K},
    };
    struct safetensors *s = open_golden("gguf_blocks");

    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const struct tensor *blocks = find(s, formats[f].name, NULL, "blocks"), *want = find(s, formats[f].name, NULL, "dequant");
        struct weight w = {.type = formats[f].type, .N = blocks->shape[0], .K = dtype_info[formats[f].type].block, .data = blocks->data};

        reads_as(&w, want->data, formats[f].name);
        w.K *= w.N / 2; /* the same bytes as two rows of many blocks */
        w.N = 2;
        reads_as(&w, want->data, formats[f].name);
    }
    safetensors_close(s);
}

/* Any run of a row is the same as that part of the whole row, whatever block borders it crosses; rows of an interleaved matrix are those
 * of the file in another order. */
static void parts_of_rows_are_parts(void **state)
{
    enum { N = 16, K = 512 };
    static uint8_t data[N * K * 4];
    static float absmax[N * K / NF4_BLOCK];
    float whole[K], piece[K];

    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)((i * 2654435761u) >> 13) & 0x3f; /* no NaN in any format */
    for (size_t i = 0; i < sizeof absmax / sizeof *absmax; i++) absmax[i] = 1 + (float)i;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct weight w = {.type = t, .N = N, .K = K, .data = data, .absmax = absmax};

        if (!weight_readable(t)) continue;
        for (int n = 0; n < N; n += 5) {
            weight_row(&w, n, 0, K, whole);
            for (int k0 = 0; k0 < K; k0 += 37)
                for (int k1 = k0; k1 <= K; k1 += 61) {
                    weight_row(&w, n, k0, k1, piece);
                    assert_memory_equal(piece, whole + k0, (size_t)(k1 - k0) * sizeof *piece);
                }
        }
        w.interleaved = 8; /* row (head, j 4 + i) stands in the file as (head, 2 i + j) */
        for (int h = 0; h < N / 8; h++)
            for (int j = 0; j < 2; j++)
                for (int i = 0; i < 4; i++) {
                    struct weight file = w;

                    file.interleaved = 0;
                    weight_row(&w, 8 * h + 4 * j + i, 0, K, piece);
                    weight_row(&file, 8 * h + 2 * i + j, 0, K, whole);
                    assert_memory_equal(piece, whole, sizeof whole);
                }
    }
    assert_false(weight_readable(DTYPE_I32));
}

/* Blocks of K = 33 cross row borders: the flattened tensor counts. */
static void four_bit_blocks_run_over_rows(void **state)
{
    enum { N = 7, K = 33 };
    float x[N * K], absmax[(N * K + NF4_BLOCK - 1) / NF4_BLOCK], got[K];
    uint8_t codes[(N * K + 1) / 2];
    struct weight w = {.type = DTYPE_NF4, .N = N, .K = K, .data = codes, .absmax = absmax};

    for (int i = 0; i < N * K; i++) x[i] = quant_nf4_code[i * 7 % 16] * (float)(1 + i / NF4_BLOCK); /* every block has a 1 and is exact */
    quant_4bit(DTYPE_NF4, x, N * K, codes, absmax);
    for (int n = 0; n < N; n++) {
        weight_row(&w, n, 0, K, got);
        for (int k = 0; k < K; k++) assert_true(fabsf(got[k] - x[n * K + k]) <= ulp(got[k]));
    }
}

/* llama.gguf was written by the gguf package from values on its blocks' grids, so quantising what it reads as gives its bytes again. */
static void gguf_quantisers_give_the_bytes_of_the_gguf_package(void **state)
{
    struct gguf *g;
    struct err err;
    int seen[DTYPE_COUNT] = {0};

    if (gguf_open(&g, PAWL_TESTS "/golden/llama.gguf", &err) != PAWL_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        struct weight w = {.type = t->dtype, .N = 1, .K = tensor_elements(t), .data = t->data};

        if (t->dtype != DTYPE_Q8_0 && t->dtype != DTYPE_Q4_0) continue;
        seen[t->dtype]++;
        float *x = xmalloc((size_t)w.K * sizeof *x);
        uint8_t *bytes = xmalloc(t->bytes);
        weight_row(&w, 0, 0, w.K, x);
        quant_gguf(t->dtype, x, w.K, bytes);
        assert_memory_equal(bytes, t->data, t->bytes);
        free(x);
        free(bytes);
    }
    assert_true(seen[DTYPE_Q8_0] && seen[DTYPE_Q4_0]);
    gguf_close(g);
}

/* Worked by hand from llama.cpp's reference: Q8_0 rounds x 127 / max half away from zero; Q4_0 maps the first of the largest magnitudes to code 0. */
static void gguf_quantisers_round_as_llama_cpp(void **state)
{
    float x[32] = {127, 0.5f, -0.5f, 1.5f, -2.5f, 0.49f, -127}, y[32] = {-8, 8, 7.4f, 7.6f, -0.5f, 0.5f, 0.4f}, zero[32] = {0};
    uint8_t q8[34], q4[18];
    f16 scale;

    quant_gguf(DTYPE_Q8_0, x, 32, q8);
    memcpy(&scale, q8, 2);
    assert_true(f16_to_f32(scale) == 1);
    const int8_t want[7] = {127, 1, -1, 2, -3, 0, -127};
    assert_memory_equal(q8 + 2, want, 7);

    quant_gguf(DTYPE_Q4_0, y, 32, q4);
    memcpy(&scale, q4, 2);
    assert_true(f16_to_f32(scale) == 1);
    const uint8_t codes[7] = {0, 15, 15, 15, 8, 9, 8};
    for (int i = 0; i < 7; i++) assert_int_equal(q4[2 + i] & 15, codes[i]);

    quant_gguf(DTYPE_Q8_0, zero, 32, q8);
    for (int i = 0; i < 34; i++) assert_int_equal(q8[i], 0);
    quant_gguf(DTYPE_Q4_0, zero, 32, q4);
    for (int i = 2; i < 18; i++) assert_int_equal(q4[i], 0x88);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_tables_are_those_of_bitsandbytes),
        cmocka_unit_test(four_bits_have_the_bytes_of_bitsandbytes),
        cmocka_unit_test(double_quantisation_follows_bitsandbytes),
        cmocka_unit_test(int8_has_the_bytes_of_bitsandbytes),
        cmocka_unit_test(gguf_blocks_read_as_the_gguf_package_reads_them),
        cmocka_unit_test(parts_of_rows_are_parts),
        cmocka_unit_test(four_bit_blocks_run_over_rows),
        cmocka_unit_test(gguf_quantisers_give_the_bytes_of_the_gguf_package),
        cmocka_unit_test(gguf_quantisers_round_as_llama_cpp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
