#include "train/cli/ckpt_remote.h"

#include "ckpt/checkpoint.h"
#include "ckpt/remote.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The states of a place, newest first. */
struct states {
    struct remote *remote;
    struct remote_state **items;
    size_t n;
};

static void states_free(struct states *s)
{
    for (size_t i = 0; i < s->n; i++) remote_state_free(s->items[i]);
    free(s->items);
    remote_close(s->remote);
}

/* "s3:bucket/run/index/g1.manifest" is "s3:bucket/run" and "index/g1.manifest"; else all of it is the root. */
static void split(const char *place, char **root, const char **name)
{
    const char *index = strstr(place, "/index/"), *dot = strrchr(place, '.');

    *name = index && dot && !strcmp(dot, ".manifest") ? index + 1 : NULL;
    *root = *name ? xstrndup(place, (size_t)(index - place)) : xstrdup(place);
}

/* most: how many states are read at most. */
static enum pawl_status open_states(struct states *s, const char *place, size_t most, struct err *err)
{
    struct remote_index x = {0};
    const char *name;
    char *root;
    enum pawl_status st;

    *s = (struct states){0};
    split(place, &root, &name);
    if ((st = remote_open(&s->remote, root, NULL, err)) != PAWL_OK || (st = remote_look(s->remote, &x, err)) != PAWL_OK) goto done;
    s->items = xcalloc(x.n + 1, sizeof *s->items);
    for (size_t i = 0; i < x.n && s->n < most && st == PAWL_OK; i++)
        if (!x.items[i].claim && (!name || !strcmp(name, x.items[i].name)) && (st = remote_read(s->remote, x.items[i].name, &s->items[s->n], err)) == PAWL_OK) {
            if (s->items[s->n]->why.status != PAWL_OK) s->items[s->n]->at = x.items[i].at; /* by its name, where the manifest does not say */
            s->n++;
        }
    if (st == PAWL_OK && !s->n) st = err_set(err, PAWL_EFORMAT, "%s: no state of a run is there", place);
done:
    remote_index_free(&x);
    free(root);
    if (st != PAWL_OK) {
        states_free(s);
        *s = (struct states){0};
    }
    return st;
}

static uint64_t bytes_of(const struct remote_state *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n; i++) sum += remote_file_bytes(&s->files[i]);
    return sum;
}

static void add_json(struct buf *b, const struct states *all, const struct remote_state *s)
{
    char *path = xasprintf("%s/%s", remote_root(all->remote), s->name);

    buf_addf(b, "{\"step\":%lld,\"generation\":%llu,\"path\":", (long long)s->at.step, (unsigned long long)s->at.generation);
    json_add_string(b, path, strlen(path));
    buf_addf(b, ",\"verified\":%s,\"reason\":", s->why.status == PAWL_OK ? "true" : "false");
    json_add_string(b, s->why.status == PAWL_OK ? "" : s->why.text, s->why.status == PAWL_OK ? 0 : strlen(s->why.text));
    buf_addc(b, '}');
}

static void print_list(const struct states *all, bool json, const char *good)
{
    struct buf b = {0};

    if (json) buf_addc(&b, '[');
    else buf_addf(&b, "%10s %4s %9s  %s\n", "step", "gen", "MB", "state");
    for (size_t i = 0; i < all->n; i++) {
        const struct remote_state *s = all->items[i];

        if (json) {
            if (i) buf_addc(&b, ',');
            add_json(&b, all, s);
            continue;
        }
        buf_addf(&b, "%10lld %4llu %9.1f  %s/%s  ", (long long)s->at.step, (unsigned long long)s->at.generation, (double)bytes_of(s) / 1e6, remote_root(all->remote), s->name);
        if (s->why.status == PAWL_OK) buf_addf(&b, "%s\n", good);
        else buf_addf(&b, "NOT USABLE: %s\n", s->why.text);
    }
    if (json) buf_adds(&b, "]\n");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

enum pawl_status ckpt_remote_ls(const char *place, bool json, struct err *err)
{
    struct states all;
    enum pawl_status st = open_states(&all, place, SIZE_MAX, err);

    if (st != PAWL_OK) return st;
    if ((st = remote_check(all.remote, all.items, all.n, err)) == PAWL_OK) print_list(&all, json, "complete");
    states_free(&all);
    return st;
}

static char *temporary(void)
{
    const char *dir = getenv("TMPDIR");

    return file_tmp_name(dir && *dir ? dir : "/tmp", "ckpt");
}

enum pawl_status ckpt_remote_verify(const char *place, bool json, bool *all_good, struct err *err)
{
    struct states all;
    enum pawl_status st = open_states(&all, place, SIZE_MAX, err);

    *all_good = true;
    if (st != PAWL_OK) return st;
    for (size_t i = 0; i < all.n && st == PAWL_OK; i++) {
        struct remote_state *s = all.items[i];
        char *tmp = temporary();
        size_t bad = 0;

        if (s->why.status == PAWL_OK && (st = dir_make(&fsys_real, tmp, err)) == PAWL_OK && (st = remote_fetch(all.remote, s, tmp, NULL, NULL, &bad, err)) == PAWL_OK && bad)
            err_set(&s->why, PAWL_EFORMAT, "%zu of its %zu files do not verify", bad, s->n);
        *all_good &= s->why.status == PAWL_OK;
        file_remove_tree(&fsys_real, tmp, NULL);
        free(tmp);
    }
    if (st == PAWL_OK) print_list(&all, json, "verified");
    states_free(&all);
    return st;
}

static void print_one(const struct states *all, const struct remote_state *s, bool json)
{
    struct buf b = {0};

    if (json) {
        add_json(&b, all, s);
        b.len--; /* the object goes on */
        buf_addf(&b, ",\"run_id\":\"%s\",\"head\":", s->run_id);
        json_add_string(&b, s->head, strlen(s->head));
        buf_adds(&b, ",\"files\":[");
        for (size_t i = 0; i < s->n; i++) {
            buf_adds(&b, i ? ",{\"name\":" : "{\"name\":");
            json_add_string(&b, s->files[i].name, strlen(s->files[i].name));
            buf_addf(&b, ",\"bytes\":%llu,\"objects\":%zu}", (unsigned long long)remote_file_bytes(&s->files[i]), s->files[i].n);
        }
        buf_adds(&b, "],\"state\":");
        if (s->state) json_add_value(&b, s->state);
        else buf_adds(&b, "null");
        buf_adds(&b, "}\n");
    } else {
        buf_addf(&b, "%s/%s\n  step %lld, generation %llu, run %s, goes on from %s\n  %s\n", remote_root(all->remote), s->name, (long long)s->at.step,
                 (unsigned long long)s->at.generation, s->run_id, s->head, s->why.status == PAWL_OK ? "complete" : s->why.text);
        for (size_t i = 0; i < s->n; i++) buf_addf(&b, "  %12llu bytes  %s\n", (unsigned long long)remote_file_bytes(&s->files[i]), s->files[i].name);
        for (size_t i = 0; s->state && i < s->state->len; i++) {
            if (!strcmp(s->state->keys[i].text, "config")) continue; /* a page of YAML */
            buf_addf(&b, "  %-24s ", s->state->keys[i].text);
            json_add_value(&b, &s->state->items[i]);
            buf_addc(&b, '\n');
        }
    }
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

enum pawl_status ckpt_remote_show(const char *place, bool json, struct err *err)
{
    struct states all;
    enum pawl_status st = open_states(&all, place, 1, err);

    if (st != PAWL_OK) return st;
    if ((st = remote_check(all.remote, all.items, 1, err)) == PAWL_OK) {
        print_one(&all, all.items[0], json);
        if (all.items[0]->why.status != PAWL_OK) {
            *err = all.items[0]->why;
            st = err->status;
        }
    }
    states_free(&all);
    return st;
}

enum pawl_status ckpt_remote_prune(const char *place, int64_t keep, bool dry_run, size_t *removed, struct err *err)
{
    struct remote *r = NULL;
    char *tmp = temporary();
    enum pawl_status st = remote_open(&r, place, NULL, err);

    if (st == PAWL_OK) st = remote_prune(r, (size_t)keep, dry_run, tmp, removed, err);
    remote_close(r);
    free(tmp);
    return st;
}

/* The files of one directory. */
static bool below(void *ctx, const struct remote_file *f)
{
    const char *dir = ctx;
    size_t n = strlen(dir);

    return !strncmp(f->name, dir, n) && f->name[n] == '/';
}

/* The checkpoint with the highest step that the state holds, to be freed; NULL: none. */
static char *newest_checkpoint(const struct remote_state *s)
{
    char *best = NULL;
    int64_t step, best_step = -1;

    for (size_t i = 0; i < s->n; i++) {
        char *dir = xstrndup(s->files[i].name, strcspn(s->files[i].name, "/"));

        if (ckpt_name_step(dir, &step) && step > best_step) {
            free(best);
            best = dir;
            best_step = step;
        } else {
            free(dir);
        }
    }
    return best;
}

enum pawl_status ckpt_remote_fetch(char **dir, char **tmp, const char *place, struct err *err)
{
    struct states all;
    char *name;
    size_t bad = 0;
    enum pawl_status st = open_states(&all, place, 1, err);

    if (st != PAWL_OK) return st;
    *tmp = temporary();
    name = newest_checkpoint(all.items[0]);
    if (all.items[0]->why.status != PAWL_OK) st = err_set(err, PAWL_EFORMAT, "%s", all.items[0]->why.text);
    else if (!name) st = err_set(err, PAWL_EFORMAT, "%s: the state holds a journal commit and no checkpoint to compare", place);
    else if ((st = dir_make(&fsys_real, *tmp, err)) == PAWL_OK && (st = remote_fetch(all.remote, all.items[0], *tmp, below, name, &bad, err)) == PAWL_OK && bad)
        st = err_set(err, PAWL_EFORMAT, "%s: %s: %zu of its files do not verify", place, name, bad);
    if (st == PAWL_OK) *dir = xasprintf("%s/%s", *tmp, name);
    free(name);
    states_free(&all);
    return st;
}
