# SPDX-License-Identifier: Apache-2.0
"""Completion and the manual page say what --help says, word for word."""

import re
import subprocess

import pytest

from lib.programs import BIN

ACTIONIST = BIN / "actionist"
SHELLS = ("bash", "zsh", "fish")


def said(*words):
    done = subprocess.run([ACTIONIST, *words], capture_output=True, text=True,
                          check=True, timeout=60)
    return done.stdout


def commands():
    text = said("--help").partition("commands:")[2].partition("options of")[0]
    return re.findall(r"^  ([a-z]+) ", text, re.MULTILINE)


def options(*words):
    text = said(*words, "--help").partition("\noptions:")[2]
    return re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)


def complete(*words):
    """What bash offers for the last of the words."""
    script = ('. <("$0" completion bash); COMP_WORDS=(actionist "$@");'
              ' COMP_CWORD=$#; _actionist; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-euc", script, ACTIONIST, *words],
                          capture_output=True, text=True, check=True,
                          timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("words, offered", [
    (("mig",), ["migrate"]),
    (("pa",), ["pause"]),
    (("key", "a"), ["add"]),
    (("key", "--ten"), ["--tenant"]),
    (("key", "add", "--ten"), ["--tenant"]),
    (("webhook", "source", "ro"), ["rotate"]),
    (("webhook", "--json", "so"), ["source"]),
    (("list", "--tenant", "acme", "--st"), ["--status", "--state"]),
    (("fly", "mig"), ["migrate"]),
    (("migrate", "--fly"), []),
])
def test_bash_completes(words, offered):
    assert sorted(complete(*words)) == sorted(offered)


def test_bash_offers_each_command_and_each_of_its_options():
    names = commands()
    assert {"migrate", "replay", "completion", "man"} <= set(names)
    assert set(complete("")) == set(names)
    for name in names:
        assert set(options(name)) <= set(complete(name, "--")), name


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_knows_each_word(shell):
    text = said("completion", shell)
    for name in commands():
        assert re.search(rf"[ ']{name}[ ':]", text), name
        for option in options(name):
            assert option in text, (name, option)


def test_another_shell_is_refused():
    done = subprocess.run([ACTIONIST, "completion", "csh"], check=False,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "bash, zsh or fish" in done.stderr


def test_manual_page_has_each_command_and_option():
    text = said("man").replace("\\-", "-")
    for name in commands():
        head = f'.SS "actionist {name}"\n'
        assert head in text, name
        section = text.partition(head)[2].partition("\n.S")[0]
        for option in options(name):
            if option not in ("--json", "--config", "--set", "--help"):
                assert f"\\fB{option}\\fR" in section, (name, option)
    for section in ("NAME", "SYNOPSIS", "EXIT STATUS"):
        assert f".SH {section}" in text
    # No line of text may look like a request of troff's.
    known = ("TH", "SH", "SS", "TP", "PP", "B", "I", "nf", "fi")
    for line in text.splitlines():
        if line.startswith("."):
            assert line[1:].split(" ")[0] in known, line
        assert not line.startswith("'"), line
