/* What pre-tokenizers ask of a code point. */
#ifndef PAWL_TEXT_UNICODE_H
#define PAWL_TEXT_UNICODE_H

#include "kernels/base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_class {
    UC_LETTER = 1, /* \p{L} */
    UC_NUMBER = 2, /* \p{N} */
    UC_SPACE = 4,  /* White_Space */
    UC_MARK = 8,   /* \p{M} */
    UC_PUNCT = 16, /* \p{P} */
    UC_SYMBOL = 32, /* \p{S} */
    UC_NEWLINE = 64, /* \r or \n */
    UC_UPPER = 128, UC_LOWER = 256,
    UC_WORD = 512, /* \w: letters, marks, numbers, connectors */
    UC_DELIMITER = 1024, /* what the pre-tokenizer Punctuation cuts: ASCII's punctuation and symbols, and \p{P} of Unicode 8 */
};

extern const uint16_t unicode_ascii[128];
unsigned unicode_class_of(uint32_t cp); /* any code point */
/* A mark or punctuation that came after Unicode 8, whose tables the tokenizers library has for StripAccents and Punctuation. */
bool unicode_is_recent(uint32_t cp);

/* The class of the character at s[at], which is valid UTF-8 with at < len, and its length in bytes. */
static inline unsigned unicode_class_at(const char *s, size_t len, size_t at, int *n)
{
    uint32_t cp = 0;

    if ((unsigned char)s[at] < 0x80) {
        *n = 1;
        return unicode_ascii[(unsigned char)s[at]];
    }
    *n = utf8_decode(s + at, len - at, &cp);
    if (*n == 0) *n = 1; /* not reached: texts are checked at the door */
    return unicode_class_of(cp);
}

#endif
