#include "train/cli/cli.h"
#include "train/cli/commands.h"
#include "train/cli/inference_options.h"

#include "ckpt/fileio.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/run/generate.h"
#include "train/run/inference.h"
#include "train/run/prompt.h"
#include "train/run/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_LIMIT ((size_t)64 << 20)

struct options {
    struct inference_options in;
    struct generate_options gen;
    const char *prompt, *system, *input, *output;
    struct cli_list stops;
    int64_t max_tokens, parallel, seed;
    bool raw, chat, json;
};

/* --- prompts */

static struct prompt_maker maker(const struct inference *in)
{
    return (struct prompt_maker){in->tokenizer, in->chat, in->model->spec.max_position};
}

static enum pawl_status encode_text(struct prompt *p, const struct inference *in, const struct options *o, const char *text, size_t len, struct err *err)
{
    const struct prompt_maker m = maker(in);

    return o->raw ? prompt_raw(p, &m, text, len, err) : prompt_user(p, &m, o->system, text, len, err);
}

/* A line of --input: {"messages": [...]} (an assistant's last message is left for the model to write), or {"prompt": text}. */
static enum pawl_status encode_line(struct prompt *p, const struct inference *in, const struct options *o, const char *line, size_t len, struct err *err)
{
    struct json *json;
    const struct json_value *root, *messages, *prompt;
    const struct prompt_maker m = maker(in);
    enum pawl_status st = json_parse(&json, line, len, err);

    if (st != PAWL_OK) return st;
    root = json_root(json);
    messages = json_get(root, "messages");
    prompt = json_get(root, "prompt");
    if (messages && messages->type == JSON_ARRAY && messages->len) {
        struct json_value open = *messages;

        if (!strcmp(json_string(json_get(json_at(messages, messages->len - 1), "role"), ""), "assistant")) open.len--;
        st = prompt_messages(p, &m, &open, json_get(root, "tools"), err);
    } else if (prompt && prompt->type == JSON_STRING) {
        st = encode_text(p, in, o, prompt->text, prompt->len, err);
    } else {
        st = err_set(err, PAWL_EINVAL, "expected \"messages\" (a list) or \"prompt\" (text)");
    }
    json_free(json);
    return st;
}

/* --- a file of prompts: one line an input line, in order */

struct answers {
    FILE *out;
    struct buf *waiting; /* finished lines whose turn has not come, by prompt */
    bool *finished;
    size_t n, written, first;
};

static void add_answer(struct buf *b, size_t index, const struct answer *a)
{
    buf_addf(b, "{\"index\":%zu,\"text\":", index);
    json_add_string(b, a->text, a->len);
    buf_addf(b, ",\"tokens\":%d,\"finish\":\"%s\"}\n", a->tokens, a->finish);
}

static void batch_done(void *ctx, size_t i, const struct answer *a)
{
    struct answers *b = ctx;

    add_answer(&b->waiting[i], b->first + i, a);
    b->finished[i] = true;
    for (; b->written < b->n && b->finished[b->written]; b->written++) {
        fwrite(b->waiting[b->written].data, 1, b->waiting[b->written].len, b->out);
        buf_free(&b->waiting[b->written]);
    }
    fflush(b->out);
    log_progress("%zu of %zu answered", b->first + b->written, b->first + b->n);
}

/* Opens the output behind its last whole line, so that a killed process goes on where it was; *lines is how many stand there. */
static enum pawl_status open_output(FILE **out, size_t *lines, const char *path, struct err *err)
{
    FILE *f;
    long whole = 0;
    int c;

    *lines = 0;
    if (!path) {
        *out = stdout;
        return PAWL_OK;
    }
    if (!(f = fopen(path, "a+"))) return err_sys(err, "%s", path);
    rewind(f);
    while ((c = getc(f)) != EOF)
        if (c == '\n') {
            whole = ftell(f);
            ++*lines;
        }
    if (ftruncate(fileno(f), whole) != 0) {
        fclose(f);
        return err_sys(err, "%s", path);
    }
    *out = f;
    return PAWL_OK;
}

static enum pawl_status read_prompts(struct prompt **prompts, size_t *n, size_t skip, const struct inference *in, const struct options *o, struct err *err)
{
    FILE *f = strcmp(o->input, "-") ? fopen(o->input, "r") : stdin;
    char *line = NULL;
    size_t cap = 0, number = 0, entries = 0;
    ssize_t len;
    enum pawl_status st = PAWL_OK;

    if (!f) return err_sys(err, "%s", o->input);
    while (st == PAWL_OK && (len = getline(&line, &cap, f)) >= 0) {
        number++;
        if ((size_t)len > LINE_LIMIT) {
            st = err_set(err, PAWL_EINVAL, "%s:%zu: the line is longer than 64 MiB", o->input, number);
            break;
        }
        if (strspn(line, " \t\r\n") == (size_t)len || entries++ < skip) continue;
        *prompts = xreallocarray(*prompts, *n + 1, sizeof **prompts);
        if ((st = encode_line(&(*prompts)[*n], in, o, line, (size_t)len, err)) == PAWL_OK) ++*n;
        else err_prefix(err, "%s:%zu", o->input, number);
    }
    free(line);
    if (f != stdin) fclose(f);
    return st;
}

static enum pawl_status answer_file(const struct inference *in, const struct options *o, struct err *err)
{
    struct prompt *prompts = NULL;
    struct answers b = {0};
    enum pawl_status st;

    if ((st = open_output(&b.out, &b.first, o->output, err)) != PAWL_OK) return st;
    if ((st = read_prompts(&prompts, &b.n, b.first, in, o, err)) == PAWL_OK) {
        b.waiting = xcalloc(b.n, sizeof *b.waiting);
        b.finished = xcalloc(b.n, sizeof *b.finished);
        st = generate(in->dev, in->model, &in->lora, in->operand, in->tokenizer, prompts, b.n, (int64_t)b.first, &o->gen, batch_done, NULL, &b, err);
        log_progress_end();
    }
    for (size_t i = 0; i < b.n; i++) {
        free((void *)prompts[i].ids);
        if (b.waiting) buf_free(&b.waiting[i]);
    }
    free(prompts);
    free(b.waiting);
    free(b.finished);
    if (b.out != stdout && fclose(b.out) != 0 && st == PAWL_OK) st = err_sys(err, "%s", o->output);
    return st;
}

/* --- one prompt, or a conversation */

static void print_piece(void *ctx, size_t i, const char *text, size_t len)
{
    const struct options *o = ctx;

    if (o->json) return;
    fwrite(text, 1, len, stdout);
    fflush(stdout);
}

struct talk {
    const struct options *o;
    struct buf answer;
};

static void talk_piece(void *ctx, size_t i, const char *text, size_t len)
{
    print_piece((void *)((struct talk *)ctx)->o, i, text, len);
}

static void talk_done(void *ctx, size_t i, const struct answer *a)
{
    struct talk *t = ctx;

    if (t->o->json) {
        struct buf b = {0};

        add_answer(&b, 0, a);
        fwrite(b.data, 1, b.len, stdout);
        buf_free(&b);
    } else {
        putchar('\n');
    }
    buf_add(&t->answer, a->text, a->len);
}

static enum pawl_status answer(struct talk *t, const struct inference *in, const struct prompt *p, struct err *err)
{
    enum pawl_status st = generate(in->dev, in->model, &in->lora, in->operand, in->tokenizer, p, 1, 0, &t->o->gen, talk_done, talk_piece, t, err);

    free((void *)p->ids);
    return st;
}

static enum pawl_status answer_prompt(const struct inference *in, const struct options *o, struct err *err)
{
    struct talk t = {.o = o};
    struct prompt p;
    enum pawl_status st = encode_text(&p, in, o, o->prompt, strlen(o->prompt), err);

    if (st == PAWL_OK) st = answer(&t, in, &p, err);
    buf_free(&t.answer);
    return st;
}

/* Lines from stdin, each a turn of one conversation. */
static enum pawl_status converse(const struct inference *in, const struct options *o, struct err *err)
{
    const struct prompt_maker m = maker(in);
    struct buf messages = {0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    enum pawl_status st = PAWL_OK;

    if (o->system) prompt_add_message(&messages, "system", o->system, strlen(o->system));
    while (st == PAWL_OK) {
        struct talk t = {.o = o};
        struct prompt p;

        if (isatty(STDIN_FILENO)) fputs("> ", stderr);
        if ((len = getline(&line, &cap, stdin)) < 0) break;
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r')) len--;
        if (!len) continue;
        prompt_add_message(&messages, "user", line, (size_t)len);
        if ((st = prompt_conversation(&p, &m, &messages, err)) == PAWL_OK) st = answer(&t, in, &p, err);
        if (st == PAWL_OK) prompt_add_message(&messages, "assistant", t.answer.data ? t.answer.data : "", t.answer.len);
        buf_free(&t.answer);
    }
    free(line);
    buf_free(&messages);
    return st;
}

int cmd_generate(int argc, char **argv)
{
    struct options o = {.gen.sample = {.temperature = 0, .top_p = 1, .repetition_penalty = 1}, .max_tokens = 256, .parallel = 16, .seed = 42};
    struct sample_options *s = &o.gen.sample;
    const struct cli_option options[] = {
        INFERENCE_OPTIONS(o.in),
        {"prompt", 'p', CLI_STRING, &o.prompt, "TEXT", "a user's message to answer", 0, 0},
        {"chat", 0, CLI_FLAG, &o.chat, NULL, "a conversation: each line of standard input is a turn", 0, 0},
        {"input", 'i', CLI_STRING, &o.input, "FILE", "JSON lines with \"messages\" or \"prompt\"; - is standard input", 0, 0},
        {"output", 'o', CLI_STRING, &o.output, "FILE", "one line an input line, in order; lines that stand there already are not made again", 0, 0},
        {"system", 's', CLI_STRING, &o.system, "TEXT", "a system message for --prompt and --chat", 0, 0},
        {"raw", 0, CLI_FLAG, &o.raw, NULL, "go on with the text as it is, without a chat template", 0, 0},
        {"max-tokens", 'n', CLI_INT, &o.max_tokens, "N", "longest answer, default 256", 1, 1 << 20},
        {"temperature", 0, CLI_FLOAT, &s->temperature, "X", "0, the default: always the most likely token", 0, 100},
        {"top-p", 0, CLI_FLOAT, &s->top_p, "X", "default 1: all", 0, 1},
        {"top-k", 0, CLI_INT, &s->top_k, "N", "default 0: all", 0, 1 << 24},
        {"min-p", 0, CLI_FLOAT, &s->min_p, "X", "default 0: all", 0, 1},
        {"repetition-penalty", 0, CLI_FLOAT, &s->repetition_penalty, "X", "default 1: none", 0.01, 100},
        {"stop", 0, CLI_LIST, &o.stops, "TEXT", "end the answer before this text; repeatable", 0, 0},
        {"seed", 0, CLI_INT, &o.seed, "N", "default 42", 0, 1LL << 53},
        {"parallel", 0, CLI_INT, &o.parallel, "N", "answers made at a time with --input, default 16", 1, 1024},
        {0},
    };
    const struct cli_spec spec = {"generate", "", "Answer prompts with a model and, if given, an adapter.", "pawl generate --adapter runs/a/adapter --prompt \"zlib1g: compression library - runtime\"",
                                  options, 0, 0, &o.json};
    struct inference in = {0};
    struct err err;
    enum pawl_status st;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) goto done;
    if ((o.prompt != NULL) + (o.input != NULL) + o.chat != 1) {
        rc = cli_misuse(&spec, "expected one of --prompt, --input and --chat");
        goto done;
    }
    if (o.output && !o.input) {
        rc = cli_misuse(&spec, "--output goes with --input");
        goto done;
    }
    o.gen.max_tokens = (int)o.max_tokens, o.gen.parallel = (int)o.parallel, s->seed = (uint64_t)o.seed;
    o.gen.stop = o.stops.at, o.gen.nstop = o.stops.n;
    stop_watch();
    if ((st = inference_open(&in, &o.in, &err)) == PAWL_OK)
        st = o.input ? answer_file(&in, &o, &err) : o.chat ? converse(&in, &o, &err) : answer_prompt(&in, &o, &err);
    rc = st == PAWL_OK ? 0 : cli_fail(&err);
done:
    inference_close(&in);
    free(o.stops.at);
    return rc;
}
