# SPDX-License-Identifier: Apache-2.0
"""The second scene: two senders of webhooks that do what senders do. Each
delivery is signed, forged once, repeated, and repeated again by a sender that
got no answer since the producer was killed; each is one action."""

import dataclasses
import json
import time
import uuid

import httpx

from fleet import DemoError
from lib import hooks as senders
from plan import CONNECTOR

TENANT = "hooli"  # has no API key: its senders sign
TAKEN_S = 30
SECRETS = {"github": "what-github-was-told", "stripe": "whsec_of_the_demo"}


@dataclasses.dataclass
class Kind:
    """What the watcher shows of an outcome."""

    name: str


@dataclasses.dataclass
class Delivery:
    """One event of a sender and, later, what was seen of it."""

    scheme: str
    action: str
    area: str
    sender_id: str
    body: bytes
    kind: Kind
    tenant: str = TENANT
    door: str = "hook"
    answers: list = dataclasses.field(default_factory=list)  # status, word
    ids: set = dataclasses.field(default_factory=set)
    outcomes: list = dataclasses.field(default_factory=list)

    @property
    def key(self):
        """Of its action."""
        return f"webhook:{self.scheme}:{self.sender_id}"

    @property
    def path(self):
        """Where the provider sees its action; its alone."""
        return f"/{self.area}/{self.kind.name}/{self.sender_id}"

    def headers(self, secret):
        """As its sender signs it, or somebody who has another secret."""
        if self.scheme == "github":
            return {**senders.github(secret, self.body, self.sender_id),
                    "X-GitHub-Event": "push"}
        return senders.stripe(secret, self.body)


def make_deliveries():
    """A push, which starts an `unsafe` action, and a paid invoice."""
    run = uuid.uuid4().hex[:8]
    event = {"id": f"evt_{run}", "type": "invoice.paid",
             "data": {"object": {"amount": "12.50"}}}
    return [
        Delivery("github", "payout.send", "payouts", f"d-{run}",
                 b'{"ref": "refs/heads/main", "amount": "7.00"}',
                 Kind("github")),
        Delivery("stripe", "charge.create", "charges", event["id"],
                 json.dumps(event).encode(), Kind("stripe"))]


MAPPINGS = {
    "github": {"connector": CONNECTOR, "action": "payout.send",
               "types": ["push"],
               "payload": {"kind": "{{webhook.source}}",
                           "order": "{{webhook.sender_id}}",
                           "amount": "{{body.amount}}"}},
    "stripe": {"connector": CONNECTOR, "action": "charge.create",
               "types": ["invoice.*"],
               "payload": {"kind": "{{webhook.source}}",
                           "order": "{{body.id}}",
                           "amount": "{{body.data.object.amount}}"}},
}


def add_sources(fleet):
    """Who may deliver, and which action that becomes."""
    for scheme, secret in SECRETS.items():
        mapping = fleet.dir / f"{scheme}.json"
        mapping.write_text(json.dumps(MAPPINGS[scheme]))
        path = fleet.dir / f"{scheme}.secret"
        path.touch(mode=0o600)
        path.write_text(secret)
        fleet.ctl("webhook", "source", "add", scheme, "--tenant", TENANT,
                  "--scheme", scheme, "--secret-file", path, "--map", mapping)


class Senders:
    """Post deliveries; keep what was answered in them."""

    def __init__(self, fleet):
        self.fleet = fleet

    def post(self, delivery, secret=None):
        """Once; no answer is an answer too."""
        url = f"{self.fleet.url()}/hooks/{TENANT}/{delivery.scheme}"
        try:
            answer = httpx.post(
                url, content=delivery.body, timeout=30, trust_env=False,
                headers={"Content-Type": "application/json", **(
                    delivery.headers(secret or SECRETS[delivery.scheme]))})
        except httpx.TransportError:
            delivery.answers.append((None, "no answer"))
            return False
        word = answer.headers.get("actionist-webhook-status", "refused")
        delivery.answers.append((answer.status_code, word))
        if answer.status_code == 200:
            delivery.ids.add(answer.headers["actionist-webhook-id"])
        return answer.status_code == 200

    def post_until_taken(self, delivery):
        """A sender repeats what was not answered with 2xx."""
        end = time.monotonic() + TAKEN_S
        while not self.post(delivery):
            if time.monotonic() > end:
                raise DemoError(f"{delivery.scheme}: {delivery.answers[-1]}")
            time.sleep(0.1)


def play_webhooks(run):
    """All of the scene up to the last outcome."""
    watcher = run.watcher
    add_sources(run.fleet)
    post = Senders(run.fleet)
    for delivery in run.deliveries:
        watcher.by_key[delivery.tenant, delivery.key] = delivery
        post.post_until_taken(delivery)
        post.post(delivery, "a-guess")
        post.post(delivery)
    watcher.say("two webhooks taken, each forged once and repeated once")
    run.fleet.kill_producer()
    for delivery in run.deliveries:
        post.post(delivery)
    watcher.say("kill -9 of the producer; the senders get no answer")
    run.fleet.up()
    for delivery in run.deliveries:
        post.post_until_taken(delivery)
    watcher.say("a new producer is up; the senders have repeated theirs")
