# SPDX-License-Identifier: Apache-2.0
"""Kafka and Postgres restart with work in flight, in order and after a crash.

On a cluster of its own. Nothing of ours is restarted: the programs come back
by themselves."""

import contextlib
import itertools
import os
import pathlib
import subprocess
import time

import pytest

from lib import invariants, rows
from lib.api import Api, add_connector, check_problem, echo_action, new_key
from lib.load import Load, make_house
from lib.sizes import size
from lib.wait import stays_true, wait_for

COUNT = 120
DELAY_MS = 1500
GROWTH_MIB = 64


@pytest.fixture(scope="module")
def house(fleets, clusters, double):
    return make_house(fleets, double, on=clusters(), producers=1, workers=2,
                      schedulers=2)


@pytest.fixture
def load(house, double):
    for program in house.programs.values():
        house.wait_ready(program, 120)
    made = Load(house, double)
    made.script({"delay_ms": DELAY_MS})
    made.publish(COUNT)
    made.wait_called(COUNT // 3)
    return made


@pytest.fixture(autouse=True)
def same_programs(house):
    """No program may end, whatever happens around it."""
    before = {name: one.pid for name, one in house.programs.items()}
    yield
    assert all(one.is_running() for one in house.programs.values())
    assert before == {name: one.pid for name, one in house.programs.items()}


@contextlib.contextmanager
def kafka_away(house, hard):
    house.cluster.stop_kafka(hard)
    try:
        yield
    finally:
        house.cluster.start_kafka()


@contextlib.contextmanager
def postgres_away(house, hard):
    house.cluster.stop_postgres(hard)
    try:
        yield
    finally:
        house.cluster.start_postgres()


def test_kafka_restarts_in_order(house, load):
    """What is claimed runs on meanwhile, so nothing becomes unknown. KFK-08
    is its crash."""
    load.refuse_once()
    with kafka_away(house, hard=False):
        pass
    load.publish(COUNT // 3)
    invariants.check(load, deadline=150)


@pytest.mark.parametrize("hard", [False, True], ids=["in_order", "crash"])
def test_postgres_restarts(house, load, hard):
    """All presence locks are gone at once; still nobody is taken over but who
    gave itself up, as on a machine so slow that a lease ran out."""
    given_up, taken_over = restarts(house), takeovers(house)
    with postgres_away(house, hard):
        pass
    invariants.check_offsets(load)
    load.publish(COUNT // 3)
    invariants.check(load, unknown=True, deadline=150)
    assert takeovers(house) - taken_over <= sum(
        restarts(house).values()) - sum(given_up.values())


def takeovers(house):
    """How many workers the schedulers have declared dead so far."""
    return sum(program.text().count('"event":"takeover"')
               for name, program in house.programs.items()
               if name.startswith("scheduler"))


def restarts(house):
    """{worker: how often it started over}"""
    return {name: house[name].text().count("identity_lost")
            for name in ("worker-0", "worker-1")}


def wait_restarted(house, before):
    wait_for(lambda: all(count > before[name]
                         for name, count in restarts(house).items()),
             "both workers give up what they had")


def test_postgres_is_away_for_longer_than_a_lease(house, load):
    """Nobody could say what became of the calls; still none happens twice."""
    said = restarts(house)
    with postgres_away(house, True):
        load.publish(COUNT // 3)
        wait_restarted(house, said)
    invariants.check(load, unknown=True, deadline=150)


def resident_mib(program):
    for line in pathlib.Path(f"/proc/{program.pid}/status").read_text(
            ).splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"{program.name} has no VmRSS")


@pytest.fixture
def impatient(house):
    """A producer that gives a record up after two seconds."""
    made = house.add("producer", **{"kafka.message.timeout.ms": 2000})
    house.wait_ready(made)
    yield made
    made.end()
    del house.programs[made.name]


@pytest.mark.case("KFK-08")
def test_kfk_08_broker_away(house, impatient, load, tenant):
    """Outcomes wait in Postgres; the doors say 503 and lose nothing, also the
    one whose client has given its records up meanwhile."""
    add_connector(house, "echo", {"post": echo_action()},
                  base_url=load.double.url, egress=[load.double.address])
    secret = new_key(house, tenant)[1]
    doors = {name: Api(house.url(name), secret)
             for name in ("producer-0", impatient.name)}
    body = {"connector": "echo", "action": "post", "payload": {}}
    before = {one.name: resident_mib(one) for one in house.programs.values()}
    wait_for(lambda: count(house, "action", load) == COUNT, "all are claimed")
    for name, api in doors.items():
        wanted = {**body, "idempotency_key": f"before-{name}"}
        assert api.post(wanted).status_code == 202
    refused = []
    with kafka_away(house, True):
        for name, api in doors.items():
            for number in range(size(5, 30)):
                time.sleep(size(0, 1))
                key = f"away-{name}-{number}"
                answer = api.post({**body, "idempotency_key": key})
                check_problem(answer, 503, "UNAVAILABLE")
                assert int(answer.headers["retry-after"]) >= 1
                refused.append(key)
        wait_for(lambda: count(house, "outcome", load) == COUNT,
                 "outcomes in Postgres")
    load.wait_done(60)
    for name in doors:
        house.wait_ready(house[name], 120)
    for key in refused:
        answer = doors["producer-0"].post({**body, "idempotency_key": key})
        assert answer.status_code in (200, 202)
    wanted = {*refused, *(f"before-{name}" for name in doors)}
    wait_for(lambda: wanted <= set(keys_of(house, tenant)), "their outcomes",
             120)
    invariants.check(load, deadline=150)
    after = {one.name: resident_mib(one) for one in house.programs.values()}
    grown = {name: after[name] - before[name] for name in before}
    assert max(grown.values()) < GROWTH_MIB, grown
    keys = keys_of(house, tenant)
    assert len(keys) == len(set(keys))
    for api in doors.values():
        api.close()


def keys_of(house, tenant):
    return [out["idempotency_key"] for out in house.outcomes(tenant)]


def count(house, table, load):
    return house.sql(f"select count(*) from {table} where tenant = any (%s)",
                     (load.tenants,))[0][0]


@pytest.mark.case("PGO-11")
def test_pgo_11_read_only(house, load, tenant):
    """A primary that may not write any more, as after a failover."""
    add_connector(house, "echo", {"post": echo_action()}, version="1.1.0",
                  base_url=load.double.url, egress=[load.double.address])
    api = Api(house.url("producer-0"), new_key(house, tenant)[1])
    body = {"connector": "echo", "action": "post", "payload": {}}
    said = restarts(house)
    read_only(house, "on")
    try:
        load.publish(COUNT // 3)
        answer = wait_for(lambda: refused(
            api.post({**body, "idempotency_key": "read-only"})), "a 503")
        check_problem(answer, 503, "UNAVAILABLE")
        wait_restarted(house, said)
        claimed = count(house, "action", load)
        assert load.called() <= claimed, "a call without a row before it"
        time.sleep(size(0, 30))
        assert load.called() <= claimed, "a call without a row before it"
    finally:
        read_only(house, "off")
    invariants.check(load, unknown=True, deadline=150)
    house.wait_ready(house["producer-0"], 120)
    answer = wait_for(lambda: accepted(
        api.post({**body, "idempotency_key": "read-only"})), "accepted")
    assert len(house.wait_for_outcomes(1, tenant)) == 1


def refused(answer):
    return answer if answer.status_code == 503 else None


def accepted(answer):
    return answer if answer.status_code in (200, 202) else None


def read_only(house, value):
    """For all sessions, those that are open too."""
    house.sql(f"alter system set default_transaction_read_only = {value}")
    house.sql("select pg_reload_conf()")


HELD = 77
HOLD_BEGUN = f"""
    create function hold_begun() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock_shared({HELD});
        return new;
    end $$;
    create trigger hold_begun before update on live for each row
        when (new.state = 2 and old.state = 1) execute function hold_begun()"""


def wait_for_standby(house, name):
    house.sql(f"alter system set synchronous_standby_names = '{name}'")
    house.sql("select pg_reload_conf()")


def commits(house, name):
    """Sessions of that name that wait for the standby."""
    return house.sql(
        "select pid from pg_stat_activity where wait_event = 'SyncRep'"
        " and application_name like %s", (f"{name}%",))


def test_begun_is_not_believed_before_a_standby_has_it(house, double):
    """The begun commit is visible, its answer was lost, and a fail-over would
    take it back: a call now could start a second time after that."""
    for program in house.programs.values():
        house.wait_ready(program, 120)
    load = Load(house, double)
    load.script({})
    house.sql(HOLD_BEGUN)
    try:
        with rows.connect(house, autocommit=True) as holder:
            holder.execute("select pg_advisory_lock(%s)", (HELD,))
            load.publish(1, ["unsafe"])
            wait_for(lambda: house.sql(
                "select 1 from pg_locks where locktype = 'advisory'"
                " and objid = %s and not granted", (HELD,)), "a begun update")
            wait_for_standby(house, "nobody")
            wait_for(lambda: commits(house, ""), "a lease to wait for it")
        (pid,) = wait_for(lambda: commits(house, "actionist-worker claim"),
                          "the begun commit to wait for it")[0]
        house.sql("select pg_terminate_backend(%s)", (pid,))
        wait_for(lambda: house.sql(
            "select 1 from live where tenant = any (%s) and state = 2",
            (load.tenants,)), "the begun row is seen")
        stays_true(lambda: not load.called(), "nothing is called", 2)
    finally:
        wait_for_standby(house, "")
        house.sql("drop trigger hold_begun on live; drop function hold_begun")
    invariants.check(load, unknown=True)


MOVED = ("live", "waiting", "reservation", "outcome_p0", "action_w1")


@pytest.fixture
def small_disk(house, work_dir):
    """The folder of a file system of 4 MiB that the hot tables lie on."""
    folder = work_dir / f"small-{house.space}"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount a file system")
    data = os.stat(house.cluster.postgres.data)
    os.chown(folder, data.st_uid, data.st_gid)
    house.sql(f"create tablespace small location '{folder}'")
    move(house, "small")
    yield folder
    move(house, "pg_default")
    house.sql("drop tablespace small")
    subprocess.run(["umount", str(folder)], check=True)


def move(house, where):
    for table in MOVED:
        house.sql(f"alter table {table} set tablespace {where}")


@pytest.mark.case("PGO-11")
def test_pgo_11_disk_full(house, small_disk, load, tenant):
    """What cannot be recorded is not called, and goes on once there is room.
    The door takes what still fits into the pages that are there."""
    api = Api(house.url("producer-0"), new_key(house, tenant)[1])
    numbers = itertools.count()

    def post():
        number = next(numbers)
        return api.post({"connector": "load", "action": "natural",
                         "idempotency_key": f"full-{number}",
                         "payload": {"run": load.run, "key": str(number)}})

    filler = small_disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", 0) as file:
        while True:
            file.write(bytes(4096))
    log = house.cluster.postgres.log
    before = log.read_text(errors="replace").count("No space left on device")
    try:
        def is_full():
            load.publish(COUNT)
            text = log.read_text(errors="replace")
            return text.count("No space left on device") > before + 3

        wait_for(is_full, "statements without room", every=0.5)
        check_problem(wait_for(lambda: refused(post()), "a 503", every=0),
                      503, "UNAVAILABLE")
        claimed = count(house, "action", load)
        assert load.called() <= claimed, "a call without a row before it"
    finally:
        filler.unlink()
    wait_for(lambda: accepted(post()), "accepted")
    api.close()
    invariants.check(load, unknown=True, deadline=200)
