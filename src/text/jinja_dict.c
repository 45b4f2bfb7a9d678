/* jinja_dict.c: dicts with Python's rules: insertion order, and 1, 1.0 and True are one key. */
#include "text/jinja.h"

#include <math.h>
#include <string.h>

#define INDEXED_FROM 9 /* below it, looking at every entry is as fast */

static bool hash_key(jinja_run *run, const jinja_value *key, uint64_t *hash)
{
    int64_t integer = 0;
    switch (key->kind) {
    case JINJA_STRING:
        *hash = loam_hash(key->as.string.data, key->as.string.bytes, 0);
        return jinja_scan(run, key->as.string.bytes);
    case JINJA_BOOLEAN:
    case JINJA_INTEGER:
        integer = jinja_int_of(key);
        *hash = loam_hash(&integer, sizeof integer, 1);
        return true;
    case JINJA_FLOAT:
        if (key->as.number == floor(key->as.number) && fabs(key->as.number) < 9.2e18) {
            integer = (int64_t)key->as.number;
            *hash = loam_hash(&integer, sizeof integer, 1);
        } else {
            *hash = loam_hash(&key->as.number, sizeof key->as.number, 2);
        }
        return true;
    case JINJA_NONE:
        *hash = 3;
        return true;
    case JINJA_LIST:
        if (key->sequence == JINJA_SEQ_TUPLE || key->sequence == JINJA_SEQ_GROUP) {
            if (!jinja_enter(run))
                return false;
            *hash = key->as.list.n;
            for (size_t i = 0; i < key->as.list.n; i++) {
                uint64_t pair[2] = {*hash, 0};
                if (!jinja_step(run, 1) || !hash_key(run, key->as.list.items[i], &pair[1]))
                    return false;
                *hash = loam_hash(pair, sizeof pair, 4);
            }
            run->depth--;
            return true;
        }
        break;
    default:
        break;
    }
    return jinja_refuse(run, "unhashable type: '%s' cannot be a key", jinja_type_name(key));
}

jinja_value *jinja_dict_value(jinja_run *run, jinja_kind kind)
{
    jinja_value *v = jinja_alloc(run, sizeof *v);
    jinja_dict *d = v != NULL ? jinja_alloc(run, sizeof *d) : NULL;
    if (d == NULL)
        return NULL;
    v->kind = kind;
    v->as.dict = d;
    return v;
}

static void index_entry(jinja_dict *d, size_t at)
{
    size_t slot = d->entries[at].hash & (d->index_size - 1);
    while (d->index[slot] != 0)
        slot = (slot + 1) & (d->index_size - 1);
    d->index[slot] = (uint32_t)at + 1;
}

static bool rebuild_index(jinja_run *run, jinja_dict *d)
{
    if (!jinja_step(run, d->n))
        return false;
    if (d->index_size < d->capacity * 2) {
        d->index_size = d->capacity * 2;
        d->index = jinja_alloc(run, d->index_size * sizeof *d->index);
        if (d->index == NULL)
            return false;
    } else {
        memset(d->index, 0, d->index_size * sizeof *d->index);
    }
    for (size_t i = 0; i < d->n; i++)
        index_entry(d, i);
    return true;
}

static bool same_key(jinja_run *run, const jinja_entry *entry, const jinja_value *key,
                     uint64_t hash, bool *same)
{
    *same = false;
    return entry->hash != hash || jinja_equal(run, entry->key, key, same);
}

static bool find_hashed(jinja_run *run, const jinja_dict *d, const jinja_value *key, uint64_t hash,
                        size_t *at, bool *found)
{
    *found = false;
    if (d->n < INDEXED_FROM) {
        for (*at = 0; *at < d->n; (*at)++) {
            if (!same_key(run, &d->entries[*at], key, hash, found))
                return false;
            if (*found)
                return true;
        }
        return true;
    }
    size_t slot = hash & (d->index_size - 1);
    for (; d->index[slot] != 0; slot = (slot + 1) & (d->index_size - 1)) {
        *at = d->index[slot] - 1;
        if (!jinja_step(run, 1) || !same_key(run, &d->entries[*at], key, hash, found))
            return false;
        if (*found)
            return true;
    }
    return true;
}

bool jinja_dict_find(jinja_run *run, const jinja_dict *d, const jinja_value *key, size_t *at,
                     bool *found)
{
    uint64_t hash = 0;
    return hash_key(run, key, &hash) && find_hashed(run, d, key, hash, at, found);
}

static bool entry_is_text(const jinja_entry *e, const char *data, size_t bytes, uint64_t hash)
{
    return e->hash == hash && e->key->kind == JINJA_STRING && e->key->as.string.bytes == bytes &&
           memcmp(e->key->as.string.data, data, bytes) == 0;
}

jinja_value *jinja_dict_text(const jinja_dict *d, const char *data, size_t bytes)
{
    uint64_t hash = loam_hash(data, bytes, 0);
    if (d->n < INDEXED_FROM) {
        for (size_t i = 0; i < d->n; i++) {
            if (entry_is_text(&d->entries[i], data, bytes, hash))
                return d->entries[i].value;
        }
        return NULL;
    }
    size_t slot = hash & (d->index_size - 1);
    for (; d->index[slot] != 0; slot = (slot + 1) & (d->index_size - 1)) {
        const jinja_entry *e = &d->entries[d->index[slot] - 1];
        if (entry_is_text(e, data, bytes, hash))
            return e->value;
    }
    return NULL;
}

bool jinja_dict_set(jinja_run *run, jinja_dict *d, jinja_value *key, jinja_value *value)
{
    uint64_t hash = 0;
    size_t at = 0;
    bool found = false;
    if (!hash_key(run, key, &hash) || !find_hashed(run, d, key, hash, &at, &found))
        return false;
    if (found) {
        d->entries[at].value = value;
        return true;
    }
    if (d->n == UINT32_MAX / 4)
        return jinja_refuse(run, "a dict has too many entries");
    bool grew = d->n == d->capacity;
    if (grew) {
        size_t capacity = d->capacity == 0 ? 4 : d->capacity * 2;
        jinja_entry *entries = jinja_alloc(run, capacity * sizeof *entries);
        if (entries == NULL)
            return false;
        if (d->n > 0)
            memcpy(entries, d->entries, d->n * sizeof *entries);
        d->entries = entries;
        d->capacity = capacity;
    }
    d->entries[d->n++] = (jinja_entry){.key = key, .value = value, .hash = hash};
    if (d->n < INDEXED_FROM)
        return true;
    if (grew || d->n == INDEXED_FROM)
        return rebuild_index(run, d);
    index_entry(d, d->n - 1);
    return true;
}

bool jinja_dict_remove(jinja_run *run, jinja_dict *d, size_t at)
{
    d->n--;
    memmove(d->entries + at, d->entries + at + 1, (d->n - at) * sizeof *d->entries);
    return d->n < INDEXED_FROM ? jinja_step(run, d->n) : rebuild_index(run, d);
}

jinja_value *jinja_dict_view(jinja_run *run, const jinja_dict *d, jinja_sequence which)
{
    jinja_value *view = jinja_list(run, which, d->n);
    if (view == NULL || !jinja_step(run, d->n))
        return NULL;
    for (size_t i = 0; i < d->n; i++) {
        jinja_value *item = which == JINJA_SEQ_KEYS ? d->entries[i].key : d->entries[i].value;
        if (which == JINJA_SEQ_ITEMS) {
            jinja_value *pair = jinja_list(run, JINJA_SEQ_TUPLE, 2);
            if (pair == NULL)
                return NULL;
            pair->as.list.items[0] = d->entries[i].key;
            pair->as.list.items[1] = item;
            pair->as.list.n = 2;
            item = pair;
        }
        view->as.list.items[i] = item;
    }
    view->as.list.n = d->n;
    return view;
}
