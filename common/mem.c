/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation half of buf.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

static void *check(void *ptr)
{
    if (ptr == NULL) {
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    return ptr;
}

void *mem_alloc(size_t size)
{
    return check(malloc(size == 0 ? 1 : size));
}

void *mem_zalloc(size_t count, size_t size)
{
    return check(calloc(count == 0 ? 1 : count, size == 0 ? 1 : size));
}

void *mem_resize(void *ptr, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return check(NULL);
    }
    return check(realloc(ptr, bytes == 0 ? 1 : bytes));
}

char *mem_strdup(const char *text)
{
    return check(strdup(text));
}
