# SPDX-License-Identifier: Apache-2.0
"""Many requests published at once and awaited at once, told apart by their
idempotency keys."""

import json

from .wait import wait_for


def action(effect="natural", path="/{{action.tenant}}/{{action.key}}", **more):
    """An action whose path names the request, so that each has a script."""
    made = {"idempotency": effect, "timeout_ms": 60000,
            "request": {"method": "POST", "path": path,
                        "json": "{{payload}}"}, **more}
    if effect == "keyed":
        made.setdefault("key", {"header": "Idempotency-Key"})
    return made


def request(tenant, connector, name, key, **more):
    return {"spec": "actionist/1", "tenant": tenant, "connector": connector,
            "action": name, "idempotency_key": key, "payload": {"key": key},
            **more}


def publish(house, requests, spread=False):
    """Produces all, as their tenant's key says, or over all partitions."""
    parts = house.partitions if spread else 1
    for number in range(parts):
        house.kafka.publish_all(
            [(one["tenant"], json.dumps(one), None)
             for one in requests[number::parts]],
            partition=number if spread else None)


def wait_ended(house, tenant, count, deadline=60):
    """{idempotency key: outcome} of a tenant with `count` requests; each has
    exactly one."""
    wait_for(lambda: ended(house, tenant) >= count,
             f"{count} outcomes of {tenant} in the database", deadline,
             every=0.1)
    records = house.kafka.wait_for_records(
        count, deadline=deadline,
        where=lambda record: record.key == tenant.encode())
    found = {}
    for record in records:
        out = record.json()
        key = out["idempotency_key"]
        assert key not in found, f"two outcomes of {key}"
        found[key] = {**out, "raw": record.value}
    assert len(found) == count
    return found


def ended(house, tenant):
    return house.sql("select count(*) from outcome where tenant = %s",
                     (tenant,))[0][0]


def requests_by_path(double, prefix):
    """{path: [request, ...]} in order of arrival."""
    found = {}
    for one in double.requests(f"{prefix}*"):
        found.setdefault(one["path"], []).append(one)
    return found


def ends(house):
    """{partition: next offset} of the actions topic."""
    found = {number: 0 for number in range(house.partitions)}
    for record in house.kafka.read_all("actions", committed=False):
        found[record.partition] = max(found[record.partition],
                                      record.offset + 1)
    return found


def is_consumed(house):
    """Whether the workers have committed all of the actions topic."""
    committed = house.kafka.committed_offsets(f"{house.space}.worker")
    return all(committed[number] >= end
               for number, end in ends(house).items() if end > 0)
