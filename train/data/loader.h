/* Builds the next batch in a thread of its own while the current one trains. */
#ifndef PAWL_DATA_LOADER_H
#define PAWL_DATA_LOADER_H

#include "kernels/base/err.h"
#include "train/data/batch.h"

#include <stdint.h>

struct loader;

/* first: the step that will be asked for first (it is built at once, in the background). rows must outlive the loader. */
enum pawl_status loader_open(struct loader **out, const struct rows *rows, int64_t first, struct err *err);
void loader_close(struct loader *l); /* NULL is allowed */

/* The batch of a step, valid until the next call; step + 1 is begun. Any step may be asked for; another than the one begun is waited for. */
const struct batch *loader_get(struct loader *l, int64_t step);

#endif
