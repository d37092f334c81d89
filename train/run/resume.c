#include "train/run/resume.h"

#include "ckpt/safetensors.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/checkpoint.h"
#include "train/run/record.h"
#include "train/run/state.h"
#include "train/run/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- finding */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void take(struct resume *r)
{
    const struct journal_slot *s = r->slots.n && r->slots.items[0].why.status == PAWL_OK ? &r->slots.items[0] : NULL;
    struct journal_at c = r->ckpt ? (struct journal_at){r->ckpt->generation, r->ckpt->step, 0} : (struct journal_at){0};

    if (s && (!r->ckpt || journal_order(s->at, c) > 0)) {
        r->slot = s;
        r->at = s->at;
        r->state = s->state;
        r->name = xasprintf(JOURNAL_DIR "/%s", base_name(s->path));
    } else if (r->ckpt) {
        r->at = c;
        r->state = r->ckpt->state;
        r->name = xstrdup(r->ckpt->name);
    }
    for (size_t i = 0; i < r->slots.n && r->at.row == 0; i++) {
        const struct journal_slot *b = &r->slots.items[i];

        if (b->why.status == PAWL_OK && b->at.row == 0 && b->at.step == r->at.step - 1 && b->at.generation <= r->at.generation) r->before = b;
    }
}

enum pawl_status resume_find(struct resume *r, const char *run_dir, struct err *err)
{
    struct timespec begin = time_now();
    char *dir = xasprintf("%s/" JOURNAL_DIR, run_dir);
    size_t skipped = 0, damaged = 0;
    enum pawl_status st;

    *r = (struct resume){0};
    if ((st = ckpt_newest(&r->ckpt, &skipped, run_dir, err)) != PAWL_OK) goto done;
    if ((st = journal_read(&r->slots, dir, err)) != PAWL_OK) goto done;
    take(r);
    for (size_t i = 0; i < r->slots.n; i++) {
        const struct journal_slot *s = &r->slots.items[i];

        damaged += s->why.status != PAWL_OK && !s->blank;
        /* A slot whose data was being overwritten is no loss: the other one is newer. Where the record can't be read nobody knows what is lost. */
        if (s->why.status != PAWL_OK && !s->blank && (!s->at.generation || journal_order(s->at, r->at) > 0)) log_warn(JOURNAL_DIR "/%s is not used: %s", base_name(s->path), s->why.text);
    }
    /* A single slot whose first commit was cut off never counted. */
    if (!r->state && (skipped || damaged > 1))
        st = err_set(err, PAWL_EFORMAT, "%s: %zu checkpoints and %zu journal slots are here, but none verifies: put a good one back, or begin anew with --fresh, which deletes nothing",
                     run_dir, skipped, damaged);
done:
    free(dir);
    r->verify_seconds = seconds_between(begin, time_now());
    return st;
}

void resume_free(struct resume *r)
{
    ckpt_free(r->ckpt);
    journal_slots_free(&r->slots);
    free(r->name);
    *r = (struct resume){0};
}

/* --- taking up */

static enum pawl_status old_config(struct config **out, const struct resume *r, struct err *err)
{
    const char *text = json_string(json_get(r->state, "config"), NULL);
    char *path;
    enum pawl_status st;

    if (text) return config_parse(out, r->name, text, strlen(text), err);
    if (!r->ckpt) return err_set(err, PAWL_EFORMAT, "%s: holds no configuration", r->name);
    path = xasprintf("%s/" CONFIG_FILE, r->ckpt->path);
    st = config_load(out, path, NULL, 0, err);
    free(path);
    return st;
}

enum pawl_status resume_check_config(struct trainer *t, const struct resume *r, struct err *err)
{
    struct config *old = NULL;
    struct buf changes = {0};
    enum pawl_status st;
    size_t n;

    if ((st = old_config(&old, r, err)) != PAWL_OK) goto done;
    if ((st = config_fix_batch(t->cfg, t->share.size, old->global_batch_size, err)) != PAWL_OK) goto done;
    n = config_diff(old, t->cfg, true, &changes);
    if (n && !t->opt.accept_changes) {
        for (size_t i = 0; i + 1 < changes.len; i++)
            if (changes.data[i] == '\n') changes.data[i] = ';';
        st = err_set(err, PAWL_EINVAL, "%s/%s was trained with another configuration: %.*s; --accept-changes goes on all the same, --fresh begins anew", t->cfg->output_dir, r->name,
                     (int)changes.len - 1, changes.data);
    } else if (n) {
        log_warn("the configuration changed since %s:\n%s", r->name, changes.data);
    }
done:
    buf_free(&changes);
    config_free(old);
    return st;
}

static enum pawl_status load_moments(struct trainer *t, const struct ckpt *c, struct err *err)
{
    char *path = xasprintf("%s/%s", c->path, OPTIMIZER_FILE);
    struct {
        const char *name;
        float *to;
    } parts[] = {{"m", t->whole[1]}, {"v", t->whole[2]}};
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

/* Into t->whole: theta, m, v. Then the pending nodes of the gradient tree from the smallest up. Those are of the first rows, which several ranks share out: they begin the step anew. */
static enum pawl_status load_slot(struct trainer *t, const struct journal_slot *s, struct err *err)
{
    size_t bytes = (size_t)t->lora.n * sizeof *t->theta;
    float *to[JOURNAL_PARTS] = {t->whole[0], t->whole[1], t->whole[2]};
    int n = 3, pending = 0;

    for (int l = 0; l < GRADTREE_LEVELS; l++) pending += s->at.row >> l & 1;
    if (s->parts != 3 + pending || s->at.row > t->cfg->global_batch_size) return err_set(err, PAWL_EFORMAT, "%s: %d parts, expected %d", s->path, s->parts, 3 + pending);
    for (int l = 0; l < t->tree.levels && t->share.size == 1; l++)
        if (s->at.row >> l & 1) to[n++] = t->tree.level[l];
    for (int i = 0; i < n; i++) {
        if (s->part[i].bytes != bytes) return err_set(err, PAWL_EFORMAT, "%s: part %d has %zu bytes, expected %zu", s->path, i, s->part[i].bytes, bytes);
        if (i < 3) memcpy(to[i], s->part[i].data, bytes);
        else t->dev->ops->upload(t->dev, to[i], s->part[i].data, bytes);
    }
    return PAWL_OK;
}

enum pawl_status resume_load(struct trainer *t, struct resume *r, struct err *err)
{
    struct timespec begin = time_now();
    struct buf why = {0};
    enum pawl_status st;

    if ((st = state_check_identity(t, r->state, r->name, err)) != PAWL_OK) return st;
    if (r->slot) st = load_slot(t, r->slot, err);
    else if ((st = lora_read(&t->lora, t->whole[0], r->ckpt->path, err)) == PAWL_OK) st = load_moments(t, r->ckpt, err);
    if (st != PAWL_OK) return st;
    state_read(t, r->state);
    t->at.step = r->at.step;
    t->at.row = r->at.row;
    if (t->share.size > 1) t->at.row = 0, t->at.row_loss = 0;
    if (!isnan(t->at.best_loss)) t->best = xasprintf(CKPT_PREFIX "%lld", (long long)t->at.best_step);
    if (state_why_other_bits(t, r->state, &why) && !dev_alike(json_string(json_get(r->state, "device"), ""), t->dev->name))
        log_warn("%s: %s: the last bits of the losses may differ from an uninterrupted run's", r->name, why.data);
    buf_free(&why);
    r->load_seconds = seconds_between(begin, time_now());
    return PAWL_OK;
}

/* --- proving */

struct replay {
    bool batch, gradient, update; /* the same, bit by bit */
};

/* The slices that this rank holds. */
static void copy_state(struct trainer *t, float *to, bool back)
{
    float *parts[] = {t->theta, t->m, t->v};
    int64_t n = range_count(t->share.held);

    for (int i = 0; i < 3; i++) {
        if (back) t->dev->ops->upload(t->dev, parts[i], to + i * n, (size_t)n * sizeof *to);
        else t->dev->ops->download(t->dev, to + i * n, parts[i], (size_t)n * sizeof *to);
    }
}

/* From the state before to the one that t->at tells; now and expected are compared by every rank. */
static enum pawl_status recompute(struct trainer *t, const struct resume *r, const float *expected, struct replay *out, struct err *err)
{
    int64_t n = range_count(t->share.held);
    float *now[] = {t->theta, t->m, t->v};
    size_t bytes = (size_t)n * sizeof *expected;
    struct batch b;
    int64_t row = 0;
    double loss = 0;
    bool hashed = true, dropped = false, differs = false;
    struct step_sums sums;
    enum pawl_status st;

    batch_init(&b, t->rows);
    batch_build(&b, t->at.step);
    out->batch = b.hash == t->hash.batch;
    if (r->before && (st = load_slot(t, r->before, err)) != PAWL_OK) goto done;
    if ((st = share_deal(t, err)) != PAWL_OK || (st = share_operand(t, err)) != PAWL_OK) goto done;
    if ((st = step_accumulate(t, &b, &row, &loss, false, err)) != PAWL_OK || (st = step_gradient(t, &b, &hashed, &dropped, &loss, &sums, err)) != PAWL_OK) goto done;
    out->gradient = sums.hash == t->hash.gradient;
    if ((st = step_update(t, t->at.step, sums.norm, err)) != PAWL_OK) goto done;
    for (int i = 0; i < 3; i++) differs |= memcmp(dev_fetch(t->dev, &t->arena, now[i], bytes), expected + i * n, bytes) != 0;
    if ((st = dev_check(t->dev, err)) == PAWL_OK) st = share_any(t, &differs, err);
    out->update = !differs;
done:
    batch_free(&b);
    return st;
}

static const char *why_not(const struct trainer *t, const struct resume *r)
{
    if (!r->state) return "there is no state";
    if (r->at.row) return "the state lies within a step";
    if (t->hash.step != r->at.step) return "the state holds no hashes";
    if (!r->before) return "there is no state of one step before";
    return NULL;
}

/* The batch is a pure function of data and configuration: it is checked even where nothing can be computed again. */
static bool same_batch(const struct trainer *t, const struct resume *r)
{
    struct batch b;
    bool same;

    batch_init(&b, t->rows);
    batch_build(&b, r->at.step);
    same = b.hash == t->hash.batch;
    batch_free(&b);
    return same;
}

enum pawl_status resume_replay(struct trainer *t, struct resume *r, struct err *err)
{
    static const char *const words[] = {"differs", "same"};
    struct timespec begin = time_now();
    const char *impossible = why_not(t, r), *other_bits;
    bool possible = t->cfg->resume_check && t->cfg->journal >= 0 && !impossible;
    float *scratch = t->staging;
    struct replay same = {0};
    struct buf why = {0}, fields = {0};
    enum pawl_status st = share_any(t, &possible, err);

    if (st != PAWL_OK || !t->cfg->resume_check || (t->share.rank == 0 && !r->state)) return st;
    other_bits = state_why_other_bits(t, r->state, &why);
    if (!possible) {
        if (!impossible) impossible = "there is no journal";
        buf_addf(&fields, ",\"proved\":false,\"possible\":false,\"why\":\"%s\"", impossible);
        if (t->hash.step == r->at.step && r->at.step > 0) buf_addf(&fields, ",\"batch\":\"%s\"", words[same_batch(t, r)]);
        record_event(t, "replay", fields.data);
        log_debug("the last step can't be computed again: %s", impossible);
        goto done;
    }
    /* With several ranks the staging buffer is where rank 0 reads the whole state. */
    if (t->share.size > 1) scratch = xreallocarray(NULL, (size_t)range_count(t->share.held) * 3 + 1, sizeof *scratch);
    copy_state(t, scratch, false);
    if ((st = recompute(t, r, scratch, &same, err)) != PAWL_OK) goto done;
    copy_state(t, scratch, true);
    if (t->share.rank) goto done;
    r->replay_seconds = seconds_between(begin, time_now());
    buf_addf(&fields, ",\"proved\":%s,\"possible\":true,\"batch\":\"%s\",\"gradient\":\"%s\",\"update\":\"%s\",\"seconds\":%.3f",
             same.batch && same.gradient && same.update ? "true" : "false", words[same.batch], words[same.gradient], words[same.update], r->replay_seconds);
    if (other_bits) {
        buf_adds(&fields, ",\"why\":");
        json_add_string(&fields, other_bits, strlen(other_bits));
    }
    record_event(t, "replay", fields.data);
    if (same.batch && same.gradient && same.update)
        log_info("step %lld computed again from the state before it: batch, gradient and update are the same bit for bit", (long long)r->at.step);
    else if (other_bits)
        log_warn("step %lld computed again: batch %s, gradient %s, update %s; that may be, since %s", (long long)r->at.step, words[same.batch], words[same.gradient], words[same.update],
                 other_bits);
    else
        st = err_set(err, PAWL_EFORMAT,
                     "%s: step %lld computed again from the state before it: batch %s, gradient %s, update %s, on the same kind of device: look for faulty memory or a changed program; "
                     "resume_check: false goes on all the same",
                     r->name, (long long)r->at.step, words[same.batch], words[same.gradient], words[same.update]);
done:
    if (scratch != t->staging) free(scratch);
    buf_free(&why);
    buf_free(&fields);
    return st;
}
