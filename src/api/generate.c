/* generate.c: text from a model: the prompt through the chat template, tokens one at a time,
 * whole characters out. */
#include "api/api.h"

#include <string.h>

void loam_generate_options_default(loam_generate_options *o)
{
    *o = (loam_generate_options){
        .max_tokens = 256, .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
}

typedef struct generation {
    loam_model *m;
    const loam_generate_options *o;
    bool (*on_text)(void *user, const char *text, size_t n_bytes);
    void *user;
    loam_context *context;
    loam_string prompt, pending; /* bytes of a character that is not complete yet */
    loam_tokens tokens;
    void *scratch;
    loam_rng rng;
    loam_generate_result result;
} generation;

/* ---- the prompt --------------------------------------------------------------------------- */

static loam_status render(generation *x, const loam_slice *source, json_t *variables, loam_error *e)
{
    loam_template *t;
    LOAM_TRY(loam_template_create(source->data, source->bytes, "tokenizer.chat_template", &t, e));
    loam_status status = loam_template_render(t, variables, NULL, &x->prompt, e);
    loam_template_free(t);
    return status;
}

/* False where the text is not UTF-8, or memory ran out. */
static bool append_message(json_t *messages, const char *role, const char *text)
{
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", text);
    return json_array_append_new(messages, message) == 0;
}

static json_t *chat_variables(const generation *x)
{
    const loam_tokenizer *t = x->m->base->tokenizer;
    loam_string bos = {0}, eos = {0};
    if (loam_tokenizer_bos(t) >= 0)
        loam_token_piece(t, loam_tokenizer_bos(t), true, &bos);
    if (loam_tokenizer_eos(t) >= 0)
        loam_token_piece(t, loam_tokenizer_eos(t), true, &eos);
    json_t *messages = json_array();
    bool failed = x->o->system && !append_message(messages, "system", x->o->system);
    failed = failed || !append_message(messages, "user", x->o->prompt);
    if (failed) {
        json_decref(messages);
        messages = NULL; /* json_pack then fails too */
    }
    json_t *v =
        json_pack("{s:o, s:b, s:s, s:s}", "messages", messages, "add_generation_prompt", 1,
                  "bos_token", bos.data ? bos.data : "", "eos_token", eos.data ? eos.data : "");
    loam_string_free(&bos);
    loam_string_free(&eos);
    return v;
}

/* A template writes its own BOS; then the tokenizer must not add another. */
static loam_status tokenize_prompt(generation *x, bool is_chat, loam_error *e)
{
    const loam_tokenizer *t = x->m->base->tokenizer;
    unsigned flags = LOAM_TOKENIZE_PARSE_SPECIAL | LOAM_TOKENIZE_ADD_SPECIAL;
    loam_string bos = {0};
    if (loam_tokenizer_bos(t) >= 0)
        loam_token_piece(t, loam_tokenizer_bos(t), true, &bos);
    if (is_chat && bos.length_bytes > 0 && x->prompt.length_bytes >= bos.length_bytes &&
        memcmp(x->prompt.data, bos.data, bos.length_bytes) == 0)
        flags = LOAM_TOKENIZE_PARSE_SPECIAL;
    loam_string_free(&bos);
    return loam_tokenize(t, x->prompt.data ? x->prompt.data : "", x->prompt.length_bytes, flags,
                         &x->tokens, e);
}

static loam_status make_prompt(generation *x, loam_error *e)
{
    loam_slice source = {0};
    LOAM_TRY(loam_kv_string(x->m->base->gguf, "tokenizer.chat_template", false, &source, e));
    bool is_chat = !x->o->raw && source.data;
    if (!is_chat && x->o->system)
        return loam_fail(e, LOAM_E_USAGE, "a system turn needs a chat template, and %s",
                         x->o->raw ? "--raw leaves it out" : "this model has none");
    if (is_chat) {
        json_t *variables = chat_variables(x);
        loam_status status = variables ? render(x, &source, variables, e)
                                       : loam_fail(e, LOAM_E_DATA,
                                                   "the prompt or the system turn is not valid "
                                                   "UTF-8, as a chat template needs it");
        json_decref(variables);
        LOAM_TRY(status);
    } else {
        loam_string_puts(&x->prompt, x->o->prompt);
    }
    if (x->prompt.failed)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the prompt");
    return tokenize_prompt(x, is_chat, e);
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Bytes at the end of `s` that begin a character whose rest has not come yet. */
static size_t incomplete_bytes(const loam_string *s)
{
    for (size_t back = 1; back <= 3 && back <= s->length_bytes; back++) {
        unsigned char c = (unsigned char)s->data[s->length_bytes - back];
        if ((c & 0xC0) == 0x80)
            continue; /* a continuation byte: look further back */
        size_t want = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return want > back ? back : 0;
    }
    return 0;
}

/* Gives whole characters to the caller; false when it wants no more. */
static bool give(generation *x, bool is_last)
{
    loam_string *s = &x->pending;
    size_t kept = is_last ? 0 : incomplete_bytes(s);
    size_t n = s->length_bytes - kept;
    if (n == 0)
        return true;
    bool go_on = !x->on_text || x->on_text(x->user, s->data, n);
    char tail[4];
    memcpy(tail, s->data + n, kept);
    loam_string_clear(s);
    loam_string_append(s, tail, kept);
    return go_on;
}

static loam_status loop(generation *x, loam_error *e)
{
    const loam_base *m = x->m->base;
    const loam_sampling sampling = {x->o->temperature, x->o->top_k, x->o->top_p, x->o->min_p};
    const float *logits;
    double began_ms = loam_now_ms();
    LOAM_TRY(loam_context_decode(x->context, x->tokens.ids, x->tokens.n, &logits, e));
    double prompt_ms = loam_now_ms();
    x->result.n_prompt = x->tokens.n;
    x->result.prompt_ms = prompt_ms - began_ms;
    int64_t room = loam_context_n_ctx(x->context) - x->tokens.n;
    int64_t most = x->o->max_tokens > 0 ? LOAM_MIN(x->o->max_tokens, room) : room;
    bool go_on = true;
    for (int64_t i = 0; i < most && go_on; i++) {
        int32_t id = loam_sample(&sampling, logits, m->hparams.n_vocab, x->scratch, &x->rng);
        x->result.ended = loam_token_is_eog(m->tokenizer, id);
        if (x->result.ended)
            break;
        x->result.n_generated++;
        loam_token_piece(m->tokenizer, id, false, &x->pending);
        if (x->pending.failed)
            return loam_fail(e, LOAM_E_MEMORY, "no memory for generated text");
        go_on = give(x, false);
        if (go_on && i + 1 < most)
            LOAM_TRY(loam_context_decode(x->context, &id, 1, &logits, e));
    }
    if (go_on)
        give(x, true);
    x->result.generate_ms = loam_now_ms() - prompt_ms;
    return LOAM_OK;
}

static loam_status check_options(const loam_generate_options *o, int64_t n_ctx_train, loam_error *e)
{
    if (o->n_ctx > n_ctx_train)
        return loam_fail(e, LOAM_E_USAGE, "--ctx %lld: this model was made for at most %lld tokens",
                         (long long)o->n_ctx, (long long)n_ctx_train);
    if (!o->prompt)
        return loam_fail(e, LOAM_E_USAGE, "-p PROMPT is missing");
    if (!(o->temperature >= 0) || !(o->top_p > 0 && o->top_p <= 1) ||
        !(o->min_p >= 0 && o->min_p <= 1) || o->top_k < 0 || o->max_tokens < 0 || o->n_ctx < 0)
        return loam_fail(e, LOAM_E_USAGE,
                         "sampling: expected a temperature of at least 0, top-k of at least 0, "
                         "top-p above 0 and at most 1, min-p from 0 to 1, and no negative lengths");
    return LOAM_OK;
}

/* Room for the prompt and what may follow, within the model's context: a cache of the whole
 * context of a large model would not fit many machines. */
static int64_t context_tokens(const generation *x)
{
    int64_t n_ctx_train = x->m->base->hparams.n_ctx_train;
    int64_t n_new = x->o->max_tokens > 0 ? x->o->max_tokens : 4096;
    int64_t n_ctx = x->tokens.n + LOAM_MIN(n_new, n_ctx_train);
    return x->o->n_ctx > 0 ? x->o->n_ctx : LOAM_MIN(n_ctx, n_ctx_train);
}

static loam_status generate(generation *x, loam_adapter *a, loam_error *e)
{
    LOAM_TRY(check_options(x->o, x->m->base->hparams.n_ctx_train, e));
    LOAM_TRY(make_prompt(x, e));
    if (x->tokens.n > context_tokens(x))
        return loam_fail(e, LOAM_E_USAGE, "the prompt has %lld tokens; the context holds %lld",
                         (long long)x->tokens.n, (long long)context_tokens(x));
    x->scratch = loam_alloc(loam_sample_scratch_bytes(x->m->base->hparams.n_vocab));
    if (!x->scratch)
        return loam_fail(e, LOAM_E_MEMORY, "no memory to sample");
    LOAM_TRY(
        loam_context_create(x->m->base, a ? a->lora : NULL, context_tokens(x), &x->context, e));
    return loop(x, e);
}

loam_status loam_generate(loam_model *m, loam_adapter *a, const loam_generate_options *o,
                          bool (*on_text)(void *user, const char *text, size_t n_bytes), void *user,
                          loam_generate_result *out, loam_error *e)
{
    generation x = {.m = m,
                    .o = o,
                    .on_text = on_text,
                    .user = user,
                    .rng = loam_rng_stream(o->seed, "generate")};
    loam_status status = generate(&x, a, e);
    if (out)
        *out = x.result;
    loam_context_free(x.context);
    loam_tokens_free(&x.tokens);
    loam_string_free(&x.prompt);
    loam_string_free(&x.pending);
    loam_free(x.scratch);
    return status;
}
