# SPDX-License-Identifier: Apache-2.0
"""Running commands as stages of a test run: logs, time limits, counts.

Standard library only, since the runners start before build/venv exists.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "test"
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
TAIL_LINES = 300


class Tally:
    """Counts of passed and failed, and the logs of what failed."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.logs = []

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def close(self):
        """Prints the failed logs' ends and the closing line; exit code."""
        for log in self.logs:
            print(f"\n--- {log.relative_to(ROOT)} (end) ---")
            text = log.read_text(errors="replace").splitlines()
            print("\n".join(text[-TAIL_LINES:]))
        if self.logs:
            print()
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def run(argv, log, seconds, env=None, cwd=ROOT):
    """Runs argv into a log in a session of its own.

    Returns the exit code, or None when the time was over. Whatever of the
    session is left is ended, also when we are interrupted ourselves.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        child = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(env or {})},
                                 start_new_session=True)
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped: not done in {seconds} s\n".encode())
            return None
        finally:
            end_session(child)


def end_session(child):
    """Asks a child's session to end, then makes it."""
    for sig, seconds in ((signal.SIGINT, 20), (signal.SIGTERM, 10)):
        if child.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def closing_counts(log):
    """(passed, failed) of a log's last closing line, or None."""
    found = CLOSING.findall(log.read_text(errors="replace"))
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def line(name, verdict, seconds):
    """One line for one stage or case."""
    print(f"{name:<28} {verdict:<34} {seconds:6.1f} s", flush=True)


def exit_on_signals():
    """These unwind like Ctrl-C, so that children are ended."""
    def unwind(*_):
        raise KeyboardInterrupt
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(sig, unwind)


def guard(main):
    """Runs main; an interrupt ends with 130 and no traceback."""
    exit_on_signals()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def now():
    return time.monotonic()
