# SPDX-License-Identifier: Apache-2.0
"""HTTP as no client library would send it: framing, slowness, caps.

Against a producer, since all three daemons use the same server.
"""

import contextlib
import json
import pathlib
import re
import select
import socket
import time
import uuid

import httpx
import pytest

from lib.api import Api, add_connector, echo_action, new_key
from lib.raw_http import read_all
from lib.wait import wait_for

TIMEOUT_S = 60
BODY_TIMEOUT_S = 3
PER_ADDRESS = 40
SLOW = 500
ESTABLISHED = "01"


@pytest.fixture(scope="module")
def door(fleets):
    made = fleets(workers=0, schedulers=0, settings={"producer": {
        "http.body_timeout_s": BODY_TIMEOUT_S,
        "http.max_connections_per_address": PER_ADDRESS}})
    add_connector(made, "echo", {"post": echo_action()})
    return made


@pytest.fixture(scope="module")
def address(door):
    host, _, port = door.url().removeprefix("http://").partition(":")
    return host, int(port)


@pytest.fixture
def key(door, tenant):
    return new_key(door, tenant)[1]


def connect(address):
    return socket.create_connection(address, timeout=TIMEOUT_S)


def body(padding=0):
    return json.dumps({
        "connector": "echo", "action": "post", "payload": "x" * padding,
        "idempotency_key": f"k-{uuid.uuid4()}"}).encode()


def head(key, *lines, last=True):
    """A POST's head; lines are whole header lines."""
    more = ["Connection: close"] if last else []
    return "\r\n".join([
        "POST /v1/actions HTTP/1.1", "Host: x",
        f"Authorization: Bearer {key}", *lines, *more, "", ""]).encode()


def whole(key, content, last=True):
    return head(key, f"Content-Length: {len(content)}", last=last) + content


def statuses(received):
    return [int(code) for code in
            re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def talk(address, *pieces):
    """Sends piece by piece, reads to the end; the statuses that came."""
    with connect(address) as sock:
        try:
            for piece in pieces:
                sock.sendall(piece)
            return statuses(read_all(sock))
        except ConnectionError:
            return []  # closed while we were still sending


def test_ing_16_odd_content_length(door, address, key, tenant):
    """The library refuses these before it asks us: in words of its own, and
    with a head that it sends twice. What counts is what follows: the status,
    the end of the connection, and no trace."""
    content = body()
    for value in ("-1", "+5", "5, 6", "", "0x5", "5 5",
                  f"{len(content)}x", "18446744073709551621"):
        with connect(address) as sock:
            sock.sendall(head(key, f"Content-Length: {value}", last=False)
                         + content + whole(key, content))
            said = read_to_end(sock)
        status = 413 if len(value) > 9 else 400
        assert said.startswith(b"HTTP/1.1 %d " % status), (value, said)
        assert set(statuses(said)) == {status}, (value, said)
        assert b"Connection: close\r\n" in said
    for table in ("reservation", "action"):
        assert not door.sql(f"select 1 from {table} where tenant = %s",
                            (tenant,))
    assert not [record for record in door.kafka.read_all("actions")
                if record.key == tenant.encode()]


def test_odd_lengths_that_reach_us_get_a_problem(address, key):
    two = ("Content-Length: 5", "Content-Length: 6")
    for lines in (two, ("Content-Length: 99999999999",)):
        with connect(address) as sock:
            sock.sendall(head(key, *lines) + b"123456")
            said = read_to_end(sock)
        assert b"\r\nContent-Type: application/problem+json\r\n" in said
        assert statuses(said) == [400 if lines == two else 413]
    assert talk(address, head(key)) in ([400], [411])


def test_length_and_chunks_together_are_refused(address, key):
    both = ("Content-Length: 5", "Transfer-Encoding: chunked")
    assert talk(address, head(key, *both), b"0\r\n\r\n") == [400]
    odd = ("Transfer-Encoding: gzip, chunked",)
    assert talk(address, head(key, *odd), b"0\r\n\r\n") in ([400], [501])


def test_headers_have_a_limit(address, key):
    big = f"X-Big: {'x' * 40000}"
    said = talk(address, head(key, big, "Content-Length: 2"), b"{}")
    assert said in ([431], [])
    fine = body()
    most = head(key, f"X-Big: {'x' * 16000}", f"Content-Length: {len(fine)}")
    assert talk(address, most, fine) == [202]


def test_ing_14_expect(address, key):
    content = body(2048)
    with connect(address) as sock:
        sock.sendall(head(key, f"Content-Length: {len(content)}",
                          "Expect: 100-continue"))
        assert statuses(sock.recv(65536)) == [100]
        sock.sendall(content)
        assert statuses(read_all(sock)) == [202]
    large = ("Content-Length: 2097152", "Expect: 100-continue")
    assert talk(address, head(key, *large)) == [413]
    odd = (f"Content-Length: {len(content)}", "Expect: 200-ok")
    assert talk(address, head(key, *odd) + content) == [417]


def test_ing_15_slow_bodies_do_not_keep_others_out(door, key):
    """500 clients give a byte a second; the body's time is a whole one, so no
    byte starts it anew."""
    producer = door.add("producer", **{
        "http.max_connections_per_address": SLOW * 2})
    url = door.wait_ready(producer)
    port = int(url.rpartition(":")[2])
    api = Api(url, key)
    spent = []
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(("127.0.0.1", port)))
                for _ in range(SLOW)]
        for sock in slow:
            sock.sendall(head(key, "Content-Length: 1000", last=False) + b"{")
        wait_for(lambda: accepted(port) >= SLOW, "all are taken in")
        end = time.monotonic() + 10 * BODY_TIMEOUT_S
        alive = slow
        while alive:
            assert time.monotonic() < end, f"{len(alive)} go on and on"
            begin = time.monotonic()
            for _ in range(5):
                spent.append(post_timed(api))
            alive = [sock for sock in alive if drip(sock)]
            # Half a second a round, unless the machine is slower than that.
            time.sleep(max(0, begin + 0.5 - time.monotonic()))
        for sock in slow:
            assert statuses(read_to_end(sock)) in ([408], [])
        api.close()
        wait_for(lambda: not accepted(port), "no socket is left open")
    assert sorted(spent)[len(spent) // 2] < 0.5, spent


def post_timed(api):
    begin = time.monotonic()
    assert api.post(body()).status_code == 202
    return time.monotonic() - begin


def accepted(port):
    """How many connections a server's port has open, from the kernel."""
    rows = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(fields[1].endswith(f":{port:04X}") and fields[3] == ESTABLISHED
               for fields in (row.split() for row in rows))


def drip(sock):
    """One byte more; False once the server has answered or closed."""
    poll = select.poll()  # select() knows no descriptor above 1023
    poll.register(sock, select.POLLIN)
    if poll.poll(0):
        return False
    try:
        sock.send(b" ")
        return True
    except OSError:
        return False


def read_to_end(sock):
    try:
        return read_all(sock)
    except ConnectionError:
        return b""


def test_ing_18_pipelined_and_half_closed(door, address, key, tenant):
    three = (whole(key, body(), last=False) + whole(key, b"{", last=False)
             + whole(key, body()))
    said = talk(address, three)
    assert said in ([202, 400, 202], [202, 400])
    with connect(address) as sock:
        sock.sendall(whole(key, body(), last=False))
        sock.shutdown(socket.SHUT_WR)
        assert statuses(read_all(sock)) == [202]
    taken = said.count(202) + 1
    assert door.sql("select count(*) from reservation where tenant = %s",
                    (tenant,)) == [(taken,)]


def test_jsn_07_cut_off_json_in_small_segments(door, address, key):
    pid = door["producer-0"].pid
    for content in (b'{"a":1,', b'"\\', b'"\\u12', b'"\\uD800\\u', b'{"1":1,',
                    b"[1,", b"-", b'"'):
        pieces = [bytes([byte]) for byte in content]
        length = f"Content-Length: {len(content)}"
        assert talk(address, head(key, length), *pieces) == [400]
    assert door["producer-0"].pid == pid and door["producer-0"].is_running()


def test_connections_of_one_address_are_capped(door, address):
    url = door.url()
    held = []
    try:
        for _ in range(PER_ADDRESS):
            held.append(connect(address))
        wait_for(lambda: is_refused(address), "one more is refused")
    finally:
        for sock in held:
            sock.close()
    wait_for(lambda: not is_refused(address), "there is room again")
    assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200


def is_refused(address):
    """Whether a new connection ends without an answer."""
    try:
        with connect(address) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            return sock.recv(1) == b""
    except ConnectionError:
        return True
