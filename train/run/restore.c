#include "train/run/restore.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/checkpoint.h"
#include "train/run/resume.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what need not be downloaded */

struct wanted {
    const struct store *store;
    const struct remote_state *state;
    char *dir;  /* the checkpoint that was looked at last, and whether it is here already */
    bool is_here;
};

static char *first_name(const char *name)
{
    return xstrndup(name, strcspn(name, "/"));
}

/* The checkpoint of that name in the run directory verifies, and has the same manifest. */
static bool checkpoint_is_here(const struct wanted *w, const char *dir)
{
    char *path = xasprintf("%s/%s", store_dir(w->store), dir), *manifest = xasprintf("%s/" CKPT_MANIFEST, path), *name = xasprintf("%s/" CKPT_MANIFEST, dir);
    const struct remote_file *f = remote_find(w->state, name);
    struct file_sum sum;
    bool same = f && f->n == 1 && file_exists(manifest) && file_sum_read(&sum, &fsys_real, manifest, false, NULL) == PAWL_OK && sum.bytes == f->parts[0].sum.bytes &&
                sum.crc == f->parts[0].sum.crc;

    if (same) {
        struct ckpt *c = ckpt_read(path);

        ckpt_verify(c, &fsys_real, false);
        same = c->verified;
        ckpt_free(c);
    }
    free(path);
    free(manifest);
    free(name);
    return same;
}

/* Nothing else of a run directory is anybody's to bring. */
static bool may_travel(const char *name)
{
    static const char *const names[] = {JOURNAL_DIR "/slot", "metrics.jsonl", "events.jsonl", CONFIG_FILE, TOKENS_DIR "/", BASE_DIR "/", CKPT_PREFIX};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);

        if (!strncmp(name, names[i], n) && (!name[n] || names[i][n - 1] == '/' || names[i][n - 1] == '-')) return true;
    }
    return false;
}

static bool want(void *ctx, const struct remote_file *f)
{
    struct wanted *w = ctx;
    char *dir = first_name(f->name), *path;
    struct file_sum sum;
    int64_t step;
    bool here = false;

    if (!may_travel(f->name)) {
        here = true;
    } else if (ckpt_name_step(dir, &step)) {
        if (!w->dir || strcmp(w->dir, dir)) {
            free(w->dir);
            w->dir = xstrdup(dir);
            w->is_here = checkpoint_is_here(w, dir);
        }
        here = w->is_here;
    } else if (f->n == 1) {
        path = xasprintf("%s/%s", store_dir(w->store), f->name);
        here = file_exists(path) && file_sum_read(&sum, &fsys_real, path, false, NULL) == PAWL_OK && sum.bytes == f->parts[0].sum.bytes && sum.crc == f->parts[0].sum.crc;
        free(path);
    }
    free(dir);
    return !here;
}

/* --- putting it in its place */

static bool verifies(const char *dir, bool aloud)
{
    struct ckpt *c = ckpt_read(dir);
    bool ok;

    ckpt_verify(c, &fsys_real, false);
    ok = c->verified;
    if (!ok && aloud) log_warn("%s is not used: %s", c->name, c->why.text);
    ckpt_free(c);
    return ok;
}

static enum pawl_status place_checkpoints(struct store *store, const char *tmp, struct err *err)
{
    char **names;
    size_t n;
    enum pawl_status st = dir_list(&names, &n, tmp, err);

    if (st != PAWL_OK) return st;
    for (size_t i = 0; i < n && st == PAWL_OK; i++) {
        char *dir = xasprintf("%s/%s", tmp, names[i]);
        int64_t step;

        if (ckpt_name_step(names[i], &step) && verifies(dir, true)) st = store_adopt(store, dir, names[i], err);
        free(dir);
    }
    dir_list_free(names, n);
    return st;
}

/* Whatever stands there (of a branch that lost) is kept beside. */
static enum pawl_status place_file(struct store *store, const char *tmp, const char *name, struct err *err)
{
    char *from = xasprintf("%s/%s", tmp, name), *to = xasprintf("%s/%s", store_dir(store), name), *aside = xasprintf("%s.local", to), *above = file_dirname(to);
    enum pawl_status st = PAWL_OK;

    if (!file_exists(from)) goto done;
    if (file_exists(to) && (st = file_rename(&fsys_real, to, aside, err)) != PAWL_OK) goto done;
    if ((st = dir_make(&fsys_real, above, err)) == PAWL_OK) st = file_rename(&fsys_real, from, to, err);
done:
    free(above);
    free(aside);
    free(to);
    free(from);
    return st;
}

/* A name that no slot has. */
static char *free_slot(const char *journal)
{
    char *path = NULL;

    for (int k = 0; k < 1000000; k++) {
        free(path);
        path = xasprintf("%s/slot-%d", journal, k);
        if (!file_exists(path)) break;
    }
    return path;
}

static enum pawl_status place_slot(struct store *store, const char *tmp, struct err *err)
{
    char *from = xasprintf("%s/" JOURNAL_DIR "/slot", tmp), *journal = xasprintf("%s/" JOURNAL_DIR, store_dir(store)), *to = NULL;
    enum pawl_status st = PAWL_OK;

    if (file_exists(from) && (st = dir_make(&fsys_real, journal, err)) == PAWL_OK) {
        to = free_slot(journal);
        st = file_rename(&fsys_real, from, to, err);
    }
    free(to);
    free(journal);
    free(from);
    return st;
}

/* Files that are neither checkpoints nor slots; the state itself comes last, so that a kill in between leaves something to be done again and nothing half. */
static enum pawl_status place(struct store *store, const struct remote_state *s, const char *tmp, struct err *err)
{
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < s->n && st == PAWL_OK; i++) {
        char *dir = first_name(s->files[i].name);
        int64_t step;

        if (!ckpt_name_step(dir, &step) && strcmp(dir, JOURNAL_DIR)) st = place_file(store, tmp, s->files[i].name, err);
        free(dir);
    }
    if (st == PAWL_OK) st = place_checkpoints(store, tmp, err);
    return st == PAWL_OK ? place_slot(store, tmp, err) : st;
}

/* The link to the best checkpoint, as the state names it. */
static void link_best(struct store *store, const struct remote_state *s)
{
    int64_t best = -1;
    char *name, *path;

    json_int64(json_get(s->state, "best_step"), &best);
    name = xasprintf(CKPT_PREFIX "%lld", (long long)best);
    path = xasprintf("%s/%s", store_dir(store), name);
    if (best > 0 && file_exists(path)) store_link(store, STORE_BEST, name);
    free(path);
    free(name);
}

/* Whether the head itself got here: a slot, whose object was verified, or a checkpoint that verifies. */
static bool head_is_here(struct store *store, const struct remote_state *s, const char *tmp)
{
    char *path = xasprintf("%s/%s", tmp, s->head);
    struct wanted w = {store, s, NULL, false};
    int64_t step;
    bool here = ckpt_name_step(s->head, &step) ? verifies(path, false) || checkpoint_is_here(&w, s->head) : *s->head && file_exists(path);

    free(path);
    return here;
}

static enum pawl_status take(struct store *store, struct remote *r, const struct remote_state *s, bool *ok, struct err *err)
{
    char *tmp = file_tmp_name(store_dir(store), "remote");
    struct wanted w = {store, s, NULL, false};
    size_t bad = 0;
    enum pawl_status st = dir_make(&fsys_real, tmp, err);

    *ok = false;
    if (st == PAWL_OK && (st = remote_fetch(r, s, tmp, want, &w, &bad, err)) == PAWL_OK) {
        *ok = head_is_here(store, s, tmp);
        if (*ok && (st = place(store, s, tmp, err)) == PAWL_OK) link_best(store, s);
    }
    file_remove_tree(&fsys_real, tmp, NULL);
    free(w.dir);
    free(tmp);
    return st;
}

/* --- the newest */

enum pawl_status restore_newest(struct remote_state **newest, bool *taken, struct store *store, struct remote *r, const struct remote_index *x, const struct journal_at *here, struct err *err)
{
    size_t passed = 0;
    enum pawl_status st = PAWL_OK;

    *newest = NULL;
    *taken = false;
    for (size_t i = 0; i < x->n && st == PAWL_OK && !*newest; i++) {
        const struct remote_entry *e = &x->items[i];
        struct remote_state *s;
        bool ok = false;

        if (e->claim) continue;
        if (here && strcmp(e->run_id, store_run_id(store)))
            return err_set(err, PAWL_EINVAL,
                           "%s holds run %s, %s holds run %s: give another remote or output_dir, or begin anew with --fresh, which deletes nothing", remote_root(r), e->run_id,
                           store_dir(store), store_run_id(store));
        if ((st = remote_read(r, e->name, &s, err)) != PAWL_OK) return st;
        if (s->why.status != PAWL_OK) {
            log_warn("%s: %s is not used: %s", remote_root(r), e->name, s->why.text);
        } else if (here && journal_order(s->at, *here) <= 0) {
            *newest = s;
            return PAWL_OK;
        } else {
            log_info("%s: step %lld of generation %llu is downloaded", remote_root(r), (long long)s->at.step, (unsigned long long)s->at.generation);
            if ((st = take(store, r, s, &ok, err)) == PAWL_OK && !ok) log_warn("%s: step %lld is not used: its state does not verify", remote_root(r), (long long)s->at.step);
        }
        if (ok && st == PAWL_OK) {
            store_join(store, s->run_id);
            *newest = s;
            *taken = true;
            s = NULL;
        }
        passed++;
        remote_state_free(s);
    }
    if (st == PAWL_OK && !*newest && passed && !here)
        st = err_set(err, PAWL_EFORMAT, "%s: %zu states are there, but none verifies: begin anew with --fresh, which deletes nothing", remote_root(r), passed);
    return st;
}

char *restored_base(const char *run_dir)
{
    char *dir = xasprintf("%s/" BASE_DIR, run_dir), **names, *path = NULL;
    size_t n;

    if (file_exists(dir) && dir_list(&names, &n, dir, NULL) == PAWL_OK) {
        size_t len = n == 1 ? strlen(names[0]) : 0;

        path = len > 5 && !strcmp(names[0] + len - 5, ".gguf") ? xasprintf("%s/%s", dir, names[0]) : xstrdup(dir);
        dir_list_free(names, n);
    }
    free(dir);
    return path;
}

/* --- the configuration alone */

static enum pawl_status write_temporary(char **path, const char *text, size_t len, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    char *name = xasprintf("%s/pawl-config-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = mkstemp(name);
    enum pawl_status st = fd < 0 ? err_sys(err, "%s: cannot be made", name) : fd_write(&fsys_real, fd, text, len, name, err);

    if (fd >= 0) close(fd);
    if (st == PAWL_OK) *path = name;
    else free(name);
    return st;
}

/* One state's configuration; *found is false where it has none that verifies. */
static enum pawl_status config_of(struct buf *text, bool *found, struct remote *r, const char *name, struct err *err)
{
    struct remote_state *s;
    const struct remote_file *f;
    enum pawl_status st = remote_read(r, name, &s, err);

    if (st != PAWL_OK) return st;
    f = s->why.status == PAWL_OK ? remote_find(s, CONFIG_FILE) : NULL;
    if (f && f->n == 1 && (st = remote_read_part(r, &f->parts[0], text, err)) == PAWL_OK) *found = true;
    else log_warn("%s: %s is not used: %s", remote_root(r), name, s->why.status != PAWL_OK ? s->why.text : f ? err->text : "it holds no " CONFIG_FILE);
    remote_state_free(s);
    return st == PAWL_EFORMAT ? PAWL_OK : st;
}

enum pawl_status restore_config(char **path, const char *root, struct err *err)
{
    struct remote *r = NULL;
    struct remote_index x = {0};
    struct buf text = {0};
    bool found = false;
    enum pawl_status st;

    if ((st = remote_open(&r, root, NULL, err)) != PAWL_OK || (st = remote_look(r, &x, err)) != PAWL_OK) goto done;
    for (size_t i = 0; i < x.n && st == PAWL_OK && !found; i++)
        if (!x.items[i].claim) st = config_of(&text, &found, r, x.items[i].name, err);
    if (st == PAWL_OK && !found) st = err_set(err, PAWL_EINVAL, "%s: no run is there that could be taken up: start one by its RUN.yaml with `remote: %s`", root, root);
    if (st == PAWL_OK) st = write_temporary(path, text.data, text.len, err);
done:
    buf_free(&text);
    remote_index_free(&x);
    remote_close(r);
    return st;
}
