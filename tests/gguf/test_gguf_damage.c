/* Files that are cut, changed, or hostile, and memory that runs out: an error every time. */
#include "gguf/support.h"

#include <sys/stat.h>

/* ---- hand-made files ---------------------------------------------------------------------- */

static void put_u32(loam_string *s, uint32_t value)
{
    loam_string_append(s, (const char *)&value, sizeof value);
}

static void put_u64(loam_string *s, uint64_t value)
{
    loam_string_append(s, (const char *)&value, sizeof value);
}

static void put_name(loam_string *s, const char *name)
{
    put_u64(s, strlen(name));
    loam_string_puts(s, name);
}

static loam_string header(uint64_t n_tensors, uint64_t n_kv)
{
    loam_string s = {0};
    loam_string_puts(&s, "GGUF");
    put_u32(&s, 3);
    put_u64(&s, n_tensors);
    put_u64(&s, n_kv);
    return s;
}

/* Writes the file, padded with zeros, and expects both ways of opening to refuse it. */
static void refuse(loam_string *s, loam_status status, const char *reason)
{
    static const char zeros[4096];
    loam_string_append(s, zeros, sizeof zeros);
    const char *path = in_directory("hand-made.gguf");
    put_file(path, s->data, s->length_bytes);
    loam_string_free(s);
    open_refused(path, false, status, reason);
    open_refused(path, true, status, reason);
}

static void test_counts_cannot_ask_for_memory(void **state)
{
    (void)state;
    const uint64_t counts[] = {1000,           UINT64_C(1) << 32, UINT64_C(1) << 60,
                               INT64_MAX,      UINT64_C(1) << 63, UINT64_MAX / 8,
                               UINT64_MAX / 14};
    for (int i = 0; i < LOAM_COUNT(counts); i++) {
        loam_string s = header(counts[i], 0);
        refuse(&s, LOAM_E_FORMAT, "tensors, but the file");
        s = header(0, counts[i]);
        refuse(&s, LOAM_E_FORMAT, "metadata entries, but the file");
        for (uint32_t type = LOAM_KV_U8; type <= LOAM_KV_F64; type++) {
            if (type == LOAM_KV_ARRAY || (type != LOAM_KV_STRING && counts[i] < 5000))
                continue;
            s = header(0, 1);
            put_name(&s, "list");
            put_u32(&s, LOAM_KV_ARRAY);
            put_u32(&s, type);
            put_u64(&s, counts[i]);
            refuse(&s, LOAM_E_FORMAT, "the value of metadata key 'list'");
        }
    }
}

/* Counts whose product with 8 or 16 wraps, before enough zeros to fill whatever was allocated. */
static void test_counts_of_strings_that_wrap(void **state)
{
    (void)state;
    const uint64_t counts[] = {UINT64_C(1) << 60, UINT64_C(1) << 61, UINT64_C(1) << 63};
    static const char zeros[1 << 20];
    for (int i = 0; i < LOAM_COUNT(counts); i++) {
        loam_string s = header(0, 1);
        put_name(&s, "list");
        put_u32(&s, LOAM_KV_ARRAY);
        put_u32(&s, LOAM_KV_STRING);
        put_u64(&s, counts[i]);
        loam_string_append(&s, zeros, sizeof zeros);
        refuse(&s, LOAM_E_FORMAT, "the value of metadata key 'list'");
    }
}

static void test_lengths_of_strings(void **state)
{
    (void)state;
    const uint64_t lengths[] = {5000, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX, UINT64_MAX - 23};
    for (int i = 0; i < LOAM_COUNT(lengths); i++) {
        loam_string s = header(0, 1);
        put_u64(&s, lengths[i]);
        refuse(&s, LOAM_E_FORMAT, "a metadata key at byte");
        s = header(0, 1);
        put_name(&s, "text");
        put_u32(&s, LOAM_KV_STRING);
        put_u64(&s, lengths[i]);
        refuse(&s, LOAM_E_FORMAT, "the value of metadata key 'text'");
        s = header(1, 0);
        put_u64(&s, lengths[i]);
        refuse(&s, LOAM_E_FORMAT, "a tensor name at byte");
    }
    loam_string s = header(0, 1);
    static char long_key[65537];
    memset(long_key, 'k', sizeof long_key - 1);
    put_name(&s, long_key);
    refuse(&s, LOAM_E_FORMAT, "a key of 65536 bytes");
}

static void test_nested_arrays(void **state)
{
    (void)state;
    loam_string s = header(0, 1);
    put_name(&s, "nested");
    put_u32(&s, LOAM_KV_ARRAY);
    put_u32(&s, LOAM_KV_ARRAY);
    put_u64(&s, 1);
    refuse(&s, LOAM_E_UNSUPPORTED, "'nested' is an array of arrays");
}

static void put_tensor(loam_string *s, const char *name, const uint64_t ne[4], uint32_t type,
                       uint64_t offset)
{
    put_name(s, name);
    put_u32(s, 4);
    for (int d = 0; d < 4; d++)
        put_u64(s, ne[d]);
    put_u32(s, type);
    put_u64(s, offset);
}

static void test_shapes_and_types(void **state)
{
    (void)state;
    const uint64_t large = UINT64_C(1) << 62;
    loam_string s = header(1, 0);
    put_tensor(&s, "t", (uint64_t[]){large, 4, 1, 1}, LOAM_TYPE_I8, 0);
    refuse(&s, LOAM_E_FORMAT, "too many elements");
    s = header(1, 0);
    put_tensor(&s, "t", (uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 31, 2, 1}, LOAM_TYPE_I8, 0);
    refuse(&s, LOAM_E_FORMAT, "too many elements");
    s = header(1, 0);
    put_tensor(&s, "t", (uint64_t[]){large, 1, 1, 1}, LOAM_TYPE_F64, 0);
    refuse(&s, LOAM_E_FORMAT, "does not fit 63 bits");
    s = header(1, 0); /* the strides of an empty tensor must fit as well */
    put_tensor(&s, "t", (uint64_t[]){large, 8, 0, 1}, LOAM_TYPE_F32, 0);
    refuse(&s, LOAM_E_FORMAT, "too many elements");
    s = header(1, 0);
    put_tensor(&s, "t", (uint64_t[]){UINT64_MAX, 1, 1, 1}, LOAM_TYPE_F32, 0);
    refuse(&s, LOAM_E_FORMAT, "-1 elements in dimension 0");
    s = header(1, 0);
    put_tensor(&s, "t", (uint64_t[]){33, 1, 1, 1}, LOAM_TYPE_Q8_0, 0);
    refuse(&s, LOAM_E_FORMAT, "rows of 33 elements, but its type q8_0 needs a multiple of 32");
    const uint32_t types[] = {4, 5, 31, 33, 36, 38, LOAM_TYPE_COUNT, 0x7fffffff, UINT32_MAX};
    for (int i = 0; i < LOAM_COUNT(types); i++) {
        s = header(1, 0);
        put_tensor(&s, "t", (uint64_t[]){256, 1, 1, 1}, types[i], 0);
        refuse(&s, LOAM_E_UNSUPPORTED, "which is no element type");
    }
    s = header(2, 0);
    put_tensor(&s, "same", (uint64_t[]){8, 1, 1, 1}, LOAM_TYPE_F32, 0);
    put_tensor(&s, "same", (uint64_t[]){8, 1, 1, 1}, LOAM_TYPE_F32, 32);
    refuse(&s, LOAM_E_FORMAT, "'same' occurs twice, as tensors 0 and 1");
    s = header(1, 0);
    put_u64(&s, 3);
    loam_string_append(&s, "a\0b", 3);
    refuse(&s, LOAM_E_FORMAT, "contains a NUL byte");
}

static void test_offsets(void **state)
{
    (void)state;
    const uint64_t offsets[] = {0, 1, 31, 64, 33, UINT64_MAX - 31, UINT64_C(1) << 63};
    for (int i = 0; i < LOAM_COUNT(offsets); i++) {
        loam_string s = header(2, 0);
        put_tensor(&s, "first", (uint64_t[]){5, 1, 1, 1}, LOAM_TYPE_F32, 0);
        put_tensor(&s, "second", (uint64_t[]){5, 1, 1, 1}, LOAM_TYPE_F32, offsets[i]);
        refuse(&s, LOAM_E_FORMAT, ", expected 32");
    }
    loam_string s = header(2, 0); /* sizes that fit one by one and not together */
    put_tensor(&s, "first", (uint64_t[]){INT64_MAX - 63, 1, 1, 1}, LOAM_TYPE_I8, 0);
    put_tensor(&s, "second", (uint64_t[]){INT64_MAX - 63, 1, 1, 1}, LOAM_TYPE_I8, INT64_MAX - 63);
    refuse(&s, LOAM_E_FORMAT, "up to 'second' are too large");
}

static void test_alignments(void **state)
{
    (void)state;
    const uint32_t bad[] = {0, 3, 33, 0x80000001};
    for (int i = 0; i < LOAM_COUNT(bad); i++) {
        loam_string s = header(0, 1);
        put_name(&s, "general.alignment");
        put_u32(&s, LOAM_KV_U32);
        put_u32(&s, bad[i]);
        refuse(&s, LOAM_E_FORMAT, "expected a power of two");
    }
    loam_string s = header(1, 1); /* the data would start 2 GiB into the file */
    put_name(&s, "general.alignment");
    put_u32(&s, LOAM_KV_U32);
    put_u32(&s, 0x80000000);
    put_tensor(&s, "t", (uint64_t[]){8, 1, 1, 1}, LOAM_TYPE_F32, 0);
    const char *path = in_directory("far.gguf");
    put_file(path, s.data, s.length_bytes);
    loam_string_free(&s);
    open_refused(path, false, LOAM_E_FORMAT, "takes bytes 2147483648 to 2147483680");
}

static void test_no_file(void **state)
{
    (void)state;
    open_refused(in_directory("absent.gguf"), false, LOAM_E_IO, "No such file");
    put_file(in_directory("empty.gguf"), "", 0);
    open_refused(in_directory("empty.gguf"), false, LOAM_E_FORMAT, "is empty");
    put_file(in_directory("text.gguf"), "{\"model_type\": \"llama\"}", 23);
    open_refused(in_directory("text.gguf"), false, LOAM_E_FORMAT, "not a GGUF file");
    loam_gguf *g = NULL;
    assert_int_equal(loam_gguf_open(test_directory, &g, NULL), LOAM_E_IO);
    loam_gguf_close(NULL);
}

/* ---- cut files ---------------------------------------------------------------------------- */

static void refuse_cut(const char *path, size_t length)
{
    assert_int_equal(truncate(path, (off_t)length), 0);
    loam_gguf *g = NULL;
    loam_error e = {0};
    loam_status status = loam_gguf_open(path, &g, &e);
    if (status != LOAM_E_FORMAT || g || !strstr(e.message, path))
        fail_msg("cut to %zu bytes: %s, '%s'", length, loam_status_name(status), e.message);
    if (loam_gguf_open_header(path, &g, NULL) == LOAM_OK) {
        walk(g);
        loam_gguf_close(g);
    }
}

static void test_every_cut_of_a_small_file(void **state)
{
    (void)state;
    const char *path = in_directory("cut.gguf");
    make_sample(path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size % 32, 0); /* the last tensor ends there, without padding */
    for (size_t length = (size_t)info.st_size; length-- > 0;)
        refuse_cut(path, length);
}

static void test_cuts_of_a_model(void **state)
{
    (void)state;
    size_t n = 0;
    char *bytes = get_file(asset("models/stories260K-Q4_1.gguf"), &n);
    const char *path = in_directory("cut-model.gguf");
    put_file(path, bytes, n);
    loam_free(bytes);
    loam_gguf *g = open_ok(path);
    size_t data_start = loam_gguf_tensor_at(g, 0)->offset_bytes;
    loam_gguf_close(g);
    for (size_t length = n - 33; length > data_start; length -= LOAM_MIN(length, (size_t)997))
        refuse_cut(path, length);
    for (size_t length = data_start; length > 0; length -= LOAM_MIN(length, (size_t)3))
        refuse_cut(path, length);
}

/* ---- changed files ------------------------------------------------------------------------ */

/* Flips one to three bits of the first `span` bytes, `n` times; returns how many files opened. */
static int flip_bits(const char *source, size_t span, int n, uint64_t seed)
{
    size_t bytes = 0;
    char *good = get_file(source, &bytes);
    char *bad = loam_alloc(bytes);
    assert_non_null(bad);
    loam_rng rng = loam_rng_stream(seed, "flips");
    const char *path = in_directory("flipped.gguf");
    int opened = 0;
    for (int i = 0; i < n; i++) {
        memcpy(bad, good, bytes);
        for (uint64_t flips = loam_rng_below(&rng, 3) + 1; flips > 0; flips--) {
            uint64_t bit = loam_rng_below(&rng, span * 8);
            bad[bit / 8] = (char)(bad[bit / 8] ^ (1 << bit % 8));
        }
        put_file(path, bad, bytes);
        for (int header_only = 0; header_only < 2; header_only++) {
            loam_gguf *g = NULL;
            loam_error e = {0};
            loam_status status =
                header_only ? loam_gguf_open_header(path, &g, &e) : loam_gguf_open(path, &g, &e);
            assert_true((status == LOAM_OK) == (g != NULL));
            assert_true((status == LOAM_OK) == (e.message[0] == 0));
            if (g)
                walk(g);
            opened += g && !header_only;
            loam_gguf_close(g);
        }
    }
    loam_free(good);
    loam_free(bad);
    return opened;
}

static void test_flipped_bits(void **state)
{
    (void)state;
    const char *path = in_directory("whole.gguf");
    make_sample(path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    int opened = flip_bits(path, (size_t)info.st_size, 2000, 1);
    print_message("%d of 2000 changed files still open\n", opened);
    assert_true(opened > 100 && opened < 1900);
}

static void test_flipped_bits_of_a_model(void **state)
{
    (void)state;
    const char *path = asset("gguf-cases/ok-TENSORS_SUCCESS.gguf");
    assert_int_equal(flip_bits(path, 8046, 1000, 2), 0); /* it has no tensor data */
}

/* ---- memory that runs out ----------------------------------------------------------------- */

static void fail_every_allocation_of_open(const char *path)
{
    loam_status status = LOAM_E_MEMORY;
    int n = 0;
    for (; status != LOAM_OK; n++) {
        loam_gguf *g = NULL;
        loam_error e = {0};
        loam_alloc_fail_after(n);
        status = loam_gguf_open(path, &g, &e);
        loam_alloc_fail_after(-1);
        if (status != LOAM_OK) {
            assert_int_equal(status, LOAM_E_MEMORY);
            assert_non_null(strstr(e.message, "out of memory"));
            assert_null(g);
        }
        loam_gguf_close(g);
    }
    print_message("%d allocations\n", n - 1);
    assert_true(n > 4);
}

static void test_open_without_memory(void **state)
{
    (void)state;
    make_sample(in_directory("memory.gguf"));
    fail_every_allocation_of_open(in_directory("memory.gguf"));
}

static void test_open_split_without_memory(void **state)
{
    (void)state;
    fail_every_allocation_of_open(asset("gguf-cases/stories260K-Q8_0-split-00001-of-00003.gguf"));
}

static void test_write_without_memory(void **state)
{
    (void)state;
    const char *path = in_directory("never.gguf");
    loam_status status = LOAM_E_MEMORY;
    int n = 0;
    for (; status != LOAM_OK; n++) {
        loam_error e = {0};
        loam_alloc_fail_after(n);
        loam_gguf_writer *w = sample_writer();
        status = loam_gguf_write(w, path, &e);
        loam_alloc_fail_after(-1);
        loam_gguf_writer_free(w);
        if (status != LOAM_OK) {
            assert_int_equal(status, LOAM_E_MEMORY);
            assert_non_null(strstr(e.message, "out of memory"));
            assert_int_not_equal(access(path, F_OK), 0);
        }
    }
    print_message("%d allocations\n", n - 1);
    loam_gguf_close(open_ok(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_cannot_ask_for_memory),
        cmocka_unit_test(test_counts_of_strings_that_wrap),
        cmocka_unit_test(test_lengths_of_strings),
        cmocka_unit_test(test_nested_arrays),
        cmocka_unit_test(test_shapes_and_types),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_every_cut_of_a_small_file),
        cmocka_unit_test(test_cuts_of_a_model),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_flipped_bits_of_a_model),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_open_split_without_memory),
        cmocka_unit_test(test_write_without_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
