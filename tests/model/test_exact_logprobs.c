/* Log-probabilities of loam-29m against the same weights decoded to float64 in another program:
 * within 0.001 at every token, with F32 products. */
#include "model/model.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *asset(const char *name, char path[512])
{
    const char *assets = getenv("LOAM_ASSETS");
    if (assets)
        snprintf(path, 512, "%s/models/%s", assets, name);
    else
        snprintf(path, 512, "%s/../shared/assets/models/%s", LOAM_SOURCE_DIR, name);
    return path;
}

static const json_t *ids_of(const json_t *answers, const char *name)
{
    size_t i;
    const json_t *text;
    json_array_foreach(json_object_get(answers, "texts"), i, text)
    {
        if (strcmp(json_string_value(json_object_get(text, "name")), name) == 0)
            return json_object_get(text, "ids");
    }
    return NULL;
}

static double largest_difference(loam_context *c, const json_t *ids, const json_t *expected)
{
    loam_error e = {0};
    size_t n = json_array_size(ids);
    int32_t *tokens = malloc(n * sizeof *tokens);
    float *logprobs = malloc(n * sizeof *logprobs);
    double worst = 0;
    assert_int_equal(json_array_size(expected), n - 1);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    if (loam_context_score(c, tokens, (int64_t)n, logprobs, &e))
        fail_msg("%s", e.message);
    for (size_t i = 0; i + 1 < n; i++)
        worst = fmax(worst, fabs(logprobs[i] - json_number_value(json_array_get(expected, i))));
    free(tokens);
    free(logprobs);
    return worst;
}

static void compare(const char *model)
{
    char path[512];
    loam_error e = {0};
    loam_device *device;
    loam_base *m;
    loam_context *c;
    json_t *answers = json_load_file(asset("loam-29m-expected-logprobs.json", path), 0, NULL);
    if (!answers || access(asset(model, path), R_OK) != 0) {
        json_decref(answers);
        skip();
    }
    if (loam_device_open("cpu", &(loam_device_options){.n_threads = 2}, &device, &e) ||
        loam_base_open(path, device, &m, &e) || loam_context_create(m, NULL, 0, &c, &e))
        fail_msg("%s", e.message);
    int n_texts = 0;
    size_t i;
    const json_t *answer;
    json_array_foreach(json_object_get(answers, "exact_runs"), i, answer)
    {
        if (strcmp(json_string_value(json_object_get(answer, "model")), model) != 0)
            continue;
        const char *name = json_string_value(json_object_get(answer, "text"));
        double worst =
            largest_difference(c, ids_of(answers, name), json_object_get(answer, "logprobs"));
        print_message("%s, %s: %.6f\n", model, name, worst);
        assert_true(worst < 0.001);
        n_texts++;
    }
    assert_int_equal(n_texts, 5);
    loam_context_free(c);
    loam_base_close(m);
    loam_device_close(device);
    json_decref(answers);
}

static void test_q8_0(void **state)
{
    (void)state;
    compare("loam-29m-Q8_0.gguf");
}

static void test_q4_k_m(void **state)
{
    (void)state;
    compare("loam-29m-Q4_K_M.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_q8_0),
        cmocka_unit_test(test_q4_k_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
