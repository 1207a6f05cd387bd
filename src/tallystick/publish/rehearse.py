"""A rehearsal: what noise, caps and bounds would each do to a table, on rows that are public or made up.

    found = rehearse(plan, rows)        rows of the same shape: a data frame, a small CSV file, or made_up_rows(plan)
    print(found)

Nothing is charged, and the numbers are exact, so registered data have no place here. For each pair of caps the plan is
computed without its noise, and compared with the same table without caps (every row counts) and without bounds. The
noise is that of the plan at its own cost, so one sees where more rows kept stop paying for the noise they need.
"""

from __future__ import annotations

import atexit
import datetime
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from tallystick.accounting import check
from tallystick.digits import nearest, people, typed
from tallystick.errors import InvalidInput, Refused
from tallystick.printing import visible
from tallystick.tables import run
from tallystick.tables.aggregates import ColumnMeasure, Measure, Quantile
from tallystick.tables.estimates import Estimate, Noisy
from tallystick.tables.fixed_point import LARGEST_BOUND, MOST_BINS
from tallystick.tables.keyset import PublicTable
from tallystick.tables.layout import Column
from tallystick.tables.layout import lines as table_lines
from tallystick.tables.measures import count
from tallystick.tables.parts import UNITS, ColumnPart
from tallystick.tables.plan import make_plan
from tallystick.tables.reader import open_engine
from tallystick.tables.release import CONFIDENCE, NO_CONFIDENCE
from tallystick.tables.reporting.words import counted
from tallystick.tables.schema import UNSUPPORTED
from tallystick.tables.sources import source_of
from tallystick.tables.steps import EACH_ROW, EachRow
from tallystick.tables.table import MOST_GROUPS, MOST_ROWS, Query

if TYPE_CHECKING:
    import duckdb

    from tallystick.tables.plan import Plan
    from tallystick.tables.table import Table

ANY = {"rho": 1.0, "caps_share": 0}
"""The cost of a plan whose noise is not looked at."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of the table before its noise, and half of its interval.

    If the noise would hide the number, the table has no value there, and the interval is all of the bounds.
    """

    value: float
    half: float
    has_value: bool

    def distance(self, true: float) -> float:
        """Return the noise and the distance to the true number; without a value, at least all of the bounds."""
        apart = self.half + abs(self.value - true)
        return apart if self.has_value else max(apart, 2.0 * self.half)


Found = dict[str, dict[Any, Cell]]
"""The cells by column and group."""


@dataclass(frozen=True, slots=True)
class Line:
    """Error of one column under a pair of caps: that of its middle group, from each cause and in all."""

    column: str
    max_groups: int
    max_rows_per_group: int
    noise: float
    """Half the 95 % interval of the privacy noise."""
    caps: float
    clamping: float
    together: float
    """Noise, and how far limits and bounds together move the value; they may cancel."""
    without_value: int = 0
    """Groups whose noise hides the value. Each counts as all of its bounds."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Errors under several caps, side by side."""

    lines: tuple[Line, ...]
    groups: int
    price: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        return tuple(dict.fromkeys(line.column for line in self.lines))

    def of(self, column: str) -> tuple[Line, ...]:
        """The lines of one column, in the order of their caps."""
        found = tuple(line for line in self.lines if line.column == column)
        if not found:
            raise InvalidInput("column", column, f"one of {', '.join(self.columns[:8])}")
        return found

    def best(self, column: str) -> Line:
        """The caps under which it is least wrong."""
        return min(self.of(column), key=lambda line: line.together)

    def bars(self, column: str) -> list[tuple[str, float, float, float, float]]:
        """The lines of one column for ``ts.plots.rehearsed``."""
        return [
            (f"{x.max_groups} x {x.max_rows_per_group}", x.noise, x.caps, x.clamping, x.together)
            for x in self.of(column)
        ]

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {"groups": self.groups, "price": self.price, "lines": [asdict(line) for line in self.lines]}

    def __str__(self) -> str:
        lines = [f"Expected error of a middle group at {self.price}, by cause ({people(self.groups, 'group')})"]
        for column in self.columns:
            lines += ["", *self._table(column)]
        return "\n".join(lines)

    def _table(self, column: str) -> list[str]:
        """Return the errors of one column under each pair of limits as lines of a table."""
        rows = self.of(column)
        best = self.best(column)
        causes = {"noise": "noise", "limits": "caps", "bounds": "clamping", "all": "together"}
        names = tuple(_limits(row) for row in rows)
        columns = [Column(visible(column), names, is_text=True)]
        for word, cause in causes.items():
            columns.append(Column(word, tuple(nearest(getattr(row, cause)) for row in rows)))
        marks = tuple("smallest" if row == best else _hidden(row) for row in rows)
        columns.append(Column("", marks, is_text=True))
        return table_lines(columns)


def _hidden(line: Line) -> str:
    """Return in how many groups the noise hides the value, in words."""
    return f"no value in {line.without_value:,} of them" if line.without_value else ""


def _limits(line: Line) -> str:
    return f"{counted(line.max_groups, 'group')}, {counted(line.max_rows_per_group, 'row')}"


def rehearse(
    plan: Plan, rows: Any, *, caps: Iterable[tuple[int, int]] | None = None, public: bool = False
) -> Rehearsal:
    """Error from noise, from caps and from clamping for several (max_groups, max_rows_per_group), on ``rows``.

    ``rows`` have the columns of the plan's table: a data frame, or a CSV file of at most 1 MB that is not registered.
    ``public=True`` says that they are public; then they may be many.

    >>> import pyarrow, tallystick as ts
    >>> visits = ts.Private(pyarrow.table({"who": [1], "age": [40]})).table(unit="who").per_unit(max_rows_per_group=1)
    >>> plan = visits.agg(n=ts.count()).plan(rho=0.5)
    >>> found = ts.rehearse(plan, pyarrow.table({"who": [1, 1, 2, 3], "age": [7, 8, 40, 99]}), caps=[(1, 1), (1, 2)])
    >>> [(line.max_rows_per_group, line.caps) for line in found.of("n")]
    [(1, 1.0), (2, 0.0)]
    """
    from tallystick.audit.plans import made_up

    query = plan.query
    if isinstance(query.table.unit, EachRow):
        raise Refused("where single rows are protected there are no limits to choose")
    if any(step.local is not None for step in query.table.steps):
        raise Refused("a plan with steps over all rows of a unit is not rehearsed: without a unit they mean nothing")
    chosen = tuple(caps) if caps is not None else usual_caps(query)
    if not chosen:
        raise InvalidInput("caps", [], "at least one pair (max_groups, max_rows_per_group)")
    source = made_up(plan, rows, "rows", public=public)
    if source.kind == "memory" and len(source.handle) == 1:  # whatever it is called, it is the table
        source = source_of({query.table.name: next(iter(source.handle.values()))})
    table = replace(query.table, source=source, account=None)
    whole = _whole(query, table)
    clamped = _exact(whole, ANY)
    there = _with_rows(query, table)
    if not there:
        raise InvalidInput("rows", "rows of which none counts", "rows that the plan's filters and keys keep")
    truth = _truth(query, whole, clamped, there)
    lines = []
    for groups, each in chosen:
        capped = table.per_unit(**{**table.limits, "max_groups": groups, "max_rows_per_group": each})
        under = _exact([_asked(query, capped, dict(query.measures))], plan.budget)
        for name in under:
            if truth[name]:
                lines.append(_line(name, (groups, each), under[name], clamped[name], truth[name]))
    order = list(query.fields)
    lines.sort(key=lambda line: order.index(line.column))
    priced = ", ".join(f"{w} {typed(plan.budget[w])}" for w in ("rho", "epsilon", "delta") if w in plan.budget)
    return Rehearsal(tuple(lines), len(there), priced)


def _truth(query: Query, whole: list[Query], clamped: Found, there: set[Any]) -> Found:
    """Return the values without caps and bounds, of groups that have rows."""
    unbounded = _exact([_unbounded(each) for each in whole], ANY)
    truth = {}
    for name, by_group in unbounded.items():
        truth[name] = {group: found for group, found in by_group.items() if group in there}
    for name, measure in query.measures:
        if isinstance(measure, Quantile):  # bounds move a quantile only if it is beyond them
            low, high = measure.limits
            for group, cell in truth[name].items():
                if low <= cell.value <= high:
                    truth[name][group] = clamped[name][group]
    return truth


def usual_caps(query: Query) -> tuple[tuple[int, int], ...]:
    """The plan's own caps, with a quarter, half, twice and four times the rows, and with half and twice the groups."""
    groups, rows = query.caps.max_groups, query.caps.max_rows
    tried = [(groups, max(1, min(MOST_ROWS, round(rows * times)))) for times in (0.25, 0.5, 1, 2, 4)]
    if query.columns:
        tried += [(max(1, min(MOST_GROUPS, round(groups * times))), rows) for times in (0.5, 2)]
    return tuple(sorted(set(tried)))


def _asked(query: Query, table: Table, measures: Mapping[str, Measure]) -> Query:
    keys: Any = query.keys
    return table.group_by(*query.columns, keys=keys).agg(**measures)


def _whole(query: Query, table: Table) -> list[Query]:
    """Questions without caps: of rows, each of which counts; and of units, which only the cap on groups could drop."""
    units = {name: one for name, one in query.measures if set(one.parts()) == {UNITS}}
    rows = {name: one for name, one in query.measures if name not in units}
    every = table.per_unit(max_groups=MOST_GROUPS, max_rows_per_group=1)
    sides = ((replace(every, unit=EACH_ROW), rows), (every, units))
    return [_asked(query, side, measures) for side, measures in sides if measures]


def _with_rows(query: Query, table: Table) -> set[Any]:
    """The groups that have rows: a public key may have no rows."""
    every_row = _asked(query, replace(table, unit=EACH_ROW), {"rows that count": count()})
    [counts] = _exact([every_row], ANY).values()
    return {group for group, cell in counts.items() if cell.value > 0}


def _unbounded(query: Query) -> Query:
    """Return the question with bounds that hold every value there is."""
    doubles = dict.fromkeys((part.column, part.missing) for part in query.parts if isinstance(part, ColumnPart))
    values: dict[str, list[float]] = {column: [] for column, _ in doubles}
    if doubles:
        with open_engine(query.table.source) as engine:
            _, columns = run.rows(make_plan(query, ANY), engine)
        for (column, _), found in zip(doubles, columns, strict=True):
            known = _floats(found)
            known = known[~np.isnan(known)]
            values[column] += [float(known.min()), float(known.max())] if known.size else []
    return _asked(query, query.table, {name: _wide(one, values) for name, one in query.measures})


def _floats(column: Any) -> Any:
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)


def _wide(measure: Measure, values: Mapping[str, list[float]]) -> Measure:
    if not isinstance(measure, ColumnMeasure):
        return measure
    low, high = measure.limits
    seen = [low, high, *values[measure.column]]
    ends = max(-LARGEST_BOUND, min(seen)), min(LARGEST_BOUND, max(seen))
    if ends == (low, high):
        return measure
    finer: dict[str, Any] = {"bins": MOST_BINS} if isinstance(measure, Quantile) else {}
    return replace(measure, lower=ends[0], upper=ends[1], **finer)


def _exact(asked: Iterable[Query], budget: Mapping[str, Any]) -> Found:
    """The table before its noise, with the intervals that the noise of this budget would have."""
    found: Found = {}
    for query in asked:
        plan = make_plan(query, budget)
        exact = run.integers(plan)
        laws = [noise for noise in plan.noises if noise.part in exact.numbers]
        numbers = {noise.part: Noisy(exact.numbers[noise.part], noise.law, noise.part.scale) for noise in laws}
        groups = exact.keys or (list(query.keys.rows) if isinstance(query.keys, PublicTable) else [()])
        for name, measure in query.measures:
            shown, exact_values = measure.published(numbers, CONFIDENCE), measure.read(numbers, NO_CONFIDENCE)
            for field, *read in zip(measure.fields(name), shown, exact_values, strict=True):
                found[field] = _by_group(groups, *read)
    return found


def _by_group(groups: list[Any], shown: Estimate, exact: Estimate) -> dict[Any, Cell]:
    """Return the cells of a column: ``exact`` has the values that the noise of ``shown`` may hide."""
    halves = (shown.upper - shown.lower) / 2.0
    middles = shown.lower + halves
    # A group without any row has no exact value either: then the reader has the middle of the bounds.
    values = np.where(np.isnan(exact.value), middles, exact.value)
    has_value = ~np.isnan(shown.value)
    cells = map(Cell, values.tolist(), halves.tolist(), has_value.tolist())
    return dict(zip(groups, cells, strict=True))


def _line(
    column: str,
    caps: tuple[int, int],
    under: dict[Any, Cell],
    clamped: dict[Any, Cell],
    truth: dict[Any, Cell],
) -> Line:
    """Return the middle group's errors. A group that is not in the table counts as 0."""
    nothing = Cell(0.0, 0.0, has_value=True)
    cells = [under.get(group, nothing) for group in truth]
    mids = [clamped.get(group, nothing).value for group in truth]
    trues = [cell.value for cell in truth.values()]
    noise = [cell.half for cell in cells]
    by_caps = [abs(cell.value - mid) for cell, mid in zip(cells, mids, strict=True)]
    by_bounds = [abs(mid - true) for mid, true in zip(mids, trues, strict=True)]
    together = [cell.distance(true) for cell, true in zip(cells, trues, strict=True)]
    return Line(
        column,
        *caps,
        noise=float(np.median(noise)),
        caps=float(np.median(by_caps)),
        clamping=float(np.median(by_bounds)),
        together=float(np.median(together)),
        without_value=sum(not cell.has_value for cell in cells),
    )


# Made-up rows of the shape of a plan, for owners without public rows.

_ENGINE_TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}
"""Type of a column in DuckDB, by its type in a schema."""


@dataclass(frozen=True, slots=True)
class MadeUpRows:
    """A table of made-up rows: NumPy arrays by column name, and the Arrow interface.

    It is accepted wherever a data frame is, for example by ``ts.rehearse``, ``ts.Private`` and ``pyarrow.table``.
    DuckDB makes the Arrow stream, so pyarrow is not needed.
    """

    columns: Mapping[str, Any]
    types: Mapping[str, str]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new Arrow stream of the rows; the types come from the schema, not from a sample."""
        places = {f"c{place}": name for place, name in enumerate(self.columns)}
        cells = []
        for place, name in places.items():
            shown = exp.to_identifier(name, quoted=True).sql("duckdb")
            cells.append(f"CAST({place} AS {_ENGINE_TYPES[self.types[name]]}) AS {shown}")
        connection = _connection()
        connection.register("made_up", {place: self.columns[name] for place, name in places.items()})
        return connection.sql(f"SELECT {', '.join(cells)} FROM made_up").__arrow_c_stream__()


_engines: list[duckdb.DuckDBPyConnection] = []
"""An empty database: a rehearsal reads its rows again and again, and opening one takes longer than reading them."""
_lock = threading.RLock()


def _connection() -> duckdb.DuckDBPyConnection:
    """Return a new connection to it; what is registered there goes with the connection."""
    import duckdb

    with _lock:
        if not _engines:
            _engines.append(duckdb.connect(":memory:", config={"threads": 1}))
        return _engines[0].cursor()


def _close() -> None:
    with _lock:
        while _engines:
            _engines.pop().close()


def _before_fork() -> None:
    _lock.acquire()
    _close()  # a child could not end it


os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)
atexit.register(_close)


def made_up_rows(
    plan: Plan,
    *,
    units: int = 2_000,
    rows_per_unit: float = 5.0,
    groups_per_unit: float = 2.0,
    beyond: float = 0.02,
    seed: int = 0,
) -> MadeUpRows:
    """Rows with the columns of the plan's table, from what is public about it and what is assumed here.

    Units have rows in a long tail around ``rows_per_unit``, in about ``groups_per_unit`` of the plan's groups (of
    private ones: of ten) with the first the most frequent, and of a measured column a share ``beyond`` lies above its
    upper bound. It is a made-up world: what it says is how errors change with caps there.
    """
    many = check.count("units", units, least=1, most=1_000_000)
    mean = check.positive("rows_per_unit", rows_per_unit)
    if many * mean > 5_000_000:
        raise InvalidInput("rows_per_unit", rows_per_unit, "at most 5,000,000 rows in all")
    share = check.inside("beyond", beyond)
    homes = check.finite("groups_per_unit", groups_per_unit)
    if not 1 <= homes <= 1_000:
        raise InvalidInput("groups_per_unit", groups_per_unit, "a number from 1 to 1,000")
    draw, table = np.random.default_rng(seed), plan.query.table
    sizes = np.minimum(np.maximum(1, draw.lognormal(np.log(mean) - 0.5, 1.0, many).astype(int)), 100_000)
    who, total = np.repeat(np.arange(many), sizes), int(sizes.sum())
    columns = _groups(plan, draw, who, homes)
    limits = {one.column: one for _, one in plan.query.measures if isinstance(one, ColumnMeasure)}
    for name, kind in table.base.columns:
        if name == table.unit:
            columns[name] = who if kind == "integer" else np.char.add("u", who.astype(str))
        elif name not in columns:
            columns[name] = _values(draw, total, kind, limits.get(name), share)
    made = {name: kind for name, kind in table.base.columns if columns[name] is not None}
    return MadeUpRows({name: columns[name] for name in made}, made)


def _groups(plan: Plan, draw: Any, who: Any, homes: float) -> dict[str, Any]:
    """Key columns, where the groups of each unit differ, and the columns of public joins from their own values."""
    query, made = plan.query, dict[str, Any]()
    for step in query.table.steps:
        if step.public is not None:
            at = [name for name, _ in step.public.columns].index(step.name)
            made[step.name] = draw.choice(_listed([row[at] for row in step.public.rows]), len(who))
    if query.columns:
        kinds = [query.table.schema.type_of(name) for name in query.columns]
        listed = query.keys.rows if isinstance(query.keys, PublicTable) else list(zip(*map(_ten, kinds), strict=True))
        weights = 1.0 / np.arange(1, len(listed) + 1)
        own = 1 + draw.poisson(homes - 1.0, int(who[-1]) + 1)  # how many groups each unit has, and which
        first = np.concatenate([[0], np.cumsum(own)])
        places = draw.choice(len(listed), int(first[-1]), p=weights / weights.sum())
        here = places[first[who] + (draw.random(len(who)) * own[who]).astype(int)]
        for i, name in enumerate(query.columns):
            made.setdefault(name, _listed([row[i] for row in listed])[here])
    return {name: values for name, values in made.items() if name in query.table.base.names}


def _ten(kind: str) -> list[Any]:
    """Ten values of a type that groups can have."""
    made: dict[str, Callable[[int], Any]] = {
        "integer": int,
        "text": lambda i: f"g{i}",
        "boolean": lambda i: i % 2 == 1,
        "date": lambda i: datetime.date(2026, 1, i),
    }
    return [made[kind](i) for i in range(1, 11)]


def _listed(values: list[Any]) -> Any:
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return held


def _values(draw: Any, total: int, kind: str, limits: Any, beyond: float) -> Any:
    """Values of one column: measured ones in a long tail over their bounds, others from ten values."""
    if kind in ("integer", "number"):
        low, high = (0.0, 10.0) if limits is None or limits.lower is None else (limits.lower, limits.upper)
        values = low + (high - low) * draw.exponential(1.0, total) / -np.log(beyond)
        return np.rint(values).astype(np.int64) if kind == "integer" else values
    return None if kind == UNSUPPORTED else _listed(_ten(kind))[draw.integers(0, 10, total)]
