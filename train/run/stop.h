/* Requests to stop: SIGTERM, SIGINT, SIGUSR1. A handler only sets a flag; the trainer looks at it between steps. A second SIGINT ends the process at once, with
 * what is durable (exit 75). */
#ifndef PAWL_RUN_STOP_H
#define PAWL_RUN_STOP_H

#include <stdbool.h>

void stop_watch(void);          /* installs the handlers */
bool stop_requested(void);
const char *stop_reason(void);  /* "SIGTERM" ...; NULL while nothing was requested */

#endif
