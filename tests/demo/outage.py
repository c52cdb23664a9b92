# SPDX-License-Identifier: Apache-2.0
"""An outage at the provider that exhausts 500 actions, and one replay that
finishes them, each under the key that it had."""

import json
import uuid

from confluent_kafka import Consumer, TopicPartition

COUNT = 500
TENANT = "initech"
CONNECTOR = "outage"
TRIES = 2
DOWN = {"status": 503, "headers": [["Retry-After", "0"]], "times": TRIES}
OUTCOMES_S = 90


class Outage:
    """The scene, and what outsiders saw of it."""

    def __init__(self, fleet, say):
        self.fleet = fleet
        self.say = say
        self.run = uuid.uuid4().hex[:6]
        self.keys = [f"outage-{self.run}-{n + 1}" for n in range(COUNT)]
        self.ended = {}   # key: its first outcome
        self.again = []   # outcomes of replays
        self.replay = {}  # what the command said
        self.repeat = {}

    def play(self):
        self._add_connector()
        self._publish()
        self.say(f"the provider is down: {COUNT} actions try {TRIES} times "
                 "each and give up")
        with _Outcomes(self.fleet) as outcomes:
            outcomes.read_until(self._take, lambda: len(self.ended) == COUNT)
            self.say("the provider is back: actionist replay --status "
                     f"exhausted --connector {CONNECTOR}")
            self.replay = self._replay()
            self.say("once more, since nobody remembers whether it was done")
            self.repeat = self._replay()
            outcomes.read_until(self._take,
                                lambda: len(self.again) >= COUNT)

    def _add_connector(self):
        manifest = {
            "manifest": 1, "name": CONNECTOR, "version": "1.0.0",
            "base_url": self.fleet.double.url,
            "retry": {"max_attempts": TRIES, "base_ms": 50, "max_ms": 100},
            "actions": {"charge": {
                "idempotency": "keyed", "timeout_ms": 10000,
                "key": {"header": "Idempotency-Key", "retention_s": 86400},
                "request": {"method": "POST",
                            "path": "/outage/{{action.key}}",
                            "json": "{{payload}}"}}}}
        path = self.fleet.dir / "outage.json"
        path.write_text(json.dumps(manifest))
        self.fleet.ctl("connector", "add", path)
        self.fleet.double.scripts([{
            "path": "/outage/*", "method": "POST", "steps": [DOWN, {}],
            "dedup_header": "Idempotency-Key"}])

    def _publish(self):
        path = self.fleet.dir / "outage.ndjson"
        path.write_text("".join(json.dumps({
            "spec": "actionist/1", "tenant": TENANT, "connector": CONNECTOR,
            "action": "charge", "idempotency_key": key,
            "payload": {"order": key}}) + "\n" for key in self.keys))
        self.fleet.ctl("publish", path)

    def _replay(self):
        return json.loads(self.fleet.ctl(
            "replay", "--tenant", TENANT, "--status", "exhausted",
            "--connector", CONNECTOR, "--reason", "demo", "--json"))

    def _take(self, outcome):
        if outcome.get("connector") != CONNECTOR:
            return
        if outcome["replay_of"] is None:
            self.ended[outcome["idempotency_key"]] = outcome
        else:
            self.again.append(outcome)

    # -- the verdict -----------------------------------------------------------

    def checks(self):
        yield "the outage exhausted all of them", self._is_exhausted()
        yield "one replay finished all of them", self._is_finished()
        yield ("each replay points back, and has an outcome of its own",
               self._points_back())
        yield ("the provider did each once, by the key it knew",
               self._is_done_once())
        yield "a second replay found nothing to do", self._is_idle()

    def _is_exhausted(self):
        statuses = {out["status"] for out in self.ended.values()}
        return set(self.ended) == set(self.keys) and statuses == {"exhausted"}

    def _is_finished(self):
        return (self.replay["replayed"] == COUNT and self.replay["outcomes"]
                == {"total": COUNT, "succeeded": COUNT})

    def _points_back(self):
        return (len(self.again) == COUNT
                and {out["replay_of"] for out in self.again}
                == {out["id"] for out in self.ended.values()}
                and not {out["id"] for out in self.again}
                & {out["id"] for out in self.ended.values()})

    def _is_done_once(self):
        seen = {}
        for effect in self.fleet.double.effects("/outage/*"):
            seen.setdefault(effect["path"], []).append(
                (effect["key"], effect["applied"]))
        return seen == {f"/outage/{key}": [(out["id"], 1)]
                        for key, out in self.ended.items()}

    def _is_idle(self):
        return (self.repeat["replayed"] == 0 and self.repeat["skipped"]
                == {"total": COUNT, "succeeded": COUNT})


class _Outcomes:
    """The outcomes topic from its start, as anybody reads it."""

    def __init__(self, fleet):
        name = fleet.info["topics_prefix"] + "outcomes"
        self.consumer = Consumer({
            "bootstrap.servers": fleet.info["kafka"],
            "group.id": f"outage-{uuid.uuid4()}", "enable.auto.commit": False,
            "isolation.level": "read_committed", "fetch.wait.max.ms": 20,
            "auto.offset.reset": "error", "log_level": 2})
        parts = self.consumer.list_topics(name, 30).topics[name].partitions
        self.consumer.assign([TopicPartition(name, part, 0)
                              for part in parts])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.consumer.close()

    def read_until(self, take, is_done):
        """For some time at most: the verdict says what is missing."""
        left = int(OUTCOMES_S / 0.1)
        while not is_done() and left > 0:
            left -= 1
            for message in self.consumer.consume(200, 0.1):
                if message.error() is None:
                    take(json.loads(message.value()))


def play_outage(fleet, say):
    """The scene and its verdict; True if it is met."""
    print("\nsecond scene: an outage and a replay", flush=True)
    scene = Outage(fleet, say)
    scene.play()
    passed = failed = 0
    for what, is_met in scene.checks():
        passed += is_met
        failed += not is_met
        print(f"{'PASS' if is_met else 'FAIL'}  {what}")
    print(f"\n{passed} passed, {failed} failed", flush=True)
    return failed == 0
