# SPDX-License-Identifier: Apache-2.0
"""Replays: what has ended runs again, once for each line, by its own key."""

import json
import pathlib
import uuid

import pytest

from lib import flow, past
from lib.api import add_connector
from lib.wait import wait_for

CONNECTOR = "again"
DOWN = {"status": 429}
MANY = 2500


@pytest.fixture(scope="module")
def house(fleets, double):
    """A fleet and a connector whose actions give up after one call."""
    made = fleets(settings={
        "worker": {"egress.private_allow": double.address}})
    path = "/{{action.tenant}}/{{payload.key}}"
    add_connector(made, CONNECTOR, {
        "patient": flow.action("keyed", path),
        **{effect: flow.action(effect, path, retry={"max_attempts": 1})
           for effect in ("natural", "keyed", "unsafe")}},
        base_url=double.url, egress=[double.address])
    return made


class Scene:
    """One tenant's actions; the provider plays a script a key."""

    def __init__(self, house, double, tenant):
        self.house = house
        self.double = double
        self.tenant = tenant

    def script(self, key, *steps):
        self.double.script(f"/{self.tenant}/{key}", *steps)

    def end(self, *keys, action="keyed", steps=(DOWN, {})):
        """Runs actions to their end; {key: outcome}."""
        for key in keys:
            self.script(key, *steps)
        flow.publish(self.house, [
            flow.request(self.tenant, CONNECTOR, action, key)
            for key in keys])
        found = wait_for(lambda: self.first(keys), f"ends of {keys}")
        return found

    def first(self, keys):
        found = {out["idempotency_key"]: out
                 for out in self.house.outcomes(self.tenant)
                 if out["replay_of"] is None}
        return found if set(keys) <= set(found) else None

    def replay(self, *words, code=0):
        """What a replay came to."""
        done = self.house.ctl("replay", *words, "--json", check=False)
        assert done.returncode == code, (
            f"exit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout else done.stderr

    def replays(self, of=None):
        """Outcomes that point back."""
        return [out for out in self.house.outcomes(self.tenant)
                if out["replay_of"] is not None
                and of in (None, out["replay_of"])]

    def calls(self, key):
        return self.double.requests(f"/{self.tenant}/{key}")


@pytest.fixture
def scene(house, double, tenant):
    return Scene(house, double, tenant)


def header(request, name):
    return [value for key, value in request["headers"]
            if key.lower() == name.lower()]


def test_ops_01_what_a_replay_keeps_and_what_it_renews(scene):
    """The same id for the provider, the same body; a call and an outcome of
    its own, and the first outcome as it was."""
    before = scene.end("a", "b", "c")
    assert {out["status"] for out in before.values()} == {"exhausted"}
    said = scene.replay("--tenant", scene.tenant, "--status", "exhausted")
    assert (said["state"], said["matched"], said["replayed"]) == ("done", 3, 3)
    assert said["outcomes"] == {"total": 3, "succeeded": 3}
    after = {out["replay_of"]: out for out in scene.replays()}
    for key, out in before.items():
        again = after[out["id"]]
        assert again["status"] == "succeeded"
        assert again["id"] != out["id"]
        assert again["idempotency_key"] == key
        keys = [header(call, "Idempotency-Key")
                for call in scene.calls(key)]
        assert keys == [[out["id"]]] * 2
        first, second = scene.calls(key)
        assert first["body"] == second["body"]
        assert again["started_at"] > out["finished_at"]
    # The first outcomes stand as they were.
    assert scene.first(before) == before


def test_dry_run_counts_and_does_nothing(scene):
    before = scene.end("a", "b")
    said = scene.replay("--tenant", scene.tenant, "--status", "exhausted",
                        "--since", "1h", "--dry-run")
    assert (said["state"], said["matched"], said["planned"]) == ("done", 2, 2)
    assert sorted(said["sample"]) == sorted(
        out["id"] for out in before.values())
    assert said["replayed"] == 0
    rows = scene.house.sql("select count(*) from action where tenant = %s"
                           " and replay_id is not null", (scene.tenant,))
    assert rows == [(0,)]


def test_filters_choose(scene):
    scene.end("a", "b", steps=(DOWN, {}))
    scene.end("c", steps=({"status": 400}, {}), action="natural")
    both = "exhausted,failed"

    def planned(*words):
        return scene.replay("--tenant", scene.tenant, "--dry-run",
                            *words)["planned"]

    assert planned("--status", both) == 3
    assert planned("--status", both, "--limit", "2") == 2
    assert planned("--status", "failed") == 1
    assert planned("--status", both, "--action", "keyed") == 2
    assert planned("--status", both, "--connector", "other") == 0
    assert planned("--error-code", "HTTP_STATUS") == 3
    assert planned("--status", both, "--until", "1h") == 0
    assert planned("--status", both, "--since", "1h") == 3


def test_source_is_that_of_the_webhook_it_was_made_of(scene):
    before = scene.end("a", "b")
    scene.house.sql(
        "insert into webhook (keep_days, at, kafka_partition, kafka_offset, id,"
        " tenant, source, verdict, scheme, decision, method, headers, body)"
        " values (30, now(), 0, %s, %s, %s, 'shop', 0, 'github', 1, 'POST',"
        " '[]', '{}')", (uuid.uuid4().int % 10**9, before["a"]["id"],
                         scene.tenant))
    said = scene.replay("--tenant", scene.tenant, "--status", "exhausted",
                        "--source", "shop", "--dry-run")
    assert said["sample"] == [before["a"]["id"]]


def test_ops_04_what_is_under_way_is_refused(scene):
    """In flight, and while it waits to be tried again."""
    def publish(key, *steps):
        scene.script(key, *steps)
        flow.publish(scene.house, [
            flow.request(scene.tenant, CONNECTOR, "patient", key)])
        wait_for(lambda: scene.calls(key), f"a call of {key}")
        return str(scene.house.sql(
            "select id from action where tenant = %s and position(%s in"
            " convert_from(request, 'UTF8')) > 0",
            (scene.tenant, f'"{key}"'))[0][0])

    runs = publish("runs", {"delay_ms": 8000})
    waits = publish("waits", {"status": 429,
                              "headers": [["Retry-After", "600"]]})
    wait_for(lambda: scene.house.sql("select 1 from waiting where id = %s",
                                     (waits,)), "the wait")
    for action in (runs, waits):
        said = scene.replay(action, code=5)
        assert said["skipped"] == {"total": 1, "running": 1}
    scene.house.ctl("cancel", waits)
    wait_for(lambda: scene.house.sql(
        "select 1 from outcome where id = %s and status = 7", (waits,)),
        "its end")
    scene.script("waits", {})
    assert scene.replay(waits)["outcomes"] == {"total": 1, "succeeded": 1}
    assert len(scene.calls("runs")) == 1 and len(scene.calls("waits")) == 2


def test_sch_10_one_of_a_line_at_a_time(scene):
    """What has ended may be replayed; of two at once one does anything."""
    out = scene.end("a", steps=(DOWN, {"delay_ms": 6000}))["a"]
    first = scene.house.ctl("replay", out["id"], "--detach").stdout.strip()
    assert "is not over" in scene.replay(out["id"], code=5)
    # By a filter it is left out instead.
    wait_for(lambda: len(scene.calls("a")) == 2, "the replay's call")
    said = scene.replay("--tenant", scene.tenant, "--status", "exhausted")
    assert said["skipped"] == {"total": 1, "running": 1}
    done = json.loads(scene.house.ctl(
        "replay", "watch", first, "--json").stdout)
    assert done["outcomes"] == {"total": 1, "succeeded": 1}
    assert len(scene.calls("a")) == 2
    # Since then it has succeeded.
    said = scene.replay("--tenant", scene.tenant, "--status", "exhausted")
    assert said["skipped"] == {"total": 1, "succeeded": 1}


def test_ops_02_replay_of_something_that_succeeded(scene):
    out = scene.end("a", steps=({}, {}))["a"]
    said = scene.replay(out["id"], code=5)
    assert said["skipped"] == {"total": 1, "succeeded": 1}
    assert len(scene.calls("a")) == 1
    assert "needs a reason" in scene.replay(out["id"], "--force", code=2)
    said = scene.replay(out["id"], "--force", "--reason", "lost at theirs")
    assert said["outcomes"] == {"total": 1, "succeeded": 1}
    assert said["reason"] == "lost at theirs"
    assert said["actor"].startswith("operator:") and said["created_at"]
    keys = [header(call, "Idempotency-Key") for call in scene.calls("a")]
    assert keys == [[out["id"]]] * 2
    assert scene.first(["a"])["a"] == out


def test_unsafe_that_may_have_acted_runs_only_if_named(scene):
    broken = {"reset": "before_body"}
    maybe = scene.end("maybe", action="unsafe", steps=(broken, {}))["maybe"]
    scene.end("never", action="unsafe", steps=(DOWN, {}))
    assert maybe["status"] == "indeterminate"
    said = scene.replay("--tenant", scene.tenant, "--status",
                        "indeterminate,exhausted")
    assert said["replayed"] == 1
    assert said["skipped"] == {"total": 1, "may_have_acted": 1}
    assert len(scene.calls("maybe")) == 1 and len(scene.calls("never")) == 2
    said = scene.replay(maybe["id"])
    assert said["outcomes"] == {"total": 1, "succeeded": 1}
    assert len(scene.calls("maybe")) == 2


def test_what_may_have_happened_stays_unknown_until_it_succeeds(scene):
    """A replay that reaches nobody proves nothing about the first call."""
    out = scene.end("a", steps=({"reset": "before_body"}, DOWN, {}))["a"]
    assert out["status"] == "indeterminate"
    said = scene.replay(out["id"], code=4)
    assert said["outcomes"] == {"total": 1, "indeterminate": 1}
    said = scene.replay("--tenant", scene.tenant, "--status", "indeterminate")
    # Both of its line match; one of them runs.
    assert (said["matched"], said["replayed"]) == (2, 1)
    assert said["outcomes"] == {"total": 1, "succeeded": 1}


def test_new_key_is_confirmed_and_new(scene):
    out = scene.end("a")["a"]
    assert "--yes" in scene.replay(out["id"], "--new-key", code=2)
    said = scene.replay(out["id"], "--new-key", "--yes")
    assert said["new_key"] and said["outcomes"]["succeeded"] == 1
    again = scene.replays(out["id"])[0]
    assert again["idempotency_key"] == again["id"] != out["id"]
    keys = [header(call, "Idempotency-Key")[0] for call in scene.calls("a")]
    assert keys == [out["id"], again["id"]]


def test_same_key_after_a_new_one_is_that_one(scene):
    out = scene.end("a", steps=(DOWN, DOWN, {}))["a"]
    scene.replay(out["id"], "--new-key", "--yes", code=4)
    second = scene.replays(out["id"])[0]
    scene.replay(second["id"])
    third = scene.replays(second["id"])[0]
    assert third["idempotency_key"] == second["id"]
    keys = [header(call, "Idempotency-Key")[0] for call in scene.calls("a")]
    assert keys == [out["id"], second["id"], second["id"]]


def test_what_is_not_there_is_not_found(scene, tenant):
    nobody = str(uuid.uuid4())
    assert "no action" in scene.replay(nobody, code=3)
    assert "no replay" in scene.replay("show", nobody, code=3)
    out = scene.end("a")["a"]
    said = scene.replay(out["id"], "--tenant", "somebody-else", code=3)
    assert said["skipped"] == {"total": 1, "unknown": 1}
    assert len(scene.calls("a")) == 1


def test_ids_of_a_file(scene):
    before = scene.end("a", "b")
    lines = "\n".join(out["id"] for out in before.values())
    done = scene.house.ctl("replay", "--file", "-", "--json",
                           stdin=f"{lines}\r\n\n{lines}\n")
    said = json.loads(done.stdout)
    assert said["replayed"] == 2 and said["outcomes"]["succeeded"] == 2
    assert said["skipped"] == {"total": 2, "repeated": 2}
    done = scene.house.ctl("replay", "--file", "-", check=False,
                           stdin=f"{lines}\nnonsense\n")
    assert done.returncode == 2 and "line 3" in done.stderr


def resident_kib(program):
    for line in pathlib.Path(
            f"/proc/{program.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"{program.name} has no VmRSS")


def test_many_run_again_in_constant_memory(house, tenant):
    """More than a page, more than may be in flight; `tests/bench/replay` does
    the same with a million."""
    past.add_connector(house)
    past.add_exhausted(house, tenant, MANY)
    before = resident_kib(house["scheduler-0"])
    done = house.ctl("replay", "--tenant", tenant, "--status", "exhausted",
                     "--json", timeout=200)
    assert json.loads(done.stdout)["outcomes"] == {
        "total": MANY, "succeeded": MANY}
    assert resident_kib(house["scheduler-0"]) - before < 24 << 10
    assert house.sql("select count(distinct root_id), count(*) from outcome"
                     " where tenant = %s and replay_id is not null",
                     (tenant,)) == [(MANY, MANY)]


def test_others_pause_resume_and_cancel_it(scene):
    keys = [f"k{number}" for number in range(12)]
    scene.end(*keys)
    replay = scene.house.ctl(
        "replay", "--tenant", scene.tenant, "--status", "exhausted",
        "--rate", "5/s", "--detach").stdout.strip()
    def show():
        return scene.replay("show", replay)

    wait_for(lambda: show()["replayed"] >= 2, "a start")
    paused = scene.replay("pause", replay)
    assert paused["state"] == "paused" and paused["replayed"] < 12
    wait_for(lambda: show()["outcomes"]["total"] == paused["replayed"],
             "ends of what was on its way")
    assert show()["replayed"] == paused["replayed"]
    resumed = scene.replay("resume", replay)
    assert resumed["state"] == "running"
    wait_for(lambda: show()["replayed"] > paused["replayed"], "going on")
    scene.replay("cancel", replay)
    said = scene.replay("watch", replay, code=5)
    assert said["state"] == "cancelled" and said["replayed"] < 12
    assert said["outcomes"]["total"] == said["replayed"]
    assert "is over" in scene.replay("resume", replay, code=5)
    assert len(scene.replays()) == said["replayed"]
    listed = scene.house.ctl("replay", "list", "--tenant", scene.tenant,
                             "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in listed] == [replay]


def test_declared_anew_is_run_as_declared_now(scene, house, double):
    """A replay is judged by the newest version of its connector."""
    name = "fresh-" + uuid.uuid4().hex[:8]
    where = {"base_url": double.url, "egress": [double.address]}
    add_connector(house, name, {"call": flow.action(
        payload={"type": "object", "required": ["wanted"]})}, **where)
    flow.publish(house, [flow.request(scene.tenant, name, "call", "a")])
    out = wait_for(lambda: scene.first(["a"]), "an end")["a"]
    assert out["status"] == "rejected"
    add_connector(house, name, {"call": flow.action()}, version="1.1.0",
                  **where)
    said = scene.replay(out["id"])
    assert said["outcomes"] == {"total": 1, "succeeded": 1}
    add_connector(house, name, {"other": flow.action()}, version="1.2.0",
                  **where)
    said = scene.replay(out["id"], "--force", "--reason", "test", code=5)
    assert said["skipped"] == {"total": 1, "undeclared": 1}


def test_ops_07_replay_of_what_is_paused_queues_nothing(scene):
    out = scene.end("a")["a"]
    scope = ("--tenant", scene.tenant, "--connector", CONNECTOR)
    scene.house.ctl("pause", *scope, "--reason", "theirs is down")
    said = scene.replay(out["id"], code=5)
    assert said["skipped"] == {"total": 1, "paused": 1}
    assert scene.house.sql("select count(*) from action where tenant = %s",
                           (scene.tenant,)) == [(1,)]
    scene.house.ctl("resume", *scope)
    assert scene.replay(out["id"])["outcomes"]["succeeded"] == 1


@pytest.mark.parametrize("word, replayed", [("succeeded", 0), ("failed", 1)])
def test_what_a_person_found_out_counts(scene, word, replayed):
    """An unsafe action in doubt, of which somebody has said what became."""
    out = scene.end("a", action="unsafe",
                    steps=({"reset": "before_body"}, {}))["a"]
    scene.house.ctl("resolve", out["id"], "--as", word, "--note", "asked")
    said = scene.replay("--tenant", scene.tenant, "--status", "indeterminate")
    assert said["matched"] == 1 and said["replayed"] == replayed
    assert len(scene.calls("a")) == 1 + replayed


def test_each_act_is_in_the_ledger(scene):
    out = scene.end("a")["a"]
    said = scene.replay(out["id"], "--reason", "outage of tuesday")
    rows = scene.house.sql(
        "select id::text, actor, reason, convert_from(detail, 'UTF8')"
        " from ledger where tenant = %s and kind = 9 order by at, entry",
        (scene.tenant,))
    told = [(row[0], row[1], json.loads(row[3])) for row in rows]
    who = said["actor"]
    again = scene.replays(out["id"])[0]
    assert [(one[0], one[1]) for one in told] == [
        (None, who), (out["id"], who), (None, "scheduler")]
    assert {row[2] for row in rows} == {"outage of tuesday"}
    assert [one[2].get("op") for one in told] == ["create", None, "end"]
    assert told[1][2] == {"replay": said["id"], "action": again["id"]}
    assert told[2][2]["succeeded"] == told[2][2]["replayed"] == 1
    # The story of the first one tells of it.
    assert again["id"] in scene.house.ctl("get", out["id"], "--json").stdout
