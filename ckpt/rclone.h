/* The program rclone, which speaks to every object store there is: run as a process of its own, never through a shell, within bounded time.
 *
 * A path is rclone's own: "name:bucket/prefix/...". A child is killed with all that it started when its time is up; it is in a process group of its own, so that Ctrl-C in a
 * terminal ends pawl's training and not the upload that follows it. Failures hold the last line that rclone wrote on stderr:
 *   PAWL_EINVAL  no such program, or rclone has no remote of that name: trying again won't help
 *   PAWL_EIO     everything else, a time-out among it */
#ifndef PAWL_CKPT_RCLONE_H
#define PAWL_CKPT_RCLONE_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rclone {
    const char *program;       /* looked for on PATH */
    _Atomic int64_t deadline;  /* nanoseconds of CLOCK_MONOTONIC at which any child is killed, also one that runs already; 0: none. Any thread may set it */
};

/* Whether the deadline has passed: work for a call that could not be made any more may end. */
bool rclone_time_is_up(const struct rclone *r);

/* Whether there is such a program at all. */
enum pawl_status rclone_check(struct rclone *r, struct err *err);

/* Adds "SIZE NAME\n" for each object below path, recursively, NAMEs relative to it; a place that does not exist has none. */
enum pawl_status rclone_list(struct rclone *r, struct buf *out, const char *path, struct err *err);
/* Adds the bytes of one object; PAWL_EFORMAT where there are more than limit. */
enum pawl_status rclone_read(struct rclone *r, struct buf *out, size_t limit, const char *path, struct err *err);

/* Copies all files below the local directory dir (links are followed) to path; `bytes` of them bound the time. What is there with the same size and time is left. */
enum pawl_status rclone_put(struct rclone *r, const char *dir, const char *path, uint64_t bytes, struct err *err);
/* One local file to the object path. */
enum pawl_status rclone_put_file(struct rclone *r, const char *file, const char *path, struct err *err);
/* Copies the objects below path that the local file `list` names, one a line, into the local directory dir. */
enum pawl_status rclone_get(struct rclone *r, const char *path, const char *list, const char *dir, uint64_t bytes, struct err *err);
/* Deletes the objects below path that the local file `list` names. */
enum pawl_status rclone_delete(struct rclone *r, const char *path, const char *list, struct err *err);

#endif
