"""Random questions about the packed tables: every kind of expression, measure, key, step, cap and neighbour."""

from __future__ import annotations

import datetime
import random
from typing import Any

import tallystick as ts
from tallystick.tables.plan import Plan
from worlds.engines import TABLE, Places
from worlds.tables import DAYS, INTEGERS, KEYS, TEXTS, Worlds

NUMBERS = ("i", "x", "d", "f", "n", "Small")
LIMITS = [(0.0, 1.0), (-7.0, 5000.5), (0.0, 1e15), (-1e15, 1e15), (-1e-3, 1e-3), (3.0, 4.0), (-128.0, 127.0), (0, 100)]
ODD_LIMITS = [(-1e300, 1e300), (0.0, 2.0**62), (0.0, 1e-12)]
_SETS = ("with_units_in", "without_units_in", "union_all", "except_rows", "intersect_rows")
IN_ALL = (
    {"max_rows": 1}, {"max_rows": 3}, {"max_rows": 7},
    {"max_groups": 2, "max_rows_per_group": 2, "max_rows": 3},
    {"max_groups": 3, "max_rows_per_group": 4, "max_rows": 5},
    {"max_groups": 4, "max_rows_per_group": 3, "max_rows": 10}, {"max_groups": 3, "max_rows": 4},
    {"max_rows_per_group": 2, "max_rows": 5},
)  # fmt: skip
"""Caps of which that on rows in all leaves out what the others leave."""
REST = {int: 17, str: "the rest", datetime.date: datetime.date(2011, 1, 1)}
"""The group of all other values."""
SMALL = ((1, 0), (127, -128), (2**31 - 1, -(2**31)), (0, 2**40))
CONSTANTS = (0, 1.5, 2**53 + 1, 2**63 - 1, 1e308, -1e300)


def asked(
    places: Places,
    worlds: Worlds,
    draw: random.Random,
    *,
    by_row: bool,
    replace: bool,
    local: bool = False,
    in_all: bool = False,
    rest: bool = False,
) -> Plan:
    """One plan; whatever the surface refuses raises a tallystick error and is counted as refused.

    With ``local`` it has a step that sees all rows of a unit, with ``in_all`` a cap on its rows in all, and with
    ``rest`` a group for all values that are not listed.
    """
    private = ts.Private(places.one, adjacency="replace" if replace else None)
    types = worlds.types if places.kind == "csv" else None
    table = private.table(TABLE, unit=ts.each_row if by_row else worlds.names["u"], types=types)
    return Question(table, worlds, draw, by_row=by_row).plan(local=local, in_all=in_all, rest=rest)


class Question:
    """One question while it is drawn."""

    def __init__(self, table: Any, worlds: Worlds, draw: random.Random, *, by_row: bool) -> None:
        self.table, self.worlds, self.draw, self.by_row = table, worlds, draw, by_row
        self.numbers = [worlds.names[column] for column in NUMBERS]
        self.keys: dict[str, list[Any]] = {
            worlds.names["k"]: KEYS[worlds.key],
            worlds.names["b"]: [True, False],
            worlds.names["day"]: DAYS,
            worlds.names["t"]: TEXTS[:8],
        }

    def plan(self, *, local: bool = False, in_all: bool = False, rest: bool = False) -> Plan:
        draw = self.draw
        for step in range(draw.choice((0, 0, 1, 1, 2, 3))):
            self.table = self._stepped(step)
        if local:
            self.table = self._of_unit()
        if in_all:
            self.table = self.table.per_unit(**draw.choice(IN_ALL))
        elif not self.by_row or draw.random() < 0.3:
            self.table = self.table.per_unit(
                max_groups=draw.choice((1, 1, 2, 3)), max_rows_per_group=draw.choice((1, 1, 2, 4))
            )
        grouped = (self._with_rest() if rest else self._grouped()).agg(**self._measures())
        budget = draw.choice(({"rho": 1.0}, {"rho": 0.1}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-5}))
        if draw.random() < 0.5:  # of all rows that a unit can lose here, or of some
            budget |= {"caps_seen_to": draw.choice((1, 2, 4, 100))}
        return grouped.plan(**budget)  # type: ignore[no-any-return]

    def column(self, name: str) -> Any:
        return ts.col(self.worlds.names[name])

    def _grouped(self) -> Any:
        draw, world = self.draw, self.worlds.names["w"]
        if self.worlds.count == 1 and draw.random() < 0.5:
            return self.table.group_by()
        columns = draw.sample(list(self.keys), min(len(self.keys), draw.choice((0, 1, 1, 1, 1, 2))))
        if draw.random() < 0.5:
            return self.table.group_by(world, *columns, keys=ts.private_keys(delta=1e-6))
        rows: list[tuple[Any, ...]] = [()]
        for column in columns:
            values = [value for value in self.keys[column] if type(value) is not int or abs(value) < 1 << 63]
            rows = [(*row, value) for row in rows for value in values]
        if len(rows) > 12:
            rows = draw.sample(rows, 12)
        listed = [(at, *row) for at in range(self.worlds.count) for row in rows]
        return self.table.group_by(world, *columns, keys=listed)

    def _with_rest(self) -> Any:
        """Groups of one or two columns, of which some values are listed and all others are one group."""
        draw, world = self.draw, self.worlds.names["w"]
        named = [column for column, values in self.keys.items() if True not in values or 2 in values]
        columns = draw.sample(named, draw.choice((1, 1, 2)))
        rows: list[tuple[Any, ...]] = [(at,) for at in range(self.worlds.count)]
        other = {}
        for column in columns:
            values = [value for value in self.keys[column] if type(value) is not int or abs(value) < 1 << 63]
            few = draw.sample(values, min(len(values), 2))
            other[column] = REST[type(few[0])]
            rows = [(*row, value) for row in rows for value in few]
        return self.table.group_by(world, *columns, keys=rows, other=other)

    def _stepped(self, step: int) -> Any:
        draw, table = self.draw, self.table
        way = draw.randrange(8)
        if way == 0:
            return table.filter(self._truth(2))
        if way == 1:
            self.numbers.append(f"made{step}")
            return table.derive(**{f"made{step}": self._number(3)})
        if way == 2:
            self.keys[f"Cut{step}"] = [0, 1, 2, 3]
            return table.derive(**{f"Cut{step}": self._number(1).cut([-1.0, 0.0, 2.5])})
        if way == 3:
            self.keys[f"if{step}"] = TEXTS[:8]
            return table.derive(**{f"if{step}": ts.when(self._truth(1), self.column("t"), draw.choice(TEXTS))})
        if way == 4:
            self.keys[f"flag{step}"] = [True, False]
            return table.derive(**{f"flag{step}": self._truth(2)})
        if way == 5:
            self.keys[f"month{step}"] = [1, 2, 10, 12]
            return table.derive(**{f"month{step}": self.column("day").month()})
        if way == 6:  # engines hold these in as few bits as they need
            self.keys[f"choice{step}"] = list(ends := draw.choice(SMALL))
            return table.derive(**{f"choice{step}": ts.when(self._truth(1), *ends)})
        return self._joined(step)

    def _joined(self, step: int) -> Any:
        """A public table, whose keys repeat now and then: a unit's caps hold for what that multiplies."""
        draw, on = self.draw, self.draw.choice(("k", "t", "b"))
        values = {"k": KEYS[self.worlds.key], "t": TEXTS[:12], "b": [True, False]}[on]
        repeats = 3 if not self.by_row and draw.random() < 0.5 else 1
        public = [
            {self.worlds.names[on]: value, f"joined{step}": float(n + more), f"land{step}": draw.choice("aAá")}
            for n, value in enumerate(values)
            if type(value) is not int or abs(value) < 1 << 63
            for more in range(repeats)
        ]
        self.numbers.append(f"joined{step}")
        self.keys[f"land{step}"] = ["a", "A", "á"]
        return self.table.join(public, on=self.worlds.names[on], how=draw.choice(("inner", "left")))

    def _of_unit(self) -> Any:
        """A step that sees all rows of a unit; the second table is the first one again, with fewer rows."""
        draw, table, names = self.draw, self.table, self.worlds.names
        other = table.filter(self._truth(1))
        way = draw.choice((*_SETS, "join", "join", "per unit", "per unit", "window", "window", "distinct"))
        if way in _SETS:
            return getattr(table, way)(other)
        if way == "join":
            brought = [names[column] for column in draw.sample(("k", "i", "x", "day", "b"), 3)]
            also = draw.sample([column for column in brought if column != names["i"] and column != names["x"]], 1)
            self.numbers += [f"o {column}" for column in brought if column in (names["i"], names["x"])]
            return table.join_on_unit(
                other.distinct(*brought), how=draw.choice(("inner", "left", "full")), prefix="o ",
                also=also if draw.random() < 0.3 else (), max_rows=draw.choice((1, 2, 5, 100)),
            )  # fmt: skip
        if way == "distinct":
            self.numbers = [names[column] for column in ("i", "x")]
            self.keys = {names["k"]: self.keys[names["k"]], names["b"]: [True, False]}
            return table.distinct(names["w"], *self.keys, *self.numbers)
        made = {
            "all": ts.unit_count(most=draw.choice((1, 3, 1000))),
            "filled": ts.unit_count(draw.choice(self.numbers)),
            "sum up": ts.unit_sum(draw.choice(self.numbers), *draw.choice(LIMITS)),
            "on average": ts.unit_mean(draw.choice(self.numbers), *draw.choice(LIMITS)),
            "largest": ts.unit_max(draw.choice(self.numbers)),
        }
        if way == "per unit":
            self.numbers, by = list(made), draw.sample(list(self.keys), draw.choice((0, 1, 1)))
            self.keys = {column: self.keys[column] for column in by}
            return table.per_unit_rows(by=[names["w"], *by], **made)
        before = {"place": ts.row_number(), "before": ts.lag(draw.choice(self.numbers), draw.choice((1, 2)))}
        self.numbers += list(made)
        if draw.random() < 0.3:
            return table.window(by=[names["k"]], **made)
        self.numbers += list(before)
        self.keys["place"] = [1, 2, 3]
        ordered = [(names[column], draw.choice(("asc", "desc"))) for column in draw.sample(("x", "t", "day", "i"), 2)]
        numbered = table.window(order_by=ordered, **made, **before)
        return numbered.filter(ts.col("place") <= 2) if draw.random() < 0.5 else numbered

    def _number(self, depth: int) -> Any:
        draw = self.draw
        if depth == 0 or draw.random() < 0.25:
            return self.column(draw.choice(NUMBERS))
        way = draw.randrange(8)
        if way == 0:
            return draw.choice((1, 0.5, 1e308, -3, 2**53, 0)) * self.column(draw.choice(NUMBERS))
        if way == 1:
            return ts.when(self._truth(depth - 1), self._number(depth - 1), draw.choice((0, 1.5, -1e300)))
        if way == 2:
            return self.column("day").year() if draw.random() < 0.5 else self.column("day").month()
        left, right = self._number(depth - 1), self._number(depth - 1)
        return draw.choice((left + right, left - right, left * right, left / right))

    def _truth(self, depth: int) -> Any:
        draw, way = self.draw, self.draw.randrange(10)
        if depth > 0 and way == 0:
            return self._truth(depth - 1) & self._truth(depth - 1)
        if depth > 0 and way == 1:
            return ~self._truth(depth - 1) | self._truth(depth - 1)
        if way == 2:
            return self.column(draw.choice(("t", "i", "x", "d", "b", "day"))).is_missing()
        if way == 3:
            return self.column("t").isin(draw.sample(TEXTS, 3))
        if way == 4:
            return self.column("i").isin(draw.sample(INTEGERS if draw.random() < 0.05 else INTEGERS[:-1], 3))
        if way == 5:
            return self.column("day").between(datetime.date(2000, 1, 1), draw.choice(DAYS))
        if way == 6:
            return self.column("b") == (draw.random() < 0.5)
        if way == 7:
            return self.column("t") >= draw.choice(TEXTS)
        if way == 8:
            return self.column("x").isin([0.5, 2.5, 1])
        left, right = self._number(depth), draw.choice((*CONSTANTS, self._number(0)))
        return draw.choice((left < right, left >= right, left == right, left != right))

    def _measures(self) -> dict[str, Any]:
        draw = self.draw

        def column() -> tuple[Any, ...]:
            return (draw.choice(self.numbers), *draw.choice(ODD_LIMITS if draw.random() < 0.02 else LIMITS))

        def bounded(measure: Any, **more: Any) -> Any:
            name, low, high = column()
            stand_in = {"missing": low} if draw.random() < 0.25 else {}
            return measure(name, low, high, **stand_in, **more)

        def cut() -> int | None:
            return draw.choice((2, 3, 16, 16, 100, None))

        choices = {
            "rows_of": lambda: ts.count(),
            "people": lambda: ts.count_units(),
            "over": lambda: ts.units_over_cap(),
            "more": lambda: ts.rows_over_cap(draw.choice((1, 3, 1000))),
            "total": lambda: bounded(ts.sum),
            "middle": lambda: bounded(ts.mean),
            "spread": lambda: bounded(ts.variance),
            "deviation": lambda: bounded(ts.standard_deviation),
            "half": lambda: bounded(ts.median, bins=cut()),
            "ninth": lambda: ts.quantile(draw.choice(self.numbers), 0.9, *draw.choice(LIMITS), bins=cut()),
            "bars": lambda: ts.histogram(draw.choice(self.numbers), [-1.0, 0.0, 1.0, 100.0]),
        }
        return {name: choices[name]() for name in draw.sample(list(choices), draw.choice((1, 2, 3)))}
