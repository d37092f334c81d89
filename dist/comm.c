#include "dist/comm.h"

#include "dist/control.h"
#include "dist/transport.h"
#include "kernels/base/clock.h"
#include "kernels/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- one rank: nobody to talk to */

static enum pawl_status single_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    return PAWL_OK;
}

static void single_close(struct comm *c, enum pawl_status st) {}

static const struct comm_ops single_ops = {.name = "single", .exchange = single_exchange, .close = single_close};

/* --- any number */

typedef enum pawl_status open_transport(struct comm *c, const struct ranks *r, const char *version, double timeout, struct err *err);

static open_transport *transport_of(const struct ranks *r)
{
#ifdef PAWL_MPI
    if (!strcmp(r->launcher, "mpirun")) return mpi_open;
#endif
    return tcp_open;
}

enum pawl_status comm_open(struct comm **out, const struct ranks *r, const char *version, double timeout, struct err *err)
{
    struct comm *c = xcalloc(1, sizeof *c);
    enum pawl_status st = PAWL_OK;

    *c = (struct comm){.ops = &single_ops, .rank = r->rank, .size = r->size, .timeout = timeout, .pieces = xcalloc((size_t)r->size * 2, sizeof *c->pieces)};
    if (r->size > 1) st = transport_of(r)(c, r, version, timeout, err);
    if (st == PAWL_OK) {
        *out = c;
    } else {
        free(c->pieces);
        free(c);
    }
    return st;
}

void comm_close(struct comm *c, enum pawl_status st, const char *why)
{
    if (!c) return;
    if (c->device) c->device->close(c, st);
    if (c->control) control_leave(c->control, st, why);
    c->ops->close(c, st);
    control_close(c->control);
    free(c->pieces);
    free(c);
}

enum pawl_status comm_check(struct comm *c, struct err *err)
{
    if (c->failed.status != PAWL_OK) {
        if (err) *err = c->failed;
        return c->failed.status;
    }
    return c->control ? control_check(c->control, err) : PAWL_OK;
}

void comm_ask(struct comm *c, const char *why, double left)
{
    if (c->control) control_ask(c->control, why, left);
}

bool comm_asked(struct comm *c, char *why, size_t room, double *left)
{
    return c->control && control_asked(c->control, why, room, left);
}

/* How an exchange went. Of a failure of the transport the control plane need not know: it is kept here. */
static enum pawl_status conclude(struct comm *c, enum pawl_status st, const struct err *why, struct err *err)
{
    if (st == PAWL_OK) return st;
    if (c->failed.status == PAWL_OK) c->failed = *why;
    return comm_check(c, err);
}

static enum pawl_status exchange(struct comm *c, const struct comm_ops *by, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    double begin = clock_seconds();
    struct err why;
    enum pawl_status st = comm_check(c, &why);

    if (st == PAWL_OK) st = by->exchange(c, send, nsend, recv, nrecv, &why);
    for (int i = 0; i < nsend; i++) c->sent += send[i].bytes;
    c->seconds += clock_seconds() - begin;
    return conclude(c, st, &why, err);
}

enum pawl_status comm_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    return exchange(c, c->ops, send, nsend, recv, nrecv, err);
}

enum pawl_status comm_begin(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    enum pawl_status st = comm_check(c, err);

    if (st != PAWL_OK) return st;
    c->way = (struct comm_way){.send = send, .recv = recv, .nsend = nsend, .nrecv = nrecv};
    if (c->ops->begin) c->ops->begin(c, send, nsend, recv, nrecv);
    return PAWL_OK;
}

void comm_go_on(struct comm *c, int ready)
{
    double begin = clock_seconds();

    if (c->ops->go_on && c->way.failed.status == PAWL_OK) c->ops->go_on(c, ready, &c->way.failed);
    c->seconds += clock_seconds() - begin;
}

enum pawl_status comm_end(struct comm *c, struct err *err)
{
    const struct comm_way *w = &c->way;
    double begin = clock_seconds();
    struct err why = w->failed;
    enum pawl_status st = why.status;

    if (!c->ops->end) return comm_exchange(c, w->send, w->nsend, w->recv, w->nrecv, err);
    if (st == PAWL_OK && (st = comm_check(c, &why)) == PAWL_OK) st = c->ops->end(c, &why);
    for (int i = 0; i < w->nsend; i++) c->sent += w->send[i].bytes;
    c->seconds += clock_seconds() - begin;
    return conclude(c, st, &why, err);
}

enum pawl_status comm_device_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    return exchange(c, c->device, send, nsend, recv, nrecv, err);
}

/* Adds a piece unless it is empty or the rank's own. */
static int add_piece(const struct comm *c, struct comm_piece *list, int n, int peer, void *data, size_t bytes)
{
    if (peer == c->rank || !bytes) return n;
    list[n] = (struct comm_piece){peer, data, bytes};
    return n + 1;
}

static enum pawl_status all_gather(struct comm *c, const struct comm_ops *by, void *data, const size_t *offset, struct err *err)
{
    struct comm_piece *send = c->pieces, *recv = c->pieces + c->size;
    int nsend = 0, nrecv = 0;

    for (int k = 0; k < c->size; k++) {
        nsend = add_piece(c, send, nsend, k, (char *)data + offset[c->rank], offset[c->rank + 1] - offset[c->rank]);
        nrecv = add_piece(c, recv, nrecv, k, (char *)data + offset[k], offset[k + 1] - offset[k]);
    }
    return exchange(c, by, send, nsend, recv, nrecv, err);
}

enum pawl_status comm_all_gather(struct comm *c, void *data, const size_t *offset, struct err *err)
{
    return all_gather(c, c->ops, data, offset, err);
}

enum pawl_status comm_all_items(struct comm *c, void *list, size_t bytes, struct err *err)
{
    size_t offset[RANKS_MAX + 1];

    for (int k = 0; k <= c->size; k++) offset[k] = (size_t)k * bytes;
    return comm_all_gather(c, list, offset, err);
}

enum pawl_status comm_device_all_gather(struct comm *c, void *data, const size_t *offset, struct err *err)
{
    return all_gather(c, c->device, data, offset, err);
}

/* One piece between rank 0 and each of the others. */
static enum pawl_status star(struct comm *c, void *whole, void *mine, const size_t *offset, bool outwards, struct err *err)
{
    struct comm_piece *list = c->pieces;
    bool sends = outwards == (c->rank == 0);
    int n = 0;

    if (c->rank) n = add_piece(c, list, 0, 0, mine, offset[c->rank + 1] - offset[c->rank]);
    for (int k = 1; k < c->size && !c->rank; k++) n = add_piece(c, list, n, k, (char *)whole + offset[k], offset[k + 1] - offset[k]);
    return comm_exchange(c, list, sends ? n : 0, list, sends ? 0 : n, err);
}

enum pawl_status comm_gather(struct comm *c, void *whole, void *mine, const size_t *offset, struct err *err)
{
    return star(c, whole, mine, offset, false, err);
}

enum pawl_status comm_scatter(struct comm *c, void *whole, void *mine, const size_t *offset, struct err *err)
{
    return star(c, whole, mine, offset, true, err);
}

enum pawl_status comm_broadcast(struct comm *c, void *data, size_t bytes, struct err *err)
{
    struct comm_piece *list = c->pieces;
    int n = c->rank ? add_piece(c, list, 0, 0, data, bytes) : 0;

    for (int k = 1; k < c->size && !c->rank; k++) n = add_piece(c, list, n, k, data, bytes);
    return comm_exchange(c, list, c->rank ? 0 : n, list, c->rank ? n : 0, err);
}
