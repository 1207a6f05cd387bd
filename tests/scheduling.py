"""Which worker runs which tests: files as a whole, the longest first (loaded by tests/conftest.py).

A worker that gets a file makes its fixtures once. Tests one by one would be 13,000 messages, and the scheduler of
pytest-xdist looks at all tests that it has given away whenever one ends: together more than a minute of processor time.
"""

from __future__ import annotations

from typing import Any

import pytest

FIRST = ("spark", "worlds", "golden", "contracts")
"""Groups and rooms that take long; started last, one of them would leave the other worker idle."""
ONE_BY_ONE = ("tests/worlds/", "tests/contracts/", "tests/referee/")
"""Rooms whose files take longer than half a minute: their tests are given away one by one."""


def unit_of(nodeid: str) -> str:
    """Return the name of what goes to one worker together: the group of a test, or its file, or the test alone.

    >>> unit_of("tests/unit/tables/test_spark.py::test_a[x]@spark"), unit_of("tests/sql/test_doors.py::test_b[a@b]")
    ('spark', 'tests/sql/test_doors.py')
    >>> unit_of("tests/worlds/test_worlds.py::test_c")
    'tests/worlds/test_worlds.py::test_c'
    """
    if nodeid.rfind("@") > nodeid.rfind("]"):
        return nodeid.rsplit("@", 1)[1]
    return nodeid if nodeid.startswith(ONE_BY_ONE) else nodeid.split("::")[0]


def place_of(item: pytest.Item) -> int:
    """Return the rank of a test among all: the groups and rooms of FIRST, then the others."""
    marker = item.get_closest_marker("xdist_group")
    names = {*item.path.parts, *(marker.args if marker else ())}
    return next((place for place, name in enumerate(FIRST) if name in names), len(FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Make the scheduler of a run with ``--dist loadgroup``; it keeps the order of the tests."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False
    return ByFile(config, log)
