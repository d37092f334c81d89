/* What a power cut may leave of saves. The operations of a run of saves are recorded; then for each moment every legal state of the disk is laid out and taken up:
 *
 *   - writes to a file since its last sync are there, are not there, or are torn, each by itself;
 *   - changes of a directory (a name made, moved or removed) since its last sync are there or not, each by itself; a sync of a file does not make its name durable.
 *
 * Whatever is left (PAWL_LONG=1: more of it): the newest checkpoint that verifies is no older than the last one that was acknowledged, and a run goes on from there. */
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN "scratch_powercut_run"
static char left[64]; /* where states are laid out: in memory, where the machine has such a place */
#define MOST 1024

/* --- the record */

enum kind { MAKE, MOVE, REMOVE, WRITE, CUT, SYNC }; /* the first three change a directory */
enum type { FILE_NODE, DIR_NODE, LINK_NODE };

struct op {
    enum kind kind;
    int node;         /* what is made, written, cut or synced; of the others the directory */
    int dir;          /* whose names change */
    char name[96], to[96];
    off_t at;
    size_t len;
    char *data;       /* written; of a link its target */
    enum type type;   /* of what is made */
};
static struct op op[MOST];
static int n_ops;

/* The names as they are now: node 0 is RUN. */
struct names {
    struct {
        int dir, node;
        char name[96];
    } at[256];
    int n;
};
static struct names now;
static enum type type_of[MOST];
static int n_nodes, node_of_fd[1024];
static off_t place_of_fd[1024];

static int find(const struct names *s, int dir, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i].dir == dir && !strcmp(s->at[i].name, name)) return i;
    return -1;
}

static void forget(struct names *s, int dir, const char *name)
{
    int i = find(s, dir, name);

    if (i >= 0) s->at[i] = s->at[--s->n];
}

static void put(struct names *s, int dir, const char *name, int node)
{
    forget(s, dir, name);
    assert_true(s->n < 256 && strlen(name) < sizeof s->at[0].name);
    s->at[s->n].dir = dir, s->at[s->n].node = node;
    strcpy(s->at[s->n++].name, name);
}

/* The directory of a path below RUN and its last name; -1 where it is elsewhere. */
static int split(const char *path, char name[96])
{
    int dir = 0;
    const char *slash;

    if (strncmp(path, RUN, strlen(RUN)) != 0) return -1;
    path += strlen(RUN);
    *name = 0;
    if (!*path) return 0;
    for (path++; (slash = strchr(path, '/')); path = slash + 1) {
        int i;

        snprintf(name, 96, "%.*s", (int)(slash - path), path);
        i = find(&now, dir, name);
        assert_true(i >= 0);
        dir = now.at[i].node;
    }
    snprintf(name, 96, "%s", path);
    return dir;
}

static int node_at(const char *path)
{
    char name[96];
    int dir = split(path, name), i;

    if (dir < 0 || !*name) return dir;
    i = find(&now, dir, name);
    return i < 0 ? -1 : now.at[i].node;
}

static struct op *add(struct op o)
{
    assert_true(n_ops < MOST);
    op[n_ops] = o;
    return &op[n_ops++];
}

static void made(const char *path, enum type type, const char *target)
{
    char name[96];
    int dir = split(path, name);

    if (dir < 0 || (type == DIR_NODE && !*name)) return; /* RUN itself is there from the beginning */
    type_of[++n_nodes] = type;
    put(&now, dir, name, n_nodes);
    strcpy(add((struct op){.kind = MAKE, .node = n_nodes, .dir = dir, .type = type, .data = target ? xstrdup(target) : NULL})->name, name);
}

static void removed(const char *path)
{
    char name[96];
    int dir = split(path, name);

    if (dir < 0) return;
    strcpy(add((struct op){.kind = REMOVE, .node = dir, .dir = dir})->name, name);
    forget(&now, dir, name);
}

static int r_open(const char *path, int flags, mode_t mode)
{
    bool is_new = flags & O_CREAT && !file_exists(path);
    int fd = fsys_real.open(path, flags, mode);

    if (fd < 0) return fd;
    if (is_new) made(path, FILE_NODE, NULL);
    node_of_fd[fd] = node_at(path);
    place_of_fd[fd] = 0;
    return fd;
}

static void wrote(int fd, const void *data, ssize_t len, off_t at)
{
    char *copy;

    if (len <= 0 || node_of_fd[fd] < 0) return;
    copy = xmalloc((size_t)len);
    memcpy(copy, data, (size_t)len);
    add((struct op){.kind = WRITE, .node = node_of_fd[fd], .at = at, .len = (size_t)len, .data = copy});
}

static ssize_t r_write(int fd, const void *data, size_t len)
{
    ssize_t n = fsys_real.write(fd, data, len);

    wrote(fd, data, n, place_of_fd[fd]);
    if (n > 0) place_of_fd[fd] += n;
    return n;
}

static ssize_t r_pwrite(int fd, const void *data, size_t len, off_t at)
{
    ssize_t n = fsys_real.pwrite(fd, data, len, at);

    wrote(fd, data, n, at);
    return n;
}

/* Nobody pulls the plug on this disk. */
static int r_sync(int fd)
{
    if (node_of_fd[fd] >= 0) add((struct op){.kind = SYNC, .node = node_of_fd[fd]});
    return 0;
}

static int r_ftruncate(int fd, off_t size)
{
    if (node_of_fd[fd] >= 0) add((struct op){.kind = CUT, .node = node_of_fd[fd], .at = size});
    return fsys_real.ftruncate(fd, size);
}

static int r_rename(const char *from, const char *to)
{
    char a[96], b[96];
    int r = fsys_real.rename(from, to), dir = split(from, a), node;
    struct op *o;

    if (r != 0 || dir < 0) return r;
    assert_int_equal(split(to, b), dir);
    node = now.at[find(&now, dir, a)].node;
    o = add((struct op){.kind = MOVE, .node = dir, .dir = dir});
    strcpy(o->name, a);
    strcpy(o->to, b);
    forget(&now, dir, a);
    put(&now, dir, b, node);
    return r;
}

static int r_symlink(const char *target, const char *path)
{
    int r = fsys_real.symlink(target, path);

    if (r == 0) made(path, LINK_NODE, target);
    return r;
}

static int r_unlink(const char *path)
{
    int r = fsys_real.unlink(path);

    if (r == 0) removed(path);
    return r;
}

static int r_mkdir(const char *path, mode_t mode)
{
    int r = fsys_real.mkdir(path, mode);

    if (r == 0) made(path, DIR_NODE, NULL);
    return r;
}

static int r_rmdir(const char *path)
{
    int r = fsys_real.rmdir(path);

    if (r == 0) removed(path);
    return r;
}

static struct fsys recorder(void)
{
    struct fsys s = fsys_real;

    s.open = r_open, s.write = r_write, s.pwrite = r_pwrite, s.fsync = r_sync, s.fdatasync = r_sync, s.ftruncate = r_ftruncate;
    s.rename = r_rename, s.symlink = r_symlink, s.unlink = r_unlink, s.mkdir = r_mkdir, s.rmdir = r_rmdir;
    return s;
}

/* --- what is left */

/* Whether operation i is durable before operation `upto`: what it changes was synced since. */
static bool durable(int i, int upto)
{
    int what = op[i].kind <= REMOVE ? op[i].dir : op[i].node;

    for (int k = i + 1; k < upto; k++)
        if (op[k].kind == SYNC && op[k].node == what) return true;
    return false;
}

struct content {
    char *data;
    size_t len, room;
};

static void write_content(struct content *c, const struct op *o, size_t len)
{
    size_t end = (size_t)o->at + len;

    if (end > c->room) {
        c->data = xreallocarray(c->data, end, 1);
        memset(c->data + c->room, 0, end - c->room);
        c->room = end;
    }
    memcpy(c->data + o->at, o->data, len);
    if (end > c->len) c->len = end;
}

static void lay_out_dir(const struct names *s, const struct content *files, int dir, const char *path)
{
    assert_int_equal(mkdir(path, 0777), 0);
    for (int i = 0; i < s->n; i++) {
        char *at;
        int node = s->at[i].node;

        if (s->at[i].dir != dir) continue;
        at = xasprintf("%s/%s", path, s->at[i].name);
        if (type_of[node] == DIR_NODE) {
            lay_out_dir(s, files, node, at);
        } else if (type_of[node] == LINK_NODE) {
            assert_int_equal(symlink(files[node].data, at), 0);
        } else {
            int fd = open(at, O_WRONLY | O_CREAT | O_EXCL, 0666);

            assert_true(fd >= 0 && write(fd, files[node].data, files[node].len) == (ssize_t)files[node].len);
            close(fd);
        }
        free(at);
    }
}

/* The disk as of the moment before operation upto; keep[i]: operation i is there. torn: the last write that is there but not durable has only so many of its bytes; < 0: all. */
static void lay_out(int upto, const bool *keep, long torn)
{
    static struct content files[MOST];
    struct names s = {0};
    int last = -1;

    for (int i = 0; i < upto; i++)
        if (op[i].kind == WRITE && keep[i] && !durable(i, upto)) last = i;
    for (int i = 0; i < upto; i++) {
        const struct op *o = &op[i];
        int k;

        if (!keep[i]) continue;
        switch (o->kind) {
        case MAKE:
            put(&s, o->dir, o->name, o->node);
            if (o->data) files[o->node].data = o->data;
            break;
        case MOVE: /* of a name that never came to the disk nothing is left */
            if ((k = find(&s, o->dir, o->name)) < 0) break;
            k = s.at[k].node;
            forget(&s, o->dir, o->name);
            put(&s, o->dir, o->to, k);
            break;
        case REMOVE: forget(&s, o->dir, o->name); break;
        case WRITE: write_content(&files[o->node], o, i == last && torn >= 0 && (size_t)torn < o->len ? (size_t)torn : o->len); break;
        case CUT:
            if ((size_t)o->at < files[o->node].len) files[o->node].len = (size_t)o->at;
            break;
        case SYNC: break;
        }
    }
    assert_int_equal(file_remove_tree(&fsys_real, left, NULL), PAWL_OK);
    lay_out_dir(&s, files, 0, left);
    for (int node = 0; node <= n_nodes; node++) {
        if (type_of[node] != LINK_NODE) free(files[node].data);
        files[node] = (struct content){0};
    }
}

/* --- the run that is recorded, and what must be found */

struct mark {
    int ops; /* acknowledged behind so many operations */
    uint64_t generation;
    int64_t step;
};
static struct mark marks[32];
static int n_marks;

static enum pawl_status save(struct store *s, int64_t step, struct err *err)
{
    static float weights[64];
    struct tensor t[] = {{.name = "w", .dtype = DTYPE_F32, .rank = 2, .shape = {8, 8}, .data = weights}};
    struct save *sv = NULL;
    struct file_sum sum;
    char *path;
    enum pawl_status st = save_begin(&sv, s, step, err);

    if (st != PAWL_OK) return st;
    weights[0] = (float)step;
    path = xasprintf("%s/adapter_model.safetensors", save_path(sv));
    st = safetensors_write(store_sys(s), path, t, 1, NULL, 0, &sum, err);
    free(path);
    if (st == PAWL_OK) save_add(sv, "adapter_model.safetensors", sum);
    if (st == PAWL_OK) st = save_text(sv, "adapter_config.json", "{}", 2, err);
    if (st == PAWL_OK) return save_commit(sv, "{}", NULL, err);
    save_abandon(sv);
    return st;
}

static void save_and_mark(struct store *s, int64_t step)
{
    struct retention r = {.limit = 2};
    struct err err = {0};

    if (save(s, step, &err) != PAWL_OK) fail_msg("%s", err.text);
    marks[n_marks++] = (struct mark){n_ops, store_generation(s), step};
    if (store_retain(s, &r, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
}

static int no_sync(int fd)
{
    return 0;
}

static void check(int upto, bool goes_on, const char *what)
{
    struct mark expected = {0};
    struct ckpt *c = NULL;
    struct store *s = NULL;
    struct err err = {0};
    struct fsys quick = fsys_real;

    quick.fsync = quick.fdatasync = no_sync;
    for (int i = 0; i < n_marks && marks[i].ops <= upto; i++) expected = marks[i];
    if (ckpt_newest(&c, NULL, left, &err) != PAWL_OK) fail_msg("%s: %s", what, err.text);
    if (expected.generation && (!c || c->generation < expected.generation || (c->generation == expected.generation && c->step < expected.step)))
        fail_msg("%s: step %lld of generation %llu was acknowledged, step %lld is the newest", what, (long long)expected.step, (unsigned long long)expected.generation, c ? (long long)c->step : -1LL);
    ckpt_free(c);
    if (!goes_on) return;
    if (store_open(&s, &quick, left, &err) != PAWL_OK || store_raise_generation(s, 0, &err) != PAWL_OK) fail_msg("%s: %s", what, err.text);
    if (store_generation(s) <= expected.generation) fail_msg("%s: generation %llu after %llu", what, (unsigned long long)store_generation(s), (unsigned long long)expected.generation);
    if (save(s, 1, &err) != PAWL_OK) fail_msg("%s: %s", what, err.text);
    c = NULL;
    if (ckpt_newest(&c, NULL, left, &err) != PAWL_OK || !c || c->step != 1 || c->generation != store_generation(s)) fail_msg("%s: what was saved after it is not the newest", what);
    ckpt_free(c);
    store_close(s);
}

/* Thousands of warnings of what is not used go nowhere. */
static int stderr_copy = -1;

static int quiet(void **state)
{
    int null = open("/dev/null", O_WRONLY);

    snprintf(left, sizeof left, "%s/scratch_powercut_left-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".", (int)getpid());
    stderr_copy = dup(STDERR_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
    return 0;
}

static int loud(void **state)
{
    dup2(stderr_copy, STDERR_FILENO);
    close(stderr_copy);
    return file_remove_tree(&fsys_real, left, NULL) != PAWL_OK || file_remove_tree(&fsys_real, RUN, NULL) != PAWL_OK;
}

static uint32_t draw(void)
{
    static uint32_t x = 1;

    x = x * 1664525 + 1013904223;
    return x >> 8;
}

static void no_power_cut_takes_back_a_checkpoint(void **state)
{
    static const long torn[] = {-1, 40, 0, 1};
    struct fsys sys = recorder();
    const bool all = getenv("PAWL_LONG") != NULL;
    const int few = all ? 6 : 3, some = all ? 48 : 4;
    struct store *s = NULL;
    struct err err = {0};
    int states = 0, moments = 0;

    assert_int_equal(file_remove_tree(&fsys_real, RUN, NULL), PAWL_OK);
    assert_int_equal(mkdir(RUN, 0777), 0);
    type_of[0] = DIR_NODE;
    for (int i = 0; i < 1024; i++) node_of_fd[i] = -1;
    /* Two processes; the second goes back to step 20, so that checkpoint-30 is in its way. */
    for (int process = 0; process < 2; process++) {
        if (store_open(&s, &sys, RUN, &err) != PAWL_OK || store_raise_generation(s, 0, &err) != PAWL_OK) fail_msg("%s", err.text);
        for (int64_t step = process ? 20 : 10; step <= (process ? 40 : 30); step += 10) save_and_mark(s, step);
        store_close(s);
    }
    for (int upto = 0; upto <= n_ops; upto++) {
        bool keep[MOST];
        int pending[MOST], n = 0;

        if (upto && upto < n_ops && op[upto - 1].kind == SYNC && op[upto].kind == SYNC) continue;
        moments++;
        for (int i = 0; i < upto; i++) {
            keep[i] = op[i].kind == SYNC || durable(i, upto);
            if (!keep[i]) pending[n++] = i;
        }
        /* All subsets of a few; of many those that a prefix leaves, and some of the others. */
        int subsets = n <= few ? 1 << n : n + 1 + some;
        for (int k = 0; k < subsets; k++) {
            for (int i = 0; i < n; i++) keep[pending[i]] = n <= few ? k >> i & 1 : k <= n ? i < k : draw() & 1;
            bool has_write = false;
            for (int i = 0; i < n; i++) has_write |= keep[pending[i]] && op[pending[i]].kind == WRITE;
            for (size_t t = 0; t < (has_write ? all ? 4 : 2 : 1); t++) {
                char what[96];

                snprintf(what, sizeof what, "before operation %d of %d, subset %d, torn at %ld", upto, n_ops, k, torn[t]);
                lay_out(upto, keep, torn[t]);
                check(upto, states % 11 == 0, what);
                states++;
            }
        }
    }
    print_message("%d crash states of saves, at %d moments of %d operations\n", states, moments, n_ops);
    assert_true(states > 500);
    for (int i = 0; i < n_ops; i++) free(op[i].data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_power_cut_takes_back_a_checkpoint, quiet, loud),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
