/* manual.c: docs/loam.1, the manual page, from the tables that --help prints (man(7) macros). */
#include "options.h"

#include <stdlib.h>
#include <string.h>

/* Text as roff: hyphens that are typed stay hyphens, nothing is taken for a request. */
static void print_text(FILE *to, const char *text, size_t n)
{
    if (n > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", to);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else if (text[i] == '\'')
            fputs("\\(aq", to);
        else
            fputc(text[i], to);
    }
}

static void print_line(FILE *to, const char *text)
{
    print_text(to, text, strlen(text));
    fputc('\n', to);
}

static void print_paragraphs(FILE *to, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        fputs(".PP\n", to);
        print_text(to, text, n);
        fputc('\n', to);
        text += n + (text[n] == '\n');
    }
}

static void print_option(FILE *to, const option *o, const void *s)
{
    char default_text[160];
    if (o->kind == OPTION_HEADING) {
        fprintf(to, ".SS ");
        print_line(to, o->help);
        return;
    }
    fputs(".TP\n.B ", to);
    if (o->letter)
        fprintf(to, "\\-%c\\fR, \\fB", o->letter);
    fputs("\\-\\-", to);
    print_text(to, o->name, strlen(o->name));
    if (o->value)
        fprintf(to, " \\fI%s", o->value);
    fputs("\\fR\n", to);
    options_default_text(o, s, default_text, sizeof default_text);
    print_text(to, o->help, strlen(o->help));
    print_line(to, default_text);
}

static void print_command(FILE *to, const command *c)
{
    void *s = options_defaults(c);
    fprintf(to, ".SH LOAM ");
    for (const char *p = c->name; *p; p++)
        fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, to);
    fprintf(to, "\n.B loam %s\\fR", c->name);
    fprintf(to, "%s%s", c->operands[0] ? " " : "", c->operands);
    print_text(to, c->needs, strlen(c->needs));
    fprintf(to, " [flags]\n");
    print_paragraphs(to, c->about);
    for (int t = 0; c->options[t]; t++)
        for (const option *o = c->options[t]; o->kind != OPTION_END; o++)
            print_option(to, o, s);
    fprintf(to, ".SS Examples\n.EX\n");
    for (const char *line = c->examples; *line;) {
        size_t n = strcspn(line, "\n");
        print_text(to, line, n);
        fputc('\n', to);
        line += n + (line[n] == '\n');
    }
    fprintf(to, ".EE\n");
    free(s);
}

static void print_head(FILE *to)
{
    fprintf(to,
            ".\\\" Written by: loam help --man > docs/loam.1\n"
            ".TH LOAM 1 \"\" \"loam %s\" \"User Commands\"\n"
            ".SH NAME\nloam \\- train LoRA adapters on quantized GGUF models\n"
            ".SH SYNOPSIS\n",
            loam_version());
    for (int i = 0; commands[i]; i++) {
        fprintf(to, "%s.B loam %s\\fR%s%s", i > 0 ? ".br\n" : "", commands[i]->name,
                commands[i]->operands[0] ? " " : "", commands[i]->operands);
        print_text(to, commands[i]->needs, strlen(commands[i]->needs));
        fprintf(to, " [flags]\n");
    }
    fprintf(to, ".br\n.B loam help \\fR[\\fICOMMAND\\fR]\n"
                ".br\n.B loam \\-\\-version\n"
                ".SH DESCRIPTION\n"
                "Loam trains LoRA adapters on the quantized GGUF model that a machine already "
                "runs.\nThe model file stays as it is; forward and backward go through the "
                "quantized weights.\nThe adapter is a GGUF file that llama.cpp, Ollama and LM "
                "Studio load.\n"
                ".PP\nA flag is followed by its value, or joined to it by an equals sign; "
                "\\fB\\-\\-\\fR ends the flags.\n"
                ".PP\n.B loam help \\fICOMMAND\\fR and\n.B loam \\fICOMMAND\\fB \\-\\-help\\fR\n"
                "print what this page says of a command.\n"
                ".B loam \\-\\-version\nprints the version, the libraries, the devices and the "
                "architectures of the build.\n");
}

static void print_tail(FILE *to)
{
    static const char text[] =
        ".SH EXIT STATUS\n"
        ".TP\n.B 0\nfine\n"
        ".TP\n.B 1\nfailed; one line on the standard error says why\n"
        ".TP\n.B 2\nwrong usage\n"
        ".TP\n.B 130\\fR, \\fB143\nstopped by Ctrl\\-C or SIGTERM after saving\n"
        ".SH ENVIRONMENT\n"
        ".TP\n.B NO_COLOR\nif set and not empty, no colours on a terminal\n"
        ".TP\n.B COLUMNS\nwidth of the output where the terminal does not tell\n"
        ".SH SEE ALSO\n"
        "README.md and docs/architecture.md in the source of Loam\n";
    fputs(text, to);
}

void manual_print(FILE *to)
{
    print_head(to);
    for (int i = 0; commands[i]; i++)
        print_command(to, commands[i]);
    print_tail(to);
}
