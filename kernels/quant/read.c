/* Readers: how a run of a stored matrix becomes fp32. One row of the table below is one format; the block layouts of GGUF are those of ggml-common.h.
 * Products and sums are in the order of the gguf package's numpy code, so that values are equal, not just close. */
#include "kernels/weight.h"

#include <assert.h>

static float half_at(const uint8_t *p)
{
    f16 h;

    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

/* ---- 32 elements a block: scale, (minimum,) (fifth bits,) nibbles; low nibbles are the first half ---- */

static void read_q4_0(const uint8_t *p, float *out)
{
    float d = half_at(p);

    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((p[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((p[2 + i] >> 4) - 8);
    }
}

static void read_q4_1(const uint8_t *p, float *out)
{
    float d = half_at(p), m = half_at(p + 2);

    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(p[4 + i] & 15) + m;
        out[i + 16] = d * (float)(p[4 + i] >> 4) + m;
    }
}

/* The 32 five-bit codes of fifth bits at p and nibbles behind them. */
static void five_bits(const uint8_t *p, int *q)
{
    uint32_t high;

    memcpy(&high, p, sizeof high);
    for (int i = 0; i < 16; i++) {
        q[i] = (p[4 + i] & 15) | (int)(high >> i & 1) << 4;
        q[i + 16] = p[4 + i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
    }
}

static void read_q5_0(const uint8_t *p, float *out)
{
    float d = half_at(p);
    int q[32];

    five_bits(p + 2, q);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(q[i] - 16);
}

static void read_q5_1(const uint8_t *p, float *out)
{
    float d = half_at(p), m = half_at(p + 2);
    int q[32];

    five_bits(p + 4, q);
    for (int i = 0; i < 32; i++) out[i] = d * (float)q[i] + m;
}

static void read_q8_0(const uint8_t *p, float *out)
{
    float d = half_at(p);

    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)p[2 + i] * d;
}

/* ---- 256 elements a block, in groups of 16 or 32 with scales of their own ---- */

/* scales[16] (low nibble scale, high nibble minimum), codes[64], d, dmin. 32 bytes hold four runs of 32 elements in their bit pairs. */
static void read_q2_k(const uint8_t *p, float *out)
{
    float d = half_at(p + 80), dmin = half_at(p + 82);

    for (int i = 0; i < 256; i++) {
        int run = i / 32 % 4, scale = p[i / 16], q = p[16 + i / 128 * 32 + i % 32] >> 2 * run & 3;

        out[i] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
    }
}

/* high bits[32], codes[64] as in q2_k, scales[12] of 6 bits less 32, d. A clear high bit means less 4. */
static void read_q3_k(const uint8_t *p, float *out)
{
    const uint8_t *codes = p + 32, *scales = p + 96;
    float d = half_at(p + 108);

    for (int i = 0; i < 256; i++) {
        int g = i / 16, run = i / 32; /* scale g: its low nibble in bytes 0..7, its upper two bits in bytes 8..11 */
        int scale = (scales[g % 8] >> 4 * (g / 8) & 15) | (scales[8 + g % 4] >> 2 * (g / 4) & 3) << 4;
        int q = (codes[i / 128 * 32 + i % 32] >> 2 * (run % 4) & 3) - (p[i % 32] >> run & 1 ? 0 : 4);

        out[i] = d * (float)(scale - 32) * (float)q;
    }
}

/* Scale and minimum j of 8, six bits each, from the 12 bytes of q4_k and q5_k. */
static void scale_and_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* d, dmin, scales[12], nibbles[128]: 32 bytes hold two runs of 32 elements, the low nibbles first. */
static void read_q4_k(const uint8_t *p, float *out)
{
    float d = half_at(p), dmin = half_at(p + 2);

    for (int j = 0; j < 8; j++) {
        int scale, min;

        scale_and_min(p + 4, j, &scale, &min);
        float dj = d * (float)scale, mj = dmin * (float)min;
        for (int i = 0; i < 32; i++) out[32 * j + i] = dj * (float)(p[16 + j / 2 * 32 + i] >> 4 * (j % 2) & 15) - mj;
    }
}

/* d, dmin, scales[12], fifth bits[32] (bit j of byte i: run j, element i), nibbles[128] as in q4_k. */
static void read_q5_k(const uint8_t *p, float *out)
{
    float d = half_at(p), dmin = half_at(p + 2);

    for (int j = 0; j < 8; j++) {
        int scale, min;

        scale_and_min(p + 4, j, &scale, &min);
        float dj = d * (float)scale, mj = dmin * (float)min;
        for (int i = 0; i < 32; i++) {
            int q = (p[48 + j / 2 * 32 + i] >> 4 * (j % 2) & 15) | (p[16 + i] >> j & 1) << 4;

            out[32 * j + i] = dj * (float)q - mj;
        }
    }
}

/* nibbles[128], upper pairs[64], signed scales[16], d. 64 bytes hold 128 elements: two runs of 32 in the low, two in the high nibbles. */
static void read_q6_k(const uint8_t *p, float *out)
{
    float d = half_at(p + 208);

    for (int i = 0; i < 256; i++) {
        int half = i / 128, run = i / 32 % 4, j = i % 32;
        int low = p[64 * half + 32 * (run % 2) + j] >> 4 * (run / 2) & 15, high = p[128 + 32 * half + j] >> 2 * run & 3;

        out[i] = d * (float)(int8_t)p[192 + i / 16] * (float)((low | high << 4) - 32);
    }
}

/* ---- element by element: n elements from element `at` of the flattened tensor ---- */

static void read_f32(const struct weight *w, int64_t at, int64_t n, float *out)
{
    if (n) memcpy(out, (const char *)w->data + at * 4, (size_t)n * 4);
}

static void read_f16(const struct weight *w, int64_t at, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = half_at((const uint8_t *)w->data + 2 * (at + i));
}

static void read_bf16(const struct weight *w, int64_t at, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        bf16 h;

        memcpy(&h, (const char *)w->data + 2 * (at + i), sizeof h);
        out[i] = bf16_to_f32(h);
    }
}

static void read_int8(const struct weight *w, int64_t at, int64_t n, float *out)
{
    const int8_t *q = w->data;

    for (int64_t i = 0; i < n; i++) out[i] = (float)q[at + i] * w->absmax[(at + i) / w->K] * (1 / 127.0f);
}

static float absmax_of(const struct weight *w, int64_t block)
{
    if (!w->absmax_q) return w->absmax[block];
    return w->nested_code[w->absmax_q[block]] * w->nested_absmax[block / NF4_NESTED] + w->nested_offset;
}

static void read_4bit(const struct weight *w, int64_t at, int64_t n, float *out)
{
    const float *code = w->type == DTYPE_NF4 ? quant_nf4_code : quant_fp4_code;
    const uint8_t *q = w->data;
    float absmax = 0;

    for (int64_t i = at; i < at + n; i++) {
        if (i == at || i % NF4_BLOCK == 0) absmax = absmax_of(w, i / NF4_BLOCK);
        out[i - at] = code[i % 2 ? q[i / 2] & 15 : q[i / 2] >> 4] * absmax;
    }
}

static const struct reader {
    void (*run)(const struct weight *w, int64_t at, int64_t n, float *out);
    void (*block)(const uint8_t *p, float *out); /* or: one block */
} readers[DTYPE_COUNT] = {
    [DTYPE_F32] = {.run = read_f32},     [DTYPE_F16] = {.run = read_f16},     [DTYPE_BF16] = {.run = read_bf16},
    [DTYPE_NF4] = {.run = read_4bit},    [DTYPE_FP4] = {.run = read_4bit},    [DTYPE_INT8] = {.run = read_int8},
    [DTYPE_Q4_0] = {.block = read_q4_0}, [DTYPE_Q4_1] = {.block = read_q4_1}, [DTYPE_Q5_0] = {.block = read_q5_0},
    [DTYPE_Q5_1] = {.block = read_q5_1}, [DTYPE_Q8_0] = {.block = read_q8_0},
    [DTYPE_Q2_K] = {.block = read_q2_k}, [DTYPE_Q3_K] = {.block = read_q3_k}, [DTYPE_Q4_K] = {.block = read_q4_k},
    [DTYPE_Q5_K] = {.block = read_q5_k}, [DTYPE_Q6_K] = {.block = read_q6_k},
};

#define MAX_BLOCK 256

static void read_blocks(const struct weight *w, void (*block)(const uint8_t *, float *), int64_t at, int64_t n, float *out)
{
    int64_t size = dtype_info[w->type].block, bytes = dtype_info[w->type].bytes, end = at + n;
    float whole[MAX_BLOCK];

    while (at < end) {
        int64_t skip = at % size, take = size - skip < end - at ? size - skip : end - at;
        const uint8_t *p = (const uint8_t *)w->data + at / size * bytes;

        if (take == size) block(p, out);
        else {
            block(p, whole);
            memcpy(out, whole + skip, (size_t)take * sizeof *out);
        }
        at += take;
        out += take;
    }
}

bool weight_readable(enum dtype type)
{
    return readers[type].run || readers[type].block;
}

void weight_row(const struct weight *w, int64_t n, int64_t k0, int64_t k1, float *out)
{
    const struct reader *r = &readers[w->type];
    int64_t at = weight_stored_row(w, n) * w->K + k0;

    assert(0 <= n && n < w->N && 0 <= k0 && k0 <= k1 && k1 <= w->K && weight_readable(w->type));
    if (r->run) r->run(w, at, k1 - k0, out);
    else read_blocks(w, r->block, at, k1 - k0, out);
}
