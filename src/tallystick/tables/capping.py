"""At most K groups per unit, and at most R rows in all, as stages over the cells of (unit, group).

over     the units with more than K groups, each with its own random-looking line a*x + b.
groups   every group, with its random-looking x.
ranked   the cells of those units, with their place (a*x + b) mod p.
cuts     their (K+1)-th smallest place.
kept     cells of the other units, and cells placed below the cut: at most K per unit, ties or not.
beyond   of the kept cells those of units with more than R rows, each with how many of its rows count
limited  all kept cells, each with how many of its rows count: L, or what ``beyond`` says

Only what is read twice is a separate stage: a statement costs a small table more than its rows do. Where a join costs
more than a digest per cell, ``marked`` makes the same choice without one; ``sorted_cells.py`` makes it outside of SQL,
from the lines and points that SQL gives it.

A unit whose kept cells have T > R rows, of each at most L if L < R, keeps R of them, at equal distances in the order
of its places: of the rows after the first s - m and up to the s-th, floor((s R + b) / T) - floor(((s - m) R + b) / T)
count, with b = B mod T from the unit's line. So every row of the kept cells counts as often as any other, and R of them
in all (docs/theory/query-rows-in-all.md).

Which groups a unit keeps is a function of that unit's own rows and of public numbers, and nothing about privacy hangs
on how random it is. That no group is favoured is a matter of fairness: random lines modulo a prime put the points of
a set in near random order, at one digest per unit and one per group instead of one per cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tallystick.tables.dialects import Tree, Words, both, case, compare, either, fresh, name, table, whole
from tallystick.tables.parts import Caps

UNIT, ROWS, SIGN = "_unit", "_rows", "_sign"
"""Columns of the cells: whose they are, how many rows they have, and 1, or -1 where they are subtracted again."""
SLOPE, SHIFT, POINT, PLACE, CUT, OUT = "_a", "_b", "_x", "_place", "_cut", "_out"
MOST = "_most"
"""The number of rows of a cell that count, at most."""
OWN, SO_FAR, TOTAL = "_own", "_so_far", "_total"
"""Rows of a cell up to L, of the unit's cells up to here, and of all of them."""
NAMED, LISTED = "_named", "_listed"
"""A list of units or groups, and the column of their places in it."""

PRIME = (1 << 31) - 1
"""Products of two numbers below it stay below 2^62: plain 64-bit integers do, and all engines agree."""


def most_of(caps: Caps, table: str | None = None) -> Tree:
    """The number of rows of a cell that count, at most: the cap, or a column where the rows of a unit are limited."""
    return whole(caps.max_rows) if caps.in_all is None else name(MOST, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capping:
    """The cap on groups in one dialect. ``groups`` are key columns with their types, ``numbers`` the others."""

    words: Words
    salt: str
    caps: Caps
    unit_kind: str
    groups: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]

    def kept(self) -> exp.Query:
        """Cells of units under the cap, and of the others those below their cut."""
        columns = [UNIT, *self._keys(), *self.numbers]
        over = exp.Subquery(this=exp.select(name(UNIT)).from_(table("_ranked")))
        under = exp.select(*(name(c) for c in columns)).from_(table("_cells"))
        # units are never NULL here, so NOT IN means what it says
        under = under.where(exp.Not(this=exp.In(this=name(UNIT), query=over)))
        below = exp.LT(this=name(PLACE, "_r"), expression=name(CUT, "_x"))
        return exp.union(under, self._over_cells(columns).where(below), distinct=False)

    def less_dropped(self) -> exp.Query:
        """All cells, and once more with a minus sign those that are not kept: cheaper than leaving them out.

        Totals are exact integers, so adding and taking away again is the same as not adding.
        """
        columns = [*self._keys(), *self.numbers]
        whole_table = exp.select(*(name(c) for c in columns), _signed(1)).from_(table("_cells"))
        dropped = exp.select(*(name(c) for c in columns), _signed(-1)).from_(table("_dropped"))
        return exp.union(whole_table, dropped, distinct=False)

    def dropped(self) -> exp.Select:
        """The cells of units over the cap that are not kept: at least one of each."""
        cells = self._over_cells([UNIT, *self._keys(), *self.numbers])
        return cells.where(exp.GTE(this=name(PLACE, "_r"), expression=name(CUT, "_x")))

    def marked(self, cells: exp.Query) -> exp.Query:
        """The cells, and of each whether it is dropped: a cell is at its unit's cut or beyond it if and only if more
        than K cells of the unit have its place or a smaller one. Units under the cap have no places, which are equal.
        So at most K cells of a unit are kept, for all places.
        """
        columns = [UNIT, *self._keys(), *self.numbers]

        def rows(of: exp.Query, alias: str, *more: Tree) -> exp.Select:
            return exp.select(*(name(c) for c in columns), *more).from_(of.subquery(alias, copy=False), copy=False)

        first = self._keys()[0]
        least = _over_unit(exp.Min(this=name(first)))
        counted = rows(cells, "_c", _as(_over_unit(exp.Count(this=exp.Star())), "_wide"), _as(least, "_least"))
        wide = compare(exp.GT, name("_wide"), whole(self.caps.max_groups))
        if self.caps.in_all is not None:
            counted.select(_as(self._added(self._own()), TOTAL), copy=False)
            wide = either(wide, compare(exp.GT, name(TOTAL), whole(self.caps.in_all)))
        once = both(wide, compare(exp.EQ, name(first), name("_least")))  # one digest for all cells of the unit
        of_unit = _as(case([(once, self._of_unit())], exp.Null()), "_md5")
        of_group = _as(case([(wide.copy(), self._of_group())], exp.Null()), "_md5g")
        line = [
            _as(_over_unit(exp.Max(this=of)), to)
            for of, to in zip(self._line(name("_md5")), (SLOPE, SHIFT), strict=True)
        ]
        lined = rows(rows(counted, "_w", of_unit, of_group), "_h", *line, _as(self._point(name("_md5g")), POINT))
        placed = rows(lined, "_o", _as(_place(name(SLOPE), name(POINT), name(SHIFT)), PLACE))
        up_to = exp.Order(expressions=[exp.Ordered(this=name(PLACE), nulls_first=True)])
        so_far = _over_unit(exp.Count(this=exp.Star()), up_to)
        out = _as(compare(exp.GT, so_far, whole(self.caps.max_groups)), OUT)
        if self.caps.in_all is None:
            return rows(placed, "_p", out)
        placed.select(name(SHIFT), copy=False)
        marked = rows(placed, "_p", name(PLACE), name(SHIFT), out)
        own = case([(name(OUT), whole(0))], self._own())
        return self._counting(rows(marked, "_q", name(PLACE), name(SHIFT), name(OUT), _as(own, OWN)), OUT)

    def beyond(self) -> exp.Query:
        """The kept cells of units with more than R rows in them, each with how many of its rows count."""
        assert self.caps.in_all is not None
        more = compare(exp.GT, exp.Sum(this=self._own()), whole(self.caps.in_all))
        units = exp.select(name(UNIT)).from_(table("_kept")).group_by(name(UNIT)).having(more)
        placed = self._placed("_kept", units, _as(self._own("_c"), OWN), _as(name(SHIFT, "_o"), SHIFT))
        return self._counting(placed)

    def limited(self) -> exp.Query:
        """The kept cells, each with how many of its rows count."""
        columns = [UNIT, *self._keys(), *self.numbers]
        over = exp.select(name(UNIT)).from_(table("_beyond"))
        under = exp.select(*(name(c) for c in columns), _as(whole(self.caps.max_rows), MOST)).from_(table("_kept"))
        under = under.where(exp.Not(this=exp.In(this=name(UNIT), query=exp.Subquery(this=over))))
        beyond = exp.select(*(name(c) for c in (*columns, MOST))).from_(table("_beyond"))
        return exp.union(under, beyond, distinct=False)

    def _own(self, of: str | None = None) -> Tree:
        """Rows of a cell, up to L where that is the smaller limit: a share of up to R rows is never more than R."""
        if not self.caps.cuts_first:
            return name(ROWS, of)
        most = whole(self.caps.max_rows)
        return case([(compare(exp.GT, name(ROWS, of), most), most.copy())], name(ROWS, of))

    def _added(self, value: Tree, order: exp.Order | None = None) -> Tree:
        """The sum of a number over all cells of the unit, or over those up to here in an order."""
        rows = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
        added = exp.Window(
            this=exp.Sum(this=value), partition_by=[name(UNIT)], order=order, spec=None if order is None else rows
        )
        return self.words.cast(added, "integer")

    def _counting(self, cells: exp.Query, *more: str) -> exp.Query:
        """The cells, each with how many of its rows count: ``OWN`` rows of it may, where the unit has no more than R.

        They are in one order, ties or not: of tied cells the one with the smaller group stands first, and a sum ends
        with its own cell. So what counts of a unit adds up to R exactly.
        """
        columns = [UNIT, *self._keys(), *self.numbers, *more]
        order = exp.Order(
            expressions=[exp.Ordered(this=name(c), nulls_first=True) for c in (PLACE, *self._keys())],
        )
        total, so_far = _as(self._added(name(OWN)), TOTAL), _as(self._added(name(OWN), order), SO_FAR)
        wanted = (name(c) for c in (*columns, SHIFT, OWN))
        summed = exp.select(*wanted, total, so_far).from_(cells.subquery("_t", copy=False))
        counts = compare(exp.Sub, self._before(name(SO_FAR)), self._before(compare(exp.Sub, name(SO_FAR), name(OWN))))
        limit = compare(exp.GT, name(TOTAL), whole(self.caps.in_all or 0))
        most = _as(case([(limit, counts)], whole(self.caps.max_rows)), MOST)
        return exp.select(*(name(c) for c in columns), most).from_(summed.subquery("_s", copy=False))

    def _before(self, rows: Tree) -> Tree:
        """Number of the unit's first rows that count: floor((rows * R + B mod T) / T), total for every T."""
        total = exp.Anonymous(this="GREATEST", expressions=[name(TOTAL), whole(1)])
        shift = exp.Mod(this=name(SHIFT), expression=total)
        scaled = compare(exp.Add, compare(exp.Mul, rows, whole(self.caps.in_all or 0)), exp.Paren(this=shift))
        return self.words.divide(scaled, total.copy())

    def unmarked(self) -> exp.Query:
        """The marked cells that are kept."""
        columns = [UNIT, *self._keys(), *self.numbers]
        columns += [] if self.caps.in_all is None else [MOST]
        return exp.select(*(name(c) for c in columns)).from_(table("_cells")).where(exp.Not(this=name(OUT)))

    def _keys(self) -> list[str]:
        return [column for column, _ in self.groups]

    def _over(self) -> exp.Query:
        more = compare(exp.GT, exp.Count(this=exp.Star()), whole(self.caps.max_groups))
        return exp.select(name(UNIT)).from_(table("_cells")).group_by(name(UNIT)).having(more)

    def _lined(self, units: exp.Query) -> exp.Query:
        """Units with their lines."""
        hashed = exp.select(name(UNIT), _as(self._of_unit(), "_md5")).from_(units.subquery("_u"))
        slope, shift = self._line(name("_md5"))
        return exp.select(name(UNIT), _as(slope, SLOPE), _as(shift, SHIFT)).from_(hashed.subquery("_h"))

    def _of_unit(self) -> Tree:
        return self.words.digest(f"{self.salt}:unit", [(name(UNIT), self.unit_kind)])

    def _of_group(self) -> Tree:
        return self.words.digest(f"{self.salt}:group", [_canonical(*group) for group in self.groups])

    def _line(self, digest: Tree) -> tuple[Tree, Tree]:
        """The slope and the shift of a unit's line."""
        slope = exp.Mod(this=self.words.digits(digest, 0), expression=whole(PRIME - 1))
        return compare(exp.Add, slope, whole(1)), exp.Mod(this=self.words.digits(digest, 8), expression=whole(PRIME))

    def _point(self, digest: Tree) -> Tree:
        return exp.Mod(this=self.words.digits(digest, 0), expression=whole(PRIME))

    def _groups(self) -> exp.Query:
        keys = [name(column) for column in self._keys()]
        groups = exp.select(*keys).from_(table("_cells")).group_by(*(key.copy() for key in keys))
        query = exp.select(*(key.copy() for key in keys), _as(self._point(self._of_group()), POINT))
        return query.from_(groups.subquery("_g"))

    def lines(self) -> exp.Select:
        """Slope and shift of every unit of a list, each with its place in the list."""
        hashed = exp.select(name(LISTED), _as(self._of_unit(), "_md5")).from_(table(NAMED))
        slope, shift = self._line(name("_md5"))
        return exp.select(name(LISTED), _as(slope, SLOPE), _as(shift, SHIFT)).from_(hashed.subquery("_h"))

    def points(self) -> exp.Select:
        """The x of every group of a list, with its place in the list."""
        return exp.select(name(LISTED), _as(self._point(self._of_group()), POINT)).from_(table(NAMED))

    def digests(self) -> list[Tree]:
        """The numbers that are made of digests: slope and shift of a unit, and the x of a group."""
        return [*self._line(self._of_unit()), self._point(self._of_group())]

    def ranked(self) -> exp.Query:
        """The cells of units over the cap, each with its place."""
        return self._placed("_cells", self._over())

    def _placed(self, stage: str, units: exp.Query, *more: Tree) -> exp.Select:
        """The cells of some units, each with its place."""
        rank = _place(name(SLOPE, "_o"), name(POINT, "_g"), name(SHIFT, "_o"))
        columns = [UNIT, *self._keys(), *self.numbers]
        cells = exp.select(*(_as(name(c, "_c"), c) for c in columns)).from_(table(stage, "_c"))
        same = [exp.EQ(this=name(c, "_c"), expression=name(c, "_g")) for c in self._keys()]
        own = exp.EQ(this=name(UNIT, "_c"), expression=name(UNIT, "_o"))
        return (
            cells.select(_as(rank, PLACE), *more)
            .join(self._lined(units).subquery("_o", copy=False), on=own)
            .join(self._groups().subquery("_g", copy=False), on=exp.and_(*same))
        )

    def _cuts(self) -> exp.Query:
        cut = self.words.kth_smallest(name(PLACE), self.caps.max_groups + 1)
        chosen = exp.select(name(UNIT), _as(cut, CUT))
        return chosen.from_(table("_ranked")).group_by(name(UNIT))

    def _over_cells(self, columns: list[str]) -> exp.Select:
        same = exp.EQ(this=name(UNIT, "_r"), expression=name(UNIT, "_x"))
        cells = exp.select(*(_as(name(c, "_r"), c) for c in columns)).from_(table("_ranked", "_r"))
        return cells.join(self._cuts().subquery("_x", copy=False), on=same)


def _canonical(column: str, kind: str) -> tuple[Tree, str]:
    if kind == "boolean":  # engines write truth differently
        return case([(name(column), exp.Literal.string("1"))], exp.Literal.string("0")), kind
    return name(column), kind


def _signed(sign: int) -> Tree:
    return _as(whole(sign), SIGN)


def _as(value: Tree, column: str) -> Tree:
    return exp.alias_(fresh(value), column, quoted=True, copy=False)


def _place(slope: Tree, point: Tree, shift: Tree) -> Tree:
    line = compare(exp.Add, compare(exp.Mul, slope, point), shift)
    return exp.Mod(this=line, expression=whole(PRIME))


def _over_unit(what: Tree, order: exp.Order | None = None) -> Tree:
    """An aggregate of all cells of the unit, or of those up to here in an order, and with the place of this one."""
    return exp.Window(this=what, partition_by=[name(UNIT)], order=order)
