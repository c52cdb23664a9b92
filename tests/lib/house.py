# SPDX-License-Identifier: Apache-2.0
"""The house rules that no other tool checks. Each rule yields findings."""

import re
import subprocess
import sys

from .stages import ROOT

BANNED = ("sprintf", "vsprintf", "strcpy", "strcat", "strncpy", "strncat",
          "atoi", "atol", "gmtime", "localtime", "system", "popen", "alloca",
          "gets", "strtok")
BANNED_CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
MAX_SOURCE_LINES = 600
MAX_HEADER_LINES = 250
MAX_FUNCTION_LINES = 60
PROGRAMS = ("producer", "worker", "scheduler")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
COMMENT_OR_STRING = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def tracked(*patterns):
    """Files of the tree that git knows, as paths."""
    done = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.splitlines()
            if (ROOT / name).is_file()]


def name_of(path):
    return str(path.relative_to(ROOT))


def _blank(match):
    """Keeps the lines of what is removed, so that numbers stay right."""
    return re.sub(r"[^\n]", " ", match.group())


def code_of(path):
    """A C file without comments and strings."""
    return COMMENT_OR_STRING.sub(_blank, path.read_text())


def check_banned():
    for path in tracked("*.c", "*.h"):
        for number, line in enumerate(code_of(path).splitlines(), 1):
            for found in BANNED_CALL.finditer(line):
                yield f"{name_of(path)}:{number}: {found[1]}() is banned"


def check_first_line():
    wanted = "/* SPDX-License-Identifier: Apache-2.0 */"
    for path in tracked("*.c", "*.h"):
        if path.read_text().split("\n", 1)[0] != wanted:
            yield f"{name_of(path)}:1: first line is not '{wanted}'"


def check_sizes():
    for path in tracked("*.c", "*.h", "*.py"):
        most = MAX_HEADER_LINES if path.suffix == ".h" else MAX_SOURCE_LINES
        count = len(path.read_text().splitlines())
        if count > most:
            yield f"{name_of(path)}: {count} lines, at most {most}"


def check_functions():
    """A body is from a brace alone in column 0 to the closing one."""
    for path in tracked("*.c"):
        opened = None
        text = path.read_text().splitlines()
        for number, line in enumerate(text, 1):
            if line == "{":
                opened = number
            elif line == "}" and opened is not None:
                size = number - opened - 1
                if size > MAX_FUNCTION_LINES:
                    yield (f"{name_of(path)}:{opened}: function of {size} "
                           f"lines, at most {MAX_FUNCTION_LINES}")
                opened = None


def check_includes():
    """common < schema < programs; programs never include each other."""
    allowed = {"common": {"common"}, "schema": {"common", "schema"}}
    for program in PROGRAMS:
        allowed[program] = {"common", "schema", program}
    for path in tracked("*.c", "*.h"):
        top = name_of(path).split("/")[0]
        if top not in allowed:
            continue
        for found in INCLUDE.finditer(path.read_text()):
            if "/" not in found[1]:
                yield (f"{name_of(path)}: include \"{found[1]}\" does not "
                       "begin with its folder")
            elif found[1].split("/")[0] not in allowed[top]:
                yield f"{name_of(path)}: {top}/ may not include {found[1]}"


def check_readmes():
    """Every folder with sources has a README that names its files."""
    folders = {}
    for path in tracked("*.c", "*.h", "*.py", "*.sql"):
        folders.setdefault(path.parent, []).append(path)
    for folder, paths in sorted(folders.items()):
        if folder.name in ("unit", "fuzz", "local", "lib", "sql", "corpus"):
            continue  # told in the README of the folder above
        readme = folder / "README.md"
        if not readme.is_file():
            yield f"{name_of(folder)}/: no README.md"
            continue
        text = readme.read_text()
        for path in paths:
            if path.stem not in text and not path.stem.startswith("test_"):
                yield f"{name_of(readme)}: does not name {path.name}"


def check_unfinished():
    for path in tracked("*.c", "*.h", "*.py", "*.sql", "*.md", "Makefile"):
        if path.name == "house.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNFINISHED.search(line):
                yield f"{name_of(path)}:{number}: unfinished: {line.strip()}"


def check_mutants():
    """Each edit of tests/fault/mutants_table.py must still apply, and the
    table of its README be whole."""
    folder = ROOT / "tests" / "fault"
    sys.path.insert(0, str(folder))
    # pylint: disable-next=import-outside-toplevel,import-error
    from mutants_table import MUTANTS
    readme = (folder / "README.md").read_text()
    for mutant in MUTANTS:
        for name, old, _ in mutant.edits:
            count = (ROOT / name).read_text().count(old)
            if count != 1:
                yield (f"{name}: has {count} times what the mutant "
                       f"{mutant.name} breaks")
        if f"| `{mutant.name}` | {mutant.rule} |" not in readme:
            yield f"{name_of(folder)}/README.md: no mutant {mutant.name}"


RULES = (check_banned, check_first_line, check_sizes, check_functions,
         check_includes, check_readmes, check_unfinished,
         check_mutants)


def findings():
    """All findings of all rules, as lines."""
    return [finding for rule in RULES for finding in rule()]
