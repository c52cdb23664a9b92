# SPDX-License-Identifier: Apache-2.0
"""One fleet on which one crash after the other is tried."""

import base64
import json
import uuid

import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition

from cases import CONNECTOR, CRASH_PROGRAM, HOOKS, ROLES, check, manifest
from counters import is_ready
from lib.fleet import Fleet
from lib.hooks import github, make_master_key
from lib.programs import ROOT
from lib.wait import wait_for
from local.cluster import new_space_name
from page import Page

LIBRARY = ROOT / "build" / "release" / "lib" / "libactionist-crash.so"
PARTITIONS = 2
READY_S = 60
DONE_S = 90
SECRET = "of-the-senders"
SOURCE = "sender"
AGAIN = "again"  # the topic that outcomes are sent to again


class Lane:
    """A worker and a scheduler, and eyes of our own on what they do."""

    def __init__(self, cluster, double, folder, counters):
        space = new_space_name()
        self.folder = folder / space
        self.folder.mkdir()
        self.double = double
        self.counters = counters
        self.page = None
        self.role = None
        self.outcomes = {}  # tenant: [outcome, ...]; a tenant an action
        self.published = 0
        self.key = f"webhooks.master_key_file={make_master_key(self.folder)}"
        self.replayed = 0
        self.fleet = Fleet(cluster, space, self.folder, PARTITIONS, {
            "producer": dict([self.key.split("=", 1)]),
            "worker": {"egress.private_allow": double.address,
                       "run.idle_s": 1,
                       # One that comes back need not wait for its own death.
                       "kafka.group.instance.id": "crash"}})
        self.fleet.ctl("connector", "add", "-", stdin=manifest(double))
        self.fleet.kafka.create_topic(AGAIN)
        self.fleet.start(0, 1, 1)
        self.db = psycopg.connect(
            cluster.conninfo("superuser", space), autocommit=True,
            options="-c search_path=actionist")
        self.reader = self._consumer("look-" + uuid.uuid4().hex)
        self.reader.assign([TopicPartition(f"{space}.outcomes", n, 0)
                            for n in range(PARTITIONS)])
        self.group = self._consumer(f"{space}.worker")

    def _consumer(self, group):
        return Consumer({
            **self.fleet.kafka.settings, "group.id": group,
            "enable.auto.commit": False, "auto.offset.reset": "error",
            "isolation.level": "read_committed", "fetch.wait.max.ms": 50})

    def close(self):
        self.reader.close()
        self.group.close()
        self.db.close()
        self.fleet.stop()

    # -- programs --------------------------------------------------------------

    @property
    def program(self):
        """The program that is killed."""
        return self.fleet[f"{ROLES[self.role]}-0"]

    def _start(self, at=None):
        """Starts it with a new page; armed at once if told where to die."""
        program = self.program
        if self.page is not None:
            self.page.close()
        self.page = Page(self.folder / f"page-{uuid.uuid4().hex}")
        if at is not None:
            self.page.arm(*at)
        program.env = {
            **self.fleet.env, "LD_PRELOAD": str(LIBRARY),
            "ACTIONIST_CRASH_PROGRAM": CRASH_PROGRAM[self.role],
            "ACTIONIST_CRASH_PAGE": str(self.page.path)}
        program.start()

    def _wait_ready(self, program):
        def probe():
            assert program.is_running(), (
                f"{program.name} ended with {program.child.returncode}:\n"
                + "\n".join(program.text().splitlines()[-15:]))
            return is_ready(program)

        wait_for(probe, f"{program.name} ready", READY_S)

    def _recover(self):
        """Starts what is down; all is ready after."""
        if not self.program.is_running():
            self._start()
        for program in self.fleet.programs.values():
            self._wait_ready(program)

    def _prepare(self, role):
        """The program of the role is up and may be armed."""
        if role != self.role or self.page.reached > 0:
            self.role = role
            if f"{ROLES[role]}-0" not in self.fleet.programs:
                self.fleet.add(ROLES[role])
            if self.program.is_running():
                self.program.kill()
        self._recover()

    # -- one point -------------------------------------------------------------

    def run(self, case, place, number):
        """Publishes one action, lets the program die at the numbered call of
        a place (None: nowhere) and checks what became of it. Returns
        ({place: calls}, place it died at or None)."""
        self._prepare(case.role)
        tenant = f"t-{uuid.uuid4().hex[:16]}"
        if case.ending == "start":
            self.program.kill()
            where = self._publish(case, tenant)
            if case.role == "scheduler":
                wait_for(lambda: self._rows("outcome", tenant), "its end")
            self._start((place, number))
        elif case.is_asked:
            where = self._publish(case, tenant)
            wait_for(lambda: self._is_done(tenant, where), "its end", DONE_S)
            self.page.arm(place, number)
            self._ask(case, tenant)
        else:
            if case.ending == "door":
                self._add_source(case, tenant)
            self.page.arm(place, number)
            where = self._publish(case, tenant)
        wait_for(lambda: self.page.is_dead or self._is_done(tenant, where),
                 "an end or a death", DONE_S)
        died_at = self.page.died_at
        self.page.disarm()
        places = self.page.places()
        if died_at and case.role != "spawn":
            self.program.wait_exit(READY_S)
            self._check_claimed(tenant, where)
        self._recover()
        if case.ending == "door":
            wait_for(lambda: self._deliver(tenant), "its 200", DONE_S)
        wait_for(lambda: self._is_done(tenant, where), "the end", DONE_S)
        self._check(case, tenant, died_at is not None)
        for program in self.fleet.programs.values():
            self.counters.look(program)
        return places, died_at

    def _publish(self, case, tenant):
        """Its (topic, partition, offset); None: a program's to know."""
        self.published += 1
        if case.ending == "door":
            self._deliver(tenant)
            return None
        if case.ending == "hook":
            return self._capture(case, tenant)
        if case.ending == "tick":
            self.db.execute(
                "insert into schedule (id, tenant, name, document, next_at,"
                " created_at) values (gen_random_uuid(), %s, 'tick', %s,"
                " now(), now())", (tenant, json.dumps({
                    "name": "tick", "at": "2026-01-01T00:00:00Z",
                    "request": {"connector": CONNECTOR, "action": case.action,
                                "payload": {"key": tenant}}}).encode()))
            return None
        message = self.fleet.publish({
            "spec": "actionist/1", "tenant": tenant, "connector": CONNECTOR,
            "action": case.action, "idempotency_key": tenant,
            "payload": {"key": tenant}})
        return "actions", message.partition(), message.offset()

    # -- webhooks --------------------------------------------------------------

    @staticmethod
    def _mapping(case):
        return json.dumps({"connector": CONNECTOR, "action": case.action,
                           "payload": {"key": "{{webhook.tenant}}"}})

    def _add_source(self, case, tenant):
        path = self.folder / "mapping.json"
        path.write_text(self._mapping(case))
        self.fleet.ctl("webhook", "source", "add", SOURCE, "--tenant", tenant,
                       "--scheme", "github", "--secret-file", "-", "--map",
                       path, "--answer-ms", "8000", "--set", self.key,
                       stdin=SECRET)

    def _deliver(self, tenant):
        """True if it was taken; a producer that dies gives no answer."""
        body = b"{}"
        try:
            return httpx.post(
                f"{self.fleet.url()}/hooks/{tenant}/{SOURCE}", content=body,
                headers=github(SECRET, body, "d-1"), trust_env=False,
                timeout=30).status_code == 200
        except (httpx.HTTPError, AssertionError):
            return False

    def _capture(self, case, tenant):
        """As the door captures it, from a sender that repeats."""
        self.db.execute(
            "insert into webhook_source (tenant, source, scheme, secret,"
            " max_body_bytes, rate_per_s, answer_ms, mapping)"
            " values (%s, %s, 'github', '\\x00', 1000, 1000, 1000, %s)",
            (tenant, SOURCE, self._mapping(case).encode()))
        document = json.dumps({
            "spec": "actionist/1", "id": str(uuid.uuid4()), "tenant": tenant,
            "source": SOURCE, "sender_id": "d-1",
            "received_at": "2026-12-01T08:00:00.000000Z",
            "verdict": "verified", "reason": None, "scheme": "github",
            "secret_no": 1, "method": "POST", "headers": [],
            "body": base64.b64encode(b"{}").decode()})
        for _ in range(2):
            message = self.fleet.kafka.publish(document, tenant,
                                               topic="webhooks")
        return "webhooks", message.partition(), message.offset()

    # -- what became of it -----------------------------------------------------

    def _ask(self, case, tenant):
        """For a replay of the tenant's one action, or of its outcome."""
        words = ["--outcomes", "--to", f"{self.fleet.space}.{AGAIN}"]
        if case.ending == "replay":
            words = ["--status", "exhausted"]
            self.replayed += 1
        self.fleet.ctl("replay", "--tenant", tenant, "--detach", *words)

    def _rows(self, table, tenant):
        return self.db.execute(
            f"select count(*) from {table} where tenant = %s",
            (tenant,)).fetchone()[0]

    def _is_done(self, tenant, where):
        """It is published, its offset committed, the relay's state saved."""
        self._read()
        found = len(self.outcomes.get(tenant, ()))
        if found == 0 or not self._is_committed(where):
            return False
        return self.db.execute(
            "select not exists (select 1 from live where tenant = %(t)s)"
            " and not exists (select 1 from schedule_firing"
            "  where tenant = %(t)s)"
            " and not exists (select 1 from waiting where tenant = %(t)s)"
            " and not exists (select 1 from replay where tenant = %(t)s"
            "  and not is_settled)"
            " and (select low from relay_checkpoint where shard = 0) >="
            " (select max(seq) from outcome where tenant = %(t)s)"
            " and (select count(*) from outcome where tenant = %(t)s) <="
            " %(found)s",
            {"t": tenant, "found": found}).fetchone()[0]

    def _read(self):
        """What a read_committed reader has seen from offset 0 to here."""
        for message in self.reader.consume(100, 0.05):
            assert message.error() is None, message.error()
            out = json.loads(message.value())
            self.outcomes.setdefault(out["tenant"], []).append(out)

    def _is_committed(self, where):
        if where is None:
            return True
        topic, partition, offset = where
        return self.group.committed(
            [TopicPartition(f"{self.fleet.space}.{topic}", partition)],
            30)[0].offset > offset

    def _check_claimed(self, tenant, where):
        """No offset is committed ahead of its claim."""
        if where is not None and self._is_committed(where):
            assert self._rows("action", tenant), "committed, never claimed"

    def _check(self, case, tenant, has_crashed):
        found = self.outcomes[tenant]
        count = 2 if case.ending == "replay" else 1
        assert len(found) == count, f"{len(found)} outcomes: {found}"
        assert [out["replay_of"] for out in found] == [
            None, found[0]["id"]][:count], found
        path = f"/{case.ending}/{case.effect}/{tenant}"
        check(case, found[-1], self.double.effects(path), has_crashed)
        if case.ending == "resend":
            sent = [record.json() for record in self.fleet.kafka.read_all(AGAIN)
                    if record.key == tenant.encode()]
            assert sent == found, f"sent again: {sent}"
        if case.ending in HOOKS:
            rows = self.db.execute(
                "select count(*), count(distinct id), min(id::text),"
                " max(decision) from webhook where tenant = %s",
                (tenant,)).fetchone()
            assert rows[1:] == (1, found[0]["id"], 2), rows
            assert case.ending == "door" or rows[0] == 2, rows

    # -- the end ---------------------------------------------------------------

    def check_all(self):
        """All of the lane once more, by new eyes from offset 0."""
        found = self.fleet.outcomes()
        first = [out["tenant"] for out in found if out["replay_of"] is None]
        again = {out["replay_of"] for out in found} - {None}
        assert len(first) == len(set(first)) == self.published, (
            f"{self.published} published, {len(first)} outcomes of "
            f"{len(set(first))} actions")
        assert len(found) - len(first) == len(again) == self.replayed, (
            f"{self.replayed} replayed, {len(again)} have outcomes")
        for table in ("live", "waiting"):
            left = self.fleet.sql(f"select id from {table}")
            assert not left, f"left in {table}: {left}"
        said = json.loads(self.fleet.ctl("verify", "--full", "--json").stdout)
        assert said["violations"] == 0, said
