/* Who has which card, and whether the cards reach each other without the host: all ranks tell, and all decide the same. */
#include "dist/comm.h"
#include "dist/transport.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "kernels/dev.h"
#include "kernels/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PAWL_NCCL
int nccl_version(const char **why)
{
    *why = "this program was built without NCCL";
    return 0;
}

enum pawl_status nccl_open(struct comm *c, struct dev *dev, struct err *err)
{
    return err_set(err, PAWL_EINVAL, "this program was built without NCCL");
}
#endif

struct seat {
    char machine[64], card[16], device[64]; /* card "": the device is the host */
    int32_t version;                        /* of NCCL; 0: why it can't be used */
    char why[240];
};

/* Containers of one machine say the same, restarts of it do not. */
static void name_machine(char *out, size_t room)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (!f || !fgets(out, (int)room, f)) gethostname(out, room - 1);
    if (f) fclose(f);
}

static void take_seat(struct seat *s, const struct dev *dev)
{
    const char *why = "";

    *s = (struct seat){0};
    name_machine(s->machine, sizeof s->machine);
    snprintf(s->card, sizeof s->card, "%s", dev->card);
    snprintf(s->device, sizeof s->device, "%s", dev->name);
    if (dev->ops->queue) s->version = nccl_version(&why);
    snprintf(s->why, sizeof s->why, "%s", why);
}

/* Two ranks on one card. */
static bool find_pair(const struct seat *seat, int size, int *a, int *b)
{
    for (*b = 1; *b < size; ++*b)
        for (*a = 0; *a < *b; ++*a)
            if (seat[*a].card[0] && !strcmp(seat[*a].card, seat[*b].card) && !strcmp(seat[*a].machine, seat[*b].machine)) return true;
    return false;
}

/* Why the ranks exchange through the host; "": they need not. */
static void find_obstacle(const struct seat *seat, int size, struct buf *why)
{
    int a, b;

    if (find_pair(seat, size, &a, &b)) buf_addf(why, "ranks %d and %d are on one card, %s, and NCCL wants one each", a, b, seat[b].device);
    for (int k = 0; k < size && !why->len; k++) {
        if (!seat[k].card[0]) buf_addf(why, "rank %d has no card, it runs on %s", k, seat[k].device);
        else if (!seat[k].version) buf_addf(why, "rank %d: %s", k, seat[k].why);
        else if (seat[k].version != seat[0].version) buf_addf(why, "rank %d has NCCL %d, rank 0 has %d: install the same everywhere", k, seat[k].version, seat[0].version);
    }
}

/* Opens on all ranks, or on none: the first failure is everybody's reason. A rank that is gone is returned. */
static enum pawl_status open_everywhere(struct comm *c, struct dev *dev, struct buf *why, struct err *err)
{
    struct result {
        int32_t status;
        char text[400];
    } *all = xcalloc((size_t)c->size, sizeof *all);
    struct err own = {0};
    enum pawl_status st;

    all[c->rank].status = (int32_t)nccl_open(c, dev, &own);
    snprintf(all[c->rank].text, sizeof all->text, "%.399s", own.text);
    st = comm_all_items(c, all, sizeof *all, err);
    for (int k = 0; k < c->size && st == PAWL_OK && !why->len; k++)
        if (all[k].status != PAWL_OK) buf_addf(why, "%s", all[k].text);
    if ((st != PAWL_OK || why->len) && c->device) {
        c->device->close(c, PAWL_EIO);
        c->device = NULL;
    }
    free(all);
    return st;
}

enum pawl_status comm_open_device(struct comm *c, struct dev *dev, bool named, struct err *err)
{
    struct seat *seat = xcalloc((size_t)c->size, sizeof *seat);
    struct buf why = {0};
    bool any = false;
    int a, b;
    enum pawl_status st;

    take_seat(&seat[c->rank], dev);
    if ((st = comm_all_items(c, seat, sizeof *seat, err)) != PAWL_OK) goto done;
    for (int k = 0; k < c->size; k++) any |= seat[k].card[0] != 0;
    if (!any || c->size == 1) goto done;
    if (!named && find_pair(seat, c->size, &a, &b)) {
        st = err_set(err, PAWL_EINVAL, "rank %d and rank %d are on one card, %s: start as many ranks as cards are visible, or name the card that they share (device: cuda:0)", a, b,
                     seat[b].card);
        goto done;
    }
    find_obstacle(seat, c->size, &why);
    if (!why.len && (st = open_everywhere(c, dev, &why, err)) != PAWL_OK) goto done;
    if (why.len) log_warn("gradients go from card to card through the host (%s): %s", c->ops->name, why.data);
done:
    buf_free(&why);
    free(seat);
    return st;
}
