"""Sentences of all reports on a table. Nothing else puts a line of a report into words.

``who`` is the owner's word for a person, such as ``patient``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallystick.digits import percent_down, percent_up, plural, typed, with_error
from tallystick.printing import escaped, visible

if TYPE_CHECKING:
    from tallystick.tables.reporting.line import Line

NOISE_ONLY: Final = "Intervals are for the privacy noise only."
"""The one line on intervals under a table."""
INTERVALS: Final = (
    "95 % interval for the privacy noise only. It does not include the effect of limits and bounds, or sampling"
)
"""The meaning of every interval of a table, for files, cards and notebooks."""
INTERVAL: Final = "95 % interval for the privacy noise only"
LIMITED: Final = f"{INTERVAL}; rows of a person are counted up to a limit, so the true number may be higher"
TOO_NOISY: Final = "Too noisy to tell: the 95 % interval holds 0 and half of the total."
"""The rule, in a sentence to print beside such a line."""
UNITS: Final = "units"
ROWS: Final = "rows"
COUNTED: Final = "rows that count"
COMPUTED: Final = "computed from released numbers, without its own interval"
SAID_FROM: Final = 0.01
"""Share from which the effect of limits and bounds is said under a table. Details have every share."""
NOISY_VALUES: Final = "values too noisy to use"
"""Name of the row of ``table.about.csv`` that says which values those are."""
NAMED: Final = 3
"""Groups that a sentence names."""


def too_noisy_to_use(
    data: Mapping[str, Sequence[Any]], limits: Mapping[str, tuple[float, float]], groups: Sequence[str]
) -> str:
    """Return which means and quantiles are too noisy to use: by released numbers and public bounds alone.

    A cell without a value is not named, because the table shows that the noise hides it.

    >>> data = {"ward": ["a", "b"], "age": [2, 3], "age_lower": [0, 2.9], "age_upper": [5, 3.1]}
    >>> too_noisy_to_use(data, {"age": (0.0, 5.0)}, ["ward"])
    'Too noisy to use: age of a (the interval covers more than half of the bounds 0 to 5).'
    """
    sentences = []
    for name, (low, high) in limits.items():
        ends = zip(data[name], data[f"{name}_lower"], data[f"{name}_upper"], strict=True)
        places = [i for i, cells in enumerate(ends) if is_too_noisy(*cells, (low, high))]
        if places:
            bounds = f"(the interval covers more than half of the bounds {typed(low)} to {typed(high)})"
            sentences.append(f"{escaped(name)}{_of_groups(data, places, groups)} {bounds}")
    return f"Too noisy to use: {'; '.join(sentences)}." if sentences else ""


def is_too_noisy(value: float | None, lower: float | None, upper: float | None, bounds: tuple[float, float]) -> bool:
    """Return whether the interval of a mean or quantile covers more than half of its public bounds.

    >>> is_too_noisy(2, 0, 5, (0.0, 5.0)), is_too_noisy(3, 2.9, 3.1, (0.0, 5.0))
    (True, False)
    """
    if value is None or lower is None or upper is None:
        return False
    low, high = bounds
    return 2 * (upper - lower) > high - low


def _of_groups(data: Mapping[str, Sequence[Any]], places: Sequence[int], groups: Sequence[str]) -> str:
    """Return the first of some groups in words, and how many more there are."""
    if not groups:
        return ""
    named = [" and ".join(escaped(str(data[group][i])) for group in groups) for i in places[:NAMED]]
    others = len(places) - NAMED
    more = f", and {others:,} more group{'s' * (others > 1)}" if others > 0 else ""
    return f" of {', '.join(named)}{more}"


# One line: how much a limit or a bound changed.


def sentence(line: Line) -> str:
    """Return a line in words: what was done to a column, or how much a limit changed."""
    if line.value is None:
        return f"{visible(line.what)}: {visible(line.did)}"
    if line.too_noisy:
        return f"too noisy to tell how many {line.of} {visible(line.did)}"
    return numbers(line)


def numbers(line: Line) -> str:
    """Return how much a limit changed, of how much, even if the noise hides it."""
    number = f"about {_value(line)}" if line.lower else f"at most {line.upper:,}"
    if line.total is None or line.share_lower is None or line.share_upper is None:
        return f"{number} {visible(line.what)}"
    if line.share_lower <= 0.0 and line.share_upper >= 1.0:
        return f"{number} {line.of} {visible(line.did)} (the noise hides the share)"
    return f"{number} of about {_total(line)} {line.of} ({_share(line)}) {visible(line.did)}"


def number_cells(line: Line) -> list[str]:
    """Return number, total and share of a line, as cells of a table."""
    number = _value(line) if line.lower else f"0 to {line.upper:,}"
    if line.total is None or line.share_lower is None or line.share_upper is None:
        return [number, "", ""]
    return [number, _total(line), "too noisy to tell" if line.too_noisy else _share(line)]


def _share(line: Line) -> str:
    """Return the interval of a share, as far as the noise and what was counted allow."""
    least, most = percent_down(line.share_lower or 0.0), percent_up(line.share_upper or 0.0)
    if line.lower:
        return f"at least {least}" if line.may_be_more else f"{least} to {most}"
    return f"at most {most} of these" if line.may_be_more else f"at most {most}"


def _value(line: Line) -> str:
    return _about(line.value or 0, line.lower or 0, line.upper or 0)


def _total(line: Line) -> str:
    return _about(line.total or 0, line.total_lower or 0, line.total_upper or 0)


def _about(middle: int, lower: int, upper: int) -> str:
    return with_error(middle, max(middle - lower, upper - middle))


def explain(line: Line) -> str:
    """Return what a line is about, for a cell of a table."""
    if line.value is None:
        return line.did
    return f"{line}: {TOO_NOISY if line.too_noisy else LIMITED}"


def had_more(cap: int, *, are_groups: bool) -> str:
    """Return what is true of people over a limit.

    >>> had_more(1, are_groups=True), had_more(3, are_groups=False)
    ('had more than 1 group', 'had more than 3 rows in a group')
    """
    what = "group" if are_groups else "row"
    return f"had more than {counted(cap, what)}" + ("" if are_groups else " in a group")


def counted(number: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "group"), counted(2000, "row")
    ('1 group', '2,000 rows')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def over_label(cap: int, who: str, *, are_groups: bool) -> str:
    """Return the name of people over a limit, for a table.

    >>> over_label(2, "patient", are_groups=True), over_label(3, "patient", are_groups=False)
    ('patients in more than 2 groups', 'patients with more than 3 rows in a group')
    """
    if are_groups:
        return f"{plural(who)} in more than {counted(cap, 'group')}"
    return f"{plural(who)} with more than {counted(cap, 'row')} in a group"


def were_over_limits(seen_to: int, who: str) -> str:
    """Return what is true of rows over the limits."""
    return f"were over the limits (at most {seen_to:,} are counted per {who})"


def rows_label(seen_to: int, who: str) -> str:
    """Return the name of rows over the limits, for a table."""
    return f"rows over the limits (first {seen_to:,} per {who})"


def had_value_below(column: str, bound: float) -> str:
    """Return what is true of rows with a value below the bounds."""
    return f"had a value of {column} below {typed(bound)}"


def had_value_above(column: str, bound: float) -> str:
    """Return what is true of rows with a value above the bounds."""
    return f"had a value of {column} above {typed(bound)}"


def outside_label(column: str, bound: float, *, is_above: bool) -> str:
    """Return the name of values outside the bounds, for a table.

    >>> outside_label("age", 110.0, is_above=True)
    'age above 110'
    """
    return f"{column} {'above' if is_above else 'below'} {typed(bound)}"


# All lines: one sentence under the table, and the sentence for files.


def left_out(lines: Sequence[Line], who: str) -> str:
    """Return what limits and bounds changed, in sentences; empty if there is no line."""
    if not lines:
        return ""
    sentences = [f"Effect of limits and bounds per {who}: {'; '.join(map(str, lines))}."]
    noisy = [line for line in lines if line.too_noisy]
    if noisy:
        sentences.append(TOO_NOISY)
    if len(noisy) < len(lines):
        about = INTERVAL if all(line.did for line in lines) else LIMITED
        which = "Each other number has a" if noisy else "Each number has a"
        sentences.append(f"{which} {about}.")
    return " ".join(sentences)


def effect(lines: Sequence[Line], who: str) -> str:
    """Return the effect of limits and bounds in one sentence; empty if no share is known to be large.

    A share is said if its 95 % interval lies above 1 %, and an interval of twice the width above 0: the noise alone
    says one in fewer than 1 of 10,000 releases. The number is the lower bound of the 95 % interval. Rows stand for the
    people who have them.
    """
    said = [_effect_of(line, who) for line in _largest(lines) if _is_large(line)]
    if said:
        return " ".join(f"{capital(each)}." for each in said)
    if any(line.too_noisy for line in lines):
        return "The effect of limits and bounds is too noisy to tell."
    return ""


def _is_large(line: Line) -> bool:
    if line.value is None or line.lower is None:
        return False
    lower_still = line.lower - (line.value - line.lower)
    return (line.share_lower or 0.0) >= SAID_FROM and lower_still > 0


def _largest(lines: Sequence[Line]) -> list[Line]:
    """Return the line that stands for the limits, and the largest one of the bounds."""
    limits = [line for line in lines if line.of != COUNTED]
    rows = [line for line in limits if line.may_be_more and _is_large(line)]
    bounds = [line for line in lines if line.of == COUNTED]
    people = sorted(limits, key=lambda line: -(line.share_lower or 0.0))
    values = sorted(bounds, key=lambda line: -(line.share_lower or 0.0))
    return [*(rows or people)[:1], *values[:1]]


def _effect_of(line: Line, who: str) -> str:
    least = percent_down(line.share_lower or 0.0)
    if line.may_be_more:
        over = f"at least {least} of rows were over the limits per {who} and count less or not at all"
        return f"{over}, so sums and numbers of rows are too low"
    if line.of == COUNTED:
        return f"at least {least} of rows {visible(line.did)}, outside the bounds"
    return f"at least {least} of {line.of} {visible(line.did)}, and further rows count less or not at all"


def capital(text: str) -> str:
    """Return a sentence with a capital letter.

    >>> capital("at least 5 % of rows")
    'At least 5 % of rows'
    """
    return text[:1].upper() + text[1:]


def not_measured(*, limits: bool, bounds: bool) -> str:
    """Return that the effect of limits or bounds was not measured; empty without limits and bounds.

    >>> not_measured(limits=True, bounds=True)
    'The effect of limits and bounds was not measured.'
    """
    which = " and ".join(["limits"] * limits + ["bounds"] * bounds)
    return f"The effect of {which} was not measured." if which else ""


# Intervals, groups, limits.


def interval_meaning(threshold: int | None, who: str = "unit") -> str:
    """Return the meaning of a table's intervals; ``threshold`` is the least number of a group shown, if any.

    >>> interval_meaning(None) == INTERVALS
    True
    """
    return INTERVALS if threshold is None else f"{INTERVALS}. {groups_shown(threshold, who).removesuffix('.')}"


def groups_shown(threshold: int, who: str) -> str:
    """Return which groups a table shows that were found in the data.

    >>> groups_shown(44, "patient").split(". ")[0]
    'Shown: groups whose noisy number of patients reached 44'
    """
    return (
        f"Shown: groups whose noisy number of {plural(who)} reached {threshold:,}. Smaller groups may exist. "
        f"Counts just above {threshold:,} may be mostly noise."
    )


def contribution(who: str, *, groups: int | None, rows: int | None) -> str:
    """Return how much of one person counts, by the limits; None means no such limit.

    >>> contribution("patient", groups=2, rows=3), contribution("employee", groups=None, rows=1)
    ('a patient counts in at most 2 groups, with at most 3 rows in each', 'an employee counts with at most 1 row')
    """
    one = f"{article(who)} {who}"
    most = None if rows is None else f"with at most {counted(rows, 'row')}"
    if groups is None:
        return f"{one} counts once" if most is None else f"{one} counts {most}"
    in_groups = f"{one} counts in at most {counted(groups, 'group')}"
    return in_groups if most is None else f"{in_groups}, {most} in each"


def article(word: str) -> str:
    """Return the indefinite article of a word.

    >>> article("patient"), article("employee")
    ('a', 'an')
    """
    return "an" if word[:1].lower() in "aeio" else "a"


def how_limits_work(*, groups: int | None, rows: int | None) -> str:
    """Return what happens to rows over each limit: some are reduced, others are left out.

    >>> how_limits_work(groups=2, rows=None)
    'Over 2 groups: the other groups do not count.'
    """
    sentences = []
    if rows is not None:
        each = f"each with weight {rows:,} divided by their number"
        where = "" if groups is None else " in a group"
        sentences.append(f"Over {counted(rows, 'row')}{where}: all rows count, {each}.")
    if groups is not None:
        sentences.append(f"Over {counted(groups, 'group')}: the other groups do not count.")
    return " ".join(sentences)


# The cost.


def charged(price: str, epsilon: str, charge: int, left: str) -> str:
    """Return what was charged and what is left.

    >>> charged("rho 0.06", "epsilon 1.63 at delta 1e-6", 4, "rho 0.04 of 0.1")
    'rho 0.06 (epsilon 1.63 at delta 1e-6) as ledger entry 4. Left: rho 0.04 of 0.1.'
    """
    alone = f" ({epsilon})" if epsilon else ""
    return f"{price}{alone} as ledger entry {charge}. Left: {left}."


def asked_before(charge: int) -> str:
    """Return that a stored answer is shown."""
    return f"Asked before: this is the answer of ledger entry {charge}. Nothing was charged."
