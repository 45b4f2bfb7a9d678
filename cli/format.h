/* format.h: sizes, times and counts as people read them. */
#ifndef LOAM_CLI_FORMAT_H
#define LOAM_CLI_FORMAT_H

#include "loam.h"

typedef struct short_text {
    char text[40];
} short_text;

short_text format_bytes(int64_t bytes);     /* "1.25 GiB" */
short_text format_count(int64_t n);         /* "29.1 M" */
short_text format_duration(double seconds); /* "4.2 s", "1 min 05 s", "2 h 03 min" */
short_text format_clock(double seconds);    /* "0:42", "1:02:03" */

/* A path as a word of a shell command: quoted where it must be. The caller frees it; NULL when
 * memory ran out. */
char *format_shell_word(const char *path);

/* "FILE" or "FILE=0.5": the path in `path` (n_bytes), the scale or 1. False where the path is too
 * long. A name whose own end is "=number" needs "=1" behind it. */
bool format_split_scale(const char *spec, char *path, size_t n_bytes, float *scale);

#endif /* LOAM_CLI_FORMAT_H */
