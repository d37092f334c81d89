#include "train/run/remoting.h"

#include "ckpt/remote.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/checkpoint.h"
#include "train/run/journaling.h"
#include "train/run/record.h"
#include "train/run/restore.h"
#include "train/run/stop.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_BACK_OFF 1.0
#define LONGEST_BACK_OFF 60.0
#define LAST_BACK_OFF 2.0     /* between attempts to upload the end */
#define LAST_ATTEMPTS 5
#define PATIENCE 1e9
#define TICK 0.25             /* how often a thread that waits for something new looks */

#define SLOT_NAME JOURNAL_DIR "/slot"

/* What there is to upload, and when that state was the run's. */
struct newest {
    struct journal_at at; /* generation 0: nothing */
    struct timespec when;
    char *path, *name;    /* of a checkpoint */
};

struct remoting {
    struct remote *remote;
    struct store *store;
    struct journal *journal;
    char *run_dir, *run_id;
    uint64_t generation, seen;   /* this process's; the highest there at start */
    struct journal_at there;     /* the newest state that was found there; generation 0: none */
    struct journal_at begin;     /* where this process began: nothing older is uploaded */
    double asked;                /* seconds that may be at risk */
    struct remote_source *heavy; /* base and tokens: uploaded once */
    size_t n_heavy;
    bool claimed, running;

    pthread_t thread;
    pthread_mutex_t lock;        /* of all below */
    pthread_cond_t wake, over;
    struct newest saved;         /* the newest checkpoint */
    char *best, *in_use;
    bool hurry, final, urgent, ended;
    struct timespec until;       /* when final and urgent */
    struct status {
        struct journal_at at;    /* of the newest state that is there; generation 0: none of this process */
        struct timespec baseline; /* when that state was the run's: later work is at risk */
        int64_t published, failures; /* failures in a row */
        struct timespec next_try;
        struct err failed;
        bool taken_over;
        uint64_t bytes;
        double seconds, usual, at_risk; /* of the last upload; what one is expected to take; the work at risk when it was done */
    } status;

    struct status last;          /* the training thread's: as it last looked */
    bool said_slow;
};

static struct timespec later(struct timespec t, double seconds)
{
    double whole = floor(seconds);

    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

/* --- what goes into a state */

struct gathering {
    struct remote_source *files;
    size_t n;
};

static struct remote_source *add_source(struct gathering *g, char *name, char *path)
{
    g->files = xreallocarray(g->files, g->n + 1, sizeof *g->files);
    g->files[g->n] = (struct remote_source){.name = name, .path = path};
    return &g->files[g->n++];
}

static void add_record(struct gathering *g, const struct remoting *u, const char *name, bool grows)
{
    char *path = xasprintf("%s/%s", u->run_dir, name);
    struct remote_source *s;

    if (!file_exists(path)) {
        free(path);
        return;
    }
    s = add_source(g, xstrdup(name), path);
    s->grows = grows;
    s->packs = true;
}

/* Every file of a checkpoint that verifies. */
static enum pawl_status add_checkpoint(struct gathering *g, const char *path, const char *name, struct buf *state, struct err *err)
{
    struct ckpt *c = ckpt_read(path);
    enum pawl_status st;

    ckpt_verify(c, &fsys_real, false);
    if ((st = c->why.status) != PAWL_OK) {
        if (err) *err = c->why;
        goto done;
    }
    for (size_t i = 0; i < c->n_files; i++) add_source(g, xasprintf("%s/%s", name, c->files[i].name), xasprintf("%s/%s", path, c->files[i].name));
    add_source(g, xasprintf("%s/" CKPT_MANIFEST, name), xasprintf("%s/" CKPT_MANIFEST, path));
    if (state) json_add_value(state, c->state);
done:
    ckpt_free(c);
    return st;
}

/* The held slot, read whole and verified. */
static enum pawl_status add_slot(struct gathering *g, const char *path, struct buf *state, struct err *err)
{
    struct journal_slots s;
    enum pawl_status st = journal_read_one(&s, path, err);

    if (st != PAWL_OK) return st;
    if ((st = s.items[0].why.status) == PAWL_OK) {
        add_source(g, xstrdup(SLOT_NAME), xstrdup(path));
        json_add_value(state, s.items[0].state);
    } else if (err) {
        *err = s.items[0].why;
    }
    journal_slots_free(&s);
    return st;
}

static void gathering_free(struct gathering *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->files[i].name), free(g->files[i].path);
    free(g->files);
}

/* --- one upload, by the thread */

struct upload {
    struct newest slot, ckpt; /* path of slot: held until release */
    char *best;
    bool heavy;
};

static void newest_free(struct newest *n)
{
    free(n->path);
    free(n->name);
    *n = (struct newest){0};
}

/* What is newest now, pinned: neither the slot nor the checkpoint goes away while it is uploaded. */
static struct upload pin(struct remoting *u)
{
    struct upload up = {0};

    if (journal_hold(u->journal, &up.slot.path, &up.slot.at, &up.slot.when)) up.slot.name = xstrdup(SLOT_NAME);
    pthread_mutex_lock(&u->lock);
    if (u->saved.at.generation) {
        up.ckpt = u->saved;
        up.ckpt.path = xstrdup(u->saved.path);
        up.ckpt.name = xstrdup(u->saved.name);
    }
    if (u->best && !(up.ckpt.name && !strcmp(u->best, up.ckpt.name))) up.best = xstrdup(u->best);
    up.heavy = u->status.published > 0 || (u->final && !u->urgent);
    free(u->in_use);
    u->in_use = up.ckpt.name ? xstrdup(up.ckpt.name) : NULL;
    /* With no time to lose only what the run goes on from is uploaded. */
    if (u->urgent) {
        free(up.best);
        up.best = NULL;
        if (journal_order(up.slot.at, up.ckpt.at) > 0) newest_free(&up.ckpt);
    }
    pthread_mutex_unlock(&u->lock);
    return up;
}

static void unpin(struct remoting *u, struct upload *up)
{
    if (up->slot.name) journal_release(u->journal);
    newest_free(&up->slot);
    newest_free(&up->ckpt);
    free(up->best);
    pthread_mutex_lock(&u->lock);
    free(u->in_use);
    u->in_use = NULL;
    pthread_mutex_unlock(&u->lock);
}

static enum pawl_status gather(struct gathering *g, struct buf *state, const struct remoting *u, const struct upload *up, bool slot_is_head, struct err *err)
{
    enum pawl_status st = PAWL_OK;

    if (slot_is_head) st = add_slot(g, up->slot.path, state, err);
    if (st == PAWL_OK && up->ckpt.name) st = add_checkpoint(g, up->ckpt.path, up->ckpt.name, slot_is_head ? NULL : state, err);
    if (st == PAWL_OK && up->best) {
        char *path = xasprintf("%s/%s", u->run_dir, up->best);

        if (file_exists(path)) st = add_checkpoint(g, path, up->best, NULL, err);
        free(path);
    }
    add_record(g, u, "metrics.jsonl", true);
    add_record(g, u, "events.jsonl", true);
    add_record(g, u, CONFIG_FILE, false);
    for (size_t i = 0; i < u->n_heavy && up->heavy; i++) {
        struct remote_source *s = add_source(g, xstrdup(u->heavy[i].name), xstrdup(u->heavy[i].path));

        s->stays = true;
        s->packs = u->heavy[i].packs;
    }
    return st;
}

/* *at is what was uploaded; its generation is 0 where there was nothing. */
static enum pawl_status upload_pinned(struct remoting *u, const struct upload *up, struct newest *head, struct remote_published *done, struct err *err)
{
    bool slot_is_head = up->slot.name && journal_order(up->slot.at, up->ckpt.at) > 0;
    char *scratch = file_tmp_name(u->run_dir, "remote");
    struct gathering g = {0};
    struct buf state = {0};
    enum pawl_status st = PAWL_OK;

    *head = slot_is_head ? up->slot : up->ckpt;
    if (!head->at.generation || journal_order(head->at, u->begin) < 0) {
        head->at.generation = 0;
        goto done;
    }
    if (!u->claimed && (st = remote_claim(u->remote, u->run_id, u->generation, scratch, err)) != PAWL_OK) goto done;
    u->claimed = true;
    if ((st = gather(&g, &state, u, up, slot_is_head, err)) == PAWL_OK)
        st = remote_publish(u->remote, head->at, slot_is_head ? SLOT_NAME : up->ckpt.name, state.data, g.files, g.n, scratch, done, err);
done:
    gathering_free(&g);
    buf_free(&state);
    free(scratch);
    return st;
}

static void note(struct remoting *u, enum pawl_status st, const struct newest *head, const struct remote_published *done, bool heavy, const struct err *failed)
{
    struct status *s = &u->status;
    struct timespec now = time_now();

    if (st != PAWL_OK) {
        double wait = FIRST_BACK_OFF;

        for (int64_t i = 0; i < s->failures && wait < LONGEST_BACK_OFF; i++) wait *= 2;
        s->failures++;
        s->failed = *failed;
        s->taken_over = st == PAWL_ELOCKED;
        s->next_try = later(now, u->final ? LAST_BACK_OFF : wait < LONGEST_BACK_OFF ? wait : LONGEST_BACK_OFF);
        return;
    }
    s->failures = 0;
    if (!head->at.generation) return;
    s->at_risk = seconds_between(s->baseline, now);
    s->at = head->at;
    s->baseline = head->when;
    s->published++;
    s->bytes = done->bytes;
    s->seconds = done->seconds;
    /* Base and tokens come once: they say nothing about the next upload. */
    if (!heavy || s->published > 2 || !u->n_heavy) s->usual = done->seconds > 0.7 * s->usual ? done->seconds : 0.7 * s->usual;
}

static enum pawl_status upload_once(struct remoting *u)
{
    struct upload up = pin(u);
    struct remote_published done = {0};
    struct newest head = {0};
    struct err failed = {0};
    enum pawl_status st = upload_pinned(u, &up, &head, &done, &failed);

    pthread_mutex_lock(&u->lock);
    note(u, st, &head, &done, up.heavy, &failed);
    pthread_mutex_unlock(&u->lock);
    unpin(u, &up);
    return st;
}

/* --- when */

/* What is durable on this machine. With the lock held. */
static struct journal_at durable_here(const struct remoting *u)
{
    struct journal_status j = journal_status(u->journal);

    return j.durable.step >= 0 && journal_order(j.durable, u->saved.at) > 0 ? j.durable : u->saved.at;
}

static bool something_new(const struct remoting *u)
{
    struct journal_at here = durable_here(u);

    return here.generation && journal_order(here, u->begin) >= 0 && journal_order(here, u->status.at) > 0;
}

/* Seconds until the next upload has to begin so that it ends before more than what was asked is at risk. */
static double until_due(const struct remoting *u)
{
    const struct status *s = &u->status;

    if (!s->published) return 0;
    return u->asked - 1.5 * s->usual - TICK - seconds_between(s->baseline, time_now());
}

/* Seconds to wait before the next attempt; at most 0: now. With the lock held. */
static double seconds_to_wait(struct remoting *u)
{
    double due, back_off = u->status.failures ? seconds_between(time_now(), u->status.next_try) : 0;

    if (u->final || back_off > 0) return back_off;
    if (!something_new(u)) return TICK;
    if (u->hurry) return 0;
    due = until_due(u);
    return due > 0 && due < TICK ? due : due > 0 ? TICK : 0;
}

/* With the lock held: nothing more can be done. */
static bool is_over(const struct remoting *u, bool last, enum pawl_status st)
{
    if (st == PAWL_ELOCKED) return true;
    if (!last) return false;
    return st == PAWL_OK || u->status.failures >= LAST_ATTEMPTS || (u->urgent && seconds_between(u->until, time_now()) >= 0);
}

static void *upload_thread(void *arg)
{
    struct remoting *u = arg;

    pthread_mutex_lock(&u->lock);
    for (;;) {
        double wait = seconds_to_wait(u);
        bool last = u->final;
        enum pawl_status st;

        if (is_over(u, last && u->status.failures, PAWL_EIO)) break;
        if (wait > 0) {
            struct timespec until = later(time_now(), wait);

            pthread_cond_timedwait(&u->wake, &u->lock, &until);
            continue;
        }
        u->hurry = false;
        pthread_mutex_unlock(&u->lock);
        st = upload_once(u);
        pthread_mutex_lock(&u->lock);
        if (is_over(u, last, st)) break;
    }
    u->ended = true;
    pthread_cond_broadcast(&u->over);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* --- beginning */

static struct remoting *make(struct trainer *t, struct remote *r)
{
    struct remoting *u = xcalloc(1, sizeof *u);
    pthread_condattr_t monotonic;

    u->remote = r;
    u->store = t->store;
    u->run_dir = xstrdup(store_dir(t->store));
    u->asked = t->cfg->remote_minutes * 60;
    pthread_mutex_init(&u->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&u->wake, &monotonic);
    pthread_cond_init(&u->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return u;
}

/* Whether this machine has a state of its own, and where that stands. What does not verify here may be there. */
static bool local_state(const struct trainer *t, struct journal_at *at)
{
    struct resume r;
    struct err err;
    bool is_here = resume_find(&r, store_dir(t->store), &err) == PAWL_OK && r.state;

    *at = r.at;
    resume_free(&r);
    return is_here;
}

/* Claims above the newest state are starts that ended before anything was uploaded: where each is on a new machine, nothing but them shows a restart loop. */
static enum pawl_status check_starts(const struct trainer *t, const struct remote_index *x, struct err *err)
{
    uint64_t uploaded = 0;
    int64_t starts = 0;

    for (size_t i = 0; i < x->n; i++)
        if (!x->items[i].claim && x->items[i].at.generation > uploaded) uploaded = x->items[i].at.generation;
    for (size_t i = 0; i < x->n; i++) starts += x->items[i].claim && x->items[i].at.generation > uploaded;
    if (starts < t->cfg->max_fruitless_starts) return PAWL_OK;
    return err_set(err, PAWL_EINVAL, "%s: %lld starts in a row ended before anything new was uploaded: see why in their logs, then raise max_fruitless_starts, or begin anew with --fresh",
                   t->cfg->remote, (long long)starts);
}

static enum pawl_status take_up(struct trainer *t, const struct remote_index *x, bool is_here, const struct journal_at *here, struct err *err)
{
    struct remoting *u = t->remoting;
    struct remote_state *s = NULL;
    bool taken;
    enum pawl_status st;

    u->seen = x->generation;
    if (t->opt.fresh) return PAWL_OK;
    if (!is_here && (st = check_starts(t, x, err)) != PAWL_OK) return st;
    if ((st = restore_newest(&s, &taken, t->store, u->remote, x, is_here ? here : NULL, err)) != PAWL_OK) return st;
    if (taken) log_info("%s: step %lld was taken from there", t->cfg->remote, (long long)s->at.step);
    if (s) {
        u->there = s->at;
        remote_build_on(u->remote, s);
    }
    return PAWL_OK;
}

enum pawl_status remoting_open(struct trainer *t, struct err *err)
{
    struct remote *r;
    struct remote_index x = {0};
    struct journal_at here;
    struct err failed;
    bool is_here;
    enum pawl_status st;

    if (!t->cfg->remote) return PAWL_OK;
    if ((st = remote_open(&r, t->cfg->remote, NULL, err)) != PAWL_OK) return err_prefix(err, "remote");
    t->remoting = make(t, r);
    is_here = local_state(t, &here);
    st = remote_look(r, &x, err);
    if (st == PAWL_EIO && (is_here || t->opt.fresh)) {
        log_warn("the remote does not answer, training goes on and it is tried again: %s", err->text);
        return PAWL_OK;
    }
    if (st == PAWL_EIO) {
        failed = *err;
        return err_set(err, PAWL_EIO, "remote: %.1500s: whether a run is there that should be gone on with is not known: start again when it answers, or begin anew with --fresh", failed.text);
    }
    if (st == PAWL_OK) st = take_up(t, &x, is_here, &here, err);
    else err_prefix(err, "remote");
    remote_index_free(&x);
    return st;
}

uint64_t remoting_generation(const struct trainer *t)
{
    return t->remoting ? t->remoting->seen : 0;
}

bool remoting_behind(const struct trainer *t, const struct resume *r)
{
    return t->remoting && (!t->remoting->there.generation || journal_order(t->remoting->there, r->at) < 0);
}

static void add_heavy(struct remoting *u, char *name, char *path, bool packs)
{
    u->heavy = xreallocarray(u->heavy, u->n_heavy + 1, sizeof *u->heavy);
    u->heavy[u->n_heavy++] = (struct remote_source){.name = name, .path = path, .stays = true, .packs = packs};
}

static void add_tokens(struct remoting *u, const struct dataset *d, const char *which)
{
    for (size_t i = 0; d && i < dataset_parts(d); i++) {
        const char *path = dataset_tokens_file(d, i);

        if (path) add_heavy(u, xasprintf(TOKENS_DIR "/%s-%zu.tokens", which, i), xstrdup(path), true);
        else log_warn("remote: the token cache is off: this run's data does not travel, a bare machine needs the files themselves");
    }
}

/* The files of a model directory that a program needs to load it. */
static bool is_model_file(const char *name)
{
    static const char *const ends[] = {".json", ".safetensors", ".jinja", ".model", ".txt"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);

        if (strlen(name) > n && name[0] != '.' && !strcmp(name + strlen(name) - n, ends[i])) return true;
    }
    return false;
}

static void add_base(struct remoting *u, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat info;
    char **names;
    size_t n;

    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        add_heavy(u, xasprintf(BASE_DIR "/%s", slash ? slash + 1 : path), xstrdup(path), false);
        return;
    }
    if (dir_list(&names, &n, path, NULL) != PAWL_OK) return;
    for (size_t i = 0; i < n; i++)
        if (is_model_file(names[i])) add_heavy(u, xasprintf(BASE_DIR "/%s", names[i]), xasprintf("%s/%s", path, names[i]), false);
    dir_list_free(names, n);
}

enum pawl_status remoting_start(struct trainer *t, const struct resume *r, struct err *err)
{
    struct remoting *u = t->remoting;
    char *scratch;
    enum pawl_status st;

    if (!u) return PAWL_OK;
    u->journal = journaling_journal(t);
    u->run_id = xstrdup(store_run_id(t->store));
    u->generation = store_generation(t->store);
    u->begin = r->at;
    u->best = t->best ? xstrdup(t->best) : NULL;
    u->status.baseline = time_now();
    add_tokens(u, t->data, "train");
    if (t->cfg->ntest_datasets) add_tokens(u, t->held_out, "test");
    if (t->cfg->remote_base) add_base(u, t->model->path);
    if (r->ckpt) u->saved = (struct newest){{r->ckpt->generation, r->ckpt->step, 0}, u->status.baseline, xstrdup(r->ckpt->path), xstrdup(r->ckpt->name)};
    scratch = file_tmp_name(u->run_dir, "claim");
    st = remote_claim(u->remote, u->run_id, u->generation, scratch, err);
    free(scratch);
    if (st == PAWL_ELOCKED) return st;
    u->claimed = st == PAWL_OK;
    if ((errno = pthread_create(&u->thread, NULL, upload_thread, u)) != 0) return err_sys(err, "the remote's thread cannot be started");
    u->running = true;
    return PAWL_OK;
}

void remoting_close(struct remoting *u)
{
    if (!u) return;
    if (u->running) {
        pthread_mutex_lock(&u->lock);
        u->final = u->urgent = true;
        u->until = time_now();
        remote_limit(u->remote, 0);
        pthread_cond_signal(&u->wake);
        pthread_mutex_unlock(&u->lock);
        pthread_join(u->thread, NULL);
    }
    pthread_cond_destroy(&u->wake);
    pthread_cond_destroy(&u->over);
    pthread_mutex_destroy(&u->lock);
    remote_close(u->remote);
    newest_free(&u->saved);
    for (size_t i = 0; i < u->n_heavy; i++) free(u->heavy[i].name), free(u->heavy[i].path);
    free(u->heavy);
    free(u->best);
    free(u->in_use);
    free(u->run_dir);
    free(u->run_id);
    free(u);
}

/* --- between steps */

static void record_upload(struct trainer *t, const struct status *s)
{
    struct buf b = {0};

    buf_addf(&b, ",\"remote_step\":%lld,\"row\":%lld,\"seconds\":%.3f,\"bytes\":%llu,\"asked_seconds\":%g,\"at_risk_seconds\":%.3f", (long long)s->at.step, (long long)s->at.row, s->seconds,
             (unsigned long long)s->bytes, t->remoting->asked, s->at_risk);
    record_event(t, "remote", b.data);
    buf_free(&b);
}

static void record_failure(struct trainer *t, const char *why)
{
    struct buf b = {0};

    buf_adds(&b, ",\"what\":\"remote\",\"why\":");
    json_add_string(&b, why, strlen(why));
    record_event(t, "warning", b.data);
    buf_free(&b);
}

static void say_if_slow(struct remoting *u, const struct status *s)
{
    if (u->said_slow || 2 * s->usual <= u->asked) return;
    u->said_slow = true;
    log_info("remote: an upload takes %.1f s: about %.0f s of work are at risk, more than the %.0f s of remote_minutes", s->usual, 2 * s->usual, u->asked);
}

/* What the thread has done since it was last asked. */
static struct status follow(struct trainer *t)
{
    struct remoting *u = t->remoting;
    struct status s;

    pthread_mutex_lock(&u->lock);
    s = u->status;
    pthread_mutex_unlock(&u->lock);
    if (s.failures && !u->last.failures && !s.taken_over) {
        log_warn("the remote can't be written, training goes on and it is tried again: %s", s.failed.text);
        record_failure(t, s.failed.text);
    }
    if (!s.failures && u->last.failures && s.published > u->last.published) log_info("the remote is written again: step %lld is there", (long long)s.at.step);
    if (s.published > u->last.published) {
        record_upload(t, &s);
        say_if_slow(u, &s);
    }
    /* A failure that was mended before anybody looked is none; one that was said waits for the upload that mends it. */
    if (!s.failures && s.published == u->last.published) s.failures = u->last.failures;
    u->last = s;
    return s;
}

enum pawl_status remoting_step(struct trainer *t, struct err *err)
{
    struct status s;

    if (!t->remoting) return PAWL_OK;
    s = follow(t);
    if (!s.taken_over) return PAWL_OK;
    if (err) *err = s.failed;
    return s.failed.status;
}

void remoting_saved(struct trainer *t)
{
    struct remoting *u = t->remoting;

    if (!u) return;
    pthread_mutex_lock(&u->lock);
    newest_free(&u->saved);
    u->saved.at = (struct journal_at){store_generation(t->store), t->at.step, 0};
    u->saved.when = time_now();
    u->saved.name = xasprintf(CKPT_PREFIX "%lld", (long long)t->at.step);
    u->saved.path = xasprintf("%s/%s", u->run_dir, u->saved.name);
    free(u->best);
    u->best = t->best ? xstrdup(t->best) : NULL;
    pthread_mutex_unlock(&u->lock);
}

char *remoting_in_use(const struct trainer *t)
{
    struct remoting *u = t->remoting;
    char *name = NULL;

    if (!u) return NULL;
    pthread_mutex_lock(&u->lock);
    if (u->in_use) name = xstrdup(u->in_use);
    pthread_mutex_unlock(&u->lock);
    return name;
}

bool remoting_save_asked(const struct trainer *t)
{
    struct remoting *u = t->remoting;
    bool asked;

    if (!u || t->cfg->journal == 0) return false; /* every step is durable by itself */
    pthread_mutex_lock(&u->lock);
    asked = !u->status.failures && !something_new(u) && t->at.step > u->status.at.step && until_due(u) <= t->seconds_a_save + t->seconds_a_step;
    pthread_mutex_unlock(&u->lock);
    return asked;
}

void remoting_hurry(struct trainer *t)
{
    struct remoting *u = t->remoting;

    if (!u) return;
    pthread_mutex_lock(&u->lock);
    u->hurry = true;
    pthread_cond_signal(&u->wake);
    pthread_mutex_unlock(&u->lock);
}

void remoting_progress(const struct trainer *t, struct buf *out)
{
    const struct remoting *u = t->remoting;

    if (!u) return;
    buf_addf(out, "  remote step %lld, %.0f of %.0f s at risk", (long long)u->last.at.step, seconds_between(u->last.published ? u->last.baseline : u->status.baseline, time_now()),
             u->asked);
}

double remoting_seconds(const struct trainer *t)
{
    return t->remoting ? t->remoting->last.usual : 0;
}

/* --- the end */

/* A notice that comes while the end is being uploaded shortens the time. With the lock held. */
static void heed_notice(struct remoting *u)
{
    double left = stop_seconds_left();

    if (!stop_requested() || (u->urgent && seconds_between(u->until, time_now()) + left >= 0)) return;
    u->urgent = true;
    u->until = later(time_now(), left);
    remote_limit(u->remote, left > 0 ? left : 0);
}

enum pawl_status remoting_end(struct trainer *t, double seconds, struct err *err)
{
    struct remoting *u = t->remoting;
    struct journal_at here;
    struct status s;

    if (!u || !u->running) return PAWL_OK;
    pthread_mutex_lock(&u->lock);
    u->final = true;
    u->urgent = seconds >= 0;
    if (u->urgent) {
        u->until = later(time_now(), seconds);
        remote_limit(u->remote, seconds);
    }
    u->status.failures = 0;
    pthread_cond_signal(&u->wake);
    while (!u->ended) {
        struct timespec tick = later(time_now(), TICK);

        pthread_cond_timedwait(&u->over, &u->lock, &tick);
        heed_notice(u);
    }
    here = durable_here(u);
    pthread_mutex_unlock(&u->lock);
    s = follow(t);
    if (s.taken_over) {
        if (err) *err = s.failed;
        return PAWL_ELOCKED;
    }
    if (!here.generation || journal_order(here, u->begin) < 0 || journal_order(s.at, here) >= 0) {
        if (s.published) log_info("remote: step %lld is there", (long long)s.at.step);
        return PAWL_OK;
    }
    return err_set(err, PAWL_EIO, "the remote has step %lld, not step %lld: %.1500s", (long long)s.at.step, (long long)here.step, s.failed.text[0] ? s.failed.text : "the time was up");
}
