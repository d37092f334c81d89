#include "kernels/base/utf8.h"

int utf8_decode(const char *s, size_t len, uint32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;

    if (len == 0) return 0;
    if (u[0] < 0x80) {
        *cp = u[0];
        return 1;
    }
    int n = u[0] >= 0xF0 ? 4 : u[0] >= 0xE0 ? 3 : 2;
    if (u[0] < 0xC2 || u[0] > 0xF4 || len < (size_t)n) return 0;
    uint32_t c = u[0] & (0xFF >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((u[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (u[i] & 0x3F);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
    *cp = c;
    return n;
}

int utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)(lead[n] | cp);
    return n;
}

size_t utf8_valid(const char *s, size_t len)
{
    size_t i = 0;
    uint32_t cp;

    while (i < len) {
        if ((unsigned char)s[i] < 0x80) {
            i++;
            continue;
        }
        int n = utf8_decode(s + i, len - i, &cp);
        if (n == 0) break;
        i += (size_t)n;
    }
    return i;
}

size_t utf8_incomplete_tail(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;

    for (size_t k = 1; k <= 3 && k <= len; k++) {
        unsigned char c = u[len - k];
        if ((c & 0xC0) == 0x80) continue;
        size_t n = c >= 0xF0 && c <= 0xF4 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 1;
        return c <= 0xF4 && n > k ? k : 0;
    }
    return 0;
}
