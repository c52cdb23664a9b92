# SPDX-License-Identifier: Apache-2.0
"""A worker with little memory: it pauses rather than grow, it goes on by
itself, and what keeps it from working costs no request."""

import contextlib
import os
import re

import httpx
import pytest
from confluent_kafka import admin

from lib import flow
from lib.api import add_connector
from lib.wait import wait_for

MANY = 1000
MIB = 1 << 20
ECHO = {"idempotency": "natural", "runtime": "echo"}


@pytest.fixture(scope="module")
def house(fleets):
    made = fleets(producers=0, schedulers=0, partitions=1, settings={
        "worker": {"worker.max_jobs": 100, "worker.max_bytes": 4 * MIB}})
    add_connector(made, "echo", {"post": ECHO})
    return made


def request(tenant, key):
    return flow.request(tenant, "echo", "post", key)


def pauses(house):
    text = httpx.get(f"{house.url('worker-0')}/metrics", timeout=60).text
    found = re.search(r"^actionist_worker_pauses_total (\d+)", text, re.M)
    return int(found[1]) if found else 0


def rejects(house):
    return house.kafka.read_all("rejects")


def wait_ended(house, tenant, count):
    wait_for(lambda: flow.ended(house, tenant) == count,
             f"{count} outcomes of {tenant}", 60)


@contextlib.contextmanager
def topic_setting(house, name, value):
    """A setting of the topic of rejects, for as long as the block runs."""
    client = admin.AdminClient(house.kafka.settings)

    def alter(operation):
        entry = admin.ConfigEntry(name, value,
                                  incremental_operation=operation)
        resource = admin.ConfigResource(
            admin.ResourceType.TOPIC, f"{house.space}.rejects",
            incremental_configs=[entry])
        for future in client.incremental_alter_configs([resource]).values():
            future.result(60)

    alter(admin.AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(admin.AlterConfigOpType.DELETE)


def test_goes_on_after_repeats_and_rubbish_alone(house, tenant):
    """Neither is ever settled, which is when memory mostly becomes free."""
    before = pauses(house)
    house.publish(request(tenant, "one"))
    wait_ended(house, tenant, 1)
    flow.publish(house, [request(tenant, "one")] * MANY)
    house.publish(request(tenant, "two"))
    wait_ended(house, tenant, 2)
    known = len(rejects(house))
    house.kafka.publish_all([(tenant, "rubbish", None)] * MANY)
    house.publish(request(tenant, "three"))
    wait_ended(house, tenant, 3)
    house.kafka.wait_for_records(known + MANY, "rejects")
    assert pauses(house) >= before + 2


def test_rejects_that_kafka_does_not_take_count_as_memory(house, tenant):
    before = pauses(house)
    rubbish = "x" * MIB
    sent = []

    def is_paused():
        """The broker may take a few before it knows of the setting."""
        sent.append(house.kafka.publish(rubbish, tenant))
        return pauses(house) > before

    with topic_setting(house, "max.message.bytes", "1"):
        wait_for(is_paused, "a pause", 60, every=0.2)
        house.publish(request(tenant, "one"))
    wait_ended(house, tenant, 1)
    house.kafka.wait_for_records(
        len(sent), "rejects",
        where=lambda record: record.key == tenant.encode())


def test_a_reject_too_large_for_its_topic_is_cut(house, tenant):
    rubbish = os.urandom(100_000)
    with topic_setting(house, "max.message.bytes", "20000"):
        house.kafka.publish(rubbish, tenant)
        house.publish(request(tenant, "one"))
        (copy,) = house.kafka.wait_for_records(
            1, "rejects", where=lambda one: one.value[:99] == rubbish[:99])
    assert copy.value == rubbish[:len(copy.value)] and len(copy.value) > 9000
    wait_for(lambda: flow.is_consumed(house), "the topic is consumed", 60)
    wait_ended(house, tenant, 1)


def test_a_right_taken_away_rejects_nothing(house, tenant):
    known = len(rejects(house))
    worker = house["worker-0"]
    failures = worker.text().count('"event":"claim_failed"')
    house.sql("revoke insert on action from actionist_runtime")
    try:
        flow.publish(house, [request(tenant, str(n)) for n in range(3)])
        wait_for(lambda: worker.text().count('"event":"claim_failed"')
                 >= failures + 3, "claims that fail", 60)
    finally:
        house.sql("grant insert on action to actionist_runtime")
    wait_ended(house, tenant, 3)
    assert len(rejects(house)) == known
