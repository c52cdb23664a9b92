# SPDX-License-Identifier: Apache-2.0
"""A topic of outcomes that is missing or takes nothing: an alarm, outcomes
wait in their table, and each is published once when it is well again."""

import httpx
import pytest
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry,
                                   ConfigResource)

from lib import rows
from lib.fleet import listening_ports
from lib.wait import wait_for
from local import kafka

COUNT = 20
MIB = 1 << 20


@pytest.fixture(scope="module")
def fleet(fleets):
    """Tables and topics; the tests start the scheduler."""
    return fleets(producers=0, workers=0, schedulers=0, partitions=1)


@pytest.fixture(scope="module")
def admin(fleet):
    return AdminClient(fleet.cluster.kafka_client())


@pytest.fixture
def db(fleet):
    with rows.connect(fleet, autocommit=True) as made:
        yield made


def wait_alarmed(program):
    """Until it says on /readyz and in a metric that the relay is not well."""
    def probe():
        for port in listening_ports(program.pid):
            url = f"http://127.0.0.1:{port}"
            if httpx.get(f"{url}/readyz").status_code == 503:
                said = httpx.get(f"{url}/metrics").text.splitlines()
                return "actionist_relay_is_alarmed 1" in said
        return False

    wait_for(probe, "the alarm")


def check_published(fleet, tenant, ids):
    def probe():
        found = [record.header("id") for record in fleet.kafka.read_all()
                 if record.key == tenant.encode()]
        return found if ids <= set(found) else None

    found = wait_for(probe, f"{len(ids)} outcomes of {tenant}", 60, every=0.3)
    assert sorted(found) == sorted(ids)


def test_missing_topic(fleet, admin, db, tenant):
    """No scheduler starts without it. One that runs meanwhile tries until it
    is there, as with a topic that takes nothing."""
    name = f"{fleet.space}.outcomes"
    for done in admin.delete_topics([name], operation_timeout=30).values():
        done.result(30)
    program = fleet.add("scheduler")
    assert program.wait_exit(60) == 1
    assert f"topic {name} does not exist" in program.text()
    ids = rows.end_actions(db, tenant, COUNT)
    kafka.create_topics(admin, fleet.space, 1)
    program.start()
    fleet.wait_ready(program)
    check_published(fleet, tenant, ids)


def test_topic_that_takes_nothing(fleet, admin, db, tenant):
    """A relay that publishes meets it, tries again and again, and recovers."""
    program = fleet["scheduler-0"]

    def allow(size):
        wanted = ConfigResource(
            "topic", f"{fleet.space}.outcomes", incremental_configs=[
                ConfigEntry("max.message.bytes", str(size),
                            incremental_operation=AlterConfigOpType.SET)])
        for done in admin.incremental_alter_configs([wanted]).values():
            done.result(30)

    early = rows.end_actions(db, tenant, COUNT)
    check_published(fleet, tenant, early)
    allow(16)
    late = rows.end_actions(db, tenant, COUNT)
    wait_alarmed(program)
    allow(2 * MIB)
    fleet.wait_ready(program)
    check_published(fleet, tenant, early | late)
