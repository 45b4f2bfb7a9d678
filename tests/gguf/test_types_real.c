/* Quantized models against the model they were made from: decoded tensors must lie as close to the
 * originals as each type's resolution lets them. A wrong shift or scale is off by far more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "gguf/gguf.h"
#include "gguf/support.h"

typedef struct model_pair {
    const char *original;
    const char *quantized;
    double bar; /* relative root mean square error of every quantized tensor */
} model_pair;

/* Bars: the error of rounding to the type's steps on normal data, with a third more for weights
 * whose blocks have longer tails. The K models are compared with the finest of them. */
static const model_pair pairs[] = {
    {"models/stories260K-F32.gguf", "models/stories260K-F16.gguf", 0.0004},
    {"models/stories260K-F32.gguf", "models/stories260K-Q8_0.gguf", 0.0075},
    {"models/stories260K-F32.gguf", "models/stories260K-Q5_1.gguf", 0.055},
    {"models/stories260K-F32.gguf", "models/stories260K-Q5_0.gguf", 0.060},
    {"models/stories260K-F32.gguf", "models/stories260K-Q4_1.gguf", 0.110},
    {"models/stories260K-F32.gguf", "models/stories260K-Q4_0.gguf", 0.115},
    {"models/stories260K-wide256-Q5_K_M.gguf", "models/stories260K-wide256-Q4_K_M.gguf", 0.110},
    {"models/stories260K-wide256-Q5_K_M.gguf", "models/stories260K-wide256-Q2_K.gguf", 0.400},
    {"models/loam-29m-Q8_0.gguf", "models/loam-29m-Q4_K_M.gguf", 0.110},
};

static double tensor_error(const loam_tensor *a, const loam_tensor *b)
{
    const int64_t n = loam_tensor_ne(a);
    float *x = loam_alloc((size_t)n * sizeof(float));
    float *y = loam_alloc((size_t)n * sizeof(float));
    double error = 0.0;
    double power = 0.0;
    assert_true(x != NULL && y != NULL);
    loam_decode(a->type, a->data, x, n);
    loam_decode(b->type, b->data, y, n);
    for (int64_t i = 0; i < n; i++) {
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        power += (double)x[i] * (double)x[i];
    }
    loam_free(x);
    loam_free(y);
    return sqrt(error / power);
}

static void compare_models(const model_pair *pair)
{
    loam_gguf *a = open_ok(asset(pair->original));
    loam_gguf *b = open_ok(asset(pair->quantized));
    int compared = 0;
    double worst = 0.0;
    for (int64_t i = 0; i < loam_gguf_n_tensors(a); i++) {
        const loam_gguf_tensor *from = loam_gguf_tensor_at(a, i);
        const loam_gguf_tensor *to = loam_gguf_find_tensor(b, from->name);
        if (to == NULL || to->t.type == LOAM_TYPE_F32 || to->t.type == from->t.type)
            continue;
        assert_true(loam_same_shape(&from->t, &to->t));
        const double error = tensor_error(&from->t, &to->t);
        if (error >= pair->bar)
            print_error("%s, tensor %s (%s): relative RMSE %.4f, bar %.4f\n", pair->quantized,
                        from->name, loam_type_name(to->t.type), error, pair->bar);
        assert_true(error < pair->bar);
        worst = fmax(worst, error);
        compared++;
    }
    print_message("  %s: %d tensors, largest relative RMSE %.4f, bar %.4f\n", pair->quantized,
                  compared, worst, pair->bar);
    assert_true(compared > 0);
    loam_gguf_close(a);
    loam_gguf_close(b);
}

static void test_legacy_types(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        compare_models(&pairs[i]);
}

static void test_k_types(void **state)
{
    (void)state;
    for (int i = 6; i < LOAM_COUNT(pairs); i++)
        compare_models(&pairs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legacy_types),
        cmocka_unit_test(test_k_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
