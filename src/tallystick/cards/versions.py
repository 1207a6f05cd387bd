"""Check a card that another version of tallystick made.

Versions may say the same in other words. They may also read other intervals from the same released numbers. So words
and intervals of another version are not compared. Everything else must be what this version makes from the ledger:
released values, costs, limits, epsilon, curves, names, hashes. A sentence must have the same numbers, up to rounding
to three digits and in any order.
"""

from __future__ import annotations

import copy
import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick import __version__
from tallystick.ledger.filters import USUAL_DELTA, Amount
from tallystick.tables.output import csv_text
from tallystick.tables.release import NO_CONFIDENCE

if TYPE_CHECKING:
    from tallystick.tables.release import Release

Path = tuple[str, ...]
"""Names on the way to one fact of a card, without the places in lists."""

_SOFTWARE = re.compile(r"tallystick \d[\w+.-]{0,40}", re.ASCII)
_THREE_DIGITS: Final = 0.01
"""Largest relative difference of two roundings, to the same side, of one number to three digits or more."""
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)

INTERVALS: Final = {
    ("chart", "lower"),
    ("chart", "upper"),
    ("error", "columns", "error"),
    ("error", "released", "middle"),
    ("error", "released", "largest"),
    ("left_out", "share_lower"),
    ("left_out", "share_upper"),
}
"""Facts that are computed by the rule for intervals, which may differ between versions."""

EXACT: Final = (
    ("schema",),
    ("version",),
    ("again",),
    ("chart", "field"),
    ("chart", "groups"),
    ("chart", "shown"),
    ("decisions",),
    ("error", "columns", "column"),
    ("error", "released", "column"),
    ("accounting", "filter_name"),
    ("accounting", "plan_hash"),
    ("left_out", "what"),
    ("mechanisms", "bounds_from"),
    ("mechanisms", "parts"),
    ("protected", "adjacency"),
    ("protected", "unit"),
    ("protected", "unit_column"),
    ("protected", "window"),
    ("released", "at"),
    ("released", "dataset"),
    ("released", "group_by"),
    ("released", "groups"),
    ("released", "measures", "name"),
    ("released", "population"),
)
"""Texts that are names, hashes or answers of people: no version may say them in other words."""


LEFT_OUT: Final = {("error", "columns", "holds")}
"""Texts that this version leaves out on some cards: a model has one total, and no groups."""


SAID_OTHERWISE: Final = {("left_out", "said")}
"""Sentences whose numbers are facts of their line, too: earlier versions say another end of the share."""


def earlier_parts(fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the noise of a fit as earlier versions list it: that in the objective, or in the gradients, alone."""
    from tallystick.learn.estimator import OBJECTIVE  # start-up: other cards need no estimator

    if fresh[0]["part"] == OBJECTIVE:
        return [{**fresh[0], "share": 1.0}]
    return [{**fresh[-1], "noise": "Gaussian", "share": 1.0}]


def other_version(facts: Mapping[str, Any]) -> str:
    """The software that made a card, if it is another version than this one; else empty."""
    software = str(facts["accounting"]["software"])
    is_other = software != f"tallystick {__version__}" and _SOFTWARE.fullmatch(software)
    return software if is_other else ""


def earlier_delta(limit: Amount) -> float:
    """The delta at which version 0.1.0 shows epsilon on a card: ten times that of the limit, and at least 1e-6.

    >>> from tallystick.ledger.filters import Filter
    >>> earlier_delta(Amount(Filter("zcdp"), 10**11, 10**12))
    1e-05
    """
    if limit.filter.kind == "approx":
        return float(limit.delta)
    above = max(USUAL_DELTA, float(10 * limit.delta))
    return above if above < 1.0 else float(1 + limit.delta) / 2


@dataclass
class Compared:
    """Differences between a card of another version and the card that this version makes."""

    wrong: set[str] = field(default_factory=set)
    """Sections in which a number or a name differs."""
    words: set[str] = field(default_factory=set)
    """Sections in which only the words differ."""
    intervals: set[str] = field(default_factory=set)
    """Sections in which intervals or predicted errors differ."""


def compare(fresh: Mapping[str, Any], stated: Mapping[str, Any], release: Release | None) -> Compared:
    """Compare a card of another version with the fresh one, fact by fact."""
    filled = dict(fresh) if release is None else _with_drawn_values(fresh, release)
    found = Compared()
    for path, new, drawn, old in _facts((), fresh, filled, stated):
        if path == ("accounting", "software") or same(new, old) or same(drawn, old):
            continue
        found_in = found.wrong
        if path in INTERVALS and _is_interval_end(old):
            found_in = found.intervals
        elif _is_reworded(path, new, old):
            found_in = found.words
        found_in.add(path[0])
    return found


def _facts(path: Path, fresh: Any, filled: Any, stated: Any) -> Iterator[tuple[Path, Any, Any, Any]]:
    """Single facts of three cards side by side; parts of another form are one fact."""
    if isinstance(fresh, dict) and isinstance(stated, dict) and fresh.keys() == stated.keys():
        for name in fresh:
            yield from _facts((*path, name), fresh[name], filled[name], stated[name])
    elif isinstance(fresh, list) and isinstance(stated, list) and len(fresh) == len(stated):
        for each in zip(fresh, filled, stated, strict=True):
            yield from _facts(path, *each)
    else:
        yield path, fresh, filled, stated


def _with_drawn_values(fresh: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """The fresh card as a version shows it that has a value for every positive count and cuts no interval at 0."""
    filled = copy.deepcopy(dict(fresh))
    for chart, (name, values) in zip(filled["chart"], release.drawn().items(), strict=False):
        for end in ("lower", "upper"):
            chart[end] = release.data[f"{name}_{end}"][: len(chart[end])]
        for place, value in enumerate(chart["value"]):
            if value is None:
                chart["value"][place] = values[place]
            chart["shown"][place] = _shown_earlier(chart["value"][place])
    shares = {each.what: each.share for each in release.removed(confidence=NO_CONFIDENCE)}
    for line in filled["left_out"]:
        if line.get("share", 0) is None:
            line["share"] = shares[line["what"]]
    return filled


def _shown_earlier(value: Any) -> str:
    """A released value as the chart of version 0.1 labels it: whole, or with at least five digits."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}"
    if 10_000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 10_000 else f"{value:.5g}"


def _is_interval_end(stated: Any) -> bool:
    is_number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return stated is None or is_number


def _is_reworded(path: Path, fresh: Any, stated: Any) -> bool:
    """True if two texts differ in their words alone: they have the same numbers, maybe rounded or ordered otherwise."""
    if any(path[: len(name)] == name for name in EXACT):
        return False
    one, two = _text(fresh), _text(stated)
    if (path in LEFT_OUT and one == "") or path in SAID_OTHERWISE:
        return True
    if one is None or two is None or bool(one) != bool(two):
        return False
    return _has_all(_numbers(one), _numbers(two)) and _has_all(_numbers(two), _numbers(one))


def _text(value: Any) -> str | None:
    """A sentence, or a list of sentences as one text; None for anything else."""
    if isinstance(value, str):
        return value
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return "\n".join(value) if is_list else None


def _numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in _NUMBER.findall(text)]


def _has_all(numbers: list[float], others: list[float]) -> bool:
    """True if each of some numbers is among others, up to rounding."""
    return all(any(_are_roundings(number, other) for other in others) for number in numbers)


def _are_roundings(one: float, other: float) -> bool:
    """True if two numbers may be roundings of one to three digits or more; whole numbers below 1,000 must be equal.

    Sentences repeat numbers that are separate facts on the card, and those are compared exactly.
    """
    if one == int(one) and other == int(other) and max(one, other) < 1_000:
        return one == other
    return math.isclose(one, other, rel_tol=_THREE_DIGITS)


def same(fresh: Any, stated: Any) -> bool:
    """Equal, up to what two machines' arithmetic may differ by: relative, because a delta may be tiny.

    True and false are not numbers.

    >>> same([0.1 + 0.2], [0.3]), same({"value": 1}, {"value": True})
    (True, False)
    """
    if isinstance(fresh, dict) and isinstance(stated, dict):
        return fresh.keys() == stated.keys() and all(same(fresh[name], stated[name]) for name in fresh)
    if isinstance(fresh, list) and isinstance(stated, list):
        return len(fresh) == len(stated) and all(map(same, fresh, stated))
    if isinstance(fresh, float) and isinstance(stated, float):
        return math.isclose(fresh, stated, rel_tol=1e-6)
    if isinstance(fresh, bool) is not isinstance(stated, bool):
        return False
    return bool(fresh == stated)


def lines_of(table: str) -> list[str]:
    r"""Lines of a CSV text. LF and CRLF end a line, and no other character does.

    >>> lines_of("n,low\r\n7,6\n") == lines_of("n,low\n7,6")
    True
    >>> lines_of("n,low\u20287,6")
    ['n,low\u20287,6']
    """
    return table.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _cells(table: str) -> list[list[str]]:
    """Cells of a CSV text; none if it cannot be read or holds a CR without LF, at which readers differ."""
    lines = lines_of(table)
    if any("\r" in line for line in lines):
        return []
    try:
        return list(csv.reader(lines))
    except csv.Error:
        return []


def compare_table(release: Release, table: str) -> Compared:
    """Compare a CSV table of another version with the stored answer: groups and values, not the intervals."""
    found = Compared()
    drawn = {**release.data, **release.drawn()}
    fresh = _cells(release.to_csv())
    filled = _cells(csv_text(tuple(release.headers.values()), zip(*drawn.values(), strict=True)))
    stated = _cells(table)
    if [len(row) for row in fresh] != [len(row) for row in stated] or fresh[0] != stated[0]:
        found.wrong.add("table")
        return found
    measures = release.drawn()
    ends = {place for place, name in enumerate(release.columns) if name[:-6] in measures and name not in measures}
    for rows in zip(fresh, filled, stated, strict=True):
        for place, (new, value, old) in enumerate(zip(*rows, strict=True)):
            if old not in (new, value):
                (found.intervals if place in ends else found.wrong).add("table")
    return found
