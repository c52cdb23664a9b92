/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish: action requests straight onto the actions topic, from arguments, a
 * file or NDJSON on standard input. Each line is checked as a worker would
 * before it is sent; exit 0 means that every record is acknowledged by all
 * in-sync replicas.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/kafka.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/file.h"
#include "schema/record.h"

#define PROGRESS_AFTER_US (2 * US_PER_S)
#define PROGRESS_EVERY_US US_PER_S
#define MAX_QUEUED 10000
#define FLUSH_WAIT_MS 30000
#define LINES_A_TURN 256

struct publish {
    struct ctl *ctl;
    struct loop loop;
    struct loop_timer *timer;
    struct kafka_producer *producer;
    char topic[256];
    FILE *input;
    struct buf line; /* the one being sent */
    bool has_line;   /* it waits for room in the queue */
    int64_t started_us;
    int64_t shown_us;
    uint64_t line_count;
    uint64_t delivered_count;
    uint64_t failed_count;
    bool is_shown;
    bool is_at_end;
};

static void show_progress(struct publish *publish, bool is_last)
{
    int64_t now_us = now_mono_us();
    int64_t age_us = now_us - publish->started_us;
    bool is_due = age_us > PROGRESS_AFTER_US &&
                  now_us - publish->shown_us > PROGRESS_EVERY_US;
    if (!is_due && !(is_last && publish->is_shown))
        return;
    fprintf(stderr, "\r%llu published, %llu failed, %lld/s ",
        (unsigned long long)publish->delivered_count,
        (unsigned long long)publish->failed_count,
        (long long)((int64_t)publish->delivered_count * US_PER_S /
                    (age_us > 0 ? age_us : 1)));
    if (is_last)
        fputc('\n', stderr);
    publish->is_shown = true;
    publish->shown_us = now_us;
}

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct publish *publish = arg;
    (void)partition;
    (void)offset;
    if (delivery == KAFKA_DELIVERED) {
        publish->delivered_count++;
        return;
    }
    publish->failed_count++;
    if (publish->failed_count == 1)
        ctl_fail(CTL_FAILED, "not acknowledged: %s", err->msg);
}

static void print_id(const struct publish *publish, const struct record *record)
{
    char id[UUID_TEXT_SIZE];
    struct buf out;
    uuid_format(record->id, id);
    if (!publish->ctl->is_json) {
        puts(id);
        return;
    }
    buf_init(&out, 4096);
    buf_put_char(&out, '{');
    json_put_name(&out, "id");
    json_put_cstring(&out, id);
    json_put_name(&out, "tenant");
    json_put_cstring(&out, record->tenant);
    json_put_name(&out, "idempotency_key");
    json_put_cstring(&out, record->key);
    buf_put_char(&out, '}');
    puts(buf_str(&out));
    buf_fini(&out);
}

/* 0 sent, -1 refused (said so), 1 queue full: try again later. */
static int send_line(struct publish *publish, struct span line)
{
    struct record record;
    struct fault fault = FAULT_INIT;
    struct err err = ERR_INIT;
    struct json_value root;
    struct json_value tenant;
    struct buf name;
    buf_init(&name, 256);
    /* The record's key has to be the tenant, which the line names. */
    if (json_parse(line, RECORD_PAYLOAD_DEPTH + 1, &root, &err) == 0 &&
        json_find(root, "tenant", &tenant) && tenant.type == JSON_STRING)
        json_decode(tenant, &name);
    const struct record_source source = {
        .door = RECORD_DOOR_KAFKA,
        .tenant = buf_span(&name),
        .has_tenant = name.len > 0,
        .topic = publish->topic,
    };
    int rc = 0;
    if (record_parse(line, &source, &record, &fault) != RECORD_OK) {
        rc = -1;
        ctl_fail(CTL_FAILED, "line %llu: %s: %s%s%s",
            (unsigned long long)publish->line_count, code_name(fault.code),
            fault.pointer, fault.pointer[0] != '\0' ? ": " : "", fault.detail);
    } else if (kafka_produce(publish->producer, publish->topic, -1,
                   span_of(record.tenant), line, NULL, 0, on_delivered, publish,
                   &err) != 0) {
        rc = err.class == ERR_TRANSIENT ? 1 : -1;
        if (rc < 0)
            ctl_fail(CTL_FAILED, "line %llu: %s",
                (unsigned long long)publish->line_count, err.msg);
    } else if (record.key[0] != '\0') {
        print_id(publish, &record);
    }
    buf_fini(&name);
    return rc;
}

/* Reads the next line that is not empty; false at the end. A line that is too
 * long leaves the buffer overflowed. */
static bool read_line(struct publish *publish)
{
    int c;
    do {
        buf_clear(&publish->line);
        while ((c = getc(publish->input)) != EOF && c != '\n')
            buf_put_char(&publish->line, (char)c);
        if (c == EOF && publish->line.len == 0)
            return false;
        publish->line_count++;
        if (publish->line.len > 0 &&
            publish->line.data[publish->line.len - 1] == '\r')
            publish->line.data[--publish->line.len] = '\0';
    } while (publish->line.len == 0);
    return true;
}

/* One line more. False when the queue has no room for it. */
static bool take_line(struct publish *publish)
{
    if (!publish->has_line && !read_line(publish)) {
        publish->is_at_end = true;
        return true;
    }
    publish->has_line = false;
    if (publish->line.is_overflowed) {
        publish->failed_count++;
        ctl_fail(CTL_FAILED, "line %llu: larger than %zu bytes",
            (unsigned long long)publish->line_count, publish->line.max);
        return true;
    }
    int rc = send_line(publish, buf_span(&publish->line));
    if (rc < 0)
        publish->failed_count++;
    publish->has_line = rc > 0;
    return rc <= 0;
}

/* Reads as many lines as fit; the timer calls again. */
static void on_timer(void *owner)
{
    struct publish *publish = owner;
    for (int i = 0; i < LINES_A_TURN && !publish->is_at_end; i++)
        if (kafka_producer_queued(publish->producer) >= MAX_QUEUED ||
            !take_line(publish))
            break;
    show_progress(publish, false);
    if (publish->is_at_end && kafka_producer_queued(publish->producer) == 0)
        loop_end(&publish->loop);
}

/* Ctrl-C: what was read is still delivered and counted. */
static void on_stop(void *owner)
{
    struct publish *publish = owner;
    publish->is_at_end = true;
}

static int publish_all(struct ctl *ctl, FILE *input)
{
    struct err err = ERR_INIT;
    struct publish publish = {.ctl = ctl, .input = input};
    publish.started_us = now_mono_us();
    loop_init(&publish.loop, on_stop, &publish);
    kafka_topic_name(ctl->conf, "actions", publish.topic);
    const char *topics[] = {publish.topic};
    if (kafka_check_topics(ctl->conf, topics, 1, NULL, &err) == 0)
        publish.producer =
            kafka_producer_open(&publish.loop, ctl->conf, 5, &err);
    if (publish.producer == NULL) {
        bool is_passing = strcmp(err.code, "KAFKA_UNREACHABLE") == 0;
        loop_fini(&publish.loop);
        return ctl_fail(is_passing ? CTL_TRY_LATER : CTL_FAILED, "%s", err.msg);
    }
    buf_init(&publish.line, RECORD_MAX_BYTES);
    publish.timer = loop_timer_new(&publish.loop, on_timer, &publish);
    loop_timer_start(publish.timer, 0, 1);
    loop_run(&publish.loop);
    loop_timer_free(publish.timer);
    show_progress(&publish, true);
    kafka_producer_close(publish.producer, FLUSH_WAIT_MS);
    loop_fini(&publish.loop);
    buf_fini(&publish.line);
    if (publish.failed_count > 0)
        return ctl_fail(CTL_FAILED, "%llu of %llu lines were not published",
            (unsigned long long)publish.failed_count,
            (unsigned long long)publish.line_count);
    return CTL_DONE;
}

/* One request as JSON from arguments. */
struct arguments {
    const char *tenant;
    const char *connector;
    const char *action;
    const char *key;
    const char *payload;
    const char *not_before;
    const char *deadline;
};

static int put_payload(struct buf *out, const char *text)
{
    struct err err = ERR_INIT;
    json_put_name(out, "payload");
    if (text[0] != '@') {
        buf_put_str(out, text);
        return CTL_DONE;
    }
    if (file_read(text + 1, out, &err) != 0)
        return ctl_fail(CTL_FAILED, "%s", err.msg);
    /* One line: white space outside strings means nothing in JSON, and inside
     * strings a raw newline is refused by the check that follows. */
    for (size_t i = 0; i < out->len; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
    return CTL_DONE;
}

static int put_request(struct buf *out, const struct arguments *arguments)
{
    const struct {
        const char *name;
        const char *value;
    } members[] = {
        {"tenant", arguments->tenant},
        {"connector", arguments->connector},
        {"action", arguments->action},
        {"idempotency_key", arguments->key},
        {"not_before", arguments->not_before},
        {"deadline", arguments->deadline},
    };
    buf_put_str(out, "{\"spec\":\"actionist/1\"");
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        if (members[i].value == NULL)
            continue;
        json_put_name(out, members[i].name);
        json_put_cstring(out, members[i].value);
    }
    int code = CTL_DONE;
    if (arguments->payload != NULL)
        code = put_payload(out, arguments->payload);
    buf_put_char(out, '}');
    return code;
}

static int publish_one(struct ctl *ctl, const struct arguments *arguments)
{
    struct buf line;
    buf_init(&line, RECORD_MAX_BYTES);
    int code = put_request(&line, arguments);
    if (code == CTL_DONE && line.is_overflowed)
        code = ctl_fail(CTL_USAGE, "the request is larger than %zu bytes",
            RECORD_MAX_BYTES);
    if (code == CTL_DONE) {
        FILE *input = fmemopen(line.data, line.len, "r");
        code = input != NULL ? publish_all(ctl, input)
                             : ctl_fail(CTL_FAILED, "out of memory");
        if (input != NULL)
            fclose(input);
    }
    buf_fini(&line);
    return code;
}

static int publish_file(struct ctl *ctl, const char *path)
{
    if (strcmp(path, "-") == 0)
        return publish_all(ctl, stdin);
    FILE *input = fopen(path, "rb");
    if (input == NULL)
        return ctl_fail(CTL_FAILED, "%s cannot be read", path);
    int code = publish_all(ctl, input);
    fclose(input);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct arguments arguments = {0};
    const struct ctl_option options[] = {
        {"tenant", "T", "whose action it is", &arguments.tenant, NULL},
        {"connector", "C", "the connector", &arguments.connector, NULL},
        {"action", "A", "the action", &arguments.action, NULL},
        {"key", "K", "the idempotency key", &arguments.key, NULL},
        {"payload", "JSON", "the payload, or @FILE", &arguments.payload, NULL},
        {"not-before", "TIME", "RFC 3339; not earlier", &arguments.not_before,
            NULL},
        {"deadline", "TIME", "RFC 3339; not later", &arguments.deadline, NULL},
    };
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_PUBLISH, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    bool has_arguments = arguments.tenant != NULL ||
                         arguments.connector != NULL ||
                         arguments.action != NULL;
    if (rest[0] != NULL && has_arguments)
        return ctl_fail(CTL_USAGE, "give a file or the arguments, not both");
    if (has_arguments)
        return publish_one(ctl, &arguments);
    if (rest[0] != NULL)
        return publish_file(ctl, rest[0]);
    if (isatty(STDIN_FILENO) == 1)
        return ctl_fail(CTL_USAGE,
            "nothing to publish: give --tenant, --connector and --action, a "
            "file, or NDJSON on standard input");
    return publish_file(ctl, "-");
}

const struct command COMMAND_PUBLISH = {
    .name = "publish",
    .arguments = "[FILE]",
    .summary = "Publish action requests to Kafka",
    .details =
        "From arguments, from a file of one request a line (NDJSON), or from\n"
        "standard input. Prints the id of each request that has a key.",
    .run = run,
};
