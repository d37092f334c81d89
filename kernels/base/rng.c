#include "kernels/base/rng.h"

void rng_permutation(uint32_t *order, uint32_t n, struct rng_key key)
{
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t w[4];

        philox4x32(w, key, i, 0, 0, 0);
        /* 64 random bits times i: the bias is below 2^-32. */
        uint32_t j = (uint32_t)((unsigned __int128)((uint64_t)w[0] << 32 | w[1]) * i >> 64);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}
