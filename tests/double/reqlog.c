/* SPDX-License-Identifier: Apache-2.0 */
#include "reqlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int reqlog_init(struct reqlog *log, const char *path, struct problem *problem)
{
    *log = (struct reqlog){.first_seq = 1};
    if (path != NULL) {
        log->file = fopen(path, "ae");
        if (log->file == NULL) {
            return problem_set(problem, "--log %s: %s", path, strerror(errno));
        }
    }
    log->ring =
        mem_resize(NULL, REQLOG_MAX_ENTRIES * sizeof(struct reqlog_entry));
    return 0;
}

void reqlog_fini(struct reqlog *log)
{
    reqlog_clear(log);
    free(log->ring);
    if (log->file != NULL) {
        reqlog_flush(log);
        (void)fclose(log->file); /* flushed and checked just before */
    }
}

static void note_error(struct reqlog *log)
{
    if (log->write_errors == 0) {
        (void)fprintf(stderr, "provider-double: cannot write the log: %s\n",
            strerror(errno));
    }
    log->write_errors++;
}

void reqlog_flush(struct reqlog *log)
{
    if (log->file != NULL && fflush(log->file) != 0) {
        note_error(log);
    }
}

static struct reqlog_entry *slot(const struct reqlog *log, uint64_t seq)
{
    return &log->ring[seq % REQLOG_MAX_ENTRIES];
}

static size_t entry_bytes(const struct reqlog_entry *entry)
{
    return entry->method_len + entry->path_len + entry->key_len +
           entry->head_len + entry->body_len;
}

static void drop_oldest(struct reqlog *log)
{
    struct reqlog_entry *entry = slot(log, log->first_seq);
    log->bytes -= entry_bytes(entry);
    free(entry->bytes);
    log->first_seq++;
}

void reqlog_clear(struct reqlog *log)
{
    while (log->first_seq <= log->last_seq) {
        drop_oldest(log);
    }
}

static char *put(char *at, struct http_span span)
{
    if (span.len > 0) {
        memcpy(at, span.data, span.len);
    }
    return at + span.len;
}

static void write_line(struct reqlog *log, const struct reqlog_entry *entry)
{
    struct buf line;
    buf_init(&line, (HTTP_MAX_HEAD_BYTES + HTTP_MAX_BODY_BYTES) * 3);
    reqlog_format(&line, entry);
    buf_append(&line, "\n", 1);
    if (line.is_over || fwrite(line.data, 1, line.len, log->file) != line.len) {
        note_error(log);
    }
    buf_fini(&line);
}

uint64_t reqlog_add(struct reqlog *log, const struct http_request *request,
    struct http_span key, int64_t now_us, bool is_complete)
{
    struct reqlog_entry entry = {.method_len = request->method.len,
        .path_len = request->path.len,
        .key_len = key.len,
        .head_len = request->head.len,
        .body_len = request->body.len,
        .seq = log->last_seq + 1,
        .arrival_us = now_us,
        .is_complete = is_complete};
    const size_t size = entry_bytes(&entry);
    while (log->first_seq <= log->last_seq &&
           (log->last_seq - log->first_seq + 1 >= REQLOG_MAX_ENTRIES ||
               log->bytes + size > REQLOG_MAX_BYTES)) {
        drop_oldest(log);
    }
    entry.bytes = mem_resize(NULL, size);
    char *at = put(entry.bytes, request->method);
    at = put(at, request->path);
    at = put(at, key);
    at = put(at, request->head);
    (void)put(at, request->body);
    log->last_seq++;
    log->bytes += size;
    *slot(log, entry.seq) = entry;
    if (log->file != NULL) {
        write_line(log, &entry);
    }
    return entry.seq;
}

struct reqlog_entry *reqlog_get(const struct reqlog *log, uint64_t seq)
{
    return seq >= log->first_seq && seq <= log->last_seq ? slot(log, seq)
                                                         : NULL;
}

void reqlog_answered(
    struct reqlog *log, const struct answer *answer, int64_t now_us)
{
    struct reqlog_entry *entry = reqlog_get(log, answer->seq);
    if (entry == NULL) {
        return;
    }
    entry->answered_us = now_us;
    entry->status = answer->status;
    if (answer->retry_date_us >= 0) {
        entry->retry_at_us = answer->retry_date_us;
    } else if (answer->retry_after_s >= 0 &&
               answer->retry_after_s < INT64_MAX / 1000000 - now_us / 1000000) {
        entry->retry_at_us = now_us + answer->retry_after_s * 1000000;
    }
}

struct http_span reqlog_path(const struct reqlog_entry *entry)
{
    return (struct http_span){
        entry->bytes + entry->method_len, entry->path_len};
}

struct http_span reqlog_key(const struct reqlog_entry *entry)
{
    const struct http_span path = reqlog_path(entry);
    return (struct http_span){path.data + path.len, entry->key_len};
}

void reqlog_format(struct buf *out, const struct reqlog_entry *entry)
{
    const struct http_span path = reqlog_path(entry);
    const struct http_span key = reqlog_key(entry);
    const char *head = key.data + key.len;
    buf_printf(out, "{\"seq\":%llu,\"arrival_us\":%lld,\"method\":",
        (unsigned long long)entry->seq, (long long)entry->arrival_us);
    buf_json(out, entry->bytes, entry->method_len);
    buf_text(out, ",\"path\":");
    buf_json(out, path.data, path.len);
    buf_text(out, ",\"key\":");
    buf_json(out, key.data, key.len);
    buf_printf(out,
        ",\"complete\":%s,\"status\":%d,\"answered_us\":%lld,"
        "\"retry_at_us\":%lld,\"head\":\"",
        entry->is_complete ? "true" : "false", entry->status,
        (long long)entry->answered_us, (long long)entry->retry_at_us);
    buf_base64(out, head, entry->head_len);
    buf_text(out, "\",\"body\":\"");
    buf_base64(out, head + entry->head_len, entry->body_len);
    buf_text(out, "\"}");
}
