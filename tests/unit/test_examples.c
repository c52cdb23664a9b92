/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of schema/json/examples are what the code takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <stdio.h>

#include "schema/manifest.h"
#include "schema/mapping.h"
#include "schema/schedule.h"

#define EXAMPLES "schema/json/examples/"

typedef void (*check_fn)(const char *path, struct span text);

static void read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
        return;
    }
    char block[4096];
    size_t got = fread(block, 1, sizeof(block), file);
    while (got > 0) {
        buf_put(out, block, got);
        got = fread(block, 1, sizeof(block), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void each_file(const char *pattern, check_fn check)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) {
        fail_msg("no %s (run from the root of the tree)", pattern);
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct buf text;
        buf_init(&text, MANIFEST_MAX_BYTES);
        read_file(found.gl_pathv[i], &text);
        check(found.gl_pathv[i], buf_span(&text));
        buf_fini(&text);
    }
    globfree(&found);
}

static void check_manifest(const char *path, struct span text)
{
    struct fault fault = FAULT_INIT;
    struct manifest *manifest = manifest_load(text, &fault);
    if (manifest == NULL) {
        fail_msg("%s: %s %s", path, fault.pointer, fault.detail);
    }
    manifest_free(manifest);
}

static void check_record(
    const char *path, struct span text, enum record_door door)
{
    const struct record_source source = {.door = door,
        .tenant = SPAN_LIT("acme"),
        .has_tenant = true,
        .topic = "t"};
    struct fault fault = FAULT_INIT;
    struct record record;
    if (record_parse(text, &source, &record, &fault) != RECORD_OK) {
        fail_msg("%s: %s %s", path, fault.pointer, fault.detail);
    }
}

static void check_kafka(const char *path, struct span text)
{
    check_record(path, text, RECORD_DOOR_KAFKA);
}

static void check_http(const char *path, struct span text)
{
    check_record(path, text, RECORD_DOOR_HTTP);
}

static void check_mapping(const char *path, struct span text)
{
    struct fault fault = FAULT_INIT;
    struct mapping *mapping = mapping_load(text, &fault);
    if (mapping == NULL) {
        fail_msg("%s: %s %s", path, fault.pointer, fault.detail);
    }
    mapping_free(mapping);
}

static void check_webhook(const char *path, struct span text)
{
    struct fault fault = FAULT_INIT;
    struct webhook_capture capture;
    if (webhook_capture_parse(&capture, text, SPAN_LIT("acme"), &fault) != 0) {
        fail_msg("%s: %s %s", path, fault.pointer, fault.detail);
    }
    webhook_capture_fini(&capture);
}

static void check_schedule(const char *path, struct span text)
{
    struct fault fault = FAULT_INIT;
    struct schedule schedule;
    if (schedule_parse(text, "acme", &schedule, &fault) != 0) {
        fail_msg("%s: %s %s", path, fault.pointer, fault.detail);
    }
}

static void examples_are_accepted(void **state)
{
    (void)state;
    each_file(EXAMPLES "manifest/*.json", check_manifest);
    each_file("tests/demo/connector.json", check_manifest);
    each_file(EXAMPLES "request/*.json", check_kafka);
    each_file(EXAMPLES "http/*.json", check_http);
    each_file(EXAMPLES "mapping/*.json", check_mapping);
    each_file(EXAMPLES "webhook/*.json", check_webhook);
    each_file(EXAMPLES "schedule/*.json", check_schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
