/* The cards of a machine, and what another library needs to work on one. */
#include "kernels/cuda/cuda.h"

#include <stdio.h>

/* Cards that are visible; none where the first one is too old. */
extern "C" int cuda_cards(void)
{
    struct cudaDeviceProp card;
    int count = 0;

    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 && cudaGetDeviceProperties(&card, 0) == cudaSuccess && card.major >= 8 ? count : 0;
}

void cuda_name_card(struct dev *dev, const struct cudaDeviceProp *card)
{
    snprintf(dev->card, sizeof dev->card, "%04x:%02x:%02x.0", (unsigned)card->pciDomainID & 0xffff, (unsigned)card->pciBusID & 0xff, (unsigned)card->pciDeviceID & 0xff);
}

void *cuda_queue(struct dev *dev) { return cuda_of(dev)->main; }

bool cuda_idle(struct dev *dev)
{
    struct cuda *c = cuda_of(dev);
    cudaError_t rc;

    if (c->failed.status != PAWL_OK) return true;
    if ((rc = cudaStreamQuery(c->main)) == cudaErrorNotReady) return false;
    cuda_ok(c, rc, "cudaStreamQuery", "what was queued before it");
    return true;
}
