/* Any bytes as a chat template: it renders a conversation, or there is one line of error. */
#include "train/text/chat.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"a \\\"b\\\" \\u00e9\\n\",\"n\":1,\"f\":1.5,\"l\":[1,\"x\",null,{\"k\":[]}]},"
    "{\"role\":\"assistant\",\"content\":\"ok\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2]}}}]},{\"role\":\"user\",\"content\":\"\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"}}}}}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json *j;
    struct chat_template *t = NULL;
    struct chat_text spans = {0};
    struct buf out = {0};
    struct err err = {0};

    if (j == NULL && json_parse(&j, conversation, sizeof conversation - 1, &err) != PAWL_OK) abort();
    if (chat_template_parse(&t, "fuzz", (const char *)data, size, &err) == PAWL_OK) {
        struct chat_input in = {
            .messages = json_get(json_root(j), "messages"), .tools = json_get(json_root(j), "tools"), .bos_token = "<s>", .eos_token = "</s>",
            .add_generation_prompt = true,
        };
        if (chat_render(t, &in, &out, &err) == PAWL_OK && chat_render_spans(t, &in, &spans, &err) == PAWL_OK)
            for (size_t i = 0; i < spans.n; i++)
                if (spans.spans[i].begin > spans.spans[i].eot || spans.spans[i].eot > spans.spans[i].end || spans.spans[i].end > spans.text.len) abort();
    }
    if (strchr(err.text, '\n') != NULL) abort();
    chat_text_free(&spans);
    buf_free(&out);
    chat_template_free(t);
    return 0;
}
