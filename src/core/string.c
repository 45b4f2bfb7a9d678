/* string.c: byte strings that grow. */
#include "core/core.h"

#include <string.h>

/* Makes room for n more bytes and the NUL. */
static bool reserve(loam_string *s, size_t n_bytes)
{
    size_t need;
    if (!loam_size_add(s->length_bytes, n_bytes, &need) || !loam_size_add(need, 1, &need)) {
        s->failed = true;
        return false;
    }
    if (need <= s->capacity_bytes)
        return true;
    size_t capacity = LOAM_MAX(s->capacity_bytes, (size_t)64);
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *data = loam_realloc(s->data, capacity);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->capacity_bytes = capacity;
    return true;
}

void loam_string_append(loam_string *s, const char *bytes, size_t n_bytes)
{
    if (!reserve(s, n_bytes))
        return;
    if (n_bytes > 0)
        memcpy(s->data + s->length_bytes, bytes, n_bytes);
    s->length_bytes += n_bytes;
    s->data[s->length_bytes] = 0;
}

void loam_string_puts(loam_string *s, const char *text)
{
    loam_string_append(s, text, strlen(text));
}

void loam_string_printf(loam_string *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        s->failed = true;
        return;
    }
    if (!reserve(s, (size_t)n))
        return;
    va_start(args, format);
    vsnprintf(s->data + s->length_bytes, (size_t)n + 1, format, args);
    va_end(args);
    s->length_bytes += (size_t)n;
}

void loam_string_clear(loam_string *s)
{
    s->length_bytes = 0;
    if (s->data)
        s->data[0] = 0;
}

void loam_string_free(loam_string *s)
{
    loam_free(s->data);
    *s = (loam_string){0};
}
