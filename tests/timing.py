"""Processor seconds of the tests of each room, printed at the end of a run (loaded by tests/conftest.py).

Time by the clock says little on a busy machine. Processes that a test starts and waits for are counted; servers that
outlive it are not.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

_last = [0.0]
_seconds: dict[str, float] = defaultdict(float)
_tests: dict[str, int] = defaultdict(int)


def room_of(path: str) -> str:
    """The room a test file belongs to: the folder under tests/ (two levels for unit tests), or the doctests of src/.

    >>> room_of("tests/unit/ledger/test_charge.py"), room_of("tests/crash/test_kill.py")
    ('unit/ledger', 'crash')
    >>> room_of("src/tallystick/tables/plan.py")
    'doctests/tables'
    """
    parts = path.replace("\\", "/").split("/")
    if parts[0] == "src":
        return "doctests/" + (parts[2] if len(parts) > 3 else "root")
    return "/".join(parts[1:3]) if parts[1] == "unit" else parts[1]


def spent() -> float:
    """Return the processor seconds of this process and of its children that have ended.

    >>> 0.0 < spent() <= spent()
    True
    """
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collection_finish() -> None:
    _last[0] = spent()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Write onto each report what was spent since the one before; a worker sends it along."""
    outcome: Any = yield
    now = spent()
    outcome.get_result().processor_seconds = now - _last[0]
    _last[0] = now


def pytest_runtest_logreport(report: Any) -> None:
    room = room_of(report.nodeid.split("::")[0])
    _seconds[room] += getattr(report, "processor_seconds", 0.0)
    _tests[room] += report.when == "call"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if sum(_tests.values()) < 200:
        return
    terminalreporter.section("processor seconds per room")
    for room in sorted(_seconds, key=_seconds.__getitem__, reverse=True):
        terminalreporter.write_line(f"{_seconds[room]:8.1f} s {_tests[room]:6d} tests  {room}")
    terminalreporter.write_line(f"{sum(_seconds.values()):8.1f} s {sum(_tests.values()):6d} tests")
