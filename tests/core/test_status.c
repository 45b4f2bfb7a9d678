/* Statuses, messages, versions, sizes and the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "core/core.h"

static loam_status forward(loam_status status)
{
    LOAM_TRY(status);
    return LOAM_E_USAGE; /* shows that LOAM_OK went on */
}

static void test_first_failure_wins(void **state)
{
    (void)state;
    loam_error e = {0};
    assert_int_equal(loam_fail(&e, LOAM_E_FORMAT, "tensor '%s': %d", "a", 3), LOAM_E_FORMAT);
    assert_int_equal(loam_fail(&e, LOAM_E_IO, "later"), LOAM_E_IO);
    assert_int_equal(e.status, LOAM_E_FORMAT);
    assert_string_equal(e.message, "tensor 'a': 3");
    assert_int_equal(loam_fail(NULL, LOAM_E_DATA, "nobody reads this"), LOAM_E_DATA);
}

static void test_try_forwards(void **state)
{
    (void)state;
    assert_int_equal(forward(LOAM_E_MEMORY), LOAM_E_MEMORY);
    assert_int_equal(forward(LOAM_OK), LOAM_E_USAGE);
}

static void test_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[2048];
        size_t n = 0;
        for (; n < shift; n++)
            text[n] = 'a';
        for (; n + 3 < sizeof text; n += 3)
            memcpy(text + n, "\xe2\x82\xac", 3); /* the euro sign */
        text[n] = 0;
        loam_error e = {0};
        loam_fail(&e, LOAM_E_IO, "%s", text);
        size_t length = strlen(e.message);
        assert_true(length < LOAM_MESSAGE_BYTES && length >= LOAM_MESSAGE_BYTES - 8);
        assert_string_equal(e.message + length - 3, "...");
        assert_int_equal((length - 3 - shift) % 3, 0);
    }
}

static void test_exact_fit_is_not_cut(void **state)
{
    (void)state;
    char text[LOAM_MESSAGE_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    loam_error e = {0};
    loam_fail(&e, LOAM_E_IO, "%s", text);
    assert_string_equal(e.message, text);
}

static void test_control_characters_do_not_reach_terminals(void **state)
{
    (void)state;
    loam_error e = {0};
    loam_fail(&e, LOAM_E_FORMAT, "name '\x1b[31m\x7f' of\tline\nend");
    assert_string_equal(e.message, "name '?[31m?' of\tline\nend");
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(loam_status_name(LOAM_OK), "ok");
    for (int i = LOAM_OK; i <= LOAM_E_CANCELLED; i++) {
        assert_string_not_equal(loam_status_name((loam_status)i), "unknown");
        for (int j = LOAM_OK; j < i; j++)
            assert_string_not_equal(loam_status_name((loam_status)i),
                                    loam_status_name((loam_status)j));
    }
    assert_string_equal(loam_status_name((loam_status)99), "unknown");
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", LOAM_VERSION_MAJOR, LOAM_VERSION_MINOR,
             LOAM_VERSION_PATCH);
    assert_string_equal(loam_version(), version);
}

static void test_size_arithmetic(void **state)
{
    (void)state;
    size_t out = 0;
    assert_true(loam_size_mul(6, 7, &out));
    assert_int_equal(out, 42);
    assert_true(loam_size_mul(SIZE_MAX, 1, &out));
    assert_true(loam_size_mul(SIZE_MAX, 0, &out));
    assert_false(loam_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_true(loam_size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(loam_size_add(SIZE_MAX, 1, &out));
}

static void test_clock(void **state)
{
    (void)state;
    double start = loam_now_ms();
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    double passed = loam_now_ms() - start;
    assert_true(passed >= 20 && passed < 20000);

    const size_t grown = (size_t)64 << 20;
    char *touched = loam_alloc(grown); /* zeroing touches it */
    assert_non_null(touched);
    size_t peak = loam_peak_rss_bytes();
    assert_true(peak >= grown && peak < (size_t)1 << 40);
    loam_free(touched);
    assert_true(loam_peak_rss_bytes() >= peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_failure_wins),
        cmocka_unit_test(test_try_forwards),
        cmocka_unit_test(test_long_message_is_cut_between_characters),
        cmocka_unit_test(test_exact_fit_is_not_cut),
        cmocka_unit_test(test_control_characters_do_not_reach_terminals),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_size_arithmetic),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
