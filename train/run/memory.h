/* Whether a run fits into memory, asked before anything big is allocated. Private to train/run. */
#ifndef PAWL_RUN_MEMORY_H
#define PAWL_RUN_MEMORY_H

#include "kernels/base/mem.h"
#include "train/run/trainer.h"

/* Whether the weights and the size tables of t fit into what memory_limit allows, or else into what the device and the system have free now. Where not, and err is not NULL, it is
 * PAWL_ENOMEM and says what takes most, and what would make it fit: advice, or where that is NULL what makes the largest part smaller. */
bool memory_suffices(const struct trainer *t, const char *advice, struct err *err);
/* Adds a JSON object of bytes by segment of the device's size table, with the weights. */
void memory_json(const struct trainer *t, struct buf *out);

#endif
