#include "kernels/base/dtype.h"

const struct dtype_info dtype_info[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 1, 4},        [DTYPE_F16] = {"f16", 1, 2},        [DTYPE_BF16] = {"bf16", 1, 2},
    [DTYPE_F64] = {"f64", 1, 8},        [DTYPE_I64] = {"i64", 1, 8},        [DTYPE_I32] = {"i32", 1, 4},
    [DTYPE_I16] = {"i16", 1, 2},        [DTYPE_I8] = {"i8", 1, 1},          [DTYPE_U8] = {"u8", 1, 1},
    [DTYPE_BOOL] = {"bool", 1, 1},      [DTYPE_F8_E4M3] = {"f8_e4m3", 1, 1}, [DTYPE_F8_E5M2] = {"f8_e5m2", 1, 1},
    [DTYPE_NF4] = {"nf4", 2, 1},        [DTYPE_FP4] = {"fp4", 2, 1},        [DTYPE_INT8] = {"int8", 1, 1},
    [DTYPE_Q4_0] = {"q4_0", 32, 18},    [DTYPE_Q4_1] = {"q4_1", 32, 20},    [DTYPE_Q5_0] = {"q5_0", 32, 22},
    [DTYPE_Q5_1] = {"q5_1", 32, 24},    [DTYPE_Q8_0] = {"q8_0", 32, 34},
    [DTYPE_Q2_K] = {"q2_k", 256, 84},   [DTYPE_Q3_K] = {"q3_k", 256, 110},  [DTYPE_Q4_K] = {"q4_k", 256, 144},
    [DTYPE_Q5_K] = {"q5_k", 256, 176},  [DTYPE_Q6_K] = {"q6_k", 256, 210},
};

float f16_to_f32(f16 h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, frac = h & 0x3ff;

    if (exp == 31) return f32_from_bits(sign | 0x7f800000 | frac << 13);
    if (exp) return f32_from_bits(sign | (exp + 112) << 23 | frac << 13);
    return (sign ? -1.0f : 1.0f) * (float)frac * 0x1p-24f;
}

f16 f16_from_f32(float x)
{
    uint32_t u = f32_bits(x), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;

    if (mag > 0x7f800000) return (f16)(sign | 0x7e00);
    if (mag >= 0x477ff000) return (f16)(sign | 0x7c00); /* 65520 and more rounds to infinity */
    if (mag < 0x38800000) {                             /* below 2^-14: a subnormal counts units of 2^-24 */
        float units = f32_from_bits(mag) * 0x1p24f;
        uint32_t n = (uint32_t)units;
        float rest = units - (float)n;

        n += rest > 0.5f || (rest == 0.5f && (n & 1));
        return (f16)(sign | n);
    }
    mag -= 112u << 23;
    return (f16)(sign | (mag + 0xfff + ((mag >> 13) & 1)) >> 13);
}
