/* Shapes, strides, and element access through views. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tensor/tensor.h"

static loam_tensor dense(loam_type type, int64_t n0, int64_t n1, int64_t n2, int64_t n3, void *data)
{
    loam_tensor t = {.type = type, .ne = {n0, n1, n2, n3}, .data = data};
    loam_dense_strides(type, t.ne, t.nb);
    return t;
}

static void test_dense(void **state)
{
    (void)state;
    loam_tensor t = dense(LOAM_TYPE_F32, 3, 4, 5, 6, NULL);
    const size_t expected[] = {4, 12, 48, 240};
    assert_memory_equal(t.nb, expected, sizeof expected);
    assert_int_equal(loam_tensor_ne(&t), 360);
    assert_int_equal(loam_tensor_rows(&t), 120);
    assert_int_equal(loam_tensor_bytes(&t), 1440);
    assert_true(loam_is_contiguous(&t) && loam_rows_contiguous(&t));

    loam_tensor q = dense(LOAM_TYPE_Q8_0, 64, 3, 2, 1, NULL);
    const size_t of_blocks[] = {34, 68, 204, 408};
    assert_memory_equal(q.nb, of_blocks, sizeof of_blocks);
    assert_int_equal(loam_tensor_bytes(&q), 408);
    assert_true(loam_is_contiguous(&q) && loam_rows_contiguous(&q));

    loam_tensor empty = dense(LOAM_TYPE_F32, 4, 0, 2, 1, NULL);
    assert_int_equal(loam_tensor_ne(&empty), 0);
    assert_int_equal(loam_tensor_bytes(&empty), 0);
    assert_true(loam_is_contiguous(&empty));
}

static void test_views(void **state)
{
    (void)state;
    float data[24];
    for (int i = 0; i < 24; i++)
        data[i] = (float)i;
    loam_tensor t = dense(LOAM_TYPE_F32, 4, 3, 2, 1, data);
    /* Transposed: element (i0, i1) is (i1, i0) of t. */
    loam_tensor transposed = t;
    transposed.ne[0] = 3;
    transposed.ne[1] = 4;
    transposed.nb[0] = t.nb[1];
    transposed.nb[1] = t.nb[0];
    assert_false(loam_is_contiguous(&transposed));
    assert_false(loam_rows_contiguous(&transposed));
    assert_int_equal(loam_tensor_bytes(&transposed), sizeof data);
    double row[3];
    for (int i2 = 0; i2 < 2; i2++) {
        for (int i1 = 0; i1 < 4; i1++) {
            loam_get_row(&transposed, i1, i2, 0, row);
            for (int i0 = 0; i0 < 3; i0++) {
                assert_true(loam_get(&transposed, i0, i1, i2, 0) == i2 * 12 + i0 * 4 + i1);
                assert_true(row[i0] == loam_get(&t, i1, i0, i2, 0));
            }
        }
    }
    /* Every second row: rows are dense, the whole is not. */
    loam_tensor rows = t;
    rows.ne[1] = 2;
    rows.nb[1] = 2 * t.nb[1];
    rows.ne[2] = 1;
    assert_true(loam_rows_contiguous(&rows));
    assert_false(loam_is_contiguous(&rows));
    assert_int_equal(loam_tensor_bytes(&rows), 12 * 4);
    assert_true(loam_get(&rows, 1, 1, 0, 0) == 9);
    loam_set(&rows, 1, 1, 0, 0, -1);
    assert_true(data[9] == -1);
    /* The stride of a dimension of one element does not matter. */
    loam_tensor one = t;
    one.ne[2] = 1;
    one.nb[2] = 1000;
    one.nb[3] = 7;
    assert_true(loam_is_contiguous(&one));
    assert_int_equal(loam_tensor_bytes(&one), 48);
}

static void test_types_of_elements(void **state)
{
    (void)state;
    const loam_type types[] = {LOAM_TYPE_F64,  LOAM_TYPE_F32, LOAM_TYPE_F16,
                               LOAM_TYPE_BF16, LOAM_TYPE_I32, LOAM_TYPE_I64};
    for (int i = 0; i < LOAM_COUNT(types); i++) {
        unsigned char data[64] = {0};
        loam_tensor t = dense(types[i], 3, 2, 1, 1, data + 1); /* unaligned on purpose */
        for (int j = 0; j < 6; j++)
            loam_set(&t, j % 3, j / 3, 0, 0, j - 3);
        for (int j = 0; j < 6; j++)
            assert_true(loam_get(&t, j % 3, j / 3, 0, 0) == j - 3);
        assert_int_equal(data[0], 0);
        assert_int_equal(data[1 + loam_tensor_bytes(&t)], 0);
    }
    int64_t large = (INT64_C(1) << 53) - 1;
    int32_t odd = 2147483647;
    double fine = 0.1;
    loam_tensor t = dense(LOAM_TYPE_I64, 1, 1, 1, 1, &large);
    assert_true(loam_get(&t, 0, 0, 0, 0) == 9007199254740991.0);
    t = dense(LOAM_TYPE_I32, 1, 1, 1, 1, &odd);
    assert_true(loam_get(&t, 0, 0, 0, 0) == 2147483647.0);
    t = dense(LOAM_TYPE_F64, 1, 1, 1, 1, &fine);
    assert_true(loam_get(&t, 0, 0, 0, 0) == 0.1);
}

/* Every type with blocks: elements and rows through strides equal the plain decoding. */
static void test_blocks(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(1, "blocks");
    int tried = 0;
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        if (!info || info->block_ne == 1)
            continue;
        enum { ROWS = 3 };
        unsigned char data[LOAM_MAX_BLOCK_BYTES * 2 * ROWS * 2];
        float decoded[LOAM_MAX_BLOCK_NE * 2 * ROWS];
        double row[LOAM_MAX_BLOCK_NE * 2];
        int64_t n0 = info->block_ne * 2;
        loam_error e = {0};
        if (loam_random_fill((loam_type)type, &rng, 1.0f, data, n0 * ROWS, &e) != LOAM_OK)
            fail_msg("%s: %s", info->name, e.message);
        loam_decode((loam_type)type, data, decoded, n0 * ROWS);
        loam_tensor t = dense((loam_type)type, n0, ROWS, 1, 1, data);
        for (int64_t i1 = 0; i1 < ROWS; i1++) {
            loam_get_row(&t, i1, 0, 0, row);
            for (int64_t i0 = 0; i0 < n0; i0++) {
                assert_true(row[i0] == (double)decoded[i1 * n0 + i0]);
                assert_true(loam_get(&t, i0, i1, 0, 0) == row[i0]);
            }
        }
        t.ne[1] = 1; /* a view of the second row's second block and the third's first */
        t.data = data + t.nb[0] * 3;
        loam_get_row(&t, 0, 0, 0, row);
        assert_true(row[0] == (double)decoded[info->block_ne * 3]);
        assert_true(row[n0 - 1] == (double)decoded[info->block_ne * 5 - 1]);
        tried++;
    }
    assert_true(tried >= 20);
}

static void test_comparing_shapes(void **state)
{
    (void)state;
    loam_tensor a = dense(LOAM_TYPE_F32, 4, 2, 1, 1, NULL);
    loam_tensor b = dense(LOAM_TYPE_F16, 4, 2, 1, 1, NULL);
    loam_tensor c = dense(LOAM_TYPE_F32, 8, 2, 3, 5, NULL);
    loam_tensor d = dense(LOAM_TYPE_F32, 4, 3, 1, 1, NULL);
    loam_tensor none = dense(LOAM_TYPE_F32, 0, 2, 1, 1, NULL);
    assert_true(loam_same_shape(&a, &b));
    assert_false(loam_same_shape(&a, &c));
    assert_true(loam_can_repeat(&a, &c));
    assert_false(loam_can_repeat(&c, &a));
    assert_false(loam_can_repeat(&a, &d));
    assert_true(loam_can_repeat(&a, &b));
    assert_true(loam_can_repeat(&none, &none));
    assert_false(loam_can_repeat(&none, &a));
    assert_true(loam_can_repeat(&a, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_types_of_elements),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_comparing_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
