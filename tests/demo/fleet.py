# SPDX-License-Identifier: Apache-2.0
"""The demo's private fleet, by `actionist dev`: up, one more kill, down."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from lib.double import Double
from lib.stages import ROOT

COMMAND = ROOT / "build" / "release" / "bin" / "actionist"
HERE = pathlib.Path(__file__).resolve().parent
UP_S = 180


class DemoError(Exception):
    """What stops the demo, for people."""


class DemoFleet:
    """`with DemoFleet() as fleet:` leaves nothing behind, however it ends."""

    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="actionist-demo-"))
        self.top.chmod(0o755)
        self.dir = self.top / "fleet"
        self.info = {}
        self.double = None
        # The surroundings' own settings must not leak into this fleet.
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith("ACTIONIST_")}

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        self.double = Double()
        self.double.port = int(
            self.program("provider-double")["url"].rpartition(":")[2])
        return self

    def __exit__(self, *_):
        self.down()

    def ctl(self, *words, config=True):
        """Runs the command; what it printed."""
        argv = [str(COMMAND), *map(str, words)]
        if config:
            argv += ["--config", str(self.dir / "actionist.conf")]
        # A session of its own: Ctrl-C is for us, who then end it in order.
        child = subprocess.Popen(argv, env=self.env, text=True,
                                 stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE,
                                 start_new_session=True)
        try:
            said, _ = child.communicate(timeout=UP_S)
        except BaseException:
            child.terminate()
            child.wait(UP_S)
            raise
        if child.returncode != 0:
            raise DemoError(f"actionist {words[0]} ended with "
                            f"{child.returncode}")
        return said

    def up(self):
        """Starts what does not run."""
        self.info = json.loads(self.ctl("dev", "up", "--dir", self.dir,
                                        "--json", config=False))

    def down(self):
        """Ends all; a second Ctrl-C does not break it off."""
        before = {sig: signal.signal(sig, signal.SIG_IGN) for sig in
                  (signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGQUIT)}
        try:
            if (self.dir / "cluster.json").exists():
                self._dev_down()
            shutil.rmtree(self.top, ignore_errors=True)
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def _dev_down(self):
        try:
            self.ctl("dev", "down", "--dir", self.dir, config=False)
        except (OSError, DemoError, subprocess.TimeoutExpired):
            # The command is gone or broken: the cluster's script ends
            # whatever works in the folder, less gently.
            subprocess.run([ROOT / "deploy/dev/cluster", "down", "--dir",
                            self.dir], check=True)

    def program(self, name):
        """What `dev up` said of one program."""
        return next(program for program in self.info["programs"]
                    if program["name"] == name)

    def url(self):
        return self.program("producer")["url"]

    def kill_worker(self):
        os.kill(self.program("worker")["pid"], signal.SIGKILL)

    def kill_producer(self):
        os.kill(self.program("producer")["pid"], signal.SIGKILL)

    def add_connector(self):
        """Registers connector.json with the double's address."""
        manifest = json.loads((HERE / "connector.json").read_text())
        manifest["base_url"] = self.double.url
        path = self.dir / "connector.json"
        path.write_text(json.dumps(manifest, indent=2))
        self.ctl("connector", "add", path)

    def list_outcomes(self, tenant):
        """What the command lists for a tenant."""
        said = self.ctl("list", "--tenant", tenant, "--json",
                        "--limit", "1000")
        return [json.loads(line) for line in said.splitlines()]
