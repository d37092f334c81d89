/* Rows of a stored weight in bf16: for the embedding, and for GEMMs, whose weights are unpacked into one of two slots on the side stream while the main one multiplies by the other.
 * One thread block a row, eight elements a thread at a time: NF4 reads 0.5 bytes and writes 2 an element. Bound by memory.
 *
 * I1  side writes a slot only after main has read what it held (event `read`); main reads it only after side has filled it (event `filled`).
 * I2  cuda_weight and cuda_weight_done come in pairs, without another pair in between. */
#include "kernels/cuda/formats.cuh"

#define THREADS 128

/* Row b of out is row ids[b] of w, or row first + b where ids is NULL. */
template <class F, int N> static __global__ void rows_kernel(bf16 *out, struct weight w, const int32_t *ids, int64_t first)
{
    float *codes = (float *)shared_memory();
    int64_t from = stored_row(w, ids ? (int64_t)ids[blockIdx.x] : first + blockIdx.x) * w.K;
    bf16 *to = out + blockIdx.x * w.K;

    F::codes(codes);
    __syncthreads();
    for (int64_t k = threadIdx.x * N; k < w.K; k += THREADS * N) {
        float x[N];

        F::template read<N>(w, codes, from + k, x);
        store_bf16<N>(to + k, x);
    }
}

template <class F> static void launch_rows(struct cuda *c, cudaStream_t stream, bf16 *out, const struct weight *w, const int32_t *ids, int64_t first, int64_t rows)
{
    bool wide = w->K % 8 == 0 && aligned16(out) && (F::WIDE || aligned16(w->data));
    size_t shared = CODES * sizeof(float);

    if (wide) LAUNCH(c, stream, (unsigned)rows, THREADS, shared, (rows_kernel<F, 8>), out, *w, ids, first);
    else if (F::WIDE) cuda_fail(c, "a %s weight of %lld columns on a buffer at %p: rows of whole blocks are expected", dtype_info[w->type].name, (long long)w->K, (void *)out);
    else LAUNCH(c, stream, (unsigned)rows, THREADS, shared, (rows_kernel<F, F::WIDE ? 8 : 1>), out, *w, ids, first);
}

typedef void launcher(struct cuda *c, cudaStream_t stream, bf16 *out, const struct weight *w, const int32_t *ids, int64_t first, int64_t rows);
static const struct {
    enum dtype type;
    launcher *rows;
} formats[] = {
#define ROW(type, format) {type, launch_rows<format>},
    FORMATS(ROW)
#undef ROW
};

static void read_rows(struct cuda *c, cudaStream_t stream, bf16 *out, const struct weight *w, const int32_t *ids, int64_t first, int64_t rows)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == w->type) {
            formats[i].rows(c, stream, out, w, ids, first, rows);
            return;
        }
    cuda_fail(c, "weights of type %s can't be read on this device", dtype_info[w->type].name);
}

void cuda_embed(struct dev *dev, act *y, const struct weight *W, const int32_t *ids, int T)
{
    read_rows(cuda_of(dev), cuda_of(dev)->main, (bf16 *)y, W, ids, 0, T);
}

const bf16 *cuda_weight(struct dev *dev, const struct weight *W, int64_t n0, int64_t n1)
{
    struct cuda *c = cuda_of(dev);

    if (c->failed.status != PAWL_OK) return NULL;
    c->open_slot = -1;
    if (W->type == DTYPE_BF16 && !W->interleaved) return (const bf16 *)W->data + n0 * W->K;

    struct cuda_slot *slot = &c->slot[c->next_slot];
    bf16 *out = (bf16 *)cuda_slot_memory(dev, c->next_slot, (size_t)((n1 - n0) * W->K) * sizeof *out);
    if (!out) return NULL;
    cuda_see_uploads(c);
    cuda_ok(c, cudaStreamWaitEvent(c->side, slot->read, 0), "cudaStreamWaitEvent", "slot %d", c->next_slot);
    read_rows(c, c->side, out, W, NULL, n0, n1 - n0);
    cuda_ok(c, cudaEventRecord(slot->filled, c->side), "cudaEventRecord", "slot %d", c->next_slot);
    cuda_ok(c, cudaStreamWaitEvent(c->main, slot->filled, 0), "cudaStreamWaitEvent", "slot %d", c->next_slot);
    c->open_slot = c->next_slot;
    c->next_slot ^= 1;
    return c->failed.status == PAWL_OK ? out : NULL;
}

void cuda_weight_done(struct dev *dev)
{
    struct cuda *c = cuda_of(dev);

    if (c->open_slot >= 0) cuda_ok(c, cudaEventRecord(c->slot[c->open_slot].read, c->main), "cudaEventRecord", "slot %d", c->open_slot);
    c->open_slot = -1;
}
