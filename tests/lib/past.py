# SPDX-License-Identifier: Apache-2.0
"""A past of any size: actions that were exhausted, written as rows."""

import json

CONNECTOR = "past"
STEP = 20000


def add_connector(house):
    """Actions that the runner answers by itself."""
    house.ctl("connector", "add", "-", "--json", stdin=json.dumps({
        "manifest": 1, "name": CONNECTOR, "version": "1.0.0",
        "base_url": "http://127.0.0.1:9",
        "actions": {"echo": {"idempotency": "natural", "runtime": "echo",
                             "timeout_ms": 10000}}}))


def add_exhausted(house, tenant, count, progress=lambda done: None):
    """So many exhausted actions of a tenant; the relay publishes them as any
    others."""
    for done in range(0, count, STEP):
        rows = min(STEP, count - done)
        house.sql(
            "with made as (insert into action (id, window_no, tenant,"
            "  connector, action, fingerprint, manifest, source, request,"
            "  effect) select gen_random_uuid(), w.number, %(tenant)s,"
            "  %(connector)s, 'echo', decode('01' || repeat('00', 32), 'hex'),"
            "  (select digest from connector where name = %(connector)s),"
            "  'actions:0:0', convert_to('{\"spec\":\"actionist/1\","
            "\"tenant\":\"' || %(tenant)s || '\",\"connector\":\"past\","
            "\"action\":\"echo\",\"payload\":{\"n\":' || n || '}}', 'UTF8'), 1"
            "  from generate_series(1, %(rows)s) n,"
            "   (select max(number) as number from action_window) w"
            "  returning id, window_no, tenant)"
            " insert into outcome (id, window_no, tenant, status, attempt_no,"
            "  calls, error_code, body)"
            " select id, window_no, tenant, 3, 1, 1, 'HTTP_STATUS',"
            "  convert_to(json_build_object('spec', 'actionist/1', 'id', id,"
            "   'tenant', tenant, 'status', 'exhausted', 'replay_of',"
            "   null)::text, 'UTF8') from made",
            {"tenant": tenant, "connector": CONNECTOR, "rows": rows})
        progress(done + rows)
