/* The control plane of a run with several ranks: a star of TCP connections around rank 0 that carries everything but bulk data. The ranks meet here, learn each other's
 * addresses, and a thread in each sends signs of life and listens for those of the others, so that a death is noticed whatever the main thread and the transport do.
 * Private to dist. */
#ifndef PAWL_DIST_CONTROL_H
#define PAWL_DIST_CONTROL_H

#include "dist/ranks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct control;

/* Where a rank listens for the transport. */
struct control_peer {
    struct sockaddr_storage address;
};

/* Meets the others. bulk_port: where this rank listens; peers (size) are filled; *cookie is a number of this run that strangers don't know. Errors: comm_open's. */
enum pawl_status control_open(struct control **out, const struct ranks *r, const char *version, int bulk_port, double timeout, struct control_peer *peers, uint64_t *cookie,
                              struct err *err);
/* PAWL_OK while all are there; else what happened, the same text each time. From any thread. */
enum pawl_status control_check(struct control *c, struct err *err);
/* Tells all other ranks, within a moment and whatever their main threads do, that this one was asked to stop. From one thread. */
void control_ask(struct control *c, const char *why, double left);
/* Whether another rank was: the one that leaves the least time. */
bool control_asked(struct control *c, char *why, size_t room, double *left);
/* Rank `peer` can't be reached by the transport: the failure, which has the control plane's own reason where it comes within a moment. */
enum pawl_status control_lost(struct control *c, int peer, struct err *err);
/* Ends the thread and says goodbye to the others: they end with st and why, unless st is PAWL_OK. */
void control_leave(struct control *c, enum pawl_status st, const char *why);
void control_close(struct control *c); /* NULL is allowed */

#endif
