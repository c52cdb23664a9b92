# SPDX-License-Identifier: Apache-2.0
"""The guards of the statements: each is run on rows that it may touch and on
rows that it must leave alone. Nothing else runs: no worker, no scheduler."""

import datetime
import uuid

import psycopg
import pytest

from lib import rows, statements
from lib.wait import wait_for

READY, BEGUN = 1, 2
SUCCEEDED = 1
UNSAFE = 3
DEAD = 3
PAST = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
FUTURE = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.fixture(scope="module")
def fleet(fleets):
    """Topics and tables alone."""
    return fleets(producers=0, workers=0, schedulers=0)


@pytest.fixture(scope="module")
def sql(work_dir):
    return statements.read(work_dir)


@pytest.fixture
def run(fleet, sql):
    made = statements.Statements(
        sql, fleet.cluster.conninfo("runtime", fleet.space))
    yield made.run
    made.close()


@pytest.fixture(autouse=True)
def clean(fleet):
    """Nothing in flight that another test left."""
    fleet.sql("delete from live")
    fleet.sql("delete from waiting")


@pytest.fixture
def db(fleet):
    with rows.connect(fleet, autocommit=True) as made:
        yield made


@pytest.fixture
def worker(fleet):
    """A living worker's presence and lease."""
    made = rows.FakeWorker(fleet, lease="1 hour")
    yield made
    made.leave()


@pytest.fixture
def other(fleet):
    made = rows.FakeWorker(fleet, lease="1 hour")
    yield made
    made.leave()


def live(fleet, action):
    """(attempt_no, state, owner), or None."""
    found = fleet.sql("select attempt_no, state, owner from live"
                      " where id = %s", (action,))
    return found[0] if found else None


def outcomes(fleet, action):
    """[(status, attempt_no)]"""
    return fleet.sql("select status, attempt_no from outcome where id = %s",
                     (action,))


def settle(run, action, attempt_no, owner):
    return run("settle", [action], [attempt_no], [SUCCEEDED], [1], [None],
               [b"{}"], owner)


def postpone(run, action, attempt_no, owner):
    return run("postpone", [action], [attempt_no], [1], [None], [1000], [1],
               [False], [None], [b"{}"], [b"{}"], owner, ["HTTP_STATUS"], [None])


def mark_dead(fleet, worker):
    fleet.sql("update worker set state = %s where boot_id = %s",
              (DEAD, worker.boot_id))


# -- what a worker writes is fenced ----------------------------------------------


@pytest.mark.parametrize("write", [settle, postpone])
def test_result_is_written_by_the_owner_and_fence_alone(
        fleet, db, run, tenant, worker, other, write):
    action = rows.add_live(db, tenant, worker.boot_id, "keyed", "begun",
                           attempt_no=2)
    assert write(run, action, 1, worker.boot_id) == []
    assert write(run, action, 3, worker.boot_id) == []
    assert write(run, action, 2, other.boot_id) == []
    assert live(fleet, action) == (2, BEGUN, worker.boot_id)
    assert write(run, action, 2, worker.boot_id) == [(action,)]
    assert live(fleet, action) is None
    assert write(run, action, 2, worker.boot_id) == []
    assert len(outcomes(fleet, action)) == (1 if write is settle else 0)


def test_cancelled_row_does_not_wait(fleet, db, run, tenant, worker):
    action = rows.add_live(db, tenant, worker.boot_id, "keyed",
                           is_cancelled=True)
    assert postpone(run, action, 1, worker.boot_id) == []
    assert live(fleet, action) == (1, READY, worker.boot_id)


def test_late_result_is_a_note_and_no_outcome(fleet, db, run, tenant):
    action = rows.add_live(db, tenant, None, "unsafe")
    run("note_late", [action], [tenant], [1], [b"{}"], [None], uuid.uuid4())
    assert outcomes(fleet, action) == []
    assert live(fleet, action) == (1, READY, None)
    assert fleet.sql("select kind from ledger where id = %s",
                     (action,)) == [(2,)]


def test_begun_is_never_handed_back(fleet, db, run, tenant, worker, other):
    ready = rows.add_live(db, tenant, worker.boot_id, "unsafe")
    begun = rows.add_live(db, tenant, worker.boot_id, "unsafe", "begun")
    ids = sorted([ready, begun])
    run("hand_back", ids, [1, 1], other.boot_id)
    run("hand_back", ids, [2, 2], worker.boot_id)
    assert live(fleet, ready) == (1, READY, worker.boot_id)
    run("hand_back", ids, [1, 1], worker.boot_id)
    assert live(fleet, ready) == (2, READY, None)
    assert live(fleet, begun) == (1, BEGUN, worker.boot_id)


# -- what a worker may begin and take -----------------------------------------------


def test_begun_needs_fence_owner_and_a_ready_row(
        fleet, db, run, tenant, worker, other):
    action = rows.add_live(db, tenant, worker.boot_id, "unsafe", attempt_no=2)
    cancelled = rows.add_live(db, tenant, worker.boot_id, "unsafe",
                              is_cancelled=True)
    assert run("begin", [action], [1], worker.boot_id) == []
    assert run("begin", [action], [2], other.boot_id) == []
    assert run("begin", [cancelled], [1], worker.boot_id) == []
    assert live(fleet, action) == (2, READY, worker.boot_id)
    assert run("begin", [action], [2], worker.boot_id) == [(action,)]
    assert live(fleet, action) == (2, BEGUN, worker.boot_id)
    assert run("begin", [action], [2], worker.boot_id) == []


def test_begun_needs_a_living_worker_and_its_lease(
        fleet, db, run, tenant, worker, other):
    late = rows.add_live(db, tenant, worker.boot_id, "unsafe")
    dead = rows.add_live(db, tenant, other.boot_id, "unsafe")
    fleet.sql("update worker set lease_until = fleet_now() where boot_id = %s",
              (worker.boot_id,))
    mark_dead(fleet, other)
    assert run("begin", [late], [1], worker.boot_id) == []
    assert run("begin", [dead], [1], other.boot_id) == []
    assert live(fleet, late) == (1, READY, worker.boot_id)


def test_only_what_is_nobodys_is_taken(fleet, db, run, tenant, worker, other):
    mine = rows.add_live(db, tenant, other.boot_id, "keyed")
    free = rows.add_live(db, tenant, None, "keyed", attempt_no=2,
                         since="2020-01-01T00:00:00Z")
    assert run("take", [mine], [1], worker.boot_id) == []
    assert run("take", [free], [1], worker.boot_id) == []
    assert [row[0] for row in run("take", [free], [2], worker.boot_id)] == [
        free]
    assert run("collect", worker.boot_id, 1000) == []
    assert live(fleet, mine)[2] == other.boot_id


@pytest.mark.parametrize("name", ["take", "collect"])
def test_the_dead_take_nothing(fleet, db, run, tenant, worker, name):
    free = rows.add_live(db, tenant, None, "keyed",
                         since="2020-01-01T00:00:00Z")
    mark_dead(fleet, worker)
    params = {"take": ([free], [1], worker.boot_id),
              "collect": (worker.boot_id, 1000)}
    assert run(name, *params[name]) == []
    assert live(fleet, free)[2] is None


# -- claims and windows ----------------------------------------------------------------


def claim(run, tenant, action, worker):
    return run("claim", [action], [tenant], ["c"], ["a"], [b"\1" * 33], [None],
               ["actions:0:0"], [None], [b"{}"], [UNSAFE], [None],
               worker.boot_id)


def test_claim_is_made_once_and_by_the_living(
        fleet, run, tenant, worker, other):
    action = uuid.uuid4()
    mark_dead(fleet, other)
    assert claim(run, tenant, action, other) == []
    assert claim(run, tenant, action, worker) == [(action,)]
    assert live(fleet, action) == (1, READY, worker.boot_id)
    assert claim(run, tenant, action, worker) == []
    assert run("conflicts", [action]) == [
        (action, b"\1" * 33, worker.boot_id)]
    settle(run, action, 1, worker.boot_id)
    assert claim(run, tenant, action, worker) == []


def test_older_windows_count_and_are_not_rotated_amid_a_claim(
        fleet, sql, run, tenant, worker):
    action = uuid.uuid4()
    assert claim(run, tenant, action, worker) == [(action,)]
    settle(run, action, 1, worker.boot_id)
    with rows.connect(fleet) as claiming:
        claiming.execute(sql["claim_lock"])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run("window_rotate", 0)
    assert run("window_rotate", 0)[0][0] is not None
    assert claim(run, tenant, action, worker) == []
    assert len(outcomes(fleet, action)) == 1


# -- what is due ---------------------------------------------------------------------------


def test_due_rows_come_when_due_under_a_higher_fence(fleet, db, run, tenant):
    due, _ = rows.add_waiting(db, tenant, "fleet_now()", attempt_no=3)
    early, _ = rows.add_waiting(db, tenant, "fleet_now() + interval '5 s'")
    late, _ = rows.add_waiting(db, tenant, "fleet_now()",
                               deadline="2020-01-01T00:00:00Z")
    assert run("due_take", 1000, FUTURE) == [(due, tenant, 4)]
    assert live(fleet, due) == (4, READY, None)
    assert live(fleet, early) is None
    assert [row[0] for row in run("due_expired", 1000)] == [late]


def test_cursor_lets_one_scheduler_fire_a_tick(fleet, run, tenant):
    schedule, action = uuid.uuid4(), uuid.uuid4()
    at, then = (datetime.datetime(2026, 1, day, tzinfo=datetime.timezone.utc)
                for day in (1, 2))

    def fire(cursor=at):
        return run("fire", schedule, cursor, then, 0, [at], [action], [b"{}"])

    fleet.sql("insert into schedule (id, tenant, name, document, next_at,"
              " created_at) values (%s, %s, 's', '{}', %s, %s)",
              (schedule, tenant, at, at))
    assert fire(then) == []
    assert fire() == [(schedule, at, tenant, b"{}")]
    assert fire() == [], "a second scheduler fires it too"
    assert fleet.sql("select next_at, fired_count from schedule where id = %s",
                     (schedule,)) == [(then, 1)]
    fleet.sql("update schedule set state = 2 where id = %s", (schedule,))
    assert fire(then) == [], "a paused one fires"
    assert run("fired", [schedule], [at]) == 1


def test_nothing_is_taken_by_a_time_that_the_clock_only_jumped_to(
        fleet, db, run, tenant):
    due, at = rows.add_waiting(db, tenant, "fleet_now()")

    def known(seconds):
        return datetime.datetime.fromtimestamp(
            at + seconds, datetime.timezone.utc)

    assert run("due_take", 100, known(-0.001)) == []
    assert run("due_take", 100, known(0.001)) == [(due, tenant, 2)]


def test_waits_are_moved_once_and_only_those_of_before(
        fleet, db, run, tenant):
    def wait(since, **columns):
        action, _ = rows.add_waiting(
            db, tenant, "'2100-01-01 00:00Z'", **columns)
        db.execute("update waiting set since = %s where id = %s",
                   (FUTURE + hours(since), action))
        return action

    def hours(count):
        return datetime.timedelta(hours=count)

    def seen():
        return {action: ((due - FUTURE) / hours(1), (since - FUTURE) / hours(1))
                for action, due, since in fleet.sql(
                    "select id, due, since from waiting where tenant = %s",
                    (tenant,))}

    old, new, future = wait(-2), wait(-1), wait(1)
    named = wait(-2, reason=7)
    moved = fleet.sql("select moved_us from fleet_clock")[0][0]
    hour_us = 3600 * 10**6
    for expected in ((True, 2), (False, 0)):
        assert run("clock_move", moved, hour_us, FUTURE + hours(-2),
                   FUTURE) == [expected]
        assert seen() == {old: (1, -1), new: (0, -1), future: (1, 2),
                          named: (0, -2)}
    assert fleet.sql("select moved_us from fleet_clock") == [
        (moved + hour_us,)]
    # What lies ahead of the database's clock itself is of before a step back.
    assert run("clock_move", moved + hour_us, -hour_us, PAST, PAST) == [
        (True, 3)]
    assert run("clock_move", moved, hour_us, PAST, FUTURE + hours(9)) == [
        (True, 0)]


def test_what_is_paused_goes_on_in_order_once_its_pause_is_gone(
        fleet, db, run, tenant):
    def pause():
        return fleet.sql("insert into pause (tenant, connector, reason, actor)"
                         " values (%s, %s, 'why', 'me') returning number",
                         (tenant, f"c{uuid.uuid4().hex[:8]}"))[0][0]

    def wait(number, age, **columns):
        return rows.add_waiting(
            db, tenant, f"fleet_now() - interval '{age} s'", reason=5,
            pause_no=number, **columns)[0]

    gone, stays = pause(), pause()
    kept = wait(stays, 9)
    ids = [wait(gone, age, attempt_no=2) for age in (1, 5, 3)]
    late = wait(stays, 1, deadline="2020-01-01T00:00:00Z")
    assert run("held_take", 100) == []
    fleet.sql("delete from pause where number = %s", (gone,))
    assert run("due_take", 100, FUTURE) == []
    assert run("held_take", 2) == [(ids[1], tenant, 3), (ids[2], tenant, 3)]
    assert run("held_take", 100) == [(ids[0], tenant, 3)]
    assert live(fleet, ids[0]) == (3, READY, None)
    assert live(fleet, kept) is None
    assert [row[0] for row in run("held_expired", 100)] == [late]


# -- the dead -------------------------------------------------------------------------------


def test_worker_is_dead_only_by_a_free_lock_or_a_lapsed_lease(
        fleet, run, worker, other):
    assert run("mark_dead", worker.boot_id, True) == []
    assert run("mark_dead", worker.boot_id, False) == []
    fleet.sql("update worker set lease_until = '2020-01-01'"
              " where boot_id = %s", (worker.boot_id,))
    assert run("mark_dead", worker.boot_id, False) == []
    assert run("mark_dead", worker.boot_id, True) == [(worker.boot_id,)]
    assert run("mark_dead", worker.boot_id, True) == []
    assert run("presence_renew", worker.boot_id) == []
    other.db.execute("select pg_advisory_unlock_all()")
    assert run("mark_dead", other.boot_id, True) == []
    assert run("mark_dead", other.boot_id, False) == [(other.boot_id,)]


def test_orphans_are_rows_of_the_dead_alone(
        fleet, db, run, tenant, worker, other):
    old = "2020-01-01T00:00:00Z"
    mine = rows.add_live(db, tenant, worker.boot_id, "unsafe", "begun",
                         since=old)
    lost = rows.add_live(db, tenant, other.boot_id, "unsafe", since=old)
    mark_dead(fleet, other)
    assert (other.boot_id,) in run("orphans")
    assert (worker.boot_id,) not in run("orphans")
    assert run("orphans_of", worker.boot_id, 100) == []
    assert [row[0] for row in run("orphans_of", other.boot_id, 100)] == [lost]
    assert live(fleet, mine) == (1, BEGUN, worker.boot_id)


def run_again(run, action, attempt_no, state, owner):
    return run("run_again", [action], [attempt_no], [state], [1], [True],
               owner, [b"{}"])


def test_sweep_moves_only_what_is_as_it_was_read(
        fleet, db, run, tenant, worker, other):
    alive = rows.add_live(db, tenant, worker.boot_id, "unsafe", "begun")
    action = rows.add_live(db, tenant, other.boot_id, "unsafe", attempt_no=2)
    mark_dead(fleet, other)
    assert run_again(run, alive, 1, BEGUN, worker.boot_id) == []
    assert run_again(run, action, 1, READY, other.boot_id) == []
    assert run_again(run, action, 2, BEGUN, other.boot_id) == []
    assert run_again(run, action, 2, READY, worker.boot_id) == []
    assert live(fleet, action) == (2, READY, other.boot_id)
    assert run_again(run, action, 2, READY, other.boot_id) == [
        (action, tenant, 3)]
    assert live(fleet, action) == (3, READY, None)
    assert live(fleet, alive) == (1, BEGUN, worker.boot_id)


def test_sweep_ends_nothing_of_the_living(
        fleet, db, run, tenant, worker, other):
    alive = rows.add_live(db, tenant, worker.boot_id, "unsafe", "begun")
    lost = rows.add_live(db, tenant, other.boot_id, "unsafe", "begun")
    mark_dead(fleet, other)

    def end(action, attempt_no):
        return run("live_end", [action], [attempt_no], [8], [1], [None],
                   [b"{}"])

    assert end(alive, 1) == []
    assert end(lost, 2) == []
    assert end(lost, 1) == [(8,)]
    assert outcomes(fleet, lost) == [(8, 1)]
    assert live(fleet, alive) == (1, BEGUN, worker.boot_id)


# -- the relay -------------------------------------------------------------------------------


def test_bound_lies_above_everybody_who_writes(fleet, run, tenant):
    with rows.connect(fleet) as older, rows.connect(fleet) as newer:
        (first,) = older.execute(
            "select pg_current_xact_id()::text::int8").fetchone()
        (last,) = newer.execute(
            "select pg_current_xact_id()::text::int8").fetchone()
        assert run("relay_xmin")[0][0] <= first
        assert run("relay_bound")[0][0] > last
        newer.commit()
        # The older one still writes: nothing may be taken for past it.
        assert run("relay_xmin")[0][0] <= first
        assert run("relay_bound")[0][0] > last
        older.rollback()
    assert run("relay_xmin")[0][0] > last


def test_rows_are_those_after_high_and_those_asked_for(
        fleet, db, run, tenant):
    with rows.connect(fleet) as slow:
        rows.end_actions(slow, tenant, 1)
        rows.end_actions(db, tenant, 1)
        (high,) = fleet.sql("select last_value from outcome_seq")[0]
        found = [row[0] for row in run("relay_rows", 0, 1000, [], 1 << 20)]
        assert high in found and high - 1 not in found
        slow.commit()
    assert run("relay_rows", high, 1000, [], 1 << 20) == []
    (row,) = run("relay_rows", high, 1000, [high - 1], 1 << 20)
    assert (row[0], row[2]) == (high - 1, tenant)


def test_checkpoint_never_goes_back(fleet, run):
    def save(low, high):
        return run("checkpoint_write", 9, low, high, [], "{}", 1, 1)

    assert save(5, 8) == 1
    assert save(4, 9) == 0
    assert save(6, 7) == 0
    assert save(5, 8) == 1
    assert fleet.sql("select low, high from relay_checkpoint"
                     " where shard = 9") == [(5, 8)]


def test_sequence_neither_caches_nor_cycles(run):
    cache, increment, cycles = run("relay_facts")[0][:3]
    assert (cache, increment, cycles) == (1, 1, False)


# -- how far garbage is kept ---------------------------------------------------------


def test_an_open_snapshot_is_a_lag_although_it_only_reads(fleet, run, tenant):
    """Of sessions of one's own role; others show to pg_read_all_stats."""
    count = 20
    with rows.connect(fleet) as reader, rows.connect(
            fleet, autocommit=True) as writer:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1 from live")
        for _ in range(count):
            rows.add_action(writer, tenant)
        assert run("xmin_lag")[0][0] >= count
        reader.rollback()
        wait_for(lambda: run("xmin_lag")[0][0] < count,
                 "no lag without the reader")


# -- deliveries of webhooks --------------------------------------------------------

EDGES = "select from_at, to_at from webhook_keep where keep_days = 2"
LATER = ("create or replace function fleet_now() returns timestamptz language"
         " sql stable as 'select statement_timestamp() + interval ''{}'''")


def store(run, tenant, at, offset=0):
    return run("deliveries", [at], [0], [offset], [uuid.uuid4()], [tenant],
               ["s"], [None], [None], [0], [None], ["github"], [1], [1],
               [None], [None], ["POST"], [b"[]"], [b"{}"])


@pytest.mark.parametrize("at", ["1970-01-01", "2100-01-01", "now"])
def test_no_clock_can_stop_a_delivery(fleet, run, tenant, at):
    """It is kept at the edge, once."""
    assert store(run, tenant, at) == 1
    assert at == "now" or store(run, tenant, at) == 0
    [(is_inside,)] = fleet.sql(
        "select w.at >= k.from_at and w.at < k.to_at from webhook w"
        " join webhook_keep k using (keep_days) where w.tenant = %s",
        (tenant,))
    assert is_inside


def test_partitions_of_webhooks_come_and_go(fleet, run, tenant):
    fleet.sql("select keep_webhooks(%s, 2)", (tenant,))
    assert store(run, tenant, "now") == 1
    with psycopg.connect(
            fleet.cluster.conninfo("superuser", fleet.space),
            options="-c search_path=actionist") as db:
        def edges():
            return db.execute(EDGES).fetchone()

        def left():
            return db.execute("select count(*) from webhook"
                              " where tenant = %s", (tenant,)).fetchone()[0]

        first = edges()
        assert db.execute("select drop_webhook_partitions()").fetchone() == (
            0,)
        db.execute(LATER.format("1 day"))
        assert db.execute(
            "select ensure_webhook_partitions()").fetchone()[0] > 0
        db.execute("select drop_webhook_partitions()")
        assert left() == 1 and edges()[1] > first[1]
        db.execute(LATER.format("4 days"))
        db.execute("select ensure_webhook_partitions()")
        db.execute("select drop_webhook_partitions()")
        assert left() == 0 and edges()[0] > first[0]
        db.rollback()
