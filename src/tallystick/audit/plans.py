"""Draws of a table plan on tables made up for an audit: nothing is charged, so real data have no place here."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.tables.plan import Plan
    from tallystick.tables.run import Exact

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
        """The integers of a table. What fails here is a mistake of whoever asks, and no output of the plan."""
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
    from tallystick.tables.sources import identity, source_of

    source, own = source_of(table), plan.query.table
    if source.kind == "memory":
        if own.source.kind == "memory" and any(
            one is two for one in source.handle.values() for two in own.source.handle.values()
        ):
            raise InvalidInput(argument, "the plan's own data", SMALL)
        return source
    if source.kind != "csv" and not (public and source.kind == "parquet"):
        raise InvalidInput(argument, source.kind, SMALL)
    try:
        size = Path(source.place).stat().st_size
    except OSError as problem:
        raise InvalidInput(argument, source.place, f"{SMALL} ({problem.strerror})") from None
    if size > MOST_BYTES and not public:
        raise InvalidInput(argument, f"a file of {size} bytes", SMALL)
    there = own.source.kind in ("csv", "parquet", "duckdb") and os.path.exists(own.source.place)
    if there and os.path.samefile(own.source.place, source.place):
        raise InvalidInput(argument, "the plan's own data", SMALL)
    if plan.account is not None and (names := plan.account.ledger.names_of(identity(source, own.name))):
        raise InvalidInput(argument, f"the registered data set {names[0]}", SMALL)
    return source


def check_neighbours(plan: Plan, first: Path, second: Path) -> None:
    """Two CSV tables that differ in one unit, as the plan's neighbours do; anything else is no test of it."""
    table = plan.query.table
    one, two = (_rows_by_unit(path, table.unit if isinstance(table.unit, str) else None) for path in (first, second))
    changed = [unit for unit in {*one, *two} if one.get(unit) != two.get(unit)]
    replace = table.adjacency.value == "replace"
    lost, new = ([unit for unit in changed if unit not in side] for side in (two, one))
    fits = len(changed) == 1 or (replace and len(lost) == len(new) == 1 == len(changed) - 1)
    if not fits or (not replace and len(lost) + len(new) != 1):
        wanted = (
            "a table in which one unit is another" if replace else "a table with one unit more, and nothing changed"
        )
        raise InvalidInput("--second", f"a table with {len(changed)} other units", wanted)


def _rows_by_unit(path: Path, unit: str | None) -> dict[Any, Counter[tuple[str, ...]]]:
    """The rows of every unit, as texts; without a unit column each row is one."""
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    place = header.index(unit) if unit in header else None
    found: dict[Any, Counter[tuple[str, ...]]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for row in map(tuple, rows):
        seen[row] += 1
        key = row[place] if place is not None and place < len(row) else (row, seen[row])
        found.setdefault(key, Counter())[row] += 1
    return found
