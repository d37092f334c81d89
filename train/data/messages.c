#include "train/data/record.h"

#include "kernels/base/mem.h"

#include <stdlib.h>
#include <string.h>

void messages_free(struct messages *m)
{
    for (size_t i = 0; i < m->n_parsed; i++) json_free(m->parsed[i]);
    free(m->parsed);
    pool_free(&m->pool);
    *m = (struct messages){0};
}

/* JSON that stands in a string: the value, or NULL where it is none. */
static const struct json_value *parse_string(struct messages *m, const struct json_value *v)
{
    struct json *j;

    if (json_parse(&j, v->text, v->len, NULL) != PAWL_OK) return NULL;
    m->parsed = xreallocarray(m->parsed, m->n_parsed + 1, sizeof *m->parsed);
    m->parsed[m->n_parsed++] = j;
    return json_root(j);
}

static struct json_value string_value(const char *text)
{
    return (struct json_value){.type = JSON_STRING, .text = text, .len = strlen(text)};
}

/* --- parts of a message */

static const char *mapped(const struct str_map *map, const char *name)
{
    for (size_t i = 0; i < map->n; i++) {
        if (!strcmp(map->key[i], name)) return map->value[i];
    }
    return NULL;
}

/* Ours for the file's name of a property: NULL where the mapping says nothing about it. */
static const char *renamed(const struct str_map *map, const char *name)
{
    for (size_t i = 0; i < map->n; i++) {
        if (!strcmp(map->value[i], name)) return map->key[i];
    }
    return NULL;
}

static const char *translate_role(const struct dataset_config *part, const char *role)
{
    static const char *const known[][2] = {{"human", "user"}, {"gpt", "assistant"}};
    const char *ours = renamed(&part->roles, role);

    if (ours) return ours;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(role, known[i][0])) return known[i][1];
    }
    return role;
}

/* [{"type": "text", "text": "..."}, ...] as one string; NULL where a part is something else. */
static const struct json_value *join_parts(struct messages *m, const struct json_value *parts)
{
    struct buf text = {0};
    struct json_value *v;

    for (size_t i = 0; i < parts->len; i++) {
        const struct json_value *part = &parts->items[i], *t = part->type == JSON_STRING ? part : json_get(part, "text");

        if (!t || t->type != JSON_STRING) {
            buf_free(&text);
            return NULL;
        }
        buf_add(&text, t->text, t->len);
    }
    v = pool_alloc(&m->pool, sizeof *v);
    *v = (struct json_value){.type = JSON_STRING, .len = text.len, .text = pool_strndup(&m->pool, text.data ? text.data : "", text.len)};
    buf_free(&text);
    return v;
}

/* A copy of an object in which member `at` is v. */
static struct json_value replace_member(struct messages *m, const struct json_value *object, size_t at, struct json_value v)
{
    struct json_value copy = *object;

    copy.items = pool_alloc(&m->pool, object->len * sizeof *copy.items);
    memcpy(copy.items, object->items, object->len * sizeof *copy.items);
    copy.items[at] = v;
    return copy;
}

static ptrdiff_t member(const struct json_value *object, const char *key)
{
    for (size_t i = 0; object->type == JSON_OBJECT && i < object->len; i++) {
        if (!strcmp(object->keys[i].text, key)) return (ptrdiff_t)i;
    }
    return -1;
}

/* OpenAI writes a call's arguments as JSON in a string, templates want the object. */
static struct json_value parse_arguments(struct messages *m, const struct json_value *call)
{
    ptrdiff_t f = member(call, "function"), a;
    const struct json_value *function = f >= 0 ? &call->items[f] : call, *parsed;

    if ((a = member(function, "arguments")) < 0 || function->items[a].type != JSON_STRING) return *call;
    if ((parsed = parse_string(m, &function->items[a])) == NULL || parsed->type != JSON_OBJECT) return *call;

    struct json_value with = replace_member(m, function, (size_t)a, *parsed);

    return f >= 0 ? replace_member(m, call, (size_t)f, with) : with;
}

static struct json_value parse_calls(struct messages *m, const struct json_value *calls)
{
    struct json_value copy = *calls;

    if (calls->type != JSON_ARRAY) return copy;
    copy.items = pool_alloc(&m->pool, (calls->len + 1) * sizeof *copy.items);
    for (size_t i = 0; i < calls->len; i++) copy.items[i] = parse_arguments(m, &calls->items[i]);
    return copy;
}

/* --- one message */

static bool is_training_field(const struct dataset_config *part, const char *key)
{
    return (part->message_field_training && !strcmp(key, part->message_field_training)) || !strcmp(key, "training") || !strcmp(key, "train") || !strcmp(key, "weight");
}

/* Whether the message's own field says that it is learned: *train as it was where it has none. true and 1 as Axolotl and OpenAI have them. */
static enum pawl_status read_training(bool *train, const struct dataset_config *part, const struct json_value *message, struct err *err)
{
    for (size_t i = 0; i < message->len; i++) {
        const struct json_value *v = &message->items[i];

        if (!is_training_field(part, message->keys[i].text) || v->type == JSON_NULL) continue;
        if (v->type == JSON_BOOL) *train = v->boolean;
        else if ((v->type == JSON_INT || v->type == JSON_FLOAT) && (v->number == 0 || v->number == 1)) *train = v->number == 1;
        else return err_set(err, PAWL_EFORMAT, "field \"%s\": expected true, false, 0 or 1, found %s", message->keys[i].text, v->text ? v->text : json_kind(v));
    }
    return PAWL_OK;
}

static bool has(const struct str_list *list, const char *s)
{
    for (size_t i = 0; i < list->n; i++) {
        if (!strcmp(list->at[i], s)) return true;
    }
    return false;
}

static bool role_is_trained(const struct dataset_config *part, const char *role, const char *original)
{
    if (part->roles_to_train.n == 0) return !strcmp(role, "assistant");
    for (size_t i = 0; i < part->roles_to_train.n; i++) {
        if (!strcmp(translate_role(part, part->roles_to_train.at[i]), role)) return true;
    }
    return has(&part->roles_to_train, original);
}

/* The file's name of role or content: as mapped, else ours, else ShareGPT's. */
static const char *property(const struct dataset_config *part, const struct json_value *message, const char *name, const char *sharegpt)
{
    const char *given = mapped(&part->message_property_mappings, name);

    if (given) return given;
    return !json_get(message, name) && json_get(message, sharegpt) ? sharegpt : name;
}

static void put(struct json_value *object, struct json_value *keys, const char *key, const struct json_value *v)
{
    keys[object->len] = string_value(key);
    object->items[object->len++] = *v;
}

static enum pawl_status read_message(struct messages *m, struct json_value *out, bool *train, const struct dataset_config *part, const struct json_value *message, struct err *err)
{
    const char *role_key, *content_key, *role;
    const struct json_value *v, *content;
    struct json_value role_value, *keys;
    enum pawl_status st;

    if (message->type != JSON_OBJECT) return err_set(err, PAWL_EFORMAT, "expected an object with role and content, found %s", json_kind(message));
    role_key = property(part, message, "role", "from");
    content_key = property(part, message, "content", "value");
    if ((v = json_get(message, role_key)) == NULL || v->type != JSON_STRING) {
        return err_set(err, PAWL_EFORMAT, "field \"%s\": expected the role, a string, found %s: see message_property_mappings", role_key, json_kind(v));
    }
    role = translate_role(part, v->text);
    *train = role_is_trained(part, role, v->text);
    if ((st = read_training(train, part, message, err)) != PAWL_OK) return st;

    content = json_get(message, content_key);
    if (content && content->type == JSON_ARRAY) {
        v = join_parts(m, content);
        if (!v) return err_set(err, PAWL_EFORMAT, "field \"%s\" holds parts that are no text: images and sound are not learned from", content_key);
        content = v;
    }
    if (!content && !json_get(message, "tool_calls") && !renamed(&part->message_property_mappings, "tool_calls")) {
        return err_set(err, PAWL_EFORMAT, "no field \"%s\": see message_property_mappings", content_key);
    }
    if (content && content->type != JSON_STRING && content->type != JSON_NULL) {
        return err_set(err, PAWL_EFORMAT, "field \"%s\": expected a string, found %s", content_key, json_kind(content));
    }

    keys = pool_alloc(&m->pool, (message->len + 2) * sizeof *keys);
    *out = (struct json_value){.type = JSON_OBJECT, .items = pool_alloc(&m->pool, (message->len + 2) * sizeof *out->items), .keys = keys};
    role_value = string_value(role);
    put(out, keys, "role", &role_value);
    if (content) put(out, keys, "content", content);
    for (size_t i = 0; i < message->len; i++) {
        const char *key = message->keys[i].text, *ours = renamed(&part->message_property_mappings, key);
        struct json_value value = message->items[i];

        if (!strcmp(key, role_key) || !strcmp(key, content_key) || is_training_field(part, key)) continue;
        if (!ours) ours = key;
        if (!strcmp(ours, "tool_calls")) value = parse_calls(m, &value);
        if (strcmp(ours, "role") && strcmp(ours, "content")) put(out, keys, ours, &value);
    }
    return PAWL_OK;
}

/* --- the record */

/* The lists of messages of a record: one, or the prompt's and the completion's. */
static enum pawl_status find_lists(const struct json_value *lists[2], enum dataset_type type, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    const char *key = part->field_messages ? part->field_messages : "messages", *keys[2] = {key, NULL};

    if (type == DATASET_PROMPT_COMPLETION) {
        keys[0] = "prompt";
        keys[1] = "completion";
    } else if (!json_get(record, key) && json_get(record, "conversations")) {
        keys[0] = "conversations";
    }
    lists[1] = NULL;
    for (int i = 0; i < 2 && keys[i]; i++) {
        lists[i] = json_get(record, keys[i]);
        if (lists[i] && lists[i]->type == JSON_ARRAY) continue;
        if (lists[i]) return err_set(err, PAWL_EFORMAT, "field \"%s\": expected an array of messages, found %s", keys[i], json_kind(lists[i]));

        struct buf found = {0};
        record_list_keys(record, &found);
        err_set(err, PAWL_EFORMAT, "no field \"%s\", found: %s: set field_messages or the data set's type", keys[i], found.data);
        buf_free(&found);
        return PAWL_EFORMAT;
    }
    return PAWL_OK;
}

static bool is_system(const struct json_value *message)
{
    return !strcmp(json_string(json_get(message, "role"), ""), "system");
}

/* A system prompt that stands beside the messages goes in front of them. */
static void add_system(struct messages *m, const struct dataset_config *part, const struct json_value *record)
{
    const struct json_value *system = json_get(record, part->field_system ? part->field_system : "system");
    struct json_value *object = &m->list.items[0], *keys, role = string_value("system");

    if (!system || system->type != JSON_STRING || part->drop_system_message) return;
    if (m->list.len && is_system(&m->list.items[0])) return;
    memmove(m->list.items + 1, m->list.items, m->list.len * sizeof *m->list.items);
    memmove(m->train + 1, m->train, m->list.len * sizeof *m->train);
    m->list.len++;
    keys = pool_alloc(&m->pool, 2 * sizeof *keys);
    *object = (struct json_value){.type = JSON_OBJECT, .items = pool_alloc(&m->pool, 2 * sizeof *object->items), .keys = keys};
    put(object, keys, "role", &role);
    put(object, keys, "content", system);
    m->train[0] = role_is_trained(part, "system", "system");
}

enum pawl_status messages_read(struct messages *out, enum dataset_type type, const struct dataset_config *part, const struct json_value *record, struct err *err)
{
    const struct json_value *lists[2];
    enum pawl_status st = find_lists(lists, type, part, record, err);
    size_t n = 0;

    messages_free(out);
    if (st != PAWL_OK) return st;
    for (int k = 0; k < 2 && lists[k]; k++) n += lists[k]->len;
    out->list = (struct json_value){.type = JSON_ARRAY, .items = pool_alloc(&out->pool, (n + 1) * sizeof *out->list.items)};
    out->train = pool_alloc(&out->pool, (n + 1) * sizeof *out->train);
    for (int k = 0; k < 2 && lists[k]; k++) {
        for (size_t i = 0; i < lists[k]->len; i++) {
            struct json_value *message = &out->list.items[out->list.len];
            bool *train = &out->train[out->list.len];

            if ((st = read_message(out, message, train, part, &lists[k]->items[i], err)) != PAWL_OK) {
                return err_prefix(err, "%s[%zu]", k ? "completion" : lists[1] ? "prompt" : "messages", i);
            }
            if (lists[1] && k == 0) *train = false;
            if (!(part->drop_system_message && is_system(message))) out->list.len++;
        }
    }
    add_system(out, part, record);
    if (out->list.len == 0) return err_set(err, PAWL_EFORMAT, "no message in the conversation");

    out->tools = json_get(record, part->field_tools ? part->field_tools : "tools");
    if (out->tools && out->tools->type == JSON_STRING) out->tools = parse_string(out, out->tools);
    if (out->tools && (out->tools->type != JSON_ARRAY || out->tools->len == 0)) out->tools = NULL;
    out->extra = json_get(record, "chat_template_kwargs");
    if (out->extra && out->extra->type != JSON_OBJECT) out->extra = NULL;
    return PAWL_OK;
}
