/* The token cache: chunks of one data set in a file, mapped.
 *
 * A file is named by a key: what is read and how, not the content. It counts as complete while the source files are the very ones that it was made of (inode,
 * size and times); else it gives back whatever chunk has the source text asked for, and the rest is made anew. Of what another build of the program made
 * nothing is taken. Every chunk has its hash: a damaged one is as good as missing.
 *
 * KEY.part --(chunk after chunk)--> complete --rename--> KEY.tokens, which is never written again: other processes may have it mapped.
 * A build that dies leaves KEY.part, which the next one takes its chunks from. One process at a time builds (KEY.lock); the others wait, then map. */
#ifndef PAWL_DATA_CACHE_H
#define PAWL_DATA_CACHE_H

#include "kernels/base/err.h"
#include "train/data/chunk.h"
#include "train/data/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;

/* Makes the directory where needed and waits for the lock. */
enum pawl_status cache_open(struct cache **out, const char *dir, uint64_t key, const struct files *files, struct err *err);
/* What another machine's cache file holds, for a run whose source files are not here: all of its chunks count, whatever they were made of. *n_files is the number of source files.
 * PAWL_EFORMAT unless every chunk verifies. */
enum pawl_status cache_open_kept(struct cache **out, const char *path, size_t *n_files, struct err *err);
const char *cache_path(const struct cache *c);
/* Unmaps: chunks that came from here end with it. NULL is allowed. */
void cache_close(struct cache *c);

/* All chunks in order, once complete (as found, or after cache_finish); *n is 0 and NULL comes back while it is not. The lock is given back. */
const struct chunk *cache_chunks(struct cache *c, size_t *n);

/* Building: a chunk made of this source text, or NULL; */
const struct chunk *cache_find(const struct cache *c, uint64_t source);
/* the next chunk, found or new; */
enum pawl_status cache_add(struct cache *c, const struct chunk *chunk, struct err *err);
/* all were added. Where writing fails, what was written is removed when the cache is closed; else it waits for the next build. */
enum pawl_status cache_finish(struct cache *c, struct err *err);

#endif
