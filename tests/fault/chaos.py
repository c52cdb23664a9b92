# SPDX-License-Identifier: Apache-2.0
"""Random faults under load, then healed, drained and judged."""

import contextlib
import json
import os
import pathlib
import random
import signal
import threading
import time

from confluent_kafka import Producer

from counters import is_leader, is_ready
from lib import invariants
from lib.fleet import Fleet, local_ports
from lib.load import Load, manifest
from lib.programs import descendants
from lib.wait import wait_for
from local.cluster import new_space_name

WORKERS = 3
SCHEDULERS = 2
PARTITIONS = 6
TENANTS = 30
TICK_S = 0.1
LOOK_S = 1
HEAL_S = 180
DRAIN_S = 600
PAUSE_S = (1, 4)          # between two faults
LONG_FREEZE_S = (12, 16)  # longer than a lease
TXN_FREEZE_S = (32, 36)   # longer than the relay's transactions may take
SHORT_FREEZE_S = (2, 4)   # longer than it takes to be taken over
HANG_S = 2
FENCE_S = 30


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Chaos:
    """One fleet under load, and what is done to it."""

    def __init__(self, cluster, double, folder, counters, options):
        space = new_space_name()
        (folder / space).mkdir()
        self.cluster = cluster
        self.counters = counters
        self.options = options
        self.random = random.Random(options.seed)
        self.frozen = {}  # pids: when they go on, monotonic
        self.is_over = threading.Event()
        self.started = 0  # monotonic
        self.broken = []
        self.done = {}    # fault: how often
        self.fleet = Fleet(cluster, space, folder / space, PARTITIONS, {
            "worker": {"egress.private_allow": double.address}})
        self.load = Load(self.fleet, double,
                         [f"t-{space}-{n}" for n in range(TENANTS)])

    # -- what goes on beside the faults ------------------------------------------

    def _guarded(self, work):
        try:
            while not self.is_over.is_set():
                work()
        except BaseException as caught:  # told to the main thread
            self.broken.append(caught)

    def _publish(self):
        """Keeps to the rate also after Kafka was away."""
        due = int((time.monotonic() - self.started) * self.options.rate)
        if due > len(self.load.requests):
            self.load.publish(due - len(self.load.requests))
        self.is_over.wait(TICK_S)

    def _look(self):
        for program in list(self.fleet.programs.values()):
            if not any(program.pid in pids for pids in list(self.frozen)):
                self.counters.look(program)
        self.is_over.wait(LOOK_S)

    # -- the faults --------------------------------------------------------------

    def _any(self, kind):
        """One running program of a kind that is not frozen, or None."""
        held = {pid for pids in self.frozen for pid in pids}
        found = [one for name, one in self.fleet.programs.items()
                 if name.startswith(kind) and one.is_running()
                 and one.pid not in held]
        return self.random.choice(found) if found else None

    def _kill(self, kind):
        program = self._any(kind)
        if program:
            program.kill()

    def _kill_below(self, name):
        worker = self._any("worker")
        pids = [pid for pid in descendants(worker.pid)
                if name_of(pid) == name] if worker else []
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(pids), signal.SIGKILL)

    def _freeze(self, kind, seconds, with_children=False):
        """Not all of a kind at once, or nothing would be there to take over.
        Of schedulers the one that leads. Returns the program, or None."""
        if kind in self.frozen.values():
            return None
        program = self._any(kind)
        if kind == "scheduler":
            program = next((one for name, one in self.fleet.programs.items()
                            if name.startswith(kind) and one.is_running()
                            and is_leader(one)), program)
        if program is None:
            return None
        pids = [program.pid]
        if with_children:
            pids += descendants(program.pid)
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        self.frozen[tuple(pids)] = kind
        timer = threading.Timer(self.random.uniform(*seconds), self._thaw,
                                [tuple(pids)])
        timer.daemon = True
        timer.start()
        return program

    def _freeze_unseen(self):
        """A worker that is taken over as if dead, and goes on: its results
        are late."""
        program = self._freeze("worker", SHORT_FREEZE_S)
        if program is not None:
            self.fleet.sql(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like '%%presence%%'"
                " and client_port = any (%s)", (local_ports(program.pid),))

    def _thaw(self, pids):
        for pid in pids:
            _signal(pid, signal.SIGCONT)
        self.frozen.pop(pids, None)

    def _restart_kafka(self):
        self.cluster.stop_kafka(hard=True)
        self.cluster.start_kafka()

    def _restart_postgres(self):
        self.cluster.stop_postgres(hard=True)
        self.cluster.start_postgres()

    def _cut_sessions(self):
        """Statements and commits under way are in doubt."""
        self.fleet.sql("select pg_terminate_backend(pid) from"
                       " pg_stat_activity where datname = current_database()"
                       " and pid <> pg_backend_pid()")

    def _hang_commits(self):
        """Commits are durable but not answered, then their sessions go."""
        self._wait_for_replica("nobody")
        try:
            wait_until(lambda: self.fleet.sql(
                "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
                " and application_name like '%%worker%%'"), HANG_S)
            self._cut_sessions()
        finally:
            self._wait_for_replica("")

    def _fence_relay(self):
        """As another relay would that thinks it leads: both lanes."""
        for lane in "ab":
            Producer({**self.fleet.kafka.settings, "transactional.id":
                      f"{self.fleet.space}.relay.0.{lane}"}
                     ).init_transactions(FENCE_S)

    def _wait_for_replica(self, name):
        self.fleet.sql(
            f"alter system set synchronous_standby_names = '{name}'")
        self.fleet.sql("select pg_reload_conf()")

    def _faults(self):
        """(weight, name, what)"""
        return (
            (4, "kill worker", lambda: self._kill("worker")),
            (2, "kill keeper", lambda: self._kill_below("keeper")),
            (2, "kill runner", lambda: self._kill_below("actionist-runne")),
            (4, "kill scheduler", lambda: self._kill("scheduler")),
            (2, "freeze worker",
             lambda: self._freeze("worker", LONG_FREEZE_S)),
            (1, "freeze worker and children",
             lambda: self._freeze("worker", LONG_FREEZE_S, True)),
            (3, "freeze worker unseen", self._freeze_unseen),
            (2, "freeze leader",
             lambda: self._freeze("scheduler", TXN_FREEZE_S)),
            (1, "restart Kafka", self._restart_kafka),
            (1, "restart Postgres", self._restart_postgres),
            (2, "cut sessions", self._cut_sessions),
            (2, "hang commits", self._hang_commits),
            (2, "fence relay", self._fence_relay),
        )

    def _raise_dead(self):
        for program in self.fleet.programs.values():
            if not program.is_running():
                program.start()

    # -- a run -------------------------------------------------------------------

    def run(self, double):
        """Raises AssertionError if anything was lost, doubled or untrue."""
        self.fleet.ctl("connector", "add", "-",
                       stdin=json.dumps(manifest(double)))
        self.fleet.start(0, WORKERS, SCHEDULERS)
        self.load.refuse_once()
        self.started = time.monotonic()
        threads = [threading.Thread(target=self._guarded, args=(work,))
                   for work in (self._publish, self._look)]
        for thread in threads:
            thread.start()
        try:
            self._harm()
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()
        if self.broken:
            raise self.broken[0]
        self._heal()
        print(f"{len(self.load.requests)} actions, faults: " + ", ".join(
            f"{name} {count}" for name, count in sorted(self.done.items())),
            flush=True)
        invariants.check(self.load, unknown=True, deadline=DRAIN_S)
        for program in self.fleet.programs.values():
            self.counters.look(program)

    def _harm(self):
        faults = self._faults()
        weights = [weight for weight, _, _ in faults]
        end = self.started + self.options.random
        while time.monotonic() < end and not self.broken:
            _, name, harm = self.random.choices(faults, weights)[0]
            harm()
            self.done[name] = self.done.get(name, 0) + 1
            print(f"{time.monotonic() - self.started:6.1f} s {name}",
                  flush=True)
            time.sleep(self.random.uniform(*PAUSE_S))
            self._raise_dead()

    def _heal(self):
        wait_for(lambda: not self.frozen, "all go on", HEAL_S)
        for program in self.fleet.programs.values():
            def probe(one=program):
                self._raise_dead()
                return is_ready(one)
            wait_for(probe, f"{program.name} ready", HEAL_S)

    def close(self):
        for pids in list(self.frozen):
            self._thaw(pids)
        self.fleet.stop()


def wait_until(probe, seconds):
    """Until it holds, or the time is over."""
    end = time.monotonic() + seconds
    while not probe() and time.monotonic() < end:
        pass


def _signal(pid, sig):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


def chaos(cluster, double, folder, counters, options):
    """Runs one; returns (passed, failed)."""
    made = Chaos(cluster, double, folder, counters, options)
    try:
        made.run(double)
        return 1, 0
    except AssertionError as failure:
        print(f"FAILED random faults in {folder}: {str(failure)[:4000]}",
              flush=True)
        return 0, 1
    finally:
        made.close()
