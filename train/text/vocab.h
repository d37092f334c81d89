/* Token strings by id, and ids by string. */
#ifndef PAWL_TEXT_VOCAB_H
#define PAWL_TEXT_VOCAB_H

#include "kernels/base/pool.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VOCAB_MAX_ID (1 << 24) /* a file that asks for more is damaged */

struct vocab_slot {
    uint32_t hash;
    int32_t id; /* -1: free */
};

/* Zero-initialise; free with vocab_free. */
struct vocab {
    struct pool pool;
    const char **text; /* NULL: no token has this id */
    uint32_t *len;
    size_t n, cap;     /* n: the highest id + 1 */
    struct vocab_slot *slots;
    size_t mask, used;
};

/* Copies the string. A string that is there already keeps its first id; an id that is there already takes the new string. 0 <= id <= VOCAB_MAX_ID. */
void vocab_add(struct vocab *v, int32_t id, const char *s, size_t len);
/* The same, but vocab_find will not find it. */
void vocab_name(struct vocab *v, int32_t id, const char *s, size_t len);
void vocab_free(struct vocab *v);

static inline uint32_t vocab_hash(const char *s, size_t len)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ len, w;

    for (; len > 8; s += 8, len -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, s, len);
    h = (h ^ w) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

/* -1: no such string. */
static inline int32_t vocab_find(const struct vocab *v, const char *s, size_t len)
{
    if (v->slots == NULL) return -1;
    uint32_t h = vocab_hash(s, len);
    for (size_t i = h & v->mask; v->slots[i].id >= 0; i = (i + 1) & v->mask) {
        int32_t id = v->slots[i].id;
        if (v->slots[i].hash == h && v->len[id] == len && memcmp(v->text[id], s, len) == 0) return id;
    }
    return -1;
}

#endif
