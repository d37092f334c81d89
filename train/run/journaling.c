#include "train/run/journaling.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/record.h"
#include "train/run/resume.h"
#include "train/run/state.h"

#include <stdlib.h>
#include <string.h>

/* A commit that failed is tried again with the next step, at most so often. */
#define RETRY_SECONDS 2.0
/* What a commit may leave of a step's time before it counts as slower than the steps. */
#define SLOW_SKIPS 3

struct journaling {
    struct journal *journal;
    bool on;
    struct journal_at begin; /* where the process began: durable already */
    double at_risk;          /* seconds of work that may be lost; 0: every step */
    struct timespec handed;  /* when the last state was handed over */
    struct timespec tried;
    int64_t skipped, handed_over; /* steps in a row that found the writer busy; commits */
    bool said_slow;
    int64_t failures;        /* of the writer, as last seen */
    struct {
        bool waits;          /* for the device, which still copies it into the staging buffer */
        struct journal_at at;
        char *state;
    } next;
};

size_t journaling_bytes(const struct config *c, int64_t n)
{
    return c->journal < 0 ? 0 : (size_t)n * 3 * sizeof(float);
}

enum pawl_status journaling_open(struct journaling **out, struct trainer *t, const char *keep, struct err *err)
{
    struct journaling *j = xcalloc(1, sizeof *j);
    char *dir = xasprintf("%s/" JOURNAL_DIR, store_dir(t->store));
    enum pawl_status st;

    j->on = t->cfg->journal >= 0;
    j->at_risk = t->cfg->journal;
    j->handed = time_now();
    j->begin = (struct journal_at){store_generation(t->store), t->resumed_from ? t->at.step : -1, t->at.row};
    st = journal_open(&j->journal, store_sys(t->store), dir, keep, t->metrics, t->staging, journaling_bytes(t->cfg, t->lora.n), err);
    if (st == PAWL_OK) *out = j;
    else free(j);
    free(dir);
    return st;
}

void journaling_close(struct journaling *j)
{
    if (!j) return;
    journal_close(j->journal);
    free(j->next.state);
    free(j);
}

struct journal *journaling_journal(const struct trainer *t)
{
    return t->journaling->journal;
}

struct journal_status journaling_status(const struct trainer *t)
{
    return t->journaling ? journal_status(t->journaling->journal) : (struct journal_status){.durable.step = -1};
}

void journaling_line(struct trainer *t, const char *line, size_t len)
{
    journal_line(t->journaling->journal, line, len);
    t->at.metrics_offset += (int64_t)len + 1;
}

static struct journal_at here(const struct trainer *t)
{
    return (struct journal_at){store_generation(t->store), t->at.step, t->at.row};
}

/* What the writer has done since it was last asked. */
static void follow(struct trainer *t, struct journal_status s)
{
    struct journaling *j = t->journaling;

    if (s.durable.step > t->durable_step) t->durable_step = s.durable.step;
    if (s.seconds > 0) t->seconds_a_commit = s.seconds;
    if (s.failures && !j->failures) {
        struct buf fields = {0};

        log_warn("the journal can't be written, training goes on and it is tried again: %s", s.failed.text);
        buf_adds(&fields, ",\"what\":\"journal\",\"why\":");
        json_add_string(&fields, s.failed.text, strlen(s.failed.text));
        record_event(t, "warning", fields.data);
        buf_free(&fields);
    } else if (!s.failures && j->failures) {
        log_info("the journal is written again: step %lld is durable", (long long)t->durable_step);
    }
    j->failures = s.failures;
}

/* The staging buffer holds the state: it is the writer's from here on. */
static void commit(struct trainer *t, struct journal_at at, const char *state)
{
    struct journaling *j = t->journaling;
    size_t bytes = (size_t)t->lora.n * sizeof *t->theta;
    struct journal_part staged[3];

    for (int i = 0; i < 3; i++) staged[i] = (struct journal_part){(char *)t->staging + (size_t)i * bytes, bytes};
    journal_commit(j->journal, at, staged, 3, state);
    j->handed = j->tried = time_now();
    j->handed_over++;
}

void journaling_copied(struct trainer *t)
{
    struct journaling *j = t->journaling;
    struct err failed;

    if (!j || !j->next.waits) return;
    dev_copied_out(t->dev);
    j->next.waits = false;
    if (dev_check(t->dev, &failed) == PAWL_OK) commit(t, j->next.at, j->next.state); /* else the next step says so */
    free(j->next.state);
    j->next.state = NULL;
}

bool journaling_due(struct trainer *t)
{
    struct journaling *j = t->journaling;
    struct journal_status s;
    bool due;

    journaling_copied(t);
    if (!j->on) return false;
    s = journal_status(j->journal);
    follow(t, s);
    if (s.failures && seconds_between(j->tried, time_now()) < RETRY_SECONDS) return false;
    /* The next chance comes one step later: by then no more than at_risk seconds may have passed. */
    due = j->at_risk <= 0 || seconds_between(j->handed, time_now()) + t->seconds_a_step >= j->at_risk;
    if (due && s.busy) {
        j->skipped++;
        if (j->skipped >= SLOW_SKIPS * (j->handed_over + 1) && !j->said_slow && s.seconds > t->seconds_a_step) {
            j->said_slow = true;
            log_info("the disk takes %.3f s a commit, a step takes %.3f s: about every %.0fth step is made durable", s.seconds, t->seconds_a_step,
                     1 + s.seconds / t->seconds_a_step);
        }
    }
    return due && !s.busy;
}

void journaling_step(struct trainer *t, bool due)
{
    struct journaling *j = t->journaling;
    size_t bytes = (size_t)t->lora.n * sizeof *t->theta;
    const float *from[] = {t->theta, t->m, t->v}; /* of one rank; of several, the whole is collected where it is needed */
    struct buf state = {0};
    struct err failed;
    char *staging = due ? journal_begin(j->journal) : NULL;
    bool waits = false;

    if (!staging) {
        if (!j->on) journal_flush(j->journal);
        return;
    }
    for (int i = 0; i < 3 && t->share.size == 1; i++) waits |= dev_copy_out(t->dev, staging + (size_t)i * bytes, from[i], bytes);
    if (dev_check(t->dev, &failed) != PAWL_OK) return; /* the next step says so */
    state_add(t, true, &state);
    if (waits) {
        j->next.waits = true, j->next.at = here(t), j->next.state = state.data;
        return;
    }
    commit(t, here(t), state.data);
    buf_free(&state);
}

bool journaling_idle(struct trainer *t, double seconds)
{
    bool idle;

    journaling_copied(t);
    idle = journal_wait(t->journaling->journal, seconds);
    follow(t, journal_status(t->journaling->journal));
    return idle;
}

enum pawl_status journaling_lines(struct trainer *t, struct err *err)
{
    struct journal *j = t->journaling->journal;
    struct journal_status s;

    journaling_copied(t);
    journal_wait(j, 1e9);
    journal_flush(j);
    journal_wait(j, 1e9);
    s = journal_status(j);
    follow(t, s);
    if (!s.waiting) return PAWL_OK;
    if (err) *err = s.failed;
    return s.failed.status;
}

bool journaling_now(struct trainer *t, double seconds)
{
    struct journaling *j = t->journaling;
    struct journal_part parts[JOURNAL_PARTS];
    const float *from[JOURNAL_PARTS] = {t->whole[0], t->whole[1], t->whole[2]};
    size_t bytes = (size_t)t->lora.n * sizeof **from;
    struct buf state = {0};
    struct journal_status s;
    struct err failed;
    int n = 3;
    bool ok;

    if (journal_order(j->begin, here(t)) == 0) return true;
    if (!j->on) return false;
    journaling_copied(t);
    if (!journal_wait(j->journal, seconds)) return false;
    s = journal_status(j->journal);
    follow(t, s);
    if (journal_order(s.durable, here(t)) == 0) return true;
    if (t->share.size > 1 ? t->whole_step != t->at.step : share_collect(t, &failed) != PAWL_OK) return false; /* the other ranks' slices are not here */
    for (int l = 0; l < t->tree.levels; l++)
        if (t->at.row >> l & 1) from[n++] = dev_fetch(t->dev, &t->arena, t->tree.level[l], bytes);
    if (dev_check(t->dev, &failed) != PAWL_OK) return false;
    for (int i = 0; i < n; i++) parts[i] = (struct journal_part){from[i], bytes};
    state_add(t, true, &state);
    ok = journal_commit_now(j->journal, here(t), parts, n, state.data, &failed) == PAWL_OK;
    buf_free(&state);
    follow(t, journal_status(j->journal));
    return ok;
}
