# SPDX-License-Identifier: Apache-2.0
"""A live look at the fleet, for machines, once, and on a terminal."""

import json
import os
import pty
import signal
import subprocess

import pytest

from lib import flow
from lib.api import add_connector
from lib.programs import BIN
from lib.wait import wait_for


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(producers=0, settings={"worker": {
        "egress.private_allow": double.address}})
    add_connector(made, "slow", {"post": flow.action()}, double.url)
    return made


@pytest.fixture
def busy(house, double, tenant):
    """Three actions run, two wait."""
    double.script(f"/{tenant}/run-*", {"delay_ms": 30000})
    later = {"not_before": "2099-01-01T00:00:00Z"}
    flow.publish(house, [
        *(flow.request(tenant, "slow", "post", f"run-{n}") for n in range(3)),
        *(flow.request(tenant, "slow", "post", f"wait-{n}", **later)
          for n in range(2))])
    wait_for(lambda: len(double.requests(f"/{tenant}/run-*")) == 3
             and house.sql("select count(*) from waiting where tenant = %s",
                           (tenant,)) == [(2,)], "all run or wait")
    return tenant


def test_one_look_for_machines(house, double, busy):
    look = json.loads(house.ctl("top", "--once", "--json").stdout)
    assert look["running_count"] >= 3 and look["waiting_count"] >= 2
    assert look["untaken_count"] == look["overdue_count"] == 0
    assert look["oldest_ms"] > 0
    (tenant,) = [one for one in look["tenants"] if one["tenant"] == busy]
    assert (tenant["running_count"], tenant["waiting_count"]) == (3, 2)
    (worker,) = look["workers"]
    assert worker["running_count"] >= 3 and worker["draining"] is None
    # What ends between two looks is a rate.
    double.script(f"/{busy}/quick-*", {})
    numbers = iter(range(1000))

    def rate():
        flow.publish(house, [flow.request(
            busy, "slow", "post", f"quick-{next(numbers)}")
            for _ in range(10)])
        seen = json.loads(house.ctl("top", "--once", "--json").stdout)
        return seen["ended_per_s"]["succeeded"] > 0

    wait_for(rate, "a rate of succeeded actions")


def test_one_look_for_people(house, busy):
    text = house.ctl("top").stdout
    assert busy in text and "working" in text and "running" in text
    assert "\033" not in text


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # the other end is closed


def test_a_terminal_is_left_as_it_was(house, busy):
    terminal, end = pty.openpty()
    child = subprocess.Popen([BIN / "actionist", "top"], env=house.env,
                             stdout=end, stdin=end, stderr=subprocess.STDOUT)
    os.close(end)
    seen = b""
    while seen.count(b"Ctrl-C ends this") < 2:
        seen += read(terminal)
    child.send_signal(signal.SIGINT)
    while piece := read(terminal):
        seen += piece
    os.close(terminal)
    assert child.wait(60) == 0
    assert busy.encode() in seen
    assert seen.endswith(b"\033[?25h")
