# SPDX-License-Identifier: Apache-2.0
"""The programs' HTTP doors, and how often their rare paths ran in all."""

import http.client
import threading

from lib.fleet import listening_ports

# What must have happened sometimes in a run that is worth its name.
SOMETIMES = {
    "takeover": "actionist_takeovers_total",
    "late result dropped": "actionist_worker_late_total",
    "commit found committed": "actionist_worker_found_committed_total",
    "commit found aborted": "actionist_worker_found_aborted_total",
    "fenced": "actionist_relay_fenced_total",
    "gap waited for": "actionist_relay_gaps_waited_total",
    "gap proven dead": "actionist_relay_gaps_dead_total",
    "read-back skipped a row": "actionist_relay_skipped_total",
}
ASK_S = 2
# Where a process serves HTTP, once it was found: looking for it is slow.
_ports = {}  # pid of a program: port


def _find_ports(program):
    if program.pid in _ports:
        return [_ports[program.pid]]
    return listening_ports(program.pid)


def ask(program, path):
    """(status, body) of one program's door, or None if nobody answers."""
    for port in _find_ports(program):
        connection = http.client.HTTPConnection("127.0.0.1", port,
                                                timeout=ASK_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            _ports[program.pid] = port
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            _ports.pop(program.pid, None)
        finally:
            connection.close()
    return None


def is_ready(program):
    found = ask(program, "/readyz")
    return found is not None and found[0] == 200


def is_leader(program):
    """Whether a scheduler's relay leads."""
    found = ask(program, "/metrics")
    return found is not None and "\nactionist_relay_is_leader 1" in found[1]


def parse(text):
    """{name: sum over labels} of the counters that are looked at."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        if name in SOMETIMES.values():
            found[name] = found.get(name, 0) + float(value)
    return found


class Counters:
    """Sums over processes that come and go. What one counted after the last
    look at it is not known. Any thread may look."""

    def __init__(self):
        self.lock = threading.Lock()
        self.last = {}  # (program's name, pid): what it said last
        self.before = {}  # totals of the run that this one goes on with

    def begin_with(self, totals):
        self.before = totals

    def look(self, program):
        said = ask(program, "/metrics") if program.is_running() else None
        if said is not None and said[0] == 200:
            with self.lock:
                self.last[(program.log, program.pid)] = parse(said[1])

    def totals(self):
        """{what: how often}, for each of SOMETIMES."""
        with self.lock:
            seen = list(self.last.values())
        return {what: self.before.get(what, 0)
                + int(sum(one.get(name, 0) for one in seen))
                for what, name in SOMETIMES.items()}


def judge(totals, is_strict):
    """Prints them; (passed, failed). When strict none may be 0."""
    print("sometimes: " + ", ".join(f"{what} {count}"
                                    for what, count in totals.items()))
    never = [what for what, count in totals.items() if count == 0]
    if is_strict:
        for what in never:
            print(f"FAILED never happened: {what}")
        return len(totals) - len(never), len(never)
    return 0, 0
