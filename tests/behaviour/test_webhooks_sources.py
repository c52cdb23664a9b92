# SPDX-License-Identifier: Apache-2.0
"""Sources of webhooks: the command, rotation, caps, evidence, secrecy."""

import base64
import json
import secrets

import pytest

from lib import hooks as senders
from lib.api import check_problem
from lib.hooks import Hooks, make_master_key
from lib.wait import wait_for

SECRET = "a-secret-that-nobody-sees"
PRODUCERS = ("producer-0", "producer-1")


@pytest.fixture(scope="module")
def master_key(tmp_path_factory):
    return make_master_key(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def house(fleets, master_key):
    return fleets(producers=2, workers=0, schedulers=0, settings={
        "producer": {"webhooks.master_key_file": str(master_key)}})


@pytest.fixture
def hooks(house, master_key, tenant):
    made = Hooks(house, master_key, tenant)
    yield made
    made.close()


def post(hooks, secret, body, producer="producer-0"):
    return hooks.post("repo", body, senders.github(secret, body), producer)


# -- the command -----------------------------------------------------------------


def test_help_names_every_scheme(house):
    done = house.ctl("webhook", "source", "add", "x", "--tenant", "t",
                     "--scheme", "none", check=False)
    known = done.stderr.split("must be one of: ")[1].strip().split(", ")
    told = house.ctl("webhook", "source", "--help").stdout.split("Schemes: ")[1]
    told = told.split(".")[0].replace("\n", " ").split(", ")
    assert [name.strip() for name in told] == known and len(known) == 20


def test_add_list_show(hooks, house):
    done = hooks.ctl("add", "repo", "--scheme", "github", "--json",
                     secret=SECRET + "\n")
    shown = json.loads(done.stdout)
    assert shown == {
        "tenant": hooks.tenant, "source": "repo", "scheme": "github",
        "state": "active", "path": f"/hooks/{hooks.tenant}/repo",
        "parameter": None, "secret_no": 1, "master_key": "1",
        "verify_token": None, "keeps_rejected": "no",
        "max_body_bytes": 1048576, "rate_per_s": 5000, "answer_ms": 3000,
        "mapping": None}
    assert json.loads(hooks.ctl("show", "repo", "--json").stdout) == shown
    done = hooks.ctl("add", "repo", "--scheme", "github", secret="other",
                     check=False)
    assert done.returncode == 5 and "rotate" in done.stderr
    listed = house.ctl("webhook", "source", "list", "--tenant", hooks.tenant,
                       "--json").stdout
    [row] = [json.loads(line) for line in listed.splitlines()]
    assert (row["source"], row["state"], row["old_until"]) == (
        "repo", "active", None)
    assert post(hooks, SECRET, b"{}").status_code == 200


def test_a_secret_is_sealed_and_never_shown(hooks, house, tmp_path):
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text(SECRET + "\n")
    said = hooks.ctl("add", "repo", "--scheme", "github", "--secret-file",
                     path)
    said2 = hooks.ctl("show", "repo")
    assert post(hooks, SECRET, b"{}").status_code == 200
    assert post(hooks, "wrong", b"{}").status_code == 401
    texts = [said.stdout, said.stderr, said2.stdout,
             *(house[name].text() for name in PRODUCERS)]
    [(sealed,)] = house.sql(
        "select secret from webhook_source where tenant = %s", [hooks.tenant])
    assert all(SECRET not in text for text in texts)
    assert SECRET.encode() not in bytes(sealed)
    assert len(sealed) == len(SECRET) + 33
    # The same secret elsewhere is another text, and does not open there.
    hooks.add("other", "github", "another")
    house.sql("update webhook_source set secret = %s, version = version + 1"
              " where tenant = %s and source = 'other'",
              [sealed, hooks.tenant])
    wait_for(lambda: hooks.post("other", b"{}", senders.github(
        SECRET, b"{}")).status_code == 503, "a moved secret does not open")


def test_a_secret_file_that_others_may_read_is_refused(hooks, tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o644)
    done = hooks.ctl("add", "repo", "--scheme", "github", "--secret-file",
                     path, check=False)
    assert done.returncode == 1 and str(path) in done.stderr


@pytest.mark.parametrize("words, code, said", [
    ((), 2, "webhook takes source"),
    (("source",), 2, "source takes add, list"),
    (("source", "fly", "x"), 2, "source takes add, list"),
    (("source", "add"), 2, "which source?"),
    (("source", "add", "Repo", "--tenant", "t"), 2, "is not a name"),
    (("source", "add", "repo"), 2, "--tenant is required"),
    (("source", "add", "repo", "--tenant", "../x"), 2, "must be a name"),
    (("source", "add", "repo", "--tenant", "t"), 2, "--scheme must be one of"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github"), 2,
     "--secret-file is required"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "square",
      "--secret-file", "-"), 2, "--url"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github",
      "--url", "https://a.example", "--secret-file", "-"), 2, "--url"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github",
      "--secret-file", "-", "--rate", "0"), 2, "--rate takes"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github",
      "--secret-file", "-", "--max-body", "1048577"), 2, "--max-body takes"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github",
      "--secret-file", "-", "--answer-ms", "x"), 2, "--answer-ms takes"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github",
      "--secret-file", "-", "--verify-token-file", "/x"), 2, "only meta"),
    (("source", "add", "repo", "--tenant", "t", "--scheme", "github",
      "--secret-file", "/nonexistent"), 1, "/nonexistent"),
    (("source", "show", "none", "--tenant", "t"), 3, "no source none"),
    (("source", "disable", "none", "--tenant", "t"), 3, "no source none"),
    (("source", "rotate", "none", "--tenant", "t", "--secret-file", "-"), 3,
     "no source none"),
    (("source", "rotate", "none", "--tenant", "t", "--secret-file", "-",
      "--grace-s", "-1"), 2, "--grace-s takes"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else None)
def test_mistakes_are_named(house, master_key, words, code, said):
    done = house.ctl("webhook", *words, "--set",
                     f"webhooks.master_key_file={master_key}", check=False,
                     stdin="x")
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_without_a_master_key_nothing_is_sealed(house, tmp_path):
    words = ("webhook", "source", "add", "repo", "--tenant", "t", "--scheme",
             "github", "--secret-file", "-")
    done = house.ctl(*words, check=False, stdin="x")
    assert done.returncode == 2 and "webhooks.master_key_file" in done.stderr
    bad = tmp_path / "bad.key"
    bad.touch(mode=0o600)
    bad.write_text("1:c2hvcnQ=\n")
    done = house.ctl(*words, "--set", f"webhooks.master_key_file={bad}",
                     check=False, stdin="x")
    assert done.returncode == 1 and "line 1" in done.stderr
    assert "c2hvcnQ" not in done.stderr


# -- who is answered how ------------------------------------------------------------


def test_what_is_no_source_is_not_found(hooks):
    hooks.add("repo", "github", SECRET)
    for path in ("nobody", "Repo", "repo/more", "repo%2Fx", "", "..%2f"):
        answer = hooks.client("producer-0").post(
            f"/hooks/{hooks.tenant}/{path}", content=b"{}",
            headers=senders.github(SECRET, b"{}"))
        assert answer.status_code == 404, path
    other = Hooks(hooks.fleet, "", hooks.tenant + "-x")
    check_problem(post(other, SECRET, b"{}"), 404, "NOT_FOUND")
    other.close()
    answer = hooks.get("repo", {"hub.mode": "subscribe"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = hooks.client("producer-0").put(f"/hooks/{hooks.tenant}/repo")
    assert answer.status_code == 405


def test_disabled_and_enabled(hooks):
    hooks.add("repo", "github", SECRET)
    assert post(hooks, SECRET, b"{}").status_code == 200
    hooks.ctl("disable", "repo")
    for producer in PRODUCERS:
        wait_for(lambda name=producer: post(
            hooks, SECRET, b"{}", name).status_code == 404, "disabled")
    assert json.loads(hooks.ctl("show", "repo", "--json").stdout)[
        "state"] == "disabled"
    hooks.ctl("enable", "repo")
    wait_for(lambda: post(hooks, SECRET, b"{}").status_code == 200, "enabled")


@pytest.mark.case("WHK-24")
def test_whk_24_the_old_secret_after_its_grace(hooks, house):
    hooks.add("repo", "github", "old")
    for producer in PRODUCERS:
        assert post(hooks, "old", b"{}", producer).status_code == 200
    hooks.ctl("rotate", "repo", "--grace-s", "3600", secret="new")
    for n, producer in enumerate(PRODUCERS):
        body = json.dumps({"n": n}).encode()
        wait_for(lambda name=producer, text=body: post(
            hooks, "new", text, name).status_code == 200, "the new one holds")
        assert post(hooks, "old", b"[]", producer).status_code == 200
    numbers = {document["raw"]: document["secret_no"]
               for document in hooks.captured("repo")}
    assert numbers == {b"{}": 1, b'{"n": 0}': 2, b'{"n": 1}': 2, b"[]": 1}
    # The hour is over, as far as the table says.
    house.sql("update webhook_source set version = version + 1, old_until ="
              " now() - interval '1 second' where tenant = %s",
              [hooks.tenant])
    for producer in PRODUCERS:
        wait_for(lambda name=producer: post(
            hooks, "old", b"{}", name).status_code == 401, "the old one ends")
        assert post(hooks, "new", b"{}", producer).status_code == 200


def test_rotation_without_grace(hooks):
    hooks.add("repo", "github", "old")
    hooks.ctl("rotate", "repo", "--grace-s", "0", secret="new")
    wait_for(lambda: post(hooks, "new", b"{}").status_code == 200, "the new")
    assert post(hooks, "old", b"{}").status_code == 401


def test_a_new_master_key_opens_what_the_old_one_sealed(
        hooks, house, master_key):
    hooks.add("repo", "github", SECRET)
    fresh = base64.b64encode(secrets.token_bytes(32)).decode()
    both = master_key.with_name("both.key")
    both.touch(mode=0o600)
    both.write_text(f"2:{fresh}\n" + master_key.read_text())
    program = house.add("producer", **{"webhooks.master_key_file": str(both)})
    assert post(hooks, SECRET, b"{}", program.name).status_code == 200
    newer = Hooks(house, both, hooks.tenant)
    newer.ctl("rotate", "repo", secret=SECRET + "-2")
    assert json.loads(newer.ctl("show", "repo", "--json").stdout)[
        "master_key"] == "2"
    wait_for(lambda: post(hooks, SECRET + "-2", b"{}", program.name
                          ).status_code == 200, "opened with the second key")
    # Those that have only the first ask for a later repeat.
    answer = wait_for(lambda: refused_for_now(post(hooks, SECRET, b"{}")),
                      "503 without the key")
    assert int(answer.headers["retry-after"]) >= 1


def refused_for_now(answer):
    return answer if answer.status_code == 503 else None


# -- caps ---------------------------------------------------------------------------


def test_the_size_of_a_source(hooks):
    hooks.add("repo", "github", SECRET, "--max-body", "100")
    assert post(hooks, SECRET, b"x" * 100).status_code == 200
    check_problem(post(hooks, SECRET, b"x" * 101), 413, "TOO_LARGE")


def test_the_rate_of_a_source(hooks):
    hooks.add("repo", "github", SECRET, "--rate", "1")
    bodies = [json.dumps({"n": n}).encode() for n in range(25)]
    answers = [post(hooks, SECRET, body) for body in bodies]
    assert {answer.status_code for answer in answers} == {200, 429}
    limited = [n for n, answer in enumerate(answers)
               if answer.status_code == 429]
    check_problem(answers[limited[0]], 429, "RATE_LIMITED")
    assert int(answers[limited[0]].headers["retry-after"]) >= 1
    # A repeat is taken, and what had been refused was not captured.
    assert len(hooks.captured()) == len(bodies) - len(limited)
    wait_for(lambda: post(hooks, SECRET, bodies[limited[0]]).status_code == 200,
             "the repeat is taken")


def test_evidence_is_kept_if_the_source_says_so(hooks):
    hooks.add("repo", "github", SECRET, "--keep-rejected")
    hooks.add("quiet", "github", SECRET)
    for _ in range(65):
        answer = hooks.post("repo", b"{}", {
            **senders.github("wrong", b"{}"), "X-GitHub-Delivery": "d-1"})
        assert answer.status_code == 401
    assert hooks.post("repo", b"{}", {}).status_code == 401
    assert hooks.post("quiet", b"{}", {}).status_code == 401
    # What was forged takes no id away from the real one.
    body = b'{"real":1}'
    answer = hooks.post("repo", body, senders.github(SECRET, body, "d-1"))
    assert answer.headers["actionist-webhook-status"] == "captured"
    wait_for(lambda: len(hooks.captured()) == 61, "the evidence arrives")
    documents = hooks.captured()
    kept = [one for one in documents if one["verdict"] == "rejected"]
    assert len(kept) == 60
    assert len({one["id"] for one in documents}) == 61
    assert {(one["source"], one["reason"], one["secret_no"], one["sender_id"])
            for one in kept} == {("repo", "signature_wrong", None, None)}


def test_metrics_count_by_verdict(hooks):
    hooks.add("repo", "github", SECRET)
    post(hooks, SECRET, b"{}")
    post(hooks, "wrong", b"{}")
    text = hooks.client("producer-0").get("/metrics").text
    for verdict in ("verified", "signature_wrong"):
        assert ("actionist_producer_webhooks_total{verdict=\""
                f"{verdict}\"}}") in text
