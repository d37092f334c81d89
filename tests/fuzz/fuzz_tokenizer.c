/* Any bytes as a tokenizer.json: it encodes and decodes some texts, or is refused. */
#include "train/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tokenizer *t, const char *text)
{
    struct tokens tokens = {0};
    struct tokenizer_stream stream = {0};
    struct buf out = {0};
    struct err err = {0};

    for (unsigned flags = 0; flags < 4; flags++) {
        tokens.n = 0;
        if (tokenizer_encode(t, text, strlen(text), flags, &tokens, &err) != PAWL_OK) continue;
        for (size_t i = 0; i < tokens.n; i++)
            if (tokens.at[i] > strlen(text) || tokens.ids[i] < 0) abort();
        tokenizer_decode(t, tokens.ids, tokens.n, flags, &out);
        for (size_t i = 0; i < tokens.n; i++) tokenizer_stream_push(t, &stream, tokens.ids[i], flags, &out);
        tokenizer_stream_end(t, &stream, flags, &out);
    }
    tokens_free(&tokens);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *j = NULL;
    struct tokenizer *t = NULL;
    struct err err = {0};

    if (json_parse(&j, (const char *)data, size, &err) == PAWL_OK && tokenizer_from_json(&t, json_root(j), &err) == PAWL_OK) {
        use(t, "Hello  world\n\n it's 1234 <|im_end|> <s>word</s> x");
        use(t, "Gr\xc3\xb6\xc3\x9f" "e e\xcc\x81 \xe4\xbd\xa0\xe5\xa5\xbd \xea\xb0\x80 \xf0\x9f\x98\x80\xc2\xa0 \xe2\x96\x81\xe2\x96\x81 aaaaaaaaaaaaaaaaaaaaaaaa");
        use(t, " ");
    }
    tokenizer_close(t);
    json_free(j);
    return 0;
}
