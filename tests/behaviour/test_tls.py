# SPDX-License-Identifier: Apache-2.0
"""The whole flow with SASL_SSL to Kafka and sslmode=verify-full to Postgres."""

import subprocess

import pytest

from local import tls
from lib import invariants
from lib.api import Api, add_connector, echo_action, new_key
from lib.load import Load, make_house
from lib.programs import BIN

COUNT = 60


@pytest.fixture(scope="module")
def house(fleets, clusters, double):
    return make_house(fleets, double, on=clusters(use_tls=True))


def test_the_flow_is_encrypted(house, double):
    assert house.env["ACTIONIST_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert "sslmode=verify-full" in house.env["ACTIONIST_POSTGRES"]
    load = Load(house, double)
    load.refuse_once()
    load.publish(COUNT)
    invariants.check(load)
    sessions = house.sql(
        "select a.application_name, s.ssl from pg_stat_activity a"
        " join pg_stat_ssl s using (pid)"
        " where a.usename = 'actionist_runtime' and a.datname = %s",
        (house.space,))
    assert sessions and all(is_encrypted for _, is_encrypted in sessions)
    names = {name.split()[0] for name, _ in sessions}
    assert {"actionist-producer", "actionist-worker",
            "actionist-scheduler"} <= names


def test_the_http_door_and_a_killed_worker(house, double, tenant):
    add_connector(house, "echo", {"post": echo_action()},
                  base_url=double.url, egress=[double.address])
    load = Load(house, double)
    load.script({"delay_ms": 2000})
    load.publish(COUNT)
    load.wait_called(COUNT // 2)
    house["worker-0"].kill()
    api = Api(house.url(), new_key(house, tenant)[1])
    answer = api.post({"connector": "echo", "action": "post",
                       "idempotency_key": "one", "payload": {"n": 1}})
    assert answer.status_code == 202
    house["worker-0"].start()
    invariants.check(load, unknown=True)
    (out,) = house.wait_for_outcomes(1, tenant)
    assert (out["id"], out["status"]) == (answer.json()["id"], "succeeded")


def test_a_certificate_of_another_authority_is_refused(house, work_dir):
    stranger = tls.make(work_dir / "stranger") / "ca.pem"
    conninfo = house.cluster.conninfo("runtime", house.space)
    known = f"{house.cluster.folder}/tls/ca.pem"
    for setting, word in (
            (f"postgres={conninfo.replace(known, str(stranger))}",
             "certificate"),
            (f"kafka.ssl.ca.location={stranger}", "kafka")):
        done = subprocess.run(
            [str(BIN / "actionist-scheduler"), "--set", setting], text=True,
            env=house.env, cwd=house.folder, capture_output=True, timeout=60,
            check=False)
        assert done.returncode == 1, done.stderr
        assert word in done.stderr.splitlines()[-1]
