# SPDX-License-Identifier: Apache-2.0
"""One local cluster in one folder: what `deploy/dev/cluster` does."""

import concurrent.futures
import hashlib
import json
import pathlib
import secrets
import shutil
import signal
import uuid

from . import cgroups, kafka, postgres, process, tls
from .process import ClusterError

STATE = "cluster.json"
NAME = "actionist"


class Cluster:
    """A cluster by its folder. Files: cluster.json, secrets/, tls/, logs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.postgres = postgres.Server(self.folder)
        self.state = {}
        self.nodes = []
        if (self.folder / STATE).exists():
            self._adopt(json.loads((self.folder / STATE).read_text()))

    # -- up and down ---------------------------------------------------------

    def up(self, brokers=1, use_tls=False, partitions=12):
        """Starts everything and makes topics, roles and database."""
        if self.is_up():
            raise ClusterError(f"already up in {self.folder}")
        if self.state:
            self._start_all()
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ClusterError(f"{self.folder} is not empty and no cluster")
        kafka.warm()
        is_new = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = process.PortPicker()
        try:
            self._create(ports, brokers, use_tls, partitions)
            self._start_all()
        except BaseException:
            self.down()
            if is_new and self.folder.exists():
                self.folder.rmdir()
            raise
        finally:
            ports.close()

    def down(self, keep=False):
        """Ends every process and cgroup; removes the folder unless kept."""
        sig = signal.SIGTERM if keep else signal.SIGKILL
        self._stop_nodes(self._nodes_or_guess(), sig)
        self.postgres.stop(signal.SIGINT if keep else signal.SIGQUIT)
        if self.folder.is_dir():
            process.end_processes_under(self.folder)
        cgroups.remove(self.cgroup)
        if not keep and (self.folder / STATE).exists():
            shutil.rmtree(self.folder)

    def is_up(self):
        """Whether every process of the cluster lives."""
        return bool(self.nodes) and self.postgres.is_running() and all(
            node.is_running() for node in self.nodes)

    # -- one part at a time ----------------------------------------------------

    def stop_kafka(self, hard=False):
        self._stop_nodes(self.nodes,
                         signal.SIGKILL if hard else signal.SIGTERM)

    def start_kafka(self):
        for node in self.nodes:
            if not node.is_running():
                node.start()
        return kafka.wait_until_up(self.kafka_client(), self.nodes)

    def stop_postgres(self, hard=False):
        self.postgres.stop(signal.SIGKILL if hard else signal.SIGINT)

    def start_postgres(self):
        if not self.postgres.is_running():
            self.postgres.start()
        self.postgres.wait_until_up(self.conninfo("superuser", "postgres"))

    # -- rooms: topics and a database of their own -----------------------------

    def create_space(self, name, partitions=None):
        """Topics `<name>.*` and a database `<name>`, for one fleet."""
        kafka.create_topics(kafka.admin(self.kafka_client()), name,
                            partitions or self.state["partitions"],
                            min(len(self.nodes), 3))
        postgres.create_database(self.conninfo("superuser", "postgres"), name)

    # -- how to reach it -------------------------------------------------------

    @property
    def cgroup(self):
        """The name below which fleets of this cluster make their cgroups."""
        return "actionist-" + hashlib.sha256(
            str(self.folder).encode()).hexdigest()[:8]

    def secret(self, name):
        return (self.folder / "secrets" / f"{name}.pw").read_text().strip()

    def kafka_client(self):
        """Settings for a confluent-kafka client."""
        settings = {"bootstrap.servers": ",".join(
            f"127.0.0.1:{broker}" for broker, _ in
            self.state["kafka"].values())}
        if self.state["tls"]:
            settings |= {"security.protocol": "SASL_SSL",
                         "sasl.mechanisms": "PLAIN",
                         "sasl.username": kafka.USER,
                         "sasl.password": self.secret("kafka"),
                         "ssl.ca.location": str(self.folder / "tls/ca.pem")}
        return settings

    def conninfo(self, who, database=NAME):
        """libpq's words for one role: superuser, owner or runtime."""
        role = {"superuser": postgres.SUPERUSER, "owner": postgres.OWNER,
                "runtime": postgres.RUNTIME}[who]
        words = (f"host=127.0.0.1 port={self.state['postgres']} "
                 f"dbname={database} user={role} "
                 f"passfile={self.folder}/secrets/{who}.pgpass")
        if self.state["tls"]:
            words += (" sslmode=verify-full "
                      f"sslrootcert={self.folder}/tls/ca.pem")
        return words

    def environment(self, space=NAME):
        """Settings of the programs, as environment variables."""
        client = self.kafka_client()
        client.pop("sasl.password", None)
        env = {"ACTIONIST_KAFKA_" + name.upper().replace(".", "_"): value
               for name, value in client.items()}
        if self.state["tls"]:
            env["ACTIONIST_KAFKA_SASL_PASSWORD_FILE"] = str(
                self.folder / "secrets/kafka.pw")
        return env | {
            "ACTIONIST_POSTGRES": self.conninfo("runtime", space),
            "ACTIONIST_POSTGRES_OWNER": self.conninfo("owner", space),
            "ACTIONIST_TOPICS_PREFIX": f"{space}.",
            "ACTIONIST_RUN_CGROUP": self.cgroup,
            "ACTIONIST_CONNECTOR_ALLOW_UNSIGNED": "true",
        }

    def status(self):
        """What runs, for people and machines."""
        parts = {f"kafka-{node.number}": node.is_running()
                 for node in self.nodes}
        if self.state:
            parts["postgres"] = self.postgres.is_running()
        return {"dir": str(self.folder), "up": self.is_up(),
                "tls": self.state.get("tls"), "running": parts}

    # -- inside ----------------------------------------------------------------

    def _adopt(self, state):
        self.state = state
        self.nodes = [kafka.Node(self.folder, int(number))
                      for number in state["kafka"]]
        for node in self.nodes:
            node.port = state["kafka"][str(node.number)][0]

    @staticmethod
    def _stop_nodes(nodes, sig):
        """All at once: the last alone would wait for a quorum that is gone."""
        with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: node.stop(sig, 8), nodes))

    def _nodes_or_guess(self):
        """The nodes, also of a start that broke before cluster.json."""
        return self.nodes or [kafka.Node(self.folder, n) for n in (1, 2, 3)]

    def _create(self, ports, brokers, use_tls, partitions):
        self.postgres.prepare()
        self._adopt({
            "tls": use_tls, "partitions": partitions, "spaces_ready": False,
            "postgres": ports.pick(),
            "cluster_id": kafka.new_cluster_id(),
            "kafka": {str(n): (ports.pick(), ports.pick())
                      for n in range(1, brokers + 1)}})
        self._save()
        self._make_secrets()
        folder = tls.make(self.folder / "tls") if use_tls else None
        for node in self.nodes:
            node.configure({int(n): p for n, p in self.state["kafka"].items()},
                           folder, self.secret("kafka"))
            node.place(cluster_id=self.state["cluster_id"])

    def _save(self):
        process.write_private(self.folder / STATE,
                              json.dumps(self.state, indent=2) + "\n")

    def _make_secrets(self):
        folder = self.folder / "secrets"
        folder.mkdir(mode=0o700)
        for who in ("superuser", "owner", "runtime", "kafka"):
            password = secrets.token_urlsafe(24)
            process.write_private(folder / f"{who}.pw", password + "\n")
            if who != "kafka":
                role = self.conninfo(who).partition("user=")[2].split()[0]
                process.write_private(
                    folder / f"{who}.pgpass",
                    f"127.0.0.1:{self.state['postgres']}:*:{role}:"
                    f"{password}\n")

    def _start_all(self):
        """Kafka and Postgres come up side by side."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            work = [pool.submit(self._raise_kafka),
                    pool.submit(self._raise_postgres)]
            for part in work:
                part.result()
        self.state["spaces_ready"] = True
        self._save()

    def _raise_kafka(self):
        client = self.start_kafka()
        if not self.state["spaces_ready"]:
            kafka.create_topics(client, NAME, self.state["partitions"],
                                min(len(self.nodes), 3))

    def _raise_postgres(self):
        server = self.postgres
        if not server.data.exists():
            server.init(self.secret("superuser"))
            server.configure(self.state["postgres"], self.folder / "tls"
                             if self.state["tls"] else None)
        self.start_postgres()
        if not self.state["spaces_ready"]:
            superuser = self.conninfo("superuser", "postgres")
            postgres.create_roles(superuser, self.secret("owner"),
                                  self.secret("runtime"))
            postgres.create_database(superuser, NAME)


def new_space_name():
    """A name for topics and a database that no one else has."""
    return "t" + uuid.uuid4().hex[:12]
