/* dataset_add.c: one example's tokens into the set. */
#include "train/dataset.h"

#include <string.h>

/* ---- the draft ---------------------------------------------------------------------------- */

static loam_status draft_reserve(loam_loader *l, int64_t n)
{
    loam_draft *d = &l->draft;
    if (n <= d->capacity)
        return LOAM_OK;
    int64_t capacity = LOAM_MAX(n, 2 * d->capacity);
    int32_t *ids = loam_realloc(d->ids, (size_t)capacity * sizeof *ids);
    if (ids)
        d->ids = ids;
    uint8_t *trained = ids ? loam_realloc(d->trained, (size_t)capacity) : NULL;
    if (!trained)
        return loam_data_no_memory(l);
    d->trained = trained;
    d->capacity = capacity;
    return LOAM_OK;
}

loam_status loam_data_tokenize(loam_loader *l, const char *text, size_t n_bytes)
{
    const loam_tokenizer *t = l->tokenizer;
    loam_draft *d = &l->draft;
    l->tokens.n = 0;
    LOAM_TRY(loam_tokenize(t, text, n_bytes, LOAM_TOKENIZE_PARSE_SPECIAL, &l->tokens, l->e));
    int64_t n = l->tokens.n;
    int32_t bos = loam_tokenizer_bos(t);
    bool has_bos = n > 0 && l->tokens.ids[0] == bos;
    d->n_bos = loam_tokenizer_adds_bos(t) && bos >= 0 && !has_bos;
    /* Two more than the text's: a BOS and an EOS. */
    LOAM_TRY(draft_reserve(l, n + 2));
    if (d->n_bos)
        d->ids[0] = bos;
    if (n > 0)
        memcpy(d->ids + d->n_bos, l->tokens.ids, (size_t)n * sizeof *d->ids);
    d->n = n + d->n_bos;
    memset(d->trained, 0, (size_t)d->n);
    return LOAM_OK;
}

void loam_data_mark(loam_loader *l, size_t begin_bytes, size_t end_bytes)
{
    const size_t *offsets = l->tokens.offsets_bytes;
    for (int64_t i = 0; i < l->tokens.n && offsets[i] < end_bytes; i++) {
        if (offsets[i] >= begin_bytes)
            l->draft.trained[i + l->draft.n_bos] = 1;
    }
}

loam_status loam_data_end(loam_loader *l)
{
    loam_draft *d = &l->draft;
    int32_t eos = loam_tokenizer_eos(l->tokenizer);
    if (eos < 0 || (d->n > 0 && loam_token_is_eog(l->tokenizer, d->ids[d->n - 1])))
        return LOAM_OK;
    LOAM_TRY(draft_reserve(l, d->n + 1));
    d->ids[d->n] = eos;
    d->trained[d->n++] = 1;
    return LOAM_OK;
}

/* ---- the set ------------------------------------------------------------------------------ */

static loam_status set_reserve(loam_loader *l, int64_t n_tokens)
{
    loam_dataset *d = l->set;
    if (d->n_examples == l->example_capacity) {
        int64_t capacity = LOAM_MAX((int64_t)64, 2 * l->example_capacity);
        loam_example *examples = loam_realloc(d->examples, (size_t)capacity * sizeof *examples);
        if (!examples)
            return loam_data_no_memory(l);
        d->examples = examples;
        l->example_capacity = capacity;
    }
    if (d->n_tokens + n_tokens > l->token_capacity) {
        int64_t capacity = LOAM_MAX(d->n_tokens + n_tokens, 2 * l->token_capacity);
        int32_t *tokens = loam_realloc(d->tokens, (size_t)capacity * sizeof *tokens);
        if (tokens)
            d->tokens = tokens;
        uint8_t *trained = tokens ? loam_realloc(d->trained, (size_t)capacity) : NULL;
        if (!trained)
            return loam_data_no_memory(l);
        d->trained = trained;
        l->token_capacity = capacity;
    }
    return LOAM_OK;
}

/* Tokens [first, first + n) of the draft become an example. */
static loam_status commit(loam_loader *l, int64_t first, int64_t n, int64_t line)
{
    loam_dataset *d = l->set;
    int64_t n_trained = 0;
    l->draft.trained[first] = 0; /* nothing stands before it to predict it from */
    for (int64_t i = first; i < first + n; i++)
        n_trained += l->draft.trained[i];
    if (n_trained == 0) {
        d->summary.n_untrained++;
        return LOAM_OK;
    }
    LOAM_TRY(set_reserve(l, n));
    memcpy(d->tokens + d->n_tokens, l->draft.ids + first, (size_t)n * sizeof *d->tokens);
    memcpy(d->trained + d->n_tokens, l->draft.trained + first, (size_t)n);
    d->examples[d->n_examples++] = (loam_example){
        .first = d->n_tokens, .n_tokens = n, .n_trained = n_trained, .file = l->file, .line = line};
    d->n_tokens += n;
    return LOAM_OK;
}

void loam_data_restore(loam_dataset *d, const loam_dataset *before)
{
    d->n_tokens = before->n_tokens;
    d->n_examples = before->n_examples;
    d->summary = before->summary;
}

loam_status loam_data_add_pieces(loam_loader *l, const char *text)
{
    loam_draft *d = &l->draft;
    bool has_bos = d->n > 0 && d->ids[0] == loam_tokenizer_bos(l->tokenizer);
    int64_t line = l->line;
    size_t counted_bytes = 0;
    for (int64_t at = 0; at < d->n;) {
        int64_t first = at > 0 ? at - 1 : 0;
        int64_t end = LOAM_MIN(first + l->o.max_seq_length, d->n);
        if (at > 0 && has_bos)
            d->ids[first] = d->ids[0];
        int64_t token = at - d->n_bos;
        size_t offset = text && token > 0 ? l->tokens.offsets_bytes[LOAM_MIN(token, l->tokens.n)]
                                          : counted_bytes;
        for (; counted_bytes < offset; counted_bytes++)
            line += text[counted_bytes] == '\n';
        LOAM_TRY(commit(l, first, end - first, line));
        at = end;
    }
    return LOAM_OK;
}

loam_status loam_data_add(loam_loader *l)
{
    loam_data_summary *s = &l->set->summary;
    int64_t n = l->draft.n, limit = l->o.max_seq_length;
    if (n <= limit)
        return n > 0 ? commit(l, 0, n, l->line) : LOAM_OK;
    if (l->o.overlong == LOAM_OVERLONG_ERROR)
        return loam_fail(l->e, LOAM_E_USAGE,
                         "%s:%lld: the example has %lld tokens, and max_seq_length is %lld; raise "
                         "it, or choose what becomes of long examples: drop, truncate or split",
                         l->file_name, (long long)l->line, (long long)n, (long long)limit);
    s->n_overlong++;
    if (l->o.overlong == LOAM_OVERLONG_DROP)
        return LOAM_OK;
    if (l->o.overlong == LOAM_OVERLONG_TRUNCATE) {
        s->n_truncated++;
        return commit(l, 0, limit, l->line);
    }
    s->n_split++;
    return loam_data_add_pieces(l, NULL);
}
