# SPDX-License-Identifier: Apache-2.0
"""The ledger: what happened to an action beside its outcome, who did it and
why, in one place that only grows and is dropped by the month."""

import collections
import concurrent.futures
import json
import re
import subprocess
import uuid

import httpx
import jsonschema
import psycopg
import pytest

from lib import flow, rows
from lib.api import Api, add_connector, new_key
from lib.programs import BIN
from lib.wait import wait_for
from test_schemas import REGISTRY, SCHEMAS

METRIC = re.compile(r'^(\w+)(?:\{\w+="([^"]*)"\})? (\S+)$', re.MULTILINE)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(settings={"worker": {
        "egress.private_allow": double.address}})
    shown = flow.action()
    shown["request"]["headers"] = {"X-Api-Key": "not-for-you",
                                   "Accept": "text/plain"}
    add_connector(made, "shop", {"natural": flow.action(), "shown": shown,
                                  "unsafe": flow.action("unsafe")},
                  double.url)
    return made


def entries(house, tenant, where="true"):
    """The rows of the ledger itself, oldest first."""
    found = house.sql(
        "select entry, id, attempt_no, kind, actor, reason, trace_id,"
        " convert_from(detail, 'UTF8')::jsonb as detail from ledger"
        f" where tenant = %s and {where} order by at, entry", (tenant,))
    names = ("entry", "id", "attempt_no", "kind", "actor", "reason",
             "trace_id", "detail")
    return [dict(zip(names, row)) for row in found]


def one(tenant, key, **more):
    return flow.request(tenant, "shop", "natural", key, **more)


# -- what is written, and what is not ---------------------------------------------


@pytest.mark.case("OBS-03")
def test_obs_03_an_attempt_that_is_tried_again_is_one_entry_in_its_trace(
        house, double, tenant):
    """A success at the first attempt adds nothing: its outcome tells all."""
    double.scripts([{"path": f"/{tenant}/later", "steps": [
        {"status": 503, "headers": [["Retry-After", "0"]]}, {}]}])
    for key in ("later", "plain"):
        house.publish(one(tenant, key),
                      headers=[("traceparent", PARENT.encode())])
    ended = flow.wait_ended(house, tenant, 2)
    (entry,) = entries(house, tenant)
    assert str(entry["id"]) == ended["later"]["id"]
    assert (entry["kind"], entry["attempt_no"]) == (1, 1)
    assert entry["reason"] == "HTTP_STATUS"
    assert entry["actor"].startswith("worker:")
    assert entry["trace_id"] == TRACE
    assert entry["entry"].version == 7
    assert entry["detail"]["error"]["http_status"] == 503
    # The view has that entry, and the outcomes as those of the last attempts.
    seen = house.sql(
        "select id::text, kind, attempt_no, trace_id, entry from ledger_all"
        " where tenant = %s", (tenant,))
    assert sorted(row[:4] for row in seen) == sorted([
        (ended["later"]["id"], 0, 2, TRACE), (ended["later"]["id"], 1, 1, TRACE),
        (ended["plain"]["id"], 0, 1, TRACE)])
    assert {uuid.UUID(str(row[4])).version for row in seen} == {7}


def test_repeats_are_counted_by_whoever_saw_them(house, double, tenant):
    _, key = new_key(house, tenant)
    api = Api(house.url(), key)
    body = {key: value for key, value in one(tenant, "again").items()
            if key not in ("spec", "tenant")}
    assert api.post(body).status_code == 202
    flow.wait_ended(house, tenant, 1)
    assert [api.post(body).status_code for _ in range(3)] == [200] * 3
    for _ in range(4):
        house.publish(one(tenant, "again"))

    def counted():
        found = entries(house, tenant, "kind = 3")
        total = {}
        for entry in found:
            who = entry["actor"].partition(":")[0]
            total[who] = total.get(who, 0) + entry["detail"]["count"]
        return total if total == {"producer": 3, "worker": 4} else None

    wait_for(counted, "all repeats in the ledger")
    api.close()


def test_a_wait_without_a_call_and_a_cancel_name_reason_and_actor(
        house, tenant):
    house.publish(one(tenant, "later", not_before="2030-01-01T00:00:00Z"))
    (wait,) = wait_for(lambda: entries(house, tenant), "an entry")
    assert (wait["kind"], wait["reason"]) == (7, "not_before")
    assert wait["detail"]["due"].startswith("2030-01-01T00:00:00")
    house.ctl("cancel", wait["id"])
    flow.wait_ended(house, tenant, 1)
    cancel = entries(house, tenant)[-1]
    assert (cancel["kind"], cancel["reason"]) == (8, "CANCELLED")
    assert cancel["actor"].startswith("operator:")


# -- what is counted ------------------------------------------------------------------


def scrape(house, *names):
    """{(name, label): value}, summed up over the programs."""
    found = collections.Counter()
    for name in names:
        text = httpx.get(house.url(name) + "/metrics", timeout=30).text
        for metric, label, value in METRIC.findall(text):
            found[metric, label] += float(value)
    return found


def wait_idle(house):
    """What ended before is counted by now."""
    wait_for(lambda: scrape(house, "worker-0")[
        "actionist_worker_jobs", ""] == 0, "an idle worker")


@pytest.mark.case("OBS-04")
def test_obs_04_a_delay_is_that_of_its_attempt(house, double, tenant):
    """Waiting for Retry-After is no delay of the queue."""
    double.script(f"/{tenant}/later", {
        "status": 429, "headers": [["Retry-After", "3"]]}, {})
    wait_idle(house)
    before = scrape(house, "worker-0")
    house.publish(one(tenant, "later"))
    flow.wait_ended(house, tenant, 1)

    def grown():
        more = scrape(house, "worker-0")
        return {name: more[f"actionist_worker_{name}", ""]
                - before[f"actionist_worker_{name}", ""]
                for name in ("queue_seconds_count", "queue_seconds_sum",
                             "whole_seconds_count", "whole_seconds_sum")}

    seen = wait_for(lambda: grown()["whole_seconds_count"] and grown(),
                    "the outcome counted")
    assert (seen["queue_seconds_count"], seen["whole_seconds_count"]) == (2, 1)
    assert seen["queue_seconds_sum"] < 2
    assert seen["whole_seconds_sum"] >= 3


@pytest.mark.case("OBS-07")
def test_obs_07_counters_ledger_topic_and_provider_agree(
        house, double, tenant):
    """Over an orderly restart of the worker; a killed one takes what it had
    counted along, and the ledger is what counts."""
    double.scripts([
        {"path": f"/{tenant}/refused-*", "steps": [{"status": 400}]},
        {"path": f"/{tenant}/unsure-*", "steps": [{"status": 500}]},
        {"path": f"/{tenant}/again-*", "steps": [
            {"status": 503, "headers": [["Retry-After", "0"]]}, {}]}])
    worker = house["worker-0"]
    counted = collections.Counter()
    for turn in range(2):
        wait_idle(house)
        before = scrape(house, "worker-0", "scheduler-0")
        made = [flow.request(tenant, "shop", name, f"{kind}-{turn}-{number}")
                for kind, name in (("plain", "natural"), ("refused", "natural"),
                                   ("again", "natural"), ("unsure", "unsafe"),
                                   ("unknown", "none"))
                for number in range(8)]
        flow.publish(house, made, spread=True)
        ended = flow.wait_ended(house, tenant, (turn + 1) * len(made))
        counted.update(wait_for(
            lambda then=before: (lambda more: sum(more.values()) == 40 and more)
            (outcomes_since(house, then)), "all outcomes counted"))
        if turn == 0:
            worker.restart()
            house.wait_ready(worker)
    rows_by_status = collections.Counter(
        row[0] for row in house.sql(
            "select convert_from(detail, 'UTF8')::json ->> 'status'"
            " from ledger_all where tenant = %s and kind = 0", (tenant,)))
    records = collections.Counter(out["status"] for out in ended.values())
    assert counted == rows_by_status == records, (counted, records)
    assert set(records) == {"succeeded", "failed", "indeterminate", "rejected"}
    # Each request the provider saw is an attempt, and the other way round.
    (attempts,) = house.sql(
        "select count(*) filter (where kind = 1) + count(*) filter (where"
        " kind = 0 and convert_from(detail, 'UTF8')::json ->> 'status'"
        " <> 'rejected') from ledger_all where tenant = %s", (tenant,))[0]
    assert len(double.requests(f"/{tenant}/*")) == attempts


def outcomes_since(house, before):
    more = scrape(house, "worker-0", "scheduler-0")
    return collections.Counter({
        label: int(more[name, label] - before[name, label])
        for name, label in more
        if name in ("actionist_worker_outcomes_total",
                    "actionist_scheduler_outcomes_total")
        and more[name, label] > before[name, label]})


# -- the story of one action ---------------------------------------------------------


def test_get_tells_calls_waits_acts_and_answers_and_masks_headers(
        house, double, tenant):
    double.script(f"/{tenant}/story", {
        "status": 503, "headers": [["Retry-After", "1"]]}, {"body": "fine"})
    house.publish(flow.request(tenant, "shop", "shown", "story"))
    ended = flow.wait_ended(house, tenant, 1)["story"]
    names = ("--tenant", tenant, "--connector", "shop", "--key", "story")
    told = json.loads(house.ctl("get", *names, "--json").stdout)
    assert told["id"] == ended["id"] and told["outcome"]["attempts"] == 2
    assert told["call"]["url"] == f"{double.url}/{tenant}/story"
    headers = dict(map(tuple, told["call"]["headers"]))
    assert (headers["X-Api-Key"], headers["Accept"]) == ("***", "text/plain")
    (attempt,) = told["ledger"]
    assert (attempt["kind"], attempt["reason"]) == ("attempt", "HTTP_STATUS")
    people = house.ctl("get", *names).stdout
    assert "not-for-you" not in people and "X-Api-Key: ***" in people
    assert "took " in people and "the provider answered 503" in people
    assert "again after" in people and '"result":"fine"' in people


# -- all of it, and what comes ---------------------------------------------------------


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_export_is_the_ledger_and_the_outcomes_in_order_of_time(
        house, double, tenant):
    double.script(f"/{tenant}/twice", {
        "status": 503, "headers": [["Retry-After", "0"]]}, {})
    for key in ("twice", "once"):
        house.publish(one(tenant, key))
    ended = flow.wait_ended(house, tenant, 2)
    told = lines(house.ctl("ledger", "export", "--tenant", tenant).stdout)
    assert sorted(entry["kind"] for entry in told) == [
        "attempt", "outcome", "outcome"]
    assert [entry["at"] for entry in told] == sorted(
        entry["at"] for entry in told)
    assert len({entry["entry"] for entry in told}) == 3
    bodies = [entry["detail"] for entry in told if entry["kind"] == "outcome"]
    assert {body["id"] for body in bodies} == {
        out["id"] for out in ended.values()}

    def kinds(*words):
        said = house.ctl("logs", "--tenant", tenant, "--json", *words).stdout
        return [entry["kind"] for entry in lines(said)]

    assert kinds("--kind", "attempt") == ["attempt"]
    assert kinds("--id", ended["once"]["id"]) == ["outcome"]
    assert kinds("--actor", "worker:") == ["attempt"]
    assert kinds("--until", "1h") == [] and len(kinds("--since", "2m")) == 3
    people = house.ctl("logs", "--tenant", tenant).stdout
    assert people.count("\n") == 3 and "succeeded" in people


def test_logs_follow_what_comes_and_show_nothing_twice(house, tenant):
    with subprocess.Popen(
            [str(BIN / "actionist"), "logs", "-f", "--tenant", tenant,
             "--json", "--limit", "6"], env=house.env, text=True,
            stdout=subprocess.PIPE) as logs:
        for turn in range(3):
            house.publish(one(tenant, f"key-{turn}"))
            flow.wait_ended(house, tenant, turn + 1)
            house.publish(one(tenant, f"later-{turn}",
                              not_before="2030-01-01T00:00:00Z"))
        told = lines(logs.communicate(timeout=60)[0])
    assert sorted(entry["kind"] for entry in told) == (
        ["outcome"] * 3 + ["wait"] * 3)
    assert len({entry["entry"] for entry in told}) == 6


# -- a person's later word ----------------------------------------------------------


def resolve(house, action, word, check=False):
    done = house.ctl("resolve", action, "--as", word, "--note", "I asked them",
                     "--json", check=check)
    return done.returncode, done.stdout and json.loads(done.stdout)


def test_an_indeterminate_action_is_resolved_once_and_never_rewritten(
        house, double, tenant):
    double.script(f"/{tenant}/unsure", {"status": 500})
    for key, name in (("unsure", "unsafe"), ("sure", "natural")):
        house.publish(flow.request(tenant, "shop", name, key))
    ended = flow.wait_ended(house, tenant, 2)
    action, sure = ended["unsure"]["id"], ended["sure"]["id"]
    assert ended["unsure"]["status"] == "indeterminate"
    assert resolve(house, sure, "failed")[0] == 5
    assert resolve(house, uuid.uuid4(), "failed")[0] == 3
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        said = list(pool.map(
            lambda _: resolve(house, action, "succeeded"), range(3)))
    assert [code for code, _ in said] == [0] * 3
    (event,) = {told["event"] for _, told in said}
    assert sorted(told["state"] for _, told in said).count("resolved") == 1
    assert resolve(house, action, "failed")[0] == 5

    records = house.kafka.wait_for_records(
        3, where=lambda record: record.key == tenant.encode())
    assert len(records) == 3
    (told,) = [record.json() for record in records
               if "event" in record.json()]
    jsonschema.Draft202012Validator(
        SCHEMAS["resolution"], registry=REGISTRY).validate(told)
    assert (told["id"], told["resolves"]) == (event, action)
    assert (told["status"], told["idempotency_key"]) == ("succeeded", "unsure")
    kept = json.loads(house.ctl("get", action, "--json").stdout)["outcome"]
    assert kept["status"] == "indeterminate"
    (entry,) = entries(house, tenant, "kind = 10")
    assert str(entry["id"]) == action and entry["detail"]["event"] == event
    assert entry["actor"].startswith("operator:")
    # The audit takes it for what it is.
    house.ctl("verify", "--tenant", tenant)


# -- how long it is kept ---------------------------------------------------------------


def months(house):
    return {row[0] for row in house.sql(
        "select relname from pg_class where relkind = 'r'"
        " and relnamespace = 'actionist'::regnamespace"
        " and relname ~ '^ledger_k'")}


def test_whole_months_go_by_the_wish_of_their_tenant(fleets, tenant):
    """Another database: its clock is moved."""
    base = fleets(producers=0, workers=0, schedulers=0)
    base.sql("insert into ledger_keep values ('brief', 1), ('long', 365)")
    base.sql("select ensure_partitions()", who="runtime")
    before = months(base)
    for name, days in (("brief", 1), (tenant, 90), ("long", 365)):
        base.sql("insert into ledger (tenant, keep_days, kind, detail)"
                 " values (%s, %s, 5, '{}')", (name, days))
    assert base.sql("select drop_ledger_month()", who="runtime") == [(None,)]
    base.sql("create or replace function fleet_now() returns timestamptz"
             " language sql stable parallel safe"
             " return statement_timestamp() + interval '45 days'")
    base.sql("select ensure_partitions()", who="runtime")
    (dropped,), = base.sql("select drop_ledger_month()", who="runtime")
    assert dropped in before and dropped.startswith("ledger_k1_")
    assert dropped not in months(base)
    kept = {row[0] for row in base.sql("select tenant from ledger")}
    assert kept == {tenant, "long"}


def test_keeping_is_a_wish_of_the_tenant_and_an_act(house, tenant):
    house.ctl("ledger", "keep", "--tenant", tenant, "--days", "7")
    said = lines(house.ctl("ledger", "keep", "--json").stdout)
    assert [row["days_count"] for row in said if row["tenant"] == tenant] == [
        7]
    # Its partitions are there before anybody needs them.
    house.publish(one(tenant, "later", not_before="2030-01-01T00:00:00Z"))
    wait_for(lambda: entries(house, tenant, "kind = 7"), "an entry")
    assert house.sql("select distinct keep_days from ledger"
                     " where tenant = %s", (tenant,)) == [(7,)]
    assert entries(house, tenant, "kind = 5")[0]["detail"]["op"] == "keep"


def test_a_long_report_neither_waits_for_nor_stops_new_partitions(house):
    """While somebody reads, partitions are made and rows go in."""
    with rows.connect(house) as reader:
        reader.execute("select count(*) from ledger_all")
        with psycopg.connect(
                house.cluster.conninfo("superuser", house.space),
                options="-c search_path=actionist -c lock_timeout=20s"
                        " -c role=actionist_owner") as owner:
            for parent, bounds in (
                    ("outcome", "from (900000000) to (910000000)"),
                    ("ledger_k90", "from ('2001-01-01') to ('2001-02-01')")):
                (made,) = owner.execute(
                    "select attach_partition(%s::regclass, %s, %s, '')",
                    (parent, f"{parent}_extra", bounds)).fetchone()
                assert made
            owner.execute("insert into ledger (tenant, kind, detail)"
                          " values ('x', 5, '{}')")
            owner.rollback()


def test_the_ledger_only_grows(house):
    for statement in ("delete from ledger", "update ledger set actor = 'me'",
                      "update ledger_keep set keep_days = 1",
                      "select attach_partition('ledger', 'x', '', '')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            house.sql(statement, who="runtime")
