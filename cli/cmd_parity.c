/* cmd_parity.c: loam parity. */
#include "json.h"
#include "options.h"
#include "parity_table.h"
#include "terminal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct parity_settings {
    settings common;
    const char *op, *type;
    bool grad, perf, skip_slow, markdown;
    uint64_t seed;
} parity_settings;

#define AT(field) offsetof(parity_settings, field)

static const option parity_options[] = {
    {OPTION_HEADING, .help = "Cases"},
    {OPTION_TEXT, "device", 0, AT(common.device), "NAME",
     .help = "the device that is checked (default: cpu; with --markdown every one of this build)"},
    {OPTION_TEXT, "op", 0, AT(op), "NAME", .help = "only this op: MUL_MAT, OUT_PROD ..."},
    {OPTION_TEXT, "type", 0, AT(type), "NAME",
     .help = "only cases whose first operand has this type: q4_K, f16 ..."},
    {OPTION_FLAG, "skip-slow", 0, AT(skip_slow), .help = "leave the long cases out"},
    {OPTION_UINT64, "seed", 0, AT(seed), "N", .help = "of the operands' values"},

    {OPTION_HEADING, .help = "What is done with them"},
    {OPTION_FLAG, "grad", 0, AT(grad),
     .help = "check the backward rules too, by central differences"},
    {OPTION_FLAG, "perf", 0, AT(perf), .help = "time every case"},
    {OPTION_INT, "threads", 't', AT(common.n_threads), "N", .help = "CPU threads", .least = 0,
     .most = 4096, .zero = "one for each core"},
    {OPTION_FLAG, "markdown", 0, AT(markdown), .help = "the table as a Markdown page"},
    {.kind = OPTION_END},
};

static void set_defaults(void *s)
{
    (void)s; /* all zero */
}

typedef struct parity_state {
    const parity_settings *s;
    parity_table table;
    int device; /* the one that runs */
    bool out_of_memory;
} parity_state;

static const char *outcome_name(loam_outcome outcome)
{
    static const char *const names[] = {"passed", "failed", "refused"};
    return names[outcome];
}

static void json_case(const parity_state *p, const loam_parity_case *c)
{
    json_t *object = json_pack("{s:s, s:s, s:s, s:o, s:s, s:o, s:o}", "device",
                               p->table.devices[p->device], "op", c->op, "type", c->type, "label",
                               json_text(c->label), "outcome", outcome_name(c->outcome), "nmse",
                               json_number(c->nmse), "bar", json_number(c->bar));
    if (p->s->perf && c->outcome != LOAM_REFUSED) {
        json_object_set_new(object, "time_ms", json_number(c->time_ms));
        json_object_set_new(object, "flops", json_number(c->flops));
        json_object_set_new(object, "bytes", json_number(c->bytes));
    }
    if (c->n_grad > 0) {
        json_object_set_new(object, "grad_elements", json_integer(c->n_grad));
        json_object_set_new(object, "grad_nmse", json_number(c->grad_nmse));
    }
    if (c->outcome != LOAM_PASSED)
        json_object_set_new(object, "reason", json_text(c->reason));
    json_print_line(object);
}

static void show_case(const parity_state *p, const loam_parity_case *c)
{
    char line[160];
    if (c->outcome == LOAM_FAILED) {
        /* Where stdout is a Markdown page, a failure still has to be seen. */
        if (p->s->markdown)
            terminal_warn("%s %s %s: FAILED, NMSE %.2e (bar %.0e): %s", c->op, c->type, c->label,
                          c->nmse, c->bar, c->reason ? c->reason : "");
        else
            terminal_line("%sFAILED%s %s %s %s: NMSE %.2e (bar %.0e): %s",
                          terminal_style(STYLE_BAD), terminal_style(STYLE_NONE), c->op, c->type,
                          c->label, c->nmse, c->bar, c->reason ? c->reason : "");
    } else if (p->s->perf && !p->s->markdown && c->outcome == LOAM_PASSED) {
        terminal_line("%10.4f ms %9.1f GFLOP/s %8.1f GB/s  %s %s", c->time_ms,
                      c->flops / c->time_ms / 1e6, c->bytes / c->time_ms / 1e6, c->op, c->label);
    }
    snprintf(line, sizeof line, "%s %s %s", p->table.devices[p->device], c->op, c->label);
    terminal_live(line);
}

static bool on_case(void *user, const loam_parity_case *c)
{
    parity_state *p = user;
    if (!parity_table_add(&p->table, p->device, c)) {
        p->out_of_memory = true;
        return false;
    }
    if (p->s->common.json)
        json_case(p, c);
    else
        show_case(p, c);
    return terminal_is_open();
}

static void choose_devices(parity_state *p)
{
    const char *const *names = loam_device_list();
    parity_table *t = &p->table;
    if (p->s->common.device || !p->s->markdown) {
        t->devices[t->n_devices++] = p->s->common.device ? p->s->common.device : "cpu";
        return;
    }
    for (int i = 0; names[i] && t->n_devices < PARITY_MAX_DEVICES; i++)
        if (strcmp(names[i], "reference") != 0)
            t->devices[t->n_devices++] = names[i];
}

/* The last lines, and the exit status: 1 where any case failed. */
static int conclude(parity_state *p)
{
    int64_t n_failed = 0, n_passed = 0;
    for (p->device = 0; p->device < p->table.n_devices; p->device++) {
        parity_count total = parity_table_total(&p->table, p->device);
        n_failed += total.n_failed;
        n_passed += total.n_passed;
        if (p->s->common.json)
            json_print_line(
                json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "event", "end", "device",
                          p->table.devices[p->device], "passed", (json_int_t)total.n_passed,
                          "failed", (json_int_t)total.n_failed, "refused",
                          (json_int_t)total.n_refused, "grad_elements", (json_int_t)total.n_grad));
        else if (!p->s->markdown)
            terminal_line("%s: %lld cases passed, %lld failed, %lld refused, %lld gradient "
                          "elements checked",
                          p->table.devices[p->device], (long long)total.n_passed,
                          (long long)total.n_failed, (long long)total.n_refused,
                          (long long)total.n_grad);
    }
    if (n_failed == 0 && n_passed == 0 && terminal_is_open()) {
        terminal_warn("no case ran: nothing matches --op and --type, or the device refused all");
        return EXIT_FAILED;
    }
    return n_failed == 0 ? EXIT_OK : EXIT_FAILED;
}

static int run_devices(parity_state *p)
{
    const parity_settings *s = p->s;
    for (p->device = 0; p->device < p->table.n_devices; p->device++) {
        loam_error e = {0};
        loam_parity_options o = {.device = p->table.devices[p->device],
                                 .n_threads = s->common.n_threads,
                                 .op = s->op,
                                 .type = s->type,
                                 .grad = s->grad,
                                 .perf = s->perf,
                                 .skip_slow = s->skip_slow,
                                 .seed = s->seed};
        loam_status status = loam_parity(&o, on_case, p, &e);
        terminal_clear_live();
        if (p->out_of_memory) {
            terminal_warn("no memory for the table");
            return EXIT_FAILED;
        }
        if (status == LOAM_E_CANCELLED) /* nobody reads any more */
            return EXIT_OK;
        if (status != LOAM_OK)
            return terminal_error(&e);
    }
    if (!s->common.json && s->markdown)
        parity_table_markdown(&p->table);
    else if (!s->common.json)
        parity_table_show(&p->table);
    return conclude(p);
}

static int run(void *settings_of_run, const char *const *operands)
{
    (void)operands;
    parity_state p = {.s = settings_of_run};
    if (p.s->common.json && p.s->markdown)
        return terminal_usage("--json and --markdown: give one of them");
    choose_devices(&p);
    int exit_status = run_devices(&p);
    parity_table_free(&p.table);
    return exit_status;
}

const command command_parity = {
    .name = "parity",
    .operands = "",
    .n_operands = 0,
    .needs = "",
    .summary = "check a device's operations against the reference",
    .about = "Runs every operation of a device on many shapes, types and layouts and compares the "
             "results with a reference in double precision. The number is the normalized mean "
             "squared error; matrix products may have 1e-5, all others 1e-7.\n"
             "Exit status 1 where a case failed; a case that the device refuses is not a failure.",
    .examples = "loam parity\n"
                "loam parity --op OUT_PROD --type q4_K --grad\n"
                "loam parity --op MUL_MAT --perf --json\n"
                "loam parity --grad --markdown > docs/ops.md\n",
    .options = {parity_options, options_of_output},
    .settings_bytes = sizeof(parity_settings),
    .set_defaults = set_defaults,
    .run = run,
};
