/* Pre-tokenizers: written-out splits, and the regular expressions of the models run by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer_support.h"
#include "text/pretokenize.h"
#include "text/unicode.h"

typedef struct pieces {
    size_t ends[4096];
    size_t n, at;
} pieces;

static bool take(void *context, size_t begin, size_t end)
{
    pieces *p = context;
    assert_int_equal(begin, p->at); /* no gaps, nothing empty */
    assert_true(end > begin);
    p->at = end;
    p->ends[p->n++] = end;
    return true;
}

static pieces split(const char *pre, const char *text, size_t n)
{
    static uint8_t *classes;
    if (!classes)
        classes = loam_unicode_classes();
    const loam_pretokenizer *p = loam_pretokenizer_find((loam_slice){pre, strlen(pre)});
    if (!p)
        fail_msg("unknown: %s", pre);
    pieces out = {.n = 0, .at = 0};
    assert_true(loam_pretokenize(p, classes, text, n, take, &out));
    assert_int_equal(out.at, n);
    return out;
}

/* `want` has the pieces with | between. */
static void check(const char *pre, const char *want)
{
    char text[512] = "";
    size_t n = 0, ends[128], n_ends = 0;
    for (const char *c = want; *c; c++) {
        if (*c == '|')
            ends[n_ends++] = n;
        else
            text[n++] = *c;
    }
    if (n > 0)
        ends[n_ends++] = n;
    pieces have = split(pre, text, n);
    bool same = have.n == n_ends;
    for (size_t i = 0; i < n_ends && same; i++)
        same = have.ends[i] == ends[i];
    if (!same) {
        print_message("%s wants %s\n  has", pre, want);
        for (size_t i = 0; i < have.n; i++)
            print_message(" %zu", have.ends[i]);
        fail_msg("\n");
    }
}

static void written_out_splits(void **state)
{
    (void)state;
    check("gpt-2", "");
    check("gpt-2", "Hello|,| y|'|all|!| I|'ve| been| '|told| he|'s");
    check("gpt-2", "it|'s| IT|'|S|  | a|   | b| ");
    check("gpt-2", "a|\n\n");
    check("gpt-2", " x|\n|\n|y");
    check("gpt-2", "abc|123456|!?");
    check("mpt", " 33| 4|.|5");
    check("starcoder", "a|1|2|3| b");
    check("refact", "x| |1|.|2");
    check("command-r", "3|3| ok");
    check("llama-bpe", "it|'S|  | a|\n\n| b");
    check("llama-bpe", "123|456|7|!!\n\n|x");
    check("llama3", "Hello|_world| \n| | (|x|)");
    check("llama-v3", "a| | |123|4");
    check("qwen2", "1|2|3|.|4| '|ll|!?\n");
    check("qwen2", "don|'t| \n  \n| | x");
    check("qwen2", "e|\xCC\x81x|!");     /* a mark is no letter */
    check("qwen35", "e\xCC\x81x| |1|2"); /* here it is */
    check("qwen35", "\xCC\x81x|!");
    check("falcon", "a|.$+| b|123|4");
    check("falcon", "123|456|7| x");
    check("default", "a|...|1");
    check("default", "ab|+=|123|45| x");
    check("deepseek-llm", "a| b");
    check("deepseek-llm", "Hi| there|,| you|\n|\n|12345|  ");
    check("deepseek-llm", "x|\xE4\xBD\xA0\xE5\xA5\xBD|y|\xE3\x80\x82|\xE3\x80\x80");
    check("deepseek-coder", "Hi| there|,|1|2|3|\n|\r|x| (|a");
    check("deepseek-coder", "x\xC3\xA9| ...| +|y");
    check("deepseek-v3", "123|4|\xE4\xBD\xA0\xE3\x81\x82|.append|(x|);\n\n| ok");
    check("tekken", "Hello|World|ABCdef|1|2| Gmb|H|/\n");
    check("tekken", "ABC\xC3\x89T\xC3\x89");
    check("tekken", "AB\xC3\x89|TT");
    check("gpt-4o", "Hello's|We'LL|123|4|://\n");
    check("seed-coder", "a|!|\n|b");
}

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *alias, *of;
    } same[] = {{"llama-v3", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"}, {"smollm", "starcoder"},
                {"phi-2", "gpt-2"},        {"llama4", "gpt-4o"},          {"falcon3", "llama-bpe"}};
    for (int i = 0; i < LOAM_COUNT(same); i++) {
        const loam_pretokenizer *a =
            loam_pretokenizer_find((loam_slice){same[i].alias, strlen(same[i].alias)});
        const loam_pretokenizer *b =
            loam_pretokenizer_find((loam_slice){same[i].of, strlen(same[i].of)});
        assert_non_null(a);
        assert_non_null(b);
        assert_ptr_equal(a->stages, b->stages);
        assert_int_equal(a->adds_bos, b->adds_bos);
        assert_int_equal(a->ignore_merges, b->ignore_merges);
    }
    assert_null(loam_pretokenizer_find((loam_slice){"gpt", 3}));
    assert_null(loam_pretokenizer_find((loam_slice){"", 0}));
}

/* ---- the models' own expressions, stage by stage --------------------------------------------- */

/* Where llama.cpp differs from the plain expression, its way is written out: white space is never
 * part of a range of characters. */

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MIDDLE " ?[^\\s\\p{L}\\p{N}]+"
#define CASED(suffix)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?((?=\\p{L})[^a-z])*((?=\\p{L})[^A-Z])+" suffix                          \
    "|[^\\r\\n\\p{L}\\p{N}]?((?=\\p{L})[^a-z])+((?=\\p{L})[^A-Z])*" suffix

static const struct {
    const char *pre;
    const char *stages[5];
} expressions[] = {
    {"gpt-2", {GPT2}},
    {"starcoder", {"\\p{N}", GPT2}},
    {"falcon", {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"default", {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"llama-bpe", {HEAD "\\p{L}+|\\p{N}{1,3}|" MIDDLE "[\\r\\n]*|" TAIL}},
    {"qwen2", {HEAD "\\p{L}+|\\p{N}|" MIDDLE "[\\r\\n]*|" TAIL}},
    {"qwen35", {HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL}},
    {"bailingmoe",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"seed-coder", {HEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" TAIL}},
    {"minicpm5", {"\\p{N}{1,3}", HEAD "\\p{L}+|\\p{N}+|" MIDDLE "[\\r\\n]*|" TAIL}},
    {"tekken", {CASED("") "|\\p{N}|" MIDDLE "[\\r\\n/]*|" TAIL}},
    {"gpt-4o", {CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}|" MIDDLE "[\\r\\n/]*|" TAIL}},
    {"deepseek-coder",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
      "(?:(?!\\s)[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}])+", "\\p{N}"}},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
      "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" TAIL}},
};

#define MAX_STAGES 5

/* Every match is a piece, and so is what lies between two matches. */
static void cut(pcre2_code *const *codes, const char *text, size_t begin, size_t end, pieces *out)
{
    if (!codes[0]) {
        out->ends[out->n++] = end;
        return;
    }
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(codes[0], NULL);
    const char *piece = text + begin;
    size_t n = end - begin, at = 0;
    while (at < n) {
        size_t from = n, to = n;
        if (pcre2_match(codes[0], (PCRE2_SPTR)piece, n, at, 0, data, NULL) > 0) {
            from = pcre2_get_ovector_pointer(data)[0];
            to = pcre2_get_ovector_pointer(data)[1];
        }
        if (from > at)
            cut(codes + 1, text, begin + at, begin + from, out);
        if (to > from)
            cut(codes + 1, text, begin + from, begin + to, out);
        at = to;
    }
    pcre2_match_data_free(data);
}

static void compare(int which, pcre2_code *const *codes, const char *text, size_t n)
{
    pieces want = {.n = 0, .at = 0}, have = split(expressions[which].pre, text, n);
    if (n > 0)
        cut(codes, text, 0, n, &want);
    bool same = have.n == want.n;
    for (size_t i = 0; i < want.n && same; i++)
        same = have.ends[i] == want.ends[i];
    if (!same) {
        print_message("%s: '%.*s'\n  have", expressions[which].pre, (int)n, text);
        for (size_t i = 0; i < have.n; i++)
            print_message(" %zu", have.ends[i]);
        print_message("\n  want");
        for (size_t i = 0; i < want.n; i++)
            print_message(" %zu", want.ends[i]);
        fail_msg("\n");
    }
}

/* Characters whose classes no Unicode version since 6 changed. */
static const char *const characters[] = {"a",
                                         "b",
                                         "s",
                                         "t",
                                         "r",
                                         "e",
                                         "l",
                                         "A",
                                         "Z",
                                         "S",
                                         "M",
                                         "D",
                                         "'",
                                         "'",
                                         " ",
                                         " ",
                                         " ",
                                         "\n",
                                         "\r",
                                         "\t",
                                         "\v",
                                         "0",
                                         "1",
                                         "9",
                                         "!",
                                         ".",
                                         "$",
                                         "+",
                                         "<",
                                         "|",
                                         "`",
                                         "/",
                                         "_",
                                         "\x01",
                                         "\x7F",
                                         "\xC3\xA9",
                                         "\xC3\x89",
                                         "\xC3\x9F",
                                         "\xC7\x85",
                                         "\xC2\xBD",
                                         "\xC2\xB2",
                                         "\xD9\xA3",
                                         "\xCC\x81",
                                         "\xE0\xA4\xBC",
                                         "\xC2\xA0",
                                         "\xC2\x85",
                                         "\xE2\x80\xA8",
                                         "\xE3\x80\x80",
                                         "\xE4\xB8\xAD",
                                         "\xE3\x81\x8B",
                                         "\xED\x95\x9C",
                                         "\xE0\xB8\x81",
                                         "\xE2\x80\x94",
                                         "\xE2\x82\xAC",
                                         "\xE2\x80\x8B",
                                         "\xEF\xBF\xBD",
                                         "\xF0\x9F\x98\x80",
                                         "\xF0\xA0\x80\x80",
                                         "\xEE\x80\x80",
                                         "\xEF\xBC\x81"};

static void compare_random(int which, pcre2_code *const *codes)
{
    loam_rng r = loam_rng_stream(5, expressions[which].pre);
    for (int i = 0; i < 3000; i++) {
        char text[256];
        size_t n = 0, count = loam_rng_below(&r, 24);
        /* A few kinds at a time, so that runs happen. */
        const char *kinds[5];
        for (int k = 0; k < 5; k++)
            kinds[k] = characters[loam_rng_below(&r, LOAM_COUNT(characters))];
        for (size_t k = 0; k < count; k++) {
            const char *c = kinds[loam_rng_below(&r, 5)];
            memcpy(text + n, c, strlen(c));
            n += strlen(c);
        }
        compare(which, codes, text, n);
    }
}

static void compare_inputs(int which, pcre2_code *const *codes)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    const char *path = find_asset("tokenizers/ggml-vocab-qwen35.gguf.inp");
    if (!path)
        return;
    char *data;
    size_t n;
    assert_int_equal(loam_read_file(path, 1 << 20, &data, &n, NULL), LOAM_OK);
    for (const char *at = data, *end; at; at = end ? end + strlen(separator) : NULL) {
        end = strstr(at, separator);
        compare(which, codes, at, end ? (size_t)(end - at) : strlen(at));
    }
    loam_free(data);
}

static void equals_the_expressions(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(expressions); i++) {
        pcre2_code *codes[MAX_STAGES + 1] = {0};
        for (int k = 0; k < MAX_STAGES && expressions[i].stages[k]; k++) {
            int error;
            PCRE2_SIZE where;
            codes[k] = pcre2_compile((PCRE2_SPTR)expressions[i].stages[k], PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP, &error, &where, NULL);
            if (!codes[k])
                fail_msg("%s stage %d: error %d at %zu", expressions[i].pre, k, error, where);
        }
        compare_random(i, codes);
        compare_inputs(i, codes);
        for (int k = 0; codes[k]; k++)
            pcre2_code_free(codes[k]);
    }
}

static void utf8(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        uint32_t code;
        size_t used;
    } cases[] = {
        {"A", 'A', 1},
        {"\xC3\xA9", 0xE9, 2},
        {"\xE2\x82\xAC", 0x20AC, 3},
        {"\xF0\x9F\x98\x80", 0x1F600, 4},
        {"\xF4\x8F\xBF\xBF", 0x10FFFF, 4},
        {"\xF4\x90\x80\x80", 0xFFFD, 1}, /* past the last code point */
        {"\xED\xA0\x80", 0xD800, 3},     /* a surrogate, as it comes */
        {"\xC0\x80", 0, 2},              /* overlong */
        {"\x80", 0xFFFD, 1},
        {"\xE2\x82", 0xFFFD, 1},
        {"\xE2\x82g", 0xFFFD, 1},
        {"\xFF", 0xFFFD, 1},
    };
    for (int i = 0; i < LOAM_COUNT(cases); i++) {
        size_t used;
        assert_int_equal(loam_utf8_decode(cases[i].bytes, strlen(cases[i].bytes), &used),
                         cases[i].code);
        assert_int_equal(used, cases[i].used);
    }
    char out[4];
    for (uint32_t c = 0; c < LOAM_N_CODE_POINTS; c += c < 0x3000 ? 1 : 37) {
        size_t n = loam_utf8_encode(c, out), used;
        assert_int_equal(loam_utf8_decode(out, n, &used), c);
        assert_int_equal(used, n);
        assert_true(loam_utf8_is_clean(out, n));
        assert_int_equal(loam_utf8_length(out[0]), n);
    }
    assert_false(loam_utf8_is_clean("a\xC0\x80", 3));
    assert_false(loam_utf8_is_clean("a\xE2\x82", 3));
}

static void classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        uint8_t class;
    } cases[] = {{'a', LOAM_CLASS_LETTER},
                 {'7', LOAM_CLASS_NUMBER},
                 {'!', LOAM_CLASS_PUNCTUATION},
                 {'$', LOAM_CLASS_SYMBOL},
                 {' ', LOAM_CLASS_OTHER | LOAM_CLASS_SPACE},
                 {0x85, LOAM_CLASS_OTHER | LOAM_CLASS_SPACE},
                 {0x1C, LOAM_CLASS_OTHER},
                 {0x200B, LOAM_CLASS_OTHER},
                 {0x300, LOAM_CLASS_MARK},
                 {0xBD, LOAM_CLASS_NUMBER},
                 {0x4E00, LOAM_CLASS_LETTER},
                 {0x1F600, LOAM_CLASS_SYMBOL},
                 {0x2FFC, LOAM_CLASS_SYMBOL}, /* new in 15.1 */
                 {0x1C89, LOAM_CLASS_OTHER},  /* a letter only since 16 */
                 {0x10FFFF, LOAM_CLASS_OTHER}};
    uint8_t *table = loam_unicode_classes();
    assert_non_null(table);
    for (int i = 0; i < LOAM_COUNT(cases); i++)
        assert_int_equal(table[cases[i].code], cases[i].class);
    for (int c = 0; c < LOAM_N_CODE_POINTS; c++) {
        int kind = table[c] & ~LOAM_CLASS_SPACE;
        assert_true(kind != 0 && (kind & (kind - 1)) == 0);
    }
    loam_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_out_splits),
        cmocka_unit_test(names),
        cmocka_unit_test(equals_the_expressions),
        cmocka_unit_test(utf8),
        cmocka_unit_test(classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
