/* SPDX-License-Identifier: Apache-2.0 */
/* The footer of a TZif file: a TZ string of POSIX with the wider range of
 * hours of RFC 8536 section 3.3.1. Shared by the files of zone. */
#ifndef ZONE_INTERNAL_H
#define ZONE_INTERNAL_H

#include "common/zone.h"

enum zone_day {
    ZONE_DAY_OF_YEAR,    /* n: 0 to 365, 29 February counts */
    ZONE_DAY_WITHOUT_29, /* Jn: 1 to 365, 29 February never counts */
    ZONE_DAY_OF_MONTH    /* Mm.w.d */
};

struct zone_change {
    enum zone_day kind;
    int month;      /* 1 to 12 */
    int week;       /* 1 to 5, 5: the last */
    int day;        /* of the week, 0 is Sunday; or of the year */
    int32_t time_s; /* of the local clock before it changes */
};

struct zone_rule {
    bool has_dst;
    int32_t std_offset_s;
    int32_t dst_offset_s;
    struct zone_change to_dst;
    struct zone_change to_std;
};

/* False for anything else than such a string. */
bool zone_rule_parse(struct span text, struct zone_rule *rule);
/* The range that holds an instant if the rule had always been there. */
struct zone_span zone_rule_find(const struct zone_rule *rule, int64_t at_s);

#endif
