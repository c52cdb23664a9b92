# SPDX-License-Identifier: Apache-2.0
"""Steps of the database's clock, the only one that statements know. A test
moves fleet_now(), as nobody else can; so this fleet is this file's alone."""

import pytest

from lib import flow
from lib.api import add_connector
from lib.wait import wait_for

EFFECTS = ("natural", "keyed", "unsafe")


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(producers=0, settings={"worker": {
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


@pytest.mark.case("SCH-06")
def test_sch_06_clock_steps_neither_stop_nor_double_work(
        house, double, tenant):
    """What waits follows the clock: it comes when its time has come, which
    is later after a step back and at once after a step ahead."""
    slow = {"delay_ms": 4000}
    refused = {"status": 429, "headers": [["Retry-After", "600"]]}
    double.scripts([
        {"path": f"/{tenant}/running-*", "steps": [slow],
         "dedup_header": "Idempotency-Key"},
        {"path": f"/{tenant}/waiting-*", "steps": [refused, {}]}])
    flow.publish(house, make(tenant, "running") + make(tenant, "waiting"),
                 spread=True)
    wait_for(lambda: len(double.requests(f"/{tenant}/running-*")) >= 12 and
             house.sql("select count(*) from waiting where tenant = %s",
                       (tenant,)) == [(12,)], "all run or wait", 60)
    total = 24
    for number, by in enumerate(("-1 hour", "1 hour")):
        step_clock(house, by)
        flow.publish(house, make(tenant, f"after-{number}"), spread=True)
        total += 12
        wait_for(lambda at=number: house.sql(
            "select count(*) from outcome o join action a using (id)"
            " where o.tenant = %s and convert_from(a.request, 'UTF8')::jsonb"
            " ->> 'idempotency_key' like %s",
            (tenant, f"after-{at}-%")) == [(12,)], f"work after {by}", 60)
    outcomes = flow.wait_ended(house, tenant, total)
    for name, out in outcomes.items():
        check_end(double, f"/{tenant}/{name}", out)


def check_end(double, path, out):
    """A worker that stalls just then may be taken for dead, and its work be
    run again; what was declared holds all the same."""
    calls = len(double.requests(path))
    if out["action"] == "unsafe":
        assert out["status"] in ("succeeded", "indeterminate"), out
        assert calls == (2 if "waiting" in path else 1), out
    else:
        assert out["status"] == "succeeded", out
    if out["action"] == "keyed" and "running" in path:
        assert double.applied(path, out["id"]) == 1, out
    if "waiting" in path:
        assert out["attempts"] >= 2, out
