/* model.c: opening a model on a device, and refusing one that would run only approximately. */
#include "model/build.h"

#include <string.h>

static const loam_arch *const archs[] = {&loam_arch_llama, &loam_arch_qwen2, &loam_arch_qwen3};

const char *const *loam_arch_names(void)
{
    static const char *const names[] = {"llama", "qwen2", "qwen3", NULL};
    _Static_assert(sizeof names / sizeof *names == sizeof archs / sizeof *archs + 1,
                   "a name for every architecture");
    return names;
}

const char *loam_base_arch_name(const loam_base *m)
{
    return m->arch->name;
}

static loam_status find_arch(loam_base *m, loam_error *e)
{
    loam_slice type = {"model", 5}, name;
    LOAM_TRY(loam_kv_string(m->gguf, "general.type", false, &type, e));
    if (type.bytes != 5 || memcmp(type.data, "model", 5) != 0)
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "%s: general.type is '%.*s', expected a model: an adapter goes to --lora",
                         loam_gguf_path(m->gguf), (int)LOAM_MIN(type.bytes, (size_t)100),
                         type.data);
    LOAM_TRY(loam_kv_string(m->gguf, "general.architecture", true, &name, e));
    for (int i = 0; i < LOAM_COUNT(archs); i++)
        if (strlen(archs[i]->name) == name.bytes &&
            memcmp(archs[i]->name, name.data, name.bytes) == 0) {
            m->arch = archs[i];
            return LOAM_OK;
        }
    char known[256] = "";
    for (int i = 0; i < LOAM_COUNT(archs); i++) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", archs[i]->name);
    }
    return loam_fail(
        e, LOAM_E_UNSUPPORTED, "%s: architecture '%.*s' is unknown; this version trains %s",
        loam_gguf_path(m->gguf), (int)LOAM_MIN(name.bytes, (size_t)100), name.data, known);
}

static loam_status read_name(loam_base *m, loam_error *e)
{
    const char *path = loam_gguf_path(m->gguf);
    const char *slash = strrchr(path, '/');
    const char *file = slash ? slash + 1 : path;
    loam_slice name = {file, strlen(file)};
    LOAM_TRY(loam_kv_string(m->gguf, "general.name", false, &name, e));
    snprintf(m->name, sizeof m->name, "%.*s", (int)LOAM_MIN(name.bytes, sizeof m->name - 1),
             name.data);
    return LOAM_OK;
}

static loam_status check_vocabulary(loam_base *m, loam_error *e)
{
    const loam_gguf_tensor *embd = loam_gguf_find_tensor(m->gguf, "token_embd.weight");
    if (!embd)
        return loam_fail(e, LOAM_E_FORMAT, "%s: tensor 'token_embd.weight' is missing",
                         loam_gguf_path(m->gguf));
    m->hparams.n_vocab = embd->t.ne[1];
    if (m->hparams.n_vocab != loam_tokenizer_n_vocab(m->tokenizer))
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: the vocabulary has %d tokens but 'token_embd.weight' has %lld rows",
                         loam_gguf_path(m->gguf), (int)loam_tokenizer_n_vocab(m->tokenizer),
                         (long long)m->hparams.n_vocab);
    return LOAM_OK;
}

static loam_status map_shards(loam_base *m, loam_error *e)
{
    int n = loam_gguf_n_shards(m->gguf);
    m->shards = loam_alloc((size_t)n * sizeof *m->shards);
    if (!m->shards)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a model of %d files", n);
    for (int i = 0; i < n; i++) {
        const loam_map *map = loam_gguf_map(m->gguf, i);
        LOAM_TRY(m->device->api->buffer_map(m->device, map->data, map->bytes, &m->shards[i], e));
    }
    return LOAM_OK;
}

static loam_status refuse_unused(const loam_base *m, const bool *used, loam_error *e)
{
    for (int64_t i = 0; i < loam_gguf_n_tensors(m->gguf); i++)
        if (!used[i])
            return loam_fail(e, LOAM_E_UNSUPPORTED,
                             "%s: Loam does not know what tensor '%s' does in a %s model, so it "
                             "does not run it",
                             loam_gguf_path(m->gguf), loam_gguf_tensor_at(m->gguf, i)->name,
                             m->arch->name);
    return LOAM_OK;
}

/* Builds the graph for one token, only to see that every tensor is there, fits and is used. */
static loam_status try_build(loam_base *m, loam_error *e)
{
    loam_build b = {.m = m, .n_tokens = 1};
    loam_status status = loam_graph_create(LOAM_TYPE_F32, &b.g, e);
    if (status != LOAM_OK)
        return status;
    b.used = loam_alloc((size_t)loam_gguf_n_tensors(m->gguf) * sizeof *b.used);
    b.linears = m->linears = loam_alloc((size_t)loam_gguf_n_tensors(m->gguf) * sizeof *b.linears);
    if (!b.used || !b.linears)
        status = loam_fail(e, LOAM_E_MEMORY, "no memory to check a model's tensors");
    if (status == LOAM_OK)
        status = loam_build_begin(&b, e);
    if (status == LOAM_OK) {
        loam_build_hidden(&b);
        loam_build_head(&b);
        status = loam_graph_status(b.g, e);
    }
    if (status == LOAM_OK)
        status = refuse_unused(m, b.used, e);
    loam_build_end(&b);
    loam_free(b.used);
    loam_graph_free(b.g);
    return status;
}

static loam_status open_parts(loam_base *m, const char *path, loam_error *e)
{
    LOAM_TRY(loam_gguf_open(path, &m->gguf, e));
    LOAM_TRY(find_arch(m, e));
    LOAM_TRY(read_name(m, e));
    LOAM_TRY(loam_hparams_read(m->gguf, m->arch, &m->hparams, e));
    LOAM_TRY(loam_tokenizer_create(m->gguf, &m->tokenizer, e));
    LOAM_TRY(check_vocabulary(m, e));
    LOAM_TRY(map_shards(m, e));
    return try_build(m, e);
}

loam_status loam_base_open(const char *path, loam_device *device, loam_base **out, loam_error *e)
{
    *out = NULL;
    loam_base *m = loam_alloc(sizeof *m);
    if (!m)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory to open the model", path);
    m->device = device;
    loam_status status = open_parts(m, path, e);
    if (status != LOAM_OK) {
        loam_base_close(m);
        return status;
    }
    *out = m;
    return LOAM_OK;
}

void loam_base_close(loam_base *m)
{
    if (!m)
        return;
    for (int i = 0; m->shards && i < loam_gguf_n_shards(m->gguf); i++)
        loam_buffer_free(m->shards[i]);
    loam_free(m->shards);
    loam_free(m->linears);
    loam_tokenizer_free(m->tokenizer);
    loam_gguf_close(m->gguf);
    loam_free(m);
}
