/* What a checkpoint of a run holds: a PEFT adapter with fp32 masters, the optimizer's moments, the resolved configuration, and in the manifest where the run stands
 * and what it was trained on. Private to train/run. */
#ifndef PAWL_RUN_CHECKPOINT_H
#define PAWL_RUN_CHECKPOINT_H

#include "train/run/trainer.h"

#define OPTIMIZER_FILE "optimizer.safetensors" /* m and v, F32 (n) each, in the order of theta */
#define CONFIG_FILE "config.yaml"

/* Writes checkpoint-STEP durable, removes what retention allows; durable_step and last_save follow. */
enum pawl_status checkpoint_save(struct trainer *t, struct err *err);
/* The first half of a resume, before data is read: compares the configuration of the checkpoint with the run's and takes over its global batch.
 * PAWL_EINVAL lists old and new values of what may not change, unless accept_changes. */
enum pawl_status checkpoint_check_config(struct trainer *t, const struct ckpt *c, struct err *err);
/* The second half: base, tokenizer, template and data are what they were; theta, moments and progress are read. */
enum pawl_status checkpoint_load(struct trainer *t, const struct ckpt *c, struct err *err);

#endif
