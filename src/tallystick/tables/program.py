"""A question as SQL: a closed sequence of stages that is the same on every engine.

cells    one line per (unit, group): rows, and per measured column total, squares and rows with a value
over, groups, ranked, cuts, kept                    see capping: at most K groups per unit
totals   integers per group; a cell of c > L rows keeps weight L/c, rounded down
bins     integers per group and bin, weighted the same way
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from tallystick.tables.asked import Query
from tallystick.tables.capping import SIGN, UNIT, Capping
from tallystick.tables.dialects import (
    SATURATED_CELL,
    SATURATED_TOTAL,
    Tree,
    Words,
    case,
    compare,
    constant,
    missing,
    name,
    row_value,
    table,
    whole,
)
from tallystick.tables.grid import STEP_BITS, WEIGHT_BITS
from tallystick.tables.keyset import PublicTable
from tallystick.tables.parts import Part
from tallystick.tables.schema import Schema
from tallystick.tables.table import EachRow, Step

Relation = Callable[[str, Schema], Tree]
ROWS, BIN, KEY = "_rows", "_bin", "_key"
FLAT = ("present", "total", "squares")


@dataclass(frozen=True, slots=True)
class Program:
    """Public tables to upload, stages to keep, and the queries whose results come back."""

    uploads: tuple[tuple[str, PublicTable], ...]
    stages: tuple[tuple[str, exp.Query], ...]
    totals: exp.Query
    bins: tuple[tuple[Part, exp.Query], ...]


def compiled(query: Query, words: Words, relation: Relation, salt: str, share: tuple[int, int] = (0, 1)) -> Program:
    """The program of a question in one dialect. ``salt`` keys the hash that chooses groups.

    ``share`` = (i, n) looks at the i-th of n disjoint sets of units only: all results are sums over units.
    """
    return _Compiler(query, words, relation, salt, share).program()


def text_of(query: Query, words: Words, salt: str) -> str:
    """The SQL for people and for snapshot tests; the stored table goes by its name."""
    program = compiled(query, words, lambda stored, _: table(stored), salt)
    lines = [f"-- stage {stage}\n{words.render(tree)};" for stage, tree in program.stages]
    lines.append(f"-- totals\n{words.render(program.totals)};")
    lines += [f"-- {part.label}\n{words.render(tree)};" for part, tree in program.bins]
    return "\n".join(lines) + "\n"


class _Compiler:
    def __init__(self, query: Query, words: Words, relation: Relation, salt: str, share: tuple[int, int]) -> None:
        self.query, self.words, self.relation, self.salt, self.share = query, words, relation, salt, share
        self.rowwise = isinstance(query.table.unit, EachRow)
        self.flat = [part for part in query.parts if part.kind in FLAT]
        self.binned = [part for part in query.parts if part.bins is not None]
        self.doubles: list[tuple[str | None, float | None]] = list(
            dict.fromkeys((p.column, p.missing) for p in query.parts if p.column is not None)
        )
        self.signed = False
        self.public = query.keys if isinstance(query.keys, PublicTable) else None
        count = 1 if self.public or not query.columns else len(query.columns)
        self.group_names = [f"{KEY}{i}" for i in range(count)]

    def program(self) -> Program:
        uploads = [(f"_join{i}", step.public) for i, step in enumerate(self.query.table.steps) if step.public]
        if self.public:
            indexed = tuple((*row, i) for i, row in enumerate(self.public.rows))
            columns = tuple((f"k{i}", kind) for i, (_, kind) in enumerate(self.public.columns))
            uploads.append(("_keys", PublicTable((*columns, ("position", "integer")), indexed)))
        stages: list[tuple[str, exp.Query]] = []
        if self.rowwise:
            cells: Tree = self._cells().subquery("_c")
        else:
            stages.append(("_cells", self._cells()))
            cells = table("_cells")
            if self.query.columns:
                capping = self._capping()
                stages += capping.stages()
                if self.binned:
                    stages.append(("_kept", capping.kept()))
                    cells = table("_kept")
                else:
                    cells, self.signed = capping.less_dropped().subquery("_c"), True
        bins = tuple((part, self._bins(part, cells)) for part in self.binned)
        return Program(tuple(uploads), tuple(stages), self._totals(cells), bins)

    # -- rows

    def _steps(self) -> exp.Query:
        """The stored table after filters, derived columns and public joins, as a select over named columns."""
        asked = self.query.table
        schema = asked.base
        # from_ wants a source; the first select names the columns, so nothing depends on their order
        rows: exp.Query = exp.select(*(self._stored(n, schema) for n in self._used(schema))).from_(
            self._aliased(self.relation(asked.name, schema))
        )
        for i, step in enumerate(asked.steps):
            rows, schema = self._step(rows, schema, step, i)
        return rows

    def _used(self, schema: Schema) -> list[str]:
        return [column for column, kind in schema.columns if kind != "unsupported"]

    def _stored(self, column: str, schema: Schema) -> Tree:
        """A stored column; what reads as text (enumerations, UUIDs, padded characters) becomes text.

        Dates that no calendar outside the engine knows (infinity, before year 1, after 9999) are missing: whether
        they can be handed out must not depend on whether there are any.
        """
        value: Tree = name(column, "_t")
        kind = schema.type_of(column)
        if kind == "text":
            value = self.words.cast(value, "text")
        if kind == "date":
            first, last = (constant(day, self.words) for day in (datetime.date.min, datetime.date.max))
            inside = exp.And(this=compare(exp.GTE, value, first), expression=compare(exp.LTE, value, last))
            value = case([(inside, value)], exp.Null())
        return exp.alias_(value, column, quoted=True)

    def _plain(self, column: str) -> Tree:
        return exp.alias_(name(column, "_t"), column, quoted=True)

    @staticmethod
    def _aliased(relation: Tree) -> Tree:
        return exp.alias_(relation, "_t", table=True)

    def _step(self, rows: exp.Query, schema: Schema, step: Step, i: int) -> tuple[exp.Query, Schema]:
        inner = rows.subquery("_t")
        if step.public is not None:
            joined = exp.select(*(self._plain(n) for n in self._used(schema))).from_(inner)
            for column, kind in step.public.columns:
                if column != step.name:
                    joined = joined.select(exp.alias_(name(column, "_j"), column, quoted=True))
                    schema = schema.with_column(column, kind)
            same = exp.EQ(this=name(step.name, "_t"), expression=name(step.name, "_j"))
            return joined.join(table(f"_join{i}", "_j"), on=same, join_type=step.how), schema
        assert step.expression is not None
        value = row_value(step.expression, schema, self.words, "_t")
        chosen = exp.select(*(self._plain(n) for n in self._used(schema))).from_(inner)
        if step.kind == "filter":
            return chosen.where(value), schema
        made = chosen.select(exp.alias_(value, step.name, quoted=True))
        return made, schema.with_column(step.name, step.expression.type_in(schema))

    def _rows(self, parts: list[Part]) -> exp.Select:
        """Grouped rows: unit, group, and the measured doubles; rows without unit or group are dropped."""
        asked = self.query
        chosen = exp.select().from_(self._steps().subquery("_t"))
        if not self.rowwise:
            assert isinstance(asked.table.unit, str)
            unit = name(asked.table.unit, "_t")
            chosen = chosen.select(exp.alias_(unit, UNIT, quoted=True)).where(self._there(unit))
            if self.share[1] > 1:
                chosen = chosen.where(self.words.in_share(unit, *self.share))
        for column, tree in self._groups():
            chosen = chosen.select(exp.alias_(tree, column, quoted=True))
        if self.public:
            on = [
                exp.EQ(this=name(column, "_t"), expression=name(f"k{i}", "_k"))
                for i, column in enumerate(asked.columns)
            ]
            chosen = chosen.join(table("_keys", "_k"), on=exp.and_(*on))
        for column in asked.columns:
            chosen = chosen.where(self._there(name(column, "_t")))
        for column, part in {self._place(part): part for part in parts}.items():
            chosen = chosen.select(exp.alias_(self._number(part), column, quoted=True))
        return chosen

    def _place(self, part: Part) -> str:
        """The column of the rows that holds a part's doubles; parts of one column share it."""
        return f"_n{self.doubles.index((part.column, part.missing))}"

    @staticmethod
    def _there(value: Tree) -> Tree:
        return exp.Not(this=missing(value))

    def _groups(self) -> list[tuple[str, Tree]]:
        if self.public:
            return [(self.group_names[0], name("position", "_k"))]
        if not self.query.columns:
            return [(self.group_names[0], self.words.cast(whole(0), "integer"))]
        return [(new, name(old, "_t")) for new, old in zip(self.group_names, self.query.columns, strict=True)]

    # -- integers of a row

    def _number(self, part: Part) -> Tree:
        assert part.column is not None
        value = self.words.number(name(part.column, "_t"), self.query.table.schema.type_of(part.column))
        if part.missing is None:
            return value
        return exp.Coalesce(this=value, expressions=[self.words.double(part.missing)])

    def _quantised(self, part: Part) -> Tree:
        grid = part.grid
        assert grid is not None
        value, words = name(self._place(part), "_r"), self.words
        shifted = compare(exp.Sub, value, words.double(grid.lower))
        scaled = compare(exp.Mul, shifted, words.double(grid.inverse))
        floor = words.cast(exp.Anonymous(this="FLOOR", expressions=[scaled]), "integer")
        integer: Tree = self._clamped(value, grid.lower, grid.upper, 0, grid.top, floor)
        if part.kind == "squares":
            square = compare(exp.Mul, integer, integer)
            integer = words.divide(square, whole(1 << grid.square_shift)) if grid.square_shift else square
        # at most 2^24: engines add up 32-bit integers in 64 bits, and 64-bit ones in something slower
        return words.cast(integer, "small")

    def _clamped(self, value: Tree, lower: float, upper: float, first: int, last: int, inside: Tree) -> Tree:
        words = self.words
        return case(
            [
                (missing(value), exp.Null()),
                (compare(exp.LTE, value, words.double(lower)), words.cast(whole(first), "integer")),
                (compare(exp.GTE, value, words.double(upper)), words.cast(whole(last), "integer")),
            ],
            inside,
        )

    def _bin(self, part: Part) -> Tree:
        bins = part.bins
        assert bins is not None
        value, words, last = name(self._place(part), "_r"), self.words, bins.count - 1
        if not bins.clamp:
            branches: list[tuple[Tree, Tree]] = [
                (missing(value), exp.Null()),
                (compare(exp.LT, value, words.double(bins.edges[0])), exp.Null()),
                (compare(exp.GT, value, words.double(bins.edges[-1])), exp.Null()),
            ]
            branches += [
                (compare(exp.LT, value, words.double(edge)), whole(i)) for i, edge in enumerate(bins.edges[1:-1])
            ]
            return words.cast(case(branches, whole(last)), "integer")
        lower, upper = bins.edges[0], bins.edges[-2 if bins.whole else -1]
        shifted = compare(exp.Sub, value, words.double(lower))
        scaled = compare(exp.Mul, shifted, words.double(1.0 if bins.whole else bins.count / (upper - lower)))
        floor = words.cast(exp.Anonymous(this="FLOOR", expressions=[scaled]), "integer")
        inside = case([(compare(exp.GT, floor, whole(last)), whole(last))], floor.copy())
        return self._clamped(value, lower, upper, 0, last, inside)

    # -- stages

    def _cells(self) -> exp.Query:
        rows = self._rows(self.flat)
        keys = [name(column, "_r") for column in self._keys()]
        cells = exp.select(*keys).from_(rows.subquery("_r"))
        if self.rowwise:
            one: Tree = self.words.cast(whole(1), "integer")
            cells = cells.select(exp.alias_(one, ROWS, quoted=True))
        else:
            cells = cells.select(exp.alias_(exp.Count(this=exp.Star()), ROWS, quoted=True)).group_by(*keys)
        for i, part in enumerate(self.flat):
            cells = cells.select(exp.alias_(self._in_cell(part), f"_s{i}", quoted=True))
        return cells

    def _keys(self) -> list[str]:
        return self.group_names if self.rowwise else [UNIT, *self.group_names]

    def _in_cell(self, part: Part) -> Tree:
        value = name(self._place(part), "_r") if part.kind == "present" else self._quantised(part)
        if not self.rowwise:
            return (
                exp.Count(this=value)
                if part.kind == "present"
                else self.words.sum(value, SATURATED_CELL, 1 << STEP_BITS)
            )
        if part.kind == "present":
            return self.words.cast(case([(missing(value), whole(0))], whole(1)), "integer")
        return exp.Coalesce(this=value, expressions=[whole(0)])

    def _capping(self) -> Capping:
        unit = self.query.table.unit
        assert isinstance(unit, str)
        type_of = self.query.table.schema.type_of
        kinds = ["integer"] if self.public else [type_of(column) for column in self.query.columns]
        return Capping(
            words=self.words,
            salt=self.salt,
            most=self.query.caps.max_groups,
            unit_kind=type_of(unit),
            groups=tuple(zip(self.group_names, kinds, strict=True)),
            numbers=(ROWS, *(f"_s{i}" for i in range(len(self.flat)))),
        )

    def _weighted(self, value: Tree, most: int) -> Tree:
        """value * L / rows rounded down where a cell has more than L rows; ``most`` is L."""
        rows = name(ROWS)
        scaled = self.words.divide(compare(exp.Mul, value, whole(most)), rows)
        return case([(compare(exp.GT, rows, whole(most)), scaled)], value)

    def _totals(self, cells: Tree) -> exp.Query:
        most = self.query.caps.max_rows
        keys = [name(column) for column in self.group_names]
        chosen = exp.select(*keys).from_(cells.copy()).group_by(*(key.copy() for key in keys))
        places = {part: f"_s{i}" for i, part in enumerate(self.flat)}
        for part in self.query.parts:
            if part.bins is None:
                value = self._contribution(part, places, most)
                value = compare(exp.Mul, value, name(SIGN)) if self.signed else value
                chosen = chosen.select(self.words.sum(value, SATURATED_TOTAL, part.peak(self.query.caps)))
        if self.signed:  # a group of which nothing is kept is not there
            chosen = chosen.having(compare(exp.GT, exp.Sum(this=name(SIGN)), whole(0)))
        return chosen

    def _contribution(self, part: Part, places: dict[Part, str], most: int) -> Tree:
        if part.kind == "units":
            return whole(1)
        if part.kind == "rows":
            return case([(compare(exp.GT, name(ROWS), whole(most)), whole(most))], name(ROWS))
        return self._weighted(name(places[part]), most)

    def _bins(self, part: Part, cells: Tree) -> exp.Query:
        binned = exp.select(*(name(c, "_r") for c in self._keys()), exp.alias_(self._bin(part), BIN, quoted=True))
        rows = binned.from_(self._rows([part]).subquery("_r")).subquery("_r")
        keys = [name(column, "_r") for column in self._keys()]
        inside = exp.select(*keys, name(BIN, "_r")).from_(rows).where(self._there(name(BIN, "_r")))
        groups = [name(column, "_b") for column in self.group_names]
        out: exp.Select
        if self.rowwise:
            out = exp.select(*groups, name(BIN, "_b")).from_(inside.subquery("_b"))
            return out.select(self.words.sum(whole(1 << WEIGHT_BITS), SATURATED_TOTAL, 1 << WEIGHT_BITS)).group_by(
                *groups, name(BIN, "_b")
            )
        inside = inside.select(exp.alias_(exp.Count(this=exp.Star()), "_in", quoted=True))
        inside = inside.group_by(*(key.copy() for key in keys), name(BIN, "_r"))
        same = [exp.EQ(this=name(c, "_b"), expression=name(c, "_c")) for c in self._keys()]
        most = self.query.caps.max_rows
        here, rows_of_cell = name("_in", "_b"), name(ROWS, "_c")
        scaled = self.words.divide(compare(exp.Mul, here, whole(most << WEIGHT_BITS)), rows_of_cell)
        full = compare(exp.Mul, here, whole(1 << WEIGHT_BITS))
        weight = case([(compare(exp.GT, rows_of_cell, whole(most)), scaled)], full)
        kept = exp.alias_(cells.copy(), "_c", table=True)
        out = exp.select(*groups, name(BIN, "_b")).from_(inside.subquery("_b")).join(kept, on=exp.and_(*same))
        return out.select(self.words.sum(weight, SATURATED_TOTAL, part.peak(self.query.caps))).group_by(
            *groups, name(BIN, "_b")
        )
