/* Examples as they lie in memory and in the token cache: made of the records of one source chunk, the unit of work among threads and of the cache. */
#ifndef PAWL_DATA_CHUNK_H
#define PAWL_DATA_CHUNK_H

#include "kernels/base/mem.h"
#include "train/data/finding.h"

#include <stdint.h>

/* An example, of any length; 8-byte aligned, padded to 8 bytes. */
struct stored_example {
    uint64_t hash;     /* of the content before template and tokenizer */
    int64_t line;
    uint32_t length;
    uint32_t turn;     /* where one record gives several examples: 0, 1, ... */
    uint32_t tokens[]; /* (length) id | TOKEN_SUPERVISED */
};

struct stored_note {
    int64_t line;
    uint64_t kind; /* enum finding */
};

struct chunk {
    uint64_t source;       /* source_chunk_hash of what it was made of */
    uint64_t payload_hash;
    uint64_t bytes;        /* of the payload: examples, then notes */
    uint32_t file;         /* index in the part's files */
    uint32_t lines, examples, notes;
    const char *payload;
    char *own;             /* payload where it is to be freed, else NULL */
};

/* Bytes of an example with n tokens. */
static inline size_t stored_bytes(size_t n)
{
    return (sizeof(struct stored_example) + n * sizeof(uint32_t) + 7) & ~(size_t)7;
}

static inline const struct stored_note *chunk_notes(const struct chunk *c)
{
    return (const struct stored_note *)(c->payload + c->bytes) - c->notes;
}

#endif
