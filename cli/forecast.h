/* forecast.h: what a run will need, for people and as JSON. */
#ifndef LOAM_CLI_FORECAST_H
#define LOAM_CLI_FORECAST_H

#include "loam.h"

#include <jansson.h>

/* The lines of memory by kind; with `all`, steps, tokens and time too. */
void forecast_show(const loam_forecast *f, bool all);
json_t *forecast_json(const loam_forecast *f);

#endif /* LOAM_CLI_FORECAST_H */
