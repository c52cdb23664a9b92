# SPDX-License-Identifier: Apache-2.0
"""The provider double as an object: starts it, scripts it, asks it.

Only the standard library, so that the demo can use it too. The members of a
script, an effect and a request are described in tests/double/README.md.
"""

import base64
import http.client
import json
import os
import pathlib
import subprocess
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 60


def binary():
    """The program; PROVIDER_DOUBLE names another build of it."""
    default = ROOT / "build" / "release" / "bin" / "provider-double"
    return os.environ.get("PROVIDER_DOUBLE", str(default))


class DoubleError(Exception):
    """The control API refused; the text names the member and the rule."""


class Double:
    """One running provider double. Also a context manager."""

    def __init__(self, log=None, script_file=None, port=0):
        self.command = [binary(), "--port", str(port)]
        if log is not None:
            self.command += ["--log", str(log)]
        if script_file is not None:
            self.command += ["--script", str(script_file)]
        self.process = None
        self.host = "127.0.0.1"
        self.port = 0

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening "):
            self.stop()
            raise DoubleError(f"{self.command[0]} did not start")
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def stop(self):
        """Ends the process; returns its exit code."""
        if self.process is None:
            return None
        self.process.terminate()
        code = self.process.wait(timeout=TIMEOUT_S)
        self.process.stdout.close()
        self.process = None
        return code

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    @property
    def address(self):
        """As `egress` and `egress.private_allow` name it."""
        return f"{self.host}:{self.port}"

    def control(self, verb, name, body=None, **query):
        """One call to /_control/NAME; the answer's JSON."""
        query = {k: v for k, v in query.items() if v is not None}
        target = f"/_control/{name}?{urllib.parse.urlencode(query)}"
        connection = http.client.HTTPConnection(
            self.host, self.port, timeout=TIMEOUT_S
        )
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(verb, target, payload)
            answer = connection.getresponse()
            result = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise DoubleError(result.get("error", str(result)))
        return result

    def script(self, path, *steps, **options):
        """Plays `steps` (dicts) on a path; options are the script's other
        members: method, per, repeat, dedup_header, key_header."""
        steps = list(steps) if steps else [{}]
        return self.scripts([{"path": path, "steps": steps, **options}])

    def scripts(self, scripts):
        return self.control("PUT", "script", scripts)["scripts"]

    def unscript(self, path=None, method=None):
        self.control("DELETE", "script", path=path, method=method)

    def reset(self):
        """Forgets scripts, effects, requests and counts."""
        self.control("DELETE", "reset")

    def _all(self, name, **query):
        after = 0
        while True:
            page = self.control("GET", name, after=after, **query)
            yield from page[name]
            if not page["more"]:
                return
            after = page["last"]

    def effects(self, path=None, key=None):
        """A list of effects in the order of their first call; `path` may
        end in `*`."""
        return list(self._all("effects", path=path, key=key, limit=10000))

    def effect(self, path, key=""):
        """The effect of one path and key; all zero when never called."""
        found = self.effects(path, key)
        none = {"calls": 0, "applied": 0, "replays": 0, "mismatches": 0}
        return found[0] if found else {"path": path, "key": key, **none}

    def applied(self, path, key=""):
        return self.effect(path, key)["applied"]

    def calls(self, path, key=""):
        return self.effect(path, key)["calls"]

    def requests(self, path=None, key=None):
        """The requests in order of arrival, head and body as bytes, and
        `headers` as a list of (lower-case name, value)."""
        found = []
        for item in self._all("requests", path=path, key=key, limit=1000):
            item["head"] = base64.b64decode(item["head"])
            item["body"] = base64.b64decode(item["body"])
            item["headers"] = _headers(item["head"])
            found.append(item)
        return found

    def stats(self):
        return self.control("GET", "stats")


def _headers(head):
    pairs = []
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            pairs.append((name.lower(), value.strip()))
    return pairs
