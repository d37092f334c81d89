#include "train/data/reading.h"

#include "ckpt/fileio.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "train/data/record.h"

#include <stdlib.h>
#include <string.h>

#define GUESS_RECORDS 16
#define MAX_TEMPLATE (4 << 20)

/* 26 July 2024: the date that Llama 3.1's template has where there is no clock. */
static const struct tm fixed_date = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207};

/* --- type: auto */

/* Parses the first records that are JSON. */
static enum pawl_status first_records(struct json *out[GUESS_RECORDS], int64_t line[GUESS_RECORDS], int *n, const struct files *files, struct err *err)
{
    struct source *source = NULL;
    struct source_chunk chunk = {0};
    enum pawl_status st = source_open(&source, files, err);

    *n = 0;
    if (st == PAWL_OK) st = source_next(source, &chunk, err);
    for (size_t i = 0; st == PAWL_OK && i < chunk.n && *n < GUESS_RECORDS; i++) {
        line[*n] = chunk.record[i].line;
        if (json_parse(&out[*n], chunk.text.data + chunk.record[i].at, chunk.record[i].len, NULL) == PAWL_OK) (*n)++;
    }
    source_chunk_free(&chunk);
    source_close(source);
    return st;
}

static enum pawl_status guess_type(struct reading *r, struct json *const *record, const int64_t *line, int n, const char *path, struct err *err)
{
    struct buf keys = {0};

    for (int i = 0; i < n; i++) {
        int type = record_guess(json_root(record[i]), r->part);

        if (type == DATASET_AUTO) {
            record_list_keys(json_root(record[i]), &keys);
            err_set(err, PAWL_EINVAL, "%s:%lld: type auto: a record with %s fits no type: expected %s; %s; %s; %s; or %s", path, (long long)line[i], keys.data, record_keys(DATASET_CHAT),
                    record_keys(DATASET_PROMPT_COMPLETION), record_keys(DATASET_ALPACA), record_keys(DATASET_INPUT_OUTPUT), record_keys(DATASET_COMPLETION));
            buf_free(&keys);
            return PAWL_EINVAL;
        }
        if (i && type != r->type) {
            return err_set(err, PAWL_EINVAL, "%s:%lld: type auto: the first records are of more than one type, %s and here %s: write type out", path, (long long)line[i], record_keys((enum dataset_type)r->type),
                           record_keys((enum dataset_type)type));
        }
        r->type = type;
    }
    if (n == 0) return err_set(err, PAWL_EINVAL, "%s: type auto: no record to find the type by: is the data set empty?", path);
    return PAWL_OK;
}

static const char *const type_names[] = {
    [DATASET_CHAT] = "chat_template", [DATASET_ALPACA] = "alpaca", [DATASET_COMPLETION] = "completion", [DATASET_PROMPT_COMPLETION] = "prompt_completion",
    [DATASET_INPUT_OUTPUT] = "input_output",
};

/* --- the template of a part that names its own */

static enum pawl_status own_template(struct reading *r, struct err *err)
{
    const char *name = r->part->chat_template, *jinja = r->part->chat_template_jinja;
    struct buf text = {0};
    enum pawl_status st;

    if (jinja && (!name || !strcmp(name, "jinja"))) {
        if (strstr(jinja, "{%") || strstr(jinja, "{{")) return chat_template_parse(&r->own_chat, "chat_template_jinja", jinja, strlen(jinja), err);
        if ((st = file_read_all(&text, jinja, MAX_TEMPLATE, err)) != PAWL_OK) return st;
        st = chat_template_parse(&r->own_chat, jinja, text.data, text.len, err);
        buf_free(&text);
        return st;
    }
    if (name && strcmp(name, "tokenizer_default")) return chat_template_builtin(&r->own_chat, name, err);
    return PAWL_OK;
}

static enum pawl_status find_template(struct reading *r, struct err *err)
{
    enum pawl_status st = own_template(r, err);

    r->chat = r->own_chat ? r->own_chat : r->opt->chat;
    if (st == PAWL_OK && !r->chat) {
        st = err_set(err, PAWL_EINVAL, "%s: a conversation needs a chat template and the model has none: set chat_template, e.g. chatml", r->part->path);
    }
    return st;
}

/* --- special tokens */

static enum pawl_status special(int32_t *id, char **text, const struct tokenizer *t, const char *name, enum tokenizer_role role, const char *key, struct err *err)
{
    const char *written;
    size_t len;

    *id = name ? tokenizer_id(t, name, strlen(name)) : tokenizer_special(t, role);
    if (name && *id < 0) return err_set(err, PAWL_EINVAL, "special_tokens: %s: \"%s\" is not in the vocabulary: name a token that is", key, name);
    if (*id >= 0 && (written = tokenizer_name(t, *id, &len)) != NULL) *text = xstrndup(written, len);
    return PAWL_OK;
}

/* "<0xE4>", or the unknown token. */
static bool is_rare(const struct tokenizer *t, int32_t id)
{
    size_t len;
    const char *name = tokenizer_name(t, id, &len);

    return id == tokenizer_special(t, TOKENIZER_UNK) || (name && len == 6 && !memcmp(name, "<0x", 3) && name[5] == '>');
}

enum pawl_status reading_init(struct reading *r, const struct dataset_config *part, const struct dataset_options *opt, const struct files *files, struct err *err)
{
    struct json *record[GUESS_RECORDS];
    int64_t line[GUESS_RECORDS];
    size_t vocabulary = tokenizer_size(opt->tokenizer);
    bool chat;
    int n = 0;
    enum pawl_status st;

    *r = (struct reading){.part = part, .opt = opt, .type = part->type, .tokenizer = opt->tokenizer, .date = fixed_date, .bos = -1, .eos = -1};
    if ((st = first_records(record, line, &n, files, err)) != PAWL_OK) goto done;
    if (part->type == DATASET_AUTO) {
        if ((st = guess_type(r, record, line, n, files->path[0], err)) != PAWL_OK) goto done;
        if (!opt->quiet) log_info("%s: type auto: %s, by its keys", part->path, type_names[r->type]);
    }
    chat = r->type == DATASET_CHAT;
    for (int i = 0; i < n; i++) chat = chat || record_is_chat(json_root(record[i]), (enum dataset_type)r->type);
    if (chat && (st = find_template(r, err)) != PAWL_OK) goto done;
    if ((st = special(&r->bos, &r->bos_text, r->tokenizer, opt->bos_token, TOKENIZER_BOS, "bos_token", err)) != PAWL_OK) goto done;
    if ((st = special(&r->eos, &r->eos_text, r->tokenizer, opt->eos_token, TOKENIZER_EOS, "eos_token", err)) != PAWL_OK) goto done;
    r->rare = xcalloc(vocabulary + 1, 1);
    for (size_t id = 0; id < vocabulary; id++) r->rare[id] = is_rare(r->tokenizer, (int32_t)id);
done:
    while (n > 0) json_free(record[--n]);
    if (st != PAWL_OK) reading_free(r);
    return st;
}

void reading_free(struct reading *r)
{
    chat_template_free(r->own_chat);
    free(r->bos_text);
    free(r->eos_text);
    free(r->rare);
    *r = (struct reading){0};
}

/* --- identity */

static void add_text(struct buf *b, const char *s)
{
    if (s) buf_add(b, s, strlen(s));
    buf_addc(b, 0);
    buf_addc(b, s ? 1 : 0);
}

static void add_map(struct buf *b, const struct str_map *map)
{
    buf_addf(b, "%zu", map->n);
    for (size_t i = 0; i < map->n; i++) {
        add_text(b, map->key[i]);
        add_text(b, map->value[i]);
    }
}

uint64_t reading_hash(const struct reading *r)
{
    const struct dataset_config *p = r->part;
    struct buf b = {0};
    uint64_t h;

    buf_addf(&b, "examples 1 %d %d %d %d %d %d %d %d ", r->type, p->style, p->train_on_eos, p->drop_system_message, r->opt->train_on_inputs, r->opt->skip_bad_lines, (int)r->bos,
             (int)r->eos);
    buf_addf(&b, "%llx %llx ", (unsigned long long)tokenizer_hash(r->tokenizer), (unsigned long long)(r->chat ? chat_template_hash(r->chat) : 0));
    add_text(&b, p->field);
    add_text(&b, p->field_messages);
    add_text(&b, p->field_system);
    add_text(&b, p->field_tools);
    add_text(&b, p->message_field_training);
    add_map(&b, &p->message_property_mappings);
    add_map(&b, &p->roles);
    buf_addf(&b, "%zu", p->roles_to_train.n);
    for (size_t i = 0; i < p->roles_to_train.n; i++) add_text(&b, p->roles_to_train.at[i]);
    h = hash64(0, b.data, b.len);
    buf_free(&b);
    return h;
}
