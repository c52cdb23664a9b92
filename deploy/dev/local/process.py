# SPDX-License-Identifier: Apache-2.0
"""Starting, finding and ending the processes of a local cluster.

A process is remembered as a pid file that also holds the kernel's start time
of that pid, so that a number which was given to another process since is
never killed. What lives "under" a folder (its working directory is there) is
ours too: Postgres backends leave their parent's session.
"""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

# Below the kernel's range for outgoing connections, so that no client's own
# port can take one between our look and the server's bind.
PORT_RANGE = (20000, 32000)


class ClusterError(Exception):
    """What a person has to know; printed as one line."""


def wait_for(probe, seconds, what, every=0.03):
    """Calls probe until it returns something true; returns that."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds} s")
        time.sleep(every)


class PortPicker:
    """Hands out free ports of 127.0.0.1.

    Each port is held as an abstract socket name until `close`, so that two
    clusters which start at once never pick the same. Nothing is left on disk.
    """

    def __init__(self):
        self._held = []

    def pick(self):
        for _ in range(1000):
            port = random.randint(*PORT_RANGE)
            hold = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                hold.bind(f"\0actionist-port-{port}")
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            except OSError:
                hold.close()
                continue
            self._held.append(hold)
            return port
        raise ClusterError("no free port on 127.0.0.1 between "
                           f"{PORT_RANGE[0]} and {PORT_RANGE[1]}")

    def close(self):
        for hold in self._held:
            hold.close()
        self._held.clear()


def start_time(pid):
    """The kernel's start time of a living pid, else None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def start(argv, cwd, log, pid_file, env=None):
    """Starts argv in a session of its own; returns the Popen."""
    with open(log, "ab") as out:
        child = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=out, env=env,
                                 start_new_session=True)
    born = start_time(child.pid)
    if born is None:
        raise ClusterError(f"{argv[0]} ended at once: {last_lines(log)}")
    pathlib.Path(pid_file).write_text(f"{child.pid} {born}\n")
    return child


def read_pid(pid_file):
    """The pid of a pid file if that very process still lives, else None."""
    try:
        pid, born = map(int, pathlib.Path(pid_file).read_text().split())
    except (OSError, ValueError):
        return None
    return pid if start_time(pid) == born else None


def stop(pid_file, sig, seconds=30):
    """Ends the process of a pid file; by SIGKILL once `seconds` are over."""
    pid = read_pid(pid_file)
    if pid is not None:
        _signal(pid, signal.SIGCONT)
        _signal(pid, sig)
        try:
            wait_for(lambda: _reaped(pid_file), seconds, f"pid {pid}")
        except ClusterError:
            _signal(pid, signal.SIGKILL)
            wait_for(lambda: _reaped(pid_file), 30, f"pid {pid} after a kill")
    pathlib.Path(pid_file).unlink(missing_ok=True)


def processes_under(folder):
    """Pids whose working directory is in the folder, this one left out."""
    folder = os.path.realpath(folder)
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            cwd = os.readlink(f"/proc/{entry}/cwd")
        except OSError:
            continue
        cwd = cwd.removesuffix(" (deleted)")
        if cwd == folder or cwd.startswith(folder + "/"):
            if start_time(int(entry)) is not None:
                found.append(int(entry))
    return found


def end_processes_under(folder, seconds=20):
    """Waits for what is under the folder to end; kills what does not."""
    try:
        wait_for(lambda: not processes_under(folder), 5, folder)
        return
    except ClusterError:
        for pid in processes_under(folder):
            _signal(pid, signal.SIGKILL)
    wait_for(lambda: not processes_under(folder), seconds,
             f"processes in {folder} after a kill")


def last_lines(log, count=3):
    """The end of a log, as one line."""
    try:
        lines = pathlib.Path(log).read_text(errors="replace").splitlines()
    except OSError:
        return "no log"
    return " | ".join(line.strip() for line in lines[-count:])


def write_private(path, text):
    """Writes a file that only its owner may read."""
    path = pathlib.Path(path)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600),
              "w", encoding="utf-8") as out:
        out.write(text)


def _signal(pid, sig):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


def _reaped(pid_file):
    # Collect it if it is our own child: a zombie counts as ended anyway.
    with contextlib.suppress(OSError, ValueError):
        pid = int(pathlib.Path(pid_file).read_text().split()[0])
        os.waitpid(pid, os.WNOHANG)
    return read_pid(pid_file) is None
