"""Garbage of the tests is collected without looking at 16,000 collected tests again (loaded by tests/conftest.py).

Python looks at every object again and again while tests are collected, which took half of that time. None of them is
garbage before the run ends, so they are left out afterwards too.
"""

from __future__ import annotations

import gc

import pytest

gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let Python clear the objects when it ends: libraries complain about those that are still there."""
    gc.unfreeze()
