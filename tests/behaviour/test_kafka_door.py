# SPDX-License-Identifier: Apache-2.0
"""The Kafka door: what is taken, what is refused and how, and that nothing
is lost or done twice on the way in."""

import json
import uuid

import psycopg
import pytest

from lib import flow
from lib.api import add_connector
from lib.wait import stays_true, wait_for

MIB = 1 << 20
ACTIONS = {
    "post": flow.action(path="/{{action.tenant}}/{{action.id}}"),
    "put": flow.action(path="/{{action.tenant}}/{{action.id}}"),
    "strict": flow.action(
        path="/{{action.tenant}}/{{action.id}}",
        payload={"type": "object", "required": ["amount"], "properties": {
            "amount": {"type": "integer", "minimum": 1}}}),
    "path": flow.action(path="/{{action.tenant}}/{{payload.order}}"),
}


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(producers=0, settings={"worker": {
        "egress.private_allow": double.address}})
    add_connector(made, "echo", ACTIONS, double.url)
    return made


def request(tenant, key, **more):
    return {**flow.request(tenant, "echo", "post", key), **more}


def calls(double, tenant):
    """How many calls the provider saw of a tenant."""
    return len(double.requests(f"/{tenant}/*"))


def outcomes(house, tenant, count):
    """All outcomes of a tenant, in order of their publication."""
    wait_for(lambda: flow.ended(house, tenant) >= count,
             f"{count} outcomes in the database", 60)
    found = house.kafka.wait_for_records(
        count, deadline=60,
        where=lambda record: record.key == tenant.encode())
    assert len(found) == count
    return found


def check_quiet(house, tenant, count):
    """The topic is consumed, and a tenant has no more than its outcomes."""
    wait_for(lambda: flow.is_consumed(house), "the topic is consumed", 60,
             every=0.2)
    wait_for(lambda: not house.sql(
        "select 1 from live where tenant = %s", (tenant,)), "nothing live")
    assert len(outcomes(house, tenant, count)) == count
    assert flow.ended(house, tenant) == count


# -- unreadable: a copy on `rejects`, no outcome --------------------------------


def text_of(owner, /, **changed):
    """A request's bytes with members changed, or left out when None."""
    members = {**request(owner, "k"), **changed}
    return json.dumps({name: value for name, value in members.items()
                       if value is not None}).encode()


def unreadable(tenant):
    """name: (record key, value, reason, pointer)"""
    good = text_of(tenant)
    deep = b'{"payload":' + b"[" * 66 + b"]" * 66 + b"}"
    table = {
        "null": (tenant, None, "NULL_VALUE", ""),
        "null-null": (None, None, "NULL_VALUE", ""),
        "empty": (tenant, b"", "MALFORMED_JSON", ""),
        "blank": (tenant, b" \n", "MALFORMED_JSON", ""),
        "brace": (tenant, b"{", "MALFORMED_JSON", ""),
        "bytes-ff": (tenant, b"\xff\xff", "MALFORMED_JSON", ""),
        "array": (tenant, b"[]", "MALFORMED_JSON", ""),
        "text": (tenant, b"hello", "MALFORMED_JSON", ""),
        "two": (tenant, good + good, "MALFORMED_JSON", ""),
        "bad-utf-8": (tenant, good.replace(b"echo", b"ech\xff"),
                      "MALFORMED_JSON", ""),
        "raw-nul": (tenant, good + b"\0", "MALFORMED_JSON", ""),
        "nul-inside": (tenant, good.replace(b"echo", b"ec\0o"),
                       "MALFORMED_JSON", ""),
        "twice": (tenant, good[:-1] + b',"action":"post"}',
                  "DUPLICATE_MEMBER", ""),
        "twice-inside": (tenant, good.replace(b'"key": "k"',
                                              b'"key": 1, "k\\u0065y": 2'),
                         "DUPLICATE_MEMBER", ""),
        "deep": (tenant, deep, "TOO_DEEP", ""),
        "very-deep": (tenant, b"[" * 100000, "TOO_DEEP", ""),
        "large": (tenant, text_of(tenant, payload="x" * (MIB + 1024)),
                  "TOO_LARGE", ""),
        "no-spec": (tenant, text_of(tenant, spec=None), "UNSUPPORTED_SPEC",
                    "/spec"),
        "no-record-key": (None, good, "KEY_MISMATCH", ""),
        "empty-record-key": ("", good, "KEY_MISMATCH", ""),
        "other-record-key": ("somebody-else", good, "KEY_MISMATCH", ""),
    }
    for spec in ("actionist/2", "actionist/1.", "actionist/1.x", "other", 1):
        table[f"spec-{spec}"] = (tenant, text_of(tenant, spec=spec),
                                 "UNSUPPORTED_SPEC", "/spec")
    for member in ("tenant", "connector", "action"):
        for bad in (None, "", "UPPER", "a b", "../x", "a" * 64, 7, ["x"],
                    "-x", "n\u00e4me"):
            table[f"{member}-{bad}"] = (
                tenant, text_of(tenant, **{member: bad}),
                f"INVALID_{member.upper()}", f"/{member}")
    return table


def position(message):
    return f"{message.topic()}:{message.partition()}:{message.offset()}"


def copies(house, count):
    """{source position: record} on `rejects`."""
    found = {}
    for record in house.kafka.wait_for_records(count, "rejects"):
        source = ":".join(record.header(f"source_{part}")
                          for part in ("topic", "partition", "offset"))
        assert source not in found, f"{source} was copied twice"
        found[source] = record
    return found


@pytest.mark.case("KFK-04")
def test_kfk_04_poison_is_put_aside_and_blocks_nothing(
        house, double, tenant):
    """Good ones between the bad ones, on every partition."""
    sent = {}
    good = 0
    before = len(house.kafka.read_all("rejects"))
    table = unreadable(tenant)
    for number, (name, row) in enumerate(table.items()):
        message = house.kafka.publish(
            row[1], row[0], [("x", b"\xff\x00")],
            partition=number % house.partitions)
        sent[position(message)] = name
        if number % 5 == 0:
            flow.publish(house, [request(tenant, f"good-{good}")])
            good += 1
    found = copies(house, before + len(sent))
    for source, name in sent.items():
        key, value, reason, pointer = table[name]
        copy = found[source]
        assert copy.header("reason") == reason, (name, copy.headers)
        assert copy.header("pointer") == pointer, name
        assert copy.header("detail"), name
        assert copy.value == value, name
        assert copy.key == (None if key is None else key.encode()), name
    for out in flow.wait_ended(house, tenant, good).values():
        assert out["status"] == "succeeded"
    check_quiet(house, tenant, good)
    assert calls(double, tenant) == good
    assert house["worker-0"].is_running()


@pytest.mark.case("KFK-07")
def test_kfk_07_null_values_and_odd_headers(house, tenant):
    """Headers never make a request unreadable."""
    trace = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    pid = house["worker-0"].pid
    odd = {
        "many": [(f"h{number}", b"x") for number in range(500)],
        "repeated": [("traceparent", trace), ("traceparent", b"x")],
        "bytes-ff": [("traceparent", b"\xff" * 55)],
        "no-value": [("traceparent", None), ("content-type", None)],
        "empty": [("traceparent", b""), ("content-type", b"")],
        "long": [("tracestate", b"x" * 20480)],
        "odd-type": [("content-type", b"\xff\x00")],
    }
    for name, headers in odd.items():
        house.publish(request(tenant, name), headers=headers)
    for out in flow.wait_ended(house, tenant, len(odd)).values():
        assert out["status"] == "succeeded", out
    check_quiet(house, tenant, len(odd))
    assert house["worker-0"].pid == pid and house["worker-0"].is_running()


# -- readable, but wrong: one `rejected` outcome ----------------------------------


REJECTED = [
    # members, code, pointer
    ({"connector": "nobody"}, "UNKNOWN_CONNECTOR", "/connector"),
    ({"action": "nothing"}, "UNKNOWN_ACTION", "/action"),
    ({"action": "strict", "payload": []}, "PAYLOAD_INVALID", "/payload"),
    ({"action": "strict", "payload": {}}, "PAYLOAD_INVALID",
     "/payload/amount"),
    ({"action": "strict", "payload": {"amount": 0}}, "PAYLOAD_INVALID",
     "/payload/amount"),
    ({"action": "strict", "payload": {"amount": "1"}}, "PAYLOAD_INVALID",
     "/payload/amount"),
    ({"action": "path", "payload": {}}, "TEMPLATE_INVALID",
     "/payload/order"),
    ({"action": "path", "payload": {"order": ".."}}, "TEMPLATE_INVALID",
     "/payload/order"),
    ({"action": "path", "payload": {"order": ["x"]}}, "TEMPLATE_INVALID",
     "/payload/order"),
    ({"idempotency_key": 7}, "INVALID_KEY", "/idempotency_key"),
    ({"idempotency_key": ""}, "INVALID_KEY", "/idempotency_key"),
    ({"idempotency_key": "a b"}, "INVALID_KEY", "/idempotency_key"),
    ({"idempotency_key": "k\u0000"}, "INVALID_KEY", "/idempotency_key"),
    ({"idempotency_key": "k\u00e9"}, "INVALID_KEY", "/idempotency_key"),
    ({"idempotency_key": "k" * 256}, "INVALID_KEY", "/idempotency_key"),
    ({"not_before": "2026-12-01"}, "INVALID_TIME", "/not_before"),
    ({"not_before": "2026-12-01T08:00:00"}, "INVALID_TIME", "/not_before"),
    ({"not_before": "2026-02-30T08:00:00Z"}, "INVALID_TIME", "/not_before"),
    ({"deadline": 5}, "INVALID_TIME", "/deadline"),
    ({"not_before": "2030-01-02T00:00:00Z",
      "deadline": "2030-01-01T00:00:00Z"}, "INVALID_TIME", "/deadline"),
    ({"priority": 10}, "INVALID_MEMBER", "/priority"),
    ({"priority": "5"}, "INVALID_MEMBER", "/priority"),
    ({"priority": 1.5}, "INVALID_MEMBER", "/priority"),
    ({"max_attempts": 0}, "INVALID_MEMBER", "/max_attempts"),
    ({"max_attempts": 101}, "INVALID_MEMBER", "/max_attempts"),
    ({"dry_run": 1}, "INVALID_MEMBER", "/dry_run"),
    ({"dry_run": True}, "UNSUPPORTED", "/dry_run"),
]


def test_readable_but_wrong_is_one_rejected_outcome(house, double, tenant):
    flow.publish(house, [request(tenant, f"n-{number}", **changed)
                         for number, (changed, _, _) in enumerate(REJECTED)])
    found = [record.json() for record in
             outcomes(house, tenant, len(REJECTED))]
    assert len({out["id"] for out in found}) == len(REJECTED)
    left = list(found)
    for number, (changed, code, pointer) in enumerate(REJECTED):
        is_key_bad = "idempotency_key" in changed
        match = next(out for out in left if (
            out["error"]["code"], out["error"].get("pointer"),
            out["idempotency_key"]) == (
                code, pointer, None if is_key_bad else f"n-{number}"))
        left.remove(match)
        assert (match["status"], match["attempts"]) == ("rejected", 0)
        assert match["error"]["class"] == "permanent"
        assert match["error"]["message"]
        assert match["result"] is None and match["started_at"] is None
        assert match["connector"] == changed.get("connector", "echo")
    check_quiet(house, tenant, len(REJECTED))
    assert calls(double, tenant) == 0


def test_a_minor_version_and_unknown_members_are_taken(
        house, double, tenant):
    """KFK-10: what a later version adds does not turn older workers away."""
    flow.publish(house, [
        request(tenant, "minor", spec="actionist/1.7"),
        request(tenant, "member", later={"x": [1]}, connector_hint=None)])
    found = flow.wait_ended(house, tenant, 2)
    assert {out["status"] for out in found.values()} == {"succeeded"}
    assert calls(double, tenant) == 2


# -- the same again ----------------------------------------------------------------


def test_repeats_in_a_batch_and_over_partitions_are_one(
        house, double, tenant):
    """Members in another order are the same content."""
    first = request(tenant, "same", payload={"a": 1, "b": "x"})
    again = request(tenant, "same", payload={"b": "\u0078", "a": 1})
    for number in range(house.partitions):
        house.kafka.publish_all(
            [(tenant, json.dumps(one), None) for one in (first, again) * 3],
            partition=number)
    flow.wait_ended(house, tenant, 1)
    flow.publish(house, [again, first])
    check_quiet(house, tenant, 1)
    assert calls(double, tenant) == 1


def test_without_a_key_each_record_is_a_request(house, double, tenant):
    one = request(tenant, "")
    del one["idempotency_key"]
    flow.publish(house, [one] * 3)
    found = [record.json() for record in outcomes(house, tenant, 3)]
    assert len({out["id"] for out in found}) == 3
    assert {out["idempotency_key"] for out in found} == {None}
    assert calls(double, tenant) == 3


def test_other_content_is_a_conflict_under_an_id_of_its_own(
        house, double, tenant):
    """Also in one batch; the first keeps its outcome."""
    first = request(tenant, "taken", payload={"n": 1})
    others = [request(tenant, "taken", payload={"n": 1.0}),
              request(tenant, "taken", payload={"n": 2}),
              request(tenant, "taken", payload={"n": 1}, action="put")]
    flow.publish(house, [first, *others])
    flow.publish(house, [others[1]])
    found = [record.json() for record in outcomes(house, tenant, 5)]
    good = [out for out in found if out["status"] == "succeeded"]
    bad = [out for out in found if out["status"] == "rejected"]
    assert (len(good), len(bad)) == (1, 4)
    for out in bad:
        assert out["error"]["code"] == "IDEMPOTENCY_CONFLICT"
        assert out["error"]["pointer"] == "/idempotency_key"
    assert len({out["id"] for out in found}) == 5
    (seen,) = double.requests(f"/{tenant}/*")
    assert json.loads(seen["body"]) == {"n": 1}
    flow.publish(house, [first])
    check_quiet(house, tenant, 5)


def test_keys_belong_to_tenant_and_connector(house, double, tenant):
    add_connector(house, f"{tenant}-b", ACTIONS, double.url)
    other = f"{tenant}-2"
    flow.publish(house, [
        request(tenant, "k1"), request(tenant, "K1"), request(other, "k1")])
    flow.publish(house, [request(tenant, "k1", connector=f"{tenant}-b")])
    found = [record.json() for record in outcomes(house, tenant, 3) +
             outcomes(house, other, 1)]
    assert len({out["id"] for out in found}) == 4
    assert {out["status"] for out in found} == {"succeeded"}


# -- connectors ---------------------------------------------------------------------


def test_a_connector_that_comes_later(house, double, tenant):
    name = f"{tenant}-late"
    early = request(tenant, "early", connector=name)
    flow.publish(house, [early])
    (out,) = flow.wait_ended(house, tenant, 1).values()
    assert (out["status"], out["error"]["code"]) == (
        "rejected", "UNKNOWN_CONNECTOR")
    add_connector(house, name, ACTIONS, double.url)
    # What was refused stays refused; what comes from now on is run.
    flow.publish(house, [early, request(tenant, "late", connector=name)])
    found = flow.wait_ended(house, tenant, 2)
    assert found["late"]["status"] == "succeeded"
    assert found["early"]["id"] == out["id"]
    check_quiet(house, tenant, 2)


# -- events and traces ----------------------------------------------------------------


def event(data, **changed):
    members = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "/x",
               "type": "actionist.request", "data": data, **changed}
    return json.dumps({name: value for name, value in members.items()
                       if value is not None}).encode()


def test_cloud_events_of_both_modes(house, double, tenant):
    structured = [("content-type", b"application/cloudevents+json; "
                                   b"charset=UTF-8")]
    binary = [("ce_specversion", b"1.0"), ("ce_id", b"1"),
              ("ce_source", b"/x"), ("ce_type", b"actionist.request"),
              ("content-type", b"application/json")]
    before = len(house.kafka.read_all("rejects"))
    house.kafka.publish(event(request(tenant, "structured")), tenant,
                        structured)
    house.publish(request(tenant, "binary"), headers=binary)
    bad = {}
    for value, reason, pointer in (
            (event(None), "INVALID_MEMBER", "/data"),
            (event("text"), "INVALID_MEMBER", "/data"),
            (event({}, specversion="0.3"), "UNSUPPORTED_SPEC",
             "/specversion"),
            (event({"tenant": tenant}), "UNSUPPORTED_SPEC", "/spec"),
            (b"{", "MALFORMED_JSON", "")):
        message = house.kafka.publish(value, tenant, structured)
        bad[position(message)] = (value, reason, pointer)
    found = flow.wait_ended(house, tenant, 2)
    assert {out["status"] for out in found.values()} == {"succeeded"}
    copied = copies(house, before + len(bad))
    for source, (value, reason, pointer) in bad.items():
        copy = copied[source]
        assert (copy.value, copy.header("reason"), copy.header("pointer")) == (
            value, reason, pointer)
    assert calls(double, tenant) == 2


def test_a_trace_goes_through_to_the_outcome(house, tenant):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    good = f"00-{trace}-00f067aa0ba902b7-01".encode()
    house.publish(request(tenant, "traced"), headers=[("traceparent", good)])
    house.publish(request(tenant, "refused", action="nothing"),
                  headers=[("traceparent", good)])
    house.publish(request(tenant, "plain"))
    house.publish(request(tenant, "upper"),
                  headers=[("traceparent", good.upper())])
    headers = {record.json()["idempotency_key"]: record.header("traceparent")
               for record in outcomes(house, tenant, 4)}
    for key in ("traced", "refused"):
        assert headers[key].split("-")[1] == trace
    for key in ("plain", "upper"):
        assert headers[key] is None or trace not in headers[key].lower()


# -- offsets --------------------------------------------------------------------------


def committed(house):
    return house.kafka.committed_offsets(f"{house.space}.worker")


def test_offsets_never_run_ahead_of_claims(house, tenant):
    """While the table cannot be written no offset moves; then all do."""
    wait_for(lambda: flow.is_consumed(house), "a quiet start", 60, every=0.2)
    before = committed(house)
    with house_lock(house) as lock:
        flow.publish(house, [request(tenant, str(number))
                             for number in range(40)], spread=True)
        wait_for(lambda: lock.execute(
            "select 1 from pg_locks where not granted"
            " and relation = 'actionist.action_w1'::regclass").fetchall(),
            "a claim that waits", 60)
        stays_true(lambda: committed(house) == before,
                   "the offsets before any claim", 3)
        lock.rollback()
    wait_for(lambda: flow.is_consumed(house), "all offsets committed", 60,
             every=0.2)
    assert claimed(house, tenant) == 40
    check_quiet(house, tenant, 40)


def house_lock(house):
    """A transaction that keeps everybody from inserting into action."""
    db = psycopg.connect(house.cluster.conninfo("superuser", house.space))
    db.execute("lock table actionist.action_w1 in exclusive mode")
    return db


def test_offsets_follow_claims_soon(house, double, tenant):
    """Also of actions that run for long: a claim is enough."""
    double.script(f"/{tenant}/*", {"never": True})
    flow.publish(house, [request(tenant, str(number))
                         for number in range(20)], spread=True)
    wait_for(lambda: claimed(house, tenant) == 20, "all claims", 60)
    wait_for(lambda: flow.is_consumed(house), "all offsets committed", 10)
    assert flow.ended(house, tenant) == 0
    double.script(f"/{tenant}/*", {})
    house["worker-0"].restart()
    flow.wait_ended(house, tenant, 20)


def claimed(house, tenant):
    return house.sql("select count(distinct source) from action"
                     " where tenant = %s", (tenant,))[0][0]
