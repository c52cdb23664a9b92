# SPDX-License-Identifier: Apache-2.0
"""/v1/replays: one tenant's replays over HTTP."""

import concurrent.futures
import uuid

import httpx
import pytest

from lib import flow
from lib.api import add_connector, check_problem, new_key
from lib.wait import wait_for

CONNECTOR = "again"
DOWN = {"status": 429}


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(settings={
        "worker": {"egress.private_allow": double.address}})
    add_connector(made, CONNECTOR, {"keyed": flow.action(
        "keyed", "/{{action.tenant}}/{{payload.key}}",
        retry={"max_attempts": 1})},
        base_url=double.url, egress=[double.address])
    return made


class Caller:
    """One tenant's key, and ended actions of it."""

    def __init__(self, house, double, tenant):
        self.house = house
        self.double = double
        self.tenant = tenant
        self.client = httpx.Client(
            base_url=house.url(), timeout=60, verify=False, headers={
                "Authorization": f"Bearer {new_key(house, tenant)[1]}"})

    def end(self, *keys, steps=(DOWN, {})):
        """{key: id} of actions that have ended."""
        for key in keys:
            self.double.script(f"/{self.tenant}/{key}", *steps)
        flow.publish(self.house, [
            flow.request(self.tenant, CONNECTOR, "keyed", key)
            for key in keys])
        found = flow.wait_ended(self.house, self.tenant, len(keys))
        return {key: out["id"] for key, out in found.items()}

    def ask(self, body, **headers):
        return self.client.post("/v1/replays", json=body, headers=headers)

    def get(self, replay):
        return self.client.get(f"/v1/replays/{replay}").json()

    def wait(self, replay, state="done"):
        def probe():
            said = self.get(replay)
            return said if said["state"] == state else None

        return wait_for(probe, f"{replay} {state}")


@pytest.fixture
def caller(house, double, tenant):
    made = Caller(house, double, tenant)
    yield made
    made.client.close()


def test_asked_for_and_followed(caller):
    caller.end("a", "b")
    body = {"status": ["exhausted", "failed"], "since": "1h"}
    dry = caller.ask({**body, "dry_run": True})
    assert dry.status_code == 202
    said = caller.wait(dry.json()["id"])
    assert (said["planned"], said["replayed"]) == (2, 0)
    asked = caller.ask({**body, "rate": "20/s", "reason": "outage"})
    assert asked.status_code == 202
    replay = asked.json()["id"]
    assert asked.headers["location"] == f"/v1/replays/{replay}"
    said = caller.wait(replay)
    assert said["outcomes"] == {"total": 2, "succeeded": 2}
    assert (said["actor"], said["reason"]) == ("api", "outage")
    listed = caller.client.get("/v1/replays", params={"limit": 1}).json()
    assert [one["id"] for one in listed["replays"]] == [replay]
    rest = caller.client.get("/v1/replays", params={"after": replay}).json()
    assert [one["id"] for one in rest["replays"]] == [dry.json()["id"]]


def test_named_that_cannot_run_are_refused(caller):
    ended = caller.end("a", steps=({}, {}))["a"]
    check_problem(caller.ask({"ids": [ended]}), 409, "REPLAY_REFUSED")
    check_problem(caller.ask({"ids": [str(uuid.uuid4())]}), 404, "NOT_FOUND")
    check_problem(caller.ask({"ids": [ended], "force": True}), 400,
                  "INVALID_MEMBER")
    asked = caller.ask({"ids": [ended], "force": True, "reason": "lost"})
    assert caller.wait(asked.json()["id"])["outcomes"]["succeeded"] == 1


def test_of_two_at_once_one_is_refused(caller):
    ended = caller.end("a", steps=(DOWN, {"delay_ms": 1000}))["a"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: caller.ask({"ids": [ended]}),
                                range(4)))
    codes = sorted(one.status_code for one in answers)
    assert codes == [202, 409, 409, 409]
    replay, = (one.json()["id"] for one in answers if one.status_code == 202)
    caller.wait(replay)
    assert len(caller.double.requests(f"/{caller.tenant}/a")) == 2


def test_a_repeat_by_its_key_is_the_same_replay(caller):
    ended = caller.end("a")["a"]
    first, second = (caller.ask({"ids": [ended]}, **{
        "Idempotency-Key": "once"}) for _ in range(2))
    assert first.json()["id"] == caller.wait(first.json()["id"])["id"]
    assert second.json()["id"] == first.json()["id"]
    assert len(caller.double.requests(f"/{caller.tenant}/a")) == 2


def test_paused_resumed_cancelled(caller):
    caller.end(*(f"k{n}" for n in range(8)))
    replay = caller.ask({"status": "exhausted", "rate": 4}).json()["id"]

    def act(word):
        return caller.client.post(f"/v1/replays/{replay}/{word}")

    wait_for(lambda: caller.get(replay)["replayed"] > 0, "a start")
    assert act("pause").json()["state"] == "paused"
    before = caller.get(replay)["replayed"]
    wait_for(lambda: caller.get(replay)["outcomes"]["total"] == before,
             "ends of what was on its way")
    assert caller.get(replay)["replayed"] == before < 8
    assert act("resume").json()["state"] == "running"
    assert act("cancel").json()["state"] == "cancelled"
    check_problem(act("resume"), 409, "REPLAY_OVER")


def test_another_tenants_replay_is_none(house, double, caller):
    caller.end("a")
    replay = caller.ask({"status": "exhausted"}).json()["id"]
    other = Caller(house, double, "t-" + uuid.uuid4().hex[:12])
    check_problem(other.client.get(f"/v1/replays/{replay}"), 404, "NOT_FOUND")
    check_problem(other.client.post(f"/v1/replays/{replay}/cancel"), 404,
                  "NOT_FOUND")
    assert other.client.get("/v1/replays").json() == {"replays": []}
    check_problem(other.ask({"status": "exhausted",
                             "tenant": caller.tenant}),
                  403, "TENANT_MISMATCH", "/tenant")
    caller.wait(replay)
    other.client.close()


@pytest.mark.parametrize("body, pointer", [
    ({}, None),
    ({"status": "done"}, "/status"),
    ({"status": []}, "/status"),
    ({"status": "exhausted", "state": "failed"}, None),
    ({"status": "exhausted", "rate": 0}, "/rate"),
    ({"status": "exhausted", "limit": "5"}, "/limit"),
    ({"status": "exhausted", "since": "yesterday"}, "/since"),
    ({"status": "exhausted", "connector": "No"}, "/connector"),
    ({"status": "exhausted", "error_code": "NO"}, "/error_code"),
    ({"status": "exhausted", "dry_run": "yes"}, "/dry_run"),
    ({"ids": []}, "/ids"),
    ({"ids": ["x"]}, "/ids"),
    ({"ids": [str(uuid.uuid4())], "status": "failed"}, "/ids"),
])
def test_bad_input_is_named(caller, body, pointer):
    check_problem(caller.ask(body), 400, "INVALID_MEMBER", pointer)


def test_what_is_no_object_is_refused(caller):
    for text in ("[]", "{", ""):
        answer = caller.client.post("/v1/replays", content=text, headers={
            "Content-Type": "application/json"})
        check_problem(answer, 400, "MALFORMED_JSON")
    answer = httpx.get(f"{caller.client.base_url}/v1/replays", verify=False)
    check_problem(answer, 401, "UNAUTHORIZED")
