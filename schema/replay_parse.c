/* SPDX-License-Identifier: Apache-2.0 */
/* How people write the parts of a replay_wish (replay.h). */
#include <string.h>

#include "common/time.h"
#include "schema/replay.h"

/* "90s", "15m", "2h", "7d" */
static bool parse_ago(struct span text, int64_t *ago_us)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    int64_t number = 0;
    if (text.len < 2 || text.len > 8 ||
        !span_to_int((struct span){text.ptr, text.len - 1}, &number) ||
        number < 0) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (text.ptr[text.len - 1] == units[i].unit) {
            *ago_us = number * units[i].seconds * US_PER_S;
            return true;
        }
    }
    return false;
}

bool replay_parse_time(struct span text, int64_t now_wall_us, int64_t *wall_us)
{
    int64_t ago_us = 0;
    if (parse_ago(text, &ago_us)) {
        *wall_us = now_wall_us > ago_us ? now_wall_us - ago_us : 1;
        return true;
    }
    return time_parse_rfc3339(text, wall_us) && *wall_us > 0;
}

bool replay_parse_statuses(struct span text, int *statuses)
{
    *statuses = 0;
    while (text.len > 0) {
        const char *comma = memchr(text.ptr, ',', text.len);
        const size_t len =
            comma == NULL ? text.len : (size_t)(comma - text.ptr);
        enum status status = STATUS_SUCCEEDED;
        if (!status_parse((struct span){text.ptr, len}, &status)) {
            return false;
        }
        *statuses |= 1 << (int)status;
        if (comma == NULL) {
            return true;
        }
        text = (struct span){comma + 1, text.len - len - 1};
    }
    return false;
}

bool replay_parse_rate(struct span text, int64_t *rate)
{
    if (text.len > 2 && memcmp(text.ptr + text.len - 2, "/s", 2) == 0) {
        text.len -= 2;
    }
    return span_to_int(text, rate) && *rate >= 1 && *rate <= REPLAY_MAX_RATE;
}

bool replay_topic_is_valid(struct span topic)
{
    if (topic.len == 0 || topic.len > REPLAY_MAX_TOPIC || topic.ptr[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < topic.len; i++) {
        const char c = topic.ptr[i];
        const bool is_plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!is_plain) {
            return false;
        }
    }
    return true;
}

bool replay_wish_has_filter(const struct replay_wish *wish)
{
    return wish->statuses != 0 || wish->connector[0] != '\0' ||
           wish->action[0] != '\0' || wish->error_code[0] != '\0' ||
           wish->source[0] != '\0' || wish->since_us != 0 ||
           wish->until_us != 0;
}

const char *replay_wish_fault(const struct replay_wish *wish)
{
    const bool is_filter = wish->id_count == 0;
    if (wish->kind == REPLAY_OUTCOMES) {
        if (!is_filter || wish->has_new_key || wish->is_forced) {
            return "outcomes are sent again by a filter alone";
        }
        return NULL;
    }
    if (is_filter && wish->statuses == 0 && wish->error_code[0] == '\0') {
        return "a filter names a status or an error code, so that nothing "
               "runs again that nobody thought of";
    }
    if (wish->is_forced && is_filter) {
        return "only what is named by id is run again although it has "
               "succeeded";
    }
    if (wish->is_forced && wish->reason[0] == '\0') {
        return "running again what has succeeded needs a reason";
    }
    return NULL;
}
