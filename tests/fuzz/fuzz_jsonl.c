/* Any bytes as a data set: the first byte draws its type and settings, the rest is the file. Examples come out, or one line of error. */
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/config/config.h"
#include "train/data/dataset.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char vocabulary[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},{\"id\":1,\"content\":\"</s>\",\"special\":true},{\"id\":2,\"content\":\"<|im_end|>\",\"special\":true}],"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"<s>\":0,\"</s>\":1,\"<|im_end|>\":2,\"?\":3,\"a\":4,\"b\":5,\" \":6,\"ab\":7,\"1\":8},\"merges\":[\"a b\"]}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = {"auto", "chat_template", "alpaca", "completion", "prompt_completion", "input_output"};
    static struct tokenizer *tokenizer;
    static struct chat_template *chat;
    struct config *c = NULL;
    struct dataset *d = NULL;
    struct json *j = NULL;
    struct err err = {0};
    unsigned how = size > 0 ? data[0] : 0;
    bool array = how & 0x80;
    const char *path = array ? "fuzz.json" : "fuzz.jsonl";

    log_level = LOG_QUIET;
    if (tokenizer == NULL) {
        if (json_parse(&j, vocabulary, sizeof vocabulary - 1, &err) != PAWL_OK || tokenizer_from_json(&tokenizer, json_root(j), &err) != PAWL_OK) abort();
        json_free(j);
        if (chat_template_builtin(&chat, "chatml", &err) != PAWL_OK) abort();
    }
    FILE *f = fopen(path, "wb");
    if (f == NULL || (size > 1 && fwrite(data + 1, 1, size - 1, f) != size - 1) || fclose(f) != 0) abort();
    char *yaml = xasprintf("base_model: m\noutput_dir: o\nskip_bad_lines: %s\ntrain_on_inputs: %s\ndatasets: [{path: %s, type: %s}]\n", how & 0x40 ? "true" : "false", how & 0x20 ? "true" : "false",
                           path, types[(how & 7) % 6]);
    if (config_parse(&c, "fuzz", yaml, strlen(yaml), &err) != PAWL_OK) abort();
    struct dataset_options opt = dataset_options(c);
    opt.tokenizer = tokenizer;
    opt.chat = chat;
    opt.threads = 1;
    opt.quiet = true;
    opt.inspect = how & 0x10;
    if (dataset_open(&d, c->datasets, c->ndatasets, &opt, &err) == PAWL_OK) {
        for (size_t i = 0; i < dataset_count(d); i++) {
            struct example e = dataset_example(d, i);
            if (e.length < 1 || e.tokens[0] & TOKEN_SUPERVISED || e.line < 1) abort();
        }
    } else if (strchr(err.text, '\n') != NULL) {
        abort();
    }
    dataset_free(d);
    config_free(c);
    free(yaml);
    return 0;
}
