#include "train/cli/cli.h"
#include "train/cli/commands.h"

#include "ckpt/fileio.h"
#include "ckpt/gguf.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"
#include "train/config/config.h"
#include "train/config/locate.h"
#include "train/data/batch.h"
#include "train/data/dataset.h"
#include "train/data/page.h"
#include "train/data/rows.h"
#include "train/data/show.h"
#include "train/model/spec.h"
#include "train/run/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BAR 40       /* columns of the longest bar of the histogram */
#define SHOWN 400    /* tokens of an example that are shown */
#define PAGE_SHOWN 4000 /* on a page */

/* What a run would train on. */
struct view {
    struct config *config;
    struct tokenizer *tokenizer;
    struct chat_template *chat;
    struct dataset *train, *held_out; /* held_out NULL: none */
    struct rows *rows;                /* NULL: no example is left */
    struct err verdict;               /* status PAWL_OK: fit for training */
};

static void view_close(struct view *v)
{
    rows_free(v->rows);
    dataset_free(v->train);
    dataset_free(v->held_out);
    chat_template_free(v->chat);
    tokenizer_close(v->tokenizer);
    config_free(v->config);
}

/* V of a model that train could read; 0: it can't tell, and then it is not checked. */
static int64_t embedding_rows(const char *model)
{
    struct model_spec spec = {0};
    struct gguf *gguf = NULL;
    struct json *json = NULL;
    struct stat info;
    char *path;
    int64_t V = 0;

    if (stat(model, &info) == 0 && S_ISDIR(info.st_mode)) {
        path = xasprintf("%s/config.json", model);
        if (json_parse_file(&json, path, NULL) == PAWL_OK && spec_from_hf(&spec, json_root(json), path, NULL) == PAWL_OK) V = spec.V;
        free(path);
        json_free(json);
    } else if (gguf_open(&gguf, model, NULL) == PAWL_OK) {
        if (spec_from_gguf(&spec, gguf, NULL) == PAWL_OK) V = spec.V;
        gguf_close(gguf);
    }
    return V;
}

static enum pawl_status open_model(struct view *v, int64_t *V, struct err *err)
{
    const struct config *c = v->config;
    char *path = NULL;
    enum pawl_status st = locate(&path, c->base_model, LOCATE_MODEL, NULL, err);

    if (st != PAWL_OK) return st;
    *V = embedding_rows(path);
    if ((st = base_tokenizer(&v->tokenizer, path, *V, c, err)) == PAWL_OK) st = base_template(&v->chat, path, c->chat_template, c->chat_template_jinja, err);
    free(path);
    return st;
}

static enum pawl_status view_open(struct view *v, const char *file, const struct cli_list *sets, struct err *err)
{
    struct dataset_options opt;
    struct rows_options ropt;
    char *cache = dataset_cache_dir();
    int64_t V;
    enum pawl_status st;

    if ((st = config_load(&v->config, file, sets->at, sets->n, err)) != PAWL_OK) goto done;
    if ((st = config_fix_batch(v->config, 1, 0, err)) != PAWL_OK) goto done;
    if ((st = open_model(v, &V, err)) != PAWL_OK) goto done;
    opt = dataset_options(v->config);
    opt.tokenizer = v->tokenizer;
    opt.chat = v->chat;
    opt.vocab = V;
    opt.cache_dir = cache;
    opt.quiet = opt.inspect = true;
    if ((st = dataset_open(&v->train, v->config->datasets, v->config->ndatasets, &opt, err)) != PAWL_OK) goto done;
    if (v->config->ntest_datasets) st = dataset_open(&v->held_out, v->config->test_datasets, v->config->ntest_datasets, &opt, err);
    else if (v->config->val_set_size > 0 && dataset_count(v->train)) st = dataset_split(v->train, &v->held_out, v->config->val_set_size, err);
    if (st != PAWL_OK) goto done;
    if (v->held_out) dataset_compare(v->train, v->held_out, true);
    if (dataset_verdict(v->train, &v->verdict) == PAWL_OK && v->held_out) dataset_verdict(v->held_out, &v->verdict);
    ropt = rows_options(v->config);
    if (dataset_count(v->train)) st = rows_build(&v->rows, v->train, &ropt, err);
done:
    free(cache);
    return st;
}

/* --- as JSON */

static void json_findings(struct buf *b, const struct findings *f)
{
    const char *between = "";

    buf_addc(b, '[');
    for (int k = 0; k < FINDING_KINDS; k++) {
        const struct finding_info *info = &finding_info[k];

        if (f->count[k] == 0) continue;
        buf_addf(b, "%s{\"name\":\"%s\",\"error\":%s,\"count\":%lld,\"places\":[", between, info->name, info->error ? "true" : "false", (long long)f->count[k]);
        for (int i = 0; i < FINDING_PLACES && i < f->count[k]; i++) {
            buf_adds(b, i ? ",{\"file\":" : "{\"file\":");
            json_add_string(b, f->place[k][i].file, strlen(f->place[k][i].file));
            buf_addf(b, ",\"line\":%lld}", (long long)f->place[k][i].line);
        }
        buf_adds(b, "],\"what\":");
        json_add_string(b, info->what, strlen(info->what));
        buf_adds(b, ",\"meaning\":");
        json_add_string(b, info->meaning, strlen(info->meaning));
        buf_adds(b, ",\"advice\":");
        json_add_string(b, info->advice, strlen(info->advice));
        buf_addc(b, '}');
        between = ",";
    }
    buf_addc(b, ']');
}

static void json_dataset(struct buf *b, const struct dataset *d)
{
    const struct dataset_counts *c = dataset_counts(d);
    struct histogram h = dataset_histogram(d);

    buf_addf(b, "\"records\":%lld,\"examples\":%lld,\"tokens\":%lld,\"supervised\":%lld,\"dropped\":%lld,\"truncated\":%lld,\"empty_masks\":%lld,\"bad_lines\":%lld,\"longest\":%d",
             (long long)c->lines, (long long)c->examples, (long long)c->tokens, (long long)c->supervised, (long long)c->dropped, (long long)c->truncated,
             (long long)c->unsupervised, (long long)c->bad, h.longest);
    buf_addf(b, ",\"hash\":\"%016llx\",\"lengths\":[", (unsigned long long)dataset_hash(d));
    for (int i = 0; i < h.bars; i++) {
        buf_addf(b, "%s{\"from\":%d,\"to\":%d,\"examples\":%lld}", i ? "," : "", i * h.width + 1, (i + 1) * h.width, (long long)h.count[i]);
    }
    buf_adds(b, "],\"findings\":");
    json_findings(b, dataset_findings(d));
}

static void print_json(const struct view *v)
{
    struct buf b = {0};

    buf_addc(&b, '{');
    json_dataset(&b, v->train);
    if (v->rows) {
        buf_addf(&b, ",\"rows\":%u,\"packing\":%s,\"fill\":", v->rows->count, v->rows->opt.packing ? "true" : "false");
        json_add_double(&b, rows_fill(v->rows));
        buf_addf(&b, ",\"global_batch_size\":%lld,\"steps_per_epoch\":%lld,\"steps\":%lld", (long long)v->rows->opt.global_batch, (long long)rows_steps_per_epoch(v->rows),
                 (long long)rows_total_steps(v->rows));
    }
    buf_adds(&b, ",\"held_out\":");
    if (v->held_out) {
        buf_addc(&b, '{');
        json_dataset(&b, v->held_out);
        buf_addc(&b, '}');
    } else {
        buf_adds(&b, "null");
    }
    buf_adds(&b, "}\n");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

/* --- for a person */

static void print_counts(const char *name, const struct dataset *d)
{
    const struct dataset_counts *c = dataset_counts(d);
    double share = c->tokens ? 100.0 * (double)c->supervised / (double)c->tokens : 0;

    printf("%-9s %lld examples, %lld tokens, %lld supervised (%.1f%%)\n", name, (long long)c->examples, (long long)c->tokens, (long long)c->supervised, share);
    if (c->lines == 0) return; /* split off: its records are counted above */
    printf("          of %lld records: dropped %lld, truncated %lld, empty masks %lld, bad lines %lld\n", (long long)c->lines, (long long)c->dropped, (long long)c->truncated, (long long)c->unsupervised,
           (long long)c->bad);
}

static void print_histogram(const struct dataset *d)
{
    struct histogram h = dataset_histogram(d);
    int64_t most = 1;

    for (int i = 0; i < h.bars; i++) most = h.count[i] > most ? h.count[i] : most;
    if (h.bars) printf("lengths   in tokens, the longest has %d\n", h.longest);
    for (int i = 0; i < h.bars; i++) {
        int n = (int)((h.count[i] * BAR + most - 1) / most);

        printf("  %6d..%-6d %-*.*s %lld\n", h.first + i * h.width, h.first + (i + 1) * h.width - 1, BAR, n, "########################################", (long long)h.count[i]);
    }
}

static void print_rows(const struct rows *r)
{
    if (r->opt.packing) printf("rows      %u of %lld tokens, %.1f%% full\n", r->count, (long long)r->opt.sequence_len, 100 * rows_fill(r));
    else printf("rows      %u, one example each\n", r->count);
    printf("steps     %lld of %lld rows an epoch, %lld in all\n", (long long)rows_steps_per_epoch(r), (long long)r->opt.global_batch, (long long)rows_total_steps(r));
}

static void print_findings(const char *of, const struct findings *f)
{
    for (int k = 0; k < FINDING_KINDS; k++) {
        struct buf places = {0};

        if (f->count[k] == 0) continue;
        finding_places(f, (enum finding)k, &places);
        printf("%-9s %s%s: %lld\n          at %s\n          %s; %s\n", finding_info[k].error ? "error:" : "warning:", of, finding_info[k].what, (long long)f->count[k], places.data,
               finding_info[k].meaning, finding_info[k].advice);
        buf_free(&places);
    }
}

static bool wants_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

static void print_examples(const struct view *v, int64_t n)
{
    bool colour = wants_colour();

    for (int64_t i = 0; i < n && i < (int64_t)dataset_count(v->train); i++) {
        struct example e = dataset_example(v->train, (size_t)i);
        struct buf b = {0};

        example_show(&b, &e, v->tokenizer, colour, SHOWN);
        printf("\n%s line %lld: %d tokens, %d supervised\n%s\n", e.file, (long long)e.line, e.length, e.supervised, b.data);
        buf_free(&b);
    }
}

static void print_view(const struct view *v, int64_t shown)
{
    print_counts("training", v->train);
    if (v->held_out) print_counts("held out", v->held_out);
    print_histogram(v->train);
    if (v->rows) print_rows(v->rows);
    print_findings("", dataset_findings(v->train));
    if (v->held_out) print_findings("held out: ", dataset_findings(v->held_out));
    print_examples(v, shown);
}

/* --- for a browser */

static enum pawl_status write_page(const struct view *v, const char *title, int64_t shown, const char *path, struct err *err)
{
    const struct page page = {
        .title = title, .train = v->train, .held_out = v->held_out, .rows = v->rows, .tokenizer = v->tokenizer,
        .verdict = v->verdict.status == PAWL_OK ? NULL : v->verdict.text, .examples = shown, .tokens = PAGE_SHOWN,
    };
    struct buf html = {0};
    FILE *f = strcmp(path, "-") ? fopen(path, "w") : stdout;

    if (!f) return err_sys(err, "%s: cannot be written", path);
    page_document(&html, &page);
    bool good = fwrite(html.data, 1, html.len, f) == html.len;
    buf_free(&html);
    if ((f == stdout ? fflush(f) : fclose(f)) != 0 || !good) return err_sys(err, "%s: cannot be written", path);
    return PAWL_OK;
}

/* --- rows in the order of training */

static void dump_row(struct buf *out, const struct batch *b, int row)
{
    int begin = b->row_start[row], end = b->row_start[row + 1], from = b->row_example[row], to = b->row_example[row + 1];

    out->len = 0;
    buf_addf(out, "{\"step\":%lld,\"row\":%d,\"ids\":[", (long long)b->step, row);
    for (int t = begin; t < end; t++) buf_addf(out, "%s%d", t > begin ? "," : "", b->ids[t]);
    buf_adds(out, "],\"labels_mask\":[");
    for (int t = begin; t < end; t++) buf_adds(out, t == begin ? "0" : b->target[t - 1] == TARGET_NONE ? ",0" : ",1");
    buf_addc(out, ']');
    if (to - from > 1) {
        buf_adds(out, ",\"cu\":[");
        for (int i = from; i <= to; i++) buf_addf(out, "%s%d", i > from ? "," : "", b->example_start[i] - begin);
        buf_addc(out, ']');
    }
    buf_adds(out, "}\n");
}

static enum pawl_status dump(const struct rows *rows, const char *path, int64_t steps, struct err *err)
{
    struct buf line = {0};
    struct batch b;
    FILE *f = strcmp(path, "-") ? fopen(path, "w") : stdout;
    bool failed = false;

    if (!f) return err_sys(err, "%s: cannot be written", path);
    if (steps == 0 || steps > rows_total_steps(rows)) steps = rows_total_steps(rows);
    batch_init(&b, rows);
    for (int64_t s = 1; s <= steps && !failed; s++) {
        batch_build(&b, s);
        for (int r = 0; r < b.rows; r++) {
            dump_row(&line, &b, r);
            failed = failed || fwrite(line.data, 1, line.len, f) != line.len;
        }
    }
    batch_free(&b);
    buf_free(&line);
    if ((f == stdout ? fflush(f) : fclose(f)) != 0 || failed) return err_sys(err, "%s: cannot be written", path);
    return PAWL_OK;
}

static int inspect(int argc, char **argv)
{
    struct cli_list sets = {0};
    const char *dump_to = NULL, *html = NULL;
    int64_t shown = 3, steps = 0;
    bool json = false;
    const struct cli_option options[] = {
        {"set", 0, CLI_LIST, &sets, "KEY=VALUE", "override a key; repeatable; datasets.0.path=F for nested ones", 0, 0},
        {"show", 'n', CLI_INT, &shown, "N", "examples to show with token borders and mask (3)", 0, 1e9},
        {"html", 0, CLI_STRING, &html, "FILE", "write it all as one page for a browser, examples with token borders, ids and mask; - is stdout, with nothing else there", 0, 0},
        {"dump", 0, CLI_STRING, &dump_to, "FILE", "write the rows as JSON lines in the order of training: step, row, ids, labels_mask, and cu where packed; - is stdout", 0, 0},
        {"steps", 0, CLI_INT, &steps, "N", "steps to dump (all)", 1, 1e15},
        {0},
    };
    const struct cli_spec spec = {
        "data", "RUN.yaml", "What a run would train on: counts, lengths, rows, steps, what looks wrong in the data, and its first examples.\n"
        "pawl data tokenize and pawl data render (each with --help) show what a model's tokenizer and chat template make of lines on stdin.",
        "pawl data run.yaml --show 50 --html data.html", options, 1, 1, &json,
    };
    struct view v = {0};
    struct err err = {0};
    enum pawl_status st;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) goto done;
    if ((st = view_open(&v, argv[0], &sets, &err)) == PAWL_OK && dump_to && v.rows) st = dump(v.rows, dump_to, steps, &err);
    if (st == PAWL_OK && html) st = write_page(&v, argv[0], shown, html, &err);
    if (st != PAWL_OK) {
        rc = cli_fail(&err);
        goto done;
    }
    bool taken = (html && strcmp(html, "-") == 0) || (dump_to && strcmp(dump_to, "-") == 0); /* stdout */
    if (json && !taken) print_json(&v);
    else if (!taken) print_view(&v, html ? 0 : shown);
    rc = v.verdict.status == PAWL_OK ? 0 : cli_fail(&v.verdict);
done:
    view_close(&v);
    free(sets.at);
    return rc;
}

/* `pawl data RUN.yaml`, and two words that stand in the place of a file. */
int cmd_data(int argc, char **argv)
{
    static const struct cli_command words[] = {{"tokenize", cmd_data_tokenize, ""}, {"render", cmd_data_render, ""}};

    for (size_t i = 0; argc > 1 && i < sizeof words / sizeof *words; i++)
        if (strcmp(argv[1], words[i].name) == 0) return words[i].run(argc - 1, argv + 1);
    return inspect(argc, argv);
}
