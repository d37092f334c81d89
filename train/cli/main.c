#include "train/cli/cli.h"
#include "train/cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command commands[] = {
    {"train", cmd_train, "start or resume a run from a YAML file"},
    {"ckpt", cmd_ckpt, "list, show, verify, prune and compare the checkpoints of a run"},
    {"eval", cmd_eval, "loss, perplexity and exact match on held-out data"},
    {"generate", cmd_generate, "answer prompts, one or a file of them"},
    {"data", cmd_data, "what a run would train on, and what looks wrong in it"},
    {"scaling", cmd_scaling, "the same steps on several numbers of ranks: speed-up, communication, memory"},
    {"doctor", cmd_doctor, "what this machine has: devices, instruction sets, libraries, disk, memory"},
    {0},
};

static const char about[] = "Fine-tune language models with LoRA and QLoRA on machines that may be taken away at any second.\n"
                            "Exit codes: 0 done, 1 failed, 2 misuse, 3 another process trains there, 75 stopped early and durable: start again.";

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* libgomp's threads wait for each other by spinning for milliseconds, which takes from whoever else is on these cores, often the very thread that is waited for: two threads on a shared
 * machine were two to four times slower. It reads its environment before main, so this process begins again under one that ends the spinning after some 50 us. Where that fails all goes on.
 * Where another program was started to run this one (a loader, an emulator), that one would begin again: then nothing does. */
static void spin_briefly(char **argv)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || n < 0) return;
    path[n] = '\0';
    if (!argv[0] || strcmp(base_name(path), base_name(argv[0]))) return;
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0) execv(path, argv);
}

int main(int argc, char **argv)
{
    spin_briefly(argv);
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("pawl %s\n", PAWL_VERSION);
        return 0;
    }
    return cli_dispatch("pawl", about, commands, argc, argv);
}
