/* A stretch of text on its way to the model: what it has become, where each of its bytes came from, and how it is cut into words. */
#ifndef PAWL_TEXT_PIECE_H
#define PAWL_TEXT_PIECE_H

#include "kernels/base/mem.h"

#include <stddef.h>
#include <stdint.h>

struct piece_span {
    uint32_t begin, end;
};

/* Zero-initialise; use again for the next stretch; free with piece_free. Stages read `text` and `spans`, and write the next state through piece_put and
 * piece_cut; piece_commit makes that the present one. */
struct piece {
    const char *text;
    size_t len;
    const uint32_t *at;       /* origin of each byte, and of the end (len + 1 entries); NULL: byte i came from i */
    struct piece_span *spans; /* words, in order, without gaps or empty ones */
    size_t n_spans;

    /* The next state, and the room of the one before. */
    struct buf next_text, room;
    uint32_t *next_at, *at_room;
    size_t at_cap, at_room_cap;
    struct piece_span *next_spans;
    size_t n_next, spans_cap, next_cap;
};

/* Begins with text as one span. */
void piece_begin(struct piece *p, const char *text, size_t len);
void piece_free(struct piece *p);

static inline size_t piece_origin(const struct piece *p, size_t i)
{
    return p->at ? p->at[i] : i;
}

/* Adds bytes to the next text, all of which came from byte `from` of the present one. */
void piece_put(struct piece *p, const char *s, size_t len, size_t from);
/* Adds bytes [begin, end) of the present text as they are. */
void piece_keep(struct piece *p, size_t begin, size_t end);
/* Adds a span to the next cut; an empty one is left out. */
void piece_cut(struct piece *p, size_t begin, size_t end);

/* The next text takes the place of the present one. Its spans are those that were cut, or, where none were, all of it. */
void piece_commit_text(struct piece *p);
/* The next cut takes the place of the present one; the text stays. */
void piece_commit_spans(struct piece *p);

#endif
