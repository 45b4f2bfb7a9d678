/* jinja_method_string.c: the methods of strings, as Python's str has them. */
#include "text/jinja.h"

#include <string.h>

/* ---- case and stripping -------------------------------------------------------------------- */

static jinja_value *string_upper(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_cased(run, self, true);
}

static jinja_value *string_lower(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_cased(run, self, false);
}

static jinja_value *string_capitalize(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_capitalized(run, self);
}

/* Gives every run of cased characters a capital first letter and small others; or, where `swap`,
 * turns capital letters into small ones and the others into capitals. */
static jinja_value *recased(jinja_run *run, const jinja_value *self, bool swap)
{
    size_t mark = jinja_mark(run);
    const char *p = self->as.string.data;
    const char *end = p + self->as.string.bytes;
    bool inside = false;
    while (p < end) {
        const char *begin = p;
        uint32_t code = jinja_utf8_next(&p, end);
        uint32_t lower[3];
        jinja_lower(code, lower);
        jinja_value *one = jinja_string(run, begin, (size_t)(p - begin));
        if (one == NULL)
            return NULL;
        bool upper = swap ? lower[0] == code : !inside;
        one = upper && !swap ? jinja_capitalized(run, one) : jinja_cased(run, one, upper);
        if (one == NULL || !jinja_emit_value(run, one, false))
            return NULL;
        inside = jinja_is_cased(code);
    }
    return jinja_take(run, mark);
}

static jinja_value *string_title(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return recased(run, self, false);
}

static jinja_value *string_swapcase(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return recased(run, self, true);
}

static jinja_value *strip(jinja_run *run, jinja_value *self, jinja_value *chars, int sides)
{
    jinja_value *characters = NULL;
    if (chars != NULL && chars->kind == JINJA_NONE)
        chars = NULL;
    if (!jinja_arg_string(run, chars, "chars", NULL, &characters))
        return NULL;
    if (run->limits->strip_ignores_characters)
        characters = NULL;
    return jinja_stripped(run, self, characters, sides);
}

static jinja_value *string_strip(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    return strip(run, self, arg[0], 3);
}

static jinja_value *string_lstrip(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    return strip(run, self, arg[0], 1);
}

static jinja_value *string_rstrip(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    return strip(run, self, arg[0], 2);
}

static bool begins_with(const jinja_value *text, const jinja_value *part)
{
    return part->as.string.bytes <= text->as.string.bytes &&
           memcmp(text->as.string.data, part->as.string.data, part->as.string.bytes) == 0;
}

static bool ends_with(const jinja_value *text, const jinja_value *part)
{
    return part->as.string.bytes <= text->as.string.bytes &&
           memcmp(text->as.string.data + text->as.string.bytes - part->as.string.bytes,
                  part->as.string.data, part->as.string.bytes) == 0;
}

static jinja_value *string_removeprefix(jinja_run *run, jinja_value *self, jinja_value **arg,
                                        const jinja_args *raw)
{
    (void)raw;
    jinja_value *part = NULL;
    if (!jinja_arg_string(run, arg[0], "prefix", NULL, &part))
        return NULL;
    if (!begins_with(self, part))
        return self;
    return jinja_string(run, self->as.string.data + part->as.string.bytes,
                        self->as.string.bytes - part->as.string.bytes);
}

static jinja_value *string_removesuffix(jinja_run *run, jinja_value *self, jinja_value **arg,
                                        const jinja_args *raw)
{
    (void)raw;
    jinja_value *part = NULL;
    if (!jinja_arg_string(run, arg[0], "suffix", NULL, &part))
        return NULL;
    if (!ends_with(self, part))
        return self;
    return jinja_string(run, self->as.string.data, self->as.string.bytes - part->as.string.bytes);
}

/* ---- splitting and joining ----------------------------------------------------------------- */

static bool append_piece(jinja_run *run, jinja_value *list, const char *begin, const char *end)
{
    jinja_value *piece = jinja_string(run, begin, (size_t)(end - begin));
    return piece != NULL && jinja_append(run, list, piece);
}

static const char *skip_class(const char *p, const char *end, bool space)
{
    while (p < end) {
        const char *next = p;
        if (jinja_is_space(jinja_utf8_next(&next, end)) != space)
            break;
        p = next;
    }
    return p;
}

static const char *skip_class_back(const char *begin, const char *p, bool space)
{
    while (p > begin) {
        const char *last = jinja_utf8_previous(p, begin);
        const char *next = last;
        if (jinja_is_space(jinja_utf8_next(&next, p)) != space)
            break;
        p = last;
    }
    return p;
}

static bool split_spaces(jinja_run *run, jinja_value *list, const char *p, const char *end,
                         int64_t limit)
{
    p = skip_class(p, end, true);
    for (; p < end && limit != 0; limit--) {
        const char *word_end = skip_class(p, end, false);
        if (!append_piece(run, list, p, word_end))
            return false;
        p = skip_class(word_end, end, true);
    }
    return p == end || append_piece(run, list, p, end);
}

/* From the right; the pieces come out last first. */
static bool rsplit_spaces(jinja_run *run, jinja_value *list, const char *begin, const char *p,
                          int64_t limit)
{
    p = skip_class_back(begin, p, true);
    for (; p > begin && limit != 0; limit--) {
        const char *word = skip_class_back(begin, p, false);
        if (!append_piece(run, list, word, p))
            return false;
        p = skip_class_back(begin, word, true);
    }
    return p == begin || append_piece(run, list, begin, p);
}

static bool split_at(jinja_run *run, jinja_value *list, const char *p, const char *end,
                     const jinja_value *separator, int64_t limit)
{
    for (; limit != 0; limit--) {
        const char *found =
            memmem(p, (size_t)(end - p), separator->as.string.data, separator->as.string.bytes);
        if (found == NULL)
            break;
        if (!append_piece(run, list, p, found))
            return false;
        p = found + separator->as.string.bytes;
    }
    return append_piece(run, list, p, end);
}

/* The last place of `part` in [begin, end), or NULL. */
static const char *find_last(const char *begin, const char *end, const jinja_value *part)
{
    size_t n = part->as.string.bytes;
    if ((size_t)(end - begin) < n)
        return NULL;
    for (const char *p = end - n; p >= begin; p--) {
        if (memcmp(p, part->as.string.data, n) == 0)
            return p;
        if (p == begin)
            break;
    }
    return NULL;
}

static bool rsplit_at(jinja_run *run, jinja_value *list, const char *begin, const char *end,
                      const jinja_value *separator, int64_t limit)
{
    for (; limit != 0; limit--) {
        const char *found = find_last(begin, end, separator);
        if (found == NULL)
            break;
        if (!append_piece(run, list, found + separator->as.string.bytes, end))
            return false;
        end = found;
    }
    return append_piece(run, list, begin, end);
}

static void reverse_items(jinja_value *list)
{
    for (size_t i = 0; i < list->as.list.n / 2; i++) {
        jinja_value *item = list->as.list.items[i];
        list->as.list.items[i] = list->as.list.items[list->as.list.n - 1 - i];
        list->as.list.items[list->as.list.n - 1 - i] = item;
    }
}

static jinja_value *split(jinja_run *run, jinja_value *self, jinja_value **arg, bool from_right)
{
    jinja_value *separator = NULL;
    int64_t limit = -1;
    jinja_value *given = arg[0] != NULL && arg[0]->kind != JINJA_NONE ? arg[0] : NULL;
    jinja_value *list = jinja_list(run, JINJA_SEQ_LIST, 0);
    if (list == NULL || !jinja_arg_string(run, given, "sep", NULL, &separator) ||
        !jinja_arg_int(run, arg[1], "maxsplit", -1, &limit))
        return NULL;
    if (separator != NULL && separator->as.string.bytes == 0)
        return jinja_fail(run, LOAM_E_DATA, "split: the separator is empty");
    const char *p = self->as.string.data;
    const char *end = p + self->as.string.bytes;
    size_t work = self->as.string.bytes;
    if (from_right && separator != NULL)
        work += separator->as.string.bytes * 8;
    bool done = jinja_scan(run, work);
    if (done && !from_right)
        done = separator != NULL ? split_at(run, list, p, end, separator, limit)
                                 : split_spaces(run, list, p, end, limit);
    else if (done)
        done = separator != NULL ? rsplit_at(run, list, p, end, separator, limit)
                                 : rsplit_spaces(run, list, p, end, limit);
    if (!done)
        return NULL;
    if (from_right)
        reverse_items(list);
    return list;
}

static jinja_value *string_split(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    return split(run, self, arg, false);
}

static jinja_value *string_rsplit(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    return split(run, self, arg, true);
}

static jinja_value *string_splitlines(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)raw;
    return jinja_lines(run, self, arg[0] != NULL && jinja_truth(arg[0]));
}

/* (before, separator, after), with the whole text before (from the left) or after where the
 * separator is missing. */
static jinja_value *partition(jinja_run *run, jinja_value *self, jinja_value *arg, bool from_right)
{
    jinja_value *separator = NULL;
    jinja_value *parts = jinja_list(run, JINJA_SEQ_TUPLE, 3);
    if (parts == NULL || !jinja_arg_string(run, arg, "sep", NULL, &separator) ||
        !jinja_scan(run, self->as.string.bytes))
        return NULL;
    if (separator->as.string.bytes == 0)
        return jinja_fail(run, LOAM_E_DATA, "partition: the separator is empty");
    const char *begin = self->as.string.data;
    const char *end = begin + self->as.string.bytes;
    const char *found = from_right ? find_last(begin, end, separator)
                                   : memmem(begin, self->as.string.bytes, separator->as.string.data,
                                            separator->as.string.bytes);
    parts->as.list.n = 3;
    for (int i = 0; i < 3; i++)
        parts->as.list.items[i] = run->empty;
    if (found == NULL) {
        parts->as.list.items[from_right ? 2 : 0] = self;
        return parts;
    }
    const char *after = found + separator->as.string.bytes;
    parts->as.list.items[0] = jinja_string(run, begin, (size_t)(found - begin));
    parts->as.list.items[1] = separator;
    parts->as.list.items[2] = jinja_string(run, after, (size_t)(end - after));
    return parts->as.list.items[0] != NULL && parts->as.list.items[2] != NULL ? parts : NULL;
}

static jinja_value *string_partition(jinja_run *run, jinja_value *self, jinja_value **arg,
                                     const jinja_args *raw)
{
    (void)raw;
    return partition(run, self, arg[0], false);
}

static jinja_value *string_rpartition(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)raw;
    return partition(run, self, arg[0], true);
}

static jinja_value *string_join(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    if (!jinja_defined(run, arg[0]) || !jinja_iterate(run, arg[0], &items, &n))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->kind != JINJA_STRING)
            return jinja_fail(run, LOAM_E_DATA, "join: item %zu must be a string, not '%s'", i,
                              jinja_type_name(items[i]));
    }
    return jinja_join(run, self, items, n);
}

static jinja_value *string_replace(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)raw;
    jinja_value *old = NULL;
    jinja_value *with = NULL;
    int64_t limit = -1;
    if (!jinja_arg_string(run, arg[0], "old", NULL, &old) ||
        !jinja_arg_string(run, arg[1], "new", NULL, &with) ||
        !jinja_arg_int(run, arg[2], "count", -1, &limit))
        return NULL;
    return jinja_replace(run, self, old, with, limit);
}

/* ---- searching ----------------------------------------------------------------------------- */

/* The bytes of self[start:end], or an empty part where start lies behind the end; *begin is the
 * code point that it starts at. */
static jinja_value *part_of(jinja_run *run, jinja_value *self, jinja_value *start, jinja_value *end,
                            int64_t *begin)
{
    size_t length = 0;
    *begin = 0;
    if (start != NULL && start->kind == JINJA_NONE)
        start = NULL;
    if (start == NULL && end == NULL)
        return self;
    if (!jinja_arg_int(run, start, "start", 0, begin) || !jinja_length(run, self, &length))
        return NULL;
    if (*begin < 0)
        *begin = LOAM_MAX(0, *begin + (int64_t)length);
    return jinja_slice(run, self, start, end, NULL);
}

typedef bool (*edge_check)(const jinja_value *text, const jinja_value *part);

static jinja_value *check_edge(jinja_run *run, jinja_value *self, jinja_value **arg,
                               edge_check check)
{
    int64_t begin = 0;
    size_t length = 0;
    jinja_value **items = arg;
    size_t n = 1;
    if (!jinja_defined(run, arg[0]))
        return NULL;
    if (arg[0]->kind == JINJA_LIST && arg[0]->sequence == JINJA_SEQ_TUPLE) {
        items = arg[0]->as.list.items;
        n = arg[0]->as.list.n;
    }
    jinja_value *part = part_of(run, self, arg[1], arg[2], &begin);
    if (part == NULL || !jinja_length(run, self, &length))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->kind != JINJA_STRING)
            return jinja_fail(run, LOAM_E_DATA, "expected a string or a tuple of strings, not '%s'",
                              jinja_type_name(items[i]));
        if (begin <= (int64_t)length && check(part, items[i]))
            return run->yes;
    }
    return run->no;
}

static jinja_value *string_startswith(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)raw;
    return check_edge(run, self, arg, begins_with);
}

static jinja_value *string_endswith(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)raw;
    return check_edge(run, self, arg, ends_with);
}

/* The code point at which the argument is found; -1 where it is not. */
static bool find(jinja_run *run, jinja_value *self, jinja_value **arg, bool from_right, int64_t *at)
{
    int64_t begin = 0;
    jinja_value *wanted = NULL;
    *at = -1;
    if (!jinja_arg_string(run, arg[0], "sub", NULL, &wanted))
        return false;
    jinja_value *part = part_of(run, self, arg[1], arg[2], &begin);
    size_t length = 0;
    if (part == NULL || !jinja_scan(run, part->as.string.bytes) ||
        !jinja_length(run, self, &length))
        return false;
    if (begin > (int64_t)length)
        return true;
    const char *data = part->as.string.data;
    const char *found = from_right ? find_last(data, data + part->as.string.bytes, wanted)
                                   : memmem(data, part->as.string.bytes, wanted->as.string.data,
                                            wanted->as.string.bytes);
    if (found != NULL)
        *at = begin + (int64_t)jinja_utf8_count(data, (size_t)(found - data));
    return true;
}

static jinja_value *string_find(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    int64_t at = 0;
    return find(run, self, arg, false, &at) ? jinja_integer(run, at) : NULL;
}

static jinja_value *string_rfind(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    int64_t at = 0;
    return find(run, self, arg, true, &at) ? jinja_integer(run, at) : NULL;
}

static jinja_value *found_index(jinja_run *run, jinja_value *self, jinja_value **arg,
                                bool from_right)
{
    int64_t at = 0;
    if (!find(run, self, arg, from_right, &at))
        return NULL;
    return at >= 0 ? jinja_integer(run, at)
                   : jinja_fail(run, LOAM_E_DATA, "index: the text was not found");
}

static jinja_value *string_index(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    return found_index(run, self, arg, false);
}

static jinja_value *string_rindex(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    return found_index(run, self, arg, true);
}

static jinja_value *string_count(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    int64_t begin = 0;
    int64_t n = 0;
    size_t length = 0;
    jinja_value *wanted = NULL;
    if (!jinja_arg_string(run, arg[0], "sub", NULL, &wanted))
        return NULL;
    jinja_value *part = part_of(run, self, arg[1], arg[2], &begin);
    if (part == NULL || !jinja_scan(run, part->as.string.bytes) ||
        !jinja_length(run, part, &length))
        return NULL;
    if (wanted->as.string.bytes == 0)
        return jinja_integer(run, (int64_t)length + 1);
    const char *p = part->as.string.data;
    const char *end = p + part->as.string.bytes;
    while ((p = memmem(p, (size_t)(end - p), wanted->as.string.data, wanted->as.string.bytes)) !=
           NULL) {
        p += wanted->as.string.bytes;
        n++;
    }
    return jinja_integer(run, n);
}

/* ---- asking -------------------------------------------------------------------------------- */

/* True where there is a character and all have the property. */
static jinja_value *all_are(jinja_run *run, const jinja_value *self, bool (*property)(uint32_t))
{
    const char *p = self->as.string.data;
    const char *end = p + self->as.string.bytes;
    if (!jinja_scan(run, self->as.string.bytes))
        return NULL;
    while (p < end) {
        if (!property(jinja_utf8_next(&p, end)))
            return run->no;
    }
    return jinja_boolean(run, self->as.string.bytes > 0);
}

static bool is_alphanumeric(uint32_t code)
{
    return jinja_is_alpha(code) || jinja_is_digit(code);
}

static jinja_value *string_isdigit(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return all_are(run, self, jinja_is_digit);
}

static jinja_value *string_isalpha(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return all_are(run, self, jinja_is_alpha);
}

static jinja_value *string_isalnum(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return all_are(run, self, is_alphanumeric);
}

static jinja_value *string_isspace(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return all_are(run, self, jinja_is_space);
}

static jinja_value *string_islower(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    return jinja_call_builtin(run, "test", jinja_find(jinja_tests, "lower", 5), self, raw);
}

static jinja_value *string_isupper(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    return jinja_call_builtin(run, "test", jinja_find(jinja_tests, "upper", 5), self, raw);
}

/* ---- padding and formatting ---------------------------------------------------------------- */

/* How many characters are missing to `width`, and what they are. */
static bool padding(jinja_run *run, jinja_value *self, jinja_value **arg, int64_t *missing,
                    jinja_value **fill)
{
    size_t length = 0;
    size_t n_fill = 0;
    jinja_value *blank = jinja_string(run, " ", 1);
    if (blank == NULL || !jinja_arg_int(run, arg[0], "width", 0, missing) ||
        !jinja_arg_string(run, arg[1], "fillchar", blank, fill) ||
        !jinja_length(run, self, &length) || !jinja_length(run, *fill, &n_fill))
        return false;
    if (n_fill != 1)
        return jinja_refuse(run, "the fill must be one character, found %zu", n_fill);
    *missing = LOAM_MAX(0, *missing - (int64_t)length);
    return true;
}

static jinja_value *padded(jinja_run *run, jinja_value *self, jinja_value *fill, int64_t left,
                           int64_t right)
{
    jinja_value *parts[3] = {NULL, self, NULL};
    int64_t counts[3] = {left, 0, right};
    for (int i = 0; i < 3; i += 2) {
        jinja_value *times = jinja_integer(run, counts[i]);
        parts[i] = times != NULL ? jinja_binary(run, JINJA_OP_MUL, fill, times) : NULL;
        if (parts[i] == NULL)
            return NULL;
    }
    return jinja_join(run, run->empty, parts, 3);
}

static jinja_value *string_ljust(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    int64_t missing = 0;
    jinja_value *fill = NULL;
    return padding(run, self, arg, &missing, &fill) ? padded(run, self, fill, 0, missing) : NULL;
}

static jinja_value *string_rjust(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    int64_t missing = 0;
    jinja_value *fill = NULL;
    return padding(run, self, arg, &missing, &fill) ? padded(run, self, fill, missing, 0) : NULL;
}

static jinja_value *string_center(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    int64_t missing = 0;
    jinja_value *fill = NULL;
    if (!padding(run, self, arg, &missing, &fill))
        return NULL;
    int64_t left = missing / 2 + (missing & jinja_int_of(arg[0]) & 1);
    return padded(run, self, fill, left, missing - left);
}

/* Zeros before the digits, behind a sign. */
static jinja_value *string_zfill(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    int64_t missing = 0;
    jinja_value *fill = NULL;
    jinja_value *zero = jinja_string(run, "0", 1);
    jinja_value *width_and_fill[2] = {arg[0], zero};
    if (zero == NULL || !padding(run, self, width_and_fill, &missing, &fill))
        return NULL;
    const char *data = self->as.string.data;
    size_t sign = self->as.string.bytes > 0 && (data[0] == '-' || data[0] == '+');
    jinja_value *digits = jinja_string(run, data + sign, self->as.string.bytes - sign);
    jinja_value *filled = digits != NULL ? padded(run, digits, fill, missing, 0) : NULL;
    jinja_value *first = filled != NULL ? jinja_string(run, data, sign) : NULL;
    return first != NULL ? jinja_binary(run, JINJA_OP_ADD, first, filled) : NULL;
}

static jinja_value *string_format(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    return jinja_format_braces(run, self, raw);
}

const jinja_builtin jinja_string_methods[] = {
    {"upper", string_upper, 0, ""},
    {"lower", string_lower, 0, ""},
    {"casefold", string_lower, 0, ""},
    {"capitalize", string_capitalize, 0, ""},
    {"title", string_title, 0, ""},
    {"swapcase", string_swapcase, 0, ""},
    {"strip", string_strip, 0, "chars"},
    {"lstrip", string_lstrip, 0, "chars"},
    {"rstrip", string_rstrip, 0, "chars"},
    {"removeprefix", string_removeprefix, 1, "prefix"},
    {"removesuffix", string_removesuffix, 1, "suffix"},
    {"split", string_split, 0, "sep maxsplit"},
    {"rsplit", string_rsplit, 0, "sep maxsplit"},
    {"splitlines", string_splitlines, 0, "keepends"},
    {"partition", string_partition, 1, "sep"},
    {"rpartition", string_rpartition, 1, "sep"},
    {"join", string_join, 1, "iterable"},
    {"replace", string_replace, 2, "old new count"},
    {"startswith", string_startswith, 1, "prefix start end"},
    {"endswith", string_endswith, 1, "suffix start end"},
    {"find", string_find, 1, "sub start end"},
    {"rfind", string_rfind, 1, "sub start end"},
    {"index", string_index, 1, "sub start end"},
    {"rindex", string_rindex, 1, "sub start end"},
    {"count", string_count, 1, "sub start end"},
    {"isdigit", string_isdigit, 0, ""},
    {"isdecimal", string_isdigit, 0, ""},
    {"isnumeric", string_isdigit, 0, ""},
    {"isalpha", string_isalpha, 0, ""},
    {"isalnum", string_isalnum, 0, ""},
    {"isspace", string_isspace, 0, ""},
    {"islower", string_islower, 0, ""},
    {"isupper", string_isupper, 0, ""},
    {"ljust", string_ljust, 1, "width fillchar"},
    {"rjust", string_rjust, 1, "width fillchar"},
    {"center", string_center, 1, "width fillchar"},
    {"zfill", string_zfill, 1, "width"},
    {"format", string_format, 0, NULL},
    {NULL, NULL, 0, NULL},
};
