/* parse.c: one GGUF file, checked against its own length.
 *
 * The layout (docs/gguf.md of ggml): magic, u32 version, u64 tensor count, u64 metadata count; the
 * metadata; the tensor infos; padding to the alignment; the tensor data. Whatever is accepted here
 * is what llama.cpp's reader accepts, with two limits of the specification on top: keys of at most
 * 65535 bytes, and an alignment of at least 8 where there is data to point into. */
#include "gguf/format.h"

#include <inttypes.h>
#include <string.h>

/* The least that the file spends on one entry: counts above what fits are refused before memory
 * is asked for. */
#define MIN_KV_BYTES (8 + 1 + 4 + 1)
#define MIN_TENSOR_BYTES (8 + 4 + 4 + 8)

/* For parts of the file that belong to no key or tensor yet. */
static const loam_slice nameless = {"", 0};

typedef struct cursor {
    loam_gguf_file *f;
    size_t at;
    loam_arena *arena;
    loam_error *e;
} cursor;

/* Fails where fewer than n bytes are left. `what` and `name` say what they were needed for. */
static loam_status need(const cursor *c, uint64_t n_bytes, const char *what, loam_slice name)
{
    size_t size = c->f->map.bytes;
    if (n_bytes <= size - c->at)
        return LOAM_OK;
    return loam_fail(c->e, LOAM_E_FORMAT,
                     "'%s' is damaged or cut short: %s%s%.*s%s at byte %zu needs %" PRIu64
                     " bytes, but the file ends at byte %zu",
                     c->f->path, what, name.bytes ? " '" : "", SLICE_ARGS(name),
                     name.bytes ? "'" : "", c->at, n_bytes, size);
}

static loam_status take(cursor *c, void *out, size_t n_bytes, const char *what, loam_slice name)
{
    LOAM_TRY(need(c, n_bytes, what, name));
    memcpy(out, c->f->map.data + c->at, n_bytes);
    c->at += n_bytes;
    return LOAM_OK;
}

static loam_status take_string(cursor *c, loam_slice *out, const char *what, loam_slice name)
{
    uint64_t bytes = 0;
    LOAM_TRY(take(c, &bytes, sizeof bytes, what, name));
    LOAM_TRY(need(c, bytes, what, name));
    *out = (loam_slice){(const char *)c->f->map.data + c->at, (size_t)bytes};
    c->at += (size_t)bytes;
    return LOAM_OK;
}

static loam_status out_of_memory(const cursor *c)
{
    return loam_fail(c->e, LOAM_E_MEMORY, "out of memory reading the header of '%s'", c->f->path);
}

/* ---- header ------------------------------------------------------------------------------- */

static loam_status check_version(const cursor *c, uint32_t version)
{
    uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 0xffff)
        return loam_fail(c->e, LOAM_E_UNSUPPORTED,
                         "'%s' is a big-endian GGUF file; convert it to little-endian "
                         "(gguf_convert_endian.py of llama.cpp does)",
                         c->f->path);
    if (version == 1)
        return loam_fail(c->e, LOAM_E_UNSUPPORTED,
                         "'%s' is a GGUF version 1 file, which is no longer read; convert the "
                         "model anew",
                         c->f->path);
    if (version != 2 && version != 3)
        return loam_fail(c->e, version > 3 ? LOAM_E_UNSUPPORTED : LOAM_E_FORMAT,
                         "'%s' says it is GGUF version %" PRIu32 "; versions 2 and 3 are known",
                         c->f->path, version);
    return LOAM_OK;
}

static loam_status check_count(const cursor *c, uint64_t n, size_t min_bytes, const char *what)
{
    uint64_t most = (c->f->map.bytes - c->at) / min_bytes;
    if (n <= most)
        return LOAM_OK;
    return loam_fail(c->e, LOAM_E_FORMAT,
                     "'%s': the header counts %" PRIu64 " %s, but the file of %zu bytes has room "
                     "for at most %" PRIu64,
                     c->f->path, n, what, c->f->map.bytes, most);
}

static loam_status parse_header(cursor *c)
{
    loam_gguf_file *f = c->f;
    char magic[4];
    LOAM_TRY(take(c, magic, sizeof magic, "the magic number", nameless));
    if (memcmp(magic, GGUF_MAGIC, sizeof magic) != 0)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s' is not a GGUF file: it begins with the bytes %02x %02x %02x %02x, "
                         "expected 47 47 55 46 (\"GGUF\")",
                         f->path, (unsigned)(uint8_t)magic[0], (unsigned)(uint8_t)magic[1],
                         (unsigned)(uint8_t)magic[2], (unsigned)(uint8_t)magic[3]);
    LOAM_TRY(take(c, &f->version, sizeof f->version, "the version", nameless));
    LOAM_TRY(check_version(c, f->version));
    uint64_t n_tensors = 0;
    uint64_t n_kv = 0;
    LOAM_TRY(take(c, &n_tensors, sizeof n_tensors, "the number of tensors", nameless));
    LOAM_TRY(take(c, &n_kv, sizeof n_kv, "the number of metadata entries", nameless));
    LOAM_TRY(check_count(c, n_tensors, MIN_TENSOR_BYTES, "tensors"));
    LOAM_TRY(check_count(c, n_kv, MIN_KV_BYTES, "metadata entries"));
    f->n_tensors = (int64_t)n_tensors;
    f->n_kv = (int64_t)n_kv;
    return LOAM_OK;
}

/* ---- metadata ----------------------------------------------------------------------------- */

static loam_status parse_strings(cursor *c, loam_kv *kv, const char *what)
{
    LOAM_TRY(need(c, kv->n <= UINT64_MAX / 8 ? kv->n * 8 : UINT64_MAX, what, kv->key));
    loam_slice *strings = loam_arena_alloc(c->arena, (size_t)kv->n * sizeof *strings);
    if (!strings)
        return out_of_memory(c);
    for (uint64_t i = 0; i < kv->n; i++)
        LOAM_TRY(take_string(c, &strings[i], what, kv->key));
    kv->strings = strings;
    return LOAM_OK;
}

/* Reads the value, whose types are known. */
static loam_status parse_value(cursor *c, loam_kv *kv)
{
    const char *what = "the value of metadata key";
    kv->data = c->f->map.data + c->at;
    if (kv->element_type == LOAM_KV_STRING)
        return parse_strings(c, kv, what);
    size_t each = loam_kv_type_bytes((uint32_t)kv->element_type);
    uint64_t bytes = kv->n <= UINT64_MAX / each ? kv->n * each : UINT64_MAX;
    LOAM_TRY(need(c, bytes, what, kv->key));
    c->at += (size_t)bytes;
    return LOAM_OK;
}

static loam_status parse_kv(cursor *c, loam_kv *kv, int64_t i)
{
    const char *path = c->f->path;
    LOAM_TRY(take_string(c, &kv->key, "a metadata key", nameless));
    if (kv->key.bytes == 0)
        return loam_fail(c->e, LOAM_E_FORMAT, "'%s': metadata entry %" PRId64 " has an empty key",
                         path, i);
    if (kv->key.bytes > GGUF_MAX_KEY_BYTES)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': metadata entry %" PRId64 " has a key of %zu bytes, expected at "
                         "most %d",
                         path, i, kv->key.bytes, GGUF_MAX_KEY_BYTES);
    uint32_t type = 0;
    LOAM_TRY(take(c, &type, sizeof type, "the type of metadata key", kv->key));
    uint32_t element_type = type;
    kv->n = 1;
    if (type == LOAM_KV_ARRAY) {
        LOAM_TRY(
            take(c, &element_type, sizeof element_type, "the array type of metadata key", kv->key));
        LOAM_TRY(take(c, &kv->n, sizeof kv->n, "the array length of metadata key", kv->key));
        if (element_type == LOAM_KV_ARRAY)
            return loam_fail(c->e, LOAM_E_UNSUPPORTED,
                             "'%s': metadata key '%.*s' is an array of arrays, which is not read",
                             path, SLICE_ARGS(kv->key));
    }
    if (element_type != LOAM_KV_STRING && loam_kv_type_bytes(element_type) == 0)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': metadata key '%.*s' has type number %" PRIu32 ", expected 0 to 12",
                         path, SLICE_ARGS(kv->key), element_type);
    kv->type = (loam_kv_type)type;
    kv->element_type = (loam_kv_type)element_type;
    return parse_value(c, kv);
}

static loam_status parse_metadata(cursor *c)
{
    loam_gguf_file *f = c->f;
    f->kv = loam_arena_alloc(c->arena, (size_t)f->n_kv * sizeof *f->kv);
    if (!f->kv || !loam_index_init(&f->kv_index, c->arena, (size_t)f->n_kv))
        return out_of_memory(c);
    for (int64_t i = 0; i < f->n_kv; i++) {
        LOAM_TRY(parse_kv(c, &f->kv[i], i));
        int64_t other = loam_index_add(&f->kv_index, f->kv[i].key, i);
        if (other >= 0)
            return loam_fail(c->e, LOAM_E_FORMAT,
                             "'%s': metadata key '%.*s' occurs twice, as entries %" PRId64
                             " and %" PRId64,
                             f->path, SLICE_ARGS(f->kv[i].key), other, i);
    }
    return LOAM_OK;
}

const loam_kv *loam_gguf_file_find(const loam_gguf_file *f, const char *key)
{
    int64_t i = loam_index_find(&f->kv_index, loam_slice_of(key));
    return i < 0 ? NULL : &f->kv[i];
}

static loam_status read_alignment(cursor *c)
{
    loam_gguf_file *f = c->f;
    f->alignment = GGUF_DEFAULT_ALIGNMENT;
    const loam_kv *kv = loam_gguf_file_find(f, GGUF_KEY_ALIGNMENT);
    if (!kv)
        return LOAM_OK;
    if (kv->type != LOAM_KV_U32)
        return loam_fail(c->e, LOAM_E_FORMAT, "'%s': %s has type %s, expected u32", f->path,
                         GGUF_KEY_ALIGNMENT, loam_kv_type_name((uint32_t)kv->type));
    f->alignment = (size_t)loam_kv_int_at(kv, 0);
    if (f->alignment == 0 || (f->alignment & (f->alignment - 1)) != 0)
        return loam_fail(c->e, LOAM_E_FORMAT, "'%s': %s is %zu, expected a power of two", f->path,
                         GGUF_KEY_ALIGNMENT, f->alignment);
    return LOAM_OK;
}

/* ---- tensors ------------------------------------------------------------------------------ */

static loam_status parse_tensor_name(cursor *c, loam_gguf_tensor *t, int64_t i)
{
    loam_slice name = {0};
    LOAM_TRY(take_string(c, &name, "a tensor name", nameless));
    if (name.bytes > GGUF_MAX_TENSOR_NAME_BYTES)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': tensor %" PRId64 " has a name of %zu bytes, expected at most %d",
                         c->f->path, i, name.bytes, GGUF_MAX_TENSOR_NAME_BYTES);
    if (memchr(name.data, 0, name.bytes))
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': the name of tensor %" PRId64 " contains a NUL byte", c->f->path, i);
    char *copy = loam_arena_alloc(c->arena, name.bytes + 1);
    if (!copy)
        return out_of_memory(c);
    memcpy(copy, name.data, name.bytes);
    t->name = copy;
    return LOAM_OK;
}

static loam_status parse_tensor_shape(cursor *c, loam_gguf_tensor *t)
{
    const char *path = c->f->path;
    loam_slice name = loam_slice_of(t->name);
    uint32_t n_dims = 0;
    LOAM_TRY(take(c, &n_dims, sizeof n_dims, "the shape of tensor", name));
    if (n_dims > LOAM_MAX_DIMS)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': tensor '%s' has %" PRIu32 " dimensions, expected at most %d", path,
                         t->name, n_dims, LOAM_MAX_DIMS);
    t->n_dims = (int)n_dims;
    int64_t elements = 1;
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        t->t.ne[d] = 1;
        if (d < t->n_dims)
            LOAM_TRY(take(c, &t->t.ne[d], sizeof t->t.ne[d], "the shape of tensor", name));
        if (t->t.ne[d] < 0)
            return loam_fail(c->e, LOAM_E_FORMAT,
                             "'%s': tensor '%s' has %" PRId64 " elements in dimension %d", path,
                             t->name, t->t.ne[d], d);
        /* Zero counts as one, so that strides fit as well as the number of elements. */
        if (__builtin_mul_overflow(elements, LOAM_MAX(t->t.ne[d], INT64_C(1)), &elements))
            return loam_fail(c->e, LOAM_E_FORMAT,
                             "'%s': tensor '%s' has too many elements: the product of its "
                             "dimensions does not fit 63 bits",
                             path, t->name);
    }
    return LOAM_OK;
}

static loam_status parse_tensor_type(cursor *c, loam_gguf_tensor *t)
{
    const char *path = c->f->path;
    uint32_t number = 0;
    LOAM_TRY(take(c, &number, sizeof number, "the type of tensor", loam_slice_of(t->name)));
    const loam_type_info *type = number < LOAM_TYPE_COUNT ? loam_type_get((int)number) : NULL;
    if (!type)
        return loam_fail(c->e, LOAM_E_UNSUPPORTED,
                         "'%s': tensor '%s' has type number %" PRIu32 ", which is no element type "
                         "known to loam %s",
                         path, t->name, number, loam_version());
    if (t->t.ne[0] % type->block_ne != 0)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': tensor '%s' has rows of %" PRId64 " elements, but its type %s "
                         "needs a multiple of %" PRId64,
                         path, t->name, t->t.ne[0], type->name, type->block_ne);
    /* The largest stride is the size, with dimensions of zero counted as one. */
    size_t bytes = type->block_bytes;
    bool fits = loam_size_mul(bytes, (size_t)LOAM_MAX(t->t.ne[0] / type->block_ne, 1), &bytes);
    for (int d = 1; d < LOAM_MAX_DIMS; d++)
        fits = fits && loam_size_mul(bytes, (size_t)LOAM_MAX(t->t.ne[d], 1), &bytes);
    if (!fits || bytes > INT64_MAX)
        return loam_fail(c->e, LOAM_E_FORMAT,
                         "'%s': tensor '%s' is too large: its size in bytes does not fit 63 bits",
                         path, t->name);
    t->t.type = (loam_type)number;
    loam_dense_strides(t->t.type, t->t.ne, t->t.nb);
    t->bytes = loam_tensor_ne(&t->t) == 0 ? 0 : bytes;
    return LOAM_OK;
}

static loam_status parse_tensors(cursor *c, int shard)
{
    loam_gguf_file *f = c->f;
    f->tensors = loam_arena_alloc(c->arena, (size_t)f->n_tensors * sizeof *f->tensors);
    if (!f->tensors)
        return out_of_memory(c);
    /* Offsets count from where the data starts; tensors lie there in the order of their infos. */
    uint64_t expected = 0;
    for (int64_t i = 0; i < f->n_tensors; i++) {
        loam_gguf_tensor *t = &f->tensors[i];
        t->shard = shard;
        LOAM_TRY(parse_tensor_name(c, t, i));
        LOAM_TRY(parse_tensor_shape(c, t));
        LOAM_TRY(parse_tensor_type(c, t));
        LOAM_TRY(take(c, &t->offset_bytes, sizeof t->offset_bytes, "the offset of tensor",
                      loam_slice_of(t->name)));
        if (t->offset_bytes != expected)
            return loam_fail(c->e, LOAM_E_FORMAT,
                             "'%s': the data of tensor '%s' is said to be at offset %" PRIu64
                             ", expected %" PRIu64
                             " (tensors follow each other, padded to %zu bytes)",
                             f->path, t->name, t->offset_bytes, expected, f->alignment);
        /* Below 2^63 each, so that no sum of two wraps. */
        expected += t->bytes;
        expected += (0 - expected) & (f->alignment - 1);
        if (expected > INT64_MAX)
            return loam_fail(c->e, LOAM_E_FORMAT,
                             "'%s': the tensors up to '%s' are too large: their size in bytes "
                             "does not fit 63 bits",
                             f->path, t->name);
    }
    return LOAM_OK;
}

loam_status loam_gguf_place(const loam_gguf_file *f, loam_gguf_tensor *tensors, bool header_only,
                            loam_error *e)
{
    size_t size = f->map.bytes;
    if (f->n_tensors > 0 && f->alignment < 8 && !header_only)
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "'%s': %s is %zu; tensor data aligned to less than 8 bytes is not read",
                         f->path, GGUF_KEY_ALIGNMENT, f->alignment);
    for (int64_t i = 0; i < f->n_tensors; i++) {
        loam_gguf_tensor *t = &tensors[i];
        t->offset_bytes += f->data_start; /* both below 2^63 */
        bool inside = t->offset_bytes <= size && t->bytes <= size - t->offset_bytes;
        if (inside)
            t->t.data = (void *)(f->map.data + t->offset_bytes);
        else if (!header_only)
            return loam_fail(e, LOAM_E_FORMAT,
                             "'%s' is cut short: the data of tensor '%s' takes bytes %" PRIu64
                             " to %" PRIu64 ", but the file ends at byte %zu; download or convert "
                             "it again",
                             f->path, t->name, t->offset_bytes, t->offset_bytes + t->bytes, size);
    }
    return LOAM_OK;
}

loam_status loam_gguf_parse(loam_gguf_file *f, const char *path, int shard, loam_arena *arena,
                            loam_error *e)
{
    *f = (loam_gguf_file){.map = {.fd = -1}};
    cursor c = {.f = f, .arena = arena, .e = e};
    f->path = loam_arena_strdup(arena, path);
    if (!f->path)
        return loam_fail(e, LOAM_E_MEMORY, "out of memory opening '%s'", path);
    LOAM_TRY(loam_map_open(path, &f->map, e));
    LOAM_TRY(parse_header(&c));
    LOAM_TRY(parse_metadata(&c));
    LOAM_TRY(read_alignment(&c));
    LOAM_TRY(parse_tensors(&c, shard));
    f->data_start = c.at + ((0 - c.at) & (f->alignment - 1));
    return LOAM_OK;
}
