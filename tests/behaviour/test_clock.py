# SPDX-License-Identifier: Apache-2.0
"""Steps of the database's clock, the only one that statements know. A test
moves fleet_now(), as nobody else can; so this fleet is this file's alone."""

import pytest

from lib import flow
from lib.api import add_connector
from lib.wait import wait_for

EFFECTS = ("natural", "keyed", "unsafe")
ASKED_S = 5


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(producers=0, schedulers=2, settings={"worker": {
        "egress.private_allow": double.address}})
    add_connector(made, "clock", {effect: flow.action(effect)
                                  for effect in EFFECTS}, double.url)
    return made


def step_clock(house, by):
    """From now on the clock is that far from the real one."""
    house.sql("create or replace function fleet_now() returns timestamptz"
              " language sql stable parallel safe"
              f" return statement_timestamp() + interval '{by}'")


def make(tenant, kind, count=4):
    return [flow.request(tenant, "clock", effect, f"{kind}-{effect}-{number}")
            for effect in EFFECTS for number in range(count)]


def wait_waiting(house, double, tenant, name):
    """Until each of a kind has been refused, and some at least wait."""
    def probe():
        seen = [one for one in double.requests(f"/{tenant}/{name}-*")
                if one["answered_us"]]
        return len(seen) >= 12 and house.sql(
            "select 1 from waiting where tenant = %s", (tenant,))

    wait_for(probe, f"{name}: refused and waiting", 60)


@pytest.mark.case("SCH-06")
def test_sch_06_clock_steps_neither_stop_nor_double_work(
        house, double, tenant):
    """What waits is moved with the clock: it comes no earlier than was asked
    after a step ahead, and not an hour later after a step back. The provider's
    clock is not the database's."""
    slow = {"delay_ms": 4000}
    refused = {"status": 429, "headers": [["Retry-After", str(ASKED_S)]]}
    double.scripts([
        {"path": f"/{tenant}/running-*", "steps": [slow],
         "dedup_header": "Idempotency-Key"},
        {"path": f"/{tenant}/waiting-*", "steps": [refused, {}]}])
    flow.publish(house, make(tenant, "running"), spread=True)
    wait_for(lambda: len(double.requests(f"/{tenant}/running-*")) >= 12,
             "all run", 60)
    total = 12
    for number, by in enumerate(("-1 hour", "1 hour")):
        flow.publish(house, make(tenant, f"waiting-{number}"), spread=True)
        wait_waiting(house, double, tenant, f"waiting-{number}")
        step_clock(house, by)
        flow.publish(house, make(tenant, f"after-{number}"), spread=True)
        total += 24
        flow.wait_ended(house, tenant, total)
    for name, out in flow.wait_ended(house, tenant, total).items():
        check_end(double, f"/{tenant}/{name}", out)
    assert house.sql("select moves >= 2 from fleet_clock") == [(True,)]
    said = "".join(house[f"scheduler-{number}"].text() for number in range(2))
    assert said.count("clock_stepped") >= 2


def check_end(double, path, out):
    """A worker that stalls just then may be taken for dead, and its work be
    run again; what was declared holds all the same."""
    calls = double.requests(path)
    if out["action"] == "unsafe":
        assert out["status"] in ("succeeded", "indeterminate"), out
        assert len(calls) == (2 if "waiting" in path else 1), out
    else:
        assert out["status"] == "succeeded", out
    if out["action"] == "keyed" and "running" in path:
        assert double.applied(path, out["id"]) == 1, out
    if "waiting" in path:
        assert out["attempts"] >= 2, out
        first, *later = calls
        assert all(one["arrival_us"] >= first["answered_us"] + ASKED_S * 10**6
                   for one in later), calls
