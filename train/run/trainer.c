#include "train/run/trainer.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "train/config/locate.h"
#include "train/run/base.h"
#include "train/run/checkpoint.h"
#include "train/run/evaluate.h"
#include "train/run/generate.h"
#include "train/run/record.h"
#include "train/run/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#define METRICS_FILE "metrics.jsonl"
#define EVENTS_FILE "events.jsonl"

static double seconds_between(struct timespec a, struct timespec b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
}

static struct timespec now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts;
}

/* --- opening: model, data, then memory */

static enum pawl_status open_model(struct trainer *t, struct err *err)
{
    const struct config *c = t->cfg;
    struct model_storage storage = {config_base_storage(c), c->bnb_4bit_quant_type == CONFIG_FP4 ? DTYPE_FP4 : DTYPE_NF4, c->bnb_4bit_use_double_quant};
    char *path = NULL;
    enum pawl_status st;

    if ((st = dev_open(&t->dev, c->device, c->bf16 == CONFIG_OFF ? DTYPE_F32 : DTYPE_BF16, (int)c->threads, err)) != PAWL_OK) return st;
    if ((st = locate(&path, c->base_model, LOCATE_MODEL, NULL, err)) != PAWL_OK) return st;
    if ((st = model_open(&t->model, path, storage, err)) != PAWL_OK) goto done;
    if ((st = lora_from_config(&t->lora, &t->model->spec, c, err)) != PAWL_OK) goto done;
    if ((st = base_tokenizer(&t->tokenizer, path, t->model->spec.V, c, err)) != PAWL_OK) goto done;
    st = base_template(&t->chat, path, c->chat_template, c->chat_template_jinja, err);
done:
    free(path);
    return st;
}

static enum pawl_status open_data(struct trainer *t, struct err *err)
{
    const struct config *c = t->cfg;
    struct dataset_options opt = dataset_options(c);
    struct rows_options ropt = rows_options(c), eopt = rows_options_eval(c, c->micro_batch_size);
    char *cache = dataset_cache_dir();
    enum pawl_status st;

    opt.tokenizer = t->tokenizer;
    opt.chat = t->chat;
    opt.vocab = t->model->spec.V;
    opt.threads = (int)c->threads;
    opt.cache_dir = cache;
    opt.stop = stop_requested;
    if ((st = dataset_open(&t->data, c->datasets, c->ndatasets, &opt, err)) != PAWL_OK) goto done;
    if (c->ntest_datasets) st = dataset_open(&t->held_out, c->test_datasets, c->ntest_datasets, &opt, err);
    else if (c->val_set_size > 0) st = dataset_split(t->data, &t->held_out, c->val_set_size, err);
    if (st != PAWL_OK) goto done;
    if (t->held_out) {
        dataset_compare(t->data, t->held_out, false);
        if ((st = rows_build(&t->eval_rows, t->held_out, &eopt, err)) != PAWL_OK) goto done;
    }
    st = rows_build(&t->rows, t->data, &ropt, err);
done:
    free(cache);
    return st;
}

static int longest_example(const struct dataset *d)
{
    int longest = 0;

    for (size_t i = 0; d && i < dataset_count(d); i++) {
        int n = dataset_example(d, i).length;
        longest = n > longest ? n : longest;
    }
    return longest;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The limits of any micro-batch, of training or evaluation. */
static struct rows_limits micro_limits(const struct trainer *t)
{
    struct rows_limits a = rows_limits(t->rows, t->cfg->micro_batch_size), b;

    if (!t->eval_rows) return a;
    b = rows_limits(t->eval_rows, t->eval_rows->opt.global_batch);
    return (struct rows_limits){a.rows > b.rows ? a.rows : b.rows, larger(a.tokens, b.tokens), larger(a.supervised, b.supervised), larger(a.examples, b.examples)};
}

static void reserve(struct trainer *t, enum net_mode mode)
{
    struct rows_limits limits = micro_limits(t);
    size_t bytes = (size_t)t->lora.n * sizeof(float);
    int longest = (int)larger(longest_example(t->data), longest_example(t->held_out));

    net_free(&t->net);
    gradtree_free(&t->tree);
    arena_free(&t->arena);
    net_reserve(&t->net, &t->arena, t->dev, t->model, &t->lora, mode, limits, longest + 1);
    arena_reserve(&t->arena, "adapter", bytes, &t->theta);
    arena_reserve(&t->arena, "adapter", bytes, &t->operand);
    arena_reserve(&t->arena, "optimizer", bytes, &t->m);
    arena_reserve(&t->arena, "optimizer", bytes, &t->v);
    arena_reserve(&t->arena, "gradient", bytes, &t->g);
    arena_reserve(&t->arena, "gradient", (size_t)clip_blocks(t->lora.n) * sizeof(double), &t->norm_blocks);
    gradtree_reserve(&t->tree, &t->arena, t->lora.n, t->cfg->global_batch_size);
    arena_reserve(&t->arena, "batch", (size_t)limits.supervised * sizeof(float), &t->loss);
}

/* What the run may take: memory_limit, or what the system says is available. 0: unknown. */
static size_t memory_budget(const struct config *c)
{
    FILE *f;
    char line[128];
    unsigned long long kib = 0;

    if (c->memory_limit > 0) return (size_t)c->memory_limit;
    if (!(f = fopen("/proc/meminfo", "r"))) return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    return (size_t)kib * 1024;
}

static enum pawl_status allocate(struct trainer *t, struct err *err)
{
    size_t budget = memory_budget(t->cfg), weights = t->model->weight_bytes;
    int checkpointing = t->cfg->gradient_checkpointing;
    enum pawl_status st;

    reserve(t, checkpointing == CONFIG_ON ? NET_TRAIN_CHECKPOINTED : NET_TRAIN);
    if (budget && arena_bytes(&t->arena) + weights > budget && checkpointing == CONFIG_AUTO) {
        reserve(t, NET_TRAIN_CHECKPOINTED);
        log_info("gradient checkpointing is on: memory would not suffice without it");
    }
    if (budget && arena_bytes(&t->arena) + weights > budget)
        return err_set(err, PAWL_ENOMEM, "memory: %.0f MiB are needed (%.0f of them weights), %.0f MiB may be used: lower micro_batch_size or sequence_len%s",
                       (double)(arena_bytes(&t->arena) + weights) / 1048576, (double)weights / 1048576, (double)budget / 1048576,
                       checkpointing == CONFIG_OFF ? ", or set gradient_checkpointing: true" : "");
    if ((st = arena_alloc(&t->arena, NULL, NULL, err)) != PAWL_OK) return st;
    net_init(&t->net);
    t->net.operand = t->operand;
    micro_init(&t->micro, micro_limits(t));
    return PAWL_OK;
}

/* --- a new run or an old one */

static enum pawl_status begin_adapter(struct trainer *t, struct err *err)
{
    const char *dir = t->cfg->lora_model_dir;
    struct lora given;
    enum pawl_status st;

    if (!dir) {
        lora_init(&t->lora, t->theta, (uint64_t)t->cfg->seed);
        return PAWL_OK;
    }
    if ((st = lora_open(&given, &t->model->spec, dir, err)) != PAWL_OK) return err_prefix(err, "lora_model_dir");
    if (given.r != t->lora.r || given.n != t->lora.n || given.alpha != t->lora.alpha)
        st = err_set(err, PAWL_EINVAL, "lora_model_dir %s: its adapter has r %d, alpha %g and %lld numbers, the configuration r %d, alpha %g and %lld: set lora_r, lora_alpha and lora_target_modules as it has them",
                     dir, given.r, given.alpha, (long long)given.n, t->lora.r, t->lora.alpha, (long long)t->lora.n);
    lora_free(&given);
    return st == PAWL_OK ? lora_read(&t->lora, t->theta, dir, err) : st;
}

static enum pawl_status open_records(struct trainer *t, struct err *err)
{
    char *metrics = xasprintf("%s/%s", t->cfg->output_dir, METRICS_FILE), *events = xasprintf("%s/%s", t->cfg->output_dir, EVENTS_FILE);
    char *config = xasprintf("%s/%s", t->cfg->output_dir, CONFIG_FILE);
    struct buf yaml = {0};
    enum pawl_status st;

    config_write_yaml(t->cfg, &yaml);
    if ((st = file_replace(store_sys(t->store), config, yaml.data, yaml.len, err)) != PAWL_OK) goto done;
    if ((st = jsonl_open(&t->metrics, store_sys(t->store), metrics, t->at.metrics_offset, err)) != PAWL_OK) goto done;
    st = jsonl_open(&t->events, store_sys(t->store), events, JSONL_END, err);
done:
    buf_free(&yaml);
    free(metrics);
    free(events);
    free(config);
    return st;
}

static enum pawl_status start_or_resume(struct trainer *t, struct err *err)
{
    struct ckpt *c = NULL;
    enum pawl_status st;

    t->at.best_loss = NAN;
    if ((st = store_open(&t->store, &fsys_real, t->cfg->output_dir, err)) != PAWL_OK) return st == PAWL_ELOCKED ? st : err_prefix(err, "output_dir");
    if (t->opt.fresh && (st = store_archive(t->store, err)) != PAWL_OK) return st;
    if ((st = ckpt_newest(&c, NULL, t->cfg->output_dir, err)) != PAWL_OK) return st;
    st = c ? checkpoint_check_config(t, c, err) : config_fix_batch(t->cfg, 1, 0, err);
    if (st != PAWL_OK || (st = open_data(t, err)) != PAWL_OK || (st = allocate(t, err)) != PAWL_OK) goto done;
    st = c ? checkpoint_load(t, c, err) : begin_adapter(t, err);
    if (st != PAWL_OK || (st = store_raise_generation(t->store, 0, err)) != PAWL_OK || (st = open_records(t, err)) != PAWL_OK) goto done;
    if (c) {
        t->resumed_from = xstrdup(c->name);
        if (t->at.best_step) t->best = xasprintf("checkpoint-%lld", (long long)t->at.best_step);
        t->durable_step = c->step;
    }
    t->dev->ops->round_operand(t->dev, t->operand, t->theta, t->lora.n);
    t->total_steps = rows_total_steps(t->rows);
    t->warmup_steps = t->cfg->warmup_steps ? t->cfg->warmup_steps : (int64_t)ceil(t->cfg->warmup_ratio * (double)t->total_steps);
    t->last_save = now();
    record_start(t);
done:
    ckpt_free(c);
    return st;
}

/* --- one step */

static enum pawl_status bad_number(const struct trainer *t, const struct batch *b, int first, int n, const char *what, double value, struct err *err)
{
    struct buf places = {0};
    enum pawl_status st;

    batch_places(b, first, n, &places);
    st = err_set(err, PAWL_ENUMERIC, "step %lld: the %s is %g; its examples are %s; the last good checkpoint is of step %lld: lower learning_rate, or look at these examples",
                 (long long)b->step, what, value, places.data ? places.data : "unknown", (long long)t->durable_step);
    buf_free(&places);
    return st;
}

/* Losses and gradients of the whole global batch; the mean loss of its supervised tokens. */
static enum pawl_status accumulate(struct trainer *t, const struct batch *b, double *loss, struct err *err)
{
    struct net_step step = {(uint64_t)t->cfg->seed, b->step};
    int micro = (int)t->cfg->micro_batch_size;
    double sum = 0;

    for (int first = 0; first < b->rows; first += micro) {
        int n = first + micro <= b->rows ? micro : b->rows - first, i = 0;

        micro_view(&t->micro, b, first, n);
        net_train(&t->net, &t->micro, step, (float)(1.0 / b->supervised), &t->tree, t->loss);
        /* Each row's losses are added by themselves and the rows in order, so that the micro-batch never shows. */
        for (int row = 0; row < n; row++) {
            double row_sum = 0;

            for (; i < t->micro.S && t->micro.index[i] < t->micro.row_start[row + 1]; i++) row_sum += (double)t->loss[i];
            sum += row_sum;
        }
        if (!isfinite(sum)) return bad_number(t, b, first, n, "loss", sum, err);
    }
    *loss = sum / b->supervised;
    return PAWL_OK;
}

static double learning_rate(const struct trainer *t, int64_t step)
{
    const struct config *c = t->cfg;

    return schedule_rate(&(struct schedule_options){c->lr_scheduler, c->learning_rate, t->warmup_steps, t->total_steps, c->cosine_min_lr_ratio}, step);
}

/* AdamW over theta; with LoRA+ (Hayou et al. 2024) the B of each pair has a higher rate than the A. */
static void update(struct trainer *t, int64_t step, double rate, double clip)
{
    const struct config *c = t->cfg;
    const struct adamw_options opt = {c->adam_beta1, c->adam_beta2, c->adam_epsilon, c->weight_decay};
    struct adamw a = adamw_factors(&opt, step, rate, clip), b = a;
    size_t e = (size_t)dtype_info[t->dev->act].bytes;

    if (c->loraplus_lr_ratio > 0) b = adamw_factors(&opt, step, rate * c->loraplus_lr_ratio, clip);
    for (int i = 0; i < t->lora.pairs; i++) {
        const struct lora_pair *p = &t->lora.pair[i];
        const struct {
            int64_t at, n;
            const struct adamw *hyper;
        } ranges[] = {{p->a, p->b - p->a, &a}, {p->b, (int64_t)p->out * t->lora.r, &b}};

        for (int k = 0; k < 2 && p->a >= 0; k++) {
            int64_t at = ranges[k].at;
            t->dev->ops->adamw(t->dev, t->theta + at, (char *)t->operand + (size_t)at * e, t->m + at, t->v + at, t->g + at, ranges[k].n, ranges[k].hyper);
        }
    }
}

static enum pawl_status train_step(struct trainer *t, double *loss, struct err *err)
{
    struct timespec begin = now();
    const struct batch *b = loader_get(t->loader, t->at.step + 1);
    struct step_record r = {.step = b->step, .learning_rate = learning_rate(t, b->step)};
    enum pawl_status st;

    if ((st = accumulate(t, b, &r.loss, err)) != PAWL_OK) return st;
    gradtree_finish(&t->tree, t->dev, b->rows, t->g);
    r.grad_norm = clip_norm(t->dev, t->g, t->lora.n, t->norm_blocks);
    if (!isfinite(r.grad_norm)) return bad_number(t, b, 0, b->rows, "gradient norm", r.grad_norm, err);
    update(t, b->step, r.learning_rate, clip_factor(r.grad_norm, t->cfg->max_grad_norm));
    t->at.step = b->step;
    t->at.tokens += b->T;
    t->at.supervised += b->supervised;
    r.epoch = rows_epochs_done(t->rows, b->step);
    r.tokens = b->T, r.supervised = b->supervised;
    r.seconds = seconds_between(begin, now());
    *loss = r.loss;
    return record_step(t, &r, err);
}

/* --- the run */

/* The number of steps between two of something that is set by steps, or by how often an epoch; 0: never. A fraction is one of all steps. */
static int64_t interval(const struct trainer *t, double steps, double per_epoch)
{
    double n = per_epoch > 0 ? (double)rows_steps_per_epoch(t->rows) / per_epoch : steps > 0 && steps < 1 ? ceil(steps * (double)t->total_steps) : steps;

    return n > 0 && n < 1 ? 1 : (int64_t)n;
}

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

static void sample_done(void *ctx, size_t i, const struct answer *a)
{
    struct trainer *t = ctx;

    log_info("sample: %s -> %.*s", t->cfg->sample_prompts.at[i], (int)a->len, a->text);
    record_sample(t, t->cfg->sample_prompts.at[i], a->text, a->len);
}

/* Greedy answers to sample_prompts, into events.jsonl. */
static enum pawl_status answer_samples(struct trainer *t, struct err *err)
{
    const struct str_list *texts = &t->cfg->sample_prompts;
    const struct prompt_maker maker = {t->tokenizer, t->chat, t->model->spec.max_position};
    const struct generate_options opt = {.sample = {.top_p = 1, .repetition_penalty = 1}, .max_tokens = 128, .parallel = 8};
    struct prompt *prompts = xcalloc(texts->n, sizeof *prompts);
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < texts->n && st == PAWL_OK; i++)
        st = t->chat ? prompt_user(&prompts[i], &maker, NULL, texts->at[i], strlen(texts->at[i]), err) : prompt_raw(&prompts[i], &maker, texts->at[i], strlen(texts->at[i]), err);
    if (st == PAWL_OK)
        st = generate(t->dev, t->model, &t->lora, t->operand, t->tokenizer, prompts, texts->n, 0, &opt, sample_done, NULL, t, err);
    for (size_t i = 0; i < texts->n; i++) free((void *)prompts[i].ids);
    free(prompts);
    return st == PAWL_OK ? st : err_prefix(err, "sample_prompts");
}

/* Held-out loss now; keeps count for early stopping. The best step is saved by the caller. */
static enum pawl_status evaluate_now(struct trainer *t, bool *best, struct err *err)
{
    struct evaluation ev;
    enum pawl_status st = evaluate(&ev, &t->net, t->eval_rows, NULL, false, err);

    if (st != PAWL_OK) return st;
    record_evaluation(t, &ev);
    if ((st = answer_samples(t, err)) != PAWL_OK) return st;
    *best = !(ev.loss >= t->at.best_loss); /* also where best_loss is NaN */
    t->at.evals_since_best = *best ? 0 : t->at.evals_since_best + 1;
    if (*best) {
        t->at.best_loss = ev.loss;
        t->at.best_step = t->at.step;
    }
    return PAWL_OK;
}

static enum pawl_status save_now(struct trainer *t, bool best, struct err *err)
{
    enum pawl_status st;

    if (best) {
        free(t->best);
        t->best = xasprintf("checkpoint-%lld", (long long)t->at.step);
    }
    if ((st = checkpoint_save(t, err)) != PAWL_OK) return st;
    if (best) st = store_link(t->store, "adapter-best", t->best, err);
    record_event(t, "checkpoint", "");
    return st;
}

static enum pawl_status watch_loss(struct trainer *t, double loss, struct err *err)
{
    const struct config *c = t->cfg;

    if (!(c->loss_watchdog_threshold > 0)) return PAWL_OK;
    t->at.watchdog = loss > c->loss_watchdog_threshold ? t->at.watchdog + 1 : 0;
    if (t->at.watchdog < c->loss_watchdog_patience) return PAWL_OK;
    return err_set(err, PAWL_ENUMERIC, "step %lld: the loss was above loss_watchdog_threshold %g for %lld steps in a row (now %g)", (long long)t->at.step, c->loss_watchdog_threshold,
                   (long long)t->at.watchdog, loss);
}

static enum pawl_status train_loop(struct trainer *t, struct err *err)
{
    const struct config *c = t->cfg;
    int64_t save_every = interval(t, c->save_steps, c->saves_per_epoch), eval_every = t->eval_rows ? interval(t, c->eval_steps, c->evals_per_epoch) : 0;
    struct timespec begin = now();
    enum pawl_status st;

    while (t->at.step < t->total_steps) {
        bool best = false, last, full, out_of_time;
        double loss = 0;

        if ((st = train_step(t, &loss, err)) != PAWL_OK || (st = watch_loss(t, loss, err)) != PAWL_OK) return st;
        last = t->at.step == t->total_steps;
        if ((due(t->at.step, eval_every) || (last && t->eval_rows)) && (st = evaluate_now(t, &best, err)) != PAWL_OK && st != PAWL_ESTOPPED) return st;
        if (c->early_stopping_patience && t->at.evals_since_best >= c->early_stopping_patience) {
            log_info("stopping early: the held-out loss has not improved for %lld evaluations", (long long)t->at.evals_since_best);
            last = true;
        }
        out_of_time = c->max_minutes > 0 && seconds_between(begin, now()) >= c->max_minutes * 60;
        full = last || best || stop_requested() || out_of_time || due(t->at.step, save_every) ||
               (c->save_minutes > 0 && seconds_between(t->last_save, now()) >= c->save_minutes * 60);
        if (full && (st = save_now(t, best, err)) != PAWL_OK) return st;
        if (last) break;
        if (stop_requested() || out_of_time)
            return err_set(err, PAWL_ESTOPPED, "stopped by %s at step %lld of %lld; all of it is durable: the same command goes on", stop_requested() ? stop_reason() : "max_minutes",
                           (long long)t->at.step, (long long)t->total_steps);
    }
    return PAWL_OK;
}

static void trainer_close(struct trainer *t)
{
    loader_close(t->loader);
    jsonl_close(t->metrics);
    jsonl_close(t->events);
    store_close(t->store);
    micro_free(&t->micro);
    net_free(&t->net);
    gradtree_free(&t->tree);
    arena_free(&t->arena);
    lora_free(&t->lora);
    rows_free(t->rows);
    rows_free(t->eval_rows);
    dataset_free(t->data);
    dataset_free(t->held_out);
    chat_template_free(t->chat);
    tokenizer_close(t->tokenizer);
    model_close(t->model);
    dev_close(t->dev);
    free(t->resumed_from);
    free(t->best);
}

enum pawl_status run_train(struct config *cfg, const struct trainer_options *opt, struct err *err)
{
    struct trainer t = {.cfg = cfg, .opt = *opt};
    enum pawl_status st;

    stop_watch();
    if ((st = open_model(&t, err)) != PAWL_OK || (st = start_or_resume(&t, err)) != PAWL_OK) goto done;
    if (t.at.step >= t.total_steps) {
        log_info("%s is finished: step %lld of %lld", cfg->output_dir, (long long)t.at.step, (long long)t.total_steps);
        goto done;
    }
    if ((st = loader_open(&t.loader, t.rows, t.at.step + 1, err)) != PAWL_OK) goto done;
    st = train_loop(&t, err);
    log_progress_end();
    record_event(&t, st == PAWL_OK ? "finished" : st == PAWL_ESTOPPED ? "preempted" : "failed", "");
    if (st == PAWL_OK) log_info("done: the adapter is %s/adapter", cfg->output_dir);
done:
    trainer_close(&t);
    return st;
}
