"""Garbage of the tests is collected without looking at 16,000 collected tests again (loaded by tests/conftest.py).

Python looks at every object again and again while tests are collected, which took half of that time. None of them is
garbage before the run ends, so they are left out afterwards too. Then Python looks more seldom than usual: a statement
of SQL makes thousands of objects that hold each other, and most are no longer needed when it looks.
"""

from __future__ import annotations

import gc

import pytest

gc.disable()
SELDOM = (20_000, 10, 20)
"""How many new objects make Python look at them, and how many such looks at older ones."""


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.set_threshold(*SELDOM)
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let Python clear the objects when it ends: libraries complain about those that are still there."""
    gc.unfreeze()
