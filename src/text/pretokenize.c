/* pretokenize.c: the stages that pre-tokenizers are made of, and which model uses which.
 *
 * Every scanner below states the regular expression it equals. L, N, M, P, S are the classes
 * \p{L} and so on. Alternatives are tried in order, repetitions are greedy, as in ECMAScript. */
#include "text/pretokenize.h"
#include "text/unicode.h"

#include <string.h>

#define LETTER LOAM_CLASS_LETTER
#define NUMBER LOAM_CLASS_NUMBER
#define MARK LOAM_CLASS_MARK
#define PUNCTUATION LOAM_CLASS_PUNCTUATION
#define SYMBOL LOAM_CLASS_SYMBOL
#define SPACE LOAM_CLASS_SPACE

#define UNLIMITED SIZE_MAX

typedef struct scan {
    const char *text;
    size_t end; /* of the piece; nothing behind it is looked at */
    const uint8_t *classes;
} scan;

typedef struct range {
    uint32_t first, last;
} range;

struct loam_split_stage {
    /* The end of the piece that begins at `pos` < s->end: a match there, or else everything up to
     * the next match. */
    size_t (*next)(const scan *s, const loam_split_stage *stage, size_t pos);

    /* next_run: SET{min,max}, or with lead_space \s?SET{min,max}; a min of 0 means 1. */
    uint8_t classes;   /* SET: these classes, */
    const char *ascii; /* these characters (or NULL) */
    const range *ranges;
    int n_ranges; /* and these ranges */
    size_t min, max;
    bool lead_space;

    /* next_words, next_cased. */
    uint8_t letters; /* what a word is made of */
    size_t max_digits;
    const char *tail; /* characters that punctuation takes along at its end */
    bool contractions;
};

/* One character; bytes is 0 at the end of the piece, where no class holds either. */
typedef struct glyph {
    uint32_t code_point;
    uint32_t bytes;
    uint8_t class;
} glyph;

static inline glyph peek(const scan *s, size_t pos)
{
    if (pos >= s->end)
        return (glyph){LOAM_N_CODE_POINTS, 0, 0};
    uint8_t first = (uint8_t)s->text[pos];
    if (first < 0x80)
        return (glyph){first, 1, s->classes[first]};
    size_t used;
    uint32_t c = loam_utf8_decode(s->text + pos, s->end - pos, &used);
    return (glyph){c, (uint32_t)used, s->classes[c]};
}

/* The end of [classes]{0,max} at pos. */
static size_t run_of(const scan *s, size_t pos, uint8_t classes, size_t max)
{
    for (size_t n = 0; n < max; n++) {
        glyph g = peek(s, pos);
        if (!(g.class & classes))
            break;
        pos += g.bytes;
    }
    return pos;
}

/* The end of [^classes]* at pos. */
static size_t run_of_others(const scan *s, size_t pos, uint8_t classes)
{
    for (glyph g; (g = peek(s, pos)).bytes && !(g.class & classes);)
        pos += g.bytes;
    return pos;
}

static size_t run_of_chars(const scan *s, size_t pos, const char *chars)
{
    while (pos < s->end && s->text[pos] && strchr(chars, s->text[pos]))
        pos++;
    return pos;
}

static char lower(const scan *s, size_t pos)
{
    if (pos >= s->end)
        return '\0';
    char c = s->text[pos];
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The end of '(s|t|m|d|re|ve|ll) at pos, in any case of ASCII, or pos. */
static size_t contraction(const scan *s, size_t pos)
{
    if (pos >= s->end || s->text[pos] != '\'')
        return pos;
    char a = lower(s, pos + 1), b = lower(s, pos + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return pos + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return pos + 3;
    return pos;
}

static bool has_upper(const scan *s, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (s->text[i] >= 'A' && s->text[i] <= 'Z')
            return true;
    }
    return false;
}

/* The end of \s*[\r\n]+ (where `newlines`), else \s+(?!\S), else \s+; or pos. */
static size_t white_space(const scan *s, size_t pos, bool newlines)
{
    size_t end = pos, last = pos, after_newline = pos, count = 0;
    for (glyph g; (g = peek(s, end)).class & SPACE; count++) {
        last = end;
        end += g.bytes;
        if (g.code_point == '\r' || g.code_point == '\n')
            after_newline = end;
    }
    if (newlines && after_newline > pos)
        return after_newline;
    return count > 1 && end < s->end ? last : end;
}

static bool is_newline(glyph g)
{
    return g.code_point == '\r' || g.code_point == '\n';
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\sLN]+|\s+(?!\S)|\s+ */
static size_t next_gpt2(const scan *s, const loam_split_stage *stage, size_t pos)
{
    (void)stage;
    size_t end = contraction(s, pos);
    if (end > pos && !has_upper(s, pos, end))
        return end;
    size_t body = pos + (s->text[pos] == ' ');
    glyph g = peek(s, body);
    if (g.class & LETTER)
        return run_of(s, body, LETTER, UNLIMITED);
    if (g.class & NUMBER)
        return run_of(s, body, NUMBER, UNLIMITED);
    if (g.bytes && !(g.class & SPACE))
        return run_of_others(s, body, LETTER | NUMBER | SPACE);
    return white_space(s, pos, false);
}

/* What follows the word alternatives in next_words and next_cased:
 * N{1,max}| ?[^\s<letters>N]+[tail]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t after_words(const scan *s, const loam_split_stage *stage, size_t pos, uint8_t letters)
{
    glyph g = peek(s, pos);
    if (g.class & NUMBER)
        return run_of(s, pos, NUMBER, stage->max_digits);
    size_t body = pos + (g.code_point == ' ');
    size_t end = run_of_others(s, body, letters | NUMBER | SPACE);
    if (end > body)
        return run_of_chars(s, end, stage->tail);
    return white_space(s, pos, true);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nLN]?<letters>+| and so on as above */
static size_t next_words(const scan *s, const loam_split_stage *stage, size_t pos)
{
    size_t end = contraction(s, pos);
    if (end > pos)
        return end;
    glyph g = peek(s, pos);
    if (!is_newline(g) && !(g.class & NUMBER)) {
        size_t body = g.class & LETTER ? pos : pos + g.bytes;
        end = run_of(s, body, stage->letters, UNLIMITED);
        if (end > body || (g.class & stage->letters))
            return end;
    }
    return after_words(s, stage, pos, stage->letters);
}

/* The end of U*W+|U+W*, where U is a letter outside a-z and W a letter outside A-Z; or pos.
 * U* takes all it can; where no a-z follows, it gives back up to the last letter that is not A-Z,
 * which is then the whole of W+. */
static size_t cased_word(const scan *s, size_t pos)
{
    size_t end = pos, after_last_w = pos;
    for (glyph g;
         (g = peek(s, end)).class & LETTER && !(g.code_point >= 'a' && g.code_point <= 'z');) {
        end += g.bytes;
        if (g.code_point >= 0x80)
            after_last_w = end;
    }
    size_t lower_end = end;
    for (glyph g;
         (g = peek(s, lower_end)).class & LETTER && !(g.code_point >= 'A' && g.code_point <= 'Z');)
        lower_end += g.bytes;
    if (lower_end > end)
        return lower_end;
    return after_last_w > pos ? after_last_w : end;
}

/* [^\r\nLN]?(U*W+|U+W*)(?i:'s|'t|'re|'ve|'m|'ll|'d)?| and so on as above; the contraction only
 * where the stage has them. */
static size_t next_cased(const scan *s, const loam_split_stage *stage, size_t pos)
{
    glyph g = peek(s, pos);
    if (!is_newline(g) && !(g.class & NUMBER)) {
        size_t body = g.class & LETTER ? pos : pos + g.bytes;
        size_t end = cased_word(s, body);
        if (end > body)
            return stage->contractions ? contraction(s, end) : end;
    }
    return after_words(s, stage, pos, LETTER);
}

static bool in_set(const loam_split_stage *stage, glyph g)
{
    if (g.class & stage->classes)
        return true;
    if (g.code_point < 0x80 && g.code_point && stage->ascii &&
        strchr(stage->ascii, (int)g.code_point))
        return true;
    if (g.class & SPACE)
        return false; /* llama.cpp hides white space from sets that are ranges */
    for (int i = 0; i < stage->n_ranges; i++) {
        if (g.code_point >= stage->ranges[i].first && g.code_point <= stage->ranges[i].last)
            return true;
    }
    return false;
}

static size_t run_in_set(const scan *s, const loam_split_stage *stage, size_t pos)
{
    size_t n = 0, end = pos;
    for (glyph g; n < stage->max && (g = peek(s, end)).bytes && in_set(stage, g); n++)
        end += g.bytes;
    return n >= stage->min ? end : pos;
}

static size_t match_run(const scan *s, const loam_split_stage *stage, size_t pos)
{
    glyph g = peek(s, pos);
    if (stage->lead_space && g.class & SPACE) {
        size_t body = pos + g.bytes, end = run_in_set(s, stage, body);
        if (end > body)
            return end;
    }
    return run_in_set(s, stage, pos);
}

/* SET{min,max}|\s?SET{min,max} */
static size_t next_run(const scan *s, const loam_split_stage *stage, size_t pos)
{
    size_t end = match_run(s, stage, pos);
    if (end > pos)
        return end;
    do {
        pos += peek(s, pos).bytes;
    } while (pos < s->end && match_run(s, stage, pos) == pos);
    return pos;
}

/* \s+$ */
static size_t next_trailing_space(const scan *s, const loam_split_stage *stage, size_t pos)
{
    (void)stage;
    size_t begin = pos, space = pos;
    for (glyph g; (g = peek(s, pos)).bytes;) {
        pos += g.bytes;
        if (!(g.class & SPACE))
            space = pos;
    }
    return space > begin ? space : s->end;
}

/* [!-/:-@[-`{-~][A-Za-z]+|[^\r\nLPS]?[LM]+| ?[PS]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ or pos */
static size_t match_deepseek3(const scan *s, size_t pos)
{
    glyph g = peek(s, pos);
    if (g.code_point < 0x80 && g.class & (PUNCTUATION | SYMBOL)) {
        size_t end = pos + 1;
        while (lower(s, end) >= 'a' && lower(s, end) <= 'z')
            end++;
        if (end > pos + 1)
            return end;
    }
    if (g.bytes && !is_newline(g) && !(g.class & (PUNCTUATION | SYMBOL))) {
        size_t body = g.class & LETTER ? pos : pos + g.bytes;
        size_t end = run_of(s, body, LETTER | MARK, UNLIMITED);
        if (end > body || g.class & MARK)
            return end;
    }
    size_t body = pos + (g.code_point == ' ');
    size_t end = run_of(s, body, PUNCTUATION | SYMBOL, UNLIMITED);
    if (end > body)
        return run_of_chars(s, end, "\r\n");
    return white_space(s, pos, true);
}

static size_t next_deepseek3(const scan *s, const loam_split_stage *stage, size_t pos)
{
    (void)stage;
    size_t end = match_deepseek3(s, pos);
    if (end > pos)
        return end;
    do {
        pos += peek(s, pos).bytes;
    } while (pos < s->end && match_deepseek3(s, pos) == pos);
    return pos;
}

/* The letters that deepseek-llm's tokenizer.json lists: scripts with upper and lower case. */
static const range cased_letters[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},
    {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
    {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x376},     {0x377, 0x377},
    {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
    {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},
    {0x48A, 0x52F},     {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},
    {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},
    {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},
    {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},
    {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},
    {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},
    {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},
    {0x213C, 0x213F},   {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2183},
    {0x2184, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},
    {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},
    {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},
    {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},
    {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2},
    {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};
static const range full_width_punctuation[] = {{0x21, 0x2F},     {0x3A, 0x7E},
                                               {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E},
                                               {0x2018, 0x201F}, {0x3000, 0x3002}};
static const range cjk[] = {{0x4E00, 0x9FA5}, {0x0800, 0x4E00}, {0xAC00, 0xD7FF}};
static const range han_and_kana[] = {{0x4E00, 0x9FA5}, {0x3040, 0x309F}, {0x30A0, 0x30FF}};

#define RUN(most, ...)                                                                             \
    {                                                                                              \
        .next = next_run, .max = most, __VA_ARGS__                                                 \
    }
#define RANGES(table) .ranges = table, .n_ranges = LOAM_COUNT(table)
#define GPT2                                                                                       \
    {                                                                                              \
        .next = next_gpt2                                                                          \
    }
#define WORDS(mask, digits, end_characters)                                                        \
    {                                                                                              \
        .next = next_words, .letters = mask, .max_digits = digits, .tail = end_characters          \
    }
#define THREE_DIGITS RUN(3, .ascii = "0123456789", .min = 3)
#define EACH_NEWLINE RUN(1, .ascii = "\r\n")

static const loam_split_stage stages_default[] = {
    RUN(UNLIMITED, .classes = PUNCTUATION, .ascii = "$+<=>^~|"), GPT2,
    RUN(UNLIMITED, .classes = NUMBER), THREE_DIGITS};
static const loam_split_stage stages_falcon[] = {
    RUN(UNLIMITED, .classes = PUNCTUATION, .ascii = "$+<=>^~|`"), GPT2, THREE_DIGITS};
static const loam_split_stage stages_gpt2[] = {GPT2};
static const loam_split_stage stages_starcoder[] = {RUN(1, .classes = NUMBER), GPT2};
static const loam_split_stage stages_llama3[] = {WORDS(LETTER, 3, "\r\n")};
static const loam_split_stage stages_qwen2[] = {WORDS(LETTER, 1, "\r\n")};
static const loam_split_stage stages_qwen35[] = {WORDS(LETTER | MARK, 1, "\r\n")};
static const loam_split_stage stages_seed_coder[] = {WORDS(LETTER, 1, "")};
static const loam_split_stage stages_minicpm5[] = {RUN(3, .classes = NUMBER),
                                                   WORDS(LETTER, UNLIMITED, "\r\n")};
static const loam_split_stage stages_tekken[] = {
    {.next = next_cased, .max_digits = 1, .tail = "\r\n/"}};
static const loam_split_stage stages_gpt4o[] = {
    {.next = next_cased, .max_digits = 3, .tail = "\r\n/", .contractions = true}};
static const loam_split_stage stages_deepseek_llm[] = {
    EACH_NEWLINE,
    RUN(UNLIMITED, RANGES(cased_letters), .lead_space = true),
    RUN(UNLIMITED, RANGES(full_width_punctuation), .lead_space = true),
    {.next = next_trailing_space},
    RUN(UNLIMITED, RANGES(cjk)),
    RUN(UNLIMITED, .classes = NUMBER)};
static const loam_split_stage stages_deepseek_coder[] = {
    EACH_NEWLINE, RUN(UNLIMITED, .classes = LETTER, .lead_space = true),
    RUN(UNLIMITED, .classes = PUNCTUATION, .lead_space = true), RUN(UNLIMITED, RANGES(cjk)),
    RUN(1, .classes = NUMBER)};
static const loam_split_stage stages_deepseek3[] = {
    RUN(3, .classes = NUMBER), RUN(UNLIMITED, RANGES(han_and_kana)), {.next = next_deepseek3}};

#define PRE(name, stages)                                                                          \
    {                                                                                              \
        name, stages, LOAM_COUNT(stages), false, false                                             \
    }
#define PRE_FLAGS(name, stages, ignore_merges, adds_bos)                                           \
    {                                                                                              \
        name, stages, LOAM_COUNT(stages), ignore_merges, adds_bos                                  \
    }

/* The names that llama.cpp's converter writes. */
static const loam_pretokenizer known[] = {
    PRE("default", stages_default),
    PRE("gpt-2", stages_gpt2),
    PRE("phi-2", stages_gpt2),
    PRE("mpt", stages_gpt2),
    PRE("olmo", stages_gpt2),
    PRE("jais", stages_gpt2),
    PRE("gigachat", stages_gpt2),
    PRE("a.x-4.0", stages_gpt2),
    PRE("mellum", stages_gpt2),
    PRE("exaone4", stages_gpt2),
    PRE("trillion", stages_gpt2),
    PRE("granite-docling", stages_gpt2),
    PRE("starcoder", stages_starcoder),
    PRE("refact", stages_starcoder),
    PRE("command-r", stages_starcoder),
    PRE("smollm", stages_starcoder),
    PRE("codeshell", stages_starcoder),
    PRE("exaone", stages_starcoder),
    PRE("minerva-7b", stages_starcoder),
    PRE("mellum2", stages_starcoder),
    PRE("falcon", stages_falcon),
    PRE_FLAGS("llama-bpe", stages_llama3, true, true),
    PRE_FLAGS("llama3", stages_llama3, true, true),
    PRE_FLAGS("llama-v3", stages_llama3, true, true),
    PRE_FLAGS("falcon3", stages_llama3, true, true),
    PRE_FLAGS("falcon-h1", stages_llama3, true, true),
    PRE_FLAGS("pixtral", stages_llama3, true, true),
    PRE_FLAGS("midm-2.0", stages_llama3, true, true),
    PRE_FLAGS("lfm2", stages_llama3, true, true),
    PRE("dbrx", stages_llama3),
    PRE("smaug-bpe", stages_llama3),
    PRE("glm4", stages_llama3),
    PRE("chatglm-bpe", stages_llama3),
    PRE("qwen2", stages_qwen2),
    PRE("deepseek-r1-qwen", stages_qwen2),
    PRE("kormo", stages_qwen2),
    PRE("f2llmv2", stages_qwen2),
    PRE("megrez", stages_qwen2),
    PRE("stablelm2", stages_qwen2),
    PRE("hunyuan", stages_qwen2),
    PRE("solar-open", stages_qwen2),
    PRE("grok-2", stages_qwen2),
    PRE("bailingmoe", stages_qwen2),
    PRE("bailingmoe2", stages_qwen2),
    PRE("llada-moe", stages_qwen2),
    PRE("qwen35", stages_qwen35),
    PRE("seed-coder", stages_seed_coder),
    PRE_FLAGS("minicpm5", stages_minicpm5, true, false),
    PRE_FLAGS("tekken", stages_tekken, true, true),
    PRE("gpt-4o", stages_gpt4o),
    PRE("llama4", stages_gpt4o),
    PRE("kanana2", stages_gpt4o),
    PRE("talkie", stages_gpt4o),
    PRE("minimax-m2", stages_gpt4o),
    PRE("deepseek-llm", stages_deepseek_llm),
    PRE("deepseek-coder", stages_deepseek_coder),
    PRE("deepseek-v3", stages_deepseek3),
    PRE("hunyuan-dense", stages_deepseek3),
    PRE("joyai-llm", stages_deepseek3),
};

const loam_pretokenizer *loam_pretokenizer_find(loam_slice name)
{
    for (int i = 0; i < LOAM_COUNT(known); i++) {
        if (strlen(known[i].name) == name.bytes &&
            memcmp(known[i].name, name.data, name.bytes) == 0)
            return &known[i];
    }
    return NULL;
}

const char *loam_pretokenizer_name(int i)
{
    return i >= 0 && i < LOAM_COUNT(known) ? known[i].name : NULL;
}

typedef struct cutting {
    const loam_pretokenizer *pre;
    loam_word_taker take;
    void *context;
} cutting;

/* Cuts text[begin .. s.end) by the stage and those below it; as deep as there are stages. */
static bool cut(const cutting *c, scan s, size_t begin, int stage)
{
    if (stage == c->pre->n_stages)
        return c->take(c->context, begin, s.end);
    size_t end = s.end;
    for (size_t pos = begin; pos < end; pos = s.end) {
        s.end = end;
        s.end = c->pre->stages[stage].next(&s, &c->pre->stages[stage], pos);
        if (!cut(c, s, pos, stage + 1))
            return false;
    }
    return true;
}

bool loam_pretokenize(const loam_pretokenizer *p, const uint8_t *classes, const char *text,
                      size_t n_bytes, loam_word_taker take, void *context)
{
    cutting c = {p, take, context};
    return cut(&c, (scan){text, n_bytes, classes}, 0, 0);
}
