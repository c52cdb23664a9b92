/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress rules against every vector of ssrf_urls.json, and the settings
 * and transition forms that the vectors do not have. Names are answered by the
 * vector's own records.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <cmocka.h>

#include "worker/run/egress.h"

#define FIXTURE "tests/cases/fixtures/ssrf_urls.json"

static const struct egress_private NOTHING = {.count = 0};

static cJSON *load_fixture(void)
{
    FILE *file = fopen(FIXTURE, "rb");
    assert_non_null(file);
    struct buf text;
    buf_init(&text, 1 << 20);
    char *room = buf_reserve(&text, 1 << 18);
    assert_non_null(room);
    text.len += fread(room, 1, 1 << 18, file);
    assert_true(feof(file) != 0);
    (void)fclose(file);
    cJSON *root = cJSON_ParseWithLength(text.data, text.len);
    assert_non_null(root);
    buf_fini(&text);
    return root;
}

static bool is_address_allowed(const char *text, uint16_t port)
{
    struct egress_address address = {
        .family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET};
    assert_int_equal(inet_pton(address.family, text, address.bytes), 1);
    return egress_is_allowed(&NOTHING, &address, port);
}

/* The first answer of the name; one bad address refuses it. */
static bool is_name_allowed(
    const cJSON *dns, const struct egress_target *target)
{
    const cJSON *answer = cJSON_GetObjectItemCaseSensitive(dns, target->host);
    if (answer == NULL) {
        return false;
    }
    if (cJSON_IsArray(cJSON_GetArrayItem(answer, 0))) {
        answer = cJSON_GetArrayItem(answer, 0);
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, answer)
    {
        if (!is_address_allowed(item->valuestring, target->port)) {
            return false;
        }
    }
    return cJSON_GetArraySize(answer) > 0;
}

static bool is_listed(
    const cJSON *hosts, const cJSON *ports, const struct egress_target *target)
{
    const cJSON *host = NULL;
    cJSON_ArrayForEach(host, hosts)
    {
        const cJSON *port = NULL;
        cJSON_ArrayForEach(port, ports)
        {
            const uint16_t number = (uint16_t)port->valueint;
            if (strcmp(host->valuestring, "*") == 0
                    ? number == target->port
                    : egress_is_listed(
                          span_of(host->valuestring), number, target)) {
                return true;
            }
        }
    }
    return false;
}

static bool judge(const char *url, const cJSON *vector, const cJSON *meta)
{
    struct egress_target target;
    struct err err = ERR_INIT;
    if (egress_parse_url(span_of(url), &target, &err) != 0) {
        assert_int_equal(err.class, ERR_PERMANENT);
        assert_string_equal(err.code, "EGRESS_DENIED");
        return false;
    }
    const cJSON *ports =
        cJSON_GetObjectItem(cJSON_GetObjectItem(meta, "policy"), "ports");
    if (!is_listed(
            cJSON_GetObjectItem(vector, "allow_hosts"), ports, &target)) {
        return false;
    }
    if (target.is_literal) {
        return egress_is_allowed(&NOTHING, &target.address, target.port);
    }
    const cJSON *own = cJSON_GetObjectItem(vector, "dns");
    if (own == NULL) {
        own = cJSON_GetObjectItem(vector, "dns_sequence");
    }
    return is_name_allowed(
        own != NULL ? own : cJSON_GetObjectItem(meta, "dns_default"), &target);
}

static bool is_verdict_fine(const cJSON *vector, const char *verdict)
{
    if (strcmp(cJSON_GetObjectItem(vector, "expected")->valuestring, verdict) ==
        0) {
        return true;
    }
    const cJSON *other = NULL;
    cJSON_ArrayForEach(other, cJSON_GetObjectItem(vector, "also_ok"))
    {
        if (strcmp(other->valuestring, verdict) == 0) {
            return true;
        }
    }
    return false;
}

/* Redirects are never followed, so that the second hop of a vector does not
 * happen; judged here is what the hop would get. */
static void every_vector_gets_its_verdict(void **state)
{
    (void)state;
    cJSON *root = load_fixture();
    const cJSON *meta = cJSON_GetObjectItem(root, "meta");
    const cJSON *vector = NULL;
    int wrong = 0;
    int count = 0;
    cJSON_ArrayForEach(vector, cJSON_GetObjectItem(root, "vectors"))
    {
        const cJSON *hop =
            cJSON_GetArrayItem(cJSON_GetObjectItem(vector, "redirects_to"), 0);
        const char *url = hop != NULL
                              ? hop->valuestring
                              : cJSON_GetObjectItem(vector, "url")->valuestring;
        const char *verdict = judge(url, vector, meta) ? "allow" : "deny";
        count++;
        if (!is_verdict_fine(vector, verdict)) {
            print_error("%s: %s\n",
                cJSON_GetObjectItem(vector, "id")->valuestring, verdict);
            wrong++;
        }
    }
    cJSON_Delete(root);
    assert_true(count > 100);
    assert_int_equal(wrong, 0);
}

static void transition_forms_and_edges_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool is_allowed;
    } rows[] = {
        {"8.8.8.8", true},
        {"2606:4700::1111", true},
        {"168.63.129.15", true},
        {"168.63.129.16", false},
        {"192.0.1.0", true},
        {"::ffff:8.8.8.8", false},
        {"64:ff9b:1::a00:1", false},
        {"2001:0:4136:e378:8000:63bf:3fff:fdd2", false},
        {"2001:1ff:ffff::", false},
        {"2001:200::1", true},
        {"2001:db9::1", true},
        {"2003::1", true},
        {"3fff:fff::1", false},
        {"3fff:1000::1", true},
        {"4000::1", false},
        {"5f00::1", false},
        {"fd20:ce::254", false},
        {"::8.8.8.8", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (is_address_allowed(rows[i].address, 443) != rows[i].is_allowed) {
            fail_msg("%s", rows[i].address);
        }
    }
}

static void odd_hosts_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "http://0/",
        "http://1.2.3/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://08.0.0.1/",
        "http://a.0x7f/",
        "http://%31%32%37.0.0.1/",
        "http://evil.com\\@good.com/",
        "http://a..b/",
        "http://.a/",
        "http://a:65536/",
        "http://a:99999999999999/",
        "http://[::1]x/",
        "http://[1.2.3.4]/",
        "http://[fe80::1%eth0]/",
        "http://a,b/",
    };
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        struct egress_target target;
        struct err err = ERR_INIT;
        if (egress_parse_url(span_of(urls[i]), &target, &err) == 0) {
            fail_msg("%s", urls[i]);
        }
    }
}

static void target_is_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *host;
        const char *rest;
        uint16_t port;
        bool is_tls;
    } rows[] = {
        {"HTTPS://API.Example.com./v1?q=1", "api.example.com", "/v1?q=1", 443,
            true},
        {"http://a:8080", "a", "", 8080, false},
        {"http://[2606:4700:0::1]:81/x", "[2606:4700::1]", "/x", 81, false},
        {"http://8.8.8.8./", "8.8.8.8", "/", 80, false},
        {"https://B\xc3\x9c"
         "cher.example?x",
            "xn--bcher-kva.example", "?x", 443, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct egress_target target;
        struct err err = ERR_INIT;
        assert_int_equal(
            egress_parse_url(span_of(rows[i].url), &target, &err), 0);
        assert_string_equal(target.host, rows[i].host);
        assert_int_equal(target.port, rows[i].port);
        assert_true(span_is(target.rest, rows[i].rest));
        assert_int_equal(target.is_tls, rows[i].is_tls);
    }
}

static void private_allow_opens_what_it_names(void **state)
{
    (void)state;
    struct egress_private allow;
    struct err err = ERR_INIT;
    assert_int_equal(
        egress_parse_private(
            SPAN_LIT(
                " 127.0.0.1:8080,10.0.0.0/8, [::1]:81 fd00::/8,192.168.1.9"),
            &allow, &err),
        0);
    static const struct {
        const char *address;
        uint16_t port;
        bool is_allowed;
    } rows[] = {
        {"127.0.0.1", 8080, true},
        {"127.0.0.1", 8081, false},
        {"127.0.0.2", 8080, false},
        {"10.255.0.1", 1, true},
        {"11.0.0.1", 1, true}, /* public anyway */
        {"::1", 81, true},
        {"::1", 80, false},
        {"fd12::1", 443, true},
        {"fe80::1", 443, false},
        {"192.168.1.9", 443, true},
        {"::ffff:192.168.1.9", 443, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct egress_address address = {
            .family =
                strchr(rows[i].address, ':') != NULL ? AF_INET6 : AF_INET};
        assert_int_equal(
            inet_pton(address.family, rows[i].address, address.bytes), 1);
        if (egress_is_allowed(&allow, &address, rows[i].port) !=
            rows[i].is_allowed) {
            fail_msg("%s %u", rows[i].address, rows[i].port);
        }
    }
}

static void wrong_private_allow_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {"localhost", "127.0.0.1:0",
        "127.0.0.1:65536", "10.0.0.0/33", "10.0.0.0/-1", "[::1",
        "[::1]:", "[::1]x:80", "::1/129", "127.1", "10.0.0.0/8/8"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct egress_private allow;
        struct err err = ERR_INIT;
        if (egress_parse_private(span_of(texts[i]), &allow, &err) == 0) {
            fail_msg("%s", texts[i]);
        }
        assert_non_null(strstr(err.msg, "egress.private_allow"));
    }
}

int main(void)
{
    /* As the runner does: names above ASCII are UTF-8. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_gets_its_verdict),
        cmocka_unit_test(transition_forms_and_edges_are_refused),
        cmocka_unit_test(odd_hosts_are_refused),
        cmocka_unit_test(target_is_canonical),
        cmocka_unit_test(private_allow_opens_what_it_names),
        cmocka_unit_test(wrong_private_allow_is_named),
    };
    return cmocka_run_group_tests_name("egress", tests, NULL, NULL);
}
