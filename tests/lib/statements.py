# SPDX-License-Identifier: Apache-2.0
"""The statements of worker and scheduler, as they are in the programs.

They are read out of the library that the programs were linked from, so a test
can run each of them on rows of its own making."""

import subprocess

import psycopg

from .programs import BIN, ROOT


PINNED = ""  # the name of the settings that pin a session's plans


def read(folder):
    """{name: SQL} of the programs in lib.programs.BIN."""
    return {name: sql for name, (_, sql) in read_typed(folder).items()}


def read_typed(folder):
    """{name: ([type of each parameter, as an oid], SQL)}"""
    printer = folder / "print_statements"
    flags = subprocess.run(["pkg-config", "--cflags", "libpq"], check=True,
                           capture_output=True, text=True).stdout.split()
    subprocess.run(
        ["cc", "-std=c17", "-D_GNU_SOURCE", f"-I{ROOT}", *flags, "-o", printer,
         ROOT / "tests" / "lib" / "print_statements.c",
         BIN.parent / "libactionist.a"], check=True)
    lines = subprocess.run([printer], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    split = [line.split("\t", 2) for line in lines]
    return {name: (types.split(), sql) for name, types, sql in split}


class Statements:
    """Runs statements by name, each in a transaction of its own."""

    def __init__(self, sql, conninfo):
        self.sql = sql
        self.db = psycopg.connect(conninfo, autocommit=True,
                                  options="-c search_path=actionist",
                                  cursor_factory=psycopg.RawCursor)

    def run(self, name, *params):
        """Its rows, or how many rows it touched if it returns none."""
        cursor = self.db.execute(self.sql[name], params)
        return cursor.fetchall() if cursor.description else cursor.rowcount

    def close(self):
        self.db.close()
