#include "kernels/base/fmath.h"

#include <stdint.h>
#include <string.h>

#define INF __builtin_inf()
#define LN2_HI 0x1.62e42fefa2p-1 /* 40 bits: k * LN2_HI is exact for every exponent k of a double */
#define LN2_LO 0x1.9ef35793c7673p-41
#define TO_INT 0x1.8p52 /* x + TO_INT - TO_INT rounds x to an integer */

static double from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint64_t bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* 2^k of a normal exponent. */
static double power_of_two(int k)
{
    return from_bits((uint64_t)(k + 1023) << 52);
}

/* hi + lo = a + b exactly, |a| >= |b| (Dekker 1971). */
static double fast_two_sum(double a, double b, double *lo)
{
    double hi = a + b;

    *lo = b - (hi - a);
    return hi;
}

/* hi + lo = a b exactly, below 2^996 (Dekker 1971): without fma, which is slow where the CPU lacks it. */
static double two_product(double a, double b, double *lo)
{
    double ca = 134217729.0 * a, cb = 134217729.0 * b;
    double ah = ca - (ca - a), al = a - ah, bh = cb - (cb - b), bl = b - bh, hi = a * b;

    *lo = ((ah * bh - hi) + ah * bl + al * bh) + al * bl;
    return hi;
}

/* x = k ln 2 + r, |r| <= ln 2 / 2; e^r = 1 + r + r^2 (1/2! + r/3! + ...) to r^14 / 14!. 1 + r is kept exactly until the end. */
double fm_exp(double x)
{
    if (x != x) return x;
    if (x > 710) return INF;
    if (x < -746) return 0;

    double k = (x * 0x1.71547652b82fep+0 + TO_INT) - TO_INT;
    double hi = x - k * LN2_HI, lo = k * LN2_LO, r = hi - lo, e;
    double p = 1.0 / 87178291200;

    p = p * r + 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 1.0 / 2;
    double one = fast_two_sum(1, hi, &e);
    double y = one + (e + (p * (r * r) - lo));
    int n = (int)k, half = n / 2;

    return y * power_of_two(half) * power_of_two(n - half); /* two steps: 2^n itself may lie outside the normal range; only the last one can round */
}

/* log x as an unevaluated sum. x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); s = f / (2 + f) to twice the precision;
 * log(1 + f) = 2 (s + s^3/3 + s^5/5 + ...). */
static double log_sum(double x, double *lo)
{
    int k = 0;

    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t u = bits(x);
    k += (int)(u >> 52) - 1023;
    double m = from_bits((u & 0xfffffffffffff) | 0x3ff0000000000000);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k++;
    }

    double f = m - 1, d, dl, pl;
    d = fast_two_sum(2, f, &dl);
    double s = f / d, ph = two_product(s, d, &pl);
    double sl = (((f - ph) - pl) - s * dl) / d, z = s * s;
    double q = 1.0 / 25;

    q = q * z + 1.0 / 23;
    q = q * z + 1.0 / 21;
    q = q * z + 1.0 / 19;
    q = q * z + 1.0 / 17;
    q = q * z + 1.0 / 15;
    q = q * z + 1.0 / 13;
    q = q * z + 1.0 / 11;
    q = q * z + 1.0 / 9;
    q = q * z + 1.0 / 7;
    q = q * z + 1.0 / 5;
    q = q * z + 1.0 / 3;
    double rest = 2 * (sl + s * z * q), e = 0, sum = 2 * s;

    if (k != 0) sum = fast_two_sum(k * LN2_HI, 2 * s, &e);
    return fast_two_sum(sum, e + (rest + k * LN2_LO), lo);
}

double fm_log(double x)
{
    double lo, hi;

    if (x != x || x < 0) return __builtin_nan("");
    if (x == 0) return -INF;
    if (x == INF) return x;
    hi = log_sum(x, &lo);
    return hi + lo;
}

double fm_pow(double x, double y)
{
    double lo, hi, plo, p;

    if (x != x || y != y || x < 0) return __builtin_nan("");
    if (y == 0 || x == 1) return 1;
    if (x == 0 || x == INF) return (x == 0) == (y > 0) ? 0 : INF;
    hi = log_sum(x, &lo);
    if (hi * y > 800 || hi * y < -800) return fm_exp(hi * y);
    p = two_product(hi, y, &plo);
    plo += lo * y;
    double e = fm_exp(p);
    return e < INF ? e + e * plo : e;
}

double fm_powi(double x, int n)
{
    double y = 1;

    for (; n > 0; n >>= 1) {
        if (n & 1) y *= x;
        x *= x;
    }
    return y;
}

/* x = n pi/2 + r, |r| <= pi/4. Two parts of pi/2 have 23 bits, so that n times them is exact for n < 2^30. Returns n mod 4. */
static int reduce(double x, double *r)
{
    double n = (x * 0x1.45f306dc9c883p-1 + TO_INT) - TO_INT;

    *r = ((x - n * 0x1.921fb4p+0) - n * 0x1.4442dp-24) - n * 0x1.8469898cc5170p-48;
    return (int)((int64_t)n & 3);
}

static double sin_near_zero(double r)
{
    double z = r * r, p = 1.0 / 355687428096000;

    p = p * z - 1.0 / 1307674368000;
    p = p * z + 1.0 / 6227020800;
    p = p * z - 1.0 / 39916800;
    p = p * z + 1.0 / 362880;
    p = p * z - 1.0 / 5040;
    p = p * z + 1.0 / 120;
    p = p * z - 1.0 / 6;
    return r + r * z * p;
}

static double cos_near_zero(double r)
{
    double z = r * r, p = 1.0 / 20922789888000;

    p = p * z - 1.0 / 87178291200;
    p = p * z + 1.0 / 479001600;
    p = p * z - 1.0 / 3628800;
    p = p * z + 1.0 / 40320;
    p = p * z - 1.0 / 720;
    p = p * z + 1.0 / 24;
    return 1 - (z / 2 - z * z * p);
}

double fm_sin(double x)
{
    double r;

    switch (reduce(x, &r)) {
    case 0: return sin_near_zero(r);
    case 1: return cos_near_zero(r);
    case 2: return -sin_near_zero(r);
    default: return -cos_near_zero(r);
    }
}

double fm_cos(double x)
{
    double r;

    switch (reduce(x, &r)) {
    case 0: return cos_near_zero(r);
    case 1: return -sin_near_zero(r);
    case 2: return -cos_near_zero(r);
    default: return sin_near_zero(r);
    }
}

double fm_sqrt(double x)
{
    return __builtin_sqrt(x);
}
