"""One numbered statement of the lecture notes, as it should read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statement:
    """What a theorem says, where it comes from, what was wrong with it in print, and a number computed now.

    ``functions`` are names in ``ts.theorems`` (none for statements that are facts about code that is not there,
    such as post-processing); ``page`` is relative to ``docs/``; ``test`` is where it is checked.
    """

    number: str
    title: str
    statement: str
    source: str
    page: str
    functions: tuple[str, ...]
    test: str
    live: Callable[[], str]
    erratum: str | None = None


def show(text: str, *numbers: object) -> str:
    """``text`` with its braces filled in: one line per live number in the tables of statements.

    >>> show("epsilon = {:.2f}", 1.0)
    'epsilon = 1.00'
    """
    return text.format(*numbers)
