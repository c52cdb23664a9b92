# SPDX-License-Identifier: Apache-2.0
"""HTTP over a bare socket, for what no client library would send or bear."""

import socket

TIMEOUT_S = 60


def connect(double):
    return socket.create_connection(
        (double.host, double.port), timeout=TIMEOUT_S
    )


def request_bytes(path, body=b"", headers=""):
    """A POST; `headers` are whole lines."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read_all(sock):
    """What comes until the other side closes."""
    received = b""
    while True:
        part = sock.recv(65536)
        if not part:
            return received
        received += part


def read_exactly(sock, count):
    received = b""
    while len(received) < count:
        part = sock.recv(count - len(received))
        assert part, "closed too early"
        received += part
    return received
