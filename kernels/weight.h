/* A frozen matrix in whatever block format it is stored in, and what reads and makes such formats (kernels/quant).
 *
 * A format is a row of one table: how to dequantise a run of elements. Nothing else in the program switches over formats. */
#ifndef PAWL_WEIGHT_H
#define PAWL_WEIGHT_H

#include "kernels/base/dtype.h"
#include "kernels/base/err.h"

#include <stdbool.h>

#define NF4_BLOCK 64     /* elements of an absmax block, over the flattened tensor */
#define NF4_NESTED 256   /* absmax values of a nested block */

/* (N, K), row-major. A view: the bytes belong to a mapped file or to the weights' arena. */
struct weight {
    enum dtype type; /* F32 F16 BF16 NF4 FP4 INT8 Q*: anything whose row of the table has a reader */
    int64_t N, K;
    const void *data;
    /* bitsandbytes 4-bit scales. Plain: absmax. Double quantisation: absmax[b] = nested_code[absmax_q[b]] * nested_absmax[b / 256] + nested_offset.
     * bitsandbytes int8: absmax holds one value a row. */
    const float *absmax;
    const uint8_t *absmax_q;
    const float *nested_absmax, *nested_code;
    float nested_offset;
    /* Head size D of a file whose rows hold rotary pairs side by side (GGUF's Llama q and k): row (h, 2i + j) of the file is row (h, j D/2 + i) here.
     * 0: rows are in order. */
    int interleaved;
};

/* The row of the file that holds row n. */
static inline int64_t weight_stored_row(const struct weight *w, int64_t n)
{
    if (!w->interleaved) return n;
    int64_t D = w->interleaved, in = n % D;
    return n - in + 2 * (in % (D / 2)) + in / (D / 2);
}

/* Whether the type has a reader. */
bool weight_readable(enum dtype type);
/* out[0..k1-k0) = W[n, k0..k1) in fp32. Any k0 <= k1 <= K. */
void weight_row(const struct weight *w, int64_t n, int64_t k0, int64_t k1, float *out);

/* NF4 and FP4 as bitsandbytes' quantize_4bit does them (Dettmers et al. 2023, QLoRA, section 3; blocksize 64 over the flattened tensor, high nibble first,
 * ties to the lower code). codes: (n + 1) / 2 bytes; absmax: one a block of 64. A block of zeros has absmax 0 and decodes to zeros. */
void quant_4bit(enum dtype type, const float *x, int64_t n, uint8_t *codes, float *absmax);
/* Double quantisation of nblock absmax values: offset = mean(absmax), blocks of 256 of (absmax - offset), each scaled by its own absmax and coded by the
 * dynamic 8-bit map. nested_absmax: one a block of 256. */
void quant_nested(const float *absmax, int64_t nblock, uint8_t *absmax_q, float *nested_absmax, float *offset);
/* The same with an offset given. */
void quant_nested_with_offset(const float *absmax, int64_t nblock, float offset, uint8_t *absmax_q, float *nested_absmax);
/* bitsandbytes' tables: 16 codes of NF4 or FP4; the signed dynamic 8-bit map of 256 values (Dettmers 2015, 8-bit approximations). */
extern const float quant_nf4_code[16], quant_fp4_code[16], quant_dynamic_code[256];
/* bitsandbytes int8: codes (N, K) = round(x / absmax * 127) by row, absmax (N). */
void quant_int8(const float *x, int64_t N, int64_t K, int8_t *codes, float *absmax);
/* GGUF blocks for `pawl export`: n is a multiple of 32. DTYPE_Q8_0, DTYPE_Q4_0, as llama.cpp's reference quantisers. */
void quant_gguf(enum dtype type, const float *x, int64_t n, void *out);

#endif
