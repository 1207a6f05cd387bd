"""Text to a tree of sqlglot that holds nothing but what is on a closed list of nodes and of their arguments.

A parser that is newer than this list, or more tolerant than SQL, cannot smuggle anything in: what the list does not
name is refused with its name, its position and what works instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from tallystick.errors import InvalidInput, NotAnswered, Remedy
from tallystick.tables.sql.refusals import FIXES, FIXES_BY_NAME, WORDS_OF, of_argument
from tallystick.tables.sql.refusals import spelled as spelled

LONGEST_TEXT = 100_000
MOST_TOKENS = 10_000
LONGEST_NUMBER = 400
"""Digits: a double that is written out has 309 before its point."""
DEEPEST_TOKENS = 30
DEEPEST_TREE = 120


class Reading(Postgres):
    """PostgreSQL's SQL, in which no word swallows the rest of the text as an opaque command.

    Missing values come last in every order, with DESC as without: ``nulls_first`` is what the caller typed.
    """

    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(Postgres.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            **PostgresParser.FUNCTIONS,
            "DATE_TRUNC": lambda args: _of_unit(exp.TimestampTrunc, args, ("this",)),
            **dict.fromkeys(
                ("DATE_DIFF", "DATEDIFF"), lambda args: _of_unit(exp.DateDiff, args, ("expression", "this"))
            ),
        }


UNITS_OF_TIME = ("year", "quarter", "month", "week", "day")


def _of_unit(kind: type[exp.Func], args: list[exp.Expr], keys: tuple[str, ...]) -> exp.Expr:
    """A function of dates and a unit: the unit first, as DuckDB and Snowflake have it, or last, as BigQuery has it.

    BigQuery also turns the dates round, and so does MySQL, which counts days and names no unit.
    """
    words = [each.name.lower() in UNITS_OF_TIME for each in args]
    if len(args) == 2 and kind is exp.DateDiff:
        unit, dates = exp.Literal.string("day"), args[::-1]
    elif len(args) != len(keys) + 1:
        return exp.Anonymous(this=kind.sql_name(), expressions=args)
    elif args[0].is_string or (words[0] and not words[-1]):
        unit, dates = exp.Literal.string(args[0].name), args[1:]
    else:
        unit, dates = exp.Literal.string(args[-1].name), args[-2::-1]
    return kind(**dict(zip(keys, dates, strict=True)), unit=unit)


@dataclass(frozen=True, slots=True)
class Text:
    """A statement's text, and where things stand in it; the first ``before`` characters are ours."""

    text: str
    before: int = 0

    def tokens(self) -> list[Token]:
        """The words of one statement of modest size; several statements and unfilled templates are refused."""
        if not isinstance(self.text, str) or not self.text.strip():
            raise InvalidInput("sql", self.text, "a SELECT statement")
        if len(self.text) > LONGEST_TEXT:
            raise InvalidInput("sql", f"{len(self.text)} characters", f"at most {LONGEST_TEXT}")
        try:
            found: list[Token] = Reading().tokenize(self.text)
        except SqlglotError:
            raise self.wrong("a quote or a comment", self._left_open(), "one that is closed again") from None
        if len(found) > MOST_TOKENS:
            raise InvalidInput("sql", f"{len(found)} words", f"at most {MOST_TOKENS}")
        while found and found[-1].token_type is TokenType.SEMICOLON:
            found.pop()
        self._check_words(found)
        return found

    def _left_open(self) -> int:
        """Position of the quote or comment that nothing closes."""
        pieces = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|('|\"|/\*)|.", re.DOTALL)
        return next((found.start() for found in pieces.finditer(self.text) if found[1]), 0)

    def _check_words(self, tokens: list[Token]) -> None:
        depth = run = 0
        for i, token in enumerate(tokens):
            if token.token_type is TokenType.SEMICOLON:
                raise self.wrong("several statements in one text", token.start, "one statement at a time")
            if token.token_type in _TEMPLATES:
                said = token.text + (tokens[i + 1].text if i + 1 < len(tokens) else "")
                raise self.wrong(f"the placeholder {said}", token.start, "the statement with its values filled in")
            if token.token_type is TokenType.NUMBER and len(token.text) > LONGEST_NUMBER:
                said = f"a number of {len(token.text)} digits"  # Python reads none of more than 4,300
                raise self.wrong(said, token.start, f"at most {LONGEST_NUMBER}")
            if token.text == "`":
                raise self.wrong("a backtick", token.start, 'the quote of standard SQL for names, "ward"')
            depth += _OPENS.get(token.token_type, 0)
            run = run + 1 if token.token_type in _PREFIXES else 0
            if depth > DEEPEST_TOKENS or run > DEEPEST_TOKENS:
                raise self.refused("nesting this deep", token.start, f"at most {DEEPEST_TOKENS} levels")

    def tree(self, tokens: list[Token]) -> exp.Query:
        """The tree of one SELECT (or a union of such); no node and no argument outside the list."""
        try:
            trees = Reading().parser(max_errors=1).parse(tokens, self.text)
        except SqlglotError as error:
            raise self._unread(tokens, (getattr(error, "errors", None) or [{}])[0]) from None
        except RecursionError:
            raise InvalidInput("sql", "nesting this deep", f"at most {DEEPEST_TOKENS} levels") from None
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise self.refused("what is not a SELECT", 0, "a SELECT statement")
        self._check_nodes(trees[0])
        return trees[0]

    def _unread(self, tokens: list[Token], first: Mapping[str, Any]) -> InvalidInput:
        """Error for words that are not a statement: the word that does not fit, and what may be wrong before it."""
        said = str(first.get("highlight") or "") or "this"
        line, column = first.get("line", 1), max(1, first.get("col", 1) - len(said) + 1)
        foreign = next((fix for word, fix in _FOREIGN.items() if word in self.text.upper()), None)
        opened: list[Token] = []
        for token in tokens:
            opened += [token] if token.token_type is TokenType.L_PAREN else []
            del opened[len(opened) - (token.token_type is TokenType.R_PAREN) :]
        before = [
            t.text for t in tokens if t.token_type is TokenType.VAR and (t.line, t.col) <= (line, column + len(said))
        ]
        near = [
            (word, match) for word in before for match in get_close_matches(word.upper(), KEYWORDS, n=1, cutoff=0.7)
        ]
        if foreign is not None:
            allowed = foreign
        elif near:
            allowed = (
                f"{near[-1][1]} in place of {near[-1][0]}, if that was meant, or a SELECT statement in which it fits"
            )
        elif opened:
            allowed = f"a bracket that closes the one in {self.position(opened[-1].start)}"
        else:
            allowed = "a SELECT statement in which it fits: a word, a comma or a bracket before it may be missing"
        found = f"{said} (line {line}, column {column})"
        return InvalidInput("sql", found, allowed, problem=f"{found} is not allowed")

    def _check_nodes(self, root: exp.Expr) -> None:
        level = [root]
        for _ in range(DEEPEST_TREE):
            for node in level:
                self.check_node(node)
            level = [child for node in level for child in node.iter_expressions()]
            if not level:
                return
        raise self.refused(
            "an expression this deep", where(level[0]), f"at most {DEEPEST_TREE} levels: use subqueries or IN"
        )

    def check_node(self, node: exp.Expr) -> None:
        """Refuse a node, or an argument of a node, that is not on the list."""
        kind = type(node)
        if kind not in ALLOWED:
            word = self._typed(node)
            known = FIXES.get(kind) or FIXES_BY_NAME.get(word)
            if kind is exp.Anonymous and known is None:
                raise self.wrong(f"function {word}", node, self._functions(node, word))
            raise self.refused(word, node, known or self._functions(node, word))
        for key, value in node.args.items():
            if value and key not in ALLOWED[kind]:
                word, fix = of_argument(node, key)
                raise self.refused(word, value if isinstance(value, exp.Expr) else node, fix)

    def _typed(self, node: exp.Expr) -> str:
        """The word as it stands in the text, where it is a function's name; parsers have other names."""
        found = re.match(r"[A-Za-z_]\w*(?=\s*\()", self.text[node.meta["start"] :]) if "start" in node.meta else None
        return spelled(node) if found is None or type(node) in WORDS_OF else found[0].upper()

    def _functions(self, node: exp.Expr, word: str) -> str:
        near = get_close_matches(word, FUNCTIONS, n=1, cutoff=0.7) if isinstance(node, exp.Func) else []
        return f"{near[0]} (did you mean this?), or {NO_SUCH}" if near else NO_SUCH

    def refused(
        self, what: str, at: int | exp.Expr | None, fix: str, *, why: str = "", remedies: Iterable[Remedy] = ()
    ) -> NotAnswered:
        """The error for what cannot be answered: what, where it stands (None: beside the text), and what works."""
        place = "" if at is None else f" ({self.position(at)})"
        reason = f": {why}" if why else ""
        ways = [Remedy("rewrite", to=fix)] if fix else []
        message = f"{what}{place} cannot be answered{reason}"
        return NotAnswered(message, remedies=[*ways, *remedies]).in_words_of("sql")

    def wrong(
        self,
        what: str,
        at: int | exp.Expr,
        allowed: str,
        *,
        code: str | None = None,
        remedies: Iterable[Remedy] = (),
        is_problem: bool = False,
    ) -> InvalidInput:
        """The error for what is not understood: a name or a type that does not fit.

        ``is_problem``: ``what`` is the whole problem already.
        """
        found = f"{what} ({self.position(at)})"
        problem = found if is_problem else f"{found} is not allowed"
        error = InvalidInput("sql", found, allowed, code=code, remedies=remedies, problem=problem)
        return error.in_words_of("sql")

    def _start(self, node: exp.Expr) -> int:
        """Some nodes do not know their place: then the last time their word stands before their first child."""
        first = where(node)
        if "start" in node.meta:
            return first
        found = self.text.upper().rfind(spelled(node), 0, first or len(self.text))
        return found if found >= 0 else first

    def position(self, at: int | exp.Expr) -> str:
        """Line and column, both from 1."""
        start = at if isinstance(at, int) else self._start(at)
        passed = self.text[self.before : start]
        line, column = passed.count(chr(10)) + 1, len(passed) - passed.rfind(chr(10))
        return f"line {line}, column {column}"


def where(node: exp.Expr) -> int:
    """Position at which a node begins in the text, or else the first of its children that knows."""
    return min((each.meta["start"] for each in _few(node) if "start" in each.meta), default=0)


def _few(node: exp.Expr) -> Iterator[exp.Expr]:
    for count, each in enumerate(node.walk()):
        if count > 2_000:
            return
        yield each


_OPENS = {
    **dict.fromkeys((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE), 1),
    **dict.fromkeys((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END), -1),
}
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_TEMPLATES = (TokenType.L_BRACE, TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.COLON, TokenType.BLOCK_START)
_FOREIGN = {
    "SELECT TOP ": "LIMIT at the end in place of TOP",
    "WITH ANONYMIZATION": "WITH DIFFERENTIAL_PRIVACY in place of WITH ANONYMIZATION, and COUNT, SUM, AVG without ANON_",
}

_TWO, _ONE = frozenset(("this", "expression")), frozenset(("this",))
_LIST = frozenset(("this", "expressions"))

ALLOWED: dict[type[exp.Expr], frozenset[str]] = {
    # statements
    exp.Select: frozenset(
        ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_")
    ),
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), frozenset(
        ("this", "expression", "distinct", "order", "limit", "offset", "with_"))),
    exp.With: frozenset(("expressions",)),
    exp.CTE: frozenset(("this", "alias")),
    exp.Subquery: frozenset(("this", "alias", "with_")),
    exp.From: _ONE,
    exp.Where: _ONE,
    exp.Having: _ONE,
    exp.Group: frozenset(("expressions",)),
    exp.Order: frozenset(("expressions",)),
    exp.Ordered: frozenset(("this", "desc", "nulls_first")),
    exp.Limit: frozenset(("expression",)),
    exp.Offset: frozenset(("expression",)),
    exp.Fetch: frozenset(("direction", "count", "limit_options")),
    exp.LimitOptions: frozenset(("rows",)),
    exp.Distinct: frozenset(("expressions",)),
    exp.Join: frozenset(("this", "side", "kind", "on", "using")),
    exp.Table: frozenset(("this", "alias", "db")),
    exp.TableAlias: frozenset(("this", "columns")),
    exp.Values: frozenset(("expressions", "alias")),
    exp.Tuple: frozenset(("expressions",)),
    # names and constants
    exp.Column: frozenset(("this", "table", "db")),
    exp.Identifier: frozenset(("this", "quoted")),
    exp.Alias: frozenset(("this", "alias")),
    exp.Star: frozenset(),
    exp.Literal: frozenset(("this", "is_string")),
    exp.Boolean: _ONE,
    exp.Null: frozenset(),
    exp.Var: _ONE,
    exp.DataType: frozenset(("this", "expressions")),
    exp.DataTypeParam: _ONE,
    exp.Interval: frozenset(("this", "unit")),
    exp.Paren: _ONE,
    # conditions
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _TWO),
    exp.Not: _ONE,
    exp.Is: frozenset(("this", "expression", "negate")),
    exp.In: frozenset(("this", "expressions", "query")),
    exp.Between: frozenset(("this", "low", "high")),
    **dict.fromkeys((exp.Like, exp.ILike), frozenset(("this", "expression", "negate"))),
    exp.Exists: _ONE,
    # values
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod), _TWO),
    exp.Div: frozenset(("this", "expression", "typed", "safe")),
    exp.DPipe: frozenset(("this", "expression", "safe")),
    exp.Neg: _ONE,
    exp.Case: frozenset(("ifs", "default", "this")),
    exp.If: frozenset(("this", "true", "false")),
    exp.Cast: frozenset(("this", "to")),
    exp.Coalesce: _LIST,
    exp.Nullif: _TWO,
    exp.Greatest: frozenset(("this", "expressions", "ignore_nulls")),
    exp.Least: frozenset(("this", "expressions", "ignore_nulls")),
    **dict.fromkeys((exp.Abs, exp.Floor, exp.Ceil, exp.Lower, exp.Upper, exp.Length), _ONE),
    exp.Trim: frozenset(("this", "position")),
    exp.Left: _TWO,
    **dict.fromkeys((exp.Year, exp.Month, exp.Day, exp.Quarter, exp.DayOfYear), _ONE),
    exp.DateDiff: frozenset(("this", "expression", "unit")),
    exp.Escape: _TWO,
    exp.Concat: frozenset(("expressions", "safe", "coalesce")),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), _TWO),
    **dict.fromkeys((exp.Sqrt, exp.Ln, exp.Exp, exp.Sign), _ONE),
    exp.Pow: _TWO,
    exp.Pi: frozenset(),
    exp.Round: frozenset(("this", "decimals")),
    exp.Substring: frozenset(("this", "start", "length")),
    exp.Extract: _TWO,
    exp.TimestampTrunc: frozenset(("this", "unit")),
    exp.WidthBucket: frozenset(("this", "min_value", "max_value", "num_buckets")),
    # aggregates and windows
    exp.Count: frozenset(("this", "big_int")),
    **dict.fromkeys(
        (exp.Sum, exp.Avg, exp.Median, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop,
         exp.Min, exp.Max, exp.LogicalOr, exp.LogicalAnd, exp.PercentileCont, exp.CountIf), _ONE),
    exp.Filter: _TWO,
    exp.WithinGroup: _TWO,
    exp.Window: frozenset(("this", "partition_by", "order", "over", "spec")),
    exp.WindowSpec: frozenset(("kind", "start", "start_side", "end", "end_side")),
    **dict.fromkeys((exp.RowNumber, exp.Rank, exp.DenseRank), frozenset()),
    **dict.fromkeys((exp.Lag, exp.Lead), frozenset(("this", "offset"))),
    **dict.fromkeys((exp.FirstValue, exp.LastValue), _ONE),
}  # fmt: skip
"""Every node that is read, with the arguments that are looked at."""

NO_SUCH = "the functions listed in the guide 'Ask in SQL'"
FUNCTIONS = sorted(
    {WORDS_OF.get(kind) or kind.sql_name() for kind in ALLOWED if issubclass(kind, exp.Func)}
    - {"AND", "OR", "CASE", "CAST"}
)
"""What a misspelt function is compared with."""

KEYWORDS = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "JOIN",
    "UNION",
    "BETWEEN",
    "EXPLAIN",
    "WITH",
)


def children(node: exp.Expr, key: str) -> list[Any]:
    """A list argument, empty where it is missing."""
    return list(node.args.get(key) or ())
