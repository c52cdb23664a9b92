# SPDX-License-Identifier: Apache-2.0
"""Rows as workers write them, for tests of the scheduler alone."""

import json
import uuid

import psycopg

EFFECTS = {"natural": 1, "keyed": 2, "unsafe": 3}
STATES = {"ready": 1, "begun": 2}


def connect(fleet, **options):
    """A connection of the fleet's own role."""
    return psycopg.connect(fleet.cluster.conninfo("runtime", fleet.space),
                           options="-c search_path=actionist", **options)


def add_action(db, tenant, key=None, traceparent=None):
    """An accepted action, in no stage yet; returns its id."""
    action = uuid.uuid4()
    request = {"spec": "actionist/1", "tenant": tenant, "connector": "c",
               "action": "a", "payload": {}}
    if key:
        request["idempotency_key"] = key
    db.execute(
        "insert into action (id, window_no, tenant, connector, action,"
        " fingerprint, manifest, source, traceparent, request, effect)"
        " select %s, max(number), %s, 'c', 'a', %s, %s, 'actions:0:0', %s, %s,"
        " 1 from action_window",
        (action, tenant, b"\1" * 33, b"\2" * 32, traceparent,
         json.dumps(request).encode()))
    return action


def add_waiting(db, tenant, due, **columns):
    """An action that waits; due is an SQL expression."""
    action = add_action(db, tenant)
    row = {"attempt_no": 1, "reason": 1, "effect": 1, "calls": 1, **columns}
    names = ", ".join(row)
    holes = ", ".join(["%s"] * len(row))
    found = db.execute(
        f"insert into waiting (id, window_no, tenant, due, {names})"
        f" select %s, max(number), %s, {due}, {holes} from action_window"
        " returning extract(epoch from due)::float8",
        (action, tenant, *row.values())).fetchone()
    return action, found[0]


def add_live(db, tenant, owner, effect, state="ready", traceparent=None,
             **columns):
    """An action that a worker has claimed."""
    action = add_action(db, tenant, f"key-{uuid.uuid4()}", traceparent)
    row = {"attempt_no": 1, "owner": owner, "effect": EFFECTS[effect],
           "state": STATES[state], **columns}
    names = ", ".join(row)
    holes = ", ".join(["%s"] * len(row))
    db.execute(
        f"insert into live (id, window_no, tenant, {names})"
        f" select %s, max(number), %s, {holes} from action_window",
        (action, tenant, *row.values()))
    return action


def end_live(db, action):
    """Ends one live action, with an empty document."""
    db.execute(
        "with gone as (delete from live where id = %s returning *)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        " calls, body) select id, window_no, tenant, 1, 1, 1, '{}' from gone",
        (action,))


def end_actions(db, tenant, count, body=None):
    """Claims and ends actions in one statement each; returns their ids."""
    ids = [uuid.uuid4() for _ in range(count)]
    db.execute(
        "insert into live (id, window_no, tenant, attempt_no, state, owner,"
        " effect) select i, 1, %s, 1, 1, gen_random_uuid(), 1"
        " from unnest(%s::uuid[]) i", (tenant, ids))
    db.execute(
        "with gone as (delete from live where id = any (%s) returning *)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        " calls, body) select id, window_no, tenant, 1, 1, 1,"
        " coalesce(%s::bytea, convert_to(json_build_object('id', id,"
        " 'tenant', tenant)::text, 'UTF8')) from gone", (ids, body))
    return {str(one) for one in ids}


class FakeWorker:
    """A worker's presence: a row, and a lock for as long as it lives.

    Should no scheduler have seen the lock in time, the lease does its work.
    """

    def __init__(self, fleet, lease="20 s"):
        self.boot_id = uuid.uuid4()
        self.db = connect(fleet, autocommit=True)
        key = uuid.uuid4().int & ((1 << 63) - 1)
        self.db.execute("select pg_advisory_lock(%s)", (key,))
        self.db.execute(
            "insert into worker (boot_id, name, presence_key, lease_until)"
            " values (%s, 'fake', %s, fleet_now() + %s::interval)",
            (self.boot_id, key, lease))

    def die(self):
        """As kill -9 does: the session ends, the row stays."""
        self.db.close()

    def leave(self):
        """In order."""
        self.db.execute("update worker set state = 2 where boot_id = %s",
                        (self.boot_id,))
        self.db.close()
