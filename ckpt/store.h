/* The one process that writes checkpoints into a run directory. Knows nothing about training: it commits files that somebody wrote, with a state object that
 * somebody else understands.
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
 * checkpoint-N.genG, which counts as a checkpoint as before.
 *
 * A store belongs to one thread at a time. */
#ifndef PAWL_CKPT_STORE_H
#define PAWL_CKPT_STORE_H

#include "ckpt/checkpoint.h"

struct store;

/* Makes run_dir where needed, takes its lock (PAWL_ELOCKED names who holds it), sweeps temporaries. sys must outlive the store. */
enum pawl_status store_open(struct store **out, const struct fsys *sys, const char *run_dir, struct err *err);
void store_close(struct store *s); /* gives the lock back; NULL is allowed */

const struct fsys *store_sys(const struct store *s);
const char *store_dir(const struct store *s);
const char *store_run_id(const struct store *s); /* 16 hex digits, made when the run directory is new */

/* Says that this process trains, by the lock's time of change: costs no disk access, and survives a killed process. */
void store_touch(struct store *s);
/* Whether the run directory is still this process's; costs a stat. A lock file that somebody removed is made anew. PAWL_ELOCKED: another process or another run has the place,
 * nothing more may be written here. PAWL_EIO: the directory was moved or removed, and at most an empty one stands there; a save makes it anew. A file system that does not answer changes nothing. */
enum pawl_status store_watch(struct store *s, struct err *err);
/* When an earlier process last did (seconds since 1970); 0: unknown, also where the run directory was copied. */
double store_last_alive(const struct store *s);

/* Raises the generation above everything that was seen here and above at_least (a remote's, a journal's), durable in RUN_DIR/run.json: at each start, before
 * the first step and the first save. */
enum pawl_status store_raise_generation(struct store *s, uint64_t at_least, struct err *err);
uint64_t store_generation(const struct store *s);

/* Moves all of the run but lock, run.json and earlier old-* to RUN_DIR/old-TIME (UTC) and gives the run a new id. Before store_raise_generation. */
enum pawl_status store_archive(struct store *s, struct err *err);

/* RUN_DIR/link -> name, replaced atomically; nothing is written where it points there already. A directory in its place, as copies of a run that follow links have one, is
 * moved to LINK.copy. Links are for people and no state: one that can't be made costs nothing else, and is said once until it can. */
#define STORE_NEWEST "adapter"    /* the newest checkpoint; save_commit keeps it */
#define STORE_BEST "adapter-best" /* the best by evaluation */
void store_link(struct store *s, const char *link, const char *name);

/* A directory that came from elsewhere, below RUN_DIR and complete: becomes the checkpoint `name` where it verifies, as save_commit would make it. What stands there moves out of the
 * way. It stays where it is on failure. */
enum pawl_status store_adopt(struct store *s, const char *dir, const char *name, struct err *err);
/* Goes on with a run of another machine: its id from here on. Before store_raise_generation, which makes it durable. */
void store_join(struct store *s, const char *run_id);

struct retention {
    int limit;                /* newest verified ones to keep, at least 2; 0 keeps everything */
    const char *resumed_from; /* names kept beyond that; may be NULL */
    const char *best;
    const char *in_use;       /* by whoever copies it elsewhere */
    bool dry_run;             /* count, but remove nothing */
};
/* Removes checkpoints older than the limit-th verified one, oldest first; those whose manifest can't be read or is of a newer format are left for a person.
 * *removed (may be NULL) is their number. */
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
 * On failure every checkpoint that was there before still verifies, and the whole save must be begun anew; PAWL_ELOCKED: the place is
 * not this process's any more (store_watch), and nothing was put there. sv is freed either way. */
enum pawl_status save_commit(struct save *sv, const char *state, char **name, struct err *err);
void save_abandon(struct save *sv); /* removes the temporary directory; NULL is allowed */

#endif
