# SPDX-License-Identifier: Apache-2.0
"""`actionist doctor`: each misconfiguration is made on purpose and found."""

import base64
import json
import os
import re
import resource
import subprocess

import psycopg
import pytest
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType)

from lib.programs import BIN
from lib.wait import wait_for
from local import kafka

# pg-pooler is made in test_cases_pgo.py (PGO-06), which has a pooler;
# a broker that makes topics by itself would need a cluster of its own.
ELSEWHERE = {"pg-pooler", "kafka-auto-create"}


@pytest.fixture(scope="module")
def base(fleets):
    """A migrated database and topics; no daemon runs."""
    return fleets(producers=0, workers=0, schedulers=0)


def doctor(base, *words, **how):
    """(exit code, {check: [finding, ...]})"""
    env = base.env | how.pop("env", {})
    done = subprocess.run(
        [BIN / "actionist", "doctor", "--json", *map(str, words)],
        env=env, cwd="/", capture_output=True, text=True, check=False,
        timeout=120, stdin=subprocess.DEVNULL, **how)
    found = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        assert row["why"] and row["fix"]
        found.setdefault(row["check"], []).append(row["finding"])
    return done.returncode, found


def is_said(found, check, words):
    return any(re.search(words, text) for text in found.get(check, []))


# -- nothing wrong ------------------------------------------------------------------


def test_a_local_fleet_has_no_errors(base):
    """But warnings: nothing runs, and there is one broker."""
    code, found = doctor(base)
    assert set(found) <= {"fleet-scheduler", "fleet-worker",
                          "kafka-replicas"}, found
    assert code == 0
    assert is_said(found, "fleet-scheduler", "no scheduler leads")
    assert is_said(found, "fleet-worker", "no worker lives")
    assert is_said(found, "kafka-replicas", "1 replicas")
    said = base.ctl("doctor").stdout
    assert "warning: no worker lives (fleet-worker)" in said
    assert "fix: start a worker" in said
    assert said.splitlines()[-1].endswith("0 errors, 8 warnings")


# -- settings and machine -------------------------------------------------------------

SETTINGS = [
    ("settings", r"worker.*worker\.nonsense"),
    ("settings-acks", r"producer: kafka\.acks is 1"),
    ("settings-secrets", r"producer: webhooks\.master_key_file .* mode 644"),
    ("settings-secrets", r"producer: http\.key .* mode 644"),
    ("settings-certificate", r"producer: the key of .* does not belong"),
    ("settings-listen", r"scheduler: listens on 0\.0\.0\.0:0"),
]
WORKER = [
    ("settings-egress", r"10\.0\.0\.0/8"),
    ("machine-users", r"65472.*the user nobody"),
    ("machine-memory", r"64 runners of 1048576 MiB"),
    ("machine-files", r"256 files"),
    ("machine-zones", r"/nonexistent"),
    ("settings-certificate-soon", r"within 14 days"),
]


def certificate(folder, name, days):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
         "-days", str(days), "-keyout", folder / f"{name}.key", "-out",
         folder / f"{name}.pem"], check=True, capture_output=True)


def write(folder, base, name, **settings):
    path = folder / name
    words = {"postgres": base.env["ACTIONIST_POSTGRES"], **settings}
    path.write_text("".join(f"{key} = {value}\n"
                            for key, value in words.items()))
    return path


@pytest.fixture(scope="module", name="settings")
def fixture_settings(base, tmp_path_factory):
    """What is found in files that are wrong throughout."""
    folder = tmp_path_factory.mktemp("doctor")
    certificate(folder, "one", 365)
    certificate(folder, "other", 365)
    key = folder / "master.key"
    key.write_text("1:" + base64.b64encode(b"k" * 32).decode() + "\n")
    for path in (key, folder / "other.key"):
        path.chmod(0o644)
    producer = write(folder, base, "producer.conf", **{
        "kafka.acks": 1, "webhooks.master_key_file": key,
        "http.cert": folder / "one.pem", "http.key": folder / "other.key"})
    worker = write(folder, base, "worker.conf", **{"worker.nonsense": 1})
    scheduler = write(folder, base, "scheduler.conf", **{
        "http.listen": "0.0.0.0:0", "http.behind_proxy": "true"})
    return doctor(base, "--producer", producer, "--worker", worker,
                  "--scheduler", scheduler)


@pytest.mark.parametrize("check, words", SETTINGS)
def test_settings(settings, check, words):
    code, found = settings
    assert code == 4
    assert is_said(found, check, words), found


@pytest.fixture(scope="module", name="machine")
def fixture_machine(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    certificate(folder, "soon", 2)
    worker = write(folder, base, "worker.conf", **{
        "egress.private_allow": "127.0.0.1:8080, 10.0.0.0/8",
        "run.uid_base": 65472, "run.memory_mb": 1048576})
    producer = write(folder, base, "producer.conf", **{
        "http.cert": folder / "soon.pem", "http.key": folder / "soon.key"})

    def fewer_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    return doctor(base, "--worker", worker, "--producer", producer,
                  env={"TZDIR": "/nonexistent"}, preexec_fn=fewer_files)


@pytest.mark.parametrize("check, words", WORKER)
def test_machine(machine, check, words):
    code, found = machine
    assert code == 4
    assert is_said(found, check, words), found
    assert not is_said(found, "settings-egress", r"127\.0\.0\.1")


def test_cgroups_need_root(base):
    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    code, found = doctor(base, preexec_fn=nobody)
    assert code == 4 and is_said(
        found, "machine-cgroups", "cannot be made|no cgroup hierarchy")


# -- Postgres ---------------------------------------------------------------------------

DATABASE = "do $$ begin execute format('alter database %I {}', " \
    "current_database()); end $$"
# Check, how it is made, what is said, how it is undone.
POSTGRES = [
    ("pg-commit", DATABASE.format("set synchronous_commit = off"),
     "synchronous_commit is off", None),
    ("pg-connections", DATABASE.format("connection limit 30"),
     "may have 30 connections",
     DATABASE.format("connection limit -1")),
    ("pg-statistics", DATABASE.format("set track_counts = off"),
     "track_counts is off", None),
    ("pg-autovacuum", "alter table live set (autovacuum_enabled = false)",
     "table live has it switched off",
     "alter table live reset (autovacuum_enabled)"),
    ("pg-slots", "select pg_create_physical_replication_slot('doctor', true)",
     "slot doctor is not used", "select pg_drop_replication_slot('doctor')"),
    ("pg-rights", "revoke insert on action from actionist_runtime",
     "actionist_runtime may not insert action",
     "grant insert on action to actionist_runtime"),
    ("pg-partitions", "select setval('outcome_seq', 990000000)",
     "no table outcome_p99", "select setval('outcome_seq', 1, false)"),
    ("pg-sequence", "alter sequence outcome_seq cache 10", "caches 10",
     "alter sequence outcome_seq cache 1"),
    ("pg-clock", "create or replace function fleet_now() returns timestamptz"
     " language sql stable parallel safe"
     " return statement_timestamp() + interval '9 s'", "fleet_now.* 00:00:09",
     "create or replace function fleet_now() returns timestamptz"
     " language sql stable parallel safe return statement_timestamp()"),
    ("pg-schema", "insert into migration (number, name, checksum)"
     " values (9999, 'from_the_future', 'x')", "version 9999.*newer",
     "delete from migration where number = 9999"),
    ("settings-master-key", "insert into webhook_source (tenant, source,"
     " scheme, secret, max_body_bytes, rate_per_s, answer_ms)"
     " values ('t', 'doctor', 'github', '', 1, 1, 100)", "1 sources",
     "delete from webhook_source where source = 'doctor'"),
    ("pg-durable", "alter system set full_page_writes = off",
     "full_page_writes is off", "alter system reset full_page_writes"),
    ("pg-idle", "select 1", "idle in its transaction", None),
]


def change(base, statements):
    with psycopg.connect(base.cluster.conninfo("superuser", base.space),
                         options="-c search_path=actionist"
                                 " -c default_transaction_read_only=off",
                         autocommit=True) as db:
        for statement in statements:
            db.execute(statement)
        db.execute("select pg_reload_conf()")


@pytest.fixture(scope="module", name="sick")
def fixture_sick(base):
    """What is found when all of it is wrong at once."""
    try:
        change(base, [row[1] for row in POSTGRES])
        wait_for(lambda: base.sql("show full_page_writes") == [("off",)],
                 "the server has read its settings again")
        with psycopg.connect(
                base.cluster.conninfo("runtime", base.space)) as idle:
            idle.execute("select 1")
            return doctor(base, "--idle-s", 0)
    finally:
        change(base, [row[3] for row in POSTGRES if row[3]])
        change(base, [DATABASE.format("reset all")])


@pytest.mark.parametrize("check, words",
                         [(row[0], row[2]) for row in POSTGRES])
def test_postgres(sick, check, words):
    code, found = sick
    assert code == 4
    assert is_said(found, check, words), found


@pytest.mark.parametrize("words, check, said", [
    (("--set", "postgres=host=127.0.0.1 port=1 dbname=x"), "pg-reachable",
     "refused"),
    (("--set", "postgres=host=192.0.2.1 connect_timeout=2 dbname=x"),
     "settings-plain", "without sslmode"),
    (("--set", "kafka.bootstrap.servers=127.0.0.1:1"), "kafka-reachable",
     "does not answer"),
    (("--set", "topics.prefix=none."), "kafka-topic",
     r"no topic none\.outcomes"),
])
def test_what_cannot_be_reached(base, words, check, said):
    code, found = doctor(base, *words)
    assert code == 4
    assert is_said(found, check, said), found


def test_a_server_that_only_reads(base):
    try:
        change(base, [DATABASE.format("set default_transaction_read_only = on")])
        code, found = doctor(base)
    finally:
        change(base, [DATABASE.format("reset all")])
    assert code == 4 and is_said(found, "pg-primary", "read-only"), found


def test_programs_as_superuser(base):
    words = base.cluster.conninfo("superuser", base.space)
    code, found = doctor(base, "--set", f"postgres={words}")
    assert code == 0 and is_said(found, "pg-role", "a superuser"), found
    words = base.cluster.conninfo("owner", base.space)
    _, found = doctor(base, "--set", f"postgres={words}")
    assert is_said(found, "pg-role", "owns the tables")


# -- Kafka --------------------------------------------------------------------------------

KAFKA = [
    ("kafka-partitions", r"actions has one partition"),
    ("kafka-cleanup", r"outcomes has cleanup\.policy=compact"),
    ("kafka-retention", r"actions keeps records for 864000 s"),
    ("kafka-size", r"webhooks takes 1000 bytes"),
    ("kafka-unclean", r"rejects may be led"),
    ("kafka-replicas", r"dispatch has 1 replicas"),
]
WRONG = {"outcomes": ("cleanup.policy", "compact"),
         "actions": ("retention.ms", "864000000"),
         "webhooks": ("max.message.bytes", "1000"),
         "rejects": ("unclean.leader.election.enable", "true")}


@pytest.fixture(scope="module", name="topics")
def fixture_topics(base):
    prefix = f"{base.space}-sick"
    admin = AdminClient(base.cluster.kafka_client())
    kafka.create_topics(kafka.admin(base.cluster.kafka_client()), prefix, 1, 1)
    for one in admin.incremental_alter_configs([
            ConfigResource(
                ResourceType.TOPIC, f"{prefix}.{topic}",
                incremental_configs=[ConfigEntry(
                    name, value, incremental_operation=AlterConfigOpType.SET)])
            for topic, (name, value) in WRONG.items()]).values():
        one.result(30)
    return doctor(base, "--set", f"topics.prefix={prefix}.")


@pytest.mark.parametrize("check, words", KAFKA)
def test_kafka(topics, check, words):
    code, found = topics
    assert code == 4
    assert is_said(found, check, words), found


# -- all of them ----------------------------------------------------------------------------


def test_every_check_is_made_on_purpose(base):
    listed = {json.loads(line)["check"] for line in
              base.ctl("doctor", "--list", "--json").stdout.splitlines()}
    here = {"fleet-scheduler", "fleet-worker", "machine-cgroups", "pg-role",
            "pg-reachable", "pg-primary", "settings-plain", "kafka-reachable", "kafka-topic",
            *(row[0] for row in SETTINGS + WORKER + POSTGRES + KAFKA)}
    assert listed == here | ELSEWHERE
    assert len(listed) >= 20
