"""SELECT with aggregates as a question about a private table, and what is done with its answer.

A select list is read from the top: an aggregate is a measure, an expression that was grouped by is a key, and what
stands around them is done after the noise. A column that is neither would show rows of people.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused, Remedy, TallystickError, about_dataset
from tallystick.ledger.filters import USUAL_DELTA
from tallystick.tables.aggregates import Measure
from tallystick.tables.denial import ways_to_groups
from tallystick.tables.expressions import Call, Column, Expression, Literal, col, columns_of, when
from tallystick.tables.implied import implied_keys
from tallystick.tables.keyset import GROUPABLE, PrivateKeys, PublicTable, private_keys
from tallystick.tables.local import told_of_joins
from tallystick.tables.measures import count, count_units, mean, quantile, standard_deviation, sum, variance
from tallystick.tables.schema import Schema, declared_number
from tallystick.tables.sources import of_source
from tallystick.tables.sql.after import RELEASED, Released, copied, finished, is_label
from tallystick.tables.sql.bounds import limits_of, no_bounds
from tallystick.tables.sql.options import Options
from tallystick.tables.sql.relations import Relation, free_name, function_name, in_own_words
from tallystick.tables.sql.strict import missing_without
from tallystick.tables.sql.tree import Text, children, spelled, where
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.ledger.account import Account

AGGREGATES: Final = (exp.AggFunc, exp.Filter, exp.WithinGroup)
_OF_COLUMN: Final[dict[type[exp.Expr], Any]] = {
    exp.Sum: sum,
    exp.Avg: mean,
    exp.Variance: variance,
    exp.VariancePop: variance,
    exp.Stddev: standard_deviation,
    exp.StddevSamp: standard_deviation,
    exp.StddevPop: standard_deviation,
}
ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Pow)
_SAMPLE: Final = (exp.Variance, exp.Stddev, exp.StddevSamp)
MOST_LISTED: Final = 100_000
"""Groups that public lists may make together; beyond that the data propose them."""


@dataclass(frozen=True, slots=True)
class Key:
    """A grouping: the expression as it is written, the column it is grouped by, and what makes one of the other."""

    data: str
    column: str
    shown: exp.Expr


@dataclass
class Aggregation:
    """One SELECT with aggregates, while it is read."""

    text: Text
    relation: Relation
    options: Options
    keys: list[Key] = field(default_factory=list)
    measures: dict[str, Measure] = field(default_factory=dict)
    read_as: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    read_already: dict[int, exp.Expr] = field(default_factory=dict)
    grouped: exp.Expr | None = None
    counts: list[str] = field(default_factory=list)
    shown: tuple[str, ...] = ()
    """Names of the outputs, as soon as they are read."""

    def released(self, select: exp.Select) -> Released:
        """The question and what comes after it."""
        tree = copied(select, ("from_", "joins", "where", "group", "with_"))
        self._read_keys(select)
        self.grouped = select.args.get("group")
        outputs = self._outputs(tree)
        names = tuple(name for name, _ in outputs)
        self.shown = names
        taken = {name.casefold() for name in names}
        for name in names:
            if taken & {f"{name}_lower".casefold(), f"{name}_upper".casefold()}:
                raise self.text.refused(
                    f"an output that is called like an end of the interval of {name}", where(select), "another name"
                )
        said = len(self.measures)
        after = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in outputs)).from_(
            exp.to_table(f'"{RELEASED}"')
        )
        self._after(tree, after, dict(outputs))
        if not self.measures:
            raise self.text.refused(
                "a SELECT without an aggregate", where(select), "COUNT(*) or another aggregate beside the columns"
            )
        if len(self.measures) > said:
            extra = ", ".join(list(self.measures)[said:])
            self.notes.append(
                f"{extra}: used only after the noise (HAVING, ORDER BY), released and paid for all the same"
            )
        if tree.args.get("limit") is not None:
            self.notes.append("LIMIT is applied after the noise; it does not lower the cost")
        finished(self.text, after)
        query = self._question()
        plain = {name: value.name for name, value in outputs if isinstance(value, exp.Column)}
        noisy = frozenset(name for name, value in outputs if _measured(value, self.measures))
        touched = {name: measure for name, measure in query.measures if query.is_limited(measure)}
        limited = frozenset(name for name, value in outputs if _measured(value, touched))
        labels = frozenset(name for name, value in outputs if is_label(value, frozenset()))
        return Released(
            self.text, query, self.relation.known, self.relation.uses, after, names, noisy, limited, plain,
            tuple(self.notes), labels=labels,
        )  # fmt: skip

    # ---- GROUP BY

    def keys_of(self, select: exp.Select) -> list[tuple[Expression, str]]:
        """Expressions of GROUP BY, and the names that the select list has for them; constants group nothing."""
        group, keys = select.args.get("group"), []
        if group is not None and not children(group, "expressions"):
            raise self.text.wrong("GROUP BY with nothing behind it", group, "the columns to group by")
        for node in children(group, "expressions") if group is not None else ():
            meant = self._meant(select, node).unalias()
            wish = next((e.alias for e in select.expressions if e.alias and e.unalias() == meant), "")
            made = self.relation.reader.read(meant)
            if not isinstance(made, Literal):
                keys.append((made, wish or meant.name or function_name(meant) or "key"))
        return keys

    def _read_keys(self, select: exp.Select) -> None:
        for made, wish in self.keys_of(select):
            if self.relation.is_unit(made):
                raise self.text.refused(
                    f"GROUP BY {self.relation.table.unit}", select.args["group"],
                    "the unit in a subquery, and aggregates of its rows around it", why="it shows single units",
                )  # fmt: skip
            self._add_key(made, self.relation.reader.type_of(made, select), wish, select.args["group"])

    def _meant(self, select: exp.Select, node: exp.Expr) -> exp.Expr:
        """Expression that a grouping names: the nth output, a column, or else an alias of the list."""
        outputs = select.expressions
        if isinstance(node, exp.Literal) and not node.args.get("is_string"):
            number = int(node.this) if str(node.this).isdigit() else 0
            if not 1 <= number <= len(outputs):
                raise self.text.wrong(f"GROUP BY {node.this}", node, f"a number from 1 to {len(outputs)}")
            meant: exp.Expr = outputs[number - 1]
            return meant
        if isinstance(node, exp.Column) and not node.table and not self.relation.matches(node):
            found = [each for each in outputs if each.alias.casefold() == node.name.casefold()]
            return found[0] if found else node
        return node

    def _add_key(self, made: Expression, kind: str, wish: str, node: exp.Expr) -> None:
        data = str(made.to_data())
        if any(key.data == data for key in self.keys):
            return
        self.counts += sorted(columns_of(made) & self.relation.counted)
        rebuilt = _as_it_is
        if kind == "number":
            made, rebuilt = _peeled(made)
            made = made.cast("integer") if _whole(made, self.relation.schema) else made
            kind = self.relation.reader.type_of(made, node)
        if kind not in GROUPABLE:
            with about_dataset(self.relation.known.dataset):
                raise self._no_groups(made, node)
        self.relation, column = self.relation.derived(made, wish)
        shown = rebuilt(exp.column(column, quoted=True))
        self.keys.append(Key(data, column, shown))

    def _no_groups(self, made: Expression, node: exp.Expr) -> Refused:
        """The error for groups of numbers that need not be whole."""
        remedies = self.relation.table.as_groups(made.name) if isinstance(made, Column) else []
        return self.text.refused(
            f"GROUP BY a number ({node.sql()})",
            node,
            "FLOOR(...), CASE or WIDTH_BUCKET: single numbers tell people apart",
            remedies=remedies,
        )

    # ---- the select list, HAVING and ORDER BY, read from the top

    def _outputs(self, tree: exp.Select) -> list[tuple[str, exp.Expr]]:
        outputs: list[tuple[str, exp.Expr]] = []
        typed = [each.alias or (each.name if isinstance(each, exp.Column) else "") for each in tree.expressions]
        folded = [name.casefold() for name in typed]
        for each, own in zip(tree.expressions, typed, strict=True):
            value = self._rewritten(each.unalias(), each.alias)
            name = value.name if isinstance(value, exp.Column) else ""
            # k.r of VALUES is column1 inside, and p.ward of a join is "p.ward": people see what they typed
            if each.alias or (own and folded.count(own.casefold()) == 1 and name.casefold() != own.casefold()):
                name = own
            outputs.append((free_name(name or f"column_{len(outputs) + 1}", [known for known, _ in outputs]), value))
        return outputs

    def _rewritten(self, node: exp.Expr, wish: str = "") -> exp.Expr:
        """The expression over the released table: measures and keys become its columns."""
        if id(node) in self.read_already:
            return node
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, AGGREGATES):
            return exp.column(self._measure(node, wish), quoted=True)
        if isinstance(node, exp.Star):
            raise self.text.refused(
                "*", node, "aggregates such as COUNT(*), and the columns grouped by", why="it shows rows of people"
            )
        key = self._key_of(node)
        if key is not None:
            number = isinstance(node.parent, ARITHMETIC) and self.relation.schema.type_of(key.column) == "integer"
            return as_double(key.shown.copy()) if number else key.shown.copy()
        if isinstance(node, exp.Column):
            if not self.relation.matches(node):
                raise self.relation.unknown(node, self.shown)
            raise self.text.refused(
                f"column {node.name}",
                node,
                "the column in GROUP BY, or inside an aggregate",
                why="it shows rows of people",
            )
        for name, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(name, self._rewritten(value))
            elif isinstance(value, list):
                node.set(name, [self._rewritten(each) if isinstance(each, exp.Expr) else each for each in value])
        return node

    def _window(self, node: exp.Window) -> exp.Expr:
        """A window over the released rows: its own function is not a measure, what stands in it is."""
        function = node.this
        for name, value in list(function.args.items()):
            if isinstance(value, exp.Expr) and not isinstance(value, exp.Star):
                function.set(name, self._rewritten(value))
        for name in ("partition_by", "order", "spec"):
            value = node.args.get(name)
            if isinstance(value, list):
                node.set(name, [self._rewritten(each) for each in value])
            elif value is not None:
                node.set(name, self._rewritten(value))
        return node

    def _key_of(self, node: exp.Expr) -> Key | None:
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean | exp.DataType | exp.Var | exp.Order | exp.Ordered):
            return None
        if any(node.find_all(*AGGREGATES, exp.Window)):
            return None
        try:
            data = str(self.relation.reader.read(node).to_data())
        except TallystickError:
            return None
        return next((key for key in self.keys if key.data == data), None)

    def _after(self, tree: exp.Select, after: exp.Select, outputs: dict[str, exp.Expr]) -> None:
        names, having = tuple(outputs), tree.args.get("having")
        if having is not None:
            after.where(self._rewritten(self._unaliased(having.this, outputs)), copy=False)
        order = tree.args.get("order")
        if order is not None:
            for each in children(order, "expressions"):
                each.set("this", self._ordered(each.this, names))
            after.set("order", order)
        for name in ("limit", "offset"):
            value = tree.args.get(name)
            if value is not None:
                after.set(name, _counted(self.text, value))
        if tree.args.get("distinct") is not None:
            after.set("distinct", exp.Distinct())

    def _unaliased(self, node: exp.Expr, outputs: dict[str, exp.Expr]) -> exp.Expr:
        """HAVING may name an output that is not a column of the table: what that is was read already."""
        known = {name.casefold(): value for name, value in outputs.items()}

        def meant(one: exp.Expr) -> exp.Expr:
            alias = isinstance(one, exp.Column) and not one.table and not self.relation.matches(one)
            if alias and one.name.casefold() in known:
                found = known[one.name.casefold()].copy()
                self.read_already[id(found)] = found
                return found
            return one

        return node.transform(meant, copy=False)

    def _ordered(self, node: exp.Expr, names: tuple[str, ...]) -> exp.Expr:
        """An output by its name or number, or a separate expression."""
        if isinstance(node, exp.Literal):
            return node
        if isinstance(node, exp.Column) and not node.table:
            found = [name for name in names if name.casefold() == node.name.casefold()]
            if found:
                return exp.column(found[0], quoted=True)
        return self._rewritten(node)

    # ---- aggregates

    def _measure(self, node: exp.Expr, wish: str = "") -> str:
        """The name of the measure that an aggregate is; the same aggregate twice is one measure."""
        relation, measure, called = self._read_measure(node)
        data = str(measure.to_data())
        if data in self.read_as:
            return self.read_as[data]
        self.relation = relation
        taken = [end for name in self.measures for end in (name, f"{name}_lower", f"{name}_upper")]
        taken += [key.column for key in self.keys]
        self.read_as[data] = name = free_name(_plain_name(wish or called), taken)
        self.measures[name] = measure
        return name

    def _of_text(self, node: exp.Expr, value: exp.Expr, name: str, remedies: list[Remedy]) -> InvalidInput:
        """Return the error for an aggregate of numbers over a column of text, with a cast that works."""
        cast = f"CAST({value.sql(dialect='duckdb')} AS INTEGER)"
        is_simple = not remedies and not isinstance(node, exp.WithinGroup)
        works = f"{spelled(node)}({cast} CLAMPED BETWEEN 0 AND 100), with bounds that you choose" if is_simple else cast
        ways = remedies or [Remedy("rewrite", to=works)]
        with about_dataset(self.relation.known.dataset), of_source(self.relation.table.source):
            raise self.text.wrong(f"{name} is text", node, "", remedies=ways, is_problem=True)

    def _read_measure(self, node: exp.Expr) -> tuple[Relation, Measure, str]:
        condition: Expression | None = None
        filtered: exp.Expr | None = None
        if isinstance(node, exp.Filter):
            filtered = node.expression.this
            condition = self.relation.reader.condition(filtered)
            node = node.this
        level, value = 0.5, node.this
        if isinstance(node, exp.WithinGroup):
            level, value = self._level(node)
        elif isinstance(node, exp.CountIf):
            own = self.relation.reader.condition(node.this)
            both = node.this if filtered is None else exp.and_(node.this, filtered)
            return self._count(exp.Count(this=exp.Star()), own if condition is None else own & condition, both)
        elif isinstance(node, exp.Count):
            return self._count(node, condition, filtered)
        elif not isinstance(node, (*_OF_COLUMN, exp.Median)):
            raise self._refuse_aggregate(node)
        if self.relation.spine is not None:
            raise self.text.refused(
                f"{spelled(node)} after a LEFT JOIN from a public table",
                node,
                "COUNT(a column of the private table)",
            )
        made, kind = self.relation.reader.typed(value)
        if kind not in ("integer", "number"):
            remedies = []
            if kind == "text" and isinstance(made, Column) and self._is_clamped(node):
                remedies.append(declared_number(made.name))
            if kind == "text" and isinstance(made, Column):
                raise self._of_text(node, value, made.name, remedies)
            of = f", because {made.name} is {kind}" if isinstance(made, Column) else f" of type {kind}"
            what = f"{spelled(node)}{of}"
            with about_dataset(self.relation.known.dataset), of_source(self.relation.table.source):
                raise self.text.wrong(what, node, "a column or expression of numbers", remedies=remedies)
        limits: tuple[float, float] | tuple[()] = self._limits(node, made)
        if condition is not None:
            made = when(condition, made)
        if isinstance(made, Column) and limits == self._declared().get(made.name):
            limits = ()
        relation, column = self.relation.derived(made, in_own_words("", value, filtered))
        said = re.sub(r"\W+", "_", value.name or "value")
        if isinstance(node, exp.Median | exp.WithinGroup):
            name = "median" if level == 0.5 else f"quantile_{level:g}"
            return relation, quantile(column, level, *limits), f"{name}_{said}"
        if isinstance(node, _SAMPLE):
            self.notes.append(f"{spelled(node)} divides by n, not by n - 1")
        return relation, _OF_COLUMN[type(node)](column, *limits), f"{node.key}_{said}"

    def _count(
        self, node: exp.Count, condition: Expression | None, filtered: exp.Expr | None
    ) -> tuple[Relation, Measure, str]:
        relation, inner = self.relation, node.this
        if isinstance(inner, exp.Distinct):
            return self._count_units(inner, condition, filtered)
        constant = isinstance(inner, exp.Star | exp.Literal)
        if constant and relation.spine is not None:
            raise self.text.refused(
                "COUNT(*) after a LEFT JOIN from a public table", node, "COUNT(a column of the private table)",
                why="it counts a group without rows as one",
            )  # fmt: skip
        self._check_counted(inner)
        present: Expression | None = None
        if not constant:
            made = relation.reader.read(inner)
            if not relation.is_unit(made):
                present = ~made.is_missing()
        if condition is not None:
            present = condition if present is None else condition & present
        if present is None:
            return relation, count(), "count"
        wish = in_own_words("rows", None if constant else inner, filtered)
        relation, column = relation.derived(when(present, 1, 0), wish)
        return relation, sum(column, 0, 1), f"count_{inner.name}" if inner.name != "*" else "count"

    def _check_counted(self, node: exp.Expr) -> None:
        """After a LEFT JOIN from a public table only what is missing without private rows is counted truly."""
        spine = self.relation.spine
        if spine is None or isinstance(node, exp.Star | exp.Literal):
            return
        public = {(each.owner, each.name) for each in spine.seen}

        def of_people(column: exp.Column) -> bool:
            return not any((each.owner, each.name) in public for each in self.relation.matches(column))

        if not missing_without(node, of_people):
            raise self.text.refused(
                "COUNT of this after a LEFT JOIN from a public table", node, "COUNT(a column of the private table)",
                why="it counts a group without rows as one",
            )  # fmt: skip

    def _count_units(
        self, inner: exp.Distinct, condition: Expression | None, filtered: exp.Expr | None
    ) -> tuple[Relation, Measure, str]:
        relation, values = self.relation, children(inner, "expressions")
        for each in values:
            self._check_counted(each)
        made = relation.reader.read(values[0]) if len(values) == 1 else None
        if isinstance(made, Call) and made.name == "when" and len(made.arguments) == 2:  # CASE WHEN ... THEN unit END
            condition = made.arguments[0] if condition is None else condition & made.arguments[0]
            made = made.arguments[1]
        if made is not None and relation.is_unit(made):
            if condition is None:
                return relation, count_units(), "count_units"
            relation, column = relation.derived(when(condition, 1), in_own_words("", values[0], filtered))
            return relation, count_units(column), "count_units"
        unit = "a unit" if isinstance(relation.table.unit, EachRow) else relation.table.unit
        raise self.text.refused(
            "COUNT(DISTINCT ...) of what is not the unit",
            values[0] if values else inner,
            f"COUNT(DISTINCT {unit}), or COUNT(*)",
        )

    def _level(self, node: exp.WithinGroup) -> tuple[float, exp.Expr]:
        share = self.relation.reader.read(node.this.this)
        order = children(node.expression, "expressions")
        if not isinstance(node.this, exp.PercentileCont) or len(order) != 1 or not isinstance(share, Literal):
            raise self.text.refused("WITHIN GROUP", node, "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)")
        if type(share.value) not in (int, float) or not 0 <= share.value <= 1:  # type: ignore[operator]
            raise self.text.wrong(f"PERCENTILE_CONT({share.value})", node, "a share from 0 to 1")
        level = float(share.value)  # type: ignore[arg-type]
        return (1 - level if order[0].args.get("desc") else level), order[0].this

    def _declared(self) -> dict[str, tuple[float, float]]:
        return {name: (low, high) for name, low, high in self.relation.table.declared}

    def _is_clamped(self, node: exp.Expr) -> bool:
        """True if the aggregate names its bounds, so that its column is meant as numbers."""
        return self.options.clamp_of(node.meta.get("start", -1)) is not None

    def _limits(self, node: exp.Expr, made: Expression) -> tuple[float, float]:
        """Bounds of an aggregate: those of its column or of its expression, and narrower ones where it says so."""
        limits = limits_of(self.relation, node, made, self.options)
        if limits is None:
            raise no_bounds(self.relation, node)
        return limits if limits[0] < limits[1] else (limits[0], limits[0] + 1)  # what is always the same is in between

    def _refuse_aggregate(self, node: exp.Expr) -> Refused:
        if isinstance(node, exp.Min | exp.Max):
            share = "0.01" if isinstance(node, exp.Min) else "0.99"
            return self.text.refused(
                spelled(node),
                node,
                f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY ...)",
                why="it shows one person's value",
            )
        return self.text.refused(
            f"the aggregate {spelled(node)}", node, "COUNT, SUM, AVG, MEDIAN, PERCENTILE_CONT, VARIANCE, STDDEV"
        )

    # ---- the question

    def _question(self) -> Any:
        """The question, with the groups it may have."""
        columns = [key.column for key in self.keys]
        table = _capped(self.text, self.relation, self.options)
        if len(self.relation.capped_by) > 1:
            self.notes.append(_said_of_caps(table, self.relation.capped_by))
        self.notes += told_of_joins(table)
        keys = self._groups(columns) if columns else None
        grouped = table.group_by(*columns, keys=keys)
        with about_dataset(self.relation.known.dataset):
            try:
                return grouped.agg(**self.measures)
            except InvalidInput as problem:
                wrong = f"{problem.argument} {problem.value}"
                raise self.text.wrong(wrong, 0, problem.allowed, remedies=problem.remedies) from None

    def _implied(self, columns: list[str]) -> PublicTable | None:
        """The groups that follow from registered lists, types and bounds."""
        lists = {column: self.relation.list_of(col(column)) for column in columns}
        known = {column: values for column, values in lists.items() if values}
        return implied_keys(self.relation.table, columns, known)

    def _groups(self, columns: list[str]) -> list[tuple[Any, ...]] | PrivateKeys | PublicTable:
        """A public list of the groups, or the data's own at the registered delta."""
        strategy = str(self.options.given.get("group_selection_strategy", "")).upper()
        listed = None if strategy == "LAPLACE_THRESHOLD" else self._listed(columns)
        if listed is not None:
            self._say_counted()
            return listed
        delta = key_delta(self.relation.known.key_delta, self.options.given.get("delta"))
        if delta is None or strategy == "PUBLIC_GROUPS":
            implied = None if strategy == "LAPLACE_THRESHOLD" else self._implied(columns)
            if implied is not None:
                return implied
            raise self.text.refused(
                f"GROUP BY {', '.join(columns)} without a public list of groups", self.grouped,
                "", why="which groups appear can itself reveal someone",
                remedies=_ways_to_groups(strategy, self.relation.table.account),
            )  # fmt: skip
        return private_keys(delta=delta)

    def _say_counted(self) -> None:
        """Groups of a count of a unit's rows are listed as far as the caps let rows count."""
        for name in dict.fromkeys(self.counts):
            listed = self.relation.values.get(name)
            if listed and listed == tuple(range(len(listed))):
                self.notes.append(
                    f"{name}: the groups are 0 to {listed[-1]:,}, because the limits count no more rows of one "
                    "person. A person with more is in none of these groups"
                )

    def _listed(self, columns: list[str]) -> list[tuple[Any, ...]] | None:
        """All combinations of public lists; columns of one public table keep to its rows."""
        relation, lists = self.relation, list[tuple[list[str], list[tuple[Any, ...]]]]()
        left = list(columns)
        for public in {id(origin): origin for origin, _ in relation.origins.values()}.values():
            own = [c for c in left if c in relation.origins and relation.origins[c][0] is public]
            if own:
                names = [relation.origins[c][1] for c in own]
                at = [public.schema.names.index(name) for name in names]
                lists.append((own, list(dict.fromkeys(tuple(row[i] for i in at) for row in public.rows.rows))))
                left = [c for c in left if c not in own]
        for column in left:
            known = relation.list_of(col(column))
            if known is None:
                return None
            lists.append(([column], [(value,) for value in known]))
        total = 1
        for _, values in lists:
            total *= len(values)
        if not 0 < total <= MOST_LISTED:
            return None
        order = [name for names, _ in lists for name in names]
        rows = (tuple(itertools.chain(*pieces)) for pieces in itertools.product(*(values for _, values in lists)))
        return [tuple(row[order.index(column)] for column in columns) for row in rows]


def _ways_to_groups(strategy: str, account: Account | None) -> list[Remedy]:
    """Return what gives a statement its groups: a strategy that it names leaves one way."""
    ways = ways_to_groups(account, USUAL_DELTA)
    kinds = {"PUBLIC_GROUPS": "list_keys", "LAPLACE_THRESHOLD": "find_keys"}
    return [each for each in ways if each.kind == kinds.get(strategy, each.kind)]


def key_delta(registered: float | None, given: float | None) -> float | None:
    """The delta for groups from the data: the registered one, or half of the statement's where that is less."""
    if given is None:
        return registered
    return given / 2 if registered is None or registered >= given else registered


def _capped(text: Text, relation: Relation, options: Options) -> Any:
    """The table with caps as tight as the statement says; wider ones than registered are refused."""
    table, given = relation.table, options.given
    unit = given.get("privacy_unit_column")
    if unit is not None and (isinstance(table.unit, EachRow) or unit.casefold() != table.unit.casefold()):
        own = table.unit if isinstance(table.unit, str) else "none"
        raise text.refused(
            f"privacy_unit_column = {unit}", None, f"{own}, which is registered",
            why="whom the data protect is not for a statement to say",
        )  # fmt: skip
    caps = {
        "max_groups_contributed": table.max_groups,
        "max_rows_per_group": table.max_rows,
        "max_rows_contributed": table.max_rows_in_all,
    }
    for word, registered in caps.items():
        wish = given.get(word)
        if wish is None:
            continue
        if type(wish) is not int or wish < 1 or (registered is not None and wish > registered):
            most = "from 1" if registered is None else f"from 1 to {registered}, which is registered"
            raise text.refused(f"{word} = {wish}", None, f"a whole number {most}")
        caps[word] = wish
    if isinstance(table.unit, EachRow):
        return table
    groups, rows, in_all = caps.values()
    return table.per_unit(max_groups=groups, max_rows_per_group=rows, max_rows=in_all)


def _said_of_caps(table: Any, tables: tuple[str, ...]) -> str:
    caps = (
        ("{} groups", table.max_groups),
        ("{} rows in each", table.max_rows),
        ("{} rows in all", table.max_rows_in_all),
    )
    most = " with ".join(words.format(cap) for words, cap in caps if cap is not None)
    return (
        f"{' and '.join(tables)} together: one {table.unit} counts in at most {most}, by the larger limits of these "
        "tables (a limit that only one of them has holds for both, and can leave out more rows) or what "
        "OPTIONS(max_groups_contributed=, max_rows_per_group=, max_rows_contributed=) say"
    )


def _measured(value: exp.Expr, measures: dict[str, Measure]) -> bool:
    return any(column.name in measures for column in value.find_all(exp.Column))


def _plain_name(wish: str) -> str:
    return unicodedata.normalize("NFKC", wish)[:150]


def _counted(text: Text, node: exp.Expr) -> exp.Expr:
    """LIMIT, OFFSET or FETCH with a number."""
    number = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    if not isinstance(number, exp.Literal) or not str(number.this).isdigit():
        raise text.wrong(spelled(node), node, "a whole number")
    return exp.Limit(expression=number.copy()) if isinstance(node, exp.Fetch) else node.copy()


def _peeled(made: Expression) -> tuple[Expression, Any]:
    """Rest of ``FLOOR(x / 5) * 5`` without the arithmetic that keeps groups apart, and how to put it back."""
    signs = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div}
    if isinstance(made, Call) and made.name in signs:
        left, right = made.arguments
        value = right.value if isinstance(right, Literal) else None
        if type(value) in (int, float) and (made.name in ("+", "-") or value != 0):
            inner, rebuilt = _peeled(left)
            kind, literal = signs[made.name], exp.Literal.number(repr(abs(value)))  # type: ignore[arg-type]
            shown = exp.Neg(this=literal) if value < 0 else literal  # type: ignore[operator]
            return inner, lambda column: exp.Paren(this=kind(this=rebuilt(column), expression=shown.copy()))
    return made, as_double


def _whole(made: Expression, schema: Schema) -> bool:
    """True if its numbers are whole ones, so that they can be grouped by."""
    if isinstance(made, Call) and made.name in ("floor", "ceil", "round"):
        return True
    if isinstance(made, Call) and made.name in ("+", "-", "*", "when", "coalesce", "abs"):
        return all(_whole(each, schema) for each in made.arguments[made.name == "when" :])
    return made.type_in(schema) == "integer"


def as_double(value: exp.Expr) -> exp.Expr:
    """A key in arithmetic after the noise: doubles do not overflow; missing where it is not a number."""
    return exp.TryCast(this=value, to=exp.DataType.build("DOUBLE"))


def _as_it_is(column: exp.Expr) -> exp.Expr:
    return column
