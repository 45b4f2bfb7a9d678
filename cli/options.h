/* options.h: what a command is: its flags in one table, which drives parsing, --help, the manual
 * page and the suggestions for a mistyped flag. */
#ifndef LOAM_CLI_OPTIONS_H
#define LOAM_CLI_OPTIONS_H

#include "loam.h"

#include <stdio.h>

/* Exit statuses. */
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_SIGNAL = 128 /* + the signal's number, after a run that saved what it had */
};

/* Values of flags that several commands share. The settings of every command begin with it. */
typedef struct settings {
    const char *device; /* --device, --compute, --threads */
    int compute;        /* loam_compute */
    int n_threads;
    bool json, quiet;
    const char *lora;       /* --lora FILE[=SCALE] */
    loam_data_options data; /* --max-seq-length, --overlong, --train-on, --format, --skip-bad */
} settings;

typedef enum option_kind {
    OPTION_END,     /* the last entry of a table */
    OPTION_HEADING, /* `help` is the title of the flags that follow */
    OPTION_FLAG,    /* bool: set to true */
    OPTION_SET,     /* int: set to `least` */
    OPTION_TEXT,    /* const char *, not copied */
    OPTION_CHOICE,  /* int: the index among `choices` */
    OPTION_INT,     /* int */
    OPTION_INT64,
    OPTION_UINT64,
    OPTION_FLOAT,
    OPTION_DOUBLE,
    OPTION_CONFIG /* const char *: a file whose keys are names of flags; arguments come before it */
} option_kind;

typedef struct option {
    option_kind kind;
    const char *name;  /* without the dashes */
    char letter;       /* of the short form; 0: none */
    size_t offset;     /* of the value in the command's settings */
    const char *value; /* how --help calls the value: "FILE" */
    const char *help;
    double least, most;  /* of numbers; from both */
    const char *choices; /* "drop|truncate|split" */
    const char *zero;    /* what a number of 0 means, where --help should say that instead */
    bool once;           /* for one call of the program: not written into a configuration */
} option;

typedef struct command {
    const char *name;
    const char *operands;     /* "MODEL.gguf", or "" */
    int n_operands;           /* exactly so many */
    const char *needs;        /* flags that every use has: " --data FILE"; or "" */
    const char *summary;      /* one line without a full stop */
    const char *about;        /* for --help, paragraphs */
    const char *examples;     /* lines, each a command */
    const option *options[6]; /* tables, until the first NULL */
    size_t settings_bytes;
    void (*set_defaults)(void *s); /* `s` is zeroed before */
    /* Returns the exit status. `operands` is NULL-terminated. */
    int (*run)(void *s, const char *const *operands);
} command;

/* Every command, NULL-terminated, in the order of --help (main.c). */
extern const command *const commands[];

/* Tables that commands share. */
extern const option options_of_model[];   /* --device --compute --threads */
extern const option options_of_adapter[]; /* --lora --adapter-path */
extern const option options_of_data[];    /* --max-seq-length --overlong ... */
extern const option options_of_output[];  /* --json --quiet --help */

#define OPTIONS_MAX_OPERANDS 4

typedef enum parse_result {
    PARSE_RUN,  /* go on */
    PARSE_HELP, /* --help was asked for */
    PARSE_BAD   /* a message was printed */
} parse_result;

/* Reads the arguments after the command's name into `s` (settings_bytes, with defaults set).
 * `operands` gets at most OPTIONS_MAX_OPERANDS and a NULL. */
parse_result options_parse(const command *c, int argc, char **argv, void *s,
                           const char *operands[OPTIONS_MAX_OPERANDS + 1]);

/* Writes the settings as a file that the command's OPTION_CONFIG flag reads: "model" is the first
 * operand. It appears whole or not at all; false with errno set where that failed. */
bool options_write_config(const command *c, const char *path, const char *operand, const void *s);

/* A command's settings with their defaults; exits where memory ran out. free() them. */
void *options_defaults(const command *c);

void options_help(const command *c, FILE *to);

/* " (default: 16)" of an option, or "" where there is none to tell. */
void options_default_text(const option *o, const void *s, char *text, size_t n_bytes);

/* The name among `names` (until NULL) that `word` may have meant, or NULL. */
const char *options_nearest(const char *word, const char *const *names);

/* docs/loam.1, written from the same tables (manual.c). */
void manual_print(FILE *to);

#endif /* LOAM_CLI_OPTIONS_H */
