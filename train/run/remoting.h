/* A run's life in an object store: where it goes on from, what is uploaded while it trains, and when another machine has taken it over. Private to train/run.
 *
 * A thread of its own uploads the newest verified state so often that at most remote_minutes of work are at risk, counting the time that an upload takes; training never waits for
 * it, and a store that does not answer never stops it. What happened meanwhile is taken up between steps: messages, events, and PAWL_ELOCKED after a take-over. */
#ifndef PAWL_RUN_REMOTING_H
#define PAWL_RUN_REMOTING_H

#include "train/run/resume.h"

struct remoting;

/* With the run directory locked and nothing read of it yet: looks at the remote, and lays its newest verified state into the run directory where that is newer than what is
 * here. PAWL_EINVAL without rclone; where the remote can't be reached, PAWL_EIO unless there is a local state or a fresh run is wanted. Does nothing without `remote`. */
enum pawl_status remoting_open(struct trainer *t, struct err *err);
/* The highest generation that was seen there. */
uint64_t remoting_generation(const struct trainer *t);
/* What is in the run directory is newer than what is there. */
bool remoting_behind(const struct trainer *t, const struct resume *r);
/* Claims the remote for this process's generation and starts the thread. r: where the run stands. */
enum pawl_status remoting_start(struct trainer *t, const struct resume *r, struct err *err);

/* After each step: says what the thread did. PAWL_ELOCKED: another machine has taken over. */
enum pawl_status remoting_step(struct trainer *t, struct err *err);
/* A checkpoint was saved, at this step. */
void remoting_saved(struct trainer *t);
/* The checkpoint that is being uploaded, to be freed; NULL: none. */
char *remoting_in_use(const struct trainer *t);
/* An upload is due and nothing durable is newer than what is there: save. */
bool remoting_save_asked(const struct trainer *t);
/* What is durable now is to be uploaded at once. */
void remoting_hurry(struct trainer *t);
/* Adds ", remote step 40, 12 of 60 s at risk" to a progress line. */
void remoting_progress(const struct trainer *t, struct buf *out);
double remoting_seconds(const struct trainer *t); /* that an upload takes; 0: not known */

/* Uploads the end of this process, within so many seconds (negative: a patient number of attempts). PAWL_EIO: the remote does not have it. */
enum pawl_status remoting_end(struct trainer *t, double seconds, struct err *err);
void remoting_close(struct remoting *u); /* NULL is allowed */

#endif
