/* "Did you mean ...?" for keys, options, commands and names of tensors. */
#ifndef PAWL_BASE_NEAREST_H
#define PAWL_BASE_NEAREST_H

#include <stddef.h>

/* Edit distance with swaps of neighbours (Damerau 1964, optimal string alignment), letters compared without case, '-' equal to '_'.
 * Only the first 64 bytes of either word count. */
size_t name_distance(const char *a, const char *b);

/* The nearest of names[0..n) to word, NULL where none is near enough to be meant: at most a third of the word's length wrong, or one name being the beginning of the other.
 * The first of several equally near ones. */
const char *nearest_name(const char *word, const char *const *names, size_t n);

#endif
