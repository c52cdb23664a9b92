# SPDX-License-Identifier: Apache-2.0
"""What keeps a daemon from starting: one line that says what to do, exit 1."""

import re
import subprocess

import pytest

from lib.fleet import listening_ports
from lib.programs import BIN
from lib.wait import wait_for
from local.cluster import new_space_name

DAEMONS = ("producer", "worker", "scheduler")


@pytest.fixture(scope="module")
def base(fleets):
    """A migrated database and topics; no daemon runs."""
    return fleets(producers=0, workers=0, schedulers=0)


def start(base, daemon, settings, inside=(), flags=()):
    argv = [*inside, str(BIN / f"actionist-{daemon}"), *flags, "--set",
            "http.listen=127.0.0.1:0"]
    for setting in settings:
        argv += ["--set", setting]
    return subprocess.Popen(argv, env=base.env, cwd=base.folder, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True)


def check_refused(base, settings, *words, daemons=DAEMONS, inside=()):
    """All daemons at once: some faults take ten seconds to be sure of."""
    children = {daemon: start(base, daemon, settings, inside)
                for daemon in daemons}
    try:
        said = {daemon: (*child.communicate(timeout=60), child.returncode)
                for daemon, child in children.items()}
    finally:
        for child in children.values():
            child.kill()
    for daemon, (out, text, code) in said.items():
        # A fresh Kafka may make its client log a warning meanwhile.
        err = "".join(line for line in text.splitlines(keepends=True)
                      if '"event":"kafka_client"' not in line)
        assert (code, out) == (1, ""), f"{daemon}: {text}"
        assert err.startswith(f"actionist-{daemon}: "), err
        assert err.endswith("\n") and err.count("\n") == 1, err
        assert all(word in err for word in words), err


@pytest.mark.parametrize("setting, words", [
    ("no.such=1", ("no.such", "--help")),
    ("log.level=loud", ("log.level",)),
    ("http.listen=nowhere", ("http.listen",)),
    ("postgres=", ("postgres",)),
    ("postgres=host=127.0.0.1 dbname=x password=secret-word", ("passfile",)),
    ("kafka.no.such.setting=1", ("no.such.setting",)),
    ("kafka.security.protocol=magic", ("security.protocol",)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_setting(base, setting, words):
    check_refused(base, [setting], *words)


@pytest.mark.parametrize("program, setting", [
    ("worker", "worker.presence_postgres"), ("", "postgres.owner"),
    ("", "postgres")])
def test_no_connection_string_may_hold_a_password(base, program, setting):
    name = f"actionist-{program}" if program else "actionist"
    words = [] if program else ["list"]
    done = subprocess.run(
        [str(BIN / name), *words, "--set",
         f"{setting}=host=127.0.0.1 password=secret-word"], env=base.env,
        text=True, capture_output=True, check=False, timeout=30)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "secret-word" not in said
    assert f"{setting} holds a password" in said


def test_an_unreachable_postgres(base):
    check_refused(base, ["postgres=host=127.0.0.1 port=1 dbname=x"],
                  "postgres is not reachable", "check the setting postgres")


def test_an_unreachable_kafka(base):
    check_refused(base, ["kafka.bootstrap.servers=127.0.0.1:1"],
                  "kafka does not answer", "Connection refused",
                  "check kafka.bootstrap.servers")


def test_a_missing_topic(base):
    check_refused(base, ["topics.prefix=nowhere."], "nowhere.", "topic")


def test_a_database_without_tables(base, cluster):
    space = new_space_name()
    cluster.create_space(space, 1)
    check_refused(base, [f"postgres={cluster.conninfo('runtime', space)}"],
                  "run `actionist migrate`")


def test_a_database_of_a_newer_program(base, cluster, fleets):
    newer = fleets(producers=0, workers=0, schedulers=0)
    newer.sql("insert into migration (number, name, checksum)"
              " values (9999, 'from_the_future', 'x')")
    conninfo = cluster.conninfo("runtime", newer.space)
    check_refused(base, [f"postgres={conninfo}"], "9999")


def test_a_role_that_may_not_log_in(base, cluster):
    conninfo = cluster.conninfo("runtime").replace(
        "user=actionist_runtime", "user=nobody_at_all")
    check_refused(base, [f"postgres={conninfo}"], "postgres")


def test_a_cgroup_that_cannot_be_made(base):
    check_refused(base, [f"run.cgroup={'x' * 300}"], "cgroup",
                  daemons=("worker",))


# In a mount namespace of its own: no version 1, and then what is asked for.
# The kernel lists no controllers on version 2 while version 1 has them, so a
# file says what a machine with version 2 alone would.
CGROUPS = """
mount --make-rprivate / &&
awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts | xargs -r -n 1 umount &&
if [ -n "$1" ]; then
    mount -t cgroup2 none /sys/fs/cgroup &&
    mount --bind "$1" /sys/fs/cgroup/cgroup.controllers
fi || exit 99
shift
exec "$@"
"""


@pytest.mark.parametrize("controllers, words", [
    ("cpuset cpu io memory pids", ("'memory' is on version 2", "version 1",
                                   "systemd.unified_cgroup_hierarchy=0")),
    ("", ("cgroups cannot be used", "mount -t cgroup -o memory"))])
def test_a_machine_without_cgroups_of_version_1(
        base, tmp_path, controllers, words):
    listed = ""
    if controllers:
        listed = tmp_path / "cgroup.controllers"
        listed.write_text(f"{controllers}\n")
    check_refused(base, [], *words, daemons=("worker",), inside=(
        "unshare", "--mount", "sh", "-c", CGROUPS, "sh", str(listed)))


@pytest.mark.parametrize("daemon", DAEMONS)
def test_each_daemon_explains_itself(base, daemon):
    done = subprocess.run(
        [str(BIN / f"actionist-{daemon}"), "--help"], env=base.env, text=True,
        capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: actionist-{daemon}")
    for setting in ("postgres", "kafka.bootstrap.servers", "topics.prefix",
                    "http.listen", "log.level"):
        assert f"\n  {setting} " in done.stdout


def run(base, program, *words):
    done = subprocess.run(
        [str(BIN / program), *words], env=base.env, text=True, timeout=30,
        stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("program", [
    "actionist", "actionist-runner", *(f"actionist-{one}" for one in DAEMONS)])
def test_each_program_takes_help_version_and_nothing_unknown(base, program):
    code, out, err = run(base, program, "--help")
    assert (code, err) == (0, "")
    assert out.lower().startswith(f"usage: {program}")
    assert out.count("\n") > 5
    code, out, err = run(base, program, "--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"{program} \d+\.\d+\.\d+\n", out)
    code, out, err = run(base, program, "--no-such-option")
    assert (code, out) == (2, "")
    assert err.startswith(f"{program}: ") and err.count("\n") == 1
    assert "--no-such-option" in err and "--help" in err


def test_a_public_address_needs_tls_or_the_word_that_a_proxy_is_there(base):
    check_refused(base, ["http.listen=0.0.0.0:0"], "reached from outside",
                  "--behind-proxy")
    for daemon in DAEMONS:
        code, out, _ = run(base, f"actionist-{daemon}", "--behind-proxy",
                           "--print-config")
        assert code == 0 and "\nhttp.behind_proxy = true\n" in out
    child = start(base, "producer", ["http.listen=0.0.0.0:0"],
                  flags=("--behind-proxy",))
    try:
        wait_for(lambda: listening_ports(child.pid), "it listens")
    finally:
        child.kill()
        child.communicate()


def test_the_settings_in_effect_hide_secrets(base, tmp_path):
    path = tmp_path / "kafka.pw"
    path.write_text("secret-word\n")
    path.chmod(0o600)
    for daemon in DAEMONS:
        done = subprocess.run(
            [str(BIN / f"actionist-{daemon}"), "--set",
             f"kafka.sasl.password_file={path}", "--print-config"],
            env=base.env, text=True, capture_output=True, check=False,
            timeout=30)
        assert done.returncode == 0, done.stderr
        assert base.space in done.stdout and "secret-word" not in (
            done.stdout + done.stderr)
