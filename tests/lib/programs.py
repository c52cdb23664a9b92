# SPDX-License-Identifier: Apache-2.0
"""One running program of ours: start, signals, end, what it said."""

import contextlib
import os
import pathlib
import signal
import subprocess

from .wait import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ACTIONIST_TEST_BIN",
                                  ROOT / "build" / "release" / "bin"))


class Program:
    """Runs in a session of its own with its working directory in `folder`.

    Its standard error goes to <folder>/<name>.log, one file over restarts.
    """

    def __init__(self, name, argv, folder, env):
        self.name = name
        self.argv = argv
        self.folder = folder
        self.env = env
        self.log = folder / f"{name}.log"
        self.child = None

    def start(self):
        assert not self.is_running(), f"{self.name} runs already"
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(
                self.argv, cwd=self.folder, env=self.env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)
        return self

    @property
    def pid(self):
        return self.child.pid

    def is_running(self):
        return self.child is not None and self.child.poll() is None

    def signal(self, sig):
        os.kill(self.child.pid, sig)

    def kill(self):
        """kill -9 of this process alone, and waits until it is gone."""
        self.signal(signal.SIGKILL)
        self.child.wait(30)

    def stop(self):
        """SIGSTOP: it hangs, with all its connections open."""
        self.signal(signal.SIGSTOP)

    def cont(self):
        self.signal(signal.SIGCONT)

    def terminate(self, seconds=30):
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.child.wait(seconds)

    def restart(self):
        if self.is_running():
            self.kill()
        return self.start()

    def wait_exit(self, seconds=30):
        return self.child.wait(seconds)

    def children(self):
        """Pids of its direct children."""
        text = pathlib.Path(
            f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def text(self):
        """All it has logged so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for_log(self, words, deadline=45):
        """Waits until its log holds the words."""
        return wait_for(lambda: words in self.text() or (
            not self.is_running() and self._ended_early(words)),
            f"'{words}' in {self.log}", deadline)

    def end(self):
        """Ends it and its session whatever its state; for the teardown."""
        if self.child is None:
            return
        if self.child.poll() is None:
            self.cont()
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(15)

    def _ended_early(self, words):
        raise AssertionError(
            f"{self.name} ended with {self.child.returncode} before it logged "
            f"'{words}':\n" + "\n".join(self.text().splitlines()[-15:]))


def descendants(pid):
    """Pids of all processes below pid, deepest last."""
    found = []
    todo = [pid]
    while todo:
        try:
            text = pathlib.Path(f"/proc/{todo[0]}/task/{todo[0]}/children")
            below = [int(child) for child in text.read_text().split()]
        except OSError:
            below = []
        todo = todo[1:] + below
        found += below
    return found
