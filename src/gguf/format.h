/* format.h: what the files of this folder share and nobody else sees. */
#ifndef LOAM_GGUF_FORMAT_H
#define LOAM_GGUF_FORMAT_H

#include "gguf/gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are used as they lie in the file, which is little-endian");

#define GGUF_MAGIC "GGUF"
#define GGUF_DEFAULT_ALIGNMENT 32
#define GGUF_KEY_ALIGNMENT "general.alignment"
#define GGUF_MAX_KEY_BYTES 65535      /* the specification's limit */
#define GGUF_MAX_TENSOR_NAME_BYTES 63 /* ggml's: 64 with the NUL */
#define GGUF_KEY_SPLIT_NO "split.no"
#define GGUF_KEY_SPLIT_COUNT "split.count"
#define GGUF_KEY_SPLIT_TENSORS "split.tensors.count"

/* For "%.*s" of a slice: the first 100 bytes of a name are enough to recognize it. */
#define SLICE_ARGS(s) (int)LOAM_MIN((s).bytes, (size_t)100), (s).data

static inline loam_slice loam_slice_of(const char *text)
{
    return (loam_slice){text, __builtin_strlen(text)};
}

/* ---- index.c: names to numbers ------------------------------------------------------------- */

/* A hash table of fixed capacity; names are not copied. */
typedef struct loam_index_slot {
    loam_slice name;
    int64_t value; /* -1: free */
} loam_index_slot;
typedef struct loam_index {
    loam_index_slot *slots;
    size_t mask;
} loam_index;
/* Room for n names; false when memory ran out. The memory is the arena's. */
bool loam_index_init(loam_index *index, loam_arena *arena, size_t n);
/* -1 after adding; the value that the name already has otherwise. */
int64_t loam_index_add(loam_index *index, loam_slice name, int64_t value);
/* -1 where the name is absent. */
int64_t loam_index_find(const loam_index *index, loam_slice name);

/* ---- parse.c: one file -------------------------------------------------------------------- */

typedef struct loam_gguf_file {
    char *path; /* the arena's, like all below but the map */
    loam_map map;
    uint32_t version;
    size_t alignment;
    size_t data_start; /* file offset that tensor offsets count from */
    int64_t n_kv;
    loam_kv *kv;
    loam_index kv_index;
    int64_t n_tensors;
    loam_gguf_tensor *tensors;
} loam_gguf_file;

/* Maps the file and checks its header. After a failure too the caller closes f->map. Tensors get
 * their shape, and their offset from data_start. */
loam_status loam_gguf_parse(loam_gguf_file *f, const char *path, int shard, loam_arena *arena,
                            loam_error *e);
/* Points the file's tensors at their data, or refuses where that is not in the file; with
 * `header_only` such tensors have no data pointer. Offsets count from the file's start then. */
loam_status loam_gguf_place(const loam_gguf_file *f, loam_gguf_tensor *tensors, bool header_only,
                            loam_error *e);
const loam_kv *loam_gguf_file_find(const loam_gguf_file *f, const char *key);

/* ---- kv.c: values ------------------------------------------------------------------------- */

/* Bytes of a scalar; 0 for strings, arrays and numbers that are no type. */
size_t loam_kv_type_bytes(uint32_t type);
const char *loam_kv_type_name(uint32_t type);
/* An integer scalar that fits int64; false for everything else. */
bool loam_kv_integer(const loam_kv *kv, int64_t *out);

/* ---- split.c: models in several files ------------------------------------------------------ */

/* What the split.* keys of a file say. count is 1 where the file is a whole model. */
typedef struct loam_split {
    int64_t no;        /* from 0 */
    int64_t count;     /* files */
    int64_t n_tensors; /* of the whole model; -1 where the key is absent */
} loam_split;
loam_status loam_split_read(const loam_gguf_file *f, loam_split *out, loam_error *e);
/* The path of part `no` of the model that `path`, part `from`, belongs to, in the arena. NULL in
 * *out where the name does not follow the pattern "<prefix>-00001-of-00003.gguf". */
loam_status loam_split_path(const char *path, int64_t from, int64_t no, int64_t count,
                            loam_arena *arena, char **out, loam_error *e);

#endif /* LOAM_GGUF_FORMAT_H */
