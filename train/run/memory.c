#include "train/run/memory.h"

#include <stdio.h>
#include <string.h>

/* What helps against the size of a segment, by its name in the size table. */
static const struct {
    const char *segment, *remedy;
} remedies[] = {
    {"weights", "set load_in_4bit: true, or take a smaller model"},
    {"activations", "lower micro_batch_size or sequence_len, or set gradient_checkpointing: true"},
    {"checkpoints", "lower micro_batch_size or sequence_len"},
    {"workspace", "lower micro_batch_size or sequence_len"},
    {"adapter", "lower lora_r, or name fewer lora_target_modules"},
    {"optimizer", "lower lora_r, or name fewer lora_target_modules"},
    {"gradient", "lower lora_r, or name fewer lora_target_modules"},
    {"gradient tree", "lower lora_r or global_batch_size"},
    {"journal", "set journal: false, or lower lora_r"},
};

static const char *remedy_for(const char *segment)
{
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (!strcmp(remedies[i].segment, segment)) return remedies[i].remedy;
    return "lower micro_batch_size or sequence_len";
}

/* What the system says is available, 0: unknown. */
static size_t host_available(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kib = 0;

    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    return (size_t)kib * 1024;
}

/* The larger of what is known so far and the largest segment. */
static void find_largest(const struct arena *a, const char **name, size_t *bytes)
{
    for (int i = 0; i < a->nseg; i++) {
        size_t b = arena_segment_bytes(a, a->seg[i].name);

        if (b > *bytes) *name = a->seg[i].name, *bytes = b;
    }
}

static bool fits(const char *where, const struct arena *const *tables, int n, size_t weights, size_t budget, const char *advice, struct err *err)
{
    size_t need = weights, largest = weights;
    const char *name = "weights";

    for (int i = 0; i < n; i++) {
        need += arena_bytes(tables[i]);
        find_largest(tables[i], &name, &largest);
    }
    if (!budget || need <= budget) return true;
    if (err)
        err_set(err, PAWL_ENOMEM, "memory of %s: %.0f MiB are needed, %.0f MiB may be used; most takes \"%s\" with %.0f MiB (weights %.0f): %s", where, (double)need / 1048576,
                (double)budget / 1048576, name, (double)largest / 1048576, (double)weights / 1048576, advice ? advice : remedy_for(name));
    return false;
}

/* Of the weights that the device holds. */
static size_t weight_bytes(const struct trainer *t)
{
    return t->model->weight_bytes - (t->model->embed_on_host ? model_embed_bytes(t->model) : 0);
}

bool memory_suffices(const struct trainer *t, const char *advice, struct err *err)
{
    const struct arena *tables[] = {&t->arena, &t->host};
    struct dev *dev = t->dev;
    size_t limit = (size_t)t->cfg->memory_limit, weights = weight_bytes(t);

    if (!dev->ops->available) return fits("this machine", tables, 2, weights, limit ? limit : host_available(), advice, err);
    return fits(dev->name, tables, 1, weights, limit ? limit : dev->ops->available(dev), advice, err) && fits("this machine", tables + 1, 1, 0, host_available(), NULL, err);
}

void memory_json(const struct trainer *t, struct buf *out)
{
    const struct arena *a = &t->arena;

    buf_addf(out, "{\"weights\":%zu", weight_bytes(t));
    for (int i = 0; i < a->nseg; i++) {
        bool told = false;

        for (int k = 0; k < i; k++) told |= !strcmp(a->seg[k].name, a->seg[i].name);
        if (!told) buf_addf(out, ",\"%s\":%zu", a->seg[i].name, arena_segment_bytes(a, a->seg[i].name));
    }
    buf_addc(out, '}');
}
