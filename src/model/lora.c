/* lora.c: a new adapter: which weights it targets, and how its factors start. */
#include "model/build.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

/* Names that users bring from PEFT and mlx-lm. */
static const struct {
    const char *hf, *gguf;
} aliases[] = {
    {"q_proj", "attn_q"},      {"k_proj", "attn_k"},      {"v_proj", "attn_v"},
    {"o_proj", "attn_output"}, {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"},
    {"down_proj", "ffn_down"},
};

/* "blk.3.attn_q.weight": its layer, and "attn_q" in part[]. False for other names. */
static bool split_name(const char *name, int *layer, char part[LOAM_NAME_BYTES])
{
    int n_bytes = 0;
    if (sscanf(name, "blk.%d.%n", layer, &n_bytes) != 1 || n_bytes == 0)
        return false;
    snprintf(part, LOAM_NAME_BYTES, "%s", name + n_bytes);
    char *suffix = strstr(part, ".weight");
    if (!suffix || suffix[7] != '\0')
        return false;
    *suffix = '\0';
    return true;
}

/* Pattern i of a comma-separated list, with an alias replaced; false past the last. */
static bool pattern_at(const char *list, int i, char out[LOAM_NAME_BYTES])
{
    for (; i > 0; i--) {
        list = strchr(list, ',');
        if (!list)
            return false;
        list++;
    }
    size_t n_bytes = strcspn(list, ",");
    while (n_bytes > 0 && *list == ' ') {
        list++;
        n_bytes--;
    }
    while (n_bytes > 0 && list[n_bytes - 1] == ' ')
        n_bytes--;
    snprintf(out, LOAM_NAME_BYTES, "%.*s", (int)LOAM_MIN(n_bytes, (size_t)LOAM_NAME_BYTES - 1),
             list);
    for (int a = 0; a < LOAM_COUNT(aliases); a++)
        if (strcmp(out, aliases[a].hf) == 0)
            snprintf(out, LOAM_NAME_BYTES, "%s", aliases[a].gguf);
    return true;
}

/* A pattern is a part ("attn_q", "ffn_*"), a whole name ("blk.3.attn_q", globs too), or "all". */
static bool matches(const char *pattern, int layer, const char *part)
{
    char whole[2 * LOAM_NAME_BYTES];
    snprintf(whole, sizeof whole, "blk.%d.%s", layer, part);
    return strcmp(pattern, "all") == 0 || fnmatch(pattern, part, 0) == 0 ||
           fnmatch(pattern, whole, 0) == 0;
}

static bool is_target(const char *targets, int layer, const char *part)
{
    char pattern[LOAM_NAME_BYTES];
    for (int i = 0; pattern_at(targets, i, pattern); i++)
        if (matches(pattern, layer, part))
            return true;
    return false;
}

/* Every pattern must name something: a misspelt target is an error, not a smaller adapter. */
static loam_status check_targets(const loam_base *m, const char *targets, loam_error *e)
{
    char pattern[LOAM_NAME_BYTES], part[LOAM_NAME_BYTES], first[LOAM_NAME_BYTES] = "";
    for (int p = 0; pattern_at(targets, p, pattern); p++) {
        bool found = false;
        loam_string known = {0};
        for (int64_t i = 0; i < loam_gguf_n_tensors(m->gguf); i++) {
            int layer;
            const loam_gguf_tensor *t = loam_gguf_tensor_at(m->gguf, i);
            if (!m->linears[i] || !split_name(t->name, &layer, part))
                continue;
            found = found || matches(pattern, layer, part);
            if (layer == 0)
                loam_string_printf(&known, "%s%s", known.length_bytes ? ", " : "", part);
            if (!first[0])
                snprintf(first, sizeof first, "%s", part);
        }
        loam_status status = LOAM_OK;
        if (!found)
            status = loam_fail(e, LOAM_E_USAGE,
                               "--target-modules: '%s' matches no block linear of this model; it "
                               "has %s (globs and 'all' work too)",
                               pattern, known.data ? known.data : first);
        loam_string_free(&known);
        LOAM_TRY(status);
    }
    return LOAM_OK;
}

static loam_status add_pair(loam_lora *l, const loam_lora_options *o, const loam_gguf_tensor *t,
                            loam_error *e)
{
    int64_t n_in = t->t.ne[0], n_out = t->t.ne[1];
    if (o->rank > LOAM_MIN(n_in, n_out))
        return loam_fail(e, LOAM_E_USAGE,
                         "--rank %lld is more than '%s' [%lld, %lld] has; take at most %lld",
                         (long long)o->rank, t->name, (long long)n_in, (long long)n_out,
                         (long long)LOAM_MIN(n_in, n_out));
    loam_lora_pair *p = &l->pairs[l->n_pairs++];
    snprintf(p->target, sizeof p->target, "%s", t->name);
    p->n_in = n_in;
    p->n_out = n_out;
    p->rank = o->rank;
    /* alpha / sqrt(rank): rank-stabilised LoRA, arXiv 2312.03732. */
    p->scale = o->rslora ? o->alpha / sqrtf((float)o->rank) : o->alpha / (float)o->rank;
    return LOAM_OK;
}

static loam_status choose_pairs(const loam_base *m, const loam_lora_options *o, loam_lora *l,
                                loam_error *e)
{
    const char *targets = o->targets ? o->targets : "all";
    int64_t n_layer = m->hparams.n_layer;
    int64_t first = o->n_last_layers > 0 ? LOAM_MAX(n_layer - o->n_last_layers, 0) : 0;
    LOAM_TRY(check_targets(m, targets, e));
    l->pairs = loam_alloc((size_t)loam_gguf_n_tensors(m->gguf) * sizeof *l->pairs);
    if (!l->pairs)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for an adapter");
    for (int64_t wanted = first; wanted < n_layer; wanted++)
        for (int64_t i = 0; i < loam_gguf_n_tensors(m->gguf); i++) {
            int layer;
            char part[LOAM_NAME_BYTES];
            const loam_gguf_tensor *t = loam_gguf_tensor_at(m->gguf, i);
            if (m->linears[i] && split_name(t->name, &layer, part) && layer == wanted &&
                is_target(targets, layer, part))
                LOAM_TRY(add_pair(l, o, t, e));
        }
    if (l->n_pairs == 0)
        return loam_fail(e, LOAM_E_USAGE,
                         "--target-modules '%s' leaves nothing to train in the "
                         "last %lld layers",
                         targets, (long long)o->n_last_layers);
    return LOAM_OK;
}

loam_status loam_lora_allocate(loam_lora *l, loam_device *device, loam_error *e)
{
    int64_t n = 0;
    for (int i = 0; i < l->n_pairs; i++) {
        l->pairs[i].a_offset = n;
        n += l->pairs[i].n_in * l->pairs[i].rank;
    }
    l->n_a_elements = n;
    for (int i = 0; i < l->n_pairs; i++) {
        l->pairs[i].b_offset = n;
        n += l->pairs[i].n_out * l->pairs[i].rank;
    }
    l->n_elements = n;
    return loam_buffer_alloc(device, (size_t)n * sizeof(float), &l->values, e);
}

static loam_status initialize(loam_lora *l, uint64_t seed, loam_error *e)
{
    float *values = loam_alloc((size_t)l->n_elements * sizeof *values); /* zero: the B factors */
    if (!values)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for an adapter of %lld elements",
                         (long long)l->n_elements);
    for (int i = 0; i < l->n_pairs; i++) {
        const loam_lora_pair *p = &l->pairs[i];
        loam_rng rng = loam_rng_stream(seed, p->target);
        double bound = 1.0 / sqrt((double)p->n_in);
        for (int64_t j = 0; j < p->n_in * p->rank; j++)
            values[p->a_offset + j] = (float)((2.0 * loam_rng_uniform(&rng) - 1.0) * bound);
    }
    loam_status status =
        loam_buffer_write(l->values, 0, values, (size_t)l->n_elements * sizeof *values, e);
    loam_free(values);
    return status;
}

static loam_status create(const loam_base *m, const loam_lora_options *o, loam_lora *l,
                          loam_error *e)
{
    if (o->rank < 1)
        return loam_fail(e, LOAM_E_USAGE, "--rank %lld: a rank is at least 1", (long long)o->rank);
    if (!isfinite(o->alpha) || o->alpha <= 0)
        return loam_fail(e, LOAM_E_USAGE, "--lora-alpha %g: alpha is a number above 0",
                         (double)o->alpha);
    LOAM_TRY(choose_pairs(m, o, l, e));
    l->alpha = o->alpha;
    LOAM_TRY(loam_lora_allocate(l, m->device, e));
    return initialize(l, o->seed, e);
}

loam_status loam_lora_create(const loam_base *m, const loam_lora_options *o, loam_lora **out,
                             loam_error *e)
{
    *out = NULL;
    loam_lora *l = loam_alloc(sizeof *l);
    if (!l)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for an adapter");
    loam_status status = create(m, o, l, e);
    if (status != LOAM_OK) {
        loam_lora_free(l);
        return status;
    }
    *out = l;
    return LOAM_OK;
}

loam_status loam_lora_make_trainable(loam_lora *l, loam_error *e)
{
    if (l->grads)
        return LOAM_OK;
    return loam_buffer_alloc(l->values->device, l->values->bytes, &l->grads, e);
}

void loam_lora_free(loam_lora *l)
{
    if (!l)
        return;
    loam_buffer_free(l->values);
    loam_buffer_free(l->grads);
    loam_free(l->pairs);
    loam_free(l);
}

const loam_lora_pair *loam_lora_find(const loam_lora *l, const char *target)
{
    for (int i = 0; i < l->n_pairs; i++)
        if (strcmp(l->pairs[i].target, target) == 0)
            return &l->pairs[i];
    return NULL;
}
