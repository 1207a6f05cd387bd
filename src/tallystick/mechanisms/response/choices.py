"""Answers of people to a question with finitely many choices, as numbers 0..k-1."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.weighted_choice import candidates
from tallystick.mechanisms.inputs import length

Codes = NDArray[np.int64]
MOST_CHOICES = 10_000_000


def codes(argument: str, value: Any, choices: tuple[Hashable, ...], *, strict: bool) -> Codes:
    """Number the answers; an answer that is no choice is refused when strict and counts as the first otherwise.

    >>> codes("answers", ["no", "yes"], ("yes", "no"), strict=True)
    array([1, 0])
    """
    allowed = f"a non-empty sequence of answers, each one of {choices if len(choices) < 6 else len(choices)}"
    if isinstance(value, (str, bytes)) or candidates(argument, length(argument, value, allowed)) == 0:
        raise InvalidInput(argument, type(value).__name__, allowed)
    number = {choice: code for code, choice in enumerate(choices)}
    items = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        found = np.fromiter((number.get(answer, -1) for answer in items), dtype=np.int64, count=len(items))
    except TypeError:
        raise InvalidInput(argument, "an unhashable answer", allowed) from None
    if strict and (found < 0).any():
        raise InvalidInput(argument, "an answer that is not a choice", allowed)
    return np.maximum(found, 0)


def labels(choices: int | Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Choices as labels: a number k stands for 0, ..., k - 1.

    >>> labels(2)
    (0, 1)
    """
    allowed = "a number of choices >= 2, or at least two different labels"
    if isinstance(choices, (int, np.integer)) and not isinstance(choices, bool):
        return tuple(range(check.count("choices", choices, least=2, most=MOST_CHOICES)))
    if isinstance(choices, (str, bytes)) or length("choices", choices, allowed) > MOST_CHOICES:
        raise InvalidInput("choices", choices, allowed)
    named: tuple[Hashable, ...] = tuple(choices)  # type: ignore[arg-type]
    try:
        different = len(set(named))
    except TypeError:
        raise InvalidInput("choices", "an unhashable label", allowed) from None
    if len(named) < 2 or different != len(named):
        raise InvalidInput("choices", choices, allowed)
    return named
