# SPDX-License-Identifier: Apache-2.0
"""Idempotency windows: rotated under load without losing or doubling an
action, and dropped once nobody needs them."""

import contextlib
import json
import signal
import threading
import uuid

import httpx
import psycopg
import pytest

from lib import flow
from lib.api import Api, add_connector, echo_action, new_key
from lib.kafka import KafkaView
from lib.wait import wait_for


def settings(double, **scheduler):
    return {"worker": {"egress.private_allow": double.address},
            "scheduler": {"scheduler.window_s": 1, **scheduler}}


def add_post(fleet, double):
    post = {**echo_action(), "timeout_ms": 60000, "request": {
        "method": "POST", "path": "/{{payload.path}}", "json": "{{payload}}"}}
    add_connector(fleet, "any", {"post": post}, base_url=double.url,
                  egress=[double.address])


def request(tenant, key):
    return {"spec": "actionist/1", "tenant": tenant, "connector": "any",
            "action": "post", "idempotency_key": key,
            "payload": {"path": f"{tenant}-{key}"}}


@pytest.fixture(scope="module")
def turning(fleets, double):
    """Opens a window each second and keeps them all."""
    made = fleets(producers=0, workers=2, settings=settings(double))
    add_post(made, double)
    return made


@pytest.fixture(scope="module")
def forgetting(fleets, double):
    """Drops a window a second after it was closed."""
    made = fleets(settings=settings(double, **{"scheduler.retention_s": 1}))
    add_post(made, double)
    return made


def window_of(fleet, action_id):
    rows = fleet.sql("select window_no from action where id = %s", (action_id,))
    return rows[0][0] if rows else None


def wait_newer(fleet, number):
    wait_for(lambda: fleet.sql("select max(number) from action_window")[0][0]
             > number, f"a window after {number}")


def test_rotation_under_load_neither_loses_nor_doubles(
        turning, double, tenant):
    keys = [f"k{number}" for number in range(60)]
    stop = threading.Event()
    # One of its own: two threads do not share a producer's reports.
    kafka = KafkaView(turning.cluster.kafka_client(), f"{turning.space}.")

    def repeat():
        """Everything again and again, so that claims meet the rotation."""
        while not stop.is_set():
            kafka.publish_all([
                (tenant, json.dumps(request(tenant, key)), []) for key in keys])
            stop.wait(0.05)

    loader = threading.Thread(target=repeat)
    loader.start()
    try:
        turning.wait_for_outcomes(len(keys), tenant)
        # Each window gets an action of its own, or it would not be rotated.
        for number in range(3):
            extra = f"x{number}"
            keys.append(extra)
            newest = turning.sql("select max(number) from action_window")[0][0]
            turning.publish(request(tenant, extra))
            turning.wait_for_outcomes(len(keys), tenant)
            wait_newer(turning, newest)
    finally:
        stop.set()
        loader.join()
    found = turning.outcomes(tenant)
    assert len(found) == len(keys)
    assert {out["idempotency_key"] for out in found} == set(keys)
    assert all(double.effect(f"/{tenant}-{key}")["calls"] == 1 for key in keys)
    windows = turning.sql("select count(distinct window_no) from action"
                          " where tenant = %s", (tenant,))
    assert windows[0][0] >= 3
    checked = turning.ctl("verify", "--full", "--json", check=False)
    assert checked.returncode == 0, checked.stdout


def test_key_of_an_older_window_is_a_duplicate(turning, double, tenant):
    turning.publish(request(tenant, "old"))
    first, = turning.wait_for_outcomes(1, tenant)
    wait_newer(turning, window_of(turning, first["id"]))
    turning.publish(request(tenant, "old"))
    # Behind the repeat on the same partition: once it is done, so is that.
    turning.publish(request(tenant, "new"))
    turning.wait_for_outcomes(2, tenant)
    assert [out["idempotency_key"] for out in turning.outcomes(tenant)].count(
        "old") == 1
    assert double.effect(f"/{tenant}-old")["calls"] == 1


def test_key_acts_again_once_its_window_is_gone(forgetting, double, tenant):
    forgetting.publish(request(tenant, "again"))
    first, = forgetting.wait_for_outcomes(1, tenant)
    wait_for(lambda: window_of(forgetting, first["id"]) is None,
             "the window to be dropped")
    # The outcome outlives it, for the command and over HTTP.
    story = json.loads(forgetting.ctl("get", first["id"], "--json").stdout)
    assert story["outcome"]["id"] == first["id"]
    api = Api(forgetting.url(), new_key(forgetting, tenant)[1])
    answer = api.get(first["id"])
    assert (answer.status_code, answer.json()["status"]) == (200, "succeeded")
    # And the key acts again, through either door.
    forgetting.publish(request(tenant, "again"))
    forgetting.wait_for_outcomes(2, tenant)
    wait_for(lambda: window_of(forgetting, first["id"]) is None,
             "the window to be dropped again")
    assert api.post(request(tenant, "again")).status_code == 202
    found = forgetting.wait_for_outcomes(3, tenant)
    api.close()
    assert {out["id"] for out in found} == {first["id"]}
    assert double.effect(f"/{tenant}-again")["calls"] == 3
    checked = forgetting.ctl("verify", "--full", "--json", check=False)
    assert checked.returncode == 0, checked.stdout


def test_window_of_unfinished_work_stays(forgetting, tenant):
    later = {**request(tenant, "later"), "not_before": "2030-01-01T00:00:00Z"}
    forgetting.publish(later)
    rows = wait_for(lambda: forgetting.sql(
        "select id, window_no from waiting where tenant = %s", (tenant,)),
        "the action to wait")
    number = rows[0][1]
    newer_window_goes(forgetting, tenant, number)
    assert window_of(forgetting, rows[0][0]) == number
    forgetting.ctl("cancel", str(rows[0][0]))
    wait_for(lambda: window_of(forgetting, rows[0][0]) is None,
             "the window to go once its action has ended")


def newer_window_goes(fleet, tenant, number):
    """A window younger than `number` is filled, closed and dropped. No
    provider is needed for that."""
    wait_newer(fleet, number)
    fleet.publish({**request(tenant, f"after-{number}"),
                   "connector": "unknown"})
    wait_for(lambda: fleet.sql(
        "select 1 from action_window where number > %s", (number + 1,))
        and not fleet.sql("select 1 from action_window where number = %s",
                          (number + 1,)), "a younger window to go")


@contextlib.contextmanager
def held(double):
    """The provider takes requests and answers none."""
    double.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        double.process.send_signal(signal.SIGCONT)


def test_ing_09_key_outlives_work_that_is_older_than_its_lifetime(
        forgetting, double, tenant):
    """Told to come back later than keys live; the sweeper runs, and the same
    key arrives again while the second call is under way."""
    double.script(f"/{tenant}-long", {
        "status": 429, "headers": [["Retry-After", "2"]]}, {})
    api = Api(forgetting.url(), new_key(forgetting, tenant)[1])
    first = api.post(request(tenant, "long"))
    assert first.status_code == 202
    action_id = first.json()["id"]
    wait_for(lambda: forgetting.sql(
        "select 1 from waiting where id = %s", (action_id,)), "it to wait")
    with held(double):
        wait_for(lambda: forgetting.sql(
            "select 1 from live where id = %s and owner is not null",
            (action_id,)), "its second call")
        number = window_of(forgetting, action_id)
        newer_window_goes(forgetting, tenant, number)
        assert window_of(forgetting, action_id) == number
        again = api.post(request(tenant, "long"))
        assert (again.status_code, again.json()["id"]) == (200, action_id)
        forgetting.publish(request(tenant, "long"))
        wait_for(lambda: flow.is_consumed(forgetting), "the repeat is read")
    api.close()
    ended_at = wait_for(lambda: forgetting.sql(
        "select finished_at from outcome where id = %s", (action_id,)),
        "its outcome")[0][0]
    wait_for(lambda: window_of(forgetting, action_id) is None,
             "its window to go")
    lived = forgetting.sql("select fleet_now() - %s", (ended_at,))[0][0]
    assert lived.total_seconds() >= 1, "counts from the end, not the arrival"
    found = forgetting.wait_for_outcomes(2, tenant)
    assert [out["status"] for out in found
            if out["idempotency_key"] == "long"] == ["succeeded"]
    assert double.effect(f"/{tenant}-long")["calls"] == 2


def test_runtime_role_may_not_touch_windows_itself(turning):
    with psycopg.connect(
            turning.cluster.conninfo("runtime", turning.space),
            options="-c search_path=actionist", autocommit=True) as db:
        for query in ("drop table action_w1", "delete from action_window",
                      "insert into action_window (number) values (99)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(query)
        # Live, waiting and published are checked by the function itself.
        assert db.execute("select drop_window(99, 0, '0 s')").fetchone() == (
            False,)
        newest = db.execute(
            "select max(number) from action_window").fetchone()[0]
        assert db.execute("select drop_window(%s, 1000000, '0 s')",
                          (newest,)).fetchone() == (False,)


def test_scheduler_counts_windows(turning, tenant):
    turning.publish(request(tenant, uuid.uuid4().hex))
    text = httpx.get(turning.url("scheduler-0") + "/metrics", timeout=30).text
    assert "actionist_windows_opened_total" in text
    assert "actionist_windows_dropped_total" in text
