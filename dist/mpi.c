/* Bulk data over MPI, for ranks that mpirun started: it knows the fast ways between them (shared memory, InfiniBand). Everything else stays with the control plane, since MPI
 * can't be relied on to notice a death: every call is non-blocking and polled, errors are returned, and after a failure MPI is never called again, not even to finalize. */
#ifdef PAWL_MPI

#include "dist/control.h"
#include "dist/socket.h"
#include "dist/transport.h"
#include "kernels/base/clock.h"
#include "kernels/base/mem.h"

#include <ifaddrs.h>
#include <mpi.h>
#include <netdb.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LONGEST (1 << 30)      /* bytes of a message: counts are ints */
#define SPINS 2000             /* polls before the core is given away */
#define NAP_NS 100000
#define CHECK_SECONDS 0.05     /* how often the control plane is asked */

struct requests {
    MPI_Request *at;
    int n, room;
};

static MPI_Request *next_request(struct requests *r)
{
    if (r->n == r->room) {
        r->room = r->room ? 2 * r->room : 64;
        r->at = xreallocarray(r->at, (size_t)r->room, sizeof *r->at);
    }
    return &r->at[r->n++];
}

/* Messages between two ranks keep their order, so one tag is enough. */
static int post(struct requests *r, const struct comm_piece *list, int n, bool outwards)
{
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < list[i].bytes; at += LONGEST) {
            char *data = (char *)list[i].data + at;
            int bytes = (int)(list[i].bytes - at < LONGEST ? list[i].bytes - at : LONGEST), rc;

            rc = outwards ? MPI_Isend(data, bytes, MPI_BYTE, list[i].peer, 0, MPI_COMM_WORLD, next_request(r)) : MPI_Irecv(data, bytes, MPI_BYTE, list[i].peer, 0, MPI_COMM_WORLD, next_request(r));
            if (rc != MPI_SUCCESS) return rc;
        }
    return MPI_SUCCESS;
}

static enum pawl_status broken(struct comm *c, int rc, struct err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;

    control_lost(c->control, -1, err); /* gives the control plane a moment to say who */
    if (control_check(c->control, err) != PAWL_OK) return err->status;
    MPI_Error_string(rc, text, &len);
    return err_set(err, PAWL_ESTOPPED, "MPI: %s", text);
}

static enum pawl_status mpi_exchange(struct comm *c, const struct comm_piece *send, int nsend, const struct comm_piece *recv, int nrecv, struct err *err)
{
    struct requests *r = c->state;
    double checked = clock_seconds();
    int rc, done = 0;
    enum pawl_status st;

    r->n = 0;
    if ((rc = post(r, recv, nrecv, false)) != MPI_SUCCESS || (rc = post(r, send, nsend, true)) != MPI_SUCCESS) return broken(c, rc, err);
    for (int polls = 0;; polls++) {
        if ((rc = MPI_Testall(r->n, r->at, &done, MPI_STATUSES_IGNORE)) != MPI_SUCCESS) return broken(c, rc, err);
        if (done) return PAWL_OK;
        if (polls < SPINS) sched_yield();
        else nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        if ((polls & 15) == 15 && clock_seconds() > checked + CHECK_SECONDS) {
            if ((st = control_check(c->control, err)) != PAWL_OK) return st;
            checked = clock_seconds();
        }
    }
}

/* MPI's own threads and exit handlers would wait for ranks that are gone. */
static void end_at_once(int code, void *unused)
{
    fflush(NULL);
    _exit(code);
}

static void mpi_close(struct comm *c, enum pawl_status st)
{
    struct requests *r = c->state;

    if (st == PAWL_OK && control_check(c->control, NULL) == PAWL_OK) MPI_Finalize();
    else on_exit(end_at_once, NULL);
    free(r->at);
    free(r);
}

static const struct comm_ops mpi_ops = {.name = "mpi", .exchange = mpi_exchange, .close = mpi_close};

/* An address of this machine that others can reach: the first interface that is up and no loopback. */
static void own_address(char *host, size_t room)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0) return;
    for (struct ifaddrs *i = list; i && !host[0]; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK))
            getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), host, (socklen_t)room, NULL, 0, NI_NUMERICHOST);
    freeifaddrs(list);
}

/* Rank 0 listens before it tells where, on a port that PAWL_PORT asks for or on any. */
static enum pawl_status tell_where(struct ranks *me, struct err *err)
{
    struct {
        char host[sizeof me->host];
        int port, status;
    } where = {.status = PAWL_OK};

    if (me->rank == 0) {
        if (!getenv("PAWL_PORT")) me->port = 0;
        where.status = (int)socket_listen(&me->listener, &me->port, "PAWL_PORT", err);
        if (!me->host[0]) own_address(me->host, sizeof me->host);
        snprintf(where.host, sizeof where.host, "%s", me->host);
        where.port = me->port;
    }
    if (MPI_Bcast(&where, sizeof where, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) return err_set(err, PAWL_ESTOPPED, "MPI: the ranks can't talk to each other");
    if (where.status != PAWL_OK) return me->rank ? err_set(err, (enum pawl_status)where.status, "rank 0 can't listen for the others") : (enum pawl_status)where.status;
    snprintf(me->host, sizeof me->host, "%s", where.host);
    me->port = where.port;
    return PAWL_OK;
}

enum pawl_status mpi_open(struct comm *c, const struct ranks *r, const char *version, double timeout, struct err *err)
{
    struct control_peer *peers;
    struct ranks me = *r;
    uint64_t cookie;
    int level, size = 0, rank = 0;
    enum pawl_status st;

    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) return err_set(err, PAWL_EIO, "MPI can't be started");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != r->size || rank != r->rank)
        st = err_set(err, PAWL_EINVAL, "mpirun says rank %d of %d, MPI says rank %d of %d: this program was built with another MPI than that mpirun's", r->rank, r->size, rank, size);
    else st = tell_where(&me, err);
    peers = xcalloc((size_t)c->size, sizeof *peers);
    if (st == PAWL_OK) st = control_open(&c->control, &me, version, 0, timeout, peers, &cookie, err);
    free(peers);
    if (st != PAWL_OK) {
        on_exit(end_at_once, NULL);
        return st;
    }
    c->ops = &mpi_ops;
    c->state = xcalloc(1, sizeof(struct requests));
    return PAWL_OK;
}

#endif
