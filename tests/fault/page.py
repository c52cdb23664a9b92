# SPDX-License-Identifier: Apache-2.0
"""The memory that libcrash.c shares with the harness: arms a process, and
tells how far it came, also once it is dead."""

import mmap
import struct

NAME_SIZE = 80
MAX_PLACES = 256
MAX_TRACE = 1 << 16
WORDS = struct.Struct("=5I")  # struct page up to its names
IS_ARMED, CRASH_AT, REACHED, DIED, PLACE_COUNT = range(5)
CRASH_NAME = WORDS.size
NAMES = CRASH_NAME + NAME_SIZE
COUNTS = NAMES + NAME_SIZE * MAX_PLACES
TRACE = COUNTS + 4 * MAX_PLACES
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

    def arm(self, place, number):
        """From now on calls count; the process dies at call `number` of the
        place. None: it lives."""
        name = (place or "").encode()
        self.memory[CRASH_NAME:CRASH_NAME + len(name)] = name
        self._set_word(CRASH_AT, number if place else 0)
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
        """The place that it died at, or None."""
        place = self._word(DIED)
        return self._name(place - 1) if place else None

    def _name(self, place):
        at = NAMES + place * NAME_SIZE
        return self.memory[at:at + NAME_SIZE].split(b"\0")[0].decode()

    def places(self):
        """{place: calls counted}"""
        counts = struct.unpack_from(f"={MAX_PLACES}I", self.memory, COUNTS)
        return {self._name(n): counts[n]
                for n in range(self._word(PLACE_COUNT))}

    def trace(self):
        """The places of all calls counted, in order; for people."""
        count = min(self.reached, MAX_TRACE)
        return [self._name(place) for place
                in self.memory[TRACE:TRACE + count]]
