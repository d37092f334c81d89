/* What can only be said about several keys together. */
#include "train/config/load.h"

#include "kernels/base/log.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum pawl_status check_required(struct loader *l)
{
    struct config *c = l->config;

    if (!c->base_model) return loader_fail(l, "base_model", "missing: expected a model directory, a .gguf file or the id of a model");
    if (!c->ndatasets) return loader_fail(l, "datasets", "missing: expected a list with at least one data set: \"datasets: [{path: data.jsonl}]\"");
    if (!c->output_dir) return loader_fail(l, "output_dir", "missing: expected the directory that the run is kept in");
    return PAWL_OK;
}

/* How the base is stored, and by which adapter. */
static enum pawl_status check_adapter(struct loader *l)
{
    struct config *c = l->config;
    bool other = c->load_in_8bit == CONFIG_ON || c->load_in_4bit == CONFIG_OFF;

    if (c->load_in_4bit == CONFIG_ON && c->load_in_8bit == CONFIG_ON) return loader_fail(l, "load_in_8bit", "load_in_4bit is true as well, at %s: expected one of them", loader_given(l, "load_in_4bit"));
    if (c->adapter != ADAPTER_QLORA || !other) return PAWL_OK;
    if (loader_given(l, "adapter")) return loader_fail(l, "adapter", "qlora is LoRA on a 4-bit base, but %s: use adapter: lora", c->load_in_8bit == CONFIG_ON ? "load_in_8bit is true" : "load_in_4bit is false");
    c->adapter = ADAPTER_LORA;
    return PAWL_OK;
}

/* Afterwards exactly one of the three is in force. A list or regex wins over lora_target_linear, as the more special one. */
static enum pawl_status check_targets(struct loader *l)
{
    struct config *c = l->config;

    if (c->lora_target_modules.n == 1 && !strcmp(c->lora_target_modules.at[0], "all-linear")) {
        key_clear(key_named("lora_target_modules"), c);
        c->lora_target_linear = true;
    }
    for (size_t i = 0; i < c->lora_target_modules.n; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(c->lora_target_modules.at[i], c->lora_target_modules.at[j]))
                return loader_fail(l, "lora_target_modules", "\"%.80s\" stands twice", c->lora_target_modules.at[i]);
    if (c->lora_target_modules.n || c->lora_target_regex) c->lora_target_linear = false;
    else if (!c->lora_target_linear) return loader_fail(l, "lora_target_linear", "false, and there is no lora_target_modules: nothing would be trained");
    return PAWL_OK;
}

/* An entry that a --set added may lack what load_dataset asks for. */
static enum pawl_status check_parts(struct loader *l, const char *key, struct dataset_config *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dataset_config *d = &parts[i];

        if (!d->path) return loader_fail(l, key, "%s.%zu.path: missing: expected a file, a directory or the id of a data set", key, i);
        if (d->chat_template && !strcmp(d->chat_template, "jinja") && !d->chat_template_jinja)
            return loader_fail(l, key, "%s.%zu.chat_template: jinja needs chat_template_jinja: a file or the template itself", key, i);
        if (strcmp(d->path, "json") != 0 || !d->data_files.n) continue;
        free(d->path); /* the builder's name of Hugging Face's datasets: the files stand in data_files */
        d->path = xstrdup(".");
    }
    return PAWL_OK;
}

static enum pawl_status check_data(struct loader *l)
{
    struct config *c = l->config;
    enum pawl_status st;

    if ((st = check_parts(l, "datasets", c->datasets, c->ndatasets)) != PAWL_OK) return st;
    if ((st = check_parts(l, "test_datasets", c->test_datasets, c->ntest_datasets)) != PAWL_OK) return st;
    if (c->val_set_size >= 1 && c->val_set_size != floor(c->val_set_size))
        return loader_fail(l, "val_set_size", "expected a share below 1 or a whole number of examples, found %g", c->val_set_size);
    if (c->val_set_size > 0 && c->ntest_datasets) return loader_fail(l, "val_set_size", "there are test_datasets as well: expected one kind of held-out data");
    if (!strcmp(c->chat_template, "jinja") && !c->chat_template_jinja)
        return loader_fail(l, "chat_template", "jinja needs chat_template_jinja: a file or the template itself");
    if (c->chat_template_jinja && strcmp(c->chat_template, "jinja") != 0 && loader_given(l, "chat_template"))
        return loader_fail(l, "chat_template_jinja", "takes effect with chat_template: jinja only, found %.80s", c->chat_template);
    if (c->chat_template_jinja && strcmp(c->chat_template, "jinja") != 0) {
        free(c->chat_template);
        c->chat_template = xstrdup("jinja");
    }
    return PAWL_OK;
}

static enum pawl_status check_batch(struct loader *l)
{
    struct config *c = l->config;
    int64_t rows = c->micro_batch_size * (c->gradient_accumulation_steps ? c->gradient_accumulation_steps : 1);

    if (!c->global_batch_size) {
        if (!c->gradient_accumulation_steps) c->gradient_accumulation_steps = 1;
        return PAWL_OK;
    }
    if (c->gradient_accumulation_steps && c->global_batch_size % rows != 0)
        return loader_fail(l, "global_batch_size", "%" PRId64 " is no multiple of micro_batch_size x gradient_accumulation_steps = %" PRId64 " x %" PRId64 ": leave gradient_accumulation_steps out, it follows",
                           c->global_batch_size, c->micro_batch_size, c->gradient_accumulation_steps);
    c->gradient_accumulation_steps = 0;
    return PAWL_OK;
}

static enum pawl_status check_schedule(struct loader *l)
{
    struct config *c = l->config;

    if (c->warmup_steps && c->warmup_ratio > 0) return loader_fail(l, "warmup_ratio", "warmup_steps is given as well, at %s: expected one of them", loader_given(l, "warmup_steps"));
    if (c->lr_scheduler == SCHEDULE_COSINE && loader_given(l, "cosine_min_lr_ratio") && c->cosine_min_lr_ratio > 0) c->lr_scheduler = SCHEDULE_COSINE_WITH_MIN_LR;
    if (c->lr_scheduler != SCHEDULE_COSINE_WITH_MIN_LR && c->cosine_min_lr_ratio > 0)
        return loader_fail(l, "cosine_min_lr_ratio", "takes effect with lr_scheduler: cosine only, found %s", config_choice("lr_scheduler", c->lr_scheduler));
    if (c->lr_scheduler == SCHEDULE_COSINE_WITH_MIN_LR && !loader_given(l, "cosine_min_lr_ratio"))
        return loader_fail(l, "lr_scheduler", "cosine_with_min_lr needs cosine_min_lr_ratio, the end as a share of learning_rate");
    if (c->lr_scheduler == SCHEDULE_COSINE_WITH_MIN_LR && c->cosine_min_lr_ratio == 0) c->lr_scheduler = SCHEDULE_COSINE;
    if (c->lr_scheduler == SCHEDULE_CONSTANT && (c->warmup_steps || c->warmup_ratio > 0))
        return loader_fail(l, c->warmup_steps ? "warmup_steps" : "warmup_ratio", "has no effect with lr_scheduler: constant: use constant_with_warmup");
    return PAWL_OK;
}

/* transformers' strategy and its steps: "epoch" is one an epoch, "no" forbids both, "steps" needs them. */
static enum pawl_status apply_strategy(struct loader *l, const char *name, const char *strategy, const char *at, const char *steps_key, double *steps, double *per_epoch)
{
    if (!strategy) return PAWL_OK;
    if (!strcmp(strategy, "no")) *steps = *per_epoch = 0;
    if (!strcmp(strategy, "steps") && *steps == 0 && *per_epoch == 0) return err_set(l->err, PAWL_EINVAL, "%s: %s: steps needs %s", at, name, steps_key);
    if (!strcmp(strategy, "epoch")) {
        if (*steps > 0) return loader_fail(l, steps_key, "%s is epoch, at %s: expected one of them", name, at);
        if (*per_epoch == 0) *per_epoch = 1;
    }
    return PAWL_OK;
}

static enum pawl_status check_steps(struct loader *l, const char *key, double steps, const char *other, double per_epoch)
{
    if (steps > 0 && per_epoch > 0) return loader_fail(l, key, "%s is given as well, at %s: expected one of them", other, loader_given(l, other));
    if (steps >= 1 && steps != floor(steps)) return loader_fail(l, key, "expected a whole number of steps or a share of all steps below 1, found %g", steps);
    return PAWL_OK;
}

static enum pawl_status check_watching(struct loader *l)
{
    struct config *c = l->config;
    bool held_out = c->val_set_size > 0 || c->ntest_datasets, evaluates;
    enum pawl_status st;

    if ((st = apply_strategy(l, "eval_strategy", l->eval_strategy, l->eval_strategy_at, "eval_steps", &c->eval_steps, &c->evals_per_epoch)) != PAWL_OK) return st;
    if ((st = apply_strategy(l, "save_strategy", l->save_strategy, l->save_strategy_at, "save_steps", &c->save_steps, &c->saves_per_epoch)) != PAWL_OK) return st;
    if (l->save_strategy && !strcmp(l->save_strategy, "no") && !loader_given(l, "save_minutes")) c->save_minutes = 0;
    if ((st = check_steps(l, "eval_steps", c->eval_steps, "evals_per_epoch", c->evals_per_epoch)) != PAWL_OK) return st;
    if ((st = check_steps(l, "save_steps", c->save_steps, "saves_per_epoch", c->saves_per_epoch)) != PAWL_OK) return st;

    evaluates = c->eval_steps > 0 || c->evals_per_epoch > 0;
    if (c->early_stopping_patience && !held_out) return loader_fail(l, "early_stopping_patience", "there is no held-out data to watch: give val_set_size or test_datasets");
    if (c->early_stopping_patience && !evaluates) return loader_fail(l, "early_stopping_patience", "nothing is evaluated: give eval_steps or evals_per_epoch");
    if (evaluates && !held_out && !c->sample_prompts.n) {
        log_warn("%s: %s without held-out data (val_set_size, test_datasets): nothing is evaluated", l->path, c->eval_steps > 0 ? "eval_steps" : "evals_per_epoch");
        c->eval_steps = c->evals_per_epoch = 0;
    }
    return PAWL_OK;
}

static enum pawl_status check_machine(struct loader *l)
{
    struct config *c = l->config;
    const char *d = c->device;
    bool card = !strncmp(d, "cuda:", 5) && d[5] && strspn(d + 5, "0123456789") == strlen(d + 5) && strlen(d) < 9;

    if (strcmp(d, "auto") != 0 && strcmp(d, "cpu") != 0 && strcmp(d, "cuda") != 0 && !card) return loader_fail(l, "device", "expected auto, cpu, cuda or cuda:N, found \"%.80s\"", d);
    if (c->remote) {
        const char *colon = strchr(c->remote, ':');

        if (!colon || colon == c->remote) return loader_fail(l, "remote", "expected an rclone destination, name:bucket/path, found \"%.80s\"", c->remote);
    }
    return PAWL_OK;
}

enum pawl_status config_check(struct loader *l)
{
    static enum pawl_status (*const checks[])(struct loader *l) = {
        check_required, check_adapter, check_targets, check_data, check_batch, check_schedule, check_watching, check_machine,
    };
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < sizeof checks / sizeof *checks && st == PAWL_OK; i++) st = checks[i](l);
    return st;
}

enum pawl_status config_fix_batch(struct config *c, int64_t ranks, int64_t running, struct err *err)
{
    if (!c->global_batch_size) c->global_batch_size = running ? running : c->micro_batch_size * c->gradient_accumulation_steps * ranks;
    if (c->global_batch_size < ranks)
        return err_set(err, PAWL_EINVAL, "global_batch_size: %" PRId64 " rows for %" PRId64 " ranks: expected at least a row a rank: start 1 to %" PRId64 " ranks", c->global_batch_size, ranks,
                       c->global_batch_size);
    c->gradient_accumulation_steps = 0;
    return PAWL_OK;
}

enum config_storage config_base_storage(const struct config *c)
{
    if (c->load_in_8bit == CONFIG_ON) return STORAGE_8BIT;
    if (c->load_in_4bit == CONFIG_ON) return STORAGE_4BIT;
    return c->adapter == ADAPTER_QLORA ? STORAGE_4BIT_UNLESS_QUANTISED : STORAGE_AS_IT_IS;
}
