"""A statement as a whole: its WITH queries, its SELECT, its cost; the one function that the doors call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from tallystick.digits import typed, up
from tallystick.errors import EpsilonWithoutDelta, InvalidInput, NotAnswered, Refused, Remedy, TallystickError
from tallystick.ledger.epsilon_alone import counts_epsilon
from tallystick.ledger.filters import USUAL_DELTA, as_written
from tallystick.rounding import fraction_down
from tallystick.tables.budget import AMOUNTS
from tallystick.tables.denial import example_prices, is_payable
from tallystick.tables.epsilon_alone import is_unstated, stated_costs
from tallystick.tables.keyset import PrivateKeys
from tallystick.tables.reporting.words import COMPUTED, NO_INTERVAL
from tallystick.tables.sql import units
from tallystick.tables.sql.after import Released
from tallystick.tables.sql.catalogue import Catalogue, default_price
from tallystick.tables.sql.joins import Source, Sources, replace_names
from tallystick.tables.sql.options import AMOUNTS_OF_PRICE, Options, cut
from tallystick.tables.sql.relations import Public, Relation, Seen
from tallystick.tables.sql.select import AGGREGATES, Aggregation
from tallystick.tables.sql.tree import Text, children, spelled, where
from tallystick.tables.table import Plan

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.tables.table import Query


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that was planned: its cost and noise, and what is done with the answer."""

    text: str
    plan: Plan
    released: Released
    options: Options

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a person about this answer."""
        hides, labels = self.released.hides_computed, self.released.labels
        shown = [name for name in self.released.computed if name in labels or not hides]
        hidden = [name for name in self.released.computed if name not in shown]
        said = [f"{', '.join(names)}: {what}" for names, what in ((shown, COMPUTED), (hidden, NO_INTERVAL)) if names]
        return (*dict.fromkeys(self.released.notes), *said)

    def with_notes(self, notes: Iterable[str]) -> Statement:
        """Return the statement with more notes for a person."""
        return replace(self, released=replace(self.released, notes=(*self.released.notes, *notes)))


def planned(text: str, catalogue: Catalogue, **budget: Any) -> Statement:
    """Read a statement and compute its cost; opens no private data.

    What the statement says about its cost (``OPTIONS``) goes before ``budget``, and that before the registered cost.
    """
    read = Text(text)
    budget |= {name: fraction_down(name, budget[name]) for name in AMOUNTS if budget.get(name) is not None}
    tokens, options = cut(read)
    with options.in_own_words():
        return _planned(read, tokens, options, catalogue, budget)


def _planned(
    read: Text, tokens: list[Token], options: Options, catalogue: Catalogue, budget: Mapping[str, Any]
) -> Statement:
    """Read the tokens of a statement and compute its cost."""
    overridden = _overridden(options, budget)
    options = options.beside(budget.get("delta"))
    tree = read.tree(tokens)
    try:
        found = Reader(read, catalogue, options, tree, {}).query(tree)
    except RecursionError:
        raise InvalidInput("sql", "nesting this deep", "fewer subqueries inside each other") from None
    if not isinstance(found, Released):
        raise rows_refused(read, tree, found)
    for start in sorted(set(options.clamps) - options.heard):
        raise read.refused("CLAMPED BETWEEN here", start, "bounds inside the brackets of an aggregate of numbers")
    price = _price(options, budget, default_price(found.uses))
    if price is None:
        raise _no_price(found.query)
    plan = found.query.plan(**price)
    _check_most(price, plan, catalogue.most_of(tree, price))
    notes = (*overridden, *_delta_notes(options, plan), *found.notes)
    return Statement(read.text, plan, replace(found, notes=notes), options)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads queries inside queries."""

    text: Text
    catalogue: Catalogue
    options: Options
    whole: exp.Expr
    named: Mapping[str, Source]

    def query(self, node: exp.Expr) -> Source:
        """A SELECT, or a set operation, with its WITH queries."""
        reader = self._with(node)
        if isinstance(node, exp.Subquery):
            return reader.query(node.this)
        if isinstance(node, exp.Select):
            return reader.select(node)
        assert isinstance(node, exp.SetOperation)
        left, right = (reader.query(each.unnest()) for each in (node.this, node.expression))
        if (
            isinstance(left, Relation)
            and isinstance(right, Relation)
            and not any(node.args.get(name) for name in ("limit", "offset"))
        ):
            return units.combined(left, right, node)
        raise self.text.refused(
            spelled(node), node, "one statement for each side", why="a set operation of aggregates is several releases"
        )

    def _with(self, node: exp.Expr) -> Reader:
        reader, before = self, node.args.get("with_")
        for each in children(before, "expressions") if before is not None else ():
            found = reader.query(each.this)
            columns = [column.name for column in children(each.args["alias"], "columns")]
            if columns:
                found = replace_names(found, each.alias, columns)
            reader = replace(reader, named={**reader.named, each.alias.casefold(): found})
        return reader

    def select(self, node: exp.Select) -> Source:
        """Rows, or an answer."""
        sources = Sources(self.text, self.catalogue, dict(self.named), self.query)
        sources.list_public(node)
        found = sources.read(node)
        if isinstance(found, Released):
            return found.around(node)
        added = node.args.get("group") is not None or has_aggregates(node)
        if isinstance(found, Public) or (node is self.whole and not added):
            if node is self.whole or added:
                raise rows_refused(self.text, node, found)
            rows = self._rows_of(found, node)
            return rows.different() if node.args.get("distinct") is not None and isinstance(rows, Public) else rows
        if not added:
            self._no_spine(found, node)
            rows = self._rows_of(found, node)
            distinct = node.args.get("distinct") is not None and isinstance(rows, Relation)
            return units.different(rows, node) if distinct else rows  # type: ignore[arg-type]
        keys = Aggregation(self.text, found, self.options).keys_of(node)
        if node is not self.whole and any(found.is_unit(made) for made, _ in keys):
            self._no_spine(found, node)
            self._no_limit(node)
            rows = units.grouped_by_unit(found, node, keys, self.options)
            return units.different(rows, node) if node.args.get("distinct") is not None else rows
        return Aggregation(self.text, found, self.options).released(node)

    def _no_spine(self, found: Relation, node: exp.Select) -> None:
        """Refuse rows without a person, which such a join makes in SQL: only around it is known what they change."""
        if found.spine is not None:
            raise self.text.refused(
                "LEFT JOIN from a public table in a subquery", where(node), "the LEFT JOIN in the outermost SELECT",
                why="its public rows without a partner belong to no person",
            )  # fmt: skip

    def _no_limit(self, node: exp.Select) -> None:
        if node.args.get("having") is not None and node.args.get("group") is None:
            raise self.text.refused("HAVING without GROUP BY", node.args["having"], "WHERE")
        for name in ("limit", "offset"):
            if node.args.get(name) is not None:
                raise self.text.refused(
                    f"{name.upper()} inside",
                    node.args[name],
                    "a condition in WHERE",
                    why="which rows come first depends on everybody",
                )

    def _rows_of(self, found: Relation | Public, node: exp.Select) -> Source:
        """Rows with the columns of a select list."""
        self._no_limit(node)
        seen: list[Seen] = []
        reader = found.reader
        if isinstance(found, Relation) and any(each.find(exp.Window) for each in node.expressions):
            found, reader = units.with_windows(found, node, self.options)
        for each in node.expressions:
            value = each.unalias()
            if isinstance(value, exp.Star):
                self._no_order(node, each)
                seen += [one for one in found.seen if not one.named_fully]
            elif isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
                own = [one for one in found.seen if one.owner.casefold() == value.table.casefold()]
                if not own:
                    raise self.text.wrong(f"{value.table}.*", each, "the name of a table in FROM before .*")
                seen += own
            else:
                seen.append(Seen("", each.alias_or_name, reader.read(value)))
        return replace(found, seen=tuple(seen))

    def _no_order(self, node: exp.Select, star: exp.Expr) -> None:
        """Which column of * over a join comes first differs between engines; it matters where places name columns."""
        around = node.parent
        alias = around.args.get("alias") if around is not None else None
        by_place = isinstance(around, exp.SetOperation) or (alias is not None and alias.args.get("columns"))
        if by_place and children(node, "joins"):
            raise self.text.refused("* over a join whose columns are taken by their places", star, "columns by name")


def has_aggregates(node: exp.Select) -> bool:
    """True if a SELECT adds rows up: an aggregate outside of windows and subqueries."""
    places = [*node.expressions, node.args.get("having"), node.args.get("order")]
    waiting = [each for each in places if each is not None]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.Query | exp.Window | exp.Subquery):
            continue
        if isinstance(one, AGGREGATES):
            return True
        waiting += list(one.iter_expressions())
    return False


def rows_refused(text: Text, tree: exp.Expr, found: Relation | Public) -> TallystickError:
    """A statement that would publish rows, or names a column that is not there."""
    if isinstance(found, Public):
        name = next(iter(tree.find_all(exp.Table)), None)
        said = f"table {name.name}" if name is not None else "this statement"
        return text.refused(
            f"{said} alone, which is public,", where(tree), "your own engine, or a join with a private table"
        )
    picks = isinstance(tree, exp.Select) and tree.args.get("distinct") is None
    for each in tree.expressions if picks else ():
        if each.find(exp.Window):
            return text.refused("a window over people's rows", each, "GROUP BY, and a window over its aggregates")
        if each.is_star:
            return text.refused("*", each, "COUNT(*), and columns in GROUP BY", why="it shows rows of people")
        for column in each.find_all(exp.Column):
            if not found.matches(column):
                return found.unknown(column)
        return text.refused(
            f"column {each.alias_or_name}",
            each,
            "the column in GROUP BY, or inside an aggregate",
            why="it shows rows of people",
        )
    return text.refused("a statement without an aggregate", 0, "COUNT(*), SUM, AVG, ...")


def _price(options: Options, budget: Mapping[str, Any], default: Mapping[str, float]) -> dict[str, Any] | None:
    """The words of the cost: the statement's own, those beside it, or the registered ones; None without any."""
    given = {name: value for name, value in budget.items() if value is not None and value is not False}
    for price in (options.price, given, dict(default)):
        if any(word in price for word in AMOUNTS_OF_PRICE):
            # a delta, or the word pure, that the asker names makes any price the asker's own
            return {**price, **_named(given), **_named(options.price)}
    return None


def _no_price(query: Query) -> InvalidInput:
    """The error for a statement without a cost, with costs that its account can pay."""
    remedies = example_prices(query, query.table.account)
    problem = InvalidInput("price", None, "", code="no_price", remedies=remedies, problem="no cost is named")
    return problem.in_words_of("sql")


def _named(price: Mapping[str, Any]) -> dict[str, Any]:
    """The words that go with the cost that counts."""
    return {name: price[name] for name in ("delta", "pure") if name in price}


def _overridden(options: Options, budget: Mapping[str, Any]) -> tuple[str, ...]:
    """Which cost counts, where the statement and what stands beside it name different ones."""
    own = {name: value for name, value in options.price.items() if name not in ("confidence", "pure")}
    beside = {name: value for name, value in budget.items() if value is not None and name not in ("confidence", "pure")}
    names_price = any(word in own for word in AMOUNTS_OF_PRICE)
    lost = [name for name, value in beside.items() if own.get(name, value) != value]
    lost += [name for name in beside if names_price and name not in own and name != "delta"]
    if not lost:
        return ()
    said, left = (
        ", ".join(f"{name}={typed(each[name])}" for name in names) for each, names in ((own, own), (beside, lost))
    )
    return (f"the cost is that of the statement, OPTIONS({said}), and not {left} beside it",)


def _check_most(price: Mapping[str, Any], plan: Plan, most: Mapping[str, float]) -> None:
    """Refuse a cost above what the owner lets one statement cost, for all words in which it is given."""
    for word, limit in most.items():
        asked = max(price.get(word, 0), plan.budget.get(word) or 0)  # a price may also follow from a wished error
        if asked > limit:
            raise _above_most(plan, word, limit, f"this one names {word} {typed(asked)}")
    unsaid = "epsilon" in most and "epsilon" not in price
    if unsaid and plan.privacy.epsilon(delta=most.get("delta", 0.0)) > most["epsilon"]:
        raise _above_most(plan, "epsilon", most["epsilon"], "this one costs more")
    if "rho" in most and "rho" not in plan.budget:
        _check_most_rho(plan, most["rho"])


def _check_most_rho(plan: Plan, most: float) -> None:
    """Refuse a cost that is not in rho if its cost is above the most, or if the account does not count rho."""
    account = plan.account
    if account is None or account.currency.kind != "zcdp":
        raise _above_most(plan, "rho", most, "this one does not name a rho")
    cost = plan.price(account)
    if cost.first <= as_written("rho", most):
        return
    if is_unstated(plan, account):
        problem = _two_costs_within(plan, account, most)
        if problem is not None:
            raise problem
    raise _above_most(plan, "rho", most, f"this one costs rho {up(cost.first)}")


def _two_costs_within(plan: Plan, account: Account, most: float) -> InvalidInput | None:
    """The two costs of an epsilon without a delta, if a remedy stays below the most that a statement may cost."""
    problem = stated_costs(plan, account)
    limit = as_written("rho", most)
    costs = {"mean_pure": problem.pure, "give_delta": problem.with_delta}
    kept = [each for each in problem.remedies if each.kind in costs and costs[each.kind].first <= limit]
    if not kept:
        return None
    epsilon = float(plan.budget["epsilon"])
    return EpsilonWithoutDelta(
        epsilon,
        pure=problem.pure,
        delta=problem.delta,
        with_delta=problem.with_delta,
        reasons=("above_most", "above_most"),
        remedies=kept,
    ).in_words_of("sql")


def _above_most(plan: Plan, word: str, most: float, said: str) -> Refused:
    """The refusal of a cost above what the owner allows, with the largest cost in that word that can be paid."""
    message = f"the owner allows at most {word} {typed(most)} in a statement, and {said}"
    account = plan.account
    remedies = []
    if account is not None and word in ("rho", "epsilon"):
        given = {word: most} if word == "rho" or counts_epsilon(account) else {word: most, "delta": USUAL_DELTA}
        if is_payable(plan.query, account, given):
            value = given.pop(word)
            remedies.append(Remedy("set_argument", argument=word, value=value, **({"more": given} if given else {})))
    return NotAnswered(message, remedies=remedies).in_words_of("sql")


def _delta_notes(options: Options, plan: Plan) -> tuple[str, ...]:
    """Notes on the part of a named delta that is charged, where that is not all of it, and why."""
    named, keys = options.given.get("delta"), plan.query.keys
    if not named or "epsilon" in plan.budget:  # noise at a price in epsilon takes what the groups leave
        return ()
    if not isinstance(keys, PrivateKeys):
        return (
            f"delta {typed(named)} is not charged: the groups are public, and noise at a cost in rho needs no delta",
        )
    if keys.delta == named:
        return ()
    why = "half of the delta finds groups" if 2 * keys.delta == named else "the registered key_delta finds groups"
    charged = f"delta {typed(keys.delta)} is charged, and not {typed(named)}"
    return (f"{charged}: {why}, and noise at a cost in rho needs no delta",)
