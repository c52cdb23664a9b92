/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry_after: RFC 9110 10.2.3 and the reset headers of providers.
 * 1*DIGIT (saturating) or one of the three HTTP-date forms; anything else is
 * absent. A date is taken relative to the answer's Date header if that is
 * usable, else to now. The past is 0.
 */
#ifndef RETRY_AFTER_H
#define RETRY_AFTER_H

#include <stdint.h>

#include "common/buf.h"
#include "schema/manifest.h"

/* False: absent or not usable. seconds is 0 to INT64_MAX (saturated); rounded
 * up. date: the Date header, empty when absent. */
bool retry_after_parse(
    struct span value, struct span date, int64_t now_wall_us, int64_t *seconds);
/* RFC 9110 5.6.7: IMF-fixdate, RFC 850, asctime; two-digit years relative to
 * now. */
bool http_date_parse(struct span text, int64_t now_wall_us, int64_t *wall_us);
bool reset_header_parse(struct span value, enum reset_unit unit,
    int64_t now_wall_us, int64_t *seconds);

#endif
