/* Ranks that train together: bulk data between them, over one of several transports.
 *
 * All ranks call the same functions in the same order. A call returns when its data has arrived, or with PAWL_ESTOPPED as soon as another rank is known to be gone (its
 * socket closed, or silent for `timeout` seconds, whatever the transport does), or with the status that another rank gave when it left (comm_close). After a failure every
 * further call fails with the same text, nothing that was received counts, and the process is expected to end: where it does not, it is ended with exit code 75
 * half a second after the time-out, so that no rank ever hangs.
 *
 * One thread at a time. Addresses are the host's, but for the functions of the device; nothing is allocated in a call. */
#ifndef PAWL_DIST_COMM_H
#define PAWL_DIST_COMM_H

#include "dist/ranks.h"
#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run of bytes that goes to a peer, or comes from it. */
struct comm_piece {
    int peer; /* another rank */
    void *data;
    size_t bytes;
};

struct comm;
struct dev;

/* A transport. */
struct comm_ops {
    const char *name;
    /* Sends and receives at once. What rank a sends to rank b must be what b receives from a: as many pieces of the same sizes in the same order. Pieces don't overlap. */
    enum pawl_status (*exchange)(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err);
    void (*close)(struct comm *c, enum pawl_status st);
    /* The same in parts (comm_begin); NULL: all of it at the end. */
    void (*begin)(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv);
    enum pawl_status (*go_on)(struct comm *c, int ready, struct err *err);
    enum pawl_status (*end)(struct comm *c, struct err *err);
};

/* An exchange that was begun. */
struct comm_way {
    const struct comm_piece *send, *recv;
    int nsend, nrecv;
    struct err failed;
};

struct comm {
    const struct comm_ops *ops;
    const struct comm_ops *device; /* of buffers of the device; NULL: they go through the host */
    int rank, size;
    double timeout;
    struct control *control; /* NULL with one rank */
    void *state, *device_state; /* the transports' */
    struct comm_piece *pieces; /* (2 size) of the functions below */
    uint64_t sent;           /* bytes that this rank has sent */
    double seconds;          /* spent in exchanges, waiting for slower ranks included */
    struct comm_way way;
    struct err failed;       /* the first failure of an exchange */
};

/* Meets the other ranks. version: a text that must be the same everywhere. PAWL_ESTOPPED names the ranks that did not show up within `timeout` seconds; PAWL_EIO where
 * the port is in use; PAWL_EINVAL where a host does not resolve, or the ranks are of different programs. */
enum pawl_status comm_open(struct comm **out, const struct ranks *r, const char *version, double timeout, struct err *err);
/* st: PAWL_OK at the agreed end of a run; else the others end with the same status and this text. NULL is allowed. Without this call the others see a death. */
void comm_close(struct comm *c, enum pawl_status st, const char *why);

/* Whether an exchange has failed, or another rank is known to be gone: PAWL_OK or what a call would return. Does not communicate. */
enum pawl_status comm_check(struct comm *c, struct err *err);

/* Tells all other ranks that this one was asked to stop, and that `left` seconds remain for it. At once: they learn it (comm_asked) while they compute. Does not wait. */
void comm_ask(struct comm *c, const char *why, double left);
/* Whether another rank told so: its reason, and the seconds that are left now. Of several the one that leaves the least. */
bool comm_asked(struct comm *c, char *why, size_t room, double *left);

enum pawl_status comm_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err);
/* An exchange that goes on while this rank computes: begun with data that is not there yet, gone on with between two pieces of work, and ended with waiting. The lists and what they name stay
 * where they are until then, and there is no other exchange in between. What goes out is read no earlier than comm_go_on says that the first `ready` pieces of it are there; comm_end: all
 * are. Where a transport can't, all moves at the end. Failures come out there too. */
enum pawl_status comm_begin(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err);
void comm_go_on(struct comm *c, int ready);
enum pawl_status comm_end(struct comm *c, struct err *err);
/* Bytes [offset[k], offset[k + 1]) of data are rank k's on entry and everybody's on return. offset (size + 1). */
enum pawl_status comm_all_gather(struct comm *c, void *data, const size_t *offset, struct err *err);
/* The same of a list with an item of so many bytes for each rank. */
enum pawl_status comm_all_items(struct comm *c, void *list, size_t bytes, struct err *err);
/* Each rank's part, which it has in `mine`, goes to its place in rank 0's `whole`; rank 0's own part is there already. */
enum pawl_status comm_gather(struct comm *c, void *whole, void *mine, const size_t *offset, struct err *err);
/* The other way round: rank 0's whole is dealt out, into everybody else's mine. */
enum pawl_status comm_scatter(struct comm *c, void *whole, void *mine, const size_t *offset, struct err *err);
enum pawl_status comm_broadcast(struct comm *c, void *data, size_t bytes, struct err *err); /* from rank 0 */

/* --- between devices */

/* Once, when every rank has its device: sets c->device where all are on cards of their own that reach each other without the host, else rank 0 says why not. dev stays the caller's and must
 * outlive c. PAWL_EINVAL where two ranks are on one card and the configuration did not name it (named). */
enum pawl_status comm_open_device(struct comm *c, struct dev *dev, bool named, struct err *err);
/* comm_exchange and comm_all_gather of buffers of the device, with what work that it was given before has left there; only where c->device is set. Every rank takes part, if with
 * empty lists. */
enum pawl_status comm_device_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err);
enum pawl_status comm_device_all_gather(struct comm *c, void *data, const size_t *offset, struct err *err);

#endif
