"""Hostile small tables: pairs of neighbours, each pair a world of its own, many worlds packed into one table.

A world is told apart by its column ``w``; units of different worlds never share an identifier. One query over the
packed table therefore computes the integers of every world at once, and one over its neighbour those of every
neighbour.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from dataclasses import dataclass
from typing import Any

TEXTS = [
    "a", "A", "a ", " a", "", "á", "a\u0301", "\uff41", "ß", "ss", "I", "i", "ı", "a\u200b", "b'x", 'q"q', "c\\d",
    "1", "01", "1.0", "1e400", "-0", "NaN", "inf", "null", "true", "2024-01-01", "=1+1", "\t", "x" * 300, "🙂", ";--",
    ",", '"', "\n", "\r\n", 'x"', ",y", "0\n0,forged,0,0,0", "\\N", "\\", "{}", "$1", "%s", "\u2028", "\x1b[31m",
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, 3, 7, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [
    0.0, -0.0, 0.5, 1.0, 2.5, -3.25, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.0**53, 9.99e15, 1e-9,
]  # fmt: skip
DAYS = [
    datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29),
    datetime.date(2024, 1, 1), datetime.date(1582, 10, 10),
]  # fmt: skip
FAR = ["first", "year 0", "year 10000", "last"]
"""Days that Python has no date for; each engine writes them in its own way (``engines``)."""

KEYS: dict[str, list[Any]] = {
    "text": ["a", "A", "a ", "á", "a\u0301", "", "1", "b'x"],
    "integer": [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)],
    "date": DAYS,
    "boolean": [True, False],
}
SCALES = (0, 2, 10, 30, 38)
BROKEN = ("unclosed", "closed early", "short", "wide", "no text", "null byte", "long", "too long")
"""How the line of one unit can be wrong in a CSV file."""

COLUMNS = ("w", "u", "k", "i", "x", "d", "t", "b", "day", "f", "n", "Small")
SPELLINGS: list[dict[str, str]] = [
    {name: name for name in COLUMNS},
    {"w": "c1", "u": "_unit", "k": "_key0", "i": "c0", "x": "_rows", "d": "_t", "t": "_cells", "b": "select",
     "day": "_bin", "f": "position", "n": "_n0", "Small": "_sign"},
    {"w": "World", "u": "USER", "k": "Key.part", "i": 'quo"te', "x": "tick`", "d": "a b", "t": "ＷＩＤＥ", "b": "b;--",
     "day": "Day", "f": "İ", "n": "n'", "Small": "%s"},
]  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class Worlds:
    """Two packed tables whose worlds are neighbours, and what the columns are.

    ``names`` says what a column is called there; ``plain`` tables hold only what every engine can hold alike.
    """

    one: list[Row]
    two: list[Row]
    count: int
    key: str
    unit: str
    scale: int
    names: dict[str, str]
    plain: bool

    @property
    def types(self) -> dict[str, str]:
        """Our type of every column, by the name it has in the table."""
        kinds = {"w": "integer", "u": self.unit, "k": self.key, "i": "integer", "x": "number", "d": "number"}
        kinds |= {"t": "text", "b": "boolean", "day": "date", "f": "number", "n": "integer", "Small": "integer"}
        return {self.names[column]: kind for column, kind in kinds.items()}

    def order(self, draw: random.Random) -> list[str]:
        """The columns in some order: a plan goes by names, so it may differ between neighbours."""
        return draw.sample(COLUMNS, len(COLUMNS))


def drawn(draw: random.Random, count: int, *, by_row: bool, replace: bool, plain: bool = False) -> Worlds:
    """``count`` pairs: a unit added or removed, or all its rows replaced; with ``by_row`` the same with one row."""
    key, unit = draw.choice(list(KEYS)), draw.choice(("text", "integer"))
    scale = 2 if plain else draw.choice(SCALES)
    broken = BROKEN if draw.random() < 0.3 else BROKEN[1:]
    one: list[Row] = []
    two: list[Row] = []
    for world in range(count):
        units = _units(draw, world, unit)
        # in about half of the worlds the unit that differs does all it can: every key, every value out of bounds
        favourite, loud = draw.choice(KEYS[key]), draw.random() < 0.4

        def row(person: Any, favourite: Any = favourite, world: int = world, loud: bool = False) -> Row:
            made = _row(draw, world, person, key, favourite, scale, plain)
            return made | _loud(made) if loud else made

        def rows_of(loud: bool = loud, units: list[Any] = units, row: Any = row) -> list[Row]:
            made = [row(units[0], loud=loud) for _ in range(1 if by_row else draw.choice((1, 2, 5, 12)))]
            if draw.random() < 0.15:
                made[0]["broken"] = draw.choice(broken[:-2])
            return made

        common = [row(draw.choice([*units[1:], None])) for _ in range(draw.choice((0, 0, 1, 3, 6)))]
        first, second = common + rows_of(), common + (rows_of() if replace else [])
        if world == 0 and draw.random() < 0.1:
            first[-1]["broken"] = draw.choice(BROKEN[-2:])
        if draw.random() < 0.5:
            first, second = second, first
        one += first
        two += second
    draw.shuffle(one)
    draw.shuffle(two)
    if broken is BROKEN:
        _kept_open([*one, *two])
    return Worlds(one, two, count, key, unit, scale, draw.choice(SPELLINGS), plain)


def _kept_open(rows: list[Row]) -> None:
    """With a quote that is not closed, a file is no RFC 4180, and whatever starts like the rest of a line may close it.

    Then it reads as one record of several lines, and no reader can know better; so no text here starts like that.
    """
    for row in rows:
        if row["t"] is not None and row["t"][:1] in ("\n", "\r", ","):
            row["t"] = f".{row['t']}"


def _units(draw: random.Random, world: int, kind: str) -> list[Any]:
    """Four different units; texts among them differ in case, spaces, accents or what cannot be seen."""
    if kind == "text":
        return [f"{world}:{text}" for text in draw.sample(TEXTS, 4)]
    if world == 0:
        return [2**63 - 1, -(2**63), 2**53 + 1, 2**53]
    return [world * 2**40 + draw.getrandbits(38) for _ in range(4)]


def _row(draw: random.Random, world: int, person: Any, key: str, favourite: Any, scale: int, plain: bool) -> Row:
    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.08 else value

    far = not plain and draw.random() < 0.1
    return {
        "w": world,
        "u": person,
        "k": maybe(favourite if draw.random() < 0.4 else draw.choice(KEYS[key])),
        "i": maybe(draw.choice(INTEGERS)),
        "x": maybe(draw.choice(FLOATS)),
        "d": maybe(_decimal(draw, scale, plain)),
        "t": maybe(draw.choice(TEXTS)),
        "b": maybe(draw.random() < 0.5),
        "day": maybe(draw.choice(FAR if far else DAYS)),
        "f": maybe(draw.choice((0.5, 16777216.0, math.nan, math.inf, -1e30))),
        "n": maybe(draw.choice((0, 1, 2**62, 2**63 - 1, 2**53 + 1) if plain else (0, 1, 2**64 - 1, 2**63, 2**53 + 1))),
        "Small": maybe(draw.choice((-128, 127, 0, 3))),
    }


def _loud(row: Row) -> Row:
    """The largest values there are, so that clamping and capping have work to do."""
    return {
        "i": 2**63 - 1,
        "x": math.inf,
        "d": (row["d"] or decimal.Decimal(0)).copy_abs(),
        "f": math.inf,
        "Small": 127,
    }


def _decimal(draw: random.Random, scale: int, plain: bool) -> decimal.Decimal:
    digits = draw.choice((0, 1, 5, 10**9 + 7) if plain else (0, 1, 5, 10**9 + 7, 10**37, 10**38 - 1))
    with decimal.localcontext() as context:
        context.prec = 60
        return decimal.Decimal(digits * draw.choice((1, -1))).scaleb(-scale)
