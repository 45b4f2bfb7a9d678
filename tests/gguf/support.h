/* support.h: temporary files, asset paths, and a walk over all that an open file offers. */
#ifndef LOAM_TESTS_GGUF_SUPPORT_H
#define LOAM_TESTS_GGUF_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"

static char test_directory[64];

static inline int make_directory(void **state)
{
    (void)state;
    strcpy(test_directory, "/tmp/loam-test-gguf-XXXXXX");
    return mkdtemp(test_directory) ? 0 : -1;
}

static inline int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", test_directory);
    return system(command);
}

/* One of eight static buffers. */
static inline char *path_buffer(void)
{
    static char paths[8][1024];
    static int next;
    return paths[next++ % 8];
}

static inline const char *in_directory(const char *name)
{
    char *path = path_buffer();
    snprintf(path, 1024, "%s/%s", test_directory, name);
    return path;
}

/* The path of a file of the shared test inputs; skips the test where they are absent. */
static inline const char *asset(const char *name)
{
    const char *root = getenv("LOAM_ASSETS");
    char *path = path_buffer();
    snprintf(path, 1024, "%s/%s", root ? root : LOAM_SOURCE_DIR "/../shared/assets", name);
    if (access(path, R_OK) != 0) {
        print_message("absent: %s\n", path);
        skip();
    }
    return path;
}

static inline void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline char *get_file(const char *path, size_t *n)
{
    char *data = NULL;
    assert_int_equal(loam_read_file(path, (size_t)64 << 20, &data, n, NULL), LOAM_OK);
    return data;
}

static inline loam_gguf *open_ok(const char *path)
{
    loam_gguf *g = NULL;
    loam_error e = {0};
    if (loam_gguf_open(path, &g, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return g;
}

/* Opening must fail with a message that names the file and holds `reason`. */
static inline void open_refused(const char *path, bool header_only, loam_status status,
                                const char *reason)
{
    loam_gguf *g = (loam_gguf *)&g; /* must become NULL */
    loam_error e = {0};
    loam_status found =
        header_only ? loam_gguf_open_header(path, &g, &e) : loam_gguf_open(path, &g, &e);
    if (found != status || !strstr(e.message, reason))
        fail_msg("%s: status %s, expected %s: '%s', expected '%s'", path, loam_status_name(found),
                 loam_status_name(status), e.message, reason);
    assert_null(g);
    assert_non_null(strstr(e.message, strrchr(path, '/')));
}

/* Reads every byte that the handle says may be read; returns something that depends on them. */
static inline uint64_t walk(const loam_gguf *g)
{
    uint64_t sum = loam_gguf_version(g) + loam_gguf_alignment(g);
    for (int64_t i = 0; i < loam_gguf_n_kv(g); i++) {
        const loam_kv *kv = loam_gguf_kv_at(g, i);
        sum ^= loam_hash(kv->key.data, kv->key.bytes, sum);
        for (uint64_t j = 0; j < kv->n; j++) {
            if (kv->strings)
                sum ^= loam_hash(kv->strings[j].data, kv->strings[j].bytes, sum);
            else
                sum ^= (uint64_t)loam_kv_int_at(kv, j) + (loam_kv_number_at(kv, j) > 0);
        }
    }
    for (int64_t i = 0; i < loam_gguf_n_tensors(g); i++) {
        const loam_gguf_tensor *t = loam_gguf_tensor_at(g, i);
        assert_ptr_equal(loam_gguf_find_tensor(g, t->name), t);
        assert_int_equal(loam_tensor_bytes(&t->t), t->bytes);
        if (t->t.data)
            sum ^= loam_hash(t->t.data, t->bytes, sum);
    }
    return sum ^ loam_gguf_hash(g);
}

static inline loam_kv make_kv(const char *key, loam_kv_type type, loam_kv_type element_type,
                              const void *data, uint64_t n)
{
    return (loam_kv){.key = {key, strlen(key)},
                     .type = type,
                     .element_type = element_type,
                     .n = n,
                     .data = data};
}

static inline loam_tensor make_tensor(loam_type type, const int64_t ne[LOAM_MAX_DIMS], void *data)
{
    loam_tensor t = {.type = type, .data = data};
    memcpy(t.ne, ne, sizeof t.ne);
    loam_dense_strides(type, ne, t.nb);
    return t;
}

/* Tensor data for make_sample. */
static unsigned char sample_data[4096];

/* A file of about 3 KB with every kind of metadata and several kinds of tensors. */
static inline loam_gguf_writer *sample_writer(void)
{
    loam_rng rng = loam_rng_stream(5, "sample");
    for (size_t i = 0; i < sizeof sample_data; i++)
        sample_data[i] = (unsigned char)loam_rng_next(&rng);
    loam_gguf_writer *w = loam_gguf_writer_new();
    static const char *const kinds[] = {"u8",   "i8", "u16", "i16", "u32", "i32", "f32",
                                        "bool", "",   "",    "u64", "i64", "f64"};
    for (int type = 0; type < LOAM_COUNT(kinds); type++) {
        if (!*kinds[type])
            continue;
        uint64_t bits[3] = {0x0001017f01010101u, 1, 0x0100010001000100u};
        char key[32];
        snprintf(key, sizeof key, "scalar.%s", kinds[type]);
        loam_kv kv = make_kv(key, (loam_kv_type)type, (loam_kv_type)type, (const uint8_t *)bits, 1);
        loam_gguf_set_kv(w, &kv);
        snprintf(key, sizeof key, "array.%s", kinds[type]);
        loam_gguf_set_array(w, key, (loam_kv_type)type, bits, 3);
        snprintf(key, sizeof key, "empty.%s", kinds[type]);
        loam_gguf_set_array(w, key, (loam_kv_type)type, NULL, 0);
    }
    loam_gguf_set_string(w, "general.architecture", "sample");
    loam_gguf_set_string(w, "string.empty", "");
    const loam_slice strings[] = {{"one", 3}, {"", 0}, {"t\0wo", 4}, {"\xf0\x9f\x8c\xb1", 4}};
    loam_gguf_set_string_array(w, "array.string", strings, 4);
    loam_gguf_set_string_array(w, "empty.string", NULL, 0);
    loam_tensor f32 = make_tensor(LOAM_TYPE_F32, (int64_t[]){3, 5, 1, 1}, sample_data);
    loam_tensor q8 = make_tensor(LOAM_TYPE_Q8_0, (int64_t[]){64, 2, 2, 1}, sample_data + 100);
    loam_tensor f16 = make_tensor(LOAM_TYPE_F16, (int64_t[]){7, 1, 1, 1}, sample_data + 4);
    loam_tensor none = make_tensor(LOAM_TYPE_F32, (int64_t[]){4, 0, 1, 1}, NULL);
    loam_tensor k = make_tensor(LOAM_TYPE_Q4_K, (int64_t[]){256, 1, 1, 2}, sample_data + 512);
    loam_gguf_add_tensor(w, "blk.0.attn_q.weight", 2, &f32);
    loam_gguf_add_tensor(w, "blk.0.attn_k.weight", 3, &q8);
    loam_gguf_add_tensor(w, "blk.0.norm", 1, &f16);
    loam_gguf_add_tensor(w, "blk.0.none", 2, &none);
    loam_gguf_add_tensor(w, "output", 4, &k);
    return w;
}

static inline void make_sample(const char *path)
{
    loam_gguf_writer *w = sample_writer();
    loam_error e = {0};
    if (loam_gguf_write(w, path, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    loam_gguf_writer_free(w);
}

#endif /* LOAM_TESTS_GGUF_SUPPORT_H */
