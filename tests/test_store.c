/* The store: what it promises about a run directory, with every system call of a save failing in turn, and every file damaged in turn. */
#include "ckpt/safetensors.h"
#include "ckpt/store.h"
#include "kernels/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN "scratch_store"

/* --- a system that fails */

enum fault { FAULT_NONE, FAULT_ONCE, FAULT_FOR_EVER, FAULT_SHORT };

static struct {
    enum fault kind;
    int at, error; /* at: number of the call, from 0 */
    int calls;
} fault;

/* true: this call must fail with errno set. */
static bool fails(void)
{
    int n = fault.calls++;
    bool now = fault.kind == FAULT_ONCE ? n == fault.at : fault.kind == FAULT_FOR_EVER && n >= fault.at;

    if (now) errno = fault.error;
    return now;
}

/* What was done, for the test of the order: "fsync PATH", "rename TO" ... one a line. */
static struct buf done;
static bool recording;

static void record_path(const char *call, const char *path)
{
    if (recording) buf_addf(&done, "%s %s\n", call, path);
}

static void record_fd(const char *call, int fd)
{
    char link[64], path[1024];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = recording ? readlink(link, path, sizeof path - 1) : -1;
    if (n < 0) return;
    path[n] = 0;
    const char *run = strstr(path, RUN);
    record_path(call, run ? run : path);
}

static size_t shortened(size_t len)
{
    return fault.kind == FAULT_SHORT && fault.calls - 1 == fault.at && len > 1 ? len / 2 : len;
}

static int f_open(const char *path, int flags, mode_t mode) { return fails() ? -1 : fsys_real.open(path, flags, mode); }
static ssize_t f_read(int fd, void *data, size_t len)
{
    record_fd("read", fd);
    return fails() ? -1 : fsys_real.read(fd, data, shortened(len));
}
static ssize_t f_write(int fd, const void *data, size_t len)
{
    record_fd("write", fd);
    return fails() ? -1 : fsys_real.write(fd, data, shortened(len));
}
static ssize_t f_pread(int fd, void *data, size_t len, off_t at) { return fails() ? -1 : fsys_real.pread(fd, data, len, at); }
static ssize_t f_pwrite(int fd, const void *data, size_t len, off_t at) { return fails() ? -1 : fsys_real.pwrite(fd, data, shortened(len), at); }
/* Nobody pulls the plug here, and a thousand times waiting for the disk takes a minute. */
static int f_fsync(int fd)
{
    record_fd("fsync", fd);
    return fails() ? -1 : 0;
}
static int f_fdatasync(int fd) { return fails() ? -1 : 0; }
static int f_ftruncate(int fd, off_t size) { return fails() ? -1 : fsys_real.ftruncate(fd, size); }
static int f_fallocate(int fd, int mode, off_t at, off_t len) { return fails() ? -1 : fsys_real.fallocate(fd, mode, at, len); }
static int f_fadvise(int fd, off_t at, off_t len, int advice) { return fails() ? fault.error : 0; }
static int f_flock(int fd, int operation) { return fails() ? -1 : fsys_real.flock(fd, operation); }
static int f_rename(const char *from, const char *to)
{
    record_path("rename", to);
    return fails() ? -1 : fsys_real.rename(from, to);
}
static int f_symlink(const char *target, const char *path) { return fails() ? -1 : fsys_real.symlink(target, path); }
static int f_unlink(const char *path) { return fails() ? -1 : fsys_real.unlink(path); }
static int f_mkdir(const char *path, mode_t mode) { return fails() ? -1 : fsys_real.mkdir(path, mode); }
static int f_rmdir(const char *path) { return fails() ? -1 : fsys_real.rmdir(path); }
/* A descriptor is gone even where close fails. */
static int f_close(int fd)
{
    int r = fsys_real.close(fd);
    return fails() ? -1 : r;
}

static const struct fsys faulty = {
    .open = f_open, .close = f_close, .read = f_read, .write = f_write, .pread = f_pread, .pwrite = f_pwrite, .fsync = f_fsync, .fdatasync = f_fdatasync,
    .ftruncate = f_ftruncate, .fallocate = f_fallocate, .fadvise = f_fadvise, .flock = f_flock, .rename = f_rename, .symlink = f_symlink, .unlink = f_unlink, .mkdir = f_mkdir, .rmdir = f_rmdir,
};

/* --- helpers */

static int fresh(void **state)
{
    fault.kind = FAULT_NONE;
    return file_remove_tree(&fsys_real, RUN, NULL) != PAWL_OK;
}

/* The thousand warnings of a test that makes everything fail go nowhere. */
static int stderr_copy = -1;

static int fresh_and_quiet(void **state)
{
    int null = open("/dev/null", O_WRONLY);

    stderr_copy = dup(STDERR_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
    return fresh(state);
}

static int loud(void **state)
{
    dup2(stderr_copy, STDERR_FILENO);
    close(stderr_copy);
    return 0;
}

static struct store *start(void)
{
    struct store *s = NULL;
    struct err err = {0};

    fault.kind = FAULT_NONE;
    if (store_open(&s, &faulty, RUN, &err) != PAWL_OK || store_raise_generation(s, 0, &err) != PAWL_OK) fail_msg("%s", err.text);
    return s;
}

static enum pawl_status try_save(struct store *s, int64_t step, struct err *err)
{
    static const float weights[64] = {1, 2, 3};
    static const char config[] = "{\"peft_type\": \"LORA\"}\n";
    struct tensor t[] = {{.name = "w", .dtype = DTYPE_F32, .rank = 2, .shape = {8, 8}, .data = weights}};
    struct save *sv = NULL;
    struct file_sum sum;
    char state[64], *path;
    enum pawl_status st = save_begin(&sv, s, step, err);

    if (st != PAWL_OK) return st;
    path = xasprintf("%s/adapter_model.safetensors", save_path(sv));
    st = safetensors_write(store_sys(s), path, t, 1, NULL, 0, &sum, err);
    free(path);
    if (st == PAWL_OK) {
        save_add(sv, "adapter_model.safetensors", sum);
        st = save_text(sv, "adapter_config.json", config, strlen(config), err);
    }
    if (st != PAWL_OK) {
        save_abandon(sv);
        return st;
    }
    snprintf(state, sizeof state, "{\"cursor\": %lld}", (long long)step * 7);
    return save_commit(sv, state, NULL, err);
}

static void save(struct store *s, int64_t step)
{
    struct err err = {0};
    if (try_save(s, step, &err) != PAWL_OK) fail_msg("%s", err.text);
}

/* The step of the newest that verifies, -1 if none does. */
static int64_t newest(void)
{
    struct ckpt *c = NULL;
    struct err err = {0};

    if (ckpt_newest(&c, NULL, RUN, &err) != PAWL_OK) fail_msg("%s", err.text);
    int64_t step = c ? c->step : -1;
    ckpt_free(c);
    return step;
}

static bool verifies(const char *name)
{
    char *path = xasprintf(RUN "/%s", name);
    struct ckpt *c = ckpt_read(path);

    ckpt_verify(c, &fsys_real, false);
    bool verified = c->verified;
    ckpt_free(c);
    free(path);
    return verified;
}

static void no_temporaries(void)
{
    char **names;
    size_t n;

    assert_int_equal(dir_list(&names, &n, RUN, NULL), PAWL_OK);
    for (size_t i = 0; i < n; i++)
        if (!strncmp(names[i], TMP_PREFIX, strlen(TMP_PREFIX))) fail_msg("%s was left behind", names[i]);
    dir_list_free(names, n);
}

static void put(const char *path, const void *data, size_t len)
{
    remove(path); /* a file that is cut to nothing and written again is flushed by ext4: thousands of times */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void link_points_to(const char *link, const char *target)
{
    char text[256];
    ssize_t n = readlink(link, text, sizeof text - 1);

    assert_true(n >= 0);
    text[n] = 0;
    assert_string_equal(text, target);
}

/* --- one save, one start */

static void a_run_inside_a_checkpoint_is_refused(void **state)
{
    struct store *s = start(), *inner = NULL;
    struct err err = {0};

    save(s, 10);
    store_close(s);
    assert_int_equal(store_open(&inner, &fsys_real, RUN "/checkpoint-10", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "is a checkpoint"));
    assert_int_equal(newest(), 10);
    assert_int_equal(store_open(&inner, &fsys_real, RUN "/adapter", &err), PAWL_EINVAL);
}

static void a_committed_save_is_found_and_says_its_state(void **state)
{
    struct store *s = start();
    struct ckpt *c = NULL;
    struct err err = {0};
    int64_t cursor = 0;
    size_t skipped = 9;

    assert_int_equal(newest(), -1);
    save(s, 10);
    save(s, 20);
    assert_int_equal(ckpt_newest(&c, &skipped, RUN, &err), PAWL_OK);
    assert_int_equal(skipped, 0);
    assert_int_equal(c->step, 20);
    assert_int_equal(c->generation, 1);
    assert_string_equal(c->run_id, store_run_id(s));
    assert_string_equal(c->name, "checkpoint-20");
    assert_int_equal(c->n_files, 2);
    assert_true(c->verified);
    assert_true(json_int64(json_get(c->state, "cursor"), &cursor) && cursor == 140);
    link_points_to(RUN "/adapter", "checkpoint-20");
    no_temporaries();
    ckpt_free(c);
    store_close(s);
}

/* The place of the n-th (from 0) line that begins with call and ends with path; fails where there is none. */
static size_t place(const char *call, const char *path, int n)
{
    char *copy = xstrdup(done.data), *rest = copy, *line;
    size_t at = 0, found = 0;

    while (!found && (line = strsep(&rest, "\n"))) {
        size_t len = strlen(line), tail = strlen(path);
        at++;
        if (!strncmp(line, call, strlen(call)) && len >= tail && !strcmp(line + len - tail, path) && n-- == 0) found = at;
    }
    free(copy);
    if (!found) fail_msg("no \"%s ...%s\" in\n%s", call, path, done.data);
    return found;
}

/* Files, then the manifest, then the directory, then the rename, then the directory above, then what the disk holds is read; only then is it the newest. */
static void a_save_syncs_in_the_order_that_survives_a_power_cut(void **state)
{
    struct store *s = start();
    struct save *sv = NULL;
    struct err err = {0};

    recording = true;
    assert_int_equal(save_begin(&sv, s, 10, &err), PAWL_OK);
    char *tmp = xstrdup(save_path(sv));
    assert_int_equal(save_text(sv, "a.json", "{}", 2, &err), PAWL_OK);
    assert_int_equal(save_text(sv, "b.json", "{}", 2, &err), PAWL_OK);
    assert_int_equal(save_commit(sv, "{}", NULL, &err), PAWL_OK);
    recording = false;
    size_t rename = place("rename", RUN "/checkpoint-10", 0);
    assert_true(place("write", "a.json", 0) < place("fsync", "a.json", 0));
    assert_true(place("fsync", "a.json", 0) < place("write", "manifest.json", 0));
    assert_true(place("fsync", "b.json", 0) < place("write", "manifest.json", 0));
    assert_true(place("write", "manifest.json", 0) < place("fsync", "manifest.json", 0));
    assert_true(place("fsync", "manifest.json", 0) < place("fsync", tmp, 0));
    assert_true(place("fsync", tmp, 0) < rename);
    int synced = 0; /* the run directory is also synced before, when tmp is made */
    while (place("fsync", RUN, synced) < rename) synced++;
    size_t durable = place("fsync", RUN, synced);
    assert_true(durable < place("read", "checkpoint-10/a.json", 0));
    assert_true(place("read", "checkpoint-10/b.json", 0) < place("rename", RUN "/adapter", 0));
    free(tmp);
    buf_free(&done);
    store_close(s);
}

static void the_generation_rises_at_each_start_and_outranks_steps(void **state)
{
    struct store *s = start();
    struct err err = {0};
    char id[17];

    strcpy(id, store_run_id(s));
    save(s, 100);
    store_close(s);
    s = start();
    assert_int_equal(store_generation(s), 2);
    assert_string_equal(store_run_id(s), id);
    save(s, 90); /* the branch of generation 1 was abandoned at 80 */
    assert_int_equal(newest(), 90);
    store_close(s);
    put(RUN "/run.json", "{", 1); /* damaged: the manifests know */
    s = start();
    assert_int_equal(store_generation(s), 3);
    assert_string_equal(store_run_id(s), id);
    assert_int_equal(store_raise_generation(s, 41, &err), PAWL_OK);
    assert_int_equal(store_generation(s), 42);
    store_close(s);
}

static void the_same_step_of_an_older_generation_is_kept_beside(void **state)
{
    struct store *s = start();
    struct ckpt_list list;

    save(s, 10);
    store_close(s);
    s = start();
    save(s, 10);
    save(s, 10);
    assert_int_equal(ckpt_list(&list, RUN, NULL), PAWL_OK);
    assert_int_equal(list.n, 3);
    assert_string_equal(list.items[0]->name, "checkpoint-10");
    assert_string_equal(list.items[1]->name, "checkpoint-10.gen2");
    assert_string_equal(list.items[2]->name, "checkpoint-10.gen1");
    for (size_t i = 0; i < 3; i++) assert_true(verifies(list.items[i]->name));
    ckpt_list_free(&list);
    store_close(s);
}

static void a_damaged_one_in_the_way_is_moved_to_bad(void **state)
{
    struct store *s = start();
    struct stat info;

    save(s, 10);
    put(RUN "/checkpoint-10/adapter_config.json", "{}", 2);
    save(s, 10);
    assert_true(verifies("checkpoint-10"));
    assert_int_equal(stat(RUN "/checkpoint-10.bad/adapter_config.json", &info), 0);
    put(RUN "/checkpoint-10/adapter_config.json", "{}", 2);
    save(s, 10);
    assert_int_equal(stat(RUN "/checkpoint-10.bad-2", &info), 0);
    store_close(s);
}

static void a_second_process_is_told_who_holds_the_lock(void **state)
{
    struct store *s = start(), *second = NULL;
    struct err err = {0};
    char pid[32];
    int status, ready[2];

    assert_int_equal(store_open(&second, &fsys_real, RUN, &err), PAWL_ELOCKED);
    snprintf(pid, sizeof pid, "pid %d ", (int)getpid());
    assert_non_null(strstr(err.text, pid));
    store_close(s);

    /* Killed, the holder loses it. */
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (store_open(&s, &fsys_real, RUN, NULL) != PAWL_OK || write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], pid, 1), 1);
    assert_int_equal(store_open(&second, &fsys_real, RUN, &err), PAWL_ELOCKED);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_int_equal(store_open(&second, &fsys_real, RUN, &err), PAWL_OK);
    store_close(second);
    close(ready[0]);
    close(ready[1]);
}

/* Whatever people do to the run directory while a process trains in it. */
static void a_moved_run_and_a_lost_lock_are_noticed(void **state)
{
    static const char other[] = "{\"run_id\": \"0123456789abcdef\", \"generation\": 1}\n";
    struct store *s = start(), *second = NULL;

    assert_int_equal(store_watch(s, NULL), PAWL_OK);
    /* The lock can't be made anew, then it can. */
    assert_int_equal(unlink(RUN "/lock"), 0);
    assert_int_equal(mkdir(RUN "/lock", 0777), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(store_watch(s, NULL), PAWL_OK);
    assert_int_equal(rmdir(RUN "/lock"), 0);
    assert_int_equal(store_watch(s, NULL), PAWL_OK);
    assert_int_equal(store_open(&second, &fsys_real, RUN, NULL), PAWL_ELOCKED);
    /* Somebody else has it: also when asked again, and also when that one has ended. */
    assert_int_equal(unlink(RUN "/lock"), 0);
    assert_int_equal(store_open(&second, &fsys_real, RUN, NULL), PAWL_OK);
    assert_int_equal(store_raise_generation(second, 0, NULL), PAWL_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(store_watch(s, NULL), PAWL_ELOCKED);
    store_close(second);
    for (int i = 0; i < 2; i++) assert_int_equal(store_watch(s, NULL), PAWL_ELOCKED);
    store_close(s);

    s = start();
    assert_int_equal(file_remove_tree(&fsys_real, RUN ".old", NULL), PAWL_OK);
    assert_int_equal(rename(RUN, RUN ".old"), 0);
    assert_int_equal(store_watch(s, NULL), PAWL_EIO);
    assert_int_equal(mkdir(RUN, 0777), 0);
    assert_int_equal(store_watch(s, NULL), PAWL_EIO);
    /* Held, before there is a run.json; then another run's that nobody holds. */
    assert_int_equal(store_open(&second, &fsys_real, RUN, NULL), PAWL_OK);
    assert_int_equal(store_watch(s, NULL), PAWL_ELOCKED);
    store_close(second);
    assert_int_equal(store_watch(s, NULL), PAWL_EIO);
    put(RUN "/run.json", other, strlen(other));
    assert_int_equal(store_watch(s, NULL), PAWL_ELOCKED);
    store_close(s);
    assert_int_equal(file_remove_tree(&fsys_real, RUN ".old", NULL), PAWL_OK);
}

static void archive_moves_the_run_and_keeps_the_generation(void **state)
{
    struct store *s = start();
    struct err err = {0};
    char id[17], **names;
    size_t n, old = 0;

    strcpy(id, store_run_id(s));
    save(s, 10);
    put(RUN "/metrics.jsonl", "{}\n", 3);
    store_close(s);
    assert_int_equal(store_open(&s, &fsys_real, RUN, &err), PAWL_OK);
    assert_int_equal(store_archive(s, &err), PAWL_OK);
    assert_int_equal(store_raise_generation(s, 0, &err), PAWL_OK);
    assert_int_equal(store_generation(s), 2);
    assert_string_not_equal(store_run_id(s), id);
    assert_int_equal(newest(), -1);
    assert_int_equal(dir_list(&names, &n, RUN, &err), PAWL_OK);
    assert_int_equal(n, 3);
    while (old < n && strncmp(names[old], "old-", 4) != 0) old++;
    char *moved = xasprintf(RUN "/%s", names[old]);
    struct ckpt *c = NULL;
    assert_int_equal(ckpt_newest(&c, NULL, moved, &err), PAWL_OK);
    assert_int_equal(c->step, 10);
    ckpt_free(c);
    free(moved);
    dir_list_free(names, n);
    store_close(s);
}

/* --- retention */

static void retention_keeps_newest_verified_best_and_resumed(void **state)
{
    struct store *s = start();
    struct err err = {0};
    size_t removed = 0;

    for (int step = 10; step <= 70; step += 10) save(s, step);
    assert_int_equal(mkdir(RUN "/checkpoint-5", 0777), 0); /* somebody else's */
    put(RUN "/checkpoint-70/adapter_config.json", "{}", 2);
    struct retention r = {.limit = 3, .resumed_from = "checkpoint-20", .best = "checkpoint-30"};
    r.dry_run = true;
    assert_int_equal(store_retain(s, &r, &removed, &err), PAWL_OK);
    r.dry_run = false;
    assert_int_equal(removed, 1);
    assert_true(verifies("checkpoint-10"));
    assert_int_equal(store_retain(s, &r, &removed, &err), PAWL_OK);
    assert_int_equal(removed, 1);
    /* 70 is damaged: 60, 50 and 40 are the three; 20 and 30 by name. */
    assert_false(file_exists(RUN "/checkpoint-10"));
    for (int step = 20; step <= 60; step += 10) {
        char name[32];
        snprintf(name, sizeof name, "checkpoint-%d", step);
        assert_true(verifies(name));
    }
    assert_true(file_exists(RUN "/checkpoint-5"));
    assert_true(file_exists(RUN "/checkpoint-70"));

    r = (struct retention){.limit = 1};
    assert_int_equal(store_retain(s, &r, &removed, &err), PAWL_OK);
    assert_int_equal(removed, 3);
    assert_true(verifies("checkpoint-60") && verifies("checkpoint-50")); /* never fewer than two */
    r.limit = 0;
    save(s, 80);
    assert_int_equal(store_retain(s, &r, &removed, &err), PAWL_OK);
    assert_int_equal(removed, 0);
    no_temporaries();
    store_close(s);
}

/* --- damage */

/* what is done to a file of n bytes; false where there is nothing to do at i. */
static bool damage(uint8_t *data, size_t *n, size_t i)
{
    if (i == *n) {
        if (*n) (*n)--;
        return *n > 0;
    }
    data[i] ^= 0x10;
    return true;
}

static void any_damaged_byte_of_any_file_is_detected_named_and_passed_over(void **state)
{
    static const char *const files[] = {"adapter_model.safetensors", "adapter_config.json", "manifest.json"};
    struct store *s = start();

    save(s, 10);
    save(s, 20);
    for (size_t k = 0; k < 3; k++) {
        char *path = xasprintf(RUN "/checkpoint-20/%s", files[k]);
        struct buf whole = {0};
        assert_int_equal(file_read_all(&whole, path, 1 << 20, NULL), PAWL_OK);
        for (size_t i = 0; i <= whole.len; i++) {
            uint8_t *data = xmalloc(whole.len);
            size_t n = whole.len;
            memcpy(data, whole.data, n);
            if (damage(data, &n, i)) {
                put(path, data, n);
                struct ckpt *c = ckpt_read(RUN "/checkpoint-20");
                ckpt_verify(c, &fsys_real, false);
                if (c->verified || c->why.status != PAWL_EFORMAT || !strstr(c->why.text, files[k])) fail_msg("%s damaged at %zu: \"%s\"", files[k], i, c->why.text);
                ckpt_free(c);
                if (i % 50 == 0) assert_int_equal(newest(), 10);
            }
            free(data);
        }
        remove(path);
        assert_int_equal(newest(), 10);
        put(path, whole.data, whole.len);
        assert_int_equal(newest(), 20);
        buf_free(&whole);
        free(path);
    }
    store_close(s);
}

/* A manifest with its CRC put right, as another program would write it. */
static void put_manifest(const char *path, const char *from, const char *to)
{
    struct buf old = {0}, text = {0};
    struct file_sum sum = {0};
    char tail[32];

    assert_int_equal(file_read_all(&old, path, 1 << 20, NULL), PAWL_OK);
    old.data[old.len - 25] = 0; /* ,\n "crc32": "xxxxxxxx"\n}\n */
    const char *at = strstr(old.data, from);
    assert_non_null(at);
    buf_add(&text, old.data, (size_t)(at - old.data));
    buf_adds(&text, to);
    buf_adds(&text, at + strlen(from));
    file_sum_add(&sum, text.data, text.len);
    snprintf(tail, sizeof tail, ",\n \"crc32\": \"%08x\"\n}\n", sum.crc);
    buf_adds(&text, tail);
    put(path, text.data, text.len);
    buf_free(&old);
    buf_free(&text);
}

static void a_newer_format_is_refused_and_never_touched(void **state)
{
    struct store *s = start();
    struct ckpt *c = NULL;
    struct err err = {0};
    struct retention r = {.limit = 2};

    for (int step = 10; step <= 40; step += 10) save(s, step);
    put_manifest(RUN "/checkpoint-10/manifest.json", "\"format_version\": 1", "\"format_version\": 2");
    assert_int_equal(ckpt_newest(&c, NULL, RUN, &err), PAWL_EFORMAT);
    assert_null(c);
    assert_non_null(strstr(err.text, "format_version 2, this program reads up to 1"));
    assert_int_equal(store_retain(s, &r, NULL, &err), PAWL_OK);
    assert_true(file_exists(RUN "/checkpoint-10"));
    assert_false(file_exists(RUN "/checkpoint-20"));
    assert_int_equal(try_save(s, 10, &err), PAWL_EFORMAT);
    assert_true(file_exists(RUN "/checkpoint-10"));
    no_temporaries();
    store_close(s);
}

static void a_manifest_cannot_name_files_elsewhere(void **state)
{
    static const char *const names[] = {"../../secret", "/etc/passwd", "..", "", "a\\u0000b"};
    struct store *s = start();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char to[64];
        save(s, 10);
        snprintf(to, sizeof to, "\"name\": \"%s\"", names[i]);
        put_manifest(RUN "/checkpoint-10/manifest.json", "\"name\": \"adapter_config.json\"", to);
        struct ckpt *c = ckpt_read(RUN "/checkpoint-10");
        ckpt_verify(c, &fsys_real, false);
        assert_false(c->verified);
        assert_non_null(strstr(c->why.text, "file 1 has no plain name"));
        ckpt_free(c);
    }
    store_close(s);
}

/* One committed checkpoint for every version of the format that was ever written. */
static void every_format_version_is_read(void **state)
{
    char path[512];
    int64_t cursor = 0;

    for (int version = 1; version <= CKPT_FORMAT_VERSION; version++) {
        snprintf(path, sizeof path, "%s/golden/store/format-%d/checkpoint-7", PAWL_TESTS, version);
        struct ckpt *c = ckpt_read(path);
        ckpt_verify(c, &fsys_real, false);
        if (!c->verified) fail_msg("%s", c->why.text);
        assert_int_equal(c->format_version, version);
        assert_int_equal(c->step, 7);
        assert_int_equal(c->generation, 3);
        assert_true(json_int64(json_get(c->state, "cursor"), &cursor) && cursor == 49);
        assert_string_equal(json_string(json_get(c->state, "note"), ""), "a \"fixture\"");
        ckpt_free(c);
    }
}

/* --- every system call failing in turn */

static const struct {
    const char *name;
    enum fault kind;
    int error;
} kinds[] = {
    {"EIO once", FAULT_ONCE, EIO},           {"ENOSPC once", FAULT_ONCE, ENOSPC},           {"EINTR once", FAULT_ONCE, EINTR},         {"short", FAULT_SHORT, 0},
    {"EIO for ever", FAULT_FOR_EVER, EIO}, {"ENOSPC for ever", FAULT_FOR_EVER, ENOSPC}, {"EINTR for ever", FAULT_FOR_EVER, EINTR},
};

/* Removes every checkpoint of this step, whatever it is called by now. */
static void remove_step(const char *prefix)
{
    char **names;
    size_t n;

    if (dir_list(&names, &n, RUN, NULL) != PAWL_OK) return;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(names[i], prefix, strlen(prefix)) != 0) continue;
        char *path = xasprintf(RUN "/%s", names[i]);
        assert_int_equal(file_remove_tree(&fsys_real, path, NULL), PAWL_OK);
        free(path);
    }
    dir_list_free(names, n);
}

/* 10 and 20, and what `in_way` says at 30. */
enum in_way { WAY_FREE, WAY_VERIFIED, WAY_DAMAGED };
static void lay_out(struct store *s, enum in_way in_way)
{
    remove_step("checkpoint-30");
    if (!file_exists(RUN "/checkpoint-10")) save(s, 10);
    if (!file_exists(RUN "/checkpoint-20")) save(s, 20);
    if (in_way != WAY_FREE) save(s, 30);
    if (in_way == WAY_DAMAGED) put(RUN "/checkpoint-30/adapter_config.json", "x", 1);
}

static void set_fault(size_t k, int at)
{
    fault.kind = kinds[k].kind;
    fault.error = kinds[k].error;
    fault.at = at;
    fault.calls = 0;
}

/* True where the fault's call was never reached. */
static bool clear_fault(void)
{
    fault.kind = FAULT_NONE;
    return fault.calls <= fault.at;
}

/* Saves 30 with one fault. Whatever happens: what was there verifies, the save is either there, verified, or its failure was said, and the run goes on and saves
 * again. Returns false once the fault is behind the last call. */
static bool save_with_fault(struct store *s, enum in_way in_way, size_t k, int at)
{
    struct err err = {0};

    lay_out(s, in_way);
    set_fault(k, at);
    enum pawl_status st = try_save(s, 30, &err);
    bool over = clear_fault();

    if (!verifies("checkpoint-10") || !verifies("checkpoint-20")) fail_msg("%s at call %d: an older checkpoint is gone", kinds[k].name, at);
    if (st == PAWL_OK && !verifies("checkpoint-30")) fail_msg("%s at call %d: acknowledged, but not there", kinds[k].name, at);
    if (st != PAWL_OK && !*err.text) fail_msg("%s at call %d: failed without a word", kinds[k].name, at);
    if (kinds[k].kind == FAULT_SHORT || (kinds[k].kind == FAULT_ONCE && kinds[k].error == EINTR))
        if (st != PAWL_OK) fail_msg("%s at call %d: %s", kinds[k].name, at, err.text);

    struct ckpt *c = NULL;
    assert_int_equal(ckpt_newest(&c, NULL, RUN, &err), PAWL_OK);
    if (c->step != 30 && (st == PAWL_OK || in_way == WAY_VERIFIED)) fail_msg("%s at call %d: the newest is %lld", kinds[k].name, at, (long long)c->step);
    ckpt_free(c);
    if (st != PAWL_OK) save(s, 30);
    assert_int_equal(newest(), 30);
    return !over;
}

static void every_system_call_of_a_save_may_fail(void **state)
{
    int total = 0;

    for (enum in_way w = WAY_FREE; w <= WAY_DAMAGED; w++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            struct store *s = start();
            int at = 0;
            while (save_with_fault(s, w, k, at)) at++;
            if (at < 20) fail_msg("only %d system calls in a save", at); /* or the table is not used */
            total += at;
            store_close(s);
            store_close(start());
            no_temporaries();
            assert_int_equal(newest(), 30);
        }
    print_message("%d faults in a save\n", total);
}

static void every_system_call_of_a_start_may_fail(void **state)
{
    int total = 0;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int at = 0;; at++) {
            struct store *s = start();
            struct err err = {0};
            uint64_t before = store_generation(s);

            lay_out(s, WAY_FREE);
            store_close(s);
            assert_int_equal(mkdir(RUN "/tmp-pawl-left", 0777), 0);
            put(RUN "/tmp-pawl-left/file", "x", 1);
            set_fault(k, at);
            s = NULL;
            enum pawl_status st = store_open(&s, &faulty, RUN, &err);
            if (st == PAWL_OK) st = store_raise_generation(s, 0, &err);
            bool over = clear_fault();
            total += !over;
            if (st == PAWL_OK && store_generation(s) <= before) fail_msg("%s at call %d: the generation did not rise", kinds[k].name, at);
            if (st != PAWL_OK && !*err.text) fail_msg("%s at call %d: failed without a word", kinds[k].name, at);
            store_close(s);
            s = start();
            assert_true(store_generation(s) > before);
            assert_true(verifies("checkpoint-10") && verifies("checkpoint-20"));
            no_temporaries();
            store_close(s);
            if (over) {
                assert_true(at >= 8);
                break;
            }
        }
    print_message("%d faults in a start\n", total);
}

static void every_system_call_of_a_removal_may_fail(void **state)
{
    int total = 0;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int at = 0;; at++) {
            remove_step("checkpoint-");
            struct store *s = start();
            struct retention r = {.limit = 2, .best = "checkpoint-10"};
            struct err err = {0};

            lay_out(s, WAY_FREE);
            save(s, 30);
            save(s, 40);
            set_fault(k, at);
            enum pawl_status st = store_retain(s, &r, NULL, &err);
            bool over = clear_fault();
            total += !over;
            store_close(s);
            if (st != PAWL_OK && !*err.text) fail_msg("%s at call %d: failed without a word", kinds[k].name, at);
            assert_true(verifies("checkpoint-30") && verifies("checkpoint-40"));
            assert_true(verifies("checkpoint-20") || !file_exists(RUN "/checkpoint-20")); /* all of it or nothing */
            store_close(start());
            no_temporaries();
            if (over) {
                assert_int_equal(st, PAWL_OK);
                assert_false(file_exists(RUN "/checkpoint-20"));
                break;
            }
        }
    print_message("%d faults in a removal\n", total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_inside_a_checkpoint_is_refused, fresh),
        cmocka_unit_test_setup(a_committed_save_is_found_and_says_its_state, fresh),
        cmocka_unit_test_setup(a_save_syncs_in_the_order_that_survives_a_power_cut, fresh),
        cmocka_unit_test_setup(the_generation_rises_at_each_start_and_outranks_steps, fresh),
        cmocka_unit_test_setup(the_same_step_of_an_older_generation_is_kept_beside, fresh),
        cmocka_unit_test_setup(a_damaged_one_in_the_way_is_moved_to_bad, fresh),
        cmocka_unit_test_setup(a_second_process_is_told_who_holds_the_lock, fresh),
        cmocka_unit_test_setup_teardown(a_moved_run_and_a_lost_lock_are_noticed, fresh_and_quiet, loud),
        cmocka_unit_test_setup(archive_moves_the_run_and_keeps_the_generation, fresh),
        cmocka_unit_test_setup(retention_keeps_newest_verified_best_and_resumed, fresh),
        cmocka_unit_test_setup_teardown(any_damaged_byte_of_any_file_is_detected_named_and_passed_over, fresh_and_quiet, loud),
        cmocka_unit_test_setup(a_newer_format_is_refused_and_never_touched, fresh),
        cmocka_unit_test_setup(a_manifest_cannot_name_files_elsewhere, fresh),
        cmocka_unit_test(every_format_version_is_read),
        cmocka_unit_test_setup_teardown(every_system_call_of_a_save_may_fail, fresh_and_quiet, loud),
        cmocka_unit_test_setup_teardown(every_system_call_of_a_start_may_fail, fresh_and_quiet, loud),
        cmocka_unit_test_setup_teardown(every_system_call_of_a_removal_may_fail, fresh_and_quiet, loud),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    fresh(NULL);
    return failed;
}
