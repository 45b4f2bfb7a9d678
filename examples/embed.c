/* embed.c: a training run inside another program, through loam.h alone.
 *
 *     cc embed.c $(pkg-config --cflags --libs loam) -o embed
 *     ./embed MODEL.gguf DATA.jsonl ADAPTER.gguf STEPS
 *
 * Trains an adapter for a number of steps, with a callback that prints each of them, then loads
 * what was written and lets the model answer with it. */
#include <loam.h>

#include <stdio.h>
#include <stdlib.h>

/* Called for everything that happens in a run. Returning false would end it after the step, with
 * the adapter saved. */
static bool on_event(void *user, const loam_event *event)
{
    int *n_steps = user;
    switch (event->kind) {
    case LOAM_EVENT_START:
        printf("%lld examples, %lld steps, %lld bytes of memory\n",
               (long long)event->data.n_examples, (long long)event->n_steps,
               (long long)event->memory_bytes);
        break;
    case LOAM_EVENT_STEP:
        ++*n_steps;
        printf("step %lld: loss %.4f\n", (long long)event->step, event->loss);
        break;
    case LOAM_EVENT_VALID:
        printf("validation: loss %.4f\n", event->loss);
        break;
    case LOAM_EVENT_WARNING:
        fprintf(stderr, "%s\n", event->text);
        break;
    default:
        break;
    }
    return true;
}

static bool on_text(void *user, const char *text, size_t n_bytes)
{
    return fwrite(text, 1, n_bytes, user) == n_bytes;
}

static loam_status train(loam_model *model, char **argv, int *n_steps, loam_error *e)
{
    loam_train_options options;
    loam_train_result result;
    loam_train_options_default(&options);
    options.data = argv[2];
    options.output = argv[3];
    options.iters = strtol(argv[4], NULL, 10);
    options.rank = 8;
    options.batch_size = 2;
    options.grad_accumulation_steps = 1;
    options.data_options.max_seq_length = 128;
    loam_status status = loam_train(model, &options, on_event, n_steps, &result, e);
    if (status == LOAM_OK)
        printf("%lld tokens in %.1f s; validation loss %.4f, at first %.4f\n",
               (long long)result.n_tokens, result.seconds, result.best_valid_loss,
               result.first_valid_loss);
    return status;
}

static loam_status answer(loam_model *model, const char *adapter_path, loam_error *e)
{
    loam_adapter *adapter;
    loam_status status = loam_adapter_load(model, adapter_path, 1.0f, &adapter, e);
    if (status != LOAM_OK)
        return status;
    loam_generate_options options;
    loam_generate_options_default(&options);
    options.prompt = "What is Loam?";
    options.max_tokens = 16;
    options.temperature = 0;
    status = loam_generate(model, adapter, &options, on_text, stdout, NULL, e);
    putchar('\n');
    loam_adapter_free(adapter);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODEL.gguf DATA.jsonl ADAPTER.gguf STEPS\n", argv[0]);
        return 2;
    }
    loam_error e = {0};
    loam_model *model;
    int n_steps = 0;
    loam_status status = loam_model_open(argv[1], NULL, &model, &e); /* NULL: the CPU, all cores */
    if (status == LOAM_OK) {
        status = train(model, argv, &n_steps, &e);
        if (status == LOAM_OK)
            status = answer(model, argv[3], &e);
        loam_model_close(model);
    }
    if (status != LOAM_OK) {
        fprintf(stderr, "%s: %s\n", loam_status_name(status), e.message);
        return 1;
    }
    return n_steps == strtol(argv[4], NULL, 10) ? 0 : 1;
}
