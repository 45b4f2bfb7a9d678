/* parity_table.h: parity results summed up by op. */
#ifndef LOAM_CLI_PARITY_TABLE_H
#define LOAM_CLI_PARITY_TABLE_H

#include "loam.h"

#define PARITY_MAX_DEVICES 8
#define PARITY_MAX_TYPES 64

/* What one device did with the cases of one op. */
typedef struct parity_count {
    int64_t n_passed, n_failed, n_refused;
    double worst_nmse;      /* of the cases that ran */
    int64_t n_grad;         /* gradient elements checked */
    double worst_grad_nmse; /* of the cases whose gradient was checked */
} parity_count;

typedef struct parity_op {
    char name[40];
    char types[PARITY_MAX_TYPES][16];
    int n_types;
    unsigned layouts;  /* bits, in the order of parity_layouts */
    double bar;        /* the largest of its cases */
    char refusal[200]; /* the first reason */
    parity_count devices[PARITY_MAX_DEVICES];
} parity_op;

typedef struct parity_table {
    parity_op *ops;
    int n_ops, capacity;
    const char *devices[PARITY_MAX_DEVICES];
    int n_devices;
} parity_table;

/* Adds a case of device `device`; false when memory ran out. */
bool parity_table_add(parity_table *t, int device, const loam_parity_case *c);
void parity_table_free(parity_table *t);

parity_count parity_table_total(const parity_table *t, int device);

/* One line for each op. */
void parity_table_show(const parity_table *t);
/* The same as a Markdown page. */
void parity_table_markdown(const parity_table *t);

#endif /* LOAM_CLI_PARITY_TABLE_H */
