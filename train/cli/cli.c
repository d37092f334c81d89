#include "train/cli/cli.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "kernels/base/nearest.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What cli_parse understands for every command, besides the command's own table. */
enum { OPTION_HELP, OPTION_QUIET, OPTION_VERBOSE, OPTION_JSON, COMMON_OPTIONS };
static const struct cli_option common[COMMON_OPTIONS] = {
    [OPTION_HELP] = {.name = "help", .letter = 'h', .help = "this text"},
    [OPTION_QUIET] = {.name = "quiet", .letter = 'q', .help = "only warnings and errors on stderr"},
    [OPTION_VERBOSE] = {.name = "verbose", .letter = 'v', .help = "more on stderr"},
    [OPTION_JSON] = {.name = "json", .help = "the result as one JSON object on stdout"},
};

static size_t count_options(const struct cli_option *options)
{
    size_t n = 0;

    while (options && options[n].name) n++;
    return n;
}

static void print_option(const struct cli_option *o)
{
    char left[64];

    snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    if (o->letter) printf("  -%c, %-26s  %s\n", o->letter, left, o->help);
    else printf("      %-26s  %s\n", left, o->help);
}

static void print_help(const struct cli_spec *spec)
{
    size_t n = count_options(spec->options);

    printf("pawl %s%s%s [options]\n\n%s\n", spec->name, *spec->args ? " " : "", spec->args, spec->about);
    printf("\nOptions:\n");
    for (size_t i = 0; i < n; i++) print_option(&spec->options[i]);
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        if (i != OPTION_JSON || spec->json) print_option(&common[i]);
    printf("\nExample:\n  %s\n", spec->example);
}


int cli_misuse(const struct cli_spec *spec, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "pawl %s: ", spec->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (pawl %s --help)\n", spec->name);
    return err_exit_code(PAWL_EUSAGE);
}

static int unknown_option(const struct cli_spec *spec, const char *given, size_t length)
{
    size_t n = count_options(spec->options), count = 0;
    const char **names = xmalloc((n + COMMON_OPTIONS) * sizeof *names);
    char *word = xstrndup(given, length);
    const char *near;
    int rc;

    for (size_t i = 0; i < n; i++) names[count++] = spec->options[i].name;
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        if (i != OPTION_JSON || spec->json) names[count++] = common[i].name;
    near = nearest_name(word + strspn(word, "-"), names, count);
    if (near) rc = cli_misuse(spec, "unknown option %s: did you mean --%s?", word, near);
    else rc = cli_misuse(spec, "unknown option %s", word);
    free(word);
    free(names);
    return rc;
}

/* The option of this name (length letters) or of this letter. */
static const struct cli_option *find_option(const struct cli_option *options, size_t n, const char *name, size_t length, char letter)
{
    for (size_t i = 0; i < n; i++) {
        if (letter ? options[i].letter == letter : strlen(options[i].name) == length && !memcmp(options[i].name, name, length)) return &options[i];
    }
    return NULL;
}

static int number_range(const struct cli_spec *spec, const struct cli_option *o, double x, const char *value)
{
    if ((o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max)) return CLI_RUN;
    return cli_misuse(spec, "--%s: expected a number from %g to %g, found %s", o->name, o->min, o->max, value);
}

static int store(const struct cli_spec *spec, const struct cli_option *o, const char *value)
{
    char *end = NULL;

    errno = 0;
    switch (o->type) {
    case CLI_FLAG: break;
    case CLI_STRING: *(const char **)o->to = value; break;
    case CLI_INT: {
        long long x = strtoll(value, &end, 10);

        if (end == value || *end || errno) return cli_misuse(spec, "--%s: expected a whole number, found \"%s\"", o->name, value);
        *(int64_t *)o->to = x;
        return number_range(spec, o, (double)x, value);
    }
    case CLI_FLOAT: {
        double x = strtod(value, &end);

        if (end == value || *end || errno || x - x != 0) return cli_misuse(spec, "--%s: expected a number, found \"%s\"", o->name, value);
        *(double *)o->to = x;
        return number_range(spec, o, x, value);
    }
    case CLI_LIST: {
        struct cli_list *list = o->to;

        list->at = xreallocarray(list->at, list->n + 1, sizeof *list->at);
        list->at[list->n++] = value;
        break;
    }
    }
    return CLI_RUN;
}

/* o is a row of `common`. */
static int take_common(const struct cli_spec *spec, const struct cli_option *o)
{
    if (o == &common[OPTION_HELP]) {
        print_help(spec);
        return 0;
    }
    if (o == &common[OPTION_QUIET]) log_level = LOG_QUIET;
    if (o == &common[OPTION_VERBOSE]) log_level = LOG_VERBOSE;
    if (o == &common[OPTION_JSON]) {
        if (!spec->json) return cli_misuse(spec, "--json: this command prints no result");
        *spec->json = true;
    }
    return CLI_RUN;
}

/* argv[*i] begins with "--": takes it and, where it is apart, its argument. */
static int take_long(const struct cli_spec *spec, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2, *equals = strchr(name, '='), *value = equals ? equals + 1 : NULL;
    size_t length = equals ? (size_t)(equals - name) : strlen(name), n = count_options(spec->options);
    const struct cli_option *o = find_option(spec->options, n, name, length, 0);
    bool on = true;

    if (!o && (o = find_option(common, COMMON_OPTIONS, name, length, 0))) {
        if (value) return cli_misuse(spec, "--%s takes no argument", o->name);
        return take_common(spec, o);
    }
    if (!o && length > 3 && !memcmp(name, "no-", 3)) {
        o = find_option(spec->options, n, name + 3, length - 3, 0);
        if (o && o->type != CLI_FLAG) o = NULL;
        on = false;
    }
    if (!o) return unknown_option(spec, argv[*i], length + 2);
    if (o->type == CLI_FLAG) {
        if (value) return cli_misuse(spec, "--%s takes no argument", o->name);
        *(bool *)o->to = on;
        return CLI_RUN;
    }
    if (!value) {
        if (*i + 1 >= argc) return cli_misuse(spec, "--%s: %s is missing", o->name, o->arg);
        value = argv[++*i];
    }
    return store(spec, o, value);
}

/* argv[*i] is "-x", "-xy" of flags, "-x VALUE" or "-xVALUE". */
static int take_letters(const struct cli_spec *spec, int argc, char **argv, int *i)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        const struct cli_option *o = find_option(spec->options, count_options(spec->options), NULL, 0, *p);
        int rc;

        if (!o && (o = find_option(common, COMMON_OPTIONS, NULL, 0, *p))) {
            if ((rc = take_common(spec, o)) != CLI_RUN) return rc;
            continue;
        }
        if (!o) return unknown_option(spec, argv[*i], strlen(argv[*i]));
        if (o->type == CLI_FLAG) {
            *(bool *)o->to = true;
            continue;
        }
        if (p[1]) return store(spec, o, p + 1);
        if (*i + 1 >= argc) return cli_misuse(spec, "-%c: %s is missing", *p, o->arg);
        return store(spec, o, argv[++*i]);
    }
    return CLI_RUN;
}

int cli_parse(const struct cli_spec *spec, int *argc, char **argv)
{
    int kept = 0, rc;
    bool options = true;

    for (int i = 1; i < *argc; i++) {
        if (options && !strcmp(argv[i], "--")) options = false;
        else if (options && !strncmp(argv[i], "--", 2)) {
            if ((rc = take_long(spec, *argc, argv, &i)) != CLI_RUN) return rc;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            if ((rc = take_letters(spec, *argc, argv, &i)) != CLI_RUN) return rc;
        } else argv[kept++] = argv[i];
    }
    *argc = kept;
    if (kept < spec->min_args) return cli_misuse(spec, "expected %s", spec->args);
    if (spec->max_args >= 0 && kept > spec->max_args) return cli_misuse(spec, "unexpected argument \"%s\"", argv[spec->max_args]);
    return CLI_RUN;
}

int cli_fail(const struct err *err)
{
    log_progress_end();
    fprintf(stderr, "pawl: %s\n", err->text);
    return err_exit_code(err->status);
}

static size_t count_commands(const struct cli_command *commands)
{
    size_t n = 0;

    while (commands[n].name) n++;
    return n;
}

static void print_commands(const char *prog, const char *about, const struct cli_command *commands)
{
    printf("%s COMMAND ...\n\n%s\n\nCommands:\n", prog, about);
    for (const struct cli_command *c = commands; c->name; c++) printf("  %-10s  %s\n", c->name, c->about);
    printf("\n%s COMMAND --help describes one of them, with an example.\n", prog);
}

int cli_dispatch(const char *prog, const char *about, const struct cli_command *commands, int argc, char **argv)
{
    size_t n = count_commands(commands);
    const char **names, *near;

    if (argc < 2) {
        fprintf(stderr, "%s: expected a command (%s --help lists them)\n", prog, prog);
        return err_exit_code(PAWL_EUSAGE);
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_commands(prog, about, commands);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        if (!strcmp(commands[i].name, argv[1])) return commands[i].run(argc - 1, argv + 1);
    names = xmalloc((n + 1) * sizeof *names);
    for (size_t i = 0; i < n; i++) names[i] = commands[i].name;
    near = nearest_name(argv[1], names, n);
    if (near) fprintf(stderr, "%s: unknown command \"%s\": did you mean %s? (%s --help lists them)\n", prog, argv[1], near, prog);
    else fprintf(stderr, "%s: unknown command \"%s\" (%s --help lists them)\n", prog, argv[1], prog);
    free(names);
    return err_exit_code(PAWL_EUSAGE);
}
