/* What is written is what is read; typed reads; what cannot be written. */
#include "gguf/support.h"

static void assert_same_kv(const loam_kv *a, const loam_kv *b)
{
    assert_int_equal(a->key.bytes, b->key.bytes);
    assert_memory_equal(a->key.data, b->key.data, a->key.bytes);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->element_type, b->element_type);
    assert_true(a->n == b->n);
    for (uint64_t i = 0; i < a->n; i++) {
        if (a->strings) {
            assert_int_equal(a->strings[i].bytes, b->strings[i].bytes);
            assert_memory_equal(a->strings[i].data, b->strings[i].data, a->strings[i].bytes);
        } else {
            assert_true(loam_kv_int_at(a, i) == loam_kv_int_at(b, i));
            double x = loam_kv_number_at(a, i);
            double y = loam_kv_number_at(b, i);
            assert_memory_equal(&x, &y, sizeof x);
        }
    }
}

/* Writes all that is in g to `path` again. */
static void rewrite(const loam_gguf *g, const char *path)
{
    loam_gguf_writer *w = loam_gguf_writer_new();
    assert_non_null(w);
    for (int64_t i = 0; i < loam_gguf_n_kv(g); i++)
        loam_gguf_set_kv(w, loam_gguf_kv_at(g, i));
    for (int64_t i = 0; i < loam_gguf_n_tensors(g); i++) {
        const loam_gguf_tensor *t = loam_gguf_tensor_at(g, i);
        loam_gguf_add_tensor(w, t->name, t->n_dims, &t->t);
    }
    loam_error e = {0};
    if (loam_gguf_write(w, path, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    loam_gguf_writer_free(w);
}

static void test_sample_reads_back(void **state)
{
    (void)state;
    const char *path = in_directory("sample.gguf");
    make_sample(path);
    loam_gguf *g = open_ok(path);
    assert_int_equal(loam_gguf_version(g), 3);
    assert_int_equal(loam_gguf_alignment(g), 32);
    assert_string_equal(loam_gguf_path(g), path);
    assert_int_equal(loam_gguf_n_kv(g), 11 * 3 + 4);

    const loam_kv *kv = loam_gguf_find(g, "array.i16");
    assert_int_equal(kv->type, LOAM_KV_ARRAY);
    assert_int_equal(kv->element_type, LOAM_KV_I16);
    assert_int_equal(kv->n, 3);
    assert_int_equal(loam_kv_int_at(kv, 1), 0x0101);
    kv = loam_gguf_find(g, "array.u64");
    assert_int_equal(loam_kv_int_at(kv, 1), 1);
    assert_int_equal(loam_kv_int_at(kv, 2), 0x0100010001000100);
    kv = loam_gguf_find(g, "array.string");
    assert_int_equal(kv->n, 4);
    assert_int_equal(kv->strings[1].bytes, 0);
    assert_int_equal(kv->strings[2].bytes, 4);
    assert_memory_equal(kv->strings[2].data, "t\0wo", 4);
    kv = loam_gguf_find(g, "empty.string");
    assert_int_equal(kv->type, LOAM_KV_ARRAY);
    assert_int_equal(kv->n, 0);
    assert_int_equal(loam_gguf_find(g, "empty.f64")->n, 0);
    assert_int_equal(loam_gguf_find(g, "string.empty")->strings[0].bytes, 0);

    assert_int_equal(loam_gguf_n_tensors(g), 5);
    const loam_gguf_tensor *t = loam_gguf_find_tensor(g, "blk.0.attn_k.weight");
    assert_int_equal(t->n_dims, 3);
    assert_int_equal(t->bytes, 34 * 8);
    assert_int_equal(t->offset_bytes % 32, 0);
    assert_memory_equal(t->t.data, sample_data + 100, t->bytes);
    assert_int_equal(loam_gguf_find_tensor(g, "blk.0.none")->bytes, 0);
    t = loam_gguf_find_tensor(g, "output");
    assert_int_equal(t->bytes, 288);
    assert_memory_equal(t->t.data, sample_data + 512, 288);
    loam_gguf_close(g);
}

static void test_rewriting_changes_nothing(void **state)
{
    (void)state;
    make_sample(in_directory("a.gguf"));
    loam_gguf *a = open_ok(in_directory("a.gguf"));
    rewrite(a, in_directory("b.gguf"));
    loam_gguf *b = open_ok(in_directory("b.gguf"));
    for (int64_t i = 0; i < loam_gguf_n_kv(a); i++)
        assert_same_kv(loam_gguf_kv_at(a, i), loam_gguf_kv_at(b, i));
    assert_true(loam_gguf_hash(a) == loam_gguf_hash(b));
    loam_gguf_close(a);
    loam_gguf_close(b);
}

/* Byte for byte: a file of llama.cpp's writer, and one that was split. */
static void test_rewriting_a_model(void **state)
{
    (void)state;
    loam_gguf *a = open_ok(asset("models/stories260K-wide256-Q4_K_M.gguf"));
    rewrite(a, in_directory("again.gguf"));
    loam_gguf *b = open_ok(in_directory("again.gguf"));
    assert_int_equal(loam_gguf_map(a, 0)->bytes, loam_gguf_map(b, 0)->bytes);
    assert_memory_equal(loam_gguf_map(a, 0)->data, loam_gguf_map(b, 0)->data,
                        loam_gguf_map(a, 0)->bytes);
    loam_gguf_close(a);
    loam_gguf_close(b);

    a = open_ok(asset("gguf-cases/stories260K-Q8_0-split-00001-of-00003.gguf"));
    rewrite(a, in_directory("joined.gguf"));
    b = open_ok(in_directory("joined.gguf"));
    assert_int_equal(loam_gguf_n_shards(b), 1);
    assert_null(loam_gguf_find(b, "split.count"));
    assert_int_equal(loam_gguf_n_kv(b), loam_gguf_n_kv(a) - 3);
    assert_int_equal(loam_gguf_n_tensors(b), loam_gguf_n_tensors(a));
    loam_gguf_close(a);
    loam_gguf_close(b);
}

static void test_alignment(void **state)
{
    (void)state;
    const uint32_t alignments[] = {8, 64, 4096};
    for (int i = 0; i < LOAM_COUNT(alignments); i++) {
        loam_gguf_writer *w = sample_writer();
        loam_gguf_set_u32(w, "general.alignment", alignments[i]);
        const char *path = in_directory("aligned.gguf");
        assert_int_equal(loam_gguf_write(w, path, NULL), LOAM_OK);
        loam_gguf_writer_free(w);
        loam_gguf *g = open_ok(path);
        assert_int_equal(loam_gguf_alignment(g), alignments[i]);
        for (int64_t j = 0; j < loam_gguf_n_tensors(g); j++)
            assert_int_equal(loam_gguf_tensor_at(g, j)->offset_bytes % alignments[i], 0);
        assert_memory_equal(loam_gguf_find_tensor(g, "output")->t.data, sample_data + 512, 288);
        loam_gguf_close(g);
    }
    const uint32_t bad[] = {0, 4, 24, 8192};
    for (int i = 0; i < LOAM_COUNT(bad); i++) {
        loam_gguf_writer *w = loam_gguf_writer_new();
        loam_gguf_set_u32(w, "general.alignment", bad[i]);
        assert_int_equal(loam_gguf_write(w, in_directory("never.gguf"), NULL), LOAM_E_USAGE);
        loam_gguf_writer_free(w);
    }
    loam_gguf_writer *w = loam_gguf_writer_new();
    loam_gguf_set_i32(w, "general.alignment", 32);
    assert_int_equal(loam_gguf_write(w, in_directory("never.gguf"), NULL), LOAM_E_USAGE);
    loam_gguf_writer_free(w);
}

static void test_setting_again_replaces(void **state)
{
    (void)state;
    loam_gguf_writer *w = loam_gguf_writer_new();
    loam_gguf_set_string(w, "key", "text");
    loam_gguf_set_u32(w, "other", 1);
    loam_gguf_set_u32(w, "key", 7);
    const char *path = in_directory("replaced.gguf");
    assert_int_equal(loam_gguf_write(w, path, NULL), LOAM_OK);
    loam_gguf_set_bool(w, "key", true); /* a writer may be used on */
    assert_int_equal(loam_gguf_write(w, in_directory("more.gguf"), NULL), LOAM_OK);
    loam_gguf_writer_free(w);
    loam_gguf *g = open_ok(path);
    assert_int_equal(loam_gguf_n_kv(g), 2);
    uint32_t value = 0;
    assert_int_equal(loam_kv_u32(g, "key", true, &value, NULL), LOAM_OK);
    assert_int_equal(value, 7);
    loam_gguf_close(g);
    g = open_ok(in_directory("more.gguf"));
    assert_int_equal(loam_gguf_find(g, "key")->type, LOAM_KV_BOOL);
    loam_gguf_close(g);
}

/* ---- typed reads -------------------------------------------------------------------------- */

static void read_refused(loam_status found, const loam_error *e, const char *key,
                         const char *reason)
{
    assert_int_equal(found, LOAM_E_FORMAT);
    assert_non_null(strstr(e->message, "typed.gguf"));
    assert_non_null(strstr(e->message, key));
    if (!strstr(e->message, reason))
        fail_msg("'%s' does not say '%s'", e->message, reason);
}

static loam_gguf *typed_file(void)
{
    loam_gguf_writer *w = loam_gguf_writer_new();
    const uint8_t u8 = 200;
    const int8_t i8 = -3;
    const int16_t i16 = 300;
    const int64_t i64 = 4294967295;
    const double f64 = 0.1, huge = 1e300;
    const loam_kv kvs[] = {
        make_kv("u8", LOAM_KV_U8, LOAM_KV_U8, &u8, 1),
        make_kv("i8", LOAM_KV_I8, LOAM_KV_I8, (const void *)&i8, 1),
        make_kv("i16", LOAM_KV_I16, LOAM_KV_I16, (const void *)&i16, 1),
        make_kv("i64", LOAM_KV_I64, LOAM_KV_I64, (const void *)&i64, 1),
        make_kv("f64", LOAM_KV_F64, LOAM_KV_F64, (const void *)&f64, 1),
        make_kv("huge", LOAM_KV_F64, LOAM_KV_F64, (const void *)&huge, 1),
    };
    for (int i = 0; i < LOAM_COUNT(kvs); i++)
        loam_gguf_set_kv(w, &kvs[i]);
    loam_gguf_set_u64(w, "u64", UINT64_MAX);
    loam_gguf_set_f32(w, "f32", 2.5f);
    loam_gguf_set_bool(w, "bool", true);
    loam_gguf_set_string(w, "string", "text");
    loam_gguf_set_array(w, "array", LOAM_KV_I32, (int32_t[]){-1, 2}, 2);
    assert_int_equal(loam_gguf_write(w, in_directory("typed.gguf"), NULL), LOAM_OK);
    loam_gguf_writer_free(w);
    return open_ok(in_directory("typed.gguf"));
}

static void test_typed_reads(void **state)
{
    (void)state;
    loam_gguf *g = typed_file();
    uint32_t u = 0;
    float f = 0;
    bool b = false;
    loam_slice s = {0};
    assert_int_equal(loam_kv_u32(g, "u8", true, &u, NULL), LOAM_OK);
    assert_int_equal(u, 200);
    assert_int_equal(loam_kv_u32(g, "i16", true, &u, NULL), LOAM_OK);
    assert_int_equal(u, 300);
    assert_int_equal(loam_kv_u32(g, "i64", true, &u, NULL), LOAM_OK);
    assert_true(u == UINT32_MAX);
    assert_int_equal(loam_kv_f32(g, "f64", true, &f, NULL), LOAM_OK);
    assert_true(f == 0.1f);
    assert_int_equal(loam_kv_f32(g, "f32", true, &f, NULL), LOAM_OK);
    assert_true(f == 2.5f);
    assert_int_equal(loam_kv_bool(g, "bool", true, &b, NULL), LOAM_OK);
    assert_true(b);
    assert_int_equal(loam_kv_string(g, "string", true, &s, NULL), LOAM_OK);
    assert_int_equal(s.bytes, 4);
    assert_memory_equal(s.data, "text", 4);
    const loam_kv *array = loam_gguf_find(g, "array");
    assert_int_equal(loam_kv_int_at(array, 0), -1);
    assert_true(loam_kv_number_at(array, 1) == 2.0);
    assert_int_equal(loam_kv_int_at(loam_gguf_find(g, "i8"), 0), -3);
    assert_true(loam_kv_int_at(loam_gguf_find(g, "u64"), 0) == INT64_MAX);
    assert_true(loam_kv_number_at(loam_gguf_find(g, "u64"), 0) == 0x1p64);
    assert_true(loam_kv_int_at(loam_gguf_find(g, "huge"), 0) == INT64_MAX);
    assert_int_equal(loam_kv_int_at(loam_gguf_find(g, "string"), 0), 0);
    loam_gguf_close(g);
}

static void test_typed_reads_that_fail(void **state)
{
    (void)state;
    loam_gguf *g = typed_file();
    uint32_t u = 42;
    float f = 42;
    bool b = true;
    loam_slice s = {"kept", 4};
    loam_error e = {0};
    read_refused(loam_kv_u32(g, "i8", false, &u, &e), &e, "'i8'", "is -3, expected 0 to");
    e = (loam_error){0};
    read_refused(loam_kv_u32(g, "u64", false, &u, &e), &e, "'u64'", "expected 0 to 4294967295");
    e = (loam_error){0};
    read_refused(loam_kv_u32(g, "f32", false, &u, &e), &e, "'f32'",
                 "has type f32, expected an integer");
    e = (loam_error){0};
    read_refused(loam_kv_u32(g, "array", false, &u, &e), &e, "'array'", "is an array of 2 i32");
    e = (loam_error){0};
    read_refused(loam_kv_u32(g, "absent", true, &u, &e), &e, "'absent'", "is missing");
    e = (loam_error){0};
    read_refused(loam_kv_f32(g, "huge", false, &f, &e), &e, "'huge'", "does not fit");
    e = (loam_error){0};
    read_refused(loam_kv_f32(g, "u8", false, &f, &e), &e, "'u8'", "has type u8, expected f32");
    e = (loam_error){0};
    read_refused(loam_kv_bool(g, "u8", false, &b, &e), &e, "'u8'", "expected bool");
    e = (loam_error){0};
    read_refused(loam_kv_string(g, "u8", false, &s, &e), &e, "'u8'", "expected string");
    assert_int_equal(loam_kv_u32(g, "absent", false, &u, NULL), LOAM_OK);
    assert_int_equal(loam_kv_f32(g, "absent", false, &f, NULL), LOAM_OK);
    assert_int_equal(loam_kv_bool(g, "absent", false, &b, NULL), LOAM_OK);
    assert_int_equal(loam_kv_string(g, "absent", false, &s, NULL), LOAM_OK);
    assert_int_equal(u, 42);
    assert_true(f == 42 && b && s.bytes == 4);
    loam_gguf_close(g);
}

/* ---- what cannot be written ---------------------------------------------------------------- */

static void write_refused(loam_gguf_writer *w, loam_status status, const char *reason)
{
    loam_error e = {0};
    const char *path = in_directory("refused.gguf");
    loam_status found = loam_gguf_write(w, path, &e);
    loam_gguf_writer_free(w);
    if (found != status || !strstr(e.message, reason))
        fail_msg("%s: '%s', expected '%s'", loam_status_name(found), e.message, reason);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void tensor_refused(const char *name, int n_dims, loam_tensor t, const char *reason)
{
    loam_gguf_writer *w = loam_gguf_writer_new();
    loam_gguf_add_tensor(w, name, n_dims, &t);
    loam_gguf_set_u32(w, "later", 1); /* the first failure stays */
    write_refused(w, LOAM_E_USAGE, reason);
}

static void test_tensors_that_cannot_be_written(void **state)
{
    (void)state;
    loam_tensor good = make_tensor(LOAM_TYPE_F32, (int64_t[]){4, 2, 1, 1}, sample_data);
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    tensor_refused(name, 2, good, "more than 63 bytes");
    tensor_refused("", 2, good, "its name is empty");
    tensor_refused("t", 0, good, "number of dimensions");
    tensor_refused("t", 5, good, "number of dimensions");
    tensor_refused("t", 1, good, "more dimensions than said");
    loam_tensor bad = good;
    bad.nb[1] = 8;
    tensor_refused("t", 2, bad, "not dense");
    bad = good;
    bad.data = NULL;
    tensor_refused("t", 2, bad, "no data");
    bad = good;
    bad.type = (loam_type)4;
    tensor_refused("t", 2, bad, "type is unknown");
    bad = good;
    bad.type = LOAM_TYPE_Q8_0;
    tensor_refused("t", 2, bad, "block");
    bad = good;
    bad.ne[1] = -1;
    tensor_refused("t", 2, bad, "negative");
    loam_gguf_writer *w = loam_gguf_writer_new();
    loam_gguf_add_tensor(w, "twice", 2, &good);
    loam_gguf_add_tensor(w, "twice", 2, &good);
    write_refused(w, LOAM_E_USAGE, "'twice' was added twice");
}

static void test_keys_that_cannot_be_written(void **state)
{
    (void)state;
    loam_gguf_writer *w = loam_gguf_writer_new();
    loam_gguf_set_u32(w, "", 1);
    write_refused(w, LOAM_E_USAGE, "has 0 bytes");
    w = loam_gguf_writer_new();
    loam_gguf_set_array(w, "a", LOAM_KV_STRING, NULL, 1);
    write_refused(w, LOAM_E_USAGE, "cannot be an array of 1 string");
    w = loam_gguf_writer_new();
    loam_gguf_set_array(w, "a", LOAM_KV_F64, NULL, UINT64_MAX / 4);
    write_refused(w, LOAM_E_USAGE, "cannot be an array of");
    loam_gguf_set_u32(NULL, "a", 1);
    write_refused(NULL, LOAM_E_MEMORY, "out of memory");
    loam_error e = {0};
    w = loam_gguf_writer_new();
    assert_int_equal(loam_gguf_write(w, in_directory("no/such/x.gguf"), &e), LOAM_E_IO);
    assert_non_null(strstr(e.message, "no/such/x.gguf"));
    loam_gguf_writer_free(w);
}

static void test_hash(void **state)
{
    (void)state;
    make_sample(in_directory("hash.gguf"));
    size_t n = 0;
    char *bytes = get_file(in_directory("hash.gguf"), &n);
    loam_gguf *g = open_ok(in_directory("hash.gguf"));
    uint64_t hash = loam_gguf_hash(g);
    assert_true(hash == loam_hash(bytes, n, 0));
    loam_gguf_close(g);
    bytes[n - 1] = (char)(bytes[n - 1] ^ 1); /* the last byte of the last tensor */
    put_file(in_directory("hash.gguf"), bytes, n);
    loam_free(bytes);
    g = open_ok(in_directory("hash.gguf"));
    assert_true(loam_gguf_hash(g) != hash);
    loam_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample_reads_back),
        cmocka_unit_test(test_rewriting_changes_nothing),
        cmocka_unit_test(test_rewriting_a_model),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_setting_again_replaces),
        cmocka_unit_test(test_typed_reads),
        cmocka_unit_test(test_typed_reads_that_fail),
        cmocka_unit_test(test_tensors_that_cannot_be_written),
        cmocka_unit_test(test_keys_that_cannot_be_written),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
