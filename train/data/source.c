#include "train/data/source.h"

#include "kernels/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define BUFFER (256 << 10)

enum mode { LINES, ARRAY, ARRAY_ENDED };

struct source {
    const struct files *files;
    size_t next;          /* file to open */
    gzFile gz;            /* NULL between files */
    const char *path;
    enum mode mode;
    bool first;           /* no element of the array was read yet */
    int64_t line;
    char *data;
    size_t pos, len;
    bool end;             /* nothing behind data */
    double total, before; /* bytes of all files, of those done */
    double *size;         /* of each file */
};

/* --- bytes */

static enum pawl_status refill(struct source *s, struct err *err)
{
    int code, n;
    const char *text;

    if (s->end) return PAWL_OK;
    errno = 0;
    n = gzread(s->gz, s->data, BUFFER);
    text = gzerror(s->gz, &code);
    s->pos = 0;
    s->len = n > 0 ? (size_t)n : 0;
    if (n > 0) return PAWL_OK;
    s->end = true;
    if (code == Z_BUF_ERROR) return err_set(err, PAWL_EFORMAT, "%s: the gzip stream ends in its middle, behind line %lld: the download was cut short?", s->path, (long long)s->line);
    if (code == Z_ERRNO) return err_sys(err, "%s: cannot be read", s->path);
    if (n < 0) return err_set(err, PAWL_EFORMAT, "%s: damaged gzip stream behind line %lld (%s)", s->path, (long long)s->line, text);
    return PAWL_OK;
}

/* The next byte, not taken; -1 at the end of the file or on failure (then *st says so). */
static int peek(struct source *s, enum pawl_status *st, struct err *err)
{
    if (s->pos == s->len && *st == PAWL_OK) *st = refill(s, err);
    return s->pos < s->len && *st == PAWL_OK ? (unsigned char)s->data[s->pos] : -1;
}

static bool is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next byte that is no white space, not taken. */
static int skip_space(struct source *s, enum pawl_status *st, struct err *err)
{
    int c;

    while (is_space(c = peek(s, st, err))) {
        s->line += c == '\n';
        s->pos++;
    }
    return c;
}

/* --- files */

static enum pawl_status next_file(struct source *s, struct err *err)
{
    enum pawl_status st = PAWL_OK;

    s->path = s->files->path[s->next];
    if ((s->gz = gzopen(s->path, "rb")) == NULL) return err_sys(err, "%s: cannot be opened", s->path);
    s->next++;
    gzbuffer(s->gz, 128 << 10);
    s->pos = s->len = 0;
    s->end = false;
    s->line = 1;
    if ((st = refill(s, err)) != PAWL_OK) return st;
    if ((st = files_check_format(s->path, (const unsigned char *)s->data, s->len, err)) != PAWL_OK) return st;
    if (s->len >= 3 && !memcmp(s->data, "\xef\xbb\xbf", 3)) s->pos = 3;
    s->mode = skip_space(s, &st, err) == '[' ? ARRAY : LINES;
    s->first = true;
    if (s->mode == ARRAY) s->pos++;
    return st;
}

static void end_file(struct source *s)
{
    if (!s->gz) return;
    gzclose_r(s->gz);
    s->gz = NULL;
    s->before += s->size[s->next - 1];
}

enum pawl_status source_open(struct source **out, const struct files *files, struct err *err)
{
    struct source *s = xcalloc(1, sizeof *s);

    s->files = files;
    s->data = xmalloc(BUFFER);
    s->size = xcalloc(files->n ? files->n : 1, sizeof *s->size);
    for (size_t i = 0; i < files->n; i++) {
        struct stat info;

        if (stat(files->path[i], &info) != 0) {
            source_close(s);
            return err_sys(err, "%s: cannot be examined", files->path[i]);
        }
        s->size[i] = (double)info.st_size;
        s->total += s->size[i];
    }
    *out = s;
    return PAWL_OK;
}

void source_close(struct source *s)
{
    if (!s) return;
    if (s->gz) gzclose_r(s->gz);
    free(s->data);
    free(s->size);
    free(s);
}

double source_progress(const struct source *s)
{
    double done = s->before + (s->gz ? (double)gzoffset(s->gz) : 0);

    return s->total > 0 && done < s->total ? done / s->total : 1;
}

/* --- records */

static struct source_record *begin_record(struct source *s, struct source_chunk *c)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->record = xreallocarray(c->record, c->cap, sizeof *c->record);
    }
    c->record[c->n] = (struct source_record){.at = c->text.len, .line = s->line};
    return &c->record[c->n];
}

/* Adds bytes to the record at the end of c, unless it became too long. */
static void extend(struct source_chunk *c, struct source_record *r, const char *data, size_t len)
{
    if (r->too_long) return;
    if (r->len + len > SOURCE_MAX_RECORD) {
        r->too_long = true;
        r->len = 0;
        c->text.len = r->at;
        return;
    }
    buf_add(&c->text, data, len);
    r->len += len;
}

/* One line; blank ones were skipped. */
static enum pawl_status read_line(struct source *s, struct source_chunk *c, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    struct source_record *r = begin_record(s, c);

    while (peek(s, &st, err) >= 0) {
        const char *from = s->data + s->pos, *newline = memchr(from, '\n', s->len - s->pos);
        size_t n = newline ? (size_t)(newline - from) : s->len - s->pos;

        extend(c, r, from, n);
        s->pos += n;
        if (newline) {
            s->pos++;
            s->line++;
            break;
        }
    }
    if (st == PAWL_OK) c->n++;
    return st;
}

/* One element, up to the comma or bracket behind it, which is not taken. Strings and depth are followed, the JSON reader checks the rest. */
static enum pawl_status read_element(struct source *s, struct source_chunk *c, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    struct source_record *r = begin_record(s, c);
    bool in_string = false, escaped = false, done = false;
    int64_t depth = 0;

    while (!done && peek(s, &st, err) >= 0) {
        size_t i = s->pos;

        for (; i < s->len; i++) {
            char ch = s->data[i];

            s->line += ch == '\n';
            if (in_string) {
                if (escaped) escaped = false;
                else if (ch == '\\') escaped = true;
                else if (ch == '"') in_string = false;
            } else if (ch == '"') {
                in_string = true;
            } else if (ch == '{' || ch == '[') {
                depth++;
            } else if (depth == 0 && (ch == ',' || ch == ']')) {
                done = true;
                break;
            } else if (ch == '}' || ch == ']') {
                depth--;
            }
        }
        extend(c, r, s->data + s->pos, i - s->pos);
        s->pos = i;
    }
    if (st != PAWL_OK) return st;
    if (!done) {
        return err_set(err, PAWL_EFORMAT, "%s:%lld: the JSON array ends within the element that begins in line %lld: the file was cut short?", s->path, (long long)s->line,
                       (long long)r->line);
    }
    c->n++;
    return PAWL_OK;
}

/* The separator in front of the next element of an array; *more is false at its end. */
static enum pawl_status read_separator(struct source *s, bool *more, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    int ch = skip_space(s, &st, err);

    if (st != PAWL_OK) return st;
    if (ch < 0) return err_set(err, PAWL_EFORMAT, "%s:%lld: the JSON array has no closing bracket: the file was cut short?", s->path, (long long)s->line);
    if (ch == ']') {
        s->mode = ARRAY_ENDED;
        s->pos++;
    } else if (!s->first) {
        s->pos++; /* the comma that ended the element before */
        ch = skip_space(s, &st, err);
    }
    s->first = false;
    *more = s->mode == ARRAY;
    if (st == PAWL_OK && *more && (ch == ',' || ch == ']')) {
        st = err_set(err, PAWL_EFORMAT, "%s:%lld: expected an element of the JSON array, found \"%c\"", s->path, (long long)s->line, ch);
    }
    return st;
}

/* One record; false in *more where the file has none left. */
static enum pawl_status read_record(struct source *s, struct source_chunk *c, bool *more, struct err *err)
{
    enum pawl_status st = PAWL_OK;

    *more = true;
    if (s->mode == ARRAY) {
        st = read_separator(s, more, err);
        if (st != PAWL_OK) return st;
        if (*more) return read_element(s, c, err);
    }
    if (skip_space(s, &st, err) < 0) {
        *more = false;
        return st;
    }
    if (s->mode == ARRAY_ENDED) return err_set(err, PAWL_EFORMAT, "%s:%lld: text behind the end of the JSON array", s->path, (long long)s->line);
    return read_line(s, c, err);
}

enum pawl_status source_next(struct source *s, struct source_chunk *c, struct err *err)
{
    enum pawl_status st;

    c->n = c->text.len = 0;
    for (;;) {
        bool more = true;

        if (!s->gz) {
            if (s->next == s->files->n) return PAWL_OK;
            if ((st = next_file(s, err)) != PAWL_OK) return st;
        }
        c->file = (int)s->next - 1;
        while (more && c->text.len < SOURCE_CHUNK) {
            if ((st = read_record(s, c, &more, err)) != PAWL_OK) return st;
        }
        if (!more) end_file(s);
        if (c->n) return PAWL_OK;
    }
}

void source_chunk_free(struct source_chunk *c)
{
    buf_free(&c->text);
    free(c->record);
    *c = (struct source_chunk){0};
}

uint64_t source_chunk_hash(const struct source_chunk *c)
{
    uint64_t h = hash64(c->n, c->text.data, c->text.len);

    for (size_t i = 0; i < c->n; i++) {
        uint64_t words[] = {(uint64_t)c->record[i].line, c->record[i].at, c->record[i].too_long};

        h = hash64(h, words, sizeof words);
    }
    return h;
}
