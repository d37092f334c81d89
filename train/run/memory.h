/* Whether a run fits into memory, asked before anything big is allocated. Private to train/run. */
#ifndef PAWL_RUN_MEMORY_H
#define PAWL_RUN_MEMORY_H

#include "train/run/trainer.h"

/* Whether the weights and the size tables of t fit into what memory_limit allows, or else into what the device and the system have free now. Where not, and err is not NULL, it is
 * PAWL_ENOMEM and says what takes most, and what would make it fit. */
bool memory_suffices(const struct trainer *t, struct err *err);

#endif
