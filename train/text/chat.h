/* Conversations to text, by a model's own template or a built-in one, and which bytes of the text are whose. */
#ifndef PAWL_TEXT_CHAT_H
#define PAWL_TEXT_CHAT_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct chat_template; /* does not change: threads may share one */

/* Jinja source; name stands in front of errors. */
enum pawl_status chat_template_parse(struct chat_template **out, const char *name, const char *source, size_t len, struct err *err);
/* A template that pawl brings along: chatml, smollm, llama3, qwen, ... PAWL_EINVAL lists the names. */
enum pawl_status chat_template_builtin(struct chat_template **out, const char *name, struct err *err);
/* The template of a model: chat_template.jinja or tokenizer_config.json of a directory, tokenizer.chat_template of a .gguf file.
 * PAWL_EINVAL where the model has none. */
enum pawl_status chat_template_of_model(struct chat_template **out, const char *path, struct err *err);
void chat_template_free(struct chat_template *t); /* NULL is allowed */
/* A hash of the source; key of token caches. */
uint64_t chat_template_hash(const struct chat_template *t);

/* What a template sees. Keys of messages whose value is null are left out, and reasoning_content, thinking and reasoning stand for each other, as
 * transformers has it. */
struct chat_input {
    const struct json_value *messages;  /* array of objects with role, content, ... */
    const struct json_value *tools;     /* NULL or null: none */
    const struct json_value *extra;     /* object: more variables; NULL: none */
    bool add_generation_prompt;
    const char *bos_token, *eos_token;  /* NULL: not defined in the template */
    const struct tm *now;               /* what strftime_now sees; NULL: the clock */
};

/* Adds the text to *out. PAWL_EINVAL: the template raised, with its own message. */
enum pawl_status chat_render(const struct chat_template *t, const struct chat_input *in, struct buf *out, struct err *err);

/* Bytes [begin, end) of the text are what message `message` says. For the assistant that is what the model itself has to write: from behind the generation
 * prompt through its end-of-turn token. For others: the content as it stands in the text, through the end-of-turn text behind it. */
struct chat_span {
    size_t begin, eot, end; /* [eot, end): the end-of-turn text; empty where there is none */
    size_t message;
    const char *role;       /* borrowed from the messages */
    bool assistant;
};

/* Zero-initialise, or use again; free with chat_text_free. */
struct chat_text {
    struct buf text;
    struct chat_span *spans; /* in order of the text; a message whose content does not stand in the text has none */
    size_t n, cap;
    /* The template writes earlier turns otherwise once later ones follow (Qwen3 drops old reasoning): the assistant's turns can't be learned from
     * this one text. No spans are given then; chat_render_turn makes one text for each assistant turn. */
    bool rewrites_history;
};
void chat_text_free(struct chat_text *out);

/* The whole conversation and its spans: by {% generation %} where the template has it, else by rendering the prefixes that the model would see at each
 * assistant turn and checking that the whole text begins with them. *out is overwritten; in->add_generation_prompt is not used. */
enum pawl_status chat_render_spans(const struct chat_template *t, const struct chat_input *in, struct chat_text *out, struct err *err);

/* Messages 0..message, which is an assistant's, as the model sees them when it writes that turn; one span, of that message. */
enum pawl_status chat_render_turn(const struct chat_template *t, const struct chat_input *in, size_t message, struct chat_text *out, struct err *err);

#endif
