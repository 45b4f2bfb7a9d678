/* model.c: models and adapters of the public interface. */
#include "api/api.h"

const char *const *loam_device_list(void)
{
    return loam_device_names();
}

const char *const *loam_architecture_list(void)
{
    return loam_arch_names();
}

loam_status loam_model_open(const char *path, const loam_model_options *o, loam_model **out,
                            loam_error *e)
{
    static const loam_model_options defaults;
    o = o ? o : &defaults;
    *out = NULL;
    loam_model *m = loam_alloc(sizeof *m);
    if (!m)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory to open the model", path);
    loam_device_options device = {.n_threads = o->n_threads, .compute = o->compute};
    loam_status status = loam_device_open(o->device ? o->device : "cpu", &device, &m->device, e);
    if (status == LOAM_OK)
        status = loam_base_open(path, m->device, &m->base, e);
    if (status != LOAM_OK) {
        loam_model_close(m);
        return status;
    }
    *out = m;
    return LOAM_OK;
}

void loam_model_close(loam_model *m)
{
    if (!m)
        return;
    loam_base_close(m->base);
    loam_device_close(m->device);
    loam_free(m);
}

void loam_model_info_get(const loam_model *m, loam_model_info *out)
{
    const loam_base *b = m->base;
    *out = (loam_model_info){
        .name = b->name,
        .architecture = loam_base_arch_name(b),
        .device = m->device->api->description(m->device),
        .n_layer = b->hparams.n_layer,
        .n_embd = b->hparams.n_embd,
        .n_vocab = b->hparams.n_vocab,
        .n_ctx_train = b->hparams.n_ctx_train,
        .has_chat_template = loam_gguf_find(b->gguf, "tokenizer.chat_template") != NULL,
    };
    for (int64_t i = 0; i < loam_gguf_n_tensors(b->gguf); i++)
        out->n_parameters += loam_tensor_ne(&loam_gguf_tensor_at(b->gguf, i)->t);
    for (int i = 0; i < loam_gguf_n_shards(b->gguf); i++)
        out->file_bytes += (int64_t)loam_gguf_map(b->gguf, i)->bytes;
}

loam_status loam_adapter_load(loam_model *m, const char *path, float scale, loam_adapter **out,
                              loam_error *e)
{
    *out = NULL;
    loam_adapter *a = loam_alloc(sizeof *a);
    if (!a)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory for the adapter", path);
    loam_status status = loam_lora_load(m->base, path, scale, &a->lora, e);
    if (status != LOAM_OK) {
        loam_adapter_free(a);
        return status;
    }
    *out = a;
    return LOAM_OK;
}

void loam_adapter_free(loam_adapter *a)
{
    if (!a)
        return;
    loam_lora_free(a->lora);
    loam_free(a);
}

loam_status loam_train(loam_model *m, const loam_train_options *o, loam_event_fn on_event,
                       void *user, loam_train_result *out, loam_error *e)
{
    return loam_trainer_run(m->base, o, on_event, user, out, e);
}

loam_status loam_forecast_make(loam_model *m, const loam_train_options *o, bool timed,
                               loam_forecast *out, loam_error *e)
{
    return loam_trainer_forecast(m->base, o, timed, out, e);
}

loam_status loam_bench(loam_model *m, const loam_bench_options *o, loam_bench_result *out,
                       loam_error *e)
{
    return loam_bench_run(m->base, o, out, e);
}

void loam_release(void *p)
{
    loam_free(p);
}
