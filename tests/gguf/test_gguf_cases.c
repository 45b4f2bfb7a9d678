/* The odd files that llama.cpp's own tests write, real models, split models, big-endian files. */
#include "gguf/support.h"

typedef struct bad_case {
    const char *name;
    loam_status status;
    const char *reason;
} bad_case;

static const bad_case bad_cases[] = {
    {"DATA_MEM_SIZE_OVERFLOW", LOAM_E_FORMAT, "up to 'my_tensor_1' are too large"},
    {"HEADER_BAD_MAGIC", LOAM_E_FORMAT, "not a GGUF file"},
    {"HEADER_BAD_N_KV", LOAM_E_FORMAT, "metadata entries, but the file of 32 bytes"},
    {"HEADER_BAD_N_TENSORS", LOAM_E_FORMAT, "tensors, but the file of 32 bytes"},
    {"HEADER_BAD_VERSION_0", LOAM_E_FORMAT, "GGUF version 0"},
    {"HEADER_BAD_VERSION_1", LOAM_E_UNSUPPORTED, "version 1 file, which is no longer read"},
    {"HEADER_BAD_VERSION_FUTURE", LOAM_E_UNSUPPORTED, "GGUF version 4"},
    {"KV_BAD_ALIGN", LOAM_E_FORMAT, "general.alignment is 13, expected a power of two"},
    {"KV_BAD_KEY_SIZE", LOAM_E_FORMAT, "a metadata key at byte"},
    {"KV_BAD_TYPE", LOAM_E_FORMAT, "type number"},
    {"KV_DUPLICATE_KEY", LOAM_E_FORMAT, "occurs twice, as entries"},
    {"KV_EMPTY_KEY", LOAM_E_FORMAT, "has an empty key"},
    {"KV_WRONG_TYPE_ALIGN", LOAM_E_FORMAT, "general.alignment has type i32, expected u32"},
    {"TENSORS_BAD_ALIGN", LOAM_E_FORMAT, "general.alignment is 13"},
    {"TENSORS_BAD_NAME_SIZE", LOAM_E_FORMAT, "expected at most 63"},
    {"TENSORS_BAD_N_DIMS", LOAM_E_FORMAT, "dimensions, expected at most 4"},
    {"TENSORS_BAD_OFFSET", LOAM_E_FORMAT, "is said to be at offset"},
    {"TENSORS_BAD_SHAPE", LOAM_E_FORMAT, "elements in dimension"},
    {"TENSORS_BAD_TYPE", LOAM_E_UNSUPPORTED, "type number"},
    {"TENSORS_DUPLICATE_NAME", LOAM_E_FORMAT, "occurs twice, as tensors"},
    {"TENSORS_INCONSISTENT_ALIGN", LOAM_E_FORMAT, "padded to 32 bytes"},
    {"TENSORS_NBYTES_TOO_BIG", LOAM_E_FORMAT, "its size in bytes does not fit"},
    {"TENSORS_NE_TOO_BIG", LOAM_E_FORMAT, "too many elements"},
};

static void test_bad_files_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(bad_cases); i++) {
        char name[128];
        snprintf(name, sizeof name, "gguf-cases/bad-%s.gguf", bad_cases[i].name);
        open_refused(asset(name), false, bad_cases[i].status, bad_cases[i].reason);
        open_refused(asset(name), true, bad_cases[i].status, bad_cases[i].reason);
    }
}

static void test_good_files_open(void **state)
{
    (void)state;
    const char *const whole[] = {"HEADER_EMPTY", "KV_RANDOM_KV", "TENSORS_ZERO_DIM"};
    const int64_t n_kv[] = {0, 100, 100};
    const int64_t n_tensors[] = {0, 0, 86};
    for (int i = 0; i < LOAM_COUNT(whole); i++) {
        char name[128];
        snprintf(name, sizeof name, "gguf-cases/ok-%s.gguf", whole[i]);
        loam_gguf *g = open_ok(asset(name));
        assert_int_equal(loam_gguf_n_kv(g), n_kv[i]);
        assert_int_equal(loam_gguf_n_tensors(g), n_tensors[i]);
        walk(g);
        loam_gguf_close(g);
    }
}

/* These end where their tensor data would begin. */
static void test_headers_open(void **state)
{
    (void)state;
    const char *const names[] = {"ok-TENSORS_SUCCESS", "ok-TENSORS_CUSTOM_ALIGN"};
    const size_t alignments[] = {32, 1};
    for (int i = 0; i < LOAM_COUNT(names); i++) {
        char name[128];
        snprintf(name, sizeof name, "gguf-cases/%s.gguf", names[i]);
        const char *path = asset(name);
        loam_gguf *g = NULL;
        assert_int_equal(loam_gguf_open_header(path, &g, NULL), LOAM_OK);
        assert_int_equal(loam_gguf_n_tensors(g), 86);
        assert_int_equal(loam_gguf_alignment(g), alignments[i]);
        const loam_gguf_tensor *t = loam_gguf_find_tensor(g, "my_tensor_1");
        assert_non_null(t);
        assert_int_equal(t->t.type, LOAM_TYPE_Q2_K);
        assert_int_equal(t->t.ne[0], 2048);
        assert_int_equal(t->t.ne[3], 2);
        assert_int_equal(t->bytes, 2048 / 256 * 84 * 10 * 9 * 2);
        assert_null(t->t.data);
        walk(g);
        loam_gguf_close(g);
    }
    open_refused(asset("gguf-cases/ok-TENSORS_SUCCESS.gguf"), false, LOAM_E_FORMAT, "cut short");
    open_refused(asset("gguf-cases/ok-TENSORS_CUSTOM_ALIGN.gguf"), false, LOAM_E_UNSUPPORTED,
                 "aligned to less than 8");
}

static void test_weight_inspect_files(void **state)
{
    (void)state;
    loam_gguf *g = open_ok(asset("gguf-cases/weight-inspect-empty.gguf"));
    loam_slice architecture = {0};
    assert_int_equal(loam_kv_string(g, "general.architecture", true, &architecture, NULL), LOAM_OK);
    assert_int_equal(architecture.bytes, 5);
    assert_memory_equal(architecture.data, "llama", 5);
    loam_gguf_close(g);

    const char *tiny = asset("gguf-cases/weight-inspect-tiny.gguf");
    open_refused(tiny, false, LOAM_E_FORMAT, "the data of tensor 'test.weight.0' takes bytes 128");
    assert_int_equal(loam_gguf_open_header(tiny, &g, NULL), LOAM_OK);
    const loam_gguf_tensor *t = loam_gguf_tensor_at(g, 0);
    assert_string_equal(t->name, "test.weight.0");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->t.ne[0], 64);
    assert_int_equal(t->t.ne[1], 128);
    assert_null(t->t.data);
    loam_gguf_close(g);
}

static void test_big_endian_is_named(void **state)
{
    (void)state;
    open_refused(asset("gguf-cases/stories260K-Q8_0-bigendian.gguf"), false, LOAM_E_UNSUPPORTED,
                 "big-endian");
}

static void test_real_model(void **state)
{
    (void)state;
    loam_gguf *g = open_ok(asset("models/stories260K-Q8_0.gguf"));
    loam_error e = {0};
    uint32_t blocks = 0;
    float epsilon = 0;
    assert_int_equal(loam_gguf_version(g), 3);
    assert_int_equal(loam_gguf_n_shards(g), 1);
    assert_int_equal(loam_kv_u32(g, "llama.block_count", true, &blocks, &e), LOAM_OK);
    assert_int_equal(blocks, 5);
    assert_int_equal(loam_kv_f32(g, "llama.attention.layer_norm_rms_epsilon", true, &epsilon, &e),
                     LOAM_OK);
    assert_true(epsilon > 0.9e-5f && epsilon < 1.1e-5f);
    const loam_kv *tokens = loam_gguf_find(g, "tokenizer.ggml.tokens");
    assert_non_null(tokens);
    assert_int_equal(tokens->element_type, LOAM_KV_STRING);
    assert_int_equal(tokens->n, 512);
    assert_int_equal(tokens->strings[0].bytes, 5);
    assert_memory_equal(tokens->strings[0].data, "<unk>", 5);
    const loam_gguf_tensor *embedding = loam_gguf_find_tensor(g, "token_embd.weight");
    assert_non_null(embedding);
    assert_int_equal(embedding->t.type, LOAM_TYPE_Q8_0);
    assert_int_equal(embedding->t.ne[0], 64);
    assert_int_equal(embedding->t.ne[1], 512);
    assert_int_equal(embedding->t.nb[1], 68);
    assert_int_equal(embedding->bytes, 512 * 68);
    assert_null(loam_gguf_find_tensor(g, "output.weight"));
    assert_null(loam_gguf_find(g, "token_embd.weight"));
    walk(g);
    loam_gguf_close(g);
}

static void test_vocabularies(void **state)
{
    (void)state;
    loam_gguf *g = open_ok(asset("tokenizers/ggml-vocab-qwen2.gguf"));
    assert_int_equal(loam_gguf_n_tensors(g), 0);
    const loam_kv *tokens = loam_gguf_find(g, "tokenizer.ggml.tokens");
    assert_true(tokens && tokens->n > 150000);
    walk(g);
    loam_gguf_close(g);
}

static void test_version_2(void **state)
{
    (void)state;
    size_t n = 0;
    char *bytes = get_file(asset("models/stories260K-Q4_0.gguf"), &n);
    assert_int_equal(bytes[4], 3);
    bytes[4] = 2;
    const char *path = in_directory("v2.gguf");
    put_file(path, bytes, n);
    loam_free(bytes);
    loam_gguf *v2 = open_ok(path);
    loam_gguf *v3 = open_ok(asset("models/stories260K-Q4_0.gguf"));
    assert_int_equal(loam_gguf_version(v2), 2);
    assert_int_equal(loam_gguf_n_tensors(v2), loam_gguf_n_tensors(v3));
    for (int64_t i = 0; i < loam_gguf_n_tensors(v2); i++)
        assert_memory_equal(loam_gguf_tensor_at(v2, i)->t.data, loam_gguf_tensor_at(v3, i)->t.data,
                            loam_gguf_tensor_at(v2, i)->bytes);
    loam_gguf_close(v2);
    loam_gguf_close(v3);
}

/* ---- split models ------------------------------------------------------------------------- */

#define SPLIT "gguf-cases/stories260K-Q8_0-split-0000%d-of-00003.gguf"

static const char *split_asset(int part)
{
    char name[128];
    snprintf(name, sizeof name, SPLIT, part);
    return asset(name);
}

static void test_split_equals_whole(void **state)
{
    (void)state;
    loam_gguf *split = open_ok(split_asset(1));
    loam_gguf *whole = open_ok(asset("models/stories260K-Q8_0.gguf"));
    assert_int_equal(loam_gguf_n_shards(split), 3);
    assert_int_equal(loam_gguf_n_tensors(split), loam_gguf_n_tensors(whole));
    int of_shard[3] = {0};
    for (int64_t i = 0; i < loam_gguf_n_tensors(whole); i++) {
        const loam_gguf_tensor *a = loam_gguf_tensor_at(whole, i);
        const loam_gguf_tensor *b = loam_gguf_find_tensor(split, a->name);
        assert_non_null(b);
        assert_int_equal(a->t.type, b->t.type);
        assert_true(loam_same_shape(&a->t, &b->t));
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->t.data, b->t.data, a->bytes);
        of_shard[b->shard]++;
        const loam_map *map = loam_gguf_map(split, b->shard);
        assert_ptr_equal(b->t.data, map->data + b->offset_bytes);
    }
    assert_int_equal(of_shard[0], 20);
    assert_int_equal(of_shard[1], 20);
    assert_int_equal(of_shard[0] + of_shard[1] + of_shard[2], loam_gguf_n_tensors(whole));
    for (int64_t i = 0; i < loam_gguf_n_kv(whole); i++) {
        const loam_kv *kv = loam_gguf_kv_at(whole, i);
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)kv->key.bytes, kv->key.data);
        assert_non_null(loam_gguf_find(split, key));
    }
    walk(split);
    loam_gguf_close(split);
    loam_gguf_close(whole);
}

/* Copies part `from` to the test's directory under the name of part `to`, with the prefix. */
static const char *copy_part(int from, const char *prefix, int to)
{
    size_t n = 0;
    char *bytes = get_file(split_asset(from), &n);
    char name[128];
    snprintf(name, sizeof name, "%s-0000%d-of-00003.gguf", prefix, to);
    const char *path = in_directory(name);
    put_file(path, bytes, n);
    loam_free(bytes);
    return path;
}

static void test_split_mistakes(void **state)
{
    (void)state;
    open_refused(split_asset(2), false, LOAM_E_USAGE, "is part 2 of 3 of a split model");
    open_refused(split_asset(2), false, LOAM_E_USAGE, "-00001-of-00003.gguf'");

    const char *first = copy_part(1, "alone", 1);
    loam_gguf *g = NULL;
    loam_error e = {0};
    assert_int_equal(loam_gguf_open(first, &g, &e), LOAM_E_IO);
    assert_non_null(strstr(e.message, "part 2 of 3 of the split model is missing"));
    assert_non_null(strstr(e.message, "alone-00002-of-00003.gguf"));

    first = copy_part(1, "swapped", 1);
    copy_part(3, "swapped", 2);
    e = (loam_error){0};
    assert_int_equal(loam_gguf_open(first, &g, &e), LOAM_E_FORMAT);
    assert_non_null(strstr(e.message, "says it is part 3 of 3, expected part 2 of 3"));

    size_t n = 0;
    char *bytes = get_file(split_asset(1), &n);
    put_file(in_directory("renamed.gguf"), bytes, n);
    loam_free(bytes);
    open_refused(in_directory("renamed.gguf"), false, LOAM_E_FORMAT,
                 "must end in '-00001-of-00003.gguf'");
}

static void test_split_with_a_wrong_tensor_count(void **state)
{
    (void)state;
    size_t n = 0;
    char *bytes = get_file(split_asset(1), &n);
    static const char key[] = "split.tensors.count";
    char *at = memmem(bytes, n, key, sizeof key - 1);
    assert_non_null(at);
    at += sizeof key - 1 + 4; /* past the type, at the low byte of the count */
    at[0] = (char)(at[0] + 1);
    const char *first = in_directory("count-00001-of-00003.gguf");
    put_file(first, bytes, n);
    loam_free(bytes);
    copy_part(2, "count", 2);
    copy_part(3, "count", 3);
    open_refused(first, false, LOAM_E_FORMAT, "split.tensors.count is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files_are_refused),
        cmocka_unit_test(test_good_files_open),
        cmocka_unit_test(test_headers_open),
        cmocka_unit_test(test_weight_inspect_files),
        cmocka_unit_test(test_big_endian_is_named),
        cmocka_unit_test(test_real_model),
        cmocka_unit_test(test_vocabularies),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_split_equals_whole),
        cmocka_unit_test(test_split_mistakes),
        cmocka_unit_test(test_split_with_a_wrong_tensor_count),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
