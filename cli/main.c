/* main.c: picks the command. */
#include "options.h"
#include "terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND(name) extern const command command_##name;
#include "command_list.h"
#undef COMMAND

const command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "command_list.h"
#undef COMMAND
    NULL,
};

static const command *find_command(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[64];
    int n = 0;
    for (; commands[n] && n < 63; n++)
        names[n] = commands[n]->name;
    names[n] = NULL;
    const char *nearest = options_nearest(name, names);
    if (nearest)
        return terminal_usage("unknown command '%s'; did you mean 'loam %s'?", name, nearest);
    return terminal_usage("unknown command '%s'; 'loam --help' lists the commands", name);
}

static void print_overview(FILE *to)
{
    fprintf(to, "Usage: loam COMMAND [flags]\n\n"
                "Trains LoRA adapters on quantized GGUF models.\n\nCommands:\n");
    for (int i = 0; commands[i]; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n  loam COMMAND --help    the flags of a command\n"
                "  loam help COMMAND      the same\n"
                "  loam help --man        the manual page, as docs/loam.1\n"
                "  loam --version         version, libraries, devices, architectures\n\n"
                "Exit status: 0 fine, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C after "
                "saving.\n");
}

static void print_version(void)
{
    printf("loam %s\n%s", loam_version(), loam_build_info());
    printf("architectures:");
    const char *const *names = loam_architecture_list();
    for (int i = 0; names[i]; i++)
        printf("%s %s", i ? "," : "", names[i]);
    printf("\n");
}

static int help(int argc, char **argv)
{
    if (argc == 0) {
        print_overview(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[0], "--man") == 0) {
        manual_print(stdout);
        return EXIT_OK;
    }
    const command *c = find_command(argv[0]);
    if (!c)
        return unknown_command(argv[0]);
    options_help(c, stdout);
    return EXIT_OK;
}

static int run_command(const command *c, int argc, char **argv)
{
    const char *operands[OPTIONS_MAX_OPERANDS + 1];
    void *s = options_defaults(c);
    int status = EXIT_OK;
    terminal_set_command(c->name);
    switch (options_parse(c, argc, argv, s, operands)) {
    case PARSE_HELP:
        options_help(c, stdout);
        break;
    case PARSE_BAD:
        status = EXIT_USAGE;
        break;
    case PARSE_RUN:
        terminal_set_quiet(((const settings *)s)->quiet);
        status = c->run(s, operands);
        break;
    }
    free(s);
    return status;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        print_version();
        return EXIT_OK;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return help(argc - 2, argv + 2);
    if (word[0] == '-')
        return terminal_usage("unknown flag '%s'; flags follow a command: loam COMMAND [flags]",
                              word);
    const command *c = find_command(word);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(word);
}

int main(int argc, char **argv)
{
    /* A reader that goes away shows as a failed write, not as the end of a training run. */
    signal(SIGPIPE, SIG_IGN);
    return terminal_finish(dispatch(argc, argv));
}
