/* forecast.c: what a run will need, for people and as JSON. */
#include "forecast.h"
#include "format.h"
#include "json.h"
#include "terminal.h"

void forecast_show(const loam_forecast *f, bool all)
{
    terminal_line("%-10s %s of %s free%s%s", "memory", format_bytes(f->total_bytes).text,
                  format_bytes(f->free_bytes).text, f->fits ? "" : ": it does not fit; ",
                  f->advice);
    terminal_line("%-10s weights %s (mapped), adapter %s, optimizer %s,", "",
                  format_bytes(f->weight_bytes).text, format_bytes(f->adapter_bytes).text,
                  format_bytes(f->optimizer_bytes).text);
    terminal_line("%-10s activations %s (%lld tokens at most), scratch %s, other %s", "",
                  format_bytes(f->activation_bytes).text, (long long)f->longest_tokens,
                  format_bytes(f->scratch_bytes).text, format_bytes(f->other_bytes).text);
    if (!all)
        return;
    terminal_line("%-10s %lld, %lld tokens", "steps", (long long)f->n_steps,
                  (long long)f->n_tokens);
    if (f->seconds > 0)
        terminal_line("%-10s about %s (%.0f tokens/s)", "time", format_duration(f->seconds).text,
                      f->tokens_per_s);
}

json_t *forecast_json(const loam_forecast *f)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:b, s:o}",
        "weight_bytes", (json_int_t)f->weight_bytes, "adapter_bytes", (json_int_t)f->adapter_bytes,
        "optimizer_bytes", (json_int_t)f->optimizer_bytes, "activation_bytes",
        (json_int_t)f->activation_bytes, "scratch_bytes", (json_int_t)f->scratch_bytes,
        "other_bytes", (json_int_t)f->other_bytes, "total_bytes", (json_int_t)f->total_bytes,
        "free_bytes", (json_int_t)f->free_bytes, "longest_tokens", (json_int_t)f->longest_tokens,
        "steps", (json_int_t)f->n_steps, "tokens", (json_int_t)f->n_tokens, "tokens_per_s",
        json_number(f->tokens_per_s), "seconds", json_number(f->seconds), "fits", f->fits, "advice",
        json_text(f->advice));
}
