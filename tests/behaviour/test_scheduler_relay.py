# SPDX-License-Identifier: Apache-2.0
"""The relay: every outcome row is on the topic exactly once, whatever dies."""

import contextlib
import random
import threading
import time

import httpx
import psycopg
import pytest
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry,
                                   ConfigResource)
from lib import rows
from lib.wait import wait_for

SECONDS = 10
WRITERS = 3
SCHEDULERS = 2


@pytest.fixture(scope="module")
def fleet(fleets):
    """Schedulers alone; the tests write the rows."""
    return fleets(producers=0, workers=0, schedulers=SCHEDULERS)


@pytest.fixture
def db(fleet):
    with rows.connect(fleet, autocommit=True) as made:
        yield made


def published(fleet, tenant):
    """{id: [seq, ...]} of a tenant's records, as a committed reader sees."""
    found = {}
    for record in fleet.kafka.read_all():
        if record.key == tenant.encode():
            found.setdefault(record.header("id"), []).append(
                int(record.header("seq")))
    return found


def wait_until_published(fleet, tenant, ids, deadline=60):
    return wait_for(
        lambda: (lambda seen: seen if ids <= set(seen) else None)(
            published(fleet, tenant)),
        f"{len(ids)} outcomes of {tenant}", deadline, every=0.3)


def leader(fleet):
    """The scheduler that publishes, once there is one."""
    def probe():
        for program in fleet.programs.values():
            with contextlib.suppress(httpx.HTTPError, AssertionError):
                url = fleet.wait_ready(program)
                if httpx.get(f"{url}/readyz").json()["leader"]:
                    return program
        return None

    return wait_for(probe, "a leader", 60)


class Writer(threading.Thread):
    """Commits some batches, rolls others back, sleeps inside of some."""

    def __init__(self, fleet, tenant, seed, stop):
        super().__init__()
        self.fleet = fleet
        self.tenant = tenant
        self.random = random.Random(seed)
        self.stop = stop
        self.committed = set()

    def run(self):
        with rows.connect(self.fleet) as db:
            while not self.stop.is_set():
                ids = rows.end_actions(db, self.tenant,
                                       self.random.choice((1, 5, 50)))
                if self.random.random() < 0.2:
                    self.stop.wait(self.random.random() / 5)
                if self.random.random() < 0.2:
                    db.rollback()
                else:
                    db.commit()
                    self.committed |= ids
                self.stop.wait(0.02)


def kill_and_freeze(fleet, seconds):
    """Kills relays, and freezes some while others take over."""
    dice = random.Random(7)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.3, 1.5))
        program = fleet[f"scheduler-{dice.randrange(SCHEDULERS)}"]
        assert program.child.poll() in (None, 1), "it crashed"
        if dice.random() < 0.25:
            program.stop()
            time.sleep(dice.uniform(0.5, 2))
            program.cont()
        else:
            program.restart()


def test_each_outcome_once_while_relays_die(fleet, tenant):
    stop = threading.Event()
    writers = [Writer(fleet, tenant, seed, stop) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        kill_and_freeze(fleet, SECONDS)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    ids = set().union(*(writer.committed for writer in writers))
    assert len(ids) > 100
    seen = wait_until_published(fleet, tenant, ids)
    assert set(seen) == ids, "rolled back rows were published"
    assert {key: seqs for key, seqs in seen.items() if len(seqs) != 1} == {}


def test_record_has_key_value_and_headers(fleet, db, tenant):
    (action,) = rows.end_actions(db, tenant, 1)
    wait_until_published(fleet, tenant, {action})
    (record,) = [one for one in fleet.kafka.read_all()
                 if one.header("id") == action]
    assert record.key == tenant.encode()
    assert record.json() == {"id": action, "tenant": tenant}
    assert record.header("content-type") == "application/json"
    assert record.header("traceparent") is None


def test_trace_goes_along(fleet, db, tenant):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    action = rows.add_live(db, tenant, None, "natural", traceparent=trace)
    rows.end_live(db, action)
    wait_until_published(fleet, tenant, {str(action)})
    (record,) = [one for one in fleet.kafka.read_all()
                 if one.header("id") == str(action)]
    assert record.header("traceparent") == trace


def test_a_slow_writer_holds_up_nobody(fleet, db, tenant):
    with rows.connect(fleet) as slow:
        late = rows.end_actions(slow, tenant, 3)
        early = rows.end_actions(db, tenant, 3)
        seen = wait_until_published(fleet, tenant, early)
        assert not late & set(seen)
    seen = wait_until_published(fleet, tenant, late | early)
    assert all(len(seqs) == 1 for seqs in seen.values())


def test_what_does_not_fit_is_published_without_its_result(fleet, db, tenant):
    name = f"{fleet.space}.outcomes"
    admin = AdminClient(fleet.cluster.kafka_client())

    def limit(size):
        wanted = ConfigResource("topic", name, incremental_configs=[
            ConfigEntry("max.message.bytes", str(size),
                        incremental_operation=AlterConfigOpType.SET)])
        for done in admin.incremental_alter_configs([wanted]).values():
            done.result(30)

    body = (b'{"spec":"actionist/1","tenant":"%s","status":"succeeded",'
            b'"result":"%s","error":null}'
            % (tenant.encode(), random.Random(1).randbytes(60000)
               .hex().encode()))
    try:
        limit(32768)
        (action,) = rows.end_actions(db, tenant, 1, body)
        wait_until_published(fleet, tenant, {action})
    finally:
        limit(2097152)
    (record,) = [one for one in fleet.kafka.read_all()
                 if one.header("id") == action]
    out = record.json()
    assert out["result"] is None
    assert out["result_truncated"] is True
    assert out["status"] == "succeeded"
    assert len(record.value) < 32768


def test_a_foreign_copy_is_an_alarm_and_stops_nothing(fleet, db, tenant):
    (action,) = rows.end_actions(db, tenant, 1)
    seq = wait_until_published(fleet, tenant, {action})[action][0]
    program = leader(fleet)
    for other in fleet.programs.values():
        other.kill()
    headers = [("id", action), ("seq", str(seq))]
    fleet.kafka.publish(b"{}", tenant, headers, topic="outcomes")
    fleet.kafka.publish(b"{}", tenant, headers, topic="outcomes")
    for other in fleet.programs.values():
        other.start()
        fleet.wait_ready(other)
    wait_for(lambda: any("outcomes_foreign" in one.text()
                         for one in fleet.programs.values()),
             f"the alarm after {program.name} was killed")
    after = rows.end_actions(db, tenant, 2)
    seen = wait_until_published(fleet, tenant, after)
    assert all(len(seen[one]) == 1 for one in after)


def test_a_database_from_before_is_refused(fleet, db, tenant):
    ids = rows.end_actions(db, tenant, 5)
    wait_until_published(fleet, tenant, ids)
    wait_for(lambda: fleet.sql(
        "select c.high >= max(o.seq) from relay_checkpoint c, outcome o"
        " group by c.high")[0][0], "the checkpoint")
    for program in fleet.programs.values():
        program.kill()
    last = fleet.sql("select last_value from outcome_seq")[0][0]
    fleet.sql("select setval('outcome_seq', %s)", (last - 4,))
    program = fleet["scheduler-0"].start()
    program.wait_for_log("DATABASE_LOST_COMMITS")
    fleet.sql("select setval('outcome_seq', %s)", (last,))
    fleet["scheduler-1"].start()
    for program in fleet.programs.values():
        fleet.wait_ready(program)
    after = rows.end_actions(db, tenant, 2)
    wait_until_published(fleet, tenant, after)


def test_sigterm_ends_in_order(fleet, db, tenant):
    rows.end_actions(db, tenant, 50)
    program = leader(fleet)
    assert program.terminate() == 0
    program.start()
    fleet.wait_ready(program)


def test_runtime_role_cannot_touch_what_is_published(db):
    for statement in ("update outcome set body = ''", "delete from outcome",
                      "truncate outcome", "delete from relay_checkpoint"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute(statement)
