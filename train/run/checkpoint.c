#include "train/run/checkpoint.h"

#include "ckpt/safetensors.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/data/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a resumed run must find unchanged, by name in the manifest. */
struct identity {
    const char *key, *what;
    uint64_t value;
};
enum { IDENTITIES = 4 };

static void identities(const struct trainer *t, struct identity out[IDENTITIES])
{
    out[0] = (struct identity){"base", "the base model", t->model->identity};
    out[1] = (struct identity){"tokenizer", "the tokenizer", tokenizer_hash(t->tokenizer)};
    out[2] = (struct identity){"template", "the chat template", t->chat ? chat_template_hash(t->chat) : 0};
    out[3] = (struct identity){"data", "the training data", rows_hash(t->rows)};
}

static void add_state(const struct trainer *t, struct buf *b)
{
    const struct progress *p = &t->at;
    struct identity id[IDENTITIES];

    buf_addf(b, "{\"step\": %lld, \"total_steps\": %lld, \"tokens\": %lld, \"supervised_tokens\": %lld, \"metrics_offset\": %lld, \"best_loss\": ", (long long)p->step,
             (long long)t->total_steps, (long long)p->tokens, (long long)p->supervised, (long long)p->metrics_offset);
    json_add_double(b, p->best_loss);
    buf_addf(b, ", \"best_step\": %lld, \"evals_since_best\": %lld, \"watchdog\": %lld, \"device\": ", (long long)p->best_step, (long long)p->evals_since_best,
             (long long)p->watchdog);
    json_add_string(b, t->dev->name, strlen(t->dev->name));
    buf_adds(b, ", \"identity\": {");
    identities(t, id);
    for (int i = 0; i < IDENTITIES; i++) buf_addf(b, "%s\"%s\": \"%016llx\"", i ? ", " : "", id[i].key, (unsigned long long)id[i].value);
    buf_adds(b, "}}");
}

static enum pawl_status save_moments(const struct trainer *t, struct save *sv, struct err *err)
{
    char *path = xasprintf("%s/%s", save_path(sv), OPTIMIZER_FILE);
    struct tensor parts[] = {
        {.name = "m", .dtype = DTYPE_F32, .rank = 1, .shape = {t->lora.n}, .data = t->m},
        {.name = "v", .dtype = DTYPE_F32, .rank = 1, .shape = {t->lora.n}, .data = t->v},
    };
    struct file_sum sum;
    enum pawl_status st = safetensors_write(store_sys(t->store), path, parts, 2, NULL, 0, &sum, err);

    if (st == PAWL_OK) save_add(sv, OPTIMIZER_FILE, sum);
    free(path);
    return st;
}

static enum pawl_status save_files(const struct trainer *t, struct save *sv, struct err *err)
{
    struct file_sum sum;
    struct buf text = {0};
    enum pawl_status st;

    if ((st = lora_write(&t->lora, t->theta, store_sys(t->store), save_path(sv), &sum, err)) != PAWL_OK) return st;
    save_add(sv, LORA_WEIGHTS, sum);
    if ((st = save_moments(t, sv, err)) != PAWL_OK) return st;
    lora_config_json(&t->lora, t->cfg->base_model, &text);
    st = save_text(sv, LORA_CONFIG, text.data, text.len, err);
    buf_free(&text);
    if (st != PAWL_OK) return st;
    config_write_yaml(t->cfg, &text);
    st = save_text(sv, CONFIG_FILE, text.data, text.len, err);
    buf_free(&text);
    return st;
}

enum pawl_status checkpoint_save(struct trainer *t, struct err *err)
{
    struct save *sv = NULL;
    struct buf state = {0};
    struct retention keep = {.limit = (int)t->cfg->save_total_limit, .resumed_from = t->resumed_from, .best = t->best};
    enum pawl_status st;

    if ((st = save_begin(&sv, t->store, t->at.step, err)) != PAWL_OK) return st;
    if ((st = save_files(t, sv, err)) != PAWL_OK) {
        save_abandon(sv);
        return st;
    }
    add_state(t, &state);
    st = save_commit(sv, state.data, NULL, err);
    buf_free(&state);
    if (st != PAWL_OK) return st;
    t->durable_step = t->at.step;
    clock_gettime(CLOCK_MONOTONIC, &t->last_save);
    return store_retain(t->store, &keep, NULL, err);
}

/* --- resuming */

enum pawl_status checkpoint_check_config(struct trainer *t, const struct ckpt *c, struct err *err)
{
    char *path = xasprintf("%s/%s", c->path, CONFIG_FILE);
    struct config *old = NULL;
    struct buf changes = {0};
    enum pawl_status st;
    size_t n;

    if ((st = config_load(&old, path, NULL, 0, err)) != PAWL_OK) goto done;
    if ((st = config_fix_batch(t->cfg, 1, old->global_batch_size, err)) != PAWL_OK) goto done;
    n = config_diff(old, t->cfg, true, &changes);
    if (n && !t->opt.accept_changes) {
        for (size_t i = 0; i + 1 < changes.len; i++)
            if (changes.data[i] == '\n') changes.data[i] = ';';
        st = err_set(err, PAWL_EINVAL, "%s was trained with another configuration: %.*s; --accept-changes goes on all the same, --fresh begins anew", c->path,
                     (int)changes.len - 1, changes.data);
    } else if (n) {
        log_warn("the configuration changed since %s:\n%s", c->name, changes.data);
    }
done:
    buf_free(&changes);
    config_free(old);
    free(path);
    return st;
}

static enum pawl_status check_identity(const struct trainer *t, const struct ckpt *c, struct err *err)
{
    struct identity id[IDENTITIES];

    identities(t, id);
    for (int i = 0; i < IDENTITIES; i++) {
        char now[17];
        const char *then = json_string(json_get(json_get(c->state, "identity"), id[i].key), "nothing");

        snprintf(now, sizeof now, "%016llx", (unsigned long long)id[i].value);
        if (!strcmp(now, then)) continue;
        if (!t->opt.accept_changes)
            return err_set(err, PAWL_EINVAL, "%s changed since %s (hash %s then, %s now): put it back, or go on with --accept-changes, or begin anew with --fresh", id[i].what, c->path,
                           then, now);
        log_warn("%s changed since %s", id[i].what, c->name);
    }
    return PAWL_OK;
}

static enum pawl_status load_moments(struct trainer *t, const struct ckpt *c, struct err *err)
{
    char *path = xasprintf("%s/%s", c->path, OPTIMIZER_FILE);
    struct {
        const char *name;
        float *to;
    } parts[] = {{"m", t->m}, {"v", t->v}};
    struct safetensors *s = NULL;
    enum pawl_status st = safetensors_open(&s, path, err);

    for (int i = 0; i < 2 && st == PAWL_OK; i++) {
        const struct tensor *p = safetensors_find(s, parts[i].name);

        if (!p || p->dtype != DTYPE_F32 || p->rank != 1 || p->shape[0] != t->lora.n)
            st = err_set(err, PAWL_EFORMAT, "%s: tensor %s: expected f32 (%lld)", path, parts[i].name, (long long)t->lora.n);
        else
            memcpy(parts[i].to, p->data, p->bytes);
    }
    safetensors_close(s);
    free(path);
    return st;
}

static int64_t state_int(const struct ckpt *c, const char *key)
{
    int64_t n = 0;

    json_int64(json_get(c->state, key), &n);
    return n;
}

enum pawl_status checkpoint_load(struct trainer *t, const struct ckpt *c, struct err *err)
{
    const char *device = json_string(json_get(c->state, "device"), "");
    enum pawl_status st;

    if ((st = check_identity(t, c, err)) != PAWL_OK) return st;
    if ((st = lora_read(&t->lora, t->theta, c->path, err)) != PAWL_OK || (st = load_moments(t, c, err)) != PAWL_OK) return st;
    t->at = (struct progress){
        .step = c->step,
        .tokens = state_int(c, "tokens"),
        .supervised = state_int(c, "supervised_tokens"),
        .metrics_offset = state_int(c, "metrics_offset"),
        .best_loss = json_number(json_get(c->state, "best_loss"), NAN),
        .best_step = state_int(c, "best_step"),
        .evals_since_best = state_int(c, "evals_since_best"),
        .watchdog = state_int(c, "watchdog"),
    };
    if (strcmp(device, t->dev->name)) log_warn("%s was trained on %s, this is %s: the last bits of the losses may differ from an uninterrupted run's", c->name, device, t->dev->name);
    return PAWL_OK;
}
