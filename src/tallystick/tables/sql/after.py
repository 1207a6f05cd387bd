"""What a statement does with the released table: HAVING, ORDER BY, LIMIT, arithmetic, windows, a SELECT around it.

All of it is post-processing, so it is free; it runs in an engine that sees the released table alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from tallystick.tables.sql.catalogue import Known
from tallystick.tables.sql.outside import Outside
from tallystick.tables.sql.relations import free_name
from tallystick.tables.sql.tree import Text, children
from tallystick.tables.table import Query

if TYPE_CHECKING:
    from tallystick.tables.release import Release

RELEASED: Final = "released"

_FORBIDDEN: Final = (exp.Join, exp.Values, exp.Exists, exp.Union, exp.Except, exp.Intersect)
"""Nodes of the closed list that make no sense after the noise."""


@dataclass(frozen=True, slots=True)
class Released:
    """A question whose answer is a table, and what is made of that table afterwards.

    ``plain`` are the output columns that are a column of the release as it is (they keep their intervals), ``noisy``
    those with noise in them.
    """

    text: Text
    query: Query
    known: Known
    uses: tuple[Known, ...]
    after: exp.Select
    names: tuple[str, ...]
    noisy: frozenset[str]
    plain: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    alias: str = ""

    def called(self, alias: str, columns: list[str]) -> Released:
        """The same under an alias, with new names for the first columns where given."""
        if not columns:
            return replace(self, alias=alias)
        names = (*columns, *self.names[len(columns) :])
        inner = exp.alias_(exp.Subquery(this=self.after.copy()), "_r", table=["_r", *names])
        renamed = dict(zip(self.names, names, strict=True))
        return replace(
            self,
            alias=alias,
            names=names,
            after=exp.select("*").from_(inner),
            noisy=frozenset(renamed[name] for name in self.noisy),
            plain={},
        )

    def around(self, select: exp.Select) -> Released:
        """A SELECT whose FROM is this answer."""
        tree = copied(select, ("with_", "from_"))
        finished(self.text, tree)
        known = {name.casefold(): name for name in self.names}
        outputs = {each.alias.casefold() for each in tree.expressions if each.alias}
        for column in tree.find_all(exp.Column):
            name, owner = column.name.casefold(), column.table.casefold()
            if isinstance(column.this, exp.Star):
                continue
            if owner not in ("", self.alias.casefold()) or name not in known | dict.fromkeys(outputs):
                raise self.text.wrong(f"column {column.name}", column, f"one of: {', '.join(self.names)}")
            column.set("table", None)
            column.set("db", None)
        self._check_groups(tree)
        tree.set("from_", exp.From(this=exp.alias_(exp.Subquery(this=self.after.copy()), RELEASED, table=True)))
        names = named_outputs(tree, self.names)
        noisy = frozenset(names) if self.noisy else frozenset[str]()
        return replace(self, after=tree, names=names, noisy=noisy, plain={})

    def _check_groups(self, tree: exp.Select) -> None:
        group = tree.args.get("group")
        for key in children(group, "expressions") if group is not None else ():
            for column in key.find_all(exp.Column):
                if column.name.casefold() in {name.casefold() for name in self.noisy}:
                    raise self.text.refused(
                        f"GROUP BY {column.name}", column,
                        f"{self.query.table.unit} in the inner GROUP BY, so that one unit's rows are added up",
                        why="it is a noisy number, and nearly every row would be a group of its own",
                    )  # fmt: skip

    @property
    def unchanged(self) -> bool:
        """Whether it only picks columns of the release."""
        return len(self.plain) == len(self.names) and set(self.after.args) >= {"from_"} and not any(
            self.after.args.get(key) for key in ("where", "order", "limit", "offset", "distinct", "group")
        )  # fmt: skip

    def rows(self, release: Release) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The answer; columns of the release that are left as they are have their intervals beside them."""
        data = release.data
        shown = self._with_intervals()
        if self.unchanged:
            columns = [data[column] for _, column in shown]
            return [name for name, _ in shown], list(zip(*columns, strict=True))
        kinds = dict(self.query.table.schema.columns)
        keys = self.query.columns
        stored = [(name, kinds[name] if name in keys else "number") for name in data]
        tree = self.after
        if shown and not self.after.args.get("distinct") and self.plain:
            tree = self.after.copy()
            order = dict(shown)
            have = set(self.names)
            for name, column in order.items():
                if name not in have:
                    tree = tree.select(exp.alias_(exp.column(column, quoted=True), name, quoted=True), copy=False)
        with Outside({RELEASED: (stored, zip(*data.values(), strict=True))}) as outside:
            names, rows = outside.rows(tree)
        wanted = _interleaved(self.names, names)
        places = [names.index(name) for name in wanted]
        return wanted, [tuple(_whole(row[i]) for i in places) for row in rows]

    def rehearse(self) -> None:
        """Before anything is charged: what is done afterwards fits a released table, here one without rows."""
        if self.unchanged:
            return
        kinds = dict(self.query.table.schema.columns)
        fields = [field for name, measure in self.query.measures for field in measure.fields(name)]
        stored = [(name, kinds[name]) for name in self.query.columns]
        stored += [(f"{name}{end}", "number") for name in fields for end in ("", "_lower", "_upper")]
        with Outside({RELEASED: (stored, ())}) as outside:
            outside.rows(self.after)

    def _with_intervals(self) -> list[tuple[str, str]]:
        """Output columns with the columns of the release they are, intervals behind their values."""
        fields = {field for name, measure in self.query.measures for field in measure.fields(name)}
        shown = []
        for name in self.names:
            if name in self.plain:
                column = self.plain[name]
                ends = ("", "_lower", "_upper") if column in fields else ("",)
                shown += [(f"{name}{end}", f"{column}{end}") for end in ends]
        taken = [name for name, _ in shown]
        return (
            shown
            if len({name.casefold() for name in taken}) == len(taken)
            else [(n, self.plain[n]) for n in self.plain]
        )


def _interleaved(names: tuple[str, ...], there: list[str]) -> list[str]:
    extra = [name for name in there if name not in names]
    shown: list[str] = []
    for name in names:
        shown += [name, *(each for each in extra if each in (f"{name}_lower", f"{name}_upper"))]
    return shown


def _whole(value: Any) -> Any:
    """Whole numbers as int, as a release shows them."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return None
        return int(value) if value == int(value) and abs(value) < 2**53 else value
    return value.date() if hasattr(value, "hour") and hasattr(value, "date") else value


def copied(node: exp.Select, read: tuple[str, ...]) -> exp.Select:
    """A copy of a SELECT to be run after the noise, without what was ``read`` already."""
    tree = node.copy()
    for name in read:
        tree.set(name, None)
    for division in tree.find_all(exp.Div):  # that of real numbers, and nothing where the divisor is zero
        division.set("typed", False)
        division.set("safe", True)
    return tree


def finished(text: Text, tree: exp.Select) -> None:
    """Refuse what would need another table than the released one; what cannot be cast will be missing."""
    for cast in list(tree.find_all(exp.Cast)):
        if type(cast) is exp.Cast:
            cast.replace(exp.TryCast(this=cast.this, to=cast.args["to"]))
    for each in tree.find_all(*_FORBIDDEN, exp.Subquery, exp.In):
        if not isinstance(each, exp.In) or each.args.get("query") is not None:
            raise text.refused(
                "a subquery or join after the noise", each, "the aggregates, and the rest in your own program"
            )


def named_outputs(tree: exp.Select, inner: tuple[str, ...]) -> tuple[str, ...]:
    """Give every output column a name of its own; * stands for all columns inside."""
    made: list[exp.Expr] = []
    names: list[str] = []
    for each in tree.expressions:
        if isinstance(each, exp.Star) or (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
            listed: list[tuple[exp.Expr, str]] = [(exp.column(name, quoted=True), name) for name in inner]
        else:
            listed = [(each.unalias(), each.alias_or_name or "")]
        for value, wish in listed:
            name = free_name(wish or f"column_{len(names) + 1}", names)
            names.append(name)
            made.append(exp.alias_(value, name, quoted=True))
    tree.set("expressions", made)
    return tuple(names)
