#include "train/run/base.h"

#include "ckpt/fileio.h"
#include "kernels/base/mem.h"

#include <string.h>

#define TEMPLATE_LIMIT (1 << 20)

enum pawl_status base_tokenizer(struct tokenizer **out, const char *path, int64_t V, struct err *err)
{
    struct tokenizer *t;
    enum pawl_status st = tokenizer_open(&t, path, err);

    if (st != PAWL_OK) return st;
    if (V && (int64_t)tokenizer_size(t) > V) {
        st = err_set(err, PAWL_EFORMAT, "%s: the tokenizer has ids up to %zu, the model's embedding has %lld rows: tokenizer and model do not belong together", path,
                     tokenizer_size(t) - 1, (long long)V);
        tokenizer_close(t);
        return st;
    }
    *out = t;
    return PAWL_OK;
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
