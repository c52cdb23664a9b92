# SPDX-License-Identifier: Apache-2.0
"""All points of all cases, or as many as fit: which to try, what came out."""

import collections
import queue
import random
import threading
import time
import traceback

from cases import all_cases
from lane import Lane

PROGRESS_S = 15


class Sweep:
    """Lanes work side by side, since most of their time is waiting."""

    def __init__(self, make_lane, lanes, roles, seed, seconds=None):
        self.make_lane = make_lane
        self.lanes = lanes
        self.roles = roles
        self.random = random.Random(seed)
        self.end = None if seconds is None else time.monotonic() + seconds
        self.lock = threading.Lock()
        self.length = {}  # case: calls of an undisturbed run
        self.tried = collections.Counter()  # case: points
        self.unreached = 0
        self.sites = collections.defaultdict(set)  # role: seen in a run
        self.deaths = collections.defaultdict(collections.Counter)
        self.passed = 0
        self.failures = []

    # -- the work --------------------------------------------------------------

    def run(self):
        """Measures every case, then tries the points."""
        made = self._each_lane(lambda number: self.make_lane())
        try:
            self._work(made, [(case, 0) for case in all_cases(self.roles)])
            points = [(case, n) for case, length in self.length.items()
                      for n in range(1, length + 1)]
            self.random.shuffle(points)
            self._work(made, points)
            self._each_lane(lambda number: self._check_lane(made[number]))
        finally:
            for lane in made:
                lane.close()

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
        for case, number in points:
            queues[case.role].put((case, number))
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
        first = number % len(self.roles)
        for role in self.roles[first:] + self.roles[:first]:
            while self.end is None or time.monotonic() < self.end:
                try:
                    case, at = queues[role].get_nowait()
                except queue.Empty:
                    break
                self._try(lane, case, at)

    def _try(self, lane, case, at):
        try:
            reached, died_at, trace = lane.run(case, at)
        except Exception as caught:  # a point's failure does not end the run
            self._fail(f"{case} at {at}", lane, caught)
            return
        with self.lock:
            self.passed += 1
            self.sites[case.role].update(trace)
            if at == 0:
                self.length[case] = reached
            else:
                self.tried[case] += 1
                self.unreached += died_at is None
            if died_at:
                self.deaths[case.role][died_at] += 1

    def _fail(self, what, lane, caught):
        last = traceback.extract_tb(caught.__traceback__)[-1]
        died_at = lane.page.died_at if lane.page else None
        line = (f"FAILED {what} ({died_at}) in {lane.folder}: "
                f"{type(caught).__name__} {last.name}:{last.lineno} {caught}")
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
        """Coverage by role, and the calls at which nobody died."""
        for role in self.roles:
            total = sum(length for case, length in self.length.items()
                        if case.role == role)
            tried = sum(count for case, count in self.tried.items()
                        if case.role == role)
            deaths = self.deaths[role]
            missed = sorted(self.sites[role] - set(deaths))
            print(f"{role}: {tried} of {total} points, died at "
                  f"{len(deaths)} of {len(self.sites[role])} calls"
                  + (f", not at {', '.join(missed)}" if missed else ""))
        print(f"points past the end of their run: {self.unreached}")


def sweep(cluster, double, folder, counters, options):
    """Runs one; returns (passed, failed)."""
    made = Sweep(lambda: Lane(cluster, double, folder, counters),
                 options.lanes, options.roles, options.seed,
                 options.quick * 60 if options.quick else None)
    made.run()
    made.report()
    return made.passed, len(made.failures)
