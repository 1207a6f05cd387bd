"""The unit-local oracle: are the rows that a statement adds up the sum over units of what each unit's rows alone make?

It never looks at a plan. The rows are taken out of the statement's own text with sqlglot, by rules written here from
the definition in docs/theory/unit-local.md, and plain DuckDB runs them: on a whole small database, and on the rows of
each of its units alone, with the public tables whole every time. Bags that differ convict the statement.
"""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
from sqlglot import exp, parse_one

from sql.small_tables import COLUMNS, OTHERS, PUBLIC, UNITS, arrow, plain

DATABASES = 12
_OURS = re.compile(
    r"WITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\([^)]*\))?|CLAMPED\s+BETWEEN\s+\S+\s+AND\s+[^\s)]+", re.I
)
_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup)
Outputs = list[tuple[str, bool]]
"""The columns of a relation, and whether each is a unit that is never missing."""


def without_our_words(text: str) -> str:
    """The statement as plain SQL has it."""
    return _OURS.sub("", text)


def differs(text: str, databases: int = 1, first: int = 0, *, outermost: bool = False) -> str | None:
    """Why the statement's rows are not unit-local, or None where nothing speaks against it.

    With ``outermost``, the rows of the outermost SELECT, as if nothing inside were an answer.
    """
    query, _ = rows_of(text, outermost=outermost)
    engine().execute(f"PREPARE rows_asked AS {query}")
    for number in range(first, first + databases):
        mark = f"d{number % DATABASES}"
        whole, alone = Counter(run("EXECUTE rows_asked", mark)), Counter[tuple[Any, ...]]()
        for unit in range(UNITS):
            alone.update(run("EXECUTE rows_asked", f"{mark}_{unit}"))
        if whole != alone:
            more, less = whole - alone, alone - whole
            return f"{sum(more.values())} rows only of the whole, {sum(less.values())} only of single units: {query}"
    return None


# ---- plain DuckDB


@functools.cache
def engine() -> duckdb.DuckDBPyConnection:
    """Small random databases, each whole (d0) and cut to one unit's rows (d0_3), under the names of the catalogue.

    All of them lie in one table with a mark, and a view shows the rows that have the mark of the hour: so that a query
    is bound once, whatever it is asked about.
    """
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("PRAGMA disable_optimizer")  # a handful of rows need none, and DuckDB 2.0's stumbles over some
    connection.execute("CREATE SCHEMA public; USE public; CREATE TABLE main.asked (mark VARCHAR)")
    connection.execute("INSERT INTO main.asked VALUES ('d0')")
    drawn = {f"d{number}": plain(random.Random(f"database {number}")) for number in range(DATABASES)}
    for name, columns in (("t", COLUMNS), ("u", OTHERS)):
        for mark, rows in drawn.items():
            connection.register("given", arrow(rows)[name])
            marked = f"SELECT *, '{mark}' AS mark FROM given UNION ALL SELECT *, '{mark}_' || unit AS mark FROM given"
            new = "CREATE TABLE IF NOT EXISTS" if mark == "d0" else "INSERT INTO"
            connection.execute(f"{new} main.every_{name} {'AS ' if mark == 'd0' else ''}{marked}")
        seen = f"SELECT {', '.join(columns)} FROM main.every_{name} WHERE mark = (SELECT mark FROM main.asked)"
        connection.execute(f"CREATE VIEW {name} AS {seen}")
    for name, public in PUBLIC.items():
        kinds = {"text": "VARCHAR", "integer": "BIGINT"}
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {kinds[k]}' for c, k in public.columns)})")
        places = ", ".join("?" * len(public.columns))
        connection.executemany(f"INSERT INTO {name} VALUES ({places})", [list(row) for row in public.rows])
    return connection


def run(query: str, database: str) -> list[tuple[Any, ...]]:
    """What plain SQL says in one of the databases."""
    engine().execute("UPDATE main.asked SET mark = ?", [database])
    return engine().execute(query).fetchall()


# ---- which rows a statement adds up


@functools.lru_cache(maxsize=4)
def rows_of(text: str, *, outermost: bool = False) -> tuple[str, int]:
    """The query for the rows that go into the innermost aggregates of many units' rows, and by how many columns these
    are grouped; a plan must group by as many.
    """
    tree = parse_one(without_our_words(text), read="duckdb")
    found, named = (tree, _names(tree, {})) if outermost else _adding(tree, {})
    if not isinstance(found, exp.Select):
        raise ValueError("a set operation is no answer")
    group = found.args.get("group")
    groups = len(group.expressions) if group is not None else 0
    values = [exp.alias_(_value(each), f"m{i}_") for i, each in enumerate(_aggregates(found))]
    public_first = _public_first(found, named)
    before = _before(found)
    for part in ("group", "having", "order", "limit", "offset", "distinct", "qualify", "with_"):
        found.set(part, None)
    found.set("expressions", [exp.Star(), *values])
    query = found.sql(dialect="duckdb")
    if public_first and values:  # a public row without a partner counts only where something is counted
        counted = " OR ".join(f"m{i}_ IS NOT NULL" for i in range(len(values)))
        query = f"SELECT * FROM ({query}) AS rows_ WHERE {counted}"
    for each in before:
        query = f"WITH {', '.join(each)} SELECT * FROM ({query}) AS rows_"
    return query, groups


def _before(found: exp.Expr) -> list[list[str]]:
    """The WITH queries that a place in the statement sees, the nearest first."""
    levels: list[list[str]] = []
    node: exp.Expr | None = found
    while node is not None:
        before = node.args.get("with_")
        if before is not None:
            cut = next((i for i, each in enumerate(before.expressions) if _within(found, each)), None)
            levels.append([each.sql(dialect="duckdb") for each in before.expressions[:cut]])
        node = node.parent
    return [each for each in levels if each]


def _within(node: exp.Expr, ancestor: exp.Expr) -> bool:
    at: exp.Expr | None = node
    while at is not None and at is not ancestor:
        at = at.parent
    return at is ancestor


@dataclass(frozen=True)
class Named:
    """A WITH query: its tree, what it sees, and its columns."""

    tree: exp.Expr
    named: Mapping[str, Named]
    outputs: Outputs


def _adding(node: exp.Expr, named: Mapping[str, Named]) -> tuple[exp.Select, Mapping[str, Named]]:
    """The SELECT whose aggregates are of many units: the one inside, where this one is only about its answer."""
    named = _names(node, named)
    if isinstance(node, exp.Subquery):
        return _adding(node.this, named)
    if not isinstance(node, exp.Select):
        raise ValueError("a set operation is no answer")
    start = node.args["from_"].this
    if not node.args.get("joins"):
        inner, sees = _query_of(start, named)
        if inner is not None and _answers(inner, sees):
            return _adding(inner, sees)
    return node, named


def _query_of(item: exp.Expr, named: Mapping[str, Named]) -> tuple[exp.Expr | None, Mapping[str, Named]]:
    if isinstance(item, exp.Subquery):
        return item.this, named
    if isinstance(item, exp.Table) and not item.args.get("db") and item.name.lower() in named:
        found = named[item.name.lower()]
        return found.tree, found.named
    return None, named


def _answers(node: exp.Expr, named: Mapping[str, Named]) -> bool:
    """Whether a query adds rows of many units up, or is about the answer of one that does."""
    named = _names(node, named)
    if isinstance(node, exp.Subquery):
        return _answers(node.this, named)
    if not isinstance(node, exp.Select) or node.args.get("from_") is None:
        return False
    if (node.args.get("group") is not None or _aggregates(node)) and not _by_unit(node, named):
        return True
    if node.args.get("joins"):
        return False
    inner, sees = _query_of(node.args["from_"].this, named)
    return inner is not None and _answers(inner, sees)


def _aggregates(select: exp.Select) -> list[exp.Expr]:
    """Aggregates outside of windows and subqueries; inside a window over the output there may be some."""
    found: list[exp.Expr] = []
    waiting = [*select.expressions, select.args.get("having"), select.args.get("order"), select.args.get("qualify")]
    while waiting:
        one = waiting.pop(0)
        if one is None or isinstance(one, exp.Query):
            continue
        if isinstance(one, exp.Window):
            waiting += [*one.this.iter_expressions(), *(one.args.get("partition_by") or ()), one.args.get("order")]
        elif isinstance(one, _AGGREGATES):
            found.append(one)
        else:
            waiting += list(one.iter_expressions())
    return found


def _value(node: exp.Expr) -> exp.Expr:
    """What a row gives to an aggregate, missing where it gives nothing."""
    if isinstance(node, exp.Filter):
        return exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=_value(node.this))])
    if isinstance(node, exp.WithinGroup):
        return node.expression.expressions[0].this.copy()
    inner = node.this
    if isinstance(inner, exp.Distinct):
        inner = inner.expressions[0]
    if inner is None or isinstance(inner, exp.Star):
        return exp.Literal.number(1)
    return inner.copy()


def _public_first(query: exp.Expr, named: Mapping[str, Named]) -> bool:
    """Whether public rows come first somewhere and may be left without a partner."""
    for select in query.find_all(exp.Select):
        start, joins = select.args.get("from_"), select.args.get("joins") or ()
        outer = any(str(join.args.get("side") or "").upper() == "LEFT" for join in joins)
        if outer and start is not None and not _private(start.this, _seen_from(select, named)):
            return True
    return any(_public_first(each.tree, each.named) for each in named.values())


def _seen_from(select: exp.Select, named: Mapping[str, Named]) -> Mapping[str, Named]:
    """The WITH queries around a SELECT, the nearest last."""
    around: list[exp.Expr] = []
    node: exp.Expr | None = select
    while node is not None:
        around.append(node)
        node = node.parent
    for each in reversed(around):
        named = _names(each, named)
    return named


def _private(item: exp.Expr, named: Mapping[str, Named]) -> bool:
    for table in item.find_all(exp.Table):
        known = named.get(table.name.lower()) if not table.args.get("db") else None
        if _private(known.tree, known.named) if known is not None else table.name.lower() in ("t", "u"):
            return True
    return False


# ---- which columns are units


def _names(node: exp.Expr, named: Mapping[str, Named]) -> Mapping[str, Named]:
    before, seen = node.args.get("with_"), dict(named)
    for each in before.expressions if before is not None else ():
        made = _renamed(_outputs(each.this, seen), each.args["alias"])
        seen[each.alias.lower()] = Named(each.this, dict(seen), made)
    return seen


def _renamed(outputs: Outputs, alias: exp.Expr | None) -> Outputs:
    names = [each.name.lower() for each in (alias.args.get("columns") or ())] if alias is not None else []
    return [(names[i] if i < len(names) else name, unit) for i, (name, unit) in enumerate(outputs)]


def _outputs(node: exp.Expr, named: Mapping[str, Named]) -> Outputs:
    """The columns of a query."""
    named = _names(node, named)
    if isinstance(node, exp.Subquery):
        return _outputs(node.this, named)
    if isinstance(node, exp.SetOperation):
        left, right = _outputs(node.this, named), _outputs(node.expression, named)
        return [(name, unit and other) for (name, unit), (_, other) in zip(left, right, strict=False)]
    if not isinstance(node, exp.Select):
        return []
    sources, made = _sources(node, named), Outputs()
    for each in node.expressions:
        value = each.unalias()
        if isinstance(value, exp.Star):
            made += [column for _, columns in sources for column in columns]
        elif isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            made += [column for name, columns in sources if name == value.table.lower() for column in columns]
        else:
            made.append((each.alias_or_name.lower(), _is_unit(value, sources)))
    return made


def _sources(select: exp.Select, named: Mapping[str, Named]) -> list[tuple[str, Outputs]]:
    """What is in FROM by name; after an outer join the unit of a side that may be missing is none."""
    start = select.args.get("from_")
    found = [_item(start.this, named)] if start is not None else []
    for join in select.args.get("joins") or ():
        name, columns = _item(join.this, named)
        side = str(join.args.get("side") or "").upper()
        if side in ("LEFT", "FULL"):
            columns = [(column, False) for column, _ in columns]
        if side in ("RIGHT", "FULL"):
            found = [(other, [(column, False) for column, _ in each]) for other, each in found]
        found.append((name, columns))
    if any(str(join.args.get("side") or "").upper() == "FULL" for join in select.args.get("joins") or ()):
        using = any(
            column.name.lower() == "unit" for join in select.args["joins"] for column in join.args.get("using") or ()
        )
        found.insert(0, ("", [("unit", True)] if using else []))
    return found


def _item(item: exp.Expr, named: Mapping[str, Named]) -> tuple[str, Outputs]:
    alias = item.args.get("alias")
    if isinstance(item, exp.Subquery):
        return item.alias.lower(), _renamed(_outputs(item.this, named), alias)
    if isinstance(item, exp.Table):
        known = named.get(item.name.lower()) if not item.args.get("db") else None
        stored = {"t": COLUMNS, "u": OTHERS}.get(item.name.lower())
        if known is not None:
            columns = known.outputs
        elif stored is not None:
            columns = [(column, column == "unit") for column in stored]
        else:
            columns = [(column, False) for column, _ in getattr(PUBLIC.get(item.name.lower()), "columns", ())]
        return item.alias_or_name.lower(), _renamed(columns, alias)
    return item.alias_or_name.lower(), []


def _is_unit(value: exp.Expr, sources: list[tuple[str, Outputs]]) -> bool:
    """Whether an expression is a unit itself: its column, or the one of two that is there after a full join."""
    value = value.unnest()
    if isinstance(value, exp.Coalesce):
        both = [value.this, *value.expressions]
        stored = [(name, [(column, column == "unit") for column, _ in columns]) for name, columns in sources]
        return len(both) == 2 and not any(u for _, c in sources for _, u in c) and all(
            isinstance(each, exp.Column) and _is_unit(each, stored) for each in both
        )  # fmt: skip
    if not isinstance(value, exp.Column):
        return False
    owner, wanted = value.table.lower(), value.name.lower()
    found = [unit for name, columns in sources if owner in ("", name) for column, unit in columns if column == wanted]
    return bool(found) and found[0]


def _by_unit(select: exp.Select, named: Mapping[str, Named]) -> bool:
    """Whether a unit is among what is grouped by."""
    group, sources = select.args.get("group"), _sources(select, named)
    for each in group.expressions if group is not None else ():
        if isinstance(each, exp.Literal) and str(each.this).isdigit() and int(each.this) <= len(select.expressions):
            each = select.expressions[int(each.this) - 1].unalias()
        elif isinstance(each, exp.Column) and not each.table:
            own = [c for _, columns in sources for c, _ in columns if c == each.name.lower()]
            listed = [one for one in select.expressions if one.alias.lower() == each.name.lower()]
            each = listed[0].unalias() if listed and not own else each
        if _is_unit(each, sources):
            return True
    return False
