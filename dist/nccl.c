/* Buffers of cards over NCCL: NVLink, PCIe or the network's own ways, without the host.
 *
 * Only sends and receives, in groups: sums are made by us, in the order of the tree, never in one that a library chooses. Operations are queued on the device's own queue, behind the work
 * that made the data. The communicator is non-blocking: nothing here waits within NCCL, every wait is a loop that asks for NCCL's asynchronous error and for the control plane's
 * opinion, since of a death NCCL may learn late or never. Then the communicator is aborted, which ends its kernels on the card, and never used again. Should a call hang all the same,
 * the control plane's thread ends the process. */
#ifdef PAWL_NCCL

#include "dist/nccl.h"

#include "dist/control.h"
#include "dist/transport.h"
#include "kernels/base/clock.h"
#include "kernels/base/mem.h"
#include "kernels/dev.h"
#include "kernels/ops.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OLDEST NCCL_VERSION(2, 14, 0) /* the first with non-blocking communicators */
#define SPINS 2000                    /* polls before the core is given away */
#define NAP_NS 50000
#define CHECK_SECONDS 0.05            /* how often the control plane is asked */
#define GOODBYE_SECONDS 2.0           /* for a communicator that is at its end */

struct nccl {
    const struct nccl_calls *call;
    ncclComm_t comm; /* NULL: aborted */
    struct dev *dev;
};

/* A wait: naps, and now and then looks whether all are there. */
struct wait {
    long polls;
    double checked, deadline; /* 0: as long as all are there */
};

/* --- failures */

static const struct {
    ncclResult_t rc;
    const char *name, *likely;
} causes[] = {
    {ncclUnhandledCudaError, "ncclUnhandledCudaError", "a CUDA call within NCCL failed: the card's memory is full, its driver is too old for this NCCL, or the card fails (NCCL_DEBUG=WARN says which)"},
    {ncclSystemError, "ncclSystemError", "the system refused: shared memory (/dev/shm of a container), a socket or a network interface (NCCL_SOCKET_IFNAME; NCCL_DEBUG=WARN says which)"},
    {ncclInternalError, "ncclInternalError", "a fault within NCCL: another version may not have it (NCCL_DEBUG=WARN says more)"},
    {ncclInvalidArgument, "ncclInvalidArgument", "a bug of pawl: a buffer or a rank that makes no sense"},
    {ncclInvalidUsage, "ncclInvalidUsage", "calls in an order that NCCL refuses, two ranks on one card, or different NCCL versions"},
    {ncclRemoteError, "ncclRemoteError", "the other rank ended, or the network between the cards broke"},
};

/* The control plane knows better who is gone, and is given a moment to say so. */
static enum pawl_status failed(struct comm *c, ncclResult_t rc, const char *call, int peer, size_t bytes, struct err *err)
{
    struct nccl *n = c->device_state;
    const char *name = "NCCL error", *likely = "a bug of pawl or of NCCL", *said = n->call->last_error(n->comm);
    char with[64] = "all ranks";

    control_lost(c->control, peer, err);
    if (control_check(c->control, err) != PAWL_OK) return err->status;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].rc == rc) name = causes[i].name, likely = causes[i].likely;
    if (peer >= 0) snprintf(with, sizeof with, "rank %d, %zu bytes", peer, bytes);
    return err_set(err, PAWL_ESTOPPED, "rank %d: %s with %s: %s (%s)%s%.200s: likely %s", c->rank, call, with, name, n->call->error_string(rc), said && *said ? ": " : "", said ? said : "", likely);
}

static bool wrong(ncclResult_t rc)
{
    return rc != ncclSuccess && rc != ncclInProgress;
}

static void give_up(struct nccl *n)
{
    if (n->comm) n->call->abort(n->comm); /* whatever it says: there is nothing left to do */
    n->comm = NULL;
}

/* --- waiting */

static enum pawl_status nap(struct comm *c, struct wait *w, const char *what, struct err *err)
{
    double now;
    enum pawl_status st;

    if (w->polls++ < SPINS) sched_yield();
    else nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    if ((w->polls & 15) || (now = clock_seconds()) < w->checked + CHECK_SECONDS) return PAWL_OK;
    w->checked = now;
    if ((st = control_check(c->control, err)) != PAWL_OK) return st;
    if (w->deadline && now > w->deadline)
        return err_set(err, PAWL_ESTOPPED, "rank %d: %s is not done after %g s (comm_timeout): likely cards that don't reach each other, over a network interface that NCCL chose (NCCL_SOCKET_IFNAME; "
                       "NCCL_DEBUG=INFO names it)", c->rank, what, c->timeout);
    return PAWL_OK;
}

/* Until the communicator takes the next call. */
static enum pawl_status settle(struct comm *c, const char *what, double seconds, struct err *err)
{
    struct nccl *n = c->device_state;
    struct wait w = {.deadline = seconds > 0 ? clock_seconds() + seconds : 0};
    enum pawl_status st;

    for (;;) {
        ncclResult_t state = ncclInProgress, rc = n->call->async_error(n->comm, &state);

        if (rc != ncclSuccess) return failed(c, rc, "ncclCommGetAsyncError", -1, 0, err);
        if (wrong(state)) return failed(c, state, what, -1, 0, err);
        if (state == ncclSuccess) return PAWL_OK;
        if ((st = nap(c, &w, what, err)) != PAWL_OK) return st;
    }
}

/* Until what is queued on the device is done; NCCL's own part of it may fail without the queue's knowing. */
static enum pawl_status arrive(struct comm *c, struct err *err)
{
    struct nccl *n = c->device_state;
    struct wait w = {0};
    enum pawl_status st;

    while (!n->dev->ops->idle(n->dev)) {
        ncclResult_t state = ncclSuccess, rc = n->call->async_error(n->comm, &state);

        if (rc != ncclSuccess || wrong(state)) return failed(c, rc != ncclSuccess ? rc : state, "an exchange", -1, 0, err);
        if ((st = nap(c, &w, "an exchange", err)) != PAWL_OK) return st;
    }
    return dev_check(n->dev, err);
}

/* --- one exchange */

/* A group that was begun has to be ended, whatever failed in between. */
static enum pawl_status post(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    struct nccl *n = c->device_state;
    cudaStream_t queue = n->dev->ops->queue(n->dev);
    const struct comm_piece *at = NULL;
    const char *call = "ncclGroupStart";
    ncclResult_t rc = n->call->group_start(), end;

    if (wrong(rc)) return failed(c, rc, call, -1, 0, err);
    for (int i = 0; i < nrecv && !wrong(rc); i++) {
        at = &recv[i], call = "ncclRecv";
        rc = n->call->recv(at->data, at->bytes, ncclUint8, at->peer, n->comm, queue);
    }
    for (int i = 0; i < nsend && !wrong(rc); i++) {
        at = &send[i], call = "ncclSend";
        rc = n->call->send(at->data, at->bytes, ncclUint8, at->peer, n->comm, queue);
    }
    end = n->call->group_end();
    if (wrong(rc)) return failed(c, rc, call, at->peer, at->bytes, err);
    return wrong(end) ? failed(c, end, "ncclGroupEnd", -1, 0, err) : settle(c, "ncclGroupEnd", 0, err);
}

static enum pawl_status nccl_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    struct nccl *n = c->device_state;
    enum pawl_status st;

    if ((st = post(c, send, nsend, recv, nrecv, err)) == PAWL_OK) st = arrive(c, err);
    if (st != PAWL_OK) give_up(n);
    return st;
}

/* --- opening and closing */

static void nccl_close(struct comm *c, enum pawl_status st)
{
    struct nccl *n = c->device_state;
    struct err unused;

    if (n->comm && st == PAWL_OK && control_check(c->control, NULL) == PAWL_OK && !wrong(n->call->finalize(n->comm)) &&
        settle(c, "ncclCommFinalize", GOODBYE_SECONDS, &unused) == PAWL_OK) {
        n->call->destroy(n->comm);
        n->comm = NULL;
    }
    give_up(n);
    free(n);
    c->device_state = NULL;
}

static const struct comm_ops nccl_ops = {.name = "nccl", .exchange = nccl_exchange, .close = nccl_close};

int nccl_version(const char **why)
{
    const struct nccl_calls *call = nccl_load(why);
    int version = 0;

    if (!call) return 0;
    if (call->get_version(&version) == ncclSuccess && version >= OLDEST) return version;
    *why = "its NCCL is older than 2.14: install a newer one";
    return 0;
}

/* Rank 0's id, with how it went there. */
static enum pawl_status spread_id(struct comm *c, ncclUniqueId *id, struct err *err)
{
    struct nccl *n = c->device_state;
    struct {
        ncclUniqueId id;
        int32_t rc;
    } letter = {.rc = ncclSuccess};
    enum pawl_status st;

    if (c->rank == 0) letter.rc = (int32_t)n->call->get_unique_id(&letter.id);
    if ((st = comm_broadcast(c, &letter, sizeof letter, err)) != PAWL_OK) return st;
    if (letter.rc != ncclSuccess) return err_set(err, PAWL_ESTOPPED, "rank 0: ncclGetUniqueId: %s: likely no network interface that NCCL may use (NCCL_SOCKET_IFNAME)", n->call->error_string((ncclResult_t)letter.rc));
    *id = letter.id;
    return PAWL_OK;
}

enum pawl_status nccl_open(struct comm *c, struct dev *dev, struct err *err)
{
    struct nccl *n = xcalloc(1, sizeof *n);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const char *why = NULL;
    ncclUniqueId id;
    ncclResult_t rc;
    enum pawl_status st;

    *n = (struct nccl){.call = nccl_load(&why), .dev = dev};
    c->device_state = n;
    config.blocking = 0;
    if ((st = spread_id(c, &id, err)) != PAWL_OK) goto done;
    if (wrong(rc = n->call->init(&n->comm, c->size, id, c->rank, &config))) st = failed(c, rc, "ncclCommInitRankConfig", -1, 0, err);
    else st = settle(c, "ncclCommInitRankConfig", c->timeout, err);
done:
    if (st == PAWL_OK) c->device = &nccl_ops;
    else nccl_close(c, st);
    return st;
}

#endif
