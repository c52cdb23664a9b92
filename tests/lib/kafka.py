# SPDX-License-Identifier: Apache-2.0
"""Kafka seen from outside: raw producing, committed reading from the start."""

import json
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from .wait import wait_for


class Record:
    """One consumed record, nothing decoded."""

    def __init__(self, message):
        self.topic = message.topic()
        self.partition = message.partition()
        self.offset = message.offset()
        self.key = message.key()
        self.value = message.value()
        self.headers = message.headers() or []

    def header(self, name):
        """The last value of a header as text, or None."""
        values = [value for key, value in self.headers if key == name]
        return values[-1].decode() if values else None

    def json(self):
        return json.loads(self.value)

    def __repr__(self):
        return (f"<{self.topic}/{self.partition}@{self.offset} "
                f"key={self.key!r} {self.value!r}>")


class KafkaView:
    """Topics of one prefix on one cluster."""

    def __init__(self, settings, prefix):
        self.settings = {**settings, "broker.address.family": "v4",
                         "reconnect.backoff.max.ms": 500, "log_level": 2}
        self.prefix = prefix
        self._producer = None

    def publish(self, value, key=None, headers=None, topic="actions",
                partition=None):
        """Produces raw bytes and waits for the broker; returns the message."""
        return self.publish_all([(key, value, headers)], topic, partition)[0]

    def publish_all(self, records, topic="actions", partition=None):
        """records: (key, value, headers) each; returns delivered messages."""
        if self._producer is None:
            self._producer = Producer({**self.settings, "linger.ms": 2,
                                       "partitioner": "murmur2_random",
                                       "message.max.bytes": 2 << 20,
                                       "enable.idempotence": True})
        failed = []
        done = []

        def report(err, message):
            (failed if err else done).append(err or message)

        where = {} if partition is None else {"partition": partition}
        for key, value, headers in records:
            self._producer.produce(self.prefix + topic, value=value, key=key,
                                   headers=headers or [], on_delivery=report,
                                   **where)
            self._producer.poll(0)
        self._producer.flush(60)
        assert not failed, failed
        assert len(done) == len(records), "the broker did not answer"
        return done

    def create_topic(self, topic):
        """A topic of one partition beside those of the fleet."""
        name = self.prefix + topic
        admin = AdminClient(self.settings)
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        wait_for(lambda: name in admin.list_topics(timeout=10).topics,
                 f"the broker knows {name}")

    def read_all(self, topic="outcomes", committed=True):
        """Every record from offset 0 to the end as it was on entry.

        With committed the end is the last stable offset, as any
        read_committed reader sees it.
        """
        consumer = Consumer({
            **self.settings, "group.id": f"look-{uuid.uuid4()}",
            "enable.auto.commit": False, "enable.partition.eof": True,
            "auto.offset.reset": "error", "fetch.wait.max.ms": 20,
            "isolation.level":
                "read_committed" if committed else "read_uncommitted"})
        try:
            return _drain(consumer, self.prefix + topic)
        finally:
            consumer.close()

    def wait_for_records(self, count, topic="outcomes", deadline=60,
                         where=lambda record: True):
        """Waits until at least `count` records match; returns all that do."""
        return wait_for(
            lambda: _enough([record for record in self.read_all(topic)
                             if where(record)], count),
            f"{count} records on {self.prefix}{topic}", deadline, every=0.2)

    def committed_offsets(self, group, topic="actions"):
        """{partition: offset} of a group, -1001 where it has none."""
        consumer = Consumer({**self.settings, "group.id": group,
                             "enable.auto.commit": False})
        try:
            name = self.prefix + topic
            count = len(consumer.list_topics(name, 30).topics[name].partitions)
            found = consumer.committed(
                [TopicPartition(name, n) for n in range(count)], 30)
            return {part.partition: part.offset for part in found}
        finally:
            consumer.close()


def _enough(records, count):
    return records if len(records) >= count else None


def _drain(consumer, name):
    count = len(consumer.list_topics(name, 30).topics[name].partitions)
    assert count, f"topic {name} does not exist"
    consumer.assign([TopicPartition(name, n, 0) for n in range(count)])
    records = []
    ended = set()

    def step():
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                records.append(Record(message))
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
            else:
                raise AssertionError(f"{name}: {message.error()}")
        return len(ended) == count

    wait_for(step, f"the end of {name}", deadline=60, every=0)
    return records
