#include "dist/control.h"

#include "dist/socket.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x70776c31u
#define LAST_WORD_SECONDS 0.5 /* how long after the time-out a process that hangs is ended */
#define GOODBYE_SECONDS 2.0   /* how long one waits for the others' goodbye */
#define VERSION_BYTES 64

/* What a rank says when it comes. */
struct hello {
    uint32_t magic;
    int32_t rank, size, bulk_port;
    char version[VERSION_BYTES];
};

/* What rank 0 answers: come in, or why not. Then the addresses of all. */
struct welcome {
    uint32_t magic;
    int32_t status;
    uint64_t cookie;
    char text[512];
};

#define END 'e' /* what comes through the pipe */
#define ASK 'a'

enum word { ALIVE, GOODBYE, FAILED, ASKED };

/* Everything that is said afterwards. FAILED comes from rank 0: what it knows of somebody else. ASKED: a rank has to stop; rank 0 hands it on. */
struct message {
    uint32_t magic;
    int32_t word, rank, status;
    double left; /* seconds; of ASKED */
    char text[488];
};

struct link {
    int fd, rank;
    double heard;      /* when, by clock_seconds */
    bool left;         /* said goodbye */
    struct message in; /* being received */
    size_t got;
};

struct control {
    int rank, size, links;
    struct link *link; /* rank 0: one to each other rank; else the one to rank 0 */
    double timeout, interval;
    pthread_t thread;
    bool running;
    int wake[2];       /* a pipe that ends the thread's poll: END or ASK */

    pthread_mutex_t lock; /* of what follows */
    struct err failed;
    struct request {
        char why[64];  /* "": none */
        double until;  /* by clock_seconds */
    } mine, theirs;
};

/* --- meeting */

static void close_links(struct control *c)
{
    for (int i = 0; i < c->links; i++)
        if (c->link[i].fd >= 0) close(c->link[i].fd);
}

/* "ranks 2, 5" */
static void name_missing(const struct control *c, struct buf *text)
{
    int n = 0, said = 0;

    for (int i = 0; i < c->links; i++) n += c->link[i].fd < 0;
    buf_adds(text, n > 1 ? "ranks" : "rank");
    for (int i = 0; i < c->links && said < 12; i++)
        if (c->link[i].fd < 0) buf_addf(text, "%s %d", said++ ? "," : "", c->link[i].rank);
    if (n > said) buf_addf(text, " and %d more", n - said);
}

static void set_port(struct sockaddr_storage *a, int port)
{
    if (a->ss_family == AF_INET6) ((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
    else ((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
}

static int get_port(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port : ((const struct sockaddr_in *)a)->sin_port);
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

    if (a->ss_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

/* What is wrong with a rank that came; PAWL_OK: nothing. */
static enum pawl_status judge(const struct control *c, const struct hello *h, const char *version, struct err *why)
{
    if (h->size != c->size) return err_set(why, PAWL_EINVAL, "rank %d was started as one of %d ranks, rank 0 as one of %d: start all with the same number", h->rank, h->size, c->size);
    if (h->rank < 1 || h->rank >= c->size) return err_set(why, PAWL_EINVAL, "a process says that it is rank %d of %d: expected 1 to %d", h->rank, h->size, c->size - 1);
    if (c->link[h->rank - 1].fd >= 0) return err_set(why, PAWL_EINVAL, "two processes say that they are rank %d: give each its own", h->rank);
    if (strncmp(h->version, version, VERSION_BYTES - 1) != 0)
        return err_set(why, PAWL_EINVAL, "rank %d is pawl %.63s, rank 0 is %s: install the same program on all machines", h->rank, h->version, version);
    return PAWL_OK;
}

/* Takes one connection. A stranger is sent away without a word. */
static enum pawl_status take_in(struct control *c, int fd, const char *version, double deadline, struct control_peer *peers, struct err *err)
{
    struct hello h;
    struct welcome no = {.magic = MAGIC};
    struct err why = {0};
    double patience = clock_seconds() + GOODBYE_SECONDS;
    socklen_t len = sizeof(struct sockaddr_storage);

    if (!socket_get(fd, &h, sizeof h, patience < deadline ? patience : deadline) || h.magic != MAGIC) {
        close(fd);
        return PAWL_OK;
    }
    h.version[VERSION_BYTES - 1] = 0;
    if (judge(c, &h, version, &why) != PAWL_OK) {
        no.status = (int32_t)why.status;
        snprintf(no.text, sizeof no.text, "%.500s", why.text);
        socket_put(fd, &no, sizeof no, patience);
        close(fd);
        return err_set(err, why.status, "%s", why.text);
    }
    c->link[h.rank - 1].fd = fd;
    getpeername(fd, (struct sockaddr *)&peers[h.rank].address, &len);
    set_port(&peers[h.rank].address, h.bulk_port);
    return PAWL_OK;
}

static uint64_t new_cookie(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)ts.tv_sec << 20 ^ (uint64_t)getpid();
}

/* Tells those who came why it ends. */
static void send_away(struct control *c, const struct err *why)
{
    struct welcome no = {.magic = MAGIC, .status = (int32_t)why->status};

    snprintf(no.text, sizeof no.text, "%.500s", why->text);
    for (int i = 0; i < c->links; i++)
        if (c->link[i].fd >= 0) socket_put(c->link[i].fd, &no, sizeof no, clock_seconds() + GOODBYE_SECONDS);
}

static enum pawl_status receive_all(struct control *c, const struct ranks *r, const char *version, struct control_peer *peers, uint64_t *cookie, struct err *err)
{
    double deadline = clock_seconds() + c->timeout;
    int listener = r->listener, port = r->port, come = 0;
    struct welcome yes = {.magic = MAGIC, .cookie = new_cookie()};
    enum pawl_status st = PAWL_OK;

    if (listener < 0 && (st = socket_listen(&listener, &port, "PAWL_PORT", err)) != PAWL_OK) return st;
    while (come < c->links && st == PAWL_OK) {
        int fd = socket_accept(listener, deadline);

        if (fd < 0) {
            struct buf who = {0};

            name_missing(c, &who);
            st = err_set(err, PAWL_ESTOPPED, "%s of %d did not show up at port %d of rank 0 within %g s (comm_timeout): start all ranks, and see that they reach this machine", who.data, c->size,
                         port, c->timeout);
            buf_free(&who);
            break;
        }
        st = take_in(c, fd, version, deadline, peers, err);
        come = 0;
        for (int i = 0; i < c->links; i++) come += c->link[i].fd >= 0;
    }
    close(listener);
    if (st != PAWL_OK) {
        send_away(c, err);
        return st;
    }
    *cookie = yes.cookie;
    for (int i = 0; i < c->links; i++)
        if (!socket_put(c->link[i].fd, &yes, sizeof yes, deadline) || !socket_put(c->link[i].fd, peers, (size_t)c->size * sizeof *peers, deadline))
            return err_set(err, PAWL_ESTOPPED, "rank %d is gone: its connection closed while the ranks met", c->link[i].rank);
    return PAWL_OK;
}

static enum pawl_status go_there(struct control *c, const struct ranks *r, const char *version, int bulk_port, struct control_peer *peers, uint64_t *cookie, struct err *err)
{
    double deadline = clock_seconds() + c->timeout;
    struct hello h = {.magic = MAGIC, .rank = r->rank, .size = r->size, .bulk_port = bulk_port};
    struct sockaddr_storage to;
    struct welcome answer;
    enum pawl_status st = socket_resolve(&to, r->host, r->port, err);

    if (st != PAWL_OK) return st;
    snprintf(h.version, sizeof h.version, "%s", version);
    if ((c->link->fd = socket_connect(&to, deadline)) < 0)
        return err_set(err, PAWL_ESTOPPED, "rank 0 was not reached at %s port %d within %g s (comm_timeout): does it run there, and does no firewall close the port (PAWL_PORT)?", r->host, r->port,
                       c->timeout);
    /* Rank 0 waits as long for the last one: its answer names who is missing, so it is given a little longer. */
    if (!socket_put(c->link->fd, &h, sizeof h, deadline) || !socket_get(c->link->fd, &answer, sizeof answer, deadline + GOODBYE_SECONDS) || answer.magic != MAGIC)
        return err_set(err, PAWL_ESTOPPED, "rank 0 at %s port %d gave no answer: it ended, or another program listens there (PAWL_PORT)", r->host, r->port);
    answer.text[sizeof answer.text - 1] = 0;
    if (answer.status != PAWL_OK) return err_set(err, (enum pawl_status)answer.status, "%s", answer.text);
    *cookie = answer.cookie;
    if (!socket_get(c->link->fd, peers, (size_t)c->size * sizeof *peers, deadline + GOODBYE_SECONDS)) return err_set(err, PAWL_ESTOPPED, "rank 0 is gone: its connection closed while the ranks met");
    /* Rank 0 is where it was found, and so is who reached it by a loopback address, which means nothing elsewhere. */
    for (int k = 0; k < c->size; k++)
        if (k == 0 || is_loopback(&peers[k].address)) {
            int port = get_port(&peers[k].address);

            peers[k].address = to;
            set_port(&peers[k].address, port);
        }
    return PAWL_OK;
}

/* --- watching */

static void say_to_all(struct control *c, const struct message *m, int but)
{
    for (int i = 0; i < c->links; i++)
        if (!c->link[i].left && c->link[i].rank != but) socket_put(c->link[i].fd, m, sizeof *m, clock_seconds() + 0.1);
}

/* The first failure counts; rank 0 tells it to the others. */
static void fail(struct control *c, enum pawl_status st, int rank, const char *text)
{
    struct message m = {.magic = MAGIC, .word = FAILED, .rank = rank, .status = (int32_t)st};

    pthread_mutex_lock(&c->lock);
    if (c->failed.status != PAWL_OK) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    err_set(&c->failed, st, "%s", text);
    pthread_mutex_unlock(&c->lock);
    if (c->rank) return;
    snprintf(m.text, sizeof m.text, "%.480s", text);
    say_to_all(c, &m, rank);
}

/* What this rank was asked goes to the others; only this thread writes to them. */
static void tell_request(struct control *c)
{
    struct message m = {.magic = MAGIC, .word = ASKED, .rank = c->rank};

    pthread_mutex_lock(&c->lock);
    snprintf(m.text, sizeof m.text, "%s", c->mine.why);
    m.left = c->mine.until - clock_seconds();
    pthread_mutex_unlock(&c->lock);
    say_to_all(c, &m, c->rank);
}

static void hear_request(struct control *c, const struct message *m)
{
    double until = clock_seconds() + m->left;

    pthread_mutex_lock(&c->lock);
    if (!c->theirs.why[0] || until < c->theirs.until) {
        snprintf(c->theirs.why, sizeof c->theirs.why, "%.63s", m->text);
        c->theirs.until = until;
    }
    pthread_mutex_unlock(&c->lock);
    if (c->rank == 0) say_to_all(c, m, m->rank);
}

static void hear(struct control *c, struct link *l)
{
    const struct message *m = &l->in;
    char text[560];

    if (m->magic != MAGIC) {
        snprintf(text, sizeof text, "rank %d is gone: it says what makes no sense", l->rank);
        fail(c, PAWL_ESTOPPED, l->rank, text);
    } else if (m->word == GOODBYE) {
        l->left = true;
        if (m->status != PAWL_OK) {
            snprintf(text, sizeof text, "rank %d: %.480s", l->rank, m->text);
            fail(c, (enum pawl_status)m->status, l->rank, text);
        }
    } else if (m->word == FAILED) {
        fail(c, (enum pawl_status)m->status, m->rank, m->text);
    } else if (m->word == ASKED) {
        hear_request(c, m);
    }
}

static void listen_to(struct control *c, struct link *l)
{
    char text[128];

    for (;;) {
        ssize_t n = recv(l->fd, (char *)&l->in + l->got, sizeof l->in - l->got, MSG_DONTWAIT);

        if (n > 0) {
            l->heard = clock_seconds();
            if ((l->got += (size_t)n) < sizeof l->in) continue;
            l->got = 0;
            l->in.text[sizeof l->in.text - 1] = 0;
            hear(c, l);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            if (!l->left) {
                snprintf(text, sizeof text, "rank %d is gone: its connection closed (killed, or its machine)", l->rank);
                fail(c, PAWL_ESTOPPED, l->rank, text);
            }
            l->left = true;
            return;
        }
    }
}

static void give_signs(struct control *c)
{
    const struct message alive = {.magic = MAGIC, .word = ALIVE, .rank = c->rank};

    for (int i = 0; i < c->links; i++)
        if (!c->link[i].left) socket_put(c->link[i].fd, &alive, sizeof alive, 0);
}

static void look_for_silence(struct control *c)
{
    double now = clock_seconds();
    char text[160];

    for (int i = 0; i < c->links; i++) {
        if (c->link[i].left || now - c->link[i].heard < c->timeout) continue;
        snprintf(text, sizeof text, "rank %d is gone: silent for %.1f s (comm_timeout %g s)", c->link[i].rank, now - c->link[i].heard, c->timeout);
        fail(c, PAWL_ESTOPPED, c->link[i].rank, text);
        c->link[i].left = true;
    }
}

/* Where the process has not ended by itself long after a failure, it hangs or computes on: nothing of that will count. */
static void end_in_time(struct control *c, double failed_at)
{
    if (clock_seconds() < failed_at + c->timeout + LAST_WORD_SECONDS) return;
    fprintf(stderr, "pawl: rank %d: %s\n", c->rank, c->failed.text);
    _exit(err_exit_code(c->failed.status));
}

static void *watch(void *arg)
{
    struct control *c = arg;
    struct pollfd *p = xcalloc((size_t)c->links + 1, sizeof *p);
    double next = 0, failed_at = 0;

    for (;;) {
        int wait = c->interval < 0.05 ? 10 : (int)(c->interval * 200);

        for (int i = 0; i < c->links; i++) p[i] = (struct pollfd){c->link[i].left ? -1 : c->link[i].fd, POLLIN, 0};
        p[c->links] = (struct pollfd){c->wake[0], POLLIN, 0};
        poll(p, (nfds_t)c->links + 1, wait);
        if (p[c->links].revents) {
            char what = END;

            if (read(c->wake[0], &what, 1) < 0 && errno == EINTR) continue;
            if (what == END) break;
            tell_request(c);
        }
        for (int i = 0; i < c->links; i++)
            if (p[i].revents) listen_to(c, &c->link[i]);
        if (clock_seconds() >= next) {
            give_signs(c);
            next = clock_seconds() + c->interval;
        }
        look_for_silence(c);
        if (c->failed.status == PAWL_OK) continue; /* only this thread sets it */
        /* Counted from the last sign of life, so that all are gone a moment after the time-out. */
        if (!failed_at) {
            failed_at = clock_seconds();
            for (int i = 0; i < c->links; i++)
                if (c->link[i].left && c->link[i].heard < failed_at) failed_at = c->link[i].heard;
        }
        end_in_time(c, failed_at);
    }
    free(p);
    return NULL;
}

/* --- opening and leaving */

enum pawl_status control_open(struct control **out, const struct ranks *r, const char *version, int bulk_port, double timeout, struct control_peer *peers, uint64_t *cookie,
                              struct err *err)
{
    struct control *c = xcalloc(1, sizeof *c);
    enum pawl_status st;

    *c = (struct control){.rank = r->rank, .size = r->size, .links = r->rank ? 1 : r->size - 1, .timeout = timeout, .interval = timeout / 5 < 1 ? timeout / 5 : 1};
    c->link = xcalloc((size_t)c->links, sizeof *c->link);
    pthread_mutex_init(&c->lock, NULL);
    for (int i = 0; i < c->links; i++) c->link[i] = (struct link){.fd = -1, .rank = r->rank ? 0 : i + 1};
    memset(peers, 0, (size_t)r->size * sizeof *peers);
    peers[0].address.ss_family = AF_INET;
    set_port(&peers[0].address, bulk_port);
    st = r->rank ? go_there(c, r, version, bulk_port, peers, cookie, err) : receive_all(c, r, version, peers, cookie, err);
    if (st == PAWL_OK && pipe(c->wake) != 0) st = err_sys(err, "no pipe");
    for (int i = 0; i < c->links; i++) c->link[i].heard = clock_seconds();
    if (st == PAWL_OK && (errno = pthread_create(&c->thread, NULL, watch, c)) != 0) st = err_sys(err, "the thread that watches the ranks cannot be started");
    if (st != PAWL_OK) {
        control_close(c);
        return st;
    }
    c->running = true;
    *out = c;
    return PAWL_OK;
}

enum pawl_status control_check(struct control *c, struct err *err)
{
    enum pawl_status st;

    pthread_mutex_lock(&c->lock);
    if ((st = c->failed.status) != PAWL_OK && err) *err = c->failed;
    pthread_mutex_unlock(&c->lock);
    return st;
}

enum pawl_status control_lost(struct control *c, int peer, struct err *err)
{
    double deadline = clock_seconds() + 1;
    enum pawl_status st;

    while ((st = control_check(c, err)) == PAWL_OK && clock_seconds() < deadline) nanosleep(&(struct timespec){0, 5000000}, NULL);
    return st != PAWL_OK ? st : err_set(err, PAWL_ESTOPPED, "rank %d is gone: its connection for data closed", peer);
}

static void wake(struct control *c, char what)
{
    while (write(c->wake[1], &what, 1) < 0 && errno == EINTR) continue;
}

void control_ask(struct control *c, const char *why, double left)
{
    pthread_mutex_lock(&c->lock);
    snprintf(c->mine.why, sizeof c->mine.why, "%s", why);
    c->mine.until = clock_seconds() + left;
    pthread_mutex_unlock(&c->lock);
    wake(c, ASK);
}

bool control_asked(struct control *c, char *why, size_t room, double *left)
{
    bool asked;

    pthread_mutex_lock(&c->lock);
    if ((asked = c->theirs.why[0] != 0)) {
        snprintf(why, room, "%s", c->theirs.why);
        *left = c->theirs.until - clock_seconds();
    }
    pthread_mutex_unlock(&c->lock);
    return asked;
}

static void end_watch(struct control *c)
{
    if (!c->running) return;
    c->running = false;
    wake(c, END);
    pthread_join(c->thread, NULL);
    close(c->wake[0]);
    close(c->wake[1]);
}

/* Reads until the others have closed too, so that the system does not throw away what they have not read yet. */
void control_leave(struct control *c, enum pawl_status st, const char *why)
{
    struct message bye = {.magic = MAGIC, .word = GOODBYE, .rank = c->rank, .status = (int32_t)st};
    double deadline;
    char rest[512];

    end_watch(c);
    deadline = clock_seconds() + (c->failed.status == PAWL_OK ? GOODBYE_SECONDS : LAST_WORD_SECONDS);
    if (why) snprintf(bye.text, sizeof bye.text, "%.480s", why);
    for (int i = 0; i < c->links; i++) {
        if (c->link[i].fd < 0) continue;
        socket_put(c->link[i].fd, &bye, sizeof bye, deadline);
        shutdown(c->link[i].fd, SHUT_WR);
    }
    for (int i = 0; i < c->links; i++)
        while (c->link[i].fd >= 0 && !(c->failed.status != PAWL_OK && c->link[i].left) && socket_get(c->link[i].fd, rest, 1, deadline)) continue;
}

void control_close(struct control *c)
{
    if (!c) return;
    end_watch(c);
    close_links(c);
    pthread_mutex_destroy(&c->lock);
    free(c->link);
    free(c);
}
