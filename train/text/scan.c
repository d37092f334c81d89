#include "train/text/scan.h"

#include "train/text/unicode.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PLAIN " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"

static const struct {
    const char *pattern;
    struct scanner scanner;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", {false, UC_LETTER, 0, false}},
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" PLAIN TAIL, {true, UC_LETTER, 3, true}},
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" PLAIN TAIL, {true, UC_LETTER, 1, true}},
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+|" PLAIN TAIL, {true, UC_LETTER, 0, true}},
    {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL, {true, UC_LETTER | UC_MARK, 1, true}},
};

bool scanner_of_pattern(struct scanner *s, const char *pattern, size_t len)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].pattern) == len && memcmp(known[i].pattern, pattern, len) == 0) {
            *s = known[i].scanner;
            return true;
        }
    return false;
}

/* Bytes of 's 't 're 've 'm 'll 'd at s, which begins with an apostrophe; 0: none of them. */
static size_t contraction(const struct scanner *s, const char *p, size_t n)
{
    if (n < 2) return 0;
    char fold = s->cl100k ? 0x20 : 0, a = p[1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (n >= 3) {
        char b = p[2] | fold;
        if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
        if (s->long_s && (unsigned char)p[1] == 0xC5 && (unsigned char)p[2] == 0xBF) return 3;
    }
    return 0;
}

/* The end of the run of characters from `at` whose class has a bit of `want` and none of `avoid`; avoid alone decides where want is 0. */
static size_t run(const char *s, size_t len, size_t at, unsigned want, unsigned avoid)
{
    while (at < len) {
        int n;
        unsigned c = unicode_class_at(s, len, at, &n);
        if ((want != 0 && !(c & want)) || (c & avoid)) break;
        at += (size_t)n;
    }
    return at;
}

/* \s+(?!\S)|\s+ from `at`, and for cl100k \s*[\r\n]+ before: a run of spaces leaves its last one to the word behind it. */
static size_t spaces(const struct scanner *s, const char *text, size_t len, size_t at)
{
    size_t end = at, last = at, newline = at;

    while (end < len) {
        int n;
        unsigned c = unicode_class_at(text, len, end, &n);
        if (!(c & UC_SPACE)) break;
        last = end;
        end += (size_t)n;
        if (c & UC_NEWLINE) newline = end;
    }
    if (s->cl100k && newline > at) return newline;
    return end == len || last == at ? end : last;
}

size_t scanner_next(const struct scanner *s, const char *text, size_t len, size_t at)
{
    int n, m = 0;
    unsigned c = unicode_class_at(text, len, at, &n), d = 0;
    size_t behind = at + (size_t)n;

    if (text[at] == '\'' && (m = (int)contraction(s, text + at, len - at)) > 0) return at + (size_t)m;
    if (c & s->letters) return run(text, len, behind, s->letters, 0);
    if (behind < len) d = unicode_class_at(text, len, behind, &m);
    bool space = text[at] == ' ';
    if (d & s->letters && (s->cl100k ? !(c & (UC_NEWLINE | UC_NUMBER | UC_LETTER)) : space)) return run(text, len, behind, s->letters, 0);

    unsigned other = UC_SPACE | UC_NUMBER | s->letters;
    if (s->cl100k) {
        if (c & UC_NUMBER) {
            for (int k = 1; (s->digits == 0 || k < s->digits) && behind < len; k++) {
                c = unicode_class_at(text, len, behind, &n);
                if (!(c & UC_NUMBER)) break;
                behind += (size_t)n;
            }
            return behind;
        }
        if (!(c & other) || (space && behind < len && !(d & other))) {
            size_t end = run(text, len, behind, 0, other);
            while (end < len && (text[end] == '\r' || text[end] == '\n')) end++;
            return end;
        }
    } else {
        if (c & UC_NUMBER || (space && d & UC_NUMBER)) return run(text, len, behind, UC_NUMBER, 0);
        if (!(c & other) || (space && behind < len && !(d & other))) return run(text, len, behind, 0, other);
    }
    return spaces(s, text, len, at);
}
