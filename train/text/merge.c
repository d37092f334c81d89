#include "train/text/merge.h"

#include "kernels/base/mem.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>

#define NO_RANK UINT32_MAX
#define SHORT_WORD 128 /* symbols up to which looking at every pair beats a heap */

static uint64_t pair_hash(uint64_t pair)
{
    pair *= 0x9E3779B97F4A7C15u;
    return pair ^ pair >> 32;
}

void merge_rules_add(struct merge_rules *r, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    if ((r->used + 1) * 2 > (r->slots ? r->mask + 1 : 0)) {
        struct merge_slot *old = r->slots;
        size_t n = old ? r->mask + 1 : 0, slots = n ? 2 * n : 1024;
        r->slots = xreallocarray(NULL, slots, sizeof *r->slots);
        memset(r->slots, 0xFF, slots * sizeof *r->slots);
        r->mask = slots - 1;
        for (size_t i = 0; i < n; i++) {
            if (old[i].pair == UINT64_MAX) continue;
            size_t h = pair_hash(old[i].pair) & r->mask;
            while (r->slots[h].pair != UINT64_MAX) h = (h + 1) & r->mask;
            r->slots[h] = old[i];
        }
        free(old);
    }
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t h = pair_hash(pair) & r->mask;
    while (r->slots[h].pair != UINT64_MAX && r->slots[h].pair != pair) h = (h + 1) & r->mask;
    if (r->slots[h].pair == UINT64_MAX) r->used++;
    r->slots[h] = (struct merge_slot){.pair = pair, .rank = rank, .id = id};
}

void merge_rules_free(struct merge_rules *r)
{
    free(r->slots);
    free(r->ranks);
    free((void *)r->itself);
    r->slots = NULL;
    r->ranks = NULL;
    r->itself = NULL;
}

void merge_free(struct merge *m)
{
    free(m->ids);
    free(m->at);
    free(m->rank);
    free(m->made);
    free(m->prev);
    free(m->next);
    free(m->heap);
    *m = (struct merge){0};
}

static void reserve(struct merge *m, size_t n)
{
    if (n <= m->cap) return;
    m->cap = n > 2 * m->cap ? n : 2 * m->cap;
    m->ids = xreallocarray(m->ids, m->cap, sizeof *m->ids);
    m->at = xreallocarray(m->at, m->cap + 1, sizeof *m->at);
    m->rank = xreallocarray(m->rank, m->cap, sizeof *m->rank);
    m->made = xreallocarray(m->made, m->cap, sizeof *m->made);
    m->prev = xreallocarray(m->prev, m->cap, sizeof *m->prev);
    m->next = xreallocarray(m->next, m->cap, sizeof *m->next);
}

static void push(struct merge *m, int32_t id, size_t at)
{
    m->ids[m->n] = id;
    m->at[m->n++] = (uint32_t)at;
}

/* Characters (or bytes) of the word as tokens. Unknown ones stand as -1 under rules by text, where they may still become part of a token. */
static void first_symbols(const struct merge_rules *r, const char *word, size_t len, struct merge *m)
{
    size_t unk_at = 0;
    bool unk = false; /* an unknown token that waits for more to be fused with it */

    m->n = 0;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        int32_t id;

        if (r->byte_level) {
            n = 1;
            id = r->bytes[(unsigned char)word[i]];
        } else if ((unsigned char)word[i] < 0x80) {
            n = 1;
            id = r->ascii[(unsigned char)word[i]];
        } else {
            int k = utf8_decode(word + i, len - i, &cp);
            n = k > 0 ? (size_t)k : 1;
            id = vocab_find(r->vocab, word + i, n);
        }
        if (id < 0 && r->ranks != NULL) {
            push(m, -1, i);
            continue;
        }
        if (id < 0) {
            bool all = r->byte_fallback;
            for (size_t k = 0; k < n && all; k++) all = r->bytes[(unsigned char)word[i + k]] >= 0;
            if (all) {
                for (size_t k = 0; k < n; k++) push(m, r->bytes[(unsigned char)word[i + k]], i + k);
                continue;
            }
            if (r->unk < 0) continue;
            if (unk && !r->fuse_unk) push(m, r->unk, unk_at);
            if (!unk || !r->fuse_unk) unk_at = i;
            unk = true;
            continue;
        }
        if (unk) push(m, r->unk, unk_at);
        unk = false;
        push(m, id, i);
    }
    if (unk) push(m, r->unk, unk_at);
    m->at[m->n] = (uint32_t)len;
}

/* The rank of merging tokens left and right, which stand for word[begin..end). */
static inline uint32_t rank_of(const struct merge_rules *r, const char *word, int32_t left, int32_t right, uint32_t begin, uint32_t end, int32_t *made)
{
    if (r->slots != NULL) {
        uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
        for (size_t h = pair_hash(pair) & r->mask; r->slots[h].pair != UINT64_MAX; h = (h + 1) & r->mask)
            if (r->slots[h].pair == pair) {
                *made = r->slots[h].id;
                return r->slots[h].rank;
            }
        return NO_RANK;
    }
    if (r->ranks == NULL) return NO_RANK; /* a vocabulary of single symbols */
    *made = vocab_find(r->vocab, word + begin, end - begin);
    return *made < 0 ? NO_RANK : r->ranks[*made];
}

static void merge_short(const struct merge_rules *r, const char *word, struct merge *m)
{
    size_t n = m->n;

    for (size_t i = 0; i + 1 < n; i++) m->rank[i] = rank_of(r, word, m->ids[i], m->ids[i + 1], m->at[i], m->at[i + 2], &m->made[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (m->rank[i] < m->rank[best]) best = i;
        if (m->rank[best] == NO_RANK) break;

        m->ids[best] = m->made[best];
        n--;
        memmove(m->ids + best + 1, m->ids + best + 2, (n - best - 1) * sizeof *m->ids);
        memmove(m->at + best + 1, m->at + best + 2, (n - best) * sizeof *m->at);
        if (best + 1 < n) {
            memmove(m->rank + best + 1, m->rank + best + 2, (n - best - 2) * sizeof *m->rank);
            memmove(m->made + best + 1, m->made + best + 2, (n - best - 2) * sizeof *m->made);
            m->rank[best] = rank_of(r, word, m->ids[best], m->ids[best + 1], m->at[best], m->at[best + 2], &m->made[best]);
        }
        if (best > 0) m->rank[best - 1] = rank_of(r, word, m->ids[best - 1], m->ids[best], m->at[best - 1], m->at[best + 1], &m->made[best - 1]);
    }
    m->n = n;
}

static void heap_push(struct merge *m, uint64_t x)
{
    if (m->heap_n == m->heap_cap) {
        m->heap_cap = m->heap_cap ? 2 * m->heap_cap : 256;
        m->heap = xreallocarray(m->heap, m->heap_cap, sizeof *m->heap);
    }
    size_t i = m->heap_n++;
    for (; i > 0 && m->heap[(i - 1) / 2] > x; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = x;
}

static uint64_t heap_pop(struct merge *m)
{
    uint64_t top = m->heap[0], x = m->heap[--m->heap_n];
    size_t i = 0;

    for (size_t c; (c = 2 * i + 1) < m->heap_n; i = c) {
        if (c + 1 < m->heap_n && m->heap[c + 1] < m->heap[c]) c++;
        if (m->heap[c] >= x) break;
        m->heap[i] = m->heap[c];
    }
    m->heap[i] = x;
    return top;
}

/* Looks up the pair that begins at symbol i and queues it by (rank, place). */
static void queue_pair(const struct merge_rules *r, const char *word, struct merge *m, int32_t i, size_t len)
{
    int32_t j = m->next[i];

    m->rank[i] = NO_RANK;
    if (j < 0) return;
    uint32_t end = m->next[j] < 0 ? (uint32_t)len : m->at[m->next[j]];
    m->rank[i] = rank_of(r, word, m->ids[i], m->ids[j], m->at[i], end, &m->made[i]);
    if (m->rank[i] != NO_RANK) heap_push(m, (uint64_t)m->rank[i] << 32 | (uint32_t)i);
}

static void merge_long(const struct merge_rules *r, const char *word, size_t len, struct merge *m)
{
    size_t n = m->n;

    m->heap_n = 0;
    for (size_t i = 0; i < n; i++) {
        m->prev[i] = (int32_t)i - 1;
        m->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i < n; i++) queue_pair(r, word, m, (int32_t)i, len);
    while (m->heap_n > 0) {
        uint64_t top = heap_pop(m);
        int32_t i = (int32_t)(uint32_t)top;
        if (m->rank[i] != (uint32_t)(top >> 32)) continue; /* one of the two has been merged since */

        int32_t j = m->next[i], k = m->next[j];
        m->ids[i] = m->made[i];
        m->next[i] = k;
        m->rank[j] = NO_RANK;
        if (k >= 0) m->prev[k] = i;
        queue_pair(r, word, m, i, len);
        if (m->prev[i] >= 0) queue_pair(r, word, m, m->prev[i], len);
    }
    m->n = 0;
    for (int32_t i = 0; i >= 0; i = m->next[i]) {
        m->ids[m->n] = m->ids[i];
        m->at[m->n++] = m->at[i];
    }
    m->at[m->n] = (uint32_t)len;
}

void merge_word(const struct merge_rules *r, const char *word, size_t len, struct merge *m)
{
    reserve(m, len);
    first_symbols(r, word, len, m);
    if (m->n > 1 && m->n <= SHORT_WORD) merge_short(r, word, m);
    else if (m->n > 1) merge_long(r, word, len, m);
}
