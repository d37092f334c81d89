/* A run's states in an object store, so that no local disk is needed to survive. Knows nothing about training: it publishes files that somebody names.
 *
 *   ROOT/index/gGENERATION-RUN-TOKEN.claim                    a process began to write here; TOKEN is its own
 *   ROOT/index/gGENERATION-RUN-TOKEN-sSTEP-rROW-N.manifest    a state: which files a run directory needs, and in which objects they lie
 *   ROOT/objects/RUN/gGENERATION-TOKEN/N-NAME                 their bytes; NAME.gz: packed
 *
 * R1  A state is real if and only if its manifest verifies: its own CRC, then size and CRC32 of every object that it names. The manifest is written last.
 * R2  No object is written twice with other content: N counts up, TOKEN is random, the generation rises with every process.
 * R3  Objects and manifests go only after a newer manifest was read back and all that it names was seen in a listing; the two newest states that differ in step stay.
 * R4  The highest generation owns the place. A process reads the index before each manifest and after it; one that sees a higher generation than its own has been taken over
 *     from and writes no more (PAWL_ELOCKED, with who it was).
 *
 * Files that only grow are published in parts, so that a new state carries only what was added. What a state shares with the one before is not uploaded again.
 * A struct remote belongs to one thread at a time. */
#ifndef PAWL_CKPT_REMOTE_H
#define PAWL_CKPT_REMOTE_H

#include "ckpt/fileio.h"
#include "ckpt/journal.h"
#include "ckpt/rclone.h"

#include <stdbool.h>

#define REMOTE_FORMAT_VERSION 2 /* 1: no part is packed */

/* "name:bucket/prefix", and not a file that is here. */
bool remote_is_name(const char *text);

struct remote;

/* Asks whether rclone is there, and nothing more. program: NULL for "rclone". */
enum pawl_status remote_open(struct remote **out, const char *root, const char *program, struct err *err);
void remote_close(struct remote *r); /* NULL is allowed */
const char *remote_root(const struct remote *r);
/* Any call that still runs so many seconds from now fails then; < 0: no limit. From any thread. */
void remote_limit(struct remote *r, double seconds);

/* --- reading: by anybody */

/* What the names of the index say. */
struct remote_entry {
    char *name;           /* "index/..." */
    char run_id[17], token[9];
    bool claim;
    struct journal_at at; /* of a claim: the generation only */
    int64_t count;        /* of a manifest: N */
};
struct remote_index {
    struct remote_entry *items; /* newest first */
    size_t n;
    uint64_t generation;        /* the highest; 0: nobody was here */
};
enum pawl_status remote_look(struct remote *r, struct remote_index *out, struct err *err);
void remote_index_free(struct remote_index *x);

struct remote_part {
    char *object; /* "objects/..." */
    struct file_sum sum;
    uint64_t packed; /* bytes of the object where it holds them packed (pack.h); 0: they are the object */
};
struct remote_file {
    char *name;   /* where it belongs below a run directory: "metrics.jsonl", "checkpoint-5/optimizer.safetensors" */
    struct remote_part *parts;
    size_t n;
};
struct remote_state {
    char *name;   /* of its manifest */
    char run_id[17];
    struct journal_at at;
    double time;  /* seconds since 1970 when it was published */
    const char *head;               /* the file, or the directory of files, that holds the state itself: "journal/slot", "checkpoint-5" */
    const struct json_value *state; /* as the head has it */
    struct remote_file *files;
    size_t n;
    struct err why; /* PAWL_OK: nothing is known to be wrong */
    struct json *json;
};
/* Reads one manifest. Never NULL: what is wrong with it is in why. PAWL_EIO only where it could not be read. */
enum pawl_status remote_read(struct remote *r, const char *name, struct remote_state **out, struct err *err);
void remote_state_free(struct remote_state *s); /* NULL is allowed */
uint64_t remote_part_stored(const struct remote_part *p); /* bytes of its object */
uint64_t remote_file_bytes(const struct remote_file *f);  /* of the file itself */
const struct remote_file *remote_find(const struct remote_state *s, const char *name); /* NULL: not in it */
/* Adds the bytes of one small object; PAWL_EFORMAT unless they verify. */
enum pawl_status remote_read_part(struct remote *r, const struct remote_part *p, struct buf *out, struct err *err);
/* Looks into a listing whether all objects are there with their sizes; sets why where one is not. */
enum pawl_status remote_check(struct remote *r, struct remote_state *states[], size_t n, struct err *err);

/* Downloads the files of a state for which want() is true (NULL: all) to dir/NAME, each verified and synced. What does not verify is left out and said by log_warn; *bad is
 * their number. dir is new and the caller's. */
enum pawl_status remote_fetch(struct remote *r, const struct remote_state *s, const char *dir, bool (*want)(void *ctx, const struct remote_file *f), void *ctx, size_t *bad,
                              struct err *err);

/* --- writing */

/* The state that the next ones share objects with: the newest one of this run. Takes it over; NULL forgets. */
void remote_build_on(struct remote *r, struct remote_state *s);
/* From here on objects and manifests are this generation's. PAWL_ELOCKED where there is a higher one. scratch: a file or directory name that may be made and removed here. */
enum pawl_status remote_claim(struct remote *r, const char *run_id, uint64_t generation, const char *scratch, struct err *err);

struct remote_source {
    char *name, *path;   /* below a run directory; on this machine: read, and perhaps linked to, until remote_publish returns */
    bool grows;          /* lines that are only ever added to: taken up to the last whole one */
    bool stays;          /* never changes while this process runs: read once, and not for each state */
    bool packs;          /* text and tokens: worth packing for the journey. Floats are not: a tenth goes, at 28 MB/s */
};

struct remote_published {
    uint64_t bytes; /* that were uploaded for it, packed where they were */
    double seconds;
};
/* Uploads what is new, then the manifest, reads it back, removes what is not needed any more. scratch as above. state: a JSON object. */
enum pawl_status remote_publish(struct remote *r, struct journal_at at, const char *head, const char *state, const struct remote_source *files, size_t n, const char *scratch,
                                struct remote_published *done, struct err *err);

/* Removes states older than the newest `keep` of each run (at least 1), and objects that no state names; nobody may be writing. *removed: states. */
enum pawl_status remote_prune(struct remote *r, size_t keep, bool dry_run, const char *scratch, size_t *removed, struct err *err);

#endif
