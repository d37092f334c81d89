/* Laying a state of a remote into a run directory. Private to train/run. */
#ifndef PAWL_RUN_RESTORE_H
#define PAWL_RUN_RESTORE_H

#include "ckpt/remote.h"
#include "ckpt/store.h"

#define BASE_DIR "base"     /* the base model's files, where remote_base is on */
#define TOKENS_DIR "tokens" /* tokenised data: train-0.tokens, test-0.tokens ... */

/* The newest state of the remote that verifies, unless what is here (NULL: nothing) is as new; what is passed over is said with its reason. *newest is that state, NULL where there
 * is none; *taken: it was laid down, and its run id is the store's from then on. PAWL_EFORMAT where there are states and none verifies; PAWL_EINVAL where they are another run's
 * than the local. */
enum pawl_status restore_newest(struct remote_state **newest, bool *taken, struct store *store, struct remote *r, const struct remote_index *x, const struct journal_at *here, struct err *err);

/* What restore_newest laid down for a base model that is not here, to be freed; NULL: nothing. */
char *restored_base(const char *run_dir);

/* The configuration of the newest state of `root` that has one, written to a new temporary file: *path is to be removed and freed. */
enum pawl_status restore_config(char **path, const char *root, struct err *err);

#endif
