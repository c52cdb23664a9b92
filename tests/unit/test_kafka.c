/* SPDX-License-Identifier: Apache-2.0 */
/* kafka without a broker: which setting wins, and that every record is
 * reported exactly once whatever happens to the producer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "common/kafka_private.h"
#include "common/log.h"

/* Nothing listens on the port of the TCP multiplexer. */
#define NOWHERE "127.0.0.1:1"

static const struct conf_setting settings[] = {
    {.name = "test.nothing", .type = CONF_TEXT, .fallback = ""},
};

static struct conf *new_conf(const char *name, const char *value)
{
    struct conf *conf = conf_new("test", settings, ARRAY_LEN(settings));
    struct err err = ERR_INIT;
    assert_int_equal(
        conf_set(conf, "kafka.bootstrap.servers", NOWHERE, &err), 0);
    if (name != NULL) {
        assert_int_equal(conf_set(conf, name, value, &err), 0);
    }
    return conf;
}

static void expect_setting(
    const rd_kafka_conf_t *rk, const char *name, const char *wanted)
{
    char value[128];
    size_t size = sizeof(value);
    assert_int_equal(
        rd_kafka_conf_get(rk, name, value, &size), RD_KAFKA_CONF_OK);
    assert_string_equal(value, wanted);
}

/* -- settings -------------------------------------------------------------- */

static void names_pass_through_to_the_client(void **state)
{
    (void)state;
    struct conf *conf = new_conf("kafka.socket.timeout.ms", "7000");
    struct err err = ERR_INIT;
    rd_kafka_conf_t *rk = kafka_base_conf(conf, &err);
    assert_non_null(rk);
    expect_setting(rk, "socket.timeout.ms", "7000");
    expect_setting(rk, "bootstrap.servers", NOWHERE);
    expect_setting(rk, "allow.auto.create.topics", "false");
    rd_kafka_conf_destroy(rk);
    conf_free(conf);
}

static void what_correctness_needs_cannot_be_set(void **state)
{
    (void)state;
    static const struct kafka_pair tunable[] = {
        {"linger.ms", "5"}, {"batch.size", "1000"}, {NULL, NULL}};
    static const struct kafka_pair fixed[] = {{"acks", "all"}, {NULL, NULL}};
    struct conf *conf = new_conf("kafka.acks", "0");
    struct err err = ERR_INIT;
    assert_int_equal(conf_set(conf, "kafka.linger.ms", "9", &err), 0);
    rd_kafka_conf_t *rk = kafka_role_conf(conf, tunable, fixed, &err);
    assert_non_null(rk);
    expect_setting(rk, "acks", "-1");
    expect_setting(rk, "linger.ms", "9");
    expect_setting(rk, "batch.size", "1000");
    rd_kafka_conf_destroy(rk);
    conf_free(conf);
}

static void a_bad_setting_is_named_and_not_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
    } cases[] = {
        {"kafka.no.such.setting", "sesame"},
        {"kafka.security.protocol", "sesame"},
        {"kafka.socket.timeout.ms", "sesame"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct conf *conf = new_conf(cases[i].name, cases[i].value);
        struct err err = ERR_INIT;
        assert_null(kafka_base_conf(conf, &err));
        assert_int_equal(err.class, ERR_FATAL);
        assert_non_null(strstr(err.msg, cases[i].name));
        assert_null(strstr(err.msg, "sesame"));
        conf_free(conf);
    }
}

static void topics_have_the_prefix(void **state)
{
    (void)state;
    struct conf *conf = new_conf("topics.prefix", "test.");
    char name[KAFKA_TOPIC_SIZE];
    kafka_topic_name(conf, "actions", name);
    assert_string_equal(name, "test.actions");
    conf_free(conf);
}

/* -- the producer ---------------------------------------------------------- */

struct reports {
    struct kafka_producer *producer;
    int count;
    int delivered;
    bool closes;
};

static void on_report(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct reports *reports = arg;
    (void)partition;
    assert_int_equal(offset, -1);
    assert_non_null(err);
    reports->count++;
    reports->delivered += delivery == KAFKA_DELIVERED ? 1 : 0;
    if (reports->closes) {
        kafka_producer_close(reports->producer, 0);
    }
}

static int produce(struct kafka_producer *producer, size_t size,
    struct reports *reports, struct err *err)
{
    char *value = mem_zalloc(1, size);
    const struct kafka_header headers[] = {
        {"one", SPAN_LIT("1")}, {"null", {NULL, 0}}};
    const int rc = kafka_produce(producer, "nowhere", -1, SPAN_LIT("key"),
        (struct span){.ptr = value, .len = size}, headers, ARRAY_LEN(headers),
        on_report, reports, err);
    free(value);
    return rc;
}

static void closing_reports_every_record_once(void **state)
{
    (void)state;
    struct loop loop;
    loop_init(&loop, NULL, NULL);
    struct conf *conf = new_conf(NULL, NULL);
    struct err err = ERR_INIT;
    struct kafka_producer *producer = kafka_producer_open(&loop, conf, 0, &err);
    assert_non_null(producer);
    struct reports reports = {.producer = producer, .closes = true};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(produce(producer, 10, &reports, &err), 0);
    }
    assert_int_equal(kafka_producer_queued(producer), 100);
    assert_false(kafka_producer_is_up(producer));
    assert_int_equal(reports.count, 0);
    kafka_producer_close(producer, 0);
    assert_int_equal(reports.count, 100);
    assert_int_equal(reports.delivered, 0);
    conf_free(conf);
    loop_fini(&loop);
}

static void a_record_that_is_too_large_is_refused(void **state)
{
    (void)state;
    struct loop loop;
    loop_init(&loop, NULL, NULL);
    struct conf *conf = new_conf(NULL, NULL);
    struct err err = ERR_INIT;
    struct kafka_producer *producer = kafka_producer_open(&loop, conf, 0, &err);
    struct reports reports = {.producer = producer};
    assert_int_equal(produce(producer, 3000000, &reports, &err), -1);
    assert_int_equal(err.class, ERR_PERMANENT);
    assert_int_equal(kafka_producer_queued(producer), 0);
    kafka_producer_close(producer, 0);
    assert_int_equal(reports.count, 0);
    conf_free(conf);
    loop_fini(&loop);
}

static void a_full_queue_is_transient(void **state)
{
    (void)state;
    struct loop loop;
    loop_init(&loop, NULL, NULL);
    struct conf *conf = new_conf("kafka.queue.buffering.max.messages", "10");
    struct err err = ERR_INIT;
    struct kafka_producer *producer = kafka_producer_open(&loop, conf, 0, &err);
    struct reports reports = {.producer = producer};
    int taken = 0;
    while (produce(producer, 10, &reports, &err) == 0) {
        taken++;
    }
    assert_int_equal(taken, 10);
    assert_int_equal(err.class, ERR_TRANSIENT);
    assert_string_equal(err.code, "KAFKA_QUEUE_FULL");
    kafka_producer_close(producer, 0);
    assert_int_equal(reports.count, 10);
    conf_free(conf);
    loop_fini(&loop);
}

/* -- the consumer ---------------------------------------------------------- */

static void a_consumer_closes_without_brokers(void **state)
{
    (void)state;
    static const struct kafka_consumer_events events = {.on_record = NULL};
    static const char *const topics[] = {"nowhere"};
    const struct kafka_consumer_options options = {
        .group = "test", .topics = topics, .topic_count = 1, .events = &events};
    struct loop loop;
    loop_init(&loop, NULL, NULL);
    struct conf *conf = new_conf(NULL, NULL);
    struct err err = ERR_INIT;
    struct kafka_consumer *consumer =
        kafka_consumer_open(&loop, conf, &options, &err);
    assert_non_null(consumer);
    assert_int_equal(kafka_consumer_generation(consumer), 0);
    kafka_consumer_pause(consumer);
    assert_true(kafka_consumer_is_paused(consumer));
    kafka_consumer_resume(consumer);
    assert_false(kafka_consumer_is_paused(consumer));
    kafka_consumer_store(consumer, "nowhere", 0, 1, 7); /* not ours */
    kafka_consumer_close(consumer);
    conf_free(conf);
    loop_fini(&loop);
}

int main(void)
{
    log_init("test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_pass_through_to_the_client),
        cmocka_unit_test(what_correctness_needs_cannot_be_set),
        cmocka_unit_test(a_bad_setting_is_named_and_not_quoted),
        cmocka_unit_test(topics_have_the_prefix),
        cmocka_unit_test(closing_reports_every_record_once),
        cmocka_unit_test(a_record_that_is_too_large_is_refused),
        cmocka_unit_test(a_full_queue_is_transient),
        cmocka_unit_test(a_consumer_closes_without_brokers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
