#include "train/text/piece.h"

#include <stdlib.h>

void piece_cut(struct piece *p, size_t begin, size_t end)
{
    if (begin == end) return;
    if (p->n_next == p->next_cap) {
        p->next_cap = p->next_cap ? 2 * p->next_cap : 64;
        p->next_spans = xreallocarray(p->next_spans, p->next_cap, sizeof *p->next_spans);
    }
    p->next_spans[p->n_next++] = (struct piece_span){(uint32_t)begin, (uint32_t)end};
}

void piece_commit_spans(struct piece *p)
{
    struct piece_span *spans = p->spans;
    size_t cap = p->spans_cap;

    p->spans = p->next_spans;
    p->n_spans = p->n_next;
    p->spans_cap = p->next_cap;
    p->next_spans = spans;
    p->next_cap = cap;
    p->n_next = 0;
}

void piece_begin(struct piece *p, const char *text, size_t len)
{
    p->text = text;
    p->len = len;
    p->at = NULL;
    p->next_text.len = 0;
    p->n_next = 0;
    piece_cut(p, 0, len);
    piece_commit_spans(p);
}

void piece_free(struct piece *p)
{
    buf_free(&p->next_text);
    buf_free(&p->room);
    free(p->next_at);
    free(p->at_room);
    free(p->spans);
    free(p->next_spans);
    *p = (struct piece){0};
}

static uint32_t *origins(struct piece *p, size_t more)
{
    size_t need = p->next_text.len + more + 1;

    if (need > p->at_cap) {
        p->at_cap = need > 2 * p->at_cap ? need : 2 * p->at_cap;
        p->next_at = xreallocarray(p->next_at, p->at_cap, sizeof *p->next_at);
    }
    return p->next_at + p->next_text.len;
}

void piece_put(struct piece *p, const char *s, size_t len, size_t from)
{
    uint32_t *at = origins(p, len), origin = (uint32_t)piece_origin(p, from);

    for (size_t i = 0; i < len; i++) at[i] = origin;
    buf_add(&p->next_text, s, len);
}

void piece_keep(struct piece *p, size_t begin, size_t end)
{
    uint32_t *at = origins(p, end - begin);

    for (size_t i = begin; i < end; i++) *at++ = (uint32_t)piece_origin(p, i);
    buf_add(&p->next_text, p->text + begin, end - begin);
}

void piece_commit_text(struct piece *p)
{
    struct buf room = p->room;
    uint32_t *at = p->at_room;
    size_t cap = p->at_room_cap;

    *origins(p, 0) = (uint32_t)piece_origin(p, p->len);
    if (p->n_next == 0) piece_cut(p, 0, p->next_text.len);
    piece_commit_spans(p);

    p->room = p->next_text;
    p->at_room = p->next_at;
    p->at_room_cap = p->at_cap;
    p->text = p->room.data ? p->room.data : "";
    p->len = p->room.len;
    p->at = p->at_room;

    p->next_text = room;
    p->next_text.len = 0;
    p->next_at = at;
    p->at_cap = cap;
}
