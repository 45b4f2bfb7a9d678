/* Formats, masks, and sets as a whole. */
#include "dataset_support.h"

#define CHAT1                                                                                      \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}, {\"role\": \"assistant\", "  \
    "\"content\": \"Hello you\"}]}\n"
#define CHAT2                                                                                      \
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind\"}, {\"role\": \"user\", "      \
    "\"content\": \"One\"}, {\"role\": \"assistant\", \"content\": \"First answer\"}, {\"role\": " \
    "\"user\", \"content\": \"Two\"}, {\"role\": \"assistant\", \"content\": \"Second "            \
    "answer\"}]}\n"

static void check_trained(const char *text, loam_train_on train_on, const char *expected)
{
    loam_data_options o = {.train_on = train_on};
    loam_dataset *d = load_text("masks.jsonl", text, &o);
    check_set(d, 2048);
    assert_string_equal(trained_text(d, 0), expected);
    loam_dataset_free(d);
}

/* Exactly the assistant's words and the end-of-turn token; not the role header. */
static void test_assistant_turns(void **state)
{
    (void)state;
    check_trained(CHAT1, LOAM_TRAIN_ON_ASSISTANT, "Hello you<|im_end|>|");
    check_trained(CHAT2, LOAM_TRAIN_ON_ASSISTANT,
                  "First answer<|im_end|>|Second answer<|im_end|>|");
    check_trained(CHAT2, LOAM_TRAIN_ON_LAST, "Second answer<|im_end|>|");
    check_trained(CHAT2, LOAM_TRAIN_ON_COMPLETION,
                  "First answer<|im_end|>\n<|im_start|>user\nTwo<|im_end|>\n<|im_start|>assistant\n"
                  "Second answer<|im_end|>|");
    check_trained(CHAT2, LOAM_TRAIN_ON_ALL,
                  "system\nBe kind<|im_end|>\n<|im_start|>user\nOne<|im_end|>\n<|im_start|>"
                  "assistant\nFirst answer<|im_end|>\n<|im_start|>user\nTwo<|im_end|>\n<|im_start|>"
                  "assistant\nSecond answer<|im_end|>\n|");
}

/* The end-of-turn token is also this model's EOS: the user's is not trained, the answer's is. */
static void test_mask_goes_by_position(void **state)
{
    (void)state;
    loam_dataset *d = load_text("a.jsonl", CHAT2, NULL);
    int32_t eos = loam_tokenizer_eos(test_model->tokenizer);
    int n_trained = 0, n_not = 0;
    for (int64_t i = 0; i < d->n_tokens; i++) {
        n_trained += d->tokens[i] == eos && d->trained[i];
        n_not += d->tokens[i] == eos && !d->trained[i];
    }
    assert_int_equal(n_trained, 2);
    assert_int_equal(n_not, 3);
    loam_dataset_free(d);
}

/* Words that look like markers are words: spans come from the template, not from a search. */
static void test_marker_words_in_a_turn(void **state)
{
    (void)state;
    check_trained("{\"messages\": [{\"role\": \"user\", \"content\": \"Say assistant\\nassistant "
                  "Hello\"}, {\"role\": \"assistant\", \"content\": \"assistant\\nuser\"}]}\n",
                  LOAM_TRAIN_ON_ASSISTANT, "assistant\nuser<|im_end|>|");
}

/* A token that begins before the span and reaches into it is not trained; one that begins inside
 * and reaches out is. */
static void test_straddling_tokens(void **state)
{
    (void)state;
    loam_base m = variant_open("{% for x in messages %}{% if x.role == 'user' %}{{ x.content }}"
                               "{% else %}{{ x.content }}{% endif %}{% endfor %}",
                               false);
    const char *path = put("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"the c\"}"
                                      ", {\"role\": \"assistant\", \"content\": \"hapter is "
                                      "long\"}]}\n");
    loam_dataset *d = load_for(&m, path, NULL);
    loam_tokens t = {0};
    const char text[] = "the chapter is long";
    assert_int_equal(loam_tokenize(m.tokenizer, text, sizeof text - 1, 0, &t, NULL), LOAM_OK);
    int64_t n_inside = 0, n_straddling = 0;
    for (int64_t i = 0; i < t.n; i++) {
        n_inside += t.offsets_bytes[i] >= 5;
        n_straddling += t.offsets_bytes[i] < 5 && t.offsets_bytes[i + 1] > 5;
    }
    assert_int_equal(n_straddling, 1);
    /* And the EOS, since this template ends no turn. */
    assert_int_equal(d->examples[0].n_trained, n_inside + 1);
    assert_int_equal(d->examples[0].n_tokens, t.n + 1);
    loam_tokens_free(&t);
    loam_dataset_free(d);
    variant_close(&m);
}

static void test_every_format(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{\"prompt\": \"Hi there\", \"completion\": \"Hello you\"}\n",
        "{\"instruction\": \"Hi there\", \"input\": \"\", \"output\": \"Hello you\"}\n",
        "{\"instruction\": \"Hi there\", \"output\": \"Hello you\", \"id\": 7}\n",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"Hi there\"}, {\"from\": \"gpt\", "
        "\"value\": \"Hello you\"}]}\n",
        "{\"conversations\": [{\"from\": \"user\", \"value\": \"Hi there\"}, {\"from\": "
        "\"assistant\", \"value\": \"Hello you\"}]}\n",
        "{\"conversations\": [{\"role\": \"user\", \"content\": \"Hi there\"}, {\"role\": "
        "\"assistant\", \"content\": \"Hello you\"}]}\n",
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi "
        "\"}, {\"type\": \"text\", \"text\": \"there\"}]}, {\"role\": \"assistant\", \"content\": "
        "\"Hello you\"}]}\n"};
    loam_dataset *expected = load_text("a.jsonl", CHAT1, NULL);
    for (int i = 0; i < LOAM_COUNT(same); i++) {
        loam_dataset *d = load_text("b.jsonl", same[i], NULL);
        check_set(d, 2048);
        assert_int_equal(d->hash, expected->hash);
        loam_dataset_free(d);
    }
    loam_dataset_free(expected);
    loam_dataset *d =
        load_text("c.jsonl",
                  "{\"instruction\": \"Do\", \"input\": \"this\", \"output\": \"Done\"}\n"
                  "{\"conversations\": [{\"from\": \"human\", \"value\": \"Q\"}, {\"from\": "
                  "\"gpt\", \"value\": \"A\"}], \"system\": \"Sys\"}\n",
                  NULL);
    assert_string_equal(whole_text(d, 0), "<|im_start|>user\nDo\nthis<|im_end|>\n<|im_start|>"
                                          "assistant\nDone<|im_end|>\n");
    assert_string_equal(whole_text(d, 1),
                        "<|im_start|>system\nSys<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
                        "<|im_start|>assistant\nA<|im_end|>\n");
    loam_dataset_free(d);
}

/* A model without a chat template gets prompt and completion joined, and ChatML for messages since
 * it has the tokens of it. */
static void test_without_a_template(void **state)
{
    (void)state;
    loam_base m = variant_open(NULL, false);
    loam_dataset *d = load_for(&m,
                               put("a.jsonl", "{\"prompt\": \"Q: one?\\nA:\", \"completion\": \" "
                                              "two\"}\n"
                                              "{\"instruction\": \"Do\", \"input\": \"this\", "
                                              "\"output\": \"Done\"}\n" CHAT1),
                               NULL);
    assert_string_equal(text_of(&m, d, 0, false), "Q: one?\nA: two<|im_end|>");
    assert_string_equal(text_of(&m, d, 0, true), " two<|im_end|>|");
    assert_string_equal(text_of(&m, d, 1, false), "Do\nthis\nDone<|im_end|>");
    assert_string_equal(text_of(&m, d, 1, true), "Done<|im_end|>|");
    assert_string_equal(text_of(&m, d, 2, true), "Hello you<|im_end|>|");
    loam_dataset_free(d);
    loam_data_options all = {.train_on = LOAM_TRAIN_ON_ALL};
    d = load_for(&m, in_directory("a.jsonl"), &all);
    assert_int_equal(d->examples[0].n_trained, d->examples[0].n_tokens - 1);
    loam_dataset_free(d);
    refused_for(&m,
                put("b.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                               "{\"role\": \"assistant\", \"content\": \"b\", "
                               "\"reasoning_content\": \"c\"}]}\n"),
                NULL, LOAM_E_DATA, "b.jsonl:1:", "ChatML");
    variant_close(&m);
}

/* {"text"}: whole, with an EOS that is trained, once. */
static void test_text(void **state)
{
    (void)state;
    loam_dataset *d = load_text("a.jsonl",
                                "{\"text\": \"One two three\"}\n"
                                "{\"text\": \"One two three<|im_end|>\"}\n",
                                NULL);
    assert_string_equal(whole_text(d, 0), "One two three<|im_end|>");
    assert_string_equal(whole_text(d, 1), "One two three<|im_end|>");
    assert_int_equal(d->examples[0].n_trained, d->examples[0].n_tokens - 1);
    assert_true(d->trained[d->examples[0].first + d->examples[0].n_tokens - 1]);
    loam_dataset_free(d);
}

/* Windows cover a plain text: joined again, without what overlaps, they are its tokens. */
static void test_plain_text(void **state)
{
    (void)state;
    loam_string text = {0};
    for (int i = 0; i < 60; i++)
        loam_string_printf(&text, "Line %d of a text, which goes on.\n\n", i);
    loam_data_options o = {.max_seq_length = 32};
    loam_dataset *d = load_text("a.txt", text.data, &o);
    loam_tokens t = {0};
    check_set(d, 32);
    assert_int_equal(
        loam_tokenize(test_model->tokenizer, text.data, text.length_bytes, 0, &t, NULL), LOAM_OK);
    int64_t at = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        const loam_example *x = &d->examples[i];
        at -= i > 0;
        int64_t line = 1;
        for (size_t c = 0; i > 0 && c < t.offsets_bytes[at + 1]; c++)
            line += text.data[c] == '\n';
        assert_int_equal(x->line, line);
        for (int64_t k = 0; k < x->n_tokens; k++, at++)
            assert_int_equal(d->tokens[x->first + k],
                             at < t.n ? t.ids[at] : loam_tokenizer_eos(test_model->tokenizer));
        assert_int_equal(x->n_trained, x->n_tokens - 1);
    }
    assert_int_equal(at, t.n + 1);
    assert_int_equal(d->n_trained, t.n); /* all but the first, and the EOS */
    loam_tokens_free(&t);
    loam_string_free(&text);
    loam_dataset_free(d);
}

static void test_plain_or_json(void **state)
{
    (void)state;
    /* By content where the name does not say. */
    loam_dataset *d = load_text("a.data", " \n" CHAT1, NULL);
    assert_string_equal(trained_text(d, 0), "Hello you<|im_end|>|");
    loam_dataset_free(d);
    d = load_text("b.data", "{ a brace begins this text }", NULL);
    assert_string_equal(whole_text(d, 0), "{ a brace begins this text }<|im_end|>");
    loam_dataset_free(d);
    d = load_text("c.data", "[ 1 ] A citation", NULL);
    assert_string_equal(whole_text(d, 0), "[ 1 ] A citation<|im_end|>");
    loam_dataset_free(d);
    loam_data_options plain = {.format = "plain"};
    d = load_text("d.jsonl", "{\"text\": \"a\"}", &plain);
    assert_string_equal(whole_text(d, 0), "{\"text\": \"a\"}<|im_end|>");
    loam_dataset_free(d);
    /* Line ends of Windows are line ends. */
    d = load_text("e.txt", "\xEF\xBB\xBFone\r\ntwo\r\n", NULL);
    assert_string_equal(whole_text(d, 0), "one\ntwo\n<|im_end|>");
    loam_dataset_free(d);
}

static void test_forced_format(void **state)
{
    (void)state;
    loam_data_options o = {.format = "text"};
    const char both[] = "{\"text\": \"as text\", \"prompt\": \"p\", \"completion\": \"c\"}\n";
    loam_dataset *d = load_text("a.jsonl", both, &o);
    assert_string_equal(whole_text(d, 0), "as text<|im_end|>");
    loam_dataset_free(d);
    o.format = "completion";
    d = load_text("a.jsonl", both, &o);
    assert_string_equal(trained_text(d, 0), "c<|im_end|>|");
    loam_dataset_free(d);
    o.format = "messages";
    refused_for(test_model, in_directory("a.jsonl"), &o, LOAM_E_DATA, "'messages' is missing",
                "text, prompt, completion");
    o.format = "chatml";
    refused_for(test_model, in_directory("a.jsonl"), &o, LOAM_E_USAGE, "'chatml' is unknown",
                "conversations");
}

static void test_blank_lines_bom_crlf(void **state)
{
    (void)state;
    loam_dataset *plain = load_text("a.jsonl", CHAT1 CHAT2, NULL);
    static const char bytes[] = "\xEF\xBB\xBF\r\n\n" CHAT1 "  \t\r\n" CHAT2 "\n\n";
    loam_dataset *d = load_text("b.jsonl", bytes, NULL);
    assert_int_equal(d->hash, plain->hash);
    assert_int_equal(d->examples[0].line, 3);
    assert_int_equal(d->examples[1].line, 5);
    loam_dataset_free(d);
    d = load_text("c.jsonl", "{\"text\": \"a b c\"}\r\n{\"text\": \"d e f\"}", NULL);
    assert_int_equal(d->n_examples, 2);
    loam_dataset_free(d);
    loam_dataset_free(plain);
}

static void test_json_array(void **state)
{
    (void)state;
    loam_dataset *lines = load_text("a.jsonl", CHAT1 CHAT2, NULL);
    static const char array[] = "\xEF\xBB\xBF\n[\n" CHAT1 "  ,\r\n " CHAT2 "]\n\n";
    loam_dataset *d = load_text("b.json", array, NULL);
    assert_int_equal(d->hash, lines->hash);
    assert_int_equal(d->examples[0].line, 3);
    assert_int_equal(d->examples[1].line, 5);
    loam_dataset_free(d);
    loam_dataset_free(lines);
}

static void test_show(void **state)
{
    (void)state;
    loam_error e = {0};
    loam_string out = {0};
    loam_dataset *d = load_text("a.jsonl", "\n" CHAT1, NULL);
    assert_int_equal(loam_dataset_show(d, test_model, 0, &out, &e), LOAM_OK);
    assert_non_null(strstr(out.data, "example 0 ("));
    assert_non_null(strstr(out.data, "a.jsonl:2): "));
    assert_non_null(strstr(out.data, "<|im_start|>assistant\n⟦Hello you<|im_end|>⟧\n"));
    assert_int_equal(loam_dataset_show(d, test_model, 1, &out, &e), LOAM_E_USAGE);
    loam_string_free(&out);
    loam_dataset_free(d);
}

/* The hash tells tokens, masks and boundaries apart, and the same set again the same. */
static void test_hash(void **state)
{
    (void)state;
    loam_data_options last = {.train_on = LOAM_TRAIN_ON_LAST};
    loam_data_options split = {.max_seq_length = 20, .overlong = LOAM_OVERLONG_SPLIT};
    const char *path = put("a.jsonl", CHAT1 CHAT2);
    loam_dataset *d[] = {load(path, NULL), load(path, NULL), load(path, &last), load(path, &split),
                         load_text("b.jsonl", CHAT2 CHAT1, NULL)};
    assert_int_equal(d[0]->hash, d[1]->hash);
    for (int i = 0; i < LOAM_COUNT(d); i++) {
        for (int j = 2; j < i; j++)
            assert_true(d[i]->hash != d[j]->hash);
        if (i > 1)
            assert_true(d[i]->hash != d[0]->hash);
    }
    for (int i = 0; i < LOAM_COUNT(d); i++)
        loam_dataset_free(d[i]);
}

static loam_dataset *numbered(int n)
{
    loam_string text = {0};
    for (int i = 0; i < n; i++)
        loam_string_printf(&text, "{\"text\": \"Number %d\"}\n", i);
    loam_dataset *d = load_text("numbered.jsonl", text.data, NULL);
    loam_string_free(&text);
    return d;
}

static void test_split(void **state)
{
    (void)state;
    loam_error e = {0};
    for (uint64_t seed = 0; seed < 3; seed++) {
        loam_dataset *d = numbered(40), *v = NULL, *again = numbered(40), *v_again = NULL;
        assert_int_equal(loam_dataset_split(d, 0.2, seed, &v, &e), LOAM_OK);
        assert_int_equal(loam_dataset_split(again, 0.2, seed, &v_again, &e), LOAM_OK);
        assert_int_equal(v->n_examples, 8);
        assert_int_equal(d->n_examples, 32);
        check_set(d, 2048);
        check_set(v, 2048);
        assert_int_equal(v->hash, v_again->hash);
        bool seen[41] = {false};
        loam_dataset *both[] = {d, v};
        for (int k = 0; k < 2; k++) {
            int64_t line = 0;
            for (int64_t i = 0; i < both[k]->n_examples; i++) {
                char expected[64];
                int64_t here = both[k]->examples[i].line;
                assert_true(here > line); /* in order */
                line = here;
                assert_false(seen[here]);
                seen[here] = true;
                snprintf(expected, sizeof expected, "Number %d<|im_end|>", (int)here - 1);
                assert_string_equal(whole_text(both[k], i), expected);
            }
        }
        loam_dataset_free(d);
        loam_dataset_free(v);
        loam_dataset_free(again);
        loam_dataset_free(v_again);
    }
}

static void test_split_bounds(void **state)
{
    (void)state;
    loam_error e = {0};
    loam_dataset *d = numbered(2), *v = NULL;
    assert_int_equal(loam_dataset_split(d, 0.01, 1, &v, &e), LOAM_OK);
    assert_int_equal(v->n_examples, 1);
    assert_int_equal(d->n_examples, 1);
    loam_dataset_free(v);
    assert_int_equal(loam_dataset_split(d, 0.5, 1, &v, &e), LOAM_E_DATA);
    assert_null(v);
    loam_dataset_free(d);
    d = numbered(3);
    assert_int_equal(loam_dataset_split(d, 0.99, 1, &v, &e), LOAM_OK);
    assert_int_equal(d->n_examples, 1);
    loam_dataset_free(v);
    static const double bad[] = {0, 1, -0.5, 2};
    for (int i = 0; i < LOAM_COUNT(bad); i++)
        assert_int_equal(loam_dataset_split(d, bad[i], 1, &v, &(loam_error){0}), LOAM_E_USAGE);
    loam_dataset_free(d);
}

/* ---- real files --------------------------------------------------------------------------- */

/* The assistant's words of a file's line, as the trained text should be. */
static void check_line(const loam_dataset *d, int64_t i, const json_t *record)
{
    loam_string expected = {0};
    const json_t *messages = json_object_get(record, "messages");
    bool blank_edge = false;
    for (size_t k = 0; k < json_array_size(messages); k++) {
        const json_t *message = json_array_get(messages, k);
        const char *content = json_string_value(json_object_get(message, "content"));
        if (strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0) {
            loam_string_printf(&expected, "%s<|im_end|>|", content);
            blank_edge = blank_edge || strchr(" \n\t", content[0]);
        }
    }
    /* A blank at the start may be one token with the newline of the header. */
    if (!blank_edge)
        assert_string_equal(trained_text(d, i), expected.data);
    loam_string_free(&expected);
}

static void test_real_chats(void **state)
{
    (void)state;
    const char *path = asset("data/chat-train.jsonl");
    loam_dataset *d = load(path, NULL);
    check_set(d, 2048);
    char line[1 << 16];
    FILE *f = fopen(path, "rb");
    int64_t i = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *record = json_loads(line, 0, NULL);
        assert_non_null(record);
        assert_int_equal(d->examples[i].line, i + 1);
        check_line(d, i++, record);
        json_decref(record);
    }
    fclose(f);
    assert_int_equal(d->n_examples, i);
    assert_int_equal(i, 627);
    loam_dataset_free(d);
}

static void test_real_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t n_examples;
    } files[] = {{"data/chat-valid.jsonl", 125},
                 {"data/instruction-data.json", 1100},
                 {"data/sharegpt-dummy_conversation.json", 500},
                 {"data/wikisql-train.jsonl", 1000},
                 {"data/wikisql-valid.jsonl", 100}};
    for (int i = 0; i < LOAM_COUNT(files); i++) {
        loam_dataset *d = load(asset(files[i].name), NULL);
        check_set(d, 2048);
        assert_int_equal(d->n_examples, files[i].n_examples);
        assert_int_equal(d->summary.n_bad + d->summary.n_overlong + d->summary.n_untrained, 0);
        loam_dataset_free(d);
    }
    loam_data_options o = {.max_seq_length = 256};
    loam_dataset *d = load(asset("data/tinyshakespeare.txt"), &o);
    check_set(d, 256);
    for (int64_t i = 0; i + 1 < d->n_examples; i++)
        assert_int_equal(d->examples[i].n_tokens, 256);
    loam_dataset_free(d);
    refused_for(test_model, asset("data/gsm8k-test.jsonl"), NULL, LOAM_E_DATA,
                "gsm8k-test.jsonl:1: no known format", "question, answer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assistant_turns),
        cmocka_unit_test(test_mask_goes_by_position),
        cmocka_unit_test(test_marker_words_in_a_turn),
        cmocka_unit_test(test_straddling_tokens),
        cmocka_unit_test(test_every_format),
        cmocka_unit_test(test_without_a_template),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_plain_text),
        cmocka_unit_test(test_plain_or_json),
        cmocka_unit_test(test_forced_format),
        cmocka_unit_test(test_blank_lines_bom_crlf),
        cmocka_unit_test(test_json_array),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_bounds),
        cmocka_unit_test(test_real_chats),
        cmocka_unit_test(test_real_files),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
