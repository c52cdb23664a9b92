# SPDX-License-Identifier: Apache-2.0
"""The rules by which the relay starts, publishes and saves, one at a time.

One scheduler, one partition; the tests write the rows and stand in for others
that use the relay's transactional ids."""

import re
import struct

import httpx
import psycopg
import pytest
from confluent_kafka import KafkaException, Producer

from lib import rows
from lib.wait import wait_for

SCHEDULER = "scheduler-0"


@pytest.fixture(scope="module")
def fleet(fleets):
    made = fleets(producers=0, workers=0, schedulers=0, partitions=1)
    made.add("scheduler")
    return made


@pytest.fixture
def relay(fleet):
    """The one scheduler, publishing."""
    program = fleet[SCHEDULER]
    if not program.is_running():
        program.start()
    url = fleet.wait_ready(program)
    wait_for(lambda: httpx.get(f"{url}/readyz").json()["leader"],
             "the relay to publish", 60)
    return program


@pytest.fixture
def db(fleet):
    with rows.connect(fleet, autocommit=True) as made:
        yield made


def published(fleet, tenant):
    """{id: how often}"""
    found = {}
    for record in fleet.kafka.read_all():
        if record.key == tenant.encode():
            action = record.header("id")
            found[action] = found.get(action, 0) + 1
    return found


def wait_published(fleet, tenant, ids, deadline=45):
    """Waits until all are there; each must be there once."""
    seen = wait_for(
        lambda: (lambda found: found if set(ids) <= set(found) else None)(
            published(fleet, tenant)),
        f"{len(ids)} outcomes of {tenant}", deadline, every=0.2)
    assert seen == dict.fromkeys(ids, 1)


def settings_of(fleet, transactional_id):
    return {**fleet.kafka.settings, "transactional.id": transactional_id,
            "transaction.timeout.ms": 60000, "log_level": 0}


def lane_of_another(fleet, lane):
    """A producer that takes over a lane of the relay."""
    made = Producer(settings_of(fleet, f"{fleet.space}.relay.0.{lane}"))
    made.init_transactions(30)
    return made


def transactions(fleet):
    """Producer ids of the topic's committed transactions, in order: from the
    markers in the broker's own log."""
    path = (fleet.cluster.folder / "kafka-1" / "data"
            / f"{fleet.space}.outcomes-0" / "00000000000000000000.log")
    data = path.read_bytes()
    found = []
    at = 0
    while at + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (producer_id,) = struct.unpack_from(">q", data, at + 43)
        if attributes & 0x20:
            found.append(producer_id)
        at += 12 + length
    return found


def wait_saved(fleet):
    """Waits until the checkpoint's position lies behind all records."""
    last = max(record.offset for record in fleet.kafka.read_all(
        committed=False))
    wait_for(lambda: fleet.sql(
        "select (positions ->> '0')::int8 > %s from relay_checkpoint",
        (last,)) == [(True,)], "the checkpoint to be saved", 30)


# -- lanes -----------------------------------------------------------------------


def test_first_transaction_is_on_a_and_lanes_take_turns(
        fleet, relay, db, tenant):
    """Lane A was given its producer id first. After any doubt it is A's turn,
    also if it would have been B's."""
    ids = set()

    def end_one():
        """Publishes one outcome; returns who did."""
        count = len(transactions(fleet))
        ids.update(rows.end_actions(db, tenant, 1))
        wait_published(fleet, tenant, ids)
        return wait_for(lambda: transactions(fleet)[count:], "the marker",
                        30)[-1]

    firsts = []
    for _ in range(2):
        relay.terminate()
        relay.start()
        firsts.append(end_one())
    for _ in range(20):
        if len(set(transactions(fleet))) > 1:
            break
        end_one()
    a, _ = sorted(set(transactions(fleet)))
    assert firsts == [a, a]
    for _ in range(20):
        if end_one() == a:
            break
    lane_of_another(fleet, "b")
    assert end_one() == a


@pytest.mark.parametrize("lane", "ab")
def test_start_fences_each_lane(fleet, relay, lane):
    """Before it has published anything on it."""
    relay.terminate()
    stale = lane_of_another(fleet, lane)
    stale.begin_transaction()
    stale.produce(f"{fleet.space}.rejects", value=b"stale")
    stale.flush(30)
    starts = relay.text().count("relay_read_back")
    relay.start()
    wait_for(lambda: relay.text().count("relay_read_back") > starts,
             "the start", 60)
    with pytest.raises(KafkaException) as caught:
        stale.commit_transaction(30)
    assert caught.value.args[0].name() in ("_FENCED", "PRODUCER_FENCED",
                                           "INVALID_PRODUCER_EPOCH")


def counted(fleet, relay, name):
    """A counter of the scheduler, as it says itself."""
    text = httpx.get(f"{fleet.wait_ready(relay)}/metrics").text
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])


def lose_session(fleet):
    fleet.sql("select pg_terminate_backend(pid) from pg_stat_activity"
              " where application_name = 'actionist-scheduler relay'"
              " and datname = current_database()")


@pytest.mark.parametrize("lane", ["b", None])
def test_each_start_over_is_counted_and_says_why(
        fleet, relay, db, tenant, lane):
    """Fenced by another relay, or its session was lost (None)."""
    doubts = counted(fleet, relay, "actionist_relay_doubts_total")
    fenced = counted(fleet, relay, "actionist_relay_fenced_total")
    event = '"event":"relay_fenced"' if lane else '"event":"relay_restarts"'
    said = relay.text().count(event)
    if lane:
        lane_of_another(fleet, lane)
    else:
        lose_session(fleet)
    ids = set()
    for _ in range(2):  # a transaction on each lane
        ids.update(rows.end_actions(db, tenant, 1))
        wait_published(fleet, tenant, ids)
    wait_for(lambda: relay.text().count(event) > said, event)
    assert counted(fleet, relay, "actionist_relay_doubts_total") > doubts
    more = counted(fleet, relay, "actionist_relay_fenced_total") - fenced
    assert more >= 1 if lane else more == 0


def test_watermark_is_committed_with_the_records(fleet, relay, db, tenant):
    """Not with each transaction, but it follows."""
    ids = set()
    group = f"{fleet.space}.relay.0"

    def follows():
        ids.update(rows.end_actions(db, tenant, 1))
        wait_published(fleet, tenant, ids)
        (last,) = fleet.sql("select max(seq) from outcome")[0]
        return fleet.kafka.committed_offsets(group, "outcomes")[0] == last

    wait_for(follows, "the watermark", every=0.2)
    assert relay.is_running()


# -- what a start reads --------------------------------------------------------------


def forget_checkpoint(fleet):
    """As if it had died before it saved anything."""
    fleet.sql("delete from relay_checkpoint")


def test_what_is_in_the_topic_is_not_published_again(
        fleet, relay, db, tenant):
    ids = rows.end_actions(db, tenant, 20)
    wait_published(fleet, tenant, ids)
    relay.kill()
    forget_checkpoint(fleet)
    more = rows.end_actions(db, tenant, 2)
    relay.start()
    wait_published(fleet, tenant, ids | more)


def test_a_gap_outlives_the_relay(fleet, relay, db, tenant):
    with rows.connect(fleet) as slow:
        late = rows.end_actions(slow, tenant, 2)
        early = rows.end_actions(db, tenant, 2)
        wait_published(fleet, tenant, early)
        wait_saved(fleet)
        relay.kill()
        relay.start()
        fleet.wait_ready(relay)
        more = rows.end_actions(db, tenant, 1)
        wait_published(fleet, tenant, early | more)
        slow.commit()
    wait_published(fleet, tenant, early | more | late)


def test_reading_back_waits_for_foreign_transactions(
        fleet, relay, db, tenant):
    """What is committed behind one that is open cannot be seen yet."""
    foreign = Producer(settings_of(fleet, f"{fleet.space}.foreign"))
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(f"{fleet.space}.outcomes", value=b"foreign")
    foreign.flush(30)
    ids = rows.end_actions(db, tenant, 5)
    wait_for(lambda: ids <= {
        record.header("id")
        for record in fleet.kafka.read_all(committed=False)}, "the records")
    wait_saved(fleet)
    relay.kill()
    forget_checkpoint(fleet)
    starts = relay.text().count("relay_read_back")
    relay.start()
    wait_for(lambda: "readback_waits" in relay.text()
             or relay.text().count("relay_read_back") > starts, "the start")
    assert relay.text().count("relay_read_back") == starts
    foreign.abort_transaction(30)
    more = rows.end_actions(db, tenant, 1)
    wait_published(fleet, tenant, ids | more)


def test_a_sequence_that_caches_is_refused(fleet, relay, db, tenant):
    relay.terminate()
    fleet.sql("alter sequence outcome_seq cache 10")
    before = relay.text().count("SEQUENCE_CACHES")
    try:
        relay.start()
        wait_for(lambda: relay.text().count("SEQUENCE_CACHES") > before,
                 "the refusal")
    finally:
        fleet.sql("alter sequence outcome_seq cache 1")
    relay.restart()
    ids = rows.end_actions(db, tenant, 1)
    wait_published(fleet, tenant, ids)


# -- the order of a poll ---------------------------------------------------------------


def test_oldest_writer_is_read_before_the_rows(fleet, relay, db, tenant):
    """In this order alone a row that is missing in the second can be proven
    dead by the first. Seen in the database's own log."""
    name = psycopg.conninfo.conninfo_to_dict(
        fleet.cluster.conninfo("superuser", fleet.space))["dbname"]
    fleet.sql(f'alter database "{name}" set log_statement = \'all\'')
    try:
        relay.restart()
        with rows.connect(fleet) as slow:
            rows.end_actions(slow, tenant, 1)
            ids = rows.end_actions(db, tenant, 1)
            wait_published(fleet, tenant, ids)
            wait_for(lambda: len(polls(fleet, name)) > 3, "polls of the gap")
            slow.rollback()
    finally:
        fleet.sql(f'alter database "{name}" reset log_statement')
    assert set(polls(fleet, name)) == {("relay_xmin", "relay_rows")}
    relay.restart()


def polls(fleet, name):
    """What each transaction with both statements ran, in its order."""
    text = (fleet.cluster.folder / "postgres.log").read_text(errors="replace")
    words = re.compile(rf"\[(\d+)\] \w+@{re.escape(name)} LOG: .*?"
                       r"(BEGIN|relay_xmin|relay_rows)")
    running = {}
    found = []
    for pid, word in words.findall(text):
        if word == "BEGIN":
            running[pid] = []
        elif pid in running:
            running[pid].append(word)
            if len(running[pid]) == 2:
                found.append(tuple(running.pop(pid)))
    return found
