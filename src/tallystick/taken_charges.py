"""Charges that a block of code takes, so that an interruption can say what was charged. This module imports nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_TAKEN: ContextVar[list[Any] | None] = ContextVar("taken", default=None)


@contextmanager
def taken_charges() -> Iterator[list[Any]]:
    """Yield a list that gets every ``ledger.pay.Charge`` of the block just before it is taken.

    A charge that is refused is in the list too. ``Charge.look_up`` asks the ledger which ones were taken.

    >>> with taken_charges() as charges:
    ...     add_charge("a charge")
    >>> charges
    ['a charge']
    """
    charges: list[Any] = []
    token = _TAKEN.set(charges)
    try:
        yield charges
    finally:
        _TAKEN.reset(token)


def add_charge(charge: Any) -> None:
    """Add a charge to the list of the block that runs; outside such a block do nothing.

    >>> add_charge("a charge")
    """
    charges = _TAKEN.get()
    if charges is not None:
        charges.append(charge)
