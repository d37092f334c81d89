/* The configuration as text: YAML, differences, a hash, the help of its keys. All of it walks the two tables. */
#include "train/config/keys.h"

#include "kernels/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* --- YAML --- */

static const struct dataset_config *datasets_of(const struct key *key, const struct config *c, size_t *n)
{
    *n = *(const size_t *)((const char *)c + key->also);
    return *(struct dataset_config *const *)((const char *)c + key->offset);
}

static void write_datasets(const struct key *key, const struct config *c, struct buf *out)
{
    size_t n;
    const struct dataset_config *list = datasets_of(key, c, &n);

    if (n) buf_addf(out, "%s:\n", key->name);
    for (size_t i = 0; i < n; i++) {
        const char *dash = "  - ";

        for (size_t j = 0; j < dataset_keys.n; j++) {
            struct buf value = {0};

            if (key_format(&dataset_keys.keys[j], &list[i], &value)) {
                buf_addf(out, "%s%s: %s\n", dash, dataset_keys.keys[j].name, value.data);
                dash = "    ";
            }
            buf_free(&value);
        }
    }
}

void config_write_yaml(const struct config *c, struct buf *out)
{
    for (size_t i = 0; i < config_keys.n; i++) {
        const struct key *key = &config_keys.keys[i];
        struct buf value = {0};

        if (key->type == KEY_DATASETS) write_datasets(key, c, out);
        else if (key_format(key, c, &value)) buf_addf(out, "%s: %s\n", key->name, value.data);
        buf_free(&value);
    }
}

/* --- comparison --- */

/* All values that are there, as "datasets.0.path" and text. */
struct flat {
    struct entry {
        char *key, *text;
    } *at;
    size_t n;
};

static void flat_add(struct flat *f, char *name, const struct key *key, const void *base)
{
    struct buf text = {0};

    if (!key_format(key, base, &text)) {
        free(name);
        return;
    }
    f->at = xreallocarray(f->at, f->n + 1, sizeof *f->at);
    f->at[f->n++] = (struct entry){name, text.data};
}

static struct flat flatten(const struct config *c, bool only_trajectory)
{
    struct flat f = {0};

    for (size_t i = 0; i < config_keys.n; i++) {
        const struct key *key = &config_keys.keys[i];

        if (only_trajectory && (!key->trajectory || key->place)) continue;
        if (key->type == KEY_DATASETS) {
            size_t n;
            const struct dataset_config *list = datasets_of(key, c, &n);

            for (size_t j = 0; j < n; j++)
                for (size_t k = 0; k < dataset_keys.n; k++)
                    if (!only_trajectory || !dataset_keys.keys[k].place) flat_add(&f, xasprintf("%s.%zu.%s", key->name, j, dataset_keys.keys[k].name), &dataset_keys.keys[k], &list[j]);
        } else flat_add(&f, xstrdup(key->name), key, c);
    }
    return f;
}

static void flat_free(struct flat *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->at[i].key);
        free(f->at[i].text);
    }
    free(f->at);
}

static const char *flat_find(const struct flat *f, const char *key)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->at[i].key, key)) return f->at[i].text;
    return NULL;
}

size_t config_diff(const struct config *a, const struct config *b, bool only_trajectory, struct buf *out)
{
    struct flat fa = flatten(a, only_trajectory), fb = flatten(b, only_trajectory);
    size_t differences = 0;

    for (size_t i = 0; i < fa.n; i++) {
        const char *now = flat_find(&fb, fa.at[i].key);

        if (now && !strcmp(now, fa.at[i].text)) continue;
        if (out) buf_addf(out, "%s: %s -> %s\n", fa.at[i].key, fa.at[i].text, now ? now : "absent");
        differences++;
    }
    for (size_t i = 0; i < fb.n; i++) {
        if (flat_find(&fa, fb.at[i].key)) continue;
        if (out) buf_addf(out, "%s: absent -> %s\n", fb.at[i].key, fb.at[i].text);
        differences++;
    }
    flat_free(&fa);
    flat_free(&fb);
    return differences;
}

uint64_t config_hash(const struct config *c)
{
    struct flat f = flatten(c, true);
    struct buf all = {0};
    uint64_t hash;

    for (size_t i = 0; i < f.n; i++) buf_addf(&all, "%s: %s\n", f.at[i].key, f.at[i].text);
    hash = hash64(0, all.data, all.len);
    buf_free(&all);
    flat_free(&f);
    return hash;
}

/* --- names and help --- */

const char *config_choice(const char *name, int value)
{
    const struct key *key = key_find(&config_keys, name);

    for (const struct choice *c = key ? key->choices : NULL; c && c->name; c++)
        if (c->value == value) return c->name;
    return NULL;
}

static void help_table(const struct key_table *table, struct buf *out)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];

        buf_addf(out, "  %s%s%s\n      %s.\n      ", key->name, key->initial ? ": " : "", key->initial ? key->initial : "", key->help);
        key_expected(key, out);
        if (key->aliases) buf_addf(out, "; also written %s", key->aliases);
        buf_addc(out, '\n');
    }
}

void config_help(struct buf *out)
{
    buf_adds(out, "Keys of a configuration, with their defaults. A key that is absent, null or empty has its default.\n\n");
    help_table(&config_keys, out);
    buf_adds(out, "\nKeys of each entry of datasets and test_datasets:\n\n");
    help_table(&dataset_keys, out);
}
