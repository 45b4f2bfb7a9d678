/* config.h: YAML files that hold flags: one mapping of names to values. */
#ifndef LOAM_CLI_CONFIG_H
#define LOAM_CLI_CONFIG_H

#include <stdbool.h>
#include <stdio.h>

typedef struct config_entry {
    const char *key, *value; /* live as long as the program, as arguments do */
} config_entry;

/* The entries of a file, in its order; a list becomes its items with commas between them. Prints a
 * message and returns -1 where the file cannot be used. */
int config_read(const char *path, const config_entry **entries);

/* Writes "key: "text"" with the text quoted for YAML. */
bool config_write_text(FILE *to, const char *key, const char *text);

#endif /* LOAM_CLI_CONFIG_H */
