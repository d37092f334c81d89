/* safetensors: what Python wrote is read, what is written here reads back, and nothing hostile gets in. */
#include "ckpt/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SCRATCH "scratch_safetensors"

static void put(const char *name, const void *data, size_t len)
{
    char path[256];
    snprintf(path, sizeof path, SCRATCH "/%s", name);
    remove(path); /* a file that is cut to nothing and written again is flushed by ext4: hundreds of times */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* A file with this header and n bytes of data 0, 1, 2, ... */
static size_t build(uint8_t *out, const char *header, size_t n)
{
    uint64_t len = strlen(header);

    memcpy(out, &len, 8);
    memcpy(out + 8, header, len);
    for (size_t i = 0; i < n; i++) out[8 + len + i] = (uint8_t)i;
    return 8 + len + n;
}

static enum pawl_status open_built(struct safetensors **s, const char *header, size_t n, struct err *err)
{
    uint8_t file[4096];
    size_t size = build(file, header, n);

    put("built.safetensors", file, size);
    return safetensors_open(s, SCRATCH "/built.safetensors", err);
}

static int setup(void **state)
{
    file_remove_tree(&fsys_real, SCRATCH, NULL);
    return mkdir(SCRATCH, 0777);
}

static int teardown(void **state)
{
    return file_remove_tree(&fsys_real, SCRATCH, NULL) != PAWL_OK;
}

/* Bytes of safetensors.torch.save({"w": bf16 [[1, 2], [3, 4]], "b": f32 [0.5], "s": i64 scalar 7, "e": f32 (0, 4)}, {"format": "pt"}), safetensors 0.8. */
static void a_file_of_pythons_is_read(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[12,12]},"
                                 "\"w\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[12,20]}}   ";
    static const uint8_t data[20] = {7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0x80, 0x3f, 0, 0x40, 0x40, 0x40, 0x80, 0x40};
    uint8_t file[1024];
    struct safetensors *s = NULL;
    struct err err = {0};
    size_t size = build(file, header, sizeof data);

    memcpy(file + size - sizeof data, data, sizeof data);
    put("python.safetensors", file, size);
    assert_int_equal(safetensors_open(&s, SCRATCH "/python.safetensors", &err), PAWL_OK);
    assert_int_equal(safetensors_count(s), 4);
    assert_string_equal(safetensors_at(s, 0)->name, "b");
    const struct tensor *w = safetensors_find(s, "w"), *scalar = safetensors_find(s, "s"), *empty = safetensors_find(s, "e");
    assert_int_equal(w->dtype, DTYPE_BF16);
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->bytes, 8);
    for (int i = 0; i < 4; i++) assert_true(bf16_to_f32(((const bf16 *)w->data)[i]) == (float)(i + 1));
    assert_true(*(const float *)safetensors_find(s, "b")->data == 0.5f);
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(tensor_elements(scalar), 1);
    assert_int_equal(*(const int64_t *)scalar->data, 7);
    assert_int_equal(tensor_elements(empty), 0);
    assert_null(safetensors_find(s, "nothing"));
    assert_string_equal(safetensors_metadata(s, "format"), "pt");
    assert_null(safetensors_metadata(s, "other"));
    safetensors_close(s);
}

static void what_is_written_reads_back(void **state)
{
    static const uint8_t bytes[3] = {1, 2, 3};
    static const float floats[6] = {0, 1, 2, 3, 4, -5};
    static const bf16 halves[2] = {0x3f80, 0x4000};
    struct tensor t[] = {{.name = "codes", .dtype = DTYPE_U8, .rank = 1, .shape = {3}, .data = bytes},
                         {.name = "a \"quoted\" name", .dtype = DTYPE_BF16, .rank = 1, .shape = {2}, .data = halves},
                         {.name = "masters", .dtype = DTYPE_F32, .rank = 2, .shape = {2, 3}, .data = floats}};
    struct safetensors_meta meta[] = {{"format", "pt"}, {"line", "a\nb"}};
    struct safetensors *s = NULL;
    struct file_sum sum, again;
    struct err err = {0};
    struct map map;
    uint64_t header;

    assert_int_equal(safetensors_write(&fsys_real, SCRATCH "/ours.safetensors", t, 3, meta, 2, &sum, &err), PAWL_OK);
    assert_string_equal(t[0].name, "masters"); /* laid out by element size */
    assert_int_equal(file_sum_read(&again, &fsys_real, SCRATCH "/ours.safetensors", true, &err), PAWL_OK);
    assert_memory_equal(&sum, &again, sizeof sum.bytes + sizeof sum.crc);
    assert_int_equal(map_open(&map, SCRATCH "/ours.safetensors", &err), PAWL_OK);
    memcpy(&header, map.data, 8);
    assert_int_equal(header % 8, 0);
    map_close(&map);

    assert_int_equal(safetensors_open(&s, SCRATCH "/ours.safetensors", &err), PAWL_OK);
    assert_memory_equal(safetensors_find(s, "codes")->data, bytes, sizeof bytes);
    assert_memory_equal(safetensors_find(s, "masters")->data, floats, sizeof floats);
    assert_memory_equal(safetensors_find(s, "a \"quoted\" name")->data, halves, sizeof halves);
    assert_string_equal(safetensors_metadata(s, "line"), "a\nb");
    safetensors_close(s);

    assert_int_equal(safetensors_write(&fsys_real, SCRATCH "/ours.safetensors", t, 3, meta, 2, &sum, &err), PAWL_EIO); /* never over an existing file */
    assert_non_null(strstr(err.text, "File exists"));
}

static void misaligned_data_is_copied(void **state)
{
    struct safetensors *s = NULL;
    struct err err = {0};
    float x;
    uint8_t expect[4] = {1, 2, 3, 4};

    assert_int_equal(open_built(&s, "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5, &err),
                     PAWL_OK);
    const struct tensor *f = safetensors_find(s, "f");
    assert_int_equal((uintptr_t)f->data % 4, 0);
    x = *(const float *)f->data;
    assert_memory_equal(&x, expect, 4);
    safetensors_close(s);
}

static void a_hostile_header_is_refused_with_the_tensors_name(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } cases[] = {
        {"[]", 0, "not a JSON object"},
        {"{\"t\":1}", 0, "tensor t has type \"\""},
        {"{\"t\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "tensor t has type \"C64\""},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "tensor t ends at byte 4 of the data, the file has 3"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "5 bytes of data, the header describes 4"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "tensor t of shape (2) and type F32 does not fit its 4 bytes"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "tensor t has a dimension that is no whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "tensor t has a dimension that is no whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4, "tensor t has a dimension that is no whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "tensor t has no shape of at most 8"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "tensor t of shape (4294967296, 4294967296)"},
        {"{\"t\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0, "does not fit its 0 bytes"}, /* 2^61 * 8 is 0 in 64 bits */
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "tensor t has no data_offsets"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "tensor t has no data_offsets"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "tensor t has no data_offsets"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "tensor t has no data_offsets"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,9223372036854775807]}}", 1, "tensor t ends at byte 9223372036854775807"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, "tensor b overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}", 3, "tensor b leaves a gap"},
        {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "control characters"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "empty"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", 1, "not closed"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors *s = NULL;
        struct err err = {0};
        assert_int_equal(open_built(&s, cases[i].header, cases[i].data, &err), PAWL_EFORMAT);
        assert_null(s);
        if (!strstr(err.text, cases[i].says)) fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.text, cases[i].says);
    }
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    uint8_t file[512];
    struct safetensors *s = NULL;
    struct err err;
    size_t size = build(file, "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}   ", 16);

    for (size_t n = 0; n < size; n++) {
        put("cut.safetensors", file, n);
        assert_int_equal(safetensors_open(&s, SCRATCH "/cut.safetensors", &err), PAWL_EFORMAT);
    }
    put("cut.safetensors", file, size);
    assert_int_equal(safetensors_open(&s, SCRATCH "/cut.safetensors", &err), PAWL_OK);
    safetensors_close(s);
    memset(file, 0xff, 8); /* a header of 2^64-1 bytes */
    put("cut.safetensors", file, size);
    assert_int_equal(safetensors_open(&s, SCRATCH "/cut.safetensors", &err), PAWL_EFORMAT);
}

/* Every byte of the header in turn, all eight bits of it: an error or a file whose tensors lie in bounds, which the sanitizer build checks by reading them. */
static void flipped_bits_never_read_out_of_bounds(void **state)
{
    uint8_t file[512];
    size_t size = build(file, "{\"w\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[0,8]},\"v\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]}}", 12);
    unsigned total = 0;

    for (size_t i = 0; i < size - 12; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct safetensors *s = NULL;
            file[i] ^= (uint8_t)(1 << bit);
            put("flip.safetensors", file, size);
            file[i] ^= (uint8_t)(1 << bit);
            if (safetensors_open(&s, SCRATCH "/flip.safetensors", NULL) != PAWL_OK) continue;
            for (size_t k = 0; k < safetensors_count(s); k++)
                for (size_t b = 0; b < safetensors_at(s, k)->bytes; b++) total += ((const uint8_t *)safetensors_at(s, k)->data)[b];
            safetensors_close(s);
        }
    assert_true(total > 0);
}

static void a_sharded_directory_is_one_set_of_tensors(void **state)
{
    static const char index[] = "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\",\"c\":\"m-1.safetensors\"}}";
    static const char wrong[] = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"z\":\"m-1.safetensors\"}}";
    static const char outside[] = "{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}";
    static const char absent[] = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"q\":\"m-3.safetensors\"}}";
    static const char twice[] = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\",\"c\":\"m-4.safetensors\"}}";
    static const struct {
        const char *index;
        enum pawl_status st;
        const char *says;
    } bad[] = {{wrong, PAWL_EFORMAT, "tensor z should be in m-1.safetensors"},
               {outside, PAWL_EFORMAT, "tensor a is not in a file of this directory"},
               {absent, PAWL_EIO, "m-3.safetensors: cannot be opened"},
               {twice, PAWL_EFORMAT, "tensor b is in more than one file"},
               {"{}", PAWL_EFORMAT, "no \"weight_map\""},
               {"{", PAWL_EFORMAT, "model.safetensors.index.json: JSON"}};
    static const float one[1] = {1}, two[1] = {2}, three[1] = {3};
    struct tensor first[] = {{.name = "a", .rank = 1, .shape = {1}, .data = one}, {.name = "c", .rank = 1, .shape = {1}, .data = three}};
    struct tensor second[] = {{.name = "b", .rank = 1, .shape = {1}, .data = two}};
    struct safetensors *s = NULL;
    struct err err = {0};

    assert_int_equal(mkdir(SCRATCH "/dir", 0777), 0);
    assert_int_equal(safetensors_open(&s, SCRATCH "/dir", &err), PAWL_EIO);
    assert_int_equal(safetensors_write(&fsys_real, SCRATCH "/dir/m-1.safetensors", first, 2, NULL, 0, NULL, &err), PAWL_OK);
    assert_int_equal(safetensors_write(&fsys_real, SCRATCH "/dir/m-2.safetensors", second, 1, NULL, 0, NULL, &err), PAWL_OK);
    assert_int_equal(safetensors_write(&fsys_real, SCRATCH "/dir/m-4.safetensors", second, 1, NULL, 0, NULL, &err), PAWL_OK);
    put("dir/model.safetensors.index.json", index, strlen(index));
    assert_int_equal(safetensors_open(&s, SCRATCH "/dir", &err), PAWL_OK);
    assert_int_equal(safetensors_count(s), 3);
    assert_true(*(const float *)safetensors_find(s, "b")->data == 2);
    assert_true(*(const float *)safetensors_find(s, "c")->data == 3);
    safetensors_close(s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("dir/model.safetensors.index.json", bad[i].index, strlen(bad[i].index));
        assert_int_equal(safetensors_open(&s, SCRATCH "/dir", &err), bad[i].st);
        if (!strstr(err.text, bad[i].says)) fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.text, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_pythons_is_read),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(misaligned_data_is_copied),
        cmocka_unit_test(a_hostile_header_is_refused_with_the_tensors_name),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(flipped_bits_never_read_out_of_bounds),
        cmocka_unit_test(a_sharded_directory_is_one_set_of_tensors),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
