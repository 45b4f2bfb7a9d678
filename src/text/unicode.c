/* unicode.c: UTF-8 as the tokenizers read it, and the classes of characters. */
#include "text/unicode.h"

#include <string.h>

#define REPLACEMENT 0xFFFD

uint8_t *loam_unicode_classes(void)
{
    /* White_Space in PropList.txt: first and last of each run. */
    static const uint32_t spaces[][2] = {
        {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    uint8_t *classes = loam_alloc(LOAM_N_CODE_POINTS);
    if (!classes)
        return NULL;
    for (int i = 0; i < loam_unicode_n_runs; i++) {
        uint32_t begin = loam_unicode_runs[i] >> 8;
        uint32_t end = i + 1 < loam_unicode_n_runs ? loam_unicode_runs[i + 1] >> 8
                                                   : (uint32_t)LOAM_N_CODE_POINTS;
        memset(classes + begin, (int)(loam_unicode_runs[i] & 0xFF), end - begin);
    }
    for (int i = 0; i < LOAM_COUNT(spaces); i++) {
        for (uint32_t c = spaces[i][0]; c <= spaces[i][1]; c++)
            classes[c] |= LOAM_CLASS_SPACE;
    }
    return classes;
}

static bool continues(const char *p, size_t n, size_t length)
{
    if (length > n)
        return false;
    for (size_t i = 1; i < length; i++) {
        if (((uint8_t)p[i] & 0xC0) != 0x80)
            return false;
    }
    return true;
}

uint32_t loam_utf8_decode(const char *p, size_t n, size_t *used)
{
    const uint8_t *u = (const uint8_t *)p;
    *used = 1;
    if (u[0] < 0x80)
        return u[0];
    if (u[0] >= 0xC0 && u[0] < 0xE0 && continues(p, n, 2)) {
        *used = 2;
        return (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    }
    if (u[0] >= 0xE0 && u[0] < 0xF0 && continues(p, n, 3)) {
        *used = 3;
        return (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    }
    if (u[0] >= 0xF0 && u[0] < 0xF8 && continues(p, n, 4)) {
        uint32_t c =
            (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
        if (c < LOAM_N_CODE_POINTS) {
            *used = 4;
            return c;
        }
    }
    return REPLACEMENT;
}

size_t loam_utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

size_t loam_utf8_length(char first)
{
    uint8_t u = (uint8_t)first;
    return u < 0xC0 ? 1 : u < 0xE0 ? 2 : u < 0xF0 ? 3 : 4;
}

bool loam_utf8_is_clean(const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes;) {
        if ((uint8_t)text[i] < 0x80) {
            i++;
            continue;
        }
        size_t used;
        char again[4];
        uint32_t c = loam_utf8_decode(text + i, n_bytes - i, &used);
        if (loam_utf8_encode(c, again) != used || memcmp(again, text + i, used) != 0)
            return false;
        i += used;
    }
    return true;
}
