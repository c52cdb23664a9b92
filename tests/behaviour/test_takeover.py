# SPDX-License-Identifier: Apache-2.0
"""How long the work of a killed worker stands still while another lives.

The bounds are loose; what was measured is printed (pytest -s)."""

import json
import time

import pytest

from lib.load import Load, make_house
from lib.wait import wait_for
from lib import invariants

COUNT = 100
BOUND_S = 10
GROUP_BOUND_S = 30


@pytest.fixture(scope="module")
def house(fleets, double):
    return make_house(fleets, double, producers=0, workers=1, schedulers=1)


def second_calls(load, killed_us):
    """Seconds from the kill to each path's first request after it."""
    first = {}
    for seen in load.double.requests(f"/keyed/{load.run}/*"):
        if seen["arrival_us"] > killed_us:
            first.setdefault(seen["path"], seen["arrival_us"])
    return sorted((at - killed_us) / 1e6 for at in first.values())


def test_running_actions_start_again_elsewhere(house, double):
    load = Load(house, double)
    # The provider keeps the first call of each and answers the second.
    load.script({"never": True}, {})
    load.publish(COUNT, ["keyed"])
    load.wait_called(COUNT)
    house.wait_ready(house.add("worker"))
    killed_us = time.time_ns() // 1000
    house["worker-0"].kill()
    waits = wait_for(
        lambda: (lambda seen: seen if len(seen) == COUNT else None)(
            second_calls(load, killed_us)), f"{COUNT} second calls", 60)
    print(f"takeover of {COUNT} calls: p50 {waits[COUNT // 2 - 1]:.2f} s,"
          f" p99 {waits[COUNT - 2]:.2f} s, max {waits[-1]:.2f} s")
    assert waits[-2] < BOUND_S
    invariants.check(load)
    house["worker-0"].start()
    house.wait_ready(house["worker-0"])


def test_partitions_of_the_dead_are_read_again(house, double):
    load = Load(house, double)
    load.script({})
    house["worker-0"].kill()
    killed_us = time.time_ns() // 1000
    made = load.make(house.partitions, ["keyed"])
    for number, request in enumerate(made):
        house.kafka.publish_all(
            [(request["tenant"], json.dumps(request), None)],
            partition=number)
    load.wait_called(len(made))
    waits = second_calls(load, killed_us)
    print("first call of each partition after a kill: "
          + ", ".join(f"{wait:.2f}" for wait in waits) + " s")
    assert waits[-1] < GROUP_BOUND_S
    house["worker-0"].start()
    invariants.check(load)
