# SPDX-License-Identifier: Apache-2.0
"""Actions of all three classes of effect, to be in flight when a fault comes."""

import json
import uuid

from .wait import wait_for

EFFECTS = ("natural", "keyed", "unsafe")
CONNECTOR = "load"


def manifest(double):
    """One action a class; each payload has a path of its own."""
    def action(effect):
        made = {"idempotency": effect, "timeout_ms": 60000,
                "request": {"method": "POST",
                            "path": f"/{effect}/{{{{payload.run}}}}/"
                                    "{{payload.key}}",
                            "json": "{{payload}}"}}
        if effect == "keyed":
            made["key"] = {"header": "Idempotency-Key", "retention_s": 86400}
        return made

    return {"manifest": 1, "name": CONNECTOR, "version": "1.0.0",
            "base_url": double.url, "egress": [double.address],
            "retry": {"max_attempts": 50, "base_ms": 200, "max_ms": 1000},
            "actions": {effect: action(effect) for effect in EFFECTS}}


def make_house(fleets, double, settings=None, **counts):
    """A fleet that may call the double and knows the connector."""
    settings = dict(settings or {})
    settings["worker"] = {"egress.private_allow": double.address,
                          **settings.get("worker", {})}
    made = fleets(settings=settings, **counts)
    made.ctl("connector", "add", "-", "--json",
             stdin=json.dumps(manifest(double)))
    return made


class Load:
    """Requests of one run. They are told apart by their idempotency keys."""

    def __init__(self, house, double, tenants=None):
        self.house = house
        self.double = double
        self.run = uuid.uuid4().hex[:12]
        self.tenants = tenants or [f"t-{self.run}-{n}" for n in range(3)]
        self.requests = {}  # idempotency key: request
        self.refusals = 0   # how often the provider may have refused each

    def script(self, *steps, effects=EFFECTS):
        """What the provider plays on each path of the run."""
        self.double.scripts([{
            "path": f"/{effect}/{self.run}/*", "steps": list(steps),
            **({"dedup_header": "Idempotency-Key"}
               if effect == "keyed" else {})} for effect in effects])

    def refuse_once(self):
        """From now on each is told to come again once, then served."""
        self.refusals = 1
        self.script({"status": 503, "headers": [["Retry-After", "1"]]},
                    {"delay_ms": 50})

    def make(self, count, effects=EFFECTS):
        """New requests, tenants and classes taking turns."""
        made = []
        for _ in range(count):
            number = len(self.requests)
            key = f"{self.run}-{number}"
            request = {
                "spec": "actionist/1",
                "tenant": self.tenants[number % len(self.tenants)],
                "connector": CONNECTOR,
                "action": effects[number // len(self.tenants) % len(effects)],
                "idempotency_key": key,
                "payload": {"run": self.run, "key": key}}
            self.requests[key] = request
            made.append(request)
        return made

    def publish(self, count, effects=EFFECTS):
        """Spreads them over all partitions, so that all workers have some."""
        made = self.make(count, effects)
        partitions = self.house.partitions
        for number in range(partitions):
            part = [(request["tenant"], json.dumps(request), None)
                    for request in made[number::partitions]]
            if part:
                self.house.kafka.publish_all(part, partition=number)
        return made

    # -- what the provider saw -------------------------------------------------

    def path(self, request):
        return f"/{request['action']}/{self.run}/{request['idempotency_key']}"

    def effects(self):
        """{path: [effect, ...]}, one effect for each outbound key."""
        found = {}
        for effect in EFFECTS:
            for one in self.double.effects(f"/{effect}/{self.run}/*"):
                found.setdefault(one["path"], []).append(one)
        return found

    def called(self):
        """How many of the requests the provider has seen."""
        return len(self.effects())

    def wait_called(self, count, deadline=60):
        wait_for(lambda: self.called() >= count,
                 f"{count} requests at the provider", deadline)

    def calls(self, request):
        return sum(one["calls"]
                   for one in self.effects().get(self.path(request), []))

    # -- how it ended ------------------------------------------------------------

    def outcomes(self):
        """{idempotency key: [outcome, ...]} as a committed reader sees it."""
        found = {}
        for record in self.house.kafka.read_all():
            if record.key and record.key.decode() in self.tenants:
                out = record.json()
                found.setdefault(out["idempotency_key"], []).append(out)
        return found

    def wait_done(self, deadline=90):
        """Waits until each request has an outcome; returns them by key."""
        def probe():
            done = self.house.sql(
                "select count(*) from outcome where tenant = any (%s)",
                (self.tenants,))[0][0]
            if done < len(self.requests):
                return None
            found = self.outcomes()
            return found if set(self.requests) <= set(found) else None

        return wait_for(probe, f"outcomes of {len(self.requests)} requests",
                        deadline, every=0.2)
