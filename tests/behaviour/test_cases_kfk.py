# SPDX-License-Identifier: Apache-2.0
"""KFK: partitions, groups and versions. KFK-08 is in test_restarts.py."""

import json
import random
import threading

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from lib import invariants
from lib.api import Api, new_key
from lib.load import Load, make_house
from lib.sizes import size
from lib.wait import wait_for

PARTITIONS = 12
# As a Java client's default partitioner places them.
WHERE = {"t1": 7, "t2": 4, "tenant-a": 3, "tenant-b": 10, "act_0001": 1}


@pytest.fixture(scope="module")
def house(fleets, double):
    return make_house(fleets, double, workers=3, partitions=PARTITIONS)


@pytest.mark.case("KFK-09")
def test_kfk_09_which_partition(house, double):
    """Producer, relay and due agree with each other and with Java."""
    load = Load(house, double, list(WHERE))
    load.refuse_once()
    url = house.url()
    for request in load.make(len(WHERE)):
        api = Api(url, new_key(house, request["tenant"])[1])
        assert api.post(request).status_code == 202
        api.close()
    invariants.check(load)
    for topic in ("actions", "outcomes", "dispatch"):
        seen = {record.key.decode(): record.partition
                for record in house.kafka.read_all(topic)}
        assert {key: seen.get(key) for key in WHERE} == WHERE, topic


@pytest.mark.case("KFK-10")
def test_kfk_10_two_schema_versions(house, double, tenant):
    load = Load(house, double, [tenant])
    load.script({})
    member, minor = load.make(2)
    other = f"{tenant}-x"
    major = {**member, "spec": "actionist/2", "tenant": other}
    house.publish({**member, "from_the_future": {"a": [1, None]}})
    house.publish({**minor, "spec": "actionist/1.7"})
    house.publish(major)
    invariants.check(load)
    (rejected,) = house.kafka.wait_for_records(
        1, "rejects", where=lambda record: record.key == other.encode())
    assert rejected.json() == major
    assert "UNSUPPORTED_SPEC" in {
        value.decode() for _, value in rejected.headers}


def stream(load, keyless, stop):
    """Publishes until told to stop: some 300, or 1,000 a second. Some have no
    key: their ids are made of their places, which go to `keyless`."""
    number = 0
    while not stop.wait(size(0.05, 0.1)):
        load.publish(PARTITIONS * size(2, 8))
        request = {"spec": "actionist/1", "tenant": f"{load.tenants[0]}-x",
                   "connector": "load", "action": "keyed",
                   "payload": {"run": load.run, "key": "any"}}
        keyless += [
            (message.partition(), message.offset())
            for message in load.house.kafka.publish_all(
                [(request["tenant"], json.dumps(request), None)
                 for _ in range(PARTITIONS)], partition=number % PARTITIONS)]
        number += 1


def check_keyless(load, places):
    """One row and one outcome for each place, however often it was read."""
    tenant = f"{load.tenants[0]}-x"

    def rows_of(table, column):
        return load.house.sql(f"select {column} from {table}"
                              " where tenant = %s", (tenant,))

    wait_for(lambda: len(rows_of("outcome", "id")) >= len(places),
             "the outcomes of those without a key", 150)
    taken = [tuple(map(int, source.rsplit(":", 2)[1:]))
             for (source,) in rows_of("action", "source")]
    assert sorted(taken) == sorted(places)
    ids = {str(one) for (one,) in rows_of("action", "id")}
    records = load.house.kafka.wait_for_records(
        len(places), where=lambda record: record.key == tenant.encode())
    assert sorted(record.header("id") for record in records) == sorted(ids)
    assert len(records) == len(ids) == len(places)


@pytest.mark.case("KFK-03")
def test_kfk_03_rebalance_in_the_middle(house, double):
    """Workers come and go, in order and by kill -9, in a stream of work."""
    load = Load(house, double)
    load.script({"delay_ms": 100})
    stop = threading.Event()
    keyless = []
    thread = threading.Thread(target=stream, args=(load, keyless, stop))
    thread.start()
    dice = random.Random(3)
    try:
        for number in range(size(5, 24)):
            worker = house[f"worker-{dice.randrange(3)}"]
            stop.wait(size(dice.uniform(0.5, 2), 5))
            if number % 2:
                assert worker.terminate(60) == 0
                worker.start()
            else:
                worker.restart()
            if number % 2:
                house.wait_ready(worker)
    finally:
        stop.set()
        thread.join()
    assert len(load.requests) > size(300, 20000) and len(keyless) > 150
    invariants.check(load, unknown=True, deadline=size(150, 600))
    assert house.sql(
        "select count(*), count(distinct id) from action where tenant = any"
        " (%s)", (load.tenants,)) == [(len(load.requests),) * 2]
    check_keyless(load, keyless)


def members(house):
    """Ids of the group's members while it is stable, else None."""
    admin = AdminClient(house.kafka.settings)
    name = f"{house.space}.worker"
    group = admin.describe_consumer_groups([name])[name].result(30)
    if group.state != ConsumerGroupState.STABLE:
        return None
    return sorted(member.member_id for member in group.members)


@pytest.mark.case("KFK-02")
def test_kfk_02_work_longer_than_the_poll_limit(fleets, double):
    house = make_house(fleets, double, producers=0, settings={"worker": {
        "kafka.max.poll.interval.ms": 6000,
        "kafka.session.timeout.ms": 6000}})
    load = Load(house, double)
    load.script({"delay_ms": 9000})
    before = wait_for(lambda: members(house), "a stable group")
    load.publish(2, ["unsafe"])
    load.wait_called(2)
    other = Load(house, double)
    while not house.sql("select 1 from outcome where tenant = any (%s)",
                        (load.tenants,)):
        other.publish(6)
        invariants.check(other)  # the partitions behind it go on
    invariants.check(load)
    assert members(house) == before
    assert house["worker-0"].text().count('"partitions_assigned"') == 1
