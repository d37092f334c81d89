/* TCP sockets with deadlines. Private to dist. */
#ifndef PAWL_DIST_SOCKET_H
#define PAWL_DIST_SOCKET_H

#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* A listening socket on all addresses; port 0: any, told in *port. PAWL_EIO where the port is in use; name is what set it, for the message. */
enum pawl_status socket_listen(int *fd, int *port, const char *name, struct err *err);
/* The next connection, without delay and close-on-exec; -1 where none came before the deadline. */
int socket_accept(int fd, double deadline);
/* Resolves host, at once: PAWL_EINVAL where it has no address. */
enum pawl_status socket_resolve(struct sockaddr_storage *to, const char *host, int port, struct err *err);
/* Tries until the deadline; -1 where nobody answered. */
int socket_connect(const struct sockaddr_storage *to, double deadline);
/* All of the bytes before the deadline, or false. */
bool socket_put(int fd, const void *data, size_t bytes, double deadline);
bool socket_get(int fd, void *data, size_t bytes, double deadline);

#endif
