# SPDX-License-Identifier: Apache-2.0
"""Replays while schedulers are killed: each action runs again once, each
outcome is sent again once, and who asked need not stay."""

import collections
import json
import signal
import subprocess
import uuid

import pytest

from lib import flow
from lib.api import add_connector
from lib.programs import BIN
from lib.wait import wait_for

CONNECTOR = "again"
ACTIONS = 150


@pytest.fixture(scope="module")
def house(fleets, double):
    """Two schedulers; whoever does not lead waits for its turn."""
    made = fleets(producers=0, schedulers=2, settings={
        "worker": {"egress.private_allow": double.address}})
    add_connector(made, CONNECTOR, {"keyed": flow.action(
        "keyed", "/{{action.tenant}}/{{payload.key}}",
        retry={"max_attempts": 1})},
        base_url=double.url, egress=[double.address])
    return made


@pytest.fixture
def before(house, double, tenant):
    """{key: outcome} of exhausted actions whose next call would succeed."""
    double.scripts([{"path": f"/{tenant}/*",
                     "steps": [{"status": 429}, {}]}])
    flow.publish(house, [flow.request(tenant, CONNECTOR, "keyed", f"k{n}")
                         for n in range(ACTIONS)])
    return flow.wait_ended(house, tenant, ACTIONS)


def show(house, replay):
    return json.loads(house.ctl("replay", "show", replay, "--json").stdout)


def kill_both_in_turn(house, replay, field, steps):
    """kill -9 of each scheduler whenever the replay has come further."""
    for number, count in enumerate(steps):
        wait_for(lambda least=count: show(house, replay)[field] >= least
                 or show(house, replay)["state"] == "done",
                 f"{count} {field}")
        house[f"scheduler-{number % 2}"].restart()


def test_each_runs_again_once_whoever_dies(house, double, tenant, before):
    asked = subprocess.Popen(
        [str(BIN / "actionist"), "replay", "--tenant", tenant, "--status",
         "exhausted", "--rate", "50/s"], env=house.env, cwd=house.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    replay = wait_for(lambda: house.sql(
        "select id::text from replay where tenant = %s", (tenant,)),
        "the replay")[0][0]
    wait_for(lambda: show(house, replay)["replayed"] > 0, "a start")
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 130 and f"replay watch {replay}" in said
    kill_both_in_turn(house, replay, "replayed", (20, 50, 80, 110))
    done = house.ctl("replay", "watch", replay, "--json", timeout=120)
    assert json.loads(done.stdout)["outcomes"] == {
        "total": ACTIONS, "succeeded": ACTIONS}
    again = collections.Counter(
        out["replay_of"] for out in house.outcomes(tenant)
        if out["replay_of"])
    assert again == {out["id"]: 1 for out in before.values()}
    calls = flow.requests_by_path(double, f"/{tenant}/")
    assert {len(one) for one in calls.values()} == {2}
    verdict = json.loads(house.ctl("verify", "--full", "--json").stdout)
    assert verdict["violations"] == 0, verdict
    assert house.sql("select count(*) from replay_open") == [(0,)]


def test_outcomes_are_sent_again_once_and_in_order(house, tenant, before):
    topic = "lost-" + uuid.uuid4().hex[:8]
    house.kafka.create_topic(topic)
    words = ("replay", "--tenant", tenant, "--outcomes", "--to",
             house.kafka.prefix + topic)
    counted = json.loads(house.ctl(*words, "--dry-run", "--json").stdout)
    assert counted["planned"] == ACTIONS
    replay = house.ctl(*words, "--rate", "50/s", "--detach").stdout.strip()
    kill_both_in_turn(house, replay, "replayed", (10, 40, 70, 100))
    done = house.ctl("replay", "watch", replay, "--json", timeout=120)
    assert json.loads(done.stdout)["replayed"] == ACTIONS
    bodies = [bytes(row[0]) for row in house.sql(
        "select body from outcome where tenant = %s order by seq", (tenant,))]
    records = house.kafka.read_all(topic)
    assert [record.value for record in records] == bodies
    assert {record.key for record in records} == {tenant.encode()}
    assert [record.header("id") for record in records] == [
        json.loads(body)["id"] for body in bodies]


def test_topics_of_the_fleet_are_refused(house, tenant):
    done = house.ctl("replay", "--tenant", tenant, "--outcomes", "--to",
                     house.kafka.prefix + "actions", check=False)
    assert done.returncode == 2 and "the fleet's own" in done.stderr
