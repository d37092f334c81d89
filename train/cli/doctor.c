#include "train/cli/cli.h"
#include "train/cli/commands.h"

#include "kernels/base/clock.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <dirent.h>
#include <fcntl.h>
#include <omp.h>
#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utf8proc.h>
#include <yaml.h>
#include <zlib.h>

/* A report is a list of named lines; --json prints the same names and texts as one object. */
struct report {
    struct buf text, json;
};

static void say(struct report *r, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct report *r, const char *name, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_addf(&r->text, "%-18s %s\n", name, line);
    buf_addf(&r->json, "%s\"%s\":", r->json.len ? "," : "{", name);
    json_add_string(&r->json, line, strlen(line));
}

/* The rest of the first line of a /proc file that begins with key and then a colon; "" if there is none. */
static void proc_field(const char *path, const char *key, char *out, size_t size)
{
    char line[512];
    FILE *f = fopen(path, "r");

    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');

        if (!colon || strncmp(line, key, strlen(key))) continue;
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        out[strcspn(out, "\n")] = 0;
        break;
    }
    if (f) fclose(f);
}

static void first_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");

    if (!f || !fgets(out, (int)size, f)) snprintf(out, size, "not known");
    out[strcspn(out, "\n")] = 0;
    if (f) fclose(f);
}

static void report_cpu(struct report *r)
{
    const char *forced = getenv("PAWL_ISA"), *best = "portable";
    char model[256];

#if defined __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = "avx2";
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512bf16")) best = "avx512bf16";
#endif
    proc_field("/proc/cpuinfo", "model name", model, sizeof model);
    say(r, "cpu", "%s, %ld online, %d for this process", *model ? model : "not known", sysconf(_SC_NPROCESSORS_ONLN), omp_get_num_procs());
    say(r, "instruction_set", "%s%s%s", best, forced ? ", PAWL_ISA asks for " : "", forced ? forced : "");
}

static void report_memory(struct report *r)
{
    char total[64], available[64], thp[128], pages[64];

    proc_field("/proc/meminfo", "MemTotal", total, sizeof total);
    proc_field("/proc/meminfo", "MemAvailable", available, sizeof available);
    proc_field("/proc/meminfo", "HugePages_Total", pages, sizeof pages);
    first_line("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof thp);
    say(r, "memory", "%.1f GiB, %.1f GiB available", atof(total) / (1 << 20), atof(available) / (1 << 20));
    say(r, "huge_pages", "transparent: %s; reserved: %s", thp, *pages ? pages : "0");
}

static void report_gpus(struct report *r)
{
    static const char root[] = "/proc/driver/nvidia/gpus";
    DIR *dir = opendir(root);
    struct dirent *e;
    int n = 0;

    while (dir && (e = readdir(dir))) {
        char path[512], model[256], name[16];

        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.200s/information", root, e->d_name);
        proc_field(path, "Model", model, sizeof model);
        snprintf(name, sizeof name, "gpu_%d", n++);
        say(r, name, "%s at %.200s", *model ? model : "not known", e->d_name);
    }
    if (dir) closedir(dir);
    if (!n) say(r, "gpu", "none (no NVIDIA driver loaded)");
}

static void report_libraries(struct report *r)
{
    char pcre2[64] = "";

    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    say(r, "libraries", "zlib %s, libyaml %s, PCRE2 %s, utf8proc %s", zlibVersion(), yaml_get_version_string(), pcre2, utf8proc_version());
}

/* Programs that some keys need, and what for. */
static void report_programs(struct report *r)
{
    static const struct {
        const char *name, *what_for;
    } programs[] = {{"rclone", "remote:"}, {"mpirun", "several ranks without GPUs"}, {"nvcc", "building the CUDA backend"}};
    const char *path = getenv("PATH");

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *dirs = xstrdup(path ? path : ""), *rest = dirs, *dir, *found = NULL;

        while (!found && (dir = strsep(&rest, ":"))) {
            char *file = xasprintf("%s/%s", dir, programs[i].name);

            if (access(file, X_OK) == 0) found = file;
            else free(file);
        }
        say(r, programs[i].name, "%s (%s)", found ? found : "not found", programs[i].what_for);
        free(found);
        free(dirs);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* What a durable step costs at least: 64 KiB over the same place of a file, then fdatasync, as the journal does it. */
static enum pawl_status report_disk(struct report *r, const char *dir, struct err *err)
{
    enum { TIMES = 16, BLOCK = 64 << 10 };
    static const char block[BLOCK];
    double seconds[TIMES];
    char *path = xasprintf("%s/.pawl-doctor-XXXXXX", dir);
    int fd = mkstemp(path);
    enum pawl_status st = PAWL_OK;

    if (fd < 0) {
        st = err_sys(err, "%s: the disk can't be tried there", dir);
        free(path);
        return st;
    }
    unlink(path);
    for (int i = 0; i < TIMES && st == PAWL_OK; i++) {
        double start = clock_seconds();

        if (pwrite(fd, block, BLOCK, 0) != BLOCK || fdatasync(fd) != 0) st = err_sys(err, "%s: writing and fdatasync", dir);
        seconds[i] = clock_seconds() - start;
    }
    if (st == PAWL_OK) {
        qsort(seconds, TIMES, sizeof *seconds, by_value);
        say(r, "disk_sync", "%.2f ms median, %.2f ms worst of %d (64 KiB and fdatasync in %s)", 1e3 * seconds[TIMES / 2], 1e3 * seconds[TIMES - 1], TIMES, dir);
    }
    close(fd);
    free(path);
    return st;
}

int cmd_doctor(int argc, char **argv)
{
    const char *dir = ".";
    bool json = false;
    const struct cli_option options[] = {
        {"dir", 0, CLI_STRING, &dir, "DIR", "where to measure the disk (default: here)", 0, 0},
        {0},
    };
    const struct cli_spec spec = {"doctor", "", "What this machine has: devices, instruction sets, libraries, disk, memory.",
                                  "pawl doctor --dir /mnt/runs", options, 0, 0, &json};
    struct report r = {0};
    struct err err;
    enum pawl_status st;
    int rc = cli_parse(&spec, &argc, argv);

    if (rc != CLI_RUN) return rc;
    say(&r, "pawl", "%s", PAWL_VERSION);
    report_cpu(&r);
    report_gpus(&r);
    report_memory(&r);
    st = report_disk(&r, dir, &err);
    report_libraries(&r);
    report_programs(&r);
    if (st == PAWL_OK) {
        if (json) printf("%s}\n", r.json.data);
        else fputs(r.text.data, stdout);
    }
    buf_free(&r.text);
    buf_free(&r.json);
    return st == PAWL_OK ? 0 : cli_fail(&err);
}
