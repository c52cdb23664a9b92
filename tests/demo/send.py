# SPDX-License-Identifier: Apache-2.0
"""Sending through both doors: HTTP with an API key, and Kafka itself."""

import json
import time

import httpx
from confluent_kafka import Producer

from fleet import DemoError
from plan import set_times

READY_S = 30


class Sender:
    """Sends actions; keeps what the doors answered in them."""

    def __init__(self, fleet):
        self.keys = fleet.info["keys"]
        self.url = fleet.url() + "/v1/actions"
        self.topic = fleet.info["topics_prefix"] + "actions"
        self.http = httpx.Client(timeout=30, trust_env=False)
        self.kafka = Producer({
            "bootstrap.servers": fleet.info["kafka"], "linger.ms": 2,
            "enable.idempotence": True, "partitioner": "murmur2_random",
            "log_level": 2})
        self.failed = []

    def send(self, action):
        """The first sending."""
        set_times(action)
        if action.door == "kafka":
            self._produce(action.request)
            return
        answer = self._post(action, action.request)
        if answer.status_code != 202:
            raise DemoError(f"{action.key}: {answer.status_code} "
                            f"{answer.text}")
        action.id = answer.json()["id"]

    def send_again(self, action):
        """The second sending of a repeat or conflict."""
        request = action.other_request()
        if action.door == "kafka":
            self._produce(request)
            return
        answer = self._post(action, request)
        action.again_status = answer.status_code
        action.again_id = answer.json().get("id")

    def flush(self):
        """Waits for Kafka's word on every record."""
        self.kafka.flush(30)
        if self.failed:
            raise DemoError(f"Kafka: {self.failed[0]}")

    def wait_for_connector(self, action):
        """The producer learns of a new connector by a signal, soon after."""
        end = time.monotonic() + READY_S
        probe = {**action.request, "payload": {}}
        while time.monotonic() < end:
            answer = self._post(action, probe)
            # Known from now on: it is the payload that is refused.
            if answer.json().get("pointer", "").startswith("/payload"):
                return
            time.sleep(0.05)
        raise DemoError(f"the producer does not know the connector: "
                        f"{answer.status_code} {answer.text}")

    def _post(self, action, request):
        return self.http.post(
            self.url, json=request, headers={
                "Authorization": f"Bearer {self.keys[action.tenant]}"})

    def _produce(self, request):
        def report(err, _):
            if err:
                self.failed.append(err)

        self.kafka.produce(self.topic, json.dumps(request),
                           key=request["tenant"], on_delivery=report)
        self.kafka.poll(0)
