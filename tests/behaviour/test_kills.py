# SPDX-License-Identifier: Apache-2.0
"""kill -9 and SIGSTOP of each program with work in flight, on one fleet of
two workers and two schedulers."""

import os
import signal

import pytest

from lib import invariants
from lib.load import Load, make_house
from lib.programs import descendants
from lib.wait import wait_for

COUNT = 120
DELAY_MS = 2000


@pytest.fixture(scope="module")
def house(fleets, double):
    return make_house(fleets, double, producers=0, workers=2, schedulers=2)


@pytest.fixture
def load(house, double):
    """A load in flight: some calls are under way, others not claimed yet."""
    for name in ("worker-0", "worker-1"):
        house.wait_ready(house[name])
    made = Load(house, double)
    made.script({"delay_ms": DELAY_MS})
    made.publish(COUNT)
    made.wait_called(COUNT // 3)
    return made


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as text:
        return text.read().strip()


def below(program, name):
    """Pids of a program's descendants of one name."""
    return [pid for pid in descendants(program.pid) if name_of(pid) == name]


def owners(house, load):
    """Workers that have begun something of the load."""
    return house.sql("select distinct owner from live where state = 2"
                     " and tenant = any (%s)", (load.tenants,))


def test_worker(house, double):
    load = Load(house, double)
    load.script({"delay_ms": 3 * DELAY_MS})
    load.publish(COUNT)
    wait_for(lambda: len(owners(house, load)) == 2, "both workers at work")
    house["worker-0"].kill()
    invariants.check_offsets(load)
    load.publish(COUNT // 3)
    house["worker-0"].start()
    outcomes = invariants.check(load, unknown=True)
    lost = [out for out in outcomes.values()
            if out["status"] == "indeterminate"]
    assert lost, "the dead worker had begun nothing"
    assert {out["error"]["code"] for out in lost} == {"WORKER_LOST"}


def test_keeper(house, load):
    (pid,) = below(house["worker-1"], "keeper")
    os.kill(pid, signal.SIGKILL)
    assert house["worker-1"].wait_exit(60) == 70
    invariants.check_offsets(load)
    house["worker-1"].start()
    load.publish(COUNT // 3)
    invariants.check(load, unknown=True)


def test_runners(house, load):
    for name in ("worker-0", "worker-1"):
        for pid in below(house[name], "actionist-runne"):
            os.kill(pid, signal.SIGKILL)
    load.publish(COUNT // 3)
    invariants.check(load, unknown=True)
    assert house["worker-0"].is_running() and house["worker-1"].is_running()


@pytest.mark.parametrize("name", ["scheduler-0", "scheduler-1"])
def test_either_scheduler(house, load, name):
    """Nothing but the scheduler dies, so nothing is unknown."""
    load.refuse_once()
    load.publish(COUNT // 3)
    load.wait_called(COUNT)
    house[name].kill()
    load.publish(COUNT // 3)
    load.wait_called(COUNT + COUNT // 3)
    house[name].start()
    invariants.check(load)
    house.wait_ready(house[name])


def test_both_schedulers_and_a_worker(house, load):
    for name in ("scheduler-0", "scheduler-1", "worker-1"):
        house[name].kill()
    load.publish(COUNT // 3)
    for name in ("scheduler-0", "scheduler-1", "worker-1"):
        house[name].start()
    invariants.check(load, unknown=True)


def alive(house):
    return {boot for (boot,) in house.sql(
        "select boot_id from worker where state = 1")}


def test_worker_frozen_beyond_its_lease(house, load):
    worker = house["worker-0"]
    before = alive(house)
    worker.stop()
    try:
        wait_for(lambda: before - alive(house), "the lease's end", 60)
    finally:
        worker.cont()
    worker.wait_for_log("identity_lost")
    invariants.check(load, unknown=True)
    house.wait_ready(worker)
