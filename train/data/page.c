#include "train/data/page.h"

#include "kernels/base/utf8.h"

#include <string.h>

const char page_style[] =
    ":root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--faint:#6b7178;--line:#d5d9de;--bar:#5b8db8;--learned:#c9eccb;--learned-line:#2c7a36;--warn:#9a6700;--bad:#b42318}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e3e5e8;--paper:#15171a;--faint:#959ba3;--line:#3a3f46;--bar:#4f81ad;--learned:#1d4424;--learned-line:#6cc47a;--warn:#e0b040;--bad:#ff8a80}}\n"
    "body{margin:2rem auto;max-width:70rem;padding:0 1rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}\n"
    "table{border-collapse:collapse}td,th{padding:.1rem .8rem .1rem 0;text-align:left;vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".bar{display:inline-block;height:.8em;background:var(--bar)}.faint{color:var(--faint)}.bad{color:var(--bad)}.warn{color:var(--warn)}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--line);border-radius:4px;padding:.6rem;font:13px/1.7 ui-monospace,monospace}\n"
    ".t{border-left:1px solid var(--line);padding:1px 0}.t:hover{outline:1px solid var(--ink)}.s{background:var(--learned);border-bottom:2px solid var(--learned-line)}.e::before{content:'\\00b7';color:var(--faint)}\n"
    ".x{color:var(--faint)}\n";

/* ---- text ---- */

/* Control characters, and those that would turn the text around them or hide in it. */
static bool unseen(uint32_t cp)
{
    return (cp < 0x20 && cp != '\n') || (cp >= 0x7f && cp < 0xa0) || cp == 0xad || (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
           (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff;
}

static const char *entity(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* In an element unseen characters are faint; an attribute has no elements. */
static void add_text(struct buf *out, const char *s, size_t len, bool element)
{
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp = 0;
        const char *name = entity(s[i]);

        n = (size_t)utf8_decode(s + i, len - i, &cp);
        if (n == 0) { /* not UTF-8 */
            n = 1;
            buf_addf(out, "\\x%02x", (unsigned char)s[i]);
        } else if (name != NULL) {
            buf_adds(out, name);
        } else if (cp == '\n' && element) {
            buf_adds(out, "<span class=\"x\">\u21b5</span>\n");
        } else if (unseen(cp) || cp == '\n') {
            buf_addf(out, element ? "<span class=\"x\">\\%c%0*x</span>" : "\\%c%0*x", cp < 0x100 ? 'x' : 'u', cp < 0x100 ? 2 : 4, cp);
        } else {
            buf_add(out, s + i, n);
        }
    }
}

void page_text(struct buf *out, const char *s, size_t len)
{
    add_text(out, s, len, false);
}

static void add_string(struct buf *out, const char *s)
{
    page_text(out, s, strlen(s));
}

/* ---- counts, lengths, findings ---- */

static void add_count(struct buf *out, const char *name, int64_t n)
{
    buf_addf(out, "<tr><th>%s</th><td class=\"n\">%lld</td></tr>\n", name, (long long)n);
}

static void add_counts(struct buf *out, const struct dataset *d)
{
    const struct dataset_counts *c = dataset_counts(d);

    buf_adds(out, "<table>\n");
    add_count(out, "examples", c->examples);
    add_count(out, "tokens", c->tokens);
    buf_addf(out, "<tr><th>supervised</th><td class=\"n\">%lld</td><td class=\"faint\">%.1f%%</td></tr>\n", (long long)c->supervised,
             c->tokens ? 100.0 * (double)c->supervised / (double)c->tokens : 0);
    if (c->lines > 0) { /* else it was split off, and its records are counted elsewhere */
        add_count(out, "records", c->lines);
        add_count(out, "dropped", c->dropped);
        add_count(out, "truncated", c->truncated);
        add_count(out, "empty masks", c->unsupervised);
        add_count(out, "bad lines", c->bad);
    }
    buf_adds(out, "</table>\n");
}

static void add_histogram(struct buf *out, const struct dataset *d)
{
    struct histogram h = dataset_histogram(d);
    int64_t most = 1;

    if (h.bars == 0) return;
    for (int i = 0; i < h.bars; i++) most = h.count[i] > most ? h.count[i] : most;
    buf_addf(out, "<h3>Lengths in tokens, the longest has %d</h3>\n<table>\n", h.longest);
    for (int i = 0; i < h.bars; i++) {
        buf_addf(out, "<tr><td class=\"n\">%d\u2013%d</td><td class=\"n\">%lld</td><td><span class=\"bar\" style=\"width:%.1fem\"></span></td></tr>\n", h.first + i * h.width,
                 h.first + (i + 1) * h.width - 1, (long long)h.count[i], 30.0 * (double)h.count[i] / (double)most);
    }
    buf_adds(out, "</table>\n");
}

static void add_findings(struct buf *out, const struct findings *f)
{
    bool any = false;

    for (int k = 0; k < FINDING_KINDS; k++) {
        const struct finding_info *info = &finding_info[k];
        struct buf places = {0};

        if (f->count[k] == 0) continue;
        if (!any) buf_adds(out, "<h3>What looks wrong</h3>\n<table>\n");
        any = true;
        finding_places(f, (enum finding)k, &places);
        buf_addf(out, "<tr><td class=\"%s\">%s</td><td class=\"n\">%lld</td><td>", info->error ? "bad" : "warn", info->error ? "error" : "warning", (long long)f->count[k]);
        add_string(out, info->what);
        buf_adds(out, "<br><span class=\"faint\">at ");
        add_string(out, places.data);
        buf_adds(out, "</span><br>");
        add_string(out, info->meaning);
        buf_adds(out, "; ");
        add_string(out, info->advice);
        buf_adds(out, "</td></tr>\n");
        buf_free(&places);
    }
    buf_adds(out, any ? "</table>\n" : "<p>Nothing looks wrong.</p>\n");
}

static void add_rows(struct buf *out, const struct rows *r)
{
    buf_addf(out, "<p>%u rows", r->count);
    if (r->opt.packing) buf_addf(out, " of %lld tokens, %.1f%% full", (long long)r->opt.sequence_len, 100 * rows_fill(r));
    else buf_adds(out, ", one example each");
    buf_addf(out, "; %lld steps of %lld rows an epoch, %lld in all.</p>\n", (long long)rows_steps_per_epoch(r), (long long)r->opt.global_batch, (long long)rows_total_steps(r));
}

/* ---- examples ---- */

static void add_token(struct buf *out, const struct tokenizer *t, int32_t id, bool supervised, const struct buf *text)
{
    size_t len;
    const char *name = tokenizer_name(t, id, &len);

    buf_addf(out, "<span class=\"t%s%s\" title=\"%d ", supervised ? " s" : "", text->len ? "" : " e", id);
    if (name != NULL) page_text(out, name, len);
    buf_adds(out, "\">");
    add_text(out, text->data ? text->data : "", text->len, true);
    buf_adds(out, "</span>");
}

static void add_example(struct buf *out, const struct page *p, const struct example *e)
{
    struct tokenizer_stream stream = {0};
    struct buf text = {0};
    int n = e->length < p->tokens ? e->length : p->tokens;

    buf_adds(out, "<h3>");
    add_string(out, e->file);
    buf_addf(out, " line %lld <span class=\"faint\">%d tokens, %d supervised</span></h3>\n<pre>", (long long)e->line, e->length, e->supervised);
    for (int i = 0; i < n; i++) {
        int32_t id = (int32_t)(e->tokens[i] & TOKEN_ID);

        text.len = 0;
        tokenizer_stream_push(p->tokenizer, &stream, id, 0, &text);
        if (i + 1 == n) tokenizer_stream_end(p->tokenizer, &stream, 0, &text);
        add_token(out, p->tokenizer, id, e->tokens[i] & TOKEN_SUPERVISED, &text);
    }
    if (n < e->length) buf_addf(out, " <span class=\"faint\">and %d more tokens</span>", e->length - n);
    buf_adds(out, "</pre>\n");
    buf_free(&text);
}

/* ---- the page ---- */

static void add_part(struct buf *out, const char *name, const struct dataset *d)
{
    buf_addf(out, "<h2>%s</h2>\n", name);
    add_counts(out, d);
    add_histogram(out, d);
    add_findings(out, dataset_findings(d));
}

void page_body(struct buf *out, const struct page *p)
{
    buf_adds(out, "<h1>");
    add_string(out, p->title);
    buf_adds(out, "</h1>\n");
    if (p->verdict != NULL) {
        buf_adds(out, "<p class=\"bad\">No run would start: ");
        add_string(out, p->verdict);
        buf_adds(out, "</p>\n");
    }
    if (p->rows != NULL) add_rows(out, p->rows);
    add_part(out, "Training", p->train);
    if (p->held_out != NULL) add_part(out, "Held out", p->held_out);
    if (p->examples > 0 && dataset_count(p->train) > 0) {
        buf_adds(out, "<h2>Examples</h2>\n<p class=\"faint\">Thin lines are borders of tokens; what is learned has a <span class=\"s\">ground and a line below</span>; a dot is a token that ends inside of a character. "
                      "Point at a token for its id and its name in the vocabulary.</p>\n");
    }
    for (int64_t i = 0; i < p->examples && i < (int64_t)dataset_count(p->train); i++) {
        struct example e = dataset_example(p->train, (size_t)i);
        add_example(out, p, &e);
    }
}

void page_document(struct buf *out, const struct page *p)
{
    buf_adds(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>");
    add_string(out, p->title);
    buf_addf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", page_style);
    page_body(out, p);
    buf_adds(out, "</body>\n</html>\n");
}
