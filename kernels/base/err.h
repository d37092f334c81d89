/* Status codes, the error record, and the mapping to exit codes.
 *
 * A fallible function returns enum pawl_status and takes a caller-owned struct err as its last argument; on failure err->text is ONE line (control characters become spaces):
 * what, where (file, key, line, tensor), expected, found, what to do. On success err is untouched. */
#ifndef PAWL_BASE_ERR_H
#define PAWL_BASE_ERR_H

#include <stdarg.h>

enum pawl_status {
    PAWL_OK = 0,
    PAWL_EIO,      /* the system refused: open, read, write, fsync */
    PAWL_EFORMAT,  /* a file is cut, damaged or of a kind that is not read */
    PAWL_EINVAL,   /* a configuration, a data set or a combination of them makes no sense */
    PAWL_EUSAGE,   /* the command line */
    PAWL_ENOMEM,   /* the size table does not fit */
    PAWL_ENUMERIC, /* NaN or Inf in a loss or a gradient */
    PAWL_ELOCKED,  /* another process trains here */
    PAWL_ESTOPPED, /* stopped early, all durable: start again */
};

struct err {
    enum pawl_status status;
    char text[2048];
};

/* Fills *err and returns st, so that a failure reads `return err_set(err, PAWL_EIO, ...)`. err may be NULL. */
enum pawl_status err_set(struct err *err, enum pawl_status st, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
enum pawl_status err_vset(struct err *err, enum pawl_status st, const char *fmt, va_list ap);

/* As err_set, with ": " and strerror(errno) behind the text. */
enum pawl_status err_sys(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "PREFIX: " before the text of a failure that comes from below; returns err->status. */
enum pawl_status err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* 0 done, 1 failed, 2 misuse, 3 locked, 75 stopped early. */
int err_exit_code(enum pawl_status st);

#endif
