/* dataset_source.c: what a data argument names, and the bytes of a file. */
#include "train/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_WEIGHT 1000.0

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

loam_status loam_dataset_part(const char *path, const char *part, loam_string *out, loam_error *e)
{
    loam_string file = {0};
    if (!is_directory(path)) {
        if (strcmp(part, "train") == 0)
            loam_string_puts(out, path);
    } else {
        size_t n = strlen(path);
        loam_string_printf(&file, "%s%s%s.jsonl", path, n > 0 && path[n - 1] == '/' ? "" : "/",
                           part);
        if (!file.failed && exists(file.data))
            loam_string_puts(out, file.data);
    }
    bool failed = file.failed || out->failed;
    loam_string_free(&file);
    return failed ? loam_fail(e, LOAM_E_MEMORY, "no memory for a path") : LOAM_OK;
}

/* ---- sources ------------------------------------------------------------------------------ */

/* Takes the weight off "path@2". */
static loam_status take_weight(char *piece, double *weight, loam_error *e)
{
    *weight = 1;
    char *at = strrchr(piece, '@');
    if (!at || exists(piece))
        return LOAM_OK;
    char *end;
    double value = strtod(at + 1, &end);
    if (end == at + 1 || *end != '\0' || !isfinite(value) || value <= 0 || value > MAX_WEIGHT)
        return loam_fail(e, LOAM_E_USAGE,
                         "data '%s': found '%s' after the '@', expected a weight above 0 and at "
                         "most %g, as in train.jsonl@2; no file has this name as it stands",
                         piece, at + 1, MAX_WEIGHT);
    *at = '\0';
    *weight = value;
    return LOAM_OK;
}

/* A directory stands for its train.jsonl. */
static loam_status resolve(const char *piece, char **out, loam_error *e)
{
    loam_string path = {0};
    loam_status status = loam_dataset_part(piece, "train", &path, e);
    if (status == LOAM_OK && path.length_bytes == 0)
        status = *piece ? loam_fail(e, LOAM_E_IO,
                                    "the directory '%s' has no train.jsonl; expected train.jsonl "
                                    "and, where wanted, valid.jsonl and test.jsonl",
                                    piece)
                        : loam_fail(e, LOAM_E_USAGE, "the name of a data file is empty");
    if (status == LOAM_OK) {
        *out = loam_strdup(path.data);
        if (!*out)
            status = loam_fail(e, LOAM_E_MEMORY, "no memory for a path");
    }
    loam_string_free(&path);
    return status;
}

static loam_status add_source(char *piece, loam_data_source *out, loam_error *e)
{
    LOAM_TRY(take_weight(piece, &out->weight, e));
    return resolve(piece, &out->path, e);
}

/* Cuts `list` at its commas, or not, into sources; *n counts those begun. */
static loam_status cut(char *list, int n_pieces, loam_data_source *sources, int *n, loam_error *e)
{
    char *piece = list;
    for (int i = 0; i < n_pieces; i++) {
        char *comma = n_pieces > 1 ? strchr(piece, ',') : NULL;
        if (comma)
            *comma = '\0';
        *n = i + 1;
        LOAM_TRY(add_source(piece, &sources[i], e));
        piece = comma ? comma + 1 : piece;
    }
    return LOAM_OK;
}

loam_status loam_data_sources(const char *argument, loam_data_source **out, int *n, loam_error *e)
{
    *n = 0;
    int n_pieces = 1;
    bool is_one = exists(argument);
    for (const char *c = argument; *c && !is_one; c++)
        n_pieces += *c == ',';
    *out = loam_alloc((size_t)n_pieces * sizeof **out);
    char *list = *out ? loam_strdup(argument) : NULL;
    if (!list)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for %d paths", n_pieces);
    loam_status status = cut(list, n_pieces, *out, n, e);
    loam_free(list);
    return status;
}

void loam_data_sources_free(loam_data_source *sources, int n)
{
    for (int i = 0; sources && i < n; i++)
        loam_free(sources[i].path);
    loam_free(sources);
}

/* ---- bytes -------------------------------------------------------------------------------- */

static loam_status read_stream(int fd, const char *name, loam_data_bytes *out, loam_error *e)
{
    size_t capacity = 1 << 16;
    out->read = loam_alloc(capacity);
    if (!out->read)
        return loam_fail(e, LOAM_E_MEMORY, "no memory to read %s", name);
    for (;;) {
        if (out->n == capacity) {
            char *grown = capacity <= SIZE_MAX / 2 ? loam_realloc(out->read, capacity * 2) : NULL;
            if (!grown)
                return loam_fail(e, LOAM_E_MEMORY, "no memory for more than %zu bytes of %s",
                                 capacity, name);
            out->read = grown;
            capacity *= 2;
        }
        ssize_t n = read(fd, out->read + out->n, capacity - out->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return loam_fail(e, LOAM_E_IO, "cannot read %s after %zu bytes: %s", name, out->n,
                             strerror(errno));
        if (n == 0)
            break;
        out->n += (size_t)n;
    }
    out->data = out->read;
    if (out->n == 0)
        return loam_fail(e, LOAM_E_DATA, "%s is empty (0 bytes)", name);
    return LOAM_OK;
}

loam_status loam_data_bytes_open(const char *path, loam_data_bytes *out, loam_error *e)
{
    *out = (loam_data_bytes){.map = {.fd = -1}};
    struct stat info;
    if (strcmp(path, "-") == 0)
        return read_stream(STDIN_FILENO, "standard input", out, e);
    bool is_stream = stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    if (is_stream) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return loam_fail(e, LOAM_E_IO, "cannot open '%s': %s", path, strerror(errno));
        loam_status status = read_stream(fd, path, out, e);
        close(fd);
        return status;
    }
    LOAM_TRY(loam_map_open(path, &out->map, e));
    out->data = (const char *)out->map.data;
    out->n = out->map.bytes;
    return LOAM_OK;
}

void loam_data_bytes_close(loam_data_bytes *b)
{
    if (b->read)
        loam_free(b->read);
    else if (b->data)
        loam_map_close(&b->map);
    *b = (loam_data_bytes){.map = {.fd = -1}};
}
