/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/file.h"

#include <stdio.h>
#include <string.h>

int file_read(const char *path, struct buf *out, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    char chunk[65536];
    size_t len;
    int rc = 0;
    if (file == NULL)
        return err_set_errno(err, ERR_PERMANENT, "FILE", "%s", path);
    while (
        (len = fread(chunk, 1, sizeof chunk, file)) > 0 && !out->is_overflowed)
        buf_put(out, chunk, len);
    if (ferror(file))
        rc = err_set_errno(err, ERR_PERMANENT, "FILE", "%s", path);
    else if (out->is_overflowed)
        rc = err_set(err, ERR_PERMANENT, "FILE_TOO_LARGE",
            "%s: larger than %zu bytes", path, out->max);
    if (!is_stdin)
        fclose(file);
    return rc;
}
