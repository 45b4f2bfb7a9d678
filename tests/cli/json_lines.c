/* json_lines.c: reads JSON lines and prints the values of some of their members.
 *
 *     json_lines [MEMBER...] < lines
 *
 * Every line must be one JSON object; else the line's number and the error are printed and the
 * status is 1. For each line the named members are printed with tabs between ("-" where one is
 * absent; strings without quotes). */
#define _POSIX_C_SOURCE 200809L

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static void print_member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!value) {
        printf("-");
    } else if (json_is_string(value)) {
        printf("%s", json_string_value(value));
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        printf("%s", text ? text : "?");
        free(text);
    }
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t capacity = 0;
    int status = 0;
    for (int number = 1; getline(&line, &capacity, stdin) > 0; number++) {
        json_error_t error;
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(object)) {
            printf("line %d: not a JSON object: %s\n", number, object ? "" : error.text);
            status = 1;
        }
        for (int i = 1; i < argc && object; i++) {
            print_member(object, argv[i]);
            putchar(i + 1 < argc ? '\t' : '\n');
        }
        json_decref(object);
    }
    free(line);
    return status;
}
