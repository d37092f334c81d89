/* Every golden row of real vocabularies: ids of llama.cpp and of the tokenizers library. Prints a table of pass counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/shared_golden.h"
#include "train/text/decode.h"
#include "train/text/tokenizer.h"

static const struct {
    const char *tokenizer; /* NULL: from the environment variable PAWL_SMOLLM2_GGUF */
    const char *vectors;
} sets[] = {
    {"tokenizers_gguf/gpt-2/ggml-vocab-gpt-2.gguf", "tokenizers_gguf/gpt-2/vectors.llamacpp.jsonl"},
    {"tokenizers_gguf/gpt-2/ggml-vocab-gpt-2.gguf", "tokenizers_gguf/gpt-2/inp_out.jsonl"},
    {"tokenizers_gguf/llama-bpe/ggml-vocab-llama-bpe.gguf", "tokenizers_gguf/llama-bpe/vectors.llamacpp.jsonl"},
    {"tokenizers_gguf/llama-bpe/ggml-vocab-llama-bpe.gguf", "tokenizers_gguf/llama-bpe/inp_out.jsonl"},
    {"tokenizers_gguf/llama-spm/ggml-vocab-llama-spm.gguf", "tokenizers_gguf/llama-spm/vectors.llamacpp.jsonl"},
    {"tokenizers_gguf/llama-spm/ggml-vocab-llama-spm.gguf", "tokenizers_gguf/llama-spm/inp_out.jsonl"},
    {"tokenizers_gguf/phi-3/ggml-vocab-phi-3.gguf", "tokenizers_gguf/phi-3/vectors.llamacpp.jsonl"},
    {"tokenizers_gguf/phi-3/ggml-vocab-phi-3.gguf", "tokenizers_gguf/phi-3/inp_out.jsonl"},
    {"tokenizers_gguf/qwen2/ggml-vocab-qwen2.gguf", "tokenizers_gguf/qwen2/vectors.llamacpp.jsonl"},
    {"tokenizers_gguf/qwen2/ggml-vocab-qwen2.gguf", "tokenizers_gguf/qwen2/inp_out.jsonl"},
    {NULL, "tokenizers_gguf/smollm2-135m/vectors.llamacpp.jsonl"},
    {"tokenizers_hf/smollm2-135m-digits/tokenizer.json", "tokenizers_hf/smollm2-135m-digits/vectors.tokenizers.jsonl"},
    {"tokenizers_hf/smollm2-135m-asis/tokenizer.json", "tokenizers_hf/smollm2-135m-asis/vectors.tokenizers.jsonl"},
    {"tokenizers_hf/llama-spm-converted/tokenizer.json", "tokenizers_hf/llama-spm-converted/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/added-token-flags/tokenizer.json", "tokenizers_tiny/added-token-flags/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/gemma-replace/tokenizer.json", "tokenizers_tiny/gemma-replace/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/deepseek-seq/tokenizer.json", "tokenizers_tiny/deepseek-seq/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/qwen2-nfc/tokenizer.json", "tokenizers_tiny/qwen2-nfc/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/llama-metaspace-first/tokenizer.json", "tokenizers_tiny/llama-metaspace-first/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/gpt2/tokenizer.json", "tokenizers_tiny/gpt2/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/digits-bytelevel/tokenizer.json", "tokenizers_tiny/digits-bytelevel/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/gpt2-prefix-space/tokenizer.json", "tokenizers_tiny/gpt2-prefix-space/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/llama2-spm-prepend/tokenizer.json", "tokenizers_tiny/llama2-spm-prepend/vectors.tokenizers.jsonl"},
    {"tokenizers_tiny/llama3-split-bos/tokenizer.json", "tokenizers_tiny/llama3-split-bos/vectors.tokenizers.jsonl"},
};

static bool same_ids(const struct json_value *expected, const struct tokens *found)
{
    if (expected == NULL || expected->len != found->n) return false;
    for (size_t i = 0; i < found->n; i++)
        if ((int32_t)expected->items[i].number != found->ids[i]) return false;
    return true;
}

static void show(const char *what, const struct json_value *text, const struct json_value *expected, const struct tokens *found)
{
    struct buf b = {0};

    json_add_value(&b, text);
    buf_adds(&b, "\n  expected ");
    json_add_value(&b, expected);
    buf_adds(&b, "\n  found    [");
    for (size_t i = 0; i < found->n; i++) buf_addf(&b, "%s%d", i ? "," : "", found->ids[i]);
    print_message("%s %.1200s]\n", what, b.data);
    buf_free(&b);
}

static bool encodes(const struct tokenizer *t, const struct json_value *row, unsigned flags, const char *key, const char *other)
{
    const struct json_value *text = json_get(row, "text"), *expected = json_get(row, key);
    struct tokens ids = {0};
    struct err err = {0};

    if (expected == NULL) expected = json_get(row, "ids");
    if (tokenizer_encode(t, text->text, text->len, flags, &ids, &err) != PAWL_OK) fail_msg("%s", err.text);
    bool good = same_ids(expected, &ids) || same_ids(json_get(row, other), &ids);
    if (!good) show(key, text, expected, &ids);
    for (size_t i = 1; i < ids.n; i++) assert_true(ids.at[i] >= ids.at[i - 1] && ids.at[i] <= text->len);
    tokens_free(&ids);
    return good;
}

static bool decodes(const struct tokenizer *t, const struct json_value *row)
{
    const struct json_value *ids = json_get(row, "ids"), *expected = json_get(row, "decoded");
    int32_t *list = xreallocarray(NULL, ids->len, sizeof *list);
    struct buf out = {0}, streamed = {0};
    struct tokenizer_stream stream = {0};

    if (expected == NULL) expected = json_get(row, "text");
    for (size_t i = 0; i < ids->len; i++) list[i] = (int32_t)ids->items[i].number;
    tokenizer_decode(t, list, ids->len, TOKENIZER_CLEAN_SPACES, &out);
    bool good = out.len == expected->len && (out.len == 0 || memcmp(out.data, expected->text, out.len) == 0);
    if (!good) print_message("decoded: expected %s, found %s\n", expected->text, out.data ? out.data : "");

    out.len = 0;
    tokenizer_decode(t, list, ids->len, 0, &out);
    for (size_t i = 0; i < ids->len; i++) tokenizer_stream_push(t, &stream, list[i], 0, &streamed);
    tokenizer_stream_end(t, &stream, 0, &streamed);
    if (streamed.len != out.len || (out.len > 0 && memcmp(streamed.data, out.data, out.len) != 0)) {
        print_message("streamed: expected %s, found %s\n", out.data ? out.data : "", streamed.data ? streamed.data : "");
        good = false;
    }
    buf_free(&out);
    buf_free(&streamed);
    free(list);
    return good;
}

static void all_rows_pass(void **state)
{
    size_t bad = 0;
    char *there = golden_path("README.md");

    if (there == NULL) {
        print_message("the golden folder is not there (PAWL_GOLDEN, or ../shared/golden beside the checkout): skipped\n");
        skip();
    }
    free(there);
    print_message("%-60s %6s %6s %6s %6s %6s\n", "vocabulary and vectors", "rows", "ids", "plain", "added", "decode");
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        const char *env = getenv("PAWL_SMOLLM2_GGUF");
        char *path = sets[k].tokenizer ? golden_path(sets[k].tokenizer) : env ? xstrdup(env) : NULL, *vectors = golden_path(sets[k].vectors);
        struct tokenizer *t = NULL;
        struct err err = {0};
        size_t ids = 0, plain = 0, added = 0, decoded = 0;

        if (path == NULL || vectors == NULL) {
            print_message("%-60s not there: skipped\n", sets[k].vectors);
            free(path);
            free(vectors);
            continue;
        }
        if (tokenizer_open(&t, path, &err) != PAWL_OK) fail_msg("%s", err.text);
        struct golden_rows g = golden_read(vectors);
        for (size_t i = 0; i < g.n; i++) {
            const struct json_value *row = json_root(g.rows[i]);
            bool lines = json_get(row, "decoded") == NULL && strstr(vectors, "inp_out") != NULL; /* ids only */
            ids += encodes(t, row, TOKENIZER_PARSE_SPECIAL, "ids", "ids_tokenizers");
            plain += lines || encodes(t, row, 0, "ids_no_special_parse", "ids_no_special_parse_tokenizers");
            added += lines || json_get(row, "ids_add_special") == NULL ||
                     encodes(t, row, TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, "ids_add_special", "ids_add_special_tokenizers");
            decoded += lines || decodes(t, row);
        }
        print_message("%-60s %6zu %6zu %6zu %6zu %6zu\n", sets[k].vectors, g.n, ids, plain, added, decoded);
        bad += 4 * g.n - ids - plain - added - decoded;
        golden_free(&g);
        tokenizer_close(t);
        free(path);
        free(vectors);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows_pass)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
