/* pawl ckpt on the states of a remote: NAME:BUCKET/PREFIX stands for all of them or the newest, one of the paths that ls prints for that state. */
#ifndef PAWL_CLI_CKPT_REMOTE_H
#define PAWL_CLI_CKPT_REMOTE_H

#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Manifests are read, objects looked for by size. */
enum pawl_status ckpt_remote_ls(const char *place, bool json, struct err *err);
/* Every byte is downloaded and read; *all: all of them verify. */
enum pawl_status ckpt_remote_verify(const char *place, bool json, bool *all, struct err *err);
enum pawl_status ckpt_remote_show(const char *place, bool json, struct err *err);
enum pawl_status ckpt_remote_prune(const char *place, int64_t keep, bool dry_run, size_t *removed, struct err *err);
/* Downloads the newest checkpoint of the state. *dir: where it lies, *tmp: what is to be removed afterwards; both to be freed. */
enum pawl_status ckpt_remote_fetch(char **dir, char **tmp, const char *place, struct err *err);

#endif
