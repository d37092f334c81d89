/* The journal: every system call of a commit failing in turn, and every legal state that a power cut may leave on the disk. */
#include "ckpt/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DIR_NAME "scratch_journal"
#define TEXT_NAME "scratch_journal_metrics.jsonl"
#define N 64 /* floats of a state */

/* --- a system that fails, and that remembers */

enum fault { FAULT_NONE, FAULT_ONCE, FAULT_FOR_EVER, FAULT_SHORT };

static struct {
    enum fault kind;
    int at, error, calls;
} fault;

/* What was written since the last sync of its file: what a power cut may drop, tear or keep. */
static struct {
    bool recording;
    struct operation {
        bool sync;
        int slot; /* K of its name; -1: the text */
        off_t at;
        size_t len;
        uint8_t *data;
    } op[512];
    int n;
} history;

static bool fails(void)
{
    int n = fault.calls++;
    bool now = fault.kind == FAULT_ONCE ? n == fault.at : fault.kind == FAULT_FOR_EVER && n >= fault.at;

    if (now) errno = fault.error;
    return now;
}

static int slot_of(int fd)
{
    char link[64], path[1024], *p;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return (p = strstr(path, "/slot-")) ? atoi(p + 6) : -1;
}

static void remember(bool sync, int fd, off_t at, const void *data, size_t len)
{
    struct operation *o = &history.op[history.n];

    if (!history.recording) return;
    assert_true(history.n < 512);
    *o = (struct operation){sync, slot_of(fd), at, len, NULL};
    if (len) {
        o->data = malloc(len);
        memcpy(o->data, data, len);
    }
    history.n++;
}

static int f_open(const char *path, int flags, mode_t mode) { return fails() ? -1 : fsys_real.open(path, flags, mode); }
static ssize_t f_pread(int fd, void *data, size_t len, off_t at) { return fails() ? -1 : fsys_real.pread(fd, data, len, at); }
static ssize_t f_pwrite(int fd, const void *data, size_t len, off_t at)
{
    if (fails()) return -1;
    if (fault.kind == FAULT_SHORT && fault.calls - 1 == fault.at && len > 1) len /= 2;
    remember(false, fd, at, data, len);
    return fsys_real.pwrite(fd, data, len, at);
}
/* Nobody pulls the plug here. */
static int f_fsync(int fd)
{
    if (fails()) return -1;
    remember(true, fd, 0, NULL, 0);
    return 0;
}
static int f_ftruncate(int fd, off_t size) { return fails() ? -1 : fsys_real.ftruncate(fd, size); }
static int f_fallocate(int fd, int mode, off_t at, off_t len) { return fails() ? -1 : fsys_real.fallocate(fd, mode, at, len); }
static int f_unlink(const char *path) { return fails() ? -1 : fsys_real.unlink(path); }
static int f_mkdir(const char *path, mode_t mode) { return fails() ? -1 : fsys_real.mkdir(path, mode); }
static int f_rename(const char *from, const char *to) { return fails() ? -1 : fsys_real.rename(from, to); }

static struct fsys faulty(void)
{
    struct fsys s = fsys_real;

    s.open = f_open, s.pread = f_pread, s.pwrite = f_pwrite, s.fsync = f_fsync, s.fdatasync = f_fsync, s.ftruncate = f_ftruncate;
    s.fallocate = f_fallocate, s.unlink = f_unlink, s.mkdir = f_mkdir, s.rename = f_rename;
    return s;
}

/* --- a run that commits numbers which follow from its step */

static struct fsys sys;
static float staging[3 * N];

struct run {
    struct jsonl *text;
    struct journal *journal;
};

static int fresh(void **state)
{
    fault.kind = FAULT_NONE;
    history.recording = false;
    for (int i = 0; i < history.n; i++) free(history.op[i].data);
    history.n = 0;
    remove(TEXT_NAME);
    sys = faulty();
    return file_remove_tree(&fsys_real, DIR_NAME, NULL) != PAWL_OK;
}

static void start(struct run *r, const char *keep)
{
    struct err err;

    if (jsonl_open(&r->text, &sys, TEXT_NAME, JSONL_END, &err) != PAWL_OK || journal_open(&r->journal, &sys, DIR_NAME, keep, r->text, staging, sizeof staging, &err) != PAWL_OK)
        fail_msg("%s", err.text);
}

static void end(struct run *r)
{
    journal_close(r->journal);
    jsonl_close(r->text);
}

/* True where it is durable. */
static bool commit(struct run *r, int64_t step)
{
    struct journal_part parts[3];
    char state[64], line[64];
    float *to = journal_begin(r->journal);

    assert_non_null(to);
    for (int i = 0; i < 3 * N; i++) to[i] = (float)(step * 1000 + i);
    for (int i = 0; i < 3; i++) parts[i] = (struct journal_part){to + i * N, N * sizeof *to};
    snprintf(line, sizeof line, "{\"step\":%lld}", (long long)step);
    snprintf(state, sizeof state, "{\"step\": %lld}", (long long)step);
    journal_line(r->journal, line, strlen(line));
    journal_commit(r->journal, (struct journal_at){1, step, 0}, parts, 3, state);
    assert_true(journal_wait(r->journal, 60));
    return journal_status(r->journal).durable.step == step;
}

/* The step of the newest slot that verifies, with its numbers checked; -1: none. */
static int64_t newest(void)
{
    struct journal_slots s;
    struct err err;
    int64_t step = -1, said = -1;

    if (journal_read(&s, DIR_NAME, &err) != PAWL_OK) fail_msg("%s", err.text);
    if (s.n && s.items[0].why.status == PAWL_OK) {
        step = s.items[0].at.step;
        assert_int_equal(s.items[0].parts, 3);
        assert_true(json_int64(json_get(s.items[0].state, "step"), &said) && said == step);
        for (int i = 0; i < 3 * N; i++) assert_true(((const float *)s.items[0].part[i / N].data)[i % N] == (float)(step * 1000 + i));
    }
    journal_slots_free(&s);
    return step;
}

static int lines(void)
{
    struct buf text = {0};
    int n = 0;

    if (file_exists(TEXT_NAME)) assert_int_equal(file_read_all(&text, TEXT_NAME, 1 << 20, NULL), PAWL_OK);
    for (size_t i = 0; i < text.len; i++) n += text.data[i] == '\n';
    buf_free(&text);
    return n;
}

static void the_last_two_steps_are_there_and_each_line_once(void **state)
{
    struct run r;
    struct journal_slots s;

    start(&r, NULL);
    for (int step = 1; step <= 5; step++) assert_true(commit(&r, step));
    end(&r);
    assert_int_equal(newest(), 5);
    assert_int_equal(lines(), 5);
    assert_int_equal(journal_read(&s, DIR_NAME, NULL), PAWL_OK);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.items[1].at.step, 4);
    /* The next process does not overwrite what it came from. */
    start(&r, s.items[0].path);
    fault = (typeof(fault)){FAULT_FOR_EVER, 0, EIO, 0};
    commit(&r, 6);
    fault.kind = FAULT_NONE;
    end(&r);
    journal_slots_free(&s);
    assert_int_equal(newest(), 5);
}

static void an_emergency_save_is_newer_than_its_step(void **state)
{
    struct run r;
    struct journal_slots s;
    float pending[2 * N] = {7};
    struct journal_part parts[] = {{staging, sizeof staging}, {pending, sizeof pending}};

    start(&r, NULL);
    assert_true(commit(&r, 3));
    assert_int_equal(journal_commit_now(r.journal, (struct journal_at){1, 3, 4}, parts, 2, "{}", NULL), PAWL_OK);
    end(&r);
    assert_int_equal(journal_read(&s, DIR_NAME, NULL), PAWL_OK);
    assert_int_equal(s.items[0].at.row, 4);
    assert_int_equal(s.items[0].part[1].bytes, sizeof pending);
    assert_memory_equal(s.items[0].part[1].data, pending, sizeof pending);
    assert_int_equal(s.items[1].at.row, 0);
    journal_slots_free(&s);
}

static void a_commit_that_is_held_stays_while_others_come(void **state)
{
    struct run r;
    struct journal_slots s;
    struct journal_at at;
    struct timespec handed;
    struct buf before = {0}, after = {0};
    char *path;

    start(&r, NULL);
    assert_false(journal_hold(r.journal, &path, &at, &handed)); /* nothing is committed yet */
    assert_true(commit(&r, 1) && commit(&r, 2));
    assert_true(journal_hold(r.journal, &path, &at, &handed));
    assert_int_equal(at.step, 2);
    assert_int_equal(file_read_all(&before, path, 1 << 24, NULL), PAWL_OK);
    for (int step = 3; step <= 7; step++) assert_true(commit(&r, step));
    assert_int_equal(file_read_all(&after, path, 1 << 24, NULL), PAWL_OK);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
    assert_int_equal(newest(), 7);
    journal_release(r.journal);
    assert_false(file_exists(path)); /* another one took its place */
    free(path);
    assert_true(journal_hold(r.journal, &path, &at, &handed));
    assert_int_equal(at.step, 7);
    journal_release(r.journal);
    assert_true(file_exists(path)); /* nothing came meanwhile: it is a slot as before */
    assert_true(commit(&r, 8) && commit(&r, 9));
    end(&r);
    assert_int_equal(newest(), 9);
    assert_int_equal(journal_read(&s, DIR_NAME, NULL), PAWL_OK);
    assert_int_equal(s.n, 2);
    journal_slots_free(&s);
    buf_free(&before);
    buf_free(&after);
    free(path);
}

static void any_system_call_of_a_commit_may_fail(void **state)
{
    static const struct {
        enum fault kind;
        int error;
    } kinds[] = {{FAULT_ONCE, EIO}, {FAULT_ONCE, ENOSPC}, {FAULT_ONCE, EINTR}, {FAULT_SHORT, 0}, {FAULT_FOR_EVER, EIO}, {FAULT_FOR_EVER, ENOSPC}, {FAULT_FOR_EVER, EROFS}, {FAULT_FOR_EVER, EINTR}};
    int total = 0;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int first = 0; first < 2; first++) /* also while the slots are being made */
            for (int at = 0;; at++) {
                struct run r;
                bool ok, over;

                fresh(NULL);
                start(&r, NULL);
                for (int step = 1; step <= 3 * !first; step++) assert_true(commit(&r, step));
                fault = (typeof(fault)){kinds[k].kind, at, kinds[k].error, 0};
                ok = commit(&r, 4);
                over = fault.calls <= at;
                fault.kind = FAULT_NONE;
                if (!ok && (kinds[k].kind == FAULT_SHORT || (kinds[k].kind == FAULT_ONCE && kinds[k].error == EINTR))) fail_msg("fault %zu at call %d: failed", k, at);
                if (!ok && !*journal_status(r.journal).failed.text) fail_msg("fault %zu at call %d: failed without a word", k, at);
                int64_t step = newest(); /* a commit whose last sync failed may be there all the same, where it could not be removed either */
                if (step != 4 && (ok || step != (first ? -1 : 3))) fail_msg("fault %zu at call %d: step %lld is there", k, at, (long long)step);
                assert_true(commit(&r, 5) && commit(&r, 6)); /* it recovers, and lines are there once */
                assert_int_equal(journal_status(r.journal).failures, 0);
                end(&r);
                assert_int_equal(newest(), 6);
                assert_int_equal(lines(), first ? 3 : 6);
                total++;
                if (over) break;
            }
    print_message("%d faults in a journal commit\n", total);
}

/* --- what a power cut may leave: of the writes that were not synced, each is there, is not, or is torn */

/* The files as of the syncs before op[upto], then of the writes behind them those that `kept` names; the last one of those cut to torn bytes (torn < 0: whole). */
static void lay_out(int upto, unsigned kept, long torn)
{
    int pending = 0, last = -1;
    bool keep[512] = {false};

    assert_int_equal(file_remove_tree(&fsys_real, DIR_NAME, NULL), PAWL_OK);
    assert_int_equal(dir_make(&fsys_real, DIR_NAME, NULL), PAWL_OK);
    for (int i = 0; i < upto; i++) {
        const struct operation *o = &history.op[i];
        bool synced = false;

        for (int k = i + 1; k < upto && !synced; k++) synced = history.op[k].sync && history.op[k].slot == o->slot;
        keep[i] = synced || (kept >> pending & 1);
        if (!synced && !o->sync && o->slot >= 0 && kept >> pending & 1) last = i;
        if (!synced && !o->sync && o->slot >= 0) pending++;
    }
    for (int i = 0; i < upto; i++) {
        const struct operation *o = &history.op[i];
        char path[64];
        size_t len = i == last && torn >= 0 && (size_t)torn < o->len ? (size_t)torn : o->len;

        if (o->sync || o->slot < 0 || !keep[i]) continue;
        snprintf(path, sizeof path, DIR_NAME "/slot-%d", o->slot);
        int fd = open(path, O_RDWR | O_CREAT, 0666);
        assert_true(fd >= 0 && ftruncate(fd, JOURNAL_RECORD + (off_t)sizeof staging) == 0 && pwrite(fd, o->data, len, o->at) == (ssize_t)len);
        close(fd);
    }
}

static int unsynced(int upto)
{
    int n = 0;

    for (int i = 0; i < upto; i++) {
        bool synced = false;
        for (int k = i + 1; k < upto && !synced; k++) synced = history.op[k].sync && history.op[k].slot == history.op[i].slot;
        n += !synced && !history.op[i].sync && history.op[i].slot >= 0;
    }
    return n;
}

static void no_power_cut_takes_back_what_was_acknowledged(void **state)
{
    struct run r;
    int acknowledged_at[8] = {0}, states = 0;

    start(&r, NULL);
    history.recording = true;
    for (int step = 1; step <= 4; step++) {
        assert_true(commit(&r, step));
        acknowledged_at[step] = history.n;
    }
    history.recording = false;
    end(&r);
    for (int upto = 0; upto <= history.n; upto++) {
        int acked = 0, pending = unsynced(upto);

        for (int step = 1; step <= 4; step++)
            if (upto >= acknowledged_at[step]) acked = step;
        assert_true(pending <= 6);
        for (unsigned kept = 0; kept < 1u << pending; kept++)
            for (long torn = -1; torn < 1400; torn += torn < 0 ? 1 : torn < 600 ? 64 : 256) {
                lay_out(upto, kept, torn);
                int64_t step = newest();
                if (step < (acked ? acked : -1)) fail_msg("after operation %d of %d, writes %x, torn at %ld: step %d was acknowledged, %lld is there", upto, history.n, kept, torn, acked, (long long)step);
                states++;
            }
    }
    print_message("%d crash states of the journal\n", states);
}

/* --- a disk that takes its time: a sync waits until it is told that it is over */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static int gate_open, gate_waiting; /* syncs that may pass, and that wait */

static int slow_sync(int fd)
{
    pthread_mutex_lock(&gate_lock);
    gate_waiting++;
    pthread_cond_broadcast(&gate_moved);
    while (!gate_open) pthread_cond_wait(&gate_moved, &gate_lock);
    gate_open--;
    gate_waiting--;
    pthread_mutex_unlock(&gate_lock);
    return 0;
}

static void let_pass(int syncs)
{
    pthread_mutex_lock(&gate_lock);
    gate_open = syncs;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
}

static void await_sync(void)
{
    pthread_mutex_lock(&gate_lock);
    while (!gate_waiting) pthread_cond_wait(&gate_moved, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

static void a_slow_disk_keeps_nobody_waiting(void **state)
{
    struct run r;
    struct journal_part part = {staging, sizeof staging};
    char line[64];

    start(&r, NULL);
    assert_true(commit(&r, 1));
    sys.fsync = sys.fdatasync = slow_sync;
    assert_non_null(journal_begin(r.journal));
    for (int step = 2; step <= 20; step++) { /* the disk is at step 2 all the time; nothing of this returns late */
        snprintf(line, sizeof line, "{\"step\":%d}", step);
        journal_line(r.journal, line, strlen(line));
        if (step == 2) {
            memset(staging, 0, sizeof staging);
            journal_commit(r.journal, (struct journal_at){1, step, 0}, &part, 1, "{}");
            await_sync();
        }
        assert_null(journal_begin(r.journal));
        assert_false(journal_wait(r.journal, 0));
        assert_int_equal(journal_status(r.journal).durable.step, 1); /* not acknowledged before it is */
    }
    let_pass(1000);
    assert_true(journal_wait(r.journal, 60));
    assert_int_equal(journal_status(r.journal).durable.step, 2);
    assert_true(commit(&r, 21)); /* with the lines that waited */
    end(&r);
    let_pass(0);
    assert_int_equal(newest(), 21);
    assert_int_equal(lines(), 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_last_two_steps_are_there_and_each_line_once, fresh),
        cmocka_unit_test_setup(an_emergency_save_is_newer_than_its_step, fresh),
        cmocka_unit_test_setup(a_commit_that_is_held_stays_while_others_come, fresh),
        cmocka_unit_test_setup(any_system_call_of_a_commit_may_fail, fresh),
        cmocka_unit_test_setup(no_power_cut_takes_back_what_was_acknowledged, fresh),
        cmocka_unit_test_setup(a_slow_disk_keeps_nobody_waiting, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
