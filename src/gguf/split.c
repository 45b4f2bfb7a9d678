/* split.c: the split.* keys and the names of models in several files, as llama.cpp's
 * llama-gguf-split writes them. */
#include "gguf/format.h"

#include <inttypes.h>
#include <string.h>

#define MAX_PARTS 65535 /* the keys are u16 */

static loam_status read_count(const loam_gguf_file *f, const char *key, int64_t most, int64_t *out,
                              loam_error *e)
{
    const loam_kv *kv = loam_gguf_file_find(f, key);
    if (!kv)
        return LOAM_OK;
    int64_t value = 0;
    if (!loam_kv_integer(kv, &value))
        return loam_fail(e, LOAM_E_FORMAT, "'%s': %s is no integer (type %s)", f->path, key,
                         loam_kv_type_name((uint32_t)kv->type));
    if (value < 0 || value > most)
        return loam_fail(e, LOAM_E_FORMAT, "'%s': %s is %" PRId64 ", expected 0 to %" PRId64,
                         f->path, key, value, most);
    *out = value;
    return LOAM_OK;
}

loam_status loam_split_read(const loam_gguf_file *f, loam_split *out, loam_error *e)
{
    *out = (loam_split){.no = 0, .count = 1, .n_tensors = -1};
    LOAM_TRY(read_count(f, GGUF_KEY_SPLIT_COUNT, MAX_PARTS, &out->count, e));
    LOAM_TRY(read_count(f, GGUF_KEY_SPLIT_NO, MAX_PARTS, &out->no, e));
    LOAM_TRY(read_count(f, GGUF_KEY_SPLIT_TENSORS, INT64_MAX, &out->n_tensors, e));
    out->count = LOAM_MAX(out->count, 1); /* 0 says "not split" like 1 */
    if (out->no >= out->count)
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s': %s is %" PRId64 " (counted from 0), but %s is %" PRId64, f->path,
                         GGUF_KEY_SPLIT_NO, out->no, GGUF_KEY_SPLIT_COUNT, out->count);
    return LOAM_OK;
}

loam_status loam_split_path(const char *path, int64_t from, int64_t no, int64_t count,
                            loam_arena *arena, char **out, loam_error *e)
{
    *out = NULL;
    char suffix[64];
    int n =
        snprintf(suffix, sizeof suffix, "-%05" PRId64 "-of-%05" PRId64 ".gguf", from + 1, count);
    size_t bytes = strlen(path);
    if (bytes < (size_t)n || memcmp(path + bytes - (size_t)n, suffix, (size_t)n) != 0)
        return LOAM_OK;
    loam_string name = {0};
    loam_string_append(&name, path, bytes - (size_t)n);
    loam_string_printf(&name, "-%05" PRId64 "-of-%05" PRId64 ".gguf", no + 1, count);
    if (!name.failed)
        *out = loam_arena_strdup(arena, name.data);
    loam_string_free(&name);
    if (!*out)
        return loam_fail(e, LOAM_E_MEMORY, "out of memory naming the parts of '%s'", path);
    return LOAM_OK;
}
