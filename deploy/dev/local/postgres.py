# SPDX-License-Identifier: Apache-2.0
"""A private Postgres: own data folder, TCP on 127.0.0.1 only, no root."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess

import psycopg
from psycopg import sql

from . import process
from .process import ClusterError, wait_for

SUPERUSER = "postgres"
OWNER = "actionist_owner"
RUNTIME = "actionist_runtime"

SETTINGS = """\
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 200
fsync = on
synchronous_commit = on
full_page_writes = on
data_sync_retry = off
shared_buffers = '128MB'
dynamic_shared_memory_type = 'mmap'
max_wal_size = '4GB'
min_wal_size = '80MB'
autovacuum_naptime = '10s'
password_encryption = 'scram-sha-256'
timezone = 'UTC'
log_line_prefix = '%m [%p] %u@%d '
log_min_messages = 'warning'
"""

TLS_SETTINGS = """\
ssl = on
ssl_cert_file = 'server.pem'
ssl_key_file = 'server.key'
ssl_min_protocol_version = 'TLSv1.2'
"""


def programs():
    """The folder of Postgres' server programs, newest version first."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"),
                   key=lambda path: int(path.parts[-3]), reverse=True)
    if found:
        return found[0].parent
    initdb = shutil.which("initdb")
    if initdb is None:
        raise ClusterError("Postgres is missing: run deploy/dev/install")
    return pathlib.Path(initdb).parent


class Server:
    """The one server of a cluster: its files are in folder/postgres/."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.home = self.folder / "postgres"
        self.data = self.home / "data"
        self.log = self.folder / "postgres.log"
        self.pid_file = self.folder / "postgres.pid"

    def as_user(self):
        """What to put before a command, since Postgres refuses to be root."""
        if os.geteuid() != 0:
            return []
        for name in ("postgres", "nobody"):
            try:
                user = pwd.getpwnam(name)
            except KeyError:
                continue
            return ["setpriv", f"--reuid={user.pw_uid}",
                    f"--regid={user.pw_gid}", "--clear-groups"]
        raise ClusterError("no user 'postgres' or 'nobody' to run Postgres")

    def give(self, path):
        """Makes a path belong to the user that runs Postgres."""
        if os.geteuid() == 0:
            prefix = self.as_user()
            uid = int(prefix[1].partition("=")[2])
            os.chown(path, uid, int(prefix[2].partition("=")[2]))

    def prepare(self):
        """Makes the home; refuses a folder its user cannot reach."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.give(self.home)
        if subprocess.run([*self.as_user(), "test", "-x", str(self.home)],
                          check=False).returncode != 0:
            self.home.rmdir()
            raise ClusterError(
                f"the user that runs Postgres cannot reach {self.folder}: a "
                "folder above it is closed to others; choose another --dir")

    def init(self, password):
        """initdb; may take most of a second."""
        pwfile = self.home / "initdb.pw"
        process.write_private(pwfile, password + "\n")
        self.give(pwfile)
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"),
               "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [*self.as_user(), str(programs() / "initdb"),
             "-D", str(self.data), "-U", SUPERUSER, f"--pwfile={pwfile}",
             "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8",
             "--data-checksums", "--no-sync", "--no-instructions"],
            cwd=self.home, env=env, capture_output=True, text=True,
            check=False)
        pwfile.unlink()
        if done.returncode != 0:
            raise ClusterError(f"initdb: {done.stderr.strip()[-300:]}")

    def configure(self, port, tls=None):
        text = SETTINGS.format(port=port)
        host = "host"
        if tls:
            text += TLS_SETTINGS
            host = "hostssl"
            for name in ("server.pem", "server.key"):
                copy = self.data / name
                process.write_private(copy, (tls / name).read_text())
                self.give(copy)
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as out:
            out.write(text)
        (self.data / "pg_hba.conf").write_text(
            f"{host} all all 127.0.0.1/32 scram-sha-256\n")

    def start(self):
        process.start([*self.as_user(), str(programs() / "postgres"),
                       "-D", str(self.data)],
                      self.home, self.log, self.pid_file)

    def is_running(self):
        return process.read_pid(self.pid_file) is not None

    def stop(self, sig=signal.SIGINT):
        """SIGINT: fast and clean; SIGQUIT: at once, as after a crash."""
        process.stop(self.pid_file, sig)
        # Backends outlive a killed postmaster for a moment; a new one would
        # refuse to start beside them.
        process.end_processes_under(self.home)
        # Nothing of it lives. The file of a killed one must not stop the next
        # start, which takes a zombie that init has not collected for alive.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def wait_until_up(self, conninfo, seconds=60):
        def probe():
            if not self.is_running():
                raise ClusterError("Postgres ended: "
                                   + process.last_lines(self.log))
            try:
                psycopg.connect(conninfo, connect_timeout=5).close()
                return True
            except psycopg.OperationalError:
                return False

        wait_for(probe, seconds, "Postgres did not come up", every=0.02)


def create_roles(conninfo, owner_password, runtime_password):
    """The owner migrates; the runtime role may log in and nothing else."""
    with psycopg.connect(conninfo, autocommit=True) as db:
        for role, password in ((OWNER, owner_password),
                               (RUNTIME, runtime_password)):
            db.execute(sql.SQL(
                "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE "
                "PASSWORD {}").format(sql.Identifier(role),
                                      sql.Literal(password)))


def create_database(conninfo, name):
    """A database that the owner owns and only the two roles may enter."""
    with psycopg.connect(conninfo, autocommit=True) as db:
        known = db.execute("SELECT 1 FROM pg_database WHERE datname = %s",
                           (name,)).fetchone()
        if known:
            return
        database = sql.Identifier(name)
        db.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(
            database, sql.Identifier(OWNER)))
        db.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(
            database))
        db.execute(sql.SQL("GRANT CONNECT, TEMPORARY ON DATABASE {} TO {}")
                   .format(database, sql.Identifier(RUNTIME)))
