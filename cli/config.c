/* config.c: YAML files that hold flags. */
#include "config.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* One file is read in the life of the program; values are used until its end. */
#define MAX_ENTRIES 128
static config_entry read_entries[MAX_ENTRIES];
static int n_read;

static bool refuse(const char *path, const yaml_node_t *node, const char *what)
{
    terminal_usage("'%s' line %zu: %s; expected lines 'name: value'", path,
                   node->start_mark.line + 1, what);
    return false;
}

/* A scalar's text, or a list's texts with commas; NULL for anything else. The caller frees it. */
static char *text_of(yaml_document_t *document, const yaml_node_t *node)
{
    if (node->type == YAML_SCALAR_NODE)
        return strdup((const char *)node->data.scalar.value);
    if (node->type != YAML_SEQUENCE_NODE)
        return NULL;
    size_t n_bytes = 1;
    char *text = calloc(1, 1);
    for (const yaml_node_item_t *i = node->data.sequence.items.start;
         text && i < node->data.sequence.items.top; i++) {
        const yaml_node_t *item = yaml_document_get_node(document, *i);
        if (!item || item->type != YAML_SCALAR_NODE) {
            free(text);
            return NULL;
        }
        const char *value = (const char *)item->data.scalar.value;
        char *longer = realloc(text, n_bytes + strlen(value) + 1);
        if (!longer) {
            free(text);
            return NULL;
        }
        text = longer;
        n_bytes += (size_t)sprintf(text + n_bytes - 1, "%s%s", n_bytes > 1 ? "," : "", value);
    }
    return text;
}

static bool take_pair(yaml_document_t *document, const char *path, const yaml_node_pair_t *pair)
{
    const yaml_node_t *key = yaml_document_get_node(document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(document, pair->value);
    if (key->type != YAML_SCALAR_NODE)
        return refuse(path, key, "a key that is no name");
    const char *name = (const char *)key->data.scalar.value;
    for (int i = 0; i < n_read; i++)
        if (strcmp(read_entries[i].key, name) == 0)
            return refuse(path, key, "a key that was there before");
    if (n_read == MAX_ENTRIES)
        return refuse(path, key, "more keys than there are flags");
    char *text = text_of(document, value);
    if (!text)
        return refuse(path, value, "a value that is no word, number or list of them");
    char *copy = strdup(name);
    if (!copy) {
        free(text);
        return refuse(path, key, "no memory");
    }
    read_entries[n_read++] = (config_entry){.key = copy, .value = text};
    return true;
}

static bool take_document(yaml_document_t *document, const char *path)
{
    const yaml_node_t *root = yaml_document_get_root_node(document);
    if (!root) /* an empty file */
        return true;
    if (root->type != YAML_MAPPING_NODE)
        return refuse(path, root, "something else than names with values");
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++)
        if (!take_pair(document, path, p))
            return false;
    return true;
}

int config_read(const char *path, const config_entry **entries)
{
    yaml_parser_t parser;
    yaml_document_t document;
    FILE *file = fopen(path, "rb");
    if (!file) {
        terminal_usage("cannot open '%s': %s", path, strerror(errno));
        return -1;
    }
    bool fine = false;
    if (yaml_parser_initialize(&parser)) {
        yaml_parser_set_input_file(&parser, file);
        if (yaml_parser_load(&parser, &document)) {
            fine = take_document(&document, path);
            yaml_document_delete(&document);
        } else {
            terminal_usage("'%s' line %zu: this is not YAML (%s); expected lines 'name: value'",
                           path, parser.problem_mark.line + 1,
                           parser.problem ? parser.problem : "it cannot be read");
        }
        yaml_parser_delete(&parser);
    }
    fclose(file);
    *entries = read_entries;
    return fine ? n_read : -1;
}

bool config_write_text(FILE *to, const char *key, const char *text)
{
    fprintf(to, "%s: \"", key);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(to, "\\x%02x", *p);
        else
            fputc(*p, to);
    }
    return fputs("\"\n", to) >= 0;
}
