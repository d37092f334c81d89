/* Tokenizers from the metadata of GGUF files. What the names mean is fixed by llama.cpp (src/llama-vocab.cpp); where its regular expressions only stand
 * in for the original ones (its engine has no Unicode properties), the original ones of the models' tokenizer.json are used. */
#include "train/text/tokenizer_parts.h"

#include "ckpt/gguf.h"
#include "kernels/base/hash.h"
#include "kernels/base/utf8.h"
#include "train/text/unicode.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

/* ---- pre-tokenizers ---- */

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTION "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PLAIN "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define CL100K(digits) CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits PLAIN TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_OF(upper, lower, behind) "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" behind "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" behind
#define CASED(behind) CASED_OF(UPPER, LOWER, behind)
#define SLASH_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define CJK "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"
#define ASCII_PUNCT "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3 ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define HAN_HANGUL "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+"
/* Letters with a case, in numbers: some have two encodings, and an editor that likes one better would break the ranges. */
#define CASED_LETTERS \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}" \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}" \
    "\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}" \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}" \
    "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}" \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}" \
    "\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}" \
    "\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}" \
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}" \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}" \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define ASIAN "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}" \
    "\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define BLOOM " ?[^(\\s|.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8\x8c)]+"

enum list {
    L_DEFAULT, L_LLAMA3, L_GPT2, L_SMOLLM, L_QWEN2, L_QWEN35, L_FALCON, L_DEEPSEEK_LLM, L_DEEPSEEK_CODER, L_DEEPSEEK3, L_SPARK, L_BLOOM, L_VIKING,
    L_TEKKEN, L_GPT4O, L_TINY_AYA, L_SUPERBPE, L_BAILING, L_SEED, L_UFAKZEKA, L_LAGUNA, L_EXAONE_MOE, L_GEMMA4, L_MINICPM5, L_JAIS2, L_CHAMELEON,
    L_YOUTU, L_GRANITE_EMB, L_KIMI_K2, L_AFMOE
};

static const char *const lists[][7] = {
    [L_DEFAULT] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    [L_LLAMA3] = {CL100K("\\p{N}{1,3}")},
    [L_GPT2] = {GPT2},
    [L_SMOLLM] = {"\\p{N}", GPT2},
    [L_QWEN2] = {CL100K("\\p{N}")},
    [L_QWEN35] = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL},
    [L_FALCON] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"},
    [L_DEEPSEEK_LLM] = {"[\\r\\n]",
        "\\s?[" CASED_LETTERS "]+",
        "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", HAN_HANGUL, "\\p{N}+"},
    [L_DEEPSEEK_CODER] = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN_HANGUL, "\\p{N}"},
    [L_DEEPSEEK3] = {"\\p{N}{1,3}", CJK, DEEPSEEK3 "[\\r\\n]*" TAIL},
    [L_SPARK] = {"\\p{N}{1,3}", CJK, DEEPSEEK3 "|[\\r\\n]|\\s+(?!\\S)|\\s+", "\\p{N}"},
    [L_BLOOM] = {BLOOM},
    [L_VIKING] = {BLOOM, "\\p{N}"},
    [L_TEKKEN] = {CASED("") "|\\p{N}" SLASH_TAIL},
    [L_GPT4O] = {CASED(CONTRACTION "?") "|\\p{N}{1,3}" SLASH_TAIL},
    [L_TINY_AYA] = {"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(CONTRACTION "?") "|\\p{N}{1,3}" SLASH_TAIL},
    [L_SUPERBPE] = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"},
    [L_BAILING] = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" PLAIN "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    [L_SEED] = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL},
    [L_UFAKZEKA] = {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" PLAIN TAIL},
    [L_LAGUNA] = {"[^\\n]+|[\\n]+", CL100K("\\p{N}")},
    [L_EXAONE_MOE] = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    [L_GEMMA4] = {"[^\\n]+|[\\n]+"},
    [L_MINICPM5] = {"\\p{N}{1,3}", CL100K("\\p{N}+")},
    [L_JAIS2] = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" PLAIN "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)"
                 "|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"},
    [L_CHAMELEON] = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
    [L_YOUTU] = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", CASED(CONTRACTION "?") "|\\p{N}" SLASH_TAIL},
    [L_GRANITE_EMB] = {CASED(CONTRACTION "?") "|\\p{N}{1,3}" SLASH_TAIL},
    [L_KIMI_K2] = {"\\p{Han}+|" CASED_OF("(?:(?!\\p{Han})" UPPER ")", "(?:(?!\\p{Han})" LOWER ")", CONTRACTION "?") "|\\p{N}{1,3}" PLAIN TAIL},
    [L_AFMOE] = {"\\p{N}{1,3}(?=(?:\\p{N}{3})*+(?!\\p{N}))", ASIAN, DEEPSEEK3 "[\\r\\n]*" TAIL},
};

enum pre_flags { WHOLE_WORDS = 1, ADD_BOS = 2, CLEAN = 4, MARKS = 8 };

static const struct pre {
    const char *name;
    enum list list;
    int flags;
} pres[] = {
    {"default", L_DEFAULT, CLEAN}, {"llama3", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN}, {"llama-v3", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN},
    {"llama-bpe", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN}, {"falcon3", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN},
    {"falcon-h1", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN}, {"pixtral", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN},
    {"midm-2.0", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN}, {"lfm2", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN},
    {"jina-v5-nano", L_LLAMA3, WHOLE_WORDS | ADD_BOS | CLEAN}, {"minicpm5", L_MINICPM5, WHOLE_WORDS | CLEAN},
    {"deepseek-llm", L_DEEPSEEK_LLM, 0}, {"deepseek-coder", L_DEEPSEEK_CODER, 0}, {"deepseek-v3", L_DEEPSEEK3, 0}, {"hunyuan-dense", L_DEEPSEEK3, 0},
    {"joyai-llm", L_DEEPSEEK3, 0}, {"hy_v4", L_DEEPSEEK3, 0}, {"spark2_5", L_SPARK, 0}, {"youtu", L_YOUTU, WHOLE_WORDS}, {"falcon", L_FALCON, CLEAN},
    {"gpt-2", L_GPT2, CLEAN}, {"phi-2", L_GPT2, CLEAN}, {"mpt", L_GPT2, CLEAN}, {"olmo", L_GPT2, CLEAN}, {"jais", L_GPT2, CLEAN}, {"gigachat", L_GPT2, CLEAN},
    {"a.x-4.0", L_GPT2, CLEAN}, {"mellum", L_GPT2, CLEAN}, {"exaone4", L_GPT2, CLEAN}, {"trillion", L_GPT2, 0}, {"granite-docling", L_GPT2, 0},
    {"starcoder", L_SMOLLM, CLEAN}, {"refact", L_SMOLLM, CLEAN}, {"command-r", L_SMOLLM, 0}, {"smollm", L_SMOLLM, 0}, {"codeshell", L_SMOLLM, CLEAN},
    {"exaone", L_SMOLLM, CLEAN}, {"minerva-7b", L_SMOLLM, CLEAN}, {"mellum2", L_SMOLLM, CLEAN},
    {"qwen2", L_QWEN2, 0}, {"deepseek-r1-qwen", L_QWEN2, 0}, {"kormo", L_QWEN2, 0}, {"f2llmv2", L_QWEN2, 0}, {"megrez", L_QWEN2, CLEAN},
    {"stablelm2", L_QWEN2, CLEAN}, {"hunyuan", L_QWEN2, 0}, {"solar-open", L_QWEN2, 0}, {"grok-2", L_QWEN2, 0}, {"qwen35", L_QWEN35, 0},
    {"dbrx", L_LLAMA3, CLEAN}, {"smaug-bpe", L_LLAMA3, CLEAN}, {"glm4", L_LLAMA3, WHOLE_WORDS | CLEAN}, {"glm5", L_LLAMA3, WHOLE_WORDS | CLEAN}, {"chatglm-bpe", L_LLAMA3, CLEAN},
    {"poro-chat", L_BLOOM, 0}, {"bloom", L_BLOOM, CLEAN}, {"gpt3-finnish", L_BLOOM, CLEAN}, {"viking", L_VIKING, 0},
    {"tekken", L_TEKKEN, WHOLE_WORDS | ADD_BOS}, {"gpt-4o", L_GPT4O, 0}, {"llama4", L_GPT4O, 0}, {"kanana2", L_GPT4O, 0}, {"talkie", L_GPT4O, 0},
    {"minimax-m2", L_GPT4O, 0}, {"granite-embed-multi-97m", L_GRANITE_EMB, WHOLE_WORDS}, {"tiny_aya", L_TINY_AYA, 0}, {"cohere2moe", L_TINY_AYA, 0},
    {"superbpe", L_SUPERBPE, 0}, {"bailingmoe", L_BAILING, 0}, {"bailingmoe2", L_BAILING, 0}, {"llada-moe", L_BAILING, 0}, {"seed-coder", L_SEED, 0},
    {"ufakzeka", L_UFAKZEKA, 0}, {"laguna", L_LAGUNA, 0}, {"exaone-moe", L_EXAONE_MOE, CLEAN}, {"gemma4", L_GEMMA4, ADD_BOS | CLEAN | MARKS},
    {"granite-embed-multi-311m", L_GEMMA4, CLEAN | MARKS}, {"sarvam-moe", L_GEMMA4, MARKS}, {"jais-2", L_JAIS2, CLEAN}, {"chameleon", L_CHAMELEON, ADD_BOS}, {"kimi-k2", L_KIMI_K2, 0},
    {"afmoe", L_AFMOE, 0}, {"modern-bert", L_GPT2, CLEAN}, {"jina-es", L_GPT2, CLEAN}, {"jina-de", L_GPT2, CLEAN}, {"jina-v2-es", L_GPT2, CLEAN},
    {"jina-v2-de", L_GPT2, CLEAN},
};

static const struct pre *find_pre(const char *name)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (strcmp(pres[i].name, name) == 0) return &pres[i];
    return NULL;
}

/* The case-blind patterns above as scanners; llama.cpp spells the letters out, so U+017F is none of them. */
static enum pawl_status add_pattern(struct pretok *p, const char *pattern, struct err *err)
{
    static const struct {
        const char *pattern;
        struct scanner scanner;
    } known[] = {
        {CL100K("\\p{N}{1,3}"), {true, UC_LETTER, 3, false}},
        {CL100K("\\p{N}"), {true, UC_LETTER, 1, false}},
        {CL100K("\\p{N}+"), {true, UC_LETTER, 0, false}},
        {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL, {true, UC_LETTER | UC_MARK, 1, false}},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].pattern, pattern) == 0) {
            pretok_add_scanner(p, known[i].scanner);
            return PAWL_OK;
        }
    return pretok_add_regex(p, pattern, strlen(pattern), err);
}

/* ---- reading ---- */

/* Everything that is asked of the file, with its defaults. */
struct source {
    const struct gguf *gguf;
    const struct gguf_value *tokens, *types, *scores, *merges;
    char model[32], pre[64], name[128];
    bool add_bos, add_eos, add_space_prefix;
};

static void copy_text(const struct gguf *g, const char *key, char *out, size_t size)
{
    struct gguf_string s;

    out[0] = 0;
    if (gguf_text(g, key, &s)) snprintf(out, size, "%.*s", (int)(s.len < size ? s.len : size - 1), s.data);
}

static int type_of(const struct source *s, size_t id)
{
    return s->types != NULL ? (int)gguf_int_at(s->types, id) : TYPE_NORMAL;
}

static enum pawl_status read_names(struct tokenizer *t, const struct source *s, struct err *err)
{
    for (size_t id = 0; id < s->tokens->count; id++) {
        struct gguf_string name = s->tokens->strings[id];
        char empty[32];
        if (name.len == 0) { /* as llama.cpp calls them */
            name.len = (size_t)snprintf(empty, sizeof empty, "[EMPTY_%zu]", id);
            name.data = empty;
        }
        size_t good = utf8_valid(name.data, name.len);
        if (good < name.len) return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.tokens: token %zu is not UTF-8 at byte %zu", id, good);
        vocab_add(&t->names, (int32_t)id, name.data, name.len);
    }
    return PAWL_OK;
}

static bool contains_phi3(const char *name)
{
    char low[128];
    size_t n = 0;

    for (; name[n] != 0 && n + 1 < sizeof low; n++) low[n] = (char)tolower((unsigned char)name[n]);
    low[n] = 0;
    return strstr(low, "phi-3") != NULL || strstr(low, "phi3") != NULL;
}

/* Names by which llama.cpp knows the end of a generation, whatever type the file gives to an added token that has one. */
static bool ends_generation(const char *name)
{
    static const char *const names[] = {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>",
        "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
        "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>", "[e~[",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Control, unknown and user-defined tokens are found in the text; the first two are special. GGUF does not keep rstrip; llama.cpp knows Phi-3 by name. */
static void read_added(struct tokenizer *t, const struct source *s)
{
    static const char *const unstripped[] = {"<unk>", "<s>", "<|endoftext|>"};
    bool phi3 = contains_phi3(s->name);

    for (size_t id = 0; id < s->tokens->count; id++) {
        int type = type_of(s, id);
        if (type != TYPE_CONTROL && type != TYPE_UNKNOWN && type != TYPE_USER_DEFINED) continue;
        struct added_token a = {
            .text = (char *)t->names.text[id], .len = t->names.len[id], .id = (int32_t)id,
            .special = type != TYPE_USER_DEFINED || ends_generation(t->names.text[id]), .rstrip = phi3, .ascii_strip = true,
        };
        for (int i = 0; i < 3; i++)
            if (strcmp(a.text, unstripped[i]) == 0) a.rstrip = false;
        added_add(&t->added, &a, NULL, 0);
        if (a.special) tokenizer_mark_special(t, a.id);
    }
}

static enum pawl_status read_merges(struct tokenizer *t, const struct source *s, struct err *err)
{
    if (s->merges == NULL) return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.merges is missing: a vocabulary of kind %s needs it", s->model);
    for (size_t i = 0; i < s->merges->count; i++) {
        struct gguf_string m = s->merges->strings[i];
        const char *space = m.len > 1 ? memchr(m.data + 1, ' ', m.len - 1) : NULL;
        if (space == NULL) return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.merges: entry %zu is no pair", i);
        size_t left = (size_t)(space - m.data);
        enum pawl_status st = tokenizer_add_merge(t, m.data, left, space + 1, m.len - left - 1, (uint32_t)i, err);
        if (st != PAWL_OK) return err_prefix(err, "tokenizer.ggml.merges");
    }
    return PAWL_OK;
}

static enum pawl_status read_bpe(struct tokenizer *t, struct source *s, struct err *err)
{
    const struct pre *pre = find_pre(strcmp(s->model, "gemma4") == 0 ? "gemma4" : s->pre[0] ? s->pre : "default");
    enum pawl_status st;

    if (pre == NULL) return err_set(err, PAWL_EINVAL, "tokenizer.ggml.pre: \"%s\" is no pre-tokenizer that pawl knows", s->pre);
    for (int i = 0; i < 7 && lists[pre->list][i] != NULL; i++)
        if ((st = add_pattern(&t->pretok, lists[pre->list][i], err)) != PAWL_OK) return st;
    if ((st = read_merges(t, s, err)) != PAWL_OK) return st;

    bool marks = pre->flags & MARKS; /* words in SentencePiece's spelling instead of bytes */
    t->byte_level = !marks;
    t->clean_spaces = pre->flags & CLEAN;
    t->merges.whole_words = pre->flags & WHOLE_WORDS;
    t->merges.whole_newlines = marks;
    t->merges.byte_fallback = marks;
    s->add_bos |= (pre->flags & ADD_BOS) != 0;
    if (marks) {
        tokenizer_byte_tokens(t, t->merges.bytes);
        normalizer_add(&t->normalizer, NORMALIZE_REPLACE, " ", 1, TOKENIZER_MARK, 3);
        decoder_add(&t->decoder, DECODE_REPLACE, TOKENIZER_MARK, " ", 0, 0);
        decoder_add(&t->decoder, DECODE_BYTE_FALLBACK, "", "", 0, 0);
        decoder_add(&t->decoder, DECODE_FUSE, "", "", 0, 0);
    } else {
        decoder_add(&t->decoder, DECODE_BYTE_LEVEL, "", "", 0, 0);
    }
    tokenizer_finish_bpe(t);
    return PAWL_OK;
}

static int by_score_falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x > y ? -1 : x < y;
}

/* SentencePiece's BPE: any two neighbours that together are a token may merge, highest score first. */
static enum pawl_status read_spm(struct tokenizer *t, const struct source *s, struct err *err)
{
    size_t n = s->tokens->count, distinct = 0;

    if (s->scores == NULL || s->scores->count != n)
        return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.scores: expected %zu numbers, one for each token, found %zu", n, s->scores ? s->scores->count : 0);
    double *sorted = xreallocarray(NULL, n, sizeof *sorted);
    for (size_t id = 0; id < n; id++) sorted[id] = gguf_float_at(s->scores, id);
    qsort(sorted, n, sizeof *sorted, by_score_falling);
    for (size_t i = 0; i < n; i++)
        if (distinct == 0 || sorted[i] != sorted[distinct - 1]) sorted[distinct++] = sorted[i];
    t->merges.ranks = xreallocarray(NULL, n, sizeof *t->merges.ranks);
    for (size_t id = 0; id < n; id++) {
        double score = gguf_float_at(s->scores, id);
        size_t low = 0, high = distinct;
        while (low + 1 < high) {
            size_t mid = (low + high) / 2;
            if (sorted[mid] >= score) low = mid;
            else high = mid;
        }
        t->merges.ranks[id] = (uint32_t)low;
    }
    free(sorted);

    tokenizer_byte_tokens(t, t->merges.bytes);
    t->merges.byte_fallback = true;
    if (s->add_space_prefix) normalizer_add(&t->normalizer, NORMALIZE_PREPEND, NULL, 0, TOKENIZER_MARK, 3);
    normalizer_add(&t->normalizer, NORMALIZE_REPLACE, " ", 1, TOKENIZER_MARK, 3);
    decoder_add(&t->decoder, DECODE_REPLACE, TOKENIZER_MARK, " ", 0, 0);
    decoder_add(&t->decoder, DECODE_BYTE_FALLBACK, "", "", 0, 0);
    decoder_add(&t->decoder, DECODE_FUSE, "", "", 0, 0);
    if (s->add_space_prefix) decoder_add(&t->decoder, DECODE_STRIP, " ", "", 1, 0);
    tokenizer_finish_bpe(t);
    return PAWL_OK;
}

static enum pawl_status read_roles(struct tokenizer *t, const struct source *s, struct err *err)
{
    static const struct {
        const char *key;
        enum tokenizer_role role;
        int spm; /* what llama.cpp assumes for `llama` vocabularies without the key */
    } keys[] = {
        {"tokenizer.ggml.bos_token_id", TOKENIZER_BOS, 1},
        {"tokenizer.ggml.eos_token_id", TOKENIZER_EOS, 2},
        {"tokenizer.ggml.unknown_token_id", TOKENIZER_UNK, 0},
        {"tokenizer.ggml.padding_token_id", TOKENIZER_PAD, -1},
    };
    bool spm = strcmp(s->model, "llama") == 0;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t id = spm ? keys[i].spm : -1;
        bool given = gguf_int(s->gguf, keys[i].key, &id);
        if (id >= (int64_t)t->names.n || id < -1) {
            if (given) return err_set(err, PAWL_EFORMAT, "%s is %lld, the vocabulary has %zu tokens", keys[i].key, (long long)id, t->names.n);
            id = -1;
        }
        t->special[keys[i].role] = (int32_t)id;
    }
    if (spm || strcmp(s->model, "gemma4") == 0) t->merges.unk = t->special[TOKENIZER_UNK];
    if (s->add_bos) {
        if (t->special[TOKENIZER_BOS] < 0) return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.add_bos_token asks for a BOS token, bos_token_id names none");
        tokenizer_add_prefix(t, t->special[TOKENIZER_BOS]);
    }
    if (s->add_eos) {
        if (t->special[TOKENIZER_EOS] < 0) return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.add_eos_token asks for an EOS token, eos_token_id names none");
        tokenizer_add_suffix(t, t->special[TOKENIZER_EOS]);
    }
    return PAWL_OK;
}

static uint64_t hash_metadata(const struct gguf *g)
{
    uint64_t h = 0;

    for (size_t i = 0; i < gguf_value_count(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        if (strncmp(v->key, "tokenizer.ggml.", 15) != 0 && strcmp(v->key, "general.name") != 0) continue;
        h = hash64(h, v->key, strlen(v->key));
        for (size_t k = 0; k < v->count; k++) {
            if (v->strings != NULL) {
                h = hash64(h, v->strings[k].data, v->strings[k].len);
                continue;
            }
            double x = v->type == GGUF_F32 || v->type == GGUF_F64 ? gguf_float_at(v, k) : (double)gguf_int_at(v, k);
            h = hash64(h, &x, sizeof x);
        }
    }
    return h;
}

static enum pawl_status read_all(struct tokenizer *t, struct source *s, struct err *err)
{
    bool spm = strcmp(s->model, "llama") == 0;
    enum pawl_status st;

    if (!spm && strcmp(s->model, "gpt2") != 0 && strcmp(s->model, "gemma4") != 0)
        return err_set(err, PAWL_EINVAL, "tokenizer.ggml.model: \"%s\" is not supported; gpt2, llama and gemma4 are", s->model);
    if (s->tokens == NULL || s->tokens->count == 0 || s->tokens->count > VOCAB_MAX_ID) return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.tokens: no list of tokens");
    if (s->types != NULL && s->types->count != s->tokens->count)
        return err_set(err, PAWL_EFORMAT, "tokenizer.ggml.token_type: expected %zu entries, found %zu", s->tokens->count, s->types->count);
    if ((st = read_names(t, s, err)) != PAWL_OK) return st;

    s->add_bos = s->add_space_prefix = spm;
    gguf_bool(s->gguf, "tokenizer.ggml.add_space_prefix", &s->add_space_prefix);
    if ((st = spm ? read_spm(t, s, err) : read_bpe(t, s, err)) != PAWL_OK) return st;
    gguf_bool(s->gguf, "tokenizer.ggml.add_bos_token", &s->add_bos);
    gguf_bool(s->gguf, "tokenizer.ggml.add_eos_token", &s->add_eos);
    if ((st = read_roles(t, s, err)) != PAWL_OK) return st;
    read_added(t, s);
    return PAWL_OK;
}

enum pawl_status tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g, struct err *err)
{
    struct tokenizer *t = tokenizer_new();
    struct source s = {
        .gguf = g, .tokens = gguf_strings(g, "tokenizer.ggml.tokens"), .types = gguf_ints(g, "tokenizer.ggml.token_type"),
        .scores = gguf_floats(g, "tokenizer.ggml.scores"), .merges = gguf_strings(g, "tokenizer.ggml.merges"),
    };

    copy_text(g, "tokenizer.ggml.model", s.model, sizeof s.model);
    copy_text(g, "tokenizer.ggml.pre", s.pre, sizeof s.pre);
    copy_text(g, "general.name", s.name, sizeof s.name);
    enum pawl_status st = read_all(t, &s, err);
    if (st != PAWL_OK) {
        err_prefix(err, "%s", gguf_path(g));
        tokenizer_close(t);
        return st;
    }
    t->hash = hash_metadata(g);
    *out = t;
    return PAWL_OK;
}
