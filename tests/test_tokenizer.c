/* Small vocabularies, one for each kind of part, against the tokenizers library (tests/golden/text, made by scripts/make_golden_text.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/shared_golden.h"
#include "train/text/tokenizer.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define TEXT PAWL_TESTS "/golden/text/"

static struct tokenizer *open_tokenizer(const char *name)
{
    char *path = xasprintf(TEXT "%s", name);
    struct tokenizer *t = NULL;
    struct err err = {0};

    if (tokenizer_open(&t, path, &err) != PAWL_OK) fail_msg("%s", err.text);
    free(path);
    return t;
}

static void encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags, struct tokens *out)
{
    struct err err = {0};

    out->n = 0;
    if (tokenizer_encode(t, text, len, flags, out, &err) != PAWL_OK) fail_msg("%s", err.text);
}

static void ids_are(const char *name, const struct json_value *row, const char *key, const struct tokens *found)
{
    const struct json_value *expected = json_get(row, key);
    bool good = expected->len == found->n;

    for (size_t i = 0; good && i < found->n; i++) good = (int32_t)expected->items[i].number == found->ids[i];
    if (good) return;
    struct buf b = {0};
    json_add_value(&b, expected);
    buf_adds(&b, "\n  found [");
    for (size_t i = 0; i < found->n; i++) buf_addf(&b, "%s%d", i ? "," : "", found->ids[i]);
    fail_msg("%s, %s of \"%s\": expected %s]", name, key, json_get(row, "text")->text, b.data);
}

static void check(const char *tokenizer, const char *vectors)
{
    struct tokenizer *t = open_tokenizer(tokenizer);
    char *path = xasprintf(TEXT "%s", vectors);
    struct golden_rows g = golden_read(path);
    struct tokens tokens = {0};

    assert_true(g.n > 30);
    for (size_t i = 0; i < g.n; i++) {
        const struct json_value *row = json_root(g.rows[i]), *text = json_get(row, "text"), *decoded = json_get(row, "decoded");
        struct buf out = {0}, streamed = {0};
        struct tokenizer_stream stream = {0};

        encode(t, text->text, text->len, TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, &tokens);
        ids_are(tokenizer, row, "ids_add_special", &tokens);
        encode(t, text->text, text->len, 0, &tokens);
        ids_are(tokenizer, row, "ids_no_special_parse", &tokens);
        encode(t, text->text, text->len, TOKENIZER_PARSE_SPECIAL, &tokens);
        ids_are(tokenizer, row, "ids", &tokens);
        for (size_t k = 0; k < tokens.n; k++) assert_true(tokens.at[k] <= text->len && (k == 0 || tokens.at[k] >= tokens.at[k - 1]));

        tokenizer_decode(t, tokens.ids, tokens.n, 0, &out);
        buf_add(&out, "", 0);
        if (out.len != decoded->len || memcmp(out.data, decoded->text, out.len) != 0) fail_msg("%s: expected %s, decoded %s", tokenizer, decoded->text, out.data);
        for (size_t k = 0; k < tokens.n; k++) tokenizer_stream_push(t, &stream, tokens.ids[k], 0, &streamed);
        tokenizer_stream_end(t, &stream, 0, &streamed);
        buf_add(&streamed, "", 0);
        assert_string_equal(streamed.data, out.data);
        buf_free(&out);
        buf_free(&streamed);
    }
    tokens_free(&tokens);
    golden_free(&g);
    tokenizer_close(t);
    free(path);
}

static void byte_level_bpe(void **state)
{
    check("gpt2.json", "gpt2.jsonl");
    check("gpt2-prefix.json", "gpt2-prefix.jsonl");
    check("digits.json", "digits.jsonl");
    check("llama3.json", "llama3.jsonl");
    check("qwen2.json", "qwen2.jsonl");
    check("cased.json", "cased.jsonl");
    check("behaviors.json", "behaviors.jsonl");
    check("falcon.json", "falcon.jsonl");
}

static void added_tokens_and_normalizers(void **state)
{
    check("added.json", "added.jsonl");
}

static void sentencepiece_bpe(void **state)
{
    check("sentencepiece.json", "sentencepiece.jsonl");
    check("metaspace.json", "metaspace.jsonl");
    check("spaces.json", "spaces.jsonl");
    check("words.json", "words.jsonl");
}

static void unigram(void **state)
{
    check("unigram.json", "unigram.jsonl");
}

/* The same vocabularies through GGUF metadata give the same ids. */
static void gguf_metadata(void **state)
{
    check("smollm.gguf", "digits.jsonl");
    check("llama.gguf", "sentencepiece.jsonl");

    struct tokenizer *t = open_tokenizer("llama.gguf");
    assert_int_equal(tokenizer_special(t, TOKENIZER_BOS), 1);
    assert_int_equal(tokenizer_special(t, TOKENIZER_EOS), 2);
    assert_int_equal(tokenizer_special(t, TOKENIZER_UNK), 0);
    assert_int_equal(tokenizer_special(t, TOKENIZER_PAD), -1);
    assert_true(tokenizer_adds_bos(t));
    assert_true(tokenizer_is_special(t, 1));
    assert_false(tokenizer_is_special(t, 300));
    tokenizer_close(t);
    t = open_tokenizer("smollm.gguf");
    assert_false(tokenizer_adds_bos(t));
    assert_int_equal(tokenizer_id(t, "<|im_end|>", 10), 2);
    assert_int_equal(tokenizer_id(t, "<|no_such|>", 11), -1);
    tokenizer_close(t);
}

/* A copy of smollm.gguf, which has no tensors, with another name of a pre-tokenizer. */
static char *gguf_with_pre(const char *name)
{
    static const char key[] = "tokenizer.ggml.pre";
    char *from = xstrdup(TEXT "smollm.gguf"), *to = xasprintf("/tmp/pawl-pre-%d.gguf", (int)getpid());
    FILE *f = fopen(from, "rb");
    char data[65536];
    size_t len = fread(data, 1, sizeof data, f);
    char *value = (char *)memmem(data, len, key, sizeof key - 1) + sizeof key - 1 + 4; /* behind the key and its type: length and text */
    uint64_t old, n = strlen(name);

    fclose(f);
    memcpy(&old, value, 8);
    f = fopen(to, "wb");
    fwrite(data, 1, (size_t)(value - data), f);
    fwrite(&n, 8, 1, f);
    fwrite(name, 1, n, f);
    fwrite(value + 8 + old, 1, len - (size_t)(value - data) - 8 - old, f);
    fclose(f);
    free(from);
    return to;
}

/* All names of llama.cpp's src/llama-vocab.cpp for vocabularies in bytes, but those of encoders that add separators. No text is lost in any. */
static void every_pretokenizer_opens(void **state)
{
    static const char *const names[] = {
        "a.x-4.0", "afmoe", "bailingmoe", "bailingmoe2", "bloom", "chameleon", "chatglm-bpe", "codeshell", "cohere2moe", "command-r", "dbrx", "deepseek-coder", "deepseek-llm", "deepseek-r1-qwen",
        "deepseek-v3", "default", "exaone", "exaone-moe", "exaone4", "f2llmv2", "falcon", "falcon-h1", "falcon3", "gigachat", "glm4", "glm5", "gpt-2", "gpt-4o", "gpt3-finnish", "granite-docling",
        "granite-embed-multi-97m", "grok-2", "hunyuan", "hunyuan-dense", "hy_v4", "jais", "jais-2", "jina-de", "jina-es", "jina-v2-de", "jina-v2-es", "joyai-llm", "kanana2", "kimi-k2",
        "kormo", "laguna", "lfm2", "llada-moe", "llama-bpe", "llama-v3", "llama3", "llama4", "megrez", "mellum", "mellum2", "midm-2.0", "minerva-7b", "minicpm5", "minimax-m2", "modern-bert", "mpt", "olmo", "phi-2", "pixtral",
        "poro-chat", "qwen2", "qwen35", "refact", "seed-coder", "smaug-bpe", "smollm", "solar-open", "spark2_5", "stablelm2", "starcoder", "superbpe", "talkie", "tekken", "tiny_aya", "trillion",
        "ufakzeka", "viking", "youtu",
    };
    static const char text[] = "Hello  there, I'll \u00fcn\u00efc\u00f6d\u00e9 \u1f7d\u03ce \u4f60\u597d\u3002\uc548\ub155 \u0e2a\u0e27\n\n  1234567 x=3.14\r\n don't; the 2nd \U0001F600!  ";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = gguf_with_pre(names[i]);
        struct tokenizer *t = NULL;
        struct tokens tokens = {0};
        struct buf out = {0};
        struct err err = {0};

        if (tokenizer_open(&t, path, &err) != PAWL_OK) fail_msg("%s: %s", names[i], err.text);
        encode(t, text, strlen(text), 0, &tokens);
        tokenizer_decode(t, tokens.ids, tokens.n, 0, &out);
        if (strcmp(out.data, text) != 0) fail_msg("%s: other text than before", names[i]);
        unlink(path);
        free(path);
        tokens_free(&tokens);
        buf_free(&out);
        tokenizer_close(t);
    }
    char *path = gguf_with_pre("no-such");
    struct tokenizer *t = NULL;
    struct err err = {0};
    assert_int_equal(tokenizer_open(&t, path, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "\"no-such\" is no pre-tokenizer that pawl knows"));
    unlink(path);
    free(path);
}

/* Only what comes from the first character of the text gets the mark of `prepend_scheme: first`, also where NFKC made several characters of it, and of the
 * next one as well. Ids by the tokenizers library. */
static void the_first_character_is_one(void **state)
{
    static const char source[] =
        "{\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
        "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\",\"split\":true}]},"
        "\"added_tokens\":[{\"id\":5,\"content\":\"ab\",\"normalized\":true,\"special\":false}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u2581\":0,\"1\":1,\"2\":2,\"\u2044\":3,\"\u25811\":4,\"ab\":5},\"merges\":[[\"\u2581\",\"1\"]]}}";
    static const struct { const char *text; int32_t ids[8]; size_t n; } cases[] = {
        {"\u2460\u2460", {4, 1}, 2}, {"\u00bd\u00bd", {4, 0, 3, 0, 2, 1, 3, 2}, 8}, {"ab\u2460", {5, 1}, 2}, {"\u2460ab\u2460", {4, 5, 1}, 3},
    };
    struct tokenizer *t = NULL;
    struct json *j = NULL;
    struct tokens tokens = {0};
    struct err err = {0};

    if (json_parse(&j, source, strlen(source), &err) != PAWL_OK || tokenizer_from_json(&t, json_root(j), &err) != PAWL_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        encode(t, cases[i].text, strlen(cases[i].text), 0, &tokens);
        assert_int_equal(tokens.n, cases[i].n);
        assert_memory_equal(tokens.ids, cases[i].ids, cases[i].n * sizeof *tokens.ids);
    }
    tokens_free(&tokens);
    tokenizer_close(t);
    json_free(j);
}

static void tokens_know_their_bytes(void **state)
{
    static const char text[] = "Gr\xc3\xb6\xc3\x9f" "e dog<|im_end|>\n 12";
    struct tokenizer *t = open_tokenizer("digits.json");
    struct tokens tokens = {0};

    encode(t, text, strlen(text), TOKENIZER_PARSE_SPECIAL, &tokens);
    for (size_t i = 0; i < tokens.n; i++) {
        struct buf out = {0};
        size_t end = i + 1 < tokens.n ? tokens.at[i + 1] : strlen(text);
        tokenizer_decode(t, tokens.ids + i, 1, 0, &out);
        if (memmem(out.data, out.len, "\xef\xbf\xbd", 3) == NULL) { /* whole characters only */
            assert_int_equal(out.len, end - tokens.at[i]);
            assert_memory_equal(out.data, text + tokens.at[i], out.len);
        }
        buf_free(&out);
    }
    tokens_free(&tokens);
    tokenizer_close(t);

    /* Behind a prefix that the text does not have, and bytes that one U+2581 stands for. */
    t = open_tokenizer("sentencepiece.json");
    encode(t, "the dog", 7, 0, &tokens);
    assert_int_equal(tokens.at[0], 0);
    assert_true(tokens.at[tokens.n - 1] >= 3 && tokens.at[tokens.n - 1] < 7);
    tokens_free(&tokens);
    tokenizer_close(t);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A megabyte of one letter is one word for most tokenizers. Merging it pair by pair would take hours; 20 s of CPU leave room for sanitizers. */
static void no_text_takes_quadratic_time(void **state)
{
    static const char *const names[] = {"gpt2.json", "llama3.json", "qwen2.json", "cased.json", "sentencepiece.json", "metaspace.json", "unigram.json", "added.json", "llama.gguf", "smollm.gguf"};
    static const char letters[] = "a \n1'-";
    size_t n = 1 << 20;
    char *text = xmalloc(n);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *t = open_tokenizer(names[i]);
        double start = seconds();
        for (const char *c = letters; *c; c++) {
            struct tokens tokens = {0};
            memset(text, *c, n);
            encode(t, text, n, TOKENIZER_PARSE_SPECIAL, &tokens);
            tokens_free(&tokens);
        }
        if (seconds() - start > 20) fail_msg("%s: %.1f s", names[i], seconds() - start);
        tokenizer_close(t);
    }
    free(text);
}

static void *encode_lines(void *arg)
{
    struct tokens tokens = {0};
    struct buf text = {0};

    for (int i = 0; i < 200; i++) {
        text.len = 0;
        for (int k = 0; k < 5; k++) buf_addf(&text, "The quick dog %d keeps the ratchet; ", i * k);
        encode(arg, text.data, text.len, 0, &tokens);
    }
    int32_t *sum = xcalloc(1, sizeof *sum);
    for (size_t i = 0; i < tokens.n; i++) *sum = (int32_t)((uint32_t)*sum * 31u + (uint32_t)tokens.ids[i]);
    tokens_free(&tokens);
    buf_free(&text);
    return sum;
}

static void threads_share_a_tokenizer(void **state)
{
    struct tokenizer *t = open_tokenizer("llama3.json");
    pthread_t threads[4];
    int32_t *alone = encode_lines(t);

    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, encode_lines, t), 0);
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        assert_int_equal(*(int32_t *)sum, *alone);
        free(sum);
    }
    free(alone);
    tokenizer_close(t);
}

static void broken_text_is_named_by_byte(void **state)
{
    struct tokenizer *t = open_tokenizer("gpt2.json");
    struct tokens tokens = {0};
    struct err err = {0};

    assert_int_equal(tokenizer_encode(t, "ab\xff", 3, 0, &tokens, &err), PAWL_EINVAL);
    assert_string_equal(err.text, "the text is not UTF-8 at byte 2 (0xFF)");
    encode(t, "a\0b", 3, 0, &tokens);
    assert_int_equal(tokens.n, 3);
    tokens_free(&tokens);

    static const int32_t odd[] = {-1, 1 << 20, 3};
    struct buf out = {0};
    tokenizer_decode(t, odd, 3, 0, &out);
    assert_string_equal(out.data, "!");
    buf_free(&out);
    tokenizer_close(t);
}

static void refused(const char *text, const char *what)
{
    struct json *j = NULL;
    struct tokenizer *t = NULL;
    struct err err = {0};

    if (json_parse(&j, text, strlen(text), &err) != PAWL_OK) fail_msg("%s", err.text);
    if (tokenizer_from_json(&t, json_root(j), &err) == PAWL_OK) fail_msg("%s is read", text);
    if (strstr(err.text, what) == NULL) fail_msg("'%s' lacks '%s'", err.text, what);
    json_free(j);
}

static void what_is_not_known_is_refused_by_name(void **state)
{
#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}"
    refused("[]", "this is not a tokenizer.json");
    refused("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "type WordPiece is not supported");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "the id of \"a\"");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "the id of \"a\"");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "merge 0, \"a b\": the right part is no token");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", "has no space");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[3]}}", "entry 0 is no pair");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", "expected an object of token to id");
    refused("{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]}}", "end_of_word_suffix \"</w>\"");
    refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "entry 0 is not [token, score]");
    refused("{\"normalizer\":{\"type\":\"BertNormalizer\"}," MODEL "}", "normalizer: type BertNormalizer is not supported");
    refused("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA!\"}," MODEL "}", "is not base64");
    refused("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"////fwAA\"}," MODEL "}", "cut off or damaged");
    refused("{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL "}", "type UnicodeScripts is not supported");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}," MODEL "}", "regular expression \"(\"");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}," MODEL "}", "an intersection (&&) without brackets");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Sideways\"}," MODEL "}", "behavior Sideways");
    refused("{\"decoder\":{\"type\":\"WordPiece\"}," MODEL "}", "decoder: type WordPiece is not supported");
    refused("{\"post_processor\":{\"type\":\"Odd\"}," MODEL "}", "post_processor: type Odd is not supported");
    refused("{\"added_tokens\":[{\"content\":\"x\"}]," MODEL "}", "entry 0 needs a content and an id");
}

static void the_hash_is_of_everything(void **state)
{
    struct tokenizer *a = open_tokenizer("gpt2.json"), *b = open_tokenizer("gpt2.json"), *c = open_tokenizer("gpt2-prefix.json"), *d = open_tokenizer("smollm.gguf");

    assert_true(tokenizer_hash(a) == tokenizer_hash(b));
    assert_true(tokenizer_hash(a) != tokenizer_hash(c));
    assert_true(tokenizer_hash(d) != 0 && tokenizer_hash(d) != tokenizer_hash(a));
    tokenizer_close(a);
    tokenizer_close(b);
    tokenizer_close(c);
    tokenizer_close(d);
}

static void a_stream_holds_back_half_characters(void **state)
{
    struct tokenizer *t = open_tokenizer("gpt2.json");
    struct tokenizer_stream s = {0};
    struct tokens tokens = {0};
    struct buf out = {0};

    encode(t, "\xf0\x9f\xa6\x94", 4, 0, &tokens); /* a hedgehog, four bytes that no merge joins */
    assert_int_equal(tokens.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out.len, 0);
        tokenizer_stream_push(t, &s, tokens.ids[i], 0, &out);
    }
    assert_string_equal(out.data, "\xf0\x9f\xa6\x94");
    tokenizer_stream_push(t, &s, tokens.ids[0], 0, &out); /* the text ends in the middle of one */
    assert_int_equal(out.len, 4);
    tokenizer_stream_end(t, &s, 0, &out);
    assert_string_equal(out.data, "\xf0\x9f\xa6\x94\xef\xbf\xbd");
    out.len = 0;
    for (int i = 0; i < 40; i++) tokenizer_stream_push(t, &s, tokens.ids[1], 0, &out); /* bytes that are no text do not pile up */
    assert_true(out.len >= 3 * 32);
    tokenizer_stream_end(t, &s, 0, &out);
    assert_int_equal(out.len, 3 * 40);
    tokens_free(&tokens);
    buf_free(&out);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_bpe), cmocka_unit_test(added_tokens_and_normalizers), cmocka_unit_test(sentencepiece_bpe), cmocka_unit_test(unigram),
        cmocka_unit_test(gguf_metadata), cmocka_unit_test(every_pretokenizer_opens), cmocka_unit_test(the_first_character_is_one), cmocka_unit_test(tokens_know_their_bytes), cmocka_unit_test(no_text_takes_quadratic_time),
        cmocka_unit_test(threads_share_a_tokenizer), cmocka_unit_test(broken_text_is_named_by_byte), cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(the_hash_is_of_everything), cmocka_unit_test(a_stream_holds_back_half_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
