# SPDX-License-Identifier: Apache-2.0
"""Through the front door to a provider and back, with a whole fleet."""

import concurrent.futures
import uuid

import pytest

from lib.api import Api, add_connector, check_problem, echo_action, new_key


@pytest.fixture(scope="module")
def whole(fleets, double):
    made = fleets(settings={"worker": {"egress.private_allow":
                                       double.address}})
    add_connector(made, "echo", {"post": echo_action(), "put": echo_action()},
                  double.url, egress=[double.address])
    return made


@pytest.fixture
def api(whole, tenant):
    made = Api(whole.url(), new_key(whole, tenant)[1])
    yield made
    made.close()


def request(key, number):
    return {"connector": "echo", "action": "post", "idempotency_key": key,
            "payload": {"n": number}}


def requests_of(double, number):
    """How often the provider saw a payload."""
    wanted = b'{"n":%d}' % number
    return sum(seen["body"].replace(b" ", b"") == wanted
               for seen in double.requests("/echo"))


def test_ing_01_one_request_one_outcome(whole, double, api, tenant):
    number = uuid.uuid4().int >> 80
    body = request("k-ing-01", number)
    first = api.post(body)
    assert first.status_code == 202
    outcome = api.get(first.json()["id"], wait="60s").json()
    assert (outcome["id"], outcome["status"], outcome["attempts"]) == (
        first.json()["id"], "succeeded", 1)
    for _ in range(3):
        again = api.post(body)
        assert (again.status_code, again.json()) == (200, first.json())
    check_problem(api.post(request("k-ing-01", number + 1)), 422,
                  "IDEMPOTENCY_CONFLICT", "/idempotency_key")
    assert whole.wait_for_outcomes(1, tenant) == [outcome]
    assert requests_of(double, number) == 1
    assert requests_of(double, number + 1) == 0


def test_key_taken_through_kafka_is_taken_at_this_door(whole, api, tenant):
    body = {"spec": "actionist/1", "tenant": tenant, **request("both", 1)}
    whole.publish(body)
    (outcome,) = whole.wait_for_outcomes(1, tenant)
    again = api.post(request("both", 1))
    assert (again.status_code, again.json()["id"]) == (200, outcome["id"])
    check_problem(api.post(request("both", 2)), 422, "IDEMPOTENCY_CONFLICT",
                  "/idempotency_key")


def test_many_at_once_each_get_their_own(whole, api, tenant):
    count = 40

    def go(number):
        answer = api.post(request(f"many-{number}", number))
        return api.get(answer.json()["id"], wait="60s").json()

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        found = list(pool.map(go, range(count)))
    assert [one["idempotency_key"] for one in found] == [
        f"many-{number}" for number in range(count)]
    assert {one["status"] for one in found} == {"succeeded"}
    assert len(whole.wait_for_outcomes(count, tenant)) == count
