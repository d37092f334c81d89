/* Vectors of VL 32-bit lanes in GCC's vector extension, with intrinsics where the language has no word for an instruction.
 * VL is 16 (AVX-512), 8 (AVX2 and FMA) or 4 (portable: what every compiler target has). No libm: results depend on the instruction set only. */
#ifndef PAWL_CPU_SIMD_H
#define PAWL_CPU_SIMD_H

#include "kernels/base/dtype.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VL 16
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4
#endif

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef uint16_t vh __attribute__((vector_size(2 * VL)));
typedef double vd __attribute__((vector_size(8 * VL)));

/* The same in memory: any alignment, any type behind the pointer. */
typedef float vf_mem __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint16_t vh_mem __attribute__((vector_size(2 * VL), aligned(2), may_alias));

#define UNROLL _Pragma("GCC unroll 32")

static inline vf vload(const void *p) { return *(const vf_mem *)p; }
static inline void vstore(void *p, vf x) { *(vf_mem *)p = x; }

static inline vf vsplat(float x)
{
#if VL == 16
    return _mm512_set1_ps(x);
#elif VL == 8
    return _mm256_set1_ps(x);
#else
    return (vf){x, x, x, x};
#endif
}

/* a b + c: one rounding where the instruction set has fma, two in the portable one. */
static inline vf vfma(vf a, vf b, vf c)
{
#if VL == 16
    return _mm512_fmadd_ps(a, b, c);
#elif VL == 8
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

/* yes where mask's lanes are all ones, no where they are 0 (the result of a vector comparison). */
static inline vf vselect(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

/* a > b ? a : b, so b where one of them is NaN. */
static inline vf vmax(vf a, vf b)
{
#if VL == 16
    return _mm512_max_ps(a, b);
#elif VL == 8
    return _mm256_max_ps(a, b);
#else
    return vselect(a > b, a, b);
#endif
}

static inline vf vsqrt(vf x)
{
#if VL == 16
    return _mm512_sqrt_ps(x);
#elif VL == 8
    return _mm256_sqrt_ps(x);
#else
    for (int i = 0; i < VL; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* Horizontal forms: halves folded onto each other, in this order. */
static inline float vsum(vf x)
{
#if VL == 16
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
#elif VL == 8
    __m256 half = x;
#endif
#if VL >= 8
    typedef float f4 __attribute__((vector_size(16)));
    f4 t = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#else
    vf t = x;
#endif
    return (t[0] + t[2]) + (t[1] + t[3]);
}

static inline float vmax_of(vf x)
{
#if VL == 16
    return _mm512_reduce_max_ps(x);
#else
    float m = x[0];

    for (int i = 1; i < VL; i++) m = x[i] > m ? x[i] : m;
    return m;
#endif
}

#define LOG2E 1.44269504088896340736f
#define LN2 0.69314718055994530942f
#define ROUND_MAGIC 0x1.8p23f /* adding it leaves the nearest integer in the low bits */

/* p 2^n where `bits` is n + ROUND_MAGIC; 0 in lanes where x < low. (The exponent is added as an integer: vscalefps is slow where a result underflows.) */
static inline vf vscale(vf p, vf bits, vf x, float low)
{
    vi y = (vi)p + ((vi)bits << 23);

#if VL == 16
    return (vf)_mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(x, vsplat(low), _CMP_NLT_UQ), (__m512i)y);
#else
    return (vf)(~(x < low) & y);
#endif
}

/* 2^x, x < 127.5: 2^f, |f| <= 1/2, is a minimax polynomial (relative error 2e-8, and its rounding). 0 below -126, NaN stays NaN. */
static inline vf vexp2(vf x)
{
    vf bits = x + ROUND_MAGIC, f = x - (bits - ROUND_MAGIC), p = vsplat(1.535334159e-4f);

    p = vfma(p, f, vsplat(1.339890063e-3f));
    p = vfma(p, f, vsplat(9.618437849e-3f));
    p = vfma(p, f, vsplat(5.550332367e-2f));
    p = vfma(p, f, vsplat(2.402264774e-1f));
    p = vfma(p, f, vsplat(6.931471825e-1f));
    return vscale(vfma(p, f, vsplat(1)), bits, x, -126);
}

/* e^x, the same with a relative error of 4e-9 and its rounding. It stays finite, 2^126, for large x. ln 2 is taken away in two parts, the first of so few bits
 * that its product is exact. */
static inline vf vexp(vf x)
{
    x = vselect(x > 126 * LN2, vsplat(126 * LN2), x);
    vf bits = vfma(x, vsplat(LOG2E), vsplat(ROUND_MAGIC)), n = bits - ROUND_MAGIC;
    vf r = vfma(n, vsplat(2.12194440e-4f), vfma(n, vsplat(-0.693359375f), x)), p = vsplat(1.381454058e-3f);

    p = vfma(p, r, vsplat(8.368745446e-3f));
    p = vfma(p, r, vsplat(4.166838899e-2f));
    p = vfma(p, r, vsplat(1.666652113e-1f));
    p = vfma(p, r, vsplat(4.999999404e-1f));
    return vscale(vfma(p * r, r, r) + 1.0f, bits, x, -126 * LN2);
}

/* ln x for normal x > 0: x = 2^n (1 + t), 1 + t in [sqrt(1/2), sqrt 2); ln(1 + t) = t - t^2 / 2 + t^3 p(t), p minimax (relative error 6e-9). NaN stays NaN. */
static inline vf vlog(vf x)
{
    vi bits = (vi)x, above = bits - 0x3f3504f3; /* the bits of sqrt(1/2) */
    vf n = __builtin_convertvector(above >> 23, vf), t = (vf)(bits - (above & ~0x7fffff)) - 1.0f, p = vsplat(-7.634498924e-2f);

    p = vfma(p, t, vsplat(1.276157945e-1f));
    p = vfma(p, t, vsplat(-1.316018254e-1f));
    p = vfma(p, t, vsplat(1.420175731e-1f));
    p = vfma(p, t, vsplat(-1.662335694e-1f));
    p = vfma(p, t, vsplat(2.000122666e-1f));
    p = vfma(p, t, vsplat(-2.500081956e-1f));
    p = vfma(p, t, vsplat(3.333333135e-1f));
    vf tt = t * t, small = vfma(tt * t, p, tt * -0.5f);
    vf y = vfma(n, vsplat(0.693359375f), t + vfma(n, vsplat(-2.12194440e-4f), small));

    return vselect(x == x, y, x);
}

/* 1 / (1 + e^-x), but never below 2^-64: what it is multiplied with would end in the denormals, which are slow, and no sum could tell. */
static inline vf vsigmoid(vf x)
{
    return 1.0f / (1.0f + vexp(vselect(x < -64 * LN2, vsplat(64 * LN2), -x)));
}

/* bf16 in memory. Rounding is to nearest even, NaN stays NaN, as bf16_from_f32(). */
static inline vf vload_bf16(const bf16 *p)
{
#if VL == 16
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16); /* GCC 12 makes five instructions of the conversion */
#elif VL == 8
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16);
#else
    vu u = __builtin_convertvector(*(const vh_mem *)p, vu);

    return (vf)(u << 16);
#endif
}

static inline vu vround_bf16_bits(vf x)
{
    vu u = (vu)x, high = u >> 16;
    vu r = (u + 0x7fff + (high & 1)) >> 16;

#if VL == 16
    return (vu)_mm512_mask_or_epi32((__m512i)r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), (__m512i)high, _mm512_set1_epi32(0x40));
#else
    vu nan = (vu)(x != x);

    return (nan & (high | 0x40)) | (~nan & r);
#endif
}

static inline vf vround_bf16(vf x)
{
    return (vf)(vround_bf16_bits(x) << 16);
}

static inline void vstore_bf16(bf16 *p, vf x)
{
    vu u = vround_bf16_bits(x);

#if VL == 16
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16((__m512i)u));
#elif VL == 8
    *(vh_mem *)p = (vh)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)u), _mm256_extracti128_si256((__m256i)u, 1));
#else
    *(vh_mem *)p = __builtin_convertvector(u, vh);
#endif
}

/* The lanes of a and b, alternating: the lower and the upper half of the result. */
#if VL == 16
#define ZIP_LO ((vi){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23})
#elif VL == 8
#define ZIP_LO ((vi){0, 8, 1, 9, 2, 10, 3, 11})
#else
#define ZIP_LO ((vi){0, 4, 1, 5})
#endif
static inline vf vzip_lo(vf a, vf b) { return __builtin_shuffle(a, b, ZIP_LO); }
static inline vf vzip_hi(vf a, vf b) { return __builtin_shuffle(a, b, ZIP_LO + VL / 2); }

/* Transposes a square of VL x VL 32-bit words held in r[0..VL): log2(VL) rounds, each exchanges off-diagonal squares of s x s. */
static inline void vtranspose(vf r[VL])
{
#if VL == 16
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif VL == 8
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
#else
    const vi lane = {0, 1, 2, 3};
#endif
#define EXCHANGE(s)                                                                                     \
    UNROLL for (int i = 0; i < VL; i++) if (!(i & (s))) {                                               \
        vf a = r[i], b = r[i + (s)];                                                                    \
        vi upper = (lane & (s)) != 0;                                                                   \
        r[i] = __builtin_shuffle(a, b, (~upper & lane) | (upper & (lane - (s) + VL)));                  \
        r[i + (s)] = __builtin_shuffle(a, b, (~upper & (lane + (s))) | (upper & (lane + VL)));          \
    }
#if VL >= 16
    EXCHANGE(8)
#endif
#if VL >= 8
    EXCHANGE(4)
#endif
    EXCHANGE(2)
    EXCHANGE(1)
#undef EXCHANGE
}

#endif
