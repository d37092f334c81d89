/* What a run says about itself: metrics.jsonl (one object a step, exactly once), events.jsonl, and the progress line. Private to train/run. */
#ifndef PAWL_RUN_RECORD_H
#define PAWL_RUN_RECORD_H

#include "train/run/evaluate.h"
#include "train/run/trainer.h"

struct step_record {
    int64_t step;
    double epoch, loss;
    double grad_norm;      /* before clipping */
    double learning_rate;  /* used in this step */
    int64_t tokens, supervised; /* of this step */
    double seconds;
};

/* The step's line for metrics.jsonl, durable before the journal commit of the step, and progress every logging_steps. */
void record_step(struct trainer *t, const struct step_record *r);

/* Whether another process has the run by now (store_watch): a process may have been stopped for any time at any moment, and asks before it writes. Remembered in t->evicted. */
bool record_evicted(struct trainer *t, struct err *err);

/* Events. A line that can't be written is said and never stops training, and nothing is written where record_evicted. json_fields: ", \"key\": value..." or "". */
void record_event(struct trainer *t, const char *event, const char *json_fields);
/* The start of this process: what is trained, from where; also said to the person. */
void record_start(struct trainer *t, const char *json_fields);
void record_evaluation(struct trainer *t, const struct evaluation *ev);
/* An answer to one of sample_prompts. */
void record_sample(struct trainer *t, const char *prompt, const char *text, size_t len);

/* Where the time went: a table on stdout, profile.json and trace.json beside the metrics. */
void record_profile(struct trainer *t);

#endif
