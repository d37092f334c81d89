/* Half precisions, over all their values and what lies between. */
#include "kernels/base/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

/* What h stands for, by the definition of IEEE binary16 (5 bits of exponent, 10 of fraction) and of bf16 (8, 7). NaN and infinity aside. */
static double by_definition(unsigned h, int fraction, int bias)
{
    unsigned exponent = (h & 0x7fff) >> fraction, f = h & ((1u << fraction) - 1);
    double x = exponent ? ldexp((1u << fraction) + f, (int)exponent - bias - fraction) : ldexp(f, 1 - bias - fraction);

    return h & 0x8000 ? -x : x;
}

static void every_half_is_read(void **state)
{
    for (unsigned h = 0; h < 65536; h++) {
        unsigned rest = h & 0x7fff;

        if (rest > 0x7c00) assert_true(isnan(f16_to_f32((f16)h)));
        else if (rest == 0x7c00) assert_true(f16_to_f32((f16)h) == (h & 0x8000 ? -INFINITY : INFINITY));
        else assert_true(f16_to_f32((f16)h) == by_definition(h, 10, 15) && !signbit(f16_to_f32((f16)h)) == !(h & 0x8000));
        if (rest > 0x7f80) assert_true(isnan(bf16_to_f32((bf16)h)));
        else if (rest == 0x7f80) assert_true(bf16_to_f32((bf16)h) == (h & 0x8000 ? -INFINITY : INFINITY));
        else assert_true(bf16_to_f32((bf16)h) == by_definition(h, 7, 127));
    }
}

/* x between neighbours a and b of the format goes to the nearer one, in the middle to the one with an even code. */
static void check_rounding(unsigned (*convert)(float), float (*back)(unsigned), unsigned infinity)
{
    for (unsigned h = 0; h + 1 < infinity; h++) {
        float a = back(h), b = back(h + 1), middle = (float)(((double)a + b) / 2);

        assert_int_equal(convert(a), h);
        assert_int_equal(convert(middle), h & 1 ? h + 1 : h);
        assert_int_equal(convert(nextafterf(middle, 0)), h);
        assert_int_equal(convert(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(convert(-middle), 0x8000 | (h & 1 ? h + 1 : h));
    }
    assert_int_equal(convert(INFINITY), infinity);
    assert_int_equal(convert(-INFINITY), 0x8000 | infinity);
    assert_true((convert(NAN) & 0x7fff) > infinity);
    assert_true((convert(f32_from_bits(0x7f800001)) & 0x7fff) > infinity);
    assert_int_equal(convert(-0.0f), 0x8000);
}

static unsigned to_f16(float x) { return f16_from_f32(x); }
static unsigned to_bf16(float x) { return bf16_from_f32(x); }
static float from_f16(unsigned h) { return f16_to_f32((f16)h); }
static float from_bf16(unsigned h) { return bf16_to_f32((bf16)h); }

static void f16_rounds_to_nearest_even(void **state)
{
    check_rounding(to_f16, from_f16, 0x7c00);
    assert_int_equal(f16_from_f32(65504), 0x7bff);
    assert_int_equal(f16_from_f32(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(f16_from_f32(65520), 0x7c00);
    assert_int_equal(f16_from_f32(1e30f), 0x7c00);
    assert_int_equal(f16_from_f32(0x1p-25f), 0);
    assert_int_equal(f16_from_f32(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(f16_from_f32(0x1p-149f), 0);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    check_rounding(to_bf16, from_bf16, 0x7f80);
    assert_int_equal(bf16_from_f32(3.4e38f), 0x7f80);
}

static void blocks_have_their_sizes(void **state)
{
    for (int t = 0; t < DTYPE_COUNT; t++) assert_true(dtype_info[t].name && dtype_info[t].block > 0 && dtype_info[t].bytes > 0);
    assert_int_equal(dtype_bytes(DTYPE_Q4_1, 64), 40);
    assert_int_equal(dtype_bytes(DTYPE_NF4, 64), 32);
    assert_int_equal(dtype_bytes(DTYPE_Q6_K, 512), 420);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_read),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(blocks_have_their_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
