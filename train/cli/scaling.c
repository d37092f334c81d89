#include "train/cli/cli.h"
#include "train/cli/commands.h"
#include "train/cli/scaling_plot.h"

#include "ckpt/fileio.h"
#include "dist/ranks.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 32 /* numbers of ranks to compare */
#define MOST_THREADS 4096

extern char **environ;

struct scaling_options {
    const char *yaml, *ranks, *launcher, *svg;
    struct cli_list sets;
    int64_t steps, rows;
    double price;
    bool weak, json;
};

/* --- one run: a process of this program, in a directory of its own */

static void add(const char ***argv, size_t *n, const char *arg)
{
    *argv = xreallocarray(*argv, *n + 1, sizeof **argv);
    (*argv)[(*n)++] = arg;
}

static enum pawl_status wait_for(pid_t child, const char *name, struct err *err)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return PAWL_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == err_exit_code(PAWL_ESTOPPED)) return err_set(err, PAWL_ESTOPPED, "%s: stopped", name);
    return err_set(err, PAWL_EINVAL, "%s: the run failed (%s %d): see the line above", name, WIFEXITED(status) ? "exit code" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static enum pawl_status run_once(const struct scaling_options *o, const struct scaling_result *r, const char *dir, struct err *err)
{
    int ranks = r->ranks;
    char *self = realpath("/proc/self/exe", NULL), *words = o->launcher ? xstrdup(o->launcher) : NULL, *save = NULL;
    char *set_dir = xasprintf("output_dir=%s", dir), *set_steps = xasprintf("max_steps=%lld", (long long)o->steps + 1);
    char *set_rows = xasprintf("global_batch_size=%lld", (long long)(o->weak ? o->rows * ranks : o->rows)), *count = xasprintf("%d", ranks);
    char *set_threads = xasprintf("threads=%d", r->threads);
    /* What is measured is training: nothing is saved in between, uploaded or told to anybody. */
    const char *fixed[] = {set_dir, set_steps, set_rows, "journal=false", "save_steps=", "saves_per_epoch=", "save_minutes=0", "remote=", "on_event=", "spot=off", "val_set_size=0", "test_datasets="};
    const char **argv = NULL;
    size_t n = 0;
    pid_t child;
    enum pawl_status st;

    for (char *w = words ? strtok_r(words, " ", &save) : NULL; w; w = strtok_r(NULL, " ", &save)) add(&argv, &n, w);
    if (o->launcher) add(&argv, &n, "-n"), add(&argv, &n, count);
    add(&argv, &n, self);
    add(&argv, &n, "train");
    add(&argv, &n, o->yaml);
    add(&argv, &n, "-q");
    if (!o->launcher) add(&argv, &n, "--ranks"), add(&argv, &n, count);
    for (size_t i = 0; i < o->sets.n; i++) add(&argv, &n, "--set"), add(&argv, &n, o->sets.at[i]);
    if (r->threads) add(&argv, &n, "--set"), add(&argv, &n, set_threads);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) add(&argv, &n, "--set"), add(&argv, &n, fixed[i]);
    add(&argv, &n, NULL);
    if ((errno = posix_spawnp(&child, argv[0], NULL, NULL, (char **)argv, environ)) != 0) st = err_sys(err, "%s", argv[0]);
    else st = wait_for(child, r->name, err);
    free(argv);
    free(self);
    free(words);
    free(set_dir);
    free(set_steps);
    free(set_rows);
    free(set_threads);
    free(count);
    return st;
}

/* --- what it left behind */

/* Calls take(ctx, line) for each line of a file of JSON objects. */
static enum pawl_status each_line(const char *dir, const char *name, void (*take)(void *ctx, const struct json_value *line), void *ctx, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, name), *save = NULL;
    struct buf text = {0};
    enum pawl_status st = file_read_all(&text, path, 1 << 28, err);

    for (char *line = st == PAWL_OK && text.data ? strtok_r(text.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        struct json *json = NULL;

        if (json_parse(&json, line, strlen(line), NULL) == PAWL_OK) take(ctx, json_root(json));
        json_free(json);
    }
    buf_free(&text);
    free(path);
    return st;
}

struct reading {
    struct scaling_result *result;
    double tokens, seconds;
    struct buf losses; /* as they were written: all 17 digits */
};

/* The first step of a process does not count: it faults in memory and files. */
static void take_step(void *ctx, const struct json_value *line)
{
    struct reading *r = ctx;
    const struct json_value *loss = json_get(line, "loss"), *norm = json_get(line, "grad_norm");

    if (loss && norm) buf_addf(&r->losses, "%s %s\n", loss->text, norm->text);
    if (json_number(json_get(line, "step"), 0) <= 1) return;
    r->tokens += json_number(json_get(line, "tokens"), 0);
    r->seconds += json_number(json_get(line, "step_seconds"), 0);
}

static void take_event(void *ctx, const struct json_value *line)
{
    struct reading *r = ctx;

    if (strcmp(json_string(json_get(line, "event"), ""), "ranks") != 0) return;
    r->result->communication = json_number(json_get(line, "communication_share"), 0);
    r->result->threads = (int)json_number(json_get(line, "threads"), 0);
    r->result->cpu = json_number(json_get(line, "cpu_seconds_a_step"), 0);
    r->result->sent = json_number(json_get(line, "sent_bytes_a_step"), 0);
    r->result->peak = json_number(json_get(line, "peak_bytes_per_rank"), 0);
    snprintf(r->result->transport, sizeof r->result->transport, "%s", json_string(json_get(line, "transport"), ""));
}

/* "2 ranks of 1 thread", "1 rank". */
static void name_of(struct scaling_result *r)
{
    int n = snprintf(r->name, sizeof r->name, "%d rank%s", r->ranks, r->ranks > 1 ? "s" : "");

    if (r->threads) snprintf(r->name + n, sizeof r->name - (size_t)n, " of %d thread%s", r->threads, r->threads > 1 ? "s" : "");
}

/* out: ranks and threads. losses: of the first run; a strong scaling's others must have the same. */
static enum pawl_status measure(struct scaling_result *out, const struct scaling_options *o, struct buf *losses, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = xasprintf("%s/pawl-scaling-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    struct reading r = {.result = out};
    enum pawl_status st;

    name_of(out);
    if (!mkdtemp(dir)) {
        st = err_sys(err, "%s", dir);
        goto done;
    }
    log_progress("%s ...", out->name);
    if ((st = run_once(o, out, dir, err)) == PAWL_OK && (st = each_line(dir, "metrics.jsonl", take_step, &r, err)) == PAWL_OK) st = each_line(dir, "events.jsonl", take_event, &r, err);
    file_remove_tree(&fsys_real, dir, NULL);
    if (st != PAWL_OK) goto done;
    if (r.seconds <= 0) {
        st = err_set(err, PAWL_EINVAL, "%s: %s has no second step: more data, or a smaller --rows", out->name, o->yaml);
        goto done;
    }
    name_of(out); /* now with the threads that it had */
    out->tokens_per_second = r.tokens / r.seconds;
    if (!losses->len) buf_add(losses, r.losses.data, r.losses.len);
    else if (!o->weak && strcmp(losses->data, r.losses.data) != 0)
        st = err_set(err, PAWL_EFORMAT, "%s: losses or norms are not bit for bit those of the first run: look for machines that round differently, or faulty memory", out->name);
done:
    free(dir);
    buf_free(&r.losses);
    return st;
}

/* --- telling */

/* Money for a million tokens: each core, or each card, is paid for. */
static double cost(const struct scaling_result *r, const struct scaling_options *o)
{
    return o->price * scaling_units(r) / 3600 * 1e6 / r->tokens_per_second;
}

static void print_json(const struct scaling_result *list, size_t n, const struct scaling_options *o)
{
    printf("[");
    for (size_t i = 0; i < n; i++) {
        const struct scaling_result *r = &list[i];

        printf("%s{\"ranks\":%d,\"threads\":%d,\"tokens_per_second\":%.2f,\"speedup\":%.4f,\"efficiency\":%.4f,\"communication_share\":%.4f,\"sent_bytes_a_step\":%.0f,\"cpu_seconds_a_step\":%.4f", i ? "," : "",
               r->ranks, r->threads, r->tokens_per_second, r->speedup, r->efficiency, r->communication, r->sent, r->cpu);
        printf(",\"peak_bytes_per_rank\":%.0f,\"transport\":\"%s\"", r->peak, r->transport);
        if (o->price > 0) printf(",\"cost_per_million_tokens\":%.6f", r->cost);
        printf("}");
    }
    printf("]\n");
}

static void print_table(const struct scaling_result *list, size_t n, const struct scaling_options *o)
{
    printf("%s scaling, %lld rows a step%s; first to last %s\n", o->weak ? "weak" : "strong", (long long)o->rows, o->weak ? " and rank" : "",
           o->weak ? "other work: results are not compared" : "bit for bit the same losses and norms");
    printf("%-24s %10s %9s %11s %14s %13s %10s %11s%s\n", "", "tokens/s", "speed-up", "efficiency", "communication", "sent MB/step", "CPU s/step", "MiB a rank", o->price > 0 ? "  cost/M tokens" : "");
    for (size_t i = 0; i < n; i++) {
        const struct scaling_result *r = &list[i];

        printf("%-24s %10.1f %8.2fx %10.0f%% %13.1f%% %13.2f %10.2f %11.0f", r->name, r->tokens_per_second, r->speedup, 100 * r->efficiency, 100 * r->communication, r->sent / 1e6, r->cpu, r->peak / 1048576);
        if (o->price > 0) printf(" %14.4f", r->cost);
        printf("\n");
    }
}

/* "1,2,4": ascending, without doubles; or "1x1,1x2,2x1": ranks and the threads of each. Not a mixture. */
static size_t read_counts(struct scaling_result *list, const char *text)
{
    size_t n = 0;

    while (*text && n < MOST) {
        char *end;
        long ranks = strtol(text, &end, 10), threads = 0;

        if (end == text || ranks < 1 || ranks > RANKS_MAX) return 0;
        if (*end == 'x') {
            text = end + 1;
            threads = strtol(text, &end, 10);
            if (end == text || threads < 1 || threads > MOST_THREADS) return 0;
        }
        if ((*end && *end != ',') || (n && (!threads != !list->threads || (!threads && ranks <= list[n - 1].ranks)))) return 0;
        list[n++] = (struct scaling_result){.ranks = (int)ranks, .threads = (int)threads};
        text = *end ? end + 1 : end;
    }
    return *text ? 0 : n;
}

int cmd_scaling(int argc, char **argv)
{
    struct scaling_options o = {.ranks = "1,2,4", .steps = 8};
    const struct cli_option options[] = {
        {"ranks", 0, CLI_STRING, &o.ranks, "LIST", "numbers of ranks, ascending (1,2,4); or with the threads of each: 1x1,1x2,2x1. The first is what the others are compared with", 0, 0},
        {"launcher", 0, CLI_STRING, &o.launcher, "COMMAND", "starts the ranks, with -n N behind it: mpirun, \"mpirun --hostfile F\", srun; otherwise pawl train --ranks N", 0, 0},
        {"weak", 0, CLI_FLAG, &o.weak, NULL, "as many rows for each rank, instead of the same work for all (strong)", 0, 0},
        {"rows", 0, CLI_INT, &o.rows, "N", "rows of a step (weak: of each rank); otherwise four for each rank of the longest list (weak: four)", 1, 1 << 24},
        {"steps", 0, CLI_INT, &o.steps, "N", "steps that count, after one that does not (8)", 1, 1 << 20},
        {"price", 0, CLI_FLOAT, &o.price, "MONEY", "of a card, or on CPUs of a core, an hour: adds the cost of a million tokens", 0, 1e6},
        {"svg", 0, CLI_STRING, &o.svg, "FILE", "writes a plot of speed-up with the ideal line, and what each number of ranks cost", 0, 0},
        {"set", 0, CLI_LIST, &o.sets, "KEY=VALUE", "override a key of RUN.yaml; repeatable", 0, 0},
        {0},
    };
    const struct cli_spec spec = {"scaling", "RUN.yaml", "Train the same few steps on several numbers of ranks, check that the results are the same bits, and compare the speed.",
                                  "pawl scaling run.yaml --ranks 1,2,4 --svg scaling.svg", options, 1, 1, &o.json};
    struct scaling_result list[MOST];
    int rc = cli_parse(&spec, &argc, argv);
    struct buf losses = {0};
    struct err err;
    size_t n;
    int most = 0;

    if (rc != CLI_RUN) goto done;
    o.yaml = argv[0];
    if (!(n = read_counts(list, o.ranks))) {
        rc = cli_misuse(&spec, "--ranks %s: expected at most %d ascending numbers from 1 to %d with commas, like 1,2,4, or each with its threads, like 1x1,1x2,2x1", o.ranks, MOST, RANKS_MAX);
        goto done;
    }
    for (size_t i = 0; i < n; i++) most = list[i].ranks > most ? list[i].ranks : most;
    if (!o.rows) o.rows = o.weak ? 4 : 4 * most;
    for (size_t i = 0; i < n; i++) {
        if (measure(&list[i], &o, &losses, &err) != PAWL_OK) {
            log_progress_end();
            rc = cli_fail(&err);
            goto done;
        }
        /* Against the first of the list: with one rank there, what everybody calls speed-up. */
        list[i].speedup = list[i].tokens_per_second / list[0].tokens_per_second;
        list[i].efficiency = list[i].speedup * scaling_units(&list[0]) / scaling_units(&list[i]);
        list[i].cost = cost(&list[i], &o);
    }
    log_progress_end();
    if (o.json) print_json(list, n, &o);
    else print_table(list, n, &o);
    rc = o.svg && scaling_plot(o.svg, list, n, o.weak ? "Weak" : "Strong", &err) != PAWL_OK ? cli_fail(&err) : 0;
done:
    buf_free(&losses);
    free(o.sets.at);
    return rc;
}
