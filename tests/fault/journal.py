# SPDX-License-Identifier: Apache-2.0
"""What a sweep has tried, line by line in a file, so that one that was
interrupted goes on where it was.

The first line is the plan; then a line for each point that was tried, and
now and then the sometimes counters up to there."""

import collections
import json

from cases import Case


class Journal:
    """The plan and what came out. A point that is tried again counts by its
    last try."""

    def __init__(self, path=None):
        self.path = path      # None: nothing is kept
        self.places = {}      # case: {place: calls} of an undisturbed run
        self.points = []      # [(case, place, number), ...] in order of trial
        self.tried = {}       # index: {"died_at": ..., "failed": ...}
        self.sometimes = {}   # what: how often

    def plan(self, places, points):
        """Begins a file anew."""
        self.places, self.points = places, points
        cases = sorted(places)
        self._write("w", {
            "places": [[[case.role, case.effect, case.ending], places[case]]
                       for case in cases],
            "points": [[cases.index(case), place, number]
                       for case, place, number in points]})

    def load(self):
        """What an earlier run left; raises OSError if there is none. The
        last line may be half a line."""
        with open(self.path, encoding="utf-8") as file:
            first, *others = file.read().splitlines()
        head = json.loads(first)
        self.places = {Case(*words): places for words, places
                       in head["places"]}
        cases = sorted(self.places)
        self.points = [(cases[index], place, number)
                       for index, place, number in head["points"]]
        for line in others:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if "sometimes" in said:
                self.sometimes = said["sometimes"]
            else:
                self.tried[said.pop("point")] = said

    def note(self, index, died_at, failed=None):
        """One point was tried. Callers take turns."""
        self.tried[index] = {"died_at": died_at, "failed": failed}
        self._write("a", {"point": index, **self.tried[index]})

    def note_sometimes(self, totals):
        self._write("a", {"sometimes": totals})

    def _write(self, mode, line):
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, mode, encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def is_open(self, index):
        """Whether a point is still to be tried."""
        return index not in self.tried or bool(self.tried[index]["failed"])

    # -- what is said ----------------------------------------------------------

    def report(self):
        """A line for each role and class, and for each role the places where
        nobody died."""
        for role in dict.fromkeys(case.role for case, _, _ in self.points):
            for effect in dict.fromkeys(case.effect
                                        for case, _, _ in self.points):
                self._report_class(role, effect)
            known = {place for case, places in self.places.items()
                     if case.role == role for place in places}
            died = {self.tried[index]["died_at"]
                    for index, (case, _, _) in enumerate(self.points)
                    if case.role == role and index in self.tried}
            missed = sorted(known - died)
            print(f"{role}: died at {len(known & died)} of {len(known)} places"
                  + (f", not at: {', '.join(missed)}" if missed else ""))

    def _report_class(self, role, effect):
        count = collections.Counter()
        for index, (case, _, _) in enumerate(self.points):
            if (case.role, case.effect) != (role, effect):
                continue
            count["points"] += 1
            tried = self.tried.get(index)
            if tried is not None:
                count["tried"] += 1
                count["failed"] += bool(tried["failed"])
                count["died"] += tried["died_at"] is not None
        print(f"{role} {effect}: {count['tried']} of {count['points']} points,"
              f" died at {count['died']}, {count['failed']} failed")
