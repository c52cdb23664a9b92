# SPDX-License-Identifier: Apache-2.0
"""The provider double itself: if it lies, every other test does."""

import base64
import datetime
import email.utils
import socket
import struct
import time
import uuid

import httpx
import pytest

from lib.double import Double, DoubleError
from lib.raw_http import connect, read_all, read_exactly, request_bytes
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


# -- answers ------------------------------------------------------------------


def test_unscripted_path_says_ok(provider, client, path):
    answer = client.post(path, content=b"hello")
    assert answer.status_code == 200
    assert answer.json() == {"ok": True}
    assert provider.applied(path) == 1


def test_echo_returns_what_came(client):
    answer = client.put("/echo?a=1", content=b"\xff{}", headers={"X-A": "b"})
    echo = answer.json()
    assert (echo["method"], echo["path"]) == ("PUT", "/echo")
    assert echo["query"] == "a=1"
    assert ["X-A", "b"] in echo["headers"]
    assert base64.b64decode(echo["body_base64"]) == b"\xff{}"


def test_steps_go_on_and_the_last_repeats(provider, client, path):
    provider.script(path, {"status": 503, "times": 2}, {"status": 201})
    codes = [client.post(path).status_code for _ in range(4)]
    assert codes == [503, 503, 201, 201]
    assert provider.effect(path)["applied"] == 2
    assert provider.effect(path)["calls"] == 4


def test_steps_start_again_with_cycle(provider, client, path):
    provider.script(path, {"status": 500}, {}, repeat="cycle")
    codes = [client.get(path).status_code for _ in range(4)]
    assert codes == [500, 200, 500, 200]


def test_steps_per_key_are_independent(provider, client, path):
    provider.script(path, {"status": 503}, {}, per="key")
    codes = [
        client.post(path, headers={"Idempotency-Key": key}).status_code
        for key in ("a", "b", "a", "b")
    ]
    assert codes == [503, 503, 200, 200]


def test_prefix_script_counts_each_path_alone(provider, client, path):
    provider.script(f"{path}/*", {"status": 503}, {})
    codes = [client.get(f"{path}/{p}").status_code for p in "aabb"]
    assert codes == [503, 200, 503, 200]
    assert len(provider.effects(f"{path}/*")) == 2


def test_prefix_script_with_one_count_for_all(provider, client, path):
    provider.script(f"{path}/*", {"status": 503}, {}, per="all")
    codes = [client.get(f"{path}/{p}").status_code for p in "ab"]
    assert codes == [503, 200]


def test_exact_and_method_win_over_prefix(provider, client, path):
    provider.script(f"{path}/*", {"status": 500})
    provider.script(f"{path}/a", {"status": 201})
    provider.script(f"{path}/a", {"status": 202}, method="GET")
    assert client.post(f"{path}/b").status_code == 500
    assert client.post(f"{path}/a").status_code == 201
    assert client.get(f"{path}/a").status_code == 202
    provider.unscript(f"{path}/a", "GET")
    assert client.get(f"{path}/a").status_code == 201
    provider.unscript(f"{path}/a")
    assert client.get(f"{path}/a").status_code == 500
    with pytest.raises(DoubleError, match="path: has no script"):
        provider.unscript(f"{path}/a")


def test_template_fills_count_key_path_and_body(provider, client, path):
    provider.script(path, {"body": "{{n}}|{{key}}|{{path}}|{{body}}|{{x}}"})
    client.post(path)
    answer = client.post(path, content="B", headers={"Idempotency-Key": "K"})
    assert answer.text == f"2|K|{path}|B|{{{{x}}}}"


def test_headers_and_retry_after_seconds(provider, client, path):
    headers = [["Retry-After", "3"], ["X-One", "1"], ["X-One", "2"]]
    provider.script(path, {"status": 429, "headers": headers})
    answer = client.post(path)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "3"
    assert answer.headers.get_list("x-one") == ["1", "2"]
    wait_for(lambda: provider.requests(path)[0]["answered_us"], "the answer")
    request = provider.requests(path)[0]
    assert request["status"] == 429
    assert request["retry_at_us"] == request["answered_us"] + 3_000_000


DATE_FORMATS = {
    "imf": "%a, %d %b %Y %H:%M:%S GMT",
    "rfc850": "%A, %d-%b-%y %H:%M:%S GMT",
    "asctime": "%a %b %d %H:%M:%S %Y",
}


@pytest.mark.parametrize("name", DATE_FORMATS)
def test_retry_after_date(provider, client, path, name):
    step = {"status": 503, "retry_after_date_s": 5, "date_format": name}
    provider.script(path, step)
    answer = client.post(path)
    text = answer.headers["retry-after"]
    due = datetime.datetime.strptime(text, DATE_FORMATS[name])
    due_us = int(due.replace(tzinfo=datetime.timezone.utc).timestamp()) * 10**6
    request = provider.requests(path)[0]
    wait = due_us - request["arrival_us"]
    assert 5_000_000 <= wait <= 6_000_000
    wait_for(
        lambda: provider.requests(path)[0]["retry_at_us"] == due_us,
        "the time of the retry",
    )
    sent = email.utils.parsedate_to_datetime(answer.headers["date"])
    assert abs(sent.timestamp() * 1e6 - request["arrival_us"]) < 2_000_000


def test_delay_holds_the_answer_back(provider, client, path):
    provider.script(path, {"delay_ms": 100})
    begun = time.monotonic()
    assert client.get(path).status_code == 200
    assert time.monotonic() - begun >= 0.1


def test_large_and_chunked_and_empty_bodies(provider, client, path):
    provider.script(
        path,
        {"body_bytes": 5_000_000},
        {"body": "abc", "chunked": True},
        {"status": 204},
        {"body": "{\"ok\":"},
        {"body_base64": base64.b64encode(b"\x00\xff").decode()},
    )
    assert client.get(path).content == b"x" * 5_000_000
    answer = client.get(path)
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.content == b"abc"
    assert client.get(path).content == b""
    assert client.get(path).text == '{"ok":'
    assert client.get(path).content == b"\x00\xff"


def test_head_request_has_no_body(client, path):
    answer = client.head(path)
    assert answer.headers["content-length"] == "11"
    assert client.get(path).status_code == 200


def test_drip_sends_the_head_then_bytes(provider, client, path):
    step = {"body": "abcdef", "drip_bytes": 2, "drip_every_ms": 20}
    provider.script(path, step)
    begun = time.monotonic()
    assert client.get(path).content == b"abcdef"
    assert time.monotonic() - begun >= 0.06


# -- faults ---------------------------------------------------------------


def test_truncated_body_ends_without_reset(provider, path):
    provider.script(path, {"body": "0123456789", "truncate_bytes": 4})
    with connect(provider) as sock:
        sock.sendall(request_bytes(path))
        head, _, body = read_all(sock).partition(b"\r\n\r\n")
    assert b"Content-Length: 10" in head
    assert body == b"0123"


def test_raw_bytes_are_the_whole_answer(provider, path):
    provider.script(path, {"raw": "nonsense\r\n"})
    with connect(provider) as sock:
        sock.sendall(request_bytes(path))
        assert read_all(sock) == b"nonsense\r\n"


def test_close_says_so(provider, path):
    provider.script(path, {"close": True})
    with connect(provider) as sock:
        sock.sendall(request_bytes(path))
        assert b"\r\nConnection: close\r\n" in read_all(sock)


def test_reset_before_body_reads_no_body(provider, path):
    provider.script(path, {"reset": "before_body"}, {})
    with connect(provider) as sock:
        sock.sendall(request_bytes(path, b"x" * 100)[:-100])
        with pytest.raises(ConnectionResetError):
            read_all(sock)
    assert provider.effect(path)["calls"] == 0
    assert provider.requests(path)[0]["complete"] is False
    assert httpx.post(provider.url + path).status_code == 200


def test_reset_after_body_counts_the_effect(provider, path):
    provider.script(path, {"reset": "after_body"}, {})
    with connect(provider) as sock:
        sock.sendall(request_bytes(path, b"abc"))
        with pytest.raises(ConnectionResetError):
            read_all(sock)
    assert provider.effect(path)["applied"] == 1
    request = provider.requests(path)[0]
    assert (request["body"], request["complete"]) == (b"abc", True)
    assert (request["status"], request["answered_us"]) == (0, 0)


def test_effect_can_be_set_either_way(provider, client, path):
    provider.script(
        path,
        {"reset": "after_body", "effect": False},
        {"status": 504, "effect": True},
        {"effect": False},
    )
    with pytest.raises(httpx.TransportError):
        client.post(path)
    assert client.post(path).status_code == 504
    assert client.post(path).status_code == 200
    assert provider.effect(path)["applied"] == 1
    assert provider.effect(path)["calls"] == 3


def test_never_answers_until_the_client_leaves(provider, path):
    provider.script(path, {"never": True})
    gone = provider.stats()["clients_gone"]
    with connect(provider) as sock:
        sock.sendall(request_bytes(path))
        wait_for(lambda: provider.applied(path) == 1, "the effect")
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
    wait_for(
        lambda: provider.stats()["clients_gone"] > gone,
        "the client to be missed",
    )


def test_client_that_dies_in_its_body_is_noted(provider, path):
    with connect(provider) as sock:
        sock.sendall(request_bytes(path, b"x" * 100)[:-50])
    wait_for(lambda: provider.requests(path), "the request")
    request = provider.requests(path)[0]
    assert (request["complete"], request["body"]) == (False, b"x" * 50)
    assert provider.effect(path)["calls"] == 0


# -- effects and dedup --------------------------------------------------------


def post_key(client, path, key, body="{}"):
    return client.post(path, content=body, headers={"Idempotency-Key": key})


def test_dedup_applies_once_and_repeats_the_answer(provider, client, path):
    provider.script(
        path,
        {"status": 503},
        {"status": 201, "body": "{{n}}", "headers": [["X-A", "b"]]},
        dedup_header="Idempotency-Key",
        per="key",
    )
    answers = [post_key(client, path, "k") for _ in range(4)]
    assert [a.status_code for a in answers] == [503, 201, 201, 201]
    assert [a.text for a in answers[1:]] == ["2", "2", "2"]
    assert answers[3].headers["x-a"] == "b"
    assert answers[3].headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in answers[1].headers
    effect = provider.effect(path, "k")
    assert (effect["applied"], effect["calls"]) == (1, 4)
    assert effect["replays"] == 2
    assert effect["first_us"] < effect["applied_us"] < effect["last_us"]


def test_dedup_after_a_lost_answer_applies_once(provider, client, path):
    provider.script(
        path,
        {"reset": "after_body"},
        {"status": 200},
        dedup_header="X-Key",
    )
    with connect(provider) as sock:
        sock.sendall(request_bytes(path, b"", "X-Key: k\r\n"))
        with pytest.raises(ConnectionResetError):
            read_all(sock)
    answer = client.post(path, headers={"X-Key": "k"})
    assert answer.status_code == 200
    assert provider.effect(path, "k")["applied"] == 1


def test_dedup_repeats_a_truncated_answer_whole(provider, client, path):
    step = {"body": "0123456789", "truncate_bytes": 2}
    provider.script(path, step, dedup_header="Idempotency-Key")
    with pytest.raises(httpx.RemoteProtocolError):
        post_key(client, path, "k")
    assert post_key(client, path, "k").text == "0123456789"


def test_without_dedup_each_success_is_an_effect(provider, client, path):
    for body in ("a", "a", "b"):
        post_key(client, path, "k", body)
    effect = provider.effect(path, "k")
    assert (effect["applied"], effect["mismatches"]) == (3, 1)


# -- connections --------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(provider, path):
    provider.script(path, {"delay_ms": 20, "body": "{{body}}"})
    with connect(provider) as sock:
        many = b"".join(request_bytes(path, b"%03d;" % i) for i in range(5))
        last = request_bytes(path, b"end;", "Connection: close\r\n")
        sock.sendall(many + last)
        received = read_all(sock)
    assert received.count(b"HTTP/1.1 200 OK") == 6
    places = [received.index(b"%03d;" % i) for i in range(5)]
    assert places == sorted(places)
    assert received.endswith(b"end;")


def test_request_in_single_bytes_is_read(provider, path):
    with connect(provider) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request_bytes(path, b"abc", "Connection: close\r\n"):
            sock.sendall(bytes([byte]))
        assert read_all(sock).startswith(b"HTTP/1.1 200 OK")
    assert provider.requests(path)[0]["body"] == b"abc"


def test_chunked_request_and_continue(provider, path):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    with connect(provider) as sock:
        sock.sendall(head)
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\n\r\n")
        assert read_all(sock).startswith(b"HTTP/1.1 200 OK")
    request = provider.requests(path)[0]
    assert request["body"] == b"abc0123456789abcdef"
    assert request["head"] == head


BAD_REQUESTS = {
    "no_http": (b"nonsense\r\n\r\n", 400),
    "bad_length": (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    "two_lengths": (
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
    ),
    "length_and_chunked": (
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    "bad_chunk": (
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        400,
    ),
    "bare_line_feed": (b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
    "nul": (b"GET / HTTP/1.1\r\nA: b\x00\r\n\r\n", 400),
    "large_body": (b"GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
    "large_head": (b"GET / HTTP/1.1\r\nA: " + b"b" * 70000, 431),
    "version": (b"GET / HTTP/3.0\r\n\r\n", 505),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_request_is_refused_and_noted(provider, name):
    sent, status = BAD_REQUESTS[name]
    before = provider.stats()
    with connect(provider) as sock:
        sock.sendall(sent)
        assert read_all(sock).startswith(b"HTTP/1.1 %d " % status)
    after = provider.stats()
    assert after["bad_requests"] == before["bad_requests"] + 1
    assert after["log_last_seq"] == before["log_last_seq"] + 1


def test_many_connections_at_once(provider, path):
    socks = [connect(provider) for _ in range(300)]
    try:
        for sock in socks:
            sock.sendall(request_bytes(path))
        for sock in socks:
            assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")
    finally:
        for sock in socks:
            sock.close()
    assert provider.applied(path) == 300


def test_is_no_bottleneck(provider, path):
    """Pipelined over one connection, so that Python is not the limit; the
    floor is far below what it does, as the machine may be busy."""
    batches, size = 100, 200
    one = request_bytes(path, b"{}")
    with connect(provider) as sock:
        sock.sendall(one)
        answer = sock.recv(1000)
        begun = time.monotonic()
        for _ in range(batches):
            sock.sendall(one * size)
            assert read_exactly(sock, len(answer) * size) == answer * size
        rate = batches * size / (time.monotonic() - begun)
    assert provider.applied(path) == batches * size + 1
    assert rate > 2000


def test_survives_clients_that_reset(provider, path):
    for _ in range(20):
        sock = connect(provider)
        sock.sendall(request_bytes(path, b"x" * 1000))
        linger = struct.pack("ii", 1, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        sock.close()
    assert httpx.post(provider.url + path).status_code == 200
