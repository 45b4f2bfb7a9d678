/* json.h: JSON on the standard output, one object on each line. */
#ifndef LOAM_CLI_JSON_H
#define LOAM_CLI_JSON_H

#include "loam.h"

#include <jansson.h>

/* A number; null where it is not finite, which JSON cannot say. */
json_t *json_number(double value);
/* A string; bytes that are not UTF-8 become U+FFFD. null for NULL. */
json_t *json_text(const char *text);
json_t *json_data_summary(const loam_data_summary *d);

/* Prints an object on one line and frees it; false where nobody reads any more. */
bool json_print_line(json_t *object);
/* {"event":"error","status":"...","message":"..."} */
void json_print_error(const loam_error *e);

#endif /* LOAM_CLI_JSON_H */
