"""Plans at work: what they say before the noise beside plain SQL, and whether they end alike on neighbouring tables."""

from __future__ import annotations

import datetime
import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
from pyarrow import parquet

from sql import locality
from sql.judge import without_noise
from sql.small_tables import Hostile, arrow, catalogue, plain
from tallystick.errors import TallystickError
from tallystick.mechanisms.exact.randomness import SYSTEM
from tallystick.tables.parts import OfTable
from tallystick.tables.release import Release, answer_of
from tallystick.tables.run import Exact, integers, noisy, preflight
from tallystick.tables.sql.statement import Statement, planned

ANSWERED, FAILED, REFUSED = "answered", "failed after start", "refused before start"


def exact(statement: Statement, data: dict[str, pyarrow.Table]) -> list[tuple[Any, ...]]:
    """The answer before any noise, with every group of the data."""
    plan = statement.plan.on(data)
    found = integers(plan)
    numbers = [found.removed[n.part] if isinstance(n.part, OfTable) else found.numbers[n.part] for n in plan.noises]
    with without_noise():
        names, answer = statement.released.rows(Release(plan, answer_of(plan, found.keys, numbers)))
    kept = [i for i, name in enumerate(names) if not name.endswith(("_lower", "_upper"))]
    return [tuple(row[i] for i in kept) for row in answer]


def unlike_plain_sql(text: str, keys: int, statement: Statement, number: int) -> list[str]:
    """Groups that plain SQL has and the plan has not, or with other numbers; nothing is capped in these tables.

    What differs on purpose is left out: groups without a value, and public groups nobody is in.
    """
    database = number % locality.DATABASES
    theirs = locality.run(locality.without_our_words(text), f"d{database}")
    mine = exact(statement, arrow(plain(random.Random(f"database {database}"))))
    step = max((m.upper - m.lower for _, m in statement.plan.query.measures if m.kind == "sum"), default=0) / 2**24
    inside = "2 * COUNT(*)" in text  # the sum of no values, 0 here and nothing in SQL, may stand in arithmetic
    by_key, wrong = {_key(row[:keys]): row[keys:] for row in mine}, []
    for row in theirs:
        key = _key(row[:keys])
        if None in key:
            continue
        if key not in by_key:
            wrong.append(f"no group {key}")
        elif not all(_near(a, b, step) or (inside and b is None) for a, b in zip(by_key[key], row[keys:], strict=True)):
            wrong.append(f"{key} is {by_key[key]}, not {row[keys:]}")
    return wrong


def _key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    plain = (v.date() if isinstance(v, datetime.datetime) else v for v in values)
    return tuple(float(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in plain)


def _near(mine: Any, theirs: Any, step: float) -> bool:
    """Equal but for the fixed point, in which each of a few units loses up to a step; the sum of no values is 0 here
    and nothing in SQL.
    """
    if theirs is None:
        return mine is None or mine in (0, 1)
    return mine is not None and abs(float(mine) - float(theirs)) <= 0.2 + 1e-3 * abs(float(theirs)) + 16 * step


# ---- neighbours


@dataclass(frozen=True)
class Ended:
    """How a run ended, what was raised, and its integers where it did not fail."""

    how: str
    what: str = ""
    found: Exact | None = None


def stored(tables: dict[str, pyarrow.Table], kind: str, place: Path) -> Any:
    """The tables in memory or in files, which also tell an engine the least and largest values of each column."""
    if kind == "memory":
        return tables
    place.mkdir()
    if kind == "parquet":
        for name, table in tables.items():
            parquet.write_table(table, place / f"{name}.parquet")
        return {name: str(place / f"{name}.parquet") for name in tables}
    with duckdb.connect(str(place / "tables.duckdb")) as connection:
        for name, table in tables.items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return str(place / "tables.duckdb")


def ended(statement: Statement, data: Any) -> Ended:
    """One run of a plan as a release goes: what is looked at before the charge, the integers, the noise, the rest."""
    plan = statement.plan.on(data)
    try:
        statement.released.rehearse()
        preflight(plan)
    except TallystickError as problem:
        return Ended(REFUSED, f"{type(problem).__name__}: {problem}"[:300])
    try:
        found = integers(plan)
        statement.released.rows(Release(plan, noisy(plan, found, SYSTEM)))
    except Exception as problem:  # whatever it is, the rows decided it
        return Ended(FAILED, f"{type(problem).__name__}: {problem}"[:300])
    return Ended(ANSWERED, "", found)


def unequal(text: str, number: int, *, alone: bool = True) -> list[str]:
    """What is wrong on a hostile table, the same without one unit, and that unit alone.

    Every run must end in an answer; and what the plan adds up must be, integer by integer, the sum of the second and
    the third, because every integer is a sum over units.
    """
    unit = ("integer", "text")[number % 2]
    try:
        statement = planned(text, catalogue(unit))
    except TallystickError:  # it says something about the unit that only a number can be
        statement, unit = planned(text, catalogue()), "integer"
    rows, runs = Hostile(number, unit), dict[str, Ended]()
    with tempfile.TemporaryDirectory() as folder:
        for which in ("whole", "less", "alone")[: 2 + alone]:
            place = stored(rows.tables(which), ("parquet", "duckdb", "memory")[number // 3 % 3], Path(folder) / which)
            runs[which] = ended(statement, place)
    wrong = [f"{which}: {run.how} ({run.what})" for which, run in runs.items() if run.how != ANSWERED]
    if wrong or not alone:
        return wrong
    whole, less, own = (_by_group(runs[which].found) for which in ("whole", "less", "alone"))
    both = Counter(less)
    both.update(own)
    moved = {key for key in {*whole, *both} if whole.get(key, 0) != both.get(key, 0)}
    return (
        [f"the integers of {len(moved)} cells are no sums over units, such as {sorted(map(str, moved))[0]}"]
        if moved
        else []
    )


def _by_group(found: Exact | None) -> dict[Any, int]:
    assert found is not None
    cells: dict[Any, int] = {}
    for part, values in found.numbers.items():
        for i, line in enumerate(values):
            for j, value in enumerate(line):
                cells[part, j, i if found.keys is None else found.keys[i]] = int(value)
    return {key: value for key, value in cells.items() if value}
