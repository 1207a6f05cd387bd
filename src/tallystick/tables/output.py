"""A table that is shown: as columns, rows and files, for a terminal, and for a notebook."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tallystick.drawing import table
from tallystick.errors import Unavailable
from tallystick.printing import csv_cell, escaped
from tallystick.regular_file import real_path, write_whole, written_whole
from tallystick.tables import layout
from tallystick.tables.estimates import cut_at_zero


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
    def limited(self) -> frozenset[str]:
        """The columns that limits per person touch."""
        return frozenset()

    @property
    def all_groups(self) -> bool:
        """True if the intervals of a column hold for all groups together."""
        return False

    @cached_property
    def headers(self) -> dict[str, str]:
        """The name of each column in every output: one that limits per person touch ends in ``_limited``.

        Ends of intervals that hold for all groups together say so, too. ``data`` and ``rows`` have the names that the
        question gave.
        """
        headers = with_limits(self.columns, self.limited)
        return for_all_groups(headers) if self.all_groups else headers

    @property
    def shown(self) -> dict[str, list[Any]]:
        """``data`` under ``headers``, as all files and screens have it."""
        return {self.headers[name]: values for name, values in self.data.items()}

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

    def plain_rows(self) -> list[dict[str, Any]]:
        """Return the table as dicts that JSON can hold: days are texts."""
        plain = []
        for row in _rows(self.shown):
            plain.append({name: v.isoformat() if isinstance(v, datetime.date) else v for name, v in row.items()})
        return plain

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text, written to ``path`` where one is given.

        Text that a spreadsheet would run (it starts with =, +, - or @) gets an apostrophe in front, which spreadsheets
        do not show. Control, bidirectional and zero-width characters are written as escapes, such as ``\\x1b``; a
        backslash before such letters is doubled. Numbers and dates are as they are. ``rows`` and ``to_json`` have the
        text itself.
        """
        text = csv_text(tuple(self.headers.values()), [row.values() for row in self.rows])
        if path is not None:
            write_whole(path, text)
        return text

    def to_arrow(self) -> Any:
        """Return a pyarrow table; pyarrow is not part of the core."""
        return _optional("pyarrow", "to_arrow").table(self.shown)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return a pandas data frame; pandas is not part of the core."""
        return _optional("pandas", "to_pandas").DataFrame(self.shown)

    def to_polars(self) -> Any:
        """Return a Polars data frame; polars is not part of the core."""
        return _optional("polars", "to_polars").DataFrame(self.shown)

    def to_parquet(self, path: str | Path) -> Path:
        """Write the table to a Parquet file."""
        import duckdb  # start-up: it takes a quarter of a second of CPU to load

        with written_whole(path) as new, duckdb.connect(":memory:") as connection:
            connection.register("released", self.to_arrow())
            connection.execute("COPY released TO ? (FORMAT parquet)", [real_path(new)])  # not a URL
        return Path(path)

    def to_arrow_file(self, path: str | Path) -> Path:
        """Write the table to a file in Arrow's IPC format, which Feather is too."""
        table, pyarrow = self.to_arrow(), _optional("pyarrow", "to_arrow")
        with (
            written_whole(path) as new,
            pyarrow.OSFile(str(new), "wb") as file,
            pyarrow.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
        return Path(path)

    def lines(self, most: int = 40) -> list[str]:
        """The table for a terminal: values with their errors or intervals, the first ``most`` rows."""
        more = max(0, len(self.rows) - most)
        return [*layout.lines(self._columns(most)), *([f"... {more:,} more"] if more else [])]

    def _columns(self, most: int) -> list[layout.Column]:
        """The first ``most`` rows as people see them."""
        first = {name: column[:most] for name, column in self.shown.items()}
        return layout.layout(first, self.groups, [self.headers[name] for name in self.counts])

    def bars(self, *, fields: int = 3, groups: int = 20) -> list[dict[str, Any]]:
        """The first columns with intervals, each with its first groups, as a chart draws them."""
        data = self.for_readers
        named = [name for name in data if f"{name}_lower" in data]
        ends = {f"{name}{end}" for name in named for end in ("_lower", "_upper")}
        keys = [name for name in data if name not in named and name not in ends]
        count = len(data[named[0]]) if named else 0
        labels = [
            ", ".join(escaped(layout.plain_text(data[key][i])) for key in keys) for i in range(min(count, groups))
        ]
        shown = {column.name: list(column.values) for column in self._columns(groups)}
        return [
            {
                "field": escaped(self.headers[name]),
                "about": self.about(name),
                "groups": [label or "all" for label in labels],
                "shown": shown[escaped(self.headers[name])],
                "value": data[name][:groups],
                "lower": data[f"{name}_lower"][:groups],
                "upper": data[f"{name}_upper"][:groups],
                "more": count - len(labels),
            }
            for name in named[:fields]
        ]

    def about(self, field: str) -> str:
        """Words for a column and what was done to its values, where that is known."""
        return ""

    def html(self, most: int = 50) -> str:
        """The first ``most`` rows as a table for a notebook; numbers are right-aligned."""
        columns = self._columns(most)
        rows = zip(*(column.cells for column in columns), strict=True)
        is_right = [not column.is_text for column in columns]
        return table([column.header for column in columns], list(rows), is_right)


def _optional(package: str, needed_by: str) -> Any:
    """Return a package that is not part of the core."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise Unavailable(f"{needed_by} needs {package}: pip install {package}") from None


LIMITED: Final = "_limited"
"""The end of the name of a column that limits per person touch."""
ENDS: Final = ("", "_lower", "_upper")
"""What follows the name of a measure's column in the names of its value and of its interval."""


def with_limits(columns: Sequence[str], limited: Collection[str]) -> dict[str, str]:
    """Return for each column its name in an output, where ``limited`` columns say so.

    >>> list(with_limits(["ward", "n", "n_lower", "n_upper"], {"n"}).values())
    ['ward', 'n_limited', 'n_limited_lower', 'n_limited_upper']
    """
    headers = {name: name for name in columns}
    taken = {name.casefold() for name in columns}
    for name in columns:
        if name not in limited:
            continue
        said = name + LIMITED
        while not taken.isdisjoint(f"{said}{end}".casefold() for end in ENDS):
            said += LIMITED
        named = {f"{name}{end}": f"{said}{end}" for end in ENDS if f"{name}{end}" in headers}
        taken.update(header.casefold() for header in named.values())
        headers.update(named)
    return headers


def for_all_groups(headers: Mapping[str, str]) -> dict[str, str]:
    """Return names of columns in which ends of intervals say that they hold for all groups together.

    >>> for_all_groups({"n": "n", "n_lower": "n_lower", "n_upper": "n_upper"})["n_lower"]
    'n_together_lower'
    """
    named = dict(headers)
    for name in headers:
        for end in ENDS[1:]:
            if f"{name}{end}" in headers:
                named[f"{name}{end}"] = f"{headers[name]}{layout.TOGETHER}{end}"
    return named


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


def beside(path: str | Path) -> Path:
    """Return the file that says what the intervals of a table in this file are about.

    >>> beside("table.csv").name
    'table.about.csv'
    """
    return Path(path).with_suffix(".about.csv")


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV text, with nothing that a spreadsheet would run or that a terminal would obey."""
    lines = [[csv_cell(name) for name in columns]]
    lines += [
        [csv_cell(value) if isinstance(value, str) else layout.plain_text(value) for value in row] for row in rows
    ]
    return "".join(",".join(_quoted(cell) for cell in line) + "\n" for line in lines)


def _quoted(cell: str) -> str:
    """A CSV cell. Semicolons and tabs are quoted too: some spreadsheets end a cell there, and run what follows."""
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if any(c in cell for c in ',;\t"\r\n') else cell
