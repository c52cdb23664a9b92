# SPDX-License-Identifier: Apache-2.0
"""What each end of a call means: the table of classes, row by row, for each
class of effect. All calls are made at once; each test judges one of them."""

import base64
import dataclasses
import itertools
import json
import socket
import socketserver
import threading
import uuid

import pytest

from lib import flow
from lib.api import add_connector

TENANT = "t-" + uuid.uuid4().hex[:12]
EFFECTS = ("natural", "keyed", "unsafe")
MAX_ATTEMPTS = 3
MIB = 1 << 20

RETRY_NOW = ["Retry-After", "0"]
RESETS = {"before-body": {"reset": "before_body"},
          "after-body": {"reset": "after_body"}}


@dataclasses.dataclass
class Want:
    """What an outcome must say, and how many calls the provider saw."""
    status: str
    attempts: int
    code: str = None
    kind: str = None  # error.class
    http: int = None
    calls: int = None  # None: as many as attempts

    def seen(self):
        return self.attempts if self.calls is None else self.calls


@dataclasses.dataclass
class Case:
    """One request: what the provider plays, and what must come of it."""
    name: str
    want: Want
    steps: list = dataclasses.field(default_factory=list)
    action: str = "natural"
    connector: str = "answers"
    more: dict = dataclasses.field(default_factory=dict)


def answer(status, *headers):
    return {"status": status, "headers": list(headers)}


def per_effect(name, step, safe, unsafe, action="{}", **more):
    """The same answer to an action of each class of effect."""
    return [Case(f"{name}-{effect}", unsafe if effect == "unsafe" else safe,
                 step, action.format(effect), **more) for effect in EFFECTS]


# -- the rows of the table ------------------------------------------------------


def succeeded(attempts=1):
    return Want("succeeded", attempts)


def failed(code="HTTP_STATUS", http=None, attempts=1, calls=None):
    return Want("failed", attempts, code, "permanent", http, calls)


def unknown(code="HTTP_STATUS", http=None, attempts=1):
    return Want("indeterminate", attempts, code, "unknown", http)


def exhausted(code="HTTP_STATUS", http=None, calls=None):
    return Want("exhausted", MAX_ATTEMPTS, code, "transient", http, calls)


def rows_of_success():
    for status in (200, 201, 202, 204, 206, 299):
        yield from per_effect(f"ok-{status}", [answer(status)], succeeded(),
                              succeeded())


def rows_of_not_applied():
    """Transient, certainly without effect: all are tried again."""
    for name, step in (("425", answer(425)), ("429", answer(429)),
                       ("425-ra", answer(425, RETRY_NOW)),
                       ("429-ra", answer(429, RETRY_NOW)),
                       ("503-ra", answer(503, RETRY_NOW))):
        yield from per_effect(f"late-{name}", [step, {}], succeeded(2),
                              succeeded(2))
        want = exhausted(http=step["status"])
        yield from per_effect(f"never-{name}", [step], want, want)


def rows_of_maybe():
    """Transient, and the effect may have happened."""
    for status in (408, 500, 502, 503, 504, 507, 599):
        yield from per_effect(
            f"maybe-{status}", [answer(status), {}], succeeded(2),
            unknown(http=status))
    yield from per_effect(
        "maybe-always", [answer(500)],
        unknown(http=500, attempts=MAX_ATTEMPTS), unknown(http=500))
    yield from per_effect(
        "maybe-500-ra", [answer(500, RETRY_NOW), {}], succeeded(2),
        unknown(http=500))
    # One attempt without a verdict stays one, whatever comes after it.
    yield from per_effect(
        "maybe-then-429", [answer(502), answer(429)],
        unknown(http=429, attempts=MAX_ATTEMPTS), unknown(http=502))


def rows_of_permanent():
    for status in (300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404,
                   405, 406, 409, 410, 411, 415, 418, 422, 451, 499, 501):
        steps = [answer(status, ["Location", "/elsewhere"]), {}]
        want = failed(http=status)
        yield from per_effect(f"final-{status}", steps, want, want)
    yield from per_effect("final-400-ra", [answer(400, RETRY_NOW), {}],
                          failed(http=400), failed(http=400))
    yield Case("maybe-then-400", failed(http=400, attempts=2),
               [answer(500), answer(400)])


def rows_of_conflicts():
    """409 is an answer to the call of before only where keys say so."""
    steps = [answer(500), answer(409), {}]
    yield Case("conflict-after-unknown-keyed", succeeded(3), steps, "keyed")
    yield Case("conflict-after-unknown-natural",
               failed(http=409, attempts=2), steps)
    yield Case("conflict-after-refusal-keyed", failed(http=409, attempts=2),
               [answer(429), answer(409), {}], "keyed")


def rows_of_broken():
    """No whole answer after the first byte was sent."""
    lost, bad, late = "CONNECTION_LOST", "BAD_ANSWER", "EXECUTION_TIMEOUT"
    ends = [(f"reset-{name}", step, lost) for name, step in RESETS.items()]
    ends += [
        ("reset-delayed", {"reset": "after_body", "delay_ms": 50}, lost),
        ("cut", {"body": "x" * 99, "truncate_bytes": 10}, bad),
        ("cut-chunked", {"body": "x" * 99, "truncate_bytes": 10,
                         "chunked": True}, bad),
        ("no-http", {"raw": "I am no HTTP\r\n\r\n"}, bad),
        ("half-a-head", {"raw": "HTTP/1.1 200 OK\r\nContent-"}, bad),
        ("no-end-of-head", {"raw": "HTTP/1.1 200 OK\r\nA: b\r\n"}, bad),
        ("two-lengths", {"raw": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                                "Content-Length: 3\r\n\r\nabc"}, bad),
        ("only-100", {"raw": "HTTP/1.1 100 Continue\r\n\r\n"}, lost),
        ("nothing", {"raw": ""}, lost),
    ]
    for name, step, code in ends:
        yield from per_effect(f"broken-{name}", [step, {}], succeeded(2),
                              unknown(code))
    yield from per_effect(
        "broken-always", [{"reset": "after_body"}],
        unknown(lost, attempts=MAX_ATTEMPTS), unknown(lost))
    stuck = [("silent", {"never": True}), ("slow", {"delay_ms": 60000}),
             ("drip", {"body": "x" * 999, "drip_bytes": 1,
                       "drip_every_ms": 100})]
    for name, step in stuck:
        yield Case(f"timeout-{name}", unknown(late), [step], "unsafe-short")
        yield Case(f"timeout-{name}-natural",
                   unknown(late, attempts=MAX_ATTEMPTS), [step],
                   "natural-short")


def rows_of_not_sent():
    """No byte was sent: transient, or refused by ourselves."""
    for name, code in (("refusing", "CONNECTION_FAILED"),
                       ("unresolved", "DNS_FAILED"),
                       ("no-tls", "TLS_FAILED")):
        yield from per_effect(
            f"unsent-{name}", [], exhausted(code, calls=0),
            exhausted(code, calls=0), connector=name)
    for name in ("private", "metadata", "not-allowed", "name-of-loopback"):
        yield from per_effect(
            f"denied-{name}", [], failed("EGRESS_DENIED", calls=0),
            failed("EGRESS_DENIED", calls=0), connector=name)


def rows_of_moves():
    """What a manifest moves."""
    yield from per_effect("moved-404", [answer(404), {}], succeeded(2),
                          unknown(http=404), "{}-moved")
    for status in (500, 503):
        yield from per_effect(
            f"moved-{status}", [answer(status), {}], failed(http=status),
            failed(http=status), "{}-moved")
    for status in (409, 504):
        yield from per_effect(f"moved-{status}", [answer(status), {}],
                              succeeded(2), succeeded(2), "{}-moved")
    # Not moved: as without a manifest's word.
    yield from per_effect("unmoved-502", [answer(502), {}], succeeded(2),
                          unknown(http=502), "{}-moved")


def rows_of_long_waits():
    for status, seconds in ((429, 86401), (503, 10**9)):
        yield from per_effect(
            f"long-{status}", [answer(status, ["Retry-After", str(seconds)])],
            failed("RETRY_AFTER_TOO_LONG", status),
            failed("RETRY_AFTER_TOO_LONG", status))


def rows_of_budgets():
    yield Case("budget-of-request", Want("exhausted", 5, "HTTP_STATUS",
                                         "transient", 429),
               [answer(429)], more={"max_attempts": 5})
    yield Case("budget-of-one", Want("exhausted", 1, "HTTP_STATUS",
                                     "transient", 429),
               [answer(429)], more={"max_attempts": 1})
    yield Case("budget-of-two", Want("exhausted", 2, "HTTP_STATUS",
                                     "transient", 429), [answer(429)], "twice")


ROWS = list(itertools.chain(
    rows_of_success(), rows_of_not_applied(), rows_of_maybe(),
    rows_of_permanent(), rows_of_conflicts(), rows_of_broken(),
    rows_of_not_sent(), rows_of_moves(), rows_of_long_waits(),
    rows_of_budgets()))


# -- results ----------------------------------------------------------------------

DEEP = "[" * 65 + "]" * 65
BIG = {"n": MIB}


def encoded(data):
    return {"base64": base64.b64encode(data).decode()}


# name, what the provider answers, result of the outcome
RESULTS = [
    ("object", b'{"id":"ch_1","n":1.10}', {"id": "ch_1", "n": 1.1}),
    ("array", b"[1, 2]", [1, 2]),
    ("null", b"null", None),
    ("false", b"false", False),
    ("string", '"h\u00e9"'.encode(), "h\u00e9"),
    ("escape", b'"\\ud83d\\ude80"', "\U0001f680"),
    ("empty", b"", None),
    ("text", "pl\u00e4in".encode(), "pl\u00e4in"),
    ("html", b"<p>\"hi\"</p>\n", "<p>\"hi\"</p>\n"),
    ("control", b"a\x00\x01b", "a\x00\x01b"),
    ("not-utf-8", b"\xff\xfe\x00", encoded(b"\xff\xfe\x00")),
    ("cut-off-json", b'{"a":', '{"a":'),
    ("twice-a-name", b'{"a":1,"a":2}', '{"a":1,"a":2}'),
    ("two-values", b"1 2", "1 2"),
    ("deep", DEEP.encode(), DEEP),
    ("deep-enough", DEEP[1:-1].encode(), json.loads(DEEP[1:-1])),
    ("to-the-cap", b'"' + b"x" * (MIB - 2) + b'"', "x" * (MIB - 2)),
]


# -- running all of it ---------------------------------------------------------------


def add_connectors(house, double, closed_port, plain_port):
    retry = {"max_attempts": MAX_ATTEMPTS, "base_ms": 20, "max_ms": 40}
    moved = {"retry_on": [404], "permanent_on": [500, 503],
             "not_applied_on": [409, 504]}
    actions = {"twice": flow.action(retry={"max_attempts": 2})}
    for effect in EFFECTS:
        actions[effect] = flow.action(effect)
        actions[f"{effect}-short"] = flow.action(effect, timeout_ms=300)
        actions[f"{effect}-moved"] = flow.action(effect, **moved)
    actions["get"] = {**flow.action(), "request": {
        "method": "GET", "path": "/{{action.tenant}}/{{action.key}}"}}
    add_connector(house, "answers", actions, double.url, retry=retry)
    plain = {effect: actions[effect] for effect in EFFECTS}
    for name, url in (
            ("refusing", f"http://127.0.0.1:{closed_port}"),
            ("unresolved", "http://no-such-host.invalid"),
            ("no-tls", f"https://127.0.0.1:{plain_port}"),
            ("private", "http://10.1.2.3"),
            ("metadata", "http://169.254.169.254"),
            ("not-allowed", "http://127.0.0.1:9"),
            ("name-of-loopback", "http://localhost:9")):
        add_connector(house, name, plain, url, retry=retry)


def path_of(name):
    return f"/{TENANT}/{name}"


def script_of(name, steps):
    return {"path": path_of(name), "steps": steps}


def result_case(name, body):
    return Case(f"result-{name}", succeeded(), [
        {"body_base64": base64.b64encode(body).decode()}], "get")


RESULT_CASES = [result_case(name, body) for name, body, _ in RESULTS] + [
    Case("result-cut", succeeded(), [{"body_bytes": MIB + 1}], "get"),
    Case("result-far-too-long", succeeded(), [{"body_bytes": 64 * MIB}],
         "get"),
    Case("result-of-failure", failed(http=400),
         [{"status": 400, "body": '{"why":"no"}'}], "get"),
]


@pytest.fixture(scope="module")
def closed_port():
    """A port that refuses: bound by us, nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class PlainText(socketserver.BaseRequestHandler):
    """Greets in plain text, whatever it is told."""

    def handle(self):
        self.request.recv(4096)
        self.request.sendall(b"220 this is no TLS\r\n")


@pytest.fixture(scope="module")
def plain_port():
    """A port where nobody speaks TLS."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0),
                                         PlainText) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def outcomes(fleets, double, closed_port, plain_port):
    house = fleets(producers=0, settings={"worker": {
        "egress.private_allow": f"{double.address}, "
        f"127.0.0.1:{closed_port}, 127.0.0.1:{plain_port}"}})
    add_connectors(house, double, closed_port, plain_port)
    cases = ROWS + RESULT_CASES
    double.scripts([script_of(case.name, case.steps)
                    for case in cases if case.steps])
    flow.publish(house, [
        flow.request(TENANT, case.connector, case.action, case.name,
                     **case.more) for case in cases])
    return flow.wait_ended(house, TENANT, len(cases), 90)


@pytest.fixture(scope="module")
def called(outcomes, double):
    """{path: requests}; asked once everything is over."""
    del outcomes
    return flow.requests_by_path(double, f"/{TENANT}/")


def by_name(cases):
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("case", cases, ids=names)


@by_name(ROWS)
def test_row(outcomes, called, case):
    out = outcomes[case.name]
    want = case.want
    assert (out["status"], out["attempts"]) == (want.status, want.attempts), (
        out)
    calls = called.get(path_of(case.name), [])
    assert len(calls) == want.seen()
    error = out["error"]
    if want.status == "succeeded":
        assert error is None
    else:
        assert want.code in (None, error["code"]), error
        assert error["class"] == want.kind, error
        assert error.get("http_status") == want.http, error
        assert error["message"]
    check_identity(case, out, calls)


def check_identity(case, out, calls):
    """Each call of a keyed action carries the key, and no other does."""
    wanted = [out["id"]] if case.action.startswith("keyed") else []
    for call in calls:
        keys = [value for name, value in call["headers"]
                if name == "idempotency-key"]
        assert keys == wanted
        assert call["body"] == calls[0]["body"]


def test_redirects_are_not_followed(called, double):
    assert called
    assert double.requests("/elsewhere") == []


def test_retry_after_is_in_the_error(outcomes):
    assert outcomes["long-429-natural"]["error"]["retry_after_s"] == 86401
    assert outcomes["never-429-ra-natural"]["error"]["retry_after_s"] == 0
    assert "retry_after_s" not in outcomes["never-429-natural"]["error"]


@pytest.mark.parametrize("name, want", [
    (name, want) for name, _, want in RESULTS], ids=[
        name for name, _, _ in RESULTS])
def test_result(outcomes, name, want):
    out = outcomes[f"result-{name}"]
    assert (out["status"], out["attempts"]) == ("succeeded", 1)
    assert out["result"] == want
    assert "result_truncated" not in out and "result_bytes" not in out


def test_numbers_of_a_result_are_not_touched(outcomes):
    assert b'{"id":"ch_1","n":1.10}' in outcomes["result-object"]["raw"]


@pytest.mark.parametrize("name", ["cut", "far-too-long"])
def test_a_long_result_is_cut(outcomes, name):
    out = outcomes[f"result-{name}"]
    assert out["status"] == "succeeded"
    assert out["result"] == "x" * MIB
    assert out["result_truncated"] is True
    assert out["result_bytes"] > MIB


def test_result_of_a_failure_is_kept(outcomes):
    out = outcomes["result-of-failure"]
    assert (out["status"], out["result"]) == ("failed", {"why": "no"})


def test_usage_and_times(outcomes):
    out = outcomes["late-429-natural"]
    assert out["started_at"] <= out["finished_at"]
    assert out["usage"]["egress_bytes"] > 0
    assert out["manifest"].startswith("sha256:")
    slow = outcomes["timeout-silent"]
    assert slow["usage"]["wall_ms"] >= 300
