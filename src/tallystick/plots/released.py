"""A released table: its values as bars, with their intervals."""

from __future__ import annotations

import csv
import importlib.util
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tallystick import strict_json
from tallystick.drawing import BLUE, INK
from tallystick.errors import InvalidInput, Unavailable
from tallystick.plots.canvas import sheet
from tallystick.printing import one_of
from tallystick.tables.layout import TOGETHER
from tallystick.tables.output import ENDS, LIMITED, Columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = ", with its 95 % interval for the privacy noise only"
MOST = 60
"""Groups in one picture: more cannot be read."""


@dataclass(frozen=True)
class Table(Columns):
    """The columns of a table that was published as a file."""

    held: Mapping[str, list[Any]]

    @property
    def data(self) -> dict[str, list[Any]]:
        """The columns."""
        return dict(self.held)


def released(table: Columns | Mapping[str, list[Any]], field: str | None = None, *, groups: int = MOST) -> Figure:
    """One column of a released table, by default the first that has intervals.

    >>> table = {"ward": ["a", "b"], "n": [10, 20], "n_lower": [8, 18], "n_upper": [12, 22]}
    >>> released(table).axes[0].get_xlabel()
    'n, with its 95 % interval for the privacy noise only'
    """
    columns = table if isinstance(table, Columns) else Table(table)
    charts = {chart["field"]: chart for chart in columns.bars(fields=1000, groups=groups)}
    if field is not None and field not in charts:
        field = columns.headers.get(field, f"{field}{LIMITED}" if f"{field}{LIMITED}" in charts else field)
    if not charts or (field is not None and field not in charts):
        known = one_of(field, charts) or "none: the table has no column with _lower and _upper"
        raise InvalidInput("field", field, f"a column with an interval: {known}")
    chart = charts[field] if field is not None else next(iter(charts.values()))
    present = [i for i, value in enumerate(chart["value"]) if value is not None]
    values = [chart["value"][i] for i in present]
    below = [chart["value"][i] - chart["lower"][i] for i in present]
    above = [chart["upper"][i] - chart["value"][i] for i in present]
    more = f" (and {chart['more']:,} more groups)" if chart["more"] else ""
    name = _literal(chart["field"])
    said = f"\n{_literal(textwrap.shorten(chart['about'], 90))}" if chart["about"] else ""
    title = f"{name}{_literal(_range(chart, present))}{more}"
    figure, axes = sheet(title=title, across=f"{name}{ABOUT}{said}", up="group")
    figure.set_figheight(1.6 + 0.3 * max(3, len(chart["groups"])))
    axes.barh(present, values, color=BLUE, alpha=0.35)
    axes.errorbar(values, present, xerr=[below, above], fmt="none", ecolor=INK, capsize=3)
    axes.set_yticks(range(len(chart["groups"])), [_literal(group) for group in chart["groups"]])
    axes.invert_yaxis()
    return figure


def _range(chart: Mapping[str, Any], present: Sequence[int]) -> str:
    """Return the finding: the groups with the smallest and the largest published value."""
    if not present:
        return ": no value is published"
    ordered = sorted(present, key=lambda i: chart["value"][i])
    low, high = (f"{chart['shown'][i]} in {chart['groups'][i]}" for i in (ordered[0], ordered[-1]))
    return f": {low}" if len(present) == 1 else f": from {low} to {high}"


def _literal(text: str) -> str:
    """Text as it is: matplotlib would read what stands between dollars as a formula."""
    return text.replace("$", r"\$")


ENDINGS = (".csv", ".json", ".parquet", ".arrow")


def read_table(path: str | Path) -> Table:
    """Return the table in a CSV, JSON, Parquet or Arrow file that a release wrote.

    The rows are drawn without a charge, so a registered file is refused.
    """
    from tallystick.tables.sources import unpaid_file  # loads the ledger, which other plots do without

    kind = Path(path).suffix.lower()
    if kind in (".parquet", ".arrow"):
        _require_pyarrow(path)
    read = {".json": _rows_of_json, ".parquet": _columns, ".arrow": _columns}.get(kind, _rows_of_csv)
    allowed = f"a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file that a release wrote"
    try:
        with unpaid_file(path, "table", "a file that a release wrote") as opened, opened.stream() as raw:
            return Table(read(raw, kind))
    except (OSError, UnicodeDecodeError, csv.Error, LookupError, TypeError, InvalidInput, _NotATable):
        raise InvalidInput("table", str(path), allowed) from None


class _NotATable(ValueError):
    """A file that is not a table of a release."""


def _rows_of_json(raw: BinaryIO, _: str) -> dict[str, list[Any]]:
    text = raw.read().decode()
    return _with_numbers(strict_json.read(text, name="table", allowed="", longest=200_000_000)["rows"])


def _rows_of_csv(raw: BinaryIO, _: str) -> dict[str, list[Any]]:
    text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
    return _with_numbers(list(csv.DictReader(text, strict=True)))


def _with_numbers(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of rows; a column that has an interval holds numbers."""
    rows = [{_single(name): cell for name, cell in row.items()} for row in rows]
    names = list(rows[0])
    named = [name for name in names if f"{name}_lower" in names and f"{name}_upper" in names]
    numbers = {f"{name}{end}" for name in named for end in ("", "_lower", "_upper")}
    try:
        return {name: [_number(row[name]) if name in numbers else row[name] for row in rows] for name in names}
    except ValueError:
        raise _NotATable from None


def _single(name: str) -> str:
    """Return the name of a column as it is for intervals of single groups, which joint ones hold at least as often."""
    end = next((end for end in ENDS[1:] if name.endswith(f"{TOGETHER}{end}")), "")
    return f"{name.removesuffix(f'{TOGETHER}{end}')}{end}" if end else name


def _columns(raw: BinaryIO, kind: str) -> dict[str, list[Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        read = pyarrow.ipc.open_file(raw).read_all() if kind == ".arrow" else pyarrow.parquet.read_table(raw)
    except (OSError, ValueError):  # pyarrow's own errors are of these
        raise _NotATable from None
    return {_single(name): values for name, values in read.to_pydict().items()}


def _require_pyarrow(path: str | Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise Unavailable(f"{Path(path).name} needs pyarrow: pip install pyarrow")


def _number(cell: Any) -> float | int | None:
    if cell in ("", None):
        return None
    value = float(cell)
    return int(value) if value.is_integer() else value
