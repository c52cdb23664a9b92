# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition with a deadline; tests never sleep for luck."""

import time

DEADLINE_S = 45


def wait_for(condition, what, deadline=DEADLINE_S, every=0.05):
    """Calls condition until it returns something true, and returns that.

    Fails the test after `deadline` seconds, naming what was waited for and
    the last value that was seen.
    """
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(
                f"{what}: not within {deadline} s; last seen: {value!r}")
        time.sleep(every)


def stays_true(condition, what, seconds, every=0.1):
    """Fails as soon as the condition is false within the given time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"{what}: did not stay true"
        time.sleep(every)
