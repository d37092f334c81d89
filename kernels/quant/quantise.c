/* Quantisers. Each follows one program's arithmetic step by step in fp32, because its files must come out byte for byte. */
#include "kernels/weight.h"

#include <assert.h>

#define SMALLEST_ABSMAX 1e-38f /* bitsandbytes divides by no less */
#define TO_INT 0x1.8p23f       /* x + TO_INT - TO_INT rounds x to the nearest integer, ties to even */

static float largest(const float *x, int64_t n)
{
    float max = 0;

    for (int64_t i = 0; i < n; i++) {
        float a = __builtin_fabsf(x[i]);
        if (a > max) max = a;
    }
    return max;
}

static float clamp1(float x)
{
    return x < -1 ? -1 : x > 1 ? 1 : x;
}

/* ---- bitsandbytes 4-bit: the number of midpoints below x / absmax says which level it is; a tie goes to the lower one ---- */

struct levels {
    float mid[15];
    uint8_t code[16]; /* codes in ascending order of their values */
};

static void sort_levels(struct levels *l, const float *table)
{
    int n = 0;

    /* Where two codes mean 0 (FP4), the one with the sign bit set stands above the other. */
    for (int i = 0; i < 16; i++) {
        int j = n++;

        for (; j > 0 && table[l->code[j - 1]] > table[i]; j--) l->code[j] = l->code[j - 1];
        l->code[j] = (uint8_t)i;
    }
    for (int i = 0; i < 15; i++) l->mid[i] = (table[l->code[i]] + table[l->code[i + 1]]) / 2;
}

/* One block; x is padded to its full length with zeros. */
static void encode_block(const struct levels *l, const float x[NF4_BLOCK], uint8_t level[NF4_BLOCK])
{
    int32_t count[NF4_BLOCK] = {0};

    for (int k = 0; k < 15; k++)
        for (int i = 0; i < NF4_BLOCK; i++) count[i] += x[i] > l->mid[k];
    for (int i = 0; i < NF4_BLOCK; i++) level[i] = l->code[count[i]];
}

void quant_4bit(enum dtype type, const float *x, int64_t n, uint8_t *codes, float *absmax)
{
    struct levels levels;

    assert(type == DTYPE_NF4 || type == DTYPE_FP4);
    sort_levels(&levels, type == DTYPE_NF4 ? quant_nf4_code : quant_fp4_code);
    for (int64_t b = 0; b * NF4_BLOCK < n; b++) {
        const float *from = x + b * NF4_BLOCK;
        int64_t len = n - b * NF4_BLOCK < NF4_BLOCK ? n - b * NF4_BLOCK : NF4_BLOCK;
        float scaled[NF4_BLOCK] = {0};
        uint8_t level[NF4_BLOCK];

        absmax[b] = largest(from, len);
        if (len == NF4_BLOCK) {
            float inverse = 1 / (absmax[b] > SMALLEST_ABSMAX ? absmax[b] : SMALLEST_ABSMAX);

            for (int i = 0; i < NF4_BLOCK; i++) scaled[i] = clamp1(from[i] * inverse);
        } else { /* the tail of a tensor is divided, and keeps the smallest absmax */
            if (absmax[b] < SMALLEST_ABSMAX) absmax[b] = SMALLEST_ABSMAX;
            for (int i = 0; i < len; i++) scaled[i] = clamp1(from[i] / absmax[b]);
        }
        encode_block(&levels, scaled, level);
        for (int64_t i = 0; i < len; i += 2) codes[b * (NF4_BLOCK / 2) + i / 2] = (uint8_t)(level[i] << 4 | level[i + 1]);
    }
}

/* ---- double quantisation ---- */

/* x in [-1, 1] is moved to the nearest of 65536 points, and the code nearest to that point is taken, the lower one in a tie:
 * what bitsandbytes does on a CPU (on a GPU it takes the code nearest to x, which now and then is the neighbour). */
static uint8_t dynamic_code(float x)
{
    int point = (int)((clamp1(x) + 1) * 0.5f * 65535 + 0.5f), low = 0, high = 255;
    float at = -1 + 2.0f * (float)point / 65535;

    while (low < high) {
        int i = (low + high) / 2;

        if (0.5f * (quant_dynamic_code[i] + quant_dynamic_code[i + 1]) < at) low = i + 1;
        else high = i;
    }
    return (uint8_t)low;
}

void quant_nested_with_offset(const float *absmax, int64_t nblock, float offset, uint8_t *absmax_q, float *nested_absmax)
{
    for (int64_t b = 0; b * NF4_NESTED < nblock; b++) {
        int64_t from = b * NF4_NESTED, len = nblock - from < NF4_NESTED ? nblock - from : NF4_NESTED;
        float rest[NF4_NESTED];

        for (int64_t i = 0; i < len; i++) rest[i] = absmax[from + i] - offset;
        nested_absmax[b] = largest(rest, len);
        float inverse = nested_absmax[b] > 0 ? 1 / nested_absmax[b] : 0;
        for (int64_t i = 0; i < len; i++) absmax_q[from + i] = inverse > 0 ? dynamic_code(rest[i] * inverse) : 0;
    }
}

void quant_nested(const float *absmax, int64_t nblock, uint8_t *absmax_q, float *nested_absmax, float *offset)
{
    double sum = 0;

    for (int64_t i = 0; i < nblock; i++) sum += absmax[i];
    *offset = nblock ? (float)(sum / (double)nblock) : 0;
    quant_nested_with_offset(absmax, nblock, *offset, absmax_q, nested_absmax);
}

/* ---- bitsandbytes int8 ---- */

void quant_int8(const float *x, int64_t N, int64_t K, int8_t *codes, float *absmax)
{
    for (int64_t n = 0; n < N; n++) {
        absmax[n] = largest(x + n * K, K);
        float scale = absmax[n] > 0 ? 1 / absmax[n] * 127 : 0; /* torch's 127 / absmax */
        for (int64_t k = 0; k < K; k++) codes[n * K + k] = (int8_t)((x[n * K + k] * scale + TO_INT) - TO_INT);
    }
}

/* ---- GGUF ---- */

static void put_half(uint8_t *p, float x)
{
    f16 h = f16_from_f32(x);

    memcpy(p, &h, sizeof h);
}

/* To the nearest integer, ties away from zero. */
static int nearest(float x)
{
    float a = __builtin_fabsf(x);
    int n = (int)a;

    n += a - (float)n >= 0.5f;
    return x < 0 ? -n : n;
}

static void quant_q8_0(const float *x, uint8_t *out)
{
    float d = largest(x, 32) / 127, inverse = d != 0 ? 1 / d : 0;

    put_half(out, d);
    for (int i = 0; i < 32; i++) out[2 + i] = (uint8_t)(int8_t)nearest(x[i] * inverse);
}

/* The element of the largest magnitude, the first of several, becomes exactly -8 d. A block of zeros has the scale -0, as in ggml-quants.c. */
static void quant_q4_0(const float *x, uint8_t *out)
{
    float extreme = 0;
    int q[32];

    for (int i = 0; i < 32; i++)
        if (__builtin_fabsf(x[i]) > __builtin_fabsf(extreme)) extreme = x[i];
    float d = extreme / -8, inverse = d != 0 ? 1 / d : 0;
    put_half(out, d);
    for (int i = 0; i < 32; i++) {
        q[i] = (int)(x[i] * inverse + 8.5f);
        if (q[i] > 15) q[i] = 15;
    }
    for (int i = 0; i < 16; i++) out[2 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

void quant_gguf(enum dtype type, const float *x, int64_t n, void *out)
{
    void (*block)(const float *, uint8_t *) = type == DTYPE_Q8_0 ? quant_q8_0 : quant_q4_0;

    assert((type == DTYPE_Q8_0 || type == DTYPE_Q4_0) && n % 32 == 0);
    for (int64_t b = 0; b < n / 32; b++) block(x + b * 32, (uint8_t *)out + b * dtype_info[type].bytes);
}
