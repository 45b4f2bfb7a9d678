/* Fuzz target: the input is a template, rendered with fixed variables and small limits; then its
 * spans are looked for. Build with clang -fsanitize=fuzzer,address,undefined and link the text and
 * core libraries. Nothing may crash, leak, hang or overrun a limit. */
#include "core/core.h"
#include "text/template.h"

#include <stdlib.h>

static const char VARIABLES[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S \xC3\xBC\"},"
    "{\"role\": \"user\", \"content\": \" q\\n\"},"
    "{\"role\": \"assistant\", \"content\": \"<think>t</think>a\", \"n\": 1.5},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"p\"}]},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\","
    "\"arguments\": {\"x\": -3, \"y\": [true, null, 1e300]}}}]}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}],"
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
    "\"x\": \"abc\", \"l\": [3, 1, 2], \"d\": {\"a\": 1, \"b\": \"2\"}, \"i\": 7, \"f\": 2.5}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *variables;
    if (variables == NULL)
        variables = json_loads(VARIABLES, 0, NULL);
    loam_template_limits limits = {.max_depth = 100,
                                   .max_steps = 200000,
                                   .max_output_bytes = 1 << 20,
                                   .max_memory_bytes = 8 << 20,
                                   .clock_s = 1772719629};
    loam_template *t = NULL;
    loam_error e = {0};
    if (loam_template_create((const char *)data, size, "fuzz", &t, &e) != LOAM_OK)
        return 0;
    loam_string text = {0};
    loam_template_span_list spans = {0};
    loam_status status = loam_template_render(t, variables, &limits, &text, &e);
    if (text.length_bytes > limits.max_output_bytes || (status != LOAM_OK && !e.message[0]))
        abort();
    loam_string_clear(&text);
    if (status == LOAM_OK &&
        loam_template_spans(t, json_object_get(variables, "messages"), variables, &limits, &text,
                            &spans, &e) == LOAM_OK) {
        for (size_t i = 0; i < spans.n; i++) {
            if (spans.items[i].begin_bytes > spans.items[i].end_bytes ||
                spans.items[i].end_bytes > text.length_bytes)
                abort();
        }
    }
    loam_template_span_list_free(&spans);
    loam_string_free(&text);
    loam_template_free(t);
    return 0;
}
