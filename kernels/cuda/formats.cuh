/* How eight (or of formats without blocks one) stored elements become fp32. A format is a struct with
 *   WIDE        it reads eight at a time only
 *   read<N>()   out = elements at .. at + N of the flattened tensor, at a multiple of N
 * and a row of FORMATS. Block layouts, products and sums are those of kernels/quant/read.c, so that values are equal, not just close. */
#ifndef PAWL_CUDA_FORMATS_CUH
#define PAWL_CUDA_FORMATS_CUH

#include "kernels/cuda/vec.cuh"

#define FORMATS(X) \
    X(DTYPE_F32, format_f32) X(DTYPE_F16, format_f16) X(DTYPE_BF16, format_bf16) X(DTYPE_NF4, format_nf4) X(DTYPE_FP4, format_fp4) X(DTYPE_INT8, format_int8) \
    X(DTYPE_Q4_0, format_q4_0) X(DTYPE_Q4_1, format_q4_1) X(DTYPE_Q5_0, format_q5_0) X(DTYPE_Q5_1, format_q5_1) X(DTYPE_Q8_0, format_q8_0) \
    X(DTYPE_Q2_K, format_q2_k) X(DTYPE_Q3_K, format_q3_k) X(DTYPE_Q4_K, format_q4_k) X(DTYPE_Q5_K, format_q5_k) X(DTYPE_Q6_K, format_q6_k)

/* Formats with codes of 16 values keep them in shared memory: 16 banks, so no two lanes wait for each other. */
#define CODES 16

struct format_plain {
    static const bool WIDE = false;
    static __device__ void codes(float *) {}
};

struct format_f32 : format_plain {
    template <int N> static __device__ __forceinline__ void read(const struct weight &w, const float *, int64_t at, float *out) { load_f32<N>(out, (const float *)w.data + at); }
};

struct format_bf16 : format_plain {
    template <int N> static __device__ __forceinline__ void read(const struct weight &w, const float *, int64_t at, float *out) { load_bf16<N>(out, (const bf16 *)w.data + at); }
};

struct format_f16 : format_plain {
    template <int N> static __device__ __forceinline__ void read(const struct weight &w, const float *, int64_t at, float *out)
    {
#pragma unroll
        for (int i = 0; i < N; i++) out[i] = ptx_half(((const uint16_t *)w.data)[at + i]);
    }
};

struct format_int8 : format_plain {
    template <int N> static __device__ __forceinline__ void read(const struct weight &w, const float *, int64_t at, float *out)
    {
        float absmax = w.absmax[at / w.K]; /* N divides K */

#pragma unroll
        for (int i = 0; i < N; i++) out[i] = (float)((const int8_t *)w.data)[at + i] * absmax * (1 / 127.0f);
    }
};

/* ---- bitsandbytes 4-bit ---- */

static __device__ __forceinline__ float absmax_of(const struct weight &w, int64_t block)
{
    if (!w.absmax_q) return w.absmax[block];
    return w.nested_code[w.absmax_q[block]] * w.nested_absmax[block / NF4_NESTED] + w.nested_offset;
}

static __constant__ float nf4_values[16] = {
    -1.0f,          -0x1.647362p-1f, -0x1.0cd660p-1f, -0x1.946540p-2f, -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
    0x1.45f5fep-4f, 0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,  0x1.c34970p-2f,  0x1.200f56p-1f,  0x1.722766p-1f,  1.0f,
};

static __constant__ float fp4_values[16] = {
    0.0f, 0x1.555556p-8f,  0x1.555556p-1f,  1.0f,  0x1.555556p-2f,  0.5f,  0x1.555556p-3f,  0.25f,
    0.0f, -0x1.555556p-8f, -0x1.555556p-1f, -1.0f, -0x1.555556p-2f, -0.5f, -0x1.555556p-3f, -0.25f,
};

struct format_4bit {
    static const bool WIDE = false;
    template <int N> static __device__ __forceinline__ void read(const struct weight &w, const float *codes, int64_t at, float *out)
    {
        float absmax = absmax_of(w, at / NF4_BLOCK);

        if (N == 8) {
            uint32_t q = *(const uint32_t *)((const char *)w.data + at / 2); /* byte i holds elements 2 i (high) and 2 i + 1 */

#pragma unroll
            for (int i = 0; i < 8; i++) out[i] = codes[q >> (4 * (i ^ 1)) & 15] * absmax;
        } else {
            uint32_t q = ((const uint8_t *)w.data)[at / 2];

            out[0] = codes[at % 2 ? q & 15 : q >> 4] * absmax;
        }
    }
};

struct format_nf4 : format_4bit {
    static __device__ void codes(float *to) { if (threadIdx.x < CODES) to[threadIdx.x] = nf4_values[threadIdx.x]; }
};

struct format_fp4 : format_4bit {
    static __device__ void codes(float *to) { if (threadIdx.x < CODES) to[threadIdx.x] = fp4_values[threadIdx.x]; }
};

/* ---- GGUF blocks: B is a struct with SIZE elements, BYTES and eight(p, i, out), elements i .. i + 8 of the block at p ---- */

static __device__ __forceinline__ float half_at(const uint8_t *p) { return ptx_half(*(const uint16_t *)p); }

template <class B> struct format_block {
    static const bool WIDE = true;
    static __device__ void codes(float *) {}
    template <int N> static __device__ __forceinline__ void read(const struct weight &w, const float *, int64_t at, float *out)
    {
        B::eight((const uint8_t *)w.data + at / B::SIZE * B::BYTES, (int)(at % B::SIZE), out);
    }
};

/* Nibble i of 32: the low ones are the first half. */
static __device__ __forceinline__ int nibble32(const uint8_t *p, int i) { return i < 16 ? p[i] & 15 : p[i - 16] >> 4; }

struct block_q4_0 {
    enum { SIZE = 32, BYTES = 18 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        float d = half_at(p);

#pragma unroll
        for (int j = 0; j < 8; j++) out[j] = d * (float)(nibble32(p + 2, i + j) - 8);
    }
};

struct block_q4_1 {
    enum { SIZE = 32, BYTES = 20 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        float d = half_at(p), m = half_at(p + 2);

#pragma unroll
        for (int j = 0; j < 8; j++) out[j] = d * (float)nibble32(p + 4, i + j) + m;
    }
};

/* Fifth bits of 32 elements at p (2-byte aligned), nibbles behind them. */
static __device__ __forceinline__ int five_bits(const uint8_t *p, int i)
{
    return nibble32(p + 4, i) | (p[i / 8] >> (i % 8) & 1) << 4;
}

struct block_q5_0 {
    enum { SIZE = 32, BYTES = 22 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        float d = half_at(p);

        for (int j = 0; j < 8; j++) out[j] = d * (float)(five_bits(p + 2, i + j) - 16);
    }
};

struct block_q5_1 {
    enum { SIZE = 32, BYTES = 24 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        float d = half_at(p), m = half_at(p + 2);

        for (int j = 0; j < 8; j++) out[j] = d * (float)five_bits(p + 4, i + j) + m;
    }
};

struct block_q8_0 {
    enum { SIZE = 32, BYTES = 34 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        float d = half_at(p);

#pragma unroll
        for (int j = 0; j < 8; j++) out[j] = (float)(int8_t)p[2 + i + j] * d;
    }
};

struct block_q2_k {
    enum { SIZE = 256, BYTES = 84 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        float d = half_at(p + 80), dmin = half_at(p + 82);
        int shift = 2 * (i / 32 % 4), scale = p[i / 16];

        for (int j = 0; j < 8; j++) out[j] = d * (float)(scale & 15) * (float)(p[16 + i / 128 * 32 + i % 32 + j] >> shift & 3) - dmin * (float)(scale >> 4);
    }
};

struct block_q3_k {
    enum { SIZE = 256, BYTES = 110 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        const uint8_t *scales = p + 96;
        int g = i / 16, run = i / 32;
        int scale = (scales[g % 8] >> 4 * (g / 8) & 15) | (scales[8 + g % 4] >> 2 * (g / 4) & 3) << 4;
        float d = half_at(p + 108) * (float)(scale - 32);

        for (int j = 0; j < 8; j++) {
            int q = (p[32 + i / 128 * 32 + i % 32 + j] >> 2 * (run % 4) & 3) - (p[i % 32 + j] >> run & 1 ? 0 : 4);

            out[j] = d * (float)q;
        }
    }
};

static __device__ __forceinline__ void scale_and_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

struct block_q4_k {
    enum { SIZE = 256, BYTES = 144 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        int run = i / 32, scale, min;

        scale_and_min(p + 4, run, &scale, &min);
        float d = half_at(p) * (float)scale, m = half_at(p + 2) * (float)min;
        for (int j = 0; j < 8; j++) out[j] = d * (float)(p[16 + run / 2 * 32 + i % 32 + j] >> 4 * (run % 2) & 15) - m;
    }
};

struct block_q5_k {
    enum { SIZE = 256, BYTES = 176 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        int run = i / 32, scale, min;

        scale_and_min(p + 4, run, &scale, &min);
        float d = half_at(p) * (float)scale, m = half_at(p + 2) * (float)min;
        for (int j = 0; j < 8; j++) {
            int q = (p[48 + run / 2 * 32 + i % 32 + j] >> 4 * (run % 2) & 15) | (p[16 + i % 32 + j] >> run & 1) << 4;

            out[j] = d * (float)q - m;
        }
    }
};

struct block_q6_k {
    enum { SIZE = 256, BYTES = 210 };
    static __device__ __forceinline__ void eight(const uint8_t *p, int i, float *out)
    {
        int half = i / 128, run = i / 32 % 4;
        float d = half_at(p + 208) * (float)(int8_t)p[192 + i / 16];

        for (int j = 0; j < 8; j++) {
            int at = i % 32 + j, low = p[64 * half + 32 * (run % 2) + at] >> 4 * (run / 2) & 15, high = p[128 + 32 * half + at] >> 2 * run & 3;

            out[j] = d * (float)((low | high << 4) - 32);
        }
    }
};

typedef format_block<block_q4_0> format_q4_0;
typedef format_block<block_q4_1> format_q4_1;
typedef format_block<block_q5_0> format_q5_0;
typedef format_block<block_q5_1> format_q5_1;
typedef format_block<block_q8_0> format_q8_0;
typedef format_block<block_q2_k> format_q2_k;
typedef format_block<block_q3_k> format_q3_k;
typedef format_block<block_q4_k> format_q4_k;
typedef format_block<block_q5_k> format_q5_k;
typedef format_block<block_q6_k> format_q6_k;

/* weight_stored_row() on the device. */
static __device__ __forceinline__ int64_t stored_row(const struct weight &w, int64_t n)
{
    if (!w.interleaved) return n;
    int64_t D = w.interleaved, in = n % D;
    return n - in + 2 * (in % (D / 2)) + in / (D / 2);
}

#endif
