"""A service with a front for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fronted import Fronted, fronted
from tallystick.service import sandbox


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """A service that listens for HTTP."""
    if sandbox.problem():
        pytest.skip(sandbox.problem())
    with fronted(tmp_path_factory.mktemp("client") / "s") as made:
        yield made
