# SPDX-License-Identifier: Apache-2.0
"""What must hold of a load whatever was killed, frozen or restarted.

Everything is looked at from outside: the outcomes topic from offset 0 as a
read_committed reader sees it, the provider's own count of effects, the
committed offsets, and the tables.
"""

import collections
import json

from .wait import wait_for


def check(load, unknown=False, deadline=90):
    """Waits for the end of a load, then checks everything; returns
    {idempotency key: outcome}. With unknown, an unsafe action may have ended
    as indeterminate, since a fault hit it."""
    outcomes = load.wait_done(deadline)
    check_nothing_left(load)
    check_offsets(load)
    wait_for(lambda: is_consumed(load.house), "all offsets committed", 60,
             every=0.2)
    outcomes = load.outcomes()
    assert set(outcomes) == set(load.requests)
    doubled = {key: found for key, found in outcomes.items()
               if len(found) != 1}
    assert not doubled, f"not one outcome each: {doubled}"
    effects = load.effects()
    single = {key: found[0] for key, found in outcomes.items()}
    for key, request in load.requests.items():
        check_one(request, single[key], effects.get(load.path(request), []),
                  unknown, load.refusals)
    check_audit(load.house)
    return single


def check_one(request, out, effects, unknown, refusals):
    """One request against its outcome and its effects at the provider."""
    seen = f"{request} ended as {out}, the provider saw {effects}"
    effect = request["action"]
    allowed = {"succeeded"}
    if effect == "unsafe" and unknown:
        allowed.add("indeterminate")
    assert out["status"] in allowed, seen
    calls = sum(one["calls"] for one in effects)
    applied = sum(one["applied"] for one in effects)
    assert sum(one["mismatches"] for one in effects) == 0, seen
    if effect == "unsafe":
        # What was refused with a Retry-After was not carried out.
        assert applied <= 1 and calls <= 1 + refusals, seen
    if effect == "keyed":
        assert {one["key"] for one in effects} == {out["id"]}, seen
        assert applied == 1, seen
    if out["status"] == "succeeded":
        assert applied >= 1, seen
    else:
        assert out["error"]["class"] == "unknown", seen


def check_nothing_left(load):
    """No row of the load is in flight or waits."""
    for table in ("live", "waiting"):
        wait_for(lambda name=table: not load.house.sql(
            f"select 1 from {name} where tenant = any (%s)",
            (load.tenants,)), f"an empty table {table}")


def check_offsets(load):
    """No offset is committed ahead of its claim. Also in mid flight: what is
    claimed is read after the offsets, so it can only have become more."""
    house = load.house
    committed = house.kafka.committed_offsets(f"{house.space}.worker")
    claimed = {tuple(map(int, source.rsplit(":", 2)[1:]))
               for (source,) in house.sql(
                   "select source from action where tenant = any (%s)",
                   (load.tenants,))}
    for record in house.kafka.read_all("actions"):
        if record.offset >= committed[record.partition]:
            continue
        if record.key.decode() in load.tenants:
            assert (record.partition, record.offset) in claimed, (
                f"{record} is committed but was never claimed")


def is_consumed(house):
    """Whether the group has committed up to the end of each partition."""
    ends = collections.Counter()
    for record in house.kafka.read_all("actions"):
        ends[record.partition] = max(ends[record.partition], record.offset + 1)
    committed = house.kafka.committed_offsets(f"{house.space}.worker")
    return all(committed[number] >= end for number, end in ends.items())


def check_audit(house):
    """The programs' own audit agrees."""
    said = json.loads(house.ctl("verify", "--full", "--json").stdout)
    assert said["violations"] == 0, said
