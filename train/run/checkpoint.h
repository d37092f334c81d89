/* What a checkpoint of a run holds: a PEFT adapter with fp32 masters, the optimizer's moments, the resolved configuration, and in the manifest where the run stands
 * and what it was trained on (state.h). Private to train/run. */
#ifndef PAWL_RUN_CHECKPOINT_H
#define PAWL_RUN_CHECKPOINT_H

#include "train/run/trainer.h"

#define OPTIMIZER_FILE "optimizer.safetensors" /* m and v, F32 (n) each, in the order of theta */
#define CONFIG_FILE "config.yaml"

/* Writes checkpoint-STEP durable from t->whole, removes what retention allows; durable_step, saved_step and last_save follow. */
enum pawl_status checkpoint_save(struct trainer *t, struct err *err);

#endif
