"""What caps and bounds left out of a table: how much, of how much, and which share; read from the noisy integers.

Reading is post-processing. A share is a ratio of two noisy numbers, with the interval of Fieller that ``ratio`` gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from tallystick.accounting import check
from tallystick.printing import percent_down, percent_up, visible
from tallystick.tables.estimates import Estimate, Noisy, ratio
from tallystick.tables.parts import OfTable, Part, RowsOver, UnitsOver
from tallystick.tables.reporting.totals import RowsCounted, Seen, UnitsSeen

INTERVAL = "95 % noise interval for this number of the table itself (privacy noise only)"
ABOUT = f"{INTERVAL}; where a unit's rows are counted up to a limit, it may have lost more"
MOST_TOLD: Final = 0.5
"""Share of the total. If the interval of a share holds 0 and this share too, the line is too noisy to tell."""
TOO_NOISY: Final = "Too noisy to tell: the 95 % interval holds 0 and half of the total."
"""The rule, in a sentence to print beside such a line."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How many units, rows or values a cap or a bound touched; the intervals are over the privacy noise alone.

    ``of`` says what ``total`` and ``share`` are of, and is empty where that was not asked. A unit whose rows are
    counted up to a limit may have lost more, which no interval here knows of.
    """

    what: str
    value: int
    lower: int
    upper: int
    did: str = ""
    of: str = ""
    total: int | None = None
    total_lower: int | None = None
    total_upper: int | None = None
    share: float | None = None
    share_lower: float | None = None
    share_upper: float | None = None
    may_be_more: bool = False
    """Whether units may have lost more than is counted: then the true share may be above ``share_upper``."""

    @property
    def too_noisy(self) -> bool:
        """True if the interval excludes neither 0 nor half of the total.

        The rule uses only released numbers. Without a total there is no range, so the number is always told.
        """
        if self.lower > 0 or self.share_upper is None:
            return False
        return self.share_upper >= MOST_TOLD

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data: the numbers as drawn, ``too_noisy``, and the sentence."""
        return {**asdict(self), "too_noisy": self.too_noisy, "said": str(self)}

    def __str__(self) -> str:
        if self.too_noisy:
            return f"too noisy to tell how many {self.of} {visible(self.did)}"
        return self.with_numbers()

    def with_numbers(self) -> str:
        """Return the sentence with its numbers, even if they are too noisy to tell anything."""
        number = _about(self.value, self.lower, self.upper) if self.lower > 0 else f"at most {self.upper:,}"
        if self.total is None or self.share_lower is None or self.share_upper is None:
            return f"{number} {visible(self.what)}"
        if self.share_lower <= 0.0 and self.share_upper >= 1.0:
            return f"{number} {self.of} {visible(self.did)} (which share that is, the noise hides)"
        least, most = percent_down(self.share_lower, 3), percent_up(self.share_upper, 3)
        share = f"{least} to {most}" if self.lower > 0 else f"at most {most}"
        if self.may_be_more:
            share = f"at least {least}" if self.lower > 0 else f"{share} of these"
        total = _about(self.total, self.total_lower or 0, self.total_upper or 0)
        return f"{number} of {total} {self.of} ({share}) {visible(self.did)}"


def _about(value: int, lower: int, upper: int) -> str:
    return f"about {value:,} +-{max(value - lower, upper - value):,}"


def removed_of(parts: Sequence[OfTable], numbers: Mapping[Part, Noisy], confidence: float) -> tuple[Removed, ...]:
    """Everything that was told, in the order of its parts."""
    check.inside("confidence", confidence)
    told = (part for part in parts if not isinstance(part, Seen))
    return tuple(each for part in told for each in _with_totals(part, numbers, confidence))


def _with_totals(part: OfTable, numbers: Mapping[Part, Noisy], confidence: float) -> Iterator[Removed]:
    noisy, whole = numbers[part], numbers.get(UnitsSeen() if isinstance(part, UnitsOver) else RowsCounted())
    half = noisy.half_width(1.0 - confidence)
    for place, (what, (of, did)) in enumerate(zip(part.told, _words(part), strict=True)):
        number = replace(noisy, values=noisy.values[:, place : place + 1])
        value = float(number.column[0])
        # a number below zero is read as 0, as ``ratio`` reads it: nearer to every number that it can be
        told = Removed(what, *_whole(value, value - half, max(value, 0.0) + half))
        if whole is None:
            yield told
            continue
        total, share = (_of_both if isinstance(part, RowsOver) else _of_one)(number, whole, confidence)
        middle, least, most = _whole(*(float(end[0]) for end in (total.value, total.lower, total.upper)))
        largest = float(share.upper[0])
        if told.lower == 0:  # "at most 64 of about 1,000": no smaller share than a reader gets who divides the two
            largest = max(largest, min(1.0, told.upper / max(1, middle)))
        yield replace(
            told,
            did=did,
            of=of,
            may_be_more=isinstance(part, RowsOver),
            total=middle,
            total_lower=least,
            total_upper=most,
            share=None if np.isnan(share.value[0]) else float(share.value[0]),
            share_lower=float(share.lower[0]),
            share_upper=largest,
        )


def _of_one(number: Noisy, whole: Noisy, confidence: float) -> tuple[Estimate, Estimate]:
    """A number that is part of the total."""
    half = whole.half_width(1.0 - confidence)
    return Estimate(whole.column, whole.column - half, whole.column + half), ratio(number, whole, 1.0, confidence)


def _of_both(over: Noisy, counted: Noisy, confidence: float) -> tuple[Estimate, Estimate]:
    """A number beside the total's other part: their sum, and the share from their ratio q as q / (1 + q)."""
    value = np.maximum(over.column, 0.0) + counted.column
    half = over.law.deviations(confidence) * math.hypot(over.deviation, counted.deviation) + over.scale
    odds = ratio(over, counted, math.inf, confidence)
    share = Estimate(*(1.0 - 1.0 / (1.0 + q) for q in (odds.value, odds.lower, odds.upper)))
    return Estimate(value, value - half, value + half), share


def _whole(value: float, lower: float, upper: float) -> tuple[int, int, int]:
    """Whole numbers, none negative, the interval rounded outward."""
    return max(0, round(value)), max(0, math.floor(lower)), max(0, math.ceil(upper))


def _words(part: OfTable) -> tuple[tuple[str, str], ...]:
    """Of what each number is a share, and what is true of that share."""
    if isinstance(part, UnitsOver):
        return (("units", part.label.replace("units with", "had")),)
    if isinstance(part, RowsOver):
        counted = f"counting up to {part.seen_to:,} such rows of each unit: more, where one has more"
        return (("rows", f"were over the caps, {counted}"),)
    return tuple(("rows that count", what.replace("values", "had a value", 1)) for what in part.told)
