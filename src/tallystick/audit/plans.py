"""Draws of a table plan on tables made up for an audit: nothing is charged, so real data have no place here."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.tables.files import OpenFile
    from tallystick.tables.plan import Plan
    from tallystick.tables.run import Exact
    from tallystick.tables.sources import Source

MOST_BYTES = 1_000_000
SMALL = "a small table that was made up: in memory, or a CSV file of at most 1 MB"


class PlanDraws:
    """Releases a plan's answer about a table, without an account.

    The engine computes the integers of each table once (caps choose rows by the plan, not by chance); their noise is
    drawn anew every time.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._known: dict[int, tuple[Any, Plan, Exact]] = {}

    def prepare(self, table: Any) -> None:
        """The integers of a table. A failure here is a mistake of the caller, and not an output of the plan."""
        from tallystick.tables import run

        if id(table) not in self._known:
            asked = self.plan.on(made_up(self.plan, table))
            self._known[id(table)] = (table, asked, run.integers(asked))  # kept, so that its id stays its own

    def __call__(self, table: Any) -> Any:
        from tallystick.mechanisms.exact.randomness import SYSTEM
        from tallystick.tables import run

        self.prepare(table)
        _, asked, exact = self._known[id(table)]
        answer = run.noisy(asked, exact, SYSTEM)
        return {"groups": answer["keys"], "numbers": answer["numbers"]}


def made_up(plan: Plan, table: Any, argument: str = "neighbours", *, public: bool = False) -> Any:
    """The source, if it may be asked without a charge: small, not the plan's own data, and not registered.

    ``public`` is somebody's word that the rows are public; then they may be many, and in a Parquet file.
    """
    from tallystick.tables.files import OpenFile
    from tallystick.tables.identity import refuse_private_file
    from tallystick.tables.sources import source_of, unpaid_file

    own = plan.query.table
    if isinstance(table, str | Path) and source_of(table).paths:
        table = unpaid_file(table, argument, SMALL)
    source = source_of(table)
    if source.kind == "memory":
        if own.source.kind == "memory" and _shared(source, own.source):
            raise InvalidInput(argument, "the plan's own data", SMALL)
        return source
    file = source.handle
    if not isinstance(file, OpenFile) or (source.kind != "csv" and not (public and source.kind == "parquet")):
        raise InvalidInput(argument, source.kind, SMALL)
    if file.size > MOST_BYTES and not public:
        raise InvalidInput(argument, f"a file of {file.size} bytes", SMALL)
    ledger = None if plan.account is None else plan.account.ledger
    refuse_private_file(file, SMALL, own.source.paths, ledger)
    return source


def _shared(one: Source, two: Source) -> bool:
    """Whether two sources in memory have a table in common."""
    theirs = {id(table) for table in two.handle.values()}
    return any(id(table) in theirs for table in one.handle.values())


def check_neighbours(plan: Plan, first: OpenFile, second: OpenFile) -> None:
    """Refuse two CSV tables that do not differ in one unit, as the plan's neighbours do."""
    table = plan.query.table
    unit = table.unit if isinstance(table.unit, str) else None
    one, two = _rows_by_unit(first, unit), _rows_by_unit(second, unit)
    changed = [unit for unit in {*one, *two} if one.get(unit) != two.get(unit)]
    replace = table.adjacency.value == "replace"
    lost, new = ([unit for unit in changed if unit not in side] for side in (two, one))
    fits = len(changed) == 1 or (replace and len(lost) == len(new) == 1 == len(changed) - 1)
    if not fits or (not replace and len(lost) + len(new) != 1):
        wanted = (
            "a table in which one unit is another" if replace else "a table with one unit more, and nothing changed"
        )
        raise InvalidInput("second", f"a table with {len(changed)} other units", wanted)


def _rows_by_unit(file: OpenFile, unit: str | None) -> dict[Any, Counter[tuple[str, ...]]]:
    """The rows of every unit, as texts; without a unit column each row is one."""
    with file.stream() as stream:
        text = io.TextIOWrapper(stream, newline="", encoding="utf-8", errors="replace")
        header, *rows = list(csv.reader(text)) or [[]]
    place = header.index(unit) if unit in header else None
    found: dict[Any, Counter[tuple[str, ...]]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for row in map(tuple, rows):
        seen[row] += 1
        key = row[place] if place is not None and place < len(row) else (row, seen[row])
        found.setdefault(key, Counter())[row] += 1
    return found
