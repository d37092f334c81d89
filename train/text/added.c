#include "train/text/added.h"

#include "kernels/base/mem.h"
#include "train/text/unicode.h"

#include <stdlib.h>

void added_add(struct added *a, const struct added_token *token, const char *key, size_t key_len)
{
    if (key == NULL) {
        key = token->text;
        key_len = token->len;
    }
    if (key_len == 0) return;
    a->tokens = xreallocarray(a->tokens, a->n + 1, sizeof *a->tokens);
    a->tokens[a->n] = *token;
    a->tokens[a->n].text = xstrndup(token->text, token->len);
    trie_add(token->normalized ? &a->normalized : &a->raw, key, key_len, (int32_t)a->n++);
}

void added_free(struct added *a)
{
    for (size_t i = 0; i < a->n; i++) free(a->tokens[i].text);
    free(a->tokens);
    trie_free(&a->raw);
    trie_free(&a->normalized);
    *a = (struct added){0};
}

/* Where the last character before `end` begins. */
static size_t before(const char *text, size_t end)
{
    do end--;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80);
    return end;
}

static bool stands_alone(const char *text, size_t len, size_t begin, size_t end)
{
    int n;

    if (begin > 0 && unicode_class_at(text, len, before(text, begin), &n) & UC_WORD) return false;
    return end == len || !(unicode_class_at(text, len, end, &n) & UC_WORD);
}

bool added_next(const struct added *a, const struct trie *trie, bool special, const char *text, size_t len, size_t from, size_t *at,
                struct added_match *out)
{
    for (size_t i = *at; i < len;) {
        size_t n = 0;
        int k;
        if (trie->first[(unsigned char)text[i]] == 0) {
            i++;
            continue;
        }
        int32_t index = trie_longest(trie, text + i, len - i, &n);
        if (index < 0) {
            i++;
            continue;
        }
        const struct added_token *t = &a->tokens[index];
        size_t begin = i, end = i + n;
        i = end;
        if ((t->special && !special) || (t->single_word && !stands_alone(text, len, begin, end))) continue;
        while (t->lstrip && begin > from && unicode_class_at(text, len, before(text, begin), &k) & UC_SPACE) begin = before(text, begin);
        while (t->rstrip && end < len && unicode_class_at(text, len, end, &k) & UC_SPACE) {
            if (t->ascii_strip && (unsigned char)text[end] >= 0x80) break;
            end += (size_t)k;
        }
        *at = i;
        *out = (struct added_match){begin, end, t};
        return true;
    }
    *at = len;
    return false;
}
