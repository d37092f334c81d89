#include "ckpt/journal.h"

#include "kernels/base/clock.h"
#include "kernels/base/hash.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_PREFIX "slot-"
#define MAGIC "PAWLJRNL"

/* The first bytes of a slot, little-endian. magic, version and crc keep their places in every version of the format. */
struct record {
    char magic[8];
    uint32_t version, crc; /* crc: of the record and the state behind it, with this field 0 */
    uint64_t generation;
    int64_t step, row;
    uint64_t data_hash, state_bytes;
    uint64_t parts, part_bytes[JOURNAL_PARTS];
};

static uint32_t record_crc(struct record r, const char *state)
{
    struct file_sum sum = {0};

    r.crc = 0;
    file_sum_add(&sum, &r, sizeof r);
    file_sum_add(&sum, state, r.state_bytes);
    return sum.crc;
}

int journal_order(struct journal_at a, struct journal_at b)
{
    if (a.generation != b.generation) return a.generation < b.generation ? -1 : 1;
    if (a.step != b.step) return a.step < b.step ? -1 : 1;
    return (a.row > b.row) - (a.row < b.row);
}

/* --- reading */

static enum pawl_status check_record(const struct journal_slot *s, struct record *r, struct err *err)
{
    const char *state = (const char *)s->map.data + sizeof *r;

    if (s->map.size < JOURNAL_RECORD) return err_set(err, PAWL_EFORMAT, "%s: %zu bytes, a slot has at least %d: cut short or never finished", s->path, s->map.size, JOURNAL_RECORD);
    memcpy(r, s->map.data, sizeof *r);
    if (memcmp(r->magic, MAGIC, sizeof r->magic) != 0) return err_set(err, PAWL_EFORMAT, "%s: does not begin as a slot does: never written, or damaged", s->path);
    if (r->state_bytes > JOURNAL_RECORD - sizeof *r || record_crc(*r, state) != r->crc)
        return err_set(err, PAWL_EFORMAT, "%s: its record does not verify: torn or damaged", s->path);
    if (r->version > JOURNAL_FORMAT_VERSION)
        return err_set(err, PAWL_EFORMAT, "%s: format version %u, this program reads up to %d: use a newer pawl", s->path, r->version, JOURNAL_FORMAT_VERSION);
    if (r->generation < 1 || r->step < 0 || r->row < 0 || r->parts > JOURNAL_PARTS) return err_set(err, PAWL_EFORMAT, "%s: generation, step, row or parts make no sense", s->path);
    return PAWL_OK;
}

/* The hash of what is there of the data. */
static uint64_t take_parts(struct journal_slot *s, const struct record *r)
{
    size_t at = JOURNAL_RECORD;

    s->hash = 0;
    for (s->parts = 0; s->parts < (int)r->parts && r->part_bytes[s->parts] <= s->map.size - at; s->parts++) {
        struct journal_part *p = &s->part[s->parts];

        *p = (struct journal_part){s->map.data + at, r->part_bytes[s->parts]};
        s->hash = hash64(s->hash, p->data, p->bytes);
        at += p->bytes;
    }
    return s->hash;
}

/* *newer: the record verifies and is of a version that this program does not know. */
static void read_slot(struct journal_slot *s, bool *newer)
{
    struct record r = {0};

    if (map_open(&s->map, s->path, &s->why) != PAWL_OK) return;
    s->blank = s->map.size < sizeof r || !memcmp(s->map.data, &r, sizeof r);
    if (check_record(s, &r, &s->why) != PAWL_OK) {
        *newer = r.version > JOURNAL_FORMAT_VERSION && r.state_bytes <= JOURNAL_RECORD - sizeof r && record_crc(r, (const char *)s->map.data + sizeof r) == r.crc;
        return;
    }
    s->at = (struct journal_at){r.generation, r.step, r.row};
    if (take_parts(s, &r) != r.data_hash) {
        err_set(&s->why, PAWL_EFORMAT, "%s: the data of step %" PRId64 " does not verify: being overwritten, torn or damaged", s->path, r.step);
        return;
    }
    if (json_parse(&s->json, (const char *)s->map.data + sizeof r, r.state_bytes, &s->why) != PAWL_OK) err_prefix(&s->why, "%s", s->path);
    else s->state = json_root(s->json);
}

static int newest_first(const void *a, const void *b)
{
    const struct journal_slot *x = a, *y = b;

    if ((x->why.status == PAWL_OK) != (y->why.status == PAWL_OK)) return x->why.status == PAWL_OK ? -1 : 1;
    return -journal_order(x->at, y->at);
}

/* K of a slot's name, or -1. */
static int slot_number(const char *name)
{
    const char *digits = name + strlen(SLOT_PREFIX);

    if (strncmp(name, SLOT_PREFIX, strlen(SLOT_PREFIX)) != 0 || !*digits || strlen(digits) > 6 || strspn(digits, "0123456789") != strlen(digits)) return -1;
    return atoi(digits);
}

/* Reads the slot and adds it. */
static enum pawl_status add_slot(struct journal_slots *out, char *path, struct err *err)
{
    struct journal_slot *s;
    bool newer = false;

    out->items = xreallocarray(out->items, out->n + 1, sizeof *out->items);
    s = &out->items[out->n++];
    *s = (struct journal_slot){.path = path};
    read_slot(s, &newer);
    return newer ? err_set(err, PAWL_EFORMAT, "%s", s->why.text) : PAWL_OK;
}

enum pawl_status journal_read_one(struct journal_slots *out, const char *path, struct err *err)
{
    enum pawl_status st;

    *out = (struct journal_slots){0};
    if ((st = add_slot(out, xstrdup(path), err)) != PAWL_OK) journal_slots_free(out);
    return st;
}

enum pawl_status journal_read(struct journal_slots *out, const char *dir, struct err *err)
{
    char **names;
    size_t n;
    enum pawl_status st;

    *out = (struct journal_slots){0};
    if (!file_exists(dir)) return PAWL_OK;
    if ((st = dir_list(&names, &n, dir, err)) != PAWL_OK) return st;
    for (size_t i = 0; i < n && st == PAWL_OK; i++) {
        if (slot_number(names[i]) >= 0) st = add_slot(out, xasprintf("%s/%s", dir, names[i]), err);
    }
    dir_list_free(names, n);
    if (out->n) qsort(out->items, out->n, sizeof *out->items, newest_first);
    if (st != PAWL_OK) journal_slots_free(out);
    return st;
}

void journal_slots_free(struct journal_slots *s)
{
    for (size_t i = 0; i < s->n; i++) {
        map_close(&s->items[i].map);
        json_free(s->items[i].json);
        free(s->items[i].path);
    }
    free(s->items);
    *s = (struct journal_slots){0};
}

/* --- writing */

/* A file that commits go to; fd -1: to be made. */
struct slot {
    int number, fd;
};

struct journal {
    const struct fsys *sys;
    char *dir;
    struct jsonl *text;
    void *staging;
    size_t capacity;

    /* The thread's, and journal_commit_now's while the thread is idle. */
    struct slot slot[2];
    int next;             /* which of the two is written next */
    int last_number;      /* highest K so far */
    struct buf unwritten; /* lines that could not be written */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake, idle;
    pthread_t thread;
    bool stop;
    struct buf lines;     /* waiting */
    struct journal_at at; /* of the commit under way */
    struct journal_part part[JOURNAL_PARTS];
    int parts;
    bool with_data;       /* a commit; else only lines */
    char *state;
    struct timespec handed;
    int durable, held;    /* K of the file of the newest durable commit, and of the one that is held; -1: none */
    bool replaced;        /* the held one is no slot any more: it goes when it is released */
    struct journal_status status;
};

static char *slot_path(const struct journal *j, int number)
{
    return xasprintf("%s/" SLOT_PREFIX "%d", j->dir, number);
}

/* Opens the slot's file, or makes it with all of its room, so that later commits change no metadata. */
static enum pawl_status open_slot(struct journal *j, struct slot *s, size_t bytes, struct err *err)
{
    char *path = slot_path(j, s->number);
    bool is_new = !file_exists(path);
    enum pawl_status st = fd_open(&s->fd, j->sys, path, O_RDWR | O_CREAT, err);

    if (st == PAWL_OK) st = fd_reserve(j->sys, s->fd, JOURNAL_RECORD + bytes, path, err);
    if (st == PAWL_OK && is_new && (st = fd_sync(j->sys, s->fd, false, path, err)) == PAWL_OK) st = dir_sync(j->sys, j->dir, err);
    free(path);
    return st;
}

/* J4: the file goes, and a new one takes its place with the next commit. */
static void give_up(struct journal *j, struct slot *s)
{
    char *path = slot_path(j, s->number);

    if (s->fd >= 0) j->sys->close(s->fd);
    file_remove_tree(j->sys, path, NULL);
    *s = (struct slot){.number = ++j->last_number, .fd = -1};
    free(path);
}

static enum pawl_status write_slot(struct journal *j, struct slot *s, struct journal_at at, const struct journal_part *parts, int n, const char *state, struct err *err)
{
    struct record r = {.magic = MAGIC, .version = JOURNAL_FORMAT_VERSION, .generation = at.generation, .step = at.step, .row = at.row, .state_bytes = strlen(state), .parts = (uint64_t)n};
    char *path = slot_path(j, s->number);
    struct buf head = {0};
    size_t total = 0, offset = JOURNAL_RECORD;
    enum pawl_status st = PAWL_OK;

    assert(n <= JOURNAL_PARTS);
    for (int i = 0; i < n; i++) total += parts[i].bytes;
    if (r.state_bytes > JOURNAL_RECORD - sizeof r) {
        st = err_set(err, PAWL_EINVAL, "%s: the state has %zu bytes, a record takes %zu", path, (size_t)r.state_bytes, JOURNAL_RECORD - sizeof r);
        goto done;
    }
    if (s->fd < 0 && (st = open_slot(j, s, total > j->capacity ? total : j->capacity, err)) != PAWL_OK) goto done;
    for (int i = 0; i < n; i++) {
        if ((st = fd_pwrite(j->sys, s->fd, parts[i].data, parts[i].bytes, (off_t)offset, path, err)) != PAWL_OK) goto done;
        r.data_hash = hash64(r.data_hash, parts[i].data, parts[i].bytes);
        r.part_bytes[i] = parts[i].bytes;
        offset += parts[i].bytes;
    }
    if ((st = fd_sync(j->sys, s->fd, true, path, err)) != PAWL_OK) goto done;
    r.crc = record_crc(r, state);
    buf_add(&head, &r, sizeof r);
    buf_adds(&head, state);
    if ((st = fd_pwrite(j->sys, s->fd, head.data, head.len, 0, path, err)) == PAWL_OK) st = fd_sync(j->sys, s->fd, true, path, err);
done:
    buf_free(&head);
    free(path);
    return st;
}

/* Lines that wait, in front of those that come meanwhile (J3). */
static enum pawl_status write_lines(struct journal *j, struct err *err)
{
    enum pawl_status st;

    pthread_mutex_lock(&j->lock);
    buf_add(&j->unwritten, j->lines.data, j->lines.len);
    j->lines.len = 0;
    pthread_mutex_unlock(&j->lock);
    if (!j->unwritten.len) return PAWL_OK;
    st = jsonl_append(j->text, j->unwritten.data, j->unwritten.len - 1, err); /* it adds the last newline itself */
    if (st == PAWL_OK) j->unwritten.len = 0;
    return st;
}

static uint64_t bytes_of(const struct journal_part *parts, int n, const char *state)
{
    uint64_t sum = sizeof(struct record) + strlen(state);

    for (int i = 0; i < n; i++) sum += parts[i].bytes;
    return sum;
}

/* The file whose turn it is, or a new one in its place where it is held (J5). */
static struct slot *next_slot(struct journal *j)
{
    struct slot *s = &j->slot[j->next];
    bool held;

    pthread_mutex_lock(&j->lock);
    if ((held = s->number == j->held)) j->replaced = true;
    pthread_mutex_unlock(&j->lock);
    if (!held) return s;
    if (s->fd >= 0) j->sys->close(s->fd);
    *s = (struct slot){.number = ++j->last_number, .fd = -1};
    return s;
}

/* Text, then data, then record. By whoever owns the slots at the moment. */
static enum pawl_status write_commit(struct journal *j, struct journal_at at, const struct journal_part *parts, int n, const char *state, struct err *err)
{
    enum pawl_status st = write_lines(j, err);
    struct slot *s;

    if (st != PAWL_OK) return st;
    s = next_slot(j);
    if ((st = write_slot(j, s, at, parts, n, state, err)) != PAWL_OK) {
        give_up(j, s);
        return st;
    }
    j->next = !j->next;
    return PAWL_OK;
}

/* With the lock held. */
static void note(struct journal *j, enum pawl_status st, const struct err *failed)
{
    if (st == PAWL_OK) {
        j->status.failures = 0;
    } else {
        j->status.failures++;
        j->status.failed = *failed;
    }
}

static void note_commit(struct journal *j, enum pawl_status st, struct journal_at at, struct timespec handed, double seconds, uint64_t bytes)
{
    j->status.seconds = seconds;
    if (st != PAWL_OK) return;
    j->durable = j->slot[!j->next].number; /* the one that was just written */
    j->status.durable = at;
    j->status.durable_at = handed;
    j->status.commits++;
    j->status.bytes += bytes;
}

static void *write_commits(void *arg)
{
    struct journal *j = arg;

    pthread_mutex_lock(&j->lock);
    for (;;) {
        struct err failed = {0};
        struct timespec begin;
        enum pawl_status st;

        while (!j->status.busy && !j->stop) pthread_cond_wait(&j->wake, &j->lock);
        if (!j->status.busy) break;
        pthread_mutex_unlock(&j->lock);
        begin = time_now();
        st = j->with_data ? write_commit(j, j->at, j->part, j->parts, j->state, &failed) : write_lines(j, &failed);
        pthread_mutex_lock(&j->lock);
        note(j, st, &failed);
        if (j->with_data) note_commit(j, st, j->at, j->handed, seconds_between(begin, time_now()), bytes_of(j->part, j->parts, j->state));
        free(j->state);
        j->state = NULL;
        j->status.busy = false;
        pthread_cond_broadcast(&j->idle);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* Chooses the two files: keep is not the next one. What a failure of an earlier process left besides goes. */
static enum pawl_status choose_slots(struct journal *j, const char *keep, struct err *err)
{
    const char *kept_name = keep ? strrchr(keep, '/') : NULL;
    int kept = kept_name ? slot_number(kept_name + 1) : -1, other = -1;
    char **names;
    size_t n;
    enum pawl_status st = dir_list(&names, &n, j->dir, err);

    if (st != PAWL_OK) return st;
    for (size_t i = 0; i < n; i++) {
        int k = slot_number(names[i]);

        if (k < 0) continue;
        j->last_number = k > j->last_number ? k : j->last_number;
        if (k == kept) continue;
        if (other < 0) {
            other = k;
        } else if (kept >= 0) {
            char *path = slot_path(j, k);
            file_remove_tree(j->sys, path, NULL);
            free(path);
        } else {
            kept = k;
        }
    }
    dir_list_free(names, n);
    if (other < 0) other = kept == 0 ? 1 : 0;
    if (kept < 0) kept = other == 0 ? 1 : 0;
    j->slot[0] = (struct slot){other, -1};
    j->slot[1] = (struct slot){kept, -1};
    if (j->last_number < 1) j->last_number = 1;
    return PAWL_OK;
}

enum pawl_status journal_open(struct journal **out, const struct fsys *sys, const char *dir, const char *keep, struct jsonl *text, void *staging, size_t capacity,
                              struct err *err)
{
    struct journal *j = xcalloc(1, sizeof *j);
    pthread_condattr_t monotonic;
    enum pawl_status st;

    *j = (struct journal){.sys = sys, .dir = xstrdup(dir), .text = text, .staging = staging, .capacity = capacity, .slot = {{0, -1}, {1, -1}}, .durable = -1, .held = -1};
    j->status.durable.step = -1;
    if ((st = dir_make(sys, dir, err)) != PAWL_OK || (st = choose_slots(j, keep, err)) != PAWL_OK) goto failed;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->wake, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&j->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if ((errno = pthread_create(&j->thread, NULL, write_commits, j)) != 0) {
        st = err_sys(err, "the journal's thread cannot be started");
        goto failed;
    }
    *out = j;
    return PAWL_OK;
failed:
    free(j->dir);
    free(j);
    return st;
}

void journal_close(struct journal *j)
{
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    j->stop = true;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL); /* it finishes what is under way first */
    for (int i = 0; i < 2; i++)
        if (j->slot[i].fd >= 0) j->sys->close(j->slot[i].fd);
    pthread_cond_destroy(&j->wake);
    pthread_cond_destroy(&j->idle);
    pthread_mutex_destroy(&j->lock);
    buf_free(&j->lines);
    buf_free(&j->unwritten);
    free(j->dir);
    free(j);
}

void journal_line(struct journal *j, const char *line, size_t len)
{
    pthread_mutex_lock(&j->lock);
    buf_add(&j->lines, line, len);
    buf_addc(&j->lines, '\n');
    pthread_mutex_unlock(&j->lock);
}

void *journal_begin(struct journal *j)
{
    void *staging;

    pthread_mutex_lock(&j->lock);
    staging = j->status.busy ? NULL : j->staging;
    pthread_mutex_unlock(&j->lock);
    return staging;
}

/* With the lock held, and the thread idle. */
static void begin_work(struct journal *j, bool with_data)
{
    j->with_data = with_data;
    j->status.busy = true;
    pthread_cond_signal(&j->wake);
}

void journal_commit(struct journal *j, struct journal_at at, const struct journal_part *parts, int n, const char *state)
{
    pthread_mutex_lock(&j->lock);
    assert(!j->status.busy && n <= JOURNAL_PARTS);
    j->at = at;
    memcpy(j->part, parts, (size_t)n * sizeof *parts);
    j->parts = n;
    j->state = xstrdup(state);
    j->handed = time_now();
    begin_work(j, true);
    pthread_mutex_unlock(&j->lock);
}

void journal_flush(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    if (!j->status.busy) begin_work(j, false);
    pthread_mutex_unlock(&j->lock);
}

/* With the lock held. */
static bool wait_idle(struct journal *j, const struct timespec *until)
{
    while (j->status.busy) {
        if (!until) pthread_cond_wait(&j->idle, &j->lock);
        else if (pthread_cond_timedwait(&j->idle, &j->lock, until) == ETIMEDOUT) break;
    }
    return !j->status.busy;
}

bool journal_wait(struct journal *j, double seconds)
{
    struct timespec until = time_now();
    bool is_idle;

    if (seconds < 0) seconds = 0;
    if (seconds > 1e9) seconds = 1e9;
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&j->lock);
    is_idle = wait_idle(j, &until);
    pthread_mutex_unlock(&j->lock);
    return is_idle;
}

enum pawl_status journal_commit_now(struct journal *j, struct journal_at at, const struct journal_part *parts, int n, const char *state, struct err *err)
{
    struct timespec begin;
    struct err failed = {0};
    enum pawl_status st;

    /* The thread stays idle: only the caller gives it work. */
    pthread_mutex_lock(&j->lock);
    wait_idle(j, NULL);
    pthread_mutex_unlock(&j->lock);
    begin = time_now();
    st = write_commit(j, at, parts, n, state, &failed);
    pthread_mutex_lock(&j->lock);
    note(j, st, &failed);
    note_commit(j, st, at, begin, seconds_between(begin, time_now()), bytes_of(parts, n, state));
    pthread_mutex_unlock(&j->lock);
    if (st != PAWL_OK && err) *err = failed;
    return st;
}

struct journal_status journal_status(struct journal *j)
{
    struct journal_status s;

    pthread_mutex_lock(&j->lock);
    s = j->status;
    /* unwritten is the thread's while it is busy; what it is writing then counts as waiting. */
    s.waiting = j->lines.len + (s.busy ? 1 : j->unwritten.len);
    pthread_mutex_unlock(&j->lock);
    return s;
}

bool journal_hold(struct journal *j, char **path, struct journal_at *at, struct timespec *handed)
{
    bool is_there;

    pthread_mutex_lock(&j->lock);
    assert(j->held < 0);
    if ((is_there = j->durable >= 0)) {
        j->held = j->durable;
        j->replaced = false;
        *path = slot_path(j, j->held);
        *at = j->status.durable;
        *handed = j->status.durable_at;
    }
    pthread_mutex_unlock(&j->lock);
    return is_there;
}

void journal_release(struct journal *j)
{
    char *path = NULL;

    pthread_mutex_lock(&j->lock);
    if (j->held >= 0 && j->replaced) path = slot_path(j, j->held);
    j->held = -1;
    pthread_mutex_unlock(&j->lock);
    if (path) file_remove_tree(j->sys, path, NULL);
    free(path);
}
