/* Checkpoint directories of a run. Knows nothing about training: it commits files that somebody wrote, with a state object that somebody else understands.
 *
 * I1  A directory is a checkpoint if and only if its manifest.json verifies: its own CRC, then size and CRC32 of every file that it names.
 * I2  Nothing that a verified manifest names is ever written again.
 * I3  A checkpoint is removed only after two newer ones verified from disk, not from memory.
 * I4  Newest is the highest (generation, step) that verifies. The generation rises at each start, durable before the first step, so that what an abandoned
 *     branch left behind can't win.
 *
 *   tmp-pawl-* --(files, fsync)--> --(manifest, fsync, fsync dir)--> --rename--> checkpoint-N --fsync parent--> re-read --> acknowledged
 *   A crash left of the rename leaves a temporary that the next start sweeps; right of it, a checkpoint.
 *
 * What stands in the way of the rename is moved, never overwritten: a damaged checkpoint-N to checkpoint-N.bad, a verified one (of an earlier generation) to
 * checkpoint-N.genG, which counts as a checkpoint as before. */
#ifndef PAWL_CKPT_STORE_H
#define PAWL_CKPT_STORE_H

#include "ckpt/fileio.h"
#include "kernels/base/err.h"
#include "kernels/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_FORMAT_VERSION 1
#define STORE_MANIFEST "manifest.json"

/* --- what lies in a run directory: readable by anybody, without the lock */

struct ckpt_file {
    const char *name; /* no slash */
    struct file_sum sum;
};

struct ckpt {
    char *path, *name;               /* RUN_DIR/checkpoint-N, checkpoint-N */
    int64_t step;                    /* of the manifest; of the name where the manifest can't be read */
    uint64_t generation;             /* 0 where the manifest can't be read */
    int format_version;              /* 0 where the manifest can't be read */
    const char *run_id;
    const struct json_value *state;  /* the object given to save_commit; NULL where the manifest can't be read */
    struct ckpt_file *files;
    size_t n_files;
    bool verified;                   /* manifest, sizes and CRCs are all as they should be */
    struct err why;                  /* the reason where it is not: status and text; PAWL_OK where it has not been looked for */
    struct json *json;
};

/* Reads the manifest of one directory and, where full, every byte that it names. Never NULL; look at verified (only set where full) and why. */
struct ckpt *ckpt_read(const char *dir, bool full);
/* The second half of it: sizes and CRCs. cold: from the disk, not from the system's cache. Sets verified or why. */
void ckpt_verify(struct ckpt *c, bool cold);
void ckpt_free(struct ckpt *c); /* NULL is allowed */

struct ckpt_list {
    struct ckpt **items; /* newest first: by (generation, step); unreadable ones, which have no generation, are last */
    size_t n;
};
/* All checkpoint directories of a run; a run directory without any, or that is not there, gives an empty list. */
enum pawl_status ckpt_list(struct ckpt_list *out, const char *run_dir, bool full, struct err *err);
void ckpt_list_free(struct ckpt_list *l);

/* The newest that verifies, or *out = NULL where none does; what is skipped on the way is said by log_warn with its reason, *skipped counts it (may be NULL).
 * One of a newer format version is refused: PAWL_EFORMAT, since going on from an older one would lose its work without a word. */
enum pawl_status ckpt_newest(struct ckpt **out, size_t *skipped, const char *run_dir, struct err *err);

/* --- the one process that writes here */

struct store;

/* Makes run_dir where needed, takes its lock (PAWL_ELOCKED names who holds it), sweeps temporaries. sys must outlive the store. */
enum pawl_status store_open(struct store **out, const struct fsys *sys, const char *run_dir, struct err *err);
void store_close(struct store *s); /* gives the lock back; NULL is allowed */

const struct fsys *store_sys(const struct store *s);
const char *store_dir(const struct store *s);
const char *store_run_id(const struct store *s); /* 16 hex digits, made when the run directory is new */

/* Raises the generation above everything that was seen here and above at_least (a remote's), durable in RUN_DIR/run.json; once a start, before the first step. */
enum pawl_status store_raise_generation(struct store *s, uint64_t at_least, struct err *err);
uint64_t store_generation(const struct store *s);

/* Moves all of the run but the lock and earlier old-* to RUN_DIR/old-TIME (UTC) and gives the run a new id. */
enum pawl_status store_archive(struct store *s, struct err *err);

/* RUN_DIR/link -> checkpoint name, replaced atomically. */
enum pawl_status store_link(struct store *s, const char *link, const char *name, struct err *err);

struct retention {
    int limit;                /* newest verified ones to keep, at least 2; 0 keeps everything */
    const char *resumed_from; /* names kept beyond that; may be NULL */
    const char *best;
};
/* Removes verified checkpoints beyond the limit, oldest first; damaged ones and those of a newer format are left for a person. *removed (may be NULL) counts. */
enum pawl_status store_retain(struct store *s, const struct retention *r, size_t *removed, struct err *err);

/* --- one save */

struct save;

/* Makes a temporary directory. Files are written there by whoever has them (save_path, with store_sys), each closed durable, and then told by save_add. */
enum pawl_status save_begin(struct save **out, struct store *s, int64_t step, struct err *err);
const char *save_path(const struct save *sv);
void save_add(struct save *sv, const char *name, struct file_sum sum);
/* A small file, written and added. */
enum pawl_status save_text(struct save *sv, const char *name, const char *text, size_t len, struct err *err);
/* Manifest, rename, re-read; the link "adapter" points here afterwards. state is one JSON object. *name (may be NULL) is checkpoint-N, to be freed.
 * On failure nothing that was there before has changed, and the whole save must be begun anew. sv is freed either way. */
enum pawl_status save_commit(struct save *sv, const char *state, char **name, struct err *err);
void save_abandon(struct save *sv); /* removes the temporary directory; NULL is allowed */

#endif
