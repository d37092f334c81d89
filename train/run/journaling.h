/* Making steps durable: when the state goes to the journal, what is said when it can't, and what is saved at the end of a notice. Private to train/run. */
#ifndef PAWL_RUN_JOURNALING_H
#define PAWL_RUN_JOURNALING_H

#include "ckpt/journal.h"
#include "train/run/trainer.h"

struct journaling;

/* Bytes of staging that a run of n numbers needs; 0 where the configuration has no journal. */
size_t journaling_bytes(const struct config *c, int64_t n);
/* keep: the slot that was resumed from, or NULL. Where the journal is off, only lines are written. t->metrics is the journal's from here on. */
enum pawl_status journaling_open(struct journaling **out, struct trainer *t, const char *keep, struct err *err);
void journaling_close(struct journaling *j); /* NULL is allowed */

/* A line of metrics.jsonl; the offset of t->at follows. */
void journaling_line(struct trainer *t, const char *line, size_t len);
/* Whether the step that is about to end will be handed over: then its hashes are wanted. */
bool journaling_due(struct trainer *t);
/* At the end of each step: hands the state over where due, else the lines; durable_step follows what the writer says, and so do messages. A device with a memory of its own goes on
 * meanwhile: the state is handed over by journaling_copied, or whatever else below comes first. */
void journaling_step(struct trainer *t, bool due);
/* Waits for the device to have copied the last step's state, and hands it over. Without a journal, or a copy under way: nothing. */
void journaling_copied(struct trainer *t);
/* Waits until the staging buffer is free, at most so many seconds: false where it is not. */
bool journaling_idle(struct trainer *t, double seconds);
/* Waits until all lines are durable: what a checkpoint of this state needs. */
enum pawl_status journaling_lines(struct trainer *t, struct err *err);
/* The state of now durable, at most so many seconds from now: true where it is. Also in mid-accumulation. */
bool journaling_now(struct trainer *t, double seconds);
struct journal *journaling_journal(const struct trainer *t);
/* Bytes written so far and seconds of the last commit, for events. */
struct journal_status journaling_status(const struct trainer *t);

#endif
