#include "ckpt/store.h"

#include "kernels/base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "lock"
#define RUN_NAME "run.json"
#define OLD_PREFIX "old-"
#define MAX_RUN_BYTES (1u << 20)
#define MIN_KEPT 2 /* I3 */

/* A checkpoint that this process has verified from the disk. What it names is never written again (I2), so it need not be read a second time. */
struct seen {
    char *name;
    uint64_t generation;
    int64_t step;
};

/* Which file it is, whatever its name. */
struct place {
    dev_t device;
    ino_t inode;
};

struct store {
    const struct fsys *sys;
    char *dir;
    int lock_fd;
    struct place lock, home; /* of the lock and of dir, as this process found them */
    struct timespec last_alive; /* 0: unknown */
    char run_id[17];
    uint64_t generation;
    bool raised;
    bool said_link, said_lock;
    struct seen *seen;
    size_t n_seen;
};

struct save {
    struct store *store;
    char *tmp;
    int64_t step;
    struct ckpt_file *files; /* the names are ours */
    size_t n_files;
};

static char *in_dir(const struct store *s, const char *name)
{
    return xasprintf("%s/%s", s->dir, name);
}

static void time_text(char out[17])
{
    time_t now = time(NULL);
    struct tm utc;

    strftime(out, 17, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
}

/* --- lock, temporaries, run.json */

static struct place place_of(const struct stat *info)
{
    return (struct place){info->st_dev, info->st_ino};
}

static bool same_place(struct place a, struct place b)
{
    return a.device == b.device && a.inode == b.inode;
}

/* The lock's time of change is when a process last trained here, unless it is a copy: then the time says when it was copied. */
#define INODE_LINE "inode %llu\n"

static void learn_last_alive(struct store *s, const struct stat *info)
{
    char text[512] = "";
    const char *line;
    unsigned long long inode = 0;

    s->sys->pread(s->lock_fd, text, sizeof text - 1, 0);
    line = strchr(text, '\n');
    if (line && sscanf(line + 1, INODE_LINE, &inode) == 1 && inode == s->lock.inode) s->last_alive = info->st_mtim;
}

static void set_alive(const struct store *s)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, s->last_alive};

    futimens(s->lock_fd, times);
}

/* The lock is flock's on an open file: it goes with the process however it ends. The file stays, and says who has it. */
static enum pawl_status take_lock(struct store *s, struct err *err)
{
    char *path = in_dir(s, LOCK_NAME), host[256] = "", when[17], holder[512] = "";
    struct stat info = {0}, home;
    enum pawl_status st = fd_open(&s->lock_fd, s->sys, path, O_RDWR | O_CREAT, err);

    if (st != PAWL_OK) goto done;
    if (fstat(s->lock_fd, &info) == 0) s->lock = place_of(&info);
    if (stat(s->dir, &home) == 0) s->home = place_of(&home);
    if (s->sys->flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            ssize_t n = s->sys->pread(s->lock_fd, holder, sizeof holder - 1, 0);
            holder[n > 0 ? n : 0] = 0;
            holder[strcspn(holder, "\n")] = 0;
            st = err_set(err, PAWL_ELOCKED, "%s: held by %.400s: another process trains here, stop it first", path, *holder ? holder : "a process that has not said who it is");
            goto done;
        }
        if (errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP) {
            st = err_sys(err, "%s: cannot be locked", path);
            goto done;
        }
        log_warn("%s: this file system has no locks (%s): see to it that only one process trains here", path, strerror(errno));
    }
    if (!s->raised) learn_last_alive(s, &info);
    gethostname(host, sizeof host - 1);
    time_text(when);
    snprintf(holder, sizeof holder, "host %s pid %d since %s\n" INODE_LINE, host, (int)getpid(), when, (unsigned long long)s->lock.inode);
    /* Only words for a person: a full disk must not keep anybody from training. */
    if (fd_pwrite(s->sys, s->lock_fd, holder, strlen(holder), 0, path, NULL) != PAWL_OK || s->sys->ftruncate(s->lock_fd, (off_t)strlen(holder)) != 0)
        log_warn("%s: cannot be written: it will not say who holds it", path);
    set_alive(s); /* to open a run is not to train it */
done:
    free(path);
    return st;
}

static enum pawl_status sweep(struct store *s, struct err *err)
{
    char **names;
    size_t n;
    enum pawl_status st = dir_list(&names, &n, s->dir, err);

    if (st != PAWL_OK) return st;
    for (size_t i = 0; i < n; i++) {
        struct err failed;
        if (strncmp(names[i], TMP_PREFIX, strlen(TMP_PREFIX)) != 0) continue;
        char *path = in_dir(s, names[i]);
        if (file_remove_tree(s->sys, path, &failed) != PAWL_OK) log_warn("what an earlier process left behind stays: %s", failed.text);
        free(path);
    }
    dir_list_free(names, n);
    return PAWL_OK;
}

static bool is_run_id(const char *text)
{
    return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

#define ID_ROOM 40 /* more than an id has, so that a longer text is none */

/* What run.json tells, as it stands there: 0 and an empty id where it tells none; err (may be NULL) is PAWL_OK where there is none. */
static void read_run(const struct store *s, uint64_t *generation, char id[ID_ROOM], struct err *err)
{
    char *path = in_dir(s, RUN_NAME);
    struct buf text = {0};
    struct json *json = NULL;
    int64_t n = 0;
    const char *told = "";

    if (err) *err = (struct err){0};
    if (file_exists(path) && file_read_all(&text, path, MAX_RUN_BYTES, err) == PAWL_OK && json_parse(&json, text.data, text.len, err) == PAWL_OK) {
        json_int64(json_get(json_root(json), "generation"), &n);
        told = json_string(json_get(json_root(json), "run_id"), "");
        if (n < 1 || !is_run_id(told)) err_set(err, PAWL_EFORMAT, "no run_id and generation in it");
    }
    *generation = n > 0 ? (uint64_t)n : 0;
    snprintf(id, ID_ROOM, "%s", told);
    json_free(json);
    buf_free(&text);
    free(path);
}

/* The lock file was removed or replaced: its place is taken again, unless somebody else was quicker. Where it can't be taken, the lock that is held on the old file must do. */
static enum pawl_status take_lock_again(struct store *s, struct err *err)
{
    int old_fd = s->lock_fd;
    struct place old_lock = s->lock;
    struct err failed;
    enum pawl_status st = take_lock(s, &failed);
    uint64_t now;
    char id[ID_ROOM];

    read_run(s, &now, id, NULL);
    if (st != PAWL_ELOCKED && now > s->generation)
        st = err_set(&failed, PAWL_ELOCKED, "%s/" LOCK_NAME ": was removed, and another process has trained here since (generation %" PRIu64 ", this one is %" PRIu64 "): this one stops", s->dir, now,
                     s->generation);
    if (st == PAWL_OK) {
        s->sys->close(old_fd);
        log_warn("%s/" LOCK_NAME " was removed while this process trains: it is made anew; stop a process rather than remove its lock", s->dir);
        return PAWL_OK;
    }
    if (s->lock_fd >= 0) s->sys->close(s->lock_fd);
    s->lock_fd = old_fd;
    s->lock = old_lock;
    if (st == PAWL_ELOCKED) {
        if (err) *err = failed;
        return st;
    }
    if (!s->said_lock) log_warn("the lock was removed while this process trains, and is not made anew: %s: see to it that no other process begins here", failed.text);
    s->said_lock = true;
    return PAWL_OK;
}

/* Whether a process holds the lock of the directory that stands at dir now. */
static bool held_there(const struct store *s)
{
    char *path = in_dir(s, LOCK_NAME);
    int fd = s->sys->open(path, O_RDWR | O_CLOEXEC, 0);
    bool held = fd >= 0 && s->sys->flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;

    if (fd >= 0) s->sys->close(fd);
    free(path);
    return held;
}

/* Another directory, or none, stands where the run was: PAWL_ELOCKED where it is somebody's. */
static enum pawl_status who_is_there(const struct store *s, struct err *err)
{
    char id[ID_ROOM];
    uint64_t now;

    read_run(s, &now, id, NULL);
    if (held_there(s) || (*id && strcmp(id, s->run_id)) || now > s->generation)
        return err_set(err, PAWL_ELOCKED, "%s: was moved or removed while this process trains, and another run is there now: this one stops", s->dir);
    return err_set(err, PAWL_EIO, "%s: was moved, removed or unmounted while this process trains", s->dir);
}

enum pawl_status store_watch(struct store *s, struct err *err)
{
    char *path = in_dir(s, LOCK_NAME);
    struct stat info;
    bool here = stat(path, &info) == 0, answers = here || errno == ENOENT || errno == ENOTDIR;
    enum pawl_status st = PAWL_OK;

    if (!answers || (here && same_place(place_of(&info), s->lock))) goto done;
    if (stat(s->dir, &info) == 0 ? same_place(place_of(&info), s->home) : errno != ENOENT && errno != ENOTDIR) st = take_lock_again(s, err);
    else st = who_is_there(s, err);
done:
    free(path);
    return st;
}

static void new_run_id(struct store *s)
{
    uint64_t r = 0;

    while (getrandom(&r, sizeof r, 0) != sizeof r) continue;
    snprintf(s->run_id, sizeof s->run_id, "%016" PRIx64, r);
}

/* The highest generation of run.json and of all manifests. A run.json that can't be read costs nothing: a generation without a checkpoint left no trace. */
static enum pawl_status load_run(struct store *s, struct err *err)
{
    struct ckpt_list list = {0};
    struct err failed;
    uint64_t generation;
    char told[ID_ROOM];
    const char *id = told;
    enum pawl_status st;

    read_run(s, &generation, told, &failed);
    if (failed.status != PAWL_OK) log_warn("%s/" RUN_NAME ": not readable, the checkpoints are asked instead: %s", s->dir, failed.text);
    if (generation > 0) s->generation = generation;
    if ((st = ckpt_list(&list, s->dir, err)) != PAWL_OK) goto done;
    for (size_t i = 0; i < list.n; i++) {
        if (list.items[i]->generation > s->generation) s->generation = list.items[i]->generation;
        if (!is_run_id(id)) id = list.items[i]->run_id;
    }
    if (is_run_id(id)) memcpy(s->run_id, id, sizeof s->run_id);
    else new_run_id(s);
done:
    ckpt_list_free(&list);
    return st;
}

/* A run inside a checkpoint would overwrite what its manifest names (I2). */
static enum pawl_status no_checkpoint(const char *dir, struct err *err)
{
    char *manifest = xasprintf("%s/" CKPT_MANIFEST, dir);
    bool is = file_exists(manifest);

    free(manifest);
    return is ? err_set(err, PAWL_EINVAL, "%s: is a checkpoint: expected a run directory, which holds checkpoints, or a new name", dir) : PAWL_OK;
}

enum pawl_status store_open(struct store **out, const struct fsys *sys, const char *run_dir, struct err *err)
{
    struct store *s = xcalloc(1, sizeof *s);
    enum pawl_status st;

    s->sys = sys;
    s->dir = xstrdup(run_dir);
    s->lock_fd = -1;
    if ((st = no_checkpoint(run_dir, err)) == PAWL_OK && (st = dir_make(sys, run_dir, err)) == PAWL_OK && (st = take_lock(s, err)) == PAWL_OK && (st = sweep(s, err)) == PAWL_OK && (st = load_run(s, err)) == PAWL_OK) {
        *out = s;
        s = NULL;
    }
    store_close(s);
    return st;
}

void store_close(struct store *s)
{
    if (!s) return;
    if (s->lock_fd >= 0) s->sys->close(s->lock_fd);
    for (size_t i = 0; i < s->n_seen; i++) free(s->seen[i].name);
    free(s->seen);
    free(s->dir);
    free(s);
}

void store_touch(struct store *s)
{
    futimens(s->lock_fd, NULL);
}

double store_last_alive(const struct store *s)
{
    return (double)s->last_alive.tv_sec + (double)s->last_alive.tv_nsec * 1e-9;
}

const struct fsys *store_sys(const struct store *s)
{
    return s->sys;
}

const char *store_dir(const struct store *s)
{
    return s->dir;
}

const char *store_run_id(const struct store *s)
{
    return s->run_id;
}

uint64_t store_generation(const struct store *s)
{
    return s->generation;
}

enum pawl_status store_raise_generation(struct store *s, uint64_t at_least, struct err *err)
{
    uint64_t next = (at_least > s->generation ? at_least : s->generation) + 1;
    char *path = in_dir(s, RUN_NAME);
    struct buf text = {0};
    enum pawl_status st;

    buf_addf(&text, "{\"run_id\": \"%s\", \"generation\": %" PRIu64 "}\n", s->run_id, next);
    if ((st = file_replace(s->sys, path, text.data, text.len, err)) == PAWL_OK) {
        s->generation = next;
        s->raised = true;
    }
    buf_free(&text);
    free(path);
    return st;
}

/* NAME, NAME-2, NAME-3 ... below dir: the first that is free. To be freed. */
static char *free_name(const char *dir, const char *name)
{
    char *path = xasprintf("%s/%s", dir, name);

    for (int i = 2; file_exists(path); i++) {
        free(path);
        path = xasprintf("%s/%s-%d", dir, name, i);
    }
    return path;
}

enum pawl_status store_archive(struct store *s, struct err *err)
{
    char stem[32] = OLD_PREFIX, *old = NULL, **names;
    size_t n;
    enum pawl_status st = dir_list(&names, &n, s->dir, err);

    if (st != PAWL_OK) return st;
    time_text(stem + strlen(OLD_PREFIX));
    old = free_name(s->dir, stem);
    if ((st = dir_make(s->sys, old, err)) != PAWL_OK) goto done;
    for (size_t i = 0; i < n && st == PAWL_OK; i++) {
        if (!strcmp(names[i], LOCK_NAME) || !strcmp(names[i], RUN_NAME) || !strncmp(names[i], OLD_PREFIX, strlen(OLD_PREFIX))) continue;
        char *from = in_dir(s, names[i]), *to = xasprintf("%s/%s", old, names[i]);
        st = file_move(s->sys, from, to, err);
        free(from);
        free(to);
    }
    if (st == PAWL_OK) st = dir_sync(s->sys, old, err);
    if (st == PAWL_OK) st = dir_sync(s->sys, s->dir, err);
    if (st == PAWL_OK) new_run_id(s);
done:
    dir_list_free(names, n);
    free(old);
    return st;
}

static enum pawl_status make_link(struct store *s, const char *path, const char *name, struct err *err)
{
    char now[PATH_MAX], *aside, *stem;
    ssize_t n = readlink(path, now, sizeof now);
    enum pawl_status st = PAWL_OK;

    if (n == (ssize_t)strlen(name) && !memcmp(now, name, (size_t)n)) return PAWL_OK;
    if (n < 0 && errno == EINVAL) {
        stem = xasprintf("%s.copy", strrchr(path, '/') + 1);
        aside = free_name(s->dir, stem);
        if ((st = file_rename(s->sys, path, aside, err)) == PAWL_OK) log_info("%s is no link, as copies of a run make it: moved to %s", path, aside);
        free(aside);
        free(stem);
    }
    return st == PAWL_OK ? link_replace(s->sys, path, name, err) : st;
}

void store_link(struct store *s, const char *link, const char *name)
{
    char *path = in_dir(s, link);
    struct err failed;
    /* Tried twice: of a run's last checkpoint nothing later makes up for it but the next start. */
    bool made = make_link(s, path, name, &failed) == PAWL_OK || make_link(s, path, name, &failed) == PAWL_OK;

    if (!made && !s->said_link) log_warn("the link %s to %s stays where it was: %s", link, name, failed.text);
    s->said_link = !made;
    free(path);
}

/* --- retention */

static bool was_seen(const struct store *s, const struct ckpt *c)
{
    for (size_t i = 0; i < s->n_seen; i++)
        if (s->seen[i].generation == c->generation && s->seen[i].step == c->step && !strcmp(s->seen[i].name, c->name)) return true;
    return false;
}

static void remember(struct store *s, const struct ckpt *c)
{
    s->seen = xreallocarray(s->seen, s->n_seen + 1, sizeof *s->seen);
    s->seen[s->n_seen++] = (struct seen){.name = xstrdup(c->name), .generation = c->generation, .step = c->step};
}

static void forget(struct store *s, const struct ckpt *c)
{
    for (size_t i = 0; i < s->n_seen; i++)
        if (s->seen[i].generation == c->generation && s->seen[i].step == c->step && !strcmp(s->seen[i].name, c->name)) {
            free(s->seen[i].name);
            s->seen[i] = s->seen[--s->n_seen];
            return;
        }
}

/* Manifest and sizes were looked at by ckpt_read; the bytes once a process. */
static bool verified_from_disk(struct store *s, struct ckpt *c)
{
    if (c->why.status != PAWL_OK) return false;
    if (was_seen(s, c)) return true;
    ckpt_verify(c, s->sys, true);
    if (c->verified) remember(s, c);
    return c->verified;
}

static bool kept_by_name(const struct retention *r, const char *name)
{
    return (r->resumed_from && !strcmp(r->resumed_from, name)) || (r->best && !strcmp(r->best, name)) || (r->in_use && !strcmp(r->in_use, name));
}

/* Renamed first, so that half a removal is a temporary and not a damaged checkpoint. */
static enum pawl_status remove_checkpoint(struct store *s, const struct ckpt *c, struct err *err)
{
    char *tmp = file_tmp_name(s->dir, c->name);
    enum pawl_status st = file_rename(s->sys, c->path, tmp, err);

    if (st == PAWL_OK) st = file_remove_tree(s->sys, tmp, err);
    if (st == PAWL_OK) forget(s, c);
    free(tmp);
    return st;
}

enum pawl_status store_retain(struct store *s, const struct retention *r, size_t *removed, struct err *err)
{
    struct ckpt_list list;
    size_t count = 0, first = 0;
    int verified = 0, limit = r->limit > MIN_KEPT ? r->limit : MIN_KEPT;
    enum pawl_status st = ckpt_list(&list, s->dir, err);

    if (st != PAWL_OK || r->limit == 0) goto done;
    while (first < list.n && verified < limit) verified += verified_from_disk(s, list.items[first++]);
    for (size_t i = list.n; i-- > first && st == PAWL_OK;) {
        const struct ckpt *c = list.items[i];
        if (c->generation == 0 || c->format_version > CKPT_FORMAT_VERSION || kept_by_name(r, c->name)) continue;
        if (!r->dry_run) st = remove_checkpoint(s, c, err);
        count += st == PAWL_OK;
    }
done:
    if (removed) *removed = count;
    ckpt_list_free(&list);
    return st;
}

/* --- one save */

static void save_free(struct save *sv)
{
    for (size_t i = 0; i < sv->n_files; i++) free((char *)sv->files[i].name);
    free(sv->files);
    free(sv->tmp);
    free(sv);
}

enum pawl_status save_begin(struct save **out, struct store *s, int64_t step, struct err *err)
{
    struct save *sv = xcalloc(1, sizeof *sv);
    char stem[64];
    enum pawl_status st;

    assert(s->raised); /* I4 */
    snprintf(stem, sizeof stem, CKPT_PREFIX "%" PRId64, step);
    *sv = (struct save){.store = s, .tmp = file_tmp_name(s->dir, stem), .step = step};
    if ((st = dir_make(s->sys, sv->tmp, err)) == PAWL_OK) *out = sv;
    else save_free(sv);
    return st;
}

const char *save_path(const struct save *sv)
{
    return sv->tmp;
}

void save_add(struct save *sv, const char *name, struct file_sum sum)
{
    sv->files = xreallocarray(sv->files, sv->n_files + 1, sizeof *sv->files);
    sv->files[sv->n_files++] = (struct ckpt_file){.name = xstrdup(name), .sum = sum};
}

static enum pawl_status write_text(const struct fsys *sys, const char *path, const char *text, size_t len, struct file_sum *sum, struct err *err)
{
    struct file f;
    enum pawl_status st = file_create(&f, sys, path, err);

    if (st != PAWL_OK) return st;
    file_write(&f, text, len);
    return file_close(&f, sum, err);
}

enum pawl_status save_text(struct save *sv, const char *name, const char *text, size_t len, struct err *err)
{
    char *path = xasprintf("%s/%s", sv->tmp, name);
    struct file_sum sum;
    enum pawl_status st = write_text(sv->store->sys, path, text, len, &sum, err);

    if (st == PAWL_OK) save_add(sv, name, sum);
    free(path);
    return st;
}

static enum pawl_status write_manifest(struct save *sv, const char *state, struct err *err)
{
    const struct store *s = sv->store;
    char *path = xasprintf("%s/" CKPT_MANIFEST, sv->tmp);
    struct buf text = {0};
    enum pawl_status st;

    ckpt_manifest_text(&text, s->run_id, s->generation, sv->step, sv->files, sv->n_files, state);
    if ((st = write_text(s->sys, path, text.data, text.len, NULL, err)) == PAWL_OK) st = dir_sync(s->sys, sv->tmp, err);
    buf_free(&text);
    free(path);
    return st;
}

/* Moves what stands at path out of the way under a name that says what it is (I2). */
static enum pawl_status make_way(struct store *s, const char *path, struct err *err)
{
    struct ckpt *c;
    char *aside = NULL, *stem;
    enum pawl_status st;

    if (!file_exists(path)) return PAWL_OK;
    c = ckpt_read(path);
    ckpt_verify(c, s->sys, false);
    if (c->format_version > CKPT_FORMAT_VERSION) {
        st = err_set(err, PAWL_EFORMAT, "%s", c->why.text);
        goto done;
    }
    stem = c->verified ? xasprintf("%s.gen%" PRIu64, c->name, c->generation) : xasprintf("%s.bad", c->name);
    aside = free_name(s->dir, stem);
    free(stem);
    st = file_rename(s->sys, path, aside, err);
    if (st == PAWL_OK && !c->verified) log_warn("%s was moved to %s: %s", path, aside, c->why.text);
done:
    free(aside);
    ckpt_free(c);
    return st;
}

/* From the rename on. What fails here is taken away again: it may not be durable, and nobody was told that it is. */
static enum pawl_status publish(struct save *sv, const char *path, struct err *err)
{
    struct store *s = sv->store;
    struct ckpt *c = NULL;
    struct err failed = {0}, stuck;

    if (file_move(s->sys, sv->tmp, path, err) != PAWL_OK) return PAWL_EIO;
    if (dir_sync(s->sys, s->dir, &failed) == PAWL_OK) {
        c = ckpt_read(path);
        ckpt_verify(c, s->sys, true);
        failed = c->why;
        if (c->verified) remember(s, c);
    }
    if (failed.status != PAWL_OK) {
        if (file_move(s->sys, path, sv->tmp, &stuck) != PAWL_OK) log_warn("not taken away again: %s", stuck.text);
        if (err) *err = failed;
    }
    ckpt_free(c);
    return failed.status;
}

enum pawl_status save_commit(struct save *sv, const char *state, char **name, struct err *err)
{
    struct store *s = sv->store;
    char *target = xasprintf(CKPT_PREFIX "%" PRId64, sv->step), *path = in_dir(s, target);
    struct err place;
    enum pawl_status st;

    if ((st = write_manifest(sv, state, err)) != PAWL_OK) goto done;
    if (store_watch(s, &place) == PAWL_ELOCKED) { /* a save may have taken long: its place may be another's by now */
        st = PAWL_ELOCKED;
        if (err) *err = place;
        goto done;
    }
    if ((st = make_way(s, path, err)) != PAWL_OK) goto done;
    if ((st = publish(sv, path, err)) != PAWL_OK) goto done;
    store_link(s, STORE_NEWEST, target);
    if (name) {
        *name = target;
        target = NULL;
    }
done:
    if (st == PAWL_OK) save_free(sv);
    else save_abandon(sv);
    free(path);
    free(target);
    return st;
}

/* --- from elsewhere */

enum pawl_status store_adopt(struct store *s, const char *dir, const char *name, struct err *err)
{
    char *path = in_dir(s, name);
    struct ckpt *c = ckpt_read(dir);
    enum pawl_status st;

    ckpt_verify(c, s->sys, false);
    if ((st = c->why.status) != PAWL_OK) {
        if (err) *err = c->why;
        goto done;
    }
    if ((st = dir_sync(s->sys, dir, err)) != PAWL_OK || (st = make_way(s, path, err)) != PAWL_OK || (st = file_rename(s->sys, dir, path, err)) != PAWL_OK) goto done;
    store_link(s, STORE_NEWEST, name);
done:
    ckpt_free(c);
    free(path);
    return st;
}

void store_join(struct store *s, const char *run_id)
{
    assert(!s->raised && is_run_id(run_id));
    memcpy(s->run_id, run_id, sizeof s->run_id);
}

void save_abandon(struct save *sv)
{
    struct err failed;

    if (!sv) return;
    if (file_remove_tree(sv->store->sys, sv->tmp, &failed) != PAWL_OK) log_warn("an unfinished checkpoint stays until the next start: %s", failed.text);
    save_free(sv);
}
