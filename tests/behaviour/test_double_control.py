# SPDX-License-Identifier: Apache-2.0
"""The provider double's control API, its log and its command line."""

import base64
import json
import subprocess
import time
import uuid

import httpx
import pytest

from lib.double import Double, DoubleError, binary
from lib.raw_http import connect, read_all, request_bytes
from lib.wait import wait_for

TIMEOUT_S = 60


@pytest.fixture(scope="module", name="provider")
def _provider():
    running = Double().start()
    yield running
    assert running.stop() == 0, "leaked, or worse (see standard error)"


@pytest.fixture(scope="module", name="client")
def _client(provider):
    with httpx.Client(base_url=provider.url, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture(name="path")
def _path():
    return f"/t/{uuid.uuid4()}"


# -- control API --------------------------------------------------------------


BAD_SCRIPTS = {
    "path: must be there": {"steps": [{}]},
    "path: /_control is": {"path": "/_control/x", "steps": [{}]},
    "path: may have one": {"path": "/a*b", "steps": [{}]},
    "steps: must be there": {"path": "/a"},
    "steps: must be an array of 1 to 1000": {"path": "/a", "steps": []},
    r"steps\[0\].must be an object": {"path": "/a", "steps": [1]},
    r"steps\[1\].status: must be a whole number 100 to 999": {
        "path": "/a",
        "steps": [{}, {"status": 20}],
    },
    r"steps\[0\].delay_ms: must be": {
        "path": "/a",
        "steps": [{"delay_ms": 1.5}],
    },
    r"steps\[0\].delai_ms: is not a member": {
        "path": "/a",
        "steps": [{"delai_ms": 1}],
    },
    r"steps\[0\].reset: must be one of before_body, after_body": {
        "path": "/a",
        "steps": [{"reset": "x"}],
    },
    r"steps\[0\].headers: must be": {
        "path": "/a",
        "steps": [{"headers": [["A", "b\r\nC: d"]]}],
    },
    r"steps\[0\].body_base64: must be base64": {
        "path": "/a",
        "steps": [{"body_base64": "a==="}],
    },
    r"steps\[0\].effect: must be false": {
        "path": "/a",
        "steps": [{"reset": "before_body", "effect": True}],
    },
    r"steps\[0\].drip_bytes: needs": {
        "path": "/a",
        "steps": [{"drip_bytes": 1}],
    },
    "per: must be one of path, key, all": {
        "path": "/a",
        "steps": [{}],
        "per": "x",
    },
    "pre: is not a member of a script": {
        "path": "/a",
        "steps": [{}],
        "pre": "x",
    },
    "key_header: must not": {
        "path": "/a",
        "steps": [{}],
        "key_header": "A",
        "dedup_header": "A",
    },
}


@pytest.mark.parametrize("message", BAD_SCRIPTS)
def test_bad_script_names_member_and_rule(provider, message):
    before = provider.stats()["scripts"]
    good = {"path": f"/t/{uuid.uuid4()}", "steps": [{}]}
    with pytest.raises(DoubleError, match=message):
        provider.scripts([good, BAD_SCRIPTS[message]])
    assert provider.stats()["scripts"] == before


def test_script_that_is_no_json_is_refused(client):
    for body in (b"", b"{", b"{} x", b"\xff"):
        answer = client.put("/_control/script", content=body)
        assert answer.status_code == 400
        assert "error" in answer.json()


def test_control_paths_and_methods(client):
    assert client.get("/_control/nothing").status_code == 404
    assert client.post("/_control/stats").status_code == 405
    answer = client.get("/_control/requests?limit=x")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("limit: must be")


def test_lists_come_in_pages(provider, client, path):
    for i in range(5):
        client.post(path, headers={"Idempotency-Key": f"k{i}"})
    whole = provider.requests(path)
    first = provider.control("GET", "requests", path=path, limit=2)
    assert first["more"] is True
    rest = provider.control("GET", "requests", path=path, after=first["last"])
    got = [r["seq"] for r in first["requests"] + rest["requests"]]
    assert got == [r["seq"] for r in whole] and len(got) == 5
    assert [r["key"] for r in provider.requests(path, "k3")] == ["k3"]
    assert len(provider.effects(path)) == 5


def test_request_is_logged_byte_for_byte(provider, path):
    body = bytes(range(256))
    sent = request_bytes(path, body, "X-Odd:   spaced  \r\nConnection: close\r\n")
    before_us = time.time_ns() // 1000
    with connect(provider) as sock:
        sock.sendall(sent)
        read_all(sock)
    request = provider.requests(path)[0]
    assert request["head"] + request["body"] == sent
    assert before_us <= request["arrival_us"] <= time.time_ns() // 1000


def test_reset_forgets_everything(path):
    with Double() as own:
        own.script(path, {"status": 503})
        httpx.post(own.url + path)
        own.reset()
        assert own.effects() == [] and own.requests() == []
        assert httpx.post(own.url + path).status_code == 200
        assert own.stats()["requests"] == 1
        assert own.requests()[0]["seq"] == 2


# -- the program --------------------------------------------------------------


def test_log_file_and_script_file(tmp_path, path):
    log = tmp_path / "requests.log"
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"path": path, "steps": [{"status": 418}]}))
    with Double(log=log, script_file=script) as own:
        assert httpx.post(own.url + path, content=b"abc").status_code == 418
        wait_for(lambda: log.read_text().endswith("\n"), "the log line")
        assert own.stop() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["path"] for line in lines] == [path]
    assert base64.b64decode(lines[0]["body"]) == b"abc"


def run(*args):
    return subprocess.run(
        [binary(), *args],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_options_are_checked(tmp_path):
    assert run("--help").returncode == 0
    assert "--script FILE" in run("--help").stdout
    assert run("--port", "70000").returncode == 2
    assert run("--nothing").returncode == 2
    assert run("more").returncode == 2
    missing = run("--script", str(tmp_path / "none"))
    assert missing.returncode == 1
    assert "No such file" in missing.stderr
    assert run("--log", str(tmp_path / "a" / "b")).returncode == 1
    bad = tmp_path / "bad.json"
    bad.write_text('{"path": "/a", "steps": [{"status": 1}]}')
    assert "steps[0].status" in run("--script", str(bad)).stderr


def test_port_in_use_is_one_clear_line(provider):
    taken = run("--port", str(provider.port))
    assert taken.returncode == 1
    assert "Address already in use" in taken.stderr
