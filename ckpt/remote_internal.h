/* What the parts of the remote share. Private to ckpt/remote*.c. */
#ifndef PAWL_CKPT_REMOTE_INTERNAL_H
#define PAWL_CKPT_REMOTE_INTERNAL_H

#include "ckpt/remote.h"

#define OBJECTS "objects/"
#define INDEX "index/"

/* Bytes of a file that are, or are to be, an object. */
struct assigned {
    char *name;  /* of the file */
    uint64_t at; /* where in it they begin */
    bool packs;
    struct remote_part part;
};

struct remote {
    struct rclone rclone;
    char *root;
    char run_id[17], token[9];
    uint64_t generation; /* 0: nothing is claimed */
    bool claimed;
    int64_t count;       /* N of the last name that was given */
    struct remote_state *base;   /* what the next one shares objects with */
    struct remote_state *before; /* the newest one published here whose state is an older one than base's; NULL: none yet */
    struct assigned *assigned; /* names that an attempt gave: the next one goes on with them */
    size_t n_assigned;
    struct known {
        char *name;
        struct file_sum sum;
    } *known; /* files that stay as they are, read once by this process */
    size_t n_known;
};

char *remote_path(const struct remote *r, const char *name); /* ROOT/name, to be freed */

/* A file and a directory for rclone to read: nothing that a power cut must leave, so nobody waits for a disk. */
enum pawl_status scratch_file(const char *path, const void *data, size_t len, struct err *err);
enum pawl_status scratch_dir(const char *path, struct err *err);

struct listing {
    struct listed {
        const char *name;
        uint64_t bytes;
    } *items; /* by name */
    size_t n;
    struct buf text;
};
enum pawl_status remote_listing(struct remote *r, struct listing *out, const char *below, struct err *err);
const struct listed *listing_find(const struct listing *l, const char *name);
void listing_free(struct listing *l);

/* The index as a listing of everything shows it. */
void remote_index_of(const struct listing *l, struct remote_index *out);
/* R4 */
enum pawl_status remote_fence(struct remote *r, const struct remote_index *x, struct err *err);
enum pawl_status remote_look_and_fence(struct remote *r, struct err *err);
/* Whether a listing has all that a state names; sets why. */
bool remote_all_there(const struct listing *l, struct remote_state *s);

#endif
