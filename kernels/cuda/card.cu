/* The cards of a machine, and what another library needs to work on one. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/base/log.h"
}

#include <stdio.h>
#include <unistd.h>

/* Cards that are visible; none where the first one is too old. What can't be used is said once, so that nobody pays for a card and trains on the CPU beside it. */
extern "C" int cuda_cards(void)
{
    static bool said;
    struct cudaDeviceProp card;
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);

    if (rc == cudaSuccess && count == 0) return 0;
    if (rc == cudaSuccess) rc = cudaGetDeviceProperties(&card, 0);
    if (rc == cudaSuccess && card.major >= 8) return count;
    if (said || rc == cudaErrorNoDevice || access("/dev/nvidiactl", F_OK) != 0) return 0;
    said = true;
    if (rc == cudaSuccess) log_warn("%s is sm_%d%d, and sm_80 (Ampere) or later is needed: the CPU is used", card.name, card.major, card.minor);
    else log_warn("the NVIDIA card of this machine can't be used, the CPU is: %s: is its driver (nvidia-smi) older than CUDA %d.%d?", cudaGetErrorString(rc), CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
    return 0;
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
