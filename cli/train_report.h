/* train_report.h: what a training run shows while it runs and when it is done. */
#ifndef LOAM_CLI_TRAIN_REPORT_H
#define LOAM_CLI_TRAIN_REPORT_H

#include "loam.h"

typedef struct train_report {
    const loam_train_options *options;
    const char *model_path;
    loam_model_info model;
    bool json, sched_debug;
    int64_t every; /* steps between plain lines */
    int64_t n_warnings;
} train_report;

/* The callback of loam_train: `user` is a train_report. False once a signal asked to stop. */
bool train_report_event(void *user, const loam_event *event);

/* The end of a run that wrote its adapter. */
void train_report_result(const train_report *r, const loam_train_result *result,
                         loam_status status);

#endif /* LOAM_CLI_TRAIN_REPORT_H */
