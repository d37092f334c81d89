/* Prompts: what the model is given before it answers. */
#ifndef PAWL_RUN_PROMPT_H
#define PAWL_RUN_PROMPT_H

#include "kernels/base/json.h"
#include "kernels/base/mem.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

struct prompt {
    const int32_t *ids; /* the caller's to free */
    int n;              /* at least 1 */
};

struct prompt_maker {
    const struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL: the model has none; only raw text can be given */
    int max_tokens;                   /* a prompt of as many or more is PAWL_EINVAL */
};

/* Text as it is, with what the tokenizer puts around a text. */
enum pawl_status prompt_raw(struct prompt *p, const struct prompt_maker *m, const char *text, size_t len, struct err *err);
/* Messages by the chat template, with the beginning of the assistant's answer. What a template writes holds its own BOS, none is added. tools may be NULL. */
enum pawl_status prompt_messages(struct prompt *p, const struct prompt_maker *m, const struct json_value *messages, const struct json_value *tools, struct err *err);
/* One user's message, behind a system message where that is not NULL. */
enum pawl_status prompt_user(struct prompt *p, const struct prompt_maker *m, const char *system, const char *text, size_t len, struct err *err);

/* A conversation that grows: message by message (a zeroed buffer to begin with), then as a prompt. */
void prompt_add_message(struct buf *messages, const char *role, const char *content, size_t len);
enum pawl_status prompt_conversation(struct prompt *p, const struct prompt_maker *m, const struct buf *messages, struct err *err);

#endif
