#include "train/cli/cli.h"
#include "train/cli/commands.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "kernels/dev.h"
#include "train/config/config.h"
#include "train/config/locate.h"
#include "train/run/restore.h"
#include "train/run/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say_if_missing(const char *key, const char *name, enum locate_kind kind, const char *revision)
{
    struct err err;
    char *path;

    if (locate(&path, name, kind, revision, &err) == PAWL_OK) free(path);
    else log_warn("not here: %s: %s", key, err.text);
}

static void say_missing_datasets(const char *key, const struct dataset_config *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *name = xasprintf("%s.%zu.path", key, i);

        say_if_missing(name, list[i].path, LOCATE_DATASET, list[i].revision);
        free(name);
    }
}

/* --check: the configuration is well-formed; what it names need not be here yet. */
static void check(const struct config *c)
{
    struct buf yaml = {0};

    say_if_missing("base_model", c->base_model, LOCATE_MODEL, NULL);
    if (c->lora_model_dir) say_if_missing("lora_model_dir", c->lora_model_dir, LOCATE_MODEL, NULL);
    say_missing_datasets("datasets", c->datasets, c->ndatasets);
    say_missing_datasets("test_datasets", c->test_datasets, c->ntest_datasets);
    if (c->chat_template_jinja && !strpbrk(c->chat_template_jinja, "{\n") && access(c->chat_template_jinja, R_OK) != 0)
        log_warn("not here: chat_template_jinja: %s: no such file", c->chat_template_jinja);
    config_write_yaml(c, &yaml);
    fwrite(yaml.data, 1, yaml.len, stdout);
    buf_free(&yaml);
}

/* Rank 0 speaks for all; another one says only what it alone knows, and of a death each machine says it once. */
static int train(struct config *config, struct trainer_options *run, int ranks)
{
    struct err err;
    bool parent = false, told;
    int rc = 0;

    if (!ranks && !run->ranks.launcher && (ranks = dev_cards(config->device, config->bf16 == CONFIG_OFF ? DTYPE_F32 : DTYPE_BF16)) > 1)
        log_info("%d cards: a process for each (--ranks N for another number)", ranks);
    if (ranks > 1 && ranks_start(&run->ranks, ranks, config->comm_timeout, &parent, &rc, &err) != PAWL_OK) return cli_fail(&err);
    if (parent) return rc;
    if (run->ranks.rank) log_level = LOG_SILENT;
    run->version = PAWL_VERSION;
    if (run_train(config, run, &err) == PAWL_OK) return 0;
    if (!run->ranks.rank) return cli_fail(&err);
    rc = err_exit_code(err.status);
    told = strncmp(err.text, "rank ", 5) == 0 || err.status == PAWL_ENUMERIC; /* by another rank or about one; losses are everybody's */
    if (err.status == PAWL_ESTOPPED ? told && run->ranks.local_rank == 0 : !told) fprintf(stderr, "pawl: rank %d: %s\n", run->ranks.rank, err.text);
    return rc;
}

int cmd_train(int argc, char **argv)
{
    struct cli_list sets = {0};
    struct trainer_options run = {0};
    bool only_check = false, help_keys = false;
    int64_t ranks = 0;
    const struct cli_option options[] = {
        {"set", 0, CLI_LIST, &sets, "KEY=VALUE", "override a key; repeatable; datasets.0.path=F for nested ones", 0, 0},
        {"fresh", 0, CLI_FLAG, &run.fresh, NULL, "move the old run to output_dir/old-TIME and begin anew", 0, 0},
        {"accept-changes", 0, CLI_FLAG, &run.accept_changes, NULL, "go on although configuration, model or data changed since the checkpoint", 0, 0},
        {"ranks", 0, CLI_INT, &ranks, "N", "start N processes on this machine that share out each batch and the optimizer's state", 1, RANKS_MAX},
        {"profile", 0, CLI_FLAG, &run.profile, NULL, "measure every op: prints time by op and layer, writes profile.json and trace.json (for chrome://tracing) to output_dir", 0, 0},
        {"check", 0, CLI_FLAG, &only_check, NULL, "only read the configuration: print it resolved, name files that are not here", 0, 0},
        {"help-keys", 0, CLI_FLAG, &help_keys, NULL, "describe every key of a configuration", 0, 0},
        {0},
    };
    const struct cli_spec spec = {"train", "RUN.yaml | NAME:BUCKET/PATH", "Start a run, or go on with it where it stopped. NAME:BUCKET/PATH (of `remote`) goes on with what was uploaded there, on any machine.",
                                  "pawl train configs/smollm2-135m.yaml --set learning_rate=1e-4\n  pawl train s3:bucket/run-7 --set output_dir=runs/7", options, 0, 1, NULL};
    struct config *config = NULL;
    char *from_remote = NULL, *remote_set = NULL;
    struct stat info;
    struct err err;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) goto done;
    if (help_keys) {
        struct buf help = {0};

        config_help(&help);
        fwrite(help.data, 1, help.len, stdout);
        buf_free(&help);
        rc = 0;
        goto done;
    }
    if (argc < 1) {
        rc = cli_misuse(&spec, "expected RUN.yaml, or the NAME:BUCKET/PATH of a remote");
        goto done;
    }
    if (ranks_from_environment(&run.ranks, &err) != PAWL_OK) {
        rc = cli_fail(&err);
        goto done;
    }
    if (ranks && run.ranks.launcher) {
        rc = cli_misuse(&spec, "--ranks: %s has started %d ranks already: leave it out", run.ranks.launcher, run.ranks.size);
        goto done;
    }
    if (run.ranks.rank) log_level = LOG_SILENT;
    if (remote_is_name(argv[0])) {
        if (restore_config(&from_remote, argv[0], &err) != PAWL_OK) {
            rc = cli_fail(&err);
            goto done;
        }
        remote_set = xasprintf("remote=%s", argv[0]);
        sets.at = xreallocarray(sets.at, sets.n + 1, sizeof *sets.at);
        sets.at[sets.n++] = remote_set;
    }
    if (!from_remote && stat(argv[0], &info) == 0 && S_ISDIR(info.st_mode)) {
        err_set(&err, PAWL_EINVAL, "%s: is a directory: expected RUN.yaml; `pawl train %s/config.yaml` goes on with the run that is kept there", argv[0], argv[0]);
        rc = cli_fail(&err);
        goto done;
    }
    if (config_load(&config, from_remote ? from_remote : argv[0], sets.at, sets.n, &err) != PAWL_OK) {
        rc = cli_fail(&err);
        goto done;
    }
    if (only_check) {
        check(config);
        rc = 0;
    } else {
        rc = train(config, &run, (int)ranks);
    }
done:
    if (from_remote) unlink(from_remote);
    free(from_remote);
    free(remote_set);
    config_free(config);
    free(sets.at);
    return rc;
}
