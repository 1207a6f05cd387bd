"""A release: the stored noisy integers, read as a table of values with intervals. Reading is post-processing."""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.drawing import bars, table
from tallystick.errors import LedgerIntegrity, Unavailable
from tallystick.printing import cell, csv_cell, escaped, html_text, json_text, plain, visible
from tallystick.tables.estimates import Estimate, Noisy, cut_at_zero
from tallystick.tables.keyset import PublicTable
from tallystick.tables.plan import intervals_about
from tallystick.tables.removed import Removed, removed_of
from tallystick.tables.shown import measured, said
from tallystick.tables.table import UNITS
from tallystick.tables.told import ABOUT_COLUMNS, Told

if TYPE_CHECKING:
    from tallystick.inference.released import Answer
    from tallystick.ledger.pay import Receipt
    from tallystick.tables.consistent import Consistent
    from tallystick.tables.parts import Part
    from tallystick.tables.plan import Plan

FORMAT = "tallystick/release/1"
CONFIDENCE = 0.95
NO_CONFIDENCE = 1e-9
"""A reading at this confidence has a value wherever the released count is positive. Its intervals are of no use."""


def answer_of(plan: Plan, keys: list[tuple[Any, ...]] | None, numbers: list[Any]) -> dict[str, Any]:
    """What the ledger keeps: noisy integers, and the groups where they were chosen privately."""
    from tallystick import __version__

    held: Any = None
    if keys is not None:
        texts = [[v.isoformat() if isinstance(v, datetime.date) else v for v in key] for key in keys]
        held = [list(column) for column in zip(*texts, strict=True)] if texts else [[] for _ in plan.query.columns]
    return {"format": FORMAT, "plan": plan.hash, "version": __version__, "keys": held, "numbers": list(numbers)}


class Columns:
    """A table that is shown: ``data`` has its columns, and here is what can be done with them."""

    @property
    def data(self) -> dict[str, list[Any]]:
        """The table as columns. None is "no value"."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.data)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table as dicts."""
        return _rows(self.data)

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that say which group a row is about: names, and no amounts even where they are numbers."""
        return ()

    @property
    def counts(self) -> tuple[str, ...]:
        """The columns that are noisy numbers of rows or people, as they were released."""
        return ()

    @property
    def for_readers(self) -> dict[str, list[Any]]:
        """``data`` with the intervals of counts cut at 0: terminal, notebook, card and plots show this.

        Values stay as they were drawn. CSV, JSON and the other formats have the uncut intervals.
        """
        shown = dict(self.data)
        for name in self.counts:
            ends = (f"{name}_lower", f"{name}_upper")
            if all(end in shown for end in ends):
                shown |= zip(ends, _cut(*(shown[column] for column in (name, *ends))), strict=True)
        return shown

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text, written to ``path`` where one is given.

        Text that a spreadsheet would run (it starts with =, +, - or @) gets an apostrophe in front, which spreadsheets
        do not show. Control, bidirectional and zero-width characters are written as escapes, such as ``\\x1b``; a
        backslash before such letters is doubled. Numbers and dates are as they are. ``rows`` and ``to_json`` have the
        text itself.
        """
        text = csv_text(self.columns, [row.values() for row in self.rows])
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="")
        return text

    def to_arrow(self) -> Any:
        """A pyarrow table; pyarrow is not part of the core."""
        try:
            import pyarrow
        except ImportError:
            raise Unavailable("to_arrow needs pyarrow: pip install pyarrow") from None
        return pyarrow.table(self.data)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas data frame; pandas is not part of the core."""
        try:
            import pandas
        except ImportError:
            raise Unavailable("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.data)

    def to_polars(self) -> Any:
        """A Polars data frame; polars is not part of the core."""
        try:
            import polars
        except ImportError:
            raise Unavailable("to_polars needs polars: pip install polars") from None
        return polars.DataFrame(self.data)

    def to_parquet(self, path: str | Path) -> Path:
        """Write the table to a Parquet file."""
        import duckdb

        with duckdb.connect(":memory:") as connection:
            connection.register("released", self.to_arrow())
            connection.execute("COPY released TO ? (FORMAT parquet)", [os.path.realpath(path)])  # not a URL
        return Path(path)

    def to_arrow_file(self, path: str | Path) -> Path:
        """Write the table to a file in Arrow's IPC format, which Feather is too."""
        table = self.to_arrow()
        import pyarrow

        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return Path(path)

    def lines(self, most: int = 40) -> list[str]:
        """The table for a terminal: values with their intervals, the first ``most`` rows."""
        fields = [name for name in self.columns if not (name.endswith(("_lower", "_upper")) and name[:-6] in self.data)]
        lines = [[escaped(name) for name in fields]]
        rows, groups = _rows(self.for_readers), self.groups
        for row in rows[:most]:
            ends = {name: (row.get(f"{name}_lower"), row.get(f"{name}_upper")) for name in fields}
            lines.append(
                [
                    escaped(_shown(row[name])) if name in groups else _with_interval(row[name], *ends[name])
                    for name in fields
                ]
            )
        widths = [max(len(line[i]) for line in lines) for i in range(len(fields))]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return [*shown, *([f"... and {len(rows) - most} more groups"] if len(rows) > most else [])]

    def bars(self, *, fields: int = 3, groups: int = 20) -> list[dict[str, Any]]:
        """The first columns with intervals, each with its first groups, as a chart draws them."""
        data = self.for_readers
        named = [name for name in data if f"{name}_lower" in data]
        ends = {f"{name}{end}" for name in named for end in ("_lower", "_upper")}
        keys = [name for name in data if name not in named and name not in ends]
        count = len(data[named[0]]) if named else 0
        labels = [", ".join(escaped(_shown(data[key][i])) for key in keys) for i in range(min(count, groups))]
        return [
            {
                "field": escaped(name),
                "about": self.about(name),
                "groups": [label or "all" for label in labels],
                "shown": [shown_value(value) for value in data[name][:groups]],
                "value": data[name][:groups],
                "lower": data[f"{name}_lower"][:groups],
                "upper": data[f"{name}_upper"][:groups],
                "more": count - len(labels),
            }
            for name in named[:fields]
        ]

    def about(self, field: str) -> str:
        """What a column is and what was done to its values, where that is known."""
        return ""

    def html(self) -> str:
        """The first 50 rows as a table for a notebook."""
        names = [escaped(name) for name in self.columns]
        rows = _rows(self.for_readers)[:50]
        return table(names, ([escaped(_shown(value)) for value in row.values()] for row in rows))


@dataclass(frozen=True)
class Release(Columns):
    """The published table. Equal answers give equal bytes.

    Every measure has three columns: its value, and ``_lower`` and ``_upper`` that hold the capped quantity in 95 of
    100 releases: a noise interval. No column has a population interval, which ``answers`` gives where it is valid.
    ``receipt`` is the ledger's proof of the charge; ``fresh`` is False when the ledger had the answer already and
    charged nothing now.
    """

    plan: Plan
    answer: dict[str, Any]
    receipt: Receipt | None = None
    fresh: bool = True

    def __post_init__(self) -> None:
        if self.answer.get("format") != FORMAT or self.answer.get("plan") != self.plan.hash:
            raise LedgerIntegrity("the stored answer belongs to another plan")

    @cached_property
    def keys(self) -> list[tuple[Any, ...]]:
        """The groups, in order."""
        stored, query = self.answer["keys"], self.plan.query
        if stored is None:
            return list(query.keys.rows) if isinstance(query.keys, PublicTable) else [()]
        kinds = [query.table.schema.type_of(column) for column in query.columns]
        columns = [
            [datetime.date.fromisoformat(v) for v in column] if kind == "date" else column
            for column, kind in zip(stored, kinds, strict=True)
        ]
        return list(zip(*columns, strict=True))

    @property
    def numbers(self) -> dict[Part, Noisy]:
        """The noisy integers of every part, with their law."""
        # The number of units decided which groups are shown; nothing else did.
        least: dict[Part, int | None] = {UNITS: self.plan.threshold}
        return {
            part: Noisy(np.asarray(values).reshape(-1, part.width), noise.law, part.scale, least.get(part))
            for noise, values in zip(self.plan.noises, self.answer["numbers"], strict=True)
            for part in (noise.part,)
        }

    def estimates(self, *, confidence: float = CONFIDENCE) -> dict[str, Estimate]:
        """Every measure's column or columns, with intervals at any confidence."""
        numbers, estimates = self.numbers, dict[str, Estimate]()
        for name, measure in self.plan.query.measures:
            estimates |= dict(zip(measure.fields(name), measure.read(numbers, confidence), strict=True))
        return estimates

    def removed(self, *, confidence: float = CONFIDENCE) -> tuple[Removed, ...]:
        """What the caps and bounds left out of the whole table, as far as the plan paid for it; whole numbers.

        Units over each cap, rows over the caps (of each unit up to a limit), values beyond each bound, each with of how
        many and which share. Values are of rows that count, each counted as much as its row.
        """
        return removed_of(self.plan.query.removed, self.numbers, confidence)

    def widths(self, *, confidence: float = CONFIDENCE) -> dict[str, dict[str, float]]:
        """How wide the intervals of each column came out: ``median`` and ``largest`` over its groups."""
        found = {}
        for name, estimate in self.estimates(confidence=confidence).items():
            wide = (estimate.upper - estimate.lower)[~np.isnan(estimate.upper - estimate.lower)]
            if wide.size:
                found[name] = {"median": float(np.median(wide)), "largest": float(wide.max())}
        return found

    def answers(self, field: str, *, of: int | None = None) -> dict[tuple[Any, ...], Answer]:
        """The cells of one column for ``ts.inference``, by their groups: each with its own two intervals.

        ``noise_interval()`` is that of the table's columns; ``population_interval()`` is about the units behind it.

        ``of`` is the public number of units in every group; it needs a plan in which a unit counts once.
        """
        from tallystick.tables.answers import answers_of

        return answers_of(self, field, of)

    def consistent(self, field: str, *, confidence: float = CONFIDENCE) -> Consistent:
        """One column as whole numbers that are not negative and add up with all their margins; free.

        ``consistent("n").margin("region")`` sums it. Values are moved, and biased near 0; intervals still hold the
        capped and clamped table's own numbers at least at their confidence (docs/theory/query-consistent.md).
        """
        from tallystick.tables.consistent import consistent

        return consistent(self, field, confidence)

    @cached_property
    def data(self) -> dict[str, list[Any]]:
        """The table as columns: groups first, then value, lower and upper of each measure. None is "no value"."""
        groups = (list(group) for group in zip(*self.keys, strict=True)) if self.keys and self.keys[0] else ()
        columns: dict[str, list[Any]] = dict(zip(self.plan.query.columns, groups, strict=False))
        for column in self.plan.query.columns:
            columns.setdefault(column, [])
        for name, estimate in self.estimates().items():
            columns[name] = _plain(estimate.value)
            columns[f"{name}_lower"] = _plain(estimate.lower)
            columns[f"{name}_upper"] = _plain(estimate.upper)
        return columns

    def drawn(self) -> dict[str, list[Any]]:
        """Values of each measure, also where ``data`` has none because the released count does not exclude 0."""
        found = self.estimates(confidence=NO_CONFIDENCE)
        return {name: _plain(estimate.value) for name, estimate in found.items()}

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that say which group a row is about."""
        return self.plan.query.columns

    @property
    def counts(self) -> tuple[str, ...]:
        """The columns that are noisy numbers of rows or people."""
        counting = [(name, measure) for name, measure in self.plan.query.measures if measure.counts]
        return tuple(field for name, measure in counting for field in measure.fields(name))

    def nonnegative(self) -> dict[str, list[Any]]:
        """``data`` with values and intervals of counts, totals and bins pulled up to 0: post-processing, biased."""
        positive = {
            field
            for name, measure in self.plan.query.measures
            for field in measure.fields(name)
            if measure.never_negative
        }
        names = {f"{field}{end}" for field in positive for end in ("", "_lower", "_upper")}
        return {
            name: [v if v is None else max(0, v) for v in column] if name in names else column
            for name, column in self.data.items()
        }

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text, written to ``path`` where one is given, with ``about_csv`` beside it."""
        text = Columns.to_csv(self, path)
        if path is not None:
            beside(path).write_text(self.about_csv(), encoding="utf-8", newline="")
        return text

    def about_csv(self) -> str:
        """What the intervals are about and what the caps left out, as CSV text: ``table.about.csv`` beside a table."""
        return csv_text(ABOUT_COLUMNS, Told(self.plan).about(self.removed()))

    def to_data(self) -> dict[str, Any]:
        """Rows, plan hash and receipt as JSON data."""
        rows = [{k: v.isoformat() if isinstance(v, datetime.date) else v for k, v in row.items()} for row in self.rows]
        receipt = None if self.receipt is None else json.loads(self.receipt.to_json())
        about = {
            "intervals": intervals_about(self.plan),
            "measures": measured(self.plan.query, self.who),
            "removed": [each.to_data() for each in self.removed()],
        }
        return {"format": FORMAT, "plan": self.plan.hash, "rows": rows, **about, "receipt": receipt}

    def to_json(self) -> str:
        """Rows, plan hash and receipt as JSON text."""
        return json_text(json.dumps(self.to_data(), indent=1))

    def __len__(self) -> int:
        return len(self.keys)

    def about(self, field: str) -> str:
        """What a column is and what was done to its values."""
        query = self.plan.query
        known = {one: said(query, measure) for name, measure in query.measures for one in measure.fields(name)}
        return visible(known.get(field, ""))

    @property
    def holds(self) -> str:
        """What the numbers and their intervals are about, in a sentence to print beside them."""
        return Told(self.plan).holds()

    @property
    def who(self) -> str:
        """What one unit is called here: the column that tells units apart."""
        return Told(self.plan).who

    @property
    def left_out(self) -> str:
        """What the caps and bounds left out, in a sentence to print beside the table; empty where it was not asked."""
        return Told(self.plan).left_out(self.removed())

    @property
    def wide(self) -> str:
        """How wide the intervals came out, in a sentence; of at most eight columns, since each bin is one."""
        shown, all_of_them = list(self.widths().items())[:8], len(self.widths())
        told = "; ".join(f"{escaped(n)} {plain(w['median'])} (largest {plain(w['largest'])})" for n, w in shown)
        more = f"; and {all_of_them - len(shown)} more columns" if all_of_them > len(shown) else ""
        return f"Released intervals are, in the middle group, so wide: {told}{more}." if told else ""

    def __str__(self) -> str:
        """The table for a terminal: values with their intervals, at most 40 groups."""
        return "\n".join([*self.lines(), self.holds, *filter(None, [self.left_out])])

    def __repr__(self) -> str:
        columns = visible(", ".join(self.columns))
        return f"<Release of plan {self.plan.hash[:12]}: {len(self)} groups, columns {columns}>"

    def _repr_html_(self) -> str:
        told = "".join(f"<p><small>{html_text(line)}</small></p>" for line in (self.holds, self.left_out) if line)
        charts = "".join(f"<div style='max-width:640px'>{bars(each)}</div>" for each in self.bars(fields=2))
        return f"{self.html()}{charts}{told}<small>{len(self)} groups; plan {self.plan.hash[:12]}</small>"


def _rows(data: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Columns as rows."""
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]


def _cut(values: Sequence[Any], lower: Sequence[Any], upper: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Ends of the intervals of a count, cut at 0; a cell without a number stays as it is."""
    cut = []
    for value, low, high in zip(values, lower, upper, strict=True):
        is_missing = value is None or low is None or high is None
        cut.append((low, high) if is_missing else cut_at_zero(value, low, high))
    return [low for low, _ in cut], [high for _, high in cut]


def shown_value(value: Any) -> str:
    """One value as people see it."""
    if isinstance(value, float):
        return cell(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_whole else escaped(_shown(value))


def _with_interval(value: Any, lower: Any, upper: Any) -> str:
    shown = shown_value(value)
    return shown if lower is None else f"{shown} [{shown_value(lower)}, {shown_value(upper)}]"


def _plain(values: Any) -> list[Any]:
    """Python numbers: whole ones as int, NaN as None."""
    cells: list[Any] = []
    for value in values.tolist():
        if math.isnan(value):
            cells.append(None)
        elif value == int(value) and abs(value) < 2**53:
            cells.append(int(value))
        else:
            cells.append(value)
    return cells


def beside(path: str | Path) -> Path:
    """Where a table in this file says what its intervals are about.

    >>> beside("table.csv").name
    'table.about.csv'
    """
    return Path(path).with_suffix(".about.csv")


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV text, with nothing that a spreadsheet would run or that a terminal would obey."""
    lines = [[csv_cell(name) for name in columns]]
    lines += [[csv_cell(value) if isinstance(value, str) else _shown(value) for value in row] for row in rows]
    return "".join(",".join(_quoted(cell) for cell in line) + "\n" for line in lines)


def _quoted(cell: str) -> str:
    """A CSV cell. Semicolons and tabs are quoted too: some spreadsheets end a cell there, and run what follows."""
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if any(c in cell for c in ',;\t"\r\n') else cell


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, ".10g")
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
