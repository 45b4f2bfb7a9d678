/* opened.h: the model and the adapter that a command's arguments name. */
#ifndef LOAM_CLI_OPENED_H
#define LOAM_CLI_OPENED_H

#include "options.h"

typedef struct opened {
    loam_model *model;
    loam_adapter *adapter; /* NULL without --lora */
} opened;

/* Opens both; opened_close() what is there, after a failure too. */
loam_status opened_open(opened *o, const settings *s, const char *model_path, loam_error *e);
void opened_close(opened *o);

#endif /* LOAM_CLI_OPENED_H */
