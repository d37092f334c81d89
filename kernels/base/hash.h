/* A 64-bit hash of bytes: identity of files, data and batches, keys of caches. Not against an adversary. The same on every (little-endian) machine.
 * MurmurHash64A's mixing (Appleby 2008, public domain design), 8 bytes a round. Chain pieces by passing the last result as seed. */
#ifndef PAWL_BASE_HASH_H
#define PAWL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(uint64_t seed, const void *data, size_t len);

#endif
