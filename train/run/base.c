#include "train/run/base.h"

#include "ckpt/fileio.h"
#include "kernels/base/mem.h"

#include <string.h>

#define TEMPLATE_LIMIT (1 << 20)

static enum pawl_status find_token(int32_t *id, const struct tokenizer *t, const char *key, const char *name, struct err *err)
{
    *id = tokenizer_id(t, name, strlen(name));
    if (*id >= 0) return PAWL_OK;
    return err_set(err, PAWL_EINVAL, "%s: the vocabulary has no token '%s': name an existing one (new tokens would need new embedding rows, which are not trained)", key, name);
}

static enum pawl_status name_special_tokens(struct tokenizer *t, const struct config *c, struct err *err)
{
    static const char *const roles[] = {[TOKENIZER_BOS] = "bos_token", [TOKENIZER_EOS] = "eos_token", [TOKENIZER_PAD] = "pad_token", [TOKENIZER_UNK] = "unk_token"};
    int32_t id;
    enum pawl_status st;

    for (size_t i = 0; i < c->special_tokens.n; i++) {
        if ((st = find_token(&id, t, "special_tokens", c->special_tokens.value[i], err)) != PAWL_OK) return st;
        for (int role = 0; role < (int)(sizeof roles / sizeof *roles); role++)
            if (!strcmp(roles[role], c->special_tokens.key[i])) tokenizer_set_special(t, role, id);
    }
    for (size_t i = 0; i < c->eot_tokens.n; i++)
        if ((st = find_token(&id, t, "eot_tokens", c->eot_tokens.at[i], err)) != PAWL_OK) return st;
    return PAWL_OK;
}

enum pawl_status base_tokenizer(struct tokenizer **out, const char *path, int64_t V, const struct config *c, struct err *err)
{
    struct tokenizer *t;
    enum pawl_status st = tokenizer_open(&t, path, err);

    if (st != PAWL_OK) return st;
    if (V && (int64_t)tokenizer_size(t) > V)
        st = err_set(err, PAWL_EFORMAT, "%s: the tokenizer has ids up to %zu, the model's embedding has %lld rows: tokenizer and model do not belong together", path,
                     tokenizer_size(t) - 1, (long long)V);
    else if (c)
        st = name_special_tokens(t, c, err);
    if (st == PAWL_OK) *out = t;
    else tokenizer_close(t);
    return st;
}

static bool is_source(const char *text)
{
    return strstr(text, "{%") || strstr(text, "{{");
}

enum pawl_status base_template(struct chat_template **out, const char *model_path, const char *name, const char *jinja, struct err *err)
{
    struct buf file = {0};
    enum pawl_status st;

    *out = NULL;
    if (jinja && is_source(jinja)) return chat_template_parse(out, "chat_template_jinja", jinja, strlen(jinja), err);
    if (jinja) {
        st = file_read_all(&file, jinja, TEMPLATE_LIMIT, err);
        if (st == PAWL_OK) st = chat_template_parse(out, jinja, file.data ? file.data : "", file.len, err);
        buf_free(&file);
        return st;
    }
    if (name && strcmp(name, "tokenizer_default")) return chat_template_builtin(out, name, err);
    st = chat_template_of_model(out, model_path, err);
    return st == PAWL_EINVAL ? PAWL_OK : st;
}
