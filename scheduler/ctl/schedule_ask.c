/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/schedule_ask.h"

#include <string.h>

#include "scheduler/ctl/file.h"

bool schedule_ask_duration(const char *text, int64_t *seconds)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    const size_t digits = strspn(text, "0123456789");
    int64_t number = 0;
    if (digits == 0 || digits > 9 ||
        !span_to_int((struct span){text, digits}, &number))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(text + digits, units[i].unit) == 0) {
            *seconds = number * units[i].seconds;
            return true;
        }
    }
    return false;
}

static void put_text(struct buf *out, const char *name, const char *value)
{
    if (value != NULL) {
        json_put_name(out, name);
        json_put_cstring(out, value);
    }
}

/* A number of the document; anything else is refused here, since it would
 * break the JSON. */
static int put_number(
    struct buf *out, const char *name, const char *option, const char *value)
{
    int64_t number = 0;
    if (value == NULL)
        return CTL_DONE;
    if (!span_to_int(span_of(value), &number))
        return ctl_fail(
            CTL_USAGE, "--%s takes a number, not '%s'", option, value);
    json_put_name(out, name);
    buf_put_int(out, number);
    return CTL_DONE;
}

static int put_duration(
    struct buf *out, const char *name, const char *option, const char *value)
{
    int64_t seconds = 0;
    if (value == NULL)
        return CTL_DONE;
    if (!schedule_ask_duration(value, &seconds))
        return ctl_fail(CTL_USAGE,
            "--%s takes a time like 90s, 15m, 6h or 1d, not '%s'", option,
            value);
    json_put_name(out, name);
    buf_put_int(out, seconds);
    return CTL_DONE;
}

static int put_payload(struct buf *out, const char *text)
{
    struct err err = ERR_INIT;
    struct json_value root;
    struct buf payload;
    int code = CTL_DONE;
    buf_init(&payload, SCHEDULE_MAX_BYTES);
    if (text[0] != '@')
        buf_put_str(&payload, text);
    else if (file_read(text + 1, &payload, &err) != 0)
        code = ctl_fail(CTL_FAILED, "%s", err.msg);
    if (code == CTL_DONE && payload.is_overflowed)
        code = ctl_fail(
            CTL_USAGE, "--payload: larger than %zu bytes", SCHEDULE_MAX_BYTES);
    if (code == CTL_DONE &&
        json_parse(buf_span(&payload), RECORD_PAYLOAD_DEPTH, &root, &err) != 0)
        code = ctl_fail(CTL_USAGE, "--payload: %s", err.msg);
    if (code == CTL_DONE) {
        json_put_name(out, "payload");
        buf_put_span(out, root.raw);
    }
    buf_fini(&payload);
    return code;
}

static int put_request(struct buf *out, const struct schedule_ask *ask)
{
    int code = CTL_DONE;
    json_put_name(out, "request");
    buf_put_char(out, '{');
    put_text(out, "connector", ask->connector);
    put_text(out, "action", ask->action);
    if (ask->payload != NULL)
        code = put_payload(out, ask->payload);
    if (code == CTL_DONE)
        code = put_number(out, "priority", "priority", ask->priority);
    if (code == CTL_DONE)
        code =
            put_number(out, "max_attempts", "max-attempts", ask->max_attempts);
    buf_put_char(out, '}');
    return code;
}

static int put_document(struct buf *out, const struct schedule_ask *ask)
{
    buf_put_char(out, '{');
    put_text(out, "name", ask->name);
    put_text(out, "cron", ask->cron);
    put_text(out, "zone", ask->zone);
    put_text(out, "start", ask->start);
    put_text(out, "at", ask->at);
    put_text(out, "misfire", ask->misfire);
    int code = put_duration(out, "every_s", "every", ask->every);
    if (code == CTL_DONE)
        code = put_number(out, "misfire_cap", "misfire-cap", ask->misfire_cap);
    if (code == CTL_DONE)
        code = put_duration(out, "deadline_s", "deadline", ask->deadline);
    if (code == CTL_DONE)
        code = put_request(out, ask);
    buf_put_char(out, '}');
    return code;
}

int schedule_ask_document(const struct schedule_ask *ask, struct buf *out,
    struct schedule *schedule, struct zone **zone)
{
    struct fault fault = FAULT_INIT;
    const int code = put_document(out, ask);
    *zone = NULL;
    if (code != CTL_DONE)
        return code;
    if (schedule_parse(buf_span(out), ask->tenant, schedule, &fault) != 0 ||
        schedule_open_zone(schedule, zone, &fault) != 0)
        return ctl_fail(fault.code == CODE_UNAVAILABLE ? CTL_FAILED : CTL_USAGE,
            "%s%s%s", fault.pointer, fault.pointer[0] != '\0' ? ": " : "",
            fault.detail);
    return CTL_DONE;
}
