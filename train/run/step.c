#include "train/run/step.h"

#include "kernels/base/hash.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "train/run/journaling.h"
#include "train/run/stop.h"

#include <math.h>

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

/* What an emergency save of so many rows takes, by what the last commit took: three parts, and one more a pending node; then half as much again, for the disk's moods. */
static double save_seconds(const struct trainer *t, int64_t row)
{
    if (t->share.size > 1) row = 0;
    if (t->cfg->journal < 0) return 1.5 * t->seconds_a_save;
    return 1.5 * t->seconds_a_commit * (3 + __builtin_popcountll((unsigned long long)row)) / 3;
}

/* Whether the rest of the step must be left for later: by the time that a micro-batch took so far. */
static bool must_stop(struct trainer *t, int64_t row, int64_t end)
{
    double rest = t->seconds_a_row * (double)(end - row);

    return share_asked_to_stop(t) && stop_seconds_left() < rest + save_seconds(t, row);
}

/* A micro-batch under way. */
struct under_way {
    struct trainer *t;
    struct timespec begin;
    int64_t row, rows; /* the first one, and how many */
};

static void layer_done(void *ctx, int layer)
{
    const struct under_way *u = ctx;

    share_layer_done(u->t, layer);
}

/* Whether it must be given up: by the time that the last one took, or where there was none, if as much again as until now does not fit. */
static bool must_give_up(void *ctx)
{
    const struct under_way *u = ctx;
    double so_far, rest;

    if (!share_asked_to_stop(u->t)) return false;
    so_far = seconds_between(u->begin, time_now());
    rest = u->t->seconds_a_row > 0 ? u->t->seconds_a_row * (double)u->rows - so_far : so_far;
    return stop_seconds_left() < (rest > 0 ? rest : 0) + save_seconds(u->t, u->row);
}

enum pawl_status step_accumulate(struct trainer *t, const struct batch *b, int64_t *row, double *loss, bool may_stop, struct err *err)
{
    bool alone = t->share.size == 1;
    struct under_way u = {.t = t};
    struct net_step step = {.seed = (uint64_t)t->cfg->seed, .step = b->step, .give_up = may_stop ? must_give_up : NULL, .ctx = &u, .drops = !alone};
    struct range run = share_rows(t, b->rows);
    int micro = (int)t->cfg->micro_batch_size;
    double a_row;
    enum pawl_status st;

    t->tree.first = run.begin;
    if (*row < run.begin) *row = run.begin;
    while (*row < run.end) {
        int first = (int)*row, n = first + micro <= run.end ? micro : (int)run.end - first, i = 0;

        if (may_stop && must_stop(t, first, run.end)) return err_set(err, PAWL_ESTOPPED, "stopped by %s", stop_reason());
        micro_view(&t->micro, b, first, n);
        u.begin = time_now(), u.row = first, u.rows = n;
        if (first + n == run.end) {
            if ((st = share_begin_gradient(t, b, err)) != PAWL_OK) return st;
            step.layer_done = layer_done;
        }
        if (!net_train(&t->net, &t->micro, step, (float)(1.0 / b->supervised), &t->tree, t->loss)) {
            t->given_up = n;
            return err_set(err, PAWL_ESTOPPED, "stopped by %s", stop_reason());
        }
        if ((st = dev_check(t->dev, err)) != PAWL_OK) return st;
        /* Each row's losses are added by themselves and the rows in order, so that neither the micro-batch nor the number of ranks shows. */
        for (int r = 0; r < n; r++) {
            double sum = 0;

            for (; i < t->micro.S && t->micro.index[i] < t->micro.row_start[r + 1]; i++) sum += (double)t->loss[i];
            t->share.row_loss[first + r] = sum;
            *loss += sum;
        }
        if (alone && !isfinite(*loss)) return bad_number(t, b, first, n, "loss", *loss, err);
        *row += n;
        journaling_copied(t); /* its losses came after the last step's state */
        a_row = seconds_between(u.begin, time_now()) / n;
        if (!t->dev->ops->available || a_row > t->seconds_a_row) t->seconds_a_row = a_row; /* a card is still busy with the backward pass: what step_waited said is nearer */
        if (t->store) store_touch(t->store);
    }
    return PAWL_OK;
}

/* Of the own slice. Borders lie on blocks, the hash of a block does not depend on the others', their sum does not depend on who comes first. */
static uint64_t gradient_hash(const struct trainer *t)
{
    struct range own = t->share.own;
    const float *g = t->g + (own.begin - t->share.held.begin);
    uint64_t h = 0;

    if (t->dev->ops->block_hashes) {
        int64_t n = clip_blocks(range_count(own));
        const uint64_t *of;

        t->dev->ops->block_hashes(t->dev, t->hash_blocks, g, range_count(own), CLIP_BLOCK, (uint64_t)(own.begin / CLIP_BLOCK));
        of = dev_fetch(t->dev, &t->arena, t->hash_blocks, (size_t)n * sizeof *of);
        for (int64_t i = 0; i < n; i++) h += of[i];
        return h;
    }
#pragma omp parallel for schedule(static) reduction(+ : h) num_threads(t->dev->threads)
    for (int64_t at = own.begin; at < own.end; at += CLIP_BLOCK)
        h += hash64((uint64_t)(at / CLIP_BLOCK), g + (at - own.begin), (size_t)(at + CLIP_BLOCK <= own.end ? CLIP_BLOCK : own.end - at) * sizeof *g);
    return h;
}

/* The sum of losses of all rows in order, and the first one that is no number. */
static enum pawl_status sum_losses(const struct trainer *t, const struct batch *b, double *loss, struct err *err)
{
    if (t->share.size == 1) return PAWL_OK;
    *loss = 0;
    for (int r = 0; r < b->rows; r++) {
        *loss += t->share.row_loss[r];
        if (!isfinite(*loss)) return bad_number(t, b, r, 1, "loss", *loss, err);
    }
    return PAWL_OK;
}

enum pawl_status step_gradient(struct trainer *t, const struct batch *b, bool *hashed, bool *dropped, double *loss, struct step_sums *out, struct err *err)
{
    const struct share *s = &t->share;
    double *blocks = t->norm_blocks + s->own.begin / CLIP_BLOCK;
    enum pawl_status st = share_gradient(t, b, hashed, dropped, err);

    if (st != PAWL_OK || *dropped) return st;
    t->dev->ops->sum_squares(t->dev, blocks, t->g + (s->own.begin - s->held.begin), range_count(s->own), CLIP_BLOCK);
    dev_fetch(t->dev, &t->arena, blocks, (size_t)clip_blocks(range_count(s->own)) * sizeof *blocks);
    out->hash = *hashed ? gradient_hash(t) : 0;
    if ((st = dev_check(t->dev, err)) != PAWL_OK || (st = share_sums(t, b, &out->hash, err)) != PAWL_OK || (st = sum_losses(t, b, loss, err)) != PAWL_OK) return st;
    out->norm = clip_norm_of(arena_host(&t->arena, t->norm_blocks), clip_blocks(t->lora.n));
    return isfinite(out->norm) ? PAWL_OK : bad_number(t, b, 0, b->rows, "gradient norm", out->norm, err);
}

void step_waited(struct trainer *t, const struct batch *b, int64_t row, double seconds)
{
    struct range run = share_rows(t, b->rows);
    int64_t rows = run.end - (row > run.begin ? row : run.begin);

    if (t->dev->ops->available && rows > 0) t->seconds_a_row = seconds / (double)rows;
}

double step_learning_rate(const struct trainer *t, int64_t step)
{
    const struct config *c = t->cfg;

    return schedule_rate(&(struct schedule_options){c->lr_scheduler, c->learning_rate, t->warmup_steps, t->total_steps, c->cosine_min_lr_ratio}, step);
}

/* With LoRA+ (Hayou et al. 2024) the B of each pair has a higher rate than the A. */
enum pawl_status step_update(struct trainer *t, int64_t step, double norm, struct err *err)
{
    const struct config *c = t->cfg;
    double rate = step_learning_rate(t, step), clip = clip_factor(norm, c->max_grad_norm);
    const struct adamw_options opt = {c->adam_beta1, c->adam_beta2, c->adam_epsilon, c->weight_decay};
    struct adamw a = adamw_factors(&opt, step, rate, clip), b;
    struct range held = t->share.held;
    size_t e = (size_t)dtype_info[t->dev->act].bytes;

    if (c->loraplus_lr_ratio <= 0) { /* every number by the same factors */
        t->dev->ops->adamw(t->dev, t->theta, (char *)t->operand + (size_t)held.begin * e, t->m, t->v, t->g, range_count(held), &a);
        return share_gather_operand(t, err);
    }
    b = adamw_factors(&opt, step, rate * c->loraplus_lr_ratio, clip);
    for (int i = 0; i < t->lora.pairs; i++) {
        const struct lora_pair *p = &t->lora.pair[i];
        const struct {
            int64_t begin, end;
            const struct adamw *hyper;
        } sides[] = {{p->a, p->b, &a}, {p->b, p->b + (int64_t)p->out * t->lora.r, &b}};

        for (int k = 0; k < 2 && p->a >= 0; k++) {
            int64_t begin = sides[k].begin > held.begin ? sides[k].begin : held.begin, end = sides[k].end < held.end ? sides[k].end : held.end, at = begin - held.begin;

            if (begin >= end) continue;
            t->dev->ops->adamw(t->dev, t->theta + at, (char *)t->operand + (size_t)begin * e, t->m + at, t->v + at, t->g + at, end - begin, sides[k].hyper);
        }
    }
    return share_gather_operand(t, err);
}
