/* The instructions of kernels/cuda/ptx.cuh on the CPU, by the tables of the PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix".
 * group = lane / 4, pair = lane % 4:
 *   A (16 x 16, row-major)  register r, half i: row group + 8 (r % 2), column 2 pair + 8 (r / 2) + i
 *   B (16 x 8, by columns)  register r, half i: row 2 pair + 8 r + i, column group
 *   C, D (16 x 8)           register r: row group + 8 (r / 2), column 2 pair + r % 2 */
#ifndef PAWL_EMU_PTX_H
#define PAWL_EMU_PTX_H

extern "C" {
#include "kernels/base/dtype.h"
}

static inline float emu_half(uint32_t word, int i) { return __uint_as_float(i ? word & 0xffff0000 : word << 16); }

static inline void emu_mma(struct emu_lane *lane[32])
{
    float a[16][16], b[16][8], d[16][8];

    for (int l = 0; l < 32; l++) {
        int group = l / 4, pair = l % 4;

        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 2; i++) a[group + 8 * (r % 2)][2 * pair + 8 * (r / 2) + i] = emu_half(lane[l]->in[r], i);
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 2; i++) b[2 * pair + 8 * r + i][group] = emu_half(lane[l]->in[4 + r], i);
        for (int r = 0; r < 4; r++) d[group + 8 * (r / 2)][2 * pair + r % 2] = __uint_as_float(lane[l]->in[6 + r]);
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
    for (int l = 0; l < 32; l++)
        for (int r = 0; r < 4; r++) lane[l]->out[r] = __float_as_uint(d[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2]);
}

static inline void ptx_mma(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    struct emu_lane *own = emu_own();

    for (int i = 0; i < 4; i++) own->in[i] = a[i];
    for (int i = 0; i < 2; i++) own->in[4 + i] = b[i];
    for (int i = 0; i < 4; i++) own->in[6 + i] = __float_as_uint(c[i]);
    emu_meet(emu_mma, "mma.sync");
    own = emu_own();
    for (int i = 0; i < 4; i++) c[i] = __uint_as_float(own->out[i]);
}

/* Matrix m of 8 x 8 has the rows that lanes 8 m .. 8 m + 7 point to; lane l gets elements 2 (l % 4) and the next of row l / 4, or with trans of column l / 4. */
static inline void emu_ldmatrix(struct emu_lane *lane[32], bool trans)
{
    for (int m = 0; m < 4; m++)
        for (int l = 0; l < 32; l++) {
            uint16_t half[2];

            for (int i = 0; i < 2; i++) {
                int row = trans ? 2 * (l % 4) + i : l / 4, column = trans ? l / 4 : 2 * (l % 4) + i;
                const char *at = (const char *)lane[8 * m + row]->pointer;

                if ((uintptr_t)at % 16) emu_fail("ldmatrix of a row that is not 16-byte aligned");
                memcpy(&half[i], at + 2 * column, 2);
            }
            lane[l]->out[m] = half[0] | (uint32_t)half[1] << 16;
        }
}

static inline void emu_ldmatrix_plain(struct emu_lane *lane[32]) { emu_ldmatrix(lane, false); }
static inline void emu_ldmatrix_trans(struct emu_lane *lane[32]) { emu_ldmatrix(lane, true); }

static inline void emu_load(uint32_t r[4], const void *row, emu_collective *what)
{
    struct emu_lane *own = emu_own();

    own->pointer = (void *)row;
    emu_meet(what, "ldmatrix");
    own = emu_own();
    for (int i = 0; i < 4; i++) r[i] = own->out[i];
}

static inline void ptx_ldmatrix(uint32_t r[4], const void *row) { emu_load(r, row, emu_ldmatrix_plain); }
static inline void ptx_ldmatrix_trans(uint32_t r[4], const void *row) { emu_load(r, row, emu_ldmatrix_trans); }
static inline void ptx_copy16(void *dst, const void *src, bool valid) { emu_async_copy(dst, src, valid ? 16 : 0, 16); }
static inline void ptx_commit() { emu_async_commit(); }
template <int NEWEST> static inline void ptx_wait() { emu_async_wait(NEWEST); }

static inline uint32_t emu_round_bf16(float x)
{
    uint32_t u = __float_as_uint(x);

    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}

static inline uint32_t ptx_pack(float low, float high) { return emu_round_bf16(low) | emu_round_bf16(high) << 16; }
static inline float ptx_half(uint16_t h) { return f16_to_f32(h); }
static inline float ptx_exp2(float x) { return exp2f(x); }
static inline char *shared_memory() { return (char *)emu_shared(); }

#endif
