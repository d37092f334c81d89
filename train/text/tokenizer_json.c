/* tokenizer.json, as the tokenizers library writes it. */
#include "train/text/tokenizer_parts.h"

#include "kernels/base/hash.h"

#include <stdlib.h>
#include <string.h>

static enum pawl_status bad(struct err *err, const char *what)
{
    return err_set(err, PAWL_EFORMAT, "%s", what);
}

static bool token_id(const struct json_value *v, int32_t *id)
{
    int64_t x;

    if (!json_int64(v, &x) || x < 0 || x > VOCAB_MAX_ID) return false;
    *id = (int32_t)x;
    return true;
}

/* Nothing that would be done otherwise than the file says is passed over. */
static enum pawl_status refuse_unsupported(const struct json_value *model, struct err *err)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};

    for (int i = 0; i < 2; i++) {
        const struct json_value *v = json_get(model, texts[i]);
        if (v != NULL && v->type == JSON_STRING && v->len > 0) return err_set(err, PAWL_EINVAL, "model: %s \"%s\" is not supported", texts[i], v->text);
    }
    if (json_number(json_get(model, "dropout"), 0) > 0) return err_set(err, PAWL_EINVAL, "model: dropout is not supported");
    return PAWL_OK;
}

static enum pawl_status read_vocab(struct tokenizer *t, const struct json_value *vocab, struct err *err)
{
    if (vocab == NULL || vocab->type != JSON_OBJECT) return bad(err, "model.vocab: expected an object of token to id");
    for (size_t i = 0; i < vocab->len; i++) {
        int32_t id;
        if (!token_id(&vocab->items[i], &id)) return err_set(err, PAWL_EFORMAT, "model.vocab: the id of \"%.100s\" is no integer from 0 to %d", vocab->keys[i].text, VOCAB_MAX_ID);
        vocab_add(&t->names, id, vocab->keys[i].text, vocab->keys[i].len);
    }
    return PAWL_OK;
}

/* "left right", or [left, right]. */
static enum pawl_status read_merges(struct tokenizer *t, const struct json_value *merges, struct err *err)
{
    if (merges == NULL || merges->type != JSON_ARRAY) return bad(err, "model.merges: expected an array");
    for (size_t i = 0; i < merges->len; i++) {
        const struct json_value *m = &merges->items[i], *a = json_at(m, 0), *b = json_at(m, 1);
        enum pawl_status st;
        if (m->type == JSON_STRING) {
            const char *space = memchr(m->text, ' ', m->len);
            if (space == NULL) return err_set(err, PAWL_EFORMAT, "model.merges: entry %zu, \"%.100s\", has no space", i, m->text);
            size_t left = (size_t)(space - m->text);
            st = tokenizer_add_merge(t, m->text, left, space + 1, m->len - left - 1, (uint32_t)i, err);
        } else if (m->len == 2 && a != NULL && a->type == JSON_STRING && b->type == JSON_STRING) {
            st = tokenizer_add_merge(t, a->text, a->len, b->text, b->len, (uint32_t)i, err);
        } else {
            return err_set(err, PAWL_EFORMAT, "model.merges: entry %zu is no pair", i);
        }
        if (st != PAWL_OK) return st;
    }
    return PAWL_OK;
}

static enum pawl_status read_bpe(struct tokenizer *t, const struct json_value *model, struct err *err)
{
    struct merge_rules *m = &t->merges;
    const struct json_value *unk = json_get(model, "unk_token");
    enum pawl_status st = read_vocab(t, json_get(model, "vocab"), err);

    if (st == PAWL_OK) st = read_merges(t, json_get(model, "merges"), err);
    if (st != PAWL_OK) return st;
    if (unk != NULL && unk->type == JSON_STRING) m->unk = t->special[TOKENIZER_UNK] = vocab_find(&t->names, unk->text, unk->len);
    m->fuse_unk = json_bool(json_get(model, "fuse_unk"), false);
    m->whole_words = json_bool(json_get(model, "ignore_merges"), false);
    bool fallback = json_bool(json_get(model, "byte_fallback"), false);
    m->byte_fallback = fallback && !t->byte_level;
    if (m->byte_fallback) tokenizer_byte_tokens(t, m->bytes);
    tokenizer_finish_bpe(t);
    for (int i = 0; i < 256 && fallback && t->byte_level; i++)
        if (m->bytes[i] < 0) return err_set(err, PAWL_EINVAL, "model: byte_fallback after ByteLevel is not supported where a byte has no token of its own: 0x%02X has none", (unsigned)i);
    return PAWL_OK;
}

/* A number as the library reads it: digits as an integer, scaled by a power of ten, each step rounded. It can be one unit beside the nearest double, and
 * where two cuts of a word have the same sum, the last bit decides. */
static double score_of(const struct json_value *v)
{
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p;
    uint64_t digits = 0;
    int exponent = 0;
    bool point = false;

    if (v->type != JSON_FLOAT && v->type != JSON_INT) return 0;
    p = v->text;
    bool negative = *p == '-';
    for (p += negative; (*p >= '0' && *p <= '9') || *p == '.'; p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (digits > (UINT64_MAX - 9) / 10) return v->number;
        digits = digits * 10 + (uint64_t)(*p - '0');
        exponent -= point;
    }
    if (*p != 0) exponent += atoi(p + 1);
    if (exponent > 22 || exponent < -22) return v->number;
    double f = exponent < 0 ? (double)digits / tens[-exponent] : (double)digits * tens[exponent];
    return negative ? -f : f;
}

static enum pawl_status read_unigram(struct tokenizer *t, const struct json_value *model, struct err *err)
{
    struct unigram *u = &t->unigram;
    const struct json_value *vocab = json_get(model, "vocab");
    double lowest = 0;
    int32_t unk;

    t->model = TOKENIZER_UNIGRAM;
    if (t->byte_level) return err_set(err, PAWL_EINVAL, "model: Unigram after ByteLevel is not supported");
    if (vocab == NULL || vocab->type != JSON_ARRAY || vocab->len == 0 || vocab->len > VOCAB_MAX_ID) return bad(err, "model.vocab: expected an array of [token, score]");
    u->scores = xcalloc(vocab->len, sizeof *u->scores);
    for (size_t i = 0; i < vocab->len; i++) {
        const struct json_value *token = json_at(&vocab->items[i], 0), *score = json_at(&vocab->items[i], 1);
        if (token == NULL || token->type != JSON_STRING || score == NULL) return err_set(err, PAWL_EFORMAT, "model.vocab: entry %zu is not [token, score]", i);
        vocab_add(&t->names, (int32_t)i, token->text, token->len);
        u->scores[i] = score_of(score);
        if (i == 0 || u->scores[i] < lowest) lowest = u->scores[i];
        if (token->len > 0) trie_add(&u->trie, token->text, token->len, (int32_t)i);
    }
    u->unk_score = lowest - 10; /* as SentencePiece penalises an unknown character */
    if (token_id(json_get(model, "unk_id"), &unk) && (size_t)unk < vocab->len) u->unk = t->special[TOKENIZER_UNK] = unk;
    u->byte_fallback = json_bool(json_get(model, "byte_fallback"), false);
    if (u->byte_fallback) tokenizer_byte_tokens(t, u->bytes);
    return PAWL_OK;
}

static enum pawl_status read_model(struct tokenizer *t, const struct json_value *model, struct err *err)
{
    const struct json_value *vocab = json_get(model, "vocab");
    /* Files from before there was a type. */
    const char *guess = vocab != NULL && vocab->type == JSON_ARRAY ? "Unigram" : json_get(model, "merges") != NULL ? "BPE" : "(none)";
    const char *type = json_string(json_get(model, "type"), guess);

    enum pawl_status st = refuse_unsupported(model, err);
    if (st != PAWL_OK) return st;
    if (strcmp(type, "BPE") == 0) return read_bpe(t, model, err);
    if (strcmp(type, "Unigram") == 0) return read_unigram(t, model, err);
    return err_set(err, PAWL_EINVAL, "model: type %s is not supported; BPE and Unigram are", type);
}

/* How the normalizer writes the token: what is looked for in normalized text. */
static enum pawl_status normalized_key(const struct tokenizer *t, const struct json_value *content, struct buf *key, struct err *err)
{
    struct piece p = {0};

    piece_begin(&p, content->text, content->len);
    enum pawl_status st = normalizer_apply(&t->normalizer, &p, err);
    if (st == PAWL_OK) buf_add(key, p.text, p.len);
    piece_free(&p);
    return st;
}

static enum pawl_status read_added(struct tokenizer *t, const struct json_value *list, bool normal_bytes, struct err *err)
{
    for (size_t i = 0; json_at(list, i) != NULL; i++) {
        const struct json_value *v = json_at(list, i), *content = json_get(v, "content");
        struct buf key = {0};
        int32_t id;

        if (content == NULL || content->type != JSON_STRING || !token_id(json_get(v, "id"), &id))
            return err_set(err, PAWL_EFORMAT, "added_tokens: entry %zu needs a content and an id from 0 to %d", i, VOCAB_MAX_ID);
        struct added_token token = {
            .text = (char *)content->text, .len = content->len, .id = id,
            .special = json_bool(json_get(v, "special"), false), .single_word = json_bool(json_get(v, "single_word"), false),
            .lstrip = json_bool(json_get(v, "lstrip"), false), .rstrip = json_bool(json_get(v, "rstrip"), false),
            .normalized = json_bool(json_get(v, "normalized"), true),
        };
        if (normal_bytes && token.normalized && (token.single_word || token.lstrip || token.rstrip))
            return err_set(err, PAWL_EINVAL, "added_tokens: \"%.100s\" looks at what stands beside it in text that the normalizer made bytes of: not supported", content->text);
        if (vocab_find(&t->names, content->text, content->len) != id) { /* text that is written like it stays text for the model */
            vocab_name(&t->names, id, content->text, content->len);
            vocab_add(&t->added_names, id, content->text, content->len);
        }
        if (token.special) tokenizer_mark_special(t, id);
        enum pawl_status st = token.normalized ? normalized_key(t, content, &key, err) : PAWL_OK;
        if (st == PAWL_OK) added_add(&t->added, &token, key.data, key.len);
        if (st == PAWL_OK && key.len > 0 && (key.len != token.len || memcmp(key.data, token.text, key.len) != 0))
            vocab_add(&t->shown, id, key.data, key.len);
        buf_free(&key);
        if (st != PAWL_OK) return st;
    }
    return PAWL_OK;
}

static enum pawl_status read_template(struct tokenizer *t, const struct json_value *v, struct err *err)
{
    const struct json_value *single = json_get(v, "single"), *known = json_get(v, "special_tokens");
    bool behind = false;

    for (size_t i = 0; json_at(single, i) != NULL; i++) {
        const struct json_value *item = json_at(single, i);
        const char *name = json_string(json_get(json_get(item, "SpecialToken"), "id"), NULL);
        if (name == NULL) {
            if (json_get(item, "Sequence") == NULL || behind) return bad(err, "post_processor: a template of one text needs {\"Sequence\": A} exactly once");
            behind = true;
            continue;
        }
        const struct json_value *ids = json_get(json_get(known, name), "ids");
        for (size_t k = 0; json_at(ids, k) != NULL; k++) {
            int32_t id;
            if (!token_id(json_at(ids, k), &id)) return err_set(err, PAWL_EFORMAT, "post_processor: the ids of %s are no token ids", name);
            (behind ? tokenizer_add_suffix : tokenizer_add_prefix)(t, id);
        }
    }
    return PAWL_OK;
}

/* ["<s>", 0] of BertProcessing and RobertaProcessing. */
static enum pawl_status pair_id(const struct json_value *v, const char *key, int32_t *id, struct err *err)
{
    if (token_id(json_at(json_get(v, key), 1), id)) return PAWL_OK;
    return err_set(err, PAWL_EFORMAT, "post_processor: %s: expected [token, id]", key);
}

static enum pawl_status read_post(struct tokenizer *t, const struct json_value *v, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    int32_t cls = -1, sep = -1;

    if (v == NULL || v->type == JSON_NULL) return PAWL_OK;
    const char *type = json_string(json_get(v, "type"), "(none)");
    if (strcmp(type, "ByteLevel") == 0) return PAWL_OK; /* it trims offsets only */
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(t, v, err);
    if (strcmp(type, "Sequence") == 0) {
        const struct json_value *list = json_get(v, "processors");
        for (size_t i = 0; json_at(list, i) != NULL && st == PAWL_OK; i++) {
            /* Each one wraps what the ones before it made. */
            if (t->n_prefix + t->n_suffix > 0) {
                const char *next = json_string(json_get(json_at(list, i), "type"), "");
                if (strcmp(next, "ByteLevel") != 0) return bad(err, "post_processor: a Sequence with two templates is not supported");
            }
            st = read_post(t, json_at(list, i), err);
        }
        return st;
    }
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        if ((st = pair_id(v, "cls", &cls, err)) != PAWL_OK || (st = pair_id(v, "sep", &sep, err)) != PAWL_OK) return st;
        tokenizer_add_prefix(t, cls);
        tokenizer_add_suffix(t, sep);
        return PAWL_OK;
    }
    return err_set(err, PAWL_EINVAL, "post_processor: type %s is not supported", type);
}

static uint64_t hash_value(uint64_t h, const struct json_value *v)
{
    h = hash64(h, &v->type, sizeof v->type);
    h = hash64(h, &v->len, sizeof v->len);
    if (v->type == JSON_BOOL) h = hash64(h, &v->boolean, sizeof v->boolean);
    if (v->text != NULL) h = hash64(h, v->text, v->len);
    for (size_t i = 0; (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && i < v->len; i++) {
        if (v->type == JSON_OBJECT) h = hash64(h, v->keys[i].text, v->keys[i].len);
        h = hash_value(h, &v->items[i]);
    }
    return h;
}

enum pawl_status tokenizer_from_json(struct tokenizer **out, const struct json_value *root, struct err *err)
{
    struct tokenizer *t = tokenizer_new();
    const struct json_value *model = json_get(root, "model");
    enum pawl_status st;

    if (model == NULL || model->type != JSON_OBJECT) {
        st = bad(err, "no \"model\": this is not a tokenizer.json of the tokenizers library");
        goto done;
    }
    if ((st = normalizer_from_json(&t->normalizer, json_get(root, "normalizer"), &t->byte_level, err)) != PAWL_OK) goto done;
    bool normal_bytes = t->byte_level;
    if ((st = pretok_from_json(&t->pretok, json_get(root, "pre_tokenizer"), &t->byte_level, err)) != PAWL_OK) goto done;
    if ((st = read_model(t, model, err)) != PAWL_OK) goto done;
    if ((st = read_added(t, json_get(root, "added_tokens"), normal_bytes, err)) != PAWL_OK) goto done;
    if ((st = read_post(t, json_get(root, "post_processor"), err)) != PAWL_OK) goto done;
    if ((st = decoder_from_json(&t->decoder, json_get(root, "decoder"), err)) != PAWL_OK) goto done;
    t->hash = hash_value(0, root);
    *out = t;
    t = NULL;
done:
    tokenizer_close(t);
    return st;
}
