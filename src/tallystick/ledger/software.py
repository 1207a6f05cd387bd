"""Versions of the programs that take part in a release; each charge on data records them."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

PROGRAMS: Final = ("tallystick", "duckdb", "sqlglot")
"""Programs whose version can change what a question reads or how it is written."""


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = []
    for name in PROGRAMS:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # run from its sources
            continue
    return tuple(found)


def versions() -> dict[str, str]:
    """Return the versions of tallystick, DuckDB and sqlglot that are installed.

    >>> sorted(versions()) == sorted(versions().keys() & set(PROGRAMS))
    True
    """
    return dict(_versions())
