# SPDX-License-Identifier: Apache-2.0
"""`actionist publish`: from arguments, a file, and standard input."""

import json

import pytest


@pytest.fixture(scope="module")
def base(fleets):
    """Topics and a database; no daemon runs."""
    return fleets(producers=0, workers=0, schedulers=0)


def line(tenant, key, **more):
    return json.dumps({"spec": "actionist/1", "tenant": tenant,
                       "connector": "shop", "action": "charge",
                       "idempotency_key": key, **more})


def run(base, *words, stdin=None):
    done = base.ctl("publish", *words, check=False, stdin=stdin)
    return done.returncode, done.stdout, done.stderr


def on_kafka(base, tenant):
    """The records of a tenant, in the order of publishing."""
    return [record for record in base.kafka.read_all("actions")
            if record.key == tenant.encode()]


def test_from_arguments(base, tenant):
    code, out, err = run(
        base, "--tenant", tenant, "--connector", "shop", "--action", "charge",
        "--key", "order-1", "--payload", '{"amount": 12.50}',
        "--not-before", "2030-01-01T00:00:00Z",
        "--deadline", "2030-01-02T00:00:00Z", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["tenant"] == tenant and said["idempotency_key"] == "order-1"
    [record] = on_kafka(base, tenant)
    assert b'{"amount": 12.50}' in record.value  # number text is kept
    assert record.json() == {
        "spec": "actionist/1", "tenant": tenant, "connector": "shop",
        "action": "charge", "idempotency_key": "order-1",
        "not_before": "2030-01-01T00:00:00Z",
        "deadline": "2030-01-02T00:00:00Z", "payload": {"amount": 12.5}}


def test_the_same_key_has_the_same_id(base, tenant):
    words = ("--tenant", tenant, "--connector", "shop", "--action", "charge",
             "--key", 'a"b\\c')
    first = run(base, *words)
    assert first[0] == 0 and first == run(base, *words)
    said = json.loads(run(base, *words, "--json")[1])
    assert said["id"] == first[1].strip()
    assert said["idempotency_key"] == 'a"b\\c'


def test_a_payload_from_a_file(base, tenant, tmp_path):
    path = tmp_path / "payload.json"
    path.write_text('{\n  "order": "7"\n}\n')
    code, _, _ = run(base, "--tenant", tenant, "--connector", "shop",
                     "--action", "charge", "--payload", f"@{path}")
    assert code == 0
    assert on_kafka(base, tenant)[0].json()["payload"] == {"order": "7"}


def test_from_a_file(base, tenant, tmp_path):
    path = tmp_path / "requests.ndjson"
    path.write_text("".join(line(tenant, f"k{n}") + "\n" for n in range(500)))
    code, out, err = run(base, path)
    assert (code, err) == (0, "")
    assert len(set(out.splitlines())) == 500
    keys = {record.json()["idempotency_key"]
            for record in on_kafka(base, tenant)}
    assert keys == {f"k{n}" for n in range(500)}


def test_standard_input_with_bad_lines(base, tenant):
    """Good lines go out; each bad one is named by number and rule."""
    long = line(tenant, "long", payload="x" * (1 << 20))
    stdin = "\n".join([
        line(tenant, "one"), "", "{broken", line("Not A Name", "x"),
        line(tenant, "two", deadline="tomorrow"), long,
        line(tenant, "nul") + "\0", line(tenant, "three") + "\r",
        line(tenant, "no-newline-after")])
    code, out, err = run(base, "-", stdin=stdin)
    said = err.splitlines()
    assert code == 1 and len(out.splitlines()) == 3
    assert said[0].startswith("actionist: line 3: MALFORMED_JSON")
    assert said[1].startswith("actionist: line 4: ") and "/tenant" in said[1]
    assert said[2].startswith("actionist: line 5: ") and "/deadline" in said[2]
    assert said[3].startswith("actionist: line 6: larger than")
    assert said[4].startswith("actionist: line 7: ")
    assert said[5] == "actionist: 5 of 9 lines were not published"
    assert len(said) == 6
    assert len(on_kafka(base, tenant)) == 3


def test_a_request_as_argument_that_is_refused(base, tenant):
    code, out, err = run(base, "--tenant", tenant, "--connector", "shop",
                         "--action", "charge", "--payload", "{")
    assert (code, out) == (1, "") and "MALFORMED_JSON" in err
    assert on_kafka(base, tenant) == []


def test_a_file_and_arguments_do_not_mix(base, tenant):
    code, _, err = run(base, "requests.ndjson", "--tenant", tenant)
    assert code == 2 and "not both" in err


def test_a_missing_file(base):
    code, _, err = run(base, "/nonexistent.ndjson")
    assert code == 1 and "/nonexistent.ndjson" in err


def test_a_missing_topic(base, tenant):
    code, out, err = run(base, "-", "--set", "topics.prefix=nowhere.",
                         stdin=line(tenant, "x"))
    assert (code, out) == (1, "") and "nowhere.actions" in err
    assert err.count("\n") == 1


def test_unreachable_kafka_is_try_later(base, tenant):
    code, out, err = run(
        base, "-", "--set", "kafka.bootstrap.servers=127.0.0.1:1",
        stdin=line(tenant, "x"))
    assert (code, out) == (75, "")
    assert "kafka.bootstrap.servers" in err and err.count("\n") == 1
