#include "train/data/show.h"

#include <stdint.h>

struct style {
    const char *open, *close; /* around supervised tokens */
    const char *border;       /* between two tokens */
    const char *line_feed;
};
static const struct style plain = {"\u00ab", "\u00bb", "\u2502", "\u21b5\n"};
static const struct style colours = {"\033[32m", "\033[0m", "\033[2m\u2502\033[22m", "\033[2m\u21b5\033[22m\n"};

static void add_visible(struct buf *out, const char *s, size_t len, const struct style *style)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '\n') buf_adds(out, style->line_feed);
        else if (c < ' ' || c == 0x7f) buf_addf(out, "\\x%02x", c);
        else buf_addc(out, (char)c);
    }
}

void example_show(struct buf *out, const struct example *e, const struct tokenizer *t, bool colour, int limit)
{
    const struct style *style = colour ? &colours : &plain;
    struct tokenizer_stream stream = {0};
    struct buf text = {0};
    bool inside = false;
    int n = e->length < limit ? e->length : limit;

    for (int i = 0; i < n; i++) {
        bool supervised = e->tokens[i] & TOKEN_SUPERVISED;

        if (inside && !supervised) buf_adds(out, style->close);
        if (i) buf_adds(out, style->border);
        if (!inside && supervised) buf_adds(out, style->open);
        inside = supervised;
        text.len = 0;
        tokenizer_stream_push(t, &stream, (int32_t)(e->tokens[i] & TOKEN_ID), false, &text);
        add_visible(out, text.data ? text.data : "", text.len, style);
    }
    text.len = 0;
    tokenizer_stream_end(t, &stream, false, &text);
    add_visible(out, text.data ? text.data : "", text.len, style);
    if (inside) buf_adds(out, style->close);
    if (n < e->length) buf_addf(out, " ... %d more tokens", e->length - n);
    buf_free(&text);
}
