"""Look for doctests only in files with a prompt in them (loaded by tests/conftest.py).

Otherwise every worker reads each docstring of each test file, and the tests of a file are set up from two modules.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

PROMPT = b">>> "

Nodes = list[pytest.Collector]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Nodes, Nodes]:
    nodes = yield
    if file_path.suffix != ".py" or PROMPT in file_path.read_bytes():
        return nodes
    return [node for node in nodes if type(node).__name__ != "DoctestModule"]
