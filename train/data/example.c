/* Records to examples: text with places of what is supervised -> tokens with a mask, and what looks wrong on the way. */
#include "kernels/base/hash.h"
#include "kernels/base/utf8.h"
#include "train/data/reading.h"
#include "train/data/record.h"

#include <stdlib.h>
#include <string.h>

/* What one thread needs for a chunk; used again for each record. */
struct work {
    const struct reading *r;
    int64_t line;
    uint64_t found;         /* bit k: finding k in this record, noted once */
    bool fatal;             /* the failure is not the record's: skip_bad_lines does not help */
    struct buf payload, notes, text;
    uint32_t examples, n_notes;
    struct tokens tokens;
    uint8_t *mask;          /* (mask_cap) of tokens: 1 supervised */
    size_t mask_cap;
    struct pieces pieces;
    struct messages messages;
    struct chat_text chat;
};

static void work_free(struct work *w)
{
    buf_free(&w->payload);
    buf_free(&w->notes);
    buf_free(&w->text);
    tokens_free(&w->tokens);
    free(w->mask);
    pieces_free(&w->pieces);
    messages_free(&w->messages);
    chat_text_free(&w->chat);
}

/* --- findings */

static void note(struct work *w, enum finding kind)
{
    struct stored_note n = {w->line, kind};

    if (w->found >> kind & 1) return;
    w->found |= (uint64_t)1 << kind;
    buf_add(&w->notes, &n, sizeof n);
    w->n_notes++;
}

static bool is_blank(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i] != '\n') return false;
    }
    return true;
}

/* UTF-8 that was read as Latin-1 or Windows-1252 and written as UTF-8 again: U+00C2 or U+00C3 in front of what stands for a byte 80..BF, U+00E2 U+20AC for the
 * quotes and dashes; or a replacement character. */
static void look_at_text(struct work *w, const char *s, size_t len)
{
    uint32_t before = 0;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        int n = utf8_decode(s + i, len - i, &cp);

        if (n == 0) break;
        if (cp == 0xfffd || ((before == 0xc2 || before == 0xc3) && cp >= 0x80 && cp <= 0xbf) || (before == 0xe2 && cp == 0x20ac)) note(w, FINDING_MOJIBAKE);
        if ((cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\r' && cp != '\f') || cp == 0x7f) note(w, FINDING_CONTROL);
        before = cp;
        i += (size_t)n;
    }
}

static bool is_special(const struct work *w, int32_t id)
{
    return id == w->r->eos || tokenizer_is_special(w->r->tokenizer, id);
}

/* --- tokens */

static void buf_add_zeros(struct buf *b, size_t len)
{
    static const char zeros[4096];

    for (size_t n; len; len -= n) {
        n = len < sizeof zeros ? len : sizeof zeros;
        buf_add(b, zeros, n);
    }
}

static void mask_reserve(struct work *w)
{
    if (w->tokens.n <= w->mask_cap) return;
    w->mask_cap = w->tokens.n + w->tokens.n / 2;
    w->mask = xrealloc(w->mask, w->mask_cap);
}

/* The first token that begins at or behind byte at. */
static size_t token_at(const struct tokens *t, size_t at)
{
    size_t low = 0, high = t->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (t->at[mid] < at) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* Adds tokens and mask as an example. */
static enum pawl_status emit(struct work *w, uint64_t hash, uint32_t turn, struct err *err)
{
    const struct tokens *t = &w->tokens;
    size_t begin = w->payload.len, rare = 0;
    struct stored_example *e;

    if (w->r->bos >= 0 && t->n > 1 && t->ids[0] == w->r->bos && t->ids[1] == w->r->bos) note(w, FINDING_DOUBLED_BOS);
    buf_add_zeros(&w->payload, stored_bytes(t->n));
    e = (struct stored_example *)(w->payload.data + begin);
    *e = (struct stored_example){.hash = hash, .line = w->line, .length = (uint32_t)t->n, .turn = turn};
    for (size_t i = 0; i < t->n; i++) {
        e->tokens[i] = (uint32_t)t->ids[i] | (i > 0 && w->mask[i] ? TOKEN_SUPERVISED : 0);
        rare += w->r->rare[t->ids[i]];
        if (!w->r->opt->vocab || t->ids[i] < w->r->opt->vocab) continue;
        w->fatal = true;
        return err_set(err, PAWL_EINVAL, "token id %d, but the model's embedding has %lld rows: the tokenizer belongs to another model", (int)t->ids[i],
                       (long long)w->r->opt->vocab);
    }
    w->examples++;
    if (rare >= 8 && rare * 5 > t->n) note(w, FINDING_UNKNOWN_BYTES);
    return PAWL_OK;
}

/* --- pieces */

static bool begins_with(const struct work *w, const char *token)
{
    return token && *token && w->text.len >= strlen(token) && !memcmp(w->text.data, token, strlen(token));
}

/* The pieces as one text: tokens are those of the whole, unless one of them reaches across a border between what is supervised and what is not. Then a
 * prompt would not be the tokens that the model gets at inference, and each piece is tokenised by itself. */
static enum pawl_status encode_pieces(struct work *w, struct err *err)
{
    const struct pieces *p = &w->pieces;
    bool bos = p->bos && w->r->bos >= 0 && tokenizer_adds_bos(w->r->tokenizer) && !begins_with(w, w->r->bos_text);
    struct tokens *t = &w->tokens;
    enum pawl_status st;
    size_t end = 0;
    bool crosses = false;

    t->n = 0;
    if (bos) tokens_add(t, w->r->bos, 0);
    if ((st = tokenizer_encode(w->r->tokenizer, w->text.data, w->text.len, TOKENIZER_PARSE_SPECIAL, t, err)) != PAWL_OK) return st;
    for (size_t i = 0; i + 1 < p->n; i++) {
        end += p->at[i].len;
        if (p->at[i].supervised == p->at[i + 1].supervised) continue;
        size_t k = token_at(t, end);
        crosses = crosses || k == t->n || t->at[k] != end;
    }
    if (!crosses) return PAWL_OK;

    t->n = bos;
    end = 0;
    for (size_t i = 0, first = 0; i < p->n; i++) {
        end += p->at[i].len;
        if (i + 1 < p->n && p->at[i].supervised == p->at[i + 1].supervised) continue;
        size_t from = t->n;
        st = tokenizer_encode(w->r->tokenizer, w->text.data + first, end - first, TOKENIZER_PARSE_SPECIAL, t, err);
        if (st != PAWL_OK) return st;
        for (size_t k = from; k < t->n; k++) t->at[k] += first;
        first = end;
    }
    return PAWL_OK;
}

static void mask_pieces(struct work *w)
{
    const struct pieces *p = &w->pieces;
    struct tokens *t = &w->tokens;
    size_t end = 0, k = 0;

    if (p->eos && w->r->eos >= 0 && (t->n == 0 || t->ids[t->n - 1] != w->r->eos)) tokens_add(t, w->r->eos, w->text.len);
    mask_reserve(w);
    for (size_t i = 0; i < p->n; i++) {
        bool last = i + 1 == p->n;

        end += p->at[i].len;
        for (; k < t->n && (t->at[k] < end || last); k++) {
            w->mask[k] = p->at[i].supervised || w->r->opt->train_on_inputs;
            if (p->at[i].said && tokenizer_is_special(w->r->tokenizer, t->ids[k])) note(w, FINDING_SPECIAL_TEXT);
        }
    }
    if (t->n && !(w->mask[t->n - 1] && is_special(w, t->ids[t->n - 1]))) note(w, FINDING_NO_END_OF_TURN);
}

static enum pawl_status read_pieces(struct work *w, const struct json_value *record, struct err *err)
{
    struct pieces *p = &w->pieces;
    uint64_t hash = 0;
    enum pawl_status st = pieces_read(p, (enum dataset_type)w->r->type, w->r->part, record, err);

    if (st != PAWL_OK) return st;
    w->text.len = 0;
    buf_add(&w->text, "", 0);
    for (size_t i = 0; i < p->n; i++) {
        buf_add(&w->text, p->at[i].text, p->at[i].len);
        hash = hash64(hash + p->at[i].supervised, p->at[i].text, p->at[i].len);
        look_at_text(w, p->at[i].text, p->at[i].len);
        if (p->at[i].supervised && is_blank(p->at[i].text, p->at[i].len)) note(w, FINDING_EMPTY_ANSWER);
    }
    if (p->bos && begins_with(w, w->r->bos_text) && tokenizer_adds_bos(w->r->tokenizer)) note(w, FINDING_BOS_IN_TEXT);
    if ((st = encode_pieces(w, err)) != PAWL_OK) return st;
    mask_pieces(w);
    return emit(w, hash, 0, err);
}

/* --- conversations */

static const char *role_of(const struct messages *m, size_t i)
{
    return json_string(json_get(&m->list.items[i], "role"), "");
}

static bool calls_tools(const struct messages *m, size_t i)
{
    return json_get(&m->list.items[i], "tool_calls") != NULL;
}

static bool is_known_role(const char *role)
{
    static const char *const known[] = {"system", "developer", "user", "assistant", "tool", "function", "ipython", "observation", "documents", "context"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(role, known[i])) return true;
    }
    return false;
}

static void look_at_messages(struct work *w)
{
    const struct messages *m = &w->messages;
    const char *before = "";

    for (size_t i = 0; i < m->list.len; i++) {
        const struct json_value *content = json_get(&m->list.items[i], "content");
        const char *role = role_of(m, i);
        bool user = !strcmp(role, "user"), assistant = !strcmp(role, "assistant");

        if (content && content->type == JSON_STRING) look_at_text(w, content->text, content->len);
        if (assistant && m->train[i] && !calls_tools(m, i) && (!content || is_blank(content->text ? content->text : "", content->len))) note(w, FINDING_EMPTY_ANSWER);
        if (!is_known_role(role) && !m->train[i]) note(w, FINDING_UNKNOWN_ROLE);
        if (!strcmp(role, "system") && i > 0) note(w, FINDING_ROLE_ORDER);
        if (user && !strcmp(before, "user")) note(w, FINDING_ROLE_ORDER);
        if (assistant && ((!strcmp(before, "assistant") && !calls_tools(m, i - 1)) || !strcmp(before, "") || !strcmp(before, "system"))) note(w, FINDING_ROLE_ORDER);
        before = role;
    }
}

static void set_mask(struct work *w, size_t from, size_t end)
{
    for (size_t k = from; k < w->tokens.n && w->tokens.at[k] < end; k++) w->mask[k] = 1;
}

/* Where what a message says begins: with the token that holds its first byte, or it would never be learned behind "ASSISTANT: ", whose space the first word
 * takes along. A special token may have taken white space, not what is said. */
static size_t first_said(const struct work *w, size_t begin)
{
    const struct tokens *t = &w->tokens;
    size_t k = token_at(t, begin);
    bool inside = k > 0 && (k == t->n || t->at[k] > begin);

    return inside && !is_special(w, t->ids[k - 1]) ? k - 1 : k;
}

static bool special_between(const struct work *w, size_t begin, size_t end)
{
    for (size_t k = token_at(&w->tokens, begin); k < w->tokens.n && w->tokens.at[k] < end; k++) {
        if (is_special(w, w->tokens.ids[k])) return true;
    }
    return false;
}

/* A message that is trained and says something must have its place in the text. */
static enum pawl_status check_trained(const struct work *w, struct err *err)
{
    const struct messages *m = &w->messages;

    for (size_t i = 0; i < m->list.len; i++) {
        const char *content = json_string(json_get(&m->list.items[i], "content"), "");
        bool found = false;

        if (!m->train[i] || !strcmp(role_of(m, i), "assistant") || is_blank(content, strlen(content))) continue;
        for (size_t k = 0; k < w->chat.n; k++) found |= w->chat.spans[k].message == i;
        if (!found) return err_set(err, PAWL_EINVAL, "messages[%zu] (%s) is to be trained, but where the template writes its content can't be told", i, role_of(m, i));
    }
    return PAWL_OK;
}

/* The mask by spans. What a message says is supervised where it is trained; its end-of-turn text by train_on_eos. */
static void mask_spans(struct work *w)
{
    const struct chat_text *c = &w->chat;
    const struct messages *m = &w->messages;
    size_t last = c->n;

    mask_reserve(w);
    memset(w->mask, w->r->opt->train_on_inputs, w->tokens.n);
    for (size_t i = 0; i < c->n; i++) {
        if (m->train[c->spans[i].message]) last = i;
        if (!strcmp(c->spans[i].role, "user") && special_between(w, c->spans[i].begin, c->spans[i].eot)) note(w, FINDING_SPECIAL_TEXT);
    }
    for (size_t i = 0; i < c->n; i++) {
        const struct chat_span *s = &c->spans[i];
        bool train = m->train[s->message];
        bool eot[] = {[TRAIN_ON_TURN] = train, [TRAIN_ON_ALL] = true, [TRAIN_ON_LAST] = i == last, [TRAIN_ON_NONE] = false};

        if (train && s->eot > s->begin) set_mask(w, first_said(w, s->begin), s->eot);
        if (eot[w->r->part->train_on_eos]) set_mask(w, token_at(&w->tokens, s->eot), s->end);
    }
    if (last < c->n && c->spans[last].assistant && !special_between(w, c->spans[last].begin, c->spans[last].end)) note(w, FINDING_NO_END_OF_TURN);
}

static enum pawl_status emit_chat(struct work *w, uint64_t hash, uint32_t turn, struct err *err)
{
    enum pawl_status st;

    w->tokens.n = 0;
    st = tokenizer_encode(w->r->tokenizer, w->chat.text.data ? w->chat.text.data : "", w->chat.text.len, TOKENIZER_PARSE_SPECIAL, &w->tokens, err);
    if (st != PAWL_OK) return st;
    mask_spans(w);
    return emit(w, hash, turn, err);
}

/* The template writes old turns otherwise than new ones: each trained turn is an example of its own, as the model sees it when it writes that turn. */
static enum pawl_status emit_turns(struct work *w, const struct chat_input *in, uint64_t hash, struct err *err)
{
    const struct messages *m = &w->messages;
    uint32_t turn = 0;
    enum pawl_status st;

    for (size_t i = 0; i < m->list.len; i++) {
        if (strcmp(role_of(m, i), "assistant") || !m->train[i]) continue;
        if ((st = chat_render_turn(w->r->chat, in, i, &w->chat, err)) != PAWL_OK) return st;
        if ((st = emit_chat(w, hash, turn++, err)) != PAWL_OK) return st;
    }
    if (turn) return PAWL_OK;
    /* Nothing to learn: the whole text stands for the record, to be counted as without a supervised token. */
    w->chat.text.len = w->chat.n = 0;
    return emit_chat(w, hash, 0, err);
}

static enum pawl_status read_chat(struct work *w, const struct json_value *record, struct err *err)
{
    struct messages *m = &w->messages;
    struct chat_input in;
    uint64_t hash;
    enum pawl_status st = messages_read(m, (enum dataset_type)w->r->type, w->r->part, record, err);

    if (st != PAWL_OK) return st;
    if (!w->r->chat) return err_set(err, PAWL_EFORMAT, "a list of messages, where the first records have plain text: mixed records are not read");
    w->text.len = 0;
    json_add_value(&w->text, &m->list);
    hash = hash64(0, w->text.data, w->text.len);
    look_at_messages(w);
    in = (struct chat_input){.messages = &m->list, .tools = m->tools, .extra = m->extra, .bos_token = w->r->bos_text, .eos_token = w->r->eos_text, .now = &w->r->date};
    if ((st = chat_render_spans(w->r->chat, &in, &w->chat, err)) != PAWL_OK) return st;
    for (size_t i = 0; i < m->list.len && w->chat.rewrites_history; i++)
        if (m->train[i] && strcmp(role_of(m, i), "assistant"))
            return err_set(err, PAWL_EINVAL, "messages[%zu] (%s) is to be trained, but the template writes old turns otherwise than new ones: only the assistant's turns can be trained then", i, role_of(m, i));
    if (w->chat.rewrites_history) return emit_turns(w, &in, hash, err);
    if ((st = check_trained(w, err)) != PAWL_OK) return st;
    return emit_chat(w, hash, 0, err);
}

/* --- chunks */

static enum pawl_status read_record(struct work *w, const char *text, const struct source_record *at, struct err *err)
{
    struct json *j = NULL;
    enum pawl_status st;

    if (at->too_long) return err_set(err, PAWL_EFORMAT, "a record of more than %d MiB: is this one JSON value a line?", SOURCE_MAX_RECORD >> 20);
    if ((st = json_parse(&j, text + at->at, at->len, err)) != PAWL_OK) return st;
    if (json_root(j)->type != JSON_OBJECT) {
        st = err_set(err, PAWL_EFORMAT, "expected an object, {\"key\": ...}, found %s", json_kind(json_root(j)));
    } else if (record_is_chat(json_root(j), (enum dataset_type)w->r->type)) {
        st = read_chat(w, json_root(j), err);
    } else {
        st = read_pieces(w, json_root(j), err);
    }
    json_free(j);
    return st;
}

enum pawl_status reading_chunk(const struct reading *r, const char *path, const struct source_chunk *in, struct chunk *out, struct err *err)
{
    struct work w = {.r = r};
    struct err why = {0}; /* err itself stays untouched where bad records are skipped */
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < in->n && st == PAWL_OK; i++) {
        size_t payload = w.payload.len, notes = w.notes.len;
        uint32_t examples = w.examples, n_notes = w.n_notes;

        w.line = in->record[i].line;
        w.found = 0;
        st = read_record(&w, in->text.data, &in->record[i], &why);
        if (st != PAWL_OK && r->opt->skip_bad_lines && !w.fatal) { /* as if it were not there */
            w.payload.len = payload;
            w.notes.len = notes;
            w.examples = examples;
            w.n_notes = n_notes;
            w.found = 0;
            note(&w, FINDING_BAD_LINE);
            st = PAWL_OK;
        }
        if (st != PAWL_OK) err_set(err, st, "%s:%lld: %.1800s", path, (long long)w.line, why.text);
    }
    if (st == PAWL_OK) {
        buf_add(&w.payload, w.notes.data ? w.notes.data : "", w.notes.len);
        *out = (struct chunk){
            .source = source_chunk_hash(in), .payload_hash = hash64(0, w.payload.data, w.payload.len), .bytes = w.payload.len, .file = (uint32_t)in->file,
            .lines = (uint32_t)in->n, .examples = w.examples, .notes = w.n_notes, .payload = w.payload.data, .own = w.payload.data,
        };
        w.payload = (struct buf){0};
    }
    work_free(&w);
    return st;
}
