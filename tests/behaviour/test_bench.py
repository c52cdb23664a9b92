# SPDX-License-Identifier: Apache-2.0
"""`actionist bench`: the documented fields, and nothing left behind.

The figures themselves are not judged here: other tests share the machine.
"""

import json
import os
import subprocess

from lib.programs import BIN, ROOT
from local.process import processes_under

PROCESSES = {"worker", "keeper", "runner", "scheduler", "postgres", "kafka",
             "double", "load"}


def bench(work_dir, *words):
    env = {**{name: value for name, value in os.environ.items()
              if not name.startswith("ACTIONIST_")},
           "ACTIONIST_DEPLOY": str(ROOT / "deploy" / "dev"),
           "TMPDIR": str(work_dir)}
    return subprocess.run(
        [str(BIN / "actionist"), "bench", *words], env=env, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
        timeout=220)


def check_kind(figures, floor):
    assert figures["rate"] > 0
    assert abs(figures["ratio"] - figures["rate"] / floor) < 0.001
    for latency in (figures, figures["low"]):
        assert 0 < latency["p50_ms"] <= latency["p99_ms"] \
            <= latency["p999_ms"]
    assert set(figures["cpu_us"]) == PROCESSES
    assert all(value >= 0 for value in figures["cpu_us"].values())
    assert figures["rss_mib"] > 0 and figures["wal_bytes"] > 0


def test_a_quick_run_gives_the_documented_fields(work_dir):
    done = bench(work_dir, "--quick", "--records", "2000", "--json")
    # Standard error may tell of work that takes longer than two seconds.
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bench"] == "pipeline" and report["records"] == 2000
    assert report["floor"]["rate"] > 0
    for kind in ("echo", "http", "unsafe"):
        check_kind(report[kind], report["floor"]["rate"])
    assert report["idle"]["cpu_percent"] >= 0
    assert report["idle"]["transactions_per_s"] >= 0
    for left in work_dir.glob("actionist-bench-*"):
        raise AssertionError(f"{left}: {processes_under(left)}")


def test_bad_words_are_named(work_dir):
    for words, named in ((["child"], "child"), (["--records", "1"],
                         "--records"), (["--kind", "x"], "--kind")):
        done = bench(work_dir, *words)
        assert done.returncode == 2 and named in done.stderr
        assert done.stdout == ""
