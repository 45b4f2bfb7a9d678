/* loam_file_* of loam.h: values as JSON text, in full and shortened; files without their data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"

static char directory[64];
static char path[96];

#define N_WORDS 500

static void write_sample(void)
{
    static const float reals[] = {0.1f, 1e-6f, 3.0f, -1.5f};
    static const uint8_t flags[] = {1, 0, 1};
    const uint64_t large = UINT64_MAX;
    loam_slice words[N_WORDS];
    int32_t numbers[N_WORDS];
    for (int i = 0; i < N_WORDS; i++) {
        words[i] = (loam_slice){"word", 4};
        numbers[i] = -i;
    }
    words[1] = (loam_slice){"\xff\x00\x7f", 3};
    loam_gguf_writer *w = loam_gguf_writer_new();
    assert_non_null(w);
    loam_gguf_set_string(w, "plain", "two\nlines, \"quoted\", a \\ and a tab\t");
    loam_gguf_set_string(w, "wide", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1 ends");
    loam_gguf_set_string(w, "broken", "a\xc3(\xed\xa0\x80\xf5");
    loam_gguf_set_string(w, "empty", "");
    loam_gguf_set_u64(w, "large", large);
    loam_gguf_set_i32(w, "negative", -7);
    loam_gguf_set_bool(w, "yes", true);
    loam_gguf_set_f32(w, "tenth", 0.1f);
    loam_gguf_set_f32(w, "nan", NAN);
    loam_gguf_set_array(w, "reals", LOAM_KV_F32, reals, 4);
    loam_gguf_set_array(w, "flags", LOAM_KV_BOOL, flags, 3);
    loam_gguf_set_array(w, "none", LOAM_KV_I32, numbers, 0);
    loam_gguf_set_array(w, "numbers", LOAM_KV_I32, numbers, N_WORDS);
    loam_gguf_set_string_array(w, "words", words, N_WORDS);
    float data[64] = {0};
    loam_tensor t = {.type = LOAM_TYPE_F32, .ne = {8, 4, 2, 1}, .data = data};
    loam_dense_strides(t.type, t.ne, t.nb);
    loam_gguf_add_tensor(w, "tensor", 3, &t);
    loam_error e = {0};
    if (loam_gguf_write(w, path, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    loam_gguf_writer_free(w);
}

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/loam-test-api-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/sample.gguf", directory);
    write_sample();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static loam_file *open_sample(void)
{
    loam_error e = {0};
    loam_file *f;
    if (loam_file_open(path, &f, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return f;
}

static loam_file_key key_of(loam_file *f, const char *name, size_t value_bytes)
{
    loam_file_info info;
    loam_error e = {0};
    loam_file_info_get(f, &info);
    for (int64_t i = 0; i < info.n_keys; i++) {
        loam_file_key key;
        if (loam_file_key_at(f, i, value_bytes, &key, &e) != LOAM_OK)
            fail_msg("%s", e.message);
        if (strcmp(key.name, name) == 0)
            return key;
    }
    fail_msg("no key %s", name);
    return (loam_file_key){0};
}

static void check_value(loam_file *f, const char *name, const char *type, const char *value)
{
    loam_file_key key = key_of(f, name, SIZE_MAX);
    assert_string_equal(key.type, type);
    assert_string_equal(key.value, value);
}

static void test_values(void **state)
{
    (void)state;
    loam_file *f = open_sample();
    check_value(f, "plain", "str", "\"two\\nlines, \\\"quoted\\\", a \\\\ and a tab\\t\"");
    check_value(f, "wide", "str", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1 ends\"");
    /* A cut character, each byte of a surrogate, and a byte that UTF-8 never has. */
    check_value(f, "broken", "str",
                "\"a\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    check_value(f, "empty", "str", "\"\"");
    check_value(f, "large", "u64", "18446744073709551615");
    check_value(f, "negative", "i32", "-7");
    check_value(f, "yes", "bool", "true");
    check_value(f, "tenth", "f32", "0.1");
    check_value(f, "nan", "f32", "nan");
    check_value(f, "reals", "arr[f32]", "[0.1, 1e-06, 3, -1.5]");
    check_value(f, "flags", "arr[bool]", "[true, false, true]");
    check_value(f, "none", "arr[i32]", "[]");
    loam_file_close(f);
}

/* In full every value but NaN is JSON; shortened none is, and none is longer than asked for. */
static void test_bounds(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "wide", "broken", "numbers", "words"};
    loam_file *f = open_sample();
    for (int n = 0; n < LOAM_COUNT(names); n++) {
        loam_file_key key = key_of(f, names[n], SIZE_MAX);
        size_t full = strlen(key.value);
        json_t *value = json_loads(key.value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        if (json_is_array(value))
            assert_int_equal(json_array_size(value), N_WORDS);
        json_decref(value);
        for (size_t limit = 32; limit <= full + 40; limit++) {
            key = key_of(f, names[n], limit);
            size_t length = strlen(key.value);
            assert_true(length <= limit);
            value = json_loads(key.value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            /* The room for "..." may make a value short that would just have fitted. */
            if (limit < full || limit >= full + 32)
                assert_int_equal(value != NULL, limit >= full);
            if (!value)
                assert_string_equal(key.value + length - 3, "...");
            json_decref(value);
            if (limit > 300 && limit + 20 < full)
                limit = full - 20; /* the middle is like its beginning */
        }
    }
    loam_file_close(f);
}

static void test_shortened_arrays_count(void **state)
{
    (void)state;
    loam_file *f = open_sample();
    loam_file_key key = key_of(f, "numbers", 40);
    assert_string_equal(key.value, "[0, -1, -2, -3, -4, -5, -6, 493 more]...");
    assert_true(key.n == N_WORDS);
    loam_file_close(f);
}

static void check_tensor(const loam_file *f)
{
    loam_file_info info;
    loam_file_tensor t;
    loam_file_info_get(f, &info);
    assert_int_equal(info.version, 3);
    assert_int_equal(info.n_files, 1);
    assert_int_equal(info.n_tensors, 1);
    assert_int_equal(info.n_elements, 64);
    assert_int_equal(info.data_bytes, 256);
    assert_int_equal(info.alignment_bytes, 32);
    loam_file_tensor_at(f, 0, &t);
    assert_string_equal(t.name, "tensor");
    assert_string_equal(t.type, "f32");
    assert_int_equal(t.n_dims, 3);
    assert_int_equal(t.ne[0], 8);
    assert_int_equal(t.ne[1], 4);
    assert_int_equal(t.ne[2], 2);
    assert_int_equal(t.ne[3], 1);
    assert_int_equal(t.bytes, 256);
    assert_int_equal(t.offset_bytes % 32, 0);
}

static void test_tensors(void **state)
{
    (void)state;
    loam_file *f = open_sample();
    check_tensor(f);
    loam_file_close(f);
}

static void test_header_only(void **state)
{
    (void)state;
    loam_file *f = open_sample();
    loam_file_tensor t;
    loam_file_tensor_at(f, 0, &t);
    loam_file_close(f);
    assert_int_equal(truncate(path, t.offset_bytes + 8), 0);
    f = open_sample();
    check_tensor(f);
    loam_file_close(f);
    write_sample();
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    int64_t n = 0;
    for (loam_status status = LOAM_E_MEMORY; status != LOAM_OK; n++) {
        loam_error e = {0};
        loam_file *f = NULL;
        loam_file_key key;
        assert_true(n < 1000);
        loam_alloc_fail_after(n);
        status = loam_file_open(path, &f, &e);
        for (int i = 0; status == LOAM_OK && i < 14; i++)
            status = loam_file_key_at(f, i, SIZE_MAX, &key, &e);
        loam_alloc_fail_after(-1);
        if (status != LOAM_OK)
            assert_int_equal(status, LOAM_E_MEMORY);
        loam_file_close(f);
    }
    assert_true(n > 3);
}

static void test_build_info(void **state)
{
    (void)state;
    const char *info = loam_build_info();
    assert_non_null(strstr(info, "matrix products: "));
    assert_non_null(strstr(info, "devices: cpu"));
    assert_ptr_equal(info, loam_build_info());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_shortened_arrays_count),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_header_only),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_build_info),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
