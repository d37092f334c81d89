/* Messages for a person, on stderr, one line each. Results go to stdout and are not logged. */
#ifndef PAWL_BASE_LOG_H
#define PAWL_BASE_LOG_H

enum log_level { LOG_SILENT, LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

/* The only mutable global of the program: set once by the command line (-q, -v). LOG_SILENT leaves out warnings too: for those ranks whose words rank 0 says already. */
extern enum log_level log_level;

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* shown unless -q */
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* shown with -v */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* "warning: ..."; shown unless LOG_SILENT */

/* A progress line: on a terminal it replaces the one before it, in a pipe it is a plain line. */
void log_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Leaves the last progress line standing. */
void log_progress_end(void);

#endif
