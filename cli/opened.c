/* opened.c: the model and the adapter that a command's arguments name. */
#include "opened.h"
#include "format.h"

loam_status opened_open(opened *o, const settings *s, const char *model_path, loam_error *e)
{
    *o = (opened){0};
    loam_model_options options = {
        .device = s->device, .n_threads = s->n_threads, .compute = (loam_compute)s->compute};
    loam_status status = loam_model_open(model_path, &options, &o->model, e);
    if (status != LOAM_OK || !s->lora)
        return status;
    char path[4096];
    float scale;
    if (!format_split_scale(s->lora, path, sizeof path, &scale)) {
        e->status = LOAM_E_USAGE;
        snprintf(e->message, sizeof e->message, "--lora: the path is longer than %d bytes",
                 (int)sizeof path - 1);
        return e->status;
    }
    return loam_adapter_load(o->model, path, scale, &o->adapter, e);
}

void opened_close(opened *o)
{
    loam_adapter_free(o->adapter);
    loam_model_close(o->model);
    *o = (opened){0};
}
