/* Fuzz target: the input is a data file. Its first byte chooses options (format, lengths, what is
 * trained, skipping bad records), the rest is the text, read for the model in
 * models/loam-29m-Q4_K_M.gguf; a set that comes out must keep its promises, be packed, and give
 * every token once. Build with clang -fsanitize=fuzzer,address,undefined and link the train library
 * and those below it, with LOAM_SOURCE_DIR defined. */
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As much of a model as reading data asks for. */
static const loam_base *model(void)
{
    static loam_base m;
    loam_error e = {0};
    if (m.tokenizer)
        return &m;
    m.hparams.n_ctx_train = 512;
    if (loam_gguf_open(LOAM_SOURCE_DIR "/models/loam-29m-Q4_K_M.gguf", &m.gguf, &e) != LOAM_OK ||
        loam_tokenizer_create(m.gguf, &m.tokenizer, &e) != LOAM_OK) {
        fprintf(stderr, "%s\n", e.message);
        abort();
    }
    return &m;
}

static void check_set(const loam_dataset *d, int64_t max_seq_length)
{
    int64_t n_tokens = 0;
    LOAM_ASSERT(d->n_examples > 0 && d->n_trained > 0);
    for (int64_t i = 0; i < d->n_examples; i++) {
        const loam_example *x = &d->examples[i];
        LOAM_ASSERT(x->n_tokens >= 2 && x->n_tokens <= max_seq_length && x->n_trained > 0);
        LOAM_ASSERT(x->first >= 0 && x->first + x->n_tokens <= d->n_tokens);
        LOAM_ASSERT(!d->trained[x->first]);
        n_tokens += x->n_tokens;
    }
    LOAM_ASSERT(n_tokens == d->summary.n_tokens);
}

static void check_batches(const loam_dataset *d, int64_t max_seq_length)
{
    loam_batches *b;
    loam_cursor cursor = {0};
    int64_t n_trained = 0, n_examples = 0;
    LOAM_ASSERT(loam_batches_create(d, max_seq_length, 2, true, 1, &b, NULL) == LOAM_OK);
    while (cursor.epoch == 0) {
        loam_batch batch;
        LOAM_ASSERT(loam_batches_next(b, &cursor, &batch, NULL) == LOAM_OK);
        n_trained += batch.n_trained;
        n_examples += batch.n_examples;
    }
    LOAM_ASSERT(n_trained == d->n_trained && n_examples == d->n_examples);
    loam_batches_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {NULL,         NULL,   "messages", "conversations",
                                          "completion", "text", "plain",    "instruction"};
    char path[64];
    if (size < 2)
        return 0;
    loam_data_options o = {.format = formats[data[0] & 7],
                           .train_on = (loam_train_on)(data[0] >> 3 & 3),
                           .overlong = (loam_overlong)(data[0] >> 5 & 3),
                           .skip_bad = data[0] >> 7,
                           .max_seq_length = data[0] & 8 ? 16 : 200};
    snprintf(path, sizeof path, "/tmp/loam-fuzz-%ld", (long)getpid());
    FILE *f = fopen(path, "wb");
    LOAM_ASSERT(f && fwrite(data + 1, 1, size - 1, f) == size - 1 && fclose(f) == 0);
    loam_dataset *d, *v;
    loam_error e = {0};
    loam_status status = loam_dataset_load(model(), path, &o, &d, &e);
    LOAM_ASSERT((status == LOAM_OK) == (d != NULL));
    LOAM_ASSERT(status == LOAM_OK || e.message[0]);
    if (d) {
        loam_string out = {0};
        check_set(d, o.max_seq_length);
        check_batches(d, o.max_seq_length);
        LOAM_ASSERT(loam_dataset_show(d, model(), d->n_examples - 1, &out, NULL) == LOAM_OK);
        loam_string_free(&out);
        if (loam_dataset_split(d, 0.3, 1, &v, &e) == LOAM_OK) {
            check_set(d, o.max_seq_length);
            check_set(v, o.max_seq_length);
            loam_dataset_free(v);
        }
        loam_dataset_free(d);
    }
    return 0;
}
