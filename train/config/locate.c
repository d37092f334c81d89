#include "train/config/locate.h"

#include "kernels/base/mem.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "owner/name" or "name" of the letters that the hub allows; "./name" and "a/b/c" are paths. */
static bool is_hub_id(const char *name)
{
    int slashes = 0;

    if (!isalnum((unsigned char)*name)) return false;
    for (const char *p = name; *p; p++) {
        if (*p == '/') slashes++;
        else if (!isalnum((unsigned char)*p) && !strchr("-_.", *p)) return false;
    }
    return slashes <= 1 && name[strlen(name) - 1] != '/' && strlen(name) <= 193;
}

static char *hub_cache(void)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""}, {"HUGGINGFACE_HUB_CACHE", ""}, {"HF_HOME", "/hub"}, {"XDG_CACHE_HOME", "/huggingface/hub"}, {"HOME", "/.cache/huggingface/hub"}};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);

        if (value && *value) return xasprintf("%s%s", value, places[i].below);
    }
    return xstrdup(".cache/huggingface/hub");
}

/* "models--owner--name" in the cache. */
static char *repository(const char *cache, const char *name, enum locate_kind kind)
{
    struct buf b = {0};

    buf_addf(&b, "%s/%s--", cache, kind == LOCATE_MODEL ? "models" : "datasets");
    for (const char *p = name; *p; p++) {
        if (*p == '/') buf_adds(&b, "--");
        else buf_addc(&b, *p);
    }
    return b.data;
}

/* The snapshot that refs/REVISION names, or that REVISION itself is; NULL where either is missing. */
static char *snapshot(const char *repo, const char *revision)
{
    char commit[128] = "", *path = xasprintf("%s/refs/%s", repo, revision);
    FILE *f = fopen(path, "r");

    free(path);
    if (f) {
        if (!fgets(commit, sizeof commit, f)) commit[0] = 0;
        fclose(f);
        commit[strcspn(commit, " \r\n")] = 0;
    }
    if (strchr(commit, '/') || strstr(revision, "..")) return NULL;
    path = xasprintf("%s/snapshots/%s", repo, *commit ? commit : revision);
    if (access(path, R_OK | X_OK) == 0) return path;
    free(path);
    return NULL;
}

enum pawl_status locate(char **out, const char *name, enum locate_kind kind, const char *revision, struct err *err)
{
    const char *home = getenv("HOME"), *rev = revision ? revision : "main";
    bool in_home = !strncmp(name, "~/", 2) && home;
    char *path = in_home ? xasprintf("%s%s", home, name + 1) : xstrdup(name), *cache, *repo;
    enum pawl_status st = PAWL_EINVAL;

    *out = NULL;
    if (access(path, F_OK) == 0) {
        *out = path;
        return PAWL_OK;
    }
    free(path);
    if (!is_hub_id(name)) return err_set(err, st, "%s: no such file or directory", name);

    cache = hub_cache();
    repo = repository(cache, name, kind);
    if ((*out = snapshot(repo, rev))) st = PAWL_OK;
    else {
        err_set(err, st, "%s: neither a path here nor in the Hugging Face cache %s: `hf download %s%s%s%s` fetches it", name, cache, name,
                kind == LOCATE_DATASET ? " --repo-type dataset" : "", revision ? " --revision " : "", revision ? revision : "");
    }
    free(repo);
    free(cache);
    return st;
}
