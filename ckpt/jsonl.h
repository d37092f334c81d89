/* A file of JSON lines that holds each line exactly once, whatever dies in between: a line is durable when jsonl_append returns, and whoever resumes cuts the
 * file back to the offset that his state was saved with. */
#ifndef PAWL_CKPT_JSONL_H
#define PAWL_CKPT_JSONL_H

#include "ckpt/fileio.h"

struct jsonl;

#define JSONL_END (-1) /* go on behind the last complete line */

/* Opens or creates the file and cuts it to offset bytes (or JSONL_END), durable. PAWL_EFORMAT where it is shorter than that, or where offset is not the end of a
 * line: lines are missing. */
enum pawl_status jsonl_open(struct jsonl **out, const struct fsys *sys, const char *path, int64_t offset, struct err *err);
/* Adds line (without newline) and makes it durable. On failure the file counts as without it, and the same line may be tried again: what failed to sync is
 * written anew under another name first. */
enum pawl_status jsonl_append(struct jsonl *j, const char *line, size_t len, struct err *err);
int64_t jsonl_offset(const struct jsonl *j); /* bytes of all durable lines */
void jsonl_close(struct jsonl *j);           /* NULL is allowed */

#endif
