#include "train/run/trainer.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "kernels/profile.h"
#include "optim/clip.h"
#include "train/config/locate.h"
#include "train/run/base.h"
#include "train/run/checkpoint.h"
#include "train/run/evaluate.h"
#include "train/run/generate.h"
#include "train/run/journaling.h"
#include "train/run/ledger.h"
#include "train/run/record.h"
#include "train/run/remoting.h"
#include "train/run/restore.h"
#include "train/run/resume.h"
#include "train/run/room.h"
#include "train/run/spot.h"
#include "train/run/step.h"
#include "train/run/stop.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define METRICS_FILE "metrics.jsonl"
#define EVENTS_FILE "events.jsonl"

/* --- opening: model, then data */

static enum pawl_status open_model(struct trainer *t, struct err *err)
{
    const struct config *c = t->cfg;
    struct model_storage storage = {config_base_storage(c), c->bnb_4bit_quant_type == CONFIG_FP4 ? DTYPE_FP4 : DTYPE_NF4, c->bnb_4bit_use_double_quant};
    char *path = NULL;
    enum pawl_status st;

    if ((st = locate(&path, c->base_model, LOCATE_MODEL, NULL, err)) != PAWL_OK && !(path = restored_base(c->output_dir))) return st;
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
    char *cache = dataset_cache_dir(), *train = xasprintf("%s/" TOKENS_DIR "/train", c->output_dir), *test = xasprintf("%s/" TOKENS_DIR "/test", c->output_dir);
    enum pawl_status st;

    opt.tokenizer = t->tokenizer;
    opt.chat = t->chat;
    opt.vocab = t->model->spec.V;
    opt.threads = t->threads;
    opt.cache_dir = cache;
    opt.stop = stop_requested;
    opt.kept = train;
    if ((st = dataset_open(&t->data, c->datasets, c->ndatasets, &opt, err)) != PAWL_OK) goto done;
    opt.kept = test;
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
    free(train);
    free(test);
    return st;
}

/* --- a new run or an old one */

static enum pawl_status begin_adapter(struct trainer *t, struct err *err)
{
    const char *dir = t->cfg->lora_model_dir;
    struct lora given;
    enum pawl_status st;

    if (!dir) {
        lora_init(&t->lora, t->whole[0], (uint64_t)t->cfg->seed);
        return PAWL_OK;
    }
    if ((st = lora_open(&given, &t->model->spec, dir, err)) != PAWL_OK) return err_prefix(err, "lora_model_dir");
    if (given.r != t->lora.r || given.n != t->lora.n || given.alpha != t->lora.alpha)
        st = err_set(err, PAWL_EINVAL, "lora_model_dir %s: its adapter has r %d, alpha %g and %lld numbers, the configuration r %d, alpha %g and %lld: set lora_r, lora_alpha and lora_target_modules as it has them",
                     dir, given.r, given.alpha, (long long)given.n, t->lora.r, t->lora.alpha, (long long)t->lora.n);
    lora_free(&given);
    return st == PAWL_OK ? lora_read(&t->lora, t->whole[0], dir, err) : st;
}

/* metrics.jsonl where the state says that it ends. It is a record and no state: where it is lost the run goes on with a new one. */
static enum pawl_status open_metrics(struct trainer *t, struct err *err)
{
    char *path = xasprintf("%s/" METRICS_FILE, t->cfg->output_dir), *aside;
    enum pawl_status st = jsonl_open(&t->metrics, store_sys(t->store), path, t->at.metrics_offset, err);

    if (st == PAWL_EFORMAT) {
        aside = xasprintf("%s.bad", path);
        log_warn("%s; it is moved to %s, and a new one begins", err->text, aside);
        t->at.metrics_offset = 0;
        if ((st = file_rename(store_sys(t->store), path, aside, err)) == PAWL_OK) st = jsonl_open(&t->metrics, store_sys(t->store), path, 0, err);
        free(aside);
    }
    free(path);
    return st;
}

static enum pawl_status open_records(struct trainer *t, struct err *err)
{
    char *events = xasprintf("%s/" EVENTS_FILE, t->cfg->output_dir), *config = xasprintf("%s/" CONFIG_FILE, t->cfg->output_dir);
    struct buf yaml = {0};
    enum pawl_status st;

    config_write_yaml(t->cfg, &yaml);
    if ((st = file_replace(store_sys(t->store), config, yaml.data, yaml.len, err)) != PAWL_OK) goto done;
    if ((st = open_metrics(t, err)) != PAWL_OK) goto done;
    st = jsonl_open(&t->events, store_sys(t->store), events, JSONL_END, err);
done:
    buf_free(&yaml);
    free(events);
    free(config);
    return st;
}

/* The generation is above that of everything that was found, also of commits. */
static enum pawl_status begin_records(struct trainer *t, struct resume *r, struct err *err)
{
    uint64_t seen = r->at.generation > remoting_generation(t) ? r->at.generation : remoting_generation(t);
    enum pawl_status st;

    for (size_t i = 0; i < r->slots.n; i++)
        if (r->slots.items[i].at.generation > seen) seen = r->slots.items[i].at.generation;
    if ((st = store_raise_generation(t->store, seen, err)) != PAWL_OK || (st = open_records(t, err)) != PAWL_OK) return st;
    if (r->state) {
        t->resumed_from = xstrdup(r->name);
        t->durable_step = r->at.step;
    }
    t->saved_step = r->ckpt && !r->slot ? r->ckpt->step : -1;
    ledger_start(t, r);
    return PAWL_OK;
}

/* The last step is done, or early stopping has struck. */
static bool is_end(const struct trainer *t)
{
    return t->at.step >= t->total_steps || (t->cfg->early_stopping_patience && t->at.evals_since_best >= t->cfg->early_stopping_patience);
}

/* A process that died between a checkpoint and the links to it left them behind. */
static void mend_links(struct trainer *t, const struct resume *r)
{
    const struct {
        const char *link, *name;
    } links[] = {{STORE_NEWEST, r->ckpt ? r->ckpt->name : NULL}, {STORE_BEST, t->best}};

    for (int i = 0; i < 2; i++) {
        char *path = links[i].name ? xasprintf("%s/%s", store_dir(t->store), links[i].name) : NULL;

        if (path && file_exists(path)) store_link(t->store, links[i].link, links[i].name);
        free(path);
    }
}

/* The run directory is ours, and has what a remote knew better. */
static enum pawl_status open_run(struct trainer *t, struct err *err)
{
    enum pawl_status st;

    if ((st = store_open(&t->store, &fsys_real, t->cfg->output_dir, err)) != PAWL_OK) return st == PAWL_ELOCKED ? st : err_prefix(err, "output_dir");
    if (t->opt.fresh && (st = store_archive(t->store, err)) != PAWL_OK) return st;
    return remoting_open(t, err);
}

/* Rank 0 finds the state that a run stands at, and fixes the global batch. */
static enum pawl_status find_state(struct trainer *t, struct resume *r, struct err *err)
{
    enum pawl_status st;

    if ((st = resume_find(r, t->cfg->output_dir, err)) != PAWL_OK || (st = ledger_open(&t->ledger, t, r, err)) != PAWL_OK) return st;
    return r->state ? resume_check_config(t, r, err) : config_fix_batch(t->cfg, t->share.size, 0, err);
}

/* Rank 0 reads the state, or makes a new one. */
static enum pawl_status read_state(struct trainer *t, struct resume *r, struct err *err)
{
    enum pawl_status st = r->state ? resume_load(t, r, err) : begin_adapter(t, err);

    if (st != PAWL_OK) return st;
    mend_links(t, r);
    t->finished = r->ckpt && !r->slot && is_end(t) && !remoting_behind(t, r);
    return PAWL_OK;
}

static enum pawl_status start_or_resume(struct trainer *t, struct err *err)
{
    struct resume r = {0};
    bool chief = t->share.rank == 0;
    enum pawl_status st;

    t->at.best_loss = NAN;
    t->hash.step = t->whole_step = -1;
    if ((chief && (st = find_state(t, &r, err)) != PAWL_OK) || (st = share_global_batch(t, err)) != PAWL_OK) goto done;
    if ((st = share_in_turn(t, open_data, err)) != PAWL_OK || (st = share_compare(t, err)) != PAWL_OK || (st = room_allocate(t, err)) != PAWL_OK) goto done;
    t->total_steps = rows_total_steps(t->rows);
    t->warmup_steps = t->cfg->warmup_steps ? t->cfg->warmup_steps : (int64_t)ceil(t->cfg->warmup_ratio * (double)t->total_steps);
    if ((chief && (st = read_state(t, &r, err)) != PAWL_OK) || (st = share_deal(t, err)) != PAWL_OK) goto done;
    if ((st = share_any(t, &t->finished, err)) != PAWL_OK || t->finished) goto done;
    if (chief && ledger_too_expensive(t)) {
        st = err_set(err, PAWL_EINVAL, "max_cost %g: the run has cost %.2f already: raise it to go on", t->cfg->max_cost, t->at.cost);
        goto done;
    }
    if (chief && (st = begin_records(t, &r, err)) != PAWL_OK) goto done;
    if ((st = resume_replay(t, &r, err)) != PAWL_OK) goto done;
    if (chief) ledger_loaded(t, &r);
    if (chief && ((st = journaling_open(&t->journaling, t, r.slot ? r.slot->path : NULL, err)) != PAWL_OK || (st = remoting_start(t, &r, err)) != PAWL_OK)) goto done;
    st = share_operand(t, err);
    t->last_save = time_now();
done:
    resume_free(&r);
    return st;
}

/* --- what is known between steps */

#define LOST_PLACE "the loss of output_dir"

/* Why to stop between two steps, by what this rank knows; NULL: go on. */
static const char *why_stop(const struct trainer *t)
{
    if (t->homeless) return LOST_PLACE;
    if (stop_requested()) return stop_reason();
    if (t->share.rank) return NULL;
    if (t->cfg->max_minutes > 0 && seconds_between(t->begin, time_now()) >= t->cfg->max_minutes * 60) return "max_minutes";
    return ledger_too_expensive(t) ? "max_cost" : NULL;
}

static void fill_note(struct trainer *t, struct note *note)
{
    const char *why = why_stop(t);

    note->left = stop_seconds_left();
    note->saved_step = t->saved_step;
    note->commit = t->seconds_a_commit;
    note->hurry = spot_save_asked(t->spot);
    note->save = note->hurry || (t->share.rank == 0 && (remoting_save_asked(t) || (t->cfg->save_minutes > 0 && seconds_between(t->last_save, time_now()) >= t->cfg->save_minutes * 60)));
    if (why && t->share.size > 1 && why == stop_reason() && why != t->share.reason) snprintf(note->why, sizeof note->why, "%.40s of rank %d", why, t->share.rank);
    else if (why) snprintf(note->why, sizeof note->why, "%s", why);
}

/* --- one step */

/* After a step and before a save: is the run directory still there, and ours? */
static enum pawl_status watch_place(struct trainer *t, struct err *err)
{
    struct err moved;
    enum pawl_status st = store_watch(t->store, &moved);

    if (st == PAWL_EIO && !t->homeless) {
        log_warn("%s: this step is saved in a new one, and training stops", moved.text);
        t->homeless = true;
        t->saved_step = -1; /* what is durable is elsewhere, if anywhere */
    }
    t->evicted = st == PAWL_ELOCKED;
    if (t->evicted) *err = moved;
    return t->evicted ? st : PAWL_OK;
}

/* Several ranks do a step together or not at all: where one had no time for its rows, all stand where the step began. */
static enum pawl_status drop_step(struct trainer *t, const struct batch *b, struct err *err)
{
    struct note note = {0};
    enum pawl_status st;

    t->given_up = b->rows;
    t->at.row = 0, t->at.row_loss = 0;
    fill_note(t, &note);
    if ((st = share_agree(t, &note, err)) != PAWL_OK) return st;
    t->saved_step = note.saved_step;
    return err_set(err, PAWL_ESTOPPED, "stopped by %s", stop_reason());
}

/* PAWL_ESTOPPED where a notice leaves no time for the rest of the step: t->at.row says how far it got. */
static enum pawl_status train_step(struct trainer *t, struct err *err)
{
    struct timespec begin = time_now();
    const struct batch *b = loader_get(t->loader, t->at.step + 1);
    struct step_record r = {.step = b->step, .learning_rate = step_learning_rate(t, b->step)};
    struct step_sums sums;
    bool due, dropped, chief = t->share.rank == 0;
    int64_t row = t->at.row;
    enum pawl_status st;

    profile_begin_step(t->profile);
    st = step_accumulate(t, b, &t->at.row, &t->at.row_loss, true, err);
    dropped = st == PAWL_ESTOPPED && t->share.size > 1;
    if (st != PAWL_OK && !dropped) return st;
    due = chief && journaling_due(t);
    if ((st = step_gradient(t, b, &due, &dropped, &t->at.row_loss, &sums, err)) != PAWL_OK) return st;
    if (dropped) return drop_step(t, b, err);
    step_waited(t, b, row, seconds_between(begin, time_now()));
    if ((st = step_update(t, b->step, sums.norm, err)) != PAWL_OK) return st;
    profile_end_step(t->profile);
    t->hash.step = due ? b->step : -1;
    t->hash.batch = b->hash;
    t->hash.gradient = sums.hash;
    r.grad_norm = sums.norm;
    r.loss = t->at.row_loss / b->supervised;
    t->at.row = 0;
    t->at.row_loss = 0;
    t->at.step = b->step;
    t->at.tokens += b->T;
    t->at.supervised += b->supervised;
    t->at.watchdog = t->cfg->loss_watchdog_threshold > 0 && r.loss > t->cfg->loss_watchdog_threshold ? t->at.watchdog + 1 : 0;
    if (due && t->share.size > 1 && (st = share_collect(t, err)) != PAWL_OK) return st;
    r.epoch = rows_epochs_done(t->rows, b->step);
    r.tokens = b->T, r.supervised = b->supervised;
    r.seconds = seconds_between(begin, time_now());
    if (chief) {
        if ((st = watch_place(t, err)) != PAWL_OK) return st;
        record_step(t, &r);
        ledger_step(t);
        journaling_step(t, due);
    }
    if (t->cfg->loss_watchdog_threshold > 0 && t->at.watchdog >= t->cfg->loss_watchdog_patience)
        return err_set(err, PAWL_ENUMERIC, "step %lld: the loss was above loss_watchdog_threshold %g for %lld steps in a row (now %g)", (long long)t->at.step,
                       t->cfg->loss_watchdog_threshold, (long long)t->at.watchdog, r.loss);
    return PAWL_OK;
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

/* How the last thing went, on all ranks: a notice may have reached some before it and others after it. */
static enum pawl_status agree_on(struct trainer *t, enum pawl_status st, struct err *err)
{
    struct note note = {.status = (int32_t)st};

    if (st != PAWL_OK && st != PAWL_ESTOPPED) return st;
    if (st == PAWL_ESTOPPED) fill_note(t, &note);
    if ((st = share_agree(t, &note, err)) != PAWL_OK) return st;
    return (enum pawl_status)note.status;
}

/* The held-out loss; each rank takes a run of the batches. */
static enum pawl_status evaluate_together(struct trainer *t, struct evaluation *ev, struct err *err)
{
    const struct rows *rows = t->eval_rows;
    struct evaluation_sums sums = {.row_loss = xcalloc(rows->count, sizeof *sums.row_loss)};
    struct range mine = share_rows(t, rows_steps_per_epoch(rows));
    enum pawl_status st = evaluate_batches(&sums, &t->net, rows, mine.begin, mine.end, NULL, false, err);

    if ((st = agree_on(t, st, err)) != PAWL_OK || (st = share_evaluation(t, &sums, err)) != PAWL_OK) goto done;
    st = evaluate_finish(ev, &sums, rows, err);
done:
    free(sums.row_loss);
    return st;
}

/* Held-out loss now; keeps count for early stopping. The best step is saved by the caller. */
static enum pawl_status evaluate_now(struct trainer *t, bool *best, struct err *err)
{
    struct evaluation ev;
    enum pawl_status st = evaluate_together(t, &ev, err);

    if (st == PAWL_OK && t->share.rank == 0) {
        if (record_evicted(t, err)) return PAWL_ELOCKED;
        record_evaluation(t, &ev);
        if ((st = answer_samples(t, err)) == PAWL_ENOMEM) { /* they come on top of what was planned, and are no reason to lose a run */
            log_warn("%s; training goes on without answers", err->text);
            st = PAWL_OK;
        }
    }
    if ((st = agree_on(t, st, err)) != PAWL_OK) return st;
    t->at.evaluated_step = t->at.step;
    *best = !(ev.loss >= t->at.best_loss); /* also where best_loss is NaN */
    t->at.evals_since_best = *best ? 0 : t->at.evals_since_best + 1;
    if (*best) {
        t->at.best_loss = ev.loss;
        t->at.best_step = t->at.step;
    }
    return PAWL_OK;
}

/* The whole state where it can be saved, once the last commit has left it. */
static enum pawl_status collect(struct trainer *t, struct err *err)
{
    if (t->share.rank == 0 && t->share.size > 1) journaling_idle(t, 1e9);
    return share_collect(t, err);
}

/* Each rank its slices where all see the run directory; else rank 0 all of it. */
static enum pawl_status save_together(struct trainer *t, struct err *err)
{
    enum pawl_status st;

    if (t->share.sharded && !t->share.apart) {
        st = checkpoint_save_together(t, err);
        if (st != PAWL_OK || !t->share.apart) return st;
        log_info("output_dir is not one file system for all ranks: rank 0 collects their slices to save them");
    }
    if ((st = collect(t, err)) != PAWL_OK) return st;
    return t->share.rank ? PAWL_OK : checkpoint_save(t, err);
}

/* together: on all ranks; else rank 0 alone, from what was collected. */
static enum pawl_status save_now(struct trainer *t, bool together, struct err *err)
{
    bool best = t->at.best_step == t->at.step && !isnan(t->at.best_loss);
    enum pawl_status st;

    if (!t->share.rank && (st = watch_place(t, err)) != PAWL_OK) return st;
    if (best && !t->share.rank) {
        free(t->best);
        t->best = xasprintf(CKPT_PREFIX "%lld", (long long)t->at.step);
    }
    if ((st = together ? save_together(t, err) : checkpoint_save(t, err)) != PAWL_OK || t->share.rank) return st;
    if (best) store_link(t->store, STORE_BEST, t->best);
    record_event(t, "checkpoint", "");
    return PAWL_OK;
}

/* A save that fails between others costs nothing but itself: it is said, and the next one is tried when it is due. PAWL_ELOCKED: the place is another's now. */
static enum pawl_status save_if_possible(struct trainer *t, bool together, struct err *err)
{
    struct buf fields = {0};
    struct err failed;

    if (save_now(t, together, &failed) == PAWL_OK || t->share.rank || comm_check(t->share.comm, NULL) != PAWL_OK) return PAWL_OK;
    if (record_evicted(t, err)) return PAWL_ELOCKED;
    log_warn("step %lld is not saved as a checkpoint, training goes on: %s", (long long)t->at.step, failed.text);
    buf_adds(&fields, ",\"what\":\"checkpoint\",\"why\":");
    json_add_string(&fields, failed.text, strlen(failed.text));
    record_event(t, "warning", fields.data);
    buf_free(&fields);
    return PAWL_OK;
}

/* Everything durable within what the notice leaves: the journal first, then a checkpoint where there is time for one. */
static enum pawl_status stop_now(struct trainer *t, const char *why, struct err *err)
{
    double need = t->seconds_a_save > 0 ? t->seconds_a_save : 3 * t->seconds_a_commit + 0.2;
    const char *again = t->opt.fresh ? "the same command without --fresh" : "the same command";
    bool durable, lost = t->homeless;
    char within[64] = "";
    enum pawl_status st;

    if (t->at.row) snprintf(within, sizeof within, " and within the next");
    if (t->share.size > 1 && t->given_up) snprintf(within, sizeof within, ", given up step %lld for want of time", (long long)t->at.step + 1);
    snprintf(t->stopped_by, sizeof t->stopped_by, "%s", why);
    if (t->saved_step != t->at.step && (st = collect(t, err)) != PAWL_OK) return st;
    if (t->share.rank) return err_set(err, PAWL_ESTOPPED, "stopped by %s at step %lld", why, (long long)t->at.step);
    if (record_evicted(t, err)) return PAWL_ELOCKED;
    durable = !lost && journaling_now(t, stop_seconds_left());
    if (!durable && t->at.row) t->at.row = 0, t->at.row_loss = 0, within[0] = 0; /* what can't be saved is computed again */
    durable |= !lost && t->durable_step == t->at.step;
    if (!t->at.row && t->saved_step != t->at.step && (!durable || stop_seconds_left() > 1.5 * need + remoting_seconds(t)) && (st = save_if_possible(t, false, err)) != PAWL_OK) return st;
    if (durable || t->saved_step == t->at.step)
        return err_set(err, PAWL_ESTOPPED, "stopped by %s at step %lld of %lld%s; all of it is durable: %s goes on", why, (long long)t->at.step, (long long)t->total_steps, within, again);
    if (lost) t->durable_step = 0;
    return err_set(err, PAWL_ESTOPPED, "stopped by %s at step %lld of %lld%s; durable is step %lld: %s goes on from there", why, (long long)t->at.step,
                   (long long)t->total_steps, within, (long long)t->durable_step, again);
}

/* Another rank is gone, and with it a part of the state: what the journal has is what there is. */
static enum pawl_status stop_broken(struct trainer *t, struct err *err)
{
    struct err why = *err;

    t->at.row = 0;
    if (t->share.rank) return why.status;
    journaling_idle(t, t->cfg->comm_timeout);
    return err_set(err, why.status, "%s; stopped within step %lld of %lld, durable is step %lld: start again with the ranks that are left", why.text, (long long)t->at.step + 1,
                   (long long)t->total_steps, (long long)t->durable_step);
}

/* No later save makes up for this one: where it fails it is tried again, by all ranks. */
static enum pawl_status save_last(struct trainer *t, struct err *err)
{
    enum pawl_status st = save_now(t, true, err), all;
    bool failed = st != PAWL_OK;
    struct err failure;

    if (t->evicted) return st;
    if ((all = share_any(t, &failed, &failure)) != PAWL_OK) {
        *err = failure;
        return all;
    }
    if (!failed) return PAWL_OK;
    if (!t->share.rank) log_warn("the last checkpoint is tried again: %s", err->text);
    return save_now(t, true, err);
}

/* What has to be done where the run stands, whether it came here by a step or by a resume: evaluate, save. *end: the run is done. */
static enum pawl_status between_steps(struct trainer *t, int64_t eval_every, int64_t save_every, bool save_asked, bool *end, struct err *err)
{
    bool last = t->at.step >= t->total_steps, best = false;
    enum pawl_status st;

    if (t->eval_rows && t->at.evaluated_step != t->at.step && (last || due(t->at.step, eval_every))) {
        st = evaluate_now(t, &best, err);
        if (st != PAWL_OK) return st;
    }
    *end = is_end(t);
    if (*end && !last) log_info("stopping early: the held-out loss has not improved for %lld evaluations", (long long)t->at.evals_since_best);
    if (t->saved_step == t->at.step) return PAWL_OK;
    if (!*end && !(t->at.step && (best || save_asked || due(t->at.step, save_every)))) return PAWL_OK;
    if (*end) return save_last(t, err);
    return save_if_possible(t, true, err);
}

static enum pawl_status train_loop(struct trainer *t, struct err *err)
{
    const struct config *c = t->cfg;
    int64_t save_every = interval(t, c->save_steps, c->saves_per_epoch), eval_every = t->eval_rows ? interval(t, c->eval_steps, c->evals_per_epoch) : 0;

    t->begin = time_now();
    for (;;) {
        bool end = false;
        struct note note = {0};
        const char *why;
        enum pawl_status st;

        fill_note(t, &note);
        if ((st = share_agree(t, &note, err)) != PAWL_OK) return stop_broken(t, err);
        why = note.why[0] ? note.why : NULL;
        t->saved_step = note.saved_step;
        t->seconds_a_commit = note.commit;
        if (note.hurry && t->share.rank == 0) remoting_hurry(t);
        /* Where it stands within a step, what follows a step has been done. */
        if (!why && !t->at.row) st = between_steps(t, eval_every, save_every, note.save, &end, err);
        if (st == PAWL_OK && end) return share_tell(t, err);
        if (st == PAWL_OK && !why && (t->share.rank || (st = remoting_step(t, err)) == PAWL_OK)) st = train_step(t, err);
        if (st == PAWL_OK && !why) share_count(t);
        if (comm_check(t->share.comm, err) != PAWL_OK) return stop_broken(t, err);
        if (st != PAWL_ELOCKED && (why || st == PAWL_ESTOPPED)) return stop_now(t, why ? why : stop_reason(), err);
        if (st != PAWL_OK) return st;
    }
}

static void trainer_close(struct trainer *t)
{
    share_free(&t->share);
    loader_close(t->loader);
    journaling_copied(t); /* into memory that is freed below */
    remoting_close(t->remoting);
    journaling_close(t->journaling);
    ledger_close(t->ledger);
    spot_close(t->spot);
    jsonl_close(t->metrics);
    jsonl_close(t->events);
    store_close(t->store);
    micro_free(&t->micro);
    net_free(&t->net);
    dev_arena_free(t->dev, &t->arena);
    if (t->pinned) t->dev->ops->unpin(t->dev, t->staging);
    arena_free(&t->host);
    lora_free(&t->lora);
    rows_free(t->rows);
    rows_free(t->eval_rows);
    dataset_free(t->data);
    dataset_free(t->held_out);
    chat_template_free(t->chat);
    tokenizer_close(t->tokenizer);
    model_close(t->model);
    profile_close(t->profile);
    dev_close(t->dev);
    free(t->resumed_from);
    free(t->best);
}

/* What this process leaves behind goes to the remote too: within the time of a notice, else with patience. */
static enum pawl_status upload_end(struct trainer *t, enum pawl_status st, struct err *err)
{
    struct err failed;
    enum pawl_status up = st == PAWL_ELOCKED ? PAWL_OK : remoting_end(t, stop_requested() ? stop_seconds_left() - 0.2 : -1, &failed);

    if (up == PAWL_OK) return st;
    if (st != PAWL_OK && up != PAWL_ELOCKED) {
        log_warn("%s", failed.text);
        return st;
    }
    *err = failed;
    return up;
}

static enum pawl_status run(struct trainer *t, struct err *err)
{
    enum pawl_status st;
    bool agreed;

    if ((st = share_open(t, err)) != PAWL_OK || (t->share.rank == 0 && (st = open_run(t, err)) != PAWL_OK)) return st;
    if ((st = share_device(t, err)) != PAWL_OK || (st = share_in_turn(t, open_model, err)) != PAWL_OK || (st = start_or_resume(t, err)) != PAWL_OK) return st;
    if (t->finished) {
        if (t->ledger) ledger_forgive(t);
        log_info("%s is finished: step %lld of %lld", t->cfg->output_dir, (long long)t->at.step, (long long)t->total_steps);
        return PAWL_OK;
    }
    if (t->opt.profile) t->profile = profile_open(t->dev);
    if ((st = loader_open(&t->loader, t->rows, t->at.step + 1, err)) != PAWL_OK) return st;
    st = train_loop(t, err);
    agreed = st == PAWL_OK || (st == PAWL_ESTOPPED && comm_check(t->share.comm, NULL) == PAWL_OK);
    share_leave(t, agreed ? PAWL_OK : st, agreed ? NULL : err->text);
    log_progress_end();
    if (t->share.rank) return st;
    if (record_evicted(t, NULL)) return st; /* journal and records are another's now */
    if (st != PAWL_ESTOPPED) {
        t->at.row = 0; /* also of a run that failed: the last whole step is worth keeping, what went wrong after it is not */
        journaling_now(t, 1e9);
    }
    ledger_end(t, st, err);
    st = upload_end(t, st, err);
    if (t->profile) record_profile(t);
    if (st == PAWL_OK) log_info("done: the adapter is %s/adapter", t->cfg->output_dir);
    return st;
}

enum pawl_status run_train(struct config *cfg, const struct trainer_options *opt, struct err *err)
{
    struct trainer t = {.cfg = cfg, .opt = *opt, .threads = (int)cfg->threads};
    enum pawl_status st;

    if (opt->ranks.size > 1 && !t.threads) t.threads = ranks_threads(&opt->ranks);
    stop_watch();
    stop_set_grace(cfg->preempt_grace_seconds);
    t.spot = opt->ranks.local_rank == 0 ? spot_open(cfg->spot) : NULL;
    st = run(&t, err);
    share_leave(&t, st, st == PAWL_OK ? NULL : err->text);
    if (t.store && !t.evicted) ledger_tell(&t, st);
    trainer_close(&t);
    return st;
}
