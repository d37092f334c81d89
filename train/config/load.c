/* A YAML file and --set options into struct config: which key goes where, and the places in errors. */
#include "train/config/load.h"

#include "train/config/foreign.h"

#include "kernels/base/log.h"
#include "kernels/base/nearest.h"
#include "kernels/base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 4 << 20, DATASETS_MAX = 4096 };

/* --- places and errors --- */

static char *place(const struct loader *l, yaml_mark_t at)
{
    if (l->set) return xstrdup("--set");
    return xasprintf("%s:%zu:%zu", l->path, at.line + 1, at.column + 1);
}

static enum pawl_status fail_at(struct loader *l, yaml_mark_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static enum pawl_status fail_at(struct loader *l, yaml_mark_t at, const char *fmt, ...)
{
    char *where = place(l, at);
    va_list ap;

    va_start(ap, fmt);
    err_vset(l->err, PAWL_EINVAL, fmt, ap);
    va_end(ap);
    err_prefix(l->err, "%s", where);
    free(where);
    return PAWL_EINVAL;
}

const char *loader_given(const struct loader *l, const char *key)
{
    return l->given[key_named(key) - config_keys.keys];
}

enum pawl_status loader_fail(struct loader *l, const char *key, const char *fmt, ...)
{
    const char *where = loader_given(l, key);
    va_list ap;

    va_start(ap, fmt);
    err_vset(l->err, PAWL_EINVAL, fmt, ap);
    va_end(ap);
    err_prefix(l->err, "%s: %s", where ? where : l->path, key);
    return PAWL_EINVAL;
}

/* In front of key_set's text: "FILE:LINE:COLUMN: datasets.0.type". */
static enum pawl_status prefix(struct loader *l, yaml_mark_t at, const char *parent, const char *name)
{
    char *where = place(l, at);

    err_prefix(l->err, "%s: %s%s", where, parent, name);
    free(where);
    return l->err->status;
}

/* --- YAML nodes --- */

static yaml_node_t *node_of(struct loader *l, int id)
{
    return yaml_document_get_node(l->doc, id);
}

static const char *text_of(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

static bool is_word(const yaml_node_t *node, const char *word)
{
    return node->type == YAML_SCALAR_NODE && !strcasecmp(text_of(node), word);
}

/* --- keys that pawl does not act on --- */

/* A value that asks for nothing. */
static bool asks_nothing(const yaml_node_t *node, const char *same)
{
    static const char *const nothing[] = {"false", "no", "off", "none", "0", "0.0", "-1"};

    if (node_is_null(node) || (same && is_word(node, same))) return true;
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        if (is_word(node, nothing[i])) return true;
    return false;
}

static enum pawl_status unknown(struct loader *l, bool of_dataset, const char *parent, const yaml_node_t *key)
{
    enum { MAX = 1024 };
    const struct key_table *table = of_dataset ? &dataset_keys : &config_keys;
    const char **names = xmalloc(MAX * sizeof *names), *near;
    struct buf aliases = {0}; /* with a NUL behind each */
    size_t n = 0;
    enum pawl_status st;

    for (size_t i = 0; i < table->n; i++) {
        names[n++] = table->keys[i].name;
        for (const char *p = table->keys[i].aliases; p && *p; p += strspn(p, " ")) {
            size_t length = strcspn(p, " ");

            buf_add(&aliases, p, length);
            buf_addc(&aliases, 0);
            p += length;
        }
    }
    for (size_t at = 0; at < aliases.len; at += strlen(aliases.data + at) + 1) names[n++] = aliases.data + at;
    n += foreign_names(names + n, MAX - n, of_dataset);
    near = nearest_name(text_of(key), names, n);
    if (near) st = fail_at(l, key->start_mark, "%s%.80s: unknown key: did you mean %s?", parent, text_of(key), near);
    else st = fail_at(l, key->start_mark, "%s%.80s: unknown key: `pawl train --help-keys` lists the known ones", parent, text_of(key));
    buf_free(&aliases);
    free(names);
    return st;
}

static enum pawl_status foreign(struct loader *l, bool of_dataset, const char *parent, const yaml_node_t *key, const yaml_node_t *value)
{
    const struct foreign *f = foreign_find(text_of(key), of_dataset);

    if (!f) return unknown(l, of_dataset, parent, key);
    if (f->kind == FOREIGN_UNUSED && !node_is_null(value)) buf_addf(&l->unused, "%s%s%s", l->unused.len ? ", " : "", parent, text_of(key));
    if (f->kind == FOREIGN_NOTED && !asks_nothing(value, f->same)) log_warn("%s%s: %s", parent, text_of(key), f->text);
    if (f->kind == FOREIGN_REFUSED && !asks_nothing(value, f->same)) return fail_at(l, key->start_mark, "%s%s: %s", parent, text_of(key), f->text);
    return PAWL_OK;
}

/* --- spellings that say something in another way --- */

/* The key gets the value as if it stood in the file, unless it was given. */
static void imply(struct loader *l, const char *name, const char *value, yaml_mark_t at)
{
    const struct key *key = key_named(name);
    char **given = &l->given[key - config_keys.keys];
    yaml_document_t doc;
    yaml_mark_t mark;

    if (*given || !yaml_document_initialize(&doc, NULL, NULL, NULL, 1, 1)) return;
    yaml_document_add_scalar(&doc, NULL, (const yaml_char_t *)value, (int)strlen(value), YAML_PLAIN_SCALAR_STYLE);
    if (key_set(key, l->config, &doc, yaml_document_get_root_node(&doc), &mark, NULL) == PAWL_OK) *given = place(l, at);
    yaml_document_delete(&doc);
}

static enum pawl_status say_fp16(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    if (asks_nothing(value, "auto")) return PAWL_OK;
    return fail_at(l, key->start_mark, "%s: not supported: use bf16: auto, which has fp32's range and needs no loss scaling", text_of(key));
}

static enum pawl_status say_bfloat16(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    if (!asks_nothing(value, NULL)) imply(l, "bf16", "true", key->start_mark);
    return PAWL_OK;
}

static enum pawl_status say_float32(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    if (!asks_nothing(value, NULL)) imply(l, "bf16", "false", key->start_mark);
    return PAWL_OK;
}

static enum pawl_status keep_strategy(struct loader *l, yaml_node_t *key, yaml_node_t *value, char **strategy, char **at)
{
    static const char *const known[] = {"no", "steps", "epoch"};
    const char *text = is_word(value, "false") || is_word(value, "off") ? "no" : text_of(value); /* a bare no is a boolean to YAML's readers */

    if (node_is_null(value)) return PAWL_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(text, known[i]) != 0) continue;
        free(*strategy);
        free(*at);
        *strategy = xstrdup(text);
        *at = place(l, key->start_mark);
        return PAWL_OK;
    }
    return fail_at(l, value->start_mark, "%s: expected one of no, steps, epoch, found \"%.80s\"", text_of(key), text_of(value));
}

static enum pawl_status say_eval_strategy(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    return keep_strategy(l, key, value, &l->eval_strategy, &l->eval_strategy_at);
}

static enum pawl_status say_save_strategy(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    return keep_strategy(l, key, value, &l->save_strategy, &l->save_strategy_at);
}

/* transformers' arguments of a scheduler: only the end of the cosine is ours. */
static enum pawl_status say_scheduler_kwargs(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    if (node_is_null(value)) return PAWL_OK;
    if (value->type != YAML_MAPPING_NODE) return fail_at(l, value->start_mark, "%s: expected a mapping", text_of(key));
    for (yaml_node_pair_t *p = value->data.mapping.pairs.start; p < value->data.mapping.pairs.top; p++) {
        yaml_node_t *name = node_of(l, p->key), *number = node_of(l, p->value);
        yaml_mark_t at;

        if (!is_word(name, "min_lr_rate"))
            return fail_at(l, name->start_mark, "%s.%.80s: not supported: use cosine_min_lr_ratio, the end of the cosine as a share of learning_rate", text_of(key), text_of(name));
        if (node_is_null(number)) continue;
        if (key_set(key_named("cosine_min_lr_ratio"), l->config, l->doc, number, &at, l->err) != PAWL_OK) return prefix(l, at, "lr_scheduler_kwargs.", "min_lr_rate");
        if (!loader_given(l, "cosine_min_lr_ratio")) l->given[key_named("cosine_min_lr_ratio") - config_keys.keys] = place(l, name->start_mark);
    }
    return PAWL_OK;
}

static enum pawl_status say_plugins(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    yaml_node_item_t *items = value->type == YAML_SEQUENCE_NODE ? value->data.sequence.items.start : NULL;
    size_t n = items ? (size_t)(value->data.sequence.items.top - items) : 1;

    if (node_is_null(value)) return PAWL_OK;
    for (size_t i = 0; i < n; i++) {
        yaml_node_t *one = items ? node_of(l, items[i]) : value;

        if (strstr(text_of(one), "liger") || strstr(text_of(one), "cut_cross_entropy") || strstr(text_of(one), "KernelsPlugin")) continue;
        return fail_at(l, one->start_mark, "plugins: \"%.80s\" is not supported: only Liger's and cut cross-entropy's are known, whose work the kernels do anyway", text_of(one));
    }
    buf_addf(&l->unused, "%splugins", l->unused.len ? ", " : "");
    return PAWL_OK;
}

static enum pawl_status say_peft(struct loader *l, yaml_node_t *key, yaml_node_t *value)
{
    enum pawl_status st = PAWL_OK;

    if (node_is_null(value)) return PAWL_OK;
    if (value->type != YAML_MAPPING_NODE) return fail_at(l, value->start_mark, "peft: expected a mapping");
    for (yaml_node_pair_t *p = value->data.mapping.pairs.start; p < value->data.mapping.pairs.top && st == PAWL_OK; p++)
        st = foreign(l, false, "peft.", node_of(l, p->key), node_of(l, p->value));
    return st;
}

static const struct {
    const char *name;
    enum pawl_status (*say)(struct loader *l, yaml_node_t *key, yaml_node_t *value);
} other_spellings[] = {
    {"fp16", say_fp16},
    {"float16", say_fp16},
    {"bfloat16", say_bfloat16},
    {"float32", say_float32},
    {"eval_strategy", say_eval_strategy},
    {"evaluation_strategy", say_eval_strategy},
    {"save_strategy", say_save_strategy},
    {"lr_scheduler_kwargs", say_scheduler_kwargs},
    {"plugins", say_plugins},
    {"peft", say_peft},
};

/* --- data sets --- */

/* Axolotl's older keys for the two parts of a message. */
static bool message_part(struct loader *l, struct dataset_config *d, yaml_node_t *key, yaml_node_t *value, yaml_mark_t *at, enum pawl_status *st)
{
    static const char *const parts[][2] = {{"message_field_role", "role"}, {"message_field_content", "content"}};

    for (size_t i = 0; i < 2; i++) {
        if (!is_word(key, parts[i][0])) continue;
        *st = key_set_entry(key_find(&dataset_keys, "message_property_mappings"), d, parts[i][1], l->doc, value, at, l->err);
        return true;
    }
    return false;
}

/* ShareGPT's names, where the file gives no others. */
static void sharegpt(struct dataset_config *d)
{
    static const char *const pairs[2][2] = {{"role", "from"}, {"content", "value"}};
    struct str_map *map = &d->message_property_mappings;

    if (!d->field_messages) d->field_messages = xstrdup("conversations");
    if (map->n) return;
    map->key = xcalloc(2, sizeof *map->key);
    map->value = xcalloc(2, sizeof *map->value);
    for (map->n = 0; map->n < 2; map->n++) {
        map->key[map->n] = xstrdup(pairs[map->n][0]);
        map->value[map->n] = xstrdup(pairs[map->n][1]);
    }
}

static enum pawl_status dataset_field(struct loader *l, const char *parent, struct dataset_config *d, yaml_node_t *key, yaml_node_t *value)
{
    const struct key *row = key_find(&dataset_keys, text_of(key));
    enum pawl_status st = PAWL_OK;
    yaml_mark_t at = value->start_mark;

    if (message_part(l, d, key, value, &at, &st)) return st == PAWL_OK ? st : prefix(l, at, parent, text_of(key));
    if (!row) return foreign(l, true, parent, key, value);
    if (node_is_null(value)) {
        if (l->set) key_reset(row, d);
        return PAWL_OK;
    }
    if (key_set(row, d, l->doc, value, &at, l->err) != PAWL_OK) return prefix(l, at, parent, row->name);
    if (l->set && is_word(value, "sharegpt")) sharegpt(d);
    return PAWL_OK;
}

static enum pawl_status load_dataset(struct loader *l, const char *list, size_t index, struct dataset_config *d, yaml_node_t *node)
{
    char *parent = xasprintf("%s.%zu.", list, index);
    bool is_sharegpt = false;
    enum pawl_status st = PAWL_OK;

    dataset_init(d);
    if (node->type != YAML_MAPPING_NODE) st = fail_at(l, node->start_mark, "%s.%zu: expected a mapping with at least a path", list, index);
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; st == PAWL_OK && p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *key = node_of(l, p->key), *value = node_of(l, p->value);

        for (yaml_node_pair_t *q = node->data.mapping.pairs.start; q < p && st == PAWL_OK; q++)
            if (!strcmp(text_of(node_of(l, q->key)), text_of(key))) st = fail_at(l, key->start_mark, "%s%.80s: stands twice", parent, text_of(key));
        if (st == PAWL_OK) st = dataset_field(l, parent, d, key, value);
        if (!strcmp(text_of(key), "type") && is_word(value, "sharegpt")) is_sharegpt = true;
    }
    if (st == PAWL_OK && is_sharegpt) sharegpt(d);
    if (st == PAWL_OK && !d->path) st = fail_at(l, node->start_mark, "%spath: missing: expected a file, a directory or the id of a data set", parent);
    free(parent);
    return st;
}

static enum pawl_status load_datasets(struct loader *l, const struct key *key, yaml_node_t *node)
{
    struct dataset_config **list = (struct dataset_config **)((char *)l->config + key->offset);
    size_t *count = (size_t *)((char *)l->config + key->also), n;
    enum pawl_status st = PAWL_OK;

    if (node->type != YAML_SEQUENCE_NODE) return fail_at(l, node->start_mark, "%s: expected a list of mappings with at least a path: \"%s: [{path: data.jsonl}]\"", key->name, key->name);
    n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (n > DATASETS_MAX) return fail_at(l, node->start_mark, "%s: %zu entries, at most %d are read", key->name, n, DATASETS_MAX);
    key_clear(key, l->config);
    *list = xcalloc(n, sizeof **list);
    while (*count < n && st == PAWL_OK) {
        struct dataset_config *d = &(*list)[(*count)++];

        st = load_dataset(l, key->name, *count - 1, d, node_of(l, node->data.sequence.items.start[*count - 1]));
    }
    return st;
}

/* --- one key at the top --- */

static enum pawl_status load_key(struct loader *l, yaml_node_t *name, yaml_node_t *value)
{
    const struct key *key = key_find(&config_keys, text_of(name));
    yaml_mark_t at = name->start_mark;
    enum pawl_status st;
    char **given;

    if (name->type != YAML_SCALAR_NODE) return fail_at(l, at, "expected the name of a key");
    if (!key) {
        for (size_t i = 0; i < sizeof other_spellings / sizeof *other_spellings; i++)
            if (!strcmp(other_spellings[i].name, text_of(name))) return other_spellings[i].say(l, name, value);
        return foreign(l, false, "", name, value);
    }
    given = &l->given[key - config_keys.keys];
    if (node_is_null(value)) {
        if (l->set) {
            key_reset(key, l->config);
            free(*given);
            *given = NULL;
        }
        return PAWL_OK;
    }
    if (*given && !l->set && strcmp(text_of(name), key->name) != 0) return fail_at(l, at, "%s: another name of %s, which stands at %s", text_of(name), key->name, *given);
    if (*given && !l->set) return fail_at(l, at, "%s: stands twice, before at %s", key->name, *given);
    if (key->type == KEY_DATASETS) st = load_datasets(l, key, value);
    else if ((st = key_set(key, l->config, l->doc, value, &at, l->err)) != PAWL_OK) st = prefix(l, at, "", key->name);
    if (st != PAWL_OK) return st;
    free(*given);
    *given = place(l, name->start_mark);
    return PAWL_OK;
}

/* --- the file --- */

static enum pawl_status read_file(const char *path, struct buf *out, struct err *err)
{
    char block[16384];
    FILE *f = fopen(path, "r");
    enum pawl_status st = PAWL_OK;
    size_t n;

    if (!f) return err_sys(err, "%s", path);
    while (st == PAWL_OK && (n = fread(block, 1, sizeof block, f)) > 0) {
        buf_add(out, block, n);
        if (out->len > FILE_MAX) st = err_set(err, PAWL_EFORMAT, "%s: more than %d bytes: this is no configuration", path, FILE_MAX);
    }
    if (st == PAWL_OK && ferror(f)) st = err_sys(err, "%s", path);
    fclose(f);
    return st;
}

/* libyaml's complaint in one line. */
static enum pawl_status bad_yaml(struct loader *l, const yaml_parser_t *p)
{
    const char *what = p->problem ? p->problem : "not YAML";

    if (p->error == YAML_MEMORY_ERROR) return err_set(l->err, PAWL_ENOMEM, "%s: out of memory", l->path);
    if (p->error == YAML_READER_ERROR) return err_set(l->err, PAWL_EINVAL, "%s: byte %zu: %s", l->set ? "--set" : l->path, p->problem_offset, what);
    return fail_at(l, p->problem_mark, "malformed YAML: %s%s%s", what, p->context ? ", " : "", p->context ? p->context : "");
}

/* The only document of text. The caller deletes it on success. */
static enum pawl_status parse_yaml(struct loader *l, const char *text, size_t length, yaml_document_t *doc)
{
    yaml_parser_t parser;
    yaml_document_t second;
    enum pawl_status st = PAWL_OK;

    if (!yaml_parser_initialize(&parser)) return err_set(l->err, PAWL_ENOMEM, "%s: out of memory", l->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    if (!yaml_parser_load(&parser, doc)) {
        st = bad_yaml(l, &parser);
        yaml_parser_delete(&parser);
        return st;
    }
    if (yaml_document_get_root_node(doc)) {
        if (!yaml_parser_load(&parser, &second)) st = bad_yaml(l, &parser);
        else {
            yaml_node_t *root = yaml_document_get_root_node(&second);

            if (root) st = fail_at(l, root->start_mark, "a second document begins here: expected one");
            yaml_document_delete(&second);
        }
    }
    if (st != PAWL_OK) yaml_document_delete(doc);
    yaml_parser_delete(&parser);
    return st;
}

static enum pawl_status load_text(struct loader *l, const char *text, size_t len)
{
    yaml_document_t doc;
    yaml_node_t *root;
    enum pawl_status st;

    if ((st = parse_yaml(l, text, len, &doc)) != PAWL_OK) return st;
    l->doc = &doc;
    root = yaml_document_get_root_node(&doc);
    if (root && root->type != YAML_MAPPING_NODE) st = fail_at(l, root->start_mark, "expected keys and values (\"base_model: ...\"), found something else");
    for (yaml_node_pair_t *p = root && st == PAWL_OK ? root->data.mapping.pairs.start : NULL; p && p < root->data.mapping.pairs.top && st == PAWL_OK; p++)
        st = load_key(l, node_of(l, p->key), node_of(l, p->value));
    yaml_document_delete(&doc);
    return st;
}

static enum pawl_status load_file(struct loader *l)
{
    struct buf text = {0};
    enum pawl_status st;

    if ((st = read_file(l->path, &text, l->err)) == PAWL_OK) st = load_text(l, text.data ? text.data : "", text.len);
    buf_free(&text);
    return st;
}

/* --- --set --- */

/* A scalar beside the value, as a key; adding it may have moved the value. */
static yaml_node_t *add_key(struct loader *l, const char *name)
{
    return node_of(l, yaml_document_add_scalar(l->doc, NULL, (const yaml_char_t *)name, (int)strlen(name), YAML_PLAIN_SCALAR_STYLE));
}

static yaml_node_t *set_value(struct loader *l)
{
    return yaml_document_get_root_node(l->doc);
}

/* Field of the entry `parent` ("datasets.0."): "type", or "roles.user". */
static enum pawl_status set_field(struct loader *l, const char *parent, struct dataset_config *d, char *name)
{
    char *rest = name;
    yaml_mark_t at = {0};
    const struct key *field = key_find(&dataset_keys, strsep(&rest, "."));
    yaml_node_t *key = add_key(l, name);

    if (!rest) return dataset_field(l, parent, d, key, set_value(l));
    if (!field || field->type != KEY_MAP) return fail_at(l, at, "%s%s is no mapping and has no parts", parent, name);
    if (key_set_entry(field, d, rest, l->doc, set_value(l), &at, l->err) != PAWL_OK) return prefix(l, at, parent, name);
    return PAWL_OK;
}

/* Entry of a list of data sets: "0" as a whole, or "0.type". One behind the last adds an entry. */
static enum pawl_status set_dataset(struct loader *l, const struct key *key, char *rest)
{
    struct dataset_config **list = (struct dataset_config **)((char *)l->config + key->offset), whole;
    size_t *count = (size_t *)((char *)l->config + key->also), i;
    enum pawl_status st;
    char *end, *parent;

    i = strtoul(rest, &end, 10);
    if (end == rest || (*end && *end != '.') || i > *count || i >= DATASETS_MAX)
        return fail_at(l, (yaml_mark_t){0}, "%s: expected the number of an entry of %s, 0 to %zu (which adds one)", l->set, key->name, *count);
    if (!*end && (st = load_dataset(l, key->name, i, &whole, set_value(l))) != PAWL_OK) {
        dataset_clear(&whole);
        return st;
    }
    if (i == *count) {
        *list = xreallocarray(*list, ++*count, sizeof **list);
        dataset_init(&(*list)[i]);
    }
    if (!*end) {
        dataset_clear(&(*list)[i]);
        (*list)[i] = whole;
        return PAWL_OK;
    }
    parent = xasprintf("%s.%zu.", key->name, i);
    st = set_field(l, parent, &(*list)[i], end + 1);
    free(parent);
    return st;
}

/* A dotted name: `rest` is what stands behind the first dot of `first`. */
static enum pawl_status set_nested(struct loader *l, const char *first, char *rest)
{
    const struct key *key = key_find(&config_keys, first);
    yaml_mark_t at = {0};

    if (!key) {
        yaml_node_t *name = add_key(l, first);

        return foreign(l, false, "", name, set_value(l));
    }
    if (key->type == KEY_DATASETS) return set_dataset(l, key, rest);
    if (key->type != KEY_MAP) return fail_at(l, at, "%s: %s is one value and has no parts", l->set, key->name);
    if (key_set_entry(key, l->config, rest, l->doc, set_value(l), &at, l->err) != PAWL_OK) return prefix(l, at, "", l->set);
    return PAWL_OK;
}

/* The row of a dotted name's last key, where there is one: its type says how the value is to be read. */
static const struct key *leaf(const char *name)
{
    char first[64], *dot;
    const struct key *key;

    snprintf(first, sizeof first, "%s", name);
    dot = strchr(first, '.');
    if (dot) *dot = 0;
    key = key_find(&config_keys, first);
    if (!dot || !key || key->type != KEY_DATASETS) return key;
    dot = strchr(dot + 1, '.');
    return dot ? key_find(&dataset_keys, dot + 1) : key;
}

/* A text is taken as it stands (the shell has taken the quotes away); anything else is YAML. */
static enum pawl_status parse_set_value(struct loader *l, const char *name, const char *value, yaml_document_t *doc)
{
    const struct key *key = leaf(name);

    if (*value && (!key || key->type != KEY_STRING)) return parse_yaml(l, value, strlen(value), doc);
    if (!yaml_document_initialize(doc, NULL, NULL, NULL, 1, 1)) return err_set(l->err, PAWL_ENOMEM, "--set %s: out of memory", name);
    yaml_document_add_scalar(doc, NULL, (const yaml_char_t *)value, (int)strlen(value), YAML_PLAIN_SCALAR_STYLE);
    return PAWL_OK;
}

static enum pawl_status apply_set(struct loader *l, const char *set)
{
    const char *equals = strchr(set, '=');
    char *name, *path, *rest;
    yaml_document_t doc;
    enum pawl_status st;

    if (!equals || equals == set) return err_set(l->err, PAWL_EUSAGE, "--set %.80s: expected KEY=VALUE", set);
    if (strlen(set) > FILE_MAX || utf8_valid(set, strlen(set)) != strlen(set)) return err_set(l->err, PAWL_EUSAGE, "--set %.40s...: the value is not UTF-8", set);
    name = xstrndup(set, (size_t)(equals - set));
    path = rest = xstrdup(name);
    strsep(&rest, ".");
    l->set = name;
    if ((st = parse_set_value(l, name, equals + 1, &doc)) == PAWL_OK) {
        l->doc = &doc;
        if (rest) st = set_nested(l, path, rest);
        else {
            yaml_node_t *key = add_key(l, name);

            st = load_key(l, key, set_value(l));
        }
        yaml_document_delete(&doc);
    }
    l->set = NULL;
    free(path);
    free(name);
    return st;
}

/* --- all together --- */

/* From text, or where that is NULL from the file at path, or where that is NULL too from sets alone. */
static enum pawl_status load(struct config **out, const char *path, const char *text, size_t len, const char *const *sets, size_t nsets, struct err *err)
{
    struct err own;
    struct loader l = {.path = path, .err = err ? err : &own};
    enum pawl_status st;

    *out = NULL;
    l.config = xcalloc(1, sizeof *l.config);
    l.given = xcalloc(config_keys.n, sizeof *l.given);
    for (size_t i = 0; i < config_keys.n; i++) key_reset(&config_keys.keys[i], l.config);

    st = text ? load_text(&l, text, len) : path ? load_file(&l) : PAWL_OK;
    for (size_t i = 0; i < nsets && st == PAWL_OK; i++) st = apply_set(&l, sets[i]);
    if (st == PAWL_OK) st = config_check(&l);
    if (st == PAWL_OK && l.unused.len) log_info("%s: no meaning here, left out: %s", path, l.unused.data);
    if (st == PAWL_OK) {
        *out = l.config;
        l.config = NULL;
    }

    for (size_t i = 0; i < config_keys.n; i++) free(l.given[i]);
    free(l.given);
    free(l.eval_strategy);
    free(l.save_strategy);
    free(l.eval_strategy_at);
    free(l.save_strategy_at);
    buf_free(&l.unused);
    config_free(l.config);
    return st;
}

enum pawl_status config_load(struct config **out, const char *path, const char *const *sets, size_t nsets, struct err *err)
{
    return load(out, path, NULL, 0, sets, nsets, err);
}

enum pawl_status config_parse(struct config **out, const char *name, const char *text, size_t len, struct err *err)
{
    return load(out, name, text, len, NULL, 0, err);
}

void config_free(struct config *c)
{
    if (!c) return;
    for (size_t i = 0; i < config_keys.n; i++) key_clear(&config_keys.keys[i], c);
    free(c);
}
