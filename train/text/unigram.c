#include "train/text/unigram.h"

#include "kernels/base/mem.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>

void unigram_free(struct unigram *u)
{
    trie_free(&u->trie);
    free(u->scores);
    u->scores = NULL;
}

void unigram_path_free(struct unigram_path *p)
{
    free(p->nodes);
    free(p->ids);
    free(p->at);
    *p = (struct unigram_path){0};
}

#define UNREACHED INT32_MIN

/* A better path to this node; among equals the first one stays. */
static void offer(struct unigram_node *node, double score, size_t from, int32_t id)
{
    if (node->id != UNREACHED && score <= node->score) return;
    *node = (struct unigram_node){.score = score, .from = (uint32_t)from, .id = id};
}

/* Tokens of an unknown stretch, in reverse. */
static void add_unknown(const struct unigram *u, const char *word, size_t begin, size_t end, struct unigram_path *p)
{
    bool all = u->byte_fallback;

    /* "<unk>" written out is that token, not an unknown text to be spelled in bytes */
    size_t known = 0;
    if (all && trie_longest(&u->trie, word + begin, end - begin, &known) == u->unk && known == end - begin) all = false;
    for (size_t i = begin; i < end && all; i++) all = u->bytes[(unsigned char)word[i]] >= 0;
    if (!all) {
        if (u->unk < 0) return;
        p->ids[p->n] = u->unk;
        p->at[p->n++] = (uint32_t)begin;
        return;
    }
    for (size_t i = end; i-- > begin;) {
        p->ids[p->n] = u->bytes[(unsigned char)word[i]];
        p->at[p->n++] = (uint32_t)i;
    }
}

void unigram_word(const struct unigram *u, const char *word, size_t len, struct unigram_path *p)
{
    if (len + 1 > p->cap) {
        p->cap = len + 1 > 2 * p->cap ? len + 1 : 2 * p->cap;
        p->nodes = xreallocarray(p->nodes, p->cap, sizeof *p->nodes);
        p->ids = xreallocarray(p->ids, p->cap, sizeof *p->ids);
        p->at = xreallocarray(p->at, p->cap, sizeof *p->at);
    }
    for (size_t i = 0; i <= len; i++) p->nodes[i] = (struct unigram_node){.id = UNREACHED};
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        int k = utf8_decode(word + i, len - i, &cp);
        double here = p->nodes[i].score;
        bool covered = false; /* a token is exactly this character */

        n = k > 0 ? (size_t)k : 1;
        uint32_t node = TRIE_ROOT;
        for (size_t end = i; end < len;) {
            node = trie_step(&u->trie, node, (unsigned char)word[end++]);
            if (node == TRIE_NONE) break;
            int32_t id = u->trie.values[node];
            if (id < 0) continue;
            offer(&p->nodes[end], u->scores[id] + here, i, id);
            covered |= end - i == n;
        }
        if (!covered) offer(&p->nodes[i + n], u->unk_score + here, i, u->unk);
    }

    p->n = 0;
    for (size_t end = len, begin; end > 0; end = begin) {
        int32_t id = p->nodes[end].id;
        begin = p->nodes[end].from;
        if (id == u->unk) {
            while (begin > 0 && p->nodes[begin].id == u->unk) begin = p->nodes[begin].from; /* neighbours are one unknown */
            add_unknown(u, word, begin, end, p);
        } else {
            p->ids[p->n] = id;
            p->at[p->n++] = (uint32_t)begin;
        }
    }
    for (size_t i = 0; i < p->n / 2; i++) {
        int32_t id = p->ids[i];
        uint32_t at = p->at[i];
        p->ids[i] = p->ids[p->n - 1 - i];
        p->at[i] = p->at[p->n - 1 - i];
        p->ids[p->n - 1 - i] = id;
        p->at[p->n - 1 - i] = at;
    }
}
