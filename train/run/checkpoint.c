#include "train/run/checkpoint.h"

#include "ckpt/safetensors.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/journaling.h"
#include "train/run/remoting.h"
#include "train/run/state.h"

#include <stdlib.h>

static enum pawl_status save_moments(const struct trainer *t, struct save *sv, struct err *err)
{
    char *path = xasprintf("%s/%s", save_path(sv), OPTIMIZER_FILE);
    struct tensor parts[] = {
        {.name = "m", .dtype = DTYPE_F32, .rank = 1, .shape = {t->lora.n}, .data = t->whole[1]},
        {.name = "v", .dtype = DTYPE_F32, .rank = 1, .shape = {t->lora.n}, .data = t->whole[2]},
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

    if ((st = lora_write(&t->lora, t->whole[0], store_sys(t->store), save_path(sv), &sum, err)) != PAWL_OK) return st;
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
    char *in_use;
    struct timespec begin = time_now();
    struct err failed;
    enum pawl_status st;

    t->last_save = begin; /* also of an attempt: the next one comes when the next one is due */
    if ((st = journaling_lines(t, err)) != PAWL_OK || (st = save_begin(&sv, t->store, t->at.step, err)) != PAWL_OK) return st;
    if ((st = save_files(t, sv, err)) != PAWL_OK) {
        save_abandon(sv);
        return st;
    }
    state_add(t, false, &state);
    st = save_commit(sv, state.data, NULL, err);
    buf_free(&state);
    if (st != PAWL_OK) return st;
    t->durable_step = t->saved_step = t->at.step;
    t->seconds_a_save = seconds_between(begin, time_now());
    remoting_saved(t);
    keep.in_use = in_use = remoting_in_use(t);
    if (store_retain(t->store, &keep, NULL, &failed) != PAWL_OK) log_warn("old checkpoints stay for now: %s", failed.text);
    free(in_use);
    return PAWL_OK;
}
