/* terminal.h: everything that the program prints: lines, one live line, warnings, errors. */
#ifndef LOAM_CLI_TERMINAL_H
#define LOAM_CLI_TERMINAL_H

#include "loam.h"

/* Messages begin with "loam NAME: " from now on; NULL: "loam: ". */
void terminal_set_command(const char *name);
/* With quiet, terminal_line and terminal_live print nothing. */
void terminal_set_quiet(bool quiet);

/* True where stdout is a terminal whose last line can be drawn again. */
bool terminal_is_live(void);
/* Columns of the terminal, 80 where that is not known. */
int terminal_columns(void);

/* A line on stdout; the live line makes room for it. The newline is added. */
void terminal_line(const char *format, ...) LOAM_PRINTF(1, 2);
/* Draws the live line (at most the terminal's columns), replacing the one before. Nothing where
 * stdout is not a terminal. */
void terminal_live(const char *text);
void terminal_clear_live(void);
/* Bytes on stdout as they are, and flushed; false where nobody takes them any more. */
bool terminal_write(const char *bytes, size_t n_bytes);

/* One line on stderr: control characters become '?', so that it stays one line. */
void terminal_warn(const char *format, ...) LOAM_PRINTF(1, 2);
/* Prints a library error as one line and returns the exit status that belongs to it. */
int terminal_error(const loam_error *e);
/* The same for a mistake in the arguments: returns EXIT_USAGE. */
int terminal_usage(const char *format, ...) LOAM_PRINTF(1, 2);

/* False where a write to stdout failed: the reader has gone, or the disk is full. */
bool terminal_is_open(void);
/* Flushes stdout. A reader that has gone (head, a pager) is no failure; a full disk is: then a
 * line is printed and the status becomes EXIT_FAILED. Returns the exit status. */
int terminal_finish(int exit_status);

/* "\033[1m" ... on a terminal that shows colours, else "". NO_COLOR turns them off. */
typedef enum style { STYLE_NONE, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD } style;
const char *terminal_style(style s);

/* ---- interruption ------------------------------------------------------------------------- */

/* From now on the first SIGINT or SIGTERM only asks to stop (and says so on stderr); the second
 * ends the process at once. */
void terminal_catch_signals(void);

/* The signal that asked to stop, or 0. */
int terminal_signal(void);

#endif /* LOAM_CLI_TERMINAL_H */
