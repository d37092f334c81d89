#include "train/cli/ckpt_diff.h"

#include "ckpt/safetensors.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row of the result. */
struct difference {
    const char *file, *tensor, *shape;
    bool measured; /* max_abs, rms and relative mean something */
    bool equal;    /* bit for bit */
    double max_abs, rms, relative;
    const char *note; /* why it is not measured */
};

struct report {
    bool json;
    size_t rows, equal;
    struct buf text;
};

static bool is_number_type(enum dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F64 || t == DTYPE_BF16 || t == DTYPE_F16;
}

static double number_at(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DTYPE_F32: return ((const float *)t->data)[i];
    case DTYPE_F64: return ((const double *)t->data)[i];
    case DTYPE_BF16: return bf16_to_f32(((const bf16 *)t->data)[i]);
    default: return f16_to_f32(((const f16 *)t->data)[i]);
    }
}

static void measure(struct difference *d, const struct tensor *a, const struct tensor *b)
{
    int64_t n = tensor_elements(a);
    double sum = 0, base = 0;

    d->measured = true;
    for (int64_t i = 0; i < n; i++) {
        double x = number_at(a, i), delta = number_at(b, i) - x;

        sum += delta * delta;
        base += x * x;
        if (!(fabs(delta) <= d->max_abs)) d->max_abs = fabs(delta); /* NaN is taken, too */
    }
    d->rms = n ? sqrt(sum / (double)n) : 0;
    d->relative = sum == 0 ? 0 : sqrt(sum / base);
}

static void compare(struct difference *d, const struct tensor *a, const struct tensor *b)
{
    if (!a || !b) d->note = a ? "only in the first" : "only in the second";
    else if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0) d->note = "shapes differ";
    else {
        d->equal = a->dtype == b->dtype && !memcmp(a->data, b->data, a->bytes);
        if (is_number_type(a->dtype) && is_number_type(b->dtype)) measure(d, a, b);
        else d->note = d->equal ? "equal" : "differs";
    }
}

static void add_row(struct report *r, const struct difference *d)
{
    r->equal += d->equal;
    if (r->json) {
        buf_adds(&r->text, r->rows++ ? ",{\"file\":" : "{\"file\":");
        json_add_string(&r->text, d->file, strlen(d->file));
        buf_adds(&r->text, ",\"tensor\":");
        json_add_string(&r->text, d->tensor, strlen(d->tensor));
        buf_addf(&r->text, ",\"shape\":\"%s\",\"max_abs\":", d->shape);
        json_add_double(&r->text, d->measured ? d->max_abs : NAN);
        buf_adds(&r->text, ",\"rms\":");
        json_add_double(&r->text, d->measured ? d->rms : NAN);
        buf_adds(&r->text, ",\"relative\":");
        json_add_double(&r->text, d->measured ? d->relative : NAN);
        buf_addf(&r->text, ",\"equal\":%s}", d->equal ? "true" : "false");
        return;
    }
    r->rows++;
    if (d->measured) buf_addf(&r->text, "%11.4g %11.4g %11.4g  %s %s\n", d->max_abs, d->rms, d->relative, d->tensor, d->shape);
    else buf_addf(&r->text, "%35s  %s %s\n", d->note, d->tensor, d->shape);
}

/* Both lists are sorted by name: one walk. */
static void compare_files(struct report *r, const char *file, const struct safetensors *a, const struct safetensors *b)
{
    size_t na = a ? safetensors_count(a) : 0, nb = b ? safetensors_count(b) : 0;
    char shape[192];

    if (!r->json) buf_addf(&r->text, "%s\n%11s %11s %11s  tensor\n", file, "max", "rms", "relative");
    for (size_t i = 0, k = 0; i < na || k < nb;) {
        const struct tensor *x = i < na ? safetensors_at(a, i) : NULL, *y = k < nb ? safetensors_at(b, k) : NULL;
        int order = !x ? 1 : !y ? -1 : strcmp(x->name, y->name);

        if (order > 0) x = NULL;
        if (order < 0) y = NULL;
        i += x != NULL;
        k += y != NULL;
        const struct tensor *t = x ? x : y;
        struct difference d = {.file = file, .tensor = t->name, .shape = tensor_shape_text(shape, t->rank, t->shape)};
        compare(&d, x, y);
        add_row(r, &d);
    }
}

static bool is_safetensors(const char *name)
{
    size_t n = strlen(name);
    return n > 12 && !strcmp(name + n - 12, ".safetensors");
}

static enum pawl_status open_in(struct safetensors **out, const char *dir, const char *name, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, name);
    enum pawl_status st = file_exists(path) ? safetensors_open(out, path, err) : PAWL_OK;

    free(path);
    return st;
}

static enum pawl_status compare_named(struct report *r, const char *dir_a, const char *dir_b, const char *name, struct err *err)
{
    struct safetensors *a = NULL, *b = NULL;
    enum pawl_status st;

    if ((st = open_in(&a, dir_a, name, err)) == PAWL_OK && (st = open_in(&b, dir_b, name, err)) == PAWL_OK) compare_files(r, name, a, b);
    safetensors_close(a);
    safetensors_close(b);
    return st;
}

static bool has_name(char **names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

enum pawl_status ckpt_diff(const char *a, const char *b, bool json, struct err *err)
{
    char **in_a = NULL, **in_b = NULL;
    size_t n_a = 0, n_b = 0;
    struct report r = {.json = json};
    enum pawl_status st;

    if ((st = dir_list(&in_a, &n_a, a, err)) != PAWL_OK || (st = dir_list(&in_b, &n_b, b, err)) != PAWL_OK) goto done;
    if (json) buf_addc(&r.text, '[');
    for (size_t i = 0; i < n_a && st == PAWL_OK; i++)
        if (is_safetensors(in_a[i])) st = compare_named(&r, a, b, in_a[i], err);
    for (size_t i = 0; i < n_b && st == PAWL_OK; i++)
        if (is_safetensors(in_b[i]) && !has_name(in_a, n_a, in_b[i])) st = compare_named(&r, a, b, in_b[i], err);
    if (st != PAWL_OK) goto done;
    if (json) buf_adds(&r.text, "]\n");
    else buf_addf(&r.text, "%zu tensors, %zu of them equal bit for bit\n", r.rows, r.equal);
    fwrite(r.text.data, 1, r.text.len, stdout);
done:
    buf_free(&r.text);
    dir_list_free(in_a, n_a);
    dir_list_free(in_b, n_b);
    return st;
}
