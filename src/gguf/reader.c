/* reader.c: a model of one or several files behind one handle. */
#include "gguf/format.h"

#include <inttypes.h>
#include <string.h>

struct loam_gguf {
    loam_arena *arena;
    loam_gguf_file *files;
    int n_files;
    int64_t n_tensors;
    loam_gguf_tensor *tensors; /* of all files */
    loam_index tensor_index;
};

static loam_status out_of_memory(const char *path, loam_error *e)
{
    return loam_fail(e, LOAM_E_MEMORY, "out of memory opening '%s'", path);
}

/* Appends one file. The list grows with the files that are there, not with what a key counts. */
static loam_status add_file(loam_gguf *g, const char *path, loam_error *e)
{
    loam_gguf_file *grown = loam_realloc(g->files, (size_t)(g->n_files + 1) * sizeof *g->files);
    if (!grown)
        return out_of_memory(path, e);
    g->files = grown;
    int shard = g->n_files++;
    return loam_gguf_parse(&g->files[shard], path, shard, g->arena, e);
}

/* The first file must be the first part, under a name that leads to the others. */
static loam_status check_first_part(loam_gguf *g, const loam_split *split, loam_error *e)
{
    const char *path = g->files[0].path;
    char *first = NULL;
    LOAM_TRY(loam_split_path(path, split->no, 0, split->count, g->arena, &first, e));
    if (split->no != 0)
        return loam_fail(e, LOAM_E_USAGE,
                         "'%s' is part %" PRId64 " of %" PRId64 " of a split model; give the path "
                         "of its first part%s%s%s",
                         path, split->no + 1, split->count, first ? ", '" : "", first ? first : "",
                         first ? "'" : "");
    if (!first)
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s' is the first of the %" PRId64 " files of a split model; its name "
                         "must end in '-00001-of-%05" PRId64 ".gguf' so that the others are found",
                         path, split->count, split->count);
    return LOAM_OK;
}

static loam_status check_part(const loam_gguf_file *f, int64_t no, const loam_split *first,
                              loam_error *e)
{
    loam_split split;
    LOAM_TRY(loam_split_read(f, &split, e));
    if (split.no != no || split.count != first->count)
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s' says it is part %" PRId64 " of %" PRId64 ", expected part %" PRId64
                         " of %" PRId64 "; the files belong to different models or were renamed",
                         f->path, split.no + 1, split.count, no + 1, first->count);
    return LOAM_OK;
}

static loam_status open_parts(loam_gguf *g, loam_error *e)
{
    loam_split first;
    LOAM_TRY(loam_split_read(&g->files[0], &first, e));
    if (first.count == 1)
        return LOAM_OK;
    LOAM_TRY(check_first_part(g, &first, e));
    for (int64_t no = 1; no < first.count; no++) {
        char *path = NULL;
        LOAM_TRY(loam_split_path(g->files[0].path, 0, no, first.count, g->arena, &path, e));
        loam_error detail = {0};
        loam_status status = add_file(g, path, &detail);
        if (status == LOAM_E_IO)
            return loam_fail(e, status,
                             "part %" PRId64 " of %" PRId64 " of the split model is missing: %s",
                             no + 1, first.count, detail.message);
        if (status != LOAM_OK)
            return loam_fail(e, status, "%s", detail.message);
        LOAM_TRY(check_part(&g->files[no], no, &first, e));
    }
    int64_t n_tensors = 0;
    for (int i = 0; i < g->n_files; i++)
        n_tensors += g->files[i].n_tensors;
    if (first.n_tensors >= 0 && first.n_tensors != n_tensors)
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s': %s is %" PRId64 ", but the %d files hold %" PRId64
                         " tensors; the files belong to different models",
                         g->files[0].path, GGUF_KEY_SPLIT_TENSORS, first.n_tensors, g->n_files,
                         n_tensors);
    return LOAM_OK;
}

/* One list and one index over the tensors of all files. */
static loam_status join_tensors(loam_gguf *g, loam_error *e)
{
    for (int i = 0; i < g->n_files; i++)
        g->n_tensors += g->files[i].n_tensors;
    g->tensors = loam_arena_alloc(g->arena, (size_t)g->n_tensors * sizeof *g->tensors);
    if (!g->tensors || !loam_index_init(&g->tensor_index, g->arena, (size_t)g->n_tensors))
        return out_of_memory(g->files[0].path, e);
    int64_t n = 0;
    for (int i = 0; i < g->n_files; i++) {
        for (int64_t j = 0; j < g->files[i].n_tensors; j++, n++) {
            g->tensors[n] = g->files[i].tensors[j];
            const char *name = g->tensors[n].name;
            int64_t other = loam_index_add(&g->tensor_index, loam_slice_of(name), n);
            if (other >= 0)
                return loam_fail(e, LOAM_E_FORMAT,
                                 "'%s': tensor name '%s' occurs twice, as tensors %" PRId64
                                 " and %" PRId64,
                                 g->files[i].path, name, other, n);
        }
    }
    return LOAM_OK;
}

static loam_status place_tensors(loam_gguf *g, bool header_only, loam_error *e)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_files; i++) {
        LOAM_TRY(loam_gguf_place(&g->files[i], g->tensors + n, header_only, e));
        n += g->files[i].n_tensors;
    }
    return LOAM_OK;
}

static loam_status open_model(const char *path, bool header_only, loam_gguf **out, loam_error *e)
{
    *out = NULL;
    loam_gguf *g = loam_alloc(sizeof *g);
    if (!g || !(g->arena = loam_arena_new())) {
        loam_free(g);
        return out_of_memory(path, e);
    }
    loam_status status = add_file(g, path, e);
    if (status == LOAM_OK)
        status = open_parts(g, e);
    if (status == LOAM_OK)
        status = join_tensors(g, e);
    if (status == LOAM_OK)
        status = place_tensors(g, header_only, e);
    if (status != LOAM_OK) {
        loam_gguf_close(g);
        return status;
    }
    *out = g;
    return LOAM_OK;
}

loam_status loam_gguf_open(const char *path, loam_gguf **out, loam_error *e)
{
    return open_model(path, false, out, e);
}

loam_status loam_gguf_open_header(const char *path, loam_gguf **out, loam_error *e)
{
    return open_model(path, true, out, e);
}

void loam_gguf_close(loam_gguf *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_files; i++)
        loam_map_close(&g->files[i].map);
    loam_free(g->files);
    loam_arena_free(g->arena);
    loam_free(g);
}

const char *loam_gguf_shard_path(const loam_gguf *g, int shard)
{
    return g->files[shard].path;
}

const char *loam_gguf_path(const loam_gguf *g)
{
    return g->files[0].path;
}

uint32_t loam_gguf_version(const loam_gguf *g)
{
    return g->files[0].version;
}

size_t loam_gguf_alignment(const loam_gguf *g)
{
    return g->files[0].alignment;
}

int loam_gguf_n_shards(const loam_gguf *g)
{
    return g->n_files;
}

const loam_map *loam_gguf_map(const loam_gguf *g, int shard)
{
    return &g->files[shard].map;
}

int64_t loam_gguf_n_kv(const loam_gguf *g)
{
    return g->files[0].n_kv;
}

const loam_kv *loam_gguf_kv_at(const loam_gguf *g, int64_t i)
{
    return &g->files[0].kv[i];
}

const loam_kv *loam_gguf_find(const loam_gguf *g, const char *key)
{
    return loam_gguf_file_find(&g->files[0], key);
}

int64_t loam_gguf_n_tensors(const loam_gguf *g)
{
    return g->n_tensors;
}

const loam_gguf_tensor *loam_gguf_tensor_at(const loam_gguf *g, int64_t i)
{
    return &g->tensors[i];
}

const loam_gguf_tensor *loam_gguf_find_tensor(const loam_gguf *g, const char *name)
{
    int64_t i = loam_index_find(&g->tensor_index, loam_slice_of(name));
    return i < 0 ? NULL : &g->tensors[i];
}

uint64_t loam_gguf_hash(const loam_gguf *g)
{
    uint64_t hash = 0;
    for (int i = 0; i < g->n_files; i++)
        hash = loam_hash(g->files[i].map.data, g->files[i].map.bytes, hash);
    return hash;
}
