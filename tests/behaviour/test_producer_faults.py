# SPDX-License-Identifier: Apache-2.0
"""Races for one key, producers that are killed, stores that go or hang.

Two producers on a private cluster. No worker runs: what was accepted must be
on Kafka, and that is what is looked at.
"""

import concurrent.futures
import contextlib
import os
import signal
import threading
import uuid

import httpx
import pytest

from lib.api import Api, add_connector, check_problem, echo_action, new_key
from lib.programs import descendants
from lib.wait import wait_for
from local import process


@pytest.fixture(scope="module")
def hurt(clusters, fleets):
    """Two producers on a cluster of their own, to be hurt."""
    made = fleets(on=clusters(), producers=2, workers=0, schedulers=0)
    add_connector(made, "echo", {"post": echo_action()})
    return made


@pytest.fixture
def key(hurt, tenant):
    return new_key(hurt, tenant)[1]


def request(key, payload=None):
    return {"connector": "echo", "action": "post", "idempotency_key": key,
            "payload": {} if payload is None else payload}


def records(hurt, tenant):
    """{idempotency key: its records} of one tenant."""
    found = {}
    for record in hurt.kafka.read_all("actions"):
        if record.key == tenant.encode():
            sent = record.json()
            found.setdefault(sent["idempotency_key"], []).append(sent)
    return found


@contextlib.contextmanager
def frozen(pids):
    """Processes that hang, with all their connections open."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def kafka_pids(hurt):
    return [process.read_pid(node.pid_file) for node in hurt.cluster.nodes]


def postgres_pids(hurt):
    postmaster = process.read_pid(hurt.cluster.postgres.pid_file)
    return [postmaster, *descendants(postmaster)]


def race(hurt, key, bodies):
    """Posts all at the same moment, half to each producer."""
    urls = [hurt.url(f"producer-{n}") for n in range(2)]
    apis = [Api(urls[n % 2], key) for n in range(len(bodies))]
    for api in apis:
        api.client.get("/healthz")
    start = threading.Barrier(len(bodies))

    def post(api, body):
        start.wait(60)
        return api.post(body)

    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(post, apis, bodies))


def test_race_of_one_key_has_one_winner(hurt, tenant, key):
    for attempt in range(3):
        answers = race(hurt, key, [
            request(f"race-{attempt}", {"n": n}) for n in range(20)])
        won = [n for n, answer in enumerate(answers)
               if answer.status_code == 202]
        assert len(won) == 1
        for n, answer in enumerate(answers):
            if n not in won:
                check_problem(answer, 422, "IDEMPOTENCY_CONFLICT",
                              "/idempotency_key")
        sent = records(hurt, tenant)[f"race-{attempt}"]
        assert [record["payload"] for record in sent] == [{"n": won[0]}]


def test_race_with_one_content_is_one_action(hurt, tenant, key):
    answers = race(hurt, key, [request("same")] * 20)
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200] * 19 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_killed_between_reservation_and_record(hurt, tenant, key):
    dying, other = (Api(hurt.url(f"producer-{n}"), key) for n in (0, 1))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with frozen(kafka_pids(hurt)):
            lost = pool.submit(dying.post, request("lost"))
            slow = pool.submit(other.post, request("slow"))
            wait_for(lambda: len(hurt.sql(
                "select 1 from reservation where tenant = %s",
                (tenant,))) == 2, "both are reserved")
            hurt["producer-0"].kill()
            with pytest.raises(httpx.HTTPError):
                lost.result()
            answer = slow.result()
    check_problem(answer, 503, "UNAVAILABLE")
    assert int(answer.headers["retry-after"]) >= 1
    hurt["producer-0"].restart()
    again = Api(hurt.url("producer-0"), key)
    hurt.wait_ready(hurt["producer-1"])
    for name in ("lost", "slow"):
        repeated = wait_for(lambda body=request(name): accepted(
            again.post(body)), f"{name} is accepted")
        assert repeated.status_code == 200
        assert records(hurt, tenant)[name]
    check_problem(again.post(request("lost", {"other": 1})), 422,
                  "IDEMPOTENCY_CONFLICT", "/idempotency_key")


def accepted(answer):
    """The answer, or None when it says to come again."""
    if answer.status_code == 503:
        return None
    assert answer.status_code in (200, 202), answer.text
    return answer


def test_killed_in_a_stream_loses_nothing(hurt, tenant, key):
    keys = [f"stream-{n}" for n in range(200)]
    answered = {}
    enough = threading.Event()
    url = hurt.url("producer-0")

    def stream(part):
        api = Api(url, key)
        with contextlib.suppress(httpx.HTTPError):
            for name in part:
                answer = api.post(request(name))
                if answer.status_code == 202:
                    answered[name] = answer.json()["id"]
                if len(answered) >= 50:
                    enough.set()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        work = [pool.submit(stream, keys[n::8]) for n in range(8)]
        assert enough.wait(60)
        hurt["producer-0"].kill()
        for one in work:
            one.result()
    hurt["producer-0"].restart()
    assert set(answered) <= set(records(hurt, tenant))
    api = Api(hurt.url("producer-0"), key)
    for name in keys:
        again = api.post(request(name))
        assert again.status_code in (200, 202)
        assert again.json()["id"] == answered.get(name, again.json()["id"])
        assert again.status_code == 200 or name not in answered
    assert set(records(hurt, tenant)) == set(keys)


def missing(api):
    """What /readyz names; nothing when ready."""
    return api.client.get("/readyz").json().get("missing", [])


def outage(hurt, api, part, keys):
    """Posts while a part is away: each is 503, and /readyz names it."""
    for name in keys:
        answer = api.post(request(name))
        check_problem(answer, 503, "UNAVAILABLE")
        assert int(answer.headers["retry-after"]) >= 1
    wait_for(lambda: part in missing(api), f"/readyz misses {part}")
    assert api.client.get("/healthz").status_code == 200


def after(hurt, api, tenant, keys):
    """All is well again: the same requests are accepted, once each."""
    hurt.wait_ready(hurt["producer-0"])
    hurt.wait_ready(hurt["producer-1"])
    ids = {wait_for(lambda body=request(name): accepted(api.post(body)),
                    f"{name} is accepted").json()["id"] for name in keys}
    assert len(ids) == len(keys)
    assert set(keys) <= set(records(hurt, tenant))


def test_ing_12_postgres_gone(hurt, tenant, key):
    api = Api(hurt.url(), key)
    keys = [f"gone-{n}" for n in range(10)]
    hurt.cluster.stop_postgres(hard=True)
    try:
        wait_for(lambda: api.post(request("first")).status_code == 503,
                 "the end is seen")
        outage(hurt, api, "postgres", keys)
        check_problem(api.get(uuid.uuid4()), 503, "UNAVAILABLE")
    finally:
        hurt.cluster.start_postgres()
    after(hurt, api, tenant, keys)


def test_ing_12_postgres_hangs(hurt, tenant, key):
    api = Api(hurt.url(), key)
    keys = [f"hang-{n}" for n in range(20)]
    with frozen(postgres_pids(hurt)):
        with concurrent.futures.ThreadPoolExecutor(len(keys)) as pool:
            answers = list(pool.map(
                lambda name: api.post(request(name)), keys))
        for answer in answers:
            check_problem(answer, 503, "UNAVAILABLE")
        wait_for(lambda: "postgres" in missing(api), "/readyz says so")
    after(hurt, api, tenant, keys)


def test_kafka_gone(hurt, tenant, key):
    api = Api(hurt.url(), key)
    keys = [f"kafka-{n}" for n in range(10)]
    hurt.cluster.stop_kafka(hard=True)
    try:
        wait_for(lambda: "kafka" in missing(api), "the end is seen")
        outage(hurt, api, "kafka", keys)
    finally:
        hurt.cluster.start_kafka()
    after(hurt, api, tenant, keys)
