/* What a checkpoint of a run holds: a PEFT adapter with fp32 masters, the optimizer's moments, the resolved configuration, and in the manifest where the run stands
 * and what it was trained on (state.h). Private to train/run. */
#ifndef PAWL_RUN_CHECKPOINT_H
#define PAWL_RUN_CHECKPOINT_H

#include "train/run/trainer.h"

#define OPTIMIZER_FILE "optimizer.safetensors" /* m and v, F32 (n) each, in the order of theta */
#define CONFIG_FILE "config.yaml"

/* Writes checkpoint-STEP durable from t->whole, removes what retention allows; durable_step, saved_step and last_save follow. */
enum pawl_status checkpoint_save(struct trainer *t, struct err *err);
/* The same by all ranks at once, each writing its slices into the files that rank 0 made; rank 0 writes the manifest after all have theirs durable. The files are those that one rank
 * writes. share.apart is set where a rank does not see rank 0's directory: then nothing was saved, on no rank. Another failure of the save itself is returned on rank 0 only. */
enum pawl_status checkpoint_save_together(struct trainer *t, struct err *err);

#endif
