#include "train/cli/cli.h"
#include "train/cli/commands.h"
#include "train/cli/inference_options.h"

#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/data/dataset.h"
#include "train/run/evaluate.h"
#include "train/run/inference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct eval_options {
    struct inference_options in;
    const char *data, *type, *output;
    int64_t batch;
    bool train_on_inputs, json;
};

/* The data as `datasets` of a configuration would name it, so that there is one way to read data with one set of defaults. */
static enum pawl_status data_config(struct config **out, const struct eval_options *o, struct err *err)
{
    char *path = xasprintf("datasets.0.path=%s", o->data), *type = xasprintf("datasets.0.type=%s", o->type ? o->type : "auto");
    const char *sets[] = {"base_model=.", "output_dir=.", path, type, o->train_on_inputs ? "train_on_inputs=true" : "train_on_inputs=false"};
    enum pawl_status st = config_load(out, NULL, sets, sizeof sets / sizeof *sets, err);

    free(path);
    free(type);
    return st;
}

static enum pawl_status open_rows(struct rows **rows, struct dataset **data, const struct config *c, const struct inference *in, const struct eval_options *o, struct err *err)
{
    struct dataset_options opt = dataset_options(c);
    struct rows_options ropt = rows_options_eval(c, o->batch);
    enum pawl_status st;

    opt.tokenizer = in->tokenizer;
    opt.chat = in->chat;
    opt.vocab = in->model->spec.V;
    opt.threads = (int)o->in.threads;
    opt.sequence_len = in->trained ? in->trained->sequence_len : in->model->spec.max_position;
    if ((st = dataset_open(data, c->datasets, c->ndatasets, &opt, err)) != PAWL_OK) return st;
    return rows_build(rows, *data, &ropt, err);
}

static enum pawl_status run(struct evaluation *ev, uint8_t *matches, const struct inference *in, const struct rows *rows, const struct dataset *data, struct err *err)
{
    struct arena arena = {0};
    struct net net = {0};
    int longest = 0;
    enum pawl_status st;

    for (size_t i = 0; i < dataset_count(data); i++)
        if (dataset_example(data, i).length > longest) longest = dataset_example(data, i).length;
    net_reserve(&net, &arena, in->dev, in->model, &in->lora, NET_INFER, rows_limits(rows, rows->opt.global_batch), longest + 1);
    if ((st = dev_arena_alloc(in->dev, &arena, err)) == PAWL_OK) {
        net_init(&net);
        net.operand = in->operand;
        st = evaluate(ev, &net, rows, matches, true, err);
    }
    net_free(&net);
    dev_arena_free(in->dev, &arena);
    return st;
}

/* One line an example: {"index","file","line","match"}. */
static enum pawl_status write_matches(const char *path, const struct dataset *data, const uint8_t *matches, struct err *err)
{
    FILE *f = fopen(path, "w");

    if (!f) return err_sys(err, "%s", path);
    for (size_t i = 0; i < dataset_count(data); i++) {
        struct example e = dataset_example(data, i);
        struct buf b = {0};

        buf_addf(&b, "{\"index\":%zu,\"file\":", i);
        json_add_string(&b, e.file, strlen(e.file));
        fprintf(f, "%s,\"line\":%lld,\"match\":%s}\n", b.data, (long long)e.line, matches[i] ? "true" : "false");
        buf_free(&b);
    }
    return fclose(f) == 0 ? PAWL_OK : err_sys(err, "%s", path);
}

static void print(const struct evaluation *ev, bool json)
{
    double exact = ev->examples ? (double)ev->exact / (double)ev->examples : 0;

    if (json)
        printf("{\"loss\":%.17g,\"perplexity\":%.17g,\"tokens\":%lld,\"exact_match\":%.17g,\"examples\":%lld}\n", ev->loss, ev->perplexity, (long long)ev->tokens, exact,
               (long long)ev->examples);
    else
        printf("loss %.4f  perplexity %.3f over %lld tokens; exact match %.1f%% of %lld examples\n", ev->loss, ev->perplexity, (long long)ev->tokens, 100 * exact,
               (long long)ev->examples);
}

int cmd_eval(int argc, char **argv)
{
    struct eval_options o = {.batch = 8};
    const struct cli_option options[] = {
        INFERENCE_OPTIONS(o.in),
        {"data", 'd', CLI_STRING, &o.data, "FILE", "what to evaluate on: .jsonl, .jsonl.gz, .json or a directory of them", 0, 0},
        {"type", 't', CLI_STRING, &o.type, "TYPE", "chat_template, alpaca, completion, prompt_completion, input_output or auto (default)", 0, 0},
        {"train-on-inputs", 0, CLI_FLAG, &o.train_on_inputs, NULL, "count prompts too", 0, 0},
        {"batch", 0, CLI_INT, &o.batch, "N", "examples at a time, default 8", 1, 4096},
        {"output", 'o', CLI_STRING, &o.output, "FILE", "also write a line for each example: whether all its supervised tokens are the model's first choice", 0, 0},
        {0},
    };
    const struct cli_spec spec = {"eval", "", "Loss, perplexity and exact match of a model on held-out data. An example matches where greedy decoding would write all of its supervised tokens.",
                                  "pawl eval --model SmolLM2-135M-Instruct.Q4_1.gguf --adapter runs/a/adapter --data heldout.jsonl --json", options, 0, 0, &o.json};
    struct inference in = {0};
    struct config *c = NULL;
    struct dataset *data = NULL;
    struct rows *rows = NULL;
    struct evaluation ev;
    uint8_t *matches = NULL;
    struct err err;
    enum pawl_status st;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    if (!o.data) return cli_misuse(&spec, "--data is missing");
    if ((st = inference_open(&in, &o.in, &err)) != PAWL_OK || (st = data_config(&c, &o, &err)) != PAWL_OK || (st = open_rows(&rows, &data, c, &in, &o, &err)) != PAWL_OK) goto done;
    matches = xcalloc(dataset_count(data), 1);
    if ((st = run(&ev, matches, &in, rows, data, &err)) != PAWL_OK) goto done;
    if (o.output && (st = write_matches(o.output, data, matches, &err)) != PAWL_OK) goto done;
    print(&ev, o.json);
done:
    free(matches);
    rows_free(rows);
    dataset_free(data);
    config_free(c);
    inference_close(&in);
    return st == PAWL_OK ? 0 : cli_fail(&err);
}
