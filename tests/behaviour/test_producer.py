# SPDX-License-Identifier: Apache-2.0
"""POST /v1/actions: what is taken, what is refused, and what is on Kafka.

No worker runs, so a record stays where the producer put it.
"""

import base64
import json
import pathlib
import uuid

import httpx
import pytest

from lib.api import (Api, add_connector, check_problem, echo_action, new_key)
from lib.wait import wait_for

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "cases" / "fixtures"
VECTORS = json.loads((FIXTURES / "json_edge.json").read_text())["vectors"]
MIB = 1 << 20


@pytest.fixture(scope="module")
def door(fleets):
    """A producer and the connectors of the cases."""
    made = fleets(workers=0, schedulers=0)
    add_connector(made, "echo", {
        "post": echo_action(), "put": echo_action(),
        "strict": echo_action(payload={
            "type": "object", "required": ["amount"],
            "properties": {"amount": {"type": "integer", "minimum": 1}}}),
        "path": {**echo_action(), "request": {
            "method": "GET", "path": "/v1/{{payload.order}}"}}})
    add_connector(made, "echo2", {"post": echo_action()})
    return made


@pytest.fixture
def api(door, tenant):
    made = Api(door.url(), new_key(door, tenant)[1])
    yield made
    made.close()


def request(key=None, payload=None, **more):
    return {"connector": "echo", "action": "post",
            "idempotency_key": key or f"k-{uuid.uuid4()}",
            "payload": {} if payload is None else payload, **more}


def on_kafka(door, tenant):
    """The values on `actions` of one tenant."""
    return [record for record in door.kafka.read_all("actions")
            if record.key == tenant.encode()]


# -- taken ----------------------------------------------------------------------


def test_accepted_is_on_kafka_before_the_answer(door, api, tenant):
    body = '{ "connector":"echo","action":"post","payload":{"x":1.10,"y":"é"} }'
    answer = api.post(body.encode(), Idempotency_Key="order-1")
    assert answer.status_code == 202
    said = answer.json()
    assert said == {"id": said["id"], "status": "accepted"}
    assert answer.headers["location"] == f"/v1/actions/{said['id']}"
    (record,) = on_kafka(door, tenant)
    sent = record.json()
    assert (sent["spec"], sent["tenant"]) == ("actionist/1", tenant)
    assert sent["idempotency_key"] == "order-1"
    assert '"payload":{"x":1.10,"y":"é"}'.encode() in record.value
    assert record.header("traceparent").startswith("00-")
    assert api.get(said["id"]).json()["state"] == "accepted"


def test_all_members_pass_unchanged(door, api, tenant):
    body = {**request(), "spec": "actionist/1", "tenant": tenant,
            "not_before": "2030-01-01T00:00:00Z",
            "deadline": "2030-01-02T00:00:00+01:00", "priority": 9,
            "max_attempts": 3, "dry_run": False, "unknown": [1, {"a": None}]}
    text = json.dumps(body)
    assert api.post(text.encode()).status_code == 202
    assert on_kafka(door, tenant)[0].value == text.encode()


def test_key_in_quotes_is_the_same_key(api):
    body = {"connector": "echo", "action": "post", "payload": {}}
    first = api.post(body, Idempotency_Key="order-7")
    second = api.post(body, Idempotency_Key='"order-7"')
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json() == second.json()


def test_ing_01_repeat_has_the_same_id(api):
    body = request("k-ing-01", {"n": 1})
    answers = [api.post(body) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 200, 200]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert answers[1].headers["idempotency-replayed"] == "true"


def test_ing_01_repeat_of_a_claimed_action_is_not_produced(door, api, tenant):
    body = request("claimed", {"n": 1})
    first = api.post(body)
    claim_by_hand(door, tenant, first.json()["id"])
    assert api.post(body).status_code == 200
    assert len(on_kafka(door, tenant)) == 1
    other = api.post({**body, "payload": {"n": 2}})
    check_problem(other, 422, "IDEMPOTENCY_CONFLICT", "/idempotency_key")


def claim_by_hand(door, tenant, action_id):
    """What a worker's claim writes."""
    door.sql(
        "insert into action (id, window_no, tenant, connector, action,"
        " fingerprint, manifest, source, effect, request)"
        " select id, 1, %s, 'echo', 'post', fingerprint, sha256(''), 'test',"
        "  1, '{}' from reservation where id = %s", (tenant, action_id))


def test_ing_02_other_payload_is_a_conflict(door, api, tenant):
    first = api.post(request("k-ing-02", {"amount": 100}))
    second = api.post(request("k-ing-02", {"amount": 101}))
    assert first.status_code == 202
    problem = check_problem(
        second, 422, "IDEMPOTENCY_CONFLICT", "/idempotency_key")
    assert "100" not in json.dumps(problem)
    (record,) = on_kafka(door, tenant)
    assert record.json()["payload"] == {"amount": 100}


def test_ing_07_key_belongs_to_connector_and_content(api):
    first = api.post(request("k-ing-07"))
    second = api.post({**request("k-ing-07"), "action": "put"})
    third = api.post({**request("k-ing-07"), "connector": "echo2"})
    assert first.status_code == 202
    check_problem(second, 422, "IDEMPOTENCY_CONFLICT", "/idempotency_key")
    assert third.status_code == 202
    assert third.json()["id"] != first.json()["id"]


def test_ing_08_member_order_does_not_count(api):
    def post(payload):
        return api.post((
            '{"connector":"echo","action":"post","idempotency_key":"k-ing-08",'
            f'"payload":{payload}}}').encode())
    first = post('{"a":1,"b":2}')
    second = post('{ "b":2, "a":1 }')
    third = post('{"a":1.0,"b":2}')
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]
    check_problem(third, 422, "IDEMPOTENCY_CONFLICT", "/idempotency_key")


def test_ing_10_keys(api):
    for key in ("", "k" * 256, "ké", "ke\u0301", "k ", "k\0", "k\n"):
        answer = api.post({**request(), "idempotency_key": key})
        check_problem(answer, 400, "INVALID_KEY", "/idempotency_key")
    assert api.post(request("k" * 255)).status_code == 202
    one, other = api.post(request("K1")), api.post(request("k1"))
    assert (one.status_code, other.status_code) == (202, 202)
    assert one.json()["id"] != other.json()["id"]


def test_same_key_of_two_tenants_is_two_actions(door, api):
    other = Api(door.url(), new_key(door, f"t-{uuid.uuid4().hex[:8]}")[1])
    one, two = api.post(request("shared")), other.post(request("shared"))
    assert (one.status_code, two.status_code) == (202, 202)
    assert one.json()["id"] != two.json()["id"]


# -- refused: each cell of the table of bad input --------------------------------


BAD = [
    # body or members, status, code, pointer
    (b"", 400, "MALFORMED_JSON", None),
    (b"{", 400, "MALFORMED_JSON", None),
    (b"[]", 400, "MALFORMED_JSON", None),
    (b"{}{}", 400, "MALFORMED_JSON", None),
    (b'{"connector":"\xff"}', 400, "MALFORMED_JSON", None),
    (b'{"connector":"echo"}\0', 400, "MALFORMED_JSON", None),
    (b'{"connector":"echo","connector":"echo"}', 400, "DUPLICATE_MEMBER",
     None),
    (b'{"payload":' + b"[" * 66 + b"]" * 66 + b"}", 400, "TOO_DEEP", None),
    ({"spec": "actionist/2"}, 400, "UNSUPPORTED_SPEC", "/spec"),
    ({"spec": 1}, 400, "UNSUPPORTED_SPEC", "/spec"),
    ({"tenant": 7}, 400, "INVALID_TENANT", "/tenant"),
    ({"tenant": "somebody-else"}, 403, "TENANT_MISMATCH", "/tenant"),
    ({"connector": "Echo"}, 400, "INVALID_CONNECTOR", "/connector"),
    ({"connector": None}, 400, "INVALID_CONNECTOR", "/connector"),
    ({"action": "../etc"}, 400, "INVALID_ACTION", "/action"),
    ({"action": "a" * 64}, 400, "INVALID_ACTION", "/action"),
    ({"connector": "nobody"}, 422, "UNKNOWN_CONNECTOR", "/connector"),
    ({"action": "nothing"}, 422, "UNKNOWN_ACTION", "/action"),
    ({"action": "strict", "payload": []}, 422, "PAYLOAD_INVALID", "/payload"),
    ({"action": "strict"}, 422, "PAYLOAD_INVALID", "/payload/amount"),
    ({"action": "strict", "payload": {"amount": 0}}, 422, "PAYLOAD_INVALID",
     "/payload/amount"),
    ({"action": "strict", "payload": {"amount": "1"}}, 422, "PAYLOAD_INVALID",
     "/payload/amount"),
    ({"action": "path", "payload": {}}, 422, "TEMPLATE_INVALID",
     "/payload/order"),
    ({"action": "path", "payload": {"order": ".."}}, 422, "TEMPLATE_INVALID",
     "/payload/order"),
    ({"idempotency_key": 7}, 400, "INVALID_KEY", "/idempotency_key"),
    ({"not_before": "2026-12-01"}, 400, "INVALID_TIME", "/not_before"),
    ({"not_before": "2026-12-01T08:00:00"}, 400, "INVALID_TIME",
     "/not_before"),
    ({"deadline": 5}, 400, "INVALID_TIME", "/deadline"),
    ({"not_before": "2030-01-02T00:00:00Z",
      "deadline": "2030-01-01T00:00:00Z"}, 400, "INVALID_TIME", "/deadline"),
    ({"priority": 10}, 400, "INVALID_MEMBER", "/priority"),
    ({"priority": "5"}, 400, "INVALID_MEMBER", "/priority"),
    ({"max_attempts": 0}, 400, "INVALID_MEMBER", "/max_attempts"),
    ({"dry_run": 1}, 400, "INVALID_MEMBER", "/dry_run"),
    ({"dry_run": True}, 422, "UNSUPPORTED", "/dry_run"),
]


def test_bad_input_is_a_problem_and_not_on_kafka(door, api, tenant):
    for body, status, code, pointer in BAD:
        if isinstance(body, dict):
            body = {**request(), **body}
        check_problem(api.post(body), status, code, pointer)
    assert not on_kafka(door, tenant)
    assert not door.sql(
        "select 1 from reservation where tenant = %s", (tenant,))


def test_key_is_required_and_must_be_one(api):
    body = {"connector": "echo", "action": "post"}
    check_problem(api.post(body), 400, "MISSING_KEY", "/idempotency_key")
    check_problem(api.post(body, Idempotency_Key=""), 400, "INVALID_KEY")
    check_problem(api.post(body, Idempotency_Key="a b"), 400, "INVALID_KEY")
    check_problem(api.post(request("a"), Idempotency_Key="b"), 400,
                  "INVALID_KEY", "/idempotency_key")
    twice = api.client.post("/v1/actions", json=body, headers=[
        ("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    check_problem(twice, 400, "INVALID_KEY")


def test_only_plain_json_is_taken(api):
    body = request()
    for wrong in ({"Content_Type": "text/plain"},
                  {"Content_Type": "application/json; charset=latin1"},
                  {"Content_Encoding": "gzip"}):
        check_problem(api.post(body, **wrong), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_ing_17_size_limit(api):
    head = b'{"connector":"echo","action":"post","idempotency_key":"big",'
    room = MIB - len(head) - len(b'"payload":""}')
    exact = head + b'"payload":"' + b"x" * room + b'"}'
    assert len(exact) == MIB
    assert api.post(exact).status_code == 202
    assert api.post(exact + b" ").status_code == 413
    chunked = api.client.post(
        "/v1/actions", content=iter([exact, b" "]))
    assert chunked.status_code == 413


def test_unknown_paths_and_methods(api):
    check_problem(api.client.get("/nothing"), 404, "NOT_FOUND")
    check_problem(api.client.get("/v1/actions/a/b"), 404, "NOT_FOUND")
    answer = api.client.put("/v1/actions")
    check_problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "POST"
    check_problem(api.client.get("/v1/actions"), 405, "METHOD_NOT_ALLOWED")


# -- the vectors of json_edge.json ------------------------------------------------


ENVELOPE = (b'{"connector":"echo","action":"post",'
            b'"idempotency_key":"generated","payload":')
GENERATED = {
    "top-01": b"",
    "deep-03": ENVELOPE + b'{"a":' * 100000 + b"1" + b"}" * 100001,
    "deep-04": ENVELOPE + b"[" * 100000,
    "size-01": ENVELOPE + b'{"s":"' + b"a" * MIB + b'"}}',
}


def vector_body(vector):
    if vector["id"] in GENERATED:
        return GENERATED[vector["id"]]
    return base64.b64decode(vector["body_base64"])


def test_jsn_vectors(door):
    api = Api(door.url(), new_key(door, "t1")[1])
    expected = []
    for vector in VECTORS:
        answer = api.post(vector_body(vector))
        status = answer.status_code
        if vector["expected"] == "reject":
            assert status == vector["http_status"], (vector["id"], answer.text)
            assert answer.json()["code"], vector["id"]
            continue
        assert status in (200, 202), (vector["id"], answer.text)
        if "forwarded_base64" in vector:
            expected.append((vector["id"], b'"payload":' + base64.b64decode(
                vector["forwarded_base64"])))
    values = [record.value for record in on_kafka(door, "t1")]
    for name, payload in expected:
        assert any(payload in value for value in values), name
    assert door["producer-0"].is_running()


# -- trace headers ------------------------------------------------------------------


def test_obs_03_trace_headers(door, api, tenant):
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    good = f"00-{trace}-{span}-01"
    cases = [
        ("zero-trace", [f"00-{'0' * 32}-{span}-01"], None),
        ("zero-span", [f"00-{trace}-{'0' * 16}-01"], None),
        ("version-ff", [f"ff-{trace}-{span}-01"], None),
        ("upper", [f"00-{trace.upper()}-{span}-01"], None),
        ("later", [f"01-{trace}-{span}-01-more"], good),
        ("twice", [good, good], None),
        ("good", [good], good),
    ]
    for key, headers, _ in cases:
        answer = api.client.post(
            "/v1/actions", json=request(key),
            headers=[("traceparent", value) for value in headers]
            + [("tracestate", "vendor=1")])
        assert answer.status_code == 202, key
    long = api.client.post("/v1/actions", json=request("long"), headers={
        "traceparent": good, "tracestate": "a=" + "x" * 20000})
    assert long.status_code == 202
    found = {record.json()["idempotency_key"]: record
             for record in on_kafka(door, tenant)}
    for key, _, expected in cases:
        names = [name for name, _ in found[key].headers]
        assert names.count("traceparent") == 1
        passed = found[key].header("traceparent")
        assert passed == expected or expected is None and trace not in passed
        state = found[key].header("tracestate")
        assert state == (None if expected is None else "vendor=1")
    assert found["long"].header("traceparent") == good
    assert found["long"].header("tracestate") is None


# -- who may call --------------------------------------------------------------------


def test_no_key_is_401(door):
    for headers in ({}, {"Authorization": "Bearer ak_nobody"},
                    {"Authorization": "Basic YTpi"}, {"X-API-Key": "x"},
                    {"Authorization": "Bearer"}):
        for call in (httpx.post(f"{door.url()}/v1/actions", headers=headers,
                                json=request(), timeout=60),
                     httpx.get(f"{door.url()}/v1/actions/{uuid.uuid4()}",
                               headers=headers, timeout=60)):
            check_problem(call, 401, "UNAUTHORIZED")
            assert call.headers["www-authenticate"].startswith("Bearer")


def test_new_key_works_at_once_and_a_revoked_one_stops(door, tenant):
    key_id, key = new_key(door, tenant)
    api = Api(door.url(), key)
    assert api.post(request()).status_code == 202
    plain = httpx.post(f"{door.url()}/v1/actions", json=request(),
                       headers={"X-API-Key": key}, timeout=60)
    assert plain.status_code == 202
    door.ctl("key", "revoke", key_id)
    wait_for(lambda: api.post(request()).status_code == 401,
             "the revoked key is refused", every=0.1)
    check_problem(api.post(request()), 401, "UNAUTHORIZED")


def test_new_connector_and_new_version_count_at_once(door, api):
    name = f"c-{uuid.uuid4().hex[:8]}"
    body = {**request(), "connector": name}
    check_problem(api.post(body), 422, "UNKNOWN_CONNECTOR", "/connector")
    add_connector(door, name, {"post": echo_action()})
    assert api.post(body).status_code == 202
    later = {**request(), "connector": name, "action": "later"}
    check_problem(api.post(later), 422, "UNKNOWN_ACTION", "/action")
    add_connector(door, name, {"later": echo_action()}, version="1.1.0")
    assert api.post(later).status_code == 202


# -- health and metrics -----------------------------------------------------------------


def series(text):
    return {line.split(" ")[0] for line in text.splitlines()
            if line and not line.startswith("#")}


def test_obs_01_series_do_not_grow_with_input(door, api):
    url = door.url()
    before = series(httpx.get(f"{url}/metrics", timeout=60).text)
    for number in range(100):
        api.client.get(f"/path-{number}")
        api.client.request(f"FOO{number}", "/v1/actions")
        api.post({**request(), "connector": f"c{number}"})
        api.post({**request(), "action": f"a{number}"})
    after = series(httpx.get(f"{url}/metrics", timeout=60).text)
    assert len(after) - len(before) <= 50
    assert not any("FOO" in name or "path-" in name for name in after)


def test_health(door):
    url = door.url()
    assert httpx.get(f"{url}/healthz", timeout=60).json() == {"status": "ok"}
    assert httpx.get(f"{url}/readyz", timeout=60).json() == {
        "status": "ready"}
    metrics = httpx.get(f"{url}/metrics", timeout=60)
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4"
    assert "actionist_producer_ready 1" in metrics.text
