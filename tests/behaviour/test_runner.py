# SPDX-License-Identifier: Apache-2.0
"""HTTP runners from outside: how they are confined, what their death costs.

The limits themselves are tried out in tests/unit/test_keeper.c; here it is a
real fleet, and what the kernel says of its processes."""

import json
import os
import pathlib
import signal

import pytest

from lib.wait import wait_for

LIMITS = {"run.memory_mb": "96", "run.pids": "32", "run.cpu_percent": "150"}
ACTIONS = {
    "ping": {"idempotency": "natural",
             "request": {"method": "GET", "path": "/ping"}},
    "natural": {"idempotency": "natural",
                "request": {"method": "POST", "path": "/n/{{payload.id}}"}},
    "keyed": {"idempotency": "keyed",
              "key": {"header": "Idempotency-Key", "retention_s": 86400},
              "request": {"method": "POST", "path": "/k/{{payload.id}}"}},
    "unsafe": {"idempotency": "unsafe",
               "request": {"method": "POST", "path": "/u/{{payload.id}}"}},
    "inside": {"idempotency": "natural",
               "request": {"method": "GET", "path": "/never"}},
}


def manifest(name, base_url, address, actions):
    return {"manifest": 1, "name": name, "version": "1.0.0",
            "base_url": base_url, "egress": [address],
            "retry": {"max_attempts": 8, "base_ms": 200, "max_ms": 1000},
            "actions": {action: ACTIONS[action] for action in actions}}


@pytest.fixture(scope="module", name="ready")
def fixture_ready(fleets, double):
    """A fleet that may reach the double, and two connectors."""
    fleet = fleets(settings={"worker": {
        "egress.private_allow": double.address, **LIMITS}})
    inside = f"127.0.0.2:{double.port}"
    for one in (
            manifest("shop", double.url, double.address,
                     ["ping", "natural", "keyed", "unsafe"]),
            manifest("inside", f"http://{inside}", inside, ["inside"])):
        path = fleet.folder / f"{one['name']}.json"
        path.write_text(json.dumps(one))
        fleet.ctl("connector", "add", path, "--allow-unsigned")
    return fleet


def publish(fleet, tenant, action, connector="shop", **payload):
    fleet.publish({"spec": "actionist/1", "tenant": tenant,
                   "connector": connector, "action": action,
                   "idempotency_key": f"{action}-{len(payload)}",
                   "payload": payload})


def outcome(fleet, tenant):
    """The tenant's one outcome."""
    found = fleet.wait_for_outcomes(1, tenant)
    assert len(found) == 1, found
    return found[0]


def status(pid):
    """/proc/PID/status by name."""
    rows = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in
            (row.partition(":") for row in rows)}


def keeper(fleet):
    (pid,) = fleet["worker-0"].children()
    return pid


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def groups(pid):
    """The cgroups of a process, by v1 controller."""
    rows = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    found = {}
    for row in rows:
        _, controllers, path = row.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def limit(pid, controller, name):
    for row in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, options = row.split()[:4]
        if kind == "cgroup" and controller in options.split(","):
            path = pathlib.Path(mount + groups(pid)[controller], name)
            return int(path.read_text())
    raise AssertionError(f"no cgroup hierarchy has {controller}")


def new_runner(fleet, tenant):
    """The runner that a tenant's first call starts."""
    before = set(children(keeper(fleet)))
    publish(fleet, tenant, "ping")
    assert outcome(fleet, tenant)["status"] == "succeeded"
    (pid,) = set(children(keeper(fleet))) - before
    return pid


def test_each_tenant_has_a_confined_runner_of_its_own(ready, tenant):
    pids = [new_runner(ready, tenant + suffix) for suffix in ("-a", "-b")]
    uids = set()
    for pid in pids:
        told = status(pid)
        uids.add(told["Uid"].split()[0])
        assert len(set(told["Uid"].split())) == 1
        assert int(told["Uid"].split()[0]) >= 61000
        assert told["Groups"] == ""
        assert {told[cap] for cap in (
            "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert told["NoNewPrivs"] == "1"
        assert told["Seccomp"] == "2"
        path = groups(pid)["memory"]
        assert "/http/" in path and tenant not in path
        assert limit(pid, "memory", "memory.limit_in_bytes") == 96 << 20
        assert limit(pid, "pids", "pids.max") == 32
        assert limit(pid, "cpu", "cpu.cfs_quota_us") == 150000
    assert len(uids) == 2
    assert groups(pids[0])["pids"] != groups(pids[1])["pids"]


def test_worker_and_keeper_keep_little(ready):
    worker = status(ready["worker-0"].pid)
    assert worker["CapEff"] == worker["CapPrm"] == "0" * 16
    assert worker["NoNewPrivs"] == "1"
    told = status(keeper(ready))
    assert told["Name"] == "keeper"
    assert told["NoNewPrivs"] == "1"
    # DAC_OVERRIDE, KILL, SETGID, SETUID, SETPCAP
    assert int(told["CapPrm"], 16) == 0b1_1110_0010


def test_a_private_address_is_refused_for_good(ready, tenant, double):
    publish(ready, tenant, "inside", connector="inside")
    out = outcome(ready, tenant)
    assert (out["status"], out["error"]["code"]) == ("failed", "EGRESS_DENIED")
    assert out["attempts"] == 1
    assert "127.0.0.2" in out["error"]["message"]
    assert not double.requests("/never")


def test_a_redirect_is_an_answer(ready, tenant, double):
    double.script(f"/n/{tenant}", {
        "status": 302, "headers": [["Location", "/ping-me"]]})
    publish(ready, tenant, "natural", id=tenant)
    out = outcome(ready, tenant)
    assert (out["status"], out["error"]["http_status"]) == ("failed", 302)
    assert not double.requests("/ping-me")


def test_a_body_over_the_cap_is_cut_and_still_a_success(
        ready, tenant, double):
    double.script(f"/n/{tenant}", {"body_bytes": 3 << 20})
    publish(ready, tenant, "natural", id=tenant)
    out = outcome(ready, tenant)
    assert out["status"] == "succeeded"
    assert out["result_truncated"] is True
    assert out["result_bytes"] == 3 << 20
    assert double.calls(f"/n/{tenant}") == 1


def kill_runner_mid_call(fleet, tenant, double, action, path):
    """Kills the tenant's runner while the provider holds its first call."""
    pid = new_runner(fleet, tenant + "-x")
    publish(fleet, tenant + "-x", action, id=tenant)
    wait_for(lambda: double.requests(path), f"a request for {path}")
    os.kill(pid, signal.SIGKILL)
    found = fleet.wait_for_outcomes(2, tenant + "-x")
    return next(out for out in found if out["action"] == action)


def test_a_dead_runner_makes_an_unsafe_call_indeterminate(
        ready, tenant, double):
    path = f"/u/{tenant}"
    double.script(path, {"never": True})
    out = kill_runner_mid_call(ready, tenant, double, "unsafe", path)
    assert out["status"] == "indeterminate"
    assert out["error"]["code"] == "RUNNER_DIED"
    assert double.calls(path) == 1


def test_a_dead_runner_costs_a_keyed_call_one_attempt(ready, tenant, double):
    path = f"/k/{tenant}"
    double.script(path, {"never": True}, {})
    out = kill_runner_mid_call(ready, tenant, double, "keyed", path)
    assert (out["status"], out["attempts"]) == ("succeeded", 2)
    keys = {dict(seen["headers"])["idempotency-key"]
            for seen in double.requests(path)}
    assert keys == {out["id"]}


def test_a_dead_keeper_ends_the_worker_and_the_next_finishes(
        ready, tenant, double):
    """Last: it restarts the module's worker."""
    paths = {"unsafe": f"/u/{tenant}", "natural": f"/n/{tenant}"}
    for action, path in paths.items():
        double.script(path, {"never": True}, {})
        publish(ready, tenant, action, id=tenant)
        wait_for(lambda where=path: double.requests(where),
                 f"a call of {path}")
    os.kill(keeper(ready), signal.SIGKILL)
    assert ready["worker-0"].wait_exit(60) != 0
    ready["worker-0"].start()
    ready.wait_ready(ready["worker-0"])
    found = {out["action"]: out
             for out in ready.wait_for_outcomes(2, tenant)}
    assert found["unsafe"]["status"] == "indeterminate"
    assert found["natural"]["status"] == "succeeded"
    assert double.calls(paths["unsafe"]) == 1


def test_the_end_leaves_no_process_and_no_cgroup(ready, cluster):
    worker = ready["worker-0"]
    if not worker.is_running():
        worker.start()
        ready.wait_ready(worker)
    family = [keeper(ready), *children(keeper(ready))]
    boot = groups(keeper(ready))["memory"]
    assert boot.startswith(f"/{cluster.cgroup}/")
    worker.terminate(60)
    for pid in family:
        wait_for(lambda one=pid: not pathlib.Path(f"/proc/{one}").exists(),
                 f"the end of process {pid}")
    for row in pathlib.Path("/proc/mounts").read_text().splitlines():
        mount, kind = row.split()[1:3]
        if kind == "cgroup":
            assert not pathlib.Path(mount + boot).exists()
