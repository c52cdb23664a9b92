# SPDX-License-Identifier: Apache-2.0
"""Cancel, by command and by HTTP, in every state an action can be in: one
winner, one outcome, and no call after the cancel won."""

import json
import uuid

import pytest

from lib.api import Api, add_connector, check_problem, new_key
from lib.wait import wait_for

KEYED = {"idempotency": "keyed",
         "key": {"header": "Idempotency-Key", "retention_s": 86400}}
# While one call is held back, the next action of its tenant has to queue.
SLOW_MS = 3000


def call(effect, **more):
    return {**effect, "timeout_ms": 20000,
            "request": {"method": "POST", "path": "/{{payload.path}}",
                        "json": "{{payload}}"}, **more}


@pytest.fixture(scope="module")
def house(fleets, double):
    """A fleet whose worker runs one action of a tenant at a time."""
    made = fleets(settings={"worker": {
        "egress.private_allow": double.address,
        "worker.tenant_concurrency": 1}})
    add_connector(made, "pay", {
        "keyed": call(KEYED), "unsafe": call({"idempotency": "unsafe"})},
        base_url=double.url, egress=[double.address])
    return made


class Case:
    """One tenant's actions on paths of its own."""

    def __init__(self, house, double, tenant):
        self.house = house
        self.double = double
        self.tenant = tenant

    def script(self, name, *steps):
        self.double.script(f"/{self.tenant}-{name}", *steps)

    def publish(self, name, action="keyed", **more):
        """Returns the id, once the action is claimed."""
        key = uuid.uuid4().hex
        self.house.publish({
            "spec": "actionist/1", "tenant": self.tenant, "connector": "pay",
            "action": action, "idempotency_key": key,
            "payload": {"path": f"{self.tenant}-{name}"}, **more})
        return wait_for(lambda: self.find(key), f"claim of {name}")

    def find(self, key):
        rows = self.house.sql(
            "select id from action where tenant = %s and position(%s in"
            " convert_from(request, 'UTF8')) > 0", (self.tenant, key))
        return str(rows[0][0]) if rows else None

    def wait_called(self, name):
        wait_for(lambda: self.double.requests(f"/{self.tenant}-{name}"),
                 f"a call of {name}")

    def wait_waiting(self, action_id):
        wait_for(lambda: self.house.sql(
            "select 1 from waiting where id = %s", (action_id,)),
            f"{action_id} waiting")

    def cancel(self, action_id, check=True):
        return self.house.ctl("cancel", action_id, "--json", check=check)

    def outcome(self, action_id):
        """The only one it ever gets."""
        def probe():
            return [out for out in self.house.outcomes(self.tenant)
                    if out["id"] == action_id]

        found = wait_for(probe, f"outcome of {action_id}")
        assert len(found) == 1
        return found[0]


@pytest.fixture
def case(house, double, tenant):
    return Case(house, double, tenant)


@pytest.fixture
def api(house, tenant):
    made = Api(house.url(), new_key(house, tenant)[1])
    yield made
    made.close()


def post_cancel(api, action_id):
    return api.client.post(f"/v1/actions/{action_id}/cancel")


# -- before it starts ------------------------------------------------------------


@pytest.mark.parametrize("action", ["keyed", "unsafe"])
def test_queued_action_ends_without_a_call(case, action):
    case.script("first", {"delay_ms": SLOW_MS})
    case.script("second")
    first = case.publish("first")
    case.wait_called("first")
    second = case.publish("second", action)
    said = json.loads(case.cancel(second).stdout)
    assert said == {"id": second, "state": "cancelling"}
    ended = case.outcome(second)
    assert (ended["status"], ended["attempts"]) == ("cancelled", 0)
    assert ended["error"]["code"] == "CANCELLED"
    assert case.outcome(first)["status"] == "succeeded"
    assert not case.double.requests(f"/{case.tenant}-second")


def test_action_for_later_ends_without_a_call(case):
    later = case.publish("later", not_before="2030-01-01T00:00:00Z")
    case.wait_waiting(later)
    case.cancel(later)
    ended = case.outcome(later)
    assert (ended["status"], ended["attempts"]) == ("cancelled", 0)


# -- between two calls -------------------------------------------------------------


def test_retry_that_waits_ends_as_cancelled(case):
    case.script("busy", {"status": 503, "headers": [["Retry-After", "3600"]]})
    busy = case.publish("busy")
    case.wait_waiting(busy)
    case.cancel(busy)
    ended = case.outcome(busy)
    assert (ended["status"], ended["attempts"]) == ("cancelled", 1)
    assert len(case.double.requests(f"/{case.tenant}-busy")) == 1


def test_retry_of_an_unknown_effect_ends_as_indeterminate(case):
    case.script("odd", {"status": 500})
    odd = case.publish("odd")
    # Backing off from 1 s on, it is caught waiting or live: both are one case.
    case.wait_called("odd")
    case.cancel(odd)
    ended = case.outcome(odd)
    assert ended["status"] == "indeterminate"
    assert ended["error"]["code"] == "CANCELLED"


# -- while it runs ------------------------------------------------------------------


@pytest.mark.parametrize("answer,status", [
    ({}, "succeeded"),
    ({"status": 429}, "cancelled"),
    ({"status": 500}, "indeterminate"),
    ({"status": 400}, "failed"),
])
def test_the_result_of_a_running_call_decides(case, answer, status):
    case.script("slow", {**answer, "delay_ms": 1500})
    slow = case.publish("slow")
    case.wait_called("slow")
    case.cancel(slow)
    assert case.outcome(slow)["status"] == status
    assert len(case.double.requests(f"/{case.tenant}-slow")) == 1


# -- once it has ended ----------------------------------------------------------------


def test_command_tells_what_cannot_be_cancelled(case):
    case.script("quick")
    quick = case.publish("quick")
    assert case.outcome(quick)["status"] == "succeeded"
    refused = case.cancel(quick, check=False)
    assert refused.returncode == 5 and "succeeded" in refused.stderr
    assert case.cancel(uuid.uuid4(), check=False).returncode == 3
    other = case.house.ctl("cancel", quick, "--tenant", "other", check=False)
    assert other.returncode == 3
    assert case.house.ctl("cancel", check=False).returncode == 2
    assert case.house.ctl("cancel", "nonsense", check=False).returncode == 2


def test_cancelling_twice_is_fine(case):
    later = case.publish("later", not_before="2030-01-01T00:00:00Z")
    case.wait_waiting(later)
    case.cancel(later)
    case.cancel(later)
    case.outcome(later)
    assert json.loads(case.cancel(later).stdout)["state"] == "cancelled"
    notes = case.house.sql(
        "select count(*) from ledger where id = %s and kind = 8", (later,))
    assert notes == [(1,)]


# -- over HTTP ----------------------------------------------------------------------------


def test_http_answers_by_state(case, api, house):
    later = case.publish("later", not_before="2030-01-01T00:00:00Z")
    case.wait_waiting(later)
    stranger = Api(house.url(), new_key(house, "stranger")[1])
    check_problem(post_cancel(stranger, later), 404, "NOT_FOUND")
    stranger.close()
    first = post_cancel(api, later)
    assert first.status_code == 202
    assert first.json() == {
        "id": later, "tenant": case.tenant, "state": "cancelling"}
    assert case.outcome(later)["status"] == "cancelled"
    again = post_cancel(api, later)
    assert (again.status_code, again.json()["state"]) == (200, "cancelled")
    case.script("quick")
    quick = case.publish("quick")
    case.outcome(quick)
    check_problem(post_cancel(api, quick), 409, "ALREADY_FINISHED")
    check_problem(post_cancel(api, uuid.uuid4()), 404, "NOT_FOUND")
    check_problem(post_cancel(api, "nonsense"), 404, "NOT_FOUND")
    assert api.client.get(f"/v1/actions/{quick}/cancel").status_code == 405


# -- many -----------------------------------------------------------------------------------


def test_all_of_a_tenant(case):
    ids = {case.publish("later", not_before="2030-01-01T00:00:00Z")
           for _ in range(3)}
    for one in ids:
        case.wait_waiting(one)
    planned = case.house.ctl(
        "cancel", "--tenant", case.tenant, "--dry-run", "--json").stdout
    assert {json.loads(line)["id"] for line in planned.splitlines()} == ids
    case.house.ctl("cancel", "--tenant", case.tenant, "--connector", "pay")
    assert {case.outcome(one)["status"] for one in ids} == {"cancelled"}


def test_races_have_one_winner(case):
    case.script("race", {"status": 429}, {})
    ids = []
    for number in range(24):
        ids.append(case.publish("race"))
        if number % 2:
            case.cancel(ids[-1], check=False)
    found = wait_for(
        lambda: (lambda outs: outs if len(outs) >= len(ids) else None)(
            case.house.outcomes(case.tenant)), "all outcomes")
    assert sorted(out["id"] for out in found) == sorted(ids)
    assert {out["status"] for out in found} <= {"succeeded", "cancelled"}
    checked = case.house.ctl(
        "verify", "--tenant", case.tenant, "--json", check=False)
    assert checked.returncode == 0, checked.stdout
