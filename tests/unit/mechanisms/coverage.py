"""Which test checks which property of which mechanism: said at the test, counted by test_every_mechanism_is_tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])

LAW = "exact law, and wrong noise rejected"
ENUMERATION = "privacy by enumeration"
INTERVAL = "error covers at its nominal rate"
SUPPORT = "same support on neighbours"
LOW_BITS = "low bits say nothing"
BOUNDARY = "error holds on tied, extreme and boundary data"

TESTED: dict[str, dict[type, list[str]]] = {
    name: {} for name in (LAW, ENUMERATION, INTERVAL, SUPPORT, LOW_BITS, BOUNDARY)
}


def checks(name: str, *mechanisms: type) -> Callable[[Test], Test]:
    """Mark a test as checking a property of these classes."""

    def mark(test: Test) -> Test:
        for mechanism in mechanisms:
            TESTED[name].setdefault(mechanism, []).append(test.__name__)
        return test

    return mark
