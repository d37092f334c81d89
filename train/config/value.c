/* YAML values into fields and back, one case a key_type. */
#include "train/config/keys.h"

#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/nearest.h"
#include "kernels/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *field_of(const struct key *key, void *base)
{
    return (char *)base + key->offset;
}

static void *also_of(const struct key *key, void *base)
{
    return (char *)base + key->also;
}

static const char *scalar(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static bool is_null_word(const char *s)
{
    return !*s || !strcmp(s, "~") || !strcasecmp(s, "null");
}

bool node_is_null(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SCALAR_NODE: return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? is_null_word(scalar(node)) : node->data.scalar.length == 0;
    case YAML_SEQUENCE_NODE: return node->data.sequence.items.start == node->data.sequence.items.top;
    case YAML_MAPPING_NODE: return node->data.mapping.pairs.start == node->data.mapping.pairs.top;
    default: return true;
    }
}

/* 1, 0, or -1 where s is no boolean of YAML 1.1. */
static int boolean(const char *s)
{
    if (!strcasecmp(s, "true") || !strcasecmp(s, "yes") || !strcasecmp(s, "on")) return 1;
    if (!strcasecmp(s, "false") || !strcasecmp(s, "no") || !strcasecmp(s, "off")) return 0;
    return -1;
}

/* --- what a value may be --- */

static void add_choices(const struct choice *choices, struct buf *out)
{
    const char *comma = "";

    for (const struct choice *c = choices; c && c->name; c++) {
        bool first = true; /* of its value: other names of it are not listed */

        for (const struct choice *before = choices; before < c; before++)
            if (before->value == c->value) first = false;
        if (!first) continue;
        buf_addf(out, "%s%s", comma, c->name);
        comma = ", ";
    }
}

void key_expected(const struct key *key, struct buf *out)
{
    switch (key->type) {
    case KEY_BOOL: buf_adds(out, "true or false"); break;
    case KEY_INT:
    case KEY_FLOAT:
        buf_adds(out, key->type == KEY_INT ? "a whole number" : "a number");
        if (key->open & ABOVE_MIN) buf_addf(out, " above %.15g", key->min);
        else if (key->max < 1e9) buf_addf(out, " from %.15g", key->min);
        else buf_addf(out, ", %.15g or more", key->min);
        if (key->max < 1e9) buf_addf(out, "%s %.15g", key->open & BELOW_MAX ? " to below" : key->open & ABOVE_MIN ? ", at most" : " to", key->max);
        if (key->choices) {
            buf_adds(out, ", or ");
            add_choices(key->choices, out);
        }
        break;
    case KEY_BYTES: buf_adds(out, "a number of bytes, such as 8GiB or 500M"); break;
    case KEY_STRING: buf_adds(out, "a text"); break;
    case KEY_CHOICE:
    case KEY_DATASET_TYPE:
        buf_adds(out, "one of ");
        add_choices(key->choices, out);
        break;
    case KEY_FLAGS:
        buf_adds(out, "one of ");
        add_choices(key->choices, out);
        buf_adds(out, ", or a list of them");
        break;
    case KEY_LIST: buf_adds(out, "a list of texts"); break;
    case KEY_MODULES: buf_adds(out, "a list of names of layers, or one regex"); break;
    case KEY_MAP: buf_adds(out, "a mapping of names to texts"); break;
    case KEY_DATASETS: buf_adds(out, "a list of mappings with at least a path"); break;
    }
}

/* The message of every wrong value. `near`: the nearest known name, or NULL. */
static enum pawl_status unexpected(const struct key *key, const yaml_node_t *node, const char *near, yaml_mark_t *at, struct err *err)
{
    struct buf want = {0};
    enum pawl_status st;

    *at = node->start_mark;
    key_expected(key, &want);
    if (node->type == YAML_SEQUENCE_NODE) st = err_set(err, PAWL_EINVAL, "expected %s, found a list", want.data);
    else if (node->type == YAML_MAPPING_NODE) st = err_set(err, PAWL_EINVAL, "expected %s, found a mapping", want.data);
    else if (near) st = err_set(err, PAWL_EINVAL, "expected %s, found \"%.80s\": did you mean %s?", want.data, scalar(node), near);
    else st = err_set(err, PAWL_EINVAL, "expected %s, found \"%.80s\"", want.data, scalar(node));
    buf_free(&want);
    return st;
}

/* --- numbers and names --- */

static const struct choice *find_choice(const struct choice *choices, const char *name)
{
    for (const struct choice *c = choices; c && c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

/* By name; yes, no, on, off stand for true and false where those are choices. */
static const struct choice *read_choice(const struct choice *choices, const char *text)
{
    const struct choice *c = find_choice(choices, text);
    int b = boolean(text);

    return c || b < 0 ? c : find_choice(choices, b ? "true" : "false");
}

static const struct choice *choice_of_value(const struct choice *choices, double value)
{
    for (const struct choice *c = choices; c && c->name; c++)
        if (c->value == value) return c;
    return NULL;
}

static const char *nearest_choice(const struct choice *choices, const char *text)
{
    const char *names[64];
    size_t n = 0;

    for (const struct choice *c = choices; c && c->name && n < 64; c++) names[n++] = c->name;
    return nearest_name(text, names, n);
}

/* A decimal number and nothing else: no hexadecimal, no inf or nan. */
static bool read_number(const char *s, double *out)
{
    char *end;

    if (!*s || strspn(s, "0123456789+-.eE") != strlen(s)) return false;
    *out = strtod(s, &end);
    return !*end && isfinite(*out);
}

static bool in_range(const struct key *key, double x)
{
    if (x < key->min || x > key->max) return false;
    if ((key->open & ABOVE_MIN) && x == key->min) return false;
    return !((key->open & BELOW_MAX) && x == key->max);
}

/* Whole numbers in any spelling ("4", "4.0", "1e3"), exact up to the last digit where they are written out. */
static bool read_int(const char *s, int64_t *out)
{
    char *end;
    double x;

    errno = 0;
    *out = strtoll(s, &end, 10);
    if (end != s && !*end) return !errno && !isspace((unsigned char)*s);
    if (!read_number(s, &x) || x != floor(x) || fabs(x) > 9007199254740992.0) return false;
    *out = (int64_t)x;
    return true;
}

/* "8GiB", "8G", "500MB", "1000". K, M, G, T are powers of 1024, with B behind them powers of 1000. */
static bool read_bytes(const char *s, int64_t *out)
{
    static const char units[] = "KMGT";
    size_t digits = strspn(s, "0123456789.");
    char *number = xstrndup(s, digits);
    const char *unit = s + digits + strspn(s + digits, " ");
    double x, base = 1024;
    bool ok = read_number(number, &x);

    free(number);
    if (ok && *unit && strcasecmp(unit, "b") != 0) {
        const char *power = strchr(units, toupper((unsigned char)*unit));

        if (!power) return false;
        if (!strcasecmp(unit + 1, "b")) base = 1000;
        else if (unit[1] && strcasecmp(unit + 1, "ib") != 0 && strcasecmp(unit + 1, "i") != 0) return false;
        for (const char *p = units; p <= power; p++) x *= base;
    }
    if (!ok || x < 1 || x > 9e18) return false;
    *out = (int64_t)x;
    return true;
}

static void say_note(const struct choice *c)
{
    if (c->note) log_info("%s", c->note);
}

/* KEY_BOOL to KEY_CHOICE, from one scalar. */
static bool set_scalar(const struct key *key, void *field, const char *text)
{
    const struct choice *c = read_choice(key->choices, text);
    int64_t i;
    double x;

    switch (key->type) {
    case KEY_BOOL:
        if (boolean(text) < 0) return false;
        *(bool *)field = boolean(text);
        return true;
    case KEY_INT:
        if (c) i = c->value;
        else if (!read_int(text, &i) || !in_range(key, (double)i)) return false;
        *(int64_t *)field = i;
        return true;
    case KEY_FLOAT:
        if (c) x = c->value;
        else if (!read_number(text, &x) || !in_range(key, x)) return false;
        *(double *)field = x;
        return true;
    case KEY_BYTES:
        if (!read_bytes(text, &i)) return false;
        *(int64_t *)field = i;
        return true;
    case KEY_CHOICE:
    case KEY_FLAGS:
        if (!c) return false;
        say_note(c);
        *(int *)field = c->value;
        return true;
    default: return false;
    }
}

/* --- texts, lists, mappings --- */

static bool is_text(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && strlen(scalar(node)) == node->data.scalar.length;
}

static void list_add(struct str_list *list, const char *s)
{
    list->at = xreallocarray(list->at, list->n + 1, sizeof *list->at);
    list->at[list->n++] = xstrdup(s);
}

static void list_clear(struct str_list *list)
{
    for (size_t i = 0; i < list->n; i++) free(list->at[i]);
    free(list->at);
    *list = (struct str_list){0};
}

static void map_add(struct str_map *map, const char *key, const char *value)
{
    map->key = xreallocarray(map->key, map->n + 1, sizeof *map->key);
    map->value = xreallocarray(map->value, map->n + 1, sizeof *map->value);
    map->key[map->n] = xstrdup(key);
    map->value[map->n++] = xstrdup(value);
}

static void map_clear(struct str_map *map)
{
    for (size_t i = 0; i < map->n; i++) {
        free(map->key[i]);
        free(map->value[i]);
    }
    free(map->key);
    free(map->value);
    *map = (struct str_map){0};
}

/* The i-th item of a sequence, or the scalar itself as its only item; NULL behind the last one. */
static yaml_node_t *item(yaml_document_t *doc, yaml_node_t *node, size_t i)
{
    if (node->type == YAML_SCALAR_NODE) return i == 0 ? node : NULL;
    if (node->data.sequence.items.start + i >= node->data.sequence.items.top) return NULL;
    return yaml_document_get_node(doc, node->data.sequence.items.start[i]);
}

static enum pawl_status set_list(const struct key *key, struct str_list *field, yaml_document_t *doc, yaml_node_t *node, yaml_mark_t *at, struct err *err)
{
    struct str_list list = {0};
    yaml_node_t *one;

    if (node->type == YAML_MAPPING_NODE) return unexpected(key, node, NULL, at, err);
    for (size_t i = 0; (one = item(doc, node, i)); i++) {
        if (!is_text(one) || node_is_null(one)) {
            list_clear(&list);
            return unexpected(key, one, NULL, at, err);
        }
        list_add(&list, scalar(one));
    }
    list_clear(field);
    *field = list;
    return PAWL_OK;
}

/* One text with nothing but a name in it is a list of that name. */
static enum pawl_status set_modules(const struct key *key, void *base, yaml_document_t *doc, yaml_node_t *node, yaml_mark_t *at, struct err *err)
{
    static const char name_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char **regex = also_of(key, base);
    enum pawl_status st;
    bool is_regex = is_text(node) && strspn(scalar(node), name_letters) != node->data.scalar.length && strcmp(scalar(node), "all-linear") != 0;

    if (is_regex) {
        char *text = xstrdup(scalar(node));

        list_clear(field_of(key, base));
        free(*regex);
        *regex = text;
        return PAWL_OK;
    }
    if ((st = set_list(key, field_of(key, base), doc, node, at, err)) != PAWL_OK) return st;
    free(*regex);
    *regex = NULL;
    return PAWL_OK;
}

/* Adds the pairs of one entry, none where the value is null; the offending node, or NULL. */
static yaml_node_t *read_entry(struct str_map *map, const char *name, yaml_document_t *doc, yaml_node_t *value)
{
    yaml_node_t *one;

    if (node_is_null(value)) return NULL;
    if (value->type == YAML_MAPPING_NODE) return value;
    for (size_t i = 0; (one = item(doc, value, i)); i++) {
        if (!is_text(one) || node_is_null(one)) return one;
        map_add(map, name, scalar(one));
    }
    return NULL;
}

static enum pawl_status set_map(const struct key *key, struct str_map *field, yaml_document_t *doc, yaml_node_t *node, yaml_mark_t *at, struct err *err)
{
    struct str_map map = {0};
    yaml_node_t *bad = NULL;

    if (node->type != YAML_MAPPING_NODE) return unexpected(key, node, NULL, at, err);
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top && !bad; p++) {
        yaml_node_t *name = yaml_document_get_node(doc, p->key);

        bad = is_text(name) ? read_entry(&map, scalar(name), doc, yaml_document_get_node(doc, p->value)) : name;
    }
    if (bad) {
        map_clear(&map);
        return unexpected(key, bad, NULL, at, err);
    }
    map_clear(field);
    *field = map;
    return PAWL_OK;
}

enum pawl_status key_set_entry(const struct key *key, void *base, const char *name, yaml_document_t *doc, yaml_node_t *value, yaml_mark_t *at, struct err *err)
{
    struct str_map map = {0}, *field = field_of(key, base);
    yaml_node_t *bad;

    for (size_t i = 0; i < field->n; i++)
        if (strcmp(field->key[i], name) != 0) map_add(&map, field->key[i], field->value[i]);
    if ((bad = read_entry(&map, name, doc, value))) {
        map_clear(&map);
        return unexpected(key, bad, NULL, at, err);
    }
    map_clear(field);
    *field = map;
    return PAWL_OK;
}

/* What to do instead of a type that Axolotl has; NULL: it has none of that name. */
static const char *foreign_type(const char *type)
{
    static const char messages[] = "use chat_template, with message_property_mappings and roles where the file's names are others";
    static const char pairs[] = "write the records as prompt and completion, or as messages (chat_template)";
    static const char preference[] = "preferences are not learned from, only texts: give the chosen answers as messages (chat_template)";
    static const struct {
        const char *prefix, *advice;
    } known[] = {
        {"chat_template.", messages}, {"sharegpt", messages}, {"chatml.", preference}, {"llama3.", preference}, {"zephyr.", preference}, {"bradley_terry", preference}, {"stepwise_supervised", preference},
        {"alpaca_w_system", "write the system prompt into messages (chat_template)"}, {"alpaca_chat", pairs}, {"context_qa", pairs}, {"gpteacher", pairs}, {"oasst", pairs}, {"explainchoice", pairs}, {"concisechoice", pairs},
        {"pygmalion", messages}, {"metharme", pairs}, {"orcamini", pairs}, {"orcamini.", pairs}, {"creative_acr", pairs}, {"jeopardy", pairs}, {"reflection", pairs}, {"summarizetldr", pairs}, {"user_defined", pairs},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(type, known[i].prefix, strlen(known[i].prefix)) == 0) return known[i].advice;
    return NULL;
}

static enum pawl_status set_dataset_type(const struct key *key, void *base, yaml_node_t *node, yaml_mark_t *at, struct err *err)
{
    char *type = xstrdup(scalar(node)), *style = type;
    const struct choice *t, *s = &dataset_styles[0];
    enum pawl_status st = PAWL_OK;

    strsep(&style, ":");
    t = find_choice(key->choices, type);
    if (t && style) s = t->value == DATASET_ALPACA ? find_choice(dataset_styles, style) : NULL;
    if (!t && foreign_type(type)) {
        *at = node->start_mark;
        st = err_set(err, PAWL_EINVAL, "\"%.80s\" is a format of Axolotl that is not read: %s", scalar(node), foreign_type(type));
    } else if (!t) {
        st = unexpected(key, node, nearest_choice(key->choices, type), at, err);
    } else if (!s) {
        *at = node->start_mark;
        st = err_set(err, PAWL_EINVAL, "expected %s without a style, or one of alpaca:instruct, alpaca:chat, alpaca:chatml, alpaca:phi, found \"%.80s\"", type, scalar(node));
    } else {
        *(int *)field_of(key, base) = t->value;
        *(int *)also_of(key, base) = s->value;
    }
    free(type);
    return st;
}

static enum pawl_status set_flags(const struct key *key, int *field, yaml_document_t *doc, yaml_node_t *node, yaml_mark_t *at, struct err *err)
{
    yaml_node_t *one;
    int flags = 0;

    for (size_t i = 0; (one = item(doc, node, i)); i++) {
        const struct choice *c = is_text(one) ? read_choice(key->choices, scalar(one)) : NULL;

        if (!c || c->value <= 0) return unexpected(key, one, c || !is_text(one) ? NULL : nearest_choice(key->choices, scalar(one)), at, err);
        flags |= c->value;
    }
    *field = flags;
    return PAWL_OK;
}

enum pawl_status key_set(const struct key *key, void *base, yaml_document_t *doc, yaml_node_t *node, yaml_mark_t *at, struct err *err)
{
    void *field = field_of(key, base);
    bool text = is_text(node);

    switch (key->type) {
    case KEY_LIST: return set_list(key, field, doc, node, at, err);
    case KEY_MODULES: return node->type == YAML_MAPPING_NODE ? unexpected(key, node, NULL, at, err) : set_modules(key, base, doc, node, at, err);
    case KEY_MAP: return set_map(key, field, doc, node, at, err);
    case KEY_FLAGS:
        if (node->type == YAML_SEQUENCE_NODE) return set_flags(key, field, doc, node, at, err);
        break;
    case KEY_DATASET_TYPE: return text ? set_dataset_type(key, base, node, at, err) : unexpected(key, node, NULL, at, err);
    case KEY_STRING:
        if (!text) return unexpected(key, node, NULL, at, err);
        free(*(char **)field);
        *(char **)field = xstrdup(scalar(node));
        return PAWL_OK;
    default: break;
    }
    if (!text || !set_scalar(key, field, scalar(node))) return unexpected(key, node, text && key->choices ? nearest_choice(key->choices, scalar(node)) : NULL, at, err);
    return PAWL_OK;
}

void key_clear(const struct key *key, void *base)
{
    void *field = field_of(key, base);

    switch (key->type) {
    case KEY_BOOL: *(bool *)field = false; break;
    case KEY_INT:
    case KEY_BYTES: *(int64_t *)field = 0; break;
    case KEY_FLOAT: *(double *)field = 0; break;
    case KEY_CHOICE:
    case KEY_FLAGS: *(int *)field = 0; break;
    case KEY_DATASET_TYPE: *(int *)field = *(int *)also_of(key, base) = 0; break;
    case KEY_MODULES:
        free(*(char **)also_of(key, base));
        *(char **)also_of(key, base) = NULL;
        list_clear(field);
        break;
    case KEY_LIST: list_clear(field); break;
    case KEY_MAP: map_clear(field); break;
    case KEY_STRING:
        free(*(char **)field);
        *(char **)field = NULL;
        break;
    case KEY_DATASETS: {
        struct dataset_config **list = field;
        size_t *n = also_of(key, base);

        for (size_t i = 0; i < *n; i++) dataset_clear(&(*list)[i]);
        free(*list);
        *list = NULL;
        *n = 0;
        break;
    }
    }
}

void key_reset(const struct key *key, void *base)
{
    key_clear(key, base);
    if (!key->initial) return;
    switch (key->type) {
    case KEY_STRING: *(char **)field_of(key, base) = xstrdup(key->initial); break;
    case KEY_LIST: list_add(field_of(key, base), key->initial); break;
    case KEY_DATASET_TYPE: break; /* zero is auto */
    default: set_scalar(key, field_of(key, base), key->initial); break;
    }
}

void dataset_init(struct dataset_config *d)
{
    *d = (struct dataset_config){0};
    for (size_t i = 0; i < dataset_keys.n; i++) key_reset(&dataset_keys.keys[i], d);
}

void dataset_clear(struct dataset_config *d)
{
    for (size_t i = 0; i < dataset_keys.n; i++) key_clear(&dataset_keys.keys[i], d);
}

/* --- back to text --- */

/* Letters that a plain scalar may be made of everywhere; and the text must not be read as anything but a text. */
static bool is_plain(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    double number;

    if (is_null_word(s) || boolean(s) >= 0 || read_number(s, &number)) return false;
    if (!isalnum((unsigned char)*s) && !strchr("_./", *s)) return false;
    for (const char *p = s; *p; p++) {
        bool inner_colon = *p == ':' && p[1] && p[1] != ' ';

        if (!strchr(letters, *p) && !inner_colon) return false;
    }
    return !(isdigit((unsigned char)*s) && strspn(s, "0123456789_:.xXoeE+-abcdefABCDEF") == strlen(s)); /* dates, octal, sexagesimal */
}

void yaml_add_string(struct buf *out, const char *s)
{
    size_t left = strlen(s);

    if (is_plain(s)) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '"');
    while (left) {
        uint32_t cp;
        int n = utf8_decode(s, left, &cp);

        if (!n) n = 1, cp = 0xfffd; /* can't come from YAML, and --set is checked */
        if (cp == '"' || cp == '\\') buf_addf(out, "\\%c", (int)cp);
        else if (cp == '\n') buf_adds(out, "\\n");
        else if (cp == '\t') buf_adds(out, "\\t");
        else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa1) || (cp >= 0x2000 && cp < 0x2070) || cp == 0xfeff || (cp >= 0xfff0 && cp <= 0xffff)) buf_addf(out, "\\u%04x", (unsigned)cp);
        else buf_add(out, s, (size_t)n);
        s += n;
        left -= (size_t)n;
    }
    buf_addc(out, '"');
}

/* As JSON has it, but 1e-08 as 1.0e-08: YAML 1.1 reads the first as a text. */
static void add_number(struct buf *out, double x)
{
    struct buf b = {0};
    char *e;

    json_add_double(&b, x);
    e = strchr(b.data, 'e');
    if (e && !strchr(b.data, '.')) buf_addf(out, "%.*s.0%s", (int)(e - b.data), b.data, e);
    else buf_adds(out, b.data);
    buf_free(&b);
}

static bool format_list(const struct str_list *list, struct buf *out)
{
    if (!list->n) return false;
    for (size_t i = 0; i < list->n; i++) {
        buf_adds(out, i ? ", " : "[");
        yaml_add_string(out, list->at[i]);
    }
    buf_addc(out, ']');
    return true;
}

static bool format_map(const struct str_map *map, struct buf *out)
{
    if (!map->n) return false;
    for (size_t i = 0, same; i < map->n; i += same) {
        for (same = 1; i + same < map->n && !strcmp(map->key[i], map->key[i + same]); same++) continue;
        buf_adds(out, i ? ", " : "{");
        yaml_add_string(out, map->key[i]);
        buf_adds(out, same > 1 ? ": [" : ": ");
        for (size_t j = 0; j < same; j++) {
            if (j) buf_adds(out, ", ");
            yaml_add_string(out, map->value[i + j]);
        }
        if (same > 1) buf_addc(out, ']');
    }
    buf_addc(out, '}');
    return true;
}

static bool format_string(const char *s, struct buf *out)
{
    if (s) yaml_add_string(out, s);
    return s != NULL;
}

static void format_flags(const struct choice *choices, int value, struct buf *out)
{
    const struct choice *whole = choice_of_value(choices, value);
    const char *comma = "[";

    if (whole) {
        buf_adds(out, whole->name);
        return;
    }
    for (const struct choice *c = choices; c->name; c++) {
        if (c->value <= 0 || !(value & c->value)) continue;
        buf_addf(out, "%s%s", comma, c->name);
        comma = ", ";
    }
    buf_addc(out, ']');
}

bool key_format(const struct key *key, const void *base, struct buf *out)
{
    const void *field = (const char *)base + key->offset, *also = (const char *)base + key->also;
    const struct choice *c;

    switch (key->type) {
    case KEY_BOOL: buf_adds(out, *(const bool *)field ? "true" : "false"); return true;
    case KEY_INT:
    case KEY_BYTES: {
        int64_t i = *(const int64_t *)field;

        if (!key->initial && i == 0) return false;
        if ((c = choice_of_value(key->choices, (double)i))) buf_adds(out, c->name);
        else buf_addf(out, "%" PRId64, i);
        return true;
    }
    case KEY_FLOAT: {
        double x = *(const double *)field;

        if (!key->initial && x == 0) return false;
        if ((c = choice_of_value(key->choices, x))) buf_adds(out, c->name);
        else add_number(out, x);
        return true;
    }
    case KEY_CHOICE:
        if ((c = choice_of_value(key->choices, *(const int *)field))) buf_adds(out, c->name);
        return c != NULL;
    case KEY_FLAGS: format_flags(key->choices, *(const int *)field, out); return true;
    case KEY_DATASET_TYPE:
        c = choice_of_value(key->choices, *(const int *)field);
        buf_adds(out, c->name);
        if (c->value == DATASET_ALPACA && *(const int *)also != STYLE_INSTRUCT) buf_addf(out, ":%s", dataset_styles[*(const int *)also].name);
        return true;
    case KEY_LIST: return format_list(field, out);
    case KEY_MODULES: return *(char *const *)also ? format_string(*(char *const *)also, out) : format_list(field, out);
    case KEY_MAP: return format_map(field, out);
    case KEY_STRING: return format_string(*(char *const *)field, out);
    case KEY_DATASETS: return false;
    }
    return false;
}
