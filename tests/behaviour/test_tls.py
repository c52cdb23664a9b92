# SPDX-License-Identifier: Apache-2.0
"""The whole flow with SASL_SSL to Kafka and sslmode=verify-full to Postgres;
and that nobody who looks at it is told a secret."""

import json
import secrets
import subprocess

import pytest

from local import tls
from lib import hooks as senders
from lib import invariants, told
from lib.api import Api, add_connector, echo_action, new_key
from lib.hooks import Hooks, make_master_key
from lib.load import Load, make_house
from lib.programs import BIN
from lib.wait import wait_for

COUNT = 60


@pytest.fixture(scope="module")
def master_key(tmp_path_factory):
    return make_master_key(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def house(fleets, clusters, double, master_key):
    return make_house(fleets, double, on=clusters(use_tls=True), settings={
        "worker": {"egress.private_allow": "127.0.0.1"},
        "producer": {"webhooks.master_key_file": str(master_key)}})


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


# -- secrets ----------------------------------------------------------------------


def make_secret(folder, name, text):
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def call_with_secrets(house, double, tenant, known):
    """A manifest's own header, echoed by a refusal that sets a cookie; an
    answer that is cut; and a certificate that nobody trusts, the broker's."""
    def action(path):
        return {"idempotency": "natural", "request": {
            "method": "POST", "path": f"/{tenant}/{path}",
            "headers": {"Authorization": f"Bearer {known['header']}"},
            "json": "{{payload}}"}}

    once = {"max_attempts": 1}
    add_connector(house, "secretive", {
        name: action(name) for name in ("refused", "broken")},
        base_url=double.url, egress=[double.address], retry=once)
    broker = house.env["ACTIONIST_KAFKA_BOOTSTRAP_SERVERS"]
    add_connector(house, "stranger", {"post": action("tls")}, retry=once,
                  base_url=f"https://{broker}", egress=[broker])
    cookie = ["Set-Cookie", f"session={known['cookie']}"]
    double.script(f"/{tenant}/refused", {
        "status": 401, "headers": [cookie], "body": known["header"]})
    double.script(f"/{tenant}/broken", {
        "headers": [cookie], "body": "x" * 99, "truncate_bytes": 9})
    for connector, name in (("secretive", "refused"), ("secretive", "broken"),
                            ("stranger", "post")):
        house.publish({"spec": "actionist/1", "tenant": tenant,
                       "connector": connector, "action": name,
                       "payload": {"card": known["payload"]}})
    outcomes = house.wait_for_outcomes(3, tenant)
    assert known["cookie"] not in json.dumps(outcomes)
    assert {out["error"]["code"] for out in outcomes} == {
        "HTTP_STATUS", "BAD_ANSWER", "TLS_FAILED"}


def knock(house, tenant, known):
    """The HTTP door: a right key, a wrong one, and a broken body."""
    right = Api(house.url(), known["api key"])
    wrong = Api(house.url(), known["guessed key"])
    assert right.post("{" + known["payload"]).status_code == 400
    assert wrong.post({}).status_code == 401
    said = right.post({"connector": tenant, "action": "x", "payload": {},
                       "idempotency_key": "k"}).text
    right.close()
    wrong.close()
    return said


def deliver(house, tenant, known, master_key):
    """Webhooks: a right signature, a wrong one, a secret that is none, and a
    producer that cannot unseal."""
    hooks = Hooks(house, master_key, tenant)
    hooks.add("repo", "github", known["signing secret"])
    right = senders.github(known["signing secret"], b"{}")
    wrong = senders.github(known["guessed key"], b"{}")
    assert hooks.post("repo", b"{}", right).status_code == 200
    assert hooks.post("repo", b"{}", wrong).status_code == 401
    done = hooks.ctl("add", "bad", "--scheme", "standard-webhooks",
                     secret=known["guessed key"], check=False)
    assert done.returncode != 0
    other = make_master_key(house.folder)
    program = house.add("producer", **{"webhooks.master_key_file": str(other)})
    assert hooks.post("repo", b"{}", right, program.name).status_code == 503
    hooks.close()
    return done.stdout + done.stderr + hooks.ctl("show", "repo").stdout


def use_wrong_passwords(house, known):
    """At the start, of Kafka and of Postgres; the children that try."""
    conninfo = house.cluster.conninfo("runtime", house.space)
    words = dict(word.split("=") for word in conninfo.split())
    wrong = make_secret(house.folder, "wrong.pgpass", ":".join((
        "*", "*", "*", words["user"], known["wrong password"])) + "\n")
    password = make_secret(house.folder, "wrong.pw", known["wrong password"])
    return [subprocess.Popen(
        [str(BIN / "actionist-scheduler"), "--set", setting], text=True,
        env=house.env, cwd=house.folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT) for setting in (
            "postgres=" + conninfo.replace(words["passfile"], str(wrong)),
            f"kafka.sasl.password_file={password}")]


def end(children):
    """What they said; each has ended with 1."""
    said = [child.communicate(timeout=60)[0] for child in children]
    assert [child.returncode for child in children] == [1] * len(said), said
    return "".join(said)


def change_password(house, known):
    """Of the role that everybody is logged in as, for a moment."""
    worker = house["worker-0"]
    before = worker.text().count("password authentication failed")
    password = known["runtime password"]
    house.sql(f"alter role actionist_runtime password '{password}-not'")
    try:
        house.sql("select pg_terminate_backend(pid) from pg_stat_activity"
                  " where usename = 'actionist_runtime'")
        wait_for(lambda: worker.text().count("password authentication failed")
                 > before, "a refused log-in", 60)
    finally:
        house.sql(f"alter role actionist_runtime password '{password}'")


def test_no_secret_is_told(house, double, tenant, master_key):
    known = {name: f"{name.split()[0]}-{secrets.token_hex(12)}" for name in (
        "header", "cookie", "payload", "signing secret", "wrong password")}
    known["guessed key"] = "ak_" + secrets.token_hex(24)
    known["api key"] = new_key(house, tenant)[1]
    known["master key"] = master_key.read_text().strip().partition(":")[2]
    for who in ("kafka", "runtime", "owner"):
        known[f"{who} password"] = house.cluster.secret(who)
    children = use_wrong_passwords(house, known)
    said = knock(house, tenant, known)
    call_with_secrets(house, double, tenant, known)
    said += deliver(house, tenant, known, master_key)
    said += end(children)
    change_password(house, known)
    for program in house.programs.values():
        house.wait_ready(program)
    places = [("what was said", said.encode()), *told.pages(house),
              *told.processes(house),
              *told.logs([house.folder, house.cluster.folder])]
    assert not told.leaks(places, known)
    # The search finds what is there.
    assert told.leaks(places, {"tenant": tenant}) and told.leaks(
        places, {"setting": "ACTIONIST_POSTGRES"})
    rows = house.sql("select webhook_source::text from webhook_source"
                     " union all select api_key::text from api_key")
    assert not told.leaks([("rows", str(rows).encode())], known)
