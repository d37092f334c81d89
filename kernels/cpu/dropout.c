/* The masks of kernels/ops.h: Philox 4x32-10, VL counters at a time. Lanes hold neighbouring counters; the four words of a counter belong to four neighbouring elements. */
#include "kernels/cpu/cpu.h"

/* The upper and the lower 32 bits of the products of x with a constant. */
static inline void multiply(vu *high, vu *low, vu x, uint32_t m)
{
#if VL == 16
    __m512i mm = _mm512_set1_epi64(m), xx = (__m512i)x;
    __m512i even = _mm512_mul_epu32(xx, mm), odd = _mm512_mul_epu32(_mm512_srli_epi64(xx, 32), mm);

    *low = (vu)_mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
    *high = (vu)_mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
#elif VL == 8
    __m256i mm = _mm256_set1_epi64x(m), xx = (__m256i)x;
    __m256i even = _mm256_mul_epu32(xx, mm), odd = _mm256_mul_epu32(_mm256_srli_epi64(xx, 32), mm);

    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#else
    for (int i = 0; i < VL; i++) {
        uint64_t p = (uint64_t)x[i] * m;

        (*high)[i] = (uint32_t)(p >> 32);
        (*low)[i] = (uint32_t)p;
    }
#endif
}

static void philox(vu out[4], struct rng_key key, uint32_t c0, uint32_t c1, uint32_t c2)
{
    vu a = c0 - (vu){0}, b = c1 - (vu){0}, c = c2 - (vu){0}, d = {0};
    uint32_t k0 = key.k[0], k1 = key.k[1];

    for (int i = 0; i < VL; i++) a[i] += (uint32_t)i;
    for (int round = 0; round < 10; round++) {
        vu high_a, low_a, high_c, low_c;

        multiply(&high_a, &low_a, a, 0xD2511F53);
        multiply(&high_c, &low_c, c, 0xCD9E8D57);
        a = high_c ^ b ^ k0;
        c = high_a ^ d ^ k1;
        b = low_c;
        d = low_a;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

/* The row of the micro-batch that token t is in. */
static int row_of(const struct layout *lay, int64_t t)
{
    int low = 0, high = lay->rows;

    while (high - low > 1) {
        int mid = low + (high - low) / 2;

        if (lay->row_start[mid] <= t) low = mid;
        else high = mid;
    }
    return low;
}

void mask_row(int32_t *keep, const struct mask *m, int64_t t, int64_t k0, int64_t n)
{
    int row = row_of(m->lay, t += m->token);
    uint32_t in_row = (uint32_t)(t - m->lay->row_start[row]), global = (uint32_t)(m->lay->first_row + row);
    double scaled = (double)m->drop.p * 0x1p24;
    int32_t least = (int32_t)scaled + (scaled > (int32_t)scaled); /* rng_unit(w) >= p if and only if w >> 8 is at least this */

    for (int64_t i = 0; i < n; i += 4 * VL) {
        vu w[4];

        philox(w, m->drop.key, (uint32_t)((k0 + i) / 4), in_row, global);
        vf a = (vf)((vi)(w[0] >> 8) >= least), b = (vf)((vi)(w[1] >> 8) >= least), c = (vf)((vi)(w[2] >> 8) >= least), d = (vf)((vi)(w[3] >> 8) >= least);
        vf ac0 = vzip_lo(a, c), ac1 = vzip_hi(a, c), bd0 = vzip_lo(b, d), bd1 = vzip_hi(b, d);
        vstore(keep + i, vzip_lo(ac0, bd0));
        vstore(keep + i + VL, vzip_hi(ac0, bd0));
        vstore(keep + i + 2 * VL, vzip_lo(ac1, bd1));
        vstore(keep + i + 3 * VL, vzip_hi(ac1, bd1));
    }
}
