/* Where the time of a run goes: a table of ops in front of a device's own, which measures each call and then waits for it, so that what a call queued counts as its own.
 * Results stay the same. Costs two readings of the clock a call on a CPU; on a card also the overlap of its streams.
 *
 * dev->layer says which layer a call belongs to. The first step of a profile is left out of its sums: pages and caches are cold then. */
#ifndef PAWL_PROFILE_H
#define PAWL_PROFILE_H

#include "kernels/base/mem.h"
#include "kernels/dev.h"

#include <stdint.h>

struct profile;

/* From here on every op of dev is measured; dev must outlive the profile. */
struct profile *profile_open(struct dev *dev);
/* Gives dev its own ops back; NULL is allowed. */
void profile_close(struct profile *p);

/* Ops count between begin and end of a step. What the step's time holds besides ops is told as "between ops". */
void profile_begin_step(struct profile *p); /* NULL is allowed, here and below */
void profile_end_step(struct profile *p);

/* By op: calls, milliseconds a step, share, GFLOP/s (matrix work as the formulas have it); then by layer. A text for people. */
void profile_table(const struct profile *p, struct buf *out);
/* The same as one JSON object: {"steps", "step_ms", "between_ops_ms", "ops": [{"op", "calls", "ms", "share", "gflops"}], "layers": [{"layer", "ms", "share"}]}; layer -1: outside of layers. */
void profile_json(const struct profile *p, struct buf *out);
/* Every call of the first steps, at most about a million of them, in Chrome's trace event format (chrome://tracing, ui.perfetto.dev). */
void profile_trace(const struct profile *p, struct buf *out);

#endif
