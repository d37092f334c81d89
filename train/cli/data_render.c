#include "train/cli/cli.h"
#include "train/cli/commands.h"
#include "train/cli/lines.h"

#include "train/config/locate.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct work {
    struct chat_template *chat;
    char *bos, *eos; /* the model's; NULL: not known */
    const struct tm *now;
};

/* A line's own token, null for "not defined"; without the key the model's. */
static const char *token_of(const struct json_value *line, const char *key, const char *of_model)
{
    const struct json_value *v = json_get(line, key);

    return v == NULL ? of_model : json_string(v, NULL);
}

/* What is wrong with one conversation is the answer to its line: the others can still be rendered. */
static enum pawl_status render(void *context, const struct json_value *line, struct buf *out, struct err *err)
{
    const struct work *w = context;
    struct chat_input in = {
        .messages = json_get(line, "messages"), .tools = json_get(line, "tools"), .extra = json_get(line, "extra"),
        .add_generation_prompt = json_bool(json_get(line, "add_generation_prompt"), false),
        .bos_token = token_of(line, "bos_token", w->bos), .eos_token = token_of(line, "eos_token", w->eos), .now = w->now,
    };
    struct buf text = {0};
    struct err why = {0};

    bool good = chat_render(w->chat, &in, &text, &why) == PAWL_OK;
    buf_adds(out, good ? "{\"text\":" : "{\"error\":");
    if (good) json_add_string(out, text.data ? text.data : "", text.len);
    else json_add_string(out, why.text, strlen(why.text));
    buf_addc(out, '}');
    buf_free(&text);
    return PAWL_OK;
}

static char *name_of(const struct tokenizer *t, enum tokenizer_role role)
{
    size_t len;
    const char *name = tokenizer_name(t, tokenizer_special(t, role), &len);

    return name != NULL ? xstrndup(name, len) : NULL;
}

static enum pawl_status open_model(struct work *w, const char *model, struct err *err)
{
    struct tokenizer *t = NULL;
    char *path = NULL;
    enum pawl_status st = locate(&path, model, LOCATE_MODEL, NULL, err);

    if (st == PAWL_OK) st = chat_template_of_model(&w->chat, path, err);
    if (st == PAWL_OK) st = tokenizer_open(&t, path, err);
    if (st == PAWL_OK) {
        w->bos = name_of(t, TOKENIZER_BOS);
        w->eos = name_of(t, TOKENIZER_EOS);
    }
    tokenizer_close(t);
    free(path);
    return st;
}

/* A file of Jinja source, or the name of a template that pawl brings along. */
static enum pawl_status open_template(struct work *w, const char *name, struct err *err)
{
    FILE *f = fopen(name, "rb");
    struct buf text = {0};
    char chunk[65536];

    if (f == NULL) {
        if (strpbrk(name, "/.") != NULL) return err_sys(err, "%s: cannot be opened", name);
        return chat_template_builtin(&w->chat, name, err);
    }
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) buf_add(&text, chunk, n);
    enum pawl_status st = ferror(f) ? err_sys(err, "%s: cannot be read", name) : chat_template_parse(&w->chat, name, text.data ? text.data : "", text.len, err);
    fclose(f);
    buf_free(&text);
    return st;
}

int cmd_data_render(int argc, char **argv)
{
    const char *model = NULL, *template = NULL, *clock = NULL;
    bool json = false;
    const struct cli_option options[] = {
        {"model", 'm', CLI_STRING, &model, "M", "a model directory or a GGUF file: its own template and special tokens", 0, 0},
        {"template", 't', CLI_STRING, &template, "F", "a file of Jinja source, or a built-in name (chatml, llama3, ...)", 0, 0},
        {"now", 0, CLI_STRING, &clock, "TIME", "what strftime_now sees, as 2025-03-07T13:45:09; else the clock", 0, 0},
        {0},
    };
    const struct cli_spec spec = {
        .name = "data render", .args = "(--model M | --template F)",
        .about = "Reads lines {\"messages\", \"tools\"?, \"add_generation_prompt\"?, \"bos_token\"?, \"eos_token\"?, \"extra\"?} from stdin and\n"
                 "answers each with {\"text\"} or {\"error\"}. Keys of extra become variables of the template.",
        .example = "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | pawl data render --template chatml", .options = options, .json = &json,
    };
    struct work w = {0};
    struct err err = {0};
    struct tm now = {0};
    enum pawl_status st = PAWL_OK;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    if ((model == NULL) == (template == NULL)) {
        st = err_set(&err, PAWL_EUSAGE, "data render: give one of --model and --template");
    } else if (clock != NULL) {
        const char *end = strptime(clock, "%Y-%m-%dT%H:%M:%S", &now);
        if (end == NULL || *end != 0) st = err_set(&err, PAWL_EUSAGE, "--now: expected a time such as 2025-03-07T13:45:09, found %s", clock);
        w.now = &now;
    }
    if (st == PAWL_OK) st = model != NULL ? open_model(&w, model, &err) : open_template(&w, template, &err);
    if (st == PAWL_OK) st = lines_answer(stdin, render, &w, &err);
    chat_template_free(w.chat);
    free(w.bos);
    free(w.eos);
    return st == PAWL_OK ? 0 : cli_fail(&err);
}
