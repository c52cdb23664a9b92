# SPDX-License-Identifier: Apache-2.0
"""When work is tried again: never earlier than asked, never under another
identity, never for ever.

Two workers in two time zones. What only has to be watched is published at
once; each test judges its part."""

import collections
import dataclasses
import datetime
import itertools
import uuid

import pytest

from lib import flow
from lib.api import add_connector
from lib.wait import wait_for

ZONES = ("America/New_York", "Asia/Kolkata")
TENANT = "t-" + uuid.uuid4().hex[:12]
# A retry that is due may be this late, whatever else the machine does.
LATE_S = 10
JITTER = 1.2
CROWD = 400
CROWD_BASE_MS = 8000
MANY_CALLS = 70


def answer(status, *headers):
    return {"status": status, "headers": list(headers)}


def retry_after(status, value):
    return answer(status, ["Retry-After", value])


def epoch(seconds):
    now = datetime.datetime.now(datetime.timezone.utc)
    return now + datetime.timedelta(seconds=seconds)


def text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclasses.dataclass
class Case:
    """One request: what the provider plays, and how it must end."""
    name: str
    steps: list
    status: str = "succeeded"
    attempts: int = 2
    action: str = "second"
    more: dict = dataclasses.field(default_factory=dict)
    code: str = None


# -- what is watched --------------------------------------------------------------

SECONDS = [(429, "2"), (503, "2"), (429, "0"), (503, "1")]
DATES = ("imf", "rfc850", "asctime")
UNUSABLE = ["-1", "-0", "+120", "1.5", "1e2", "120s", "120, 240", "",
            "0x10", "soon", "Mon, 30 Feb 2026 00:02:00 GMT"]
FINAL = [400, 401, 403, 404, 405, 410, 422, 451, 501]
AGAIN = [answer(status) for status in (408, 425, 429, 500, 502, 503, 504)] + [
    {"reset": "before_body"}, {"reset": "after_body"}]


def cases_of_floors():
    for status, value in SECONDS:
        yield Case(f"floor-{status}-{value}",
                   [retry_after(status, value), {}], action="minute")
    yield Case("floor-200", [retry_after(200, "120"), {}], attempts=1)
    yield Case("floor-400", [retry_after(400, "120"), {}], "failed", 1,
               code="HTTP_STATUS")
    for form, number in itertools.product(DATES, range(4)):
        yield Case(f"date-{form}-{number}", [
            {"status": 429, "retry_after_date_s": 2, "date_format": form},
            {}], action="minute")
    for number, value in enumerate(UNUSABLE):
        yield Case(f"unusable-{number}", [retry_after(429, value), {}])


def cases_of_resets():
    def limited(*headers):
        return [answer(403, ["X-RateLimit-Remaining", "0"], *headers), {}]

    reset = str(int(epoch(3).timestamp()))
    yield Case("reset-epoch", limited(["X-RateLimit-Reset", reset]),
               action="limited")
    yield Case("reset-both", limited(["X-RateLimit-Reset", reset],
                                     ["Retry-After", "1"]), action="limited")
    yield Case("reset-delta", limited(["X-Reset-In", "2"]), action="limited")
    yield Case("reset-none", [
        answer(403, ["X-RateLimit-Remaining", "12"]), {}], "failed", 1,
        "limited", code="HTTP_STATUS")


def cases_of_classes():
    for status in FINAL:
        yield Case(f"final-{status}", [answer(status)], "failed", 1, "quick",
                   code="HTTP_STATUS")
    for number, step in enumerate(AGAIN):
        yield Case(f"again-{number}", [{**step, "times": 4}, {}],
                   attempts=5, action="quick")


def cases_of_ends():
    soon = text(epoch(600))
    yield Case("ends-expired", [retry_after(429, "3600")], "expired", 1,
               "quick", {"deadline": soon}, "DEADLINE_PASSED")
    yield Case("ends-expired-unknown",
               [answer(500), retry_after(429, "3600")],
               "indeterminate", 2, "quick", {"deadline": soon},
               "DEADLINE_PASSED")
    yield Case("ends-too-late", [{}], "expired", 0, "quick",
               {"deadline": text(epoch(-1))}, "DEADLINE_PASSED")
    yield Case("ends-forgotten-key", [answer(429)], "exhausted", 1, "forgets",
               code="HTTP_STATUS")
    yield Case("ends-forgotten-key-unknown", [answer(500)], "indeterminate",
               1, "forgets", code="HTTP_STATUS")
    yield Case("ends-budget", [answer(429)], "exhausted", 3, "quick",
               {"max_attempts": 3}, "HTTP_STATUS")


def cases_of_identity():
    for action in ("identity", "unsafe"):
        yield Case(f"same-{action}", [
            {**retry_after(503, "0"), "times": 3}, {}], attempts=4,
            action=action)


def cases_of_time():
    yield Case("many", [answer(429)], "exhausted", MANY_CALLS, "many",
               code="HTTP_STATUS")
    for number in range(CROWD):
        yield Case(f"crowd-{number}", [answer(503), {}], action="crowd")
    start = text(epoch(4))
    for number in range(50):
        yield Case(f"later-{number}", [{}], attempts=1,
                   more={"not_before": start})


def make_cases():
    """When they are needed: some are about times soon after."""
    return {case.name: case for case in itertools.chain(
        cases_of_floors(), cases_of_resets(), cases_of_classes(),
        cases_of_ends(), cases_of_identity(), cases_of_time())}


# -- running all of it -----------------------------------------------------------------


def actions():
    def waits(base_ms, max_ms, max_attempts=5):
        return {"retry": {"base_ms": base_ms, "max_ms": max_ms,
                          "max_attempts": max_attempts}}

    identity = flow.action("keyed", **waits(50, 50))
    identity["request"] = {
        **identity["request"],
        "headers": {"X-Id": "{{action.id}}", "X-Key": "{{action.key}}"},
        "json": {"id": "{{action.id}}", "of": "{{payload}}"}}
    return {
        "second": flow.action(**waits(1000, 300000)),
        "minute": flow.action(**waits(60000, 300000)),
        "quick": flow.action(**waits(100, 800)),
        "many": flow.action(**waits(1, 4, MANY_CALLS)),
        "crowd": flow.action(**waits(CROWD_BASE_MS, 300000)),
        "unsafe": flow.action("unsafe", **waits(50, 50)),
        "identity": identity,
        "forgets": flow.action("keyed", key={"retention_s": 1},
                               **waits(2000, 2000)),
        "limited": flow.action(limited_on=[403], retry={
            "base_ms": 60000, "max_ms": 60000, "reset_headers": [
                {"name": "X-RateLimit-Reset", "unit": "epoch_s"},
                {"name": "X-Reset-In", "unit": "delta_s"}]}),
    }


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(producers=0, workers=0, settings={"worker": {
        "egress.private_allow": double.address}})
    add_connector(made, "retry", actions(), double.url)
    for zone in ZONES:
        made.env = {**made.env, "TZ": zone}
        made.wait_ready(made.add("worker"))
    made.env = {**made.env, "TZ": "UTC"}
    return made


class Seen:
    """All that is known of the requests of one tenant once they ended."""

    def __init__(self, house, double, tenant, cases):
        self.tenant = tenant
        self.cases = cases
        self.outcomes = flow.wait_ended(house, tenant, len(cases))
        self.paths = flow.requests_by_path(double, f"/{tenant}/")
        self.notes = collections.defaultdict(list)
        for action_id, detail in house.sql(
                "select id::text, convert_from(detail, 'UTF8')::jsonb"
                " from ledger where tenant = %s and kind = 1"
                " order by attempt_no", (tenant,)):
            self.notes[action_id].append(detail)

    def calls(self, name):
        return self.paths.get(f"/{self.tenant}/{name}", [])

    def waits_ms(self, name):
        """What was decided after each attempt but the last."""
        return [note["wait_ms"]
                for note in self.notes[self.outcomes[name]["id"]]]

    def check_never_early(self, name):
        """Each call came when it was due, and by the provider's clock."""
        calls = self.calls(name)
        for call, after, wait_ms in zip(calls, calls[1:],
                                        self.waits_ms(name)):
            end_us = call["answered_us"] or call["arrival_us"]  # 0: reset
            due_us = end_us + wait_ms * 1000
            assert after["arrival_us"] >= due_us, name
            assert after["arrival_us"] <= due_us + LATE_S * 1000000, name
            if call["retry_at_us"]:
                assert after["arrival_us"] >= call["retry_at_us"], name


@pytest.fixture(scope="module")
def seen(house, double):
    cases = make_cases()
    double.scripts([{"path": f"/{TENANT}/{case.name}", "steps": case.steps}
                    for case in cases.values()])
    flow.publish(house, [flow.request(TENANT, "retry", case.action, case.name,
                                      **case.more)
                         for case in cases.values()], spread=True)
    return Seen(house, double, TENANT, cases)


# -- tests of what was watched --------------------------------------------------------


def test_each_ended_as_it_must(seen):
    for case in seen.cases.values():
        out = seen.outcomes[case.name]
        told = (case.name, out["status"], out["attempts"],
                (out["error"] or {}).get("code"))
        assert told == (case.name, case.status, case.attempts, case.code)
        assert len(seen.calls(case.name)) == case.attempts, case.name


def test_no_retry_is_early_and_none_is_lost(seen):
    for name in seen.cases:
        seen.check_never_early(name)


def check_wait(seen, name, least_ms, most_ms):
    (wait_ms,) = seen.waits_ms(name)
    assert least_ms <= wait_ms <= most_ms, (name, wait_ms)


@pytest.mark.case("RTY-01")
def test_rty_01_seconds(seen):
    for status, value in SECONDS:
        name = f"floor-{status}-{value}"
        asked_ms = int(value) * 1000
        check_wait(seen, name, asked_ms, asked_ms * JITTER)
    assert seen.waits_ms("floor-200") == seen.waits_ms("floor-400") == []


@pytest.mark.case("RTY-02")
def test_rty_02_dates_in_other_time_zones(seen):
    """A date is at most a second more than what was asked, rounded up."""
    for form, number in itertools.product(DATES, range(4)):
        check_wait(seen, f"date-{form}-{number}", 500, 3000 * JITTER)


@pytest.mark.case("RTY-03")
def test_rty_03_unusable_values_are_as_none(seen):
    for number, value in enumerate(UNUSABLE):
        name = f"unusable-{number}"
        check_wait(seen, name, 1000, 1000 * JITTER)
        (note,) = seen.notes[seen.outcomes[name]["id"]]
        assert "retry_after_s" not in note["error"], value


@pytest.mark.case("RTY-08")
def test_rty_08_reset_headers(seen):
    """The later one wins. How far away the epoch was depends on when the
    answer came: only the provider's clock can tell."""
    for name in ("reset-epoch", "reset-both"):
        step = seen.cases[name].steps[0]
        reset_s = int(dict(step["headers"])["X-RateLimit-Reset"])
        assert seen.calls(name)[1]["arrival_us"] >= reset_s * 1000000
        check_wait(seen, name, 0, 3000 * JITTER)
    first, second = seen.calls("reset-both")
    assert second["arrival_us"] - first["answered_us"] >= 1000000
    check_wait(seen, "reset-delta", 2000, 2000 * JITTER)
    assert seen.waits_ms("reset-none") == []


@pytest.mark.case("RTY-09")
def test_rty_09_backoff_neither_overflows_nor_ends(seen):
    waits = seen.waits_ms("many")
    assert len(waits) == MANY_CALLS - 1
    for number, wait_ms in enumerate(waits):
        base_ms = min(2 ** number, 4)
        assert base_ms <= wait_ms <= base_ms * JITTER, number


@pytest.mark.case("RTY-11")
def test_rty_11_what_is_permanent_and_what_is_not(seen):
    for status in FINAL:
        assert len(seen.calls(f"final-{status}")) == 1
    for number in range(len(AGAIN)):
        waits = seen.waits_ms(f"again-{number}")
        assert len(waits) == 4
        for wait_ms, base_ms in zip(waits, (100, 200, 400, 800)):
            assert base_ms <= wait_ms <= base_ms * JITTER


@pytest.mark.case("RTY-15")
def test_rty_15_same_identity_on_each_attempt(seen):
    for name in ("same-identity", "same-unsafe"):
        calls = seen.calls(name)
        assert len({call["body"] for call in calls}) == 1
        assert len({tuple(call["headers"]) for call in calls}) == 1
        assert len({call["key"] for call in calls}) == 1
    (call, *_) = seen.calls("same-identity")
    out = seen.outcomes["same-identity"]
    assert call["key"] == out["id"]
    assert dict(call["headers"])["x-id"] == out["id"]
    assert dict(call["headers"])["x-key"] == "same-identity"


@pytest.mark.case("RTY-16")
def test_rty_16_a_crowd_is_spread(seen):
    waits = []
    for number in range(CROWD):
        waits += seen.waits_ms(f"crowd-{number}")
    assert len(waits) == CROWD
    assert min(waits) >= CROWD_BASE_MS
    assert max(waits) <= CROWD_BASE_MS * JITTER
    assert max(waits) - min(waits) >= 0.15 * CROWD_BASE_MS
    slices = collections.Counter(wait_ms // 100 for wait_ms in waits)
    assert max(slices.values()) <= 0.15 * CROWD


@pytest.mark.case("SCH-03")
def test_sch_03_not_before(seen):
    for number in range(50):
        name = f"later-{number}"
        due = datetime.datetime.fromisoformat(
            seen.cases[name].more["not_before"].replace("Z", "+00:00")).timestamp()
        (call,) = seen.calls(name)
        late_s = call["arrival_us"] / 1e6 - due
        assert 0 <= late_s <= LATE_S, name


# -- tests that act while something waits ---------------------------------------------


def waiting(house, tenant):
    """{idempotency key: (reason, due)} of what waits."""
    return {key: (reason, due) for key, reason, due in house.sql(
        "select convert_from(a.request, 'UTF8')::jsonb ->> 'idempotency_key',"
        " w.reason, extract(epoch from w.due)::float8"
        " from waiting w join action a using (id, window_no)"
        " where w.tenant = %s", (tenant,))}


def wait_waiting(house, tenant, count):
    return wait_for(lambda: len(found := waiting(house, tenant)) >= count
                    and found, f"{count} actions of {tenant} wait")


@pytest.mark.case("SCH-07")
def test_sch_07_times_are_exact_over_daylight_saving(house, tenant):
    """Two hours of the night of the change, told apart by their offsets."""
    wanted = {"2027-10-31T02:30:00+02:00": 1824942600,
              "2027-10-31T02:30:00+01:00": 1824946200,
              "2027-03-28T01:30:00Z": 1806197400,
              "2027-03-28t03:30:00.250+02:00": 1806197400.25}
    bad = ["2027-10-31T02:30:00", "2027-10-31 02:30", "2027-10-31", 1824942600,
           "2027-02-29T00:00:00Z"]
    flow.publish(house, [
        flow.request(tenant, "retry", "quick", f"good-{number}",
                     not_before=value)
        for number, value in enumerate(wanted)] + [
        flow.request(tenant, "retry", "quick", f"bad-{number}",
                     not_before=value) for number, value in enumerate(bad)])
    found = wait_waiting(house, tenant, len(wanted))
    for number, due in enumerate(wanted.values()):
        reason, stored = found[f"good-{number}"]
        assert (reason, stored) == (7, pytest.approx(due, abs=0.001))
    outcomes = flow.wait_ended(house, tenant, len(bad))
    for out in outcomes.values():
        assert (out["status"], out["attempts"]) == ("rejected", 0)
        assert out["error"]["code"] == "INVALID_TIME"
        assert out["error"]["pointer"] == "/not_before"


def test_the_longest_retry_after_is_waited_for(house, double, tenant):
    double.script(f"/{tenant}/day", retry_after(429, "86400"))
    flow.publish(house, [flow.request(tenant, "retry", "second", "day")])
    reason, due = wait_waiting(house, tenant, 1)["day"]
    (call,) = double.requests(f"/{tenant}/day")
    assert reason == 1
    wait_s = due - call["answered_us"] / 1e6
    assert 86400 <= wait_s <= 86400 * JITTER + LATE_S


@pytest.mark.case("SCH-10")
def test_sch_10_a_retry_is_not_a_repeat_of_itself(house, double, tenant):
    double.script(f"/{tenant}/once", retry_after(503, "3"), {},
                  dedup_header="Idempotency-Key")
    request = flow.request(tenant, "retry", "identity", "once")
    flow.publish(house, [request])
    wait_waiting(house, tenant, 1)
    flow.publish(house, [request, request], spread=True)
    out = flow.wait_ended(house, tenant, 1)["once"]
    flow.publish(house, [request])
    assert (out["status"], out["attempts"]) == ("succeeded", 2)
    wait_for(lambda: flow.is_consumed(house), "the repeats are consumed")
    assert flow.wait_ended(house, tenant, 1)["once"]["id"] == out["id"]
    effect = double.effect(f"/{tenant}/once", out["id"])
    assert (effect["calls"], effect["applied"]) == (2, 1)


def restart_workers(house, between=lambda: None):
    workers = [house[f"worker-{number}"] for number in range(len(ZONES))]
    for worker in workers:
        worker.signal(15)
    for worker in workers:
        assert worker.wait_exit(60) == 0
    between()
    for worker in workers:
        worker.start()
    for worker in workers:
        house.wait_ready(worker)


@pytest.mark.case("RTY-12")
@pytest.mark.case("SCH-09")
def test_rty_12_sch_09_what_came_due_while_nobody_worked(
        house, double, tenant):
    """Workers that never saw the declaration, which is no longer the newest
    of its connector, run it as it was when it was accepted."""
    add_connector(house, tenant, {"old": actions()["second"]}, double.url)
    double.scripts([{"path": f"/{tenant}/{number}",
                     "steps": [retry_after(429, "2"), {}]}
                    for number in range(20)])
    flow.publish(house, [flow.request(tenant, tenant, "old", str(number))
                         for number in range(20)], spread=True)
    wait_waiting(house, tenant, 20)

    def let_time_pass():
        add_connector(house, tenant, {"new": actions()["second"]},
                      double.url, version="2.0.0")
        # Past for all, whether or not it was dispatched to nobody.
        wait_for(lambda: house.sql(
            "select count(*) from waiting where tenant = %s"
            " and due > fleet_now()", (tenant,)) == [(0,)], "all are due")

    restart_workers(house, let_time_pass)
    names = [str(number) for number in range(20)]
    seen = Seen(house, double, tenant, names)
    for name in names:
        out = seen.outcomes[name]
        assert (out["status"], out["attempts"]) == ("succeeded", 2)
        first, second = seen.calls(name)
        assert second["arrival_us"] >= first["retry_at_us"]
