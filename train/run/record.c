#include "train/run/record.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "kernels/profile.h"
#include "train/run/journaling.h"
#include "train/run/remoting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "1:05:09", "5:09" */
static char *clock_text(char text[32], double seconds)
{
    long s = (long)(seconds + 0.5);

    if (s >= 3600) snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
    return text;
}

static void show_progress(struct trainer *t, const struct step_record *r)
{
    struct buf remote = {0};
    char eta[32];

    if (r->step % t->cfg->logging_steps && r->step != t->total_steps) return;
    remoting_progress(t, &remote);
    log_progress("step %lld/%lld  loss %.4f  lr %.2e  %.0f tokens/s  ETA %s  durable step %lld%s", (long long)r->step, (long long)t->total_steps, r->loss, r->learning_rate,
                 (double)r->tokens / r->seconds, clock_text(eta, t->seconds_a_step * (double)(t->total_steps - r->step)), (long long)t->durable_step,
                 remote.data ? remote.data : "");
    buf_free(&remote);
}

void record_step(struct trainer *t, const struct step_record *r)
{
    struct buf b = {0};

    t->seconds_a_step = t->seconds_a_step > 0 ? 0.9 * t->seconds_a_step + 0.1 * r->seconds : r->seconds;
    buf_addf(&b, "{\"step\":%lld,\"epoch\":%.17g,\"loss\":%.17g,\"grad_norm\":%.17g,\"learning_rate\":%.17g,\"tokens\":%lld,\"supervised_tokens\":%lld,", (long long)r->step,
             r->epoch, r->loss, r->grad_norm, r->learning_rate, (long long)r->tokens, (long long)r->supervised);
    buf_addf(&b, "\"tokens_per_second\":%.1f,\"step_seconds\":%.4f,\"durable_step\":%lld}", (double)r->tokens / r->seconds, r->seconds, (long long)t->durable_step);
    journaling_line(t, b.data, b.len);
    buf_free(&b);
    show_progress(t, r);
}

bool record_evicted(struct trainer *t, struct err *err)
{
    t->evicted |= store_watch(t->store, err) == PAWL_ELOCKED;
    return t->evicted;
}

void record_event(struct trainer *t, const char *event, const char *json_fields)
{
    struct buf b = {0};
    struct err err;
    struct timespec ts;
    struct tm tm;
    char when[32];

    if (!t->events || record_evicted(t, NULL)) return; /* another rank has them, or another process has the run */
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_addf(&b, "{\"event\":\"%s\",\"time\":\"%s.%03ldZ\",\"step\":%lld%s}", event, when, ts.tv_nsec / 1000000, (long long)t->at.step, json_fields);
    if (jsonl_append(t->events, b.data, b.len, &err) != PAWL_OK) log_warn("an event is not recorded: %s", err.text);
    buf_free(&b);
}

void record_start(struct trainer *t, const char *json_fields)
{
    const struct model_spec *s = &t->model->spec;
    struct buf b = {0};

    log_info("%s, %d layers, hidden %d, vocabulary %lld, %s base; LoRA r %d on %.2f million numbers; %s, %d threads", s->family->name, s->layers, s->C, (long long)s->V,
             dtype_info[t->model->storage].name, t->lora.r, (double)t->lora.n / 1e6, t->dev->name, t->dev->threads);
    log_info("%u rows, %lld tokens (%lld supervised) an epoch; %lld steps of %lld rows; %.0f MiB besides the base", t->rows->count, (long long)t->rows->total_tokens,
             (long long)t->rows->total_supervised, (long long)t->total_steps, (long long)t->cfg->global_batch_size, (double)(t->arena.bytes + t->host.bytes) / 1048576);
    if (t->resumed_from) log_info("resuming from %s (step %lld of %lld)", t->resumed_from, (long long)t->at.step, (long long)t->total_steps);
    if (t->share.size > 1) log_info("%d ranks (%s), zero_stage %d", t->share.size, t->share.comm->ops->name, t->share.sharded);
    buf_addf(&b, ",\"generation\":%llu,\"total_steps\":%lld,\"ranks\":%d,\"device\":", (unsigned long long)store_generation(t->store), (long long)t->total_steps, t->share.size);
    json_add_string(&b, t->dev->name, strlen(t->dev->name));
    if (t->resumed_from) buf_addf(&b, ",\"from\":\"%s\"", t->resumed_from);
    buf_adds(&b, json_fields);
    record_event(t, t->resumed_from ? "resume" : "start", b.data);
    buf_free(&b);
}

void record_evaluation(struct trainer *t, const struct evaluation *ev)
{
    struct buf b = {0};

    log_info("step %lld: held-out loss %.4f, perplexity %.3f, exact match %.1f%% of %lld examples", (long long)t->at.step, ev->loss, ev->perplexity,
             ev->examples ? 100.0 * (double)ev->exact / (double)ev->examples : 0.0, (long long)ev->examples);
    buf_addf(&b, ",\"loss\":%.17g,\"perplexity\":%.17g,\"tokens\":%lld,\"exact_match\":%.17g,\"examples\":%lld", ev->loss, ev->perplexity, (long long)ev->tokens,
             ev->examples ? (double)ev->exact / (double)ev->examples : 0.0, (long long)ev->examples);
    record_event(t, "eval", b.data);
    buf_free(&b);
}

void record_sample(struct trainer *t, const char *prompt, const char *text, size_t len)
{
    struct buf b = {0};

    buf_adds(&b, ",\"prompt\":");
    json_add_string(&b, prompt, strlen(prompt));
    buf_adds(&b, ",\"text\":");
    json_add_string(&b, text, len);
    record_event(t, "sample", b.data);
    buf_free(&b);
}

static void write_beside(struct trainer *t, const char *name, const struct buf *text)
{
    char *path = xasprintf("%s/%s", store_dir(t->store), name);
    struct err err;

    if (file_replace(store_sys(t->store), path, text->data, text->len, &err) != PAWL_OK) log_warn("the profile is not written: %s", err.text);
    free(path);
}

void record_profile(struct trainer *t)
{
    struct buf table = {0}, json = {0}, calls = {0};

    profile_table(t->profile, &table);
    profile_json(t->profile, &json);
    profile_trace(t->profile, &calls);
    fwrite(table.data, 1, table.len, stdout);
    write_beside(t, "profile.json", &json);
    write_beside(t, "trace.json", &calls);
    buf_free(&table);
    buf_free(&json);
    buf_free(&calls);
}
