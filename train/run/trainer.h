/* A training run: one structure owns everything, from the mapped base to the lock of the run directory.
 *
 * pawl train opens it (new, or where its newest verified checkpoint stands), runs it until done or stopped, and closes it. */
#ifndef PAWL_RUN_TRAINER_H
#define PAWL_RUN_TRAINER_H

#include "ckpt/jsonl.h"
#include "ckpt/store.h"
#include "kernels/base/arena.h"
#include "dist/ranks.h"
#include "optim/gradtree.h"
#include "train/config/config.h"
#include "train/data/loader.h"
#include "train/model/net.h"
#include "kernels/base/clock.h"
#include "train/run/share.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct trainer_options {
    bool fresh;          /* move an old run aside and begin anew */
    bool profile;        /* measure every op: a table on stdout, OUTPUT_DIR/profile.json and trace.json */
    bool accept_changes; /* resume although the configuration, data or model changed */
    struct ranks ranks;  /* who this process is; only the first one has records */
    const char *version; /* of the program: the same on all ranks */
};

/* Where a run stands: all that the next step depends on besides theta and its moments. Saved with each checkpoint and journal commit. */
struct progress {
    int64_t step;             /* optimizer steps done */
    int64_t tokens, supervised; /* seen so far */
    int64_t metrics_offset;   /* bytes of metrics.jsonl */
    double best_loss;         /* of evaluations; NaN: none yet */
    int64_t best_step;
    int64_t evals_since_best; /* for early stopping */
    int64_t evaluated_step;   /* of the last evaluation */
    int64_t watchdog;         /* steps in a row with a loss above the threshold */
    int64_t row;              /* rows of the next step whose gradients are in the tree: 0 but after a stop in mid-accumulation */
    double row_loss;          /* their sum of losses */
    double seconds, cost;     /* of all processes so far: time, and money where the price is known */
};

struct trainer {
    struct config *cfg;
    struct trainer_options opt;
    struct share share;
    int threads;
    struct dev *dev;
    struct model *model;
    struct tokenizer *tokenizer;
    struct chat_template *chat;
    struct dataset *data, *held_out;
    struct rows *rows, *eval_rows; /* eval_rows NULL: no held-out data */
    struct loader *loader;
    struct lora lora;

    struct arena arena, host; /* on the device; what only the host touches */
    struct net net;
    struct gradtree tree;
    struct micro micro;
    float *theta, *m, *v, *g; /* of share.held: lora.n each where the run has one rank */
    act *operand;             /* (lora.n) */
    float *whole[3];          /* (lora.n) theta, m, v on the host as share_collect left them: their places there where the run has one rank, else rank 0's staging; NULL elsewhere */
    int64_t whole_step;       /* that it was collected at; -1: it is not whole */
    double *norm_blocks;
    uint64_t *hash_blocks;    /* of the gradient, where the device hashes it */
    float *loss;              /* of a micro-batch's supervised tokens */
    float *staging;           /* (3 n) where a journal commit waits; NULL without a journal */
    bool pinned;              /* staging is, for copies from the device */

    /* Rank 0's, NULL on the others. */
    struct store *store;
    struct jsonl *metrics, *events;
    struct journaling *journaling;
    struct ledger *ledger;
    struct remoting *remoting; /* NULL: no remote */
    struct profile *profile;  /* NULL: not asked for */
    struct spot *spot;        /* NULL: nobody is asked */
    struct progress at;
    struct {
        int64_t step;         /* whose hashes these are; -1: none */
        uint64_t batch, gradient;
    } hash;
    int64_t total_steps, warmup_steps;
    int64_t durable_step;     /* of the newest verified checkpoint or journal commit */
    bool finished;            /* the newest checkpoint is the end of the run: nothing is left to do */
    bool homeless, evicted;   /* the run directory is gone; another process has taken it */
    int64_t saved_step;       /* of the newest checkpoint; -1: none */
    char stopped_by[64];      /* the reason; "": not stopped, or not between steps */
    int64_t given_up;         /* rows of the micro-batch that a notice made the process abandon */
    char *resumed_from, *best; /* checkpoint names; NULL: none */
    struct timespec begin;    /* of training */
    struct timespec last_save; /* or the last attempt */
    double seconds_a_step;    /* running mean of this process, for the ETA */
    double seconds_a_row, seconds_a_commit, seconds_a_save; /* the last of each; 0: not known yet */
};

/* Starts or resumes the run and trains until it is done (PAWL_OK) or stopped with everything durable (PAWL_ESTOPPED). cfg stays the caller's. */
enum pawl_status run_train(struct config *cfg, const struct trainer_options *opt, struct err *err);

#endif
