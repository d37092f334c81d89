#include "train/text/vocab.h"

#include "kernels/base/mem.h"

#include <stdlib.h>

static void place(struct vocab *v, struct vocab_slot slot)
{
    size_t i = slot.hash & v->mask;

    while (v->slots[i].id >= 0) i = (i + 1) & v->mask;
    v->slots[i] = slot;
}

static void grow_slots(struct vocab *v)
{
    struct vocab_slot *old = v->slots;
    size_t n = old ? v->mask + 1 : 0, slots = n ? 2 * n : 1024;

    v->slots = xreallocarray(NULL, slots, sizeof *v->slots);
    memset(v->slots, 0xFF, slots * sizeof *v->slots);
    v->mask = slots - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].id >= 0) place(v, old[i]);
    free(old);
}

void vocab_name(struct vocab *v, int32_t id, const char *s, size_t len)
{
    if ((size_t)id >= v->cap) {
        size_t cap = v->cap ? v->cap : 1024;
        while (cap <= (size_t)id) cap *= 2;
        v->text = xreallocarray(v->text, cap, sizeof *v->text);
        v->len = xreallocarray(v->len, cap, sizeof *v->len);
        memset(v->text + v->cap, 0, (cap - v->cap) * sizeof *v->text);
        memset(v->len + v->cap, 0, (cap - v->cap) * sizeof *v->len);
        v->cap = cap;
    }
    if ((size_t)id >= v->n) v->n = (size_t)id + 1;
    v->text[id] = pool_strndup(&v->pool, s, len);
    v->len[id] = (uint32_t)len;
}

void vocab_add(struct vocab *v, int32_t id, const char *s, size_t len)
{
    int32_t before = vocab_find(v, s, len);

    vocab_name(v, id, s, len);
    if (before >= 0) return;
    if ((v->used + 1) * 2 > (v->slots ? v->mask + 1 : 0)) grow_slots(v);
    place(v, (struct vocab_slot){.hash = vocab_hash(s, len), .id = id});
    v->used++;
}

void vocab_free(struct vocab *v)
{
    pool_free(&v->pool);
    free(v->text);
    free(v->len);
    free(v->slots);
    *v = (struct vocab){0};
}
