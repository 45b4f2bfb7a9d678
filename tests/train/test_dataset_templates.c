/* Chat templates that write a BOS, rewrite earlier turns, know tools or do not, hide their turns.
 */
#include "dataset_support.h"

/* As Qwen3 does: reasoning is shown in the last turn and dropped from earlier ones. */
#define REWRITES                                                                                   \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' and " \
    "loop.last and m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% "    \
    "endif %}{{ m.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "       \
    "'<|im_start|>assistant\\n' }}{% endif %}"

#define THINKING                                                                                   \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"One\"}, {\"role\": \"assistant\", "       \
    "\"content\": \"First\", \"reasoning_content\": \"hmm\"}, {\"role\": \"user\", \"content\": "  \
    "\"Two\"}, {\"role\": \"assistant\", \"content\": \"Second\", \"reasoning_content\": "         \
    "\"so\"}, {\"role\": \"user\", \"content\": \"Three\"}]}\n"

#define CHAT                                                                                       \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "        \
    "\"content\": \"Hello\"}]}\n"

static int64_t count_token(const loam_dataset *d, int64_t example, int32_t id)
{
    const loam_example *x = &d->examples[example];
    int64_t n = 0;
    for (int64_t i = x->first; i < x->first + x->n_tokens; i++)
        n += d->tokens[i] == id;
    return n;
}

/* One BOS, whether template, tokenizer, both or the text itself bring it. */
static void test_one_bos(void **state)
{
    (void)state;
    static const char plain[] = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
    static const char with_bos[] = "{{ bos_token }}{% for m in messages %}{{ m.content }}"
                                   "{{ eos_token }}{% endfor %}";
    for (int i = 0; i < 4; i++) {
        loam_base m = variant_open(i & 1 ? with_bos : plain, (i & 2) != 0);
        int32_t bos = loam_tokenizer_bos(m.tokenizer);
        loam_string text = {0};
        loam_string_puts(&text, CHAT "{\"text\": \"a text\"}\n{\"text\": \"");
        loam_token_piece(m.tokenizer, bos, true, &text);
        loam_string_puts(&text, "a text\"}\n");
        loam_dataset *d = load_for(&m, put("a.jsonl", text.data), NULL);
        assert_int_equal(count_token(d, 0, bos), i > 0);
        assert_int_equal(count_token(d, 1, bos), (i & 2) != 0);
        assert_int_equal(count_token(d, 2, bos), 1);
        for (int64_t k = 0; k < 3; k++) {
            if (count_token(d, k, bos))
                assert_int_equal(d->tokens[d->examples[k].first], bos);
        }
        assert_string_equal(text_of(&m, d, 0, true), "Hello<|im_end|>|");
        loam_string_free(&text);
        loam_dataset_free(d);
        variant_close(&m);
    }
}

/* Windows and pieces of a model that wants a BOS begin with it; nothing else is lost or twice. */
static void test_windows_with_bos(void **state)
{
    (void)state;
    loam_base m = variant_open(NULL, true);
    int32_t bos = loam_tokenizer_bos(m.tokenizer);
    loam_string text = {0};
    for (int i = 0; i < 60; i++)
        loam_string_printf(&text, "Line %d of a text. ", i);
    loam_data_options o = {.max_seq_length = 16};
    loam_dataset *d = load_for(&m, put("a.txt", text.data), &o);
    loam_string joined = {0};
    check_set(d, 16);
    for (int64_t i = 0; i < d->n_examples; i++) {
        assert_int_equal(d->tokens[d->examples[i].first], bos);
        assert_int_equal(d->examples[i].n_trained, d->examples[i].n_tokens - 1);
        loam_string_puts(&joined, text_of(&m, d, i, true));
        joined.length_bytes--; /* the '|' */
    }
    assert_int_equal(joined.length_bytes, text.length_bytes + strlen("<|im_end|>"));
    assert_memory_equal(joined.data, text.data, text.length_bytes);
    loam_string_free(&joined);
    loam_string_free(&text);
    loam_dataset_free(d);
    variant_close(&m);
}

/* The mask never shifts into the user's words: each turn becomes an example of its own, as the
 * template renders it when the model has to say it. */
static void test_rewritten_turns(void **state)
{
    (void)state;
    loam_base m = variant_open(REWRITES, false);
    const char *path = put("a.jsonl", CHAT THINKING);
    loam_dataset *d = load_for(&m, path, NULL);
    assert_int_equal(d->n_examples, 3);
    assert_string_equal(text_of(&m, d, 0, true), "Hello<|im_end|>|");
    assert_string_equal(text_of(&m, d, 1, true), "<think>hmm</think>First<|im_end|>|");
    assert_string_equal(text_of(&m, d, 2, true), "<think>so</think>Second<|im_end|>|");
    assert_string_equal(text_of(&m, d, 2, false),
                        "<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\nFirst<|im_end|>\n"
                        "<|im_start|>user\nTwo<|im_end|>\n<|im_start|>assistant\n"
                        "<think>so</think>Second<|im_end|>\n");
    assert_int_equal(d->examples[1].line, 2);
    assert_int_equal(d->examples[2].line, 2);
    loam_dataset_free(d);
    loam_data_options last = {.train_on = LOAM_TRAIN_ON_LAST};
    d = load_for(&m, path, &last);
    assert_int_equal(d->n_examples, 2);
    assert_string_equal(text_of(&m, d, 1, true), "<think>so</think>Second<|im_end|>|");
    loam_dataset_free(d);
    variant_close(&m);
}

/* A generation prompt that is not how turns begin, or none where the header is written: refused by
 * line, or skipped and counted, never guessed. */
static void test_turns_that_cannot_be_told(void **state)
{
    (void)state;
    static const char thinks[] =
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' "
        "}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% "
        "endif %}";
    static const char ignores[] = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + "
                                  "m.content + '<|im_end|>\\n' }}{% endfor %}";
    loam_data_options skip = {.skip_bad = true}, all = {.train_on = LOAM_TRAIN_ON_ALL};
    loam_base m = variant_open(thinks, false);
    const char *path = put("a.jsonl", "{\"text\": \"a text\"}\n" CHAT);
    refused_for(&m, path, NULL, LOAM_E_DATA, "a.jsonl:2: ", "generation prompt");
    loam_dataset *d = load_for(&m, path, &skip);
    assert_int_equal(d->n_examples, 1);
    assert_int_equal(d->summary.n_bad, 1);
    loam_dataset_free(d);
    d = load_for(&m, path, &all); /* needs no turns */
    assert_int_equal(d->n_examples, 2);
    loam_dataset_free(d);
    variant_close(&m);
    m = variant_open(ignores, false);
    refused_for(&m, path, NULL, LOAM_E_DATA, "a.jsonl:2: ", "add_generation_prompt");
    variant_close(&m);
}

static void test_template_that_raises(void **state)
{
    (void)state;
    loam_base m = variant_open("{% for m in messages %}{% if m.role == 'system' %}{{ "
                               "raise_exception('System role not supported') }}{% endif %}{{ "
                               "m.content }}{{ eos_token }}{% endfor %}",
                               false);
    refused_for(&m,
                put("a.jsonl", CHAT "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, "
                                    "{\"role\": \"user\", \"content\": \"u\"}, {\"role\": "
                                    "\"assistant\", \"content\": \"a\"}]}\n"),
                NULL, LOAM_E_DATA, "a.jsonl:2: ", "System role not supported");
    variant_close(&m);
}

/* ---- tools -------------------------------------------------------------------------------- */

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_time\", \"parameters\": " \
    "{}}}]"
#define CALL(arguments)                                                                            \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Time?\"}, {\"role\": \"assistant\", "     \
    "\"content\": null, \"tool_calls\": [" arguments "]}, {\"role\": \"tool\", \"content\": "      \
    "\"noon\"}, {\"role\": \"assistant\", \"content\": \"Noon.\"}], " TOOLS "}\n"

/* Knows tools, and wants the arguments as an object (|tojson of a string would be quoted). */
#define OBJECTS                                                                                    \
    "{% if tools %}{{ '<|im_start|>system\\n' + (tools|tojson) + '<|im_end|>\\n' }}{% endif %}{% " \
    "for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% for c in "            \
    "m.tool_calls %}{{ c.function.name + ' ' + (c.function.arguments|tojson) }}{% endfor %}{{ "    \
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "   \
    "}}{% endif %}"
/* Joins them to text, which an object cannot be. */
#define TEXTS                                                                                      \
    "{{ tools|tojson }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content "     \
    "}}{% "                                                                                        \
    "for c in m.tool_calls %}{{ c.function.name + ' ' + c.function.arguments }}{% endfor %}{{ "    \
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "   \
    "}}{% endif %}"

static void check_calls(const char *chat_template)
{
    static const char *const same[] = {
        CALL("{\"type\": \"function\", \"function\": {\"name\": \"get_time\", \"arguments\": "
             "{\"zone\": \"CET\"}}}"),
        CALL("{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"get_time\", "
             "\"arguments\": \"{\\\"zone\\\": \\\"CET\\\"}\"}}"),
        CALL("{\"name\": \"get_time\", \"arguments\": {\"zone\": \"CET\"}}")};
    loam_base m = variant_open(chat_template, false);
    for (int i = 0; i < LOAM_COUNT(same); i++) {
        loam_dataset *d = load_for(&m, put("a.jsonl", same[i]), NULL);
        assert_int_equal(d->n_examples, 1);
        assert_string_equal(text_of(&m, d, 0, true), "get_time {\"zone\": \"CET\"}<|im_end|>|"
                                                     "Noon.<|im_end|>|");
        assert_non_null(strstr(text_of(&m, d, 0, false), "{\"type\": \"function\""));
        loam_dataset_free(d);
    }
    variant_close(&m);
}

static void test_tool_calls(void **state)
{
    (void)state;
    check_calls(OBJECTS);
    check_calls(TEXTS);
}

static void test_tools_as_text(void **state)
{
    (void)state;
    loam_base m = variant_open(OBJECTS, false);
    loam_dataset *d = load_for(
        &m,
        put("a.jsonl", "{\"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"}, {\"from\": "
                       "\"gpt\", \"value\": \"Hello\"}], \"tools\": \"[{\\\"name\\\": "
                       "\\\"get_time\\\"}]\"}\n{\"messages\": [{\"role\": \"user\", \"content\": "
                       "\"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello\"}], \"tools\": "
                       "[]}\n"),
        NULL);
    assert_non_null(strstr(text_of(&m, d, 0, false), "system\n[{\"name\": \"get_time\"}]"));
    assert_null(strstr(text_of(&m, d, 1, false), "system"));
    loam_dataset_free(d);
    variant_close(&m);
}

static void refused_call(const loam_base *m, const char *call, const char *first,
                         const char *second)
{
    loam_string text = {0};
    loam_string_printf(&text,
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"Time?\"}, {\"role\": "
                       "\"assistant\", \"content\": \"\", \"tool_calls\": %s}]}\n",
                       call);
    refused_for(m, put("a.jsonl", text.data), NULL, LOAM_E_DATA, first, second);
    loam_string_free(&text);
}

static void test_bad_tools(void **state)
{
    (void)state;
    loam_base m = variant_open(OBJECTS, false);
    refused_call(&m, "3", "'tool_calls' is a number", "an array");
    refused_call(&m, "[3]", "messages[1].tool_calls[0] is a number", "an object");
    refused_call(&m, "[{}]", "messages[1].tool_calls[0].'name' is missing", "string");
    refused_call(&m, "[{\"function\": \"f\"}]", "'function' is a string", "an object");
    refused_call(&m, "[{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \"}]",
                 "messages[1].tool_calls[0].arguments is a string that is not JSON", "a.jsonl:1:");
    refused_call(&m, "[{\"name\": \"f\", \"arguments\": \"[1]\"}]", "arguments is an array",
                 "expected an object or its JSON text");
    refused_call(&m, "[]", "messages[1] is an empty turn", "assistant");
    refused_for(&m,
                put("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
                               "\"tools\": {\"a\": 1}}"),
                NULL, LOAM_E_DATA, "'tools' is an object", "an array");
    refused_for(&m,
                put("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
                               "\"tools\": [1]}"),
                NULL, LOAM_E_DATA, "tools[0] is a number", "an object");
    refused_for(&m,
                put("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", "
                               "\"tool_calls\": [{\"name\": \"f\"}]}]}"),
                NULL, LOAM_E_DATA, "messages[0] has 'tool_calls'", "assistant");
    variant_close(&m);
    /* The test model's own template knows no tools: what it would leave out is refused. */
    refused_call(test_model, "[{\"name\": \"get_time\"}]", "leaves the tool calls of messages[1]",
                 "get_time");
    refused("a.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
            "\"content\": \"Hello\"}], " TOOLS "}\n",
            "leaves 'tools' out", "get_time");
}

/* A template without any mark after a turn: the EOS is put where the turn ends. */
static void test_turn_without_end(void **state)
{
    (void)state;
    loam_base m = variant_open("{% for m in messages %}{{ (m.role|upper) + ': ' + m.content + "
                               "'\\n\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
                               "'ASSISTANT:' }}{% endif %}",
                               false);
    loam_dataset *d = load_for(&m, put("a.jsonl", CHAT), NULL);
    assert_string_equal(text_of(&m, d, 0, true), " Hello<|im_end|>|");
    assert_string_equal(text_of(&m, d, 0, false), "USER: Hi\n\nASSISTANT: Hello<|im_end|>");
    loam_dataset_free(d);
    variant_close(&m);
}

/* ---- real templates ----------------------------------------------------------------------- */

/* Every template of real models gives the assistant's words, or a refusal with the line. */
static void test_real_templates(void **state)
{
    (void)state;
    static const char *const names[] = {"Qwen-Qwen2.5-7B-Instruct",
                                        "Qwen-Qwen3-0.6B",
                                        "microsoft-Phi-3.5-mini-instruct",
                                        "mistralai-Mistral-Nemo-Instruct-2407",
                                        "ibm-granite-granite-3.3-2B-Instruct",
                                        "ibm-granite-granite-4.0",
                                        "HuggingFaceTB-SmolLM3-3B",
                                        "Bielik-11B-v3.0-Instruct",
                                        "GLM-4.6",
                                        "Qwen3-Coder"};
    char path[256];
    snprintf(path, sizeof path, "%s",
             put("a.jsonl",
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"One\"}, {\"role\": "
                 "\"assistant\", \"content\": \"First answer\"}, {\"role\": \"user\", "
                 "\"content\": \"Two\"}, {\"role\": \"assistant\", \"content\": \"Second "
                 "answer\"}]}\n"));
    for (int i = 0; i < LOAM_COUNT(names); i++) {
        char file[128], *source;
        size_t n;
        snprintf(file, sizeof file, "templates/%s.jinja", names[i]);
        assert_int_equal(loam_read_file(asset(file), 1 << 20, &source, &n, NULL), LOAM_OK);
        loam_base m = variant_open(source, false);
        loam_dataset *d = load_for(&m, path, NULL);
        loam_string trained = {0};
        for (int64_t k = 0; k < d->n_examples; k++)
            loam_string_puts(&trained, text_of(&m, d, k, true));
        const char *first = strstr(trained.data, "First answer");
        const char *second = strstr(trained.data, "Second answer");
        if (!first || !second || first > second || strstr(trained.data, "One") ||
            strstr(trained.data, "Two") || strstr(trained.data, "assistant"))
            fail_msg("%s: trained is \"%s\"", names[i], trained.data);
        loam_string_free(&trained);
        loam_dataset_free(d);
        variant_close(&m);
        loam_free(source);
    }
}

/* Dates do not make another set of the same file. */
static void test_dates_stand_still(void **state)
{
    (void)state;
    loam_base m = variant_open("{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content "
                               "}}{{ eos_token }}{% endfor %}",
                               false);
    loam_dataset *d = load_for(&m, put("a.jsonl", CHAT), NULL);
    assert_non_null(strstr(text_of(&m, d, 0, false), "26 Jul 2024Hi"));
    loam_dataset_free(d);
    variant_close(&m);
}

/* Neither a template nor the tokens of ChatML: a conversation is refused with a sentence. */
static void test_no_template_no_chatml(void **state)
{
    (void)state;
    loam_error e = {0};
    const char *path = asset("models/stories260K-F32.gguf");
    loam_base m = {.hparams = test_model->hparams};
    assert_int_equal(loam_gguf_open(path, &m.gguf, &e), LOAM_OK);
    assert_int_equal(loam_tokenizer_create(m.gguf, &m.tokenizer, &e), LOAM_OK);
    refused_for(&m, put("a.jsonl", CHAT), NULL, LOAM_E_UNSUPPORTED,
                "a.jsonl:1:", "needs a chat template, and the model has none");
    loam_dataset *d = load_for(&m,
                               put("b.jsonl", "{\"prompt\": \"Once upon\", \"completion\": "
                                              "\" a time\"}\n{\"text\": \"There was\"}\n"),
                               NULL);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(count_token(d, i, loam_tokenizer_bos(m.tokenizer)), 1);
        assert_int_equal(count_token(d, i, loam_tokenizer_eos(m.tokenizer)), 1);
    }
    assert_string_equal(text_of(&m, d, 0, true), " a time</s>|");
    loam_dataset_free(d);
    variant_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_bos),
        cmocka_unit_test(test_windows_with_bos),
        cmocka_unit_test(test_rewritten_turns),
        cmocka_unit_test(test_turns_that_cannot_be_told),
        cmocka_unit_test(test_template_that_raises),
        cmocka_unit_test(test_tool_calls),
        cmocka_unit_test(test_tools_as_text),
        cmocka_unit_test(test_bad_tools),
        cmocka_unit_test(test_turn_without_end),
        cmocka_unit_test(test_real_templates),
        cmocka_unit_test(test_dates_stand_still),
        cmocka_unit_test(test_no_template_no_chatml),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
