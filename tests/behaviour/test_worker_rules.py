# SPDX-License-Identifier: Apache-2.0
"""The rules by which a worker opens a gate, and finds what it forgot."""

import concurrent.futures

import pytest

from lib import invariants, rows
from lib.load import Load, make_house
from lib.wait import stays_true, wait_for

BEGUN = 2


@pytest.fixture(scope="module")
def house(fleets, double):
    return make_house(fleets, double, producers=0)


@pytest.fixture
def load(house, double):
    house.wait_ready(house["worker-0"])
    return Load(house, double)


def boot(house):
    """(boot id, presence key) of the one worker, once it alone lives."""
    def probe():
        found = house.sql(
            "select boot_id, presence_key from worker where state = 1")
        return found[0] if len(found) == 1 else None

    return wait_for(probe, "one living worker", 60)


def boots(house):
    """Every identity that was ever registered."""
    return {one for (one,) in house.sql("select boot_id from worker")}


def losses(house):
    """How often the worker noticed that it had lost a session."""
    return house["worker-0"].text().count('"event":"pg_lost"')


def test_unsafe_call_runs_only_once_it_is_begun(house, load):
    load.script({"never": True})
    load.publish(5, ["unsafe"])
    load.wait_called(5)
    states = house.sql("select state from live where tenant = any (%s)",
                       (load.tenants,))
    assert states == [(BEGUN,)] * 5
    house["worker-0"].restart()
    invariants.check(load, unknown=True)


def test_no_call_starts_while_presence_is_lost(house, double, load):
    """Another session gets the worker's lock before it can take it back. Later
    it gives up, and starts over under another identity."""
    _, key = boot(house)
    known = boots(house)
    lost = losses(house)
    load.script({})
    with (rows.connect(house, autocommit=True) as thief,
          concurrent.futures.ThreadPoolExecutor(1) as pool):
        waiting = pool.submit(thief.execute, "select pg_advisory_lock(%s)",
                              (key,))
        wait_for(lambda: house.sql(
            "select 1 from pg_locks where pid = %s and not granted",
            (thief.info.backend_pid,)), "the lock to be waited for")
        house.sql("select pg_terminate_backend(pid) from pg_locks"
                  " where locktype = 'advisory' and granted"
                  " and (classid::int8 << 32 | objid::int8) = %s", (key,))
        waiting.result(30)
        # The server frees the lock a moment before it closes the session.
        wait_for(lambda: losses(house) > lost, "the worker to notice")
        load.publish(3, ["natural"])
        wait_for(lambda: house.sql(
            "select count(*) from action where tenant = any (%s)",
            (load.tenants,)) == [(3,)], "the claims")
        # On a slow machine the other identity may be there already.
        stays_true(lambda: not double.requests(f"/natural/{load.run}/*")
                   or boots(house) != known, "nothing is called", 2)
        thief.execute("select pg_advisory_unlock(%s)", (key,))
    load.wait_called(3)
    invariants.check(load)


def test_row_of_mine_that_is_in_no_memory_is_found(house, tenant):
    owner, _ = boot(house)
    with rows.connect(house, autocommit=True) as db:
        action = rows.add_live(db, tenant, owner, "natural")
    wait_for(lambda: house.sql("select 1 from outcome where id = %s",
                               (action,)), "its outcome")
    assert house.sql("select state from worker where boot_id = %s",
                     (owner,)) == [(1,)]


def test_a_presence_lock_that_is_refused_is_asked_for_again(house, load):
    """The session stands, but the server does not run the statement."""
    _, key = boot(house)
    load.script({})
    lock = "execute on function pg_try_advisory_lock(bigint)"
    house.sql(f"revoke {lock} from public")
    try:
        house.sql("select pg_terminate_backend(pid) from pg_locks"
                  " where locktype = 'advisory' and granted"
                  " and (classid::int8 << 32 | objid::int8) = %s", (key,))
        house["worker-0"].wait_for_log('"event":"presence_failed"')
    finally:
        house.sql(f"grant {lock} to public")
    load.publish(3, ["natural"])
    load.wait_called(3)
    invariants.check(load)
