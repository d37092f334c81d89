#include "train/run/state.h"

#include "kernels/base/log.h"
#include "train/data/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void state_identities(const struct trainer *t, struct state_identity out[STATE_IDENTITIES])
{
    out[0] = (struct state_identity){"base", "the base model", t->model->identity, false};
    out[1] = (struct state_identity){"tokenizer", "the tokenizer", tokenizer_hash(t->tokenizer), false};
    out[2] = (struct state_identity){"template", "the chat template", t->chat ? chat_template_hash(t->chat) : 0, false};
    out[3] = (struct state_identity){"data", "the training data", rows_hash(t->rows), false};
    /* What is split off is a part of the training data. */
    out[4] = (struct state_identity){"held_out", "the held-out data", t->cfg->ntest_datasets && t->held_out ? dataset_hash(t->held_out) : 0, true};
}

/* The numbers of struct progress by name. */
static const struct {
    const char *name;
    size_t at;
} integers[] = {
    {"step", offsetof(struct progress, step)},
    {"tokens", offsetof(struct progress, tokens)},
    {"supervised_tokens", offsetof(struct progress, supervised)},
    {"metrics_offset", offsetof(struct progress, metrics_offset)},
    {"best_step", offsetof(struct progress, best_step)},
    {"evals_since_best", offsetof(struct progress, evals_since_best)},
    {"evaluated_step", offsetof(struct progress, evaluated_step)},
    {"watchdog", offsetof(struct progress, watchdog)},
    {"row", offsetof(struct progress, row)},
}, reals[] = {
    {"best_loss", offsetof(struct progress, best_loss)},
    {"row_loss", offsetof(struct progress, row_loss)},
    {"seconds", offsetof(struct progress, seconds)},
    {"cost", offsetof(struct progress, cost)},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void add_text(struct buf *b, const char *key, const char *text)
{
    buf_addf(b, ", \"%s\": ", key);
    json_add_string(b, text, strlen(text));
}

void state_add(const struct trainer *t, bool with_config, struct buf *b)
{
    struct state_identity id[STATE_IDENTITIES];
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    buf_addf(b, "{\"ranks\": %d, \"total_steps\": %lld, \"micro_batch_size\": %lld, \"config_hash\": \"%016llx\", \"time\": %lld.%03ld", t->share.size, (long long)t->total_steps,
             (long long)t->cfg->micro_batch_size, (unsigned long long)config_hash(t->cfg), (long long)wall.tv_sec, wall.tv_nsec / 1000000);
    for (size_t i = 0; i < COUNT(integers); i++) buf_addf(b, ", \"%s\": %lld", integers[i].name, (long long)*(const int64_t *)((const char *)&t->at + integers[i].at));
    for (size_t i = 0; i < COUNT(reals); i++) {
        buf_addf(b, ", \"%s\": ", reals[i].name);
        json_add_double(b, *(const double *)((const char *)&t->at + reals[i].at));
    }
    if (t->hash.step == t->at.step)
        buf_addf(b, ", \"batch_hash\": \"%016llx\", \"gradient_hash\": \"%016llx\"", (unsigned long long)t->hash.batch, (unsigned long long)t->hash.gradient);
    add_text(b, "device", t->dev->name);
    buf_adds(b, ", \"identity\": {");
    state_identities(t, id);
    for (int i = 0; i < STATE_IDENTITIES; i++) buf_addf(b, "%s\"%s\": \"%016llx\"", i ? ", " : "", id[i].key, (unsigned long long)id[i].value);
    buf_addc(b, '}');
    if (with_config) {
        struct buf yaml = {0};

        config_write_yaml(t->cfg, &yaml);
        add_text(b, "config", yaml.data);
        buf_free(&yaml);
    }
    buf_addc(b, '}');
}

static uint64_t hex(const struct json_value *v)
{
    unsigned long long x = 0;

    sscanf(json_string(v, ""), "%16llx", &x);
    return x;
}

void state_read(struct trainer *t, const struct json_value *state)
{
    for (size_t i = 0; i < COUNT(integers); i++) json_int64(json_get(state, integers[i].name), (int64_t *)((char *)&t->at + integers[i].at));
    for (size_t i = 0; i < COUNT(reals); i++) {
        const struct json_value *v = json_get(state, reals[i].name);

        if (v) *(double *)((char *)&t->at + reals[i].at) = json_number(v, NAN);
    }
    t->hash.step = json_get(state, "gradient_hash") ? t->at.step : -1;
    t->hash.batch = hex(json_get(state, "batch_hash"));
    t->hash.gradient = hex(json_get(state, "gradient_hash"));
}

enum pawl_status state_check_identity(const struct trainer *t, const struct json_value *state, const char *name, struct err *err)
{
    struct state_identity id[STATE_IDENTITIES];

    state_identities(t, id);
    for (int i = 0; i < STATE_IDENTITIES; i++) {
        char now[17];
        const char *then = json_string(json_get(json_get(state, "identity"), id[i].key), "nothing");

        snprintf(now, sizeof now, "%016llx", (unsigned long long)id[i].value);
        if (!strcmp(now, then) || (id[i].optional && (!id[i].value || strspn(then, "0") == 16 || !strcmp(then, "nothing")))) continue;
        if (!t->opt.accept_changes)
            return err_set(err, PAWL_EINVAL, "%s changed since %s (hash %s then, %s now): put it back, or go on with --accept-changes, or begin anew with --fresh", id[i].what, name, then,
                           now);
        log_warn("%s changed since %s", id[i].what, name);
    }
    return PAWL_OK;
}

const char *state_why_other_bits(const struct trainer *t, const struct json_value *state, struct buf *text)
{
    const char *device = json_string(json_get(state, "device"), "another device");
    int64_t micro = t->cfg->micro_batch_size, steps = t->total_steps;
    char hash[17];

    json_int64(json_get(state, "micro_batch_size"), &micro);
    json_int64(json_get(state, "total_steps"), &steps);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)config_hash(t->cfg));
    if (!dev_alike(device, t->dev->name)) buf_addf(text, "it was trained on %s, this is %s", device, t->dev->name);
    else if (!strncmp(device, "cuda", 4) && micro != t->cfg->micro_batch_size) buf_addf(text, "micro_batch_size was %lld, now %lld", (long long)micro, (long long)t->cfg->micro_batch_size);
    else if (strcmp(json_string(json_get(state, "config_hash"), hash), hash) || steps != t->total_steps) buf_adds(text, "the configuration was changed since");
    return text->len ? text->data : NULL;
}
