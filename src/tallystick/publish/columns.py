"""One column of a CSV file, for commands that release a single statistic. The header is public, the cells are not."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallystick.errors import InvalidInput
from tallystick.place import unreadable
from tallystick.printing import columns_of

PAID_FOR = "a query, which charges the account of registered data"


def rows_matching(path: Path, column: str | None, value: str | None) -> int:
    """Return the number of rows, or of rows with this text in this column."""
    with _records(path) as rows:
        index = _place(rows, column, path)
        if index is None:
            return sum(1 for row in rows if row)
        if value is None:
            return sum(1 for row in rows if len(row) > index and row[index].strip())
        return sum(1 for row in rows if len(row) > index and row[index].strip() == value)


def numbers(path: Path, column: str) -> list[float]:
    """Return the cells of a column that are finite numbers. Others are left out; their number is not published."""
    entries = []
    with _records(path) as rows:
        index = _place(rows, column, path)
        assert index is not None
        for row in rows:
            try:
                number = float(row[index])
            except (IndexError, ValueError):
                continue
            if math.isfinite(number):
                entries.append(number)
    return entries


def lines(path: Path) -> list[str]:
    """The non-empty lines of a text file that is not registered."""
    from tallystick.tables.sources import unpaid_file

    with unpaid_file(path, "file", PAID_FOR) as opened, opened.stream() as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        try:
            return [text for line in file if (text := line.strip())]
        except UnicodeDecodeError:
            raise InvalidInput("file", str(path), "a text file in UTF-8") from None


@contextmanager
def _records(path: Path) -> Iterator[Iterator[list[str]]]:
    """The rows of a CSV file that is not registered, as tables read it: no cell can fail or hide another row."""
    from tallystick.tables.engines import csvfile
    from tallystick.tables.sources import unpaid_file

    try:
        with unpaid_file(path, "file", PAID_FOR) as file, csvfile.records(file) as rows:
            yield rows
    except OSError as error:
        raise unreadable("file", path, error) from None


def _place(rows: Iterator[list[str]], column: str | None, path: Path) -> int | None:
    """Return the position of the column, from the header row."""
    header = [name.strip() for name in next(rows, [])]
    if column is None:
        return None
    if column not in header:
        raise InvalidInput("column", column, f"a column of {path.name}: {columns_of(column, header)}")
    return header.index(column)
