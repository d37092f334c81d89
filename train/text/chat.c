#include "train/text/chat.h"

#include "ckpt/gguf.h"
#include "kernels/base/hash.h"
#include "kernels/base/pool.h"
#include "train/text/chat_builtin.h"
#include "train/text/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct chat_template {
    struct jinja_template *jinja;
    uint64_t hash;
};

/* ---- templates ---- */

enum pawl_status chat_template_parse(struct chat_template **out, const char *name, const char *source, size_t len, struct err *err)
{
    struct jinja_template *jinja = NULL;
    enum pawl_status st = jinja_parse(&jinja, name, source, len, err);

    if (st != PAWL_OK) return st;
    struct chat_template *t = xmalloc(sizeof *t);
    *t = (struct chat_template){.jinja = jinja, .hash = hash64(0, source, len)};
    *out = t;
    return PAWL_OK;
}

void chat_template_free(struct chat_template *t)
{
    if (t == NULL) return;
    jinja_free(t->jinja);
    free(t);
}

uint64_t chat_template_hash(const struct chat_template *t)
{
    return t->hash;
}

enum pawl_status chat_template_builtin(struct chat_template **out, const char *name, struct err *err)
{
    char names[512] = "";

    for (size_t i = 0; chat_builtins[i].name != NULL; i++) {
        if (strcmp(chat_builtins[i].name, name) == 0) return chat_template_parse(out, name, chat_builtins[i].source, strlen(chat_builtins[i].source), err);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", chat_builtins[i].name);
    }
    return err_set(err, PAWL_EINVAL, "chat template: expected tokenizer_default, jinja or one of %s, found %s", names, name);
}

static enum pawl_status of_gguf(struct chat_template **out, const char *path, struct err *err)
{
    struct gguf *g = NULL;
    struct gguf_string source;
    enum pawl_status st = gguf_open(&g, path, err);

    if (st != PAWL_OK) return st;
    if (gguf_text(g, "tokenizer.chat_template", &source)) {
        char *name = xasprintf("%s: tokenizer.chat_template", path);
        st = chat_template_parse(out, name, source.data, source.len, err);
        free(name);
    } else {
        st = err_set(err, PAWL_EINVAL, "%s: holds no chat template; name one with chat_template (chatml, llama3, ...)", path);
    }
    gguf_close(g);
    return st;
}

static enum pawl_status of_file(struct chat_template **out, const char *path, struct err *err)
{
    FILE *f = fopen(path, "rb");
    struct buf text = {0};
    char chunk[65536];

    if (f == NULL) return err_sys(err, "%s: cannot be opened", path);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) buf_add(&text, chunk, n);
    enum pawl_status st = ferror(f) ? err_sys(err, "%s: cannot be read", path) : chat_template_parse(out, path, text.data ? text.data : "", text.len, err);
    fclose(f);
    buf_free(&text);
    return st;
}

/* "chat_template" of tokenizer_config.json: a text, or a list of named ones, of which `default` is meant. */
static enum pawl_status of_config(struct chat_template **out, const char *path, bool *found, struct err *err)
{
    struct json *j = NULL;
    enum pawl_status st = json_parse_file(&j, path, err);

    *found = false;
    if (st != PAWL_OK) return st;
    const struct json_value *v = json_get(json_root(j), "chat_template"), *named;
    for (size_t i = 0; (named = json_at(v, i)) != NULL; i++)
        if (strcmp(json_string(json_get(named, "name"), ""), "default") == 0) {
            v = json_get(named, "template");
            break;
        }
    if (v != NULL && v->type == JSON_STRING) {
        char *name = xasprintf("%s: chat_template", path);
        *found = true;
        st = chat_template_parse(out, name, v->text, v->len, err);
        free(name);
    }
    json_free(j);
    return st;
}

enum pawl_status chat_template_of_model(struct chat_template **out, const char *path, struct err *err)
{
    struct stat s;
    size_t n = strlen(path);

    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) return of_gguf(out, path, err);
    char *folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode) ? xstrdup(path) : strrchr(path, '/') ? xstrndup(path, (size_t)(strrchr(path, '/') - path)) : xstrdup(".");
    char *jinja = xasprintf("%s/chat_template.jinja", folder), *config = xasprintf("%s/tokenizer_config.json", folder);
    enum pawl_status st = PAWL_OK;
    bool found = false;

    if (stat(jinja, &s) == 0) {
        found = true;
        st = of_file(out, jinja, err);
    } else if (stat(config, &s) == 0) {
        st = of_config(out, config, &found, err);
    }
    if (st == PAWL_OK && !found)
        st = err_set(err, PAWL_EINVAL, "%s: no chat_template.jinja, and no chat_template in tokenizer_config.json; name one with chat_template (chatml, llama3, ...)", folder);
    free(folder);
    free(jinja);
    free(config);
    return st;
}

/* ---- rendering ---- */

/* The messages as the template sees them. Members that are null are left out; of reasoning_content, thinking and reasoning the first that is there
 * stands for all that the template may ask for. */
static struct json_value message_seen(struct pool *pool, const struct json_value *m)
{
    static const char *const fields[] = {"reasoning_content", "thinking", "reasoning"};
    const struct json_value *reasoning = NULL;
    struct json_value out = *m, *keys = pool_alloc(pool, (m->len + 2) * sizeof *keys), *items = pool_alloc(pool, (m->len + 2) * sizeof *items);

    if (m->type != JSON_OBJECT) return *m;
    out.len = 0;
    for (int i = 0; i < 3 && reasoning == NULL; i++) {
        reasoning = json_get(m, fields[i]);
        if (reasoning != NULL && reasoning->type == JSON_NULL) reasoning = NULL;
    }
    const struct json_value *thinking = json_get(m, "thinking");
    if (reasoning != NULL && (thinking == NULL || thinking->type == JSON_NULL)) {
        keys[0] = (struct json_value){.type = JSON_STRING, .text = "thinking", .len = 8};
        items[out.len++] = *reasoning;
    }
    for (size_t i = 0; i < m->len; i++) {
        bool same = reasoning != NULL && strcmp(m->keys[i].text, fields[0]) == 0;
        if (m->items[i].type == JSON_NULL && !same) continue;
        keys[out.len] = m->keys[i];
        items[out.len++] = same ? *reasoning : m->items[i];
    }
    if (reasoning != NULL && json_get(m, fields[0]) == NULL) {
        keys[out.len] = (struct json_value){.type = JSON_STRING, .text = fields[0], .len = strlen(fields[0])};
        items[out.len++] = *reasoning;
    }
    out.keys = keys;
    out.items = items;
    return out;
}

static struct json_value text_value(const char *s)
{
    return (struct json_value){.type = JSON_STRING, .text = s, .len = strlen(s)};
}

/* The first `count` messages. */
static enum pawl_status render(const struct chat_template *t, const struct chat_input *in, size_t count, bool prompt, struct buf *out,
                               struct jinja_marks *marks, struct err *err)
{
    const struct json_value none = {.type = JSON_NULL}, add = {.type = JSON_BOOL, .boolean = prompt};
    struct json_value messages = {.type = JSON_ARRAY}, bos, eos;
    struct pool pool = {0};
    size_t extra = in->extra != NULL && in->extra->type == JSON_OBJECT ? in->extra->len : 0, n = 0;
    struct jinja_var *vars = xreallocarray(NULL, 6 + extra, sizeof *vars);

    messages.items = pool_alloc(&pool, (count + 1) * sizeof *messages.items);
    for (; messages.len < count; messages.len++) messages.items[messages.len] = message_seen(&pool, &in->messages->items[messages.len]);
    vars[n++] = (struct jinja_var){"messages", &messages};
    vars[n++] = (struct jinja_var){"tools", in->tools != NULL ? in->tools : &none};
    vars[n++] = (struct jinja_var){"documents", &none};
    vars[n++] = (struct jinja_var){"add_generation_prompt", &add};
    if (in->bos_token != NULL) {
        bos = text_value(in->bos_token);
        vars[n++] = (struct jinja_var){"bos_token", &bos};
    }
    if (in->eos_token != NULL) {
        eos = text_value(in->eos_token);
        vars[n++] = (struct jinja_var){"eos_token", &eos};
    }
    for (size_t i = 0; i < extra; i++) vars[n++] = (struct jinja_var){in->extra->keys[i].text, &in->extra->items[i]};
    enum pawl_status st = jinja_render(t->jinja, vars, n, in->now, out, marks, err);
    free(vars);
    pool_free(&pool);
    return st;
}

static enum pawl_status check_messages(const struct chat_input *in, struct err *err)
{
    if (in->messages == NULL || in->messages->type != JSON_ARRAY) return err_set(err, PAWL_EINVAL, "messages: expected an array of {\"role\", \"content\"}");
    for (size_t i = 0; i < in->messages->len; i++)
        if (in->messages->items[i].type != JSON_OBJECT) return err_set(err, PAWL_EINVAL, "messages: number %zu is no object with role and content", i + 1);
    return PAWL_OK;
}

enum pawl_status chat_render(const struct chat_template *t, const struct chat_input *in, struct buf *out, struct err *err)
{
    enum pawl_status st = check_messages(in, err);

    return st == PAWL_OK ? render(t, in, in->messages->len, in->add_generation_prompt, out, NULL, err) : st;
}

/* ---- spans ---- */

void chat_text_free(struct chat_text *out)
{
    buf_free(&out->text);
    free(out->spans);
    *out = (struct chat_text){0};
}

static void add_span(struct chat_text *out, struct chat_span span)
{
    if (out->n == out->cap) {
        out->cap = out->cap ? 2 * out->cap : 16;
        out->spans = xreallocarray(out->spans, out->cap, sizeof *out->spans);
    }
    out->spans[out->n++] = span;
}

static const char *role_of(const struct json_value *message)
{
    return json_string(json_get(message, "role"), "");
}

static bool is_assistant(const struct json_value *message)
{
    const char *role = role_of(message);

    return strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0;
}

static bool blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The content of a message without the white space around it, which templates like to trim. */
static bool content_of(const struct json_value *message, const char **s, size_t *len)
{
    const struct json_value *c = json_get(message, "content");

    if (c == NULL || c->type != JSON_STRING) return false;
    *s = c->text;
    *len = c->len;
    while (*len > 0 && blank(**s)) (*s)++, (*len)--;
    while (*len > 0 && blank((*s)[*len - 1])) (*len)--;
    return *len > 0;
}

static bool says_nothing(const struct json_value *message)
{
    const char *content;
    size_t len;

    return !content_of(message, &content, &len) && json_get(message, "content") != NULL && json_get(message, "tool_calls") == NULL;
}

/* A text that a template made of the first `count` messages. */
struct rendering {
    const struct chat_template *t;
    const struct chat_input *in;
    size_t count;
    const char *text;
    size_t len;
};

#define STAND_IN "\xee\x80\x80pawl\xee\x80\x81" /* of the private use area: no template looks for it */
#define SURE 16 /* bytes of a content that, found once, is no part of a header */

/* The place of message i's content, proven: with another content in its place all of the text but that place stays the same. */
static bool content_place(const struct rendering *r, size_t i, size_t *begin, size_t *end)
{
    const struct json_value *messages = r->in->messages, *m = &messages->items[i];
    struct json_value other = *messages, changed = *m;
    struct chat_input in = *r->in;
    struct pool pool = {0};
    struct buf out = {0};
    bool found = false;

    in.messages = &other;
    other.items = pool_alloc(&pool, messages->len * sizeof *other.items);
    memcpy(other.items, messages->items, messages->len * sizeof *other.items);
    changed.items = pool_alloc(&pool, m->len * sizeof *changed.items);
    memcpy(changed.items, m->items, m->len * sizeof *changed.items);
    for (size_t k = 0; k < m->len; k++)
        if (strcmp(m->keys[k].text, "content") == 0) changed.items[k] = text_value(STAND_IN);
    other.items[i] = changed;
    if (render(r->t, &in, r->count, false, &out, NULL, NULL) == PAWL_OK && out.len > 0) {
        size_t n = sizeof STAND_IN - 1;
        const char *hit = memmem(out.data, out.len, STAND_IN, n);
        size_t head = hit ? (size_t)(hit - out.data) : 0, tail = hit ? out.len - head - n : 0;
        found = hit != NULL && memmem(hit + n, tail, STAND_IN, n) == NULL && head + tail <= r->len && memcmp(out.data, r->text, head) == 0 &&
                memcmp(hit + n, r->text + r->len - tail, tail) == 0;
        *begin = head;
        *end = r->len - tail;
        while (found && *begin < *end && blank(r->text[*begin])) ++*begin;
        while (found && *end > *begin && blank(r->text[*end - 1])) --*end;
    }
    buf_free(&out);
    pool_free(&pool);
    return found;
}

/* The content of message i within text[from..to): found there once and not short, or proven. */
static bool find_content(const struct rendering *r, size_t i, size_t from, size_t to, size_t *begin, size_t *end)
{
    const char *content, *hit;
    size_t len;

    if (!content_of(&r->in->messages->items[i], &content, &len)) return false;
    hit = memmem(r->text + from, to - from, content, len);
    if (hit == NULL) return false;
    *begin = (size_t)(hit - r->text);
    *end = *begin + len;
    if (len >= SURE && memmem(hit + 1, to - *begin - 1, content, len) == NULL) return true;
    return content_place(r, i, begin, end) && *begin >= from && *end <= to;
}

/* Where the content of turn i, which is text[begin..end), ends; `end` if it does not stand there. What follows is the end of the turn. */
static size_t content_end(const struct rendering *r, size_t i, size_t begin, size_t end)
{
    const struct json_value *message = &r->in->messages->items[i];
    const char *content;
    size_t len, from, to;

    if (says_nothing(message)) return begin;
    if (!content_of(message, &content, &len)) return end;
    if (find_content(r, i, begin, end, &from, &to)) return to;
    for (size_t at = end; at >= begin + len; at--) /* the last place: reasoning before it may quote the answer */
        if (memcmp(r->text + at - len, content, len) == 0) return at;
    return end;
}

/* The assistant's turn in text[begin..end). Of white space behind the end-of-turn token the model writes nothing; without such a token it stays. */
static struct chat_span assistant_span(const struct rendering *r, size_t i, size_t begin, size_t end)
{
    size_t eot = content_end(r, i, begin, end), stop = end;

    while (stop > eot && blank(r->text[stop - 1])) stop--;
    if (stop == eot) stop = end;
    while (eot < stop && blank(r->text[eot])) eot++; /* " </s>" */
    return (struct chat_span){.begin = begin, .eot = eot == end ? stop : eot, .end = stop, .message = i, .role = role_of(&r->in->messages->items[i]), .assistant = true};
}

/* Contents of the messages first..last-1, which are not the assistant's, in text[begin..end): one behind the other. One that can't be told has no span. */
static void find_contents(struct chat_text *out, const struct rendering *r, size_t first, size_t last, size_t begin, size_t end)
{
    for (size_t i = first; i < last; i++) {
        const struct json_value *m = &r->in->messages->items[i];
        size_t at, eot, stop;
        if (is_assistant(m) || !find_content(r, i, begin, end, &at, &eot)) continue;
        for (stop = eot; stop < end && !blank(r->text[stop]);) stop++; /* "<|im_end|>" and its like hold no white space */
        add_span(out, (struct chat_span){.begin = at, .eot = eot, .end = stop, .message = i, .role = role_of(m)});
        begin = stop;
    }
}

/* Which turn each mark belongs to, where a turn may have several or none: those that are in the text up to it already, without what ends a conversation. */
static enum pawl_status owners_by_prefixes(size_t *owner, const struct rendering *r, const struct jinja_marks *marks, bool prompt, struct err *err)
{
    const struct json_value *messages = r->in->messages;
    struct jinja_marks some = {0};
    struct buf text = {0};
    size_t known = 0, last = 0;
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < messages->len && st == PAWL_OK; i++) {
        if (!is_assistant(&messages->items[i])) continue;
        text.len = 0;
        last = i;
        if (i > 0 && (render(r->t, r->in, i, prompt, &text, &some, err) != PAWL_OK || some.n != known)) st = PAWL_EINVAL; /* not the assistant's alone */
        text.len = 0;
        if (st != PAWL_OK || render(r->t, r->in, i + 1, prompt, &text, &some, err) != PAWL_OK || some.n < known || some.n > marks->n) st = PAWL_EINVAL;
        for (size_t k = 0; st == PAWL_OK && k < some.n; k++) {
            if (some.items[k].begin != marks->items[k].begin || some.items[k].end != marks->items[k].end) st = PAWL_EINVAL;
            if (k >= known) owner[k] = i;
        }
        if (st == PAWL_OK) known = some.n;
    }
    for (; known < marks->n; known++) owner[known] = last;
    free(some.items);
    buf_free(&text);
    return st;
}

/* By the template's own marks: one for each turn of the assistant, or as many as the texts up to each turn have. */
static enum pawl_status spans_by_marks(struct chat_text *out, const struct rendering *r, const struct jinja_marks *marks, struct err *err)
{
    const struct json_value *messages = r->in->messages;
    size_t turns = 0, done = 0, place = 0, *owner = xcalloc(marks->n + 1, sizeof *owner);
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < messages->len; i++) {
        if (!is_assistant(&messages->items[i])) continue;
        if (turns < marks->n) owner[turns] = i;
        turns++;
    }
    if (marks->n != turns &&
        (turns == 0 || (owners_by_prefixes(owner, r, marks, true, err) != PAWL_OK && owners_by_prefixes(owner, r, marks, false, err) != PAWL_OK))) {
        st = err_set(err, PAWL_EINVAL, "the template marks %zu turns with {%% generation %%}, the conversation has %zu of the assistant: which is which can't be told",
                     marks->n, turns);
        goto done;
    }
    for (size_t k = 0; k < marks->n; k++) {
        size_t begin = marks->items[k].begin, end = marks->items[k].end, i = owner[k], eot = content_end(r, i, begin, end);
        if (i >= done) find_contents(out, r, done, i, place, begin);
        while (eot < end && blank(r->text[eot])) eot++;
        add_span(out, (struct chat_span){.begin = begin, .eot = eot, .end = end, .message = i, .role = role_of(&messages->items[i]), .assistant = true});
        done = i + 1;
        place = end;
    }
    find_contents(out, r, done, messages->len, place, out->text.len);
done:
    free(owner);
    return st;
}

static bool begins_with(const struct buf *text, const struct buf *prefix)
{
    return prefix->len <= text->len && (prefix->len == 0 || memcmp(text->data, prefix->data, prefix->len) == 0);
}

/* What the model sees before turn i, and that with the turn. A template that can't render the prefix alone (it wants a user first) begins the turn where
 * its content stands. */
static enum pawl_status turn_bounds(const struct chat_template *t, const struct chat_input *in, size_t i, struct buf *before, struct buf *with, struct err *err)
{
    struct err why = {0};
    const char *content;
    size_t len;

    before->len = with->len = 0;
    enum pawl_status st = render(t, in, i + 1, false, with, NULL, err);
    if (st != PAWL_OK) return st;
    if (render(t, in, i, true, before, NULL, &why) == PAWL_OK && begins_with(with, before)) return PAWL_OK;
    /* Without its generation prompt, for templates that have an odd one; the header of the turn is part of it then, up to the content. */
    struct rendering upto = {t, in, i + 1, with->data, with->len};
    size_t begin, end;
    const char *hit = NULL;
    if (content_of(&in->messages->items[i], &content, &len)) {
        if (content_place(&upto, i, &begin, &end)) hit = with->data + begin;
        else if (len >= SURE) /* a shorter one may stand in a header or an end-of-turn token as well */
            for (const char *next = memmem(with->data, with->len, content, len); next != NULL; next = memmem(next + 1, with->len - (size_t)(next + 1 - with->data), content, len)) hit = next;
    }
    if (hit == NULL)
        return err_set(err, PAWL_EINVAL, "message %zu: where the assistant's turn begins can't be told: %s", i + 1,
                       why.status != PAWL_OK ? why.text : "the text with it does not begin with the text before it");
    before->len = 0;
    buf_add(before, with->data, (size_t)(hit - with->data));
    return PAWL_OK;
}

enum pawl_status chat_render_spans(const struct chat_template *t, const struct chat_input *in, struct chat_text *out, struct err *err)
{
    struct jinja_marks marks = {0};
    struct buf before = {0}, with = {0};
    size_t done = 0, place = 0;

    out->text.len = out->n = 0;
    out->rewrites_history = false;
    enum pawl_status st = check_messages(in, err);
    if (st == PAWL_OK) st = render(t, in, in->messages->len, false, &out->text, &marks, err);
    if (st != PAWL_OK) goto done;
    struct rendering whole = {t, in, in->messages->len, out->text.data, out->text.len};
    if (jinja_has_generation(t->jinja)) {
        st = spans_by_marks(out, &whole, &marks, err);
        goto done;
    }
    for (size_t i = 0; i < in->messages->len; i++) {
        if (!is_assistant(&in->messages->items[i])) continue;
        if ((st = turn_bounds(t, in, i, &before, &with, err)) != PAWL_OK) goto done;
        struct rendering upto = {t, in, i + 1, with.data, with.len};
        struct chat_span span = assistant_span(&upto, i, before.len, with.len);
        /* Behind its end-of-turn token a turn need not be the same: nothing of that is learned. */
        with.len = span.end;
        if (!begins_with(&out->text, &with) || before.len < place) {
            out->rewrites_history = true;
            out->n = 0;
            goto done;
        }
        find_contents(out, &whole, done, i, place, before.len);
        add_span(out, span);
        done = i + 1;
        place = span.end;
    }
    find_contents(out, &whole, done, in->messages->len, place, out->text.len);
done:
    free(marks.items);
    buf_free(&before);
    buf_free(&with);
    return st;
}

enum pawl_status chat_render_turn(const struct chat_template *t, const struct chat_input *in, size_t message, struct chat_text *out, struct err *err)
{
    struct buf before = {0};

    out->text.len = out->n = 0;
    out->rewrites_history = false;
    enum pawl_status st = check_messages(in, err);
    if (st == PAWL_OK && (message >= in->messages->len || !is_assistant(&in->messages->items[message])))
        st = err_set(err, PAWL_EINVAL, "message %zu is no turn of the assistant", message + 1);
    if (st == PAWL_OK) st = turn_bounds(t, in, message, &before, &out->text, err);
    struct rendering upto = {t, in, message + 1, out->text.data, out->text.len};
    if (st == PAWL_OK) add_span(out, assistant_span(&upto, message, before.len, out->text.len));
    buf_free(&before);
    return st;
}
