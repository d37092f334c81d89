/* Requests to stop: SIGTERM, SIGINT, SIGUSR1, SIGHUP (unless it is ignored), and notices of whoever else knows (spot.h). A handler only sets a flag; whoever works looks at it between two pieces. A second
 * SIGINT ends the process at once, with what is durable (exit 75). */
#ifndef PAWL_RUN_STOP_H
#define PAWL_RUN_STOP_H

#include <stdbool.h>

void stop_watch(void);                /* installs the handlers */
void stop_set_grace(double seconds);  /* how much time a signal leaves */
/* From any thread: the machine goes in so many seconds. why is static text. The earliest of several counts. */
void stop_notice(const char *why, double seconds);

bool stop_requested(void);
const char *stop_reason(void);   /* "SIGTERM" ...; NULL while nothing was requested */
double stop_seconds_left(void);  /* may be negative; huge while nothing was requested */
double stop_lead_seconds(void);  /* how much time the request left when it came */

#endif
