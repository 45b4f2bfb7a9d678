/* Reading a small set with memory that runs out after N allocations, the JSON library's too. */
#include "dataset_support.h"

#include <jansson.h>

#define N_SAMPLES 400

static const char lines[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind\"}, {\"role\": \"user\", "
    "\"content\": [{\"type\": \"text\", \"text\": \"One\"}]}, {\"role\": \"assistant\", "
    "\"content\": \"First\"}]}\n"
    "{\"conversations\": [{\"from\": \"human\", \"value\": \"Q\"}, {\"from\": \"gpt\", \"value\": "
    "\"A\"}], \"system\": \"Sys\"}\n"
    "{\"instruction\": \"Do\", \"input\": \"this\", \"output\": \"Done\"}\n"
    "{\"text\": \"A text of several words, which is split in pieces, since it is long.\"}\n";

/* Runs with every n of a spread over all allocations of a whole run. */
static void check_memory(const loam_base *m, const char *path, const loam_data_options *o)
{
    int64_t n_all = 1;
    loam_dataset *d = NULL;
    for (;; n_all *= 2) {
        loam_alloc_fail_after(n_all);
        loam_status status = loam_dataset_load(m, path, o, &d, &(loam_error){0});
        loam_alloc_fail_after(-1);
        if (status == LOAM_OK)
            break;
    }
    uint64_t hash = d->hash;
    loam_dataset_free(d);
    int64_t n_failed = 0;
    for (int64_t i = 0; i < N_SAMPLES; i++) {
        /* Dense at the start, where everything is made, then spread. */
        int64_t n = i < N_SAMPLES / 2 ? i : i * n_all / N_SAMPLES;
        loam_error e = {0};
        loam_alloc_fail_after(n);
        loam_status status = loam_dataset_load(m, path, o, &d, &e);
        loam_alloc_fail_after(-1);
        if (status == LOAM_OK) {
            assert_int_equal(d->hash, hash);
            assert_int_equal(d->summary.n_bad, 0);
            loam_dataset_free(d);
            continue;
        }
        n_failed++;
        if (status != LOAM_E_MEMORY)
            fail_msg("allocation %lld: status %s, \"%s\"", (long long)n, loam_status_name(status),
                     e.message);
        assert_null(d);
    }
    assert_true(n_failed > N_SAMPLES / 4);
}

static void test_lines(void **state)
{
    (void)state;
    loam_data_options o = {.max_seq_length = 12, .overlong = LOAM_OVERLONG_SPLIT, .skip_bad = true};
    char list[512];
    put("a.jsonl", lines);
    put("b.txt", "A plain text\r\nwith two lines\r\n");
    snprintf(list, sizeof list, "%s/a.jsonl@1.5,%s/b.txt@2", test_directory, test_directory);
    check_memory(test_model, list, &o);
}

static void test_tools_and_rewriting(void **state)
{
    (void)state;
    loam_base m = variant_open(
        "{{ tools|tojson }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if "
        "loop.last %}{{ m.reasoning_content }}{% endif %}{{ m.content }}{% for c in m.tool_calls "
        "%}{{ c.function.name + c.function.arguments }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor "
        "%}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        true);
    const char *path = put(
        "c.json",
        "[{\"messages\": [{\"role\": \"user\", \"content\": \"Time?\"}, {\"role\": \"assistant\", "
        "\"content\": null, \"reasoning_content\": \"hm\", \"tool_calls\": [{\"name\": \"clock\", "
        "\"arguments\": \"{}\"}]}, {\"role\": \"tool\", \"content\": \"12\"}, {\"role\": "
        "\"assistant\", \"content\": \"Noon\", \"reasoning_content\": \"so\"}], \"tools\": "
        "\"[{\\\"name\\\": \\\"clock\\\"}]\"}]");
    loam_data_options o = {.skip_bad = true};
    check_memory(&m, path, &o);
    variant_close(&m);
}

static void test_split(void **state)
{
    (void)state;
    loam_dataset *d = load_text("d.jsonl",
                                "{\"text\": \"One text\"}\n{\"text\": \"Two texts\"}\n"
                                "{\"text\": \"Three texts\"}\n",
                                NULL);
    loam_dataset *v = NULL;
    uint64_t hash = d->hash;
    loam_status status = LOAM_E_MEMORY;
    for (int64_t n = 0; status != LOAM_OK; n++) {
        loam_alloc_fail_after(n);
        status = loam_dataset_split(d, 0.4, 1, &v, &(loam_error){0});
        loam_alloc_fail_after(-1);
        if (status != LOAM_OK) {
            assert_int_equal(status, LOAM_E_MEMORY);
            assert_null(v);
            assert_int_equal(d->hash, hash);
            assert_int_equal(d->n_examples, 3);
        }
    }
    loam_dataset_free(v);
    loam_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_tools_and_rewriting),
        cmocka_unit_test(test_split),
    };
    json_set_alloc_funcs(loam_alloc, loam_free);
    return cmocka_run_group_tests(tests, open_model, close_model);
}
