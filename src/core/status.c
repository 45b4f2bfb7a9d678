/* status.c: the first failure's message, the names of statuses, and the version. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#define STRINGIZE_(x) #x
#define STRINGIZE(x) STRINGIZE_(x)

/* Names from files end up in messages and so on terminals: control characters become '?'. */
static void make_printable(char *message)
{
    for (unsigned char *p = (unsigned char *)message; *p; p++) {
        if ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
            *p = '?';
    }
}

/* A message that did not fit ends in "..." and not in the middle of a UTF-8 sequence. */
static void mark_cut(char message[LOAM_MESSAGE_BYTES])
{
    size_t end = LOAM_MESSAGE_BYTES - 4;
    while (end > 0 && ((unsigned char)message[end] & 0xc0) == 0x80)
        end--;
    memcpy(message + end, "...", 4);
}

loam_status loam_fail(loam_error *e, loam_status status, const char *format, ...)
{
    if (!e || e->status != LOAM_OK)
        return status;
    e->status = status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    if (n < 0)
        e->message[0] = 0;
    else if ((size_t)n >= sizeof e->message)
        mark_cut(e->message);
    make_printable(e->message);
    return status;
}

_Noreturn void loam_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "loam: internal error at %s:%d: %s does not hold\n", file, line, condition);
    fflush(stderr);
    abort();
}

const char *loam_status_name(loam_status status)
{
    switch (status) {
    case LOAM_OK:
        return "ok";
    case LOAM_E_USAGE:
        return "usage";
    case LOAM_E_IO:
        return "io";
    case LOAM_E_FORMAT:
        return "format";
    case LOAM_E_UNSUPPORTED:
        return "unsupported";
    case LOAM_E_DATA:
        return "data";
    case LOAM_E_MEMORY:
        return "memory";
    case LOAM_E_DEVICE:
        return "device";
    case LOAM_E_DIVERGED:
        return "diverged";
    case LOAM_E_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

const char *loam_version(void)
{
    return STRINGIZE(LOAM_VERSION_MAJOR) "." STRINGIZE(LOAM_VERSION_MINOR) "." STRINGIZE(
        LOAM_VERSION_PATCH);
}

bool loam_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool loam_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
