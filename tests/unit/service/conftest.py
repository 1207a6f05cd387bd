"""A service that runs for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import served
from served import Service
from tallystick.service import sandbox

pytestmark = pytest.mark.skipif(bool(sandbox.problem()), reason=sandbox.problem())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on SQLite."""
    made = served.made(tmp_path_factory.mktemp("service") / "s")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    """A service of its own for one test, which is not started."""
    made = served.made(tmp_path / "s", grace=5.0)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()
