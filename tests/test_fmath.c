/* Our elementary functions against the C library's in long double, which has 11 bits more. */
#include "kernels/base/fmath.h"
#include "kernels/base/rng.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define POINTS 200000

/* A number in [lo, hi), a function of i. */
static double draw(uint32_t i, uint32_t stream, double lo, double hi)
{
    uint32_t w[4];

    philox4x32(w, rng_key(7), i, stream, 0, 0);
    return lo + (hi - lo) * (((double)w[0] + w[1] * 0x1p-32) * 0x1p-32);
}

/* |got - want| in units of the last place of want; subnormals count units of the smallest one. */
static double ulps(double got, long double want)
{
    double w = (double)want, a = fabs(w);
    double unit = a < DBL_MIN ? 0x1p-1074 : nextafter(a, INFINITY) - a;

    return (double)(fabsl((long double)got - want) / unit);
}

static void exp_is_within_one_ulp(void **state)
{
    double worst = 0;

    for (uint32_t i = 0; i < POINTS; i++) {
        double x = draw(i, 0, -745, 709.7), near = draw(i, 1, -2, 2), tiny = ldexp(near, -(int)(i % 60));

        worst = fmax(worst, ulps(fm_exp(x), expl(x)));
        worst = fmax(worst, ulps(fm_exp(near), expl(near)));
        worst = fmax(worst, ulps(fm_exp(tiny), expl(tiny)));
    }
    print_message("exp: %.3f ulp\n", worst);
    assert_true(worst < 1);
    assert_true(fm_exp(0) == 1 && fm_exp(710) == INFINITY && fm_exp(INFINITY) == INFINITY);
    assert_true(fm_exp(-746) == 0 && fm_exp(-INFINITY) == 0 && isnan(fm_exp(NAN)));
}

static void log_is_within_one_ulp(void **state)
{
    double worst = 0;

    for (uint32_t i = 0; i < POINTS; i++) {
        double m = draw(i, 2, 1, 2), x = ldexp(m, (int)(i % 2098) - 1074), near = 1 + ldexp(m - 1.5, -(int)(i % 50));

        worst = fmax(worst, ulps(fm_log(x), logl(x)));
        worst = fmax(worst, ulps(fm_log(near), logl(near)));
    }
    print_message("log: %.3f ulp\n", worst);
    assert_true(worst < 1);
    assert_true(fm_log(1) == 0 && fm_log(0) == -INFINITY && fm_log(INFINITY) == INFINITY && isnan(fm_log(-1)) && isnan(fm_log(NAN)));
}

static void pow_keeps_14_digits(void **state)
{
    double worst = 0;

    for (uint32_t i = 0; i < POINTS; i++) {
        double x = ldexp(draw(i, 3, 1, 2), (int)(i % 600) - 300), y = draw(i, 4, -3, 3);
        long double want = powl(x, y);

        if (want > 1e300L || want < 1e-300L) continue;
        worst = fmax(worst, (double)(fabsl(fm_pow(x, y) - want) / want));
        want = powl(1e6L, -(long double)i / POINTS); /* rotary frequencies */
        worst = fmax(worst, (double)(fabsl(fm_pow(1e6, -(double)i / POINTS) - want) / want));
    }
    print_message("pow: relative %.2e\n", worst);
    assert_true(worst < 1e-14);
    assert_true(fm_pow(3, 0) == 1 && fm_pow(1, 1e9) == 1 && fm_pow(0, 2) == 0 && fm_pow(0, -2) == INFINITY);
    assert_true(fm_pow(10, 400) == INFINITY && fm_pow(10, -400) == 0 && isnan(fm_pow(-1, 2)));
}

static void powi_is_a_product(void **state)
{
    assert_true(fm_powi(0.9, 0) == 1 && fm_powi(0.9, 1) == 0.9 && fm_powi(2, 30) == 0x1p30 && fm_powi(0.5, 1074) == 0x1p-1074);
    for (int n = 1; n < 100000; n = n * 3 + 1)
        assert_true(fabsl(fm_powi(0.999, n) - powl(0.999, n)) <= 4e-16L * n * powl(0.999, n)); /* each squaring doubles the relative error */
}

static void sin_and_cos_are_within_1e15(void **state)
{
    double worst = 0;

    for (uint32_t i = 0; i < POINTS; i++) {
        double far = draw(i, 5, -0x1p30, 0x1p30), near = draw(i, 6, -10, 10), step = nearbyint(draw(i, 7, 0, 131072));

        const double xs[] = {far, near, step, nearbyint(far), nearbyint(near) * 0x1.921fb54442d18p0};
        for (size_t k = 0; k < sizeof xs / sizeof *xs; k++) {
            worst = fmax(worst, (double)fabsl(fm_sin(xs[k]) - sinl(xs[k])));
            worst = fmax(worst, (double)fabsl(fm_cos(xs[k]) - cosl(xs[k])));
        }
    }
    print_message("sin, cos: absolute %.2e\n", worst);
    assert_true(worst < 1e-15);
    assert_true(fm_sin(0) == 0 && fm_cos(0) == 1);
}

static void sqrt_is_correctly_rounded(void **state)
{
    for (uint32_t i = 0; i < 1000; i++) {
        double x = draw(i, 8, 0, 1e6);

        assert_true(ulps(fm_sqrt(x), sqrtl(x)) <= 0.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_ulp),
        cmocka_unit_test(log_is_within_one_ulp),
        cmocka_unit_test(pow_keeps_14_digits),
        cmocka_unit_test(powi_is_a_product),
        cmocka_unit_test(sin_and_cos_are_within_1e15),
        cmocka_unit_test(sqrt_is_correctly_rounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
