"""Servers that live as long as a worker: PostgreSQL and Spark take seconds to start (loaded by tests/conftest.py).

A fixture that several conftest files import is made once for each of them, so servers are kept here instead.
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

Server = TypeVar("Server")

_running = contextlib.ExitStack()


def keep(server: contextlib.AbstractContextManager[Server]) -> Server:
    """Start a server; it is stopped when the run ends."""
    return _running.enter_context(server)


def pytest_sessionfinish() -> None:
    _running.close()
