/* Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
 * A number is a pure function of (key, counter), so it does not matter who draws it, when, or how often. */
#ifndef PAWL_BASE_RNG_H
#define PAWL_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng_key {
    uint32_t k[2];
};

static inline struct rng_key rng_key(uint64_t seed)
{
    return (struct rng_key){{(uint32_t)seed, (uint32_t)(seed >> 32)}};
}

static inline void philox4x32(uint32_t out[4], struct rng_key key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = key.k[0], k1 = key.k[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* A key for one purpose, e.g. (seed, step, site) or (seed, epoch): different words give unrelated keys. */
static inline struct rng_key rng_derive(struct rng_key key, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t w[4];

    philox4x32(w, key, a, b, c, 0x7061776c);
    return (struct rng_key){{w[0], w[1]}};
}

/* [0, 1) with 24 bits. */
static inline float rng_unit(uint32_t w)
{
    return (float)(w >> 8) * 0x1p-24f;
}

/* order[0..n) becomes a permutation of 0..n-1, a pure function of the key (Fisher-Yates). */
void rng_permutation(uint32_t *order, uint32_t n, struct rng_key key);

#endif
