# SPDX-License-Identifier: Apache-2.0
"""Fixtures: one standing cluster a test process, fleets on top of it.

    cluster   session: Kafka and Postgres of this xdist worker
    double    module: the provider double, a scripted HTTP server
    fleet     module: producer, worker and scheduler on `cluster`
    fleets    module: makes more fleets: fleets(workers=2, settings={...})
    clusters  module: makes more clusters, for TLS or to break them
    tenant    a tenant name that no other test uses
"""

import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "deploy" / "dev"))

# pylint: disable=wrong-import-position
from lib.double import Double  # noqa: E402
from lib.fleet import Fleet  # noqa: E402
from lib.sizes import size  # noqa: E402
from lib.sweep import sweep  # noqa: E402
from local.cluster import Cluster, new_space_name  # noqa: E402

# A hung test fails by itself, with its name, before the whole run is stopped.
TEST_SECONDS = size(240, 1200)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Gives each test, with its fixtures, a time limit."""
    def over(*_):
        raise AssertionError(f"{item.nodeid} took over {TEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(TEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


CASE_NAME = re.compile(r"test_[a-z]{3}_\d\d_")


def pytest_collection_modifyitems(items):
    """A test that is named after a numbered case is one."""
    for item in items:
        if CASE_NAME.match(item.name):
            item.add_marker("case")


@pytest.fixture(scope="session")
def work_dir():
    """A folder of this test process, open to the user that runs Postgres."""
    top = os.environ.get("ACTIONIST_TEST_DIR", "/tmp")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="actionist-test-", dir=top))
    folder.chmod(0o755)
    yield folder
    sweep(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster(work_dir):
    """The standing cluster. Leave it running: others use it after you."""
    made = Cluster(work_dir / "cluster")
    made.up(partitions=1)
    yield made
    made.down()


@pytest.fixture(scope="module")
def clusters(work_dir):
    """Makes private clusters: clusters(use_tls=True)."""
    made = []

    def make(**options):
        one = Cluster(work_dir / f"cluster-{uuid.uuid4().hex[:8]}")
        one.up(**{"partitions": 1, **options})
        made.append(one)
        return one

    yield make
    for one in made:
        one.down()


@pytest.fixture(scope="module")
def double():
    """The provider double; scripts are per path, so tests do not meet."""
    made = Double()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def fleets(request, work_dir):
    """Makes fleets; all end with the module."""
    made = []

    def make(on=None, producers=1, workers=1, schedulers=1, partitions=4,
             settings=None):
        space = new_space_name()
        folder = work_dir / space
        folder.mkdir()
        one = Fleet(on or request.getfixturevalue("cluster"), space, folder,
                    partitions, settings)
        made.append(one)
        return one.start(producers, workers, schedulers)

    yield make
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def fleet(fleets):
    """The module's fleet of one producer, one worker, one scheduler."""
    return fleets()


@pytest.fixture
def tenant():
    """A tenant that is this test's alone."""
    return "t-" + uuid.uuid4().hex[:12]
