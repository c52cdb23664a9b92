# SPDX-License-Identifier: Apache-2.0
"""Pause and resume: what is paused waits where everybody sees it, uses no
attempt, outlives every process, ends at its deadline, and goes on in order."""

import json

import pytest

from lib import flow
from lib.api import add_connector
from lib.wait import wait_for

PAUSED = 5
SLOW_MS = 3000


@pytest.fixture(scope="module")
def house(fleets, double):
    """One action of a tenant at a time, so that an order can be seen."""
    made = fleets(producers=0, settings={"worker": {
        "egress.private_allow": double.address,
        "worker.tenant_concurrency": 1}})
    for name in ("shop", "bank"):
        add_connector(made, name, {
            "one": flow.action(), "two": flow.action()}, double.url)
    return made


def publish(house, tenant, *keys, connector="shop", action="one", **more):
    flow.publish(house, [flow.request(tenant, connector, action, key, **more)
                         for key in keys])


def held(house, tenant):
    """{key: (calls, attempt number)} of what is paused."""
    return {key: rest for key, *rest in house.sql(
        "select convert_from(a.request, 'UTF8')::json ->> 'idempotency_key',"
        " w.calls, w.attempt_no from waiting w join action a using (id)"
        " where w.reason = %s and w.tenant = %s", (PAUSED, tenant))}


def wait_held(house, tenant, *keys):
    return wait_for(
        lambda: held(house, tenant).keys() == set(keys) and held(house, tenant),
        f"{len(keys)} paused actions of {tenant}")


@pytest.fixture
def pause(house):
    """Pauses a scope; what is left of it is lifted at the end."""
    made = []

    def do(*scope):
        house.ctl("pause", *scope, "--reason", "maintenance")
        made.append(scope)

    yield do
    for scope in made:
        house.ctl("resume", *scope, check=False)


# -- the whole way ---------------------------------------------------------------


def test_ops_07_what_is_switched_off_waits_and_goes_on_in_order(
        house, double, tenant, pause):
    old = [f"old-{number}" for number in range(10)]
    new = [f"new-{number:02}" for number in range(30)]
    double.scripts([{"path": f"/{tenant}/old-*", "steps": [
        {"status": 503, "headers": [["Retry-After", "2"]]}, {}]}])
    publish(house, tenant, *old)
    wait_for(lambda: len(double.requests(f"/{tenant}/old-*")) == 10,
             "ten first attempts")
    pause("--tenant", tenant, "--connector", "shop")
    publish(house, tenant, *new)
    rows = wait_held(house, tenant, *old, *new)
    assert {tuple(rows[key]) for key in new} == {(0, 1)}
    assert {rows[key][0] for key in old} == {1}
    wait_for(lambda: flow.is_consumed(house), "all offsets committed")
    assert len(double.requests(f"/{tenant}/*")) == 10
    (told,) = [json.loads(line) for line in house.ctl(
        "pause", "--json").stdout.splitlines()
        if json.loads(line)["tenant"] == tenant]
    assert (told["connector"], told["waiting_count"]) == ("shop", 40)
    assert (told["action"], told["reason"]) == (None, "maintenance")

    house.ctl("resume", "--tenant", tenant, "--connector", "shop")
    ended = flow.wait_ended(house, tenant, 40)
    assert {one["status"] for one in ended.values()} == {"succeeded"}
    assert {ended[key]["attempts"] for key in new} == {1}
    assert {ended[key]["attempts"] for key in old} == {2}
    calls = [one["path"].rpartition("/")[2]
             for one in double.requests(f"/{tenant}/new-*")]
    assert sorted(calls) == new
    # A hint that is late lets a few pass; by and large the order is kept.
    early = [key for key in calls[:15] if key < "new-15"]
    assert len(early) >= 11, calls
    acts = [row[0] for row in house.sql(
        "select convert_from(detail, 'UTF8')::json ->> 'op' from ledger"
        " where tenant = %s and kind = 5 order by at", (tenant,))]
    assert acts == ["pause", "resume"]
    waits = house.sql("select distinct reason from ledger"
                      " where tenant = %s and kind = 7", (tenant,))
    assert waits == [("paused",)]


@pytest.mark.parametrize("scope, stopped", [
    (("--connector", "shop", "--action", "one"), {"shop-one"}),
    (("--connector", "bank"), {"bank-one", "bank-two"}),
    (("--all",), {"shop-one", "shop-two", "bank-one", "bank-two"}),
], ids=lambda value: value[-1] if isinstance(value, tuple) else "")
def test_a_pause_holds_its_scope_and_nothing_else(
        house, tenant, pause, scope, stopped):
    pause(*scope)
    for connector in ("shop", "bank"):
        for action in ("one", "two"):
            publish(house, tenant, f"{connector}-{action}",
                    connector=connector, action=action)
    wait_held(house, tenant, *stopped)
    if len(stopped) < 4:
        flow.wait_ended(house, tenant, 4 - len(stopped))
    house.ctl("resume", *scope)
    flow.wait_ended(house, tenant, 4)


# -- what it does not stop ----------------------------------------------------------


def test_a_running_call_ends_and_the_queue_behind_it_is_held(
        house, double, tenant, pause):
    double.script(f"/{tenant}/slow", {"delay_ms": SLOW_MS})
    publish(house, tenant, "slow")
    wait_for(lambda: double.requests(f"/{tenant}/slow"), "the slow call")
    publish(house, tenant, "behind")
    wait_for(lambda: house.sql("select count(*) from live where tenant = %s",
                               (tenant,)) == [(2,)], "the one behind it")
    pause("--tenant", tenant)
    wait_held(house, tenant, "behind")
    flow.wait_ended(house, tenant, 1)
    assert not double.requests(f"/{tenant}/behind")
    house.ctl("resume", "--tenant", tenant)
    ended = flow.wait_ended(house, tenant, 2)
    assert [one["attempts"] for one in ended.values()] == [1, 1]


def test_deadlines_and_cancels_go_on(house, double, tenant, pause):
    pause("--tenant", tenant)
    publish(house, tenant, "too-late", deadline=house.sql(
        "select to_char((fleet_now() + interval '3 s') at time zone 'UTC',"
        " 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")[0][0])
    publish(house, tenant, "unwanted")
    wait_for(lambda: "unwanted" in held(house, tenant), "the pause")
    (action,) = house.sql(
        "select id::text from waiting where tenant = %s"
        " and deadline is null", (tenant,))[0]
    shown = json.loads(house.ctl("get", action, "--json").stdout)
    assert (shown["state"], shown["reason"]) == ("waiting", "paused")
    house.ctl("cancel", action)
    ended = flow.wait_ended(house, tenant, 2)
    assert ended["too-late"]["status"] == "expired"
    assert ended["unwanted"]["status"] == "cancelled"
    assert not double.requests(f"/{tenant}/*")


# -- what it outlives ------------------------------------------------------------------


def test_a_pause_outlives_every_process(house, double, tenant, pause):
    pause("--tenant", tenant)
    publish(house, tenant, "before")
    wait_held(house, tenant, "before")
    for program in list(house.programs.values()):
        program.kill()
    publish(house, tenant, "between")
    for kind in ("scheduler", "worker"):
        house.wait_ready(house.add(kind))
    publish(house, tenant, "after")
    wait_held(house, tenant, "before", "between", "after")
    assert not double.requests(f"/{tenant}/*")
    house.ctl("resume", "--tenant", tenant)
    flow.wait_ended(house, tenant, 3)


# -- the command -----------------------------------------------------------------------


def test_pausing_twice_is_fine_and_resuming_twice_is_not_found(house, tenant):
    scope = ("--tenant", tenant)
    said = house.ctl("pause", *scope, "--dry-run", "--json")
    assert json.loads(said.stdout)["state"] == "would be paused"
    assert house.ctl("resume", *scope, check=False).returncode == 3
    for state in ("paused", "paused before"):
        said = house.ctl("pause", *scope, "--reason", "why", "--json")
        assert json.loads(said.stdout)["state"] == state
    # Another scope that holds the same is no other name of it.
    assert house.ctl("resume", *scope, "--connector", "shop",
                     check=False).returncode == 3
    assert house.ctl("resume", *scope).returncode == 0
    assert house.ctl("resume", *scope, check=False).returncode == 3


# -- drained workers ---------------------------------------------------------------------


@pytest.fixture
def drained(house):
    """Drains workers; at the end they work again."""
    made = []

    def do(*words, **options):
        made.append(words)
        return house.ctl("drain", *words, "--reason", "new kernel", "--json",
                         **options)

    yield do
    for words in made:
        house.ctl("drain", *words, "--undo", check=False)


def workers(house):
    said = house.ctl("drain", "--json").stdout.splitlines()
    return [(row["worker"], row["state"]) for row in map(json.loads, said)]


def test_drained_workers_finish_give_back_and_come_again(
        house, double, tenant, drained):
    double.script(f"/{tenant}/slow", {"delay_ms": SLOW_MS})
    publish(house, tenant, "slow")
    wait_for(lambda: double.requests(f"/{tenant}/slow"), "the slow call")
    publish(house, tenant, "behind")
    wait_for(lambda: house.sql("select count(*) from live where tenant = %s",
                               (tenant,)) == [(2,)], "the one behind it")
    assert json.loads(drained("--all").stdout) == {
        "worker": "all", "state": "drained"}
    # What ran has ended, what had not begun is nobody's, nothing is taken in.
    assert flow.ended(house, tenant) == 1
    assert house.sql("select owner, state from live where tenant = %s",
                     (tenant,)) == [(None, 1)]
    publish(house, tenant, "after")
    assert workers(house) == [("all", "drained")]
    program = next(one for name, one in house.programs.items()
                   if name.startswith("worker") and one.is_running())
    assert "standing_by" in program.text()
    house.ctl("drain", "--all", "--undo")
    ended = flow.wait_ended(house, tenant, 3)
    assert [one["attempts"] for one in ended.values()] == [1, 1, 1]
    assert program.is_running()
    assert house.ctl("drain", "--all", "--undo", check=False).returncode == 3


def test_one_is_drained_by_its_name_and_still_ends_in_order(
        house, tenant, drained):
    name = f"w-{tenant}"
    other = house.add("worker", **{"worker.name": name})
    house.wait_ready(other)
    assert (name, "working") in workers(house)
    drained(name)
    assert (name, "drained") in workers(house)
    publish(house, tenant, "elsewhere")
    flow.wait_ended(house, tenant, 1)
    assert other.is_running()
    other.terminate()
    assert other.child.returncode == 0
