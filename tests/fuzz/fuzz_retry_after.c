/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes Retry-After and reset headers: a line feed parts the two fields. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/retry_after.h"

#define NOW_US INT64_C(1796000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    const char *feed = size == 0 ? NULL : memchr(bytes, '\n', size);
    const size_t split = feed == NULL ? size : (size_t)(feed - bytes);
    const size_t skip = feed == NULL ? 0 : 1;
    const struct span value = {.ptr = bytes, .len = split};
    const struct span date = {.ptr = size == 0 ? NULL : bytes + split + skip,
        .len = size - split - skip};
    int64_t seconds = -1;
    if (retry_after_parse(value, date, NOW_US, &seconds)) {
        require(seconds >= 0);
    }
    for (int unit = RESET_EPOCH_S; unit <= RESET_DELTA_S; unit++) {
        seconds = -1;
        if (reset_header_parse(
                value, (enum reset_unit)unit, NOW_US, &seconds)) {
            require(seconds >= 0);
        }
    }
    return 0;
}
