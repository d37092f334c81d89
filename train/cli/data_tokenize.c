#include "train/cli/cli.h"
#include "train/cli/commands.h"
#include "train/cli/lines.h"

#include "train/config/locate.h"
#include "train/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct work {
    struct tokenizer *tokenizer;
    unsigned flags;
    struct tokens tokens;
};

static enum pawl_status tokenize(void *context, const struct json_value *line, struct buf *out, struct err *err)
{
    struct work *w = context;
    const struct json_value *text = json_get(line, "text");

    if (text == NULL || text->type != JSON_STRING) return err_set(err, PAWL_EINVAL, "expected {\"text\": \"...\"}");
    w->tokens.n = 0;
    enum pawl_status st = tokenizer_encode(w->tokenizer, text->text, text->len, w->flags, &w->tokens, err);
    if (st != PAWL_OK) return st;
    buf_adds(out, "{\"ids\":[");
    for (size_t i = 0; i < w->tokens.n; i++) { /* printf would take longer than the tokenizer */
        char digits[16], *p = digits + sizeof digits;
        int32_t id = w->tokens.ids[i];
        do *--p = (char)('0' + id % 10);
        while ((id /= 10) > 0);
        if (i > 0) *--p = ',';
        buf_add(out, p, (size_t)(digits + sizeof digits - p));
    }
    buf_adds(out, "]}");
    return PAWL_OK;
}

static enum pawl_status detokenize(void *context, const struct json_value *line, struct buf *out, struct err *err)
{
    struct work *w = context;
    const struct json_value *ids = json_get(line, "ids");
    struct buf text = {0};

    if (ids == NULL || ids->type != JSON_ARRAY) return err_set(err, PAWL_EINVAL, "expected {\"ids\": [...]}");
    w->tokens.n = 0;
    for (size_t i = 0; i < ids->len; i++) {
        int64_t id;
        if (!json_int64(&ids->items[i], &id) || id < 0 || (uint64_t)id >= tokenizer_size(w->tokenizer))
            return err_set(err, PAWL_EINVAL, "ids: entry %zu is no id of this vocabulary of %zu tokens", i + 1, tokenizer_size(w->tokenizer));
        tokens_add(&w->tokens, (int32_t)id, 0);
    }
    tokenizer_decode(w->tokenizer, w->tokens.ids, w->tokens.n, TOKENIZER_CLEAN_SPACES, &text);
    buf_adds(out, "{\"text\":");
    json_add_string(out, text.data ? text.data : "", text.len);
    buf_addc(out, '}');
    buf_free(&text);
    return PAWL_OK;
}

int cmd_data_tokenize(int argc, char **argv)
{
    const char *model = NULL;
    bool bos = true, special = true, decode = false, json = false;
    const struct cli_option options[] = {
        {"model", 'm', CLI_STRING, &model, "M", "a model directory, a tokenizer.json or a GGUF file, one without weights too", 0, 0},
        {"bos", 0, CLI_FLAG, &bos, NULL, "--no-bos leaves out what the tokenizer adds around a text", 0, 0},
        {"special", 0, CLI_FLAG, &special, NULL, "--no-special reads special tokens in the text as plain text", 0, 0},
        {"decode", 'd', CLI_FLAG, &decode, NULL, "from {\"ids\"} to {\"text\"}", 0, 0},
        {0},
    };
    const struct cli_spec spec = {
        .name = "data tokenize", .args = "--model M", .about = "Reads lines {\"text\"} from stdin and answers each with {\"ids\"}.",
        .example = "echo '{\"text\":\"Hello\"}' | pawl data tokenize --model model.gguf", .options = options, .json = &json,
    };
    struct work w = {0};
    struct err err = {0};
    char *path = NULL;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    if (model == NULL) {
        err_set(&err, PAWL_EUSAGE, "data tokenize: --model is missing: a model directory, a tokenizer.json or a GGUF file");
        return cli_fail(&err);
    }
    w.flags = (bos ? TOKENIZER_ADD_SPECIAL : 0) | (special ? TOKENIZER_PARSE_SPECIAL : 0);
    enum pawl_status st = locate(&path, model, LOCATE_MODEL, NULL, &err);
    if (st == PAWL_OK) st = tokenizer_open(&w.tokenizer, path, &err);
    if (st == PAWL_OK) st = lines_answer(stdin, decode ? detokenize : tokenize, &w, &err);
    tokens_free(&w.tokens);
    tokenizer_close(w.tokenizer);
    free(path);
    return st == PAWL_OK ? 0 : cli_fail(&err);
}
