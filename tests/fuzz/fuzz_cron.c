/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes crontab lines, and time zone files behind a line feed: ticks go
 * forwards and come to an end, whatever a zone does. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/cron.h"

#define BEFORE_S INT64_C(1796000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct cron *cron, const struct zone *zone)
{
    int64_t at_s = BEFORE_S;
    for (int i = 0; i < 4; i++) {
        int64_t next_s = 0;
        if (!cron_next(cron, zone, at_s, &next_s)) {
            return;
        }
        if (next_s <= at_s) {
            abort();
        }
        at_s = next_s;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    const char *feed = size == 0 ? NULL : memchr(bytes, '\n', size);
    const size_t split = feed == NULL ? size : (size_t)(feed - bytes);
    const size_t skip = feed == NULL ? 0 : 1;
    const struct span line = {.ptr = bytes, .len = split};
    const struct span file = {.ptr = size == 0 ? NULL : bytes + split + skip,
        .len = size - split - skip};
    struct cron cron;
    struct fault fault = FAULT_INIT;
    struct err err = ERR_INIT;
    struct zone *zone = zone_parse(file, &err);
    if (zone != NULL) {
        for (int64_t at_s = -ZONE_NEVER_S; at_s < ZONE_NEVER_S;
             at_s += ZONE_NEVER_S / 4) {
            const struct zone_span span = zone_find(zone, at_s);
            if (span.start_s > at_s || span.end_s <= at_s) {
                abort();
            }
        }
    }
    if (cron_parse(line, &cron, &fault) != 0) {
        if (fault.code == CODE_NONE || fault.detail[0] == '\0') {
            abort();
        }
    } else if (zone != NULL) {
        walk(&cron, zone);
    }
    zone_free(zone);
    return 0;
}
