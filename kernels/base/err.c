#include "kernels/base/err.h"

#include "kernels/base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum pawl_status err_vset(struct err *err, enum pawl_status st, const char *fmt, va_list ap)
{
    if (err) {
        err->status = st;
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        /* What was found in a file may hold anything: the text stays one line, and says nothing to a terminal. */
        for (char *c = err->text; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f) *c = ' ';
        /* Nor does it end in half a character where a long name was cut: what is JSON later must be UTF-8. */
        size_t len = strlen(err->text);
        for (size_t at = 0; (at += utf8_valid(err->text + at, len - at)) < len;) err->text[at] = '?';
    }
    return st;
}

enum pawl_status err_set(struct err *err, enum pawl_status st, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_vset(err, st, fmt, ap);
    va_end(ap);
    return st;
}

enum pawl_status err_sys(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    char what[sizeof err->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(err, PAWL_EIO, "%.1900s: %s", what, strerror(saved));
}

enum pawl_status err_prefix(struct err *err, const char *fmt, ...)
{
    char prefix[512], text[sizeof err->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    memcpy(text, err->text, sizeof text);
    return err_set(err, err->status, "%s: %.1500s", prefix, text);
}

int err_exit_code(enum pawl_status st)
{
    switch (st) {
    case PAWL_OK: return 0;
    case PAWL_EUSAGE: return 2;
    case PAWL_ELOCKED: return 3;
    case PAWL_ESTOPPED: return 75;
    default: return 1;
    }
}
