#include "train/text/tokenizer.h"

#include "ckpt/gguf.h"
#include "train/text/tokenizer_parts.h"

#include "kernels/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what constructors share ---- */

struct tokenizer *tokenizer_new(void)
{
    struct tokenizer *t = xcalloc(1, sizeof *t);

    for (int i = 0; i < 4; i++) t->special[i] = -1;
    t->merges.unk = -1;
    t->unigram.unk = -1;
    memset(t->merges.bytes, 0xFF, sizeof t->merges.bytes);
    memset(t->unigram.bytes, 0xFF, sizeof t->unigram.bytes);
    return t;
}

void tokenizer_close(struct tokenizer *t)
{
    if (t == NULL) return;
    added_free(&t->added);
    normalizer_free(&t->normalizer);
    pretok_free(&t->pretok);
    merge_rules_free(&t->merges);
    unigram_free(&t->unigram);
    decoder_free(&t->decoder);
    vocab_free(&t->names);
    vocab_free(&t->added_names);
    vocab_free(&t->bytes);
    vocab_free(&t->shown);
    free(t->mark_before);
    free(t->prefix);
    free(t->suffix);
    free(t->is_special);
    free(t);
}

void tokenizer_mark_special(struct tokenizer *t, int32_t id)
{
    size_t n = (size_t)id + 1;

    if (n > t->n_special) {
        t->is_special = xrealloc(t->is_special, n);
        memset(t->is_special + t->n_special, 0, n - t->n_special);
        t->n_special = n;
    }
    t->is_special[id] = 1;
}

void tokenizer_add_prefix(struct tokenizer *t, int32_t id)
{
    t->prefix = xreallocarray(t->prefix, t->n_prefix + 1, sizeof *t->prefix);
    t->prefix[t->n_prefix++] = id;
}

void tokenizer_add_suffix(struct tokenizer *t, int32_t id)
{
    t->suffix = xreallocarray(t->suffix, t->n_suffix + 1, sizeof *t->suffix);
    t->suffix[t->n_suffix++] = id;
}

enum pawl_status tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_len, const char *right, size_t right_len, uint32_t rank,
                                     struct err *err)
{
    char small[256], *both = left_len + right_len <= sizeof small ? small : xmalloc(left_len + right_len);

    memcpy(both, left, left_len);
    memcpy(both + left_len, right, right_len);
    int32_t l = vocab_find(&t->names, left, left_len), r = vocab_find(&t->names, right, right_len), id = vocab_find(&t->names, both, left_len + right_len);
    if (both != small) free(both);
    if (l < 0 || r < 0 || id < 0)
        return err_set(err, PAWL_EFORMAT, "merge %u, \"%.*s %.*s\": %s is no token of the vocabulary", rank, (int)(left_len & 0xFF), left, (int)(right_len & 0xFF), right,
                       l < 0 ? "the left part" : r < 0 ? "the right part" : "what it makes");
    merge_rules_add(&t->merges, l, r, rank, id);
    return PAWL_OK;
}

void tokenizer_byte_tokens(const struct tokenizer *t, int32_t bytes[256])
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        bytes[i] = vocab_find(&t->names, name, 6);
    }
}

/* Collects the characters that stand before a space mark inside some token. */
static void find_cuts(struct tokenizer *t)
{
    size_t cap = 0;

    t->cut_marks = vocab_find(&t->names, TOKENIZER_MARK, 3) >= 0;
    for (size_t id = 0; t->cut_marks && id < t->names.n; id++) {
        const char *s = t->names.text[id], *hit;
        if (s == NULL) continue;
        for (const char *p = s; (hit = memmem(p, t->names.len[id] - (size_t)(p - s), TOKENIZER_MARK, 3)) != NULL; p = hit + 3) {
            uint32_t cp = 0;
            const char *c = hit;
            if (hit == s) continue;
            do c--;
            while (c > s && ((unsigned char)*c & 0xC0) == 0x80);
            if (utf8_decode(c, (size_t)(hit - c), &cp) == 0) continue;
            bool known = false;
            for (size_t i = 0; i < t->n_mark_before && !known; i++) known = t->mark_before[i] == cp;
            if (known) continue;
            if (t->n_mark_before == 64) { /* a vocabulary of phrases: words are not cut */
                t->cut_marks = false;
                return;
            }
            if (t->n_mark_before == cap) t->mark_before = xreallocarray(t->mark_before, cap = cap ? 2 * cap : 8, sizeof *t->mark_before);
            t->mark_before[t->n_mark_before++] = cp;
        }
    }
}

void tokenizer_finish_bpe(struct tokenizer *t)
{
    struct merge_rules *m = &t->merges;

    m->vocab = &t->names;
    m->byte_level = t->byte_level;
    if (t->byte_level) {
        struct buf raw = {0};
        for (size_t id = 0; id < t->names.n; id++) {
            raw.len = 0;
            if (t->names.text[id] == NULL || !decode_byte_level(t->names.text[id], t->names.len[id], &raw) || raw.len == 0) continue;
            vocab_add(&t->bytes, (int32_t)id, raw.data, raw.len);
            if (raw.len == 1) m->bytes[(unsigned char)raw.data[0]] = (int32_t)id;
        }
        buf_free(&raw);
        m->vocab = &t->bytes;
    } else {
        for (int i = 0; i < 128; i++) m->ascii[i] = vocab_find(&t->names, (char[]){(char)i}, 1);
        if (!m->whole_words) find_cuts(t);
    }
    m->itself = xcalloc(t->names.n, 1);
}

/* ---- encoding ---- */

/* One text on its way, and the scratch memory of all steps. */
struct encoder {
    const struct tokenizer *t;
    unsigned flags;
    struct piece gap, inner; /* inner: what lies between tokens that were found in the normalized gap */
    struct merge merge;
    struct unigram_path path;
    struct tokens *out;
    struct err *err;
};

/* The place in the text of byte i of the piece: inner's text is a part of gap's, from inner_base on; gap's lies at base. */
struct origin {
    const struct piece *piece, *outer;
    size_t outer_base, base;
};

static size_t place(const struct origin *o, size_t i)
{
    i = piece_origin(o->piece, i);
    if (o->outer != NULL) i = piece_origin(o->outer, o->outer_base + i);
    return o->base + i;
}

static void merged_word(struct encoder *e, const struct origin *o, size_t begin, const char *word, size_t len)
{
    const struct merge_rules *r = &e->t->merges;
    int32_t id = vocab_find(r->vocab, word, len);
    bool whole = r->whole_words || (r->whole_newlines && strspn(word, "\n") >= len);

    if (id >= 0) {
        uint8_t itself = atomic_load_explicit(&r->itself[id], memory_order_relaxed);
        if (whole || itself == 1) {
            tokens_add(e->out, id, place(o, begin));
            return;
        }
        merge_word(r, word, len, &e->merge);
        if (itself == 0) atomic_store_explicit(&r->itself[id], e->merge.n == 1 && e->merge.ids[0] == id ? 1 : 2, memory_order_relaxed);
    } else {
        merge_word(r, word, len, &e->merge);
    }
    const struct merge *m = &e->merge;
    for (size_t i = 0; i < m->n; i++) {
        if (m->ids[i] >= 0) {
            tokens_add(e->out, m->ids[i], place(o, begin + m->at[i]));
            continue;
        }
        for (size_t k = m->at[i]; k < m->at[i + 1]; k++) { /* a character without a token, in bytes */
            int32_t byte = r->bytes[(unsigned char)word[k]];
            if (byte >= 0) tokens_add(e->out, byte, place(o, begin + k));
            else if (r->unk >= 0 && k == m->at[i]) tokens_add(e->out, r->unk, place(o, begin + k));
        }
    }
}

/* Where the next piece of the word that no token can cross ends: in front of a space mark. */
static size_t next_cut(const struct tokenizer *t, const char *word, size_t len, size_t from)
{
    for (size_t at = from + 1; at < len;) {
        const char *hit = memmem(word + at, len - at, TOKENIZER_MARK, 3);
        if (hit == NULL) return len;
        size_t end = (size_t)(hit - word), c = end;
        uint32_t cp = 0;
        do c--;
        while (c > from && ((unsigned char)word[c] & 0xC0) == 0x80);
        utf8_decode(word + c, end - c, &cp);
        bool joined = false;
        for (size_t i = 0; i < t->n_mark_before && !joined; i++) joined = t->mark_before[i] == cp;
        if (!joined) return end;
        at = end + 3;
    }
    return len;
}

static void model_word(struct encoder *e, const struct origin *o, struct piece_span span)
{
    const char *word = o->piece->text + span.begin;
    size_t len = span.end - span.begin;

    if (e->t->model == TOKENIZER_UNIGRAM) {
        unigram_word(&e->t->unigram, word, len, &e->path);
        for (size_t i = 0; i < e->path.n; i++) tokens_add(e->out, e->path.ids[i], place(o, span.begin + e->path.at[i]));
        return;
    }
    for (size_t at = 0, end; at < len; at = end) {
        end = e->t->cut_marks ? next_cut(e->t, word, len, at) : len;
        merged_word(e, o, span.begin + at, word + at, end - at);
    }
}

static enum pawl_status encode_words(struct encoder *e, struct piece *p, const struct piece *outer, size_t outer_base, size_t base)
{
    struct origin o = {p, outer, outer_base, base};
    size_t first = 0; /* bytes of the piece that come from the first character of the text, or, where a normalizer took that away, from the first one left */
    if (outer == NULL && base == 0) first = piece_origin(p, 0) + 1;
    else while (first < p->len && place(&o, first) == 0) first++;
    enum pawl_status st = pretok_apply(&e->t->pretok, p, first, e->err);

    for (size_t i = 0; st == PAWL_OK && i < p->n_spans; i++) model_word(e, &o, p->spans[i]);
    return st;
}

/* Text without raw added tokens: text[begin..end). */
static enum pawl_status encode_gap(struct encoder *e, const char *text, size_t begin, size_t end)
{
    const struct tokenizer *t = e->t;
    struct piece *p = &e->gap;
    struct added_match m;

    if (begin == end) return PAWL_OK;
    piece_begin(p, text + begin, end - begin);
    enum pawl_status st = normalizer_apply(&t->normalizer, p, e->err);
    if (st != PAWL_OK) return st;
    if (t->added.normalized.nodes == 0) return encode_words(e, p, NULL, 0, begin);

    size_t from = 0, at = 0;
    while (st == PAWL_OK && (from < p->len || at < p->len)) {
        bool found = added_next(&t->added, &t->added.normalized, e->flags & TOKENIZER_PARSE_SPECIAL, p->text, p->len, from, &at, &m);
        size_t stop = found ? m.begin : p->len;
        if (stop > from) {
            piece_begin(&e->inner, p->text + from, stop - from);
            st = encode_words(e, &e->inner, p, from, begin);
        }
        if (!found) break;
        tokens_add(e->out, m.token->id, begin + piece_origin(p, m.begin));
        from = m.end; /* the spaces behind a token may themselves be one, which comes next */
    }
    return st;
}

enum pawl_status tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags, struct tokens *out, struct err *err)
{
    struct encoder e = {.t = t, .flags = flags, .out = out, .err = err};
    struct added_match m;
    size_t from = 0, at = 0, good = utf8_valid(text, len);
    enum pawl_status st = PAWL_OK;

    if (good < len) return err_set(err, PAWL_EINVAL, "the text is not UTF-8 at byte %zu (0x%02X)", good, (unsigned char)text[good]);
    if (len >= INT32_MAX) return err_set(err, PAWL_EINVAL, "a text of %zu bytes: the limit is 2 GiB", len);
    for (size_t i = 0; flags & TOKENIZER_ADD_SPECIAL && i < t->n_prefix; i++) tokens_add(out, t->prefix[i], 0);
    while (st == PAWL_OK && (from < len || at < len)) {
        bool found = added_next(&t->added, &t->added.raw, flags & TOKENIZER_PARSE_SPECIAL, text, len, from, &at, &m);
        st = encode_gap(&e, text, from, found ? (m.begin > from ? m.begin : from) : len);
        if (!found) break;
        if (st == PAWL_OK) tokens_add(out, m.token->id, m.begin);
        from = m.end;
    }
    for (size_t i = 0; st == PAWL_OK && flags & TOKENIZER_ADD_SPECIAL && i < t->n_suffix; i++) tokens_add(out, t->suffix[i], len);
    piece_free(&e.gap);
    piece_free(&e.inner);
    merge_free(&e.merge);
    unigram_path_free(&e.path);
    return st;
}

void tokens_add(struct tokens *list, int32_t id, size_t at)
{
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 64;
        list->ids = xreallocarray(list->ids, list->cap, sizeof *list->ids);
        list->at = xreallocarray(list->at, list->cap, sizeof *list->at);
    }
    list->ids[list->n] = id;
    list->at[list->n++] = at;
}

void tokens_free(struct tokens *list)
{
    free(list->ids);
    free(list->at);
    *list = (struct tokens){0};
}

/* ---- decoding ---- */

/* llama.cpp's clean_spaces: no space before ? ! . , nor around a lone apostrophe, nor before 's 'm 're 've. */
static void clean_spaces(char *s, size_t *len)
{
    size_t n = *len, out = n > 0;

    for (size_t i = 1; i < n; i++) {
        if (s[i - 1] == ' ' && strchr("?!.,", s[i]) != NULL && s[i] != 0) out--;
        s[out++] = s[i];
    }
    n = out;
    out = n > 0;
    for (size_t i = 1; i < n; i++) {
        char c = s[i];
        if (c == '\'' && i + 1 < n && s[i - 1] == ' ' && s[i + 1] == ' ') {
            out--;
            i++;
            s[i] = 0;
        }
        s[out++] = c;
    }
    n = out;
    out = n > 0;
    for (size_t i = 1; i < n; i++) {
        char c = s[i], a = i + 1 < n ? s[i + 1] : 0, b = i + 2 < n ? s[i + 2] : 0;
        if (s[i - 1] == ' ' && c == '\'' && (a == 's' || a == 'm' || ((a == 'r' || a == 'v') && b == 'e'))) out--;
        s[out++] = c;
    }
    *len = out;
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags, struct buf *out)
{
    struct decode_list list = {0};
    size_t before = out->len;

    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *name = tokenizer_name(t, ids[i], &len);
        if (name == NULL || (flags & TOKENIZER_SKIP_SPECIAL && tokenizer_is_special(t, ids[i]))) continue;
        if ((size_t)ids[i] < t->shown.n && t->shown.text[ids[i]] != NULL) {
            name = t->shown.text[ids[i]];
            len = t->shown.len[ids[i]];
        }
        decode_list_add(&list, name, len);
    }
    decoder_apply(&t->decoder, &list, out);
    size_t len = out->len - before;
    if (!(flags & TOKENIZER_CLEAN_SPACES) || !t->clean_spaces || len == 0) return;
    clean_spaces(out->data + before, &len);
    out->len = before + len;
    out->data[out->len] = 0;
}

#define STREAM_WAIT 8 /* tokens after which text that still ends in U+FFFD is taken for what it is; a character needs four at most */

/* Decodes the tokens of the last step of output, which are context, and with the new ones behind them: what the second text has more is new. It waits while
 * it ends in U+FFFD, which may be half a character. */
static void stream_emit(const struct tokenizer *t, struct tokenizer_stream *s, unsigned flags, bool last, struct buf *out)
{
    struct buf old = {0}, all = {0};

    tokenizer_decode(t, s->ids, s->old, flags, &old);
    tokenizer_decode(t, s->ids, s->n, flags, &all);
    bool waits = all.len >= 3 && memcmp(all.data + all.len - 3, "\xef\xbf\xbd", 3) == 0;
    if (!last && waits && s->n - s->old < STREAM_WAIT) goto done;
    if (old.len > 0 && (all.len < old.len || memcmp(all.data, old.data, old.len) != 0)) { /* bytes that are no text took the context with them */
        all.len = old.len = 0;
        tokenizer_decode(t, s->ids + s->old, s->n - s->old, flags, &all);
    }
    if (all.len == old.len && !last) goto done;
    if (all.len > old.len) buf_add(out, all.data + old.len, all.len - old.len);
    memmove(s->ids, s->ids + s->old, (s->n - s->old) * sizeof *s->ids);
    s->n -= s->old;
    s->old = s->n;
done:
    buf_free(&old);
    buf_free(&all);
}

void tokenizer_stream_push(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id, unsigned flags, struct buf *out)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->ids = xreallocarray(s->ids, s->cap, sizeof *s->ids);
    }
    s->ids[s->n++] = id;
    stream_emit(t, s, flags, false, out);
}

void tokenizer_stream_end(const struct tokenizer *t, struct tokenizer_stream *s, unsigned flags, struct buf *out)
{
    if (s->n > s->old) stream_emit(t, s, flags, true, out);
    free(s->ids);
    *s = (struct tokenizer_stream){0};
}

/* ---- questions ---- */

size_t tokenizer_size(const struct tokenizer *t)
{
    return t->names.n;
}

int32_t tokenizer_id(const struct tokenizer *t, const char *name, size_t len)
{
    int32_t id = vocab_find(&t->added_names, name, len);

    return id >= 0 ? id : vocab_find(&t->names, name, len);
}

const char *tokenizer_name(const struct tokenizer *t, int32_t id, size_t *len)
{
    if (id < 0 || (size_t)id >= t->names.n || t->names.text[id] == NULL) return NULL;
    *len = t->names.len[id];
    return t->names.text[id];
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n_special && t->is_special[id];
}

int32_t tokenizer_special(const struct tokenizer *t, enum tokenizer_role role)
{
    return t->special[role];
}

void tokenizer_set_special(struct tokenizer *t, enum tokenizer_role role, int32_t id)
{
    t->special[role] = id;
    tokenizer_mark_special(t, id);
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
    for (size_t i = 0; i < t->n_prefix; i++)
        if (t->prefix[i] == t->special[TOKENIZER_BOS]) return true;
    return false;
}

uint64_t tokenizer_hash(const struct tokenizer *t)
{
    return t->hash;
}

/* ---- opening ---- */

static bool is_directory(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* A special token in tokenizer_config.json: its text, or an object with its content. */
static void role_from_config(struct tokenizer *t, const struct json_value *config, const char *key, enum tokenizer_role role)
{
    const struct json_value *v = json_get(config, key);

    if (v != NULL && v->type == JSON_OBJECT) v = json_get(v, "content");
    if (v == NULL || v->type != JSON_STRING) return;
    int32_t id = tokenizer_id(t, v->text, v->len);
    if (id >= 0) t->special[role] = id;
}

/* The files beside a tokenizer.json are optional; a damaged one is an error. */
static enum pawl_status read_roles(struct tokenizer *t, const char *folder, size_t folder_len, struct err *err)
{
    static const char *const files[] = {"special_tokens_map.json", "tokenizer_config.json"};
    enum pawl_status st = PAWL_OK;

    for (int i = 0; i < 2 && st == PAWL_OK; i++) {
        char *path = xasprintf("%.*s%s", (int)folder_len, folder, files[i]);
        struct stat exists;
        struct json *j = NULL;
        if (stat(path, &exists) == 0) st = json_parse_file(&j, path, err);
        if (j != NULL) {
            role_from_config(t, json_root(j), "bos_token", TOKENIZER_BOS);
            role_from_config(t, json_root(j), "eos_token", TOKENIZER_EOS);
            role_from_config(t, json_root(j), "pad_token", TOKENIZER_PAD);
            role_from_config(t, json_root(j), "unk_token", TOKENIZER_UNK);
        }
        json_free(j);
        free(path);
    }
    return st;
}

static enum pawl_status open_json(struct tokenizer **out, const char *path, struct err *err)
{
    struct json *j = NULL;
    struct tokenizer *t = NULL;
    const char *slash = strrchr(path, '/');
    enum pawl_status st = json_parse_file(&j, path, err);

    if (st != PAWL_OK) return st;
    st = tokenizer_from_json(&t, json_root(j), err);
    if (st != PAWL_OK) err_prefix(err, "%s", path);
    json_free(j);
    if (st == PAWL_OK) st = read_roles(t, path, slash ? (size_t)(slash + 1 - path) : 0, err);
    if (st == PAWL_OK) *out = t;
    else tokenizer_close(t);
    return st;
}

enum pawl_status tokenizer_open(struct tokenizer **out, const char *path, struct err *err)
{
    size_t n = strlen(path);

    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) {
        struct gguf *g = NULL;
        enum pawl_status st = gguf_open(&g, path, err);
        if (st == PAWL_OK) st = tokenizer_from_gguf(out, g, err);
        gguf_close(g);
        return st;
    }
    if (!is_directory(path)) return open_json(out, path, err);
    char *file = xasprintf("%s/tokenizer.json", path);
    enum pawl_status st = open_json(out, file, err);
    free(file);
    return st;
}
