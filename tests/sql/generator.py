"""Random statements about one small table, and an oracle that is not the reader: DuckDB runs the same text.

A unit's rows are not capped here (the caps are larger than the table), so before the noise an answer must be what plain
SQL says. What differs on purpose is left out of the comparison: groups without a value, and public groups nobody is in.
"""

from __future__ import annotations

import datetime
import math
import random
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow

from tallystick.errors import TallystickError
from tallystick.tables.keyset import PublicTable
from tallystick.tables.release import Release, answer_of
from tallystick.tables.run import integers
from tallystick.tables.schema import Schema
from tallystick.tables.sources import Source
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.statement import Statement, planned
from tallystick.tables.table import Table

COLUMNS = {
    "unit": "integer", "id": "integer", "g": "text", "h": "integer", "flag": "boolean", "x": "integer", "y": "number",
    "d": "date",
}  # fmt: skip
OTHERS = {"unit": "integer", "k": "text", "z": "integer"}
ARROW = {"integer": pyarrow.int64(), "number": pyarrow.float64(), "text": pyarrow.string(), "boolean": pyarrow.bool_(),
         "date": pyarrow.date32()}  # fmt: skip
GROUPS = ("a", "b", "c")
PLACES = PublicTable(
    (("g", "text"), ("title", "text"), ("rank", "integer")), tuple((g, g.upper(), i) for i, g in enumerate(GROUPS))
)


def catalogue() -> Catalogue:
    """Private tables ``t`` and ``u`` of the same units, with public groups for g and some bounds; public ``p``."""
    source, price = Source("memory", "memory"), {"rho": 0.5, "caps_share": 0}
    caps = {"max_groups": 50, "max_rows_per_group": 20}
    first = Table(source=source, name="t", schema=Schema.of(COLUMNS), unit="unit").per_unit(**caps)
    first = first.bounds(x=(0, 100), y=(0, 1024), h=(0, 5))
    second = Table(source=source, name="u", schema=Schema.of(OTHERS), unit="unit").per_unit(**caps).bounds(z=(0, 9))
    known = {"t": Known(first, "", {"g": GROUPS}, 1e-6, price), "u": Known(second, "", {}, 1e-6, price)}
    return Catalogue(known, {"p": PLACES})


def rows(rng: random.Random, units: int = 12) -> list[dict[str, Any]]:
    """A few rows with whole numbers, some values missing."""
    made = []
    for unit in range(units):
        for _ in range(rng.randint(0, 4)):
            day = datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(400))
            row = {
                "g": rng.choice((*GROUPS, None)), "h": rng.randrange(6), "flag": rng.random() < 0.5,
                "x": rng.randint(0, 100), "y": float(rng.randint(0, 1024)), "d": day,
            }  # fmt: skip
            some = {name: None if rng.random() < 0.07 else value for name, value in row.items()}
            made.append({"unit": unit, "id": len(made), **some})
    return made


def others(rng: random.Random, units: int = 12) -> list[dict[str, Any]]:
    """Rows of the second table; some units have none."""
    numbers = [unit for unit in range(units) for _ in range(rng.choice((0, 0, 1, 2, 3)))]
    return [{"unit": unit, "k": rng.choice("pqr"), "z": rng.choice((*range(10), None))} for unit in numbers]


def tables(rng: random.Random, *, odd: bool = False, gone: int | None = None) -> dict[str, pyarrow.Table]:
    """Both private tables, with hostile rows where they are to be ``odd``, and without the unit that is ``gone``."""
    first, second = rows(rng) + (hostile(rng) if odd else []), others(rng)
    if gone is not None:
        first, second = ([row for row in each if row["unit"] != gone] for each in (first, second))
    return {"t": table(first, COLUMNS), "u": table(second, OTHERS)}


def hostile(rng: random.Random) -> list[dict[str, Any]]:
    """Rows with values that break arithmetic, comparison and dates where an engine is careless."""
    odd: dict[str, tuple[Any, ...]] = {
        "g": ("a", "", "A", "\u0130", "x" * 500, None), "h": (0, -(2**63), 2**63 - 1, None),
        "flag": (True, False, None), "x": (0, -(2**63), 2**63 - 1, None),
        "y": (0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324),
        "d": (datetime.date.min, datetime.date.max, datetime.date(2024, 2, 29), None),
    }  # fmt: skip
    return [
        {"unit": unit % 9, "id": 1000 + unit, **{name: rng.choice(values) for name, values in odd.items()}}
        for unit in range(40)
    ]


def table(found: list[dict[str, Any]], kinds: dict[str, str]) -> pyarrow.Table:
    """The rows with their types."""
    schema = pyarrow.schema([(name, ARROW[kind]) for name, kind in kinds.items()])
    return pyarrow.Table.from_pylist(found, schema=schema)


@dataclass
class Writer:
    """Writes statements; about one in six holds something that must be refused."""

    rng: random.Random

    def pick(self, *choices: Any) -> Any:
        made = self.rng.choice(choices)
        return made() if callable(made) else made

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.4:
            return str(self.pick("x", "y", "h", self.rng.randint(0, 9)))
        a, b = self.number(depth - 1), self.number(depth - 1)
        return str(
            self.pick(
                f"({a} + {b})", f"({a} - {b})", f"({a} * {self.rng.randint(0, 3)})", f"COALESCE({a}, 7)", f"ABS({a})",
                f"CASE WHEN {self.condition(1)} THEN {a} ELSE {b} END", f"NULLIF({a}, 3)", f"GREATEST({a}, 2)",
                f"FLOOR({a})", f"CASE WHEN {self.condition(1)} THEN {a} END", f"CAST({a} AS DOUBLE PRECISION)",
            )
        )  # fmt: skip

    def condition(self, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.4:
            sign = self.pick("=", "<>", "<", "<=", ">", ">=")
            return str(
                self.pick(
                    f"x {sign} {self.rng.randint(0, 100)}", f"g {sign} '{self.pick(*GROUPS)}'", "flag", "NOT flag",
                    f"y BETWEEN {self.rng.randint(0, 500)} AND {self.rng.randint(400, 1024)}", "g IN ('a', 'c')",
                    "h NOT IN (1, 2)", f"{self.pick('g', 'x', 'y')} IS {self.pick('', 'NOT ')}NULL",
                    "UPPER(g) LIKE 'A%'", f"d {sign} DATE '2026-06-15'", "d >= '2026-03-01'",
                    "EXTRACT(MONTH FROM d) = 3",
                    "x % 3 = 1", "d < DATE '2026-01-31' + INTERVAL '1' MONTH", "g IN (SELECT g FROM p WHERE rank > 0)",
                )
            )  # fmt: skip
        joint = self.pick("AND", "OR")
        return f"({self.condition(depth - 1)} {joint} {self.pick('', 'NOT ')}{self.condition(depth - 1)})"

    def aggregate(self) -> str:
        made = self.pick(
            "COUNT(*)", "COUNT(DISTINCT unit)", lambda: f"COUNT({self.pick('x', 'g', 'unit')})",
            lambda: f"SUM({self.number()})", lambda: f"AVG({self.number()})", lambda: f"SUM({self.number(1)})",
        )  # fmt: skip
        if self.rng.random() < 0.2 and "DISTINCT" not in made:
            made += f" FILTER (WHERE {self.condition(1)})"
        return str(made)

    def source(self) -> str:
        if self.rng.random() < 0.5:
            return f"({LOCAL[self.rng.choice(list(LOCAL))].format(self.condition(1))}) AS s"
        return str(
            self.pick(
                "t", "t", "t AS t", "public.t", lambda: f"(SELECT * FROM t WHERE {self.condition(1)}) AS s",
                "(SELECT unit, id, g, h, flag, x + 1 AS x, y, d FROM t) AS s", "t JOIN p USING (g)",
                "(SELECT t.* FROM t JOIN p ON p.g = t.g WHERE p.rank < 2) AS s",
            )
        )  # fmt: skip

    def key(self) -> str:
        return str(
            self.pick(
                "g", "h", "flag", "CASE WHEN x < 50 THEN 'low' ELSE 'high' END", "EXTRACT(YEAR FROM d)", "x > 10",
                "FLOOR(x / 10) * 10", "DATE_TRUNC('month', d)", "COALESCE(g, 'none')", "UPPER(g)", "MOD(h, 2)",
            )
        )  # fmt: skip

    def forbidden(self) -> str:
        return str(
            self.pick(
                "MIN(x)", "MAX(y)", "COUNT(DISTINCT g)", "x", "*", "SUM(x) OVER ()", "RANDOM()", "NOW()",
                "STRING_AGG(g, ',')",
                "(SELECT COUNT(*) FROM t)", "SUM(SUM(x))", "nope", "CORR(x, y)", "AVG(g)",
                "COUNT(*) OVER (PARTITION BY g)",
                "SUM((SELECT AVG(y) FROM t))", "ARRAY_AGG(x)", "LISTAGG(g)", "SUM(x ORDER BY y)", "unit",
            )
        )  # fmt: skip

    def statement(self) -> tuple[str, int]:
        """The text, and how many of its columns are groups."""
        keys = list(dict.fromkeys(self.key() for _ in range(self.rng.choice((0, 1, 1, 2)))))
        listed = [f"{self.aggregate()} AS m{i}" for i in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.2:
            listed.append(f"{self.aggregate()} + 1 AS c")
        if self.rng.random() < 0.15:
            listed[-1] = self.forbidden()
        outputs = [f"{key} AS k{i}" for i, key in enumerate(keys)] + listed
        text = f"SELECT {', '.join(outputs)} FROM {self.source()}"
        if self.rng.random() < 0.5:
            text += f" WHERE {self.condition()}"
        if keys:
            text += " GROUP BY " + ", ".join(self.pick(key, str(i + 1), f"k{i}") for i, key in enumerate(keys))
            if self.rng.random() < 0.2:
                text += f" HAVING {self.aggregate()} > {self.rng.randint(0, 3)}.5"
            if self.rng.random() < 0.3:
                text += f" ORDER BY {self.pick('1', 'k0', self.aggregate())}"
        if self.rng.random() < 0.05:
            text = self.pick(
                f"WITH t AS (SELECT * FROM t WHERE x > 3) {text}", f"{text} UNION ALL {text}", f"{text}; SELECT 1",
                f"SELECT COUNT(*) AS m0 FROM ({text}) AS whole",
            )  # fmt: skip
        return text, len(keys)


_ALL = "unit, id, g, h, flag, x, y, d"
LOCAL = {
    "semi-join": "SELECT * FROM t WHERE unit IN (SELECT unit FROM u WHERE z > 3)",
    "anti-join": "SELECT * FROM t WHERE unit NOT IN (SELECT unit FROM u WHERE z > 3) AND {}",
    "exists": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.unit = t.unit AND u.z = t.h)",
    "not exists": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.unit = t.unit AND u.z = t.h)",
    "join": "SELECT t.*, u.k, u.z FROM t JOIN u ON u.unit = t.unit AND u.z >= t.h",
    "left join": "SELECT t.unit, t.id, t.g, u.z AS h, t.flag, t.x, t.y, t.d FROM t LEFT JOIN u ON t.unit = u.unit",
    "no partner": "SELECT t.* FROM t LEFT JOIN u ON t.unit = u.unit AND u.z > 4 WHERE u.unit IS NULL",
    "per unit": "SELECT unit, g, COUNT(*) AS h, BOOL_OR(flag) AS flag, SUM(x) AS x, AVG(y) AS y, MIN(d) AS d, "
    "MAX(id) AS id FROM t WHERE {} GROUP BY unit, g HAVING COUNT(*) < 4",
    "window": "SELECT unit, id, g, COUNT(*) OVER (PARTITION BY unit) AS h, "
    "BOOL_AND(flag) OVER (PARTITION BY unit) AS flag, MAX(x) OVER (PARTITION BY unit, g) AS x, y, d FROM t",
    "row number": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY unit ORDER BY id DESC) AS rn FROM t) AS w "
    "WHERE rn <= 2",
    "lag": "SELECT unit, id, g, h, flag, LAG(x) OVER (PARTITION BY unit ORDER BY id) AS x, y, d FROM t",
    "union all": f"SELECT {_ALL} FROM t UNION ALL SELECT unit, id, g, h, NOT flag, x, y, d FROM t WHERE {{}}",
    "union": f"SELECT {_ALL} FROM t UNION SELECT unit, id, g, 0, flag, x, y, d FROM t WHERE {{}}",
    "distinct": "SELECT DISTINCT unit, g, h, flag, 3 AS x, 7.0 AS y, DATE '2026-05-01' AS d, 1 AS id FROM t",
    "except": f"SELECT {_ALL} FROM t EXCEPT SELECT {_ALL} FROM t WHERE {{}}",
    "intersect": f"SELECT {_ALL} FROM t INTERSECT SELECT {_ALL} FROM t WHERE {{}}",
}
"""Relations of one unit's rows, by what they are; {} is a condition."""


def shapes() -> dict[str, str]:
    """Words by which a statement with each relation of ``LOCAL`` is known."""
    return {name: f"({text.partition('{')[0]}" for name, text in LOCAL.items()}


def outcome(text: str) -> Statement | TallystickError:
    """The plan, or the refusal; anything else is a crash and is not caught."""
    try:
        return planned(text, CATALOGUE)
    except TallystickError as problem:
        return problem


CATALOGUE = catalogue()


def exact(statement: Statement, data: dict[str, pyarrow.Table]) -> list[tuple[Any, ...]]:
    """The answer before any noise, with every group of the data."""
    plan = statement.plan.on(data)
    found = integers(plan)
    numbers = [found.numbers[noise.part] for noise in plan.noises]
    release = Release(plan, answer_of(plan, found.keys, numbers))
    names, answer = statement.released.rows(release)
    kept = [i for i, name in enumerate(names) if not name.endswith(("_lower", "_upper"))]
    return [tuple(row[i] for i in kept) for row in answer]


def oracle(text: str, data: dict[str, pyarrow.Table]) -> list[tuple[Any, ...]]:
    """What DuckDB says about the same text."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA public; SET schema = 'public'")
        for name, found in data.items():
            connection.register("given", found)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.execute("CREATE TABLE p (g VARCHAR, title VARCHAR, rank BIGINT)")
        connection.executemany("INSERT INTO p VALUES (?, ?, ?)", [list(row) for row in PLACES.rows])
        return connection.execute(text).fetchall()


def differences(text: str, keys: int, mine: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> list[str]:
    """Groups of the oracle that are missing or have other numbers here."""
    by_key = {_key(row[:keys]): row[keys:] for row in mine}
    wrong = []
    for row in theirs:
        key = _key(row[:keys])
        if None in key:
            continue
        if key not in by_key:
            wrong.append(f"{text}: no group {key}")
        elif not all(_near(a, b) for a, b in zip(by_key[key], row[keys:], strict=True)):
            wrong.append(f"{text}: {key} is {by_key[key]}, not {row[keys:]}")
    return wrong


def _key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    plain = (v.date() if isinstance(v, datetime.datetime) else v for v in values)
    return tuple(float(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in plain)


def _near(mine: Any, theirs: Any) -> bool:
    """Equal but for the fixed point; the sum of no values is 0 here and nothing in SQL."""
    if theirs is None:
        return mine is None or mine in (0, 1)
    return mine is not None and abs(float(mine) - float(theirs)) <= 0.2 + 1e-3 * abs(float(theirs))
