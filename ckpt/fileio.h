/* Files: mapped reading, durable writing, checksums.
 *
 * Whatever writes goes through a table of system calls, so that tests can make any single one of them fail, tear or vanish; fsys_real is the system's own.
 * A call that is interrupted is repeated, a short write is continued; both a bounded number of times.
 * Durable means: the data and the entry of the directory survive a power cut from the moment the function returns PAWL_OK. */
#ifndef PAWL_CKPT_FILEIO_H
#define PAWL_CKPT_FILEIO_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Each member behaves as the system call of its name. */
struct fsys {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*read)(int fd, void *data, size_t len);
    ssize_t (*write)(int fd, const void *data, size_t len);
    ssize_t (*pread)(int fd, void *data, size_t len, off_t offset);
    ssize_t (*pwrite)(int fd, const void *data, size_t len, off_t offset);
    int (*fsync)(int fd);
    int (*fdatasync)(int fd);
    int (*ftruncate)(int fd, off_t size);
    int (*fallocate)(int fd, int mode, off_t offset, off_t len);
    int (*fadvise)(int fd, off_t offset, off_t len, int advice); /* posix_fadvise: returns the error's number */
    int (*flock)(int fd, int operation);
    int (*rename)(const char *from, const char *to);
    int (*symlink)(const char *target, const char *path);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rmdir)(const char *path);
};
extern const struct fsys fsys_real;

/* --- reading */

/* A whole file, mapped read-only. The pages stay valid until map_close, whatever happens to the name; a file that another process cuts short
 * while it is mapped ends the program, which is why nothing that pawl reads is ever written in place. */
struct map {
    const uint8_t *data; /* NULL where size is 0 */
    size_t size;
};
enum pawl_status map_open(struct map *m, const char *path, struct err *err);
void map_close(struct map *m); /* and zeroes it; a zeroed map is allowed */

/* Adds the whole file to out; PAWL_EFORMAT where it is longer than limit. */
enum pawl_status file_read_all(struct buf *out, const char *path, size_t limit, struct err *err);

/* Size and zlib CRC32 of bytes written or read. */
struct file_sum {
    uint64_t bytes;
    uint32_t crc;
};
void file_sum_add(struct file_sum *sum, const void *data, size_t len);

/* sum becomes that of its bytes with next's behind them. */
void file_sum_join(struct file_sum *sum, struct file_sum next);

/* Reads the file through. cold: its pages are dropped from the system's cache first, so that what is summed is what the disk holds. */
enum pawl_status file_sum_read(struct file_sum *out, const struct fsys *sys, const char *path, bool cold, struct err *err);

/* --- writing: a new file, front to back. The first failure sticks: later writes do nothing, and file_close reports it. */
struct file {
    const struct fsys *sys;
    char *path;
    int fd;
    struct file_sum sum; /* of all that was written */
    struct err failed;   /* failed.status is PAWL_OK while all is well */
};
/* The file must not exist. */
enum pawl_status file_create(struct file *f, const struct fsys *sys, const char *path, struct err *err);
void file_write(struct file *f, const void *data, size_t len);
/* fsync and close. On failure the file is removed: it is never synced again, since the system may have forgotten what it failed to write. The entry of the
 * directory is not synced yet. */
enum pawl_status file_close(struct file *f, struct file_sum *sum, struct err *err);
void file_abandon(struct file *f); /* closes and removes; a zeroed or closed file is allowed */

/* --- reading and writing at a place in an open file. EINTR and short counts are dealt with. */

/* Exactly len bytes: PAWL_EFORMAT where the file ends before. */
enum pawl_status fd_pread(const struct fsys *sys, int fd, void *data, size_t len, off_t offset, const char *path, struct err *err);
enum pawl_status fd_write(const struct fsys *sys, int fd, const void *data, size_t len, const char *path, struct err *err);
enum pawl_status fd_pwrite(const struct fsys *sys, int fd, const void *data, size_t len, off_t offset, const char *path, struct err *err);
/* data_only: fdatasync. A failure must not be answered by another sync of the same file. */
enum pawl_status fd_sync(const struct fsys *sys, int fd, bool data_only, const char *path, struct err *err);
enum pawl_status fd_cut(const struct fsys *sys, int fd, off_t size, const char *path, struct err *err);
/* Reserves the room of the first bytes of the file; a file system that can't do so is no failure. */
enum pawl_status fd_reserve(const struct fsys *sys, int fd, size_t bytes, const char *path, struct err *err);
enum pawl_status fd_open(int *fd, const struct fsys *sys, const char *path, int flags, struct err *err); /* O_CLOEXEC, mode 0666 */

/* --- directories and names */

/* Names that start so are being made: the start of the next process removes them (store.h). */
#define TMP_PREFIX "tmp-pawl-"
/* DIR/tmp-pawl-STEM-RANDOM, to be freed. */
char *file_tmp_name(const char *dir, const char *stem);
char *file_dirname(const char *path); /* to be freed; "." where path has no slash */
bool file_exists(const char *path);   /* symbolic links are not followed */

/* Makes the directory and the missing ones above it, durable. */
enum pawl_status dir_make(const struct fsys *sys, const char *path, struct err *err);
enum pawl_status dir_sync(const struct fsys *sys, const char *path, struct err *err);
/* Sorted names without . and .., to be freed one by one and as a whole. */
enum pawl_status dir_list(char ***names, size_t *n, const char *path, struct err *err);
void dir_list_free(char **names, size_t n);

/* The file or link holds either the old or the new content at any time, and durably the new one on return. */
enum pawl_status file_replace(const struct fsys *sys, const char *path, const void *data, size_t len, struct err *err);
enum pawl_status link_replace(const struct fsys *sys, const char *path, const char *target, struct err *err);
/* rename, and nothing more. */
enum pawl_status file_move(const struct fsys *sys, const char *from, const char *to, struct err *err);
/* rename and fsync of the directory above; both names are in one directory. */
enum pawl_status file_rename(const struct fsys *sys, const char *from, const char *to, struct err *err);
/* Removes a file, a link (not what it points to) or a directory with all below it; something that is gone already is no failure. Goes on after a failure
 * and reports the first. */
enum pawl_status file_remove_tree(const struct fsys *sys, const char *path, struct err *err);

#endif
