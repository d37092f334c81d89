/* The transports behind comm.h. Private to dist. */
#ifndef PAWL_DIST_TRANSPORT_H
#define PAWL_DIST_TRANSPORT_H

#include "dist/comm.h"

/* Each meets the other ranks and fills ops, control and state of c. Errors: comm_open's. */

/* A connection between any two ranks: needs nothing but a network, so it is what --ranks, torchrun and Slurm use. */
enum pawl_status tcp_open(struct comm *c, const struct ranks *r, const char *version, double timeout, struct err *err);

/* What mpirun's ranks have between them; only where the program was built with MPI (PAWL_MPI). */
enum pawl_status mpi_open(struct comm *c, const struct ranks *r, const char *version, double timeout, struct err *err);

/* Between the cards of the ranks, which comm_open_device has found to be usable; only where the program was built with NCCL (PAWL_NCCL). Fills device and device_state of c. All ranks call it;
 * a failure is this rank's alone. */
enum pawl_status nccl_open(struct comm *c, struct dev *dev, struct err *err);
/* Its version; 0: *why says why it can't be used here. */
int nccl_version(const char **why);

#endif
