/* From weights of any format, activations and fp32 to the operands of a tile: blocks and panels of words.
 *
 * A rectangle is read row by row into units (fp32, or bf16 where vdpbf16ps takes pairs). What the sum runs along decides how units become words, ROWS: words are the row itself, COLS: the row
 * and its successor zipped (with fp32: the row itself); whether words then stand along the sum or across it decides if a square of VL x VL words is turned:
 *                 block              panel
 *     ROWS        as read            turned
 *     COLS        turned             as read
 * Formats of 4 bits go through a table of 16 values made once a block of the format (scale, minimum and rounding are in it), looked up by one permutation a vector. */
#include "kernels/cpu/cpu.h"

#define RUN 256                        /* units read at a time */
#define RUN_ROOM (RUN + 2 * 32)        /* and what a whole block of a format may add on either side */
#define FORMAT_BLOCK 32                /* elements that the readers below take at once */

/* What multiplies is bf16 where activations are. */
static inline vf round_unit(vf x)
{
#ifdef CPU_ACT_BF16
    return vround_bf16(x);
#else
    return x;
#endif
}

static inline void store_units(unit *out, vf x)
{
#if PAIRS
    vstore_bf16(out, x);
#else
    vstore(out, round_unit(x));
#endif
}

/* ---- readers: n elements from element `at` of the flattened tensor, both multiples of 32 ---- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint8_t bytes16_mem __attribute__((vector_size(16), aligned(1), may_alias));
typedef int8_t ints __attribute__((vector_size(VL)));
typedef int8_t ints_mem __attribute__((vector_size(VL), aligned(1), may_alias));

static inline float half_at(const uint8_t *p)
{
    f16 h;

    memcpy(&h, p, sizeof h);
#ifdef __F16C__
    return _cvtsh_ss(h);
#else
    return f16_to_f32(h);
#endif
}

/* 16 values, ready to be looked up. */
struct table {
#if PAIRS
    __m512i t;
#else
    vf t[16 / VL];
#endif
};

static inline void table_set(struct table *t, const vf value[16 / VL])
{
#if PAIRS
    t->t = _mm512_castsi256_si512((__m256i)__builtin_convertvector(vround_bf16_bits(value[0]), vh));
#else
    UNROLL for (int i = 0; i < 16 / VL; i++) t->t[i] = round_unit(value[i]);
#endif
}

/* out[0..32) = table[codes], 16 codes in a and 16 in b. */
static inline void table_get(unit *out, const struct table *t, bytes16 a, bytes16 b)
{
#if PAIRS
    __m512i index = _mm512_cvtepu8_epi16(_mm256_set_m128i((__m128i)b, (__m128i)a));

    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(index, t->t));
#elif VL == 16
    vstore(out, _mm512_permutexvar_ps(_mm512_cvtepu8_epi32((__m128i)a), t->t[0]));
    vstore(out + 16, _mm512_permutexvar_ps(_mm512_cvtepu8_epi32((__m128i)b), t->t[0]));
#elif VL == 8
    __m128i half[4] = {(__m128i)a, _mm_srli_si128((__m128i)a, 8), (__m128i)b, _mm_srli_si128((__m128i)b, 8)};

    UNROLL for (int i = 0; i < 4; i++) {
        __m256i index = _mm256_cvtepu8_epi32(half[i]);
        vf low = _mm256_permutevar8x32_ps(t->t[0], index), high = _mm256_permutevar8x32_ps(t->t[1], index);
        vstore(out + 8 * i, _mm256_blendv_ps(low, high, (vf)_mm256_slli_epi32(index, 28)));
    }
#else
    float value[16];

    memcpy(value, t->t, sizeof value);
    for (int i = 0; i < 16; i++) out[i] = value[a[i]], out[i + 16] = value[b[i]];
#endif
}

static void read_4bit(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const float *code = w->type == DTYPE_NF4 ? quant_nf4_code : quant_fp4_code;
    const bytes16 even = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    struct table t;
    vf value[16 / VL];

    for (int64_t i = 0; i < n; i += FORMAT_BLOCK) {
        if (i == 0 || (at + i) % NF4_BLOCK == 0) {
            int64_t b = (at + i) / NF4_BLOCK;
            float absmax = w->absmax_q ? w->nested_code[w->absmax_q[b]] * w->nested_absmax[b / NF4_NESTED] + w->nested_offset : w->absmax[b];

            UNROLL for (int j = 0; j < 16 / VL; j++) value[j] = vload(code + j * VL) * absmax;
            table_set(&t, value);
        }
        bytes16 c = *(const bytes16_mem *)((const uint8_t *)w->data + (at + i) / 2), first = c >> 4, second = c & 15;
        table_get(out + i, &t, __builtin_shuffle(first, second, even), __builtin_shuffle(first, second, even + 8));
    }
}

static const float zero_to_15[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void read_q4_0(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const uint8_t *p = (const uint8_t *)w->data + at / 32 * 18;
    struct table t;
    vf value[16 / VL];

    for (int64_t i = 0; i < n; i += 32, p += 18) {
        float d = half_at(p);
        bytes16 c = *(const bytes16_mem *)(p + 2);

        UNROLL for (int j = 0; j < 16 / VL; j++) value[j] = (vload(zero_to_15 + j * VL) - 8.0f) * d;
        table_set(&t, value);
        table_get(out + i, &t, c & 15, c >> 4);
    }
}

static void read_q4_1(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const uint8_t *p = (const uint8_t *)w->data + at / 32 * 20;
    struct table t;
    vf value[16 / VL];

    for (int64_t i = 0; i < n; i += 32, p += 20) {
        float d = half_at(p), m = half_at(p + 2);
        bytes16 c = *(const bytes16_mem *)(p + 4);

        UNROLL for (int j = 0; j < 16 / VL; j++) value[j] = vload(zero_to_15 + j * VL) * d + m;
        table_set(&t, value);
        table_get(out + i, &t, c & 15, c >> 4);
    }
}

/* VL signed bytes times a scale. */
static inline void scaled_bytes(unit *out, const void *q, float d)
{
    store_units(out, __builtin_convertvector(__builtin_convertvector(*(const ints_mem *)q, vi), vf) * d);
}

static void read_q8_0(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const uint8_t *p = (const uint8_t *)w->data + at / 32 * 34;

    for (int64_t i = 0; i < n; i += 32, p += 34) {
        float d = half_at(p);

        UNROLL for (int j = 0; j < 32; j += VL) scaled_bytes(out + i + j, p + 2 + j, d);
    }
}

static void read_bf16(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const bf16 *p = (const bf16 *)w->data + at;

#if PAIRS
    memcpy(out, p, (size_t)n * sizeof *p);
#else
    for (int64_t i = 0; i < n; i += VL) vstore(out + i, vload_bf16(p + i));
#endif
}

static void read_f16(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const uint8_t *p = (const uint8_t *)w->data + 2 * at;

    for (int64_t i = 0; i < n; i += VL, p += 2 * VL) {
#if VL == 16
        store_units(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)));
#elif VL == 8
        store_units(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)));
#else
        store_units(out + i, (vf){half_at(p), half_at(p + 2), half_at(p + 4), half_at(p + 6)});
#endif
    }
}

static void read_f32(const struct weight *w, int64_t at, int64_t n, unit *out)
{
    const char *p = (const char *)w->data + 4 * at;

    for (int64_t i = 0; i < n; i += VL) store_units(out + i, vload(p + 4 * i));
}

/* Types without a row go through weight_row(). */
static void (*const readers[DTYPE_COUNT])(const struct weight *w, int64_t at, int64_t n, unit *out) = {
    [DTYPE_F32] = read_f32, [DTYPE_F16] = read_f16, [DTYPE_BF16] = read_bf16, [DTYPE_NF4] = read_4bit, [DTYPE_FP4] = read_4bit,
    [DTYPE_Q4_0] = read_q4_0, [DTYPE_Q4_1] = read_q4_1, [DTYPE_Q8_0] = read_q8_0,
};

static void units_from_f32(unit *out, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) store_units(out + i, vload(x + i));
    if (i < n) {
        unit t[VL];

        store_units(t, f32_load(x + i, n - i));
        memcpy(out + i, t, (size_t)(n - i) * sizeof *t);
    }
}

static void read_weight(unit *out, const struct weight *w, int64_t row, int64_t k0, int64_t k1)
{
    int64_t at = weight_stored_row(w, row) * w->K + k0, n = k1 - k0, first = at / FORMAT_BLOCK * FORMAT_BLOCK, end = round_up(at + n, FORMAT_BLOCK);
    float f[RUN];
    unit whole[RUN_ROOM];

    if (!readers[w->type] || w->K % FORMAT_BLOCK != 0) {
        weight_row(w, row, k0, k1, f);
        units_from_f32(out, f, n);
    } else if (first == at && end == at + n) {
        readers[w->type](w, at, n, out);
    } else {
        readers[w->type](w, first, end - first, whole);
        memcpy(out, whole + (at - first), (size_t)n * sizeof *out);
    }
}

static void units_from_elems(unit *out, const elem *x, int64_t n)
{
#if PAIRS || !defined(CPU_ACT_BF16)
    memcpy(out, x, (size_t)n * sizeof *out);
#else
    int64_t i = 0;

    for (; i + VL <= n; i += VL) vstore(out + i, vload_bf16(x + i));
    for (; i < n; i++) out[i] = bf16_to_f32(x[i]);
#endif
}

/* out has room for a whole vector of words. */
static void apply_mask(unit *out, const struct mask *mask, int64_t row, int64_t k0, int64_t n)
{
    int32_t keep[RUN + 4 * VL];

    mask_row(keep, mask, row, k0, n);
    for (int64_t i = 0; i < n; i += VL) {
#if PAIRS
        *(vh_mem *)(out + i) &= __builtin_convertvector((vu)vload(keep + i), vh);
#else
        vstore(out + i, (vf)((vi)vload(out + i) & (vi)vload(keep + i)));
#endif
    }
}

/* out = m[row, k0..k1) and zeros up to a whole vector of words; k1 - k0 <= RUN. */
static inline void read_units(unit *out, const struct matrix *m, int64_t row, int64_t k0, int64_t k1)
{
    int64_t n = k1 - k0, whole = round_up(n, VL * WORD_UNITS);

    if (m->W) read_weight(out, m->W, row, k0, k1);
    else if (m->x) units_from_elems(out, m->x + row * m->stride + k0, n);
    else {
#if PAIRS
        units_from_f32(out, m->f + row * m->stride + k0, n);
#else
        memcpy(out, m->f + row * m->stride + k0, (size_t)n * sizeof *out); /* sums that were never rounded */
#endif
    }
    if (m->mask.lay) apply_mask(out, &m->mask, row, k0, n);
    if (n < whole) memset(out + n, 0, (size_t)(whole - n) * sizeof *out);
}

/* VL words along the columns of a matrix whose row (and, in pairs, its successor) are a and b. */
static inline vf zip_units(const unit *a, const unit *b)
{
#if PAIRS
    vu low = __builtin_convertvector(*(const vh_mem *)a, vu), high = __builtin_convertvector(*(const vh_mem *)b, vu);

    return (vf)(low | high << 16);
#else
    return vload(a);
#endif
}

/* Square of VL x VL words: row i from `in + i in_stride` becomes column i at out; rows of out `out_stride` apart, only the first `rows` of them. */
static inline void turn(word *out, int64_t out_stride, const word *in, int64_t in_stride, int64_t rows)
{
    vf r[VL];

    UNROLL for (int i = 0; i < VL; i++) r[i] = vload(in + i * in_stride);
    vtranspose(r);
    if (rows >= VL) {
        UNROLL for (int i = 0; i < VL; i++) vstore(out + i * out_stride, r[i]);
    } else {
        for (int i = 0; i < rows; i++) vstore(out + i * out_stride, r[i]);
    }
}

/* Where column i of the panels begins. */
static inline word *panel_column(word *out, int64_t panel_stride, int64_t i)
{
    return out + i / TILE_COLS * panel_stride + i % TILE_COLS;
}

static void block_along_rows(word *out, int64_t out_stride, const struct matrix *m, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    for (int64_t i = i0; i < i1; i++)
        for (int64_t s = s0; s < s1; s += RUN)
            read_units((unit *)(out + (i - i0) * out_stride + (s - s0) / WORD_UNITS), m, i, s, min64(s + RUN, s1));
}

static void panels_along_rows(word *out, int64_t panel_stride, const struct matrix *m, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    word rows[VL][RUN / WORD_UNITS + VL];

    for (int64_t i = i0; i < i1; i += VL) {
        word *column = panel_column(out, panel_stride, i - i0);

        for (int64_t s = s0; s < s1; s += RUN) {
            int64_t end = min64(s + RUN, s1), words = words_of(end - s);

            for (int j = 0; j < VL; j++) {
                if (i + j < i1) read_units((unit *)rows[j], m, i + j, s, end);
                else memset(rows[j], 0, (size_t)words * sizeof(word));
            }
            for (int64_t k = 0; k < words; k += VL)
                turn(column + ((s - s0) / WORD_UNITS + k) * TILE_COLS, TILE_COLS, rows[0] + k, RUN / WORD_UNITS + VL, words - k);
        }
    }
}

/* Rows s (and s + 1, zero behind the end) of m, columns [i, end), as words along the columns. */
static inline void read_words(word *out, const struct matrix *m, int64_t s, int64_t s1, int64_t i, int64_t end)
{
#if PAIRS
    unit a[RUN + 2 * VL], b[RUN + 2 * VL];

    read_units(a, m, s, i, end);
    if (s + 1 < s1) read_units(b, m, s + 1, i, end);
    else memset(b, 0, sizeof b);
    for (int64_t k = 0; k < end - i; k += VL) vstore(out + k, zip_units(a + k, b + k));
#else
    read_units(out, m, s, i, end);
#endif
}

/* Activations along columns need no turning and, one a word, no zipping: they go straight into the panels. */
static bool panels_of_elems(word *out, int64_t panel_stride, const struct matrix *m, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    if (PAIRS || !m->x || m->mask.lay || (i1 - i0) % VL != 0) return false;
    for (int64_t s = s0; s < s1; s++) {
        const elem *x = m->x + s * m->stride;
        word *to = out + (s - s0) * TILE_COLS;

        for (int64_t i = i0; i < i1; i += TILE_COLS, to += panel_stride) {
            UNROLL for (int v = 0; v < TILE_COLS; v += VL) {
                if (i + v < i1) vstore(to + v, ELEM_LOAD(x + i + v));
            }
        }
    }
    return true;
}

static void panels_along_cols(word *out, int64_t panel_stride, const struct matrix *m, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    word words[RUN + 2 * VL];

    if (panels_of_elems(out, panel_stride, m, i0, i1, s0, s1)) return;
    for (int64_t i = i0; i < i1; i += RUN)
        for (int64_t s = s0; s < s1; s += WORD_UNITS) {
            int64_t end = min64(i + RUN, i1);
            word *to = panel_column(out, panel_stride, i - i0) + (s - s0) / WORD_UNITS * TILE_COLS;

            read_words(words, m, s, s1, i, end);
            for (int64_t k = 0; k < end - i; k += TILE_COLS, to += panel_stride) {
                UNROLL for (int v = 0; v < TILE_COLS; v += VL) {
                    if (k + v < end - i) vstore(to + v, vload(words + k + v));
                }
            }
        }
}

static void block_along_cols(word *out, int64_t out_stride, const struct matrix *m, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    word words[VL][RUN + 2 * VL];

    for (int64_t i = i0; i < i1; i += RUN) {
        int64_t end = min64(i + RUN, i1);

        for (int64_t s = s0; s < s1; s += VL * WORD_UNITS) {
            for (int j = 0; j < VL; j++) {
                if (s + j * WORD_UNITS < s1) read_words(words[j], m, s + j * WORD_UNITS, s1, i, end);
                else memset(words[j], 0, sizeof words[j]);
            }
            for (int64_t k = 0; k < end - i; k += VL)
                turn(out + (i - i0 + k) * out_stride + (s - s0) / WORD_UNITS, out_stride, words[0] + k, RUN + 2 * VL, end - i - k);
        }
    }
}

void fill_block(word *out, int64_t out_stride, const struct matrix *m, enum along along, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    (along == ROWS ? block_along_rows : block_along_cols)(out, out_stride, m, i0, i1, s0, s1);
}

void fill_panels(word *out, int64_t panel_stride, const struct matrix *m, enum along along, int64_t i0, int64_t i1, int64_t s0, int64_t s1)
{
    (along == ROWS ? panels_along_rows : panels_along_cols)(out, panel_stride, m, i0, i1, s0, s1);
}
