/* Heap, arena, growing strings, and their failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "core/core.h"

/* Under AddressSanitizer impossible sizes must give NULL, as they do without it. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static bool all_zero(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

static void test_alloc_is_zeroed_and_aligned(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 300000; bytes = bytes * 3 + 1) {
        char *p = loam_alloc(bytes);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(all_zero(p, bytes));
        memset(p, 0xff, bytes); /* so that reused memory is dirty */
        loam_free(p);
    }
    void *nothing = loam_alloc(0);
    assert_non_null(nothing);
    loam_free(nothing);
    loam_free(NULL);
    assert_null(loam_alloc(SIZE_MAX));
    assert_null(loam_alloc(SIZE_MAX / 2));
}

static void test_realloc_keeps_bytes(void **state)
{
    (void)state;
    unsigned char *p = loam_realloc(NULL, 10);
    assert_non_null(p);
    for (int i = 0; i < 10; i++)
        p[i] = (unsigned char)i;
    p = loam_realloc(p, 100000);
    assert_non_null(p);
    p = loam_realloc(p, 5);
    assert_non_null(p);
    for (int i = 0; i < 5; i++)
        assert_int_equal(p[i], i);
    loam_alloc_fail_after(0);
    assert_null(loam_realloc(p, 500));
    loam_alloc_fail_after(-1);
    assert_int_equal(p[4], 4);
    p = loam_realloc(p, 0);
    assert_non_null(p);
    loam_free(p);
}

static void test_fail_after_counts(void **state)
{
    (void)state;
    loam_alloc_fail_after(2);
    void *a = loam_alloc(1);
    char *b = loam_strdup("text");
    void *c = loam_alloc(1);
    char *d = loam_strdup("text");
    loam_alloc_fail_after(-1);
    void *f = loam_alloc(1);
    assert_non_null(a);
    assert_string_equal(b, "text");
    assert_null(c);
    assert_null(d);
    assert_non_null(f);
    loam_free(a);
    loam_free(b);
    loam_free(f);
}

static void *allocate_many(void *count)
{
    for (int i = 0; i < 1000; i++) {
        void *p = loam_alloc(8);
        if (p)
            (*(int *)count)++;
        loam_free(p);
    }
    return NULL;
}

static void test_fail_after_counts_across_threads(void **state)
{
    (void)state;
    int counts[4] = {0};
    pthread_t threads[4];
    loam_alloc_fail_after(2500);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_many, &counts[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    loam_alloc_fail_after(-1);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3], 2500);
}

static void test_arena(void **state)
{
    (void)state;
    enum { N = 3000 };
    static unsigned char *objects[N];
    static size_t sizes[N];
    loam_arena *a = loam_arena_new();
    assert_non_null(a);
    loam_rng rng = loam_rng_stream(1, "arena");
    for (int i = 0; i < N; i++) {
        sizes[i] = (size_t)loam_rng_below(&rng, i % 100 == 0 ? 200000 : 120);
        objects[i] = loam_arena_alloc(a, sizes[i]);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 16, 0);
        assert_true(all_zero(objects[i], sizes[i]));
        memset(objects[i], i % 251, sizes[i]);
    }
    for (int i = 0; i < N; i++) {
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(objects[i][j], i % 251);
    }
    assert_string_equal(loam_arena_strdup(a, "loam"), "loam");
    assert_null(loam_arena_alloc(a, SIZE_MAX));
    assert_null(loam_arena_alloc(a, SIZE_MAX - 100));
    loam_arena_free(a);
    loam_arena_free(NULL);
}

static void test_arena_out_of_memory(void **state)
{
    (void)state;
    loam_alloc_fail_after(0);
    assert_null(loam_arena_new());
    loam_alloc_fail_after(1);
    loam_arena *a = loam_arena_new();
    assert_non_null(a);
    assert_null(loam_arena_alloc(a, 10));
    assert_null(loam_arena_strdup(a, "x"));
    loam_alloc_fail_after(-1);
    assert_non_null(loam_arena_alloc(a, 10));
    loam_arena_free(a);
}

static void test_string_grows(void **state)
{
    (void)state;
    loam_string s = {0};
    for (int i = 0; i < 1000; i++)
        loam_string_printf(&s, "%d,", i);
    loam_string_puts(&s, "end");
    loam_string_append(&s, "\0x", 2);
    loam_string_append(&s, NULL, 0);
    assert_false(s.failed);
    assert_int_equal(s.length_bytes, 10 * 2 + 90 * 3 + 900 * 4 + 3 + 2);
    assert_memory_equal(s.data, "0,1,2,", 6);
    assert_memory_equal(s.data + s.length_bytes - 9, "999,end\0x", 9);
    assert_int_equal(s.data[s.length_bytes], 0);
    loam_string_clear(&s);
    assert_string_equal(s.data, "");
    loam_string_puts(&s, "again");
    assert_string_equal(s.data, "again");
    loam_string_free(&s);
    assert_null(s.data);
    loam_string_clear(&s);
    loam_string_free(&s);
}

static void test_string_failure_keeps_contents(void **state)
{
    (void)state;
    loam_string s = {0};
    loam_string_puts(&s, "kept");
    char large[500];
    memset(large, 'x', sizeof large);
    loam_alloc_fail_after(0);
    loam_string_append(&s, large, sizeof large);
    assert_true(s.failed);
    assert_string_equal(s.data, "kept");
    loam_string_printf(&s, "%*d", 400, 1);
    assert_string_equal(s.data, "kept");
    loam_alloc_fail_after(-1);
    loam_string_free(&s);
    loam_string_append(&s, large, SIZE_MAX);
    assert_true(s.failed);
    assert_null(s.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_is_zeroed_and_aligned),
        cmocka_unit_test(test_realloc_keeps_bytes),
        cmocka_unit_test(test_fail_after_counts),
        cmocka_unit_test(test_fail_after_counts_across_threads),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_out_of_memory),
        cmocka_unit_test(test_string_grows),
        cmocka_unit_test(test_string_failure_keeps_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
