# SPDX-License-Identifier: Apache-2.0
"""The conservation audit: a clean fleet passes, each kind of damage is named.

Damage is done by hand in spaces without any program, so that nothing repairs
or races it; the tests of one tenant ask for that tenant alone.
"""

import json
import uuid

import httpx
import pytest

from lib.api import add_connector, echo_action
from lib.rows import add_action, add_live, add_waiting, connect
from lib.wait import wait_for

KINDS = ("missing", "double", "orphaned", "stray", "published_twice",
         "published_unknown", "unpublished", "foreign")


def verify(space, *args):
    """(exit code, report) of one run."""
    done = space.ctl("verify", "--json", *args, check=False)
    assert done.returncode in (0, 4), done.stderr
    return done.returncode, json.loads(done.stdout)


def wrong(report):
    """{kind: ids} of what was found."""
    assert report["ok"] == (report["violations"] == 0)
    found = {kind: report[kind]["ids"] for kind in KINDS
             if report[kind]["count"]}
    assert all(len(ids) == min(report[kind]["count"], 20)
               for kind, ids in found.items())
    return found


class Story:
    """Actions of one tenant, written and published by hand."""

    def __init__(self, space, tenant):
        self.space = space
        self.tenant = tenant
        self.db = connect(space, autocommit=True)
        self.root = space.cluster.conninfo("superuser", space.space)

    def add_outcome(self, action, seq=None):
        """Returns its seq."""
        return self.db.execute(
            "insert into outcome (seq, id, window_no, tenant, status,"
            " attempt_no, calls, body) values (coalesce(%s,"
            " nextval('outcome_seq')), %s, 1, %s, 1, 1, 1, '{}')"
            " returning seq", (seq, action, self.tenant)).fetchone()[0]

    def publish(self, action, seq):
        self.space.kafka.publish_all(
            [(self.tenant, "{}", [("id", str(action)), ("seq", str(seq))])],
            topic="outcomes")

    def set_low(self):
        """The relay says that all that was drawn is published."""
        self.db.execute(
            "insert into relay_checkpoint (shard, low, high, gaps, positions,"
            " system_identifier, timeline) select 0, last_value, last_value,"
            " '{}', '{}', 1, 1 from outcome_seq on conflict (shard) do update"
            " set low = excluded.low, high = excluded.high")

    def finished(self, count=1):
        """Actions with their outcomes, published; (id, seq) each."""
        made = []
        for _ in range(count):
            action = add_action(self.db, self.tenant)
            seq = self.add_outcome(action)
            self.publish(action, seq)
            made.append((action, seq))
        self.set_low()
        return made

    def wreck(self, query, *params):
        """What only hands at the database can do."""
        self.space.sql(query, params)

    def check(self, **expected):
        """Exactly these ids are found, and nothing else."""
        code, report = verify(self.space, "--tenant", self.tenant)
        found = {kind: set(ids) for kind, ids in wrong(report).items()}
        assert found == {kind: {str(one) for one in ids}
                         for kind, ids in expected.items()}
        assert code == (4 if expected else 0)
        return report


@pytest.fixture(scope="module")
def space(fleets):
    return fleets(producers=0, workers=0, schedulers=0)


@pytest.fixture
def story(space, tenant):
    made = Story(space, tenant)
    yield made
    made.db.close()


# -- damage ------------------------------------------------------------------------


def test_whole_story_is_clean(story):
    story.finished(3)
    report = story.check()
    assert (report["actions"], report["outcomes"], report["records"]) == (
        3, 3, 3)


def test_lost_outcome_row(story):
    (gone, _), _ = story.finished(2)
    story.wreck("delete from outcome where id = %s", gone)
    story.check(missing=[gone], published_unknown=[gone])


def test_lost_live_row(story):
    action = add_live(story.db, story.tenant, None, "natural")
    report = story.check()
    assert report["oldest_unfinished"][0]["tenant"] == story.tenant
    assert report["oldest_unfinished"][0]["unfinished"] == 1
    story.wreck("delete from live where id = %s", action)
    story.check(missing=[action])


def test_lost_action_row(story):
    (gone, _), = story.finished()
    live = add_live(story.db, story.tenant, None, "natural")
    story.wreck("delete from action where id in (%s, %s)", gone, live)
    story.check(stray=[gone, live])


def test_second_outcome_row(story):
    (action, _), = story.finished()
    story.publish(action, story.add_outcome(action))
    story.check(double=[action])


def test_outcome_and_live_row_at_once(story):
    action = add_live(story.db, story.tenant, None, "natural")
    story.publish(action, story.add_outcome(action))
    story.check(double=[action])


def test_nobody_takes_care(story):
    alone = add_live(story.db, story.tenant, uuid.uuid4(), "natural")
    old = add_live(story.db, story.tenant, None, "natural")
    story.wreck("update live set since = now() - interval '1 min'"
                " where id = %s", old)
    late, _ = add_waiting(story.db, story.tenant, "now() - interval '2 min'")
    add_waiting(story.db, story.tenant, "now() - interval '10 s'")
    add_waiting(story.db, story.tenant, "now() - interval '2 min'", reason=4)
    story.check(orphaned=[alone, old, late])


def test_foreign_producer_repeats_an_outcome(story):
    (action, seq), _ = story.finished(2)
    story.publish(action, seq)
    story.check(published_twice=[action])


def test_foreign_record(story):
    story.finished()
    message = story.space.kafka.publish("{}", story.tenant, topic="outcomes")
    story.check(foreign=[f"{message.partition()}:{message.offset()}"])


def test_outcome_below_low_is_not_in_the_topic(story):
    action = add_action(story.db, story.tenant)
    seq = story.add_outcome(action)
    story.check()
    story.set_low()
    story.check(unpublished=[action])
    story.publish(action, seq)
    story.check()


def test_database_restored_from_before(story):
    """The last two commits are gone; one number was drawn again since."""
    _, (lost, seq), (forgotten, _) = story.finished(3)
    for table in ("outcome", "action"):
        story.wreck(f"delete from {table} where id in (%s, %s)", lost,
                    forgotten)
    story.add_outcome(add_action(story.db, story.tenant), seq)
    story.check(published_unknown=[lost, forgotten])


def test_more_than_twenty(story):
    ids = [action for action, _ in story.finished(25)]
    story.wreck("delete from outcome where id = any (%s)", ids)
    _, report = verify(story.space, "--tenant", story.tenant)
    assert report["missing"]["count"] == 25
    assert len(report["missing"]["ids"]) == 20
    people = story.space.ctl("verify", "--tenant", story.tenant, check=False)
    assert people.returncode == 4 and "... and 5 more" in people.stdout


def test_late_result_is_told_but_no_violation(story):
    (action, _), = story.finished()
    story.db.execute(
        "insert into ledger (id, tenant, attempt_no, kind, detail)"
        " values (%s, %s, 1, 2, '{}')", (action, story.tenant))
    assert story.check()["late"] == 1


# -- how far ------------------------------------------------------------------------


def test_from_leaves_the_past_alone(story):
    story.finished()
    action = add_action(story.db, story.tenant)
    story.wreck("update action set accepted_at = now() - interval '2 h'"
                " where id = %s", action)
    story.wreck("update action_window set opened_at = now() - interval '3 h'")
    story.check(missing=[action])
    hour_ago = story.space.sql(
        "select to_char((now() - interval '1 h') at time zone 'UTC',"
        " 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")[0][0]
    code, report = verify(
        story.space, "--tenant", story.tenant, "--from", hour_ago)
    assert (code, report["actions"]) == (0, 1)


def test_without_kafka(story):
    action = add_action(story.db, story.tenant)
    story.add_outcome(action)
    story.set_low()
    code, report = verify(
        story.space, "--tenant", story.tenant, "--no-kafka")
    assert (code, report["kafka"], report["records"]) == (0, False, 0)


@pytest.mark.parametrize("args", [
    ("--from", "yesterday"), ("--tenant", "NO"), ("--full", "--tenant", "t"),
    ("extra",)])
def test_usage(space, args):
    assert space.ctl("verify", *args, check=False).returncode == 2


def test_second_run_reads_only_what_is_new(fleets, tenant):
    own = Story(fleets(producers=0, workers=0, schedulers=0), tenant)
    own.finished(5)
    open_one = add_live(own.db, tenant, None, "natural")
    own.wreck("update action set accepted_at = now() - interval '1 h'")
    own.wreck("update outcome set finished_at = now() - interval '1 h'")
    own.wreck("update action_window set opened_at = now() - interval '2 h'")
    code, report = verify(own.space)
    assert (code, report["from_scratch"]) == (0, True)
    assert (report["actions"], report["outcomes"], report["records"]) == (
        6, 5, 5)
    (action, seq), = own.finished()
    code, report = verify(own.space)
    assert (code, report["from_scratch"]) == (0, False)
    # The unfinished one is judged again; one is new.
    assert (report["actions"], report["outcomes"], report["records"]) == (
        2, 1, 1)
    own.publish(action, seq)
    own.wreck("delete from live where id = %s", open_one)
    for _ in range(2):
        code, report = verify(own.space)
        assert wrong(report) == {"missing": [str(open_one)],
                                 "published_twice": [str(action)]}
    code, report = verify(own.space, "--full")
    assert (code, report["records"]) == (4, 7)
    own.db.close()


# -- a fleet ----------------------------------------------------------------------------


def metric(fleet, name):
    text = httpx.get(fleet.url("scheduler-0") + "/metrics", timeout=30).text
    return [float(line.split()[1]) for line in text.splitlines()
            if line.startswith(name + " ")][0]


def test_fleet_is_clean_and_the_scheduler_finds_damage(
        fleets, double, tenant):
    own = fleets(producers=0, settings={
        "worker": {"egress.private_allow": double.address},
        "scheduler": {"scheduler.audit_s": 1}})
    add_connector(own, "echo", {"post": echo_action()}, base_url=double.url,
                  egress=[double.address])
    for number in range(20):
        own.publish({"spec": "actionist/1", "tenant": tenant,
                     "connector": "echo", "action": "post",
                     "idempotency_key": f"k-{number}", "payload": {}})
    own.wait_for_outcomes(20, tenant)
    code, report = verify(own)
    assert code == 0 and report["outcomes"] == 20, report
    wait_for(lambda: metric(own, "actionist_audit_passes_total") >= 2,
             "two passes of the audit")
    assert metric(own, "actionist_unaccounted") == 0
    assert metric(own, "actionist_duplicates") == 0
    record = own.kafka.read_all()[0]
    own.kafka.publish_all([(record.key, record.value, record.headers)],
                          topic="outcomes")
    wait_for(lambda: metric(own, "actionist_duplicates") == 1,
             "the audit to find the copy")
    own["scheduler-0"].wait_for_log("audit_found")
    assert own["scheduler-0"].terminate() == 0
