#include "train/data/record.h"

#include "kernels/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* --- which type a record is */

static const char *const needed[] = {
    [DATASET_AUTO] = "",
    [DATASET_CHAT] = "messages (or conversations)",
    [DATASET_ALPACA] = "instruction, output (and input)",
    [DATASET_COMPLETION] = "text",
    [DATASET_PROMPT_COMPLETION] = "prompt, completion",
    [DATASET_INPUT_OUTPUT] = "segments",
};

const char *record_keys(enum dataset_type type)
{
    return needed[type];
}

void record_list_keys(const struct json_value *record, struct buf *out)
{
    if (record->type != JSON_OBJECT) {
        buf_adds(out, "no object");
        return;
    }
    for (size_t i = 0; i < record->len; i++) {
        if (i == 20) {
            buf_adds(out, ", ...");
            return;
        }
        buf_adds(out, i ? ", " : "");
        for (const char *c = record->keys[i].text; *c && c < record->keys[i].text + 40; c++) buf_addc(out, (unsigned char)*c < ' ' ? '?' : *c);
    }
    if (record->len == 0) buf_adds(out, "nothing");
}

enum dataset_type record_guess(const struct json_value *record, const struct dataset_config *part)
{
    static const struct {
        enum dataset_type type;
        const char *keys[2];
    } signs[] = {
        {DATASET_CHAT, {"messages", NULL}},          {DATASET_CHAT, {"conversations", NULL}}, {DATASET_PROMPT_COMPLETION, {"prompt", "completion"}},
        {DATASET_ALPACA, {"instruction", "output"}}, {DATASET_INPUT_OUTPUT, {"segments", NULL}}, {DATASET_COMPLETION, {"text", NULL}},
    };

    if (part->field_messages && json_get(record, part->field_messages)) return DATASET_CHAT;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (json_get(record, signs[i].keys[0]) && (!signs[i].keys[1] || json_get(record, signs[i].keys[1]))) return signs[i].type;
    }
    if (part->field && json_get(record, part->field)) return DATASET_COMPLETION;
    return DATASET_AUTO;
}

bool record_is_chat(const struct json_value *record, enum dataset_type type)
{
    const struct json_value *prompt = json_get(record, "prompt");

    return type == DATASET_CHAT || (type == DATASET_PROMPT_COMPLETION && prompt && prompt->type == JSON_ARRAY);
}

/* --- pieces */

static void add(struct pieces *p, const char *text, size_t len, bool supervised, bool said)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->at = xreallocarray(p->at, p->cap, sizeof *p->at);
    }
    p->at[p->n++] = (struct piece){text, len, supervised, said};
}

void pieces_free(struct pieces *p)
{
    free(p->at);
    *p = (struct pieces){0};
}

/* The string of a field; absent or null is an error unless optional (then *out is NULL). */
static enum pawl_status field(const struct json_value **out, const struct json_value *record, const char *key, bool optional, struct err *err)
{
    const struct json_value *v = json_get(record, key);
    struct buf keys = {0};

    *out = NULL;
    if (optional && (!v || v->type == JSON_NULL)) return PAWL_OK;
    if (v && v->type == JSON_STRING) {
        *out = v;
        return PAWL_OK;
    }
    if (v) return err_set(err, PAWL_EFORMAT, "field \"%s\": expected a string, found %s", key, json_kind(v));
    record_list_keys(record, &keys);
    err_set(err, PAWL_EFORMAT, "no field \"%s\", found: %s: set the data set's type or its field names", key, keys.data);
    buf_free(&keys);
    return PAWL_EFORMAT;
}

/* The prompts of Stanford Alpaca (Taori et al. 2023) and the other styles that Axolotl knows by these names. {s} system, {i} instruction, {x} input. */
static const struct {
    const char *system, *with_input, *without_input;
} styles[] = {
    [STYLE_INSTRUCT] = {"{s}\n\n", "### Instruction:\n{i}\n\n### Input:\n{x}\n\n### Response:\n", "### Instruction:\n{i}\n\n### Response:\n"},
    [STYLE_CHAT] = {"SYSTEM: {s}\n", "USER: {i}\n{x}\nASSISTANT:", "USER: {i}\nASSISTANT:"},
    [STYLE_CHATML] = {"<|im_start|>system\n{s}<|im_end|>\n", "<|im_start|>user\n{i}\n{x}<|im_end|>\n<|im_start|>assistant\n",
                      "<|im_start|>user\n{i}<|im_end|>\n<|im_start|>assistant\n"},
    [STYLE_PHI] = {"<|system|>\n{s}<|end|>\n", "<|user|>\n{i}<|end|>{x}<|assistant|>", "<|user|>\n{i}<|end|><|assistant|>"},
};
static const char with_input_system[] =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request.";
static const char without_input_system[] = "Below is an instruction that describes a task. Write a response that appropriately completes the request.";

static void add_value(struct pieces *p, const struct json_value *v, bool supervised, bool said)
{
    if (v && v->len) add(p, v->text, v->len, supervised, said);
}

static void add_pattern(struct pieces *p, const char *pattern, const struct json_value *system, const struct json_value *instruction, const struct json_value *input)
{
    while (*pattern) {
        size_t n = strcspn(pattern, "{");

        if (n) add(p, pattern, n, false, false);
        pattern += n;
        if (*pattern == '{') {
            add_value(p, pattern[1] == 's' ? system : pattern[1] == 'i' ? instruction : input, false, pattern[1] != 's');
            pattern += 3;
        }
    }
}

static enum pawl_status read_alpaca(struct pieces *p, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    const struct json_value *instruction, *input, *output, *system;
    enum pawl_status st;

    if ((st = field(&instruction, record, "instruction", false, err)) != PAWL_OK) return st;
    if ((st = field(&output, record, "output", false, err)) != PAWL_OK) return st;
    if ((st = field(&input, record, "input", true, err)) != PAWL_OK) return st;
    if ((st = field(&system, record, part->field_system ? part->field_system : "system", true, err)) != PAWL_OK) return st;

    bool has_input = input && input->len;
    struct json_value standard = {.type = JSON_STRING, .text = has_input ? with_input_system : without_input_system};

    standard.len = strlen(standard.text);
    add_pattern(p, styles[part->style].system, system && system->len ? system : &standard, NULL, NULL);
    add_pattern(p, has_input ? styles[part->style].with_input : styles[part->style].without_input, NULL, instruction, input);
    add(p, output->text, output->len, true, false);
    p->bos = p->eos = true;
    return PAWL_OK;
}

static enum pawl_status read_completion(struct pieces *p, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    const struct json_value *text;
    enum pawl_status st = field(&text, record, part->field ? part->field : "text", false, err);

    if (st != PAWL_OK) return st;
    add(p, text->text, text->len, true, false);
    p->bos = p->eos = true;
    return PAWL_OK;
}

static enum pawl_status read_prompt_completion(struct pieces *p, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    const struct json_value *prompt, *completion;
    enum pawl_status st;

    if ((st = field(&prompt, record, "prompt", false, err)) != PAWL_OK) return st;
    if ((st = field(&completion, record, "completion", false, err)) != PAWL_OK) return st;
    add_value(p, prompt, false, false);
    add(p, completion->text, completion->len, true, false);
    p->bos = p->eos = true;
    return PAWL_OK;
}

/* Axolotl's template-free form: [{"label": true, "text": "..."}, ...]; special tokens are written out by whoever made it. */
static enum pawl_status read_input_output(struct pieces *p, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    const struct json_value *segments = json_get(record, "segments");

    if (!segments || segments->type != JSON_ARRAY) {
        return err_set(err, PAWL_EFORMAT, "field \"segments\": expected an array of {\"label\": true or false, \"text\": \"...\"}, found %s", json_kind(segments));
    }
    for (size_t i = 0; i < segments->len; i++) {
        const struct json_value *label = json_get(&segments->items[i], "label"), *text = json_get(&segments->items[i], "text");

        if (!label || label->type != JSON_BOOL) return err_set(err, PAWL_EFORMAT, "segments[%zu]: field \"label\": expected true or false, found %s", i, json_kind(label));
        if (!text || text->type != JSON_STRING) return err_set(err, PAWL_EFORMAT, "segments[%zu]: field \"text\": expected a string, found %s", i, json_kind(text));
        add_value(p, text, label->boolean, false);
    }
    return PAWL_OK;
}

enum pawl_status pieces_read(struct pieces *out, enum dataset_type type, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    static enum pawl_status (*const readers[])(struct pieces *, const struct dataset_config *, const struct json_value *, struct err *) = {
        [DATASET_ALPACA] = read_alpaca, [DATASET_COMPLETION] = read_completion, [DATASET_PROMPT_COMPLETION] = read_prompt_completion,
        [DATASET_INPUT_OUTPUT] = read_input_output,
    };

    out->n = 0;
    out->bos = out->eos = false;
    return readers[type](out, part, record, err);
}
