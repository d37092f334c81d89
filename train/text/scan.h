/* Hand-written scanners for the word patterns that most models use: the same words as the regular expressions, many times faster. */
#ifndef PAWL_TEXT_SCAN_H
#define PAWL_TEXT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* Two families. GPT-2's:
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * and cl100k's, with W = \p{L} or \p{L}\p{M} and n digits:
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[W]+|\p{N}{1,n}| ?[^\sW\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * Every character belongs to exactly one word. */
struct scanner {
    bool cl100k;
    unsigned letters; /* unicode classes of W */
    int digits;       /* n; 0: any number */
    bool long_s;      /* U+017F counts as an s in contractions, as in case-insensitive Oniguruma; llama.cpp does without */
};

/* The scanner of a regular expression as it stands in tokenizer.json; false: none is known for it. */
bool scanner_of_pattern(struct scanner *s, const char *pattern, size_t len);

/* The end of the word that begins at `at` (at < len, text valid UTF-8). */
size_t scanner_next(const struct scanner *s, const char *text, size_t len, size_t at);

#endif
