"""Help to choose caps and bounds: a plan of private quantiles, paid for like any other, and what follows from it.

    asked = suggest_caps(visits, by=["ward"], ranges={"cost": (0, 100_000)}, rho=0.005)    with its cost; opens nothing
    found = asked.release(why="choose caps")                                               charged, read, recorded
    visits = found.applied(visits)

Looking at the data to choose a cap is a release. Here every unit has one row (``Table.each_unit``): the most rows it
has in a group, its number of groups, and one value of each column. How many units have at most 1, 2, 3, ... rows or
groups is a histogram over public candidates, and a column's bounds are two quantiles inside a declared range; with one
row of each unit no caps are needed to ask for them, so they can be asked for first.

Caps are those with the least error of a count (``least_error``), or with ``within`` those that a share of the units
keep to. Both are read from one paid answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallystick.accounting import check
from tallystick.digits import interval, nearest, people, percent, percent_up, plural, typed, with_interval
from tallystick.errors import BudgetExceeded, InvalidInput, Refused
from tallystick.printing import visible
from tallystick.publish.datasets import BOUGHT, find, register
from tallystick.publish.group_size import bought
from tallystick.publish.least_error import CANDIDATES, Choice, Question, TradeOff, trade_off
from tallystick.tables.answers import TreeQuantile
from tallystick.tables.budget import AMOUNTS
from tallystick.tables.denial import for_suggestion
from tallystick.tables.each_unit import GROUPS, MOST_ROWS
from tallystick.tables.fixed_point import LARGEST_BOUND, bounds
from tallystick.tables.layout import Column
from tallystick.tables.layout import lines as table_lines
from tallystick.tables.measures import count, histogram, mean, quantile
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.table import Table

BEYOND = 0.01
BINS = 1024
WIDEST = 1000
"""Rows of a unit in a group for which the noise of a question is computed; the noise of other limits is in proportion.
At one row, noise in whole numbers would not be."""


class Openness(NamedTuple):
    """Uncertainty that the noise leaves: which share may be beyond, and how many times too wide a range may be."""

    share: float
    times: float


UNSURE, SAYS_NOTHING = Openness(0.2, 4.0), Openness(0.5, 10.0)
"""From where on this is said, and from where on it is not applied without a word. Both are compared with what follows
from released and public numbers alone."""
UNSURE_ERROR, SAYS_NOTHING_ERROR = Openness(0.2, 1.5), Openness(0.5, 3.0)
"""The same for limits with the least error: the share of people who may be beyond what the noise shows, and how many
times smaller the error may be with other limits."""
MOSTLY_ERROR = 0.25
"""Share of a group from which an error is most of what a table says."""
WAYS_OUT = "a higher cost, fewer columns at a time, or limits and bounds that you know"


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap that about a share of the units keep to; the noise leaves those from ``lower`` to ``upper``."""

    name: str
    value: int
    lower: int
    upper: int
    shares: tuple[tuple[int, float], ...]
    """For each candidate, about which share of the units has no more."""
    may_be_beyond: float
    """Which share of the units may have more, for all that the noise tells."""

    @property
    def times_too_wide(self) -> float:
        """Largest ratio to what is needed that the noise does not exclude."""
        return self.value / self.lower

    @property
    def times_too_narrow(self) -> float:
        """One: their share says how many units may have more."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds of a column between which all but few values are; in brackets what the noise leaves of each quantile."""

    column: str
    lower: float
    upper: float
    lower_quantile: tuple[float, float, float]
    upper_quantile: tuple[float, float, float]
    reaches: bool
    """Whether values reach the upper end of the declared range, so that it may be too narrow."""
    may_be_beyond: float
    """Which share of the values may lie beyond an end, for all that the noise tells."""
    times_too_wide: float
    """How many times as wide as is needed they may be, for all that the noise tells."""
    times_too_narrow: float
    """How many times as far the values may reach, with as many times as many beyond, for all that the noise tells."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Caps and bounds, and the release they were read from."""

    caps: tuple[Cap, ...]
    """Limits that a share ``within`` of the units keep to; empty where the limits are those of ``trade_off``."""
    bounds: tuple[Bound, ...]
    release: Release
    within: float | None
    beyond: float
    trade_off: TradeOff | None = None
    """Limits with the least error; None with ``within``, and where single rows are protected."""

    @property
    def limits(self) -> dict[str, int | None]:
        """The suggested caps as ``Table.per_unit`` takes them."""
        if self.trade_off is None:
            return {cap.name: cap.value for cap in self.caps}
        limits: dict[str, int | None] = dict(self.trade_off.best.limits._asdict())
        return limits if "groups" in self.release.plan.measures else {ROWS: limits[ROWS]}

    @property
    def says_nothing(self) -> str:
        """Which caps and bounds the noise leaves so open that they say next to nothing, in a sentence; mostly empty."""
        names = [cap.name for cap in self.caps if _open(cap, SAYS_NOTHING)]
        if self.trade_off is not None and _open_error(self.trade_off, SAYS_NOTHING_ERROR):
            names += self.limits
        names += [f"bounds of {visible(bound.column)}" for bound in self.bounds if _open(bound, SAYS_NOTHING)]
        if not names:
            return ""
        share, times = SAYS_NOTHING
        return (
            f"{', '.join(names)}: too noisy to rely on. {percent(share)} or more may be outside, a range "
            f"{typed(times)} times as narrow may be enough, or values may reach {typed(times)} times as far. "
            f"What helps: {WAYS_OUT}"
        )

    def applied(self, table: Table, *, anyway: bool = False) -> Table:
        """The table with these caps and bounds; those of other columns stay.

        Where the noise leaves them so open that they say next to nothing, it is refused unless ``anyway``.
        """
        if self.says_nothing and not anyway:
            raise Refused(f"{self.says_nothing}; anyway=True takes them all the same")
        limits = {**table.limits, **self.limits}
        return table.per_unit(**limits).bounds(**{b.column: (b.lower, b.upper) for b in self.bounds})

    def bought(self, table: Table) -> dict[str, Any]:
        """Return the entry of a registration with the rows in a middle group; empty where they are not certain."""
        found, receipt = self.trade_off, self.release.receipt
        if found is None or receipt is None or _open_error(found, UNSURE_ERROR):
            return {}
        rows = max(1, round(float(f"{found.rows:.2g}")))  # it is an estimate
        return {BOUGHT: bought(table, found.question.by, rows, receipt.charge)}

    @property
    def reason(self) -> str:
        """Origin of these bounds, in a sentence for the card; it stays true after every later choice."""
        receipt = self.release.receipt
        paid = "" if receipt is None else f" (ledger entry {receipt.charge})"
        said = [f"{cap.name} {cap.value}{_kept(cap)}" for cap in self.caps]
        if self.trade_off is not None:
            said += [f"{name} {value}" for name, value in self.limits.items() if value is not None]
        said += [f"{visible(b.column)} {typed(b.lower)} to {typed(b.upper)}" for b in self.bounds]
        return f"from private quantiles{paid}: {', '.join(said)}. Wanted: {', and '.join(self._wanted())}"

    def _wanted(self) -> list[str]:
        """Return the rules by which limits and bounds were chosen."""
        wanted = []
        if self.within is not None and self.caps:
            wanted.append(f"{percent(self.within)} of people keep to each limit")
        if self.trade_off is not None:
            wanted.append(f"the least error of {self.trade_off.question.words}")
        if self.bounds:
            wanted.append(f"{percent(self.beyond)} of the values, one of each person, are outside each bound")
        return wanted

    def save_plot(self, path: str | Path) -> Path:
        """Write a picture of the errors under several limits as .svg or .png. It needs the extra ``plots``."""
        from tallystick import plots  # matplotlib loads slowly

        if self.trade_off is None:
            raise Refused("there are no errors to draw: these limits were not chosen by their error")
        return plots.save(plots.rehearsed(self.trade_off.bars(), column="count"), path)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "caps": self._caps_data(),
            "limits": self.limits,
            "trade_off": None if self.trade_off is None else self.trade_off.to_data(),
            "bounds": {
                b.column: {
                    "value": [b.lower, b.upper], "lower_quantile": list(b.lower_quantile),
                    "upper_quantile": list(b.upper_quantile), "reaches_range": b.reaches,
                    "may_be_beyond": b.may_be_beyond, "times_too_wide": b.times_too_wide,
                    "times_too_narrow": b.times_too_narrow,
                }
                for b in self.bounds
            },
            "within": self.within,
            "beyond": self.beyond,
            "says_nothing": self.says_nothing,
            "reason": self.reason,
        }  # fmt: skip

    def _caps_data(self) -> dict[str, Any]:
        """Return each limit with the ends that the noise leaves."""
        if self.trade_off is not None:
            ends = self.trade_off.lowest._asdict(), self.trade_off.highest._asdict()
            return {
                name: {"value": value, "lower": ends[0][name], "upper": ends[1][name]}
                for name, value in self.limits.items()
                if value is not None
            }
        return {
            cap.name: {
                "value": cap.value, "lower": cap.lower, "upper": cap.upper, "shares": [list(s) for s in cap.shares],
                "may_be_beyond": cap.may_be_beyond, "times_too_wide": cap.times_too_wide,
            }
            for cap in self.caps
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(lines(self))


@dataclass(frozen=True, slots=True)
class Asked:
    """A query to choose caps and bounds: ``plan`` has its cost and opens nothing."""

    plan: Plan
    ranges: Mapping[str, tuple[float, float]]
    within: float | None
    beyond: float
    question: Question | None = None
    """The question that limits are chosen for; None with ``within``, and where single rows are protected."""

    def release(
        self,
        *,
        why: str,
        key: str | None = None,
        dataset: str | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Suggestion:
        """Charge, read, add noise, record; the same key again gives the same suggestion and charges nothing."""
        try:
            return self.read(self.plan.release(why=why, key=key, dataset=dataset, progress=progress))
        except BudgetExceeded as problem:
            raise for_suggestion(problem) from None

    def read(self, release: Release) -> Suggestion:
        """Conclusions from the released numbers: post-processing, which costs nothing."""
        found = [_bound(release, i, column, self.ranges[column], self.beyond) for i, column in enumerate(self.ranges)]
        caps: list[Cap] = []
        best = None
        if self.question is not None:
            best = _trade_off(release, self.question)
        elif self.within is not None:
            names = {"groups": GROUPS_CAP, "rows": ROWS}
            caps = [_cap(release, name, names[name], self.within) for name in names if name in self.plan.measures]
        return Suggestion(tuple(caps), tuple(found), release, self.within, self.beyond, best)


def suggest_caps(
    table: Table,
    *,
    by: Iterable[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    within: float | None = None,
    beyond: float = BEYOND,
    groups: int | None = None,
    per_query: Mapping[str, float] | None = None,
    **budget: Any,
) -> Asked:
    """Ask for caps with the least error of a count, and for bounds that a share ``beyond`` of the values are beyond.

    ``by`` are the columns that tables will be grouped by, ``ranges`` for each column to be bounded a range that surely
    holds its values, and ``rho=``, ``epsilon=``, ``delta=`` the cost. Caps and bounds that the table has are not used.

    The error is that of a table with a count, and a mean of the first column of ``ranges``, in a group of middle size:
    noise, and rows that the caps leave out. ``groups`` is the public number of groups; without it, it is the most
    groups of a unit that the noise shows. ``per_query`` is the cost of such a table, such as ``{"rho": 0.01}``; without
    it, it is the cost of this query. With ``within``, the caps are those that this share of the units keep to. None of
    these three changes what is paid for.

    >>> import pyarrow, tallystick as ts
    >>> visits = ts.Private(pyarrow.table({"who": [1, 1, 2], "ward": ["a", "b", "a"], "age": [40, 40, 7]}))
    >>> asked = ts.suggest_caps(visits.table(unit="who"), by=["ward"], ranges={"age": (0, 150)}, rho=0.01)
    >>> asked.plan.privacy
    <PrivacyLoss zcdp(rho=0.01, delta=0) [add_remove]>
    """
    inside = {column: bounds(*pair) for column, pair in dict(ranges or {}).items()}
    share = None if within is None else check.inside("within", within)
    few = check.inside("beyond", beyond)
    if not (share is None or share >= 0.5) or not few <= 0.25:
        raise InvalidInput("within, beyond", (within, beyond), "within from 0.5, and beyond up to 0.25")
    number = None if groups is None else check.count("groups", groups, least=1)
    bare = replace(table.per_unit(), declared=())
    columns = tuple(by)
    measures: dict[str, Measure] = {}
    if not isinstance(table.unit, EachRow):
        bare = bare.each_unit(by=columns, values=inside).per_unit(max_groups=1, max_rows_per_group=1)
        edges = [0.5, *(candidate + 0.5 for candidate in CANDIDATES), LARGEST_BOUND]
        measures["rows"] = histogram(MOST_ROWS, edges)
        if columns:
            measures["groups"] = histogram(GROUPS, edges)
    elif not inside:
        raise InvalidInput(
            "ranges", {}, "a range to choose bounds in: where single rows are protected there are no limits"
        )
    for i, (column, (low, high)) in enumerate(inside.items()):
        whole = bare.schema.type_of(column) == "integer" and high - low < BINS
        for end, p in (("low", few), ("high", 1.0 - few)):
            measures[f"{end}{i}"] = quantile(column, p, low, high, bins=None if whole else BINS)
    if "weights" not in budget:  # caps decide most, and their counts need less of the price than the trees of quantiles
        budget["weights"] = {name: 5.0 if name in ("rows", "groups") else 1.0 for name in measures}
    plan = bare.agg(**measures).plan(**budget, caps_share=0)
    question = None
    if share is None and not isinstance(table.unit, EachRow):
        cost = {word: plan.budget[word] for word in AMOUNTS if word in plan.budget}
        question = _question(table, columns, inside, dict(per_query or cost), number)
    return Asked(plan, inside, share, few, question)


def _question(
    table: Table,
    by: tuple[str, ...],
    inside: Mapping[str, tuple[float, float]],
    cost: dict[str, Any],
    groups: int | None,
) -> Question:
    """Return the question that limits are chosen for, with its noise: a count, and a mean of the first column."""
    measures: dict[str, Measure] = {"count": count()}
    for column, (low, high) in list(inside.items())[:1]:
        measures[f"mean({column})"] = mean(column, low, high)
    if "epsilon" in cost and not cost.get("delta"):
        cost["pure"] = True
    bare = replace(table, declared=())
    # little noise on whole numbers costs more in epsilon and delta, so that small limits have more of it
    widths = (1, WIDEST) if cost.get("delta") else (WIDEST,)
    plans = [bare.per_unit(max_groups=1, max_rows_per_group=width).agg(**measures).plan(**cost) for width in widths]
    half = max(plan.error()["count"] / width for plan, width in zip(plans, widths, strict=True))
    named = " and ".join(f"a {visible(name)}" for name in measures)
    grouped = f" by {', '.join(visible(column) for column in by)}" if by else ""
    price = ", ".join(f"{word} {typed(plans[0].budget[word])}" for word in AMOUNTS if word in plans[0].budget)
    return Question(f"{named}{grouped} at {price}", by, half, plans[0].noises[0].law.order, groups)


def _trade_off(release: Release, question: Question) -> TradeOff:
    """Return the trade-off from the noisy histograms of a release."""
    measures, numbers = dict(release.plan.query.measures), release.numbers
    rows = numbers[measures["rows"].parts()[0]]
    groups = numbers[measures["groups"].parts()[0]] if "groups" in measures else None
    return trade_off(groups, rows, question)


def _cap(release: Release, measure: str, name: str, p: float) -> Cap:
    """The first candidate that a share ``p`` of the units keep to, by the noisy histogram, and those that noise allows.

    With cumulative counts C the truth is the first i with C_i - p C_last >= 0. That number has the noise of i + 1 bins
    at weight 1 - p and of the others at weight -p, hence its margin; each end fails with 2.5 % at most. A cap may be
    exceeded by a share 1 - p, and by what its margin is of the least that the noise leaves of all units.
    """
    part = dict(release.plan.query.measures)[measure].parts()[0]
    noisy = release.numbers[part]
    counts = noisy.table[0]
    below = np.arange(1, len(counts) + 1)
    rest = np.cumsum(counts) - p * counts.sum()
    spread = np.sqrt(below * (1.0 - p) ** 2 + (len(counts) - below) * p**2)
    margin = noisy.law.deviations(0.95) * noisy.deviation * spread
    last = len(counts) - 1
    at = next((i for i in range(last) if rest[i] >= 0), last)
    first = next((i for i in range(last) if rest[i] > -margin[i]), last)
    end = next((i for i in range(last, 0, -1) if rest[i - 1] < margin[i - 1]), 0)
    values = [*CANDIDATES, CANDIDATES[-1]]  # more than the largest candidate: that one
    total = max(1.0, float(counts.sum()))
    shares = np.clip(np.maximum.accumulate(np.cumsum(counts)) / total, 0.0, 1.0)[:-1].tolist()
    lower, upper = values[min(first, at)], values[max(end, at)]
    chosen = min(at, last - 1)
    missing = max(0.0, margin[chosen] - rest[chosen])
    noise_of_total = noisy.law.deviations(0.95) * noisy.deviation * len(counts) ** 0.5
    least_units = counts.sum() - noise_of_total
    over = min(1.0, 1.0 - p + missing / least_units) if least_units > 0 else 1.0
    return Cap(name, values[at], lower, upper, tuple(zip(CANDIDATES, shares, strict=True)), float(over))


def _bound(release: Release, i: int, column: str, declared: tuple[float, float], beyond: float) -> Bound:
    """Friendly numbers outside both quantiles, inside the declared range."""
    low, high = (_quantile(release, f"{end}{i}") for end in ("low", "high"))
    lower, upper = friendly(low[0], high[0], declared)
    # the lower end of a range is often a true one, such as 0; the upper end seldom is
    reaches = high[0] >= declared[1] - (declared[1] - declared[0]) / 100.0
    (answer,) = release.answers(f"high{i}").values()
    assert isinstance(answer, TreeQuantile)  # of one tree with the lower end, and as far off
    sure = max(high[1] - low[2], (declared[1] - declared[0]) / 100.0)  # as near as ``friendly`` comes to one value
    share = min(1.0, beyond + answer.share_margin())
    wide = upper - lower
    narrow = min((high[2] - low[1]) / wide, share / beyond)  # a far end with hardly anybody beyond is no harm
    return Bound(column, lower, upper, low, high, reaches, share, wide / sure, narrow)


def _quantile(release: Release, name: str) -> tuple[float, float, float]:
    """Return the quantile as drawn, even if the noise hides it, and its interval."""
    value = release.drawn()[name][0]
    lower, upper = (release.data[f"{name}{end}"][0] for end in ("_lower", "_upper"))
    return float(value), float(lower), float(upper)


def friendly(low: float, high: float, declared: tuple[float, float]) -> tuple[float, float]:
    """Bounds that are easy to say, outside ``low`` and ``high`` by no more than a tenth of their distance.

    >>> friendly(17.3, 91.8, (0, 150))
    (15.0, 95.0)
    >>> friendly(0.0, 4183.0, (0, 100_000))
    (0.0, 4200.0)
    """
    first, last = (float(end) for end in declared)
    distance = high - low if high > low else (last - first) / 100.0
    power = 10.0 ** math.floor(math.log10(distance / 10.0))
    step = max(power * times for times in (1, 2, 5) if power * times <= distance / 10.0 * (1 + 1e-9))
    digits = max(0, -math.floor(math.log10(step)))
    lower, upper = math.floor(low / step) * step, math.ceil(high / step) * step
    if lower == upper:
        upper += step
    lower, upper = round(max(first, lower), digits), round(min(last, upper), digits)
    return (lower, upper) if lower < upper else (first, last)


ROWS, GROUPS_CAP = "max_rows_per_group", "max_groups"
NAMES = {GROUPS_CAP: "max groups", ROWS: "max rows per group"}
"""The limits in words."""


def lines(found: Suggestion) -> list[str]:
    """Return a suggestion for people: one line for each limit and each column, and what the noise may hide."""
    who = plural(found.release.who)
    said = []
    for cap in found.caps:
        said += [*_cap_line(cap, who), *_unsure(cap, f"of {who} have more", "a limit")]
    if found.trade_off is not None:
        said += [
            *_table(found.trade_off, has_groups="groups" in found.release.plan.measures),
            *_notes(found.trade_off, who),
        ]
    for bound in found.bounds:
        said.append(_bound_line(bound, found.beyond))
        if bound.reaches:
            said.append("  Values reach the upper end of the range: it may be too narrow.")
        said += _unsure(bound, "of values are outside the bounds", "a range")
    return said


def _table(found: TradeOff, *, has_groups: bool) -> list[str]:
    """Return the errors under several limits as a table."""
    rows = found.lines
    limits = [row.limits for row in rows]
    columns = [Column("rows in each", tuple(f"{each.max_rows_per_group:,}" for each in limits))]
    if has_groups:
        columns.insert(0, Column("groups", tuple(f"{each.max_groups:,}" for each in limits)))
        columns.append(Column("rows in all", tuple(_in_all(each) for each in limits)))
    else:
        columns = [Column("rows", columns[0].values)]
    columns += [
        Column("noise of a count", tuple(f"±{nearest(row.noise)}" for row in rows)),
        Column("left out (seen)", tuple(f"{nearest(row.left_out)} ({nearest(100 * row.share, 2)} %)" for row in rows)),
        Column("error", tuple(nearest(row.total) for row in rows)),
        Column("", tuple("smallest" if row == found.best else "" for row in rows), is_text=True),
    ]
    return table_lines(columns)


def _in_all(limits: Choice) -> str:
    return "-" if limits.max_rows is None else f"{limits.max_rows:,}"


def _notes(found: TradeOff, who: str) -> list[str]:
    """Return the lines under the table of limits: its question, rows that it cannot know, and how sure it is."""
    known = "" if found.question.groups is not None else "at least "
    has = (
        f"{_size(found)} rows ({known}{people(found.groups, 'group')})" if found.groups > 1 else f"{_size(found)} rows"
    )
    what = "A middle group has" if found.groups > 1 else "There are"
    said = [
        f"The error is noise and rows left out, those over the limits, for {found.question.words}.",
        f"{what} about {has}.",
    ]
    beyond = [
        f"up to {math.ceil(each.people):,} {who} {_beyond(name, each.size)}" for name, each in found.hidden.items()
    ]
    if beyond:
        said.append(f"Not seen: {', and '.join(beyond)}. The table does not count what they lose.")
    if found.best.total > MOSTLY_ERROR * found.rows:
        said.append("  The error is over a quarter of a group with any limits. Try: a higher cost or larger groups.")
    return said + _unsure_error(found, who)


def _size(found: TradeOff) -> str:
    return nearest(found.rows, 2)


def _beyond(name: str, size: int) -> str:
    return f"in more than {people(size, 'group')}" if name == GROUPS_CAP else f"with more than {size:,} rows in a group"


def _open_error(found: TradeOff, limits: Openness) -> bool:
    return found.hidden_share >= limits.share or found.times >= limits.times


def _unsure_error(found: TradeOff, who: str) -> list[str]:
    """Return words for what the noise leaves open about limits with the least error, where that is much."""
    if not _open_error(found, UNSURE_ERROR):
        return []
    hidden = []
    if not found.is_known:
        hidden.append(f"there are no {who} at all")
    elif found.hidden_share >= UNSURE_ERROR.share:
        hidden.append(f"up to {percent_up(found.hidden_share, 2)} of {who} are beyond the sizes of this table")
    if found.times >= UNSURE_ERROR.times:
        hidden.append(f"other limits have an error {nearest(found.times, 2)} times smaller")
    return [f"  Not certain: because of the noise it is possible that {', or that '.join(hidden)}. Try: {WAYS_OUT}."]


def details(found: Suggestion) -> list[str]:
    """Return how the suggestion was measured, as lines for a terminal."""
    who = found.release.who
    said = [f"Intervals in brackets: 95 %, privacy noise only, for one value per {who}."]
    if found.within is not None and found.caps:
        said.append(f"About {percent(found.within)} of {plural(who)} keep to each limit.")
    if found.bounds:
        said.append(f"About {percent(found.beyond)} of values are outside each bound.")
    if found.trade_off is not None:
        said += _estimated(found.trade_off, who)
    return said


def _estimated(found: TradeOff, who: str) -> list[str]:
    """Return how the rows that limits leave out are estimated."""
    least, most = (nearest(rows, 2) for rows in found.left_out)
    return [
        "Left out: rows over the limits, estimated. Groups and most rows in a group are measured, not rows in all.",
        f"The best limits leave out {least} rows of a middle group if {plural(who)} have 1 row in most groups,",
        f"and {most} if they have as many rows in each of their groups.",
    ]


def _cap_line(cap: Cap, who: str) -> list[str]:
    """Return a suggested limit, the share of people who keep to it, and the shares at limits that the noise allows."""
    shares = dict(_told_shares(cap))
    end = " or more" if cap.value == CANDIDATES[-1] else ""
    kept = f" About {_rounded(shares[cap.value])} of {who} have {cap.value} or fewer" if cap.value in shares else ""
    others = "".join(f"; with {size} it would be {_rounded(p)}" for size, p in shares.items() if size != cap.value)
    noise = "" if cap.lower == cap.upper else f" The noise allows {cap.lower} to {cap.upper}."
    return [f"{NAMES[cap.name]}: {cap.value}{end}.{kept}{others}{'.' * bool(kept or others)}{noise}"]


def _kept(cap: Cap) -> str:
    """Return the share of people who keep to a limit, as the screen shows it; empty if it is not known."""
    shares = dict(_told_shares(cap))
    return f" (about {_rounded(shares[cap.value])} keep to it)" if cap.value in shares else ""


def _rounded(share: float) -> str:
    return percent(round(share, 2))


def _bound_line(bound: Bound, beyond: float) -> str:
    """Return suggested bounds, and the two quantiles that they are made from."""
    levels = (beyond, 1 - beyond)
    quantiles = zip(levels, (bound.lower_quantile, bound.upper_quantile), strict=True)
    below = " and ".join(f"{percent(p)} are below {with_interval(v, a, b)}" for p, (v, a, b) in quantiles)
    ends = f"{typed(bound.lower)} to {typed(bound.upper)}"
    return f"bounds of {visible(bound.column)}: {ends}. Of the values, about {below}."


def _told_shares(cap: Cap) -> list[tuple[int, float]]:
    """Return the shares at a cap and at the two ends that the noise leaves."""
    near = {size: share for size, share in cap.shares if cap.lower <= size <= cap.upper} or {cap.value: 0.0}
    sizes = dict.fromkeys((min(near), cap.value, max(near)))
    return [(size, near[size]) for size in sizes if size in near]


def _open(found: Cap | Bound, limits: Openness) -> bool:
    times = max(found.times_too_wide, found.times_too_narrow)
    return found.may_be_beyond >= limits.share or times >= limits.times


def _unsure(found: Cap | Bound, more: str, it: str) -> list[str]:
    """Words for what the noise leaves open, where that is much."""
    if not _open(found, UNSURE):
        return []
    hidden = []
    if found.may_be_beyond >= UNSURE.share:
        hidden.append(f"up to {percent_up(found.may_be_beyond, 2)} {more}")
    if found.times_too_wide >= UNSURE.times:
        hidden.append(f"{it} {nearest(found.times_too_wide, 2)} times as narrow is enough")
    if isinstance(found, Bound):
        hidden += _far(found)
    return [f"  Not certain: because of the noise it is possible that {', or that '.join(hidden)}. Try: {WAYS_OUT}."]


def _far(bound: Bound) -> list[str]:
    """Words for how far out the noise leaves the ends, where that is much."""
    if bound.times_too_narrow < UNSURE.times:
        return []
    low, high = bound.lower_quantile[1], bound.upper_quantile[2]
    return [f"values from {interval(low, high)} are usual, with {percent_up(bound.may_be_beyond, 2)} beyond an end"]


def apply(found: Suggestion, name: str, book: Ledger, *, anyway: bool = False) -> bool:
    """Register caps and bounds with the reason for them; False if they say too little and not ``anyway``."""
    if found.says_nothing and not anyway:
        return False
    dataset = find(name, book)
    opened = dataset.opened()
    table = found.applied(opened, anyway=anyway).to_data()
    asking = {word: value for word, value in dataset.asking.items() if word != BOUGHT}
    asking |= found.bought(opened)
    changed = replace(dataset, table=table, about={**dataset.about, "bounds_from": found.reason}, asking=asking)
    register(changed, book.open(dataset.population), update=True)
    return True
