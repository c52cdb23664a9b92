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


def bench(work_dir, *words, path=None):
    env = {**{name: value for name, value in os.environ.items()
              if not name.startswith("ACTIONIST_")},
           "ACTIONIST_DEPLOY": str(ROOT / "deploy" / "dev"),
           "TMPDIR": str(work_dir),
           "PATH": str(path or os.environ["PATH"])}
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
    for condition in ("two_workers", "held", "waiting"):
        again = figures[condition]
        assert abs(again["ratio"] - again["rate"] / figures["rate"]) < 0.002
    assert "four_workers" not in figures


def can_sample():
    """Whether perf is here and may look at all processes."""
    try:
        return subprocess.run(
            ["perf", "record", "-a", "-q", "-o", "/dev/null", "--", "true"],
            capture_output=True, check=False, timeout=60).returncode == 0
    except FileNotFoundError:
        return False


def check_profile(text):
    """Folded stacks: kind, process, thread, frames; a count."""
    kinds, processes = set(), set()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        assert int(count) > 0 and all(frames) and len(frames) > 1, line
        kinds.add(frames[0])
        processes.add(frames[1])
    assert kinds == {"echo", "http", "unsafe"}
    assert processes <= PROCESSES | {"idle", "others"}
    assert {"worker", "postgres"} <= processes


def test_a_quick_run_gives_the_documented_fields(work_dir):
    profile = work_dir / "bench.folded"
    words = ["--profile", str(profile)] if can_sample() else []
    done = bench(work_dir, "--quick", "--records", "2000", "--json",
                 "--processes", "2", "--held", "1", "--waiting", "3000",
                 "--due", "300",
                 *words)
    # Standard error may tell of work that takes longer than two seconds.
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bench"] == "pipeline" and report["records"] == 2000
    assert report["floor"]["rate"] > 0
    for kind in ("echo", "http", "unsafe"):
        check_kind(report[kind], report["floor"]["rate"])
    assert report["idle"]["cpu_percent"] >= 0
    assert report["retries"]["count"] == 300
    # The worker only guesses at the clock of Postgres, on a busy machine badly.
    assert 0 <= report["retries"]["early"] < 300
    assert report["retries"]["p50_ms"] <= report["retries"]["p99_ms"]
    assert report["idle"]["transactions_per_s"] >= 0
    if words:
        check_profile(profile.read_text())
    for left in work_dir.glob("actionist-bench-*"):
        raise AssertionError(f"{left}: {processes_under(left)}")


def test_webhooks_tell_the_documented_fields(work_dir):
    done = bench(work_dir, "webhooks", "--quick", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    slow = report["slow"]
    assert report["bench"] == "webhooks"
    assert slow["connections"] == slow["held"] == 500
    for figures in (report, slow):
        assert figures["deliveries"] == 200 and figures["rate"] > 0
        assert 0 < figures["p50_ms"] <= figures["p99_ms"] \
            <= figures["p999_ms"]
    for left in work_dir.glob("actionist-bench-*"):
        raise AssertionError(f"{left}: {processes_under(left)}")


def test_a_saved_run_is_shown_beside_another(work_dir, tmp_path):
    saved = tmp_path / "saved.json"
    saved.write_text('{"bench":"pipeline","records":100,'
                     '"idle":{"cpu_percent":4.0,"other":1},"echo":{"rate":9}}')
    done = bench(work_dir, "--quick", "--phase", "idle", "--compare",
                 str(saved))
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in
             done.stdout.splitlines() if "idle." in line}
    assert list(lines) == ["idle.cpu_percent"]
    before, now = map(float, lines["idle.cpu_percent"][1:3])
    change = float(lines["idle.cpu_percent"][3])
    assert before == 4 and abs(change - 100 * (now - before) / before) < 0.1


def test_what_is_no_saved_run_is_refused_at_once(work_dir, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"bench": "child"}')
    done = bench(work_dir, "--compare", str(other))
    assert done.returncode == 1 and "other.json" in done.stderr


def test_a_profile_without_perf_is_refused_at_once(work_dir, tmp_path):
    """Not after minutes of measuring."""
    done = bench(work_dir, "--profile", str(tmp_path / "out"), path=tmp_path)
    assert done.returncode == 1 and "perf" in done.stderr
    assert done.stdout == "" and not (tmp_path / "out").exists()


def test_bad_words_are_named(work_dir):
    for words, named in ((["child"], "child"), (["--records", "1"],
                         "--records"), (["--kind", "x"], "--kind"),
                         (["--phase", "x"], "--phase"),
                         (["--phase", "half"], "--rate"),
                         (["--rate", "0"], "--rate"),
                         (["--processes", "9"], "--processes"),
                         (["--held", "0"], "--held"),
                         (["--compare", "F", "--json"], "--compare"),
                         (["--waiting", "5", "--dir", "d"], "--waiting"),
                         (["webhooks", "--records", "100"], "--slow"),
                         (["--phase", "idle", "--profile", "p"],
                          "--profile")):
        done = bench(work_dir, *words)
        assert done.returncode == 2 and named in done.stderr
        assert done.stdout == ""
