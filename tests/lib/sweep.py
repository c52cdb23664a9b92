# SPDX-License-Identifier: Apache-2.0
"""python -m lib.sweep FOLDER: ends clusters and fleets left in a folder."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "dev"))

# pylint: disable=wrong-import-position
from local import process  # noqa: E402
from local.cluster import STATE, Cluster  # noqa: E402


def sweep(folder):
    """Takes down every cluster below the folder, then ends what is left."""
    for state in pathlib.Path(folder).glob(f"**/{STATE}"):
        Cluster(state.parent).down()
    if process.processes_under(folder):
        process.end_processes_under(folder)


if __name__ == "__main__":
    sweep(sys.argv[1])
