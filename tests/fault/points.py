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
from lane import Lane

PROGRESS_S = 15
MESSAGE = 1500  # characters of a failure


class Sweep:
    """Lanes work side by side, since most of their time is waiting."""

    def __init__(self, make_lane, options):
        self.make_lane = make_lane
        self.options = options
        self.lanes = options.lanes
        self.roles = options.roles
        self.random = random.Random(options.seed)
        self.end = None
        if options.quick:
            self.end = time.monotonic() + 60 * options.quick
        self.lock = threading.Lock()
        self.at_work = collections.Counter()  # role: lanes
        self.places = {}  # case: {place: calls} of an undisturbed run
        self.planned = collections.Counter()  # role: points
        self.tried = collections.Counter()  # role: points
        self.unreached = 0
        self.deaths = collections.defaultdict(set)  # role: places
        self.passed = 0
        self.failures = []

    # -- the work --------------------------------------------------------------

    def run(self):
        """Measures every case, then tries the points."""
        made = self._each_lane(lambda number: self.make_lane())
        try:
            self._work(made, [(case, None, 0)
                              for case in all_cases(self.roles)])
            self._work(made, self._plan())
            self._each_lane(lambda number: self._check_lane(made[number]))
        finally:
            for lane in made:
                lane.close()

    def _plan(self):
        """All points in seeded order: every place once comes first."""
        depth = self.options.depth
        points = []
        for case, places in sorted(self.places.items()):
            for place, calls in sorted(places.items()):
                most = min(calls, depth) if depth else calls
                points += [(case, place, number + 1) for number in range(most)]
                self.planned[case.role] += most
        self.random.shuffle(points)
        return sorted(points, key=lambda point: point[2] > 1)

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
        for thread in threads:
            thread.join()
        if broken:
            raise broken[0]
        return results

    def _work(self, lanes, points):
        """Each lane keeps to one role as long as there is work of it, since
        another one costs a restart."""
        queues = {role: queue.SimpleQueue() for role in self.roles}
        for point in points:
            queues[point[0].role].put(point)
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

    def _try(self, lane, case, place, number):
        try:
            places, died_at = lane.run(case, place, number)
        except Exception as caught:  # a point's failure does not end the run
            self._fail(f"{case} at {place} {number}", lane, caught)
            return
        with self.lock:
            self.passed += 1
            if place is None:
                self.places[case] = places
                return
            self.tried[case.role] += 1
            self.unreached += died_at is None
            if died_at:
                self.deaths[case.role].add(died_at)

    def _fail(self, what, lane, caught):
        last = traceback.extract_tb(caught.__traceback__)[-1]
        line = (f"FAILED {what} in {lane.folder}: "
                f"{type(caught).__name__} {last.name}:{last.lineno} "
                f"{str(caught)[:MESSAGE]}")
        with self.lock:
            self.failures.append(line)
            print(line, flush=True)

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
            print(f"{now} of {count} points, {len(self.failures)} failed, "
                  f"{time.monotonic() - start:.0f} s", flush=True)

    def report(self):
        """Coverage by role, and the places where nobody died."""
        for role in self.roles:
            known = {place for case, places in self.places.items()
                     if case.role == role for place in places}
            missed = sorted(known - self.deaths[role])
            print(f"{role}: {self.tried[role]} of {self.planned[role]} points,"
                  f" died at {len(known & self.deaths[role])} of {len(known)}"
                  " places" + (f", not at: {', '.join(missed)}"
                               if missed else ""))
        print(f"points that their run did not reach: {self.unreached}")


def sweep(cluster, double, folder, counters, options):
    """Runs one; returns (passed, failed)."""
    script(double)
    made = Sweep(lambda: Lane(cluster, double, folder, counters), options)
    made.run()
    made.report()
    return made.passed, len(made.failures)
