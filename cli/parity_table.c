/* parity_table.c: parity results summed up by op. */
#include "parity_table.h"
#include "terminal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words by which the labels of cases name how operands lie in memory. */
static const struct {
    const char *word, *layout;
} layout_words[] = {
    {"dense", "dense"},       {"rows", "dense"},      {"transposed", "transposed"},
    {"permuted", "permuted"}, {"strided", "strided"}, {"view", "view"},
};
enum { N_LAYOUT_WORDS = sizeof layout_words / sizeof layout_words[0] };

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)) != NULL; p += n)
        if ((p == text || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[n]) &&
            p[n] != '=') /* "rows=7" counts rows */
            return true;
    return false;
}

/* ---- gathering ---------------------------------------------------------------------------- */

static parity_op *find_op(parity_table *t, const char *name)
{
    for (int i = 0; i < t->n_ops; i++)
        if (strcmp(t->ops[i].name, name) == 0)
            return &t->ops[i];
    if (t->n_ops == t->capacity) {
        int capacity = t->capacity > 0 ? 2 * t->capacity : 64;
        parity_op *ops = realloc(t->ops, (size_t)capacity * sizeof *ops);
        if (!ops)
            return NULL;
        t->ops = ops;
        t->capacity = capacity;
    }
    parity_op *op = &t->ops[t->n_ops++];
    *op = (parity_op){0};
    snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

static void add_type(parity_op *op, const char *type)
{
    for (int i = 0; i < op->n_types; i++)
        if (strcmp(op->types[i], type) == 0)
            return;
    if (op->n_types < PARITY_MAX_TYPES && type[0])
        snprintf(op->types[op->n_types++], sizeof op->types[0], "%s", type);
}

bool parity_table_add(parity_table *t, int device, const loam_parity_case *c)
{
    parity_op *op = find_op(t, c->op);
    if (!op)
        return false;
    parity_count *d = &op->devices[device];
    add_type(op, c->type);
    for (int i = 0; i < N_LAYOUT_WORDS; i++)
        if (has_word(c->label, layout_words[i].word))
            op->layouts |= 1U << i;
    if (c->bar > op->bar)
        op->bar = c->bar;
    if (c->outcome == LOAM_REFUSED) {
        d->n_refused++;
        if (!op->refusal[0] && c->reason)
            snprintf(op->refusal, sizeof op->refusal, "%s", c->reason);
        return true;
    }
    if (c->outcome == LOAM_PASSED)
        d->n_passed++;
    else
        d->n_failed++;
    if (c->nmse > d->worst_nmse)
        d->worst_nmse = c->nmse;
    d->n_grad += c->n_grad;
    if (c->n_grad > 0 && c->grad_nmse > d->worst_grad_nmse)
        d->worst_grad_nmse = c->grad_nmse;
    return true;
}

void parity_table_free(parity_table *t)
{
    free(t->ops);
    *t = (parity_table){0};
}

parity_count parity_table_total(const parity_table *t, int device)
{
    parity_count total = {0};
    for (int i = 0; i < t->n_ops; i++) {
        const parity_count *d = &t->ops[i].devices[device];
        total.n_passed += d->n_passed;
        total.n_failed += d->n_failed;
        total.n_refused += d->n_refused;
        total.n_grad += d->n_grad;
    }
    return total;
}

/* ---- for people --------------------------------------------------------------------------- */

static void grad_text(const parity_count *d, char *text, size_t n_bytes)
{
    snprintf(text, n_bytes, d->n_grad > 0 ? "%.1e" : "-", d->worst_grad_nmse);
}

static void show_op(const parity_op *op, const parity_count *d)
{
    char grad[32], refused[240] = "";
    grad_text(d, grad, sizeof grad);
    if (d->n_refused > 0)
        snprintf(refused, sizeof refused, "  %lld refused: %s", (long long)d->n_refused,
                 op->refusal);
    terminal_line("%-26s %5d %7lld %7lld %10.1e %8.0e %10s%s", op->name, op->n_types,
                  (long long)d->n_passed, (long long)d->n_failed, d->worst_nmse, op->bar, grad,
                  refused);
}

void parity_table_show(const parity_table *t)
{
    for (int device = 0; device < t->n_devices; device++) {
        terminal_line("%s%-26s %5s %7s %7s %10s %8s %10s%s", terminal_style(STYLE_BOLD),
                      t->devices[device], "types", "passed", "failed", "worst nmse", "bar",
                      "gradient", terminal_style(STYLE_NONE));
        for (int i = 0; i < t->n_ops; i++)
            show_op(&t->ops[i], &t->ops[i].devices[device]);
    }
}

/* ---- Markdown ----------------------------------------------------------------------------- */

static void append(char *text, size_t n_bytes, const char *separator, const char *more)
{
    size_t n = strlen(text);
    snprintf(text + n, n_bytes - n, "%s%s", n > 0 ? separator : "", more);
}

static void layouts_text(const parity_op *op, char *text, size_t n_bytes)
{
    text[0] = '\0';
    for (int i = 0; i < N_LAYOUT_WORDS; i++)
        if (op->layouts & (1U << i) && !strstr(text, layout_words[i].layout))
            append(text, n_bytes, ", ", layout_words[i].layout);
    if (!text[0])
        append(text, n_bytes, "", "dense");
}

static void markdown_op(const parity_table *t, const parity_op *op)
{
    char types[PARITY_MAX_TYPES * 18] = "", layouts[128], cells[PARITY_MAX_DEVICES * 96] = "";
    for (int i = 0; i < op->n_types; i++)
        append(types, sizeof types, " ", op->types[i]);
    layouts_text(op, layouts, sizeof layouts);
    for (int device = 0; device < t->n_devices; device++) {
        const parity_count *d = &op->devices[device];
        char cell[96], grad[32], failed[32] = "", refused[32] = "";
        grad_text(d, grad, sizeof grad);
        if (d->n_failed > 0)
            snprintf(failed, sizeof failed, ", %lld FAILED", (long long)d->n_failed);
        if (d->n_refused > 0)
            snprintf(refused, sizeof refused, ", %lld refused", (long long)d->n_refused);
        snprintf(cell, sizeof cell, "%lld%s%s | %.1e | %s |", (long long)d->n_passed, failed,
                 refused, d->worst_nmse, grad);
        append(cells, sizeof cells, " ", cell);
    }
    terminal_line("| %s | %s | %s | %.0e | %s", op->name, types, layouts, op->bar, cells);
}

void parity_table_markdown(const parity_table *t)
{
    char head[PARITY_MAX_DEVICES * 64] = "", rule[PARITY_MAX_DEVICES * 16] = "";
    for (int device = 0; device < t->n_devices; device++) {
        char cell[64];
        snprintf(cell, sizeof cell, "%s: passed | worst NMSE | gradient |", t->devices[device]);
        append(head, sizeof head, " ", cell);
        append(rule, sizeof rule, "", "---|---|---|");
    }
    terminal_line("# Operations\n\n"
                  "Written by `loam parity --grad --markdown`; do not edit. Each case runs on a "
                  "device and in the\ndouble-precision reference. The numbers are normalized mean "
                  "squared errors: the worst of the cases,\nand the most that is allowed (bar). "
                  "*Gradient*: of the backward rule as a device computes it, after\nthe rule "
                  "itself agreed with central differences of the forward.\n");
    terminal_line("Types are those of the first operand; layouts are how operands lie in "
                  "memory.\n");
    terminal_line("| op | types | layouts | bar | %s", head);
    terminal_line("|---|---|---|---|%s", rule);
    for (int i = 0; i < t->n_ops; i++)
        markdown_op(t, &t->ops[i]);
    for (int device = 0; device < t->n_devices; device++) {
        parity_count total = parity_table_total(t, device);
        terminal_line("\n%s: %lld cases passed, %lld failed, %lld refused; %lld gradient elements "
                      "checked.",
                      t->devices[device], (long long)total.n_passed, (long long)total.n_failed,
                      (long long)total.n_refused, (long long)total.n_grad);
    }
}
