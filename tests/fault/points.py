# SPDX-License-Identifier: Apache-2.0
"""All points of all cases, or as many as fit: which to try, what came out.

A point is the k-th call of a place (a call of a library, told apart by the
statement it is about) in a case. Idle loops repeat the same calls without
end, so k goes up to a depth only."""

import collections
import queue
import random
import threading
import time
import traceback

from cases import all_cases, script
from journal import Journal
from lane import Lane

PROGRESS_S = 15
MESSAGE = 1500  # characters of a failure
INTERRUPT_S = 60


class Sweep:
    """Lanes work side by side, since most of their time is waiting."""

    def __init__(self, make_lane, journal, counters, options):
        self.make_lane = make_lane
        self.journal = journal
        self.counters = counters
        self.options = options
        self.lanes = options.lanes
        self.roles = options.roles
        self.end = None  # of the trials, monotonic
        if options.quick:
            self.end = time.monotonic() + 60 * options.quick
        self.lock = threading.Lock()
        self.at_work = collections.Counter()  # role: lanes
        self.places = {}  # case: {place: calls} of an undisturbed run
        self.passed = 0
        self.failures = []

    # -- the work --------------------------------------------------------------

    def run(self):
        """Measures every case, unless an earlier run has, then tries the
        points."""
        made = self._each_lane(lambda number: self.make_lane())
        try:
            if not self.journal.points:
                self._work(made, [(None, case, None, 0)
                                  for case in all_cases(
                                      self.roles, self.options.endings)])
                self.journal.plan(self.places, self._plan())
            self._work(made, self._left())
            self._each_lane(lambda number: self._check_lane(made[number]))
        finally:
            for lane in made:
                lane.close()

    def _plan(self):
        """All points in seeded order; first come those that see each place
        once, then each place in each case."""
        depth = self.options.depth
        points = []
        for case, places in sorted(self.places.items()):
            for place, calls in sorted(places.items()):
                most = min(calls, depth) if depth else calls
                points += [(case, place, number + 1) for number in range(most)]
        random.Random(self.options.seed).shuffle(points)
        points.sort(key=lambda point: point[2] > 1)
        seen = set()
        ranks = []
        for case, place, _ in points:
            ranks.append((case.role, place) in seen)
            seen.add((case.role, place))
        return [point for _, point in sorted(zip(ranks, points),
                                             key=lambda one: one[0])]

    def _left(self):
        """The points to try, each with its index in the plan."""
        points = self.journal.points
        first, end = self.options.points or (0, len(points))
        return [(index, *points[index])
                for index in range(first, min(end, len(points)))
                if self.options.points or self.journal.is_open(index)]

    def _each_lane(self, work):
        """work(number) in a thread for each lane; their results."""
        results = [None] * self.lanes
        broken = []

        def guarded(number):
            try:
                results[number] = work(number)
            except BaseException as caught:  # told to the main thread
                broken.append(caught)

        threads = [threading.Thread(target=guarded, args=(number,))
                   for number in range(self.lanes)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            # Interrupted: each lane ends its point, or it would start
            # programs that nobody ends.
            self.end = 0
            for thread in threads:
                thread.join(INTERRUPT_S)
            raise
        if broken:
            raise broken[0]
        return results

    def _work(self, lanes, points):
        """Each lane keeps to one role as long as there is work of it, since
        another one costs a restart."""
        queues = {role: queue.SimpleQueue() for role in self.roles}
        for point in points:
            queues[point[1].role].put(point)
        done = threading.Event()
        told = threading.Thread(target=self._tell, args=(done, len(points)))
        told.start()
        try:
            self._each_lane(lambda number: self._drain(
                lanes[number], queues, number))
        finally:
            done.set()
            told.join()

    def _drain(self, lane, queues, number):
        role = self.roles[number % len(self.roles)]
        at_work = self.at_work
        while role is not None:
            with self.lock:
                at_work[role] += 1
            while self.end is None or time.monotonic() < self.end:
                try:
                    point = queues[role].get_nowait()
                except queue.Empty:
                    break
                self._try(lane, *point)
            with self.lock:
                at_work[role] -= 1
                role = self._neediest(queues)

    def _neediest(self, queues):
        """The role with most left for each lane at it; None at the end."""
        if self.end is not None and time.monotonic() >= self.end:
            return None
        left = {role: one.qsize() / (1 + self.at_work[role])
                for role, one in queues.items() if not one.empty()}
        return max(left, key=left.get, default=None)

    def _try(self, lane, index, case, place, number):
        """One point, or one undisturbed run (no index)."""
        places, died_at, failed = {}, None, None
        try:
            places, died_at = lane.run(case, place, number)
        except Exception as caught:  # a point's failure does not end the run
            failed = self._fail(f"{index}: {case} at {place} {number}", lane,
                                caught)
        with self.lock:
            self.passed += failed is None
            if index is not None:
                self.journal.note(index, died_at, failed)
            elif failed is None:
                self.places[case] = places

    def _fail(self, what, lane, caught):
        last = traceback.extract_tb(caught.__traceback__)[-1]
        line = (f"FAILED {what} in {lane.folder}: "
                f"{type(caught).__name__} {last.name}:{last.lineno} "
                f"{str(caught)[:MESSAGE]}")
        with self.lock:
            self.failures.append(line)
            print(line, flush=True)
        return line

    def _check_lane(self, lane):
        try:
            lane.check_all()
            self.passed += 1
        except Exception as caught:
            self._fail("all of a lane", lane, caught)

    # -- what is said ----------------------------------------------------------

    def _tell(self, done, count):
        start = time.monotonic()
        before = self.passed + len(self.failures)
        while not done.wait(PROGRESS_S):
            now = self.passed + len(self.failures) - before
            took = time.monotonic() - start
            print(f"{now} of {count} points, {len(self.failures)} failed, "
                  f"{clock(took)}, {self._remaining(took, now, count)}",
                  flush=True)
            with self.lock:
                self.journal.note_sometimes(self.counters.totals())

    def _remaining(self, took, now, count):
        left = (count - now) * took / now if now else None
        if self.end is not None:
            most = max(self.end - time.monotonic(), 0)
            left = most if left is None else min(left, most)
        return "" if left is None else f"{clock(left)} left"


def clock(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def sweep(cluster, double, folder, counters, options):
    """Runs one; returns (passed, failed) of this run."""
    journal = Journal(None if options.quick else options.journal)
    if options.resume:
        journal.load()
        counters.begin_with(journal.sometimes)
    script(double)
    made = Sweep(lambda: Lane(cluster, double, folder, counters), journal,
                 counters, options)
    made.run()
    journal.note_sometimes(counters.totals())
    journal.report()
    return made.passed, len(made.failures)
