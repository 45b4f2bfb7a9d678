/* gguf.h: GGUF files (v2, v3, split), read by mapping and written whole.
 * Format: the GGUF specification of the ggml project (docs/gguf.md there). */
#ifndef LOAM_GGUF_H
#define LOAM_GGUF_H

#include "core/core.h"
#include "tensor/tensor.h"

typedef enum loam_kv_type {
    LOAM_KV_U8 = 0,
    LOAM_KV_I8 = 1,
    LOAM_KV_U16 = 2,
    LOAM_KV_I16 = 3,
    LOAM_KV_U32 = 4,
    LOAM_KV_I32 = 5,
    LOAM_KV_F32 = 6,
    LOAM_KV_BOOL = 7,
    LOAM_KV_STRING = 8,
    LOAM_KV_ARRAY = 9,
    LOAM_KV_U64 = 10,
    LOAM_KV_I64 = 11,
    LOAM_KV_F64 = 12
} loam_kv_type;

/* A string in the map: not NUL-terminated. */
typedef struct loam_slice {
    const char *data;
    size_t bytes;
} loam_slice;

/* One metadata entry. Scalars are read with the loam_kv_* functions below. */
typedef struct loam_kv {
    loam_slice key;
    loam_kv_type type;
    loam_kv_type element_type; /* of an array; otherwise == type */
    uint64_t n;                /* elements of an array; 1 for scalars and strings */
    const uint8_t *data;       /* packed value(s) in the map, unaligned, little-endian */
    const loam_slice *strings; /* arrays of strings and single strings: n slices; else NULL */
} loam_kv;

typedef struct loam_gguf_tensor {
    const char *name; /* NUL-terminated, owned by the file handle */
    int n_dims;
    loam_tensor t; /* dense; data points into the read-only map: never write */
    size_t bytes;
    int shard;             /* which file of a split model */
    uint64_t offset_bytes; /* from the start of that file */
} loam_gguf_tensor;

typedef struct loam_gguf loam_gguf;

/* Opens and checks a file: every count, offset, size and string is verified against the file's
 * length before use. For a split model give the path of its first file (…-00001-of-0000N.gguf);
 * the others are found beside it and all tensors appear as one list. The tensor data is not read.
 */
loam_status loam_gguf_open(const char *path, loam_gguf **out, loam_error *e);
/* The same for looking at a file only: tensor data may be missing, as in a file of which nothing
 * but the header was downloaded. Tensors that are not wholly in the file have t.data == NULL. */
loam_status loam_gguf_open_header(const char *path, loam_gguf **out, loam_error *e);
void loam_gguf_close(loam_gguf *g);

const char *loam_gguf_path(const loam_gguf *g);
/* The path of one file of the model. */
const char *loam_gguf_shard_path(const loam_gguf *g, int shard);
uint32_t loam_gguf_version(const loam_gguf *g);
size_t loam_gguf_alignment(const loam_gguf *g);
int loam_gguf_n_shards(const loam_gguf *g);
/* The map of one file of the model (shard 0 where it is not split). */
const loam_map *loam_gguf_map(const loam_gguf *g, int shard);

int64_t loam_gguf_n_kv(const loam_gguf *g);
const loam_kv *loam_gguf_kv_at(const loam_gguf *g, int64_t i);
const loam_kv *loam_gguf_find(const loam_gguf *g, const char *key); /* NULL if absent */

int64_t loam_gguf_n_tensors(const loam_gguf *g);
const loam_gguf_tensor *loam_gguf_tensor_at(const loam_gguf *g, int64_t i);
const loam_gguf_tensor *loam_gguf_find_tensor(const loam_gguf *g, const char *name);

/* XXH3-64 of all bytes of the file, as its identity (what `xxhsum -H3` prints); of a split model
 * each part's hash is the seed of the next part's. Reads the whole file. */
uint64_t loam_gguf_hash(const loam_gguf *g);

/* Typed reads. Integer kinds convert between each other where the value fits; f32 and f64 too.
 * A missing key leaves *out as it was and returns LOAM_OK when `required` is false; otherwise, and
 * for a wrong type or a value that does not fit, the error names the file and the key. */
loam_status loam_kv_u32(const loam_gguf *g, const char *key, bool required, uint32_t *out,
                        loam_error *e);
loam_status loam_kv_f32(const loam_gguf *g, const char *key, bool required, float *out,
                        loam_error *e);
loam_status loam_kv_bool(const loam_gguf *g, const char *key, bool required, bool *out,
                         loam_error *e);
/* A slice into the map, not NUL-terminated. */
loam_status loam_kv_string(const loam_gguf *g, const char *key, bool required, loam_slice *out,
                           loam_error *e);
/* Element i of a numeric array (or of a scalar with i == 0). The caller has checked i < kv->n.
 * Strings give 0; int_at cuts fractions off and clamps to int64. */
double loam_kv_number_at(const loam_kv *kv, uint64_t i);
int64_t loam_kv_int_at(const loam_kv *kv, uint64_t i);

/* ---- writing ------------------------------------------------------------------------------ */

/* Collects metadata and tensors, then writes a v3 file beside the target and renames it.
 * Setters copy their arguments; tensor data is not copied and must live until write().
 * Failed setters are remembered and reported by write(). Setting a key again replaces its value.
 * Tensor data is padded to general.alignment if that key is set (a u32 power of two, 8 to 4096),
 * else to 32 bytes. A NULL writer (memory ran out) may be passed on: write() reports it. */
typedef struct loam_gguf_writer loam_gguf_writer;
loam_gguf_writer *loam_gguf_writer_new(void);
void loam_gguf_writer_free(loam_gguf_writer *w);
void loam_gguf_set_u32(loam_gguf_writer *w, const char *key, uint32_t value);
void loam_gguf_set_u64(loam_gguf_writer *w, const char *key, uint64_t value);
void loam_gguf_set_i32(loam_gguf_writer *w, const char *key, int32_t value);
void loam_gguf_set_f32(loam_gguf_writer *w, const char *key, float value);
void loam_gguf_set_bool(loam_gguf_writer *w, const char *key, bool value);
void loam_gguf_set_string(loam_gguf_writer *w, const char *key, const char *value);
void loam_gguf_set_array(loam_gguf_writer *w, const char *key, loam_kv_type element_type,
                         const void *values, uint64_t n); /* numeric kinds, host byte order */
void loam_gguf_set_string_array(loam_gguf_writer *w, const char *key, const loam_slice *values,
                                uint64_t n);
/* Copies one entry as it is from an open file (for merged models). The keys that say how a model
 * is split into files (split.no, split.count, split.tensors.count) are left out. */
void loam_gguf_set_kv(loam_gguf_writer *w, const loam_kv *kv);
/* `t` is dense. Names must be unique and under 64 bytes. */
void loam_gguf_add_tensor(loam_gguf_writer *w, const char *name, int n_dims, const loam_tensor *t);
loam_status loam_gguf_write(loam_gguf_writer *w, const char *path, loam_error *e);

#endif /* LOAM_GGUF_H */
