/* The journal of a run: every optimizer step durable between two checkpoints, in slot files that are overwritten in turn, written by a thread of its own.
 *
 * J1  A commit is data, fdatasync, record with the data's hash, fdatasync. It counts if and only if its record and its data verify.
 * J2  A slot is overwritten only while another one holds the newest durable commit.
 * J3  The text that goes with a commit (lines of metrics.jsonl) is durable before it.
 * J4  A file whose sync failed is never synced again: it is given up, and the next commit goes to a new file.
 * J5  A slot that is held is not overwritten either: a new file takes its turn, and the old one goes when it is released.
 *
 *   DIR/slot-K: record (JOURNAL_RECORD bytes reserved), then data.  DIR/slot-0 and DIR/slot-1 unless J4 or J5 asked for a higher K.
 *   record: magic, format version, CRC32 of the record, generation, step, row, lengths of the parts of the data, their hash64; then the state, one JSON object.
 *   A 64-bit hash and no CRC: it is read at memory speed, and every step of it is a bijection, so that one changed word never goes unseen.
 *
 * Nothing here ends a run: what can't be written is counted, told by journal_status and tried again with the next commit. */
#ifndef PAWL_CKPT_JOURNAL_H
#define PAWL_CKPT_JOURNAL_H

#include "ckpt/fileio.h"
#include "ckpt/jsonl.h"
#include "kernels/base/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define JOURNAL_DIR "journal" /* of a run directory */
#define JOURNAL_FORMAT_VERSION 1
#define JOURNAL_RECORD (1 << 20) /* bytes reserved for a record: the longest state and the data's alignment */

#define JOURNAL_PARTS 40
struct journal_part {
    const void *data;
    size_t bytes;
};

/* --- reading: by anybody, while nobody writes */

/* Where a state stands among all of its run: commits are ordered by generation, then step, then row. */
struct journal_at {
    uint64_t generation;
    int64_t step; /* optimizer steps done */
    int64_t row;  /* rows of the next step whose gradients are in the data too; 0 but for an emergency save */
};
int journal_order(struct journal_at a, struct journal_at b); /* < 0, 0, > 0 */

struct journal_slot {
    char *path;
    struct journal_at at;           /* generation 0 where the record can't be read */
    const struct json_value *state; /* NULL where the record can't be read */
    struct journal_part part[JOURNAL_PARTS]; /* mapped; valid until journal_slots_free */
    int parts;
    uint64_t hash;                  /* hash64 chained over the parts */
    bool blank;                     /* nothing was ever committed to it */
    struct err why;                 /* status PAWL_OK: record and data verify */
    struct map map;
    struct json *json;
};

struct journal_slots {
    struct journal_slot *items; /* newest first; those that don't verify last */
    size_t n;
};
/* All slots of a journal directory, each read whole and verified; a directory that is not there gives none. A slot of a newer format is refused: PAWL_EFORMAT. */
enum pawl_status journal_read(struct journal_slots *out, const char *dir, struct err *err);
/* One of them by its path. */
enum pawl_status journal_read_one(struct journal_slots *out, const char *path, struct err *err);
void journal_slots_free(struct journal_slots *s);

/* --- writing */

struct journal;

/* Where the writer stands. */
struct journal_status {
    struct journal_at durable;  /* the newest commit of this process; step -1: none yet */
    struct timespec durable_at; /* CLOCK_MONOTONIC when that state was handed over */
    int64_t commits, failures;  /* failures: in a row, of commits and of text */
    struct err failed;          /* the last of those */
    uint64_t bytes;             /* written so far, data and records */
    double seconds;             /* that the last commit took; 0: none yet */
    size_t waiting;             /* bytes of text that are not durable yet */
    bool busy;
};

/* Starts the thread, makes DIR where needed. keep: the path of the slot that must not be overwritten first, or NULL. text: where journal_line's lines go; it belongs to the
 * journal until journal_close. staging: capacity bytes where a commit waits for the thread. sys must outlive the journal. */
enum pawl_status journal_open(struct journal **out, const struct fsys *sys, const char *dir, const char *keep, struct jsonl *text, void *staging, size_t capacity,
                              struct err *err);
/* Waits for what is under way. NULL is allowed. */
void journal_close(struct journal *j);

/* Adds a line to the text; it becomes durable with the next commit or flush. Never waits for a disk. */
void journal_line(struct journal *j, const char *line, size_t len);

/* The staging buffer to fill, or NULL while the last commit is still being written. */
void *journal_begin(struct journal *j);
/* Hands over what was filled in, with a state (one JSON object), and returns. The parts lie in the staging buffer. */
void journal_commit(struct journal *j, struct journal_at at, const struct journal_part *parts, int n, const char *state);
/* The same without data: only waiting lines. Nothing where the thread is busy. */
void journal_flush(struct journal *j);
/* Waits until nothing is under way, at most so many seconds. False: something still is. */
bool journal_wait(struct journal *j, double seconds);

/* A commit by the calling thread, durable on return, of any size. Waits for what is under way first. */
enum pawl_status journal_commit_now(struct journal *j, struct journal_at at, const struct journal_part *parts, int n, const char *state, struct err *err);

struct journal_status journal_status(struct journal *j);

/* For whoever copies a commit elsewhere: the file of this process's newest durable one is not written again until journal_release; later commits go to others. *path is to be
 * freed. False while there is none. One at a time, from any thread. */
bool journal_hold(struct journal *j, char **path, struct journal_at *at, struct timespec *handed);
void journal_release(struct journal *j);

#endif
