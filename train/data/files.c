#include "train/data/files.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/config/config.h"
#include "train/config/locate.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH 8 /* of directories: a cycle of links ends here */

/* --- formats that are not read */

static const struct {
    const char *name, *suffix;
    const char *magic;
    size_t magic_len;
    const char *convert; /* %s: the path, twice at most */
} foreign[] = {
    {"Parquet", ".parquet", "PAR1", 4, "python3 -c \"import pandas; pandas.read_parquet('%s').to_json('%s.jsonl', orient='records', lines=True, force_ascii=False)\""},
    {"Arrow", ".arrow", "ARROW1", 6, "python3 -c \"import datasets; datasets.Dataset.from_file('%s').to_json('%s.jsonl', force_ascii=False)\""},
    {"CSV", ".csv", NULL, 0, "python3 -c \"import pandas; pandas.read_csv('%s').to_json('%s.jsonl', orient='records', lines=True, force_ascii=False)\""},
    {"TSV", ".tsv", NULL, 0, "python3 -c \"import pandas; pandas.read_csv('%s', sep='\\t').to_json('%s.jsonl', orient='records', lines=True, force_ascii=False)\""},
    {"Zstandard", ".zst", "\x28\xb5\x2f\xfd", 4, "zstd -d '%s'"},
    {"xz", ".xz", "\xfd" "7zXZ", 5, "unxz -k '%s'"},
    {"bzip2", ".bz2", "BZh", 3, "bunzip2 -k '%s'"},
    {"zip", ".zip", "PK\x03\x04", 4, "unzip '%s'"},
};
#define FOREIGN (sizeof foreign / sizeof *foreign)

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcasecmp(s + n - m, end);
}

static enum pawl_status refuse(const char *path, size_t kind, struct err *err)
{
    char command[1400];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, foreign[kind].convert, path, path);
#pragma GCC diagnostic pop
    return err_set(err, PAWL_EFORMAT, "%s: %s is not read, JSON lines are: convert it with: %s", path, foreign[kind].name, command);
}

enum pawl_status files_check_format(const char *path, const unsigned char *head, size_t len, struct err *err)
{
    for (size_t i = 0; i < FOREIGN; i++) {
        bool magic = foreign[i].magic_len && len >= foreign[i].magic_len && !memcmp(head, foreign[i].magic, foreign[i].magic_len);

        if (magic || ends_with(path, foreign[i].suffix)) return refuse(path, i, err);
    }
    return PAWL_OK;
}

/* --- walking a directory */

static void add(struct files *f, char *path)
{
    f->path = xreallocarray(f->path, f->n + 1, sizeof *f->path);
    f->path[f->n++] = path;
}

void files_free(struct files *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->path[i]);
    free(f->path);
    *f = (struct files){0};
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* JSON files that describe a data set instead of being one. */
static bool describes(const char *name)
{
    static const char *const names[] = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "package.json"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(name, names[i])) return true;
    }
    return false;
}

static bool readable(const char *name)
{
    static const char *const suffixes[] = {".jsonl", ".json", ".jsonl.gz", ".json.gz", ".ndjson", ".ndjson.gz"};

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (ends_with(name, suffixes[i])) return !describes(name);
    }
    return false;
}

/* What can be read goes to f, the first file of a foreign format to *other. */
static enum pawl_status walk(struct files *f, char **other, const char *dir, int depth, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    struct dirent *entry;
    DIR *d = opendir(dir);

    if (!d) return err_sys(err, "%s: cannot be opened", dir);
    while (st == PAWL_OK && (entry = readdir(d)) != NULL) {
        struct stat info;
        char *path;

        if (entry->d_name[0] == '.') continue;
        path = xasprintf("%s/%s", dir, entry->d_name);
        if (stat(path, &info) != 0) {
            st = err_sys(err, "%s: cannot be examined", path);
        } else if (S_ISDIR(info.st_mode)) {
            if (depth < MAX_DEPTH) st = walk(f, other, path, depth + 1, err);
        } else if (S_ISREG(info.st_mode)) {
            if (readable(entry->d_name)) {
                add(f, path);
                path = NULL;
            } else if (files_check_format(path, NULL, 0, NULL) != PAWL_OK && (*other == NULL || strcmp(path, *other) < 0)) {
                free(*other);
                *other = path;
                path = NULL;
            }
        }
        free(path);
    }
    closedir(d);
    return st;
}

/* --- choosing among them */

/* Whether word stands in path as a word of its own: "data/train-00001.jsonl" names train. */
static bool names(const char *path, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = path; (p = strstr(p, word)) != NULL; p++) {
        if ((p == path || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[n])) return true;
    }
    return false;
}

static void keep_split(struct files *f, const char *root, const char *split)
{
    size_t kept = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (names(f->path[i] + strlen(root), split)) f->path[kept++] = f->path[i];
        else free(f->path[i]);
    }
    f->n = kept;
}

static size_t count_split(const struct files *f, const char *root, const char *split)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) n += names(f->path[i] + strlen(root), split);
    return n;
}

static enum pawl_status choose_split(struct files *f, const char *root, const struct dataset_config *part, struct err *err)
{
    const char *split = part->split ? part->split : "train";
    size_t all = f->n, n = count_split(f, root, split);

    if (n == 0 && part->split && strcmp(split, "train")) {
        return err_set(err, PAWL_EINVAL, "%s: none of %zu files, the first is %s, names the split \"%s\": give the files by data_files", root, all, f->path[0], split);
    }
    if (n == 0 || n == all) return PAWL_OK;
    keep_split(f, root, split);
    log_info("%s: %zu of %zu files are taken, those that name the split \"%s\"", root, n, all, split);
    return PAWL_OK;
}

static enum pawl_status by_pattern(struct files *f, const char *root, const struct str_list *patterns, struct err *err)
{
    for (size_t i = 0; i < patterns->n; i++) {
        char *pattern = patterns->at[i][0] == '/' ? xstrdup(patterns->at[i]) : xasprintf("%s/%s", root, patterns->at[i]);
        glob_t found;
        int rc = glob(pattern, GLOB_NOSORT, NULL, &found);

        if (rc != 0) {
            enum pawl_status st = err_set(err, PAWL_EINVAL, "%s: no such file (data_files: %s)", pattern, patterns->at[i]);

            free(pattern);
            return st;
        }
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_path);
        for (size_t k = 0; k < found.gl_pathc; k++) add(f, xstrdup(found.gl_pathv[k]));
        globfree(&found);
        free(pattern);
    }
    return PAWL_OK;
}

static enum pawl_status list_directory(struct files *f, const char *dir, const struct dataset_config *part, struct err *err)
{
    struct stat info;
    char *other = NULL, *root = part->name ? xasprintf("%s/%s", dir, part->name) : xstrdup(dir);
    enum pawl_status st;

    if (part->name && (stat(root, &info) != 0 || !S_ISDIR(info.st_mode))) {
        free(root);
        root = xstrdup(dir);
    }
    if (part->data_files.n) {
        st = by_pattern(f, root, &part->data_files, err);
    } else if ((st = walk(f, &other, root, 0, err)) == PAWL_OK) {
        if (f->n) qsort(f->path, f->n, sizeof *f->path, by_path);
        if (f->n) st = choose_split(f, root, part, err);
        else if (other) st = files_check_format(other, NULL, 0, err);
        else st = err_set(err, PAWL_EINVAL, "%s: no .jsonl, .json or .gz of these in this directory", root);
    }
    free(other);
    free(root);
    return st;
}

enum pawl_status files_list(struct files *out, const struct dataset_config *part, struct err *err)
{
    struct files f = {0};
    struct stat info;
    char *path = NULL;
    enum pawl_status st;

    if (part->split && strchr(part->split, '[')) {
        return err_set(err, PAWL_EINVAL, "datasets: split \"%s\" of %s: slices are not cut here, give a file that holds the lines wanted", part->split, part->path);
    }
    if ((st = locate(&path, part->path, LOCATE_DATASET, part->revision, err)) != PAWL_OK) return st;
    if (stat(path, &info) != 0) st = err_sys(err, "%s: cannot be examined", path);
    else if (S_ISDIR(info.st_mode)) st = list_directory(&f, path, part, err);
    else if (part->data_files.n) st = err_set(err, PAWL_EINVAL, "%s: is one file, data_files chooses among those of a directory: leave it out, or name the directory", path);
    else if (part->split && strcmp(part->split, "train")) st = err_set(err, PAWL_EINVAL, "%s: is one file, which has no split \"%s\": name the file that holds it", path, part->split);
    else add(&f, xstrdup(path));
    free(path);
    if (st == PAWL_OK) *out = f;
    else files_free(&f);
    return st;
}
