/* loam.h: train LoRA adapters on the quantized GGUF model a machine already serves.
 *
 * The whole public interface of libloam. Every function that can fail returns a loam_status
 * (LOAM_OK is 0 everywhere) and, where it takes a loam_error, writes one message that names the
 * file, line or tensor, what was found, what was expected and what to do. The library never
 * prints and never exits. Strings are UTF-8. Handles are not safe to share between threads that
 * call at the same time; different handles are independent.
 */
#ifndef LOAM_H
#define LOAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOAM_VERSION_MAJOR 0
#define LOAM_VERSION_MINOR 1
#define LOAM_VERSION_PATCH 0

#if defined(__GNUC__)
#define LOAM_API __attribute__((visibility("default")))
#define LOAM_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define LOAM_API
#define LOAM_PRINTF(format_at, first_at)
#endif

/* ---- status ------------------------------------------------------------------------------- */

typedef enum loam_status {
    LOAM_OK = 0,
    LOAM_E_USAGE,       /* an option or argument has a value that cannot be meant */
    LOAM_E_IO,          /* the system refused a file operation */
    LOAM_E_FORMAT,      /* a file is not what its format says */
    LOAM_E_UNSUPPORTED, /* a valid input that Loam does not handle (architecture, type, op) */
    LOAM_E_DATA,        /* a data set's line cannot be used */
    LOAM_E_MEMORY,      /* memory of the host or of the device ran out */
    LOAM_E_DEVICE,      /* a device failed */
    LOAM_E_DIVERGED,    /* the loss is no longer a number, or far above where it began */
    LOAM_E_CANCELLED    /* a callback asked to stop */
} loam_status;

#define LOAM_MESSAGE_BYTES 1024

typedef struct loam_error {
    loam_status status;
    char message[LOAM_MESSAGE_BYTES];
} loam_error;

/* A short English name of a status: "usage", "io", ... Static storage. */
LOAM_API const char *loam_status_name(loam_status status);

/* "0.1.0", and one line per library and device the build holds. Static storage. */
LOAM_API const char *loam_version(void);
LOAM_API const char *loam_build_info(void);

#ifdef __cplusplus
}
#endif

#endif /* LOAM_H */
