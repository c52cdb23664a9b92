# SPDX-License-Identifier: Apache-2.0
"""Schedules: one action a tick by whichever scheduler, over HTTP and by the
command, after outages and when schedulers are killed."""

import datetime
import json

import pytest

from lib import flow
from lib.api import Api, add_connector, check_problem, new_key
from lib.wait import wait_for

REQUEST = {"connector": "clock", "action": "keyed", "payload": {"n": 1}}
UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(schedulers=2, settings={"worker": {
        "egress.private_allow": double.address}})
    add_connector(made, "clock", {
        "keyed": flow.action("keyed", "/{{action.tenant}}/x"),
        "strict": {**flow.action("keyed"), "payload": {
            "type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}}}}}, double.url)
    return made


@pytest.fixture
def api(house, tenant):
    made = Api(house.url(), new_key(house, tenant)[1])
    yield made
    made.close()


def post(api, document):
    return api.client.post("/v1/schedules", json=document)


def add(api, **more):
    """Makes one and returns what was answered."""
    answer = post(api, {"request": REQUEST, **more})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/v1/schedules/{answer.json()['id']}"
    return answer.json()


def act(api, schedule, verb):
    answer = api.client.post(f"/v1/schedules/{schedule['id']}/{verb}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def show(api, schedule):
    return api.client.get(f"/v1/schedules/{schedule['id']}").json()


def time_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def now():
    return datetime.datetime.now(UTC)


def text_of(time):
    return time.isoformat().replace("+00:00", "Z")


def ticks_of(house, schedule):
    """Ticks of the outcomes of a schedule, ascending, each an action's."""
    keys = [out["idempotency_key"] for out in house.outcomes(
        schedule["tenant"])]
    head = f"schedule:{schedule['id']}:"
    return sorted(time_of(key.removeprefix(head)) for key in keys
                  if key.startswith(head))


def wait_settled(house, api, schedule):
    """A paused or done schedule with an outcome for each firing."""
    def probe():
        shown = show(api, schedule)
        return (shown if len(ticks_of(house, schedule))
                >= shown["fired_count"] else None)

    wait_for(lambda: house.sql("select count(*) from schedule_firing") ==
             [(0,)], "every firing is published")
    return wait_for(probe, "an outcome a firing", 60, every=0.2)


# -- firing -----------------------------------------------------------------------


def test_each_tick_becomes_one_action(house, api, double, tenant):
    made = add(api, name="often", every_s=1)
    assert made["state"] == "active" and made["next_at"]
    wait_for(lambda: show(api, made)["fired_count"] >= 3, "three ticks")
    act(api, made, "pause")
    done = wait_settled(house, api, made)
    ticks = ticks_of(house, made)
    assert len(ticks) == done["fired_count"] and done["missed_count"] == 0
    first = time_of(made["created_at"])
    assert ticks == [first + datetime.timedelta(seconds=n + 1)
                     for n in range(len(ticks))]
    assert len(double.requests(f"/{tenant}/x")) == len(ticks)
    last = api.get(done["last_action"]).json()
    assert last["status"] == "succeeded"
    assert time_of(done["last_at"]) == ticks[-1]
    (body,) = house.sql("select convert_from(request, 'UTF8') from action"
                        " where id = %s", (done["last_action"],))[0]
    assert json.loads(body)["scheduled"] == {
        "id": made["id"], "name": "often", "tick": done["last_at"]}


def test_a_one_off_fires_at_its_instant(house, api):
    at = now() + datetime.timedelta(seconds=1)
    made = add(api, name="once", at=text_of(at))
    done = wait_for(lambda: show(api, made)["state"] == "done" and
                    wait_settled(house, api, made), "its end")
    assert ticks_of(house, made) == [at]
    assert done["next_at"] is None and done["fired_count"] == 1
    check_problem(api.client.post(f"/v1/schedules/{made['id']}/resume"), 409,
                  "CONFLICT")


@pytest.mark.parametrize("policy, cap, fired", [
    ("once", None, 1), ("skip", None, None), ("all", 5, 5)])
def test_ticks_of_an_outage(house, api, policy, cap, fired):
    """An hour without any scheduler, as the cursor of such a one stands."""
    more = {} if cap is None else {"misfire_cap": cap}
    made = add(api, name=policy, every_s=60, misfire=policy,
               start="2026-01-01T00:00:00Z", **more)
    house.sql("update schedule set next_at = next_at - interval '1 h'"
              " where id = %s", (made["id"],))
    # The cursor has passed the tick that was next at first, or stands at it.
    wait_for(lambda: time_of(show(api, made)["next_at"]) >= time_of(
        made["next_at"]), "the cursor has caught up")
    act(api, made, "pause")
    done = wait_settled(house, api, made)
    ticks = ticks_of(house, made)
    # 60 ticks, and one more if a minute has turned meanwhile.
    assert len(ticks) + done["missed_count"] in (60, 61)
    assert len(ticks) == done["fired_count"]
    if fired is None:
        assert len(ticks) <= 2
    else:
        assert len(ticks) in (fired, fired + 1)
    assert all(b - a == datetime.timedelta(seconds=60)
               for a, b in zip(ticks, ticks[1:]))


def test_a_pause_leaves_its_ticks_out(house, api):
    made = add(api, name="paused", every_s=60, misfire="all")
    paused = act(api, made, "pause")
    assert (paused["state"], paused["next_at"]) == ("paused", None)
    assert act(api, made, "pause")["state"] == "paused"
    house.sql("update schedule set next_at = next_at - interval '1 h'"
              " where id = %s", (made["id"],))
    again = act(api, made, "resume")
    assert again["state"] == "active"
    assert time_of(again["next_at"]) > now() - datetime.timedelta(seconds=5)
    assert again["fired_count"] == again["missed_count"] == 0


def test_killed_schedulers_fire_each_tick_once(house, api, double, tenant):
    made = [add(api, name=f"kill-{n}", every_s=1) for n in range(4)]
    for number in range(4):
        name = f"scheduler-{number % 2}"
        seen = show(api, made[0])["fired_count"]
        wait_for(lambda at=seen: show(api, made[0])["fired_count"] > at,
                 "a tick")
        house[name].kill()
        house[name].start()
    house.wait_ready(house["scheduler-0"])
    for schedule in made:
        act(api, schedule, "pause")
    for schedule in made:
        done = wait_settled(house, api, schedule)
        ticks = ticks_of(house, schedule)
        first = time_of(schedule["created_at"])
        assert ticks == [first + datetime.timedelta(seconds=n + 1)
                         for n in range(done["fired_count"])], schedule
    total = sum(show(api, schedule)["fired_count"] for schedule in made)
    assert len(double.effects(f"/{tenant}/x")) == total
    assert all(effect["applied"] == 1
               for effect in double.effects(f"/{tenant}/x"))


def test_what_a_dead_scheduler_left_is_published_by_another(house, api):
    """And what has ended already is not, however old."""
    made = add(api, name="left", every_s=3600)
    record = {"spec": "actionist/1", "tenant": made["tenant"],
              "idempotency_key":
                  f"schedule:{made['id']}:2026-01-01T00:00:00.000000Z",
              **REQUEST}
    ended = house.sql("select id from outcome limit 1")[0][0]
    house.sql(
        "insert into schedule_firing (schedule_id, tick, action_id, tenant,"
        " request, since) values (%(id)s, '2026-01-01', gen_random_uuid(),"
        " %(tenant)s, %(body)s, now() - interval '1 min'),"
        " (%(id)s, '2025-01-01', %(ended)s, %(tenant)s, 'no request',"
        "  now() - interval '1 min')",
        {"id": made["id"], "tenant": made["tenant"], "ended": ended,
         "body": json.dumps(record).encode()})
    wait_for(lambda: len(ticks_of(house, made)) == 1, "its outcome", every=0.2)
    wait_for(lambda: house.sql("select count(*) from schedule_firing") ==
             [(0,)], "the firings are gone")
    assert not [one for one in house.kafka.read_all("rejects")
                if one.value == b"no request"]


# -- over HTTP --------------------------------------------------------------------


@pytest.mark.parametrize("change, status, code, pointer", [
    ({"cron": "61 * * * *"}, 400, "INVALID_MEMBER", "/cron"),
    ({"cron": "* * * *"}, 400, "INVALID_MEMBER", "/cron"),
    ({"cron": "@daily", "zone": "Europe/Atlantis"}, 400, "INVALID_MEMBER",
     "/zone"),
    ({"at": "2027-01-01T00:00:00"}, 400, "INVALID_TIME", "/at"),
    ({"at": "2020-01-01T00:00:00Z"}, 400, "INVALID_TIME", "/at"),
    ({"every_s": 0}, 400, "INVALID_MEMBER", "/every_s"),
    ({"every_s": 60, "cron": "@daily"}, 400, "INVALID_MEMBER", None),
    ({"every_s": 60, "more": 1}, 400, "INVALID_MEMBER", None),
    ({"every_s": 60, "name": "No"}, 400, "INVALID_MEMBER", "/name"),
    ({"every_s": 60, "request": {"connector": "none", "action": "x"}}, 422,
     "UNKNOWN_CONNECTOR", "/request/connector"),
    ({"every_s": 60, "request": {"connector": "clock", "action": "x"}}, 422,
     "UNKNOWN_ACTION", "/request/action"),
    ({"every_s": 60, "request": {"connector": "clock", "action": "strict",
                                 "payload": {"n": "1"}}}, 422,
     "PAYLOAD_INVALID", "/request/payload/n"),
    ({"every_s": 60, "request": {**REQUEST, "deadline": "x"}}, 400,
     "INVALID_MEMBER", "/request/deadline"),
])
def test_http_refuses(api, change, status, code, pointer):
    document = {"name": "wrong", "request": REQUEST, **change}
    check_problem(post(api, document), status, code, pointer)
    assert api.client.get("/v1/schedules").json() == {
        "schedules": [], "after": None}


def test_http_refuses_what_is_no_document(api):
    for body, code in ((b"", "MALFORMED_JSON"), (b"[]", "MALFORMED_JSON"),
                       (b'{"name":"a","name":"b"}', "DUPLICATE_MEMBER")):
        check_problem(api.client.post(
            "/v1/schedules", content=body,
            headers={"Content-Type": "application/json"}), 400, code)
    check_problem(api.client.post(
        "/v1/schedules", content=b"x" * 70000,
        headers={"Content-Type": "application/json"}), 413, "TOO_LARGE")


def test_http_says_the_same_again(api):
    made = add(api, name="twice", every_s=3600)
    again = post(api, {"every_s": 3600, "name": "twice", "request": REQUEST})
    assert (again.status_code, again.json()["id"]) == (200, made["id"])
    check_problem(post(api, {"every_s": 3601, "name": "twice",
                             "request": REQUEST}), 409, "CONFLICT")


def test_http_of_one_tenant_only(house, api, tenant):
    made = [add(api, name=f"n-{n}", cron="@yearly") for n in range(3)]
    stranger = Api(house.url(), new_key(house, f"{tenant}-x")[1])
    path = f"/v1/schedules/{made[0]['id']}"
    for method, where in (("GET", path), ("DELETE", path),
                          ("POST", path + "/pause"),
                          ("POST", path + "/resume")):
        check_problem(stranger.client.request(method, where), 404,
                      "NOT_FOUND")
    assert stranger.client.get("/v1/schedules").json()["schedules"] == []
    stranger.close()
    first = api.client.get("/v1/schedules", params={"limit": 2}).json()
    assert [one["schedule"]["name"] for one in first["schedules"]] == [
        "n-0", "n-1"]
    rest = api.client.get("/v1/schedules", params={
        "limit": 2, "after": first["after"]}).json()
    assert ([one["id"] for one in rest["schedules"]], rest["after"]) == (
        [made[2]["id"]], None)
    assert api.client.delete(path).status_code == 204
    check_problem(api.client.delete(path), 404, "NOT_FOUND")
    check_problem(api.client.get(path), 404, "NOT_FOUND")
    check_problem(api.client.get("/v1/schedules?limit=0"), 400,
                  "INVALID_MEMBER")
    wrong = api.client.put(path)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, DELETE")
    assert api.client.post("/v1/schedules", headers={
        "Authorization": "Bearer no"}).status_code == 401
    ops = house.sql("select convert_from(detail, 'UTF8')::jsonb ->> 'op',"
                    " actor from ledger where tenant = %s order by entry",
                    (tenant,))
    assert ops == [("schedule.add", "api")] * 3 + [("schedule.remove", "api")]


# -- by the command ---------------------------------------------------------------


def run(house, *words):
    done = house.ctl("schedule", *words, check=False)
    return done.returncode, done.stdout, done.stderr


def test_command(house, tenant):
    words = ("add", "nightly", "--tenant", tenant, "--connector", "clock",
             "--action", "keyed", "--payload", '{"n": 1.10}', "--cron",
             "30 2 * * *", "--zone", "Europe/Berlin", "--json")
    code, out, err = run(house, *words)
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert made["schedule"]["zone"] == "Europe/Berlin"
    assert '"n": 1.10' in out, "numbers pass as they are"
    assert json.loads(run(house, *words)[1])["id"] == made["id"]
    code, _, err = run(house, *words[:-1], "--misfire", "skip")
    assert code == 5 and "another schedule nightly" in err
    ours = ("nightly", "--tenant", tenant)
    for verb, state in (("pause", "paused"), ("show", "paused"),
                        ("resume", "active")):
        code, out, _ = run(house, verb, *ours, "--json")
        assert (code, json.loads(out)["state"]) == (0, state)
    code, out, _ = run(house, "list", "--tenant", tenant)
    assert code == 0 and "30 2 * * * Europe/Berlin" in out
    assert [run(house, verb, *ours)[0] for verb in (
        "remove", "remove", "show", "pause")] == [0, 3, 3, 3]
    assert run(house, "list", "--tenant", tenant)[1] == ""


@pytest.mark.parametrize("words, code, said", [
    ((), 2, "schedule takes"),
    (("add",), 2, "which one?"),
    (("add", "a"), 2, "--tenant is required"),
    (("add", "a", "--tenant", "t"), 2, "give one of cron"),
    (("add", "a", "--tenant", "t", "--cron", "x"), 2, "five fields"),
    (("add", "a", "--tenant", "t", "--every", "5 min"), 2, "--every takes"),
    (("add", "a", "--tenant", "t", "--at", "2020-01-01T00:00:00Z",
      "--connector", "clock", "--action", "keyed"), 2, "has passed"),
    (("add", "a", "--tenant", "t", "--every", "1h", "--connector", "clock",
      "--action", "keyed", "--payload", "{"), 2, "--payload"),
    (("add", "a", "--tenant", "t", "--every", "1h", "--connector", "none",
      "--action", "x"), 4, "UNKNOWN_CONNECTOR"),
    (("add", "a", "--tenant", "t", "--every", "1h", "--connector", "clock",
      "--action", "strict"), 4, "PAYLOAD_INVALID"),
    (("next", "--cron", "@daily", "--count", "0"), 2, "1 to 1000"),
    (("next", "--cron", "@daily", "--after", "now"), 2, "RFC 3339"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else None)
def test_command_refuses(house, words, code, said):
    got, out, err = run(house, *words)
    assert (got, out) == (code, "")
    assert said in err and err.count("\n") == 1
