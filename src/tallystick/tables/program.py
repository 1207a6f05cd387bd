"""A question as SQL: a closed sequence of stages that is the same on every engine.

taken    unit, group and measured doubles of every row that counts, where they are needed more than once: all further
         stages see the same rows even if the source changes meanwhile
cells    one line per (unit, group): rows, and per measured column total, squares and rows with a value
ranked, and dropped or kept                         see ``capping.py``: at most K groups per unit
beyond and limited                                  the same: at most R rows per unit in all, where that is asked
totals   integers per group; a cell of c rows of which l < c count keeps weight l/c, rounded down
bins     integers per group and bin, weighted the same way
removed  integers of the whole table, each in one line: units and rows over the caps, values beyond the bounds, totals
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tallystick.tables import trial
from tallystick.tables.capping import MOST, OUT, ROWS, SIGN, UNIT, Capping, most_of
from tallystick.tables.dialects import (
    LONGEST_TEXT,
    SATURATED_TOTAL,
    Tree,
    Words,
    case,
    compare,
    fresh,
    missing,
    name,
    place,
    table,
    whole,
    wide,
)
from tallystick.tables.expressions import LONGEST_MADE, Column, Expression, columns_of
from tallystick.tables.functions import exchanged, nested, row_value
from tallystick.tables.keyset import PublicTable, Upload
from tallystick.tables.local import LocalStep, Side
from tallystick.tables.parts import WEIGHT_BITS, Added, Binned, ColumnPart, OfTable, Outside, Part, RowsOver, UnitsOver
from tallystick.tables.reporting.totals import Seen
from tallystick.tables.schema import UNSUPPORTED, Schema
from tallystick.tables.sorted_cells import BITS, WEIGHT_OF_TEXT
from tallystick.tables.steps import EachRow, Step

if TYPE_CHECKING:
    from tallystick.tables.table import Query, Table

BIN, KEY, ADDED = "_bin", "_key", "_added"
STORED, TAKEN, HERE = "_stored", "_taken", "_here"


@dataclass(frozen=True, slots=True)
class Program:
    """SQL: which of the stored rows are taken, stages to keep, and the queries whose results come back.

    Stored rows go by the name ``STORED``, and the rows taken, or one share of them, by ``HERE``. Both are views, so one
    text does for an empty table and for the data, for all units and for some.
    """

    taken: str
    again: bool
    """Whether the rows taken are needed more than once."""
    stages: tuple[tuple[str, str], ...]
    totals: str
    bins: tuple[tuple[Binned, str], ...]
    removed: tuple[tuple[OfTable, ...], str] | None = None
    """All of them in one line."""
    by_sorting: Sorting | None = None
    """Another way to the same integers."""
    long_rows: bool = False
    """Whether unit or group has a text: one person's rows, kept, could take a thousand times the file's bytes."""
    trial: tuple[str, ...] = ()
    """Queries that call every function of the others on made-up constants."""

    @property
    def texts(self) -> list[str]:
        """All of its SQL."""
        others = [sql for _, sql in (*self.stages, *self.bins, *([self.removed] if self.removed else []))]
        return [self.taken, self.totals, *others, *self.trial]

    def with_salt(self, before: str, salt: str) -> Program:
        """The program that ``compiled`` would make with this salt; ``before`` is the one it was made with."""
        return replace(
            self,
            taken=self.taken.replace(before, salt),
            stages=tuple((stage, sql.replace(before, salt)) for stage, sql in self.stages),
            totals=self.totals.replace(before, salt),
            bins=tuple((part, sql.replace(before, salt)) for part, sql in self.bins),
            removed=None if self.removed is None else (self.removed[0], self.removed[1].replace(before, salt)),
            by_sorting=None if self.by_sorting is None else self.by_sorting.with_salt(before, salt),
            trial=tuple(sql.replace(before, salt) for sql in self.trial),
        )


@dataclass(frozen=True, slots=True)
class Sorting:
    """Queries to an engine where cells are made by sorting and added up here (``sorting.py``).

    ``rows`` are the unit, the parts of the group and one number made of all that a row adds: for each part the bits of
    its numbers. ``count`` is their number. ``lines`` and ``points`` are as in ``capping.py``; without them there is no
    cap on groups.
    """

    rows: str
    count: str
    of_row: int
    """Bytes that a row weighs at most, here, for every content."""
    parts: tuple[tuple[Added, tuple[int, ...]], ...]
    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    """Of the unit and the parts of the group."""
    lines: str
    points: str

    def with_salt(self, before: str, salt: str) -> Sorting:
        """Return the sorting with another salt."""
        return replace(self, lines=self.lines.replace(before, salt), points=self.points.replace(before, salt))


Stored = Mapping[str, exp.Query]
"""The rows of every stored table, by its name; their columns are called as ``place`` says (see ``read_stored``)."""


def compiled(query: Query, words: Words, salt: str) -> Program:
    """The program of a question in one dialect. ``salt`` keys the hash that chooses groups."""
    stored = {leaf: _select("*").from_(table(view), copy=False) for leaf, view in views(query).items()}
    return _Compiler(query, words, stored, salt).program()


def views(query: Query) -> dict[str, str]:
    """Names of the rows of every stored table, by its name."""
    leaves = dict.fromkeys(leaf.name for leaf in query.table.leaves())
    return {leaf: f"{STORED}{i}" for i, leaf in enumerate(leaves)}


def taken(query: Query, words: Words, stored: Stored) -> exp.Query:
    """The rows that count, for what must read rows: the unit, unless each row is one, a constant, and the measured
    columns as doubles, in the order in which they are first measured.
    """
    return _Compiler(query, words, stored, "")._taken()


def share_of(words: Words, i: int, n: int) -> str:
    """The rows taken of the i-th of n disjoint sets of units: all results are sums over units."""
    here = _select("*").from_(table(TAKEN), copy=False)
    return words.render(here if n == 1 else here.where(words.in_share(name(UNIT), i, n), copy=False))


def uploads(query: Query) -> list[tuple[str, Upload]]:
    """The public tables that a question reads."""
    tables = list(_joined(query.table))
    if isinstance(query.keys, PublicTable):
        indexed = tuple((*row, i) for i, row in enumerate(query.keys.rows))
        columns = tuple((f"k{i}", kind) for i, (_, kind) in enumerate(query.keys.columns))
        tables.append(("_keys", Upload((*columns, ("position", "integer")), indexed)))
    return tables


def read_stored(schema: Schema, words: Words, source: Tree, own: Mapping[str, str] | None = None) -> exp.Query:
    """The usable columns of ``source``, each as its type in ``schema`` and called by its place.

    ``own`` are the engine's names of the columns' types, where reading depends on them.
    """
    rows = exp.select().from_(exp.alias_(source, "_t", table=True))
    for column, kind in schema.columns:
        if kind != UNSUPPORTED:
            value = words.read(name(column, "_t"), kind, (own or {}).get(column, ""))
            rows.select(exp.alias_(value, place(schema, column), quoted=True), copy=False)
    return rows


def text_of(query: Query, words: Words, salt: str) -> str:
    """The SQL for people and for snapshot tests; the stored table goes by its name."""
    bases = {leaf.name: leaf.base for leaf in query.table.leaves()}
    program = compiled(query, words, salt)
    lines = [
        f"-- view {view}\n{words.render(read_stored(bases[leaf], words, table(leaf)))};"
        for leaf, view in views(query).items()
    ]
    if program.again:
        lines += [f"-- stage {TAKEN}\n{program.taken};", f"-- view {HERE}\n{share_of(words, 0, 1)};"]
    else:
        lines += [f"-- view {HERE}\n{program.taken};"]
    lines += [f"-- stage {stage}\n{sql};" for stage, sql in program.stages]
    lines.append(f"-- totals\n{program.totals};")
    lines += [f"-- {part.label}\n{sql};" for part, sql in program.bins]
    if program.removed is not None:
        parts, sql = program.removed
        lines.append(f"-- {', '.join(part.label for part in parts)}\n{sql};")
    return "\n".join(lines) + "\n"


class _Compiler:
    def __init__(self, query: Query, words: Words, stored: Stored, salt: str) -> None:
        self.query, self.words, self.stored, self.salt = query, words, stored, salt
        self.rowwise = isinstance(query.table.unit, EachRow)
        parts = (*query.parts, *query.removed)
        self.flat = [part for part in parts if isinstance(part, Added)]
        self.binned = [part for part in parts if isinstance(part, Binned)]
        self.over = tuple(part for part in query.removed if isinstance(part, UnitsOver | RowsOver))
        self.outside = tuple(part for part in query.removed if isinstance(part, Outside))
        self.doubles = list(dict.fromkeys((p.column, p.missing) for p in parts if isinstance(p, ColumnPart)))
        self.signed = False
        self.calls: list[Tree] = []
        self.marks = words.dear and bool(query.columns) and not self.rowwise
        self.public = query.keys if isinstance(query.keys, PublicTable) else None
        count = 1 if self.public or not query.columns else len(query.columns)
        self.group_names = [f"{KEY}{i}" for i in range(count)]
        self.rows = table(HERE, "_r")

    def program(self) -> Program:
        stages: list[tuple[str, exp.Query]] = []
        if self.rowwise:
            cells: Tree = self._cells().subquery("_c")
        else:
            cells = table("_cells")
            if self.marks:
                stages.append(("_cells", self._capping().marked(self._cells())))
                cells = self._capping().unmarked().subquery("_c")
            else:
                stages.append(("_cells", self._cells()))
            if self.query.columns and not self.marks:
                capping = self._capping()
                stages += [("_ranked", capping.ranked()), ("_dropped", capping.dropped())]
                if self.query.caps.in_all is not None:
                    stages += [("_kept", capping.kept()), ("_beyond", capping.beyond())]
                    stages.append(("_limited", capping.limited()))
                    cells = table("_limited")
                elif self.binned:
                    stages.append(("_kept", capping.kept()))
                    cells = table("_kept")
                else:
                    cells, self.signed = capping.less_dropped().subquery("_c"), True
        written = self.words.render
        return Program(
            taken=written(self._taken()),
            again=bool(self.binned) or (self.rowwise and bool(self.outside)),
            stages=tuple((stage, written(tree)) for stage, tree in stages),
            totals=written(self._totals(cells)),
            bins=tuple((part, written(self._bins(part, cells))) for part in self.binned),
            removed=self._removed(cells),
            by_sorting=self._by_sorting(),
            long_rows=self._heaviest_texts() > 0,
            trial=self._trial(),
        )

    def _trial(self) -> tuple[str, ...]:
        """Calls of all functions: those that read columns, of steps, of measures and of the cap on groups."""
        words, number = self.words, trial.made_up("number")
        kinds = {kind for leaf in self.query.table.leaves() for _, kind in leaf.base.columns if kind != UNSUPPORTED}
        trees = [words.read(trial.made_up(kind), kind) for kind in sorted(kinds)]
        trees += self.calls
        trees += [part.in_row(words, number) for part in self.flat]
        trees += [part.bin_of(words, number) for part in self.binned]
        if self.query.columns and not self.rowwise:
            capping = self._capping()
            of = {UNIT: capping.unit_kind, **dict(capping.groups)}
            trees += [trial.exchanged_columns(tree, of) for tree in capping.digests()]
        return trial.queries(trees, words)

    def _by_sorting(self) -> Sorting | None:
        """Return the sorting, or None unless unit and group are whole numbers or texts, a word holds what a row adds,
        and no join makes many rows of few.
        """
        joined = any(step.local or step.public for step in self.query.table.steps)
        if self.rowwise or self.binned or joined or not self.words.sorts:
            return None
        kinds = (self.query.table.schema.type_of(str(self.query.table.unit)), *self._kinds())
        numbers = [(part, part.in_word(self.words, self._double(part))) for part in self.flat]
        fields = [field for _, own in numbers for field in own]
        if not {*kinds} <= {"integer", "text"} or sum(bits for _, bits in fields) > BITS:
            return None
        added: Tree = whole(0)
        for value, bits in reversed(fields):
            added = compare(exp.Add, compare(exp.Mul, added, whole(1 << bits)), value)
        keys = [(name(column, "_r"), column, kind) for column, kind in zip(self._keys(), kinds, strict=True)]
        # A derived column of small constants is of fewer bits, in which nothing can be shifted.
        wide = (_as(self.words.cast(key, kind) if kind == "integer" else key, column) for key, column, kind in keys)
        rows = _select(*wide).from_(self.rows.copy(), copy=False)
        rows.select(_as(self.words.cast(added, "integer"), ADDED), copy=False)
        capping, written = self._capping(), self.words.render
        return Sorting(
            rows=written(rows),
            count=written(_select(exp.Count(this=exp.Star())).from_(self.rows.copy(), copy=False)),
            of_row=8 * (1 + len(kinds)) + self._heaviest_texts(),
            parts=tuple((part, tuple(bits for _, bits in own)) for part, own in numbers),
            groups=tuple(self.group_names),
            kinds=kinds,
            lines=written(capping.lines()) if self.query.columns else "",
            points=written(capping.points()) if self.query.columns else "",
        )

    def _heaviest_texts(self) -> int:
        """Bytes of the texts in a row's unit and group at most. Python holds all characters of a text in as many bytes
        as the widest of them takes.
        """
        schema, stored = self.query.table.schema, self.query.table.base.names
        keys = (*(() if self.rowwise else (str(self.query.table.unit),)), *(() if self.public else self.query.columns))
        longest = (LONGEST_TEXT if key in stored else LONGEST_MADE for key in keys if schema.type_of(key) == "text")
        return sum(4 * length + WEIGHT_OF_TEXT for length in longest)

    def _removed(self, cells: Tree) -> tuple[tuple[OfTable, ...], str] | None:
        """Every query has one line, and so have all of them beside each other."""
        if self.words.dear and not self.rowwise and self.query.removed:
            return self.query.removed, self.words.render(self._by_unit())
        asked: list[tuple[tuple[OfTable, ...], exp.Query]] = [(self.over, self._over())] if self.over else []
        asked += [(self.outside, self._outside(cells))] if self.outside else []
        seen = (part for part in self.query.removed if isinstance(part, Seen))
        asked += [((part,), part.asked(self.words, cells, self.signed, self.query.caps)) for part in seen]
        if not asked:
            return None
        (parts, first), *others = asked
        if not others:
            return parts, self.words.render(first)
        line = _select("*").from_(first.subquery("_q0", copy=False), copy=False)
        for i, (more, query) in enumerate(others):
            parts += more
            line = line.join(query.subquery(f"_q{i + 1}", copy=False), join_type="cross", copy=False)
        return parts, self.words.render(line)

    # -- rows

    def _steps(self) -> tuple[exp.Query, Schema]:
        """The stored table after its steps, and its columns by place."""
        return self._rows_of(self.query.table, "_join")

    def _rows_of(self, table: Table, mark: str) -> tuple[exp.Query, Schema]:
        """Return the rows of any table; ``mark`` begins the names of the public tables that it joins."""
        rows, schema = self.stored[table.name].copy(), table.base
        for i, steps in together(table.steps):
            if steps[0].public:
                rows, schema = self._join(rows, schema, steps[0], f"{mark}{i}")
            elif steps[0].local:
                rows, schema = self._of_unit(rows, schema, str(table.unit), steps[0].local, f"{mark}{i}_")
            else:
                rows, schema = self._apply(rows, schema, steps)
        return rows, schema

    def _of_unit(
        self, rows: exp.Query, schema: Schema, unit: str, step: LocalStep, mark: str
    ) -> tuple[exp.Query, Schema]:
        """After a step that sees all rows of a unit; a column that an expression only passed through is dropped."""
        left = Side(rows, schema, unit)
        right = None if step.other is None else Side(*self._rows_of(step.other, mark), str(step.other.unit))
        return step.rows(self.words, left, right)

    @staticmethod
    def _passed(rows: exp.Query, schema: Schema) -> exp.Select:
        """All columns so far, from rows that go by ``_t``."""
        kept = [place(schema, column) for column, kind in schema.columns if kind != UNSUPPORTED]
        # not copied: steps are nested, and copying at each would take the square of their number
        chosen = _select(*(_as(name(c, "_t"), c) for c in kept))
        return chosen.from_(rows.subquery("_t", copy=False), copy=False)

    def _join(self, rows: exp.Query, schema: Schema, step: Step, uploaded: str) -> tuple[exp.Query, Schema]:
        assert step.public is not None
        joined, right = self._passed(rows, schema), Schema(step.public.columns)
        same = exp.EQ(
            this=name(place(schema, step.name), "_t"),
            expression=name(place(right, step.name), "_j"),
        )
        for column, kind in step.public.columns:
            if column != step.name:
                schema = schema.with_column(column, kind)
                value = name(place(right, column), "_j")
                joined.select(_as(value, place(schema, column)), copy=False)
        return joined.join(table(uploaded, "_j"), on=same, join_type=step.how, copy=False), schema

    def _apply(self, rows: exp.Query, schema: Schema, steps: list[Step]) -> tuple[exp.Query, Schema]:
        """One filter, or derived columns that do not use each other."""
        made = [(step.name, step.expression) for step in steps if step.expression is not None]
        for _, expression in made:
            self.calls += trial.calls(expression, schema, self.words)
        while calls := list({id(call): call for _, expression in made for call in nested(expression)}.values()):
            columns = {id(call): Column(f"\0{len(schema.columns) + i}") for i, call in enumerate(calls)}
            rows, schema = self._derived(rows, schema, [(columns[id(call)].name, call) for call in calls])
            made = [(column, exchanged(expression, columns)) for column, expression in made]
        if steps[0].kind == "filter":
            value = row_value(made[0][1], schema, self.words, "_t")
            return self._passed(rows, schema).where(value, copy=False), schema
        return self._derived(rows, schema, made)

    def _derived(self, rows: exp.Query, schema: Schema, made: list[tuple[str, Expression]]) -> tuple[exp.Query, Schema]:
        chosen, before = self._passed(rows, schema), schema
        for column, expression in made:
            schema = Schema((*schema.columns, (column, expression.type_in(before))))
            value = wide(self.words, row_value(expression, before, self.words, "_t"))
            chosen.select(_as(value, place(schema, column)), copy=False)
        return self.words.apart(chosen), schema

    def _taken(self) -> exp.Select:
        """Grouped rows: unit, group, and the measured doubles; rows without unit or group are dropped."""
        query = self.query
        rows, schema = self._steps()
        chosen = _select().from_(rows.subquery("_t", copy=False), copy=False)
        if not self.rowwise:
            assert isinstance(query.table.unit, str)
            unit = name(place(schema, query.table.unit), "_t")
            chosen.select(_as(unit, UNIT), copy=False).where(self._there(unit), copy=False)
        keys = [name(place(schema, column), "_t") for column in query.columns]
        for column, tree in self._groups(keys):
            chosen.select(_as(tree, column), copy=False)
        if self.public:
            on = [exp.EQ(this=fresh(key), expression=name(f"k{i}", "_k")) for i, key in enumerate(keys)]
            chosen.join(table("_keys", "_k"), on=exp.and_(*on), copy=False)
        for key in keys:
            chosen.where(self._there(key), copy=False)
        for i, (measured, stand_in) in enumerate(self.doubles):
            value = self.words.number(name(place(schema, measured), "_t"), schema.type_of(measured))
            if stand_in is not None:
                value = exp.Coalesce(this=value, expressions=[self.words.double(stand_in)])
            chosen.select(_as(value, f"_n{i}"), copy=False)
        return chosen

    def _double(self, part: ColumnPart) -> exp.Column:
        """The column of the rows that holds a part's doubles; parts of one column share it."""
        return name(f"_n{self.doubles.index((part.column, part.missing))}", "_r")

    @staticmethod
    def _there(value: Tree) -> Tree:
        return exp.Not(this=missing(value))

    def _groups(self, keys: list[exp.Column]) -> list[tuple[str, Tree]]:
        if self.public:
            return [(self.group_names[0], name("position", "_k"))]
        if not keys:
            return [(self.group_names[0], self.words.cast(whole(0), "integer"))]
        return list(zip(self.group_names, keys, strict=True))

    # -- stages

    def _cells(self) -> exp.Query:
        keys = [name(column, "_r") for column in self._keys()]
        cells = _select(*keys).from_(self.rows.copy(), copy=False)
        if self.rowwise:
            one: Tree = self.words.cast(whole(1), "integer")
            cells.select(_as(one, ROWS), copy=False)
        else:
            cells.select(_as(exp.Count(this=exp.Star()), ROWS), copy=False)
            cells.group_by(*(key.copy() for key in keys), copy=False)
        for i, part in enumerate(self.flat):
            value = (part.in_row if self.rowwise else part.in_cell)(self.words, self._double(part))
            cells.select(_as(value, f"_s{i}"), copy=False)
        return cells

    def _keys(self) -> list[str]:
        return self.group_names if self.rowwise else [UNIT, *self.group_names]

    def _kinds(self) -> list[str]:
        """The types of the group's parts."""
        if self.public or not self.query.columns:
            return ["integer"]
        return [self.query.table.schema.type_of(column) for column in self.query.columns]

    def _capping(self) -> Capping:
        unit = self.query.table.unit
        assert isinstance(unit, str)
        type_of = self.query.table.schema.type_of
        return Capping(
            words=self.words,
            salt=self.salt,
            caps=self.query.caps,
            unit_kind=type_of(unit),
            groups=tuple(zip(self.group_names, self._kinds(), strict=True)),
            numbers=(ROWS, *(f"_s{i}" for i in range(len(self.flat)))),
        )

    def _totals(self, cells: Tree) -> exp.Query:
        most = most_of(self.query.caps)
        keys = [name(column) for column in self.group_names]
        chosen = _select(*keys).from_(cells.copy()).group_by(*(key.copy() for key in keys))
        places: dict[Part, str] = {part: f"_s{i}" for i, part in enumerate(self.flat)}
        for part in self.query.parts:
            if not isinstance(part, Binned):
                value = part.contribution(self.words, name(places.get(part, ROWS)), name(ROWS), most)
                value = compare(exp.Mul, value, name(SIGN)) if self.signed else value
                chosen.select(self.words.sum(value, SATURATED_TOTAL, part.peak(self.query.caps)), copy=False)
        if self.signed:  # a group of which nothing is kept is not there
            chosen = chosen.having(compare(exp.GT, exp.Sum(this=name(SIGN)), whole(0)))
        return chosen

    def _over(self) -> exp.Query:
        """Queries about the units over a cap, added up over them.

        A unit is over the cap on groups if and only if a cell of it is dropped. It loses the rows above the cap in
        every cell and the others of the dropped cells. Of a kept cell it also loses those that the cap on rows in all
        takes.
        """
        caps = self.query.caps
        most, more = whole(caps.max_rows), compare(exp.GT, name(ROWS), whole(caps.max_rows))
        lost: list[exp.Query] = []
        wide = next((part for part in self.over if isinstance(part, UnitsOver) and part.groups), None)
        if any(part != wide for part in self.over):
            above = compare(exp.Sub, name(ROWS), most)
            lost.append(_lines(whole(0), whole(1), above).from_(table("_cells")).where(more))
        if self.query.can_leave_out[0]:
            kept = case([(more, most.copy())], name(ROWS))
            lost.append(_lines(whole(1), whole(0), kept).from_(table("_dropped")))
        if caps.in_all is not None:
            kept = case([(more, most.copy())], name(ROWS))
            fewer = compare(exp.GT, kept, name(MOST))
            beyond = _lines(whole(0), whole(0), compare(exp.Sub, kept, name(MOST)))
            lost.append(beyond.from_(table("_beyond")).where(fewer))
        lines: exp.Query = functools.reduce(lambda a, b: exp.union(a, b, distinct=False), lost)
        units, total = _select().from_(lines.subquery("_l")).group_by(name(UNIT)), _select()
        for i, part in enumerate(self.over):
            # a sum of rows that there are: no engine's integers are too small for it
            value = (
                self.words.sum(name("_lost"), part.seen_to, 1)
                if isinstance(part, RowsOver)
                else exp.Max(this=name("_wide" if part == wide else "_long"))
            )
            units = units.select(_as(value, f"_o{i}"))
            fine = compare(exp.Mul, name(f"_o{i}"), whole(1 << WEIGHT_BITS))
            total = total.select(self.words.sum(fine, SATURATED_TOTAL, part.peak(caps)))
        return total.from_(units.subquery("_u"))

    def _outside(self, cells: Tree) -> exp.Query:
        """Values beyond the bounds, at the weight that the caps leave their rows; few cells have any."""
        most, caps = most_of(self.query.caps), self.query.caps
        chosen, some = _select().from_(cells.copy()), []
        for part in self.outside:
            packed = name(f"_s{self.flat.index(part)}")
            some.append(compare(exp.GT, packed, whole(0)))
            for value in part.unpacked(self.words, packed):
                weight = part.contribution(self.words, value, name(ROWS), most)
                weight = compare(exp.Mul, weight, name(SIGN)) if self.signed else weight
                chosen = chosen.select(self.words.sum(weight, SATURATED_TOTAL, part.peak(caps)))
        return chosen.where(exp.or_(*some))

    def _by_unit(self) -> exp.Query:
        """The numbers of ``_over``, ``_outside`` and those seen in one reading of the cells: each is a sum over units
        of a number that a unit's cells make, and exact integers can be added in any order.
        """
        units, total = _select().from_(table("_cells")).group_by(name(UNIT)), _select()
        places = itertools.count()
        for part in self.query.removed:
            for value in self._added_by_unit(part):
                place, peak = f"_o{next(places)}", part.peak(self.query.caps)
                units.select(_as(value, place), copy=False)
                total.select(self.words.sum(name(place), SATURATED_TOTAL, peak), copy=False)
        return total.from_(units.subquery("_u"), copy=False)

    def _added_by_unit(self, part: OfTable) -> list[Tree]:
        """Amount that one unit adds to each number of a part."""
        caps, most = self.query.caps, most_of(self.query.caps)
        out = name(OUT) if self.marks else exp.false()
        if isinstance(part, UnitsOver):
            more = compare(exp.GT, name(ROWS), whole(caps.max_rows))
            over = case([(out if part.groups else more, whole(part.peak(caps)))], whole(0))
            return [exp.Max(this=over)]
        if isinstance(part, RowsOver):
            lost = [(out, name(ROWS))] if self.query.can_leave_out[0] else []
            more, above = compare(exp.GT, name(ROWS), most), compare(exp.Sub, name(ROWS), most)
            few = self.words.sum(case([*lost, (more, above)], whole(0)), part.seen_to, 1)
            return [compare(exp.Mul, few, whole(1 << WEIGHT_BITS))]
        if isinstance(part, Outside):
            values = part.unpacked(self.words, name(f"_s{self.flat.index(part)}"))
            kept = [part.contribution(self.words, value, name(ROWS), most) for value in values]
            return [self.words.sum(case([(out, whole(0))], value), SATURATED_TOTAL, part.peak(caps)) for value in kept]
        assert isinstance(part, Seen)
        return [part.of_unit(self.words, out, caps)]

    def _bins(self, part: Binned, cells: Tree) -> exp.Query:
        bin_column = _as(part.bin_of(self.words, self._double(part)), BIN)
        binned = _select(*(name(c, "_r") for c in self._keys()), bin_column)
        rows = binned.from_(self.rows.copy()).subquery("_r")
        keys = [name(column, "_r") for column in self._keys()]
        inside = _select(*keys, name(BIN, "_r")).from_(rows).where(self._there(name(BIN, "_r")))
        groups = [name(column, "_b") for column in self.group_names]
        out: exp.Select
        if self.rowwise:
            out = _select(*groups, name(BIN, "_b")).from_(inside.subquery("_b"))
            return out.select(self.words.sum(whole(1 << WEIGHT_BITS), SATURATED_TOTAL, 1 << WEIGHT_BITS)).group_by(
                *groups, name(BIN, "_b")
            )
        inside = inside.select(_as(exp.Count(this=exp.Star()), "_in"))
        inside = inside.group_by(*(key.copy() for key in keys), name(BIN, "_r"))
        same = [exp.EQ(this=name(c, "_b"), expression=name(c, "_c")) for c in self._keys()]
        caps = self.query.caps
        weight = part.contribution(self.words, name("_in", "_b"), name(ROWS, "_c"), most_of(caps, "_c"))
        kept = exp.alias_(cells.copy(), "_c", table=True)
        out = _select(*groups, name(BIN, "_b")).from_(inside.subquery("_b")).join(kept, on=exp.and_(*same))
        return out.select(self.words.sum(weight, SATURATED_TOTAL, part.peak(caps))).group_by(*groups, name(BIN, "_b"))


def _select(*columns: Tree | str) -> exp.Select:
    """A query that takes what it is given: nothing is copied."""
    return exp.select(*columns, copy=False)


def _as(value: Tree, column: str) -> Tree:
    return exp.alias_(fresh(value), column, quoted=True, copy=False)


def _lines(wide: Tree, long: Tree, lost: Tree) -> exp.Select:
    """Lines of units: whether they say that a unit has too many groups, or too many rows in one, and rows it loses."""
    named = ((wide, "_wide"), (long, "_long"), (lost, "_lost"))
    return _select(name(UNIT), *(_as(value, column) for value, column in named))


def together(steps: Sequence[Step]) -> list[tuple[int, list[Step]]]:
    """Steps in their order, neighbouring derived columns that do not use each other in one list: engines fail on SQL
    that is nested too deeply. With the place of the first one.
    """
    stages: list[tuple[int, list[Step]]] = []
    for i, step in enumerate(steps):
        before = stages[-1][1] if stages else []
        made = {other.name for other in before}
        alone = step.kind != "derive" or not before or before[0].kind != "derive"
        if alone or step.expression is None or made & columns_of(step.expression):
            stages.append((i, [step]))
        else:
            before.append(step)
    return stages


def _joined(table: Table, mark: str = "_join") -> Iterator[tuple[str, Upload]]:
    """The public tables that a table and those it meets are joined with, named as ``_rows_of`` names them."""
    for i, step in enumerate(table.steps):
        if step.public:
            yield f"{mark}{i}", _by_place(step.public)
        elif step.local and step.local.other:
            yield from _joined(step.local.other, f"{mark}{i}_")


def _by_place(public: PublicTable) -> Upload:
    """Return the table with its columns called by their places."""
    return Upload(tuple((f"c{i}", kind) for i, (_, kind) in enumerate(public.columns)), public.rows)
