# SPDX-License-Identifier: Apache-2.0
"""Apache Kafka nodes in KRaft mode, each broker and controller in one."""

import base64
import fcntl
import os
import pathlib
import secrets
import shutil
import signal
import subprocess

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from . import process
from .process import ClusterError, wait_for

CACHE = pathlib.Path(__file__).resolve().parents[3] / "build" / "kafka"
LIBS = CACHE / "libs"
ARCHIVE = CACHE / "kafka.jsa"
FORMATTED = CACHE / "formatted"
JVM = ["java", "-Xms384m", "-Xmx384m", "-XX:+UseSerialGC",
       "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
USER = "actionist"

# name, partitions (None: as the cluster says), topic settings
TOPICS = (
    ("actions", None, {"max.message.bytes": "2097152"}),
    ("outcomes", None, {"max.message.bytes": "2097152",
                        "cleanup.policy": "delete",
                        "message.timestamp.type": "LogAppendTime"}),
    ("webhooks", None, {"max.message.bytes": "2097152"}),
    ("dispatch", None, {}),
    ("rejects", None, {"max.message.bytes": "2097152"}),
    ("control", 1, {"retention.ms": "86400000"}),
)

SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:PLAINTEXT
inter.broker.listener.name={protocol}
log.dirs={logs}
auto.create.topics.enable=false
message.max.bytes=2097152
replica.fetch.max.bytes=2097152
default.replication.factor={copies}
min.insync.replicas={in_sync}
offsets.topic.num.partitions=4
offsets.topic.replication.factor={copies}
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
log.segment.bytes=67108864
num.network.threads=2
num.io.threads=4
"""

TLS_SETTINGS = """\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
"""

JAAS = ("org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="{user}" password="{password}" user_{user}="{password}";')


def _class_path():
    if not LIBS.is_dir() or shutil.which("java") is None:
        raise ClusterError("Kafka is missing: run deploy/dev/install")
    return f"{LIBS}/*"


def warm():
    """Formats one empty log folder and archives the broker's classes, once.

    A node then starts in half the time: its folder is a copy, and the JVM
    maps its classes instead of reading 46 jars.
    """
    _class_path()
    with open(CACHE / ".warm.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (ARCHIVE.exists() and FORMATTED.is_dir()):
            _fill_cache()


def _fill_cache():
    work = CACHE / f"warm.{os.getpid()}"
    ports = process.PortPicker()
    try:
        work.mkdir(parents=True)
        node = Node(work, 1)
        node.configure({1: (ports.pick(), ports.pick())})
        _format(node.settings, work / "formatted")
        node.place(work / "formatted")
        node.start([f"-XX:ArchiveClassesAtExit={work}/kafka.jsa"])
        wait_until_up(node.client_settings(), [node])
        node.stop(signal.SIGTERM)
        (work / "kafka.jsa").rename(ARCHIVE)
        shutil.rmtree(FORMATTED, ignore_errors=True)
        (work / "formatted").rename(FORMATTED)
    finally:
        ports.close()
        process.stop(work / "kafka-1.pid", signal.SIGKILL)
        shutil.rmtree(work, ignore_errors=True)


def _format(settings, folder):
    """Formats a node's log folder and moves it to `folder`."""
    done = subprocess.run(
        ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
         "-cp", _class_path(), "kafka.tools.StorageTool", "format",
         "-t", new_cluster_id(), "-c", str(settings)],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"Kafka format: {done.stderr.strip()[-300:]}")
    made = next(line.partition("=")[2]
                for line in settings.read_text().splitlines()
                if line.startswith("log.dirs="))
    pathlib.Path(made).rename(folder)


def new_cluster_id():
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[:22]


class Node:
    """One broker: its files are in folder/kafka-<number>/."""

    def __init__(self, folder, number):
        self.number = number
        self.home = pathlib.Path(folder) / f"kafka-{number}"
        self.settings = self.home / "server.properties"
        self.log = self.home / "kafka.log"
        self.pid_file = pathlib.Path(folder) / f"kafka-{number}.pid"
        self.port = None

    def configure(self, ports, tls=None, password=None):
        """Writes server.properties; ports is {node: (broker, controller)}."""
        self.home.mkdir(exist_ok=True)
        self.port, controller = ports[self.number]
        count = len(ports)
        text = SETTINGS.format(
            node=self.number, port=self.port, controller=controller,
            voters=",".join(f"{n}@127.0.0.1:{c}"
                            for n, (_, c) in ports.items()),
            protocol="SASL_SSL" if tls else "PLAINTEXT",
            logs=self.home / "data", copies=min(count, 3),
            in_sync=2 if count >= 3 else 1)
        if tls:
            keystore = self.home / "keystore.pem"
            process.write_private(keystore, (tls / "server.key").read_text()
                                  + (tls / "server.pem").read_text())
            text += TLS_SETTINGS.format(
                keystore=keystore, truststore=tls / "ca.pem",
                jaas=JAAS.format(user=USER, password=password))
        process.write_private(self.settings, text)

    def place(self, formatted=None, cluster_id=None):
        """Gives the node its formatted log folder."""
        data = self.home / "data"
        shutil.copytree(formatted or FORMATTED, data)
        meta = data / "meta.properties"
        directory_id = new_cluster_id()
        meta.write_text(f"version=1\nnode.id={self.number}\n"
                        f"directory.id={directory_id}\n"
                        f"cluster.id={cluster_id or new_cluster_id()}\n")

    def start(self, jvm_options=None):
        if jvm_options is None:
            jvm_options = ([f"-XX:SharedArchiveFile={ARCHIVE}"]
                           if ARCHIVE.exists() else [])
        # Libraries are unpacked here, not where a kill would leave them.
        temporary = self.home / "tmp"
        temporary.mkdir(exist_ok=True)
        process.start([*JVM, *jvm_options, f"-Djava.io.tmpdir={temporary}",
                       "-cp", _class_path(),
                       "kafka.Kafka", str(self.settings)],
                      self.home, self.log, self.pid_file)

    def is_running(self):
        return process.read_pid(self.pid_file) is not None

    def stop(self, sig=signal.SIGTERM, seconds=30):
        process.stop(self.pid_file, sig, seconds)
        process.end_processes_under(self.home)

    def client_settings(self):
        return {"bootstrap.servers": f"127.0.0.1:{self.port}"}


def admin(client_settings):
    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50,
             "log_level": 0, "broker.address.family": "v4"}
    return AdminClient({**quick, **client_settings})


def wait_until_up(client_settings, nodes, seconds=60):
    """Waits until every node serves metadata; returns the admin client."""
    client = admin(client_settings)
    want = len(nodes)

    def probe():
        for node in nodes:
            if not node.is_running():
                raise ClusterError(f"Kafka node {node.number} ended: "
                                   f"{process.last_lines(node.log)}")
        try:
            return len(client.list_topics(timeout=0.2).brokers) >= want
        except KafkaException:
            return False

    wait_for(probe, seconds, "Kafka did not come up", every=0.01)
    return client


def create_topics(client, prefix, partitions, copies=1):
    """Makes the six topics `<prefix>.*`; those that exist are left."""
    wanted = [NewTopic(f"{prefix}.{name}",
                       num_partitions=fixed or partitions,
                       replication_factor=copies, config=settings)
              for name, fixed, settings in TOPICS]
    for name, made in client.create_topics(wanted,
                                           operation_timeout=30).items():
        try:
            made.result(30)
        except KafkaException as err:
            if err.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClusterError(f"topic {name}: {err}") from err

    def known():
        """The controller has made them; the broker hears of it later."""
        topics = client.list_topics(timeout=10).topics
        return all(one.topic in topics and not topics[one.topic].error
                   and topics[one.topic].partitions for one in wanted)

    wait_for(known, 60, f"{prefix}: the broker does not know the topics")
