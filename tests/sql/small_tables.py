"""Two private tables of the same few units and two public ones: what generated statements are about.

Plain rows hold values that every engine computes alike, so that answers can be compared exactly; hostile rows hold
what breaks arithmetic, comparison and dates where an engine is careless, and a unit of theirs does all it can.
"""

from __future__ import annotations

import datetime
import functools
import random
from typing import Any

import pyarrow

from tallystick.tables.keyset import PublicTable
from tallystick.tables.schema import Schema
from tallystick.tables.sources import Source
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.table import Table
from worlds.engines import _days as days_of
from worlds.tables import DAYS, FAR, FLOATS, INTEGERS, TEXTS, _decimal

COLUMNS = {
    "unit": "integer", "id": "integer", "g": "text", "h": "integer", "flag": "boolean", "x": "integer", "y": "number",
    "d": "date",
}  # fmt: skip
OTHERS = {"unit": "integer", "id": "integer", "k": "text", "z": "integer"}
ARROW = {"integer": pyarrow.int64(), "number": pyarrow.float64(), "text": pyarrow.string(), "boolean": pyarrow.bool_(),
         "date": pyarrow.date32()}  # fmt: skip
GROUPS = ("a", "b", "c")
PUBLIC = {
    "p": PublicTable(
        (("g", "text"), ("title", "text"), ("rank", "integer")), tuple((g, g.upper(), i) for i, g in enumerate(GROUPS))
    ),
    "q": PublicTable((("h", "integer"), ("label", "text")), ((0, "none"), (1, "one"), (1, "uno"), (2, "two"))),
}
"""``q`` has two rows for one h, so that a join with it multiplies rows."""

UNITS = 3
"""Units of a plain database: enough for rows of one to meet another's."""


@functools.cache
def catalogue(unit: str = "integer") -> Catalogue:
    """Private ``t`` and ``u`` of the same units, with public groups for g and some bounds; public ``p`` and ``q``.

    The caps are wider than the rows of any unit here, so that before the noise an answer is what plain SQL says.
    """
    source, price = Source("memory", "memory"), {"rho": 0.5, "caps_share": 0}
    caps = {"max_groups": 25, "max_rows_per_group": 40}
    first = Table(source=source, name="t", schema=Schema.of({**COLUMNS, "unit": unit}), unit="unit").per_unit(**caps)
    first = first.bounds(x=(0, 100), y=(0, 1024), h=(0, 5))
    second = Table(source=source, name="u", schema=Schema.of({**OTHERS, "unit": unit}), unit="unit").per_unit(**caps)
    known = {
        "t": Known(first, "", {"g": GROUPS}, 1e-6, price), "u": Known(second.bounds(z=(0, 9)), "", {}, 1e-6, price)
    }  # fmt: skip
    return Catalogue(known, PUBLIC)


def plain(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Rows of both tables: whole numbers, some values missing; some units have rows in one table only."""
    first: list[dict[str, Any]] = []
    second: list[dict[str, Any]] = []
    for unit in range(UNITS):
        for _ in range(rng.choice((0, 1, 2, 2, 3, 3))):
            row = {
                "g": rng.choice((*GROUPS, None)), "h": rng.randrange(6), "flag": rng.random() < 0.5,
                "x": rng.choice((0, 3, 7, 50, 51, 100, rng.randint(0, 100))), "y": float(rng.randint(0, 1024)),
                "d": datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(400)),
            }  # fmt: skip
            some = {name: None if rng.random() < 0.07 else value for name, value in row.items()}
            first.append({"unit": unit, "id": len(first), **some})
        for _ in range(rng.choice((0, 0, 1, 2, 3))):
            second.append(
                {"unit": unit, "id": len(second), "k": rng.choice("abr"), "z": rng.choice((*range(10), None))}
            )
    return {"t": first, "u": second}


def arrow(rows: dict[str, list[dict[str, Any]]]) -> dict[str, pyarrow.Table]:
    """Plain rows with their types."""
    return {
        name: pyarrow.Table.from_pylist(rows[name], schema=pyarrow.schema([(c, ARROW[k]) for c, k in kinds.items()]))
        for name, kinds in (("t", COLUMNS), ("u", OTHERS))
    }


class Hostile:
    """Rows that hurt, and the same with one unit less: a pair of neighbours, and that unit alone.

    In every third pair the others have the same row many times: then least and largest values, which a file tells an
    engine before it reads a row, are those of the unit that moves.
    """

    def __init__(self, seed: int, unit: str = "integer") -> None:
        self.rng, self.unit, self.narrow = random.Random(seed), unit, seed % 3 == 0
        rng = self.rng
        self.kinds = {
            "unit": ARROW[unit], "id": pyarrow.int64(), "g": pyarrow.string(), "k": pyarrow.string(),
            "h": rng.choice((pyarrow.int64(), pyarrow.int8(), pyarrow.uint64())), "flag": pyarrow.bool_(),
            "x": rng.choice((pyarrow.int64(), pyarrow.int64(), pyarrow.uint64())), "z": pyarrow.int64(),
            "y": rng.choice((pyarrow.float64(), pyarrow.float32(), *(pyarrow.decimal128(38, s) for s in (0, 10, 38)))),
            "d": pyarrow.date32(),
        }  # fmt: skip
        units = rng.sample(TEXTS, 4) if unit == "text" else rng.sample([*INTEGERS, 4, 5], 4)
        self.moved = units[0]
        self.rows = {name: self._drawn(kinds, units) for name, kinds in (("t", COLUMNS), ("u", OTHERS))}

    def _drawn(self, kinds: dict[str, str], units: list[Any]) -> list[dict[str, Any]]:
        own = [self._row(kinds, self.moved) for _ in range(7)]
        owners = self.rng.choices([*units[1:], None], k=12)
        if self.narrow:
            return own + [self._row(kinds, units[1])] * 12
        return own + [self._row(kinds, owner) for owner in owners]

    def _row(self, kinds: dict[str, str], owner: Any) -> dict[str, Any]:
        return {"unit": owner, **{c: self._value(c) for c in kinds if c != "unit"}}

    def _value(self, column: str) -> Any:
        kind, rng = self.kinds[column], self.rng
        if column != "id" and rng.random() < 0.15:
            return None
        if pyarrow.types.is_date(kind):
            return days_of(rng.choice(FAR if rng.random() < 0.3 else DAYS))
        if pyarrow.types.is_boolean(kind):
            return rng.random() < 0.5
        if pyarrow.types.is_string(kind):
            return rng.choice((*GROUPS, *TEXTS))
        if pyarrow.types.is_decimal(kind):
            return _decimal(rng, kind.scale, False)
        if pyarrow.types.is_floating(kind):
            return rng.choice(FLOATS)
        if kind == pyarrow.int8():
            return rng.choice((-128, 127, 0, 1, 3))
        return rng.choice([0, 1, 3, 50, 2**53 + 1, 2**64 - 1, 2**63] if kind == pyarrow.uint64() else INTEGERS)

    def tables(self, which: str) -> dict[str, pyarrow.Table]:
        """``whole``, ``less`` (without the unit that moves) or ``alone`` (that unit's rows)."""
        wanted = {"whole": lambda u: True, "less": lambda u: u != self.moved, "alone": lambda u: u == self.moved}[which]
        found = {}
        for name, kinds in (("t", COLUMNS), ("u", OTHERS)):
            rows = [row for row in self.rows[name] if wanted(row["unit"])]
            found[name] = pyarrow.table({c: self._column(c, [row[c] for row in rows]) for c in kinds})
        return found

    def _column(self, name: str, values: list[Any]) -> pyarrow.Array:
        kind = self.kinds[name]
        if pyarrow.types.is_date(kind):  # as days since 1970: Python has no date for some of them
            return pyarrow.array(values, pyarrow.int32()).cast(kind)
        return pyarrow.array(values, kind)
