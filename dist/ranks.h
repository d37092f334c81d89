/* Who this process is among those that train together: told by a launcher's environment, or started here. */
#ifndef PAWL_DIST_RANKS_H
#define PAWL_DIST_RANKS_H

#include "kernels/base/err.h"

#include <stdbool.h>

#define RANKS_MAX 1024
#define RANKS_PORT 29501 /* torchrun's default MASTER_PORT, which it holds itself, and one */

struct ranks {
    int rank, size;
    int local_rank, local_size; /* among those of this machine */
    char host[256];             /* where rank 0 can be reached; "" where only the transport knows */
    int port;                   /* on which it listens */
    int listener;               /* rank 0 of ranks_start: the socket that listens already; else -1 */
    const char *launcher;       /* "torchrun", "mpirun", "slurm", "--ranks"; NULL: one process by itself */
};

/* From RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK (mpirun) or SLURM_PROCID; one rank where there is none of them. PAWL_PORT, else MASTER_PORT + 1.
 * PAWL_EINVAL where they make no sense. */
enum pawl_status ranks_from_environment(struct ranks *out, struct err *err);

/* Starts n processes on this machine as copies of this one, which must not have threads. In each of them *parent is false and *out says who it is. Here *parent is true and
 * *exit_code that of the whole once all have ended: 0 where all gave 0, else the first of 1, 2, 3 that any gave, else 75. SIGTERM, SIGINT, SIGUSR1 are passed on. timeout: comm_open's. */
enum pawl_status ranks_start(struct ranks *out, int n, double timeout, bool *parent, int *exit_code, struct err *err);

/* Threads a rank: the cores of this process, or where more ranks share the machine its share of them. */
int ranks_threads(const struct ranks *r);

#endif
