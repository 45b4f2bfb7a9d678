/* What cannot be used: where, what was found, what was expected; lengths; sources of data. */
#include "dataset_support.h"

#include <fcntl.h>
#include <sys/stat.h>

#define GOOD "{\"text\": \"a good line\"}\n"

static void test_broken_json(void **state)
{
    (void)state;
    refused("a.jsonl", GOOD "\n{\"text\": \"no end\n", "a.jsonl:3:", "broken JSON");
    refused("a.jsonl", GOOD "{\"text\": nothing}\n", "a.jsonl:2:", "one JSON object");
    refused("a.jsonl", "{\"text\": \"a\"} trailing\n",
            "a.jsonl:1:22: broken JSON: end of file expected near 'trailing'", "one JSON object");
    refused("a.jsonl", "{\"text\": \"a\"}{\"text\": \"b\"}\n", "a.jsonl:1:", "broken JSON");
    refused("a.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n", "a.jsonl:1:", "duplicate");
    refused("a.jsonl", "{\"text\": \"a\\u0000b\"}\n", "a.jsonl:1:", "\\u0000");
    refused("a.jsonl", "{\"text\": \"\\ud800\"}\n", "a.jsonl:1:", "broken JSON");
    /* One object over several lines. */
    refused("a.jsonl", "{\n  \"text\": \"a\"\n}\n", "a.jsonl:1:", "each line holds one whole");
    refused("a.jsonl", "\"just a string\"\n", "a.jsonl:1: found a string", "a JSON object");
    refused("a.jsonl", GOOD "[1, 2]\n", "a.jsonl:2: found an array", "a JSON object");
    refused("a.jsonl", "this is no JSON\n", "a.jsonl:1:", "broken JSON");
}

static void test_broken_arrays(void **state)
{
    (void)state;
    refused("a.json", "[{\"text\": \"a b\"},\n {\"text\": }]", "a.json:2:", "broken JSON");
    refused("a.json", "[{\"text\": \"a b\"}\n {\"text\": \"b\"}]", "a.json:2:2: found '{'", "','");
    refused("a.json", "[{\"text\": \"a b\"},\n]", "a.json:2:1: found ']'", "after the ','");
    refused("a.json", "[{\"text\": \"a b\"}", "a.json:1:17: found the end of the file", "']'");
    refused("a.json", "[{\"text\": \"a b\"}] x", "a.json:1:19: found 'x'", "nothing after");
    refused("a.json", "[{\"text\": \"a b\"},\n  17]", "a.json:2: found a number", "a JSON object");
    refused("a.json", "[", "a.json:1:2: found the end of the file", "an element");
    refused("a.json", "[]", "leaves nothing to train on", "of 0 records");
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *byte;
    } bad[] = {{"\xC0\x80", "0xc0"},         {"\x92", "0x92"},
               {"\xE0\x80\x80", "0xe0"},     {"\xED\xA0\x80", "0xed"},
               {"\xF5\x80\x80\x80", "0xf5"}, {"\xE2\x82", "0xe2"},
               {"\xF4\x90\x80\x80", "0xf4"}};
    for (int i = 0; i < LOAM_COUNT(bad); i++) {
        char text[128], offset[64];
        snprintf(text, sizeof text, GOOD "{\"text\": \"bad %s\"}\n", bad[i].bytes);
        snprintf(offset, sizeof offset, "the byte %s at offset %zu", bad[i].byte,
                 sizeof GOOD - 1 + 14);
        refused("a.jsonl", text, "a.jsonl:2:15", offset);
        snprintf(text, sizeof text, "[" GOOD ",{\"text\": \"bad %s\"}]", bad[i].bytes);
        refused("a.json", text, "a.json:2:16", bad[i].byte);
        snprintf(text, sizeof text, "A text\nwith %s in it", bad[i].bytes);
        refused("a.txt", text, "a.txt:2:6", bad[i].byte);
    }
    refused_for(test_model, put_bytes("a.txt", "a text\0b", 8), NULL, LOAM_E_DATA, "a.txt:1:7",
                "is zero");
    refused_for(test_model, put_bytes("a.jsonl", "{\"text\": \"\0\"}", 14), NULL, LOAM_E_DATA,
                "a.jsonl:1:11", "is zero");
    refused_for(test_model, put_bytes("a.txt", "\xFF\xFEh\0i\0", 6), NULL, LOAM_E_DATA,
                "a.txt:", "UTF-16");
    /* What is at the edge of it is text. */
    loam_dataset *d =
        load_text("b.jsonl", "{\"text\": \"\xF4\x8F\xBF\xBF \xED\x9F\xBF\xC2\x80\"}", NULL);
    loam_dataset_free(d);
}

static void test_keys_and_types(void **state)
{
    (void)state;
    refused("a.jsonl", GOOD "{\"question\": \"q\", \"answer\": \"a\"}\n",
            "a.jsonl:2: no known format", "keys found: question, answer");
    refused("a.jsonl", "{}\n", "a.jsonl:1: no known format", "keys found: none");
    refused("a.jsonl", "{\"prompt\": \"p\", \"response\": \"r\"}\n", "'completion' is missing",
            "prompt, response");
    refused("a.jsonl", "{\"completion\": \"c\"}\n", "'prompt' is missing", "completion");
    refused("a.jsonl", "{\"instruction\": \"i\", \"answer\": \"a\"}\n", "'output' is missing",
            "instruction, answer");
    refused("a.jsonl", "{\"instruction\": \"i\", \"input\": 3, \"output\": \"o\"}\n",
            "'input' is a number", "a string");
    refused("a.jsonl", "{\"text\": null}\n", "'text' is null", "a string");
    refused("a.jsonl", "{\"text\": [\"a\"]}\n", "'text' is an array", "a string");
    refused("a.jsonl", "{\"prompt\": true, \"completion\": \"c\"}\n", "'prompt' is true or false",
            "a string");
    refused("a.jsonl", "{\"text\": \" \\n\"}\n", "'text' is empty", "some text");
    refused("a.jsonl", "{\"prompt\": \"p\", \"completion\": \"\"}\n", "'completion' is empty",
            "some text");
    refused("a.txt", " \n\n", "a.txt:1", "only blanks");
}

static void refused_chat(const char *turns, const char *first, const char *second)
{
    char text[1024];
    snprintf(text, sizeof text, GOOD "{\"messages\": %s}\n", turns);
    refused("a.jsonl", text, "a.jsonl:2: ", first);
    refused("a.jsonl", text, "a.jsonl:2: ", second);
}

static void test_turns(void **state)
{
    (void)state;
    refused_chat("\"hello\"", "'messages' is a string", "an array of turns");
    refused_chat("[]", "'messages' is empty", "an array of turns");
    refused_chat("[\"hello\"]", "messages[0] is a string", "an object with 'role'");
    refused_chat("[{\"content\": \"a\"}]", "messages[0].'role' is missing", "keys found: content");
    refused_chat("[{\"role\": \"human\", \"content\": \"a\"}]", "the role 'human'",
                 "expected system, developer, user, assistant or tool");
    refused_chat("[{\"role\": 1, \"content\": \"a\"}]", "messages[0].'role' is a number",
                 "expected a string");
    refused_chat("[{\"role\": \"user\", \"text\": \"a\"}]", "messages[0].'content' is missing",
                 "keys found: role, text");
    refused_chat("[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                 "\"content\": \"\"}]",
                 "messages[1] is an empty turn of the role 'assistant'", "some content");
    refused_chat("[{\"role\": \"user\", \"content\": null}]", "messages[0].'content' is null",
                 "expected a string");
    refused_chat("[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
                 "messages[0].content[0] is of the type 'image_url'", "text alone");
    refused("a.jsonl", "{\"conversations\": [{\"from\": \"bot\", \"value\": \"a\"}]}\n",
            "conversations[0] is from 'bot'", "expected human, user, gpt");
    refused("a.jsonl", "{\"conversations\": [{\"from\": \"human\", \"content\": \"a\"}]}\n",
            "conversations[0].'value' is missing", "keys found: from, content");
    refused("a.jsonl", "{\"conversations\": [3]}\n", "conversations[0] is a number", "an object");
    refused("a.jsonl", "{\"conversations\": {}}\n", "'conversations' is an object", "an array");
}

static void test_preferences(void **state)
{
    (void)state;
    loam_data_options skip = {.skip_bad = true};
    const char *path = put("a.jsonl", GOOD "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": "
                                           "\"r\"}\n");
    refused_for(test_model, path, NULL, LOAM_E_UNSUPPORTED, "a.jsonl:2: a preference pair",
                "chosen answers");
    refused_for(test_model, path, &skip, LOAM_E_UNSUPPORTED, "a.jsonl:2: a preference pair",
                "chosen answers");
}

/* skip_bad leaves the bad lines out, whole, counts them, and keeps the others. */
static void test_skip_bad(void **state)
{
    (void)state;
    loam_data_options o = {.skip_bad = true};
    loam_dataset *good = load_text("good.jsonl", GOOD GOOD GOOD, NULL);
    loam_dataset *d = load_text("a.jsonl",
                                GOOD "{\"text\": \n"
                                     "{\"text\": \"\x92\"}\n" GOOD "{\"unknown\": 1}\n"
                                     "{\"messages\": [{\"role\": \"x\", \"content\": \"y\"}]}\n"
                                     "{\"text\": \"\"}\n" GOOD,
                                &o);
    check_set(d, 2048);
    assert_int_equal(d->summary.n_bad, 5);
    assert_int_equal(d->hash, good->hash);
    assert_int_equal(d->examples[2].line, 8);
    loam_dataset_free(d);
    loam_dataset_free(good);
    d = load_text("a.json", "[" GOOD ", {\"text\": 3}, {\"x\": 1}," GOOD "]", &o);
    assert_int_equal(d->summary.n_bad, 2);
    assert_int_equal(d->n_examples, 2);
    loam_dataset_free(d);
    refused_for(test_model, put("b.jsonl", "{\"unknown\": 1}\n{\"x\": 2}\n"), &o, LOAM_E_DATA,
                "of 2 records, 2 could not be used", "(the first: " /* its place follows */);
    refused_for(test_model, in_directory("b.jsonl"), &o, LOAM_E_DATA, "b.jsonl:1: no known format",
                "keys found: unknown");
}

/* ---- lengths ------------------------------------------------------------------------------ */

/* A prompt of many tokens, and a short answer at its end. */
static const char *long_prompt(void)
{
    loam_string text = {0};
    loam_string_puts(&text, "{\"prompt\": \"");
    for (int i = 0; i < 100; i++)
        loam_string_puts(&text, "word ");
    loam_string_puts(&text, "\", \"completion\": \"The answer\"}\n");
    const char *path = put("long.jsonl", text.data);
    loam_string_free(&text);
    return path;
}

/* A prompt longer than the limit leaves no token of the answer: counted, and an error where
 * nothing else is left. */
static void test_no_answer_left(void **state)
{
    (void)state;
    loam_data_options o = {.max_seq_length = 32};
    const char *path = long_prompt();
    refused_for(test_model, path, &o, LOAM_E_DATA, "leaves nothing to train on",
                "1 were longer than max_seq_length 32 (1 of them dropped)");
    o.overlong = LOAM_OVERLONG_TRUNCATE;
    refused_for(test_model, path, &o, LOAM_E_DATA, "(0 of them dropped)",
                "1 examples had no token to train on");
    char both[2048];
    snprintf(both, sizeof both, "%s,%s", path, put("good.jsonl", GOOD));
    loam_dataset *d = load(both, &o);
    assert_int_equal(d->n_examples, 1);
    assert_int_equal(d->summary.n_untrained, 1);
    assert_int_equal(d->summary.n_truncated, 1);
    assert_int_equal(d->summary.n_overlong, 1);
    loam_dataset_free(d);
    /* Split, the last piece holds the answer. */
    o.overlong = LOAM_OVERLONG_SPLIT;
    d = load(path, &o);
    check_set(d, 32);
    assert_int_equal(d->n_examples, 1);
    assert_string_equal(trained_text(d, 0), "The answer<|im_end|>|");
    assert_int_equal(d->summary.n_split, 1);
    assert_true(d->summary.n_untrained > 0);
    loam_dataset_free(d);
    o.overlong = LOAM_OVERLONG_ERROR;
    o.skip_bad = true;
    refused_for(test_model, path, &o, LOAM_E_USAGE, "long.jsonl:1: the example has",
                "max_seq_length is 32");
}

/* Truncating cuts the end-of-turn token off, and says so in the counts; at the exact length it
 * does not. */
static void test_truncation(void **state)
{
    (void)state;
    const char text[] = "{\"prompt\": \"Say it\", \"completion\": \"one two three four five\"}\n";
    loam_dataset *whole = load_text("a.jsonl", text, NULL);
    int64_t n = whole->examples[0].n_tokens;
    loam_data_options o = {.max_seq_length = n, .overlong = LOAM_OVERLONG_TRUNCATE};
    loam_dataset *d = load_text("a.jsonl", text, &o);
    assert_int_equal(d->hash, whole->hash);
    assert_int_equal(d->summary.n_truncated + d->summary.n_overlong, 0);
    loam_dataset_free(d);
    o.max_seq_length = n - 2; /* the newline, and the end of the turn */
    d = load_text("a.jsonl", text, &o);
    assert_string_equal(trained_text(d, 0), "one two three four five|");
    assert_int_equal(d->summary.n_truncated, 1);
    assert_int_equal(d->summary.n_overlong, 1);
    loam_dataset_free(d);
    o.overlong = LOAM_OVERLONG_DROP;
    char both[256];
    snprintf(both, sizeof both, "%s" GOOD, text);
    d = load_text("a.jsonl", both, &o);
    assert_int_equal(d->n_examples, 1);
    assert_int_equal(d->summary.n_overlong, 1);
    assert_int_equal(d->summary.n_truncated, 0);
    loam_dataset_free(d);
    loam_dataset_free(whole);
}

/* Split, every token is predicted once, as in the whole. */
static void test_split_pieces(void **state)
{
    (void)state;
    loam_string text = {0};
    loam_string_puts(&text, "{\"text\": \"");
    for (int i = 0; i < 50; i++)
        loam_string_printf(&text, "%d words, ", i);
    loam_string_puts(&text, "end\"}\n");
    loam_dataset *whole = load_text("a.jsonl", text.data, NULL);
    loam_data_options o = {.max_seq_length = 7, .overlong = LOAM_OVERLONG_SPLIT};
    loam_dataset *d = load_text("a.jsonl", text.data, &o);
    check_set(d, 7);
    assert_int_equal(d->n_trained, whole->n_trained);
    assert_int_equal(d->summary.n_split, 1);
    int64_t at = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        at -= i > 0;
        for (int64_t k = 0; k < d->examples[i].n_tokens; k++, at++)
            assert_int_equal(d->tokens[d->examples[i].first + k], whole->tokens[at]);
    }
    assert_int_equal(at, whole->n_tokens);
    loam_dataset_free(d);
    loam_dataset_free(whole);
    loam_string_free(&text);
}

static void test_options(void **state)
{
    (void)state;
    const char *path = put("a.jsonl", GOOD);
    loam_data_options o = {.max_seq_length = 1};
    refused_for(test_model, path, &o, LOAM_E_USAGE, "max_seq_length is 1", "at least 2");
    o.max_seq_length = -5;
    refused_for(test_model, path, &o, LOAM_E_USAGE, "max_seq_length is -5", "at least 2");
    o = (loam_data_options){.train_on = (loam_train_on)9};
    refused_for(test_model, path, &o, LOAM_E_USAGE, "train_on 9", "options");
}

/* ---- sources ------------------------------------------------------------------------------ */

static void test_missing_files(void **state)
{
    (void)state;
    refused_for(test_model, in_directory("absent.jsonl"), NULL, LOAM_E_IO, "absent.jsonl",
                "No such file");
    refused_for(test_model, put("empty.jsonl", ""), NULL, LOAM_E_FORMAT, "empty.jsonl", "empty");
    refused_for(test_model, put("blank.jsonl", "\n\n"), NULL, LOAM_E_DATA, "nothing to train on",
                "of 0 records");
    refused_for(test_model, "", NULL, LOAM_E_USAGE, "empty", "data file");
}

static void test_directory_of_parts(void **state)
{
    (void)state;
    loam_string part = {0};
    loam_error e = {0};
    const char *folder = in_directory("parts");
    assert_int_equal(mkdir(folder, 0700), 0);
    refused_for(test_model, folder, NULL, LOAM_E_IO, "parts' has no train.jsonl", "valid.jsonl");
    put("parts/train.jsonl", GOOD GOOD);
    put("parts/valid.jsonl", GOOD);
    loam_dataset *d = load(folder, NULL);
    assert_int_equal(d->n_examples, 2);
    assert_non_null(strstr(d->files[0], "parts/train.jsonl"));
    loam_dataset_free(d);
    assert_int_equal(loam_dataset_part(folder, "valid", &part, &e), LOAM_OK);
    d = load(part.data, NULL);
    assert_int_equal(d->n_examples, 1);
    loam_dataset_free(d);
    loam_string_clear(&part);
    assert_int_equal(loam_dataset_part(folder, "test", &part, &e), LOAM_OK);
    assert_int_equal(part.length_bytes, 0);
    assert_int_equal(loam_dataset_part("x.jsonl", "valid", &part, &e), LOAM_OK);
    assert_int_equal(part.length_bytes, 0);
    assert_int_equal(loam_dataset_part("x.jsonl", "train", &part, &e), LOAM_OK);
    assert_string_equal(part.data, "x.jsonl");
    loam_string_free(&part);
}

static loam_dataset *load_weighted(const char *format)
{
    char list[2048];
    const char *a = put("a.jsonl", "{\"text\": \"a 0\"}\n{\"text\": \"a 1\"}\n{\"text\": \"a 2\"}\n"
                                   "{\"text\": \"a 3\"}\n");
    const char *b = put("b.jsonl", "{\"text\": \"b 0\"}\n{\"text\": \"b 1\"}\n");
    snprintf(list, sizeof list, format, a, b);
    loam_dataset *d = load(list, NULL);
    check_set(d, 2048);
    return d;
}

static void test_weights(void **state)
{
    (void)state;
    loam_dataset *d = load_weighted("%s,%s");
    assert_int_equal(d->n_examples, 6);
    assert_int_equal(d->n_files, 2);
    assert_int_equal(d->examples[4].file, 1);
    loam_dataset_free(d);
    d = load_weighted("%s@2.5,%s@0.5");
    int count[2][4] = {{0}}, n_more = 0;
    for (int64_t i = 0; i < d->n_examples; i++)
        count[d->examples[i].file][d->examples[i].line - 1]++;
    for (int i = 0; i < 4; i++) {
        assert_in_range(count[0][i], 2, 3);
        n_more += count[0][i] == 3;
    }
    assert_int_equal(n_more, 2);
    assert_int_equal(count[1][0] + count[1][1], 1);
    /* Copies share their tokens. */
    assert_int_equal(d->examples[0].first, d->examples[1].first);
    int64_t distinct = 0;
    for (int64_t i = 0; i < d->n_examples; i++)
        distinct += i == 0 || d->examples[i].first != d->examples[i - 1].first
                        ? d->examples[i].n_tokens
                        : 0;
    assert_int_equal(d->n_tokens, distinct);
    /* And stay on one side of a split. */
    loam_dataset *v = NULL;
    assert_int_equal(loam_dataset_split(d, 0.4, 5, &v, NULL), LOAM_OK);
    for (int64_t i = 0; i < v->n_examples; i++) {
        for (int64_t j = 0; j < d->n_examples; j++)
            assert_false(v->examples[i].file == d->examples[j].file &&
                         v->examples[i].line == d->examples[j].line);
    }
    check_set(d, 2048);
    check_set(v, 2048);
    loam_dataset_free(v);
    loam_dataset_free(d);
    refused_for(test_model, "x.jsonl@two", NULL, LOAM_E_USAGE, "'two' after the '@'", "weight");
    refused_for(test_model, "x.jsonl@-1", NULL, LOAM_E_USAGE, "'-1' after the '@'", "weight");
    refused_for(test_model, "x.jsonl@nan", NULL, LOAM_E_USAGE, "'nan' after the '@'", "weight");
    /* A name with an '@' and a ',' is a name where the file is there. */
    d = load_text("odd,name@3.jsonl", GOOD, NULL);
    assert_int_equal(d->n_examples, 1);
    loam_dataset_free(d);
}

static void test_standard_input_and_pipes(void **state)
{
    (void)state;
    loam_dataset *file = load_text("a.jsonl", GOOD GOOD, NULL);
    int kept = dup(STDIN_FILENO), fd = open(in_directory("a.jsonl"), O_RDONLY);
    assert_true(fd >= 0 && kept >= 0 && dup2(fd, STDIN_FILENO) >= 0);
    loam_dataset *d = load("-", NULL);
    assert_int_equal(d->hash, file->hash);
    assert_string_equal(d->files[0], "standard input");
    loam_dataset_free(d);
    refused_for(test_model, "-", NULL, LOAM_E_DATA, "standard input", "empty");
    dup2(kept, STDIN_FILENO);
    close(kept);
    close(fd);
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], GOOD GOOD, 2 * (sizeof GOOD - 1)), 2 * (sizeof GOOD - 1));
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    d = load(path, NULL);
    assert_int_equal(d->hash, file->hash);
    loam_dataset_free(d);
    close(ends[0]);
    loam_dataset_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_json),
        cmocka_unit_test(test_broken_arrays),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_keys_and_types),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_preferences),
        cmocka_unit_test(test_skip_bad),
        cmocka_unit_test(test_no_answer_left),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_split_pieces),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_directory_of_parts),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_standard_input_and_pipes),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
