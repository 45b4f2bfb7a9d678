/* core.h: status and message, memory, arenas, strings, threads, random numbers, files.
 * Everything else in Loam stands on this folder; it includes nothing of Loam but loam.h. */
#ifndef LOAM_CORE_H
#define LOAM_CORE_H

#include "loam.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- status (status.c) -------------------------------------------------------------------- */

/* Writes `status` and the formatted message into `e` unless it already holds one (the first one
 * wins), and returns `status`. `e` may be NULL. */
loam_status loam_fail(loam_error *e, loam_status status, const char *format, ...) LOAM_PRINTF(3, 4);

/* Forwards a failure: LOAM_TRY(loam_gguf_open(...)); */
#define LOAM_TRY(call)                                                                             \
    do {                                                                                           \
        loam_status try_status_ = (call);                                                          \
        if (try_status_ != LOAM_OK)                                                                \
            return try_status_;                                                                    \
    } while (0)

/* For Loam's own bugs only, never for input: prints the place and aborts, in every build. */
#define LOAM_ASSERT(condition)                                                                     \
    ((condition) ? (void)0 : loam_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void loam_assert_failed(const char *condition, const char *file, int line);

#define LOAM_MIN(a, b) ((a) < (b) ? (a) : (b))
#define LOAM_MAX(a, b) ((a) > (b) ? (a) : (b))
#define LOAM_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Overflow-safe size arithmetic: false where the result does not fit. */
bool loam_size_mul(size_t a, size_t b, size_t *out);
bool loam_size_add(size_t a, size_t b, size_t *out);

/* ---- memory (memory.c) -------------------------------------------------------------------- */

/* All of Loam's heap memory comes from here, so that tests can make the Nth allocation fail.
 * loam_alloc returns zeroed memory aligned to 64 bytes, or NULL; loam_alloc(0) is a valid
 * pointer. loam_realloc keeps the first min(old, new) bytes; new bytes are not zeroed, and the
 * result is aligned to 16 bytes only. When it fails the old memory stays valid. */
void *loam_alloc(size_t bytes);
void *loam_realloc(void *p, size_t bytes);
void loam_free(void *p);
char *loam_strdup(const char *s);

/* Tests: after `n` further allocations succeed, every one fails until called with n < 0. */
void loam_alloc_fail_after(int64_t n);

/* ---- arena (memory.c) --------------------------------------------------------------------- */

/* A bump allocator: many small objects, one release. Zeroed, 16-byte aligned, stable addresses. */
typedef struct loam_arena loam_arena;
loam_arena *loam_arena_new(void);                    /* NULL when memory ran out */
void *loam_arena_alloc(loam_arena *a, size_t bytes); /* NULL when memory ran out */
char *loam_arena_strdup(loam_arena *a, const char *s);
void loam_arena_free(loam_arena *a); /* NULL is fine */

/* ---- growing strings (string.c) ----------------------------------------------------------- */

/* A byte string that grows; always NUL-terminated once anything was appended. Start from {0}.
 * A failed append sets `failed` and leaves the contents as they were; check it once at the end. */
typedef struct loam_string {
    char *data;
    size_t length_bytes;
    size_t capacity_bytes;
    bool failed;
} loam_string;
void loam_string_append(loam_string *s, const char *bytes, size_t n_bytes);
void loam_string_puts(loam_string *s, const char *text);
void loam_string_printf(loam_string *s, const char *format, ...) LOAM_PRINTF(2, 3);
void loam_string_clear(loam_string *s); /* length 0, memory kept */
void loam_string_free(loam_string *s);

/* ---- threads (pool.c) --------------------------------------------------------------------- */

/* A fixed set of threads; the caller is one of them. loam_pool_run calls task(context, i, worker)
 * once for every i in [0, n_tasks) in no stated order and returns when all are done. Results must
 * not depend on which worker (0 .. size-1) runs which task: cut work into pieces whose size does
 * not depend on the number of threads, and give each piece its own output. */
typedef struct loam_pool loam_pool;
typedef void (*loam_task)(void *context, int64_t i, int worker);
loam_status loam_pool_create(int n_threads, loam_pool **out, loam_error *e); /* n <= 0: all cores */
int loam_pool_size(const loam_pool *p);
void loam_pool_run(loam_pool *p, int64_t n_tasks, loam_task task, void *context);
void loam_pool_free(loam_pool *p);
int loam_cpu_count(void);

/* Holds back all signals of the calling thread but its own faults, until released with the mask
 * that was in force before. Around computing that a signal handler must not interrupt. */
void loam_signals_hold(sigset_t *before);
void loam_signals_release(const sigset_t *before);

/* ---- random numbers (rng.c) --------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea, Flood 2014). One stream per (seed, name), so that same-shaped tensors
 * do not start alike; the state is one integer and goes into checkpoints as it is. */
typedef struct loam_rng {
    uint64_t state;
} loam_rng;
loam_rng loam_rng_stream(uint64_t seed, const char *name);
uint64_t loam_rng_next(loam_rng *r);
double loam_rng_uniform(loam_rng *r);             /* [0, 1), 53 bits */
double loam_rng_normal(loam_rng *r);              /* mean 0, variance 1; two draws a call */
uint64_t loam_rng_below(loam_rng *r, uint64_t n); /* [0, n), unbiased; n > 0 */

/* ---- hash (hash.c) ------------------------------------------------------------------------ */

/* XXH3-64 of bytes (libxxhash); for provenance and caches, not for security. */
uint64_t loam_hash(const void *bytes, size_t n_bytes, uint64_t seed);

/* ---- files (file.c) ----------------------------------------------------------------------- */

/* A whole file mapped read-only (private). Directories, empty files and devices are refused. */
typedef struct loam_map {
    const uint8_t *data;
    size_t bytes;
    int fd;
} loam_map;
loam_status loam_map_open(const char *path, loam_map *out, loam_error *e);
void loam_map_close(loam_map *m);

/* A whole file read into memory, NUL-terminated past its end; loam_free() it. Refuses files
 * larger than max_bytes. */
loam_status loam_read_file(const char *path, size_t max_bytes, char **data, size_t *n_bytes,
                           loam_error *e);

/* A file that appears whole or not at all: bytes go to a file beside `path`, commit() syncs and
 * renames it over `path`, discard() removes it. Exactly one of the two ends it; both free it, a
 * commit() that fails too (the file that stood at `path` is then untouched). Symbolic links are
 * followed. Errors name the path, the system's reason and, for writes, how many bytes. */
typedef struct loam_file_writer loam_file_writer;
loam_status loam_file_writer_open(const char *path, loam_file_writer **out, loam_error *e);
loam_status loam_file_writer_write(loam_file_writer *w, const void *bytes, size_t n_bytes,
                                   loam_error *e);
loam_status loam_file_writer_commit(loam_file_writer *w, loam_error *e);
void loam_file_writer_discard(loam_file_writer *w); /* NULL is fine */

/* ---- clock (clock.c) ---------------------------------------------------------------------- */

double loam_now_ms(void);         /* monotonic */
size_t loam_peak_rss_bytes(void); /* this process's largest resident set so far */

#endif /* LOAM_CORE_H */
