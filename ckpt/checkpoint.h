/* Checkpoint directories as they lie in a run directory: the manifest, whether it verifies, which is the newest. Reading only, by anybody, without a lock.
 *
 * manifest.json, written last:
 *   {"format_version", "run_id", "generation", "step", "files": [{"name", "bytes", "crc32"}], "state": {...}, "crc32"}
 * Its last member is the zlib CRC32 of all bytes before that member, in every version of the format; so damage is told from a newer version. */
#ifndef PAWL_CKPT_CHECKPOINT_H
#define PAWL_CKPT_CHECKPOINT_H

#include "ckpt/fileio.h"
#include "kernels/base/err.h"
#include "kernels/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CKPT_FORMAT_VERSION 1
#define CKPT_MANIFEST "manifest.json"
#define CKPT_PREFIX "checkpoint-"

struct ckpt_file {
    const char *name; /* no slash */
    struct file_sum sum;
};

struct ckpt {
    char *path, *name;               /* RUN_DIR/checkpoint-N, checkpoint-N */
    int64_t step;                    /* of the manifest; of the name (or -1) where the manifest can't be read */
    uint64_t generation;             /* from 1; 0 where the manifest can't be read */
    int64_t format_version;          /* 0 where the manifest can't be read */
    const char *run_id;              /* "" where the manifest can't be read */
    const struct json_value *state;  /* the object given to save_commit; NULL where the manifest can't be read */
    struct ckpt_file *files;
    size_t n_files;
    bool verified;                   /* manifest, sizes and CRCs have all been looked at and are as they should be */
    struct err why;                  /* what is wrong with it; status is PAWL_OK while nothing is known to be */
    struct json *json;               /* owns the names and the state */
};

/* Reads the manifest of one directory and looks at the sizes of the files that it names. Never NULL; what is wrong is in why. */
struct ckpt *ckpt_read(const char *dir);
/* Reads every byte that the manifest names; sets verified or why. cold: from the disk, not from the system's cache. Does nothing where why is set already. */
void ckpt_verify(struct ckpt *c, const struct fsys *sys, bool cold);
void ckpt_free(struct ckpt *c); /* NULL is allowed */

/* checkpoint-N, or checkpoint-N.genG[-K] as the store renames what stands in its way. */
bool ckpt_name_step(const char *name, int64_t *step);

struct ckpt_list {
    struct ckpt **items; /* newest first: by (generation, step); those with an unreadable manifest have no generation and are last */
    size_t n;
};
/* All checkpoint directories of a run, not verified yet; a directory that is not there gives an empty list. */
enum pawl_status ckpt_list(struct ckpt_list *out, const char *run_dir, struct err *err);
void ckpt_list_free(struct ckpt_list *l);

/* The newest that verifies, or *out = NULL where none does; what is skipped on the way is said by log_warn with its reason, and counted in *skipped (may be
 * NULL). One of a newer format version is refused: PAWL_EFORMAT, since going on from an older one would lose its work without a word. */
enum pawl_status ckpt_newest(struct ckpt **out, size_t *skipped, const char *run_dir, struct err *err);

/* Ends a JSON object that was begun at out->data + start, its closing brace left out, by the CRC32 of what was written of it; path: for messages of the check. */
void manifest_seal(struct buf *out, size_t start);
enum pawl_status manifest_check(const char *path, const struct buf *text, struct err *err);

/* Adds the text of a manifest. state is one JSON object. */
void ckpt_manifest_text(struct buf *out, const char *run_id, uint64_t generation, int64_t step, const struct ckpt_file *files, size_t n, const char *state);

#endif
