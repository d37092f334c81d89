#include "kernels/base/hash.h"

#include <string.h>

#define MIX 0xc6a4a7935bd1e995u

static uint64_t scramble(uint64_t k)
{
    k *= MIX;
    k ^= k >> 47;
    return k * MIX;
}

uint64_t hash64(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ len * MIX, k;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&k, p, 8);
        h = (h ^ scramble(k)) * MIX;
    }
    if (len) {
        k = 0;
        memcpy(&k, p, len);
        h = (h ^ k) * MIX;
    }
    h ^= h >> 47;
    h *= MIX;
    return h ^ h >> 47;
}
