/* What interruptions cost: each start with its cause, the work that was lost, the time until the first new step, money; and the guard against restart loops.
 * All of it goes to events.jsonl. Private to train/run. */
#ifndef PAWL_RUN_LEDGER_H
#define PAWL_RUN_LEDGER_H

#include "train/run/resume.h"

struct ledger;

/* As soon as the run directory is locked and the state known: counts this start, durably, in starts.json. PAWL_EINVAL after max_fruitless_starts in a row without a
 * new durable state. */
enum pawl_status ledger_open(struct ledger **out, struct trainer *t, const struct resume *r, struct err *err);
void ledger_close(struct ledger *l); /* NULL is allowed */

/* The start of this process as an event: where from, why the last one ended, what was lost. Also said to the person. */
void ledger_start(struct trainer *t, const struct resume *r);
/* How long finding and verifying, loading and replaying the state took, for the event after the first step. */
void ledger_loaded(struct trainer *t, const struct resume *r);
/* After each step: time and money of the run follow; after the first one how long the start took, as an event. */
void ledger_step(struct trainer *t);
/* max_cost is reached. */
bool ledger_too_expensive(const struct trainer *t);
/* A run that is done may be started as often as anybody likes. */
void ledger_forgive(struct trainer *t);
/* finished, preempted or failed, with what is durable. */
void ledger_end(struct trainer *t, enum pawl_status st, const struct err *err);
/* Runs on_event's command, once nothing else is to be done, and waits for it. Also of a process that did not come to its first step, or found the run finished: whoever powers the
 * machine off by it must hear of every end. */
void ledger_tell(struct trainer *t, enum pawl_status st);

#endif
