/* format.c: sizes, times and counts as people read them. */
#include "format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static short_text scaled(double value, double step, const char *const *units)
{
    short_text t;
    int u = 0;
    while (fabs(value) >= step && units[u + 1]) {
        value /= step;
        u++;
    }
    int decimals = u == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    snprintf(t.text, sizeof t.text, "%.*f%s", decimals, value, units[u]);
    return t;
}

short_text format_bytes(int64_t bytes)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", NULL};
    return scaled((double)bytes, 1024, units);
}

short_text format_count(int64_t n)
{
    static const char *const units[] = {"", " k", " M", " G", " T", NULL};
    return scaled((double)n, 1000, units);
}

/* Whole seconds of a time that a run may have: garbage and eternities become 0 and 999 days. */
static long long whole_seconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return seconds < 86400 * 999.0 ? llround(seconds) : 86400 * 999LL;
}

short_text format_duration(double seconds)
{
    short_text t;
    long long s = whole_seconds(seconds);
    if (s < 60)
        snprintf(t.text, sizeof t.text, "%.1f s", seconds > 0 ? seconds : 0.0);
    else if (s < 3600)
        snprintf(t.text, sizeof t.text, "%lld min %02lld s", s / 60, s % 60);
    else
        snprintf(t.text, sizeof t.text, "%lld h %02lld min", s / 3600, s / 60 % 60);
    return t;
}

short_text format_clock(double seconds)
{
    short_text t;
    long long s = whole_seconds(seconds);
    if (s < 3600)
        snprintf(t.text, sizeof t.text, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(t.text, sizeof t.text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return t;
}

char *format_shell_word(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./+:@%,";
    size_t n = strlen(path);
    char *word = malloc(4 * n + 3);
    if (!word)
        return NULL;
    if (n > 0 && strspn(path, plain) == n) {
        memcpy(word, path, n + 1);
        return word;
    }
    char *p = word;
    *p++ = '\'';
    for (; *path; path++) {
        if (*path == '\'') {
            memcpy(p, "'\\''", 4);
            p += 4;
        } else {
            *p++ = *path;
        }
    }
    *p++ = '\'';
    *p = '\0';
    return word;
}

bool format_split_scale(const char *spec, char *path, size_t n_bytes, float *scale)
{
    size_t n = strlen(spec);
    const char *equals = strrchr(spec, '=');
    *scale = 1;
    if (equals && equals > spec) {
        char *end;
        float value = strtof(equals + 1, &end);
        if (end > equals + 1 && *end == '\0' && isfinite(value)) {
            *scale = value;
            n = (size_t)(equals - spec);
        }
    }
    if (n >= n_bytes)
        return false;
    memcpy(path, spec, n);
    path[n] = '\0';
    return true;
}
