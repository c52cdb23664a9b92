# SPDX-License-Identifier: Apache-2.0
"""The plans of the hot statements, in a session as the programs pin it: by
the indexes that are named here, never by all of a table, whatever the tables
held when the plan was made, since it is kept as long as the session."""

import psycopg
import pytest

from lib import statements

# Statement: the indexes it looks up by. "+" marks one that it walks in order,
# from its start to a limit.
HOT = {
    "claim": "action_pkey action_window_pkey worker_pkey",
    "conflicts": "action_pkey live_pkey",
    "take": "action_pkey live_pkey worker_pkey",
    "collect": "action_pkey live_pkey live_untaken worker_pkey",
    "load": "action_pkey live_pkey",
    "begin": "live_pkey worker_pkey",
    "begin_read": "live_pkey",
    "settle": "live_pkey",
    "postpone": "action_pkey ledger_keep_pkey live_pkey",
    "note_late": "action_pkey ledger_keep_pkey",
    "note_repeats": "action_pkey ledger_keep_pkey",
    "deliveries": "webhook_keep_pkey webhook_retention_pkey",
    "settle_read": "ledger_id live_pkey outcome_id waiting_pkey",
    "hand_back": "live_pkey",
    "presence_renew": "worker_pkey",
    "due_take": "waiting_due waiting_pkey",
    "due_next": "+waiting_due",
    "due_expired": "waiting_due",
    "held_take": "pause_pkey waiting_paused +waiting_paused waiting_pkey",
    "held_expired": "waiting_deadline",
    "untaken": "live_untaken",
    "mark_dead": "worker_pkey",
    "orphans_of": "+live_pkey worker_pkey",
    "run_again": "action_pkey ledger_keep_pkey live_pkey worker_pkey",
    "live_facts": "action_pkey live_pkey",
    "waiting_facts": "action_pkey waiting_pkey",
    "waiting_end": "waiting_pkey",
    "schedules_due": "schedule_next",
    "fire": "schedule_next",
    "fired": "schedule_firing_pkey",
    "firings": "outcome_id schedule_firing_since",
    "relay_rows": "action_pkey outcome_pkey",
    "relay_ids": "outcome_pkey",
    "checkpoint_read": "relay_checkpoint_pkey",
    "reserve_read": "action_pkey reservation_pkey",
    "look_finished": "outcome_id",
    "look_actions":
        "action_pkey live_pkey outcome_id reservation_pkey waiting_pkey",
}
# `live` holds what is in flight alone and has no index of owners: these look at
# all of it, seldom. Of workers there are few.
WALKS = {"owned": {"live"}, "orphans": {"live"},
         "pulse_look": {"worker", "pg_database"}}
ROWS = 20000
# Indexes of partitions, and the index of the whole table that each is part of.
PARTS = ("select c.oid::regclass::text, pg_partition_root(c.oid)::text"
         " from pg_class c where c.relkind in ('i', 'I') and c.relispartition")
FILL = (
    "insert into action_window (number) values (2)",
    "create table action_w2 partition of action for values in (2)",
    "insert into action (id, window_no, tenant, connector, action,"
    " fingerprint, manifest, source, request, effect)"
    " select md5(n::text)::uuid, 1 + n % 2, 't', 'c', 'a',"
    " repeat('x', 33)::bytea, repeat('x', 32)::bytea, 'actions:0:0', '{}', 1"
    f" from generate_series(1, 3 * {ROWS}) n",
    "insert into live (id, window_no, tenant, attempt_no, state, effect)"
    " select md5(n::text)::uuid, 1 + n % 2, 't', 1, 1, 1"
    f" from generate_series(1, {ROWS}) n",
    "insert into waiting (id, window_no, tenant, attempt_no, reason, due,"
    " effect) select md5(n::text)::uuid, 1 + n % 2, 't', 1, 1,"
    " now() + n * interval '1 s', 1"
    f" from generate_series({ROWS} + 1, 2 * {ROWS}) n",
    "insert into outcome (id, window_no, tenant, status, attempt_no, calls,"
    " body) select md5(n::text)::uuid, 1 + n % 2, 't', 1, 1, 1, '{}'"
    f" from generate_series(2 * {ROWS} + 1, 3 * {ROWS}) n",
    "insert into schedule (id, tenant, name, document, next_at, created_at)"
    " select md5(n::text)::uuid, 't', n::text, '{}', now(), now()"
    f" from generate_series(1, {ROWS}) n",
    "insert into schedule_firing (schedule_id, tick, action_id, tenant,"
    " request) select md5(n::text)::uuid, now(), md5(n::text)::uuid, 't', '{}'"
    f" from generate_series(1, {ROWS}) n",
    "insert into reservation (id, tenant, fingerprint)"
    " select md5(n::text)::uuid, 't', repeat('x', 33)::bytea"
    f" from generate_series(1, {ROWS}) n",
    "insert into worker (boot_id, name, presence_key, lease_until, state)"
    " select gen_random_uuid(), 'w', n, now(), 1 + n % 3"
    " from generate_series(1, 1000) n",
)


@pytest.fixture(scope="module")
def planner(fleets, work_dir):
    """A session that has prepared all statements, on empty tables."""
    fleet = fleets(producers=0, workers=0, schedulers=0)
    with psycopg.connect(
            fleet.cluster.conninfo("superuser", fleet.space),
            autocommit=True, prepare_threshold=None) as db:
        yield Planner(db, statements.read_typed(work_dir))


class Planner:
    """Asks for the plans of statements that were prepared before."""

    def __init__(self, db, known):
        self.db = db
        self.known = known
        db.execute(known[statements.PINNED][1])
        for name in (*HOT, *WALKS):
            oids, sql = known[name]
            types = [db.execute("select format_type(%s, null)",
                                (int(oid),)).fetchone()[0] for oid in oids]
            db.execute(f"prepare {name} {in_brackets(types)} as {sql}")

    def nodes(self, name):
        """The nodes of a statement's plan."""
        values = ["null"] * len(self.known[name][0])
        return list(below(self.db.execute(
            "explain (format json, costs off)"
            f" execute {name} {in_brackets(values)}").fetchone()[0][0]["Plan"]))

    def check(self, name):
        """Raises AssertionError unless the plan is as it has to be."""
        nodes = self.nodes(name)
        whole = dict(self.db.execute(PARTS).fetchall())
        used = {("" if "Index Cond" in node else "+")
                + whole.get(node["Index Name"], node["Index Name"])
                for node in nodes if "Index Name" in node}
        walked = {node["Relation Name"] for node in nodes
                  if node["Node Type"] == "Seq Scan"}
        assert (used, walked) == (set(HOT[name].split()), set()), (
            f"{name} looks up by {used} and walks {walked}")

    def check_all(self):
        for name in HOT:
            self.check(name)


def in_brackets(words):
    return f"({', '.join(words)})" if words else ""


def below(plan):
    """A plan's node and all below it."""
    yield plan
    for one in plan.get("Plans", []):
        yield from below(one)


# In this order: each adds to what the one before has left.


def test_on_empty_tables(planner):
    planner.check_all()


def test_on_tables_that_were_filled(planner):
    for statement in FILL:
        planner.db.execute(statement)
    planner.check_all()
    planner.db.execute("analyze")
    planner.check_all()


def test_those_that_walk_through_a_table_walk_through_no_other(planner):
    for name, allowed in WALKS.items():
        walked = {node["Relation Name"] for node in planner.nodes(name)
                  if node["Node Type"] == "Seq Scan"}
        assert walked <= allowed, f"{name} walks {walked}"


@pytest.mark.parametrize("index", sorted(
    {index.lstrip("+") for names in HOT.values() for index in names.split()}))
def test_a_lost_index_is_noticed(planner, index):
    """Or else this file would prove nothing."""
    users = [name for name, names in HOT.items() if index in names.split()
             or f"+{index}" in names.split()]
    with planner.db.transaction(force_rollback=True):
        table = planner.db.execute(
            "select indrelid::regclass::text, exists (select from"
            " pg_constraint where conindid = indexrelid) from pg_index"
            " where indexrelid = %s::regclass", (index,)).fetchone()
        planner.db.execute(
            f"alter table {table[0]} drop constraint {index}" if table[1]
            else f"drop index {index}")
        for name in users:
            with pytest.raises(AssertionError, match=name):
                planner.check(name)
