# SPDX-License-Identifier: Apache-2.0
"""Watching the outcomes topic as any read_committed consumer sees it."""

import json
import time
import uuid

from confluent_kafka import Consumer, TopicPartition


class Watcher:
    """Reads every outcome from the beginning and shows it as it comes."""

    def __init__(self, fleet, actions):
        self.started = time.monotonic()
        self.by_key = {(action.tenant, action.key): action
                       for action in actions}
        self.strangers = []  # outcomes nobody asked for
        name = fleet.info["topics_prefix"] + "outcomes"
        self.consumer = Consumer({
            "bootstrap.servers": fleet.info["kafka"],
            "group.id": f"demo-{uuid.uuid4()}", "enable.auto.commit": False,
            "isolation.level": "read_committed", "fetch.wait.max.ms": 20,
            "auto.offset.reset": "error", "log_level": 2})
        parts = self.consumer.list_topics(name, 30).topics[name].partitions
        self.consumer.assign([TopicPartition(name, part, 0)
                              for part in parts])

    def close(self):
        self.consumer.close()

    def say(self, text):
        """One line with the time since the start."""
        print(f"{time.monotonic() - self.started:6.1f} s  {text}", flush=True)

    def poll(self, seconds=0.1):
        """Takes what has come."""
        for message in self.consumer.consume(100, seconds):
            if message.error() is None:
                self._take(json.loads(message.value()))

    def wait(self, is_done, seconds):
        """Polls until is_done(); False when the time is over."""
        end = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > end:
                return False
            self.poll()
        return True

    def _take(self, outcome):
        action = self.by_key.get((outcome["tenant"],
                                  outcome["idempotency_key"]))
        if action is None:
            self.strangers.append(outcome)
            self.say(f"an outcome that nobody asked for: {outcome['id']}")
            return
        action.outcomes.append(outcome)
        code = (outcome.get("error") or {}).get("code", "")
        self.say(f"{action.tenant:8} {action.door:6} {action.kind.name:11}"
                 f"{outcome['status']:14}{outcome['attempts']:2} calls  "
                 f"{code}")
