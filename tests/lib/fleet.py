# SPDX-License-Identifier: Apache-2.0
"""A fleet of our programs with topics and a database of its own.

Many fleets share one standing cluster. The names of settings and the way to
see that a program is ready are in this file alone.
"""

import json
import os
import pathlib
import subprocess

import httpx
import psycopg

from .kafka import KafkaView
from .programs import BIN, Program
from .wait import wait_for

# Settings of each kind of program; the cluster's own come by environment.
SETTINGS = {
    "producer": {"http.listen": "127.0.0.1:0"},
    "worker": {"http.listen": "127.0.0.1:0"},
    "scheduler": {"http.listen": "127.0.0.1:0"},
}


LISTENING = "0A"


def listening_ports(pid):
    """Ports on which a process listens, from the kernel."""
    return local_ports(pid, LISTENING)


def local_ports(pid, state=None):
    """Ports of a process's own TCP sockets, of all states or of one."""
    inodes = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:
        return []
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = row.split()
            if state in (None, fields[3]) and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)


class Fleet:
    """Programs by name: producer-0, worker-0, worker-1, scheduler-0 ..."""

    def __init__(self, cluster, space, folder, partitions=4, settings=None):
        self.cluster = cluster
        self.space = space
        self.folder = pathlib.Path(folder)
        self.partitions = partitions
        self.settings = settings or {}
        self.programs = {}
        cluster.create_space(space, partitions)
        self.kafka = KafkaView(cluster.kafka_client(), f"{space}.")
        self.env = {"PATH": os.environ["PATH"], "TZ": "UTC",
                    **cluster.environment(space)}
        self.ctl("migrate")

    # -- programs ------------------------------------------------------------

    def start(self, producers=1, workers=1, schedulers=1):
        """Starts so many of each and waits until all are ready."""
        begun = [self.add(kind) for kind, count in (
            ("scheduler", schedulers), ("worker", workers),
            ("producer", producers)) for _ in range(count)]
        for program in begun:
            self.wait_ready(program)
        return self

    def add(self, kind, **settings):
        """Starts one more program of a kind; does not wait."""
        number = sum(name.startswith(kind) for name in self.programs)
        name = f"{kind}-{number}"
        merged = {**SETTINGS[kind], **self.settings.get(kind, {}), **settings}
        conf = self.folder / f"{name}.conf"
        conf.write_text("".join(f"{key} = {value}\n"
                                for key, value in merged.items()))
        argv = [str(BIN / f"actionist-{kind}"), "--config", str(conf)]
        program = Program(name, argv, self.folder, self.env)
        self.programs[name] = program
        return program.start()

    def __getitem__(self, name):
        return self.programs[name]

    def wait_ready(self, program, deadline=60):
        """Waits until a program says on /readyz that it works."""
        def probe():
            assert program.is_running(), (
                f"{program.name} ended with {program.child.returncode}:\n"
                + "\n".join(program.text().splitlines()[-15:]))
            for port in listening_ports(program.pid):
                try:
                    answer = httpx.get(f"http://127.0.0.1:{port}/readyz",
                                       timeout=5)
                except httpx.HTTPError:
                    continue
                if answer.status_code == 200:
                    return f"http://127.0.0.1:{port}"
            return None

        return wait_for(probe, f"{program.name} ready", deadline)

    def url(self, name="producer-0"):
        """Where a program serves HTTP."""
        return self.wait_ready(self.programs[name])

    def stop(self):
        """Ends every program; the cluster stays."""
        for program in self.programs.values():
            program.end()

    # -- from outside ----------------------------------------------------------

    def ctl(self, *args, check=True, stdin=None, timeout=60):
        """Runs `actionist ...` and returns what it printed and its code."""
        done = subprocess.run([str(BIN / "actionist"), *map(str, args)],
                              env=self.env, cwd=self.folder, input=stdin,
                              capture_output=True, text=True, check=False,
                              timeout=timeout)
        if check:
            assert done.returncode == 0, (
                f"actionist {' '.join(map(str, args))} = {done.returncode}\n"
                f"{done.stdout}{done.stderr}")
        return done

    def sql(self, query, params=None, who="superuser"):
        """Rows of one statement, in a connection of its own."""
        with psycopg.connect(self.cluster.conninfo(who, self.space),
                             options="-c search_path=actionist",
                             autocommit=True) as db:
            cursor = db.execute(query, params)
            return cursor.fetchall() if cursor.description else []

    def publish(self, request, key=None, headers=None):
        """Produces one action request: a dict, or raw bytes with a key."""
        if isinstance(request, dict):
            key = key or request.get("tenant")
            request = json.dumps(request)
        return self.kafka.publish(request, key, headers)

    def outcomes(self, tenant=None):
        """All outcomes that a read_committed reader sees, decoded."""
        found = [record.json() for record in self.kafka.read_all()]
        return [out for out in found if tenant in (None, out["tenant"])]

    def wait_for_outcomes(self, count, tenant=None, deadline=60):
        """Waits until a tenant has at least `count` outcomes."""
        def probe():
            found = self.outcomes(tenant)
            return found if len(found) >= count else None

        return wait_for(probe, f"{count} outcomes of {tenant or 'all'}",
                        deadline, every=0.2)
