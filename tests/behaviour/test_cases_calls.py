# SPDX-License-Identifier: Apache-2.0
"""OUT-02 to OUT-13 and PGO-08: redirects, header values, compressed and odd
answers, NUL. All are published at once, then judged by name."""

import base64
import gzip
import json
import pathlib

import pytest

from lib import flow
from lib.api import add_connector

TENANT = "calls"
MIB = 1 << 20
PAYLOAD = b'{"a": 1}'
REDIRECTS = (301, 302, 303, 307, 308)
# A file of many members inflates to the sum of them: 1 GiB.
BOMB = gzip.compress(b"\0" * (8 * MIB), 9) * 128
NUL_PAYLOAD = '{"s": "a\\u0000b"}'


def redirect(status, *location):
    return {"status": status, "headers": [["Location", one]
                                          for one in location]}


def raw(text):
    return {"raw_base64": base64.b64encode(text.encode()).decode()}


def coded(body, *codings):
    return {"body_base64": base64.b64encode(body).decode(),
            "headers": [["Content-Encoding", one] for one in codings]}


OK = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"

# name: what the provider plays
STEPS = {
    **{f"redirect-{status}": redirect(status, "/elsewhere")
       for status in REDIRECTS},
    "redirect-away": redirect(302, "http://example.com/?token=s3cr3t"),
    "redirect-to-itself": redirect(302, f"/{TENANT}/redirect-to-itself"),
    "redirect-nowhere": redirect(302),
    "redirect-empty": redirect(302, ""),
    "redirect-long": redirect(302, "/" + "a" * (60 << 10)),
    "redirect-query": redirect(302, "?x"),
    "coded-gzip": coded(BOMB, "gzip"),
    "coded-twice": coded(BOMB, "gzip, gzip"),
    "coded-often": coded(BOMB, *["gzip"] * 20),
    "coded-br": coded(b"\x0b\x02\x80", "br"),
    "interim-103": raw("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK),
    "interim-100": raw("HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "stray-204": raw("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"
                     "hello"),
    "stray-head": raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    "odd-101": raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n"
                   "Connection: Upgrade\r\n\r\n"),
    "odd-099": raw(OK.replace("200", "099")),
    "odd-600": raw(OK.replace("200", "600")),
    # A body that never comes is not waited for.
    "odd-999": raw("HTTP/1.1 999 X\r\nContent-Length: 99\r\n\r\n"),
    "odd-20x": raw(OK.replace("200", "20x")),
    "nul-sent": {"body": "{{body}}"},
    "nul-raw": {"body_base64": base64.b64encode(b'{"s":"a\0b"}').decode()},
    "nul-escaped": {"body": NUL_PAYLOAD},
    "nul-refused": {"status": 400, "body_base64":
                    base64.b64encode(b"no: \0").decode()},
}

# name: (value of the header X-Note, what arrives; None: nothing is sent)
NOTES = {
    "note-crlf": ("a\r\nX-Evil: 1", None),
    "note-lf": ("a\nb", None),
    "note-cr": ("a\rb", None),
    "note-nul": ("a\0b", None),
    "note-tab": ("a\tb", b"a\tb"),
    "note-letter": ("é", "é".encode()),
    "note-long": ("x" * (64 << 10), None),
}


@pytest.fixture(scope="module")
def house(fleets, double):
    made = fleets(producers=0, settings={"worker": {
        "egress.private_allow": double.address}})
    path = "/{{action.tenant}}/{{action.key}}"
    post = {"method": "POST", "path": path, "json": "{{payload}}"}
    note = {**post, "headers": {"X-Note": "{{payload.note}}"}}
    add_connector(made, "odd", {
        "post": flow.action(path=path), "unsafe": flow.action("unsafe"),
        "head": {**flow.action(), "request": {"method": "HEAD",
                                              "path": path}},
        "note": {**flow.action(), "request": note},
    }, double.url, retry={"max_attempts": 2, "base_ms": 20, "max_ms": 40})
    return made


def action_of(name):
    if name == "stray-head":
        return "head"
    if name in NOTES:
        return "note"
    # Never tried again, so that each has one answer to be judged by.
    return "unsafe" if name.startswith("odd") else "post"


def peak_memory(house):
    """Bytes that the one runner of this file has had at most."""
    (keeper,) = house["worker-0"].children()
    (runner,) = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children"
                             ).read_text().split()
    (line,) = [line for line in pathlib.Path(
        f"/proc/{runner}/status").read_text().splitlines()
        if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


@pytest.fixture(scope="module")
def growth(house, ended, warm):
    """By how many bytes all of them made the runner grow."""
    del ended
    return peak_memory(house) - warm


@pytest.fixture(scope="module")
def warm(house):
    """Bytes that a runner has once it has made a call."""
    flow.publish(house, [flow.request(TENANT, "odd", "post", "warm-up")])
    flow.wait_ended(house, TENANT, 1)
    return peak_memory(house)


@pytest.fixture(scope="module")
def ended(house, double, warm):
    """{name: outcome} of all."""
    del warm
    double.scripts([{"path": f"/{TENANT}/{name}", "steps": [step]}
                    for name, step in STEPS.items()])
    payloads = {name: {"note": value} for name, (value, _) in NOTES.items()}
    payloads["nul-sent"] = json.loads(NUL_PAYLOAD)
    wanted = [{**flow.request(TENANT, "odd", action_of(name), name),
               "payload": payloads.get(name, {"a": 1})}
              for name in (*STEPS, *NOTES)]
    flow.publish(house, wanted)
    return flow.wait_ended(house, TENANT, len(wanted) + 1, 90)


@pytest.fixture(scope="module")
def seen(ended, double):
    """{name: requests}, asked once everything is over."""
    del ended
    found = flow.requests_by_path(double, f"/{TENANT}/")
    return {path.rsplit("/", 1)[1]: all_of for path, all_of in found.items()}


def named(prefix):
    names = [name for name in (*STEPS, *NOTES) if name.startswith(prefix)]
    return pytest.mark.parametrize("name", names)


def fields(request, name):
    return [value for key, value in request["headers"] if key == name]


# -- redirects ---------------------------------------------------------------------


@named("redirect")
def test_out_02_03_04_no_redirect_is_followed(ended, seen, double, name):
    """So none loops, leaves the host, or changes its method on the way."""
    out = ended[name]
    assert (out["status"], out["attempts"]) == ("failed", 1)
    assert out["error"]["http_status"] == STEPS[name]["status"]
    (request,) = seen[name]
    assert request["method"] == "POST" and request["body"] == PAYLOAD
    assert not fields(request, "referer")
    assert not double.requests("/elsewhere")


# -- header values --------------------------------------------------------------------


@named("note")
def test_out_06_header_values(ended, seen, name):
    value = NOTES[name][1]
    if value is None:
        assert ended[name]["status"] in ("failed", "rejected"), ended[name]
        assert ended[name]["attempts"] == 0
        assert name not in seen
        return
    assert ended[name]["status"] == "succeeded", ended[name]
    (request,) = seen[name]
    assert b"X-Note: " + value + b"\r\n" in request["head"]
    assert not fields(request, "x-evil")


# -- compressed answers ------------------------------------------------------------------


@named("coded")
def test_out_07_nothing_is_inflated(ended, seen, name):
    """None was asked for; what comes all the same stays as it came."""
    out = ended[name]
    assert (out["status"], out["attempts"]) == ("succeeded", 1)
    sent = base64.b64decode(STEPS[name]["body_base64"])
    assert base64.b64decode(out["result"]["base64"]) == sent
    (request,) = seen[name]
    assert not fields(request, "accept-encoding")


def test_out_07_the_runner_does_not_grow(growth):
    assert growth < 16 * MIB


# -- interim answers, bodies that must not be there ------------------------------------------


@named("interim")
def test_out_13_interim_answers_are_passed_over(ended, name):
    assert (ended[name]["status"], ended[name]["result"]) == (
        "succeeded", True)


@named("stray")
def test_out_13_bodies_that_must_not_be_there(ended, name):
    assert (ended[name]["status"], ended[name]["result"]) == (
        "succeeded", None)


@named("odd")
def test_out_13_odd_statuses(ended, name):
    """Nobody knows what such an answer means: not tried again, if unsafe."""
    out = ended[name]
    assert (out["status"], out["attempts"]) == ("indeterminate", 1), out
    assert out["error"]["code"] == "BAD_ANSWER"
    if name in ("odd-101", "odd-600"):
        assert name.removeprefix("odd-") in out["error"]["message"]


def test_out_13_stray_bytes_are_no_answer_to_the_next(
        house, ended, double, tenant):
    """More calls than connections: those of before would be used again."""
    del ended
    double.script(f"/{tenant}/*", {"body": "{{body}}"}, per="all")
    wanted = [flow.request(tenant, "odd", "post", f"next-{number}",
                           payload={"n": number}) for number in range(50)]
    flow.publish(house, wanted)
    found = flow.wait_ended(house, tenant, len(wanted))
    for number, one in enumerate(wanted):
        assert found[one["idempotency_key"]]["result"] == {"n": number}


# -- NUL ----------------------------------------------------------------------------------


def test_pgo_08_nul_in_payloads_and_answers(house, ended, seen):
    assert seen["nul-sent"][0]["body"] == NUL_PAYLOAD.encode()
    for name in ("nul-sent", "nul-escaped"):
        out = ended[name]
        assert out["result"] == {"s": "a\0b"}
        assert NUL_PAYLOAD.encode() in out["raw"]
        kept = house.sql("select body from outcome where id = %s",
                         (out["id"],))[0][0]
        assert NUL_PAYLOAD.encode() in kept
    assert ended["nul-raw"]["result"] == '{"s":"a\0b"}'
    assert ended["nul-refused"]["status"] == "failed"
    assert ended["nul-refused"]["result"] == "no: \0"
    for program in house.programs.values():
        assert "22P05" not in program.text()
        assert "22021" not in program.text()
