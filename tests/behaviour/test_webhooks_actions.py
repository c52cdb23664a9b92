# SPDX-License-Identifier: Apache-2.0
"""From webhook to action: one delivery, one action, whatever is repeated."""

import base64
import json
import subprocess

import pytest

from lib import hooks as senders
from lib.api import add_connector
from lib.hooks import FORM, Hooks, make_master_key
from lib.programs import BIN
from lib.wait import wait_for

GITHUB = "testonly-github-secret"
STRIPE = "whsec_testonly_stripe_0001"
SLACK = "testonly_slack_signing_secret"
CONNECTOR = "crm"


def note(path="/note/{{action.tenant}}/{{payload.about}}"):
    return {"idempotency": "keyed", "timeout_ms": 10000,
            "key": {"header": "Idempotency-Key", "retention_s": 86400},
            "request": {"method": "POST", "path": path,
                        "json": "{{payload}}"},
            "payload": {"type": "object", "required": ["about"]}}


@pytest.fixture(scope="module")
def master_key(tmp_path_factory):
    return make_master_key(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def house(fleets, master_key, double):
    made = fleets(settings={
        "producer": {"webhooks.master_key_file": str(master_key)},
        "worker": {"egress.private_allow": double.address}})
    add_connector(made, CONNECTOR, {"note": note()}, double.url,
                  egress=[double.address])
    double.script("/note/*", {"body": "{}"}, dedup_header="Idempotency-Key")
    return made


@pytest.fixture
def hooks(house, master_key, tenant):
    made = Hooks(house, master_key, tenant)
    yield made
    made.close()


@pytest.fixture
def source(hooks, tmp_path):
    """Makes a source with a mapping: source("repo", "github", GITHUB)."""
    def make(name, scheme, secret, **mapping):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({
            "connector": CONNECTOR, "action": "note",
            "payload": {"about": "{{body.about}}",
                        "delivery": "{{webhook.sender_id}}"}, **mapping}))
        return hooks.add(name, scheme, secret, "--map", path)

    return make


def deliver(hooks, source, about, delivery, event="push", **more):
    body = json.dumps({"about": about, **more}).encode()
    answer = hooks.post(source, body, {
        **senders.github(GITHUB, body, delivery), "X-GitHub-Event": event})
    assert answer.status_code == 200, answer.text
    return answer.headers["actionist-webhook-id"]


def stored(hooks, source=None):
    """Rows of the tenant's deliveries, oldest record first."""
    rows = hooks.fleet.sql(
        "select id::text, source, sender_id, type, decision, error, body"
        " from webhook where tenant = %s order by at, kafka_partition,"
        " kafka_offset", (hooks.tenant,))
    names = ("id", "source", "sender_id", "type", "decision", "error", "body")
    found = [dict(zip(names, row)) for row in rows]
    return [row for row in found if source in (None, row["source"])]


def wait_stored(hooks, count, source=None):
    def probe():
        rows = stored(hooks, source)
        return rows if len(rows) >= count else None

    return wait_for(probe, f"{count} deliveries stored", 60)


UNMAPPED, MAPPED, FILTERED, FAILED, HELD = 1, 2, 3, 4, 5


def applied(double, hooks, about):
    return double.applied(f"/note/{hooks.tenant}/{about}", None)


# -- one delivery, one action ---------------------------------------------------


def test_a_delivery_becomes_one_action_under_its_own_id(
        hooks, source, double):
    repo = source("repo", "github", GITHUB)
    delivery = deliver(hooks, repo, "one", "d-1")
    assert deliver(hooks, repo, "one", "d-1") == delivery
    [out] = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    assert (out["id"], out["status"], out["connector"], out["action"],
            out["idempotency_key"]) == (
        delivery, "succeeded", CONNECTOR, "note", "webhook:repo:d-1")
    [effect] = double.effects(f"/note/{hooks.tenant}/one")
    assert (effect["key"], effect["applied"], effect["calls"]) == (
        delivery, 1, 1)
    [seen] = double.requests(f"/note/{hooks.tenant}/one")
    assert json.loads(seen["body"]) == {"about": "one", "delivery": "d-1"}
    [row] = stored(hooks)
    assert (row["id"], row["decision"], row["type"]) == (
        delivery, MAPPED, "push")


def restart_producer(hooks):
    """It forgets what it has seen."""
    hooks.fleet["producer-0"].restart()
    hooks.clients.pop("producer-0").close()


def test_repeats_that_nobody_remembers_are_one_action(
        hooks, source, double, tmp_path):
    """Not even a mapping that changed in between makes it two."""
    repo = source("repo", "github", GITHUB)
    first = deliver(hooks, repo, "old", "d-1")
    hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({
        "connector": CONNECTOR, "action": "note",
        "payload": {"about": "{{body.about}}-again"}}))
    hooks.ctl("map", repo, "--map", other)
    restart_producer(hooks)
    assert deliver(hooks, repo, "old", "d-1") == first
    rows = wait_stored(hooks, 2)
    assert [(row["id"], row["decision"]) for row in rows] == [
        (first, MAPPED)] * 2
    # The new mapping is in force, and the claims up to here are over.
    deliver(hooks, repo, "new", "d-2")
    outcomes = hooks.fleet.wait_for_outcomes(2, hooks.tenant)
    assert len(outcomes) == 2
    assert double.calls(f"/note/{hooks.tenant}/old", first) == 1
    assert double.calls(f"/note/{hooks.tenant}/old-again", first) == 0
    assert double.effects(f"/note/{hooks.tenant}/new-again")


def test_other_content_under_an_id_is_refused_and_seen(hooks, source, double):
    repo = source("repo", "github", GITHUB)
    first = deliver(hooks, repo, "a", "d-1")
    hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    restart_producer(hooks)
    assert deliver(hooks, repo, "b", "d-1") == first
    outcomes = hooks.fleet.wait_for_outcomes(2, hooks.tenant)
    [refused] = [out for out in outcomes if out["id"] != first]
    assert (refused["status"], refused["error"]["code"]) == (
        "rejected", "IDEMPOTENCY_CONFLICT")
    assert not double.effects(f"/note/{hooks.tenant}/b")


def test_action_of_a_dead_worker_is_taken_over(hooks, source, double):
    repo = source("repo", "github", GITHUB)
    path = f"/note/{hooks.tenant}/slow"
    double.script(path, {"never": True}, {"body": "{}"},
                  dedup_header="Idempotency-Key")
    delivery = deliver(hooks, repo, "slow", "d-1")
    wait_for(lambda: double.requests(path), "the call runs", 60)
    hooks.fleet["worker-0"].kill()
    hooks.fleet["worker-0"].start()
    [out] = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    assert (out["id"], out["status"]) == (delivery, "succeeded")
    assert {effect["key"] for effect in double.effects(path)} == {delivery}


# -- what becomes no action -----------------------------------------------------


def test_what_cannot_be_mapped_says_why_and_blocks_nothing(
        hooks, source, double):
    repo = source("repo", "github", GITHUB, types=["push", "pull_*"])
    lost = source("lost", "github", GITHUB, connector="nobody")
    deep = source("deep", "github", GITHUB, payload={"about": 7, "x": "{{"
                  "headers.x-github-event}}", "y": "{{body.a.0.b}}"})
    hooks.add("plain", "github", GITHUB)
    deliver(hooks, repo, "x", "d-1", event="issues")
    body = b'{"other": 1}'
    assert hooks.post(repo, body, {
        **senders.github(GITHUB, body, "d-2"),
        "X-GitHub-Event": "push"}).status_code == 200
    deliver(hooks, lost, "x", "d-3")
    deliver(hooks, "plain", "x", "d-4")
    deliver(hooks, deep, "x", "d-5", a=[{"b": 1.50}])
    mapped = deliver(hooks, repo, "y", "d-6", event="pull_request")
    rows = {row["sender_id"]: row for row in wait_stored(hooks, 6)}
    assert {name: row["decision"] for name, row in rows.items()} == {
        "d-1": FILTERED, "d-2": FAILED, "d-3": FAILED, "d-4": UNMAPPED,
        "d-5": MAPPED, "d-6": MAPPED}
    assert json.loads(rows["d-2"]["error"])["code"] == "TEMPLATE_INVALID"
    assert json.loads(rows["d-2"]["error"])["pointer"] == "/body/about"
    assert json.loads(rows["d-3"]["error"])["code"] == "UNKNOWN_CONNECTOR"
    outcomes = hooks.fleet.wait_for_outcomes(2, hooks.tenant)
    assert {out["id"] for out in outcomes} == {mapped, rows["d-5"]["id"]}
    [seen] = double.requests(f"/note/{hooks.tenant}/7")
    assert seen["body"] == b'{"about": 7, "x": "push", "y": 1.5}'


def test_evidence_is_never_run(hooks, tmp_path, double):
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"connector": CONNECTOR, "action": "note"}))
    hooks.add("repo", "github", GITHUB, "--map", path, "--keep-rejected")
    body = b'{"about": "forged"}'
    answer = hooks.post("repo", body, senders.github("a-guess", body, "d-1"))
    assert answer.status_code == 401
    body = b'{"about": "twice"}'
    for delivery in ("d-2", "d-3"):  # nobody signed the second id
        hooks.post("repo", body, senders.github(GITHUB, body, delivery))
    outcomes = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    rows = wait_stored(hooks, 3)
    assert sorted(row["decision"] for row in rows) == [MAPPED, HELD, HELD]
    assert [out["idempotency_key"] for out in outcomes] == ["webhook:repo:d-2"]
    assert not double.effects(f"/note/{hooks.tenant}/forged")


def test_forms_and_senders_without_an_id(hooks, source, double):
    chat = source("chat", "slack", SLACK, payload={
        "about": "{{body.text}}", "user": "{{body.user}}"})
    body = b"text=h%C3%A9llo&user=u+1&text=second"
    headers = senders.slack(SLACK, body, content_type=FORM)
    answer = hooks.post(chat, body, headers)
    [out] = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    delivery = answer.headers["actionist-webhook-id"]
    assert (out["id"], out["status"], out["idempotency_key"]) == (
        delivery, "succeeded", f"webhook:chat:{delivery}")
    [seen] = double.requests(f"/note/{hooks.tenant}/*")
    assert json.loads(seen["body"]) == {"about": "h\u00e9llo", "user": "u 1"}


def test_what_is_no_document_is_put_aside(hooks):
    hooks.fleet.kafka.publish(b'{"spec": "actionist/1"}', hooks.tenant,
                              topic="webhooks")

    def probe():
        return [record for record in hooks.fleet.kafka.read_all("rejects")
                if record.key == hooks.tenant.encode()]

    [record] = wait_for(probe, "a reject", 60)
    assert record.header("reason") == "INVALID_MEMBER"
    assert record.header("pointer") == "/id"


# -- the command ------------------------------------------------------------------


@pytest.mark.parametrize("mapping, said", [
    ({"action": "note"}, "/connector is required"),
    ({"connector": "crm", "action": "note", "typo": 1},
     "/typo is not a member of a mapping"),
    ({"connector": "crm", "action": "note", "payload": {"a": "{{payload}}"}},
     "/payload a placeholder must be {{body}}"),
    ({"connector": "crm", "action": "note", "types": []},
     "/types must be an array"),
    ({"connector": "crm", "action": "note", "type": "{{type}}"}, "/type a"),
])
def test_mapping_is_checked_when_it_is_given(hooks, tmp_path, mapping, said):
    path = tmp_path / "map.json"
    path.write_text(json.dumps(mapping))
    done = hooks.ctl("add", "repo", "--scheme", "github", "--map", path,
                     secret=GITHUB, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_mapping_is_shown_changed_and_taken_away(hooks, source):
    repo = source("repo", "github", GITHUB)
    shown = json.loads(hooks.ctl("show", repo, "--json").stdout)
    assert json.loads(shown["mapping"])["connector"] == CONNECTOR
    listed = json.loads(hooks.fleet.ctl(
        "webhook", "source", "list", "--tenant", hooks.tenant,
        "--json").stdout)
    assert listed["becomes"] == f"{CONNECTOR}/note"
    hooks.ctl("map", repo, "--map", "none")
    assert json.loads(hooks.ctl("show", repo, "--json").stdout)[
        "mapping"] is None
    wait_for(lambda: unmapped(hooks, repo), "the worker knows", 60)


def unmapped(hooks, repo):
    count = len(stored(hooks))
    deliver(hooks, repo, f"n-{count}", f"n-{count}")
    return wait_stored(hooks, count + 1)[-1]["decision"] == UNMAPPED


# -- look-up ----------------------------------------------------------------------


def listed(hooks, *words):
    said = hooks.fleet.ctl("webhook", "list", "--tenant", hooks.tenant,
                           "--json", *words).stdout
    return [json.loads(line) for line in said.splitlines()]


def names(rows):
    return [row["sender_id"] for row in rows]


def test_deliveries_are_found_by_what_they_are(hooks, source, tmp_path):
    repo = source("repo", "github", GITHUB, types=["push"])
    hooks.add("other", "github", GITHUB, "--keep-rejected")
    mapped = deliver(hooks, repo, "a", "d-1")
    deliver(hooks, repo, "b", "d-2", event="issues")
    deliver(hooks, "other", "c", "d-1", event="ping")
    body = b"\x00\xff"
    assert hooks.post("other", body, senders.github(
        "a-guess", body, "d-9")).status_code == 401
    wait_stored(hooks, 4)
    hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    rows = listed(hooks)
    assert [(row["sender_id"], row["became"], row["status"], row["why"])
            for row in reversed(rows)] == [
        ("d-1", "mapped", "succeeded", None), ("d-2", "filtered", None, None),
        ("d-1", "unmapped", None, None),
        (None, "held", None, "signature_wrong")]
    for words, found in (
            (("--source", "repo"), ["d-2", "d-1"]),
            (("--sender-id", "d-1"), ["d-1", "d-1"]),
            (("--sender-id", "d-1", "--source", "other"), ["d-1"]),
            (("--type", "push"), ["d-1"]), (("--verdict", "rejected"), [None]),
            (("--became", "filtered"), ["d-2"]), (("--since", "1h"), 4),
            (("--until", "1h"), []), (("--since", rows[1]["received_at"]), 2),
            (("--limit", "3"), 3), (("--tenant", "nobody"), [])):
        seen = names(listed(hooks, *words))
        assert seen == found or len(seen) == found, words
    more = hooks.fleet.ctl("webhook", "list", "--tenant", hooks.tenant,
                           "--limit", "3").stderr.split()[-1]
    assert names(listed(hooks, "--before", more)) == ["d-1"]
    shown = json.loads(hooks.fleet.ctl("webhook", "show", mapped,
                                       "--json").stdout)
    assert (shown["status"], shown["type"], shown["is_replay"]) == (
        "succeeded", "push", False)
    assert ["X-GitHub-Event", "push"] in shown["headers"]
    held = rows[0]["id"]
    command = [str(BIN / "actionist"), "webhook", "show", held, "--body"]
    done = subprocess.run(command, env=hooks.fleet.env, check=True,
                          capture_output=True, timeout=60)
    assert done.stdout == body
    for words in ((mapped,), (held,)):
        said = hooks.fleet.ctl("webhook", "show", *words).stdout
        assert "verdict" in said and "\x00" not in said
    assert hooks.fleet.ctl("webhook", "show", mapped, "--tenant", "nobody",
                           check=False).returncode == 3


@pytest.mark.parametrize("words, said", [
    (("list",), "--tenant is required"),
    (("list", "--tenant", "t", "--since", "soon"), "--since takes a time"),
    (("list", "--tenant", "t", "--verdict", "x"), "--verdict must be"),
    (("list", "--tenant", "t", "--became", "x"), "--became must be"),
    (("list", "--tenant", "t", "--before", "x"), "--before takes"),
    (("list", "--tenant", "t", "--limit", "0"), "--limit takes 1 to"),
    (("show", "x"), "takes the id of a delivery"),
    (("replay", "x"), "is not the id of a delivery"),
    (("replay",), "--tenant is required"),
    (("retention", "--tenant", "t", "--days", "0"), "--days takes 1 to"),
    (("fly",), "too many arguments"),
])
def test_mistakes_of_the_look_up_are_named(house, words, said):
    done = house.ctl("webhook", *words, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_tail_shows_what_comes(hooks, source):
    repo = source("repo", "github", GITHUB)
    command = [str(BIN / "actionist"), "webhook", "tail", "--tenant",
               hooks.tenant, "--json", "--limit", "2", "--since", "1m"]
    with subprocess.Popen(command, env=hooks.fleet.env, text=True,
                          stdout=subprocess.PIPE) as tail:
        for number in (1, 2):
            deliver(hooks, repo, f"t{number}", f"d-{number}")
        said, _ = tail.communicate(timeout=60)
    assert sorted(names(map(json.loads, said.splitlines()))) == ["d-1", "d-2"]
    assert tail.returncode == 0


# -- replay -----------------------------------------------------------------------


def replay(hooks, *words, check=True):
    return hooks.fleet.ctl("webhook", "replay", "--json", *words, check=check)


def counts(done):
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["what"]: row["deliveries_count"] for row in rows}


def test_a_delivery_that_could_not_be_mapped_runs_once_it_can(
        hooks, source, double, tmp_path):
    repo = source("repo", "github", GITHUB)
    body = b'{"subject": "later"}'
    answer = hooks.post(repo, body, senders.github(GITHUB, body, "d-1"))
    delivery = answer.headers["actionist-webhook-id"]
    assert wait_stored(hooks, 1)[0]["decision"] == FAILED
    fixed = tmp_path / "fixed.json"
    fixed.write_text(json.dumps({
        "connector": CONNECTOR, "action": "note",
        "payload": {"about": "{{body.subject}}"}}))
    hooks.ctl("map", repo, "--map", fixed)
    assert counts(replay(hooks, "--tenant", hooks.tenant, "--became", "failed",
                         "--dry-run")) == {"would_put": 1}
    assert len(stored(hooks)) == 1

    def is_mapped():
        """Until the worker knows the new mapping, it is tried in vain."""
        count = len(stored(hooks))
        assert counts(replay(hooks, delivery, "--reason", "fixed")) == {
            "put": 1}
        return wait_stored(hooks, count + 1)[-1]["decision"] == MAPPED

    wait_for(is_mapped, "the mapping is known", 60)
    rows = stored(hooks)
    assert {row["id"] for row in rows} == {delivery}
    assert {row["body"] for row in rows} == {body}
    [out] = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    assert (out["id"], out["status"]) == (delivery, "succeeded")
    assert counts(replay(hooks, delivery)) == {"put": 0, "is_action": 1}
    assert counts(replay(hooks, "--tenant", hooks.tenant)) == {
        "put": 0, "is_action": 1, "replay": len(rows) - 1}
    assert double.calls(f"/note/{hooks.tenant}/later", delivery) == 1
    document = hooks.captured()[-1]
    assert (document["replay_of"], document["raw"]) == (delivery, body)
    assert hooks.fleet.sql(
        "select distinct reason from ledger where id = %s and kind = 5",
        (delivery,)) == [("fixed",)]


def test_an_action_that_failed_runs_again(hooks, source, double):
    repo = source("repo", "github", GITHUB)
    path = f"/note/{hooks.tenant}/bad"
    double.script(path, {"status": 400}, {"body": "{}"},
                  dedup_header="Idempotency-Key")
    delivery = deliver(hooks, repo, "bad", "d-1")
    [first] = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    assert (first["id"], first["status"]) == (delivery, "failed")
    assert counts(replay(hooks, "--tenant", hooks.tenant)) == {
        "put": 0, "has_ended": 1}
    replay(hooks, delivery)
    outcomes = hooks.fleet.wait_for_outcomes(2, hooks.tenant)
    [again] = [out for out in outcomes if out["id"] != delivery]
    assert (again["replay_of"], again["status"], again["idempotency_key"]) == (
        delivery, "succeeded", "webhook:repo:d-1")
    assert double.calls(path, delivery) == 2


@pytest.mark.case("OPS-09")
def test_ops_09_replay_of_a_captured_webhook(hooks, double, tmp_path):
    """Its age does not matter, its tenant and verdict do."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"connector": CONNECTOR, "action": "note"}))
    hooks.add("pay", "stripe", STRIPE, "--keep-rejected")
    body = b'{"id": "evt_1", "about": "old"}'
    answer = hooks.post("pay", body, senders.stripe(STRIPE, body))
    delivery = answer.headers["actionist-webhook-id"]
    assert hooks.post("pay", body, senders.stripe(
        "another", body)).status_code == 401
    [first, forged] = wait_stored(hooks, 2)
    assert (first["id"], forged["decision"]) == (delivery, HELD)
    hooks.fleet.sql("update webhook set at = at - interval '30 days'"
                    " where id = %s", (delivery,))
    hooks.ctl("map", "pay", "--map", path)
    done = replay(hooks, delivery, "--tenant", "nobody", check=False)
    assert done.returncode == 3
    done = replay(hooks, forged["id"], check=False)
    assert done.returncode == 5 and "never runs" in done.stderr
    hooks.ctl("disable", "pay")
    done = replay(hooks, delivery, check=False)
    assert done.returncode == 5 and "disabled" in done.stderr
    hooks.ctl("enable", "pay")
    replay(hooks, delivery)
    [out] = hooks.fleet.wait_for_outcomes(1, hooks.tenant)
    assert (out["id"], out["status"]) == (delivery, "succeeded")
    [document] = [one for one in hooks.captured("pay")
                  if one.get("replay_of") == delivery]
    [captured] = [one for one in hooks.captured("pay")
                  if one["id"] == delivery and "replay_of" not in one]
    for name in ("raw", "headers", "verdict", "sender_id", "secret_no"):
        assert document[name] == captured[name]
    assert double.calls(f"/note/{hooks.tenant}/old", delivery) == 1


def test_a_conflict_runs_only_if_it_is_named(hooks, source, double):
    repo = source("repo", "github", GITHUB)
    deliver(hooks, repo, "same", "d-1")
    other = deliver(hooks, repo, "same", "d-2")
    wait_stored(hooks, 2)
    assert counts(replay(hooks, "--tenant", hooks.tenant, "--verdict",
                         "conflict")) == {"put": 0, "conflict": 1}
    replay(hooks, other)
    outcomes = hooks.fleet.wait_for_outcomes(2, hooks.tenant)
    assert other in {out["id"] for out in outcomes}
    assert double.applied(f"/note/{hooks.tenant}/same", other) == 1


def test_retention_is_of_a_tenant(hooks, source):
    said = json.loads(hooks.fleet.ctl(
        "webhook", "retention", "--tenant", hooks.tenant, "--json").stdout)
    assert said == {"tenant": hooks.tenant, "days_count": 30}
    hooks.fleet.ctl("webhook", "retention", "--tenant", hooks.tenant,
                    "--days", "2")
    repo = source("repo", "github", GITHUB)
    deliver(hooks, repo, "kept", "d-1")
    wait_stored(hooks, 1)
    assert hooks.fleet.sql(
        "select keep_days, tableoid::regclass::text like 'webhook_k2_%%'"
        " from webhook where tenant = %s", (hooks.tenant,)) == [(2, True)]


@pytest.mark.case("WHK-04")
def test_whk_04_bytes_that_are_no_text_are_listed(hooks):
    hooks.add("chat", "slack", SLACK)
    body = b"text=\xe9"
    hooks.post("chat", body, senders.slack(SLACK, body, content_type=FORM))
    [row] = wait_stored(hooks, 1)
    assert row["body"] == body and names(listed(hooks)) == [None]
    shown = json.loads(hooks.fleet.ctl("webhook", "show", row["id"],
                                       "--json").stdout)
    assert base64.b64decode(shown["body"], validate=True) == body
