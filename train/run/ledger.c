#include "train/run/ledger.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/journaling.h"
#include "train/run/prices.h"
#include "train/run/memory.h"
#include "train/run/record.h"
#include "train/run/spot.h"
#include "train/run/state.h"
#include "train/run/stop.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTS_FILE "starts.json"

extern char **environ;

struct ledger {
    double before_us;           /* seconds of this process before ledger_open */
    struct timespec begin;
    bool stepped, priced;
    double verify, load, replay;
    double base_seconds, base_cost, price; /* of earlier processes; price an hour, 0: unknown */
    char *cause;                /* why the last process ended; NULL: there was none */
    int64_t lost_steps;
    double lost_seconds;
};

/* Seconds since this process was made: field 22 of /proc/self/stat, in ticks since the system's start. */
static double process_seconds(void)
{
    FILE *f = fopen("/proc/self/stat", "r");
    char line[1024];
    const char *p = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    unsigned long long ticks = 0;
    struct timespec up;

    if (f) fclose(f);
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    if (!p || sscanf(p, "%llu", &ticks) != 1) return 0;
    clock_gettime(CLOCK_BOOTTIME, &up);
    return (double)up.tv_sec + (double)up.tv_nsec * 1e-9 - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* --- restart loops */

static enum pawl_status count_start(struct trainer *t, const struct resume *r, struct err *err)
{
    char *path = xasprintf("%s/" STARTS_FILE, store_dir(t->store));
    struct buf text = {0};
    struct json *json = NULL;
    int64_t step = -1, row = -1, starts = 0;
    enum pawl_status st = PAWL_OK;

    if (file_exists(path) && file_read_all(&text, path, 4096, NULL) == PAWL_OK && json_parse(&json, text.data, text.len, NULL) == PAWL_OK) {
        json_int64(json_get(json_root(json), "step"), &step);
        json_int64(json_get(json_root(json), "row"), &row);
        json_int64(json_get(json_root(json), "starts"), &starts);
    }
    if (step != r->at.step || row != r->at.row || starts < 0) starts = 0;
    if (starts >= t->cfg->max_fruitless_starts) {
        st = err_set(err, PAWL_EINVAL,
                     "%lld starts in a row ended without a new durable step (step %lld): see why in %s/events.jsonl, then remove %s, or raise max_fruitless_starts", (long long)starts,
                     (long long)r->at.step, store_dir(t->store), path);
        goto done;
    }
    text.len = 0;
    buf_addf(&text, "{\"step\": %lld, \"row\": %lld, \"starts\": %lld}\n", (long long)r->at.step, (long long)r->at.row, (long long)starts + 1);
    /* A full disk must not keep anybody from training. */
    if (file_replace(store_sys(t->store), path, text.data, text.len, err) != PAWL_OK) log_warn("this start is not counted: %s", err->text);
done:
    json_free(json);
    buf_free(&text);
    free(path);
    return st;
}

/* --- what the last process left behind */

/* What the events say about the last process. */
struct farewell {
    char *cause;  /* why it ended; NULL: there was none */
    double began; /* seconds since 1970; 0: unknown */
};

static double time_of(const struct json_value *event)
{
    const char *text = json_string(json_get(event, "time"), ""), *rest;
    struct tm tm = {0};

    if (!(rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))) return 0;
    return (double)timegm(&tm) + atof(*rest == '.' ? rest : "0");
}

/* From the last event back to the one by which that process began. */
static struct farewell last_farewell(const char *path)
{
    struct map m;
    struct farewell f = {0};
    const char *end;

    if (map_open(&m, path, NULL) != PAWL_OK) return f;
    end = (const char *)m.data + m.size;
    while (!f.began && m.size && end > (const char *)m.data) {
        const char *line = memrchr(m.data, '\n', (size_t)(end - (const char *)m.data) - 1);
        struct json *json = NULL;
        const char *event;

        line = line ? line + 1 : (const char *)m.data;
        if (json_parse(&json, line, (size_t)(end - line), NULL) == PAWL_OK) {
            const struct json_value *root = json_root(json);
            bool start;

            event = json_string(json_get(root, "event"), "");
            start = !strcmp(event, "start") || !strcmp(event, "resume");
            if (start) f.began = time_of(root);
            if (!f.cause && start) f.cause = xstrdup("killed");
            if (!f.cause && (!strcmp(event, "preempted") || !strcmp(event, "failed"))) f.cause = xstrdup(json_string(json_get(root, "why"), event));
            if (!f.cause && !strcmp(event, "finished")) f.cause = xstrdup(event);
        }
        json_free(json);
        end = line;
    }
    map_close(&m);
    return f;
}

/* What metrics.jsonl holds beyond the state: whole steps, and the time that they took. */
static void count_lost(struct ledger *l, const char *path, int64_t offset)
{
    static const char key[] = "\"step_seconds\":";
    struct map m;

    if (map_open(&m, path, NULL) != PAWL_OK) return;
    for (size_t at = offset > 0 ? (size_t)offset : 0, end; at < m.size; at = end + 1) {
        const char *line = (const char *)m.data + at, *newline = memchr(line, '\n', m.size - at), *seconds;

        if (!newline) break;
        end = (size_t)(newline - (const char *)m.data);
        seconds = memmem(line, end - at, key, strlen(key));
        l->lost_steps++;
        if (seconds) l->lost_seconds += strtod(seconds + strlen(key), NULL);
    }
    map_close(&m);
}

/* Also of the step that was under way, where it is known when somebody last worked here; since is when the state was the run's. */
static void estimate_lost(struct ledger *l, const char *metrics, int64_t offset, double since, double last_alive)
{
    count_lost(l, metrics, offset);
    if (last_alive > 0 && since > 0) l->lost_seconds = last_alive > since ? last_alive - since : 0; /* 0: the clock was set back, or all was durable */
}

enum pawl_status ledger_open(struct ledger **out, struct trainer *t, const struct resume *r, struct err *err)
{
    struct ledger *l;
    char *events = xasprintf("%s/events.jsonl", store_dir(t->store)), *metrics = xasprintf("%s/metrics.jsonl", store_dir(t->store));
    struct farewell last;
    int64_t offset = 0;
    enum pawl_status st = count_start(t, r, err);

    if (st == PAWL_OK) {
        l = xcalloc(1, sizeof *l);
        l->before_us = process_seconds();
        l->begin = time_now();
        last = last_farewell(events);
        l->cause = last.cause;
        json_int64(json_get(r->state, "metrics_offset"), &offset);
        estimate_lost(l, metrics, offset, r->state ? json_number(json_get(r->state, "time"), 0) : last.began, store_last_alive(t->store));
        /* What was lost has been paid for, at what the run cost on average. */
        l->base_seconds = json_number(json_get(r->state, "seconds"), 0);
        l->base_cost = json_number(json_get(r->state, "cost"), 0);
        if (l->base_seconds > 0) l->base_cost *= 1 + l->lost_seconds / l->base_seconds;
        l->base_seconds += l->lost_seconds;
        *out = l;
    }
    free(events);
    free(metrics);
    return st;
}

void ledger_close(struct ledger *l)
{
    if (!l) return;
    free(l->cause);
    free(l);
}

/* --- money */

/* The cloud's answer comes some time after the start. */
static void find_price(struct trainer *t)
{
    struct ledger *l = t->ledger;
    struct buf b = {0};
    bool is_spot = false;
    const char *instance = spot_instance(t->spot, &is_spot);

    if (l->priced || !instance) return;
    l->priced = true;
    l->price = price_an_hour(instance, is_spot);
    buf_addf(&b, ",\"kind\":\"%s\",\"price\":%.4f,\"instance\":", is_spot ? "spot" : "on_demand", l->price);
    json_add_string(&b, instance, strlen(instance));
    record_event(t, "instance", b.data);
    buf_free(&b);
    if (t->cfg->max_cost > 0 && l->price <= 0) log_warn("max_cost: prices.yaml has no %s price of %s: cost is not watched", is_spot ? "spot" : "on-demand", instance);
}

/* --- events */

void ledger_start(struct trainer *t, const struct resume *r)
{
    struct ledger *l = t->ledger;
    struct buf b = {0}, other = {0};

    if (l->cause) {
        buf_adds(&b, ",\"cause\":");
        json_add_string(&b, l->cause, strlen(l->cause));
    }
    if (l->cause || r->state) buf_addf(&b, ",\"lost_steps\":%lld,\"lost_seconds\":%.3f", (long long)l->lost_steps, l->lost_seconds);
    if (l->base_cost > 0) buf_addf(&b, ",\"cost\":%.4f", l->base_cost);
    if (r->state) {
        buf_addf(&b, ",\"row\":%lld", (long long)t->at.row);
        log_info("the last process: %s; lost were %lld whole steps, %.1f s of work", l->cause ? l->cause : "unknown", (long long)l->lost_steps, l->lost_seconds);
        if (state_why_other_bits(t, r->state, &other)) {
            buf_adds(&b, ",\"why_other_bits\":");
            json_add_string(&b, other.data, other.len);
        }
    }
    buf_adds(&b, ",\"memory\":");
    memory_json(t, &b);
    record_start(t, b.data);
    buf_free(&b);
    buf_free(&other);
}

void ledger_loaded(struct trainer *t, const struct resume *r)
{
    t->ledger->verify = r->verify_seconds;
    t->ledger->load = r->load_seconds;
    t->ledger->replay = r->replay_seconds;
}

void ledger_step(struct trainer *t)
{
    struct ledger *l = t->ledger;
    double seconds = seconds_between(l->begin, time_now()) + l->before_us;
    struct buf b = {0};

    find_price(t);
    t->at.seconds = l->base_seconds + seconds;
    t->at.cost = l->base_cost + seconds / 3600 * l->price;
    if (l->stepped) return;
    l->stepped = true;
    if (t->cfg->max_cost > 0 && !l->priced) log_warn("max_cost: no cloud says what this machine is: cost is not watched until one does");
    buf_addf(&b, ",\"seconds\":%.3f,\"verify\":%.3f,\"load\":%.3f,\"replay\":%.3f,\"first_step\":%.3f", seconds, l->verify, l->load, l->replay, t->seconds_a_step);
    if (t->at.cost > 0) buf_addf(&b, ",\"cost\":%.4f", t->at.cost);
    record_event(t, "first_step", b.data);
    buf_free(&b);
}

bool ledger_too_expensive(const struct trainer *t)
{
    return t->cfg->max_cost > 0 && t->at.cost >= t->cfg->max_cost;
}

void ledger_forgive(struct trainer *t)
{
    char *path = xasprintf("%s/" STARTS_FILE, store_dir(t->store));

    store_sys(t->store)->unlink(path);
    free(path);
}

static void run_command(const char *command, const char *event, const char *dir)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    pid_t child;
    int status = 0;

    setenv("PAWL_EVENT", event, 1);
    setenv("PAWL_RUN_DIR", dir, 1);
    if ((errno = posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ)) != 0) {
        log_warn("on_event: %s: %s", command, strerror(errno));
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (status) log_warn("on_event: %s: ended with %s %d", command, WIFEXITED(status) ? "exit code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static const char *ending(enum pawl_status st)
{
    return st == PAWL_OK ? "finished" : st == PAWL_ESTOPPED ? "preempted" : "failed";
}

void ledger_end(struct trainer *t, enum pawl_status st, const struct err *err)
{
    const char *why = st == PAWL_OK ? NULL : st == PAWL_ESTOPPED && t->stopped_by[0] ? t->stopped_by : err->text;
    struct journal_status js = journaling_status(t);
    struct buf b = {0};

    if (st == PAWL_ESTOPPED && stop_requested()) {
        why = stop_reason();
        buf_addf(&b, ",\"lead_seconds\":%.3f,\"left_seconds\":%.3f", stop_lead_seconds(), stop_seconds_left());
    }
    if (why) {
        buf_adds(&b, ",\"why\":");
        json_add_string(&b, why, strlen(why));
    }
    buf_addf(&b, ",\"durable_step\":%lld,\"row\":%lld,\"given_up_rows\":%lld,\"saved\":\"%s\",\"commits\":%lld,\"journal_bytes\":%llu,\"seconds\":%.1f", (long long)t->durable_step, (long long)t->at.row, (long long)t->given_up,
             t->saved_step == t->at.step && !t->at.row ? "checkpoint" : js.durable.step == t->at.step && js.durable.row == t->at.row ? "journal" : "nothing new",
             (long long)js.commits, (unsigned long long)js.bytes, t->at.seconds);
    if (t->ledger && t->ledger->price > 0) buf_addf(&b, ",\"cost\":%.4f", t->at.cost);
    record_event(t, ending(st), b.data);
    buf_free(&b);
    if (st == PAWL_OK) ledger_forgive(t);
}

void ledger_tell(struct trainer *t, enum pawl_status st)
{
    if (t->cfg->on_event) run_command(t->cfg->on_event, ending(st), store_dir(t->store));
}
