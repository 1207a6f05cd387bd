"""Sentences of all reports on a table. Nothing else puts a line of a report into words.

``who`` is the owner's word for a person, such as ``patient``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tallystick.digits import down, percent_down, percent_up, plural, typed, with_error
from tallystick.printing import escaped, visible

if TYPE_CHECKING:
    from tallystick.tables.reporting.line import Line

NOISE_ONLY: Final = "Intervals are for the privacy noise only."
"""The one line on intervals under a table."""
ALL_GROUPS: Final = "Those of each column hold for all groups together."
STANDARD_ERROR: Final = "standard deviation of the privacy noise of the column, the same in every group"
INTERVALS: Final = (
    "95 % interval for the privacy noise only. It does not include the effect of limits and bounds, or sampling"
)
"""The meaning of every interval of a table, for files, cards and notebooks."""
INTERVAL: Final = "95 % interval for the privacy noise only"
LIMITED: Final = f"{INTERVAL}; rows of a person are counted up to a limit, so the true number of rows may be higher"
TOO_NOISY: Final = "Too noisy to tell: the 95 % interval holds 0 and half of the total."
"""The rule, in a sentence to print beside such a line."""
UNITS: Final = "units"
ROWS: Final = "rows"
COUNTED: Final = "rows that count"
COMPUTED: Final = "computed from released numbers, without its own interval"
NO_INTERVAL: Final = "computed from released numbers in a way that has no interval, so it is not shown"
SAID_FROM: Final = 0.01
"""Share from which the effect of limits and bounds is said under a table. Details have every share."""
NOISY_VALUES: Final = "values too noisy to use"
"""Name of the row of ``table.about.csv`` that says which values those are."""
HIDDEN: Final = '"-" means no value: the noise hides it.'
"""The meaning of a cell without a value."""
NAMED: Final = 3
"""Groups that a sentence names."""


def too_noisy_to_use(
    data: Mapping[str, Sequence[Any]], limits: Mapping[str, tuple[float, float]], groups: Sequence[str]
) -> str:
    """Return which means and quantiles are too noisy to use: by released numbers and public bounds alone.

    A cell without a value is named, too, and the sentence says how the table shows it.

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
    said = [f"Too noisy to use: {'; '.join(sentences)}."] if sentences else []
    measured = [name for name in data if f"{name}_lower" in data and name not in groups]
    said += [HIDDEN] if any(None in data[name] for name in measured) else []
    return " ".join(said)


def is_too_noisy(value: float | None, lower: float | None, upper: float | None, bounds: tuple[float, float]) -> bool:
    """Return whether a mean or quantile has no value, or an interval of more than half of its public bounds.

    >>> is_too_noisy(2, 0, 5, (0.0, 5.0)), is_too_noisy(3, 2.9, 3.1, (0.0, 5.0))
    (True, False)
    """
    if value is None or lower is None or upper is None:
        return True
    low, high = bounds
    return 2 * (upper - lower) > high - low


def _of_groups(data: Mapping[str, Sequence[Any]], places: Sequence[int], groups: Sequence[str]) -> str:
    """Return the first of some groups in words, and how many more there are."""
    if not groups:
        return ""
    named = [" ".join(escaped(str(data[group][i])) for group in groups) for i in places[:NAMED]]
    others = len(places) - NAMED
    named += [f"{others:,} more group{'s' * (others > 1)}"] if others > 0 else []
    return f" of {', '.join(named[:-1])}{' and ' * (len(named) > 1)}{named[-1]}"


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
    if line.is_of_all:
        known = "" if line.upper is not None else f"; {UPPER_NOT_KNOWN}"
        return f"{_ends(line)} {line.what}{known}"
    number = f"about {_value(line)}" if line.lower else f"at most {line.upper:,}"
    if line.total is None or line.share_lower is None or line.share_upper is None:
        return f"{number} {visible(line.what)}"
    if line.share_lower <= 0.0 and line.share_upper >= 1.0:
        return f"{number} {line.of} {visible(line.did)} (the noise hides the share)"
    return f"{number} of about {_total(line)} {line.of} ({_share(line)}) {visible(line.did)}"


def number_cells(line: Line) -> list[str]:
    """Return number, total and share of a line, as cells of a table."""
    if line.is_of_all:
        return [_ends(line), "", "" if line.upper is not None else UPPER_NOT_KNOWN]
    number = _value(line) if line.lower else f"0 to {line.upper:,}"
    if line.total is None or line.share_lower is None or line.share_upper is None:
        return [number, "", ""]
    return [number, _total(line), "too noisy to tell" if line.too_noisy else _share(line)]


ALL_ROWS: Final = "rows in all, with those over the limits"
UPPER_NOT_KNOWN: Final = "upper end not known"


def _ends(line: Line) -> str:
    """Return the interval of a number that may have no known upper end."""
    if line.upper is None:
        return f"at least {line.lower or 0:,}"
    return f"{line.lower or 0:,} to {line.upper:,}"


def _share(line: Line) -> str:
    """Return the interval of a share, as far as the noise and what was counted allow."""
    least, most = percent_down(line.share_lower or 0.0), percent_up(line.share_upper or 0.0)
    if line.may_be_more:
        return f"at least {least}" if is_certain(line) else f"at most {most} of these"
    return f"{least} to {most}" if line.lower else f"at most {most}"


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
    if line.too_noisy:
        return f"{line}: {TOO_NOISY}"
    if line.is_of_all:
        return f"{line}: {INTERVAL}"
    return f"{line}: {INTERVAL if line.limit else LIMITED}"


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


def had_more_in_all(cap: int) -> str:
    """Return what is true of people over the limit on rows in all.

    >>> had_more_in_all(60)
    'had more than 60 rows in all'
    """
    return f"had more than {counted(cap, 'row')} in all"


def in_all_label(cap: int, who: str) -> str:
    """Return the name of people over the limit on rows in all, for a table.

    >>> in_all_label(60, "patient")
    'patients with more than 60 rows in all'
    """
    return f"{plural(who)} with more than {counted(cap, 'row')} in all"


def were_over_limits(seen_to: int, who: str) -> str:
    """Return what is true of rows over the limits."""
    return f"were over the limits (at most {seen_to:,} such rows of {article(who)} {who} were counted)"


def rows_label(seen_to: int, who: str) -> str:
    """Return the name of rows over the limits, for a table."""
    return f"rows over the limits (at most {seen_to:,} per {who})"


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


@dataclass(frozen=True, slots=True)
class Touched:
    """Columns of a table that limits per person touch, by what a reader calls them."""

    rows: bool = False
    """True if a column is a number of rows."""
    sums: bool = False
    is_sum_signed: bool = False
    """True if a sum can have negative values: then rows that are left out can raise it, too."""
    people: bool = False
    weighed: tuple[str, ...] = ()
    """Columns in which people with many rows weigh less, such as means."""

    @classmethod
    def of(cls, measures: Iterable[tuple[str, float | None]]) -> Touched:
        """Return the columns of measures: what limits change in each (``Measure.limited``), and its lower bound.

        >>> Touched.of([("rows", None), ("means", 0.0)])
        Touched(rows=True, sums=False, is_sum_signed=False, people=False, weighed=('means',))
        """
        lowest = dict[str, float]()
        for limited, lower in measures:
            lowest[limited] = min(lowest.get(limited, 0.0), lower or 0.0)
        return cls(
            rows="rows" in lowest,
            sums="sums" in lowest,
            is_sum_signed=lowest.get("sums", 0.0) < 0.0,
            people="people" in lowest,
            weighed=tuple(name for name in WEIGHED if name in lowest),
        )

    @property
    def by_rows(self) -> bool:
        """True if rows that are not counted in full change a column."""
        return self.added or bool(self.weighed)

    @property
    def added(self) -> bool:
        """True if a column adds rows up, so that rows which are not counted are missing in it."""
        return self.rows or self.sums


WEIGHED: Final = ("means", "quantiles", "variances")
"""Measures in which rows have weights, as a reader calls them."""


def effect(lines: Sequence[Line], who: str, touched: Touched) -> str:
    """Return the effect of limits and bounds in sentences; empty if it is small, or touches no column.

    Rows over the limits are said if they change a column and may be more than 1 %. A bound is said if its interval
    lies above 1 %. "At least" needs an interval of twice the width above 0, because the noise alone says so in fewer
    than 1 of 10,000 releases. One sentence names everything that the noise hides.
    """
    said = [_rows_said(line, who, touched) for line in lines if line.seen_to]
    said += [people_over(line, who) for line in lines if line.is_of_groups and touched.people and _is_said(line)]
    values = sorted((line for line in lines if line.of == COUNTED), key=lambda line: -(line.share_lower or 0.0))
    said += [_value_said(line) for line in values[:1] if _is_large(line)]
    said.append(_too_noisy_said(lines, who, touched))
    return " ".join(filter(None, said))


def _rows_said(line: Line, who: str, touched: Touched) -> str:
    """Return the sentence under a table on rows over the limits; empty if there is nothing to say."""
    if not _is_said(line) or not (touched.by_rows or is_certain(line)):
        return ""
    return rows_over(line, who, touched)


def _too_noisy_said(lines: Sequence[Line], who: str, touched: Touched) -> str:
    """Return the one sentence on everything that the noise hides; empty if it hides nothing that matters."""
    hidden = dict.fromkeys(_hidden(line, who, touched) for line in lines)
    named = [name for name in hidden if name]
    return f"It is too noisy to tell how many {' and how many '.join(named)}." if named else ""


def _hidden(line: Line, who: str, touched: Touched) -> str:
    """Return what a line counts, as the end of a sentence, if the noise hides its share; else empty."""
    if not hides_share(line):
        return ""
    if line.seen_to:
        return f"rows are over the limits per {who}" if touched.by_rows else ""
    if line.is_of_groups:
        return f"{plural(who)} are in more than {counted(line.limit, 'group')}" if touched.people else ""
    return "values are outside the bounds" if line.of == COUNTED else ""


def rows_over(line: Line, who: str, touched: Touched) -> str:
    """Return how many rows are over the limits, and what that does to the columns of the table."""
    of_rows = "of rows" if line.total is not None else "rows"
    if is_certain(line):
        more = "more rows" if touched.added else "rows"
        share = "" if line.total is None else f" ({percent_down(line.share_lower or 0.0)} of rows)"
        over = f"At least {down(line.lower or 0)} {more}{share} are over the limits per {who}"
        return f"{over}{_done_to(touched, who, is_certain=True)}."
    seen = f" (counting at most {line.seen_to:,} such rows of {article(who)} {who})" if line.seen_to else ""
    over = f"Up to {_most(line)} {of_rows} may be over the limits per {who}{seen}"
    return f"{over}{_done_to(touched, who, is_certain=False)}."


def _done_to(touched: Touched, who: str, *, is_certain: bool) -> str:
    """Return what rows over the limits do to the columns of a table, as the end of a sentence."""
    if not touched.added:
        weighed = " and ".join(touched.weighed)
        weigh = "weigh" if is_certain else "may weigh"
        return f": {plural(who)} with many rows {weigh} less in {weighed}" if weighed else ""
    not_counted = "and are not counted in full" if is_certain else "and would not be counted in full"
    are = "are" if is_certain else "may be"
    low = ["numbers of rows"] * touched.rows + ["sums"] * (touched.sums and not touched.is_sum_signed)
    higher = f"the true {' and '.join(low)} {are} higher" if low else ""
    signed = f"the true sums {are} different" if touched.sums and touched.is_sum_signed else ""
    return f" {not_counted}: {', and '.join(filter(None, [higher, signed]))}"


def people_over(line: Line, who: str) -> str:
    """Return how many people are in more groups than the limit, and what that does to numbers of people."""
    several = plural(who)
    of_people = f"of {several}" if line.total is not None else several
    groups = f"in more than {counted(line.limit, 'group')}"
    if is_certain(line):
        over = f"At least {_least(line)} {of_people} are {groups} and are not counted in all of them"
        return f"{over}: the true numbers of {several} are higher."
    over = f"Up to {_most(line)} {of_people} may be {groups} and would not be counted in all of them"
    return f"{over}: the true numbers of {several} may be higher."


def _least(line: Line) -> str:
    return f"{line.lower or 0:,}" if line.total is None else percent_down(line.share_lower or 0.0)


def _most(line: Line) -> str:
    return f"{line.upper or 0:,}" if line.total is None else percent_up(line.share_upper or 0.0)


def is_certain(line: Line) -> bool:
    """True if noise alone does not explain that the number is above 0."""
    if line.value is None or not line.lower:
        return False
    return line.lower - (line.value - line.lower) > 0


def hides_share(line: Line) -> bool:
    """True if the noise hides a share: it is not certainly above 0, and may be half of the total."""
    return line.too_noisy or (not is_certain(line) and (line.share_upper or 0.0) >= HALF)


HALF: Final = 0.5
"""Share of the total that says nothing if the number may also be 0."""


def _is_said(line: Line) -> bool:
    """True if the number is certainly above 0, or its share may be above ``SAID_FROM``."""
    if hides_share(line):
        return False
    return is_certain(line) or line.total is None or (line.share_upper or 0.0) > SAID_FROM


def _is_large(line: Line) -> bool:
    return is_certain(line) and (line.share_lower or 0.0) >= SAID_FROM


def _value_said(line: Line) -> str:
    return f"At least {_least(line)} of rows {visible(line.did)}, outside the bounds."


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


def interval_meaning(threshold: int | None, who: str = "unit", *, all_groups: bool = False) -> str:
    """Return the meaning of a table's intervals; ``threshold`` is the least number of a group shown, if any.

    >>> interval_meaning(None) == INTERVALS
    True
    """
    if all_groups:
        return f"{INTERVALS}. {ALL_GROUPS.removesuffix('.')}"
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


def contribution(who: str, *, groups: int | None, rows: int | None, in_all: int | None = None) -> str:
    """Return how much of one person counts, by the limits; None means no such limit.

    >>> contribution("patient", groups=2, rows=3), contribution("employee", groups=None, rows=1)
    ('a patient counts in at most 2 groups, with at most 3 rows in each', 'an employee counts with at most 1 row')
    >>> contribution("patient", groups=2, rows=3, in_all=4)
    'a patient counts in at most 2 groups, with at most 3 rows in each and 4 rows in all'
    >>> contribution("patient", groups=None, rows=None, in_all=4)
    'a patient counts with at most 4 rows in all'
    """
    one = f"{article(who)} {who}"
    if in_all is not None:
        return f"{one} counts {_in_all(groups, rows, in_all)}"
    most = None if rows is None else f"with at most {counted(rows, 'row')}"
    if groups is None:
        return f"{one} counts once" if most is None else f"{one} counts {most}"
    in_groups = f"{one} counts in at most {counted(groups, 'group')}"
    return in_groups if most is None else f"{in_groups}, {most} in each"


def _in_all(groups: int | None, rows: int | None, in_all: int) -> str:
    """Return how much counts where rows in all are limited, too."""
    in_groups = "" if groups is None else f"in at most {counted(groups, 'group')}, "
    each = "in each" if groups is not None else "in a group"
    most = "" if rows is None else f"{counted(rows, 'row')} {each} and "
    return f"{in_groups}with at most {most}{counted(in_all, 'row')} in all"


def article(word: str) -> str:
    """Return the indefinite article of a word.

    >>> article("patient"), article("employee")
    ('a', 'an')
    """
    return "an" if word[:1].lower() in "aeio" else "a"


def how_limits_work(who: str, *, groups: int | None, rows: int | None, in_all: int | None = None) -> str:
    """Return what happens to rows over each limit: some count less, others are not counted.

    >>> how_limits_work("patient", groups=2, rows=None)
    'If a patient is in more than 2 groups, rows in the other groups are not counted.'
    """
    return _limits_said(
        who,
        groups="" if groups is None else f"more than {counted(groups, 'group')}",
        rows="" if rows is None else f"more than {counted(rows, 'row')}",
        limit="" if rows is None else f"{rows:,}",
        in_all="" if in_all is None else f"more than {counted(in_all, 'row')} in all",
    )


def rule_of_limits(who: str, *, groups: int | None, rows: int | None, in_all: int | None = None) -> str:
    """Return the same rule without numbers, where they stand elsewhere.

    >>> rule_of_limits("patient", groups=None, rows=3)
    'If a patient has more rows than the limit, each of them counts less: the limit divided by their number.'
    """
    in_groups = "" if groups is None else "more groups than the limit"
    total = "" if in_all is None else "more rows in all than the limit"
    return _limits_said(
        who, groups=in_groups, rows="" if rows is None else "more rows", limit="the limit", in_all=total
    )


def _limits_said(who: str, *, groups: str, rows: str, limit: str, in_all: str) -> str:
    one, sentences = f"{article(who)} {who}", []
    if rows:
        where = " in a group" if groups or in_all else ""
        than = " than the limit" if limit == "the limit" else ""
        more = f"If {one} has {rows}{where}{than}"
        sentences.append(f"{more}, each of them counts less: {limit} divided by their number.")
    if groups:
        sentences.append(f"If {one} is in {groups}, rows in the other groups are not counted.")
    if in_all:
        still = "still has" if sentences else "has"
        sentences.append(f"If {one} {still} {in_all}, the same share of the rows in each group is counted.")
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
