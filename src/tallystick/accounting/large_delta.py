"""Warn of a delta that is too large for the number of people: it allows to publish a whole record."""

from __future__ import annotations

from tallystick.digits import typed


def large_delta(delta: float, people: int | None, word: str = "people") -> list[str]:
    """Return the warning that delta is not below 1 / n, in a list; an empty list if it is, or n is not public.

    A mechanism that publishes the record of one person, drawn at random, has epsilon 0 at delta 1 / n.

    >>> large_delta(1e-3, 1_000)
    ['delta 0.001 is not below 1 / 1,000 people: a mechanism that publishes one whole record has this guarantee, too']
    >>> large_delta(1e-6, 1_000)
    []
    """
    if people is None or delta * people < 1.0:
        return []
    what = "a mechanism that publishes one whole record has this guarantee, too"
    return [f"delta {typed(delta)} is not below 1 / {people:,} {word}: {what}"]
