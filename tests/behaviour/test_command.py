# SPDX-License-Identifier: Apache-2.0
"""The command: help, exit codes, migrate, key, connector, get, list."""

import copy
import hashlib
import json
import subprocess
import uuid

import psycopg
import pytest

from lib.programs import BIN
from local.cluster import new_space_name

COMMANDS = ("migrate", "key", "connector", "webhook", "publish", "get",
            "list", "logs", "ledger", "cancel", "resolve", "pause", "resume",
            "drain", "replay", "schedule", "verify", "doctor", "top", "dev",
            "completion", "man")

MANIFEST = {
    "manifest": 1, "name": "shop", "version": "1.0.0",
    "base_url": "https://shop.example.com",
    "actions": {"charge": {
        "idempotency": "keyed",
        "request": {"method": "POST", "path": "/v1/{{payload.order}}",
                    "json": {"amount": "{{payload.amount}}"}},
        "payload": {"type": "object", "required": ["order"]},
        "timeout_ms": 5000}},
}


@pytest.fixture(scope="module")
def base(fleets):
    """A migrated database and topics; no daemon runs."""
    return fleets(producers=0, workers=0, schedulers=0)


def run(base, *words, stdin=None):
    """Exit code, standard output, standard error."""
    done = base.ctl(*words, check=False, stdin=stdin)
    return done.returncode, done.stdout, done.stderr


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def is_one_line(text):
    return text.endswith("\n") and text.count("\n") == 1


# -- help and usage -----------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(base, command):
    code, out, err = run(base, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: actionist {command}")
    assert "--json" in out and "--config" in out and "--set" in out


def test_help_lists_every_command(base):
    code, out, _ = run(base, "--help")
    assert code == 0
    assert all(f"\n  {command} " in out for command in COMMANDS)
    assert "exit codes" in out


@pytest.mark.parametrize("words, said", [
    ((), "usage: actionist"),
    (("fly",), "no command 'fly'"),
    (("migrate", "--fast"), "no option --fast"),
    (("migrate", "extra"), "too many arguments"),
    (("list", "--state", "done"), "ready, begun, waiting"),
    (("list", "--reason", "joy"), "nothing waits for 'joy'"),
    (("list", "--state", "ready", "--status", "failed"), "are about outcomes"),
    (("list", "--code", "JOY"), "no code 'JOY'"),
    (("list", "--since", "soon"), "a time of RFC 3339"),
    (("list", "--tenant"), "--tenant needs a value"),
    (("list", "--tenant", "Acme"), "must be a name"),
    (("list", "--tenant", "acme", "--status", "done"), "terminal status"),
    (("list", "--tenant", "acme", "--limit", "0"), "1 to 10000"),
    (("list", "--tenant", "acme", "--limit", "10001"), "1 to 10000"),
    (("list", "--tenant", "acme", "--before", "x"), "takes a number"),
    (("get",), "get takes an id"),
    (("get", "abc"), "is not an action id"),
    (("logs", "--id", "x"), "not an action id"),
    (("logs", "--kind", "joy"), "there is no 'joy'"),
    (("logs", "--since", "yesterday"), "a time of RFC 3339"),
    (("logs", "-f", "--until", "1h"), "exclude each other"),
    (("ledger",), "export or keep"),
    (("ledger", "keep", "--days", "3"), "go together"),
    (("ledger", "keep", "--tenant", "a", "--days", "0"), "1 to 3650"),
    (("pause", "--tenant", "acme"), "--reason is required"),
    (("pause", "--reason", "x"), "say what"),
    (("pause", "--all", "--tenant", "a", "--reason", "x"), "say what"),
    (("pause", "--action", "a", "--reason", "x"), "needs its --connector"),
    (("pause", "--tenant", "A", "--reason", "x"), "is not a name"),
    (("pause", "--all", "--reason", ""), "1 to 500 bytes"),
    (("resume",), "say what"),
    (("drain", "--all"), "--reason is required"),
    (("drain", "--reason", "x"), "which worker"),
    (("drain", "w1", "--all", "--reason", "x"), "which worker"),
    (("drain", "w1", "--reason", "x", "--timeout", "x"), "0 to 3600"),
    (("resolve",), "takes the id"),
    (("resolve", "1cad21e6-6f24-80c3-98b1-6b4fe568be4a", "--as", "expired"),
     "succeeded or failed"),
    (("resolve", "1cad21e6-6f24-80c3-98b1-6b4fe568be4a", "--as", "failed"),
     "--note takes"),
    (("key",), "add, list or revoke"),
    (("key", "add"), "--tenant is required"),
    (("key", "add", "--tenant", "../etc"), "is not a name"),
    (("key", "revoke"), "which key?"),
    (("connector",), "add, list or show"),
    (("connector", "show"), "takes a name"),
    (("dev",), "up, down or status"),
    (("dev", "up"), "--dir is required"),
    (("dev", "up", "--dir", "/tmp/a b"), "white space"),
    (("list", "--set", "tenant"), "NAME=VALUE"),
    (("list", "--set", "no.such=1"), "no.such"),
    (("list", "--config", "/nonexistent"), "/nonexistent"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else None)
def test_usage_errors_end_with_2(base, words, said):
    code, out, err = run(base, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert not words or is_one_line(err)


def test_unreachable_database_is_try_later(base):
    code, out, err = run(base, "list", "--tenant", "acme", "--set",
                         "postgres.owner=host=127.0.0.1 port=1 dbname=x")
    assert (code, out) == (75, "")
    assert err.startswith("actionist: ") and is_one_line(err)


def test_no_fleet_in_the_folder_is_not_found(base, tmp_path):
    for verb in ("status", "down"):
        code, _, err = run(base, "dev", verb, "--dir", tmp_path / "none")
        assert code == 3 and "no fleet" in err


# -- migrate --------------------------------------------------------------------


@pytest.fixture
def own(cluster, tmp_path):
    """An empty database, and a way to run the command on it."""
    space = new_space_name()
    cluster.create_space(space, 1)

    class Own:
        """The command with one database's settings."""

        env = {"PATH": "/usr/bin:/bin", **cluster.environment(space)}

        def begin(self, *words):
            return subprocess.Popen(
                [str(BIN / "actionist"), *words], env=self.env, cwd=tmp_path,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)

        def run(self, *words):
            child = self.begin(*words)
            out, err = child.communicate(timeout=60)
            return child.returncode, out, err

        def sql(self, query, params=None):
            with psycopg.connect(cluster.conninfo("superuser", space),
                                 options="-c search_path=actionist",
                                 autocommit=True) as db:
                cursor = db.execute(query, params)
                return cursor.fetchall() if cursor.description else []

    return Own()


def test_migrate_twice_changes_nothing(own):
    code, out, err = own.run("migrate", "--json")
    first = rows(out)
    assert (code, err) == (0, "") and first
    assert all(row["state"] == "applied" for row in first)
    applied = own.sql("select * from migration")
    code, out, err = own.run("migrate", "--json")
    assert (code, err) == (0, "")
    assert [row["name"] for row in rows(out)] == [
        row["name"] for row in first]
    assert all(row["state"] == "there already" for row in rows(out))
    assert own.sql("select * from migration") == applied


def test_migrate_from_four_places_at_once(own):
    children = [own.begin("migrate", "--json") for _ in range(4)]
    said = [(*child.communicate(timeout=60), child.returncode)
            for child in children]
    assert [code for _, _, code in said] == [0] * 4, said
    states = [{row["state"] for row in rows(out)} for out, _, _ in said]
    assert states.count({"applied"}) == 1
    assert states.count({"there already"}) == 3


def test_migrate_refuses_a_newer_database(own):
    assert own.run("migrate")[0] == 0
    own.sql("insert into migration (number, name, checksum)"
            " values (9999, 'from_the_future', 'x')")
    code, _, err = own.run("migrate")
    assert code == 5
    assert "9999" in err and "newer" in err and is_one_line(err)


def test_migrate_refuses_a_changed_checksum(own):
    assert own.run("migrate")[0] == 0
    own.sql("update migration set checksum = 'changed' where number = 1")
    code, _, err = own.run("migrate")
    assert code == 5
    assert "checksums differ" in err and is_one_line(err)


def test_migrate_needs_the_owner(own):
    own.env = {**own.env,
               "ACTIONIST_POSTGRES_OWNER": own.env["ACTIONIST_POSTGRES"]}
    code, out, err = own.run("migrate")
    assert (code, out) == (1, "")
    assert "permission denied" in err and is_one_line(err)
    assert own.sql("select to_regclass('actionist.live')") == [(None,)]


# -- what the runtime role may do -------------------------------------------------

RIGHTS = {
    "action": "SI", "outcome": "SI", "ledger": "SI",
    "live": "SIUD", "waiting": "SIUD", "reservation": "SID",
    "worker": "SIU", "relay_checkpoint": "SIU",
    "fleet_clock": "SU",
    "action_window": "S", "api_key": "S", "connector": "S", "migration": "S",
    "webhook_source": "S", "ledger_keep": "S", "pause": "S", "drain": "S",
    "resolution": "SI",
    "webhook": "SI", "webhook_keep": "S", "webhook_retention": "S",
    "replay": "SIU", "replay_ids": "SID", "replay_open": "SID",
    "schedule": "SIUD", "schedule_firing": "SID",
    "audit_mark": "SIUD", "audit_open": "SIUD", "audit_finding": "SIUD",
}
PRIVILEGES = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE",
              "": "TRUNCATE"}


def test_runtime_role_has_exactly_its_rights(base):
    found = base.sql(
        "select c.relname, p.letter, has_table_privilege("
        "  'actionist_runtime', c.oid, p.name)"
        " from pg_class c, unnest(%s::text[], %s::text[]) p (letter, name)"
        " where c.relnamespace = 'actionist'::regnamespace"
        " and c.relkind in ('r', 'p') and not c.relispartition",
        [list(PRIVILEGES), list(PRIVILEGES.values())])
    rights = {}
    for table, letter, is_granted in found:
        rights.setdefault(table, set()).update(letter if is_granted else "")
        assert not (is_granted and letter == ""), f"{table}: TRUNCATE"
    assert rights == {table: set(text) for table, text in RIGHTS.items()}


def test_runtime_role_has_no_rights_on_partitions(base):
    found = base.sql(
        "select c.relname, p from pg_class c, unnest(%s::text[]) p"
        " where c.relnamespace = 'actionist'::regnamespace"
        " and c.relispartition and c.relkind = 'r'"
        " and has_table_privilege('actionist_runtime', c.oid, p)",
        [list(PRIVILEGES.values())])
    assert found == []


@pytest.mark.parametrize("statement", [
    "delete from action", "delete from outcome", "delete from ledger",
    "update action set tenant = 'x'", "update outcome set status = 1",
    "update ledger set kind = 1", "update ledger_keep set keep_days = 1", "truncate live", "drop table waiting",
    "delete from worker", "delete from relay_checkpoint",
    "insert into api_key (id, tenant, hash) values ('k', 't', 'x')",
    "update connector set version = 'x'", "delete from migration",
    "create table actionist.mine (a int)", "create schema mine",
    "alter table live add column mine int",
    "create index on live (since)", "set role actionist_owner",
])
def test_runtime_role_is_refused(base, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        base.sql(statement, who="runtime")


# -- key ------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_stored_hashed(base, tenant):
    code, out, err = run(base, "key", "add", "--tenant", tenant, "--json")
    assert (code, err) == (0, "")
    [made] = rows(out)
    assert made["tenant"] == tenant and made["key"].startswith("ak_")
    digest = hashlib.sha256(made["key"].encode()).digest()
    assert base.sql("select tenant, hash from api_key where id = %s",
                    [made["id"]]) == [(tenant, digest)]
    _, out, _ = run(base, "key", "list", "--tenant", tenant, "--json")
    assert made["key"] not in out
    [listed] = rows(out)
    assert listed["id"] == made["id"] and listed["revoked_at"] is None


def test_a_key_for_people(base, tenant):
    code, out, err = run(base, "key", "add", "--tenant", tenant)
    assert code == 0 and out.splitlines()[0].split() == ["id", "tenant", "key"]
    assert "this once" in err
    code, out, _ = run(base, "key", "list")
    assert code == 0 and tenant in out


def test_revoking_a_key(base, tenant):
    _, out, _ = run(base, "key", "add", "--tenant", tenant, "--json")
    key_id = rows(out)[0]["id"]
    assert run(base, "key", "revoke", key_id, "--tenant", "other")[0] == 3
    assert run(base, "key", "revoke", key_id)[0] == 0
    _, out, _ = run(base, "key", "list", "--tenant", tenant, "--json")
    revoked_at = rows(out)[0]["revoked_at"]
    assert revoked_at
    assert run(base, "key", "revoke", key_id)[0] == 0
    _, out, _ = run(base, "key", "list", "--tenant", tenant, "--json")
    assert rows(out)[0]["revoked_at"] == revoked_at


def test_revoking_no_key_is_not_found(base):
    code, _, err = run(base, "key", "revoke", "key_none")
    assert code == 3 and "key_none" in err


# -- connector ---------------------------------------------------------------------------


def changed(pointer, value):
    """MANIFEST with one member set, or removed (value None)."""
    manifest = copy.deepcopy(MANIFEST)
    *path, last = pointer.split("/")[1:]
    where = manifest
    for name in path:
        where = where[name]
    if value is None:
        del where[last]
    else:
        where[last] = value
    return json.dumps(manifest)


def test_connector_add_list_show(base):
    name = f"c-{uuid.uuid4().hex[:8]}"
    text = changed("/name", name)
    code, out, err = run(base, "connector", "add", "-", "--json", stdin=text)
    assert (code, err) == (0, "")
    [added] = rows(out)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert added == {"name": name, "version": "1.0.0",
                     "digest": f"sha256:{digest}", "actions_count": 1}
    _, out, _ = run(base, "connector", "list", "--json")
    assert name in [row["name"] for row in rows(out)]
    code, out, _ = run(base, "connector", "show", name)
    assert code == 0 and out == text + "\n"
    # The same again is fine; other content needs another version.
    assert run(base, "connector", "add", "-", stdin=text)[0] == 0
    code, _, err = run(base, "connector", "add", "-", stdin=text + " ")
    assert code == 5 and "new version" in err


def test_the_newest_version_is_shown(base):
    name = f"c-{uuid.uuid4().hex[:8]}"
    for version in ("1", "2"):
        manifest = {**MANIFEST, "name": name, "version": version}
        assert run(base, "connector", "add", "-",
                   stdin=json.dumps(manifest))[0] == 0
    _, out, _ = run(base, "connector", "show", name)
    assert json.loads(out)["version"] == "2"
    _, out, _ = run(base, "connector", "show", name, "--version", "1")
    assert json.loads(out)["version"] == "1"
    assert run(base, "connector", "show", name, "--version", "3")[0] == 3


def test_unknown_connector_is_not_found(base):
    code, _, err = run(base, "connector", "show", "nobody")
    assert code == 3 and "nobody" in err


def test_unsigned_manifests_need_a_word(base):
    strict = ("--set", "connector.allow_unsigned=false")
    text = changed("/name", f"c-{uuid.uuid4().hex[:8]}")
    code, _, err = run(base, "connector", "add", "-", *strict, stdin=text)
    assert code == 5 and "--allow-unsigned" in err
    code, _, _ = run(base, "connector", "add", "-", "--allow-unsigned",
                     *strict, stdin=text)
    assert code == 0


@pytest.mark.parametrize("pointer, value", [
    ("/manifest", 2), ("/name", "Shop"), ("/version", None),
    ("/base_url", "ftp://x"), ("/actions", {}), ("/colour", "red"),
    ("/actions/charge/idempotency", None),
    ("/actions/charge/idempotency", "maybe"),
    ("/actions/charge/request/path", "v1"),
    ("/actions/charge/request/path", "/{{secret.x}}"),
    ("/actions/charge/payload/pattern", "^a"),
    ("/actions/charge/timeout_ms", 0),
    ("/auth", {"type": "oauth2"}),
])
def test_a_bad_manifest_names_the_pointer(base, tmp_path, pointer, value):
    path = tmp_path / "manifest.json"
    path.write_text(changed(pointer, value))
    code, out, err = run(base, "connector", "add", path)
    assert (code, out) == (4, "")
    assert pointer in err and is_one_line(err)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a":1,"a":2}'])
def test_what_is_no_manifest_is_refused(base, text):
    code, _, err = run(base, "connector", "add", "-", stdin=text)
    assert code == 4 and is_one_line(err)


def test_a_missing_manifest_file(base):
    code, _, err = run(base, "connector", "add", "/nonexistent.json")
    assert code == 1 and "/nonexistent.json" in err


# -- get and list --------------------------------------------------------------------------


def put_outcome(base, tenant, status, error_code=None):
    """One finished action as a worker would have left it."""
    action_id = uuid.uuid4()
    request = {"spec": "actionist/1", "tenant": tenant, "connector": "shop",
               "action": "charge", "payload": {"note": "\x1b[31m"}}
    base.sql(
        "insert into action (id, window_no, tenant, connector, action,"
        " fingerprint, source, effect, request) values (%s, 1, %s, 'shop',"
        " 'charge', %s, 'actions:0:1', 2, %s)",
        [action_id, tenant, b"\x01" * 33, json.dumps(request).encode()])
    base.sql(
        "insert into outcome (id, window_no, tenant, status, attempt_no,"
        " calls, error_code, body) values (%s, 1, %s, %s, 2, 2, %s, %s)",
        [action_id, tenant, status, error_code,
         json.dumps({"id": str(action_id), "status": "succeeded"}).encode()])
    return str(action_id)


def test_get_tells_the_whole_story(base, tenant):
    action_id = put_outcome(base, tenant, 1)
    base.sql("insert into ledger (id, tenant, attempt_no, kind, detail)"
             " values (%s, %s, 1, 1, %s)",
             [action_id, tenant, b'{"code":"HTTP_STATUS"}'])
    code, out, err = run(base, "get", action_id, "--json")
    assert (code, err) == (0, "")
    story = json.loads(out)
    assert story["id"] == action_id and story["source"] == "actions:0:1"
    assert story["request"]["tenant"] == tenant
    assert story["outcome"]["status"] == "succeeded"
    assert [(entry["kind"], entry["detail"]["code"])
            for entry in story["ledger"]] == [("attempt", "HTTP_STATUS")]


def test_get_for_people_hides_control_characters(base, tenant):
    action_id = put_outcome(base, tenant, 1)
    code, out, _ = run(base, "get", action_id)
    assert code == 0 and action_id in out and "succeeded" in out
    assert "\x1b" not in out


def test_get_of_a_waiting_action(base, tenant):
    action_id = str(uuid.uuid4())
    base.sql(
        "insert into action (id, window_no, tenant, connector, action,"
        " fingerprint, source, effect, request) values (%s, 1, %s, 'shop',"
        " 'charge', %s, 'actions:0:2', 2, '{}')",
        [action_id, tenant, b"\x01" * 33])
    base.sql(
        "insert into waiting (id, window_no, tenant, attempt_no, reason, due,"
        " effect) values (%s, 1, %s, 1, 1, now() + '1 hour', 2)",
        [action_id, tenant])
    _, out, _ = run(base, "get", action_id, "--json")
    story = json.loads(out)
    assert (story["state"], story["reason"]) == ("waiting", "retry")
    assert story["due"] and story["outcome"] is None


def test_get_of_nothing_is_not_found(base, tenant):
    assert run(base, "get", uuid.uuid4())[0] == 3
    assert run(base, "get", "--tenant", tenant, "--connector", "shop",
               "--key", "k")[0] == 3


def test_list_pages_newest_first(base, tenant):
    ids = [put_outcome(base, tenant, 1) for _ in range(3)]
    failed = put_outcome(base, tenant, 2, "HTTP_STATUS")
    code, out, _ = run(base, "list", "--tenant", tenant, "--json")
    listed = rows(out)
    assert code == 0
    assert [row["id"] for row in listed] == [failed, *reversed(ids)]
    assert listed[0]["error_code"] == "HTTP_STATUS"
    assert listed[0]["attempts"] == 2 and listed[1]["error_code"] is None
    _, out, _ = run(base, "list", "--tenant", tenant, "--status", "failed",
                    "--json")
    assert [row["id"] for row in rows(out)] == [failed]
    _, out, _ = run(base, "list", "--tenant", tenant, "--limit", "1",
                    "--before", listed[0]["seq"], "--json")
    assert [row["id"] for row in rows(out)] == [ids[-1]]


def test_list_filters_and_goes_on_where_a_filter_matches_seldom(
        base, tenant):
    first = put_outcome(base, tenant, 2, "HTTP_STATUS")
    base.sql("insert into outcome (id, window_no, tenant, status, attempt_no,"
             " calls, body) select gen_random_uuid(), 1, %s, 1, 1, 1, '{}'"
             " from generate_series(1, 1200)", [tenant])
    put_outcome(base, tenant, 2, "EXECUTION_TIMEOUT")

    def found(*words):
        code, out, _ = run(base, "list", "--tenant", tenant, "--json", *words)
        assert code == 0
        return [row["id"] for row in rows(out)]

    assert len(found("--status", "failed")) == 2
    assert found("--code", "HTTP_STATUS") == [first]
    assert first in found("--connector", "shop", "--action", "charge")
    assert found("--connector", "other") == []
    assert len(found("--limit", "2000")) == 1202
    assert len(found("--since", "1h", "--limit", "700")) == 700
    assert found("--until", "1h") == []


def test_list_of_the_unfinished(base, tenant):
    ids = sorted(str(uuid.uuid4()) for _ in range(4))
    for number, action_id in enumerate(ids):
        base.sql(
            "with made as (insert into action (id, window_no, tenant,"
            " connector, action, fingerprint, source, effect, request)"
            " values (%s, 1, %s, 'shop', 'charge', %s, 'actions:0:1', 2, '{}')"
            " returning id) insert into waiting (id, window_no, tenant,"
            " attempt_no, reason, due, effect) select id, 1, %s, 1, %s,"
            " 'infinity', 2 from made",
            [action_id, tenant, b"\x01" * 33, tenant, 1 + number % 2])

    def found(*words):
        code, out, err = run(base, "list", "--tenant", tenant, *words)
        assert code == 0
        return out, err

    out, _ = found("--state", "waiting", "--json")
    assert [row["id"] for row in rows(out)] == ids
    assert {row["state"] for row in rows(out)} == {"waiting"}
    out, _ = found("--reason", "retry", "--json")
    assert [row["id"] for row in rows(out)] == [ids[0], ids[2]]
    assert found("--state", "ready", "--json")[0] == ""
    out, err = found("--state", "unfinished", "--limit", "3")
    assert ids[3] not in out and f"--after {ids[2]}" in err
    out, _ = found("--state", "unfinished", "--after", ids[2], "--json")
    assert [row["id"] for row in rows(out)] == [ids[3]]


def test_list_for_people(base, tenant):
    action_id = put_outcome(base, tenant, 1)
    put_outcome(base, tenant, 1)
    code, out, err = run(base, "list", "--tenant", tenant, "--limit", "1")
    assert code == 0
    assert out.splitlines()[0].split()[:4] == [
        "id", "connector", "action", "status"]
    assert action_id not in out and "--before" in err
    code, out, err = run(base, "list", "--tenant", "t-nobody")
    assert (code, out, err) == (0, "", "")
