/* file.c: what a GGUF file holds, for people who look at it.
 *
 * Values are given as JSON text: numbers as short as they can be read back, strings quoted and
 * escaped, arrays in brackets. A value that was shortened ends in "...", which JSON does not. */
#include "api/api.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct loam_file {
    loam_gguf *gguf;
    loam_string name, type, value; /* of the key that was asked for last */
};

loam_status loam_file_open(const char *path, loam_file **out, loam_error *e)
{
    *out = NULL;
    loam_file *f = loam_alloc(sizeof *f);
    if (!f)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory to open it", path);
    loam_status status = loam_gguf_open_header(path, &f->gguf, e);
    if (status != LOAM_OK) {
        loam_free(f);
        return status;
    }
    *out = f;
    return LOAM_OK;
}

void loam_file_close(loam_file *f)
{
    if (!f)
        return;
    loam_gguf_close(f->gguf);
    loam_string_free(&f->name);
    loam_string_free(&f->type);
    loam_string_free(&f->value);
    loam_free(f);
}

void loam_file_info_get(const loam_file *f, loam_file_info *out)
{
    const loam_gguf *g = f->gguf;
    *out = (loam_file_info){
        .version = loam_gguf_version(g),
        .n_files = loam_gguf_n_shards(g),
        .n_keys = loam_gguf_n_kv(g),
        .n_tensors = loam_gguf_n_tensors(g),
        .alignment_bytes = loam_gguf_alignment(g),
    };
    for (int64_t i = 0; i < out->n_tensors; i++) {
        const loam_gguf_tensor *t = loam_gguf_tensor_at(g, i);
        /* A file that holds no data may claim more than a sum can hold. */
        if (__builtin_add_overflow(out->n_elements, loam_tensor_ne(&t->t), &out->n_elements))
            out->n_elements = INT64_MAX;
        if (__builtin_add_overflow(out->data_bytes, (int64_t)t->bytes, &out->data_bytes))
            out->data_bytes = INT64_MAX;
    }
}

void loam_file_tensor_at(const loam_file *f, int64_t i, loam_file_tensor *out)
{
    const loam_gguf_tensor *t = loam_gguf_tensor_at(f->gguf, i);
    *out = (loam_file_tensor){
        .name = t->name,
        .type = loam_type_get(t->t.type)->name,
        .n_dims = t->n_dims,
        .bytes = (int64_t)t->bytes,
        .offset_bytes = (int64_t)t->offset_bytes,
        .shard = t->shard,
    };
    memcpy(out->ne, t->t.ne, sizeof out->ne);
}

/* ---- values as text ----------------------------------------------------------------------- */

/* Bytes of the well-formed UTF-8 character at the start of n bytes (RFC 3629); 0 where it is none.
 */
static size_t character_bytes(const unsigned char *p, size_t n)
{
    size_t length = p[0] < 0x80                    ? 1
                    : p[0] >= 0xC2 && p[0] <= 0xDF ? 2
                    : p[0] >= 0xE0 && p[0] <= 0xEF ? 3
                    : p[0] >= 0xF0 && p[0] <= 0xF4 ? 4
                                                   : 0;
    if (length == 0 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and what lies past U+10FFFF. */
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return length;
}

/* One character, or one byte that is none, as JSON writes it in a string. Returns the bytes read.
 */
static size_t escape_character(const unsigned char *p, size_t n, char out[8], size_t *n_out)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *c = named; *c; c += 2) {
        if (p[0] == (unsigned char)c[0]) {
            out[0] = '\\';
            out[1] = c[1];
            *n_out = 2;
            return 1;
        }
    }
    size_t length = character_bytes(p, n);
    if (length == 0) {
        *n_out = (size_t)snprintf(out, 8, "\xEF\xBF\xBD"); /* U+FFFD */
        return 1;
    }
    if (p[0] < 0x20 || p[0] == 0x7F) {
        *n_out = (size_t)snprintf(out, 8, "\\u%04x", p[0]);
        return 1;
    }
    memcpy(out, p, length);
    *n_out = length;
    return length;
}

/* A quoted string that makes `s` at most `limit` bytes long, with room for quote and dots; false
 * where it was shortened. */
static bool put_string(loam_string *s, loam_slice text, size_t limit)
{
    const unsigned char *p = (const unsigned char *)text.data;
    loam_string_puts(s, "\"");
    for (size_t i = 0; i < text.bytes;) {
        char piece[8];
        size_t n_piece;
        size_t n = escape_character(p + i, text.bytes - i, piece, &n_piece);
        size_t rest = i + n < text.bytes ? 4 : 1;
        if (s->length_bytes + n_piece + rest > limit) {
            loam_string_puts(s, "\"...");
            return false;
        }
        loam_string_append(s, piece, n_piece);
        i += n;
    }
    loam_string_puts(s, "\"");
    return true;
}

/* The shortest decimal number that reads back as the same float. */
static void put_real(loam_string *s, double value, bool is_float)
{
    char text[40];
    int most = is_float ? 9 : 17;
    for (int digits = 6; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (is_float ? (float)back == (float)value : back == value)
            break;
    }
    loam_string_puts(s, text);
}

static void put_scalar(loam_string *s, const loam_kv *kv, uint64_t i)
{
    uint64_t natural;
    switch (kv->element_type) {
    case LOAM_KV_F32:
    case LOAM_KV_F64:
        put_real(s, loam_kv_number_at(kv, i), kv->element_type == LOAM_KV_F32);
        break;
    case LOAM_KV_BOOL:
        loam_string_puts(s, loam_kv_int_at(kv, i) ? "true" : "false");
        break;
    case LOAM_KV_U64:
        memcpy(&natural, kv->data + i * sizeof natural, sizeof natural);
        loam_string_printf(s, "%" PRIu64, natural);
        break;
    default:
        loam_string_printf(s, "%" PRId64, loam_kv_int_at(kv, i));
    }
}

/* Elements while they and the count of the rest fit. */
static void put_array(loam_string *s, const loam_kv *kv, size_t limit)
{
    char rest[48];
    loam_string_puts(s, "[");
    for (uint64_t i = 0; i < kv->n && !s->failed; i++) {
        size_t before = s->length_bytes;
        bool whole = true;
        if (i > 0)
            loam_string_puts(s, ", ");
        int n_rest =
            snprintf(rest, sizeof rest, "%s%" PRIu64 " more]...", i > 0 ? ", " : "", kv->n - i);
        if (kv->strings)
            whole = put_string(s, kv->strings[i], limit);
        else
            put_scalar(s, kv, i);
        if (s->failed)
            return;
        /* Behind this element must fit the end, or what stands for the others. */
        size_t behind = i + 1 < kv->n ? (size_t)n_rest : 1;
        if (whole && s->length_bytes + behind <= limit)
            continue;
        s->length_bytes = before;
        s->data[before] = '\0';
        loam_string_puts(s, rest);
        return;
    }
    loam_string_puts(s, "]");
}

static const char *type_name(loam_kv_type type)
{
    static const char *const names[] = {"u8",   "i8",  "u16", "i16", "u32", "i32", "f32",
                                        "bool", "str", "arr", "u64", "i64", "f64"};
    return names[type]; /* the reader has refused every other number */
}

/* More than what stands for a value's rest takes: a value that fits whole is whole with it. */
#define REST_BYTES 64

static void put_value(loam_string *s, const loam_kv *kv, size_t limit)
{
    loam_string_clear(s);
    if (kv->type == LOAM_KV_ARRAY)
        put_array(s, kv, limit);
    else if (kv->type == LOAM_KV_STRING)
        put_string(s, kv->strings[0], limit);
    else
        put_scalar(s, kv, 0);
}

loam_status loam_file_key_at(loam_file *f, int64_t i, size_t value_bytes, loam_file_key *out,
                             loam_error *e)
{
    const loam_kv *kv = loam_gguf_kv_at(f->gguf, i);
    size_t generous = value_bytes < SIZE_MAX - REST_BYTES ? value_bytes + REST_BYTES : value_bytes;
    loam_string_clear(&f->name);
    loam_string_clear(&f->type);
    loam_string_append(&f->name, kv->key.data, kv->key.bytes);
    if (kv->type == LOAM_KV_ARRAY)
        loam_string_printf(&f->type, "arr[%s]", type_name(kv->element_type));
    else
        loam_string_puts(&f->type, type_name(kv->type));
    put_value(&f->value, kv, generous);
    if (!f->value.failed && f->value.length_bytes > value_bytes)
        put_value(&f->value, kv, value_bytes);
    if (f->name.failed || f->type.failed || f->value.failed)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory for the value of metadata key %lld",
                         loam_gguf_path(f->gguf), (long long)i);
    *out = (loam_file_key){
        .name = f->name.data, .type = f->type.data, .n = kv->n, .value = f->value.data};
    return LOAM_OK;
}
