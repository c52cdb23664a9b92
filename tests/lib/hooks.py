# SPDX-License-Identifier: Apache-2.0
"""Webhooks as their senders send them, and what was captured of them."""

import base64
import hashlib
import hmac
import secrets
import subprocess
import time

import httpx

TIMEOUT_S = 60
FORM = "application/x-www-form-urlencoded"


def make_master_key(folder):
    """A file of master keys, as an operator makes it."""
    path = folder / "master.key"
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    path.touch(mode=0o600)
    path.write_text(f"1:{key}\n")
    return path


def now():
    return int(time.time())


def mac(secret, message, algorithm="sha256"):
    key = secret if isinstance(secret, bytes) else secret.encode()
    return hmac.new(key, message, getattr(hashlib, algorithm))


def mac64(secret, message, algorithm="sha256"):
    return base64.b64encode(mac(secret, message, algorithm).digest()).decode()


# -- the senders -------------------------------------------------------------


def stripe(secret, body, at=None):
    at = at or now()
    digest = mac(secret, f"{at}.".encode() + body).hexdigest()
    return {"Stripe-Signature": f"t={at},v1={digest}"}


def github(secret, body, delivery=None):
    headers = {"X-Hub-Signature-256":
               "sha256=" + mac(secret, body).hexdigest()}
    if delivery is not None:
        headers["X-GitHub-Delivery"] = delivery
    return headers


def slack(secret, body, at=None, content_type="application/json"):
    at = at or now()
    digest = mac(secret, f"v0:{at}:".encode() + body).hexdigest()
    return {"X-Slack-Request-Timestamp": str(at),
            "X-Slack-Signature": f"v0={digest}",
            "Content-Type": content_type}


def zoom(secret, body, at=None):
    at = at or now()
    digest = mac(secret, f"v0:{at}:".encode() + body).hexdigest()
    return {"x-zm-request-timestamp": str(at), "x-zm-signature": f"v0={digest}"}


def twitch(secret, body, message_id, kind="notification"):
    at = time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime())
    digest = mac(secret, message_id.encode() + at.encode() + body).hexdigest()
    return {"Twitch-Eventsub-Message-Id": message_id,
            "Twitch-Eventsub-Message-Timestamp": at,
            "Twitch-Eventsub-Message-Type": kind,
            "Twitch-Eventsub-Message-Signature": f"sha256={digest}"}


def paddle(secret, body, at=None):
    at = at or now()
    digest = mac(secret, f"{at}:".encode() + body).hexdigest()
    return {"Paddle-Signature": f"ts={at};h1={digest}"}


def hubspot(secret, body, url):
    at = str(now() * 1000)
    return {"X-HubSpot-Request-Timestamp": at,
            "X-HubSpot-Signature-v3":
                mac64(secret, b"POST" + url.encode() + body + at.encode())}


def standard(secret, body, message_id, at=None, prefix="webhook"):
    at = at or now()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{at}.".encode() + body
    return {f"{prefix}-id": message_id, f"{prefix}-timestamp": str(at),
            f"{prefix}-signature": "v1," + mac64(key, signed)}


class Ed25519:
    """A key pair, and signatures by the openssl command."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "ed25519.pem"
        self._openssl("genpkey", "-algorithm", "ed25519", "-out", self.path)
        der = self._openssl("pkey", "-in", self.path, "-pubout",
                            "-outform", "DER")
        self.public = der[-32:]

    @staticmethod
    def _openssl(*words):
        return subprocess.run(["openssl", *map(str, words)], check=True,
                              capture_output=True, timeout=60).stdout

    def sign(self, message):
        path = self.folder / "message"
        path.write_bytes(message)
        return self._openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.path,
                             "-in", path)

    def discord(self, body):
        at = str(now())
        return {"X-Signature-Timestamp": at,
                "X-Signature-Ed25519": self.sign(at.encode() + body).hex()}


# -- our side -----------------------------------------------------------------


class Hooks:
    """The sources of one tenant on one fleet."""

    def __init__(self, fleet, master_key, tenant):
        self.fleet = fleet
        self.tenant = tenant
        self.key_option = ("--set", f"webhooks.master_key_file={master_key}")
        self.clients = {}

    def client(self, producer):
        if producer not in self.clients:
            self.clients[producer] = httpx.Client(
                base_url=self.fleet.url(producer), timeout=TIMEOUT_S,
                verify=False)
        return self.clients[producer]

    def close(self):
        for client in self.clients.values():
            client.close()

    def ctl(self, verb, source, *words, secret=None, check=True):
        """`actionist webhook source VERB`, the secret on standard input."""
        given = () if secret is None else ("--secret-file", "-")
        return self.fleet.ctl("webhook", "source", verb, source, "--tenant",
                              self.tenant, *given, *words, *self.key_option,
                              check=check, stdin=secret)

    def add(self, source, scheme, secret, *words):
        """With the longest time to answer: a busy machine is no failure."""
        self.ctl("add", source, "--scheme", scheme, "--answer-ms", "8000",
                 *words, secret=secret)
        return source

    def post(self, source, body, headers, producer="producer-0"):
        return self.client(producer).post(
            f"/hooks/{self.tenant}/{source}", content=body, headers={
                "Content-Type": "application/json", **headers})

    def get(self, source, query, producer="producer-0"):
        return self.client(producer).get(
            f"/hooks/{self.tenant}/{source}", params=query)

    def captured(self, source=None):
        """Documents on the topic, oldest first, with `raw` the body's bytes."""
        found = []
        for record in self.fleet.kafka.read_all("webhooks"):
            if record.key == self.tenant.encode():
                document = record.json()
                if source in (None, document["source"]):
                    raw = base64.b64decode(document["body"], validate=True)
                    found.append({**document, "raw": raw})
        return sorted(found, key=lambda document: document["received_at"])

    def verdicts(self, source=None):
        return [document["verdict"] for document in self.captured(source)]
