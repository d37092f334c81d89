/* The memory of a training run: reserved in the way that fits, then allocated once. Private to train/run. */
#ifndef PAWL_RUN_ROOM_H
#define PAWL_RUN_ROOM_H

#include "train/run/trainer.h"

/* Needs model, data and rows. Takes the cheapest way of saving memory that suffices (embedding on the host, gradient checkpointing, where the configuration leaves them open) and says so; where
 * none does, PAWL_ENOMEM names the largest segment and settings that would fit. On success net, theta, m, v and g have their places. */
enum pawl_status room_allocate(struct trainer *t, struct err *err);

#endif
