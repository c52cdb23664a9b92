# SPDX-License-Identifier: Apache-2.0
"""Webhooks while Postgres or Kafka is away: capture needs Kafka alone."""

import pytest

from lib import hooks as senders
from lib.hooks import Hooks, make_master_key
from lib.wait import wait_for

SECRET = "testonly-github-secret"


@pytest.fixture(scope="module")
def hooks(clusters, fleets, tmp_path_factory):
    """One producer on a cluster of its own, to be hurt."""
    master_key = make_master_key(tmp_path_factory.mktemp("keys"))
    house = fleets(on=clusters(), producers=1, workers=0, schedulers=0,
                   settings={"producer": {
                       "webhooks.master_key_file": str(master_key)}})
    made = Hooks(house, master_key, "acme")
    made.add("repo", "github", SECRET)
    made.client("producer-0")
    yield made
    made.close()


def post(hooks, n):
    body = b'{"n":%d}' % n
    return hooks.post("repo", body, senders.github(SECRET, body, f"d-{n}"))


def numbers(hooks):
    return sorted(int(document["sender_id"][2:])
                  for document in hooks.captured())


@pytest.mark.case("WHK-17")
def test_whk_17_capture_needs_kafka_alone(hooks):
    cluster = hooks.fleet.cluster
    assert post(hooks, 0).status_code == 200
    cluster.stop_postgres(hard=True)
    assert [post(hooks, n).status_code for n in range(1, 10)] == [200] * 9
    cluster.stop_kafka(hard=True)
    answer = wait_for(lambda: down(post(hooks, 10)), "503 without Kafka")
    assert int(answer.headers["retry-after"]) >= 1
    cluster.start_kafka()
    wait_for(lambda: post(hooks, 10).status_code == 200,
             "the sender's repeat is taken")
    # No source of that name is known, and none can be looked up.
    answer = hooks.post("nobody", b"{}", {})
    assert answer.status_code == 503 and "retry-after" in answer.headers
    cluster.start_postgres()
    wait_for(lambda: hooks.post("nobody", b"{}", {}).status_code == 404,
             "Postgres is asked again")
    assert sorted(set(numbers(hooks))) == list(range(11))
    assert len({document["id"] for document in hooks.captured()}) == 11


def down(answer):
    return answer if answer.status_code == 503 else None


def test_killed_between_capture_and_answer_loses_nothing(hooks):
    """A sender without an answer repeats; its delivery keeps its id."""
    first = post(hooks, 100)
    hooks.fleet["producer-0"].restart()
    hooks.clients.pop("producer-0").close()
    again = post(hooks, 100)
    assert [first.status_code, again.status_code] == [200, 200]
    assert (first.headers["actionist-webhook-id"] ==
            again.headers["actionist-webhook-id"])
    assert numbers(hooks).count(100) == 2
