/* Element types and their storage. A type is a row of one table: name, elements and bytes of a block; what reads a block is in kernels/quant. */
#ifndef PAWL_BASE_DTYPE_H
#define PAWL_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
    DTYPE_F32, DTYPE_F16, DTYPE_BF16,
    DTYPE_F64, DTYPE_I64, DTYPE_I32, DTYPE_I16, DTYPE_I8, DTYPE_U8, DTYPE_BOOL, DTYPE_F8_E4M3, DTYPE_F8_E5M2,
    DTYPE_NF4, DTYPE_FP4,                                          /* bitsandbytes 4-bit: codes here, scales beside (struct weight) */
    DTYPE_INT8,                                                    /* bitsandbytes int8: codes here, one absmax a row beside */
    DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0,    /* GGUF, 32 elements a block */
    DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K,    /* GGUF, 256 elements a block */
    DTYPE_COUNT
};

struct dtype_info {
    const char *name; /* as messages and plan print it: "f32", "q4_1" */
    int block;        /* elements of a block */
    int bytes;        /* bytes of a block */
};
extern const struct dtype_info dtype_info[DTYPE_COUNT];

/* Bytes of n elements; n must be a multiple of the block. */
static inline size_t dtype_bytes(enum dtype t, int64_t n)
{
    return (size_t)(n / dtype_info[t].block) * (size_t)dtype_info[t].bytes;
}

typedef uint16_t bf16; /* the upper half of an fp32 */
typedef uint16_t f16;  /* IEEE binary16 */

static inline float f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float bf16_to_f32(bf16 h)
{
    return f32_from_bits((uint32_t)h << 16);
}

/* Round to nearest even; NaN stays NaN. */
static inline bf16 bf16_from_f32(float x)
{
    uint32_t u = f32_bits(x);

    if ((u & 0x7fffffff) > 0x7f800000) return (bf16)((u >> 16) | 0x40);
    return (bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float f16_to_f32(f16 h);
f16 f16_from_f32(float x); /* round to nearest even, overflow to infinity */

#endif
