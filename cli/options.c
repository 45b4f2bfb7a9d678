/* options.c: reading arguments by a command's tables, and printing them as help. */
#include "options.h"
#include "config.h"
#include "terminal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(loam_overlong) == sizeof(int) && sizeof(loam_train_on) == sizeof(int),
               "choices are stored as int");

const option options_of_model[] = {
    {OPTION_HEADING, .help = "Device"},
    {OPTION_TEXT, "device", 0, offsetof(settings, device), "NAME",
     .help =
         "cpu, cuda, cuda:1, metal ...; 'loam --version' lists those of this build (default: cpu)"},
    {OPTION_CHOICE, "compute", 0, offsetof(settings, compute), "TYPE",
     .help = "operands of matrix products; sums are f32", .choices = "f32|bf16"},
    {OPTION_INT, "threads", 't', offsetof(settings, n_threads), "N", .help = "CPU threads",
     .least = 0, .most = 4096, .zero = "one for each core"},
    {.kind = OPTION_END},
};

const option options_of_adapter[] = {
    {OPTION_HEADING, .help = "Adapter"},
    {OPTION_TEXT, "lora", 0, offsetof(settings, lora), "FILE[=SCALE]",
     .help = "use this GGUF adapter, its effect multiplied by SCALE"},
    {OPTION_TEXT, "adapter-path", 0, offsetof(settings, lora), "FILE",
     .help = "the same as --lora"},
    {.kind = OPTION_END},
};

const option options_of_data[] = {
    {OPTION_HEADING, .help = "Reading the data"},
    {OPTION_INT64, "max-seq-length", 0, offsetof(settings, data.max_seq_length), "N",
     .help = "tokens of a row; shorter examples share rows", .least = 0, .most = 1 << 24,
     .zero = "2048, or the model's context where that is less"},
    {OPTION_CHOICE, "overlong", 0, offsetof(settings, data.overlong), "HOW",
     .help = "what happens to examples longer than that", .choices = "drop|truncate|split|error"},
    {OPTION_CHOICE, "train-on", 0, offsetof(settings, data.train_on), "WHAT",
     .help =
         "tokens whose prediction counts: every assistant turn, the last one, all after the first "
         "prompt, or all",
     .choices = "assistant|last|completion|all"},
    {OPTION_SET, "mask-prompt", 0, offsetof(settings, data.train_on),
     .help = "the same as --train-on completion", .least = LOAM_TRAIN_ON_COMPLETION},
    {OPTION_TEXT, "format", 0, offsetof(settings, data.format), "NAME",
     .help = "what the data file holds: messages, completion, text ... (default: found out)"},
    {OPTION_FLAG, "skip-bad", 0, offsetof(settings, data.skip_bad),
     .help = "leave out lines that cannot be used, and count them; else they end the run"},
    {.kind = OPTION_END},
};

const option options_of_output[] = {
    {OPTION_HEADING, .help = "Output"},
    {OPTION_FLAG, "json", 0, offsetof(settings, json),
     .help = "JSON on the standard output, one object on each line", .once = true},
    {OPTION_FLAG, "quiet", 'q', offsetof(settings, quiet),
     .help = "print nothing but warnings and errors", .once = true},
    {.kind = OPTION_END},
};

/* ---- looking up --------------------------------------------------------------------------- */

static const option *find_name(const command *c, const char *name, size_t n_bytes)
{
    for (int t = 0; c->options[t]; t++)
        for (const option *o = c->options[t]; o->kind != OPTION_END; o++)
            if (o->name && strlen(o->name) == n_bytes && memcmp(o->name, name, n_bytes) == 0)
                return o;
    return NULL;
}

static const option *find_letter(const command *c, char letter)
{
    for (int t = 0; c->options[t]; t++)
        for (const option *o = c->options[t]; o->kind != OPTION_END; o++)
            if (o->letter && o->letter == letter)
                return o;
    return NULL;
}

static bool takes_value(const option *o)
{
    return o->kind != OPTION_FLAG && o->kind != OPTION_SET;
}

/* Edits (insert, delete, replace, swap of neighbours) between two words of less than 48 bytes. */
static int distance(const char *a, const char *b)
{
    enum { LIMIT = 48 };
    int d[LIMIT + 1][LIMIT + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > LIMIT || m > LIMIT)
        return LIMIT;
    for (size_t i = 0; i <= n; i++)
        d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

/* "lr" are the first letters of "learning-rate". */
static bool is_initials(const char *word, const char *name)
{
    bool starts = true;
    for (; *name; starts = *name == '-', name++)
        if (starts && *word++ != *name)
            return false;
    return *word == '\0';
}

const char *options_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    int least = 3; /* more edits than 2 are another word */
    for (int i = 0; names[i]; i++) {
        int edits = distance(word, names[i]);
        if (strlen(word) >= 3 && strncmp(word, names[i], strlen(word)) == 0)
            edits = 1;
        if (strlen(word) >= 2 && is_initials(word, names[i]))
            edits = 1;
        if (edits < least && edits < (int)strlen(word)) {
            least = edits;
            best = names[i];
        }
    }
    return best;
}

/* The flag that `word`, without its dashes, may have meant. */
static const char *nearest_flag(const command *c, const char *word)
{
    const char *names[128];
    int n = 0;
    for (int t = 0; c->options[t]; t++)
        for (const option *o = c->options[t]; o->kind != OPTION_END && n < 127; o++)
            if (o->name)
                names[n++] = o->name;
    names[n] = NULL;
    return options_nearest(word, names);
}

static parse_result unknown_flag(const command *c, const char *flag)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(flag, "="), flag);
    const char *nearest = nearest_flag(c, word + strspn(word, "-"));
    if (nearest)
        terminal_usage("unknown flag '%s'; did you mean '--%s'?", word, nearest);
    else
        terminal_usage("unknown flag '%s'; 'loam %s --help' lists the flags", word, c->name);
    return PARSE_BAD;
}

/* ---- values ------------------------------------------------------------------------------- */

static bool is_integer(option_kind kind)
{
    return kind == OPTION_INT || kind == OPTION_INT64 || kind == OPTION_UINT64;
}

static parse_result bad_number(const option *o, const char *text)
{
    terminal_usage("--%s %s: expected a %snumber from %.10g to %.10g", o->name,
                   text[0] ? text : "''", is_integer(o->kind) ? "whole " : "", o->least, o->most);
    return PARSE_BAD;
}

/* Numbers begin with a digit, a sign or a point: strtod would take "nan", "inf" and spaces too. */
static bool begins_number(const char *text)
{
    return isdigit((unsigned char)text[0]) || text[0] == '-' || text[0] == '+' || text[0] == '.';
}

static parse_result set_unsigned(const option *o, const char *text, void *at)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno) {
        terminal_usage("--%s %s: expected a whole number from 0 to %llu", o->name,
                       text[0] ? text : "''", (unsigned long long)UINT64_MAX);
        return PARSE_BAD;
    }
    uint64_t stored = value;
    memcpy(at, &stored, sizeof stored);
    return PARSE_RUN;
}

static parse_result set_integer(const option *o, const char *text, void *at)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!begins_number(text) || end == text || *end || errno || (double)value < o->least ||
        (double)value > o->most)
        return bad_number(o, text);
    int narrow = (int)value;
    int64_t wide = value;
    if (o->kind == OPTION_INT)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &wide, sizeof wide);
    return PARSE_RUN;
}

static parse_result set_real(const option *o, const char *text, void *at)
{
    char *end;
    double value = strtod(text, &end);
    if (!begins_number(text) || end == text || *end || !(value >= o->least && value <= o->most))
        return bad_number(o, text);
    float narrow = (float)value;
    if (o->kind == OPTION_FLOAT)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
    return PARSE_RUN;
}

static parse_result set_choice(const option *o, const char *text, void *at)
{
    const char *p = o->choices;
    for (int index = 0;; index++) {
        size_t n = strcspn(p, "|");
        if (strlen(text) == n && memcmp(p, text, n) == 0) {
            memcpy(at, &index, sizeof index);
            return PARSE_RUN;
        }
        if (p[n] == '\0')
            break;
        p += n + 1;
    }
    terminal_usage("--%s '%s': expected one of %s", o->name, text, o->choices);
    return PARSE_BAD;
}

static parse_result set_value(const option *o, const char *text, void *s)
{
    void *at = (char *)s + o->offset;
    switch (o->kind) {
    case OPTION_TEXT:
    case OPTION_CONFIG:
        if (text[0] == '\0') {
            terminal_usage("--%s: the value is empty; expected %s", o->name, o->value);
            return PARSE_BAD;
        }
        memcpy(at, &text, sizeof text);
        return PARSE_RUN;
    case OPTION_CHOICE:
        return set_choice(o, text, at);
    case OPTION_UINT64:
        return set_unsigned(o, text, at);
    case OPTION_INT:
    case OPTION_INT64:
        return set_integer(o, text, at);
    default:
        return set_real(o, text, at);
    }
}

static void set_flag(const option *o, void *s)
{
    void *at = (char *)s + o->offset;
    int value = (int)o->least;
    bool yes = true;
    if (o->kind == OPTION_FLAG)
        memcpy(at, &yes, sizeof yes);
    else
        memcpy(at, &value, sizeof value);
}

/* ---- arguments ---------------------------------------------------------------------------- */

typedef struct parser {
    const command *c;
    int argc;
    char **argv;
    int i; /* the next argument */
    void *s;
    const option *seen[64];
    int n_seen;
} parser;

/* Two flags with one place for their value would leave one of them without effect. */
static parse_result check_once(parser *p, const option *o)
{
    for (int i = 0; i < p->n_seen; i++) {
        if (p->seen[i]->offset != o->offset || (!takes_value(o) && p->seen[i] == o))
            continue;
        if (p->seen[i] == o)
            terminal_usage("--%s is given twice", o->name);
        else
            terminal_usage("--%s and --%s set the same thing; give one of them", p->seen[i]->name,
                           o->name);
        return PARSE_BAD;
    }
    if (p->n_seen < (int)(sizeof p->seen / sizeof p->seen[0]))
        p->seen[p->n_seen++] = o;
    return PARSE_RUN;
}

/* `inline_value`: what follows in the same argument, or NULL. */
static parse_result take(parser *p, const option *o, const char *inline_value)
{
    parse_result r = check_once(p, o);
    if (r != PARSE_RUN)
        return r;
    if (!takes_value(o)) {
        if (inline_value) {
            terminal_usage("--%s takes no value", o->name);
            return PARSE_BAD;
        }
        set_flag(o, p->s);
        return PARSE_RUN;
    }
    if (!inline_value && p->i >= p->argc) {
        terminal_usage("--%s needs a value: %s", o->name, o->value);
        return PARSE_BAD;
    }
    const char *value = inline_value ? inline_value : p->argv[p->i++];
    /* "--data --rank 8" is a forgotten value; a text that begins with dashes is given with "=". */
    if (!inline_value && value[0] == '-' && value[1] == '-' && value[2]) {
        terminal_usage("--%s needs a value: %s (a value that begins with '--' is given as "
                       "--%s=VALUE)",
                       o->name, o->value, o->name);
        return PARSE_BAD;
    }
    return set_value(o, value, p->s);
}

static parse_result take_argument(parser *p, const char *word)
{
    if (word[1] == '-') {
        const char *name = word + 2;
        const char *equals = strchr(name, '=');
        size_t n = equals ? (size_t)(equals - name) : strlen(name);
        const option *o = find_name(p->c, name, n);
        return o ? take(p, o, equals ? equals + 1 : NULL) : unknown_flag(p->c, word);
    }
    const option *o = find_letter(p->c, word[1]);
    if (!o)
        return unknown_flag(p->c, word);
    const char *rest = word + 2;
    if (rest[0] == '=')
        rest++;
    return take(p, o, rest[0] ? rest : NULL);
}

/* ---- configuration files ------------------------------------------------------------------ */

static double number_at(const option *o, const void *s)
{
    const char *at = (const char *)s + o->offset;
    int i;
    int64_t wide;
    uint64_t natural;
    float f;
    double d;
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_CHOICE:
        memcpy(&i, at, sizeof i);
        return i;
    case OPTION_INT64:
        memcpy(&wide, at, sizeof wide);
        return (double)wide;
    case OPTION_UINT64:
        memcpy(&natural, at, sizeof natural);
        return (double)natural;
    case OPTION_FLOAT:
        memcpy(&f, at, sizeof f);
        return f;
    case OPTION_DOUBLE:
        memcpy(&d, at, sizeof d);
        return d;
    default:
        return NAN;
    }
}

static void choice_text(const option *o, int index, char *text, size_t n_bytes)
{
    const char *p = o->choices;
    for (int i = 0; i < index; i++)
        p += strcspn(p, "|") + 1;
    snprintf(text, n_bytes, "%.*s", (int)strcspn(p, "|"), p);
}

static bool was_given(const parser *p, const option *o)
{
    for (int i = 0; i < p->n_seen; i++)
        if (p->seen[i]->offset == o->offset)
            return true;
    return false;
}

static parse_result unknown_key(const command *c, const char *path, const char *key)
{
    const char *nearest = nearest_flag(c, key);
    if (nearest)
        terminal_usage("'%s': unknown key '%s'; did you mean '%s'?", path, key, nearest);
    else
        terminal_usage("'%s': unknown key '%s'; the keys are the flags of 'loam %s --help', and "
                       "'model'",
                       path, key, c->name);
    return PARSE_BAD;
}

static parse_result apply(parser *p, const char *path, const config_entry *entry)
{
    const option *o = find_name(p->c, entry->key, strlen(entry->key));
    if (!o || o->kind == OPTION_CONFIG)
        return unknown_key(p->c, path, entry->key);
    if (was_given(p, o))
        return PARSE_RUN;
    if (takes_value(o))
        return set_value(o, entry->value, p->s);
    bool yes = strcmp(entry->value, "true") == 0;
    if (!yes && strcmp(entry->value, "false") != 0) {
        terminal_usage("'%s': %s is '%s'; expected true or false", path, entry->key, entry->value);
        return PARSE_BAD;
    }
    if (yes)
        set_flag(o, p->s);
    return PARSE_RUN;
}

/* The file of the command's configuration flag, where one is given. */
static parse_result read_config(parser *p, const char *operands[OPTIONS_MAX_OPERANDS + 1], int *n)
{
    for (int t = 0; p->c->options[t]; t++)
        for (const option *o = p->c->options[t]; o->kind != OPTION_END; o++) {
            const char *path = NULL;
            if (o->kind == OPTION_CONFIG)
                memcpy(&path, (const char *)p->s + o->offset, sizeof path);
            if (!path)
                continue;
            const config_entry *entries;
            int n_entries = config_read(path, &entries);
            if (n_entries < 0)
                return PARSE_BAD;
            for (int i = 0; i < n_entries; i++) {
                parse_result r = PARSE_RUN;
                if (strcmp(entries[i].key, "model") != 0)
                    r = apply(p, path, &entries[i]);
                else if (*n == 0)
                    operands[(*n)++] = entries[i].value;
                if (r != PARSE_RUN)
                    return r;
            }
        }
    return PARSE_RUN;
}

/* The fewest digits that are read as the same number again. */
static void shortest_text(double value, bool is_float, char *text, size_t n_bytes)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, n_bytes, "%.*g", digits, value);
        double again = strtod(text, NULL);
        if (again == value || (is_float && (float)again == (float)value))
            return;
    }
}

static bool write_entry(FILE *to, const option *o, const void *s)
{
    const char *at = (const char *)s + o->offset, *text;
    char number[64], default_text[160];
    uint64_t natural;
    bool yes;
    switch (o->kind) {
    case OPTION_TEXT:
        memcpy(&text, at, sizeof text);
        return !text || config_write_text(to, o->name, text);
    case OPTION_FLAG:
        memcpy(&yes, at, sizeof yes);
        return fprintf(to, "%s: %s\n", o->name, yes ? "true" : "false") > 0;
    case OPTION_CHOICE:
        choice_text(o, (int)number_at(o, s), default_text, sizeof default_text);
        return fprintf(to, "%s: %s\n", o->name, default_text) > 0;
    case OPTION_UINT64:
        memcpy(&natural, at, sizeof natural);
        snprintf(number, sizeof number, "%llu", (unsigned long long)natural);
        break;
    default:
        shortest_text(number_at(o, s), o->kind == OPTION_FLOAT, number, sizeof number);
    }
    return fprintf(to, "%s: %s\n", o->name, number) > 0;
}

/* Two flags of one value are written once, under the first name. */
static bool is_written(const command *c, const option *o)
{
    if (!o->name || o->once || o->kind == OPTION_SET || o->kind == OPTION_CONFIG)
        return false;
    for (int t = 0; c->options[t]; t++)
        for (const option *x = c->options[t]; x->kind != OPTION_END; x++) {
            if (x == o)
                return true;
            if (x->name && x->offset == o->offset)
                return false;
        }
    return true;
}

bool options_write_config(const command *c, const char *path, const char *operand, const void *s)
{
    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.tmp", path) >= (int)sizeof beside) {
        errno = ENAMETOOLONG;
        return false;
    }
    FILE *to = fopen(beside, "wb");
    if (!to)
        return false;
    bool fine = fprintf(to, "# loam %s -c of this file does the same again\n", c->name) > 0 &&
                config_write_text(to, "model", operand);
    for (int t = 0; c->options[t]; t++)
        for (const option *o = c->options[t]; o->kind != OPTION_END; o++)
            if (is_written(c, o))
                fine = fine && write_entry(to, o, s);
    fine = fclose(to) == 0 && fine;
    return fine && rename(beside, path) == 0;
}

static parse_result check_operands(const command *c, int n, const char *const *operands)
{
    if (n < c->n_operands) {
        terminal_usage("%s is missing; usage: loam %s %s%s", c->operands, c->name, c->operands,
                       c->needs);
        return PARSE_BAD;
    }
    if (n > c->n_operands) {
        terminal_usage("'%s' is one argument too many; usage: loam %s %s%s",
                       operands[c->n_operands], c->name, c->operands, c->needs);
        return PARSE_BAD;
    }
    return PARSE_RUN;
}

parse_result options_parse(const command *c, int argc, char **argv, void *s,
                           const char *operands[OPTIONS_MAX_OPERANDS + 1])
{
    parser p = {.c = c, .argc = argc, .argv = argv, .s = s};
    bool only_operands = false;
    int n = 0;
    while (p.i < argc) {
        const char *word = argv[p.i++];
        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            return PARSE_HELP;
        } else if (!only_operands && word[0] == '-' && word[1]) {
            parse_result r = take_argument(&p, word);
            if (r != PARSE_RUN)
                return r;
        } else if (n < OPTIONS_MAX_OPERANDS) {
            operands[n++] = word;
        }
    }
    parse_result r = read_config(&p, operands, &n);
    operands[n] = NULL;
    return r == PARSE_RUN ? check_operands(c, n, operands) : r;
}

void *options_defaults(const command *c)
{
    void *s = calloc(1, c->settings_bytes);
    if (!s) {
        terminal_warn("no memory");
        exit(EXIT_FAILED);
    }
    c->set_defaults(s);
    return s;
}

/* ---- help --------------------------------------------------------------------------------- */

void options_default_text(const option *o, const void *s, char *text, size_t n_bytes)
{
    double value = number_at(o, s);
    text[0] = '\0';
    if (isnan(value))
        return;
    if (o->kind == OPTION_CHOICE) {
        char choice[64];
        choice_text(o, (int)value, choice, sizeof choice);
        snprintf(text, n_bytes, " (%s; default: %s)", o->choices, choice);
    } else if (value == 0 && o->zero) {
        snprintf(text, n_bytes, " (default: %s)", o->zero);
    } else {
        snprintf(text, n_bytes, " (default: %.6g)", value);
    }
}

/* Words from column `indent` on, at most 79 columns wide; the first line stands there already. */
static void print_wrapped(FILE *to, const char *text, int indent)
{
    int column = indent;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column > indent && column + 1 + n > 79) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

static void print_option(FILE *to, const option *o, const void *s)
{
    enum { INDENT = 30 };
    char left[80], right[512], default_text[160];
    if (o->kind == OPTION_HEADING) {
        fprintf(to, "\n%s:\n", o->help);
        return;
    }
    char letter[5] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    options_default_text(o, s, default_text, sizeof default_text);
    snprintf(right, sizeof right, "%s%s", o->help, default_text);
    if (strlen(left) > INDENT - 2)
        fprintf(to, "%s\n%*s", left, INDENT, "");
    else
        fprintf(to, "%-*s", INDENT, left);
    print_wrapped(to, right, INDENT);
}

void options_help(const command *c, FILE *to)
{
    void *s = options_defaults(c);
    fprintf(to, "Usage: loam %s%s%s%s [flags]\n\n", c->name, c->operands[0] ? " " : "", c->operands,
            c->needs);
    const char *paragraph = c->about;
    while (*paragraph) {
        size_t n = strcspn(paragraph, "\n");
        char text[1024];
        snprintf(text, sizeof text, "%.*s", (int)n, paragraph);
        print_wrapped(to, text, 0);
        paragraph += n + (paragraph[n] == '\n');
        if (*paragraph)
            fputc('\n', to);
    }
    for (int t = 0; c->options[t]; t++)
        for (const option *o = c->options[t]; o->kind != OPTION_END; o++)
            print_option(to, o, s);
    fprintf(to, "  -h, --help                  this text\n");
    fprintf(to, "\nExamples:\n");
    for (const char *line = c->examples; *line;) {
        size_t n = strcspn(line, "\n");
        fprintf(to, "  %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    free(s);
}
