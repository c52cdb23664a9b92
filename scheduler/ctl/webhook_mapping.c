/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping on its way from a file into its column. */
#include "scheduler/ctl/file.h"
#include "scheduler/ctl/webhook_verbs.h"
#include "schema/mapping.h"

int webhook_mapping_read(const char *path, struct buf *out)
{
    struct err err = ERR_INIT;
    struct fault fault = FAULT_INIT;
    if (file_read(path, out, &err) != 0)
        return ctl_fail(CTL_FAILED, "%s", err.msg);
    struct mapping *mapping = mapping_load(buf_span(out), &fault);
    if (mapping == NULL)
        return ctl_fail(CTL_USAGE, "%s: %s%s%s", path, fault.pointer,
            fault.pointer[0] != '\0' ? " " : "", fault.detail);
    mapping_free(mapping);
    return CTL_DONE;
}
