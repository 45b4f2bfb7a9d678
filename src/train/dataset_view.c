/* dataset_view.c: a set's hash and sums, splitting it, and showing an example. */
#include "train/dataset.h"

#include <string.h>

/* ---- sums --------------------------------------------------------------------------------- */

void loam_dataset_count(loam_dataset *d)
{
    uint64_t hash = 0;
    loam_data_summary *s = &d->summary;
    s->n_examples = d->n_examples;
    s->n_tokens = s->n_trained = s->n_longest = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        const loam_example *x = &d->examples[i];
        s->n_tokens += x->n_tokens;
        s->n_trained += x->n_trained;
        s->n_longest = LOAM_MAX(s->n_longest, x->n_tokens);
        hash = loam_hash(&x->n_tokens, sizeof x->n_tokens, hash);
        hash = loam_hash(d->tokens + x->first, (size_t)x->n_tokens * sizeof *d->tokens, hash);
        hash = loam_hash(d->trained + x->first, (size_t)x->n_tokens, hash);
    }
    d->n_trained = s->n_trained;
    d->hash = hash;
}

void loam_dataset_compact(loam_dataset *d)
{
    int64_t at = 0, old = -1;
    for (int64_t i = 0; i < d->n_examples; i++) {
        loam_example *x = &d->examples[i];
        if (x->first == old) { /* a copy of the one before */
            x->first = d->examples[i - 1].first;
            continue;
        }
        old = x->first;
        memmove(d->tokens + at, d->tokens + old, (size_t)x->n_tokens * sizeof *d->tokens);
        memmove(d->trained + at, d->trained + old, (size_t)x->n_tokens);
        x->first = at;
        at += x->n_tokens;
    }
    d->n_tokens = at;
}

/* ---- splitting ---------------------------------------------------------------------------- */

static bool is_copy(const loam_dataset *d, int64_t i)
{
    return i > 0 && d->examples[i].first == d->examples[i - 1].first;
}

/* Chooses k of the n distinct examples, each set of k equally likely, in their order (Knuth's
 * algorithm S); chosen[i] is set for the copies too. */
static void choose(const loam_dataset *d, int64_t n, int64_t k, uint64_t seed, uint8_t *chosen)
{
    loam_rng rng = loam_rng_stream(seed, "split");
    for (int64_t i = 0; i < d->n_examples; i++) {
        if (is_copy(d, i)) {
            chosen[i] = chosen[i - 1];
            continue;
        }
        chosen[i] = loam_rng_below(&rng, (uint64_t)n) < (uint64_t)k;
        k -= chosen[i];
        n--;
    }
}

static loam_dataset *set_new(int64_t n_examples, int64_t n_tokens, char *const *files, int n_files)
{
    loam_dataset *d = loam_alloc(sizeof *d);
    if (!d)
        return NULL;
    d->tokens = loam_alloc((size_t)n_tokens * sizeof *d->tokens);
    d->trained = loam_alloc((size_t)n_tokens);
    d->examples = loam_alloc((size_t)n_examples * sizeof *d->examples);
    d->files = loam_alloc((size_t)n_files * sizeof *d->files);
    bool ok = d->tokens && d->trained && d->examples && d->files;
    for (int i = 0; ok && i < n_files; i++) {
        d->files[i] = loam_strdup(files[i]);
        ok = d->files[i] != NULL;
        d->n_files = i + 1;
    }
    if (ok)
        return d;
    loam_dataset_free(d);
    return NULL;
}

static void copy_chosen(const loam_dataset *d, const uint8_t *chosen, loam_dataset *out)
{
    for (int64_t i = 0; i < d->n_examples; i++) {
        if (!chosen[i])
            continue;
        loam_example x = d->examples[i];
        if (is_copy(d, i)) {
            x.first = out->examples[out->n_examples - 1].first;
        } else {
            memcpy(out->tokens + out->n_tokens, d->tokens + x.first,
                   (size_t)x.n_tokens * sizeof *d->tokens);
            memcpy(out->trained + out->n_tokens, d->trained + x.first, (size_t)x.n_tokens);
            x.first = out->n_tokens;
            out->n_tokens += x.n_tokens;
        }
        out->examples[out->n_examples++] = x;
    }
}

loam_status loam_dataset_split(loam_dataset *d, double share, uint64_t seed, loam_dataset **out,
                               loam_error *e)
{
    *out = NULL;
    if (!(share > 0 && share < 1))
        return loam_fail(e, LOAM_E_USAGE,
                         "a share of %g cannot be split off: expected more than 0 and less than 1",
                         share);
    int64_t n = 0;
    for (int64_t i = 0; i < d->n_examples; i++)
        n += !is_copy(d, i);
    if (n < 2)
        return loam_fail(e, LOAM_E_DATA,
                         "a set of %lld example cannot be split in two; give validation data of "
                         "its own, or none",
                         (long long)n);
    int64_t k = (int64_t)(share * (double)n + 0.5);
    k = LOAM_MIN(LOAM_MAX(k, (int64_t)1), n - 1);
    uint8_t *chosen = loam_alloc((size_t)d->n_examples);
    if (!chosen)
        return loam_fail(e, LOAM_E_MEMORY, "no memory to split %lld examples", (long long)n);
    choose(d, n, k, seed, chosen);
    int64_t n_examples = 0, n_tokens = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        n_examples += chosen[i];
        n_tokens += chosen[i] && !is_copy(d, i) ? d->examples[i].n_tokens : 0;
    }
    *out = set_new(n_examples, n_tokens, d->files, d->n_files);
    if (!*out) {
        loam_free(chosen);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a split of %lld tokens",
                         (long long)n_tokens);
    }
    copy_chosen(d, chosen, *out);
    int64_t kept = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        if (!chosen[i])
            d->examples[kept++] = d->examples[i];
    }
    d->n_examples = kept;
    loam_free(chosen);
    loam_dataset_compact(d);
    loam_dataset_count(d);
    loam_dataset_count(*out);
    return LOAM_OK;
}

/* ---- showing ------------------------------------------------------------------------------ */

loam_status loam_dataset_show(const loam_dataset *d, const loam_base *m, int64_t example,
                              loam_string *out, loam_error *e)
{
    if (example < 0 || example >= d->n_examples)
        return loam_fail(e, LOAM_E_USAGE, "example %lld does not exist: the set has %lld",
                         (long long)example, (long long)d->n_examples);
    const loam_example *x = &d->examples[example];
    loam_string_printf(out, "example %lld (%s:%lld): %lld tokens, %lld trained\n",
                       (long long)example, d->files[x->file], (long long)x->line,
                       (long long)x->n_tokens, (long long)x->n_trained);
    bool inside = false;
    for (int64_t i = x->first; i < x->first + x->n_tokens; i++) {
        if (d->trained[i] != inside)
            loam_string_puts(out, inside ? "⟧" : "⟦");
        inside = d->trained[i];
        loam_token_piece(m->tokenizer, d->tokens[i], true, out);
    }
    loam_string_puts(out, inside ? "⟧\n" : "\n");
    return out->failed ? loam_fail(e, LOAM_E_MEMORY, "no memory to show an example") : LOAM_OK;
}
