#include "kernels/base/nearest.h"

#include <string.h>

enum { WORD_MAX = 64 };

static int fold(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A' + 'a';
    return c == '-' ? '_' : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t name_distance(const char *a, const char *b)
{
    size_t na = strnlen(a, WORD_MAX), nb = strnlen(b, WORD_MAX);
    size_t rows[3][WORD_MAX + 1]; /* of the table over prefixes: this row and the two before it, in turn */

    for (size_t j = 0; j <= nb; j++) rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t same = fold(a[i - 1]) == fold(b[j - 1]);

            row[j] = least(least(up[j], row[j - 1]) + 1, up[j - 1] + !same);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1])) row[j] = least(row[j], up2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

static int begins(const char *word, const char *with)
{
    for (; *with; word++, with++)
        if (fold(*word) != fold(*with)) return 0;
    return 1;
}

const char *nearest_name(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t length = strlen(word), best_distance = 0;

    for (size_t i = 0; i < n; i++) {
        size_t longer = strlen(names[i]) > length ? strlen(names[i]) : length;
        size_t distance = name_distance(word, names[i]);

        /* A beginning of four letters is as good as two typing errors: "lora_target" for lora_target_modules. */
        if (least(length, strlen(names[i])) >= 4 && (begins(word, names[i]) || begins(names[i], word))) distance = least(distance, 2);
        if (distance > (longer < 6 ? 2 : longer / 3)) continue;
        if (best && distance >= best_distance) continue;
        best = names[i];
        best_distance = distance;
    }
    return best;
}
