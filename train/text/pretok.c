#include "train/text/pretok.h"

#include "train/text/decode.h"
#include "train/text/unicode.h"

#include <stdlib.h>
#include <string.h>

static struct pretok_step *add(struct pretok *p, enum pretok_kind kind)
{
    p->steps = xreallocarray(p->steps, p->n + 1, sizeof *p->steps);
    p->steps[p->n] = (struct pretok_step){.kind = kind};
    return &p->steps[p->n++];
}

void pretok_add_scanner(struct pretok *p, struct scanner s)
{
    add(p, PRETOK_SCAN)->scanner = s;
}

enum pawl_status pretok_add_regex(struct pretok *p, const char *pattern, size_t len, struct err *err)
{
    struct scanner s;
    struct regex *r = NULL;

    if (scanner_of_pattern(&s, pattern, len)) {
        pretok_add_scanner(p, s);
        return PAWL_OK;
    }
    enum pawl_status st = regex_compile(&r, pattern, len, err);
    if (st == PAWL_OK) add(p, PRETOK_REGEX)->regex = r;
    return st;
}

void pretok_free(struct pretok *p)
{
    for (size_t i = 0; i < p->n; i++) {
        regex_free(p->steps[i].regex);
        free(p->steps[i].string);
    }
    free(p->steps);
    *p = (struct pretok){0};
}

/* ---- reading ---- */

static enum pawl_status unknown(struct err *err, const char *what, const char *name)
{
    return err_set(err, PAWL_EINVAL, "pre_tokenizer: %s %s is not supported", what, name);
}

static enum pawl_status read_behavior(const struct json_value *v, enum pretok_behavior *out, struct err *err)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = json_string(json_get(v, "behavior"), "Isolated");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum pretok_behavior)i;
            return PAWL_OK;
        }
    return unknown(err, "behavior", name);
}

static enum pawl_status read_split(struct pretok *out, const struct json_value *v, struct err *err)
{
    const struct json_value *pattern = json_get(v, "pattern"), *regex = json_get(pattern, "Regex"), *string = json_get(pattern, "String");
    bool invert = json_bool(json_get(v, "invert"), false);
    enum pretok_behavior behavior;

    enum pawl_status st = read_behavior(v, &behavior, err);
    if (st != PAWL_OK) return st;
    if (regex != NULL && regex->type == JSON_STRING) {
        st = pretok_add_regex(out, regex->text, regex->len, err);
        if (st != PAWL_OK) return st;
        struct pretok_step *s = &out->steps[out->n - 1];
        if (s->kind == PRETOK_SCAN) {
            /* A scanner leaves no gaps: kept apart, matches are the words; inverted and removed is the same. */
            if ((behavior == PRETOK_ISOLATED && !invert) || (behavior == PRETOK_REMOVED && invert)) return PAWL_OK;
            st = regex_compile(&s->regex, regex->text, regex->len, err);
            if (st != PAWL_OK) return st;
            s->kind = PRETOK_REGEX;
        }
    } else if (string != NULL && string->type == JSON_STRING && string->len > 0) {
        struct pretok_step *s = add(out, PRETOK_STRING);
        s->string = xstrndup(string->text, string->len);
        s->string_len = string->len;
    } else {
        return err_set(err, PAWL_EINVAL, "pre_tokenizer: Split needs a pattern, {\"Regex\": ...} or {\"String\": ...}");
    }
    out->steps[out->n - 1].behavior = behavior;
    out->steps[out->n - 1].invert = invert;
    return PAWL_OK;
}

static enum pawl_status read_metaspace(struct pretok *out, const struct json_value *v, struct err *err)
{
    struct pretok_step *s = add(out, PRETOK_METASPACE);
    const struct json_value *replacement = json_get(v, "replacement");
    const char *scheme = json_string(json_get(v, "prepend_scheme"), json_bool(json_get(v, "add_prefix_space"), true) ? "always" : "never");

    s->string = xstrdup(json_string(replacement, "\xe2\x96\x81"));
    s->string_len = strlen(s->string);
    s->split = json_bool(json_get(v, "split"), true);
    if (strcmp(scheme, "always") == 0) s->prepend = PRETOK_ALWAYS;
    else if (strcmp(scheme, "first") == 0) s->prepend = PRETOK_FIRST;
    else if (strcmp(scheme, "never") == 0) s->prepend = PRETOK_NEVER;
    else return unknown(err, "prepend_scheme", scheme);
    return PAWL_OK;
}

static void add_class(struct pretok *out, unsigned classes, enum pretok_behavior behavior)
{
    struct pretok_step *s = add(out, PRETOK_CLASS);

    s->classes = classes;
    s->behavior = behavior;
}

/* The pre-tokenizers that cut without changing the text. */
static enum pawl_status read_cutter(struct pretok *out, const struct json_value *v, const char *type, struct err *err)
{
    if (strcmp(type, "Split") == 0) return read_split(out, v, err);
    if (strcmp(type, "Digits") == 0) {
        add_class(out, UC_NUMBER, json_bool(json_get(v, "individual_digits"), false) ? PRETOK_ISOLATED : PRETOK_CONTIGUOUS);
        return PAWL_OK;
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        add_class(out, UC_SPACE, PRETOK_REMOVED);
        return PAWL_OK;
    }
    if (strcmp(type, "Whitespace") == 0) {
        /* \w of Rust: joiners are part of words, digits that are raised or halves are not */
        static const char words[] = "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}\\x{200c}\\x{200d}]+|"
                                    "[^\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}\\x{200c}\\x{200d}\\s]+";
        enum pawl_status st = pretok_add_regex(out, words, sizeof words - 1, err);
        if (st != PAWL_OK) return st;
        out->steps[out->n - 1].behavior = PRETOK_REMOVED;
        out->steps[out->n - 1].invert = true;
        return PAWL_OK;
    }
    if (strcmp(type, "Punctuation") == 0) {
        add_class(out, UC_DELIMITER, PRETOK_ISOLATED);
        return read_behavior(v, &out->steps[out->n - 1].behavior, err);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        struct pretok_step *s = add(out, PRETOK_STRING);
        s->string = xstrdup(json_string(json_get(v, "delimiter"), " "));
        s->string_len = strlen(s->string);
        s->behavior = PRETOK_REMOVED;
        return s->string_len > 0 ? PAWL_OK : unknown(err, "empty", "delimiter");
    }
    return unknown(err, "type", type);
}

enum pawl_status pretok_from_json(struct pretok *out, const struct json_value *v, bool *byte_level, struct err *err)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

    if (v == NULL || v->type == JSON_NULL) return PAWL_OK;
    const char *type = json_string(json_get(v, "type"), "(none)");
    if (strcmp(type, "Sequence") == 0) {
        const struct json_value *list = json_get(v, "pretokenizers");
        for (size_t i = 0; json_at(list, i) != NULL; i++) {
            enum pawl_status st = pretok_from_json(out, json_at(list, i), byte_level, err);
            if (st != PAWL_OK) return st;
        }
        return PAWL_OK;
    }
    bool behind = *byte_level;
    size_t before = out->n;
    if (behind && (strcmp(type, "ByteLevel") == 0 || strcmp(type, "Metaspace") == 0)) return unknown(err, "ByteLevel before", type);
    if (strcmp(type, "ByteLevel") == 0) {
        *byte_level = true;
        if (json_bool(json_get(v, "add_prefix_space"), true)) add(out, PRETOK_PREFIX_SPACE);
        if (json_bool(json_get(v, "use_regex"), true)) return pretok_add_regex(out, gpt2, sizeof gpt2 - 1, err);
        return PAWL_OK;
    }
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(out, v, err);
    enum pawl_status st = read_cutter(out, v, type, err);
    for (size_t i = before; i < out->n; i++) out->steps[i].on_bytes = behind;
    return st;
}

/* ---- working ---- */

/* The cuts that a step makes within one span. `start` is where the word that is being collected begins. */
struct cutter {
    const struct pretok_step *step;
    struct piece *piece;
    size_t start;
    bool last_was_delimiter;
};

static void segment(struct cutter *c, size_t begin, size_t end, bool delimiter)
{
    if (begin == end) return;
    delimiter ^= c->step->invert;
    switch (c->step->behavior) {
    case PRETOK_ISOLATED:
        piece_cut(c->piece, begin, end);
        break;
    case PRETOK_REMOVED:
        if (!delimiter) piece_cut(c->piece, begin, end);
        break;
    case PRETOK_CONTIGUOUS:
        if (delimiter != c->last_was_delimiter) {
            piece_cut(c->piece, c->start, begin);
            c->start = begin;
        }
        break;
    case PRETOK_MERGED_WITH_PREVIOUS: /* a delimiter ends a word, together with other text before it; after another delimiter it stands alone */
        if (delimiter && !c->last_was_delimiter) {
            piece_cut(c->piece, c->start, end);
            c->start = end;
        } else if (delimiter) {
            piece_cut(c->piece, begin, end);
            c->start = end;
        }
        break;
    case PRETOK_MERGED_WITH_NEXT: /* a delimiter begins a word with the text behind it; before another delimiter it stands alone */
        if (delimiter) {
            piece_cut(c->piece, c->start, begin);
            c->start = begin;
        } else if (!c->last_was_delimiter) {
            piece_cut(c->piece, c->start, begin);
            c->start = begin;
        }
        break;
    }
    c->last_was_delimiter = delimiter;
}

static enum pawl_status split_span(const struct pretok_step *s, struct regex_search *search, struct piece *p, struct piece_span span, struct err *err)
{
    struct cutter c = {.step = s, .piece = p, .start = span.begin};
    const char *text = p->text + span.begin;
    size_t len = span.end - span.begin, done = 0, at = 0;

    if (s->kind == PRETOK_REGEX) {
        search->text = text;
        search->len = len;
    }
    while (at < len) {
        size_t begin = len, end = len;
        bool found = false;

        if (s->kind == PRETOK_REGEX) {
            enum pawl_status st = regex_search_next(search, at, &found, &begin, &end, err);
            if (st != PAWL_OK) return st;
        } else if (s->kind == PRETOK_STRING) {
            const char *hit = memmem(text + at, len - at, s->string, s->string_len);
            if (hit != NULL) {
                found = true;
                begin = (size_t)(hit - text);
                end = begin + s->string_len;
            }
        } else {
            int n = 1;
            for (begin = at; begin < len; begin += (size_t)n)
                if (unicode_class_at(text, len, begin, &n) & s->classes) break;
            found = begin < len;
            end = found ? begin + (size_t)n : len;
        }
        if (!found) break;
        if (begin == end) { /* an empty match cuts here, and the search goes on behind the next character */
            int n;
            segment(&c, span.begin + done, span.begin + begin, false);
            done = begin;
            if (begin >= len) break;
            unicode_class_at(text, len, begin, &n);
            at = begin + (size_t)n;
            continue;
        }
        segment(&c, span.begin + done, span.begin + begin, false);
        segment(&c, span.begin + begin, span.begin + end, true);
        done = at = end;
    }
    segment(&c, span.begin + done, span.end, false);
    if (s->behavior >= PRETOK_MERGED_WITH_PREVIOUS) piece_cut(p, c.start, span.end);
    return PAWL_OK;
}

static void scan(const struct pretok_step *s, struct piece *p)
{
    for (size_t i = 0; i < p->n_spans; i++) {
        struct piece_span span = p->spans[i];
        const char *text = p->text + span.begin;
        size_t len = span.end - span.begin;
        for (size_t at = 0, end; at < len; at = end) {
            end = scanner_next(&s->scanner, text, len, at);
            piece_cut(p, span.begin + at, span.begin + end);
        }
    }
    piece_commit_spans(p);
}

static void prefix_space(struct piece *p)
{
    bool any = false;

    for (size_t i = 0; i < p->n_spans && !any; i++) any = p->text[p->spans[i].begin] != ' ';
    if (!any) return;
    for (size_t i = 0; i < p->n_spans; i++) {
        struct piece_span span = p->spans[i];
        size_t begin = p->next_text.len;
        if (p->text[span.begin] != ' ') piece_put(p, " ", 1, span.begin);
        piece_keep(p, span.begin, span.end);
        piece_cut(p, begin, p->next_text.len);
    }
    piece_commit_text(p);
}

/* Spaces become the replacement, one is put in front, and each may begin a word. */
static void metaspace(const struct pretok_step *s, struct piece *p, size_t first)
{
    for (size_t i = 0; i < p->n_spans; i++) {
        struct piece_span span = p->spans[i];
        const char *text = p->text + span.begin;
        size_t len = span.end - span.begin, begin = p->next_text.len;
        bool starts = text[0] == ' ' || (len >= s->string_len && memcmp(text, s->string, s->string_len) == 0);

        if (!starts && (s->prepend == PRETOK_ALWAYS || (s->prepend == PRETOK_FIRST && piece_origin(p, span.begin) < first)))
            piece_put(p, s->string, s->string_len, span.begin);
        for (size_t k = 0; k < len;) {
            bool space = text[k] == ' ', mark = len - k >= s->string_len && memcmp(text + k, s->string, s->string_len) == 0;
            if ((space || mark) && s->split) {
                piece_cut(p, begin, p->next_text.len);
                begin = p->next_text.len;
            }
            size_t n = mark ? s->string_len : 1;
            if (space) piece_put(p, s->string, s->string_len, span.begin + k);
            else piece_keep(p, span.begin + k, span.begin + k + n);
            k += n;
        }
        piece_cut(p, begin, p->next_text.len);
    }
    piece_commit_text(p);
}

static enum pawl_status cut(const struct pretok_step *s, struct piece *p, struct err *err)
{
    struct regex_search search = {0};
    enum pawl_status st = PAWL_OK;

    if (s->kind == PRETOK_SCAN) {
        scan(s, p);
        return PAWL_OK;
    }
    if (s->kind == PRETOK_REGEX) regex_search_begin(&search, s->regex, p->text, p->len);
    for (size_t i = 0; i < p->n_spans && st == PAWL_OK; i++) st = split_span(s, &search, p, p->spans[i], err);
    if (s->kind == PRETOK_REGEX) regex_search_end(&search);
    if (st == PAWL_OK) piece_commit_spans(p);
    else p->n_next = 0;
    return st;
}

/* Cuts the text as bytes are written behind ByteLevel, span by span, and takes the cuts back to the bytes. */
static enum pawl_status cut_bytes(const struct pretok_step *s, struct piece *p, struct err *err)
{
    struct piece written = {0};
    struct buf text = {0};
    uint32_t *byte_of = NULL; /* by byte of the written text */
    enum pawl_status st = PAWL_OK;

    for (size_t i = 0; i < p->n_spans && st == PAWL_OK; i++) {
        struct piece_span span = p->spans[i];
        byte_of = xreallocarray(byte_of, 2 * (span.end - span.begin) + 1, sizeof *byte_of);
        text.len = 0;
        for (uint32_t k = span.begin; k < span.end; k++) {
            char utf8[4];
            int n = decode_char_of_byte((unsigned char)p->text[k], utf8);
            for (int c = 0; c < n; c++) byte_of[text.len + (size_t)c] = k;
            buf_add(&text, utf8, (size_t)n);
        }
        byte_of[text.len] = span.end;
        piece_begin(&written, text.data, text.len);
        st = cut(s, &written, err);
        for (size_t k = 0; k < written.n_spans && st == PAWL_OK; k++) piece_cut(p, byte_of[written.spans[k].begin], byte_of[written.spans[k].end]);
    }
    if (st == PAWL_OK) piece_commit_spans(p);
    else p->n_next = 0;
    piece_free(&written);
    buf_free(&text);
    free(byte_of);
    return st;
}

enum pawl_status pretok_apply(const struct pretok *t, struct piece *p, size_t first, struct err *err)
{
    enum pawl_status st = PAWL_OK;

    for (size_t k = 0; k < t->n && st == PAWL_OK; k++) {
        const struct pretok_step *s = &t->steps[k];
        if (s->kind == PRETOK_PREFIX_SPACE) prefix_space(p);
        else if (s->kind == PRETOK_METASPACE) metaspace(s, p, first);
        else st = s->on_bytes ? cut_bytes(s, p, err) : cut(s, p, err);
    }
    return st;
}
