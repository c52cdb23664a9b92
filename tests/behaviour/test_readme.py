# SPDX-License-Identifier: Apache-2.0
"""The README: its documents fit the schemas, and its tour works as typed."""

import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

from lib.programs import BIN
from test_schemas import REGISTRY, SCHEMAS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    return [body for kind, body in
            BLOCK.findall((ROOT / "README.md").read_text())
            if kind == language]


def check(document, name):
    jsonschema.Draft202012Validator(
        SCHEMAS[name], registry=REGISTRY).validate(document)


def test_documents_fit_the_schemas():
    request, outcome, resolution = map(json.loads, blocks("json"))
    check(resolution, "resolution")
    check(request, "request")
    check(outcome, "outcome")
    manifest = re.search(r"<<END\n(.*?)^END$", "".join(blocks("sh")),
                         re.MULTILINE | re.DOTALL)[1]
    check(json.loads(manifest.replace("$provider", "http://127.0.0.1:1")),
          "manifest")


@pytest.fixture
def fleet_info(work_dir):
    """A private fleet as `make dev` starts it, in another folder."""
    folder = work_dir / "readme-fleet"
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("ACTIONIST_")}
    env["ACTIONIST_DEPLOY"] = str(ROOT / "deploy" / "dev")

    def dev(verb, *words):
        return subprocess.run(
            [str(BIN / "actionist"), "dev", verb, "--dir", str(folder),
             *words], env=env, capture_output=True, text=True, timeout=200,
            check=False)

    done = dev("up", "--json")
    assert done.returncode == 0, done.stderr
    yield {**json.loads(done.stdout), "env": env}
    dev("down")


def as_typed(info, tmp_path):
    """The tour with the reader's part filled in: addresses and the key."""
    urls = {part["name"]: part["url"] for part in info["programs"]}
    script = "".join(blocks("sh"))
    for old, new in (
            (r"^make dev$", ""),
            (r"^provider=.*$", f"provider={urls['provider-double']}"),
            (r"^producer=.*$", f"producer={urls['producer']}"),
            (r"^key=.*$", f"key={info['keys']['acme']}"),
            (r"build/release/bin/", f"{BIN}/"),
            (r"build/dev", info["dir"]),
            (r"/tmp/(hello|map|answer|story|id)", rf"{tmp_path}/\1")):
        script, count = re.subn(old, new, script, flags=re.MULTILINE)
        assert count, old
    return "set -euo pipefail\n" + script


def test_the_tour_works_as_typed(fleet_info, tmp_path):
    script = as_typed(fleet_info, tmp_path)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, text=True,
                          env=fleet_info["env"], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in
             re.findall(r'\{"spec":.*?"replay_of":null\}', done.stdout)]
    told = [(out["idempotency_key"], out["status"], out["attempts"])
            for out in found]
    assert ("g-1", "succeeded", 1) in told
    assert told.count(("g-2", "succeeded", 2)) == 2  # waited for, and got
    assert ("r-1", "indeterminate", 1) in told
    assert re.findall(r"Actionist-Webhook-Status: (\w+)", done.stdout) == [
        "captured", "duplicate"]
    assert ("webhook:repo:d-1", "succeeded", 1) in told
    assert "HTTP/1.1 401" in done.stdout
    assert not pathlib.Path(fleet_info["dir"]).exists()
