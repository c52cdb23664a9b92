/* SPDX-License-Identifier: Apache-2.0 */
/* Writing half of json.h. */
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/time.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

static bool needs_escape(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

static void put_escape(struct buf *out, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    static const char short_forms[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c == '"' || c == '\\') {
        const char pair[2] = {'\\', (char)c};
        buf_put(out, pair, sizeof(pair));
    } else if (short_forms[c & 0x1FU] != '\0') {
        const char pair[2] = {'\\', short_forms[c & 0x1FU]};
        buf_put(out, pair, sizeof(pair));
    } else {
        const char six[6] = {
            '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15U]};
        buf_put(out, six, sizeof(six));
    }
}

void json_put_char(struct buf *out, const char *bytes, size_t len)
{
    if (len == 1 && needs_escape((unsigned char)*bytes)) {
        put_escape(out, (unsigned char)*bytes);
    } else {
        buf_put(out, bytes, len);
    }
}

void json_put_string(struct buf *out, struct span text)
{
    buf_put_char(out, '"');
    const char *at = text.ptr;
    const char *end = text.len == 0 ? at : at + text.len;
    const char *start = at; /* of the run that passes unchanged */
    while (at < end) {
        const size_t len = utf8_sequence(at, end);
        if (len != 0 && !needs_escape((unsigned char)*at)) {
            at += len;
            continue;
        }
        buf_put(out, start, (size_t)(at - start));
        if (len == 0) {
            buf_put_str(out, REPLACEMENT);
        } else {
            put_escape(out, (unsigned char)*at);
        }
        at++;
        start = at;
    }
    buf_put(out, start, (size_t)(at - start));
    buf_put_char(out, '"');
}

void json_put_cstring(struct buf *out, const char *text)
{
    json_put_string(out, span_of(text));
}

void json_put_name(struct buf *out, const char *name)
{
    const char last = out->len == 0 ? '{' : out->data[out->len - 1];
    if (last != '{' && last != '[') {
        buf_put_char(out, ',');
    }
    json_put_cstring(out, name);
    buf_put_char(out, ':');
}

void json_put_time(struct buf *out, int64_t wall_us)
{
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(wall_us, text);
    buf_put_char(out, '"');
    buf_put_str(out, text);
    buf_put_char(out, '"');
}
