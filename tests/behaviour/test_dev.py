# SPDX-License-Identifier: Apache-2.0
"""`actionist dev`: a whole private fleet in one folder, and nothing left."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import httpx
import pytest

from lib.programs import BIN, ROOT
from lib.wait import wait_for
from local.cluster import Cluster
from local.process import processes_under

COMMAND = str(BIN / "actionist")


@pytest.fixture
def folder(work_dir):
    """The fleet's folder; whatever a failed test left in it is ended."""
    path = work_dir / "dev-fleet"
    yield path
    dev("down", path)


def environment():
    """Nobody else's settings; the cluster's script wherever the programs are."""
    return {**{name: value for name, value in os.environ.items()
               if not name.startswith("ACTIONIST_")},
            "ACTIONIST_DEPLOY": str(ROOT / "deploy" / "dev")}


def dev(verb, folder, *words):
    done = subprocess.run(
        [COMMAND, "dev", verb, "--dir", str(folder), *words], text=True,
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
        check=False, timeout=200)
    return done.returncode, done.stdout, done.stderr


def cgroups(folder):
    """Where the fleet of this folder has its cgroups."""
    return list(pathlib.Path("/sys/fs/cgroup").glob(
        f"**/{Cluster(folder).cgroup}"))


def program(info, name):
    return next(part for part in info["programs"] if part["name"] == name)


def has_left_nothing(folder):
    return not folder.exists() and not processes_under(folder)


def test_up_status_kill_up_down(folder):
    code, out, err = dev("up", folder, "--json")
    assert (code, err) == (0, "")
    info = json.loads(out)
    assert cgroups(folder)
    assert info["up"] and set(info["keys"]) == {"acme", "globex"}
    assert (folder / "keys.json").stat().st_mode & 0o777 == 0o600

    producer = program(info, "producer")
    answer = httpx.get(producer["url"] + "/v1/actions/none", headers={
        "Authorization": f"Bearer {info['keys']['acme']}"}, timeout=30)
    assert answer.status_code == 404
    answer = httpx.get(producer["url"] + "/v1/actions/none", timeout=30)
    assert answer.status_code == 401

    os.kill(producer["pid"], signal.SIGKILL)
    code, out, _ = wait_for(
        lambda: (lambda said: said if said[0] == 4 else None)(
            dev("status", folder, "--json")), "the producer is seen down")
    now = json.loads(out)
    assert not now["up"] and program(now, "producer")["state"] == "down"
    assert program(now, "worker")["state"] == "running"

    code, out, _ = dev("up", folder, "--json")
    again = json.loads(out)
    assert code == 0 and again["up"] and again["keys"] == info["keys"]
    for name in ("producer", "worker", "scheduler", "provider-double"):
        assert program(again, name)["url"] == program(info, name)["url"]
    assert program(again, "worker")["pid"] == program(info, "worker")["pid"]

    code, out, _ = dev("status", folder)
    assert code == 0 and "running" in out and "down" not in out
    code, out, err = dev("down", folder)
    assert (code, out, err) == (0, "", "")
    assert has_left_nothing(folder)
    assert not cgroups(folder)
    assert dev("down", folder)[0] == 3


def test_an_interrupted_start_undoes_itself(folder):
    child = subprocess.Popen(
        [COMMAND, "dev", "up", "--dir", str(folder)], env=environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for(lambda: (folder / "cluster.json").exists()
             or child.poll() is not None, "the start to begin", every=0.01)
    child.send_signal(signal.SIGTERM)
    assert child.wait(200) == 1
    assert has_left_nothing(folder)


def test_a_program_that_fails_is_named_with_its_last_words(folder):
    """A broken scheduler: the command finds programs beside itself."""
    beside = folder.parent / "broken-bin"
    beside.mkdir()
    for name in ("actionist", "provider-double", "actionist-worker",
                 "actionist-runner", "actionist-producer"):
        shutil.copy2(BIN / name, beside / name)
    broken = beside / "actionist-scheduler"
    broken.write_text("#!/bin/sh\necho first words\necho last words\nexit 3\n")
    broken.chmod(0o755)
    done = subprocess.run(
        [str(beside / "actionist"), "dev", "up", "--dir", str(folder)],
        env=environment(), text=True, capture_output=True, check=False,
        timeout=200)
    assert done.returncode == 1
    assert "scheduler: ended at once" in done.stderr
    assert "last words" in done.stderr and "first" not in done.stderr
    assert has_left_nothing(folder)
