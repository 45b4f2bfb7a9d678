/* train_settings.h: the flags of a training run, for the commands that have them all. */
#ifndef LOAM_CLI_TRAIN_SETTINGS_H
#define LOAM_CLI_TRAIN_SETTINGS_H

#include "options.h"

typedef struct train_settings {
    settings common;
    loam_train_options o;
    const char *config;
    bool sched_debug;
} train_settings;

extern const option options_of_training[];

/* Of a command whose settings are train_settings. */
void train_set_defaults(void *s);

#endif /* LOAM_CLI_TRAIN_SETTINGS_H */
