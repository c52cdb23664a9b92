/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/producer.h"

#include <sys/resource.h>

#include "common/log.h"
#include "common/time.h"
#include "producer/actions.h"
#include "producer/cancel.h"
#include "producer/keys.h"
#include "producer/manifests.h"
#include "producer/repeat_notes.h"
#include "producer/reserve.h"
#include "producer/routes.h"
#include "producer/wait.h"
#include "producer/webhook.h"
#include "schema/migrations.h"
#include "schema/sql_producer.h"

enum {
    DRAIN_LOOK_MS = 20,
    CLOSE_WAIT_MS = 1000,
    /* Together less than EXCHANGE_LIMIT_US: one before, and our own. */
    PG_DEADLINE_MS = 3500
};
#define DRAIN_US (10 * US_PER_S)

static const struct conf_setting SETTINGS[] = {
    {"http.listen", CONF_TEXT, "127.0.0.1:8080", 0, 0,
        "Address and port to listen on; port 0 is any free one. A public one "
        "needs http.cert and http.key, or http.behind_proxy."},
    {"http.cert", CONF_PATH, "", 0, 0, "Certificate chain, PEM."},
    {"http.key", CONF_PATH, "", 0, 0, "Its private key, PEM."},
    {"http.behind_proxy", CONF_BOOL, "false", 0, 1,
        "TLS ends at a proxy in front, so a public address needs none here."},
    {"http.max_body_bytes", CONF_INT, "1048576", 1024,
        (int64_t)RECORD_MAX_BYTES, "The largest body that is read."},
    {"http.max_connections", CONF_INT, "16384", 1, 100000,
        "Open connections at most."},
    {"http.max_connections_per_address", CONF_INT, "1024", 1, 100000,
        "The same for one address; behind a proxy as many as in all."},
    {"http.idle_timeout_s", CONF_INT, "60", 1, 3600,
        "A connection without a request is closed after it."},
    {"http.body_timeout_s", CONF_INT, "30", 1, 300,
        "A request must have arrived whole by then."},
    {"webhooks.master_key_file", CONF_PATH, "", 0, 0,
        "Master keys that the secrets of webhook sources are sealed with, "
        "lines of NUMBER:BASE64; empty: no webhooks are taken."},
    {"webhooks.remembered", CONF_INT, "131072", 1, 16777216,
        "Deliveries that are remembered to tell repeats, 40 bytes each."},
};

const struct conf_setting *producer_settings(size_t *count)
{
    *count = ARRAY_LEN(SETTINGS);
    return SETTINGS;
}

/* -- open ------------------------------------------------------------------ */

static const char *text_or_null(const struct conf *conf, const char *name)
{
    const char *text = conf_text(conf, name);
    return text[0] == '\0' ? NULL : text;
}

/* Connections are descriptors; the soft limit is often 1024. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* we go on with less */
    }
}

static int check_world(const struct conf *conf, struct err *err)
{
    char topic[256];
    char webhooks[256];
    const char *const topics[] = {topic, webhooks};
    kafka_topic_name(conf, "actions", topic);
    kafka_topic_name(conf, "webhooks", webhooks);
    if ((text_or_null(conf, "http.cert") == NULL) !=
        (text_or_null(conf, "http.key") == NULL)) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "http.cert and http.key must be given together");
    }
    if (pg_check_start(conf_text(conf, "postgres"), SCHEMA_VERSION, err) != 0) {
        return -1;
    }
    const bool has_webhooks =
        text_or_null(conf, "webhooks.master_key_file") != NULL;
    return kafka_check_topics(conf, topics, has_webhooks ? 2 : 1, NULL, err);
}

static void on_db_state(void *owner, bool is_up, const struct err *err)
{
    const struct producer *producer = owner;
    if (producer->is_closing) {
        return;
    }
    if (is_up) {
        LOG(INFO, "postgres_up", NULL, "a connection is up");
    } else {
        LOG(WARN, "postgres_down", (&(struct log_fields){.err = err}),
            "what needs it is answered with 503");
    }
}

static void open_databases(struct producer *producer)
{
    const char *conninfo = conf_text(producer->conf, "postgres");
    producer->reserve_db =
        pg_open(producer->loop, &(struct pg_options){.conninfo = conninfo,
                                    .name = "actionist-producer reserve",
                                    .statements = SQL_RESERVE,
                                    .statement_count = SQL_RESERVE_COUNT,
                                    .are_plans_pinned = true,
                                    .deadline_ms = PG_DEADLINE_MS,
                                    .on_state = on_db_state,
                                    .owner = producer});
    producer->look_db =
        pg_open(producer->loop, &(struct pg_options){.conninfo = conninfo,
                                    .name = "actionist-producer look",
                                    .statements = SQL_LOOK,
                                    .statement_count = SQL_LOOK_COUNT,
                                    .are_plans_pinned = true,
                                    .deadline_ms = PG_DEADLINE_MS,
                                    .on_state = on_db_state,
                                    .owner = producer});
}

static int open_listener(struct producer *producer, struct err *err)
{
    const struct conf *conf = producer->conf;
    const struct http_options options = {
        .address = conf_text(conf, "http.listen"),
        .cert_path = text_or_null(conf, "http.cert"),
        .key_path = text_or_null(conf, "http.key"),
        .is_behind_proxy = conf_bool(conf, "http.behind_proxy"),
        .max_body_bytes = (size_t)conf_int(conf, "http.max_body_bytes"),
        .max_connections = (unsigned)conf_int(conf, "http.max_connections"),
        .max_connections_per_address =
            (unsigned)conf_int(conf, "http.max_connections_per_address"),
        .idle_timeout_s = (unsigned)conf_int(conf, "http.idle_timeout_s"),
        .body_timeout_s = (unsigned)conf_int(conf, "http.body_timeout_s"),
    };
    producer->http = http_server_open(
        producer->loop, &options, routes_on_request, producer, err);
    if (producer->http == NULL) {
        return -1;
    }
    LOG(INFO, "listening",
        (&(struct log_fields){
            .name1 = "address", .value1 = http_server_address(producer->http)}),
        "ready for requests");
    return 0;
}

int producer_open(struct producer *producer, struct loop *loop,
    const struct conf *conf, struct err *err)
{
    *producer = (struct producer){.loop = loop, .conf = conf};
    meters_init(&producer->meters);
    raise_descriptor_limit();
    if (check_world(conf, err) != 0) {
        return -1;
    }
    producer->kafka = kafka_producer_open(loop, conf, 0, err);
    if (producer->kafka == NULL) {
        return -1;
    }
    open_databases(producer);
    exchanges_open(producer);
    producer->keys = keys_open(producer);
    producer->manifests = manifests_open(producer);
    producer->reserve = reserve_open(producer, actions_on_reserved);
    producer->actions = actions_open(producer);
    producer->wait = wait_open(producer);
    producer->cancel = cancel_open(producer);
    producer->repeat_notes = producer_repeat_notes_open(producer);
    if (webhook_door_open(producer, &producer->webhooks, err) != 0) {
        return -1;
    }
    return open_listener(producer, err);
}

/* -- the end --------------------------------------------------------------- */

static void on_drain_look(void *owner)
{
    struct producer *producer = owner;
    const size_t open = http_server_open_requests(producer->http);
    if (open == 0 || now_mono_us() >= producer->drain_until_us) {
        LOG(INFO, "drained",
            (&(struct log_fields){
                .number_name = "requests", .number = (long long)open}),
            "ending");
        loop_end(producer->loop);
    }
}

void producer_drain(void *owner)
{
    struct producer *producer = owner;
    if (producer->http == NULL) {
        loop_end(producer->loop);
        return;
    }
    LOG(INFO, "draining", NULL, "no new connections");
    producer->is_draining = true;
    producer->drain_until_us = now_mono_us() + DRAIN_US;
    http_server_drain(producer->http);
    wait_drain(producer->wait);
    producer->drain_timer =
        loop_timer_new(producer->loop, on_drain_look, producer);
    loop_timer_start(producer->drain_timer, 0, DRAIN_LOOK_MS);
}

/*
 * Every request has its answer before what would answer it goes. Closing the
 * connections ends their batches, and each holder frees its exchanges; what is
 * still queued is freed last.
 */
void producer_close(struct producer *producer)
{
    producer->is_closing = true;
    if (producer->wait != NULL) {
        exchanges_answer_all(producer);
    }
    kafka_producer_close(producer->kafka, CLOSE_WAIT_MS);
    pg_close(producer->reserve_db);
    pg_close(producer->look_db);
    loop_timer_free(producer->drain_timer);
    webhook_door_close(producer->webhooks);
    cancel_close(producer->cancel);
    producer_repeat_notes_close(producer->repeat_notes);
    wait_close(producer->wait);
    reserve_close(producer->reserve);
    manifests_close(producer->manifests);
    keys_close(producer->keys);
    exchanges_close(producer);
    actions_close(producer->actions);
    http_server_close(producer->http);
}
