#include "train/run/prompt.h"

#include <stdlib.h>
#include <string.h>

static enum pawl_status encode(struct prompt *p, const struct prompt_maker *m, const char *text, size_t len, unsigned flags, struct err *err)
{
    struct tokens t = {0};
    enum pawl_status st = tokenizer_encode(m->tokenizer, text, len, flags, &t, err);

    if (st == PAWL_OK && !t.n) st = err_set(err, PAWL_EINVAL, "the prompt is empty");
    if (st == PAWL_OK && t.n >= (size_t)m->max_tokens) st = err_set(err, PAWL_EINVAL, "the prompt has %zu tokens, the model takes %d", t.n, m->max_tokens);
    if (st != PAWL_OK) {
        tokens_free(&t);
        return st;
    }
    free(t.at);
    *p = (struct prompt){t.ids, (int)t.n};
    return PAWL_OK;
}

enum pawl_status prompt_raw(struct prompt *p, const struct prompt_maker *m, const char *text, size_t len, struct err *err)
{
    return encode(p, m, text, len, TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, err);
}

static const char *special_name(const struct tokenizer *t, enum tokenizer_role role)
{
    int32_t id = tokenizer_special(t, role);
    size_t len;

    return id >= 0 ? tokenizer_name(t, id, &len) : NULL;
}

enum pawl_status prompt_messages(struct prompt *p, const struct prompt_maker *m, const struct json_value *messages, const struct json_value *tools, struct err *err)
{
    struct chat_input input = {.messages = messages, .tools = tools, .add_generation_prompt = true};
    struct buf text = {0};
    enum pawl_status st;

    if (!m->chat) return err_set(err, PAWL_EINVAL, "the model has no chat template: name one by --chat-template, or give plain text with --raw");
    input.bos_token = special_name(m->tokenizer, TOKENIZER_BOS);
    input.eos_token = special_name(m->tokenizer, TOKENIZER_EOS);
    st = chat_render(m->chat, &input, &text, err);
    if (st == PAWL_OK) st = encode(p, m, text.data ? text.data : "", text.len, TOKENIZER_PARSE_SPECIAL, err);
    buf_free(&text);
    return st;
}

void prompt_add_message(struct buf *messages, const char *role, const char *content, size_t len)
{
    buf_addf(messages, "%s{\"role\":\"%s\",\"content\":", messages->len ? "," : "", role);
    json_add_string(messages, content, len);
    buf_addc(messages, '}');
}

enum pawl_status prompt_conversation(struct prompt *p, const struct prompt_maker *m, const struct buf *messages, struct err *err)
{
    struct buf list = {0};
    struct json *json = NULL;
    enum pawl_status st;

    buf_addc(&list, '[');
    buf_add(&list, messages->data, messages->len);
    buf_addc(&list, ']');
    if ((st = json_parse(&json, list.data, list.len, err)) == PAWL_OK) st = prompt_messages(p, m, json_root(json), NULL, err);
    json_free(json);
    buf_free(&list);
    return st;
}

enum pawl_status prompt_user(struct prompt *p, const struct prompt_maker *m, const char *system, const char *text, size_t len, struct err *err)
{
    struct buf messages = {0};
    enum pawl_status st;

    if (system) prompt_add_message(&messages, "system", system, strlen(system));
    prompt_add_message(&messages, "user", text, len);
    st = prompt_conversation(p, m, &messages, err);
    buf_free(&messages);
    return st;
}
