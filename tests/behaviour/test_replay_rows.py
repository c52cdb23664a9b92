# SPDX-License-Identifier: Apache-2.0
"""The guards of the engine of replays, statement by statement: of a line one
action is under way, and each step is done once. Nothing else runs."""

import uuid

import pytest

from lib import rows, statements

RUNNING, CANCELLED = 2, 5
SUCCEEDED, EXHAUSTED = 1, 3


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


@pytest.fixture
def db(fleet):
    with rows.connect(fleet, autocommit=True) as made:
        yield made


class Scene:
    """One tenant's ended action, and replays of it."""

    def __init__(self, db, run, tenant):
        self.db = db
        self.run = run
        self.tenant = tenant
        self.root = rows.add_action(db, tenant)
        self.window = db.execute(
            "select max(number) from action_window").fetchone()[0]
        self.end(self.root, EXHAUSTED)

    def end(self, action, status, **more):
        names = "".join(f", {name}" for name in more)
        return self.db.execute(
            "insert into outcome (id, window_no, tenant, status, attempt_no,"
            f" calls, body{names}) values (%s, %s, %s, %s, 1, 1, '{{}}'"
            f"{', %s' * len(more)}) returning seq",
            (action, self.window, self.tenant, status,
             *more.values())).fetchone()[0]

    def replay(self, phase=RUNNING):
        return self.db.execute(
            "insert into replay (id, tenant, kind, phase, id_count, from_seq,"
            " to_seq, is_dry_run, is_held, has_new_key, is_forced, actor,"
            " position, tallied_seq) values (gen_random_uuid(), %s, 1, %s, 0,"
            " 0, 1, false, false, false, false, 'test', 7, 0) returning id",
            (self.tenant, phase)).fetchone()[0]

    def open(self, replay, action):
        return self.run("replay_open", replay, [self.root], [action])

    def publish(self, replay, action, is_forced=False):
        return self.run("replay_publish", replay, is_forced, [action],
                        [self.root], [self.window], [self.root], [self.root],
                        [b"\2" * 32], [2], [False], [None])


@pytest.fixture
def scene(db, run, tenant):
    return Scene(db, run, tenant)


def test_of_a_line_one_action_is_under_way(scene):
    first, second = uuid.uuid4(), uuid.uuid4()
    one, two = scene.replay(), scene.replay()
    assert scene.open(one, first) == [(scene.root,)]
    assert scene.open(two, second) == []
    assert scene.publish(two, second) == []
    assert scene.publish(one, first) == [(first,)]
    # Said again after a commit whose answer was lost.
    assert scene.open(one, first) == []
    assert scene.publish(one, first) == []


def test_what_succeeded_meanwhile_does_not_run(scene):
    one, two = scene.replay(), scene.replay()
    first, second = uuid.uuid4(), uuid.uuid4()
    scene.end(first, SUCCEEDED, replay_id=one, root_id=scene.root)
    assert scene.open(two, second) == [(scene.root,)]
    assert scene.publish(two, second) == []
    assert scene.publish(two, second, is_forced=True) == [(second,)]


def test_a_replay_runs_a_line_once(scene):
    one = scene.replay()
    first = uuid.uuid4()
    scene.end(first, EXHAUSTED, replay_id=one, root_id=scene.root)
    assert scene.open(one, first) == [(scene.root,)]
    assert scene.publish(one, first, is_forced=True) == []


def test_a_step_begins_where_it_was_read(scene, db):
    one = scene.replay()
    assert scene.run("replay_grab", one, 7, RUNNING) == [(one,)]
    assert scene.run("replay_grab", one, 6, RUNNING) == []
    assert scene.run("replay_grab", one, 7, CANCELLED) == []
    db.execute("update replay set is_paused = true where id = %s", (one,))
    assert scene.run("replay_grab", one, 7, RUNNING) == []


def test_ends_are_counted_once_and_free_the_line(scene, db):
    one = scene.replay()
    first = uuid.uuid4()
    scene.open(one, first)
    seq = scene.end(first, SUCCEEDED, replay_id=one, root_id=scene.root)
    assert scene.run("replay_tally", one, 0, seq - 1, 10) == []
    assert scene.run("replay_tally", one, 0, seq, 10) == [(SUCCEEDED, 1, seq)]
    assert scene.run("replay_tallied", one, 0, seq, [1] + [0] * 7) == [(one,)]
    assert scene.run("replay_tally", one, 0, seq, 10) == []
    assert scene.run("replay_tallied", one, 0, seq, [2] + [0] * 7) == []
    assert db.execute("select count(*) from replay_open where root_id = %s",
                      (scene.root,)).fetchone() == (0,)
