/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/form.h"

#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes in place of its own bytes: the result is never longer. What is no
 * escape stays as it is. */
static struct span decode(char *text, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (c == '%' && len - i > 2 && hex_value(text[i + 1]) >= 0 &&
            hex_value(text[i + 2]) >= 0) {
            c = (char)(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        }
        text[used++] = c;
    }
    return (struct span){text, used};
}

bool form_split(char *text, size_t len, struct form_field *fields, size_t max,
    size_t *count)
{
    *count = 0;
    while (len > 0) {
        char *end = memchr(text, '&', len);
        const size_t part = end == NULL ? len : (size_t)(end - text);
        if (part > 0) {
            if (*count == max) {
                return false;
            }
            char *equals = memchr(text, '=', part);
            const size_t name = equals == NULL ? part : (size_t)(equals - text);
            struct form_field *field = &fields[(*count)++];
            field->name = decode(text, name);
            if (equals != NULL) {
                field->value = decode(equals + 1, part - name - 1);
            }
        }
        text += end == NULL ? part : part + 1;
        len -= end == NULL ? part : part + 1;
    }
    return true;
}
