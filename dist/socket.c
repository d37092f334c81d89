#include "dist/socket.h"

#include "kernels/base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RETRY_SECONDS 0.05

static bool wait_for(int fd, short events, double deadline)
{
    for (;;) {
        double left = deadline - clock_seconds();
        struct pollfd p = {fd, events, 0};
        int n = poll(&p, 1, left <= 0 ? 0 : left > 1e6 ? 1000000000 : (int)(left * 1000) + 1);

        if (n > 0) return true;
        if ((n < 0 && errno != EINTR) || left <= 0) return false;
    }
}

/* -1 with errno where it can't be. */
static int listen_on(int family, int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons((uint16_t)port)};
    bool is_six = family == AF_INET6;
    int on = 1, off = 0, failed, s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (s < 0) return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (is_six) setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(s, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four, is_six ? sizeof six : sizeof four) == 0 && listen(s, SOMAXCONN) == 0) return s;
    failed = errno;
    close(s);
    errno = failed;
    return -1;
}

enum pawl_status socket_listen(int *fd, int *port, const char *name, struct err *err)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    int s = listen_on(AF_INET6, *port);

    if (s < 0 && errno != EADDRINUSE) s = listen_on(AF_INET, *port); /* a machine without IPv6 */
    if (s < 0 && errno == EADDRINUSE)
        return err_set(err, PAWL_EIO, "%s: port %d is in use: end the process that holds it, or choose another by PAWL_PORT, the same on all ranks", name, *port);
    if (s < 0) return err_sys(err, "%s: port %d", name, *port);
    getsockname(s, (struct sockaddr *)&bound, &len);
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port : ((struct sockaddr_in *)&bound)->sin_port);
    *fd = s;
    return PAWL_OK;
}

static void no_delay(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int socket_accept(int fd, double deadline)
{
    int s;

    do {
        if (!wait_for(fd, POLLIN, deadline)) return -1;
        s = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    } while (s < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN));
    if (s >= 0) no_delay(s);
    return s;
}

enum pawl_status socket_resolve(struct sockaddr_storage *to, const char *host, int port, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char service[16];
    int rc;

    snprintf(service, sizeof service, "%d", port);
    if ((rc = getaddrinfo(host, service, &hints, &list)) != 0)
        return err_set(err, PAWL_EINVAL, "the host of rank 0, '%s', does not resolve: %s: set MASTER_ADDR to a name or address that every rank knows", host, gai_strerror(rc));
    memset(to, 0, sizeof *to);
    memcpy(to, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return PAWL_OK;
}

int socket_connect(const struct sockaddr_storage *to, double deadline)
{
    socklen_t len = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    do {
        int error = 0, s = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t size = sizeof error;

        if (s < 0) return -1;
        if (connect(s, (const struct sockaddr *)to, len) == 0 || errno == EINPROGRESS) {
            if (wait_for(s, POLLOUT, deadline) && getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
                no_delay(s);
                return s;
            }
        }
        close(s);
        nanosleep(&(struct timespec){0, (long)(RETRY_SECONDS * 1e9)}, NULL);
    } while (clock_seconds() < deadline);
    return -1;
}

bool socket_put(int fd, const void *data, size_t bytes, double deadline)
{
    const char *p = data;

    while (bytes) {
        ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) p += n, bytes -= (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
        else if (!wait_for(fd, POLLOUT, deadline)) return false;
    }
    return true;
}

bool socket_get(int fd, void *data, size_t bytes, double deadline)
{
    char *p = data;

    while (bytes) {
        ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);

        if (n > 0) p += n, bytes -= (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR)) return false;
        else if (!wait_for(fd, POLLIN, deadline)) return false;
    }
    return true;
}
