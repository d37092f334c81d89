#include "kernels/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum log_level log_level = LOG_NORMAL;

/* A progress line stands without its newline on a terminal; whatever is said next must end it. */
static bool progress_open;

static void say(const char *prefix, const char *fmt, va_list ap)
{
    char line[4096];

    vsnprintf(line, sizeof line, fmt, ap);
    fprintf(stderr, "%s%s%s\n", progress_open ? "\n" : "", prefix, line);
    progress_open = false;
}

void log_info(const char *fmt, ...)
{
    va_list ap;

    if (log_level < LOG_NORMAL) return;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void log_debug(const char *fmt, ...)
{
    va_list ap;

    if (log_level < LOG_VERBOSE) return;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void log_warn(const char *fmt, ...)
{
    va_list ap;

    if (log_level < LOG_QUIET) return;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

void log_progress(const char *fmt, ...)
{
    char line[4096];
    va_list ap;

    if (log_level < LOG_NORMAL) return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s", line);
        progress_open = true;
    } else {
        fprintf(stderr, "%s\n", line);
    }
}

void log_progress_end(void)
{
    if (progress_open) fputc('\n', stderr);
    progress_open = false;
}
