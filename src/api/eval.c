/* eval.c: losses of data files and texts. */
#include "api/api.h"

#include <math.h>

typedef struct evaluation {
    loam_dataset *data;
    loam_batches *batches;
    loam_stepper *stepper;
} evaluation;

static loam_status evaluate(evaluation *v, loam_model *m, loam_adapter *a, const char *data,
                            const loam_data_options *o, loam_eval_result *out, loam_error *e)
{
    loam_data_options d = o ? *o : (loam_data_options){0};
    if (d.max_seq_length == 0)
        d.max_seq_length = LOAM_MIN((int64_t)2048, m->base->hparams.n_ctx_train);
    LOAM_TRY(loam_dataset_load(m->base, data, &d, &v->data, e));
    LOAM_TRY(loam_batches_create(v->data, d.max_seq_length, 1, false, 0, &v->batches, e));
    LOAM_TRY(loam_stepper_create(m->base, a ? a->lora : NULL, &(loam_stepper_options){0},
                                 &v->stepper, e));
    double began_ms = loam_now_ms();
    LOAM_TRY(loam_evaluate(v->stepper, v->batches, &out->loss, e));
    out->seconds = (loam_now_ms() - began_ms) / 1e3;
    out->perplexity = exp(out->loss);
    out->data = v->data->summary;
    out->tokens_per_s = (double)v->data->n_tokens / out->seconds;
    return LOAM_OK;
}

loam_status loam_eval(loam_model *m, loam_adapter *a, const char *data, const loam_data_options *o,
                      loam_eval_result *out, loam_error *e)
{
    evaluation v = {0};
    *out = (loam_eval_result){0};
    loam_status status = evaluate(&v, m, a, data, o, out, e);
    loam_stepper_free(v.stepper);
    loam_batches_free(v.batches);
    loam_dataset_free(v.data);
    return status;
}

static loam_status score(loam_model *m, loam_adapter *a, const loam_tokens *t, float *logprobs,
                         loam_error *e)
{
    loam_context *c;
    LOAM_TRY(loam_context_create(m->base, a ? a->lora : NULL, 0, &c, e));
    loam_status status = loam_context_score(c, t->ids, t->n, logprobs, e);
    loam_context_free(c);
    return status;
}

loam_status loam_score(loam_model *m, loam_adapter *a, const char *text, size_t text_bytes,
                       int32_t **tokens, float **logprobs, int64_t *n_tokens, loam_error *e)
{
    loam_tokens t = {0};
    *tokens = NULL;
    *logprobs = NULL;
    *n_tokens = 0;
    loam_status status =
        loam_tokenize(m->base->tokenizer, text, text_bytes,
                      LOAM_TOKENIZE_ADD_SPECIAL | LOAM_TOKENIZE_PARSE_SPECIAL, &t, e);
    if (status == LOAM_OK && t.n < 2)
        status = loam_fail(e, LOAM_E_DATA, "the text has %lld tokens; scoring needs at least two",
                           (long long)t.n);
    float *values = NULL;
    if (status == LOAM_OK) {
        values = loam_alloc((size_t)t.n * sizeof *values);
        status = values ? score(m, a, &t, values, e)
                        : loam_fail(e, LOAM_E_MEMORY, "no memory for %lld log-probabilities",
                                    (long long)t.n);
    }
    if (status != LOAM_OK) {
        loam_free(values);
        loam_tokens_free(&t);
        return status;
    }
    loam_free(t.offsets_bytes);
    *tokens = t.ids;
    *logprobs = values;
    *n_tokens = t.n;
    return LOAM_OK;
}
