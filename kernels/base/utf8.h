/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef PAWL_BASE_UTF8_H
#define PAWL_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the code point at s (1..4), and the code point in *cp; 0 if the bytes there are not UTF-8 or cut off (or len is 0). */
int utf8_decode(const char *s, size_t len, uint32_t *cp);

/* Writes cp (a valid code point) to out and returns the number of bytes, 1..4. */
int utf8_encode(uint32_t cp, char out[4]);

/* Bytes from the start of s that are valid: len if all of them are, else the offset of the first bad sequence. */
size_t utf8_valid(const char *s, size_t len);

/* Bytes at the end of s that begin a code point but do not finish it (0..3): what a stream holds back. */
size_t utf8_incomplete_tail(const char *s, size_t len);

#endif
