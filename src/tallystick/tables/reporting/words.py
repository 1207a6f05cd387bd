"""Sentences of all reports on a table. Nothing else puts a line of a report into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallystick.digits import percent_down, percent_up, typed
from tallystick.printing import escaped, visible

if TYPE_CHECKING:
    from tallystick.tables.reporting.line import Line

INTERVALS: Final = (
    "95 % noise interval for the capped and clamped table's own value (privacy noise only; not the caps' bias, and not "
    "sampling: it is no population interval)"
)
"""What every interval of a table is about; whatever shows one shows this too."""
INTERVAL: Final = "95 % noise interval for this number of the table itself (privacy noise only)"
LIMITED: Final = f"{INTERVAL}; where a unit's rows are counted up to a limit, it may have lost more"
TOO_NOISY: Final = "Too noisy to tell: the 95 % interval holds 0 and half of the total."
"""The rule, in a sentence to print beside such a line."""
UNITS: Final = "units"
ROWS: Final = "rows"
COUNTED: Final = "rows that count"
COMPUTED: Final = "computed from released numbers, without an interval of its own"


NAMED: Final = 3
"""Groups that a sentence names."""


def noisy_means(
    data: Mapping[str, Sequence[Any]], limits: Mapping[str, tuple[float, float]], groups: Sequence[str]
) -> str:
    """Return which means are too noisy to use, in a sentence: by released numbers and public bounds alone.

    >>> data = {"ward": ["a", "b"], "age": [2, 3], "age_lower": [0, 2.9], "age_upper": [5, 3.1]}
    >>> noisy_means(data, {"age": (0.0, 5.0)}, ["ward"])
    'Too noisy to use: age of a (the interval covers more than half of the bounds 0 to 5).'
    """
    told = []
    for name, (low, high) in limits.items():
        ends = zip(data[name], data[f"{name}_lower"], data[f"{name}_upper"], strict=True)
        places = [i for i, cells in enumerate(ends) if None not in cells and 2 * (cells[2] - cells[1]) > high - low]
        if places:
            bounds = f"(the interval covers more than half of the bounds {typed(low)} to {typed(high)})"
            told.append(f"{escaped(name)}{_of_groups(data, places, groups)} {bounds}")
    return f"Too noisy to use: {'; '.join(told)}." if told else ""


def _of_groups(data: Mapping[str, Sequence[Any]], places: Sequence[int], groups: Sequence[str]) -> str:
    """Return the first of some groups in words, and how many more there are."""
    if not groups:
        return ""
    named = [" and ".join(escaped(str(data[group][i])) for group in groups) for i in places[:NAMED]]
    more = f", and {len(places) - NAMED:,} more groups" if len(places) > NAMED else ""
    return f" of {', '.join(named)}{more}"


def sentence(line: Line) -> str:
    """Return a line in words: what was done to a column, or how much a limit left out."""
    if line.value is None:
        return f"{visible(line.what)}: {visible(line.did)}"
    if line.too_noisy:
        return f"too noisy to tell how many {line.of} {visible(line.did)}"
    return numbers(line)


def numbers(line: Line) -> str:
    """Return how much a limit left out, of how much, even if the noise hides it."""
    number = _about(line.value, line.lower, line.upper) if line.lower else f"at most {line.upper:,}"
    if line.total is None or line.share_lower is None or line.share_upper is None:
        return f"{number} {visible(line.what)}"
    if line.share_lower <= 0.0 and line.share_upper >= 1.0:
        return f"{number} {line.of} {visible(line.did)} (which share that is, the noise hides)"
    total = _about(line.total, line.total_lower, line.total_upper)
    return f"{number} of {total} {line.of} ({_share(line)}) {visible(line.did)}"


def _share(line: Line) -> str:
    """Return the interval of a share, as far as the noise and what was counted let it be told."""
    least, most = percent_down(line.share_lower or 0.0), percent_up(line.share_upper or 0.0)
    if line.lower:
        return f"at least {least}" if line.may_be_more else f"{least} to {most}"
    return f"at most {most} of these" if line.may_be_more else f"at most {most}"


def _about(value: int | None, lower: int | None, upper: int | None) -> str:
    middle = value or 0
    return f"about {middle:,} ±{max(middle - (lower or 0), (upper or 0) - middle):,}"


def explain(line: Line) -> str:
    """Return what a line is about, for a cell of a table."""
    if line.value is None:
        return line.did
    return f"{line}: {TOO_NOISY if line.too_noisy else LIMITED}"


def had_more(cap: int, *, are_groups: bool) -> str:
    """Return what is true of units over a cap.

    >>> had_more(1, are_groups=True), had_more(3, are_groups=False)
    ('had more than 1 group', 'had more than 3 rows in a group')
    """
    plural = "s" * (cap > 1)
    return f"had more than {cap} group{plural}" if are_groups else f"had more than {cap} row{plural} in a group"


def were_over_caps(seen_to: int) -> str:
    """Return what is true of rows over the caps."""
    return f"were over the caps, counting up to {seen_to:,} such rows of each unit: more, where one has more"


def had_value_below(column: str, bound: float) -> str:
    """Return what is true of rows with a value below the bounds."""
    return f"had a value of {column} below {typed(bound)}"


def had_value_above(column: str, bound: float) -> str:
    """Return what is true of rows with a value above the bounds."""
    return f"had a value of {column} above {typed(bound)}"


def left_out(lines: Sequence[Line], who: str) -> str:
    """Return what the limits left out, in a sentence; empty if there is no line. ``who`` is what a unit is called."""
    if not lines:
        return ""
    sentences = [f"Left out (a unit is one {who}): {'; '.join(map(str, lines))}."]
    noisy = [line for line in lines if line.too_noisy]
    if noisy:
        sentences.append(TOO_NOISY)
    if len(noisy) < len(lines):
        # a number with its total says itself where there may be more
        about = INTERVAL if all(line.did for line in lines) else LIMITED
        which = "Each of the others" if noisy else "Each"
        sentences.append(f"{which} is a {about}.")
    return " ".join(sentences)


def interval_meaning(threshold: int | None) -> str:
    """Return what the intervals of a table mean; ``threshold`` is the least number of units of a group shown, if any.

    >>> interval_meaning(None) == INTERVALS
    True
    """
    if threshold is None:
        return INTERVALS
    return (
        f"{INTERVALS}. Only groups whose noisy number of units reached {threshold} are shown: intervals of numbers of "
        "units are those given that, and near it reach far down; other numbers have noise of their own, which did not "
        "choose"
    )


def contribution(who: str, *, groups: int | None, rows: int | None) -> str:
    """Return how much of one unit counts, by its limits; None is no such limit.

    >>> contribution("patient", groups=2, rows=None)
    'one patient counts in at most 2 groups'
    >>> contribution("patient", groups=None, rows=5)
    'at most 5 rows of one patient count in full (if there are more, each counts less, and all together as 5)'
    """
    sentences = []
    if groups is not None:
        sentences.append(f"one {who} counts in at most {groups:,} group{'s' * (groups > 1)}")
    if rows is not None:
        where, plural, verb = "" if groups is None else " in a group", "s" * (rows != 1), "s" * (rows == 1)
        sentences.append(
            f"at most {rows:,} row{plural} of one {who}{where} count{verb} in full (if there are more, each counts "
            f"less, and all together as {rows:,})"
        )
    return "; ".join(sentences) or f"every {who} counts once"
