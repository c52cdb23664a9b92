/* SPDX-License-Identifier: Apache-2.0 */
/* file: whole files into memory, within the buffer's maximum. Blocks. */
#ifndef FILE_H
#define FILE_H

#include "common/buf.h"

/* path "-" is standard input. Appends to out. */
int file_read(const char *path, struct buf *out, struct err *err) MUST_CHECK;

#endif
