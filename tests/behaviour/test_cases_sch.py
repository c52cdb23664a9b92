# SPDX-License-Identifier: Apache-2.0
"""SCH-04, SCH-05: what a worker's end means for the actions it holds.

One worker that runs few actions at once, so that others wait their turn."""

import pathlib
import signal

import pytest

from lib import invariants
from lib.load import Load, make_house
from lib.programs import descendants
from lib.wait import wait_for

AT_ONCE = 12
MAX_JOBS = 100
DRAIN_S = 6


@pytest.fixture(scope="module")
def house(fleets, double):
    return make_house(fleets, double, producers=0, settings={"worker": {
        "worker.concurrency": AT_ONCE, "worker.drain_s": DRAIN_S,
        "worker.max_jobs": MAX_JOBS}})


@pytest.fixture(name="load")
def fixture_load(house, double):
    house.wait_ready(house["worker-0"])
    return Load(house, double)


def begun(house, load):
    """Idempotency keys of a load's begun actions."""
    return {key for (key,) in house.sql(
        "select convert_from(a.request, 'UTF8')::jsonb ->> 'idempotency_key'"
        " from live l join action a using (id, window_no)"
        " where l.state = 2 and l.tenant = any (%s)", (load.tenants,))}


def claimed(house, load):
    return house.sql("select count(*) from action where tenant = any (%s)",
                     (load.tenants,))[0][0]


def test_unsafe_is_unknown_after_begun_and_runs_before(house, load):
    load.script({"never": True})
    load.publish(3 * AT_ONCE, ["unsafe"])
    load.wait_called(AT_ONCE)
    wait_for(lambda: claimed(house, load) == 3 * AT_ONCE, "all are claimed")
    lost = begun(house, load)
    assert len(lost) == AT_ONCE
    house["worker-0"].kill()
    load.script({})
    house["worker-0"].start()
    outcomes = invariants.check(load, unknown=True)
    assert lost == {key for key, out in outcomes.items()
                    if out["status"] == "indeterminate"}
    for key, out in outcomes.items():
        assert out["attempts"] == 1
        assert load.calls(load.requests[key]) == 1


@pytest.mark.case("SCH-04")
def test_sch_04_an_action_that_kills_its_worker(house, load):
    load.script({"never": True})
    (marked,) = load.publish(1, ["keyed"])
    for death in range(3):
        wait_for(lambda: load.calls(marked) == death + 1,
                 f"call {death + 1}")
        house["worker-0"].kill()
        house["worker-0"].start()
    out = load.wait_done()[marked["idempotency_key"]][0]
    # Three calls may have been carried out; nobody knows.
    assert out["status"] == "indeterminate"
    assert out["error"]["code"] == "WORKER_CRASH"
    assert out["attempts"] == 3
    assert load.calls(marked) == 3
    other = Load(house, load.double)
    other.publish(AT_ONCE)
    invariants.check(other)
    assert load.calls(marked) == 3
    assert len(load.outcomes()[marked["idempotency_key"]]) == 1


def family(program):
    return [program.pid, *descendants(program.pid)]


def wait_gone(pids):
    for pid in pids:
        wait_for(lambda one=pid: not pathlib.Path(f"/proc/{one}").exists(),
                 f"the end of process {pid}")


@pytest.mark.case("SCH-05")
def test_sch_05_an_orderly_stop(house, load):
    """Of twelve that run ten end in time, two are cut off, and the rest has
    never started."""
    worker = house["worker-0"]
    load.script({"never": True})
    load.publish(2, ["keyed"])
    load.wait_called(2)
    load.script({"delay_ms": 3000})
    load.publish(AT_ONCE - 2, ["unsafe"])
    load.wait_called(AT_ONCE)
    load.publish(AT_ONCE, ["natural"])
    wait_for(lambda: claimed(house, load) == 2 * AT_ONCE, "all are claimed")
    pids = family(worker)
    assert worker.terminate(60) == 0
    wait_gone(pids)
    ended = house.sql("select count(*) from outcome where tenant = any (%s)"
                      " and status = 1 and calls = 1", (load.tenants,))
    assert ended == [(AT_ONCE - 2,)]
    assert load.called() == AT_ONCE, "something was started while it stopped"
    assert not house.sql(
        "select 1 from live l join worker w on w.boot_id = l.owner"
        " where l.tenant = any (%s)", (load.tenants,)), "kept a row"
    load.script({})
    worker.start()
    invariants.check(load)


@pytest.mark.case("SCH-05")
def test_sch_05_a_second_sigterm_ends_at_once(house, load):
    worker = house["worker-0"]
    load.script({"never": True})
    load.publish(AT_ONCE)
    load.wait_called(AT_ONCE)
    pids = family(worker)
    said = worker.text().count("drain_started")
    worker.signal(signal.SIGTERM)
    wait_for(lambda: worker.text().count("drain_started") > said,
             "the drain's start")
    assert worker.terminate(60) == 130
    wait_gone(pids)
    load.script({})
    worker.start()
    invariants.check(load, unknown=True)


def test_a_stop_with_a_backlog(house, load):
    """Records that were fetched and not handed out must not disturb it."""
    worker = house["worker-0"]
    load.script({"delay_ms": 20})
    load.publish(MAX_JOBS * 20, ["natural"])
    load.wait_called(1)
    assert worker.terminate(60) == 0
    assert claimed(house, load) < len(load.requests), "there was no backlog"
    load.script({})
    worker.start()
    invariants.check(load)
