# SPDX-License-Identifier: Apache-2.0
"""OUT-14: very long answers in the ledger and the outbox."""

import pytest

from lib import invariants
from lib.load import Load, make_house

MIB = 1 << 20
RECORD_MAX = 2 * MIB


@pytest.fixture(scope="module")
def house(fleets, double):
    return make_house(fleets, double, producers=0)


@pytest.mark.case("OUT-14")
def test_out_14_long_body_is_cut_between_characters(house, double, tenant):
    load = Load(house, double, [tenant])
    load.script({"body": "é" * MIB}, effects=["natural"])
    (request,) = load.publish(1, ["natural"])
    out = invariants.check(load)[request["idempotency_key"]]
    assert (out["status"], out["attempts"]) == ("succeeded", 1)
    assert out["result_truncated"] is True
    assert out["result_bytes"] == 2 * MIB
    assert 0 < len(out["result"].encode()) <= MIB
    assert set(out["result"]) == {"é"}
    assert load.calls(request) == 1
    (record,) = [record for record in house.kafka.read_all()
                 if record.key == tenant.encode()]
    assert len(record.value) < RECORD_MAX


@pytest.mark.case("OUT-14")
def test_out_14_long_header_within_the_limit(house, double, tenant):
    load = Load(house, double, [tenant])
    load.script({"headers": [["X-Long", "a" * (60 << 10)]]})
    load.publish(3)
    invariants.check(load)


@pytest.mark.case("OUT-14")
def test_out_14_too_many_headers(house, double, tenant):
    """What follows such a head is not believed: nobody knows the effect."""
    load = Load(house, double, [tenant])
    fields = "".join(f"X-{number}: {'a' * 60}\r\n" for number in range(2000))
    load.script({"raw": f"HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n"
                        "\r\n{}"})
    (request,) = load.publish(1, ["unsafe"])
    out = invariants.check(load, unknown=True)[request["idempotency_key"]]
    assert out["status"] == "indeterminate"
    assert out["error"]["code"] == "BAD_ANSWER"
    assert load.calls(request) == 1
