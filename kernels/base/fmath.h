/* Elementary functions whose bits do not depend on a C library or on the CPU's variant of it: plain IEEE double operations in a fixed order.
 * Everything that decides a training step (schedules, rotary tables, the oracle) uses these; vector kernels have their own fp32 forms. */
#ifndef PAWL_BASE_FMATH_H
#define PAWL_BASE_FMATH_H

double fm_exp(double x);          /* error below 1 ulp; overflow to inf, underflow to 0 */
double fm_log(double x);          /* x > 0; error below 1 ulp; 0 -> -inf, negative -> NaN */
double fm_pow(double x, double y); /* x > 0: exp(y log x), relative error below 1e-14 for results in range */
double fm_powi(double x, int n);  /* n >= 0, by squaring */
double fm_sin(double x);          /* |x| < 2^30: absolute error below 1e-15 */
double fm_cos(double x);
double fm_sqrt(double x);         /* correctly rounded, as IEEE demands of the instruction */

#endif
