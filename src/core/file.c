/* file.c: whole files, mapped, read, or written beside and renamed. */
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define MAPS_ARE_GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAPS_ARE_GUARDED 1
#endif
#endif
#ifdef MAPS_ARE_GUARDED
#include <sanitizer/asan_interface.h>
#endif

/* ---- reading ------------------------------------------------------------------------------ */

static loam_status open_for_reading(const char *path, int *fd, struct stat *info, loam_error *e)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return loam_fail(e, LOAM_E_IO, "cannot open '%s': %s", path, strerror(errno));
    if (fstat(*fd, info) != 0) {
        int code = errno;
        close(*fd);
        return loam_fail(e, LOAM_E_IO, "cannot read the size of '%s': %s", path, strerror(code));
    }
    if (S_ISDIR(info->st_mode)) {
        close(*fd);
        return loam_fail(e, LOAM_E_IO, "'%s' is a directory; give the path of a file", path);
    }
    return LOAM_OK;
}

/* A file ends inside its last page. AddressSanitizer builds make reads of the rest of that page an
 * error (they would give zeros) and must take the mark off before the page serves anything else. */
static void guard_tail(const loam_map *m, bool on)
{
#ifdef MAPS_ARE_GUARDED
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t tail = (0 - m->bytes) & (page - 1);
    if (on)
        ASAN_POISON_MEMORY_REGION(m->data + m->bytes, tail);
    else
        ASAN_UNPOISON_MEMORY_REGION(m->data + m->bytes, tail);
#else
    (void)m;
    (void)on;
#endif
}

loam_status loam_map_open(const char *path, loam_map *out, loam_error *e)
{
    *out = (loam_map){.fd = -1};
    int fd;
    struct stat info;
    LOAM_TRY(open_for_reading(path, &fd, &info, e));
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return loam_fail(e, LOAM_E_IO, "'%s' is not a regular file and cannot be mapped", path);
    }
    if (info.st_size == 0) {
        close(fd);
        return loam_fail(e, LOAM_E_FORMAT, "'%s' is empty (0 bytes)", path);
    }
    void *data = MAP_FAILED;
    if ((uintmax_t)info.st_size <= SIZE_MAX)
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    else
        errno = EFBIG;
    if (data == MAP_FAILED) {
        int code = errno;
        close(fd);
        return loam_fail(e, code == ENOMEM ? LOAM_E_MEMORY : LOAM_E_IO,
                         "cannot map the %lld bytes of '%s': %s", (long long)info.st_size, path,
                         strerror(code));
    }
    *out = (loam_map){.data = data, .bytes = (size_t)info.st_size, .fd = fd};
    guard_tail(out, true);
    return LOAM_OK;
}

void loam_map_close(loam_map *m)
{
    if (m->data) {
        guard_tail(m, false);
        munmap((void *)m->data, m->bytes);
        close(m->fd);
    }
    *m = (loam_map){.fd = -1};
}

/* Reads up to `capacity` bytes; fewer only at the end of the file. -1 sets errno. */
static ssize_t read_fully(int fd, char *buffer, size_t capacity)
{
    size_t done = 0;
    while (done < capacity) {
        ssize_t n = read(fd, buffer + done, capacity - done);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Reads to the end whatever the size was said to be: pipes have none, and logs grow. */
static loam_status read_all(int fd, const char *path, size_t size_hint, size_t max_bytes,
                            char **data, size_t *n_bytes, loam_error *e)
{
    size_t capacity = LOAM_MIN(size_hint, max_bytes) + 1;
    size_t length = 0;
    for (;;) {
        char *grown = loam_realloc(*data, capacity + 1);
        if (!grown)
            return loam_fail(e, LOAM_E_MEMORY, "out of memory reading '%s' (%zu bytes)", path,
                             capacity);
        *data = grown;
        ssize_t n = read_fully(fd, *data + length, capacity - length);
        if (n < 0)
            return loam_fail(e, LOAM_E_IO, "cannot read '%s': %s", path, strerror(errno));
        length += (size_t)n;
        if (length > max_bytes)
            return loam_fail(e, LOAM_E_FORMAT, "'%s' is larger than the limit of %zu bytes", path,
                             max_bytes);
        if (length < capacity)
            break;
        capacity = capacity > max_bytes / 2 ? max_bytes + 1 : LOAM_MAX(capacity * 2, (size_t)4096);
    }
    (*data)[length] = 0;
    *n_bytes = length;
    return LOAM_OK;
}

loam_status loam_read_file(const char *path, size_t max_bytes, char **data, size_t *n_bytes,
                           loam_error *e)
{
    *data = NULL;
    *n_bytes = 0;
    max_bytes = LOAM_MIN(max_bytes, (size_t)SSIZE_MAX - 2);
    int fd;
    struct stat info;
    LOAM_TRY(open_for_reading(path, &fd, &info, e));
    size_t size_hint = S_ISREG(info.st_mode) ? (size_t)info.st_size : 4096;
    loam_status status = read_all(fd, path, size_hint, max_bytes, data, n_bytes, e);
    close(fd);
    if (status != LOAM_OK) {
        loam_free(*data);
        *data = NULL;
    }
    return status;
}

/* ---- writing ------------------------------------------------------------------------------ */

struct loam_file_writer {
    int fd;
    bool failed;
    uint64_t written_bytes;
    char *path;      /* as given, for messages */
    char *target;    /* `path` with symbolic links followed: what the rename replaces */
    char *directory; /* of the target */
    char *temporary; /* in that directory */
};

static void free_writer(loam_file_writer *w)
{
    loam_free(w->path);
    loam_free(w->target);
    loam_free(w->directory);
    loam_free(w->temporary);
    loam_free(w);
}

/* Follows symbolic links so that the rename replaces the file and not the link to it. */
static loam_status resolve_target(loam_file_writer *w, loam_error *e)
{
    struct stat info;
    if (stat(w->path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return loam_fail(e, LOAM_E_IO, "cannot write '%s': %s", w->path, strerror(errno));
        w->target = loam_strdup(w->path);
    } else {
        if (S_ISDIR(info.st_mode))
            return loam_fail(e, LOAM_E_IO,
                             "cannot write '%s': it is a directory; give the path of a file",
                             w->path);
        if (!S_ISREG(info.st_mode))
            return loam_fail(e, LOAM_E_IO, "cannot write '%s': it exists and is no regular file",
                             w->path);
        if (access(w->path, W_OK) != 0)
            return loam_fail(e, LOAM_E_IO, "cannot replace '%s': it is write-protected (%s)",
                             w->path, strerror(errno));
        char resolved[PATH_MAX];
        if (!realpath(w->path, resolved))
            return loam_fail(e, LOAM_E_IO, "cannot resolve '%s': %s", w->path, strerror(errno));
        w->target = loam_strdup(resolved);
    }
    if (!w->target)
        return loam_fail(e, LOAM_E_MEMORY, "out of memory opening '%s' for writing", w->path);
    return LOAM_OK;
}

/* Splits the target into directory and name, and checks both. */
static loam_status split_target(loam_file_writer *w, const char **name, loam_error *e)
{
    char *slash = strrchr(w->target, '/');
    *name = slash ? slash + 1 : w->target;
    if (**name == 0)
        return loam_fail(e, LOAM_E_IO, "cannot write '%s': the path does not end in a file name",
                         w->path);
    w->directory = loam_strdup(slash ? w->target : ".");
    if (!w->directory)
        return loam_fail(e, LOAM_E_MEMORY, "out of memory opening '%s' for writing", w->path);
    if (slash)
        w->directory[LOAM_MAX(slash - w->target, 1)] = 0;
    struct stat info;
    if (stat(w->directory, &info) != 0)
        return loam_fail(e, LOAM_E_IO, "cannot write '%s': directory '%s': %s", w->path,
                         w->directory, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return loam_fail(e, LOAM_E_IO, "cannot write '%s': '%s' is not a directory", w->path,
                         w->directory);
    return LOAM_OK;
}

/* Creates `.<name>.tmp-<pid>-<random>` in the target's directory; the file must be new. */
static loam_status create_temporary(loam_file_writer *w, const char *name, loam_error *e)
{
    uint64_t clock_bits;
    double now = loam_now_ms();
    memcpy(&clock_bits, &now, sizeof clock_bits);
    loam_rng rng = loam_rng_stream(clock_bits ^ (uint64_t)getpid(), w->target);
    loam_string temporary = {0};
    for (int attempt = 0; attempt < 100; attempt++) {
        loam_string_clear(&temporary);
        /* Names may be 255 bytes on most systems; a long one is cut to leave room. */
        loam_string_printf(&temporary, "%s/.%.200s.tmp-%ld-%08x", w->directory, name,
                           (long)getpid(), (unsigned)(loam_rng_next(&rng) >> 32));
        if (temporary.failed)
            break;
        w->fd = open(temporary.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) {
            w->temporary = temporary.data;
            return LOAM_OK;
        }
        if (errno != EEXIST)
            break;
    }
    int code = errno;
    bool no_memory = temporary.failed;
    loam_string_free(&temporary);
    if (no_memory)
        return loam_fail(e, LOAM_E_MEMORY, "out of memory opening '%s' for writing", w->path);
    return loam_fail(e, LOAM_E_IO, "cannot write '%s': cannot create a file in '%s': %s", w->path,
                     w->directory, strerror(code));
}

loam_status loam_file_writer_open(const char *path, loam_file_writer **out, loam_error *e)
{
    *out = NULL;
    if (path[0] == 0)
        return loam_fail(e, LOAM_E_IO, "cannot write a file with an empty path");
    loam_file_writer *w = loam_alloc(sizeof *w);
    if (!w || !(w->path = loam_strdup(path))) {
        loam_free(w);
        return loam_fail(e, LOAM_E_MEMORY, "out of memory opening '%s' for writing", path);
    }
    const char *name = NULL;
    loam_status status = resolve_target(w, e);
    if (status == LOAM_OK)
        status = split_target(w, &name, e);
    if (status == LOAM_OK)
        status = create_temporary(w, name, e);
    if (status != LOAM_OK) {
        free_writer(w);
        return status;
    }
    *out = w;
    return LOAM_OK;
}

loam_status loam_file_writer_write(loam_file_writer *w, const void *bytes, size_t n_bytes,
                                   loam_error *e)
{
    const char *p = bytes;
    size_t left = n_bytes;
    while (left > 0) {
        ssize_t n = write(w->fd, p, LOAM_MIN(left, (size_t)1 << 30));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            w->failed = true;
            return loam_fail(e, LOAM_E_IO,
                             "cannot write '%s': %s (writing %zu bytes after the first %llu)",
                             w->path, strerror(errno), left, (unsigned long long)w->written_bytes);
        }
        p += n;
        left -= (size_t)n;
        w->written_bytes += (uint64_t)n;
    }
    return LOAM_OK;
}

/* Makes a rename in the directory durable. Some file systems cannot sync directories; there the
 * rename is as durable as it gets. */
static int sync_directory(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : errno;
    int code = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return code == EINVAL || code == ENOTSUP ? 0 : code;
}

loam_status loam_file_writer_commit(loam_file_writer *w, loam_error *e)
{
    loam_status status = LOAM_OK;
    if (w->failed)
        status = loam_fail(e, LOAM_E_IO, "'%s' was not written: an earlier write failed", w->path);
    if (status == LOAM_OK && fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        status = loam_fail(e, LOAM_E_IO, "cannot write '%s': %s (syncing %llu bytes)", w->path,
                           strerror(errno), (unsigned long long)w->written_bytes);
    if (close(w->fd) != 0 && status == LOAM_OK)
        status = loam_fail(e, LOAM_E_IO, "cannot write '%s': %s (closing after %llu bytes)",
                           w->path, strerror(errno), (unsigned long long)w->written_bytes);
    if (status == LOAM_OK && rename(w->temporary, w->target) != 0)
        status = loam_fail(e, LOAM_E_IO, "cannot rename '%s' to '%s': %s", w->temporary, w->target,
                           strerror(errno));
    if (status != LOAM_OK) {
        unlink(w->temporary);
        free_writer(w);
        return status;
    }
    int code = sync_directory(w->directory);
    if (code != 0)
        status = loam_fail(e, LOAM_E_IO, "'%s' is written, but its directory cannot be synced: %s",
                           w->path, strerror(code));
    free_writer(w);
    return status;
}

void loam_file_writer_discard(loam_file_writer *w)
{
    if (!w)
        return;
    close(w->fd);
    unlink(w->temporary);
    free_writer(w);
}
