# SPDX-License-Identifier: Apache-2.0
"""What the scheduler does with waiting rows and with those of the dead."""

import json
import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from lib import rows
from lib.wait import stays_true, wait_for


@pytest.fixture(scope="module")
def fleet(fleets):
    """Two schedulers; the tests are the workers."""
    return fleets(producers=0, workers=0, schedulers=2)


@pytest.fixture
def db(fleet):
    with rows.connect(fleet, autocommit=True) as made:
        yield made


class Hints:
    """Reads the dispatch topic from now on."""

    def __init__(self, fleet):
        self.seen = {}
        self.consumer = Consumer({
            **fleet.kafka.settings, "group.id": f"hints-{uuid.uuid4()}",
            "enable.auto.commit": False, "fetch.wait.max.ms": 10})
        name = f"{fleet.space}.dispatch"
        parts = self.consumer.list_topics(name, 30).topics[name].partitions
        self.consumer.assign([
            TopicPartition(name, n, self.consumer.get_watermark_offsets(
                TopicPartition(name, n), 30)[1]) for n in parts])

    def wait_for(self, actions, deadline=60):
        """{id: (attempt_no, time)} of the first hint of each action."""
        wanted = {str(action) for action in actions}

        def probe():
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                hint = json.loads(message.value())
                self.seen.setdefault(hint["id"],
                                     (hint["attempt_no"], time.time()))
            return wanted <= set(self.seen)

        wait_for(probe, f"hints for {len(wanted)} actions", deadline, every=0)
        return self.seen

    def close(self):
        self.consumer.close()


@pytest.fixture
def hints(fleet):
    made = Hints(fleet)
    yield made
    made.close()


def outcome_of(fleet, action):
    """The outcome document, once it is on the topic."""
    def probe():
        for record in fleet.kafka.read_all():
            if record.header("id") == str(action):
                return record.json()
        return None

    return wait_for(probe, f"outcome of {action}", 60, every=0.2)


def live(fleet, action):
    """(attempt_no, state, owner, calls, deaths, is_effect_unknown)"""
    found = fleet.sql(
        "select attempt_no, state, owner, calls, deaths, is_effect_unknown"
        " from live where id = %s", (action,))
    return found[0] if found else None


def take(fleet, *actions):
    """As a worker does, so that nothing is hinted at again."""
    fleet.sql("delete from live where id = any (%s)", (list(actions),))


# -- due ---------------------------------------------------------------------


def test_due_rows_become_live_once_and_never_early(fleet, db, tenant, hints):
    waits = (0, 40, 200, 500, 1000, 1500, 2500)
    due = dict(rows.add_waiting(
        db, tenant, f"clock_timestamp() + {wait} * interval '1 ms'")
        for wait in waits)
    seen = hints.wait_for(due)
    for action, at in due.items():
        attempt_no, hinted = seen[str(action)]
        assert attempt_no == 2
        assert at <= hinted
        assert live(fleet, action)[:3] == (2, 1, None)
    assert not fleet.sql("select 1 from waiting where tenant = %s", (tenant,))
    take(fleet, *due)


def test_what_nobody_takes_is_hinted_at_again(fleet, db, tenant, hints):
    action, _ = rows.add_waiting(db, tenant, "fleet_now()")
    hints.wait_for([action])
    hints.seen.clear()
    hints.wait_for([action])
    take(fleet, action)


def test_many_due_rows_all_come(fleet, db, tenant, hints):
    actions = [rows.add_waiting(db, tenant, "fleet_now()")[0]
               for _ in range(450)]
    seen = hints.wait_for(actions)
    assert all(seen[str(action)][0] == 2 for action in actions)
    take(fleet, *actions)


def test_deadline_ends_what_waits(fleet, db, tenant):
    plain, _ = rows.add_waiting(db, tenant, "fleet_now()",
                                deadline="2020-01-01T00:00:00Z")
    unknown, _ = rows.add_waiting(
        db, tenant, "fleet_now()", deadline="2020-01-01T00:00:00Z",
        is_effect_unknown=True, calls=2, started_at="2020-01-01T00:00:00Z")
    out = outcome_of(fleet, plain)
    assert (out["status"], out["error"]["code"]) == ("expired",
                                                     "DEADLINE_PASSED")
    out = outcome_of(fleet, unknown)
    assert (out["status"], out["attempts"]) == ("indeterminate", 2)
    assert out["error"]["class"] == "unknown"
    assert live(fleet, plain) is None


def test_what_waits_for_a_person_is_never_due(fleet, db, tenant):
    action, _ = rows.add_waiting(db, tenant, "fleet_now()", reason=4)
    other, _ = rows.add_waiting(db, tenant, "fleet_now()")
    wait_for(lambda: live(fleet, other), "the other one")
    stays_true(lambda: live(fleet, action) is None, "waits", 1)
    take(fleet, other)
    fleet.sql("delete from waiting where id = %s", (action,))


# -- the dead ----------------------------------------------------------------


def test_rows_of_a_killed_worker_run_again(fleet, db, tenant, hints):
    worker = rows.FakeWorker(fleet)
    other = rows.FakeWorker(fleet, lease="1 hour")
    natural = rows.add_live(db, tenant, worker.boot_id, "natural")
    keyed = rows.add_live(db, tenant, worker.boot_id, "keyed", deaths=1)
    unsafe = rows.add_live(db, tenant, worker.boot_id, "unsafe")
    mine = rows.add_live(db, tenant, other.boot_id, "natural")
    # The schedulers must have seen the lock held before it is free.
    stays_true(lambda: live(fleet, natural)[2] == worker.boot_id, "owned", 1)
    worker.die()
    seen = hints.wait_for([natural, keyed, unsafe])
    assert {seen[str(one)][0] for one in (natural, keyed, unsafe)} == {2}
    assert live(fleet, natural) == (2, 1, None, 1, 1, True)
    assert live(fleet, keyed) == (2, 1, None, 1, 2, True)
    assert live(fleet, unsafe) == (2, 1, None, 0, 1, False)
    assert live(fleet, mine)[2] == other.boot_id
    notes = fleet.sql("select kind, attempt_no from ledger where tenant = %s",
                      (tenant,))
    assert notes == [(4, 1)] * 3
    take(fleet, natural, keyed, unsafe, mine)
    other.leave()


def test_begun_unsafe_and_third_deaths_end(fleet, db, tenant):
    worker = rows.FakeWorker(fleet)
    begun = rows.add_live(db, tenant, worker.boot_id, "unsafe", "begun")
    third = rows.add_live(db, tenant, worker.boot_id, "keyed", deaths=2)
    never = rows.add_live(db, tenant, worker.boot_id, "unsafe", deaths=2)
    stays_true(lambda: live(fleet, begun)[2] == worker.boot_id, "owned", 1)
    worker.die()
    out = outcome_of(fleet, begun)
    assert (out["status"], out["error"]["code"], out["attempts"]) == (
        "indeterminate", "WORKER_LOST", 1)
    assert out["idempotency_key"].startswith("key-")
    assert out["started_at"] is not None
    # Presence proves a death at once, but only the lease ends a begun call.
    assert fleet.sql(
        "select o.finished_at >= w.lease_until from outcome o, worker w"
        " where o.id = %s and w.boot_id = %s",
        (begun, worker.boot_id)) == [(True,)]
    out = outcome_of(fleet, third)
    assert (out["status"], out["error"]["code"]) == (
        "indeterminate", "WORKER_CRASH")
    out = outcome_of(fleet, never)
    assert (out["status"], out["error"]["code"], out["attempts"]) == (
        "exhausted", "WORKER_CRASH", 0)
    assert not fleet.sql("select 1 from live where tenant = %s", (tenant,))


def test_most_workers_at_once_are_left_to_their_leases(fleet, db, tenant):
    workers = [rows.FakeWorker(fleet, lease="1 hour") for _ in range(4)]
    actions = [rows.add_live(db, tenant, worker.boot_id, "natural")
               for worker in workers]
    stays_true(lambda: live(fleet, actions[0])[2] is not None, "owned", 1)
    for worker in workers[:3]:
        worker.die()
    stays_true(lambda: all(live(fleet, action)[2] is not None
                           for action in actions), "nobody is taken over", 3)
    fleet.sql("update worker set state = 2 where boot_id = any (%s)",
              ([worker.boot_id for worker in workers],))
    for action in actions:
        wait_for(lambda one=action: live(fleet, one)[2] is None,
                 "rows of owners that are gone in order")
    take(fleet, *actions)
    workers[3].db.close()


def test_a_frozen_worker_is_left_to_its_lease(fleet, db, tenant):
    worker = rows.FakeWorker(fleet, lease="1 s")
    action = rows.add_live(db, tenant, worker.boot_id, "keyed")
    begun = rows.add_live(db, tenant, worker.boot_id, "unsafe", "begun")
    wait_for(lambda: live(fleet, action)[2] is None, "takeover", 60)
    assert live(fleet, action) == (2, 1, None, 1, 1, True)
    assert outcome_of(fleet, begun)["status"] == "indeterminate"
    assert worker.db.execute(
        "update worker set lease_until = fleet_now() where boot_id = %s"
        " and state = 1", (worker.boot_id,)).rowcount == 0
    take(fleet, action)
    worker.db.close()


def test_late_rows_of_a_dead_worker_are_found(fleet, db, tenant):
    worker = rows.FakeWorker(fleet)
    worker.leave()
    action = rows.add_live(db, tenant, worker.boot_id, "natural")
    wait_for(lambda: live(fleet, action)[2] is None, "takeover", 60)
    take(fleet, action)


def test_every_action_has_one_outcome_when_schedulers_die(fleet, db, tenant):
    actions = [rows.add_waiting(db, tenant, "fleet_now()",
                                deadline="2020-01-01T00:00:00Z")[0]
               for _ in range(60)]
    fleet["scheduler-0"].restart()
    fleet["scheduler-1"].restart()
    wait_for(lambda: fleet.sql("select count(*) from outcome where tenant = %s",
                               (tenant,))[0][0] >= len(actions), "outcomes")
    found = fleet.sql("select id, count(*) from outcome where tenant = %s"
                      " group by id", (tenant,))
    assert sorted(found) == sorted((action, 1) for action in actions)
