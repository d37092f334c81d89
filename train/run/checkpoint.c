#include "train/run/checkpoint.h"

#include "ckpt/safetensors.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/journaling.h"
#include "train/run/remoting.h"
#include "train/run/state.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* The two large files: a header, then vectors of as many numbers as theta has. So each rank can write its slices in place. */
enum { FILES = 2, VECTORS = 2 };
struct vectors {
    const char *name;
    struct buf header;
    int n;
    const float *whole[VECTORS], *held[VECTORS]; /* held: the device's */
};

static void list_vectors(const struct trainer *t, struct vectors out[FILES])
{
    struct tensor moments[] = {{.name = "m", .dtype = DTYPE_F32, .rank = 1, .shape = {t->lora.n}}, {.name = "v", .dtype = DTYPE_F32, .rank = 1, .shape = {t->lora.n}}};

    out[0] = (struct vectors){.name = LORA_WEIGHTS, .n = 1, .whole = {t->whole[0]}, .held = {t->theta}};
    out[1] = (struct vectors){.name = OPTIMIZER_FILE, .n = 2, .whole = {t->whole[1], t->whole[2]}, .held = {t->m, t->v}};
    lora_header(&t->lora, &out[0].header);
    safetensors_header(&out[1].header, moments, 2, NULL, 0);
}

static void free_vectors(struct vectors v[FILES])
{
    for (int i = 0; i < FILES; i++) buf_free(&v[i].header);
}

/* A new file: header, and where `whole` its vectors too. */
static enum pawl_status write_file(const struct trainer *t, const struct vectors *v, const char *dir, bool whole, struct file_sum *sum, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, v->name);
    struct file f;
    enum pawl_status st = file_create(&f, store_sys(t->store), path, err);

    if (st == PAWL_OK) {
        file_write(&f, v->header.data, v->header.len);
        for (int i = 0; i < v->n && whole; i++) file_write(&f, v->whole[i], (size_t)t->lora.n * sizeof(float));
        st = file_close(&f, sum, err);
    }
    free(path);
    return st;
}

static enum pawl_status write_slices(const struct trainer *t, const struct vectors *v, const char *dir, struct file_sum sum[VECTORS], struct err *err)
{
    const struct fsys *sys = t->store ? store_sys(t->store) : &fsys_real;
    struct range held = t->share.held;
    size_t bytes = (size_t)range_count(held) * sizeof(float);
    char *path = xasprintf("%s/%s", dir, v->name);
    int fd;
    enum pawl_status st = fd_open(&fd, sys, path, O_WRONLY, err);

    if (st == PAWL_OK) {
        for (int i = 0; i < v->n && st == PAWL_OK; i++) {
            const float *mine = dev_fetch(t->dev, &t->arena, v->held[i], bytes);

            if ((st = dev_check(t->dev, err)) == PAWL_OK)
                st = fd_pwrite(sys, fd, mine, bytes, (off_t)(v->header.len + ((size_t)i * (size_t)t->lora.n + (size_t)held.begin) * sizeof(float)), path, err);
            if (st == PAWL_OK) file_sum_add(&sum[i], mine, bytes);
        }
        if (st == PAWL_OK) st = fd_sync(sys, fd, false, path, err);
        sys->close(fd);
    }
    free(path);
    return st;
}

static enum pawl_status save_texts(const struct trainer *t, struct save *sv, struct err *err)
{
    struct buf text = {0};
    enum pawl_status st;

    lora_config_json(&t->lora, t->cfg->base_model, &text);
    st = save_text(sv, LORA_CONFIG, text.data, text.len, err);
    buf_free(&text);
    if (st != PAWL_OK) return st;
    config_write_yaml(t->cfg, &text);
    st = save_text(sv, CONFIG_FILE, text.data, text.len, err);
    buf_free(&text);
    return st;
}

static enum pawl_status begin_save(struct trainer *t, struct save **sv, struct err *err)
{
    enum pawl_status st = journaling_lines(t, err);

    return st == PAWL_OK ? save_begin(sv, t->store, t->at.step, err) : st;
}

/* The large files are there. sv is freed either way. */
static enum pawl_status end_save(struct trainer *t, struct save *sv, struct timespec begin, struct err *err)
{
    struct buf state = {0};
    struct retention keep = {.limit = (int)t->cfg->save_total_limit, .resumed_from = t->resumed_from, .best = t->best};
    char *in_use;
    struct err failed;
    enum pawl_status st = save_texts(t, sv, err);

    if (st != PAWL_OK) {
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

enum pawl_status checkpoint_save(struct trainer *t, struct err *err)
{
    struct vectors v[FILES];
    struct save *sv = NULL;
    struct timespec begin = time_now();
    enum pawl_status st;

    t->last_save = begin; /* also of an attempt: the next one comes when the next one is due */
    if ((st = begin_save(t, &sv, err)) != PAWL_OK) return st;
    list_vectors(t, v);
    for (int i = 0; i < FILES && st == PAWL_OK; i++) {
        struct file_sum sum;

        if ((st = write_file(t, &v[i], save_path(sv), true, &sum, err)) == PAWL_OK) save_add(sv, v[i].name, sum);
    }
    free_vectors(v);
    if (st == PAWL_OK) return end_save(t, sv, begin, err);
    save_abandon(sv);
    return st;
}

/* --- by several ranks */

struct opening {
    int32_t status;
    char dir[PATH_MAX];
};

/* How a rank's slices went. */
struct slices {
    int32_t status;
    bool found; /* the directory that rank 0 made */
    struct file_sum sum[FILES][VECTORS];
    char text[256];
};

static void write_all_slices(const struct trainer *t, const struct vectors v[FILES], const char *dir, struct slices *out)
{
    struct err err = {0};
    enum pawl_status st = PAWL_OK;

    out->found = file_exists(dir);
    for (int i = 0; i < FILES && st == PAWL_OK && out->found; i++) st = write_slices(t, &v[i], dir, out->sum[i], &err);
    out->status = (int32_t)st;
    snprintf(out->text, sizeof out->text, "%.255s", err.text);
}

/* The sums of the whole files from those of header and slices, in the files' order. */
static void add_joined(const struct trainer *t, struct save *sv, const struct vectors v[FILES], const struct slices *all)
{
    for (int i = 0; i < FILES; i++) {
        struct file_sum sum = {0};

        file_sum_add(&sum, v[i].header.data, v[i].header.len);
        for (int p = 0; p < v[i].n; p++)
            for (int k = 0; k < t->share.size; k++) file_sum_join(&sum, all[k].sum[i][p]);
        save_add(sv, v[i].name, sum);
    }
}

enum pawl_status checkpoint_save_together(struct trainer *t, struct err *err)
{
    struct slices *all = xcalloc((size_t)t->share.size, sizeof *all);
    struct opening *opening = xcalloc(1, sizeof *opening);
    struct vectors v[FILES];
    struct save *sv = NULL;
    struct timespec begin = time_now();
    enum pawl_status st, written = PAWL_OK;

    t->last_save = begin;
    list_vectors(t, v);
    if (t->share.rank == 0) {
        written = begin_save(t, &sv, err);
        for (int i = 0; i < FILES && written == PAWL_OK; i++) written = write_file(t, &v[i], save_path(sv), false, NULL, err);
        opening->status = (int32_t)written;
        if (sv) snprintf(opening->dir, sizeof opening->dir, "%s", save_path(sv));
    }
    if ((st = comm_broadcast(t->share.comm, opening, sizeof *opening, err)) != PAWL_OK) goto done;
    if (opening->status != PAWL_OK) {
        st = written; /* the others have not failed: rank 0 says it */
        goto done;
    }
    write_all_slices(t, v, opening->dir, &all[t->share.rank]);
    if ((st = share_items(t, all, sizeof *all, err)) != PAWL_OK) goto done;
    for (int k = 0; k < t->share.size; k++) {
        t->share.apart |= !all[k].found;
        if (all[k].status != PAWL_OK && written == PAWL_OK) written = err_set(err, (enum pawl_status)all[k].status, "rank %d: %s", k, all[k].text);
    }
    if (t->share.rank || t->share.apart || (st = written) != PAWL_OK) goto done;
    add_joined(t, sv, v, all);
    st = end_save(t, sv, begin, err);
    sv = NULL;
done:
    save_abandon(sv);
    free_vectors(v);
    free(opening);
    free(all);
    return st;
}
