# SPDX-License-Identifier: Apache-2.0
"""The local cluster itself: what it gives, refuses and leaves behind."""

import json
import os
import pathlib
import shlex
import subprocess
import uuid

import psycopg
import pytest

from lib.kafka import KafkaView
from local import process

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "dev" / "cluster"


def run(*args, code=0):
    done = subprocess.run([str(SCRIPT), *map(str, args)], text=True,
                          capture_output=True, check=False, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def standing(work_dir):
    """A cluster made through the command line, with TLS."""
    folder = work_dir / "by-script"
    run("up", "--dir", folder, "--tls", "--partitions", 3)
    yield folder
    run("down", "--dir", folder)


@pytest.fixture(scope="module")
def env(standing):
    return json.loads(run("env", "--dir", standing, "--json").stdout)


def test_env_is_shell_and_json_alike(standing, env):
    shell = run("env", "--dir", standing).stdout
    pairs = [shlex.split(line)[1].partition("=")
             for line in shell.splitlines()]
    assert {name: value for name, _, value in pairs} == env


def test_secrets_are_the_owners_alone(standing, env):
    for path in (standing / "secrets").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
        secret = path.read_text().strip().rpartition(":")[2]
        assert secret not in json.dumps(env)


def test_topics_exist_with_their_settings(clusters_view):
    topics = clusters_view.topics()
    for name in ("actions", "outcomes", "webhooks", "dispatch", "rejects"):
        assert topics[f"actionist.{name}"] == 3
    assert topics["actionist.control"] == 1


@pytest.fixture(scope="module")
def clusters_view(standing):
    from local.cluster import Cluster
    from local.kafka import admin
    made = Cluster(standing)

    class View(KafkaView):
        def topics(self):
            found = admin(self.settings).list_topics(timeout=30).topics
            return {name: len(topic.partitions)
                    for name, topic in found.items()}

    return View(made.kafka_client(), "actionist.")


def test_records_pass_over_sasl_ssl(clusters_view):
    value = uuid.uuid4().hex.encode()
    clusters_view.publish(value, key="t", topic="rejects")
    assert value in [record.value for record in
                     clusters_view.read_all("rejects")]


def test_postgres_wants_encryption(env):
    plain = env["ACTIONIST_POSTGRES"].replace("verify-full", "disable")
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        psycopg.connect(plain)
    with psycopg.connect(env["ACTIONIST_POSTGRES"]) as db:
        assert db.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = "
                          "pg_backend_pid()").fetchone() == (True,)


def test_runtime_role_may_not_create(env):
    with psycopg.connect(env["ACTIONIST_POSTGRES"]) as db:
        for ddl in ("CREATE TABLE mine ()", "CREATE SCHEMA mine"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(ddl)
            db.rollback()


def test_postgres_is_durable(env):
    with psycopg.connect(env["ACTIONIST_POSTGRES"]) as db:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert db.execute(f"SHOW {name}").fetchone() == ("on",)


def test_postgres_keeps_no_file_elsewhere(standing):
    """One that is killed could not remove it."""
    pid = process.read_pid(standing / "postgres.pid")
    mapped = pathlib.Path(f"/proc/{pid}/maps").read_text()
    assert str(standing) in mapped and "/dev/shm/" not in mapped


def test_status_tells_by_exit_code(standing, work_dir):
    assert json.loads(run("status", "--dir", standing, "--json").stdout)["up"]
    run("status", "--dir", work_dir / "none", code=4)


def test_hard_restart_keeps_what_was_acknowledged(standing, env,
                                                  clusters_view):
    with psycopg.connect(env["ACTIONIST_POSTGRES_OWNER"]) as db:
        db.execute("CREATE TABLE kept (n int)")
        db.execute("INSERT INTO kept VALUES (7)")
    clusters_view.publish(b"kept", topic="rejects")
    run("restart-postgres", "--dir", standing, "--hard")
    run("restart-kafka", "--dir", standing, "--hard")
    with psycopg.connect(env["ACTIONIST_POSTGRES_OWNER"]) as db:
        assert db.execute("SELECT n FROM kept").fetchall() == [(7,)]
    values = [record.value for record in clusters_view.read_all("rejects")]
    assert b"kept" in values


def test_down_leaves_nothing(work_dir):
    folder = work_dir / "passing"
    run("up", "--dir", folder, "--partitions", 1)
    assert process.processes_under(folder)
    run("down", "--dir", folder)
    assert not folder.exists()
    assert not process.processes_under(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another")
def test_refuses_a_folder_postgres_cannot_reach(work_dir):
    closed = work_dir / "closed"
    closed.mkdir(mode=0o700)
    done = run("up", "--dir", closed / "it", code=1)
    assert "cannot reach" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(closed.iterdir())


def test_refuses_a_folder_with_other_things(work_dir):
    other = work_dir / "other"
    other.mkdir()
    (other / "letter").write_text("dear")
    assert "not empty" in run("up", "--dir", other, code=1).stderr
    run("down", "--dir", other)
    assert (other / "letter").read_text() == "dear"


@pytest.mark.parametrize("args", [
    (), ("up",), ("fly", "--dir", "x"), ("up", "--dir", "x", "--brokers", "2"),
    ("up", "--dir", "x", "--partitions", "0"),
    ("space", "--dir", "x", "--space", "../x")])
def test_wrong_usage_is_exit_code_2(args):
    run(*args, code=2)
