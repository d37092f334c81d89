/* What the ranks of a run do together. Rows of the global batch and slices of the flat vector are shared out (dist/shard.h); every rank sums the rows that it has, whoever owns a
 * slice joins the subtrees of all runs there, and with ZeRO-1 also holds and updates that slice of theta and its moments alone. All decisions are made from what every rank knows.
 * With one rank each function does what is left of it, and talks to nobody. Private to train/run.
 *
 * Only rank 0 has the run directory's lock, records and journal, and the whole state in t->whole where it is to be read or committed; the others hold their slices.
 *
 * Bytes sent a step, n numbers, N ranks, runs of one subtree each: (N - 1) / N of 4 n for gradients and 2 n for the bf16 operand (4 n where the arithmetic is fp32; 4 n for
 * the gradient with zero_stage 0): no more than a ring all-reduce's 8 n (N - 1) / N. */
#ifndef PAWL_RUN_SHARE_H
#define PAWL_RUN_SHARE_H

#include "dist/comm.h"
#include "dist/shard.h"
#include "kernels/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct trainer;
struct batch;
struct gradtree_node;
struct note;
struct evaluation_sums;

struct share {
    struct comm *comm;
    int rank, size;
    bool sharded;           /* ZeRO-1 on several ranks */
    bool apart;             /* the run directory is on another file system than a rank's: slices are collected to be written */
    struct range own;       /* elements whose gradient this rank sums */
    struct range held;      /* elements whose theta, m, v, g it holds: own with ZeRO-1, else all */
    size_t *f32, *act, *blocks; /* (size + 1) bytes before each rank's slice: of floats, of operands, of the norm's blocks */
    float *inbox;           /* subtrees of the other ranks' runs, of the own slice */
    double *row_loss;       /* (global batch) */
    uint64_t *hashes;       /* (size) */
    struct note *notes;     /* (size) */
    struct gradtree_node *nodes;
    struct comm_piece *send, *recv;
    int *ready;             /* (layers) pieces of send that may go once the backward pass has done this layer */
    int *first_node;        /* (size + 1) of each rank's in nodes */
    int nsend, nrecv;       /* of the gradient's exchange */
    bool begun;             /* that exchange */
    double told;            /* until when this rank has time, as the others know, by clock_seconds; 0: they know of nothing */
    char reason[64];        /* why another rank asked all to stop, where it is that request that counts here */
    struct share_mark {
        uint64_t sent;      /* bytes */
        double talking, at, cpu; /* seconds in exchanges; of the clock; of all threads' work, the system's for them included */
    } first, last;          /* behind this process's first step, which does not count, and behind the last one */
    int64_t steps;          /* in between */
};

/* Meets the other ranks: t->opt.ranks. The first thing of a run. */
enum pawl_status share_open(struct trainer *t, struct err *err);
/* st: how it ends; unless PAWL_OK the others end so too. Again, or before share_open: nothing. */
void share_leave(struct trainer *t, enum pawl_status st, const char *why);
void share_free(struct share *s);
/* Opens t->dev: a card of its own for each rank of a machine. */
enum pawl_status share_device(struct trainer *t, struct err *err);
/* What to do first on one rank of each machine, so that the others find it in a cache: runs open(t) there, then everywhere else. */
enum pawl_status share_in_turn(struct trainer *t, enum pawl_status (*open)(struct trainer *t, struct err *err), struct err *err);
/* Rank 0's global batch becomes everybody's. */
enum pawl_status share_global_batch(struct trainer *t, struct err *err);
/* Base, data, configuration and so on are the same everywhere: else PAWL_EINVAL names rank and thing. */
enum pawl_status share_compare(struct trainer *t, struct err *err);

/* Own and held slices, once t->lora is known; then what the ranks need goes into the size table, the gradient tree included. */
void share_slices(struct trainer *t);
void share_reserve(struct trainer *t);
void share_place(struct trainer *t); /* once they are allocated: t->whole */

/* --- the state: t->at of rank 0, and t->whole <-> theta, m, v */
enum pawl_status share_deal(struct trainer *t, struct err *err);    /* from rank 0's whole state */
enum pawl_status share_collect(struct trainer *t, struct err *err); /* into it; with one rank nothing moves where the device's memory is the host's */
enum pawl_status share_operand(struct trainer *t, struct err *err);  /* theta rounded, everybody's slice to all */
enum pawl_status share_gather_operand(struct trainer *t, struct err *err); /* the same where each has rounded its slice already, as AdamW does */

/* --- a step */
struct range share_rows(const struct trainer *t, int64_t rows); /* that this rank computes */
/* Where ranks send from the memory that they compute in, gradients of finished layers travel while the others are computed: begun before the last micro-batch of this rank's rows,
 * gone on with when a layer is done. share_gradient does what is left, which may be all of it. */
enum pawl_status share_begin_gradient(struct trainer *t, const struct batch *b, struct err *err);
void share_layer_done(struct trainer *t, int layer);
/* g = the sum over all rows, of the held slice. *due: rank 0's becomes everybody's. *dropped: whether any rank has not done its rows; then g is nothing. */
enum pawl_status share_gradient(struct trainer *t, const struct batch *b, bool *due, bool *dropped, struct err *err);
/* The norm's blocks, losses by row, and the sum of hash over ranks. */
enum pawl_status share_sums(struct trainer *t, const struct batch *b, uint64_t *hash, struct err *err);

/* Of all ranks' batches of an evaluation. */
enum pawl_status share_evaluation(struct trainer *t, struct evaluation_sums *sums, struct err *err);

/* After each step; and at the end of a run that is done, as an event: what the ranks sent, how long they talked, how long their CPUs worked, and the memory of the largest. */
void share_count(struct trainer *t);
enum pawl_status share_tell(struct trainer *t, struct err *err);

/* Everybody's `bytes` of list[rank], an array of one item a rank. */
enum pawl_status share_items(struct trainer *t, void *list, size_t bytes, struct err *err);

/* --- between steps */
struct note {
    int32_t status;     /* how the last thing went */
    int32_t save;       /* a checkpoint is asked for */
    int32_t hurry;      /* because the machine may go soon: a remote must have it too */
    double left;        /* seconds that a request to stop leaves */
    double commit;      /* seconds that rank 0's last one took */
    int64_t saved_step; /* rank 0's */
    char why[64];       /* to stop; "": go on */
};
/* *flag: whether it is set on any rank. */
enum pawl_status share_any(struct trainer *t, bool *flag, struct err *err);
/* Whether this rank or another was asked to stop. Does not wait: may be asked within a step, and then the others are told at once, so that none computes on for nothing. */
bool share_asked_to_stop(struct trainer *t);
/* Everybody's notes become one, the same on all ranks: the worst status, any wish to save, the first reason to stop. A failure of the ranks themselves is returned. */
enum pawl_status share_agree(struct trainer *t, struct note *note, struct err *err);

#endif
