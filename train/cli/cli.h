/* Options of a command: one table, from which parsing, --help and messages follow.
 *
 *     int cmd_show(int argc, char **argv)
 *     {
 *         bool all = false;
 *         const char *dir;
 *         const struct cli_option options[] = {
 *             {"all", 'a', CLI_FLAG, &all, NULL, "also those that don't verify"},
 *             {0},
 *         };
 *         const struct cli_spec spec = {"show", "RUN_DIR", "List what can be resumed.", "pawl show runs/a --json", options, .min_args = 1, .max_args = 1};
 *         int rc = cli_parse(&spec, &argc, argv);
 *
 *         if (rc != CLI_RUN) return rc;
 *         dir = argv[0];
 *         ...
 *         return st == PAWL_OK ? 0 : cli_fail(&err);
 *     }
 *
 * Commands are rows of the table in main.c; argv[0] is the command's name. */
#ifndef PAWL_CLI_CLI_H
#define PAWL_CLI_CLI_H

#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum cli_type {
    CLI_FLAG,   /* bool: --name sets it, --no-name clears it */
    CLI_STRING, /* const char *: points into argv */
    CLI_INT,    /* int64_t */
    CLI_FLOAT,  /* double */
    CLI_LIST,   /* struct cli_list: repeatable; free cli_list.at */
};

struct cli_list {
    const char **at; /* the strings are argv's */
    size_t n;
};

struct cli_option {
    const char *name; /* without its dashes; NULL ends a table */
    char letter;      /* 0: none */
    enum cli_type type;
    void *to;         /* what type says; keeps its value where the option is not given */
    const char *arg;  /* the argument's name in the help, "N"; NULL for a flag */
    const char *help;
    double min, max;  /* of CLI_INT and CLI_FLOAT, inclusive; both 0: any */
};

struct cli_spec {
    const char *name;  /* "ckpt ls" */
    const char *args;  /* "RUN.yaml", "" */
    const char *about; /* one sentence or a few lines */
    const char *example;
    const struct cli_option *options; /* ends with {0}; NULL: none */
    int min_args, max_args;           /* positional; max_args -1: any number */
    bool *json;                       /* where --json goes; NULL: the command prints no result and --json is refused */
};

enum { CLI_RUN = -1 };

/* Takes the options out of argv, in any order; "--name value" and "--name=value"; "--" ends them. Afterwards argv[0..*argc) are the positional arguments.
 * --help, -h, -q and -v are understood everywhere. Returns CLI_RUN, or the exit code with which the command is to end: 0 after --help,
 * 2 after one line on stderr (unknown option with the nearest one, missing or bad value, too few or too many arguments). */
int cli_parse(const struct cli_spec *spec, int *argc, char **argv);

/* "pawl NAME: TEXT (pawl NAME --help)" on stderr; returns exit code 2. */
int cli_misuse(const struct cli_spec *spec, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "pawl: TEXT" on stderr; returns the exit code of err->status. */
int cli_fail(const struct err *err);

struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name */
    const char *about;
};

/* Finds argv[1] in a table that ends with {0} and runs it: main's commands, or the words behind `pawl ckpt`. `prog` is what stands before the command
 * ("pawl", "pawl ckpt"). --help lists the table; a misspelt command is exit 2 with the nearest. */
int cli_dispatch(const char *prog, const char *about, const struct cli_command *commands, int argc, char **argv);

#endif
