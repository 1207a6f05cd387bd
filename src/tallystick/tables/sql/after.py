"""Steps of a statement on the released table: HAVING, ORDER BY, LIMIT, arithmetic, windows, a SELECT around it.

All of it is post-processing, so it is free; it runs in an engine that sees the released table alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlglot import exp

from tallystick.tables.keyset import PublicTable
from tallystick.tables.sql.catalogue import Known
from tallystick.tables.sql.intervals import LATER, TOTAL, Ends, columns_of, ends_of
from tallystick.tables.sql.outside import Outside
from tallystick.tables.sql.relations import free_name
from tallystick.tables.sql.tree import Text, children
from tallystick.tables.table import Query

if TYPE_CHECKING:
    from tallystick.tables.release import Release
    from tallystick.tables.sql.one_form import Shown

RELEASED: Final = "released"
CONFIDENCE: Final = 0.95

_FORBIDDEN: Final = (exp.Join, exp.Values, exp.Exists, exp.Union, exp.Except, exp.Intersect)
"""Nodes of the closed list that make no sense after the noise."""


@dataclass(frozen=True, slots=True)
class Released:
    """A question whose answer is a table, and what is made of that table afterwards.

    ``limited`` are the outputs that limits per person touch, ``noisy`` those with noise in them. ``plain`` are those
    that are a column of the release as it is (they keep their intervals). Where a SELECT stands around another,
    ``ends`` says what the inner one calls the ends of their intervals.
    """

    text: Text
    query: Query
    known: Known
    uses: tuple[Known, ...]
    after: exp.Select
    names: tuple[str, ...]
    noisy: frozenset[str]
    limited: frozenset[str] = frozenset()
    plain: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    alias: str = ""
    ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    """Outputs that are texts, truth values or places in an order, such as RANK() OVER (...): not amounts."""
    inside: Mapping[tuple[str, str], exp.Expr] = field(default_factory=dict)
    """Ends of intervals that SELECTs inside this one use: columns of the released table, and what they are ends of."""
    made_of: Mapping[str, exp.Expr] | None = None
    """Outputs as expressions of the released columns; None where the SELECT reads the released table itself."""
    has_computed: bool = True
    """False if what is computed from released numbers has no interval, as in answers of earlier versions."""
    hides_computed: bool = True
    """True if what is computed without an interval has no value; earlier versions showed it."""

    def called(self, alias: str, columns: list[str]) -> Released:
        """Return the released table under an alias, with new names for the first columns where given."""
        if not columns:
            return replace(self, alias=alias)
        if len(columns) > len(self.names):
            raise self.text.wrong(f"{alias} with {len(columns)} names", 0, f"at most {len(self.names)}, one a column")
        names = (*columns, *self.names[len(columns) :])
        tree, ends = self._inner()
        quoted = [exp.to_identifier(name, quoted=True) for name in names]
        inner = exp.alias_(exp.Subquery(this=tree), "_r", table=quoted)
        renamed = dict(zip(self.names, names, strict=True))
        return replace(
            self,
            alias=alias,
            names=names,
            after=exp.select(*(exp.column(name, quoted=True) for name in names)).from_(inner),
            noisy=frozenset(renamed[name] for name in self.noisy),
            limited=frozenset(renamed[name] for name in self.limited),
            labels=frozenset(renamed[name] for name in self.labels),
            inside={**self.inside, **self._made_inside()},
            made_of={renamed[name]: value for name, value in self._made_of().items()},
            plain={renamed[name]: self.plain[name] for name in ends if name in self.plain},
            ends={renamed[name]: pair for name, pair in ends.items()},
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
        inner, ends = self._inner()
        tree.set("from_", exp.From(this=exp.alias_(exp.Subquery(this=inner), RELEASED, table=True)))
        names = named_outputs(tree, self.names)
        made = list(zip(names, tree.expressions, strict=True))
        noisy = frozenset(name for name, value in made if value.find(exp.AggFunc) or _reads(value, self.noisy))
        limited = frozenset(name for name, value in made if _reads(value, self.limited))
        if self.limited:  # which rows an aggregate sees can depend on them
            limited |= {name for name, value in made if value.find(exp.AggFunc)}
        passed = {} if _adds_up(tree) else _passed(made, list(ends))
        plain = {new: self.plain[old] for new, old in passed.items() if old in self.plain}
        own = {new: ends[old] for new, old in passed.items()}
        labels = frozenset(name for name, value in made if is_label(value.unalias(), self.labels))
        over = {} if _merges(tree) else _over(made, self._made_of())
        return replace(
            self, after=tree, names=names, noisy=noisy, limited=limited, labels=labels, plain=plain, ends=own,
            inside={**self.inside, **self._made_inside()},
            made_of=over,
        )  # fmt: skip

    def _inner(self) -> tuple[exp.Select, dict[str, tuple[str, str]]]:
        """This answer inside another SELECT, and what the ends of intervals are called there: no name of a column."""
        tree, taken = self._with_values(), list(self.names)
        ends: dict[str, tuple[str, str]] = {}
        for name, stored in self._stored().items():
            hidden = free_name(f"lower end of {name}", taken), free_name(f"upper end of {name}", taken)
            for end, column in zip(hidden, stored, strict=True):
                tree.select(exp.alias_(exp.column(column, quoted=True), end, quoted=True), copy=False)
            taken += hidden
            ends[name] = hidden
        return tree, ends

    def _check_groups(self, tree: exp.Select) -> None:
        group = tree.args.get("group")
        for key in children(group, "expressions") if group is not None else ():
            for column in key.find_all(exp.Column):
                if _reads(column, self.noisy):
                    raise self.text.refused(
                        f"GROUP BY {column.name}", column,
                        f"{self.query.table.unit} in the inner GROUP BY, so that one unit's rows are added up",
                        why="it is a noisy number, and nearly every row would be a separate group",
                    )  # fmt: skip

    @property
    def unchanged(self) -> bool:
        """True if it only picks columns of the release."""
        steps = ("where", "order", "limit", "offset", "distinct", "group")
        if not isinstance(self.after.args["from_"].this, exp.Table):
            return False
        return len(self.plain) == len(self.names) and not any(self.after.args.get(step) for step in steps)

    def rows(self, release: Release | Shown) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The answer; columns of the release that are left as they are have their intervals beside them."""
        data, ends = {**release.data, **self._found(release)}, self._ends()
        if self.unchanged:
            columns = {
                name: column for own in self.names for name, column in {own: self.plain[own], **ends[own]}.items()
            }
            return list(columns), list(zip(*(data[column] for column in columns.values()), strict=True))
        kinds = {name: self.query.table.schema.type_of(name) for name in self.query.columns}
        stored = [(name, kinds.get(name, "number")) for name in data]
        with Outside({RELEASED: (stored, zip(*data.values(), strict=True))}) as outside:
            names, rows = outside.rows(self._shown())
        order = [name for own in self.names for name in (own, *ends[own])]
        places = [names.index(name) for name in order]
        hidden = set(self.computed) - self.labels if self.hides_computed else set()
        shown = [name not in hidden for name in order]
        return order, [
            tuple(_whole(row[i]) if is_in else None for is_in, i in zip(shown, places, strict=True)) for row in rows
        ]

    def rehearse(self) -> None:
        """Before anything is charged: what is done afterwards fits a released table, here one without rows."""
        if self.unchanged:
            return
        stored = [(name, self.query.table.schema.type_of(name)) for name in self.query.columns]
        stored += [(f"{field}{end}", "number") for field in self._fields() for end in ("", "_lower", "_upper")]
        stored += [(end, "number") for pair in (*self._hidden().values(), *self.inside) for end in pair]
        with Outside({RELEASED: (stored, ())}) as outside:
            outside.rows(self._shown())

    def _fields(self) -> list[str]:
        return [field for name, measure in self.query.measures for field in measure.fields(name)]

    def _made(self) -> dict[str, exp.Expr]:
        """The outputs that are computed from released numbers and have an interval, with their expressions."""
        if not self.has_computed:
            return {}
        fields = frozenset(self._fields())
        own = {name: value for name, value in self._made_of().items() if name in self.noisy}
        new = {name: value for name, value in own.items() if name not in self.plain and name not in self.ends}
        return {name: value for name, value in new.items() if self._is_known(value) and columns_of(value, fields)}

    def _made_of(self) -> Mapping[str, exp.Expr]:
        """The outputs as expressions of the released columns; none where rows are merged."""
        if self.made_of is not None:
            return self.made_of
        if _merges(self.after):
            return {}
        return {name: each.unalias() for name, each in zip(self.names, self.after.expressions, strict=True)}

    def _made_inside(self) -> dict[tuple[str, str], exp.Expr]:
        """The ends of computed outputs as columns of the released table, for a SELECT around this one."""
        made = self._made()
        return {pair: made[name] for name, pair in self._hidden().items()}

    def _is_known(self, value: exp.Expr) -> bool:
        """True if the form of the answer gives intervals to all nodes of an expression."""
        if not self.hides_computed:
            return self.made_of is None and value.find(*LATER) is None
        if self.made_of is not None:
            return value.find(exp.Window) is None
        if value.find(exp.Window) is None:
            return True
        # a sum over all groups is that of all that there are only if none was chosen
        return isinstance(self.query.keys, PublicTable) and self.after.args.get("where") is None

    def _hidden(self) -> dict[str, tuple[str, str]]:
        """Columns of the released table that hold the ends of those outputs, under names that no other has."""
        taken = [*self.names, *self.query.columns, *self._fields(), *(end for pair in self.inside for end in pair)]
        return {
            name: (free_name(f"lower end of {name}", taken), free_name(f"upper end of {name}", taken))
            for name in self._made()
        }

    def _found(self, release: Release | Shown) -> dict[str, list[Any]]:
        """The ends of what is computed from released numbers, as columns of the released table."""
        found: dict[str, list[Any]] = {}
        inside = self.inside if self.hides_computed else {}
        for pair in self.inside.keys() - inside.keys():  # answers of earlier versions show all values inside
            found |= {end: [0.0] * len(release.rows) for end in pair}
        for pair, value in {**inside, **self._made_inside()}.items():
            ends = ends_of(value, self._known(release, value), len(release.rows))
            for column, numbers in zip(pair, ends, strict=True):
                found[column] = [None if number != number else number for number in numbers.tolist()]
        return found

    def _known(self, release: Release | Shown, value: exp.Expr) -> dict[str, Ends]:
        """The intervals of the columns in an expression, which hold together at the usual confidence."""
        named = columns_of(value, frozenset(self._fields())) or frozenset()
        confidence = release.level(1.0 - (1.0 - CONFIDENCE) / len(named))
        estimates, known = release.estimates(confidence=confidence), dict[str, Ends]()
        for name in named:
            if name.startswith(TOTAL):
                lower, upper = release.total_of(name.removeprefix(TOTAL), confidence=confidence)
                known[name] = Ends(np.full(len(release.rows), lower), np.full(len(release.rows), upper))
                continue
            each = estimates[name]
            is_hidden = np.isnan(each.value) & self.hides_computed
            known[name] = Ends(*(np.where(is_hidden, np.nan, end) for end in (each.lower, each.upper)))
        return known

    @property
    def computed(self) -> tuple[str, ...]:
        """The outputs with noise in them that have no interval."""
        return tuple(name for name, pair in self._ends().items() if name in self.noisy and not pair)

    @property
    def intervals(self) -> bool:
        """True if any output has an interval."""
        return any(self._ends().values())

    def _shown(self) -> exp.Select:
        """SELECT that is run: the outputs, and after them the ends of their intervals."""
        tree = self._with_values()
        for pair in self._ends().values():
            for name, column in pair.items():
                tree.select(exp.alias_(exp.column(column, quoted=True), name, quoted=True), copy=False)
        return tree

    def _with_values(self) -> exp.Select:
        """The SELECT with no value where a computed number has no interval."""
        tree = self.after.copy()
        hidden = self._hidden()
        _expose(tree, [end for pair in hidden.values() for end in pair])
        for name, (lower, _) in hidden.items():
            place = self.names.index(name)
            ends = exp.Is(this=exp.column(lower, quoted=True), expression=exp.Null())
            value = exp.Case(ifs=[exp.If(this=ends, true=exp.Null())], default=tree.expressions[place].unalias())
            tree.expressions[place].replace(exp.alias_(value, name, quoted=True))
        return tree

    def _stored(self) -> dict[str, tuple[str, str]]:
        """For each output that has an interval the columns with its ends; none where rows are merged."""
        if self.after.args.get("distinct"):
            return {}
        fields = self._fields()
        own = {name: (f"{column}_lower", f"{column}_upper") for name, column in self.plain.items() if column in fields}
        return own | dict(self.ends) | self._hidden()

    def _ends(self) -> dict[str, dict[str, str]]:
        """For each output the names of its interval and their columns inside; none where a name is taken."""
        taken = {name.casefold() for name in self.names}
        found: dict[str, dict[str, str]] = {name: {} for name in self.names}
        for name, stored in self._stored().items():
            pair = dict(zip((f"{name}_lower", f"{name}_upper"), stored, strict=True))
            if not taken & {end.casefold() for end in pair}:
                found[name] = pair
        return found


def _reads(value: exp.Expr, columns: frozenset[str]) -> bool:
    """True if an expression names one of some columns."""
    names = {name.casefold() for name in columns}
    return any(column.name.casefold() in names for column in value.find_all(exp.Column))


def _adds_up(tree: exp.Select) -> bool:
    """True if a SELECT makes one row of several; a window does not."""
    added = any(each.find_ancestor(exp.Window) is None for each in tree.find_all(exp.AggFunc))
    return added or any(tree.args.get(name) is not None for name in ("group", "having"))


def _passed(made: list[tuple[str, exp.Expr]], inner: list[str]) -> dict[str, str]:
    """The outputs that are a column inside as it is, where no output of another meaning has that column's name."""
    known = {name.casefold(): name for name in inner}
    columns = {name: value.unalias() for name, value in made}
    other = {
        name.casefold()
        for name, value in columns.items()
        if not isinstance(value, exp.Column) or value.name.casefold() != name.casefold()
    }
    return {
        name: known[value.name.casefold()]
        for name, value in columns.items()
        if isinstance(value, exp.Column) and value.name.casefold() in known.keys() - other
    }


def _expose(tree: exp.Select, columns: list[str]) -> None:
    """Let every SELECT inside one pass on columns of the released table."""
    source = tree.args["from_"].this
    if isinstance(source, exp.Table):
        return
    inner = source.this
    for name in columns:
        inner.select(exp.alias_(exp.column(name, quoted=True), name, quoted=True), copy=False)
    _expose(inner, columns)


MOST_NODES: Final = 200
"""Nodes of an expression of released columns that has an interval, at most."""


def _over(made: list[tuple[str, exp.Expr]], inside: Mapping[str, exp.Expr]) -> dict[str, exp.Expr]:
    """Return outputs as expressions of the released columns, as far as it is clear what each name in them means.

    A name that is also that of another output is not used.
    """
    known = {name.casefold(): value for name, value in inside.items()}
    renamed = {name.casefold() for name, value in made if _column_name(value.unalias()) != name.casefold()}
    found = {}
    for name, value in made:
        clear = {each: inner for each, inner in known.items() if each == name.casefold() or each not in renamed}
        standing = _standing(value.unalias(), clear)
        if standing is not None:
            found[name] = standing
    return found


def _column_name(value: exp.Expr) -> str:
    return str(value.name).casefold() if isinstance(value, exp.Column) else ""


def _standing(value: exp.Expr, known: Mapping[str, exp.Expr]) -> exp.Expr | None:
    """An expression with its columns exchanged for what they are inside.

    None if one of them is not known, or if it would be long: texts that are put together double at every level.
    """
    inside = [known.get(column.name.casefold()) for column in value.find_all(exp.Column)]
    if any(each is None for each in inside) or sum(len(list(each.walk())) for each in inside if each) > MOST_NODES:
        return None

    def inner(node: exp.Expr) -> exp.Expr:
        return exp.Paren(this=known[node.name.casefold()].copy()) if isinstance(node, exp.Column) else node

    return value.transform(inner)


def _merges(tree: exp.Select) -> bool:
    """True if one row of a SELECT can stand for several."""
    return _adds_up(tree) or tree.args.get("distinct") is not None


def is_label(value: exp.Expr, labels: frozenset[str]) -> bool:
    """True if an output is a text, a truth value or a place in an order, or one of the ``labels`` inside."""
    if isinstance(value, exp.Column):
        return value.name.casefold() in {name.casefold() for name in labels}
    if isinstance(value, exp.Case):
        chosen = [each.args["true"] for each in value.args["ifs"]] + [value.args.get("default")]
        return all(each is None or isinstance(each, exp.Null) or each.is_string for each in chosen)
    if isinstance(value, exp.Paren):
        return is_label(value.this, labels)
    is_place = isinstance(value, exp.Window) and isinstance(value.this, _RANKS)
    return is_place or isinstance(value, exp.Predicate | exp.Connector | exp.Not)


_RANKS: Final = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)


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
    """Give every output column a different name; * stands for all columns inside."""
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
