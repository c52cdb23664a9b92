# SPDX-License-Identifier: Apache-2.0
"""GET /v1/actions/{id}: states, outcomes, waiting for one, and the drain.

No worker runs; the tests write its rows, so each state is there for sure.
"""

import concurrent.futures
import json
import socket
import time
import uuid

import pytest

from lib.api import Api, add_connector, check_problem, echo_action, new_key
from lib.wait import wait_for


@pytest.fixture(scope="module")
def door(fleets):
    made = fleets(workers=0, schedulers=0)
    add_connector(made, "echo", {"post": echo_action()})
    return made


@pytest.fixture
def api(door, tenant):
    made = Api(door.url(), new_key(door, tenant)[1])
    yield made
    made.close()


def accepted(api, key=None):
    """The id of a new action."""
    answer = api.post({"connector": "echo", "action": "post", "payload": {},
                       "idempotency_key": key or f"k-{uuid.uuid4()}"})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def claim(door, tenant, action_id, state=1, calls=0):
    door.sql(
        "with a as (insert into action (id, window_no, tenant, connector,"
        "  action, fingerprint, manifest, source, effect, request)"
        " select id, 1, %s, 'echo', 'post', fingerprint, sha256(''), 'test',"
        "  1, '{}' from reservation where id = %s"
        " returning id, window_no, tenant)"
        " insert into live (id, window_no, tenant, attempt_no, state, effect,"
        "  calls) select id, window_no, tenant, 1, %s, 1, %s from a",
        (tenant, action_id, state, calls))


def postpone(door, action_id, reason=1):
    door.sql(
        "with l as (delete from live where id = %s returning *)"
        " insert into waiting (id, window_no, tenant, attempt_no, reason, due,"
        "  effect, calls) select id, window_no, tenant, attempt_no, %s,"
        " '2030-01-01T00:00:00Z', effect, 1 from l", (action_id, reason))


def finish(door, action_ids, result=None):
    """Settles live actions in one commit; returns their documents."""
    bodies = [json.dumps({"id": action_id, "status": "succeeded",
                          "result": result}) for action_id in action_ids]
    door.sql(
        "with l as (delete from live where id = any(%s::uuid[]) returning *)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        "  calls, body) select l.id, l.window_no, l.tenant, 1, 1, 1,"
        "  convert_to(b.body, 'UTF8') from l join unnest(%s::uuid[],"
        "  %s::text[]) as b (id, body) on b.id = l.id",
        (action_ids, action_ids, bodies))
    return bodies


def test_each_state_is_told(door, api, tenant):
    action_id = accepted(api)
    base = {"id": action_id, "tenant": tenant}
    known = {**base, "connector": "echo", "action": "post"}
    assert api.get(action_id).json() == {
        **base, "state": "accepted", "attempts": 0}
    claim(door, tenant, action_id)
    assert api.get(action_id).json() == {
        **known, "state": "ready", "attempts": 0}
    door.sql("update live set state = 2 where id = %s", (action_id,))
    assert api.get(action_id).json() == {
        **known, "state": "begun", "attempts": 1}
    postpone(door, action_id)
    waiting = api.get(action_id).json()
    assert waiting == {
        **known, "state": "waiting", "reason": "retry",
        "due": "2030-01-01T00:00:00.000000Z", "attempts": 1}


def test_outcome_is_the_document_as_stored(door, api, tenant):
    action_id = accepted(api)
    claim(door, tenant, action_id)
    (body,) = finish(door, [action_id], {"n": 1.10})
    answer = api.get(action_id)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == body
    assert api.get(action_id, wait="30s").text == body


def test_others_and_unknown_ids_are_404(door, api, tenant):
    reserved, claimed, done = accepted(api), accepted(api), accepted(api)
    claim(door, tenant, claimed)
    claim(door, tenant, done)
    finish(door, [done])
    other = Api(door.url(), new_key(door, f"t-{uuid.uuid4().hex[:8]}")[1])
    for action_id in (reserved, claimed, done):
        assert api.get(action_id).status_code == 200
        check_problem(other.get(action_id), 404, "NOT_FOUND")
        check_problem(other.get(action_id, wait="30s"), 404, "NOT_FOUND")
    for action_id in (uuid.uuid4(), "x", "1" * 36, f"{reserved}0", "%00"):
        assert api.get(action_id).status_code in (400, 404)
    check_problem(api.get(uuid.uuid4()), 404, "NOT_FOUND")


def test_wait_must_be_a_short_time(api):
    action_id = accepted(api)
    for wait in ("", "x", "-1s", "61s", "5m", "1.5s"):
        check_problem(api.get(action_id, wait=wait), 400, "INVALID_MEMBER")
    for wait in ("0", "1ms", "0s"):
        assert api.get(action_id, wait=wait).json()["state"] == "accepted"


def test_wait_ends_with_the_state_of_the_moment(door, api, tenant):
    action_id = accepted(api)
    claim(door, tenant, action_id)
    began = time.monotonic()
    answer = api.get(action_id, wait="300ms")
    assert time.monotonic() - began >= 0.3
    assert (answer.status_code, answer.json()["state"]) == (200, "ready")


def waiters(door):
    text = Api(door.url()).client.get("/metrics").text
    return int(float(text.partition("\nactionist_producer_waiters ")[2]
                     .partition("\n")[0] or 0))


def test_all_waiters_get_their_outcome(door, api, tenant):
    ids = [accepted(api) for _ in range(20)]
    for action_id in ids:
        claim(door, tenant, action_id)
    key = new_key(door, tenant)[1]
    with concurrent.futures.ThreadPoolExecutor(len(ids)) as pool:
        found = [pool.submit(Api(door.url(), key).get, action_id, "55s")
                 for action_id in ids]
        wait_for(lambda: waiters(door) == len(ids), "all wait")
        bodies = finish(door, ids)
        assert [answer.result().text for answer in found] == bodies


def test_client_that_goes_is_forgotten(door, api):
    action_id = accepted(api)
    with open_waiter(door, api, action_id):
        wait_for(lambda: waiters(door) == 1, "one waits")
    wait_for(lambda: waiters(door) == 0, "nobody waits")


def open_waiter(door, api, action_id):
    """A connection that waits for a minute."""
    host, _, port = door.url().removeprefix("http://").partition(":")
    sock = socket.create_connection((host, int(port)), timeout=60)
    key = api.client.headers["authorization"]
    sock.sendall(f"GET /v1/actions/{action_id}?wait=60s HTTP/1.1\r\n"
                 f"Host: x\r\nAuthorization: {key}\r\n\r\n".encode())
    return sock


def test_drain_answers_who_waits_and_ends(door, api, tenant):
    program = door.add("producer")
    url = door.wait_ready(program)
    action_id = accepted(api)
    second = Api(url, new_key(door, tenant)[1])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(second.get, action_id, "60s")
        wait_for(lambda: "actionist_producer_waiters 1" in
                 Api(url).client.get("/metrics").text, "it waits")
        assert program.terminate() == 0
        assert found.result().json()["state"] == "accepted"
