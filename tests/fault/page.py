# SPDX-License-Identifier: Apache-2.0
"""The memory that libcrash.c shares with the harness: arms a process, and
tells how far it came, also once it is dead."""

import mmap
import struct

NAME_SIZE = 40
MAX_SITES = 64
MAX_TRACE = 1 << 16
WORDS = struct.Struct("=8I")  # struct page up to its names
IS_ARMED, CRASH_AT, REACHED, DIED, SITE_COUNT = range(5)
NAMES = WORDS.size
COUNTS = NAMES + NAME_SIZE * MAX_SITES
TRACE = COUNTS + 4 * MAX_SITES
SIZE = TRACE + MAX_TRACE


class Page:
    """One page, for one start of one program."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(SIZE))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)

    def close(self):
        self.memory.close()
        self.path.unlink()

    def _word(self, index):
        return struct.unpack_from("=I", self.memory, 4 * index)[0]

    def _set_word(self, index, value):
        struct.pack_into("=I", self.memory, 4 * index, value)

    def arm(self, crash_at):
        """From now on calls count; the process dies at call crash_at, or
        never if it is 0."""
        self._set_word(CRASH_AT, crash_at)
        self._set_word(IS_ARMED, 1)

    def disarm(self):
        self._set_word(IS_ARMED, 0)

    @property
    def reached(self):
        """How many calls were counted."""
        return self._word(REACHED)

    @property
    def is_dead(self):
        """Whether the call was reached."""
        return self._word(DIED) != 0

    @property
    def died_at(self):
        """The name of the call that it died at, or None."""
        site = self._word(DIED)
        return self._name(site - 1) if site else None

    def _name(self, site):
        at = NAMES + site * NAME_SIZE
        return self.memory[at:at + NAME_SIZE].split(b"\0")[0].decode()

    def trace(self):
        """The names of all calls counted, in order."""
        count = min(self.reached, MAX_TRACE)
        names = [self._name(n) for n in range(self._word(SITE_COUNT))]
        return [names[site] for site in self.memory[TRACE:TRACE + count]]
