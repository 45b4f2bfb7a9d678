/* terminal.c: printing, and the signals that end a run. */
#include "terminal.h"
#include "options.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
    const char *command;
    bool quiet;
    bool has_live;   /* the cursor stands in a live line */
    int write_error; /* errno of the first failed write to stdout */
} terminal;

static volatile sig_atomic_t caught_signal;

void terminal_set_command(const char *name)
{
    terminal.command = name;
}

void terminal_set_quiet(bool quiet)
{
    terminal.quiet = quiet;
}

/* ---- what stdout is ----------------------------------------------------------------------- */

bool terminal_is_live(void)
{
    static int known = -1;
    if (known < 0) {
        const char *term = getenv("TERM");
        known = isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
    }
    return known;
}

int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long n = columns ? strtol(columns, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (int)n : 80;
}

const char *terminal_style(style s)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};
    const char *no_color = getenv("NO_COLOR");
    return terminal_is_live() && !(no_color && no_color[0]) ? codes[s] : "";
}

/* ---- stdout ------------------------------------------------------------------------------- */

static void note_write(bool failed)
{
    if (failed && terminal.write_error == 0)
        terminal.write_error = errno ? errno : EIO;
}

bool terminal_is_open(void)
{
    return terminal.write_error == 0;
}

void terminal_clear_live(void)
{
    if (!terminal.has_live)
        return;
    terminal.has_live = false;
    note_write(fputs("\r\033[K", stdout) < 0 || fflush(stdout) != 0);
}

void terminal_line(const char *format, ...)
{
    if (terminal.quiet || terminal.write_error)
        return;
    terminal_clear_live();
    va_list arguments;
    va_start(arguments, format);
    bool failed = vprintf(format, arguments) < 0;
    va_end(arguments);
    note_write(putchar('\n') == EOF || fflush(stdout) != 0 || failed);
}

void terminal_live(const char *text)
{
    if (terminal.quiet || !terminal_is_live() || terminal.write_error)
        return;
    /* One column stays free: a full line would wrap on some terminals. */
    int columns = terminal_columns() - 1;
    bool failed = printf("\r%.*s\033[K", columns, text) < 0;
    terminal.has_live = true;
    note_write(fflush(stdout) != 0 || failed);
}

bool terminal_write(const char *bytes, size_t n_bytes)
{
    if (terminal.write_error)
        return false;
    note_write(fwrite(bytes, 1, n_bytes, stdout) != n_bytes || fflush(stdout) != 0);
    return terminal.write_error == 0;
}

int terminal_finish(int exit_status)
{
    terminal_clear_live();
    if (!terminal.write_error)
        note_write(fflush(stdout) != 0);
    if (terminal.write_error == 0 || terminal.write_error == EPIPE)
        return exit_status;
    terminal_warn("cannot write to the standard output: %s", strerror(terminal.write_error));
    return exit_status == EXIT_OK ? EXIT_FAILED : exit_status;
}

/* ---- stderr ------------------------------------------------------------------------------- */

static void print_message(const char *format, va_list arguments)
{
    char text[2 * LOAM_MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    terminal_clear_live();
    fprintf(stderr, "loam%s%s: %s\n", terminal.command ? " " : "",
            terminal.command ? terminal.command : "", text);
}

void terminal_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
}

int terminal_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

int terminal_error(const loam_error *e)
{
    const char *text = e->message[0] ? e->message : loam_status_name(e->status);
    terminal_warn("%s", text);
    return e->status == LOAM_E_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

/* ---- interruption ------------------------------------------------------------------------- */

static void on_signal(int number)
{
    static const char text[] =
        "\r\033[Kstopping after this step and saving; a second signal ends it at once\n";
    if (caught_signal)
        _exit(EXIT_SIGNAL + number);
    int saved_errno = errno;
    caught_signal = number;
    /* The first four bytes clear the live line; elsewhere they would only be noise. */
    size_t skip = terminal.has_live ? 0 : 4;
    ssize_t written = write(STDERR_FILENO, text + skip, sizeof text - 1 - skip);
    (void)written; /* nothing can be done about it here */
    errno = saved_errno;
}

void terminal_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int terminal_signal(void)
{
    return caught_signal;
}
