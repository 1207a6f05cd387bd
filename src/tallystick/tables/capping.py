"""At most K groups per unit, as stages over the cells of (unit, group).

over     the units with more than K groups, each with its own random-looking line a*x + b
groups   every group, with its random-looking x
ranked   the cells of those units, with their place (a*x + b) mod p
cuts     their (K+1)-th smallest place
kept     cells of the other units, and cells placed below the cut: at most K per unit, ties or not

Which groups a unit keeps is a function of that unit's own rows and of public numbers, and nothing about privacy hangs
on how random it is. That no group is favoured is a matter of fairness: random lines modulo a prime put the points of
a set in near random order, at one digest per unit and one per group instead of one per cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tallystick.tables.dialects import Tree, Words, case, compare, name, table, whole

UNIT, SIGN = "_unit", "_sign"
SLOPE, SHIFT, POINT, PLACE, CUT = "_a", "_b", "_x", "_place", "_cut"
PRIME = (1 << 31) - 1
"""Products of two numbers below it stay below 2^62: plain 64-bit integers do, and all engines agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capping:
    """The cap on groups in one dialect. ``groups`` are key columns with their types, ``numbers`` the others."""

    words: Words
    salt: str
    most: int
    unit_kind: str
    groups: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]

    def stages(self) -> list[tuple[str, exp.Query]]:
        """What must be computed, in order, once ``_cells`` is there."""
        return [
            ("_over", self._over()),
            ("_groups", self._groups()),
            ("_ranked", self._ranked()),
            ("_cuts", self._cuts()),
        ]

    def kept(self) -> exp.Query:
        """Cells of units under the cap, and of the others those below their cut."""
        columns = [UNIT, *self._keys(), *self.numbers]
        over = exp.Subquery(this=exp.select(name(UNIT)).from_(table("_over")))
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
        dropped = exp.GTE(this=name(PLACE, "_r"), expression=name(CUT, "_x"))
        return exp.union(whole_table, self._over_cells(columns).select(_signed(-1)).where(dropped), distinct=False)

    def _keys(self) -> list[str]:
        return [column for column, _ in self.groups]

    def _over(self) -> exp.Query:
        more = compare(exp.GT, exp.Count(this=exp.Star()), whole(self.most))
        units = exp.select(name(UNIT)).from_(table("_cells")).group_by(name(UNIT)).having(more)
        digest = self.words.digest(f"{self.salt}:unit", [(name(UNIT), self.unit_kind)])
        hashed = exp.select(name(UNIT), exp.alias_(digest, "_md5", quoted=True)).from_(units.subquery("_u"))
        slope = exp.Mod(this=self.words.digits(name("_md5"), 0), expression=whole(PRIME - 1))
        shift = exp.Mod(this=self.words.digits(name("_md5"), 8), expression=whole(PRIME))
        line = (
            exp.alias_(compare(exp.Add, slope, whole(1)), SLOPE, quoted=True),
            exp.alias_(shift, SHIFT, quoted=True),
        )
        return exp.select(name(UNIT), *line).from_(hashed.subquery("_h"))

    def _groups(self) -> exp.Query:
        keys = [name(column) for column in self._keys()]
        groups = exp.select(*keys).from_(table("_cells")).group_by(*(key.copy() for key in keys))
        digest = self.words.digest(f"{self.salt}:group", [_canonical(*group) for group in self.groups])
        point = exp.Mod(this=self.words.digits(digest, 0), expression=whole(PRIME))
        told = exp.select(*(key.copy() for key in keys), exp.alias_(point, POINT, quoted=True))
        return told.from_(groups.subquery("_g"))

    def _ranked(self) -> exp.Query:
        line = compare(exp.Add, compare(exp.Mul, name(SLOPE, "_o"), name(POINT, "_g")), name(SHIFT, "_o"))
        place = exp.Mod(this=line, expression=whole(PRIME))
        columns = [UNIT, *self._keys(), *self.numbers]
        cells = exp.select(*(exp.alias_(name(c, "_c"), c, quoted=True) for c in columns)).from_(table("_cells", "_c"))
        same = [exp.EQ(this=name(c, "_c"), expression=name(c, "_g")) for c in self._keys()]
        return (
            cells.select(exp.alias_(place, PLACE, quoted=True))
            .join(table("_over", "_o"), on=exp.EQ(this=name(UNIT, "_c"), expression=name(UNIT, "_o")))
            .join(table("_groups", "_g"), on=exp.and_(*same))
        )

    def _cuts(self) -> exp.Query:
        cut = self.words.kth_smallest(name(PLACE), self.most + 1)
        chosen = exp.select(name(UNIT), exp.alias_(cut, CUT, quoted=True))
        return chosen.from_(table("_ranked")).group_by(name(UNIT))

    def _over_cells(self, columns: list[str]) -> exp.Select:
        same = exp.EQ(this=name(UNIT, "_r"), expression=name(UNIT, "_x"))
        cells = exp.select(*(exp.alias_(name(c, "_r"), c, quoted=True) for c in columns)).from_(table("_ranked", "_r"))
        return cells.join(table("_cuts", "_x"), on=same)


def _canonical(column: str, kind: str) -> tuple[Tree, str]:
    if kind == "boolean":  # engines write truth differently
        return case([(name(column), exp.Literal.string("1"))], exp.Literal.string("0")), kind
    return name(column), kind


def _signed(sign: int) -> Tree:
    return exp.alias_(whole(sign), SIGN, quoted=True)
