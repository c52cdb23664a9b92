/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/zone_internal.h"

#define DEFAULT_DIR "/usr/share/zoneinfo"
enum {
    HEADER_SIZE = 44,
    COUNTS_AT = 20, /* six counts of four bytes */
    MAX_TIMES = 4096,
    MAX_TYPES = 256,
    MAX_OFFSET_S = 26 * 3600,
    PATH_SIZE = 512
};

struct zone {
    int64_t *times_s;   /* transitions, ascending */
    int32_t *offsets_s; /* from each of them on */
    size_t count;
    int32_t first_offset_s; /* before the first */
    bool has_rule;          /* after the last */
    struct zone_rule rule;
};

/* -- names ----------------------------------------------------------------- */

static bool is_word_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
}

bool zone_name_is_valid(struct span name)
{
    static const char *const refused[] = {
        "right/", "posix/", "localtime", "posixrules"};
    size_t slashes = 0;
    if (name.len == 0 || name.len > ZONE_MAX_NAME) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        const size_t len = strlen(refused[i]);
        if (name.len >= len && memcmp(name.ptr, refused[i], len) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < name.len; i++) {
        const bool is_slash = name.ptr[i] == '/';
        const bool is_at_edge =
            i == 0 || i + 1 == name.len || name.ptr[i - 1] == '/';
        slashes += is_slash ? 1 : 0;
        if (is_slash ? is_at_edge : !is_word_char(name.ptr[i])) {
            return false;
        }
    }
    return slashes <= 2;
}

/* -- a file ---------------------------------------------------------------- */

/* Big-endian, two's complement. */
static int64_t read_int(const char *bytes, size_t size)
{
    uint64_t value = ((unsigned char)bytes[0] & 0x80U) != 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < size; i++) {
        value = (value << 8U) | (unsigned char)bytes[i];
    }
    return (int64_t)value;
}

struct counts {
    size_t utc;
    size_t std;
    size_t leap;
    size_t time;
    size_t type;
    size_t name;
};

/* False: not a header, or larger than anything real. */
static bool read_counts(struct span bytes, struct counts *counts)
{
    size_t *const fields[] = {&counts->utc, &counts->std, &counts->leap,
        &counts->time, &counts->type, &counts->name};
    if (bytes.len < HEADER_SIZE || memcmp(bytes.ptr, "TZif", 4) != 0 ||
        bytes.ptr[4] < '2') {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const int64_t count = read_int(bytes.ptr + COUNTS_AT + 4 * i, 4);
        if (count < 0 || count > MAX_TIMES) {
            return false;
        }
        *fields[i] = (size_t)count;
    }
    return counts->type > 0 && counts->type <= MAX_TYPES;
}

static size_t body_size(const struct counts *counts, size_t time_size)
{
    return counts->time * (time_size + 1) + counts->type * 6 + counts->name +
           counts->leap * (time_size + 4) + counts->std + counts->utc;
}

static bool take_offset(const char *types, size_t type, int32_t *offset_s)
{
    const int64_t offset = read_int(types + type * 6, 4);
    *offset_s = (int32_t)offset;
    return offset > -MAX_OFFSET_S && offset < MAX_OFFSET_S;
}

static int64_t clamp(int64_t at_s)
{
    return at_s < -ZONE_NEVER_S  ? -ZONE_NEVER_S
           : at_s > ZONE_NEVER_S ? ZONE_NEVER_S
                                 : at_s;
}

/* The second block, with times of eight bytes. */
static bool read_block(
    struct zone *zone, const char *at, const struct counts *counts)
{
    const char *indexes = at + counts->time * 8;
    const char *types = indexes + counts->time;
    zone->count = counts->time;
    zone->times_s = mem_zalloc(counts->time + 1, sizeof(*zone->times_s));
    zone->offsets_s = mem_zalloc(counts->time + 1, sizeof(*zone->offsets_s));
    if (!take_offset(types, 0, &zone->first_offset_s)) {
        return false;
    }
    for (size_t i = 0; i < counts->time; i++) {
        const size_t type = (unsigned char)indexes[i];
        zone->times_s[i] = clamp(read_int(at + i * 8, 8));
        if (type >= counts->type ||
            !take_offset(types, type, &zone->offsets_s[i]) ||
            (i > 0 && zone->times_s[i] <= zone->times_s[i - 1])) {
            return false;
        }
    }
    return true;
}

static bool read_footer(struct zone *zone, struct span footer)
{
    if (footer.len < 2 || footer.ptr[0] != '\n') {
        return false;
    }
    const char *text = footer.ptr + 1;
    const char *end = memchr(text, '\n', footer.len - 1);
    if (end == NULL) {
        return false;
    }
    zone->has_rule = end > text;
    return !zone->has_rule ||
           zone_rule_parse(
               (struct span){text, (size_t)(end - text)}, &zone->rule);
}

static bool read_all(struct zone *zone, struct span bytes)
{
    struct counts counts;
    if (!read_counts(bytes, &counts)) {
        return false;
    }
    const size_t skip = HEADER_SIZE + body_size(&counts, 4);
    if (bytes.len < skip) {
        return false;
    }
    bytes.ptr += skip;
    bytes.len -= skip;
    if (!read_counts(bytes, &counts) || counts.leap > 0) {
        return false;
    }
    const size_t size = HEADER_SIZE + body_size(&counts, 8);
    return bytes.len >= size &&
           read_block(zone, bytes.ptr + HEADER_SIZE, &counts) &&
           read_footer(zone, (struct span){bytes.ptr + size, bytes.len - size});
}

struct zone *zone_parse(struct span bytes, struct err *err)
{
    struct zone *zone = mem_zalloc(1, sizeof(*zone));
    if (!read_all(zone, bytes)) {
        zone_free(zone);
        (void)err_set(err, ERR_PERMANENT, "BAD_ZONE_FILE",
            "not a time zone file of version 2 or later (RFC 8536)");
        return NULL;
    }
    return zone;
}

void zone_free(struct zone *zone)
{
    if (zone != NULL) {
        free(zone->times_s);
        free(zone->offsets_s);
        free(zone);
    }
}

/* -- opening --------------------------------------------------------------- */

static int read_file(const char *path, struct buf *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        char block[4096];
        got = read(fd, block, sizeof(block));
        if (got > 0) {
            buf_put(out, block, (size_t)got);
        }
    }
    const int saved = errno;
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    errno = saved;
    return got < 0 ? -1 : 0;
}

static int complain(const char *dir, const char *name, struct err *err)
{
    const bool is_missing =
        errno == ENOENT || errno == ENOTDIR || errno == EISDIR;
    if (!is_missing || access(dir, R_OK) != 0) {
        return err_set_errno(err, ERR_FATAL, "NO_ZONE_DATA",
            "no time zone data in %s (package tzdata)", dir);
    }
    return err_set(err, ERR_PERMANENT, "UNKNOWN_ZONE",
        "'%s' is no time zone of this machine's tzdata", name);
}

struct zone *zone_open(const char *name, struct err *err)
{
    char path[PATH_SIZE];
    struct buf bytes;
    struct zone *zone = NULL;
    const char *dir = getenv("TZDIR");
    dir = dir == NULL || dir[0] == '\0' ? DEFAULT_DIR : dir;
    if (!zone_name_is_valid(span_of(name))) {
        (void)err_set(err, ERR_PERMANENT, "UNKNOWN_ZONE",
            "'%.*s' is no IANA time zone, as Europe/Berlin is", ZONE_MAX_NAME,
            name);
        return NULL;
    }
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >=
        sizeof(path)) {
        (void)err_set(err, ERR_FATAL, "NO_ZONE_DATA", "TZDIR is too long");
        return NULL;
    }
    buf_init(&bytes, ZONE_MAX_BYTES);
    if (read_file(path, &bytes) != 0) {
        (void)complain(dir, name, err);
    } else {
        zone = zone_parse(buf_span(&bytes), err);
        if (zone == NULL) {
            (void)err_wrap(err, "%s", name);
        }
    }
    buf_fini(&bytes);
    return zone;
}

/* -- looking --------------------------------------------------------------- */

/* How many transitions are not after an instant. */
static size_t count_until(const struct zone *zone, int64_t at_s)
{
    size_t low = 0;
    size_t high = zone->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (zone->times_s[middle] <= at_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct zone_span zone_find(const struct zone *zone, int64_t at_s)
{
    const size_t passed = count_until(zone, at_s);
    struct zone_span span = {
        .start_s = passed == 0 ? -ZONE_NEVER_S : zone->times_s[passed - 1],
        .end_s = passed < zone->count ? zone->times_s[passed] : ZONE_NEVER_S,
        .offset_s =
            passed == 0 ? zone->first_offset_s : zone->offsets_s[passed - 1],
    };
    if (passed < zone->count || !zone->has_rule) {
        return span;
    }
    /* Past the list: what the file says holds until the rule changes it. */
    const struct zone_span ruled = zone_rule_find(&zone->rule, at_s);
    span.end_s = ruled.end_s;
    if (passed == 0 || ruled.start_s > span.start_s) {
        span.start_s = ruled.start_s;
        span.offset_s = ruled.offset_s;
    }
    return span;
}
