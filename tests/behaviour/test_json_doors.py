# SPDX-License-Identifier: Apache-2.0
"""The vectors of json_edge.json through both doors up to the provider: what
is taken arrives byte for byte, what is refused leaves nothing behind."""

import base64
import json
import pathlib
import uuid

import pytest

from lib import flow
from lib.api import Api, add_connector, new_key
from lib.wait import wait_for

FIXTURES = pathlib.Path(__file__).parents[1] / "cases" / "fixtures"
VECTORS = json.loads((FIXTURES / "json_edge.json").read_text())["vectors"]
MIB = 1 << 20

ENVELOPE = (b'{"tenant":"t1","connector":"echo","action":"post",'
            b'"idempotency_key":"generated","payload":')
GENERATED = {
    "top-01": b"",
    "deep-03": ENVELOPE + b'{"a":' * 100000 + b"1" + b"}" * 100001,
    "deep-04": ENVELOPE + b"[" * 100000,
    # 1 KiB more than the text says: the room that the Kafka door leaves.
    "size-01": ENVELOPE + b'{"s":"' + b"a" * (MIB + 1024) + b'"}}',
}
# What differs at the Kafka door: a key is not required there.
KAFKA_TAKES = {"top-16": b"{}"}


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(settings={"worker": {"egress.private_allow":
                                       double.address}})
    path = "/{{action.tenant}}/{{action.id}}"
    add_connector(made, "echo", {"post": flow.action(path=path)}, double.url)
    return made


def body_of(vector):
    if vector["id"] in GENERATED:
        return GENERATED[vector["id"]]
    return base64.b64decode(vector["body_base64"])


def kafka_body(vector, tenant):
    """The same for a tenant of this run, with what HTTP need not say."""
    body = body_of(vector)
    said = b'{"spec":"actionist/1","tenant":'
    body = body.replace(b'{"tenant":"t1"', said + b'"%s"' % tenant.encode(), 1)
    return body.replace(b'{"tenant":1', said + b"1", 1)


def forwarded(vector):
    """The payload that must arrive; {} where the vector names none."""
    return base64.b64decode(vector.get("forwarded_base64", "e30="))


def check_arrived(double, out, tenant, payload):
    """The provider saw these bytes, once."""
    assert out["status"] == "succeeded", out
    (seen,) = double.requests(f"/{tenant}/{out['id']}")
    assert seen["body"] == payload


@pytest.mark.case("JSN-01")
@pytest.mark.case("JSN-04")
@pytest.mark.case("JSN-05")
@pytest.mark.case("JSN-06")
@pytest.mark.case("JSN-07")
@pytest.mark.case("JSN-09")
def test_jsn_01_04_05_06_07_09_through_the_kafka_door(house, double, tenant):
    pid = house["worker-0"].pid
    wanted = {}
    refused = {}
    for vector in VECTORS:
        body = kafka_body(vector, tenant)
        (message,) = house.kafka.publish_all([(tenant, body, None)])
        where = (message.partition(), message.offset())
        if vector["expected"] == "accept":
            wanted[key_of(body)] = forwarded(vector)
        elif vector["id"] in KAFKA_TAKES:
            wanted[None] = KAFKA_TAKES[vector["id"]]
        else:
            refused[where] = (vector["id"], body)
    copies = {(int(record.header("source_partition")),
               int(record.header("source_offset"))): record
              for record in house.kafka.wait_for_records(
                  len(refused), "rejects",
                  where=lambda record: record.key == tenant.encode())}
    assert set(copies) == set(refused)
    for where, (name, body) in refused.items():
        assert copies[where].value == body, name
        assert copies[where].header("reason"), name
    outcomes = flow.wait_ended(house, tenant, len(wanted))
    assert set(outcomes) == set(wanted)
    for key, payload in wanted.items():
        check_arrived(double, outcomes[key], tenant, payload)
    assert house["worker-0"].pid == pid and house["worker-0"].is_running()


def key_of(body):
    return json.loads(body)["idempotency_key"]


@pytest.mark.case("JSN-01")
@pytest.mark.case("JSN-04")
@pytest.mark.case("JSN-05")
@pytest.mark.case("JSN-06")
@pytest.mark.case("JSN-07")
@pytest.mark.case("JSN-09")
def test_jsn_01_04_05_06_07_09_through_the_http_door(house, double):
    api = Api(house.url(), new_key(house, "t1")[1])
    wanted = {}
    for vector in VECTORS:
        answer = api.post(body_of(vector))
        name = vector["id"]
        if vector["expected"] == "accept":
            assert answer.status_code == 202, (name, answer.text)
            wanted[answer.json()["id"]] = forwarded(vector)
        else:
            assert answer.status_code == vector["http_status"], name
            assert answer.json()["code"], name
    api.close()
    outcomes = flow.wait_ended(house, "t1", len(wanted))
    assert {out["id"] for out in outcomes.values()} == set(wanted)
    for out in outcomes.values():
        check_arrived(double, out, "t1", wanted[out["id"]])
    assert len(double.requests("/t1/*")) == len(wanted)
    assert house.sql("select count(*) from reservation"
                     " where tenant = 't1'") == [(len(wanted),)]


NUMBERS = ["9007199254740993", "18446744073709551615",
           "-9223372036854775808", "123456789012345678901234567890", "1.10",
           "0.1", "1e400", "-0", "1E5", "1e-7", "0.10000000000000000001"]


@pytest.mark.case("JSN-01")
def test_jsn_01_numbers_come_back_as_they_were_sent(house, double, tenant):
    """Both ways: in the request, and in the answer into the outcome."""
    text = "[" + ",".join(NUMBERS) + "]"
    double.script(f"/{tenant}/*", {"body": text})
    house.kafka.publish(
        '{"spec":"actionist/1","tenant":"%s","connector":"echo",'
        '"action":"post","idempotency_key":"n","payload":%s}'
        % (tenant, text), tenant)
    out = flow.wait_ended(house, tenant, 1)["n"]
    (seen,) = double.requests(f"/{tenant}/{out['id']}")
    assert seen["body"] == text.encode()
    assert f'"result":{text}'.encode() in out["raw"]


@pytest.mark.case("JSN-04")
def test_jsn_04_a_deep_answer_or_manifest_breaks_nothing(
        house, double, tenant):
    deep = "[" * 100000
    double.script(f"/{tenant}/*", {"body": deep})
    house.publish(flow.request(tenant, "echo", "post", "deep"))
    out = flow.wait_ended(house, tenant, 1)["deep"]
    assert (out["status"], out["result"]) == ("succeeded", deep)
    done = house.ctl("connector", "add", "-", check=False, stdin=deep)
    assert done.returncode == 4 and done.stderr
    for program in ("worker-0", "producer-0", "scheduler-0"):
        assert house[program].is_running()


def test_any_payload_passes_unchanged(house, double, tenant):
    """White space, escapes, NUL escapes and odd names stay as they are."""
    payloads = {f"p-{number}": payload for number, payload in enumerate([
        b'{ "a" : 1 }', b'"\\u0000"', b'{"\\u0061":"\\/"}', b"[ ]", b'""',
        b"true", b'{"a":{"a":{"a":[]}}}', '"\U0001f680\\ud83d\\ude80"'.encode(),
        b'{"{{payload}}":"{{action.id}}"}'])}
    run = uuid.uuid4().hex
    for key, payload in payloads.items():
        house.kafka.publish(
            b'{"spec":"actionist/1","tenant":"%s","connector":"echo",'
            b'"run":"%s","action":"post","idempotency_key":"%s",'
            b'"payload": %s }' % (tenant.encode(), run.encode(), key.encode(),
                                  payload), tenant)
    outcomes = flow.wait_ended(house, tenant, len(payloads))
    for key, payload in payloads.items():
        check_arrived(double, outcomes[key], tenant, payload)
    wait_for(lambda: flow.is_consumed(house), "the topic is consumed")
