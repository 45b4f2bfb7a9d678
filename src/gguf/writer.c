/* writer.c: collects metadata and tensors, and writes them as one version 3 file. */
#include "gguf/format.h"

#include <inttypes.h>
#include <string.h>

#define WRITTEN_VERSION 3
#define MAX_ALIGNMENT 4096

typedef struct entry {
    loam_slice key;
    loam_kv_type type;
    loam_kv_type element_type;
    uint64_t n;
    loam_slice value; /* as it goes into the file, after type and length */
} entry;

typedef struct tensor_entry {
    const char *name;
    int n_dims;
    loam_tensor t;
    size_t bytes;
} tensor_entry;

struct loam_gguf_writer {
    loam_arena *arena;
    loam_error error; /* of the first setter that failed */
    entry *entries;
    size_t n_entries;
    size_t entries_capacity;
    tensor_entry *tensors;
    size_t n_tensors;
    size_t tensors_capacity;
};

loam_gguf_writer *loam_gguf_writer_new(void)
{
    loam_gguf_writer *w = loam_alloc(sizeof *w);
    if (w && !(w->arena = loam_arena_new())) {
        loam_free(w);
        return NULL;
    }
    return w;
}

void loam_gguf_writer_free(loam_gguf_writer *w)
{
    if (!w)
        return;
    loam_free(w->entries);
    loam_free(w->tensors);
    loam_arena_free(w->arena);
    loam_free(w);
}

static bool out_of_memory(loam_gguf_writer *w)
{
    loam_fail(&w->error, LOAM_E_MEMORY, "out of memory collecting a GGUF file");
    return false;
}

/* Makes room for one more element; `items` is the address of the list. */
static bool reserve(loam_gguf_writer *w, void **items, size_t n, size_t *capacity, size_t each)
{
    if (n < *capacity)
        return true;
    size_t wanted = LOAM_MAX(*capacity * 2, (size_t)32);
    void *grown = loam_realloc(*items, wanted * each);
    if (!grown)
        return out_of_memory(w);
    *items = grown;
    *capacity = wanted;
    return true;
}

/* ---- metadata ----------------------------------------------------------------------------- */

static bool ready(const loam_gguf_writer *w)
{
    return w && w->error.status == LOAM_OK;
}

/* The entry of a key: the one that is there, to be replaced, or a new one. */
static entry *entry_for(loam_gguf_writer *w, loam_slice key)
{
    if (key.bytes == 0 || key.bytes > GGUF_MAX_KEY_BYTES) {
        loam_fail(&w->error, LOAM_E_USAGE,
                  "a metadata key has %zu bytes ('%.*s'), expected 1 to %d", key.bytes,
                  SLICE_ARGS(key), GGUF_MAX_KEY_BYTES);
        return NULL;
    }
    for (size_t i = 0; i < w->n_entries; i++) {
        if (w->entries[i].key.bytes == key.bytes &&
            memcmp(w->entries[i].key.data, key.data, key.bytes) == 0)
            return &w->entries[i];
    }
    void *entries = w->entries;
    if (!reserve(w, &entries, w->n_entries, &w->entries_capacity, sizeof *w->entries))
        return NULL;
    w->entries = entries;
    char *copy = loam_arena_alloc(w->arena, key.bytes);
    if (!copy) {
        out_of_memory(w);
        return NULL;
    }
    memcpy(copy, key.data, key.bytes);
    entry *new = &w->entries[w->n_entries++];
    *new = (entry){.key = {copy, key.bytes}};
    return new;
}

/* Sets a key to a value whose bytes are as in the file. */
static void set_packed(loam_gguf_writer *w, loam_slice key, loam_kv_type type,
                       loam_kv_type element_type, uint64_t n, const void *bytes, size_t n_bytes)
{
    if (!ready(w))
        return;
    char *copy = loam_arena_alloc(w->arena, n_bytes);
    if (!copy) {
        out_of_memory(w);
        return;
    }
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    entry *to = entry_for(w, key);
    if (!to)
        return;
    to->type = type;
    to->element_type = element_type;
    to->n = n;
    to->value = (loam_slice){copy, n_bytes};
}

/* Sets a key to strings: each is a u64 length and its bytes. */
static void set_strings(loam_gguf_writer *w, loam_slice key, loam_kv_type type,
                        const loam_slice *values, uint64_t n)
{
    if (!ready(w))
        return;
    loam_string packed = {0};
    for (uint64_t i = 0; i < n && !packed.failed; i++) {
        uint64_t bytes = values[i].bytes;
        loam_string_append(&packed, (const char *)&bytes, sizeof bytes);
        loam_string_append(&packed, values[i].data, values[i].bytes);
    }
    if (packed.failed)
        out_of_memory(w);
    else
        set_packed(w, key, type, LOAM_KV_STRING, n, packed.data, packed.length_bytes);
    loam_string_free(&packed);
}

void loam_gguf_set_u32(loam_gguf_writer *w, const char *key, uint32_t value)
{
    set_packed(w, loam_slice_of(key), LOAM_KV_U32, LOAM_KV_U32, 1, &value, sizeof value);
}

void loam_gguf_set_u64(loam_gguf_writer *w, const char *key, uint64_t value)
{
    set_packed(w, loam_slice_of(key), LOAM_KV_U64, LOAM_KV_U64, 1, &value, sizeof value);
}

void loam_gguf_set_i32(loam_gguf_writer *w, const char *key, int32_t value)
{
    set_packed(w, loam_slice_of(key), LOAM_KV_I32, LOAM_KV_I32, 1, &value, sizeof value);
}

void loam_gguf_set_f32(loam_gguf_writer *w, const char *key, float value)
{
    set_packed(w, loam_slice_of(key), LOAM_KV_F32, LOAM_KV_F32, 1, &value, sizeof value);
}

void loam_gguf_set_bool(loam_gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value ? 1 : 0;
    set_packed(w, loam_slice_of(key), LOAM_KV_BOOL, LOAM_KV_BOOL, 1, &byte, sizeof byte);
}

void loam_gguf_set_string(loam_gguf_writer *w, const char *key, const char *value)
{
    loam_slice slice = loam_slice_of(value);
    set_strings(w, loam_slice_of(key), LOAM_KV_STRING, &slice, 1);
}

void loam_gguf_set_array(loam_gguf_writer *w, const char *key, loam_kv_type element_type,
                         const void *values, uint64_t n)
{
    if (!ready(w))
        return;
    size_t each = loam_kv_type_bytes((uint32_t)element_type);
    size_t bytes = 0;
    if (each == 0 || n > SIZE_MAX || !loam_size_mul((size_t)n, each, &bytes)) {
        loam_fail(&w->error, LOAM_E_USAGE, "metadata key '%s' cannot be an array of %" PRIu64 " %s",
                  key, n, loam_kv_type_name((uint32_t)element_type));
        return;
    }
    set_packed(w, loam_slice_of(key), LOAM_KV_ARRAY, element_type, n, values, bytes);
}

void loam_gguf_set_string_array(loam_gguf_writer *w, const char *key, const loam_slice *values,
                                uint64_t n)
{
    set_strings(w, loam_slice_of(key), LOAM_KV_ARRAY, values, n);
}

static bool slice_equals(loam_slice s, const char *text)
{
    return s.bytes == strlen(text) && memcmp(s.data, text, s.bytes) == 0;
}

void loam_gguf_set_kv(loam_gguf_writer *w, const loam_kv *kv)
{
    if (slice_equals(kv->key, GGUF_KEY_SPLIT_NO) || slice_equals(kv->key, GGUF_KEY_SPLIT_COUNT) ||
        slice_equals(kv->key, GGUF_KEY_SPLIT_TENSORS))
        return;
    if (kv->element_type == LOAM_KV_STRING)
        set_strings(w, kv->key, kv->type, kv->strings, kv->n);
    else
        set_packed(w, kv->key, kv->type, kv->element_type, kv->n, kv->data,
                   (size_t)kv->n * loam_kv_type_bytes((uint32_t)kv->element_type));
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* A reason why the tensor cannot be written, or NULL. */
static const char *tensor_fault(const char *name, int n_dims, const loam_tensor *t)
{
    if (name[0] == 0)
        return "its name is empty";
    if (strlen(name) > GGUF_MAX_TENSOR_NAME_BYTES)
        return "its name has more than 63 bytes";
    if (n_dims < 1 || n_dims > LOAM_MAX_DIMS)
        return "its number of dimensions is not 1 to 4";
    const loam_type_info *type = loam_type_get((int)t->type);
    if (!type)
        return "its type is unknown";
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        if (t->ne[d] < 0)
            return "it has a negative dimension";
        if (d >= n_dims && t->ne[d] != 1)
            return "it has more dimensions than said";
    }
    if (t->ne[0] % type->block_ne != 0)
        return "its rows are no multiple of its type's block";
    if (!loam_is_contiguous(t))
        return "it is not dense";
    if (!t->data && loam_tensor_ne(t) > 0)
        return "it has no data in host memory";
    return NULL;
}

void loam_gguf_add_tensor(loam_gguf_writer *w, const char *name, int n_dims, const loam_tensor *t)
{
    if (!ready(w))
        return;
    const char *fault = tensor_fault(name, n_dims, t);
    if (fault) {
        loam_fail(&w->error, LOAM_E_USAGE, "tensor '%s' cannot be written: %s", name, fault);
        return;
    }
    void *tensors = w->tensors;
    if (!reserve(w, &tensors, w->n_tensors, &w->tensors_capacity, sizeof *w->tensors))
        return;
    w->tensors = tensors;
    char *copy = loam_arena_strdup(w->arena, name);
    if (!copy) {
        out_of_memory(w);
        return;
    }
    w->tensors[w->n_tensors++] = (tensor_entry){copy, n_dims, *t, loam_tensor_bytes(t)};
}

/* ---- writing ------------------------------------------------------------------------------ */

static loam_status find_alignment(const loam_gguf_writer *w, size_t *out, loam_error *e)
{
    *out = GGUF_DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < w->n_entries; i++) {
        const entry *from = &w->entries[i];
        if (!slice_equals(from->key, GGUF_KEY_ALIGNMENT))
            continue;
        uint32_t value = 0;
        if (from->type == LOAM_KV_U32)
            memcpy(&value, from->value.data, sizeof value);
        if (value < 8 || value > MAX_ALIGNMENT || (value & (value - 1)) != 0)
            return loam_fail(e, LOAM_E_USAGE, "%s must be a u32 power of two, 8 to %d",
                             GGUF_KEY_ALIGNMENT, MAX_ALIGNMENT);
        *out = value;
    }
    return LOAM_OK;
}

static loam_status check_unique_names(loam_gguf_writer *w, loam_error *e)
{
    loam_index index;
    if (!loam_index_init(&index, w->arena, w->n_tensors))
        return loam_fail(e, LOAM_E_MEMORY, "out of memory collecting a GGUF file");
    for (size_t i = 0; i < w->n_tensors; i++) {
        const char *name = w->tensors[i].name;
        if (loam_index_add(&index, loam_slice_of(name), (int64_t)i) >= 0)
            return loam_fail(e, LOAM_E_USAGE, "tensor '%s' was added twice", name);
    }
    return LOAM_OK;
}

static void put_u32(loam_string *s, uint32_t value)
{
    loam_string_append(s, (const char *)&value, sizeof value);
}

static void put_u64(loam_string *s, uint64_t value)
{
    loam_string_append(s, (const char *)&value, sizeof value);
}

static size_t padding(uint64_t at, size_t alignment)
{
    return (size_t)((0 - at) & (alignment - 1));
}

/* Everything before the tensor data, padded to where that starts. */
static void put_header(const loam_gguf_writer *w, size_t alignment, loam_string *s)
{
    loam_string_append(s, GGUF_MAGIC, 4);
    put_u32(s, WRITTEN_VERSION);
    put_u64(s, w->n_tensors);
    put_u64(s, w->n_entries);
    for (size_t i = 0; i < w->n_entries; i++) {
        const entry *from = &w->entries[i];
        put_u64(s, from->key.bytes);
        loam_string_append(s, from->key.data, from->key.bytes);
        put_u32(s, (uint32_t)from->type);
        if (from->type == LOAM_KV_ARRAY) {
            put_u32(s, (uint32_t)from->element_type);
            put_u64(s, from->n);
        }
        loam_string_append(s, from->value.data, from->value.bytes);
    }
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const tensor_entry *t = &w->tensors[i];
        put_u64(s, strlen(t->name));
        loam_string_puts(s, t->name);
        put_u32(s, (uint32_t)t->n_dims);
        for (int d = 0; d < t->n_dims; d++)
            put_u64(s, (uint64_t)t->t.ne[d]);
        put_u32(s, (uint32_t)t->t.type);
        put_u64(s, offset);
        offset += t->bytes + padding(t->bytes, alignment);
    }
    static const char zeros[MAX_ALIGNMENT];
    loam_string_append(s, zeros, padding(s->length_bytes, alignment));
}

static loam_status write_all(const loam_gguf_writer *w, size_t alignment, loam_file_writer *file,
                             loam_error *e)
{
    loam_string header = {0};
    put_header(w, alignment, &header);
    loam_status status = LOAM_OK;
    if (header.failed)
        status = loam_fail(e, LOAM_E_MEMORY, "out of memory writing the header of a GGUF file");
    else
        status = loam_file_writer_write(file, header.data, header.length_bytes, e);
    loam_string_free(&header);
    static const char zeros[MAX_ALIGNMENT];
    for (size_t i = 0; status == LOAM_OK && i < w->n_tensors; i++) {
        const tensor_entry *t = &w->tensors[i];
        status = loam_file_writer_write(file, t->t.data, t->bytes, e);
        if (status == LOAM_OK)
            status = loam_file_writer_write(file, zeros, padding(t->bytes, alignment), e);
    }
    return status;
}

loam_status loam_gguf_write(loam_gguf_writer *w, const char *path, loam_error *e)
{
    if (!w)
        return loam_fail(e, LOAM_E_MEMORY, "out of memory collecting '%s'", path);
    if (w->error.status != LOAM_OK)
        return loam_fail(e, w->error.status, "cannot write '%s': %s", path, w->error.message);
    size_t alignment = 0;
    LOAM_TRY(find_alignment(w, &alignment, e));
    LOAM_TRY(check_unique_names(w, e));
    loam_file_writer *file = NULL;
    LOAM_TRY(loam_file_writer_open(path, &file, e));
    loam_status status = write_all(w, alignment, file, e);
    if (status != LOAM_OK) {
        loam_file_writer_discard(file);
        return status;
    }
    return loam_file_writer_commit(file, e);
}
