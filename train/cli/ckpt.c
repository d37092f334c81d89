#include "train/cli/cli.h"
#include "train/cli/ckpt_diff.h"
#include "train/cli/ckpt_remote.h"
#include "train/cli/commands.h"

#include "ckpt/journal.h"
#include "ckpt/remote.h"
#include "ckpt/store.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t bytes_of(const struct ckpt *c)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < c->n_files; i++) sum += c->files[i].sum.bytes;
    return sum;
}

static const char *reason_of(const struct ckpt *c)
{
    return c->verified ? "" : c->why.text;
}

/* --- listing: the keys are INTERFACE's */

static void add_json(struct buf *b, const struct ckpt *c)
{
    buf_addf(b, "{\"step\":%lld,\"generation\":%llu,\"path\":", (long long)c->step, (unsigned long long)c->generation);
    json_add_string(b, c->path, strlen(c->path));
    buf_addf(b, ",\"verified\":%s,\"reason\":", c->verified ? "true" : "false");
    json_add_string(b, reason_of(c), strlen(reason_of(c)));
    buf_addc(b, '}');
}

static void print_list(const struct ckpt_list *l, bool json)
{
    struct buf b = {0};

    if (json) {
        buf_addc(&b, '[');
        for (size_t i = 0; i < l->n; i++) {
            if (i) buf_addc(&b, ',');
            add_json(&b, l->items[i]);
        }
        buf_adds(&b, "]\n");
    } else {
        buf_addf(&b, "%10s %4s %9s  %s\n", "step", "gen", "MB", "checkpoint");
        for (size_t i = 0; i < l->n; i++) {
            const struct ckpt *c = l->items[i];
            buf_addf(&b, "%10lld %4llu %9.1f  %s", (long long)c->step, (unsigned long long)c->generation, (double)bytes_of(c) / 1e6, c->path);
            buf_addf(&b, c->verified ? "  verified\n" : "  NOT USABLE: %s\n", reason_of(c));
        }
    }
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_checkpoint(const char *path)
{
    char *manifest = xasprintf("%s/" CKPT_MANIFEST, path);
    const char *slash = strrchr(path, '/');
    int64_t step;
    bool yes = file_exists(manifest) || ckpt_name_step(slash ? slash + 1 : path, &step);

    free(manifest);
    return yes;
}

/* Completion in a shell leaves a slash behind directories. */
static void trim_slashes(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        for (size_t n = strlen(argv[i]); n > 1 && argv[i][n - 1] == '/'; n--) argv[i][n - 1] = 0;
}

/* Adds the checkpoint that path is, or those of the run directory that it is; each verified. */
static enum pawl_status add_verified(struct ckpt_list *out, const char *path, struct err *err)
{
    struct ckpt_list found = {0};
    enum pawl_status st = PAWL_OK;

    if (!is_directory(path)) return err_set(err, PAWL_EIO, "%s: no such directory: expected a run directory or a checkpoint", path);
    if (is_checkpoint(path)) {
        found.items = xmalloc(sizeof *found.items);
        found.items[found.n++] = ckpt_read(path);
    } else {
        st = ckpt_list(&found, path, err);
    }
    out->items = xreallocarray(out->items, out->n + found.n, sizeof *out->items);
    for (size_t i = 0; i < found.n; i++) {
        ckpt_verify(found.items[i], &fsys_real, false);
        out->items[out->n++] = found.items[i];
    }
    free(found.items);
    return st;
}

/* The journal's slots, for a person: they are states and no adapters, so the JSON, whose paths are adapters, leaves them out. A slot that is being written just now does not verify. */
static enum pawl_status print_journal(const char *run_dir, struct err *err)
{
    char *dir = xasprintf("%s/" JOURNAL_DIR, run_dir);
    struct journal_slots slots;
    enum pawl_status st = journal_read(&slots, dir, err);

    free(dir);
    if (st != PAWL_OK) return st;
    for (size_t i = 0; i < slots.n; i++) {
        const struct journal_slot *s = &slots.items[i];

        if (s->blank) continue;
        printf("%10lld %4llu %9.1f  %s  ", (long long)s->at.step, (unsigned long long)s->at.generation, (double)s->map.size / 1e6, s->path);
        if (s->why.status != PAWL_OK) printf("NOT USABLE: %s\n", s->why.text);
        else if (s->at.row) printf("verified, and %lld rows of the next step\n", (long long)s->at.row);
        else puts("verified");
    }
    journal_slots_free(&slots);
    return PAWL_OK;
}

static int cmd_ls(int argc, char **argv)
{
    bool json = false;
    const struct cli_spec spec = {"ckpt ls", "RUN_DIR | NAME:BUCKET/PATH", "What can be resumed, newest first, and why the others can't. Every byte is read; of a remote, the manifests and the sizes of its objects.",
                                  "pawl ckpt ls runs/a --json", NULL, 1, 1,
                                  &json};
    struct ckpt_list list = {0};
    struct err err;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    trim_slashes(argc, argv);
    if (remote_is_name(argv[0])) return ckpt_remote_ls(argv[0], json, &err) == PAWL_OK ? 0 : cli_fail(&err);
    rc = 0;
    if (add_verified(&list, argv[0], &err) != PAWL_OK) {
        rc = cli_fail(&err);
    } else {
        print_list(&list, json);
        if (!json && print_journal(argv[0], &err) != PAWL_OK) rc = cli_fail(&err);
    }
    ckpt_list_free(&list);
    return rc;
}

static int cmd_verify(int argc, char **argv)
{
    bool json = false;
    const struct cli_spec spec = {"ckpt verify", "DIR... | NAME:BUCKET/PATH", "Reads every byte of checkpoints, or of all in run directories or a remote (which downloads them); exit 1 unless all of them verify.",
                                  "pawl ckpt verify runs/a/checkpoint-200", NULL, 1, -1, &json};
    struct ckpt_list list = {0};
    struct err err;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    trim_slashes(argc, argv);
    if (argc == 1 && remote_is_name(argv[0])) {
        bool all = false;

        return ckpt_remote_verify(argv[0], json, &all, &err) != PAWL_OK ? cli_fail(&err) : all ? 0 : 1;
    }
    rc = 0;
    for (int i = 0; i < argc; i++)
        if (add_verified(&list, argv[i], &err) != PAWL_OK) {
            rc = cli_fail(&err);
            goto done;
        }
    print_list(&list, json);
    for (size_t i = 0; i < list.n; i++)
        if (!list.items[i]->verified) rc = 1;
done:
    ckpt_list_free(&list);
    return rc;
}

/* --- one */

/* path itself, or the newest of the run directory that it is. */
static enum pawl_status open_one(struct ckpt **out, const char *path, struct err *err)
{
    enum pawl_status st = PAWL_OK;

    if (!is_directory(path)) return err_set(err, PAWL_EIO, "%s: no such directory: expected a run directory or a checkpoint", path);
    if (is_checkpoint(path)) {
        *out = ckpt_read(path);
        ckpt_verify(*out, &fsys_real, false);
    } else if ((st = ckpt_newest(out, NULL, path, err)) == PAWL_OK && !*out) {
        st = err_set(err, PAWL_EFORMAT, "%s: holds no checkpoint that verifies (pawl ckpt ls says why)", path);
    }
    return st;
}

static void print_one(const struct ckpt *c, bool json)
{
    struct buf b = {0};

    if (json) {
        add_json(&b, c);
        b.len--; /* the object goes on */
        buf_adds(&b, ",\"run_id\":");
        json_add_string(&b, c->run_id, strlen(c->run_id));
        buf_addf(&b, ",\"format_version\":%lld,\"files\":[", (long long)c->format_version);
        for (size_t i = 0; i < c->n_files; i++) {
            buf_adds(&b, i ? ",{\"name\":" : "{\"name\":");
            json_add_string(&b, c->files[i].name, strlen(c->files[i].name));
            buf_addf(&b, ",\"bytes\":%llu,\"crc32\":\"%08x\"}", (unsigned long long)c->files[i].sum.bytes, c->files[i].sum.crc);
        }
        buf_adds(&b, "],\"state\":");
        if (c->state) json_add_value(&b, c->state);
        else buf_adds(&b, "null");
        buf_adds(&b, "}\n");
    } else {
        buf_addf(&b, "%s\n  step %lld, generation %llu, run %s, format version %lld\n  %s\n", c->path, (long long)c->step, (unsigned long long)c->generation, c->run_id,
                 (long long)c->format_version, c->verified ? "verified" : c->why.text);
        for (size_t i = 0; i < c->n_files; i++) buf_addf(&b, "  %12llu bytes  %s\n", (unsigned long long)c->files[i].sum.bytes, c->files[i].name);
        for (size_t i = 0; c->state && i < c->state->len; i++) {
            buf_addf(&b, "  %-24s ", c->state->keys[i].text);
            json_add_value(&b, &c->state->items[i]);
            buf_addc(&b, '\n');
        }
    }
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

static int cmd_show(int argc, char **argv)
{
    bool json = false;
    const struct cli_spec spec = {"ckpt show", "DIR | NAME:BUCKET/PATH", "What a checkpoint (of a run directory: the newest that verifies) or a state of a remote holds; exit 1 unless it verifies.", "pawl ckpt show runs/a", NULL,
                                  1, 1, &json};
    struct ckpt *c = NULL;
    struct err err;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    trim_slashes(argc, argv);
    if (remote_is_name(argv[0])) return ckpt_remote_show(argv[0], json, &err) == PAWL_OK ? 0 : cli_fail(&err);
    if (open_one(&c, argv[0], &err) != PAWL_OK) return cli_fail(&err);
    print_one(c, json);
    rc = c->verified ? 0 : 1;
    ckpt_free(c);
    return rc;
}

/* --- prune */

/* The best by evaluation, to be freed: as the newest that verifies says, since links get lost in copies; NULL: none. */
static char *best_of(const char *run_dir)
{
    struct ckpt *c = NULL;
    int64_t step = 0;

    if (ckpt_newest(&c, NULL, run_dir, NULL) == PAWL_OK && c) json_int64(json_get(c->state, "best_step"), &step);
    ckpt_free(c);
    return step > 0 ? xasprintf(CKPT_PREFIX "%lld", (long long)step) : NULL;
}

static int cmd_prune(int argc, char **argv)
{
    int64_t keep = 3;
    struct retention rule = {0};
    bool json = false;
    const struct cli_option options[] = {
        {"keep", 0, CLI_INT, &keep, "N", "newest verified ones to keep (default 3), and the best by evaluation", 2, 1e9},
        {"dry-run", 'n', CLI_FLAG, &rule.dry_run, NULL, "only say how many would go", 0, 0},
        {0},
    };
    const struct cli_spec spec = {"ckpt prune", "RUN_DIR | NAME:BUCKET/PATH", "Removes checkpoints older than the newest N that verify (of a remote: states of each run, and what none of them names); nobody may be training there.", "pawl ckpt prune runs/a --keep 2",
                                  options, 1, 1, &json};
    struct store *store = NULL;
    struct err err;
    char linked[256], *link = NULL, *noted = NULL;
    size_t removed = 0;
    enum pawl_status st;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    trim_slashes(argc, argv);
    if (remote_is_name(argv[0])) {
        st = ckpt_remote_prune(argv[0], keep, rule.dry_run, &removed, &err);
        goto done;
    }
    if (!is_directory(argv[0])) {
        err_set(&err, PAWL_EIO, "%s: no such directory: expected a run directory", argv[0]);
        return cli_fail(&err);
    }
    link = xasprintf("%s/" STORE_BEST, argv[0]);
    ssize_t n = readlink(link, linked, sizeof linked - 1);
    linked[n > 0 ? n : 0] = 0;
    rule.limit = (int)keep;
    rule.best = n > 0 ? linked : (noted = best_of(argv[0]));
    if ((st = store_open(&store, &fsys_real, argv[0], &err)) == PAWL_OK) st = store_retain(store, &rule, &removed, &err);
done:
    if (st == PAWL_OK && json) printf("{\"removed\":%zu}\n", removed);
    else if (st == PAWL_OK) printf("%zu %s %s\n", removed, removed == 1 ? "checkpoint" : "checkpoints", rule.dry_run ? "would be removed" : "removed");
    store_close(store);
    free(noted);
    free(link);
    return st == PAWL_OK ? 0 : cli_fail(&err);
}

/* --- diff */

/* The newest verified of a run directory; of a remote the newest, in a temporary directory *tmp; anything else as it is: a checkpoint, or an adapter of anybody. To be freed. */
static enum pawl_status directory_to_compare(char **out, char **tmp, const char *path, struct err *err)
{
    struct ckpt_list list = {0};
    struct ckpt *c = NULL;
    enum pawl_status st;

    if (remote_is_name(path)) return ckpt_remote_fetch(out, tmp, path, err);
    st = is_directory(path) ? PAWL_OK : err_set(err, PAWL_EIO, "%s: no such directory: expected a run directory, a checkpoint or an adapter", path);

    if (st == PAWL_OK && !is_checkpoint(path)) st = ckpt_list(&list, path, err);
    if (st == PAWL_OK && list.n) st = open_one(&c, path, err);
    if (st == PAWL_OK) *out = xstrdup(c ? c->path : path);
    ckpt_free(c);
    ckpt_list_free(&list);
    return st;
}

static int cmd_diff(int argc, char **argv)
{
    bool json = false;
    const struct cli_spec spec = {"ckpt diff", "A B", "How much every tensor of two checkpoints (or adapters, or the newest of two runs or remotes) differs.",
                                  "pawl ckpt diff runs/a/checkpoint-100 runs/a/checkpoint-200", NULL, 2, 2, &json};
    struct err err;
    char *a = NULL, *b = NULL, *tmp[2] = {NULL, NULL};
    enum pawl_status st;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    trim_slashes(argc, argv);
    if ((st = directory_to_compare(&a, &tmp[0], argv[0], &err)) == PAWL_OK && (st = directory_to_compare(&b, &tmp[1], argv[1], &err)) == PAWL_OK) st = ckpt_diff(a, b, json, &err);
    for (int i = 0; i < 2; i++) {
        if (tmp[i]) file_remove_tree(&fsys_real, tmp[i], NULL);
        free(tmp[i]);
    }
    free(a);
    free(b);
    return st == PAWL_OK ? 0 : cli_fail(&err);
}

int cmd_ckpt(int argc, char **argv)
{
    static const struct cli_command commands[] = {
        {"ls", cmd_ls, "what can be resumed, and why the others can't"},
        {"show", cmd_show, "what one holds"},
        {"verify", cmd_verify, "read every byte of it"},
        {"prune", cmd_prune, "remove old ones"},
        {"diff", cmd_diff, "how much two differ, tensor by tensor"},
        {0},
    };
    return cli_dispatch("pawl ckpt", "Look after the checkpoints of a run directory.\n\nExample:\n  pawl ckpt ls runs/a --json", commands, argc, argv);
}
