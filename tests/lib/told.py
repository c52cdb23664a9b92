# SPDX-License-Identifier: Apache-2.0
"""What programs tell to those who look at them, to be searched for secrets."""

import base64
import pathlib

import httpx

from .fleet import listening_ports
from .programs import descendants


def forms(secret):
    """A secret's bytes as they are, in base64 and in hexadecimal."""
    raw = secret.encode()
    return {raw, base64.b64encode(raw).rstrip(b"=")[:-1], raw.hex().encode()}


def processes(fleet):
    """Arguments and environment of a fleet's processes and their children."""
    for program in fleet.programs.values():
        for pid in [program.pid, *descendants(program.pid)]:
            for name in ("cmdline", "environ"):
                path = pathlib.Path(f"/proc/{pid}/{name}")
                try:
                    yield f"{program.name} {path}", path.read_bytes()
                except OSError:
                    continue  # it has ended meanwhile


def pages(fleet):
    """What each program serves about itself."""
    for program in fleet.programs.values():
        for port in listening_ports(program.pid):
            for name in ("healthz", "readyz", "metrics"):
                text = httpx.get(f"http://127.0.0.1:{port}/{name}",
                                 timeout=60).content
                yield f"{program.name} /{name}", text


def logs(folders):
    """Every log in the folders; those below are Kafka's data."""
    for folder in folders:
        for path in pathlib.Path(folder).glob("*.log"):
            yield str(path), path.read_bytes()


def leaks(places, secrets):
    """[(name of the secret, where it was found)]"""
    return [(name, where) for where, text in places
            for name, secret in secrets.items()
            if any(form in text for form in forms(secret))]
