/* The files of a data set: what a path in a configuration stands for, in a fixed order. */
#ifndef PAWL_DATA_FILES_H
#define PAWL_DATA_FILES_H

#include "kernels/base/err.h"

#include <stddef.h>

struct dataset_config;

struct files {
    char **path;
    size_t n;
};

/* A file stands for itself. A directory (or hub snapshot) stands for its .jsonl and .json files and their .gz, sorted by path: those of data_files where given;
 * else below NAME where such a directory exists, and those whose path names the split ("train" where none is given; all where no path names one).
 * What is left out is said on stderr. Formats that are not read (Parquet, Arrow, CSV, ...) are refused with the command that converts them. */
enum pawl_status files_list(struct files *out, const struct dataset_config *part, struct err *err);
void files_free(struct files *f); /* and zeroes it */

/* PAWL_EFORMAT where the first bytes or the name belong to a format that is not read. */
enum pawl_status files_check_format(const char *path, const unsigned char *head, size_t len, struct err *err);

#endif
