/* Finding where a run stands, taking it up, and proving that it is the same run. Private to train/run.
 *
 * The newest of all verified checkpoints and journal slots by (generation, step, row) is taken; what is passed over is said with its reason. */
#ifndef PAWL_RUN_RESUME_H
#define PAWL_RUN_RESUME_H

#include "ckpt/journal.h"
#include "train/run/trainer.h"

struct resume {
    struct ckpt *ckpt;               /* the newest that verifies, or NULL */
    struct journal_slots slots;
    const struct journal_slot *slot; /* what is taken, where it is newer than ckpt; NULL: ckpt is taken, or nothing */
    const struct journal_slot *before; /* the state one step before the one that is taken, or NULL */
    const struct json_value *state;  /* of what is taken; NULL: a new run */
    struct journal_at at;
    char *name;                      /* "checkpoint-20", "journal/slot-1" */
    double verify_seconds, load_seconds, replay_seconds;
};

/* PAWL_EFORMAT where there are checkpoints or commits but none verifies: a run is never begun anew over the remains of another. */
enum pawl_status resume_find(struct resume *r, const char *run_dir, struct err *err);
void resume_free(struct resume *r);

/* Before data is read: compares the configuration of the state with the run's and takes over its global batch. PAWL_EINVAL lists old and new values of what may not
 * change, unless accept_changes. */
enum pawl_status resume_check_config(struct trainer *t, const struct resume *r, struct err *err);
/* Identity is checked; theta, moments, progress and pending gradients are read. */
enum pawl_status resume_load(struct trainer *t, struct resume *r, struct err *err);
/* Recomputes the step that led to the state from the one before it and compares batch, gradient and update, bit by bit; the result is an event. Where rounding may differ
 * by right that is reported; PAWL_EFORMAT where it may not, and the bits differ all the same. Leaves t as resume_load and share_deal did. All ranks take part: rank 0 with the
 * state that it found, the others with a zeroed one. */
enum pawl_status resume_replay(struct trainer *t, struct resume *r, struct err *err);

#endif
