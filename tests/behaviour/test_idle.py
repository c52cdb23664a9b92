# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs while nothing is to be done."""

import pathlib
import time

from lib.programs import descendants
from lib.wait import wait_for

LOOK_S = 3
# 24 a second are sent by one of each program; what a session counts is told
# some seconds later, so a look may hold statements of the start.
MOST_STATEMENTS = 33
# One of a hundred is used by all programs together on a quiet machine.
MOST_PERCENT = 5


def statements(fleet):
    """Transactions are statements here: no program sends two in one."""
    return fleet.sql(
        "select (xact_commit + xact_rollback)::int8 from pg_stat_database"
        " where datname = current_database()")[0][0]


def processor_ns(fleet):
    """Of all programs and their children."""
    tasks = [task for program in fleet.programs.values()
             for pid in [program.pid, *descendants(program.pid)]
             for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in tasks)


def look(fleet):
    """Statements a second and percent of a core, over some seconds."""
    began = time.monotonic()
    count, used = statements(fleet), processor_ns(fleet)
    wait_for(lambda: time.monotonic() - began > LOOK_S, "the look's end")
    count, used = statements(fleet) - count, processor_ns(fleet) - used
    spent = time.monotonic() - began
    return {"statements": count / spent, "percent": used / spent / 1e7}


def test_a_fleet_at_rest_costs_next_to_nothing(fleet):
    seen = []

    def is_quiet():
        seen.append(look(fleet))
        return (seen[-1]["statements"] < MOST_STATEMENTS
                and seen[-1]["percent"] < MOST_PERCENT)

    try:
        wait_for(is_quiet, "a fleet at rest", deadline=60)
    except AssertionError as caught:
        raise AssertionError(f"{caught}: {seen}") from caught
