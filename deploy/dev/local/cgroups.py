# SPDX-License-Identifier: Apache-2.0
"""Removing the cgroups that fleets of a cluster left, on cgroup v1 and v2."""

import contextlib
import os
import pathlib
import signal

from .process import ClusterError, wait_for


def _mounts():
    """The mount points of every cgroup hierarchy."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind = line.split()[:3]
        if kind in ("cgroup", "cgroup2"):
            yield pathlib.Path(where)


def _found(name):
    return [mount / name for mount in _mounts() if (mount / name).is_dir()]


def _empty_and_remove(tree):
    for folder, _, _ in os.walk(tree, topdown=False):
        with contextlib.suppress(OSError, ValueError):
            for pid in pathlib.Path(folder, "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def remove(name):
    """Ends what runs below the cgroup `name` and removes it everywhere."""
    if not name or name in (".", "..") or "/" in name:
        raise ClusterError(f"'{name}' is no name of a cgroup")

    def probe():
        for tree in _found(name):
            _empty_and_remove(tree)
        return not _found(name)

    wait_for(probe, 20, f"cgroup {name} stays")
