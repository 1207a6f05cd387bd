"""FROM and WHERE: which rows a statement is about, and what may be joined to what.

Conditions of inner joins and of WHERE go into one pool, because SQL does not tell them apart. Every join of people's
rows must have "unit = unit" among its conditions; public rows may be joined on anything.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tallystick.errors import Refused
from tallystick.tables.expressions import Column, Expression, Literal, col, when
from tallystick.tables.keyset import PublicTable
from tallystick.tables.schema import Schema, type_of_constant
from tallystick.tables.sql import units
from tallystick.tables.sql.after import Released
from tallystick.tables.sql.catalogue import Catalogue
from tallystick.tables.sql.expressions import RowReader, conjuncts
from tallystick.tables.sql.relations import Public, Relation, Seen, of_public, of_table
from tallystick.tables.sql.tree import Text, children

Source = Relation | Public | Released
Sides = tuple[Expression, Expression]
MOST_VALUES = 10_000


@dataclass(frozen=True, slots=True)
class Joined:
    """One source in FROM, how it is joined and on what."""

    source: Source
    side: str
    conditions: tuple[exp.Expr, ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads FROM. ``inner`` reads a subquery; ``named`` are the WITH queries seen so far."""

    text: Text
    catalogue: Catalogue
    named: dict[str, Source]
    inner: Callable[[exp.Expr], Source]

    def read(self, select: exp.Select) -> Source:
        """The rows of a SELECT after its joins and its WHERE."""
        start = select.args.get("from_")
        where = select.args.get("where")
        if start is None:
            raise self.text.refused("a SELECT without FROM", 0, "SELECT ... FROM a registered table")
        first, rest = self.source(start.this), list[Joined]()
        for join in children(select, "joins"):
            rest.append(self._joined(join, [first, *rest]))
        pool = list(conjuncts(where.this if where is not None else None))
        if isinstance(first, Released) or any(isinstance(each.source, Released) for each in rest):
            if rest:
                raise self.text.refused(
                    "a join with an aggregated table", rest[0].node, "one statement for each of them",
                    why="it would be several releases",
                )  # fmt: skip
            return first
        if any(each.side == "FULL" for each in rest):
            return self._where(self._in_order(first, rest), pool)
        pool += [each for join in rest if join.side == "" for each in join.conditions]
        relation = self._together(first, rest, pool)
        return self._where(relation, pool)

    def _in_order(self, rows: Relation | Public, rest: list[Joined]) -> Relation | Public:
        """Join with a FULL JOIN among the joins: an earlier ON is not a condition on the rows that it adds."""
        for join in rest:
            own = list(join.conditions) if join.side == "" else []
            rows = self._where(self._join(rows, join, own), own)
        return rows

    # ---- one source

    def source(self, node: exp.Expr) -> Source:
        """A table, a subquery or a list of values."""
        alias = node.args.get("alias")
        columns = [] if alias is None else [each.name for each in children(alias, "columns")]
        name = node.alias_or_name
        if isinstance(node, exp.Values):
            return replace_names(of_public(self.text, self._listed(node), name), name, columns)
        if isinstance(node, exp.Subquery):
            found = self.inner(node.this)
        elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Func):
            found = self._table(node)
        else:
            raise self.text.refused(node.key.upper(), node, "a table or a subquery in FROM")
        return replace_names(found, name, columns)

    def _table(self, node: exp.Table) -> Source:
        if node.args.get("db") is None and node.name.casefold() in self.named:
            return self.named[node.name.casefold()]
        found = self.catalogue.find(self.text, node)
        if isinstance(found, PublicTable):
            return of_public(self.text, found, node.alias_or_name)
        return of_table(self.text, found, node.alias_or_name)

    def _listed(self, node: exp.Values) -> PublicTable:
        rows: list[tuple[Any, ...]] = []
        for line in children(node, "expressions"):
            values = [_value(self.text, each) for each in children(line, "expressions")]
            rows.append(tuple(values))
        kinds = [type_of_constant(value) for value in rows[0]]
        return PublicTable(tuple((f"column{i + 1}", kind) for i, kind in enumerate(kinds)), tuple(dict.fromkeys(rows)))

    def _joined(self, join: exp.Join, before: list[Joined | Source]) -> Joined:
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        if kind not in ("", "INNER", "CROSS", "OUTER") or side not in ("", "LEFT", "FULL"):
            fix = (
                "the tables the other way round, with LEFT JOIN" if side == "RIGHT" else "JOIN, LEFT JOIN or FULL JOIN"
            )
            raise self.text.refused(" ".join(filter(None, (side, kind, "JOIN"))), join, fix)
        found = self.source(join.this)
        on = tuple(conjuncts(join.args.get("on")))
        using = [self._same(name, join, before) for name in children(join, "using")]
        return Joined(found, side, (*on, *using), join)

    def _same(self, name: exp.Identifier, join: exp.Join, before: list[Joined | Source]) -> exp.Expr:
        """A column in USING as an equality: the table before that has it, or those that share it by USING already."""
        bare, called = exp.column(name.copy()), name.name.casefold()
        sources = [each.source if isinstance(each, Joined) else each for each in before]
        owners = [one.owner for each in sources if isinstance(each, Relation | Public) for one in each.matches(bare)]
        shared = [
            each.side for each in before if isinstance(each, Joined)
            and called in [one.name.casefold() for one in children(each.node, "using")]
        ]  # fmt: skip
        if len(owners) != 1 + len(shared):
            said = f"column {name.name}, of {'several tables' if owners else 'no table before it'},"
            raise self.text.wrong(said, name, "a column of one table on each side, or ON with the tables' names")
        if not join.this.alias_or_name or not owners[0]:
            raise self.text.refused("USING with a subquery without a name", join, "(SELECT ...) AS a name")
        mine = bare if "FULL" in shared else exp.column(name.copy(), table=owners[0])
        made = exp.EQ(this=mine, expression=exp.column(name.copy(), table=join.this.alias_or_name))
        made.meta["using"] = True  # a bare name here is the left side's
        return made

    # ---- all sources

    def _together(self, first: Source, rest: list[Joined], pool: list[exp.Expr]) -> Relation | Public:
        if isinstance(first, Public) and any(isinstance(each.source, Relation) for each in rest):
            first, rest = self._private_first(first, rest, pool)
        assert isinstance(first, Relation | Public)
        waiting = list(rest)
        while waiting:  # a table may be named before the one that connects it
            ready = next((each for each in waiting if self._connects(first, each, pool)), waiting[0])
            waiting.remove(ready)
            first = self._join(first, ready, pool)
        return first

    def _private_first(self, first: Public, rest: list[Joined], pool: list[exp.Expr]) -> tuple[Source, list[Joined]]:
        """Public rows named first: joined to the private ones, or with LEFT JOIN the groups that shall appear."""
        at = next(i for i, each in enumerate(rest) if isinstance(each.source, Relation))
        private = rest[at]
        assert isinstance(private.source, Relation)
        if private.side == "":
            return private.source, [Joined(first, "", (), private.node), *rest[:at], *rest[at + 1 :]]
        if private.side != "LEFT" or len(rest) > 1:
            raise self.text.refused(
                "this outer join of a public table", private.node, "the public table LEFT JOIN one private table"
            )
        using = {name.name.casefold() for name in children(private.node, "using")}
        for each in [each for each in pool if first.knows(each)]:
            self._one_meaning(first, private.source, each, using)
            pool.remove(each)
            first = first.where([each])
        if pool:
            raise self.text.refused(
                "a condition in WHERE on the private side of a LEFT JOIN", pool[0], "the same condition in ON"
            )
        return replace(private.source, spine=first), [Joined(first, "", private.conditions, private.node)]

    def _connects(self, left: Relation | Public, right: Joined, pool: list[exp.Expr]) -> bool:
        return any(self._sides(left, right.source, each) is not None for each in (*right.conditions, *pool))

    def _join(self, left: Relation | Public, right: Joined, pool: list[exp.Expr]) -> Relation | Public:
        if isinstance(left, Public):
            raise self.text.refused("a join of public tables alone", right.node, "a join with a private table")
        if isinstance(right.source, Relation):
            return self._join_private(left, right, pool)
        assert isinstance(right.source, Public)
        if right.side == "FULL":
            raise self.text.refused(
                "FULL JOIN with a public table", right.node, "the public table LEFT JOIN the private one",
                why="a row without a person appears or vanishes with one person",
            )  # fmt: skip
        public, others = right.source, list(right.conditions)
        if right.side == "LEFT" or left.spine is not None:
            for each in others:
                self._one_meaning(left, public, each)
        if right.side == "LEFT":
            for each in [each for each in others if public.knows(each)]:
                others.remove(each)
                public = public.where([each])
        own = others if right.side == "LEFT" or left.spine is not None else pool
        for each in own:
            sides = self._sides(left, public, each)
            if sides is not None and isinstance(sides[1], Column):
                own.remove(each)
                joined = left.with_public(public, sides[0], sides[1].name, "left" if right.side == "LEFT" else "inner")
                break
        else:
            raise self.text.refused("a join without a condition", right.node, "ON private column = public column")
        if right.side == "LEFT" and others:
            raise self.text.refused(
                "a second condition in ON of a LEFT JOIN", others[0], "one equality, and conditions of the public table"
            )
        joined = _merged(joined, right, len(left.seen), keep_right=left.spine is not None)
        if left.spine is not None:
            for each in others:
                joined = joined.filter(each)
        return joined

    def _one_meaning(self, left: Any, right: Any, node: exp.Expr, using: Collection[str] = ()) -> None:
        """Refuse a bare name that both sides have, unless USING makes one column of them."""
        for column in () if node.meta.get("using") else node.find_all(exp.Column):
            both = not column.table and left.matches(column) and right.matches(column)
            if both and column.name.casefold() not in using:
                raise self.text.wrong(f"column {column.name}, of several tables,", column, "the table's name before it")

    def _join_private(self, left: Relation, right: Joined, pool: list[exp.Expr]) -> Relation:
        """Two tables of people: the unit must equal the unit; other conditions come after, or with LEFT JOIN before."""
        other = right.source
        assert isinstance(other, Relation)
        units.check_population(left, other, right.node)
        conditions = list(right.conditions) if right.side else pool
        for each in right.conditions if right.side else ():
            self._one_meaning(left, other, each)
        sides = [(each, self._sides(left, other, each)) for each in conditions]
        same = [
            (each, found) for each, found in sides
            if found is not None and left.is_unit(found[0]) and other.is_unit(found[1])
        ]  # fmt: skip
        if not same:
            unit = left.table.unit if isinstance(left.table.unit, str) else "unit"
            raise self.text.refused(
                f"a {right.side} JOIN of people's rows".replace("a  ", "a "), right.node,
                f"JOIN, LEFT JOIN or FULL JOIN ... ON a.{unit} = b.{unit} as a separate condition",
                why="joined on anything else, one person's rows meet another's",
            )  # fmt: skip
        for each, _ in same:
            conditions.remove(each)
        alias = _alias(other)
        if not right.side:
            return _merged(units.joined(left, other, "inner", [], alias)[0], right, len(left.seen))
        if right.side == "FULL":
            return self._full(left, other, right, [found for _, found in sides])
        for each in [each for each in conditions if other.knows(each) and not left.knows(each)]:
            conditions.remove(each)
            other = other.filter(each)
        pairs = [found for each, found in sides if each in conditions and found is not None]
        others = [each for each, found in sides if each in conditions and found is None]
        if others and not units.one_row_each(other):
            raise self.text.refused(
                "this condition in ON of a LEFT JOIN", others[0], "equalities, and conditions of the second table alone"
            )
        relation = units.joined(left, other, "left", pairs, alias)[0]
        for each in others:  # a unit has one row there: where the condition fails its columns are missing
            holds, mine = relation.reader.condition(each), len(left.seen)
            seen = [replace(one, value=when(holds, one.value)) for one in relation.seen[mine:]]
            relation = replace(relation, seen=(*relation.seen[:mine], *seen))
        return _merged(relation, right, len(left.seen))

    def _full(self, left: Relation, other: Relation, right: Joined, pairs: list[Sides | None]) -> Relation:
        """FULL JOIN: the unit, and what is alike, are those of the side that has a row."""
        alike: dict[int, Sides] = {}
        for i, pair in enumerate(pairs):
            if pair is None:
                raise self.text.refused("this condition in ON of a FULL JOIN", right.node, "equalities of two columns")
            if not (left.is_unit(pair[0]) and other.is_unit(pair[1])):
                alike[i] = pair
        relation, _, linked = units.joined(left, other, "full", list(alike.values()), _alias(other))
        names = dict(zip(alike, linked, strict=True))
        shared = [col(names.get(i, units.unit_of(left))) for i in range(len(pairs))]
        return _merged(relation, right, len(left.seen), shared)

    def _sides(self, left: Any, right: Any, node: exp.Expr) -> Sides | None:
        """Two sides of an equality between two sources, the left one's first; None for a name that both have."""
        if not isinstance(node, exp.EQ) or isinstance(right, Released):
            return None
        using = node.meta.get("using")
        for one, two in ((node.this, node.expression), (node.expression, node.this)):
            if not (one.find(exp.Column) and two.find(exp.Column) and left.knows(one) and right.knows(two)):
                continue
            if using or not (_any_known(right, one) or _any_known(left, two)):
                return left.reader.read(one), right.reader.read(two)
        return None

    # ---- WHERE

    def _where(self, rows: Relation | Public, pool: list[exp.Expr]) -> Relation | Public:
        if isinstance(rows, Public):
            return rows.where(pool)
        for each in pool:
            negated = isinstance(each, exp.Not)
            inner = each.this.unnest() if negated else each
            query = (
                inner.args.get("query")
                if isinstance(inner, exp.In)
                else inner.this
                if isinstance(inner, exp.Exists)
                else None
            )
            rows = rows.filter(each) if query is None else self._semi_join(rows, inner, query, negated)
        return rows

    def _semi_join(self, rows: Relation, node: exp.Expr, query: exp.Expr, negated: bool) -> Relation:
        """IN (SELECT ...) or EXISTS (SELECT ...) as a separate condition."""
        select = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(node, exp.Exists):
            return self._exists(rows, node, select, negated)
        if not rows.is_unit(rows.reader.read(node.this)):
            raise self._refuse_in(node)
        found = self.inner(select)
        if not isinstance(found, Relation):
            raise self._refuse_in(node)
        return self._semi_join_private(rows, node, found, negated)

    def _refuse_in(self, node: exp.Expr) -> Refused:
        return self.text.refused(
            f"IN (SELECT ...) on {node.this.sql()}", node, "IN (SELECT unit FROM ...), or constants",
            why="the subquery looks at other people's rows",
        )  # fmt: skip

    def list_public(self, select: exp.Select) -> None:
        """Write the values of public subqueries into IN (SELECT ...), wherever it stands in this SELECT."""
        for node in list(select.find_all(exp.In)):
            query = node.args.get("query")
            if query is None or node.find_ancestor(exp.Select) is not select or self._about_people(query):
                continue
            found = self.inner(query.unnest())
            if not isinstance(found, Public) or len(found.seen) != 1:
                raise self.text.refused("IN (SELECT ...) with several columns", node, "one column")
            values = found.values(found.seen[0].value)
            if not 0 < len(values) <= MOST_VALUES:
                raise self.text.refused(f"a list of {len(values)} public values", node, f"1 to {MOST_VALUES} values")
            node.set("query", None)
            node.set("expressions", [written(value) for value in values])

    def _about_people(self, query: exp.Expr) -> bool:
        """True if a subquery names a table that is not public."""
        for node in query.find_all(exp.Table):
            named = self.named.get(node.name.casefold()) if node.args.get("db") is None else None
            if not isinstance(named or self.catalogue.find(self.text, node), Public | PublicTable):
                return True
        return False

    def _exists(self, rows: Relation, node: exp.Expr, select: exp.Expr, negated: bool) -> Relation:
        start = select.args.get("from_") if isinstance(select, exp.Select) else None
        plain = start is not None and not any(
            select.args.get(key) for key in ("joins", "group", "having", "limit", "offset", "with_", "distinct")
        )
        plain = plain and not any(select.find_all(exp.AggFunc))  # an aggregate has a row, whether there are any or not
        found = self.source(start.this) if start is not None and plain else None
        if not isinstance(found, Public | Relation):
            raise self.text.refused("EXISTS", node, "EXISTS (SELECT 1 FROM a table WHERE its unit = the unit)")
        where = select.args.get("where")
        pool = list(conjuncts(where.this if where is not None else None))
        if isinstance(found, Relation):
            return self._exists_private(rows, node, found, pool, negated)
        own = [each for each in pool if found.knows(each)]
        across = [each for each in pool if each not in own]
        sides = self._correlated(rows, found, across[0]) if len(across) == 1 else None
        if sides is None:
            raise self.text.refused(
                "EXISTS", node, "EXISTS (SELECT 1 FROM a public table WHERE its column = a column of the row)"
            )
        chosen = found.where(own)
        return self._among(rows, sides[0], replace(chosen, seen=(Seen("", "it", sides[1]),)), negated)

    def _among(self, rows: Relation, made: Expression, public: Public, negated: bool) -> Relation:
        """Rows whose value is among public ones, or is not."""
        values = public.values(public.seen[0].value)
        if not 0 < len(values) <= MOST_VALUES:
            raise self.text.refused(f"a list of {len(values)} public values", 0, f"1 to {MOST_VALUES} values")
        condition = made.isin(values)
        if negated:  # where the value is missing no public row is like it
            condition = ~condition | made.is_missing()
        return replace(rows, table=rows.table.filter(condition))

    def _correlated(self, rows: Relation, found: Relation | Public, node: exp.Expr) -> Sides | None:
        """The two sides of an equality inside a subquery: a name that the inner rows have is theirs."""
        if not isinstance(node, exp.EQ):
            return None
        for outer, inner in ((node.this, node.expression), (node.expression, node.this)):
            both = outer.find(exp.Column) and inner.find(exp.Column)
            if both and found.knows(inner) and rows.knows(outer) and not _any_known(found, outer):
                return rows.reader.read(outer), found.reader.read(inner)
        return None

    def _semi_join_private(self, rows: Relation, node: exp.Expr, found: Relation, negated: bool) -> Relation:
        units.check_population(rows, found, node)
        if len(found.seen) != 1 or not found.is_unit(found.seen[0].value):
            raise self._refuse_in(node)
        return units.only_units(rows, found, negated=negated)

    def _exists_private(
        self, rows: Relation, node: exp.Expr, found: Relation, pool: list[exp.Expr], negated: bool
    ) -> Relation:
        """EXISTS with the unit: conditions inside are of the inner rows alone, or equalities with the outer row."""
        units.check_population(rows, found, node)
        pairs, linked = [], False
        for each in pool:
            sides = self._correlated(rows, found, each)
            if sides is not None and rows.is_unit(sides[0]) and found.is_unit(sides[1]):
                linked = True
            elif sides is not None:
                pairs.append(sides)
            elif found.knows(each):
                found = found.filter(each)
            else:
                raise self.text.refused(
                    "this condition in EXISTS", each, "conditions on the rows of the subquery, or equalities"
                )
        if not linked:
            raise self.text.refused(
                "EXISTS over people", node, "EXISTS (SELECT 1 FROM a table WHERE its unit = the unit)",
                why="it looks at other people's rows",
            )  # fmt: skip
        if pairs:
            return units.only_alike(rows, found, pairs, negated=negated)
        return units.only_units(rows, found, negated=negated)


def _alias(source: Relation) -> str:
    return source.seen[0].owner if source.seen and source.seen[0].owner else "other"


def _merged(
    relation: Relation, right: Joined, mine: int, full: Sequence[Expression] | None = None, *, keep_right: bool = False
) -> Relation:
    """A column in USING stands for both sides: for the kept one, in a FULL JOIN for the side that has a row."""
    using = [name.name.casefold() for name in children(right.node, "using")]
    seen = list[Seen]()
    for i, each in enumerate(relation.seen):
        shared = each.name.casefold() in using
        if shared and full is not None and i < mine and not each.named_fully:
            seen.append(Seen("", each.name, full[using.index(each.name.casefold())]))
        hidden = shared and (full is not None or (i < mine) == keep_right)
        seen.append(replace(each, named_fully=each.named_fully or hidden))
    return replace(relation, seen=tuple(seen))


def _any_known(source: Relation | Public, node: exp.Expr) -> bool:
    return any(source.matches(each) for each in node.find_all(exp.Column))


def replace_names(found: Source, name: str, columns: list[str]) -> Source:
    """Return the rows under an alias."""
    if isinstance(found, Released):
        return found.called(name, columns)
    return replace(found, seen=found.called(name, columns))


def _value(text: Text, node: exp.Expr) -> Any:
    def nothing(column: exp.Column) -> Expression:
        raise text.refused("a column in VALUES", column, "constants")

    made = RowReader(text, Schema(()), nothing).read(node)
    if not isinstance(made, Literal):
        raise text.refused("VALUES with what is not a constant", node, "constants")
    return made.value


def written(value: Any) -> exp.Expr:
    """A public constant as a node."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, datetime.date):
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build("DATE"))
    if isinstance(value, str):
        return exp.Literal.string(value)
    number = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=number) if value < 0 else number
