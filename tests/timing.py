"""How long the tests of each room took, printed at the end of a run (loaded by tests/conftest.py)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

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


def pytest_runtest_logreport(report: Any) -> None:
    room = room_of(report.nodeid.split("::")[0])
    _seconds[room] += report.duration
    _tests[room] += report.when == "call"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if sum(_tests.values()) < 200:
        return
    terminalreporter.section("seconds per room")
    for room in sorted(_seconds, key=_seconds.__getitem__, reverse=True):
        terminalreporter.write_line(f"{_seconds[room]:8.1f} s {_tests[room]:6d} tests  {room}")
