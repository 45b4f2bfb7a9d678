/* lora_file.c: GGUF adapters, in the form that llama.cpp's loader defines: metadata general.type,
 * general.architecture, adapter.type, adapter.lora.alpha; tensors "<base>.lora_a" [n_in, rank] and
 * "<base>.lora_b" [rank, n_out]; y += alpha / rank * B (A x), or B (A x) where alpha is 0. */
#include "model/build.h"

#include <math.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------------------ */

static loam_status expect_string(const loam_gguf *g, const char *key, const char *expected,
                                 loam_error *e)
{
    loam_slice s;
    LOAM_TRY(loam_kv_string(g, key, true, &s, e));
    if (s.bytes != strlen(expected) || memcmp(s.data, expected, s.bytes) != 0)
        return loam_fail(e, LOAM_E_FORMAT, "%s: '%s' is '%.*s', expected '%s'", loam_gguf_path(g),
                         key, (int)LOAM_MIN(s.bytes, (size_t)100), s.data, expected);
    return LOAM_OK;
}

/* The base name of a factor ("blk.0.attn_q.weight.lora_a") in base[]; 'a', 'b', or 0 for others. */
static char factor_of(const char *name, char base[LOAM_NAME_BYTES])
{
    size_t n = strlen(name);
    if (n < 8 || (strcmp(name + n - 7, ".lora_a") != 0 && strcmp(name + n - 7, ".lora_b") != 0))
        return 0;
    snprintf(base, LOAM_NAME_BYTES, "%.*s", (int)(n - 7), name);
    return name[n - 1];
}

static const loam_gguf_tensor *other_factor(const loam_gguf *g, const char *base, char which)
{
    char name[LOAM_NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.lora_%c", base, which);
    return loam_gguf_find_tensor(g, name);
}

static loam_status check_pair(const loam_base *m, const loam_gguf *g, const char *base,
                              const loam_gguf_tensor *a, const loam_gguf_tensor *b, loam_error *e)
{
    const char *path = loam_gguf_path(g);
    const loam_gguf_tensor *w = loam_gguf_find_tensor(m->gguf, base);
    if (!a || !b)
        return loam_fail(e, LOAM_E_FORMAT, "%s: '%s' has its lora_%c but no lora_%c", path, base,
                         a ? 'a' : 'b', a ? 'b' : 'a');
    if (!w)
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: adapts '%s', which the model does not have: it was made for another "
                         "model",
                         path, base);
    if (!m->linears[w - loam_gguf_tensor_at(m->gguf, 0)])
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "%s: adapts '%s'; Loam applies adapters to block linears only", path,
                         base);
    if (a->t.ne[0] != w->t.ne[0] || b->t.ne[1] != w->t.ne[1] || a->t.ne[1] != b->t.ne[0] ||
        a->t.ne[1] < 1 || a->n_dims > 2 || b->n_dims > 2)
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: factors [%lld, %lld] and [%lld, %lld] do not fit '%s' [%lld, %lld]: "
                         "the adapter was made for another model, or its factors are transposed",
                         path, (long long)a->t.ne[0], (long long)a->t.ne[1], (long long)b->t.ne[0],
                         (long long)b->t.ne[1], base, (long long)w->t.ne[0], (long long)w->t.ne[1]);
    return LOAM_OK;
}

static loam_status read_pairs(const loam_base *m, const loam_gguf *g, float scale, loam_lora *l,
                              loam_error *e)
{
    for (int64_t i = 0; i < loam_gguf_n_tensors(g); i++) {
        char base[LOAM_NAME_BYTES];
        const loam_gguf_tensor *t = loam_gguf_tensor_at(g, i);
        char which = factor_of(t->name, base);
        if (!which)
            return loam_fail(e, LOAM_E_FORMAT,
                             "%s: tensor '%s' is no LoRA factor (expected names ending in .lora_a "
                             "or .lora_b)",
                             loam_gguf_path(g), t->name);
        const loam_gguf_tensor *a = which == 'a' ? t : other_factor(g, base, 'a');
        const loam_gguf_tensor *b = which == 'b' ? t : other_factor(g, base, 'b');
        LOAM_TRY(check_pair(m, g, base, a, b, e));
        if (which == 'b')
            continue;
        loam_lora_pair *p = &l->pairs[l->n_pairs++];
        snprintf(p->target, sizeof p->target, "%s", base);
        p->n_in = a->t.ne[0];
        p->n_out = b->t.ne[1];
        p->rank = a->t.ne[1];
        p->scale = l->alpha != 0 ? scale * l->alpha / (float)p->rank : scale;
    }
    if (l->n_pairs == 0)
        return loam_fail(e, LOAM_E_FORMAT, "%s: the adapter holds no tensor", loam_gguf_path(g));
    return LOAM_OK;
}

static loam_status read_values(const loam_gguf *g, const loam_lora *l, loam_error *e)
{
    float *values = loam_alloc((size_t)l->n_elements * sizeof *values);
    if (!values)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory for %lld elements", loam_gguf_path(g),
                         (long long)l->n_elements);
    for (int i = 0; i < l->n_pairs; i++) {
        const loam_lora_pair *p = &l->pairs[i];
        const loam_gguf_tensor *a = other_factor(g, p->target, 'a');
        const loam_gguf_tensor *b = other_factor(g, p->target, 'b');
        loam_decode(a->t.type, a->t.data, values + p->a_offset, p->n_in * p->rank);
        loam_decode(b->t.type, b->t.data, values + p->b_offset, p->n_out * p->rank);
    }
    loam_status status = LOAM_OK;
    for (int64_t i = 0; i < l->n_elements && status == LOAM_OK; i++)
        if (!isfinite(values[i]))
            status = loam_fail(e, LOAM_E_FORMAT, "%s: a factor holds a value that is not a number",
                               loam_gguf_path(g));
    if (status == LOAM_OK)
        status = loam_buffer_write(l->values, 0, values, (size_t)l->n_elements * sizeof *values, e);
    loam_free(values);
    return status;
}

static loam_status load(const loam_base *m, const loam_gguf *g, float scale, loam_lora *l,
                        loam_error *e)
{
    LOAM_TRY(expect_string(g, "general.type", "adapter", e));
    LOAM_TRY(expect_string(g, "adapter.type", "lora", e));
    LOAM_TRY(expect_string(g, "general.architecture", loam_base_arch_name(m), e));
    LOAM_TRY(loam_kv_f32(g, "adapter.lora.alpha", true, &l->alpha, e));
    if (!isfinite(l->alpha))
        return loam_fail(e, LOAM_E_FORMAT, "%s: 'adapter.lora.alpha' is not a finite number",
                         loam_gguf_path(g));
    l->pairs = loam_alloc((size_t)LOAM_MAX(loam_gguf_n_tensors(g), 1) * sizeof *l->pairs);
    if (!l->pairs)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory for the adapter", loam_gguf_path(g));
    LOAM_TRY(read_pairs(m, g, scale, l, e));
    LOAM_TRY(loam_lora_allocate(l, m->device, e));
    return read_values(g, l, e);
}

loam_status loam_lora_load(const loam_base *m, const char *path, float scale, loam_lora **out,
                           loam_error *e)
{
    *out = NULL;
    loam_gguf *g;
    LOAM_TRY(loam_gguf_open(path, &g, e));
    loam_lora *l = loam_alloc(sizeof *l);
    loam_status status = l ? load(m, g, scale, l, e)
                           : loam_fail(e, LOAM_E_MEMORY, "%s: no memory for the adapter", path);
    loam_gguf_close(g);
    if (status != LOAM_OK) {
        loam_lora_free(l);
        return status;
    }
    *out = l;
    return LOAM_OK;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The alpha that gives every pair its scale, or the adapter's own where no single one does. */
static float common_alpha(const loam_lora *l)
{
    float alpha = l->pairs[0].scale * (float)l->pairs[0].rank;
    for (int i = 1; i < l->n_pairs; i++)
        if (l->pairs[i].scale * (float)l->pairs[i].rank != alpha)
            return l->alpha != 0 ? l->alpha : 1.0f;
    return alpha;
}

/* Loaders scale by alpha / rank; what differs from that is multiplied into B. */
static void fold_scales(const loam_lora *l, float alpha, float *values)
{
    for (int i = 0; i < l->n_pairs; i++) {
        const loam_lora_pair *p = &l->pairs[i];
        float factor = p->scale / (alpha / (float)p->rank);
        if (p->scale * (float)p->rank == alpha)
            continue;
        for (int64_t j = 0; j < p->n_out * p->rank; j++)
            values[p->b_offset + j] *= factor;
    }
}

static void add_factor(loam_gguf_writer *w, const loam_lora_pair *p, char which, float *data)
{
    char name[LOAM_NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.lora_%c", p->target, which);
    loam_tensor t = {.type = LOAM_TYPE_F32, .ne = {p->n_in, p->rank, 1, 1}, .data = data};
    if (which == 'b') {
        t.ne[0] = p->rank;
        t.ne[1] = p->n_out;
    }
    loam_dense_strides(t.type, t.ne, t.nb);
    loam_gguf_add_tensor(w, name, 2, &t);
}

loam_status loam_lora_save(const loam_base *m, const loam_lora *l, const char *path,
                           const loam_lora_metadata *extra, int n_extra, loam_error *e)
{
    size_t n_bytes = (size_t)l->n_elements * sizeof(float);
    float *values = loam_alloc(n_bytes);
    loam_gguf_writer *w = loam_gguf_writer_new();
    loam_status status = LOAM_OK;
    if (!values || !w)
        status = loam_fail(e, LOAM_E_MEMORY, "%s: no memory to write the adapter", path);
    if (status == LOAM_OK)
        status = loam_buffer_read(l->values, 0, values, n_bytes, e);
    if (status == LOAM_OK) {
        float alpha = common_alpha(l);
        fold_scales(l, alpha, values);
        loam_gguf_set_string(w, "general.type", "adapter");
        loam_gguf_set_string(w, "general.architecture", loam_base_arch_name(m));
        loam_gguf_set_string(w, "general.name", m->name);
        loam_gguf_set_string(w, "adapter.type", "lora");
        loam_gguf_set_f32(w, "adapter.lora.alpha", alpha);
        for (int i = 0; i < n_extra; i++)
            loam_gguf_set_string(w, extra[i].key, extra[i].value);
        for (int i = 0; i < l->n_pairs; i++) {
            add_factor(w, &l->pairs[i], 'a', values + l->pairs[i].a_offset);
            add_factor(w, &l->pairs[i], 'b', values + l->pairs[i].b_offset);
        }
        status = loam_gguf_write(w, path, e);
    }
    loam_gguf_writer_free(w);
    loam_free(values);
    return status;
}
