/* The code tables of bitsandbytes: Dettmers et al. 2023, QLoRA, appendix E (NF4); FP4 is 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4 and the same negative. */
#include "kernels/weight.h"

const float quant_nf4_code[16] = {
    -1.0f,          -0x1.647362p-1f, -0x1.0cd660p-1f, -0x1.946540p-2f, -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
    0x1.45f5fep-4f, 0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,  0x1.c34970p-2f,  0x1.200f56p-1f,  0x1.722766p-1f,  1.0f,
};

const float quant_fp4_code[16] = {
    0.0f, 0x1.555556p-8f,  0x1.555556p-1f,  1.0f,  0x1.555556p-2f,  0.5f,  0x1.555556p-3f,  0.25f,
    0.0f, -0x1.555556p-8f, -0x1.555556p-1f, -1.0f, -0x1.555556p-2f, -0.5f, -0x1.555556p-3f, -0.25f,
};
