/* Bulk data over TCP: one connection between any two ranks, all driven by one poll loop. Bytes follow each other without frames, since both sides know what comes: the
 * first bytes of each exchange are its number and length, so that ranks that have come apart say so instead of waiting for each other. */
#include "dist/control.h"
#include "dist/socket.h"
#include "dist/transport.h"
#include "kernels/base/clock.h"
#include "kernels/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define POLL_MS 50 /* how often the control plane is asked while nothing moves */

struct introduction {
    uint64_t cookie;
    int32_t rank, unused;
};

struct frame {
    uint64_t number, bytes;
};

/* One direction of a connection during an exchange. */
struct stream {
    struct frame frame;
    size_t done;  /* bytes of the current piece, or of the frame */
    int next;     /* piece under way; -1: the frame */
    bool finished;
};

struct tcp {
    int *fd;                   /* (size); -1 for oneself */
    struct pollfd *poll;       /* (size) */
    struct stream *out, *in;   /* (size) */
    uint64_t number;
    const struct comm_piece *send, *recv; /* of the exchange under way */
    int nsend, nrecv, ready;              /* pieces of send that may be read */
};

static void tcp_free(struct tcp *t, int size)
{
    if (!t) return;
    for (int k = 0; k < size; k++)
        if (t->fd[k] >= 0) close(t->fd[k]);
    free(t->fd);
    free(t->poll);
    free(t->out);
    free(t->in);
    free(t);
}

static void tcp_close(struct comm *c, enum pawl_status st)
{
    tcp_free(c->state, c->size);
}

/* --- one exchange */

static int next_piece(const struct comm_piece *list, int n, int from, int peer)
{
    while (from < n && list[from].peer != peer) from++;
    return from;
}

static uint64_t total(const struct comm_piece *list, int n, int peer)
{
    uint64_t bytes = 0;

    for (int i = 0; i < n; i++) bytes += list[i].peer == peer ? list[i].bytes : 0;
    return bytes;
}

static enum pawl_status came_apart(const struct stream *s, const struct frame *mine, int peer, struct err *err)
{
    return err_set(err, PAWL_EINVAL, "rank %d is at exchange %llu with %llu bytes, this one at %llu with %llu: the ranks have come apart, which is an error of the program", peer,
                   (unsigned long long)s->frame.number, (unsigned long long)s->frame.bytes, (unsigned long long)mine->number, (unsigned long long)mine->bytes);
}

/* Moves as much as goes without waiting. */
static enum pawl_status move(struct comm *c, int peer, struct stream *s, const struct comm_piece *list, int n, bool outwards, struct err *err)
{
    struct tcp *t = c->state;
    struct frame mine = {t->number, outwards ? 0 : total(list, n, peer)};

    while (!s->finished && (!outwards || s->next < t->ready)) {
        char *data = s->next < 0 ? (char *)&s->frame : list[s->next].data;
        size_t bytes = s->next < 0 ? sizeof s->frame : list[s->next].bytes;
        ssize_t moved = outwards ? send(t->fd[peer], data + s->done, bytes - s->done, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(t->fd[peer], data + s->done, bytes - s->done, MSG_DONTWAIT);

        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0 && errno == EAGAIN) return PAWL_OK;
        if (moved <= 0) return control_lost(c->control, peer, err);
        if ((s->done += (size_t)moved) < bytes) continue;
        if (s->next < 0 && !outwards && (s->frame.number != mine.number || s->frame.bytes != mine.bytes)) return came_apart(s, &mine, peer, err);
        s->done = 0;
        s->next = next_piece(list, n, s->next + 1, peer);
        s->finished = s->next == n;
    }
    return PAWL_OK;
}

/* A peer takes part where there is something for it; pieces are never empty. */
static void begin_streams(const struct comm *c, struct stream *streams, const struct comm_piece *list, int n, uint64_t number)
{
    for (int k = 0; k < c->size; k++) {
        uint64_t bytes = total(list, n, k);

        streams[k] = (struct stream){.frame = {number, bytes}, .next = -1, .finished = !bytes};
    }
}

static void tcp_begin(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv)
{
    struct tcp *t = c->state;

    t->number++;
    t->send = send, t->recv = recv;
    t->nsend = nsend, t->nrecv = nrecv, t->ready = 0;
    begin_streams(c, t->out, send, nsend, t->number);
    begin_streams(c, t->in, recv, nrecv, t->number);
}

/* One round over all connections: moves what goes without waiting, and fills what to wait for. *open: connections that are not done. */
static enum pawl_status move_all(struct comm *c, int *open, struct err *err)
{
    struct tcp *t = c->state;
    enum pawl_status st;

    *open = 0;
    for (int k = 0; k < c->size; k++) {
        t->poll[k] = (struct pollfd){.fd = -1};
        if (t->out[k].finished && t->in[k].finished) continue;
        if ((st = move(c, k, &t->out[k], t->send, t->nsend, true, err)) != PAWL_OK || (st = move(c, k, &t->in[k], t->recv, t->nrecv, false, err)) != PAWL_OK) return st;
        if (t->out[k].finished && t->in[k].finished) continue;
        t->poll[k] = (struct pollfd){t->fd[k], (short)((t->out[k].finished ? 0 : POLLOUT) | (t->in[k].finished ? 0 : POLLIN)), 0};
        ++*open;
    }
    return PAWL_OK;
}

static enum pawl_status tcp_go_on(struct comm *c, int ready, struct err *err)
{
    struct tcp *t = c->state;
    int open;

    t->ready = ready;
    return move_all(c, &open, err);
}

static enum pawl_status tcp_end(struct comm *c, struct err *err)
{
    struct tcp *t = c->state;
    int open;
    enum pawl_status st;

    t->ready = t->nsend;
    while ((st = move_all(c, &open, err)) == PAWL_OK && open)
        if (poll(t->poll, (nfds_t)c->size, POLL_MS) == 0 && (st = control_check(c->control, err)) != PAWL_OK) break;
    return st;
}

static enum pawl_status tcp_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    tcp_begin(c, send, nsend, recv, nrecv);
    return tcp_end(c, err);
}

static const struct comm_ops tcp_ops = {.name = "tcp", .exchange = tcp_exchange, .close = tcp_close, .begin = tcp_begin, .go_on = tcp_go_on, .end = tcp_end};

/* --- opening: every rank goes to those below it */

static enum pawl_status connect_all(struct tcp *t, const struct comm *c, const struct control_peer *peers, uint64_t cookie, int listener, double deadline, struct err *err)
{
    struct introduction me = {.cookie = cookie, .rank = c->rank}, other;

    for (int k = 0; k < c->rank; k++)
        if ((t->fd[k] = socket_connect(&peers[k].address, deadline)) < 0 || !socket_put(t->fd[k], &me, sizeof me, deadline))
            return err_set(err, PAWL_ESTOPPED, "rank %d was not reached for data within comm_timeout: every rank must be able to connect to every other one (any port)", k);
    for (int come = c->rank + 1; come < c->size;) {
        int fd = socket_accept(listener, deadline);

        if (fd < 0) return err_set(err, PAWL_ESTOPPED, "%d ranks did not connect for data within comm_timeout: every rank must be able to connect to every other one (any port)", c->size - come);
        if (!socket_get(fd, &other, sizeof other, deadline) || other.cookie != cookie || other.rank <= c->rank || other.rank >= c->size || t->fd[other.rank] >= 0) {
            close(fd);
            continue;
        }
        t->fd[other.rank] = fd;
        come++;
    }
    return PAWL_OK;
}

enum pawl_status tcp_open(struct comm *c, const struct ranks *r, const char *version, double timeout, struct err *err)
{
    struct tcp *t = xcalloc(1, sizeof *t);
    struct control_peer *peers = xcalloc((size_t)c->size, sizeof *peers);
    uint64_t cookie;
    int listener = -1, port = 0;
    enum pawl_status st = PAWL_OK;

    *t = (struct tcp){.fd = xcalloc((size_t)c->size, sizeof *t->fd), .poll = xcalloc((size_t)c->size, sizeof *t->poll), .out = xcalloc((size_t)c->size, sizeof *t->out),
                      .in = xcalloc((size_t)c->size, sizeof *t->in)};
    for (int k = 0; k < c->size; k++) t->fd[k] = -1;
    if (!r->host[0]) st = err_set(err, PAWL_EINVAL, "MASTER_ADDR is not set, and this program was built without MPI: export the name or address of the machine of rank 0 (mpirun -x MASTER_ADDR)");
    if (st != PAWL_OK || (st = socket_listen(&listener, &port, "data", err)) != PAWL_OK) goto done;
    if ((st = control_open(&c->control, r, version, port, timeout, peers, &cookie, err)) != PAWL_OK) goto done;
    st = connect_all(t, c, peers, cookie, listener, clock_seconds() + timeout, err);
done:
    if (listener >= 0) close(listener);
    free(peers);
    if (st == PAWL_OK) {
        c->ops = &tcp_ops;
        c->state = t;
    } else {
        if (c->control) control_leave(c->control, st, err->text);
        control_close(c->control);
        c->control = NULL;
        tcp_free(t, c->size);
    }
    return st;
}
