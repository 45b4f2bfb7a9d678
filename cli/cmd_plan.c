/* cmd_plan.c: loam plan. */
#include "forecast.h"
#include "json.h"
#include "terminal.h"
#include "train_settings.h"

static int report(const train_settings *s, const loam_forecast *f)
{
    if (s->common.json)
        json_print_line(forecast_json(f));
    else
        forecast_show(f, true);
    return f->fits ? EXIT_OK : EXIT_FAILED;
}

static int fail(const train_settings *s, const loam_error *e)
{
    if (s->common.json)
        json_print_error(e);
    return terminal_error(e);
}

static int run(void *settings_of_run, const char *const *operands)
{
    train_settings *s = settings_of_run;
    if (!s->o.data)
        return terminal_usage("--data FILE is missing: what the run would train on");
    s->o.data_options = s->common.data;
    loam_model *model;
    loam_model_options mo = {.device = s->common.device,
                             .n_threads = s->common.n_threads,
                             .compute = (loam_compute)s->common.compute};
    loam_error e = {0};
    loam_forecast f;
    if (loam_model_open(operands[0], &mo, &model, &e) != LOAM_OK)
        return fail(s, &e);
    loam_status status = loam_forecast_make(model, &s->o, true, &f, &e);
    int exit_status = status == LOAM_OK ? report(s, &f) : fail(s, &e);
    loam_model_close(model);
    return exit_status;
}

const command command_plan = {
    .name = "plan",
    .operands = "MODEL.gguf",
    .n_operands = 1,
    .needs = " --data FILE",
    .summary = "memory and time of a training run, before it runs",
    .about = "Takes the flags of 'loam train', reads the model and the data as it does, times one "
             "batch, and says what the run will need: memory by kind, whether that is free, what "
             "to lower where it is not, steps, tokens and time. Nothing is trained or written.\n"
             "The exit status is 1 where the run does not fit.",
    .examples = "loam plan model.gguf --data train.jsonl\n"
                "loam plan model.gguf --data train.jsonl --max-seq-length 1024 --rank 8 --json\n",
    .options = {options_of_training, options_of_data, options_of_model, options_of_output},
    .settings_bytes = sizeof(train_settings),
    .set_defaults = train_set_defaults,
    .run = run,
};
