"""The few words on which SQL dialects differ, and the trees that all of them share.

Everything is built as a sqlglot tree, so constants are quoted by the dialect's own rules and no text of a user is ever
pasted into SQL. A column goes by its place (``c0``, ``c1``, ...) as soon as it is read: engines disagree on which names
are the same. What is read has one of five types in all engines (64-bit integer, double without NaN, text compared byte
by byte, boolean, date of the years 1 to 9999), so everything computed from it is total and the same everywhere.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sqlglot import exp

from tallystick.tables.schema import Schema

Tree = exp.Expr
LARGE: Final = 1e300
"""Stored numbers are pulled into [-LARGE, LARGE] and those closer to 0 than its inverse to 0."""

HUGE: Final = 1e100
"""Operands of arithmetic are pulled into [-HUGE, HUGE] and tiny ones to 0, so that no engine can overflow."""

LONGEST_TEXT: Final = 1 << 12
"""Bytes of a text. Engines fail on what they make of longer ones: PostgreSQL on the lower case of 256 MiB, and any of
them where a person's hundred long texts meet each other in a join and are sorted."""

UNCHECKED: Final = "unchecked"
"""The engine's type of a text that was not checked: it may hold bytes that are not text."""

SATURATED_CELL: Final = 1 << 50
SATURATED_TOTAL: Final = 1 << 62


def name(text: str, table: str | None = None) -> exp.Column:
    """A quoted column name."""
    return exp.column(exp.to_identifier(text, quoted=True), table=table)


def table(text: str, alias: str | None = None) -> exp.Table:
    """A quoted table name of ours."""
    named = exp.Table(this=exp.to_identifier(text, quoted=True))
    return exp.alias_(named, alias, table=True) if alias else named  # type: ignore[return-value]


def place(schema: Schema, column: str) -> str:
    """Name of a column in SQL: its place among the columns."""
    return f"c{schema.place_of(column)}"


def fresh(tree: Tree) -> Tree:
    """The tree, or a copy of it where it already stands in another: what is built so is copied where it must be."""
    return tree if tree.parent is None else tree.copy()


def both(left: Tree, right: Tree) -> Tree:
    """Two conditions at once, in brackets."""
    return exp.Paren(this=exp.And(this=fresh(left), expression=fresh(right)))


def either(left: Tree, right: Tree) -> Tree:
    """One of two conditions, in brackets."""
    return exp.Paren(this=exp.Or(this=fresh(left), expression=fresh(right)))


def whole(value: int) -> Tree:
    """An integer constant."""
    return exp.Literal.number(str(value)) if value >= 0 else exp.Neg(this=exp.Literal.number(str(-value)))


def case(branches: Sequence[tuple[Tree, Tree]], otherwise: Tree) -> exp.Case:
    """CASE WHEN ... THEN ... ELSE ... END."""
    ifs = [exp.If(this=fresh(condition), true=fresh(value)) for condition, value in branches]
    return exp.Case(ifs=ifs, default=fresh(otherwise))


def compare(kind: type[exp.Binary], left: Tree, right: Tree) -> Tree:
    """A comparison or arithmetic operation in brackets."""
    return exp.Paren(this=kind(this=fresh(left), expression=fresh(right)))


def missing(value: Tree) -> Tree:
    """value IS NULL."""
    return exp.Paren(this=exp.Is(this=fresh(value), expression=exp.Null()))


_TYPES: Final = {
    "integer": "BIGINT",
    "small": "INT",
    "number": "DOUBLE",
    "text": "TEXT",
    "boolean": "BOOLEAN",
    "date": "DATE",
}


def _type(written: str) -> exp.DataType:
    return _parsed(written).copy()


_parsed: Final = functools.cache(exp.DataType.build)


@dataclass(frozen=True, slots=True)
class Words:
    """One dialect. A subclass overrides what its dialect says differently."""

    name: ClassVar[str]
    hexadecimal: ClassVar[str] = "0x"
    bytes_of: ClassVar[str] = "OCTET_LENGTH"
    dear: ClassVar[bool] = False
    """True if a query or a join is expensive for any input, so that fewer and plainer ones are better."""
    sorts: ClassVar[bool] = False
    """Whether its engine hands rows over as arrays and takes arrays back, so that cells can be made by sorting."""

    def cast(self, value: Tree, kind: str) -> Tree:
        """CAST to integer (64 bits), small (32 bits), number (double), text, boolean or date."""
        return exp.Cast(this=fresh(value), to=_type(_TYPES[kind]))

    def try_cast(self, value: Tree, kind: str) -> Tree:
        """CAST that gives NULL where it fails."""
        cast = self.cast(value, kind)
        return exp.TryCast(this=cast.this, to=cast.args["to"])

    def double(self, value: float) -> Tree:
        """A double constant, exactly: an exponent keeps engines from reading it as a decimal first."""
        digits = repr(abs(value))
        sign = exp.Literal.number(digits if "e" in digits else f"{digits}e0")
        return self.cast(exp.Neg(this=sign) if value < 0 else sign, "number")

    def text(self, value: str) -> Tree:
        """A text constant."""
        return exp.Literal.string(value)

    def nan(self, value: Tree) -> Tree:
        """Condition that a double is NaN."""
        return exp.Anonymous(this="ISNAN", expressions=[fresh(value)])

    def number(self, value: Tree, kind: str) -> Tree:
        """A value of type ``kind`` (integer or number) as a double."""
        return self.cast(value, "number") if kind == "integer" else value

    def read(self, value: Tree, kind: str, own: str = "") -> Tree:
        """A stored value as ``kind``, missing where it cannot be; ``own`` is the engine's name of its type."""
        if kind == "number":
            return self._read_number(value, own)
        if kind == "date":  # dates no calendar outside the engine knows cannot be handed out
            days = self.try_cast(value, "date")
            first, last = (constant(day, self) for day in (datetime.date.min, datetime.date.max))
            inside = both(compare(exp.GTE, days, first), compare(exp.LTE, days, last))
            return case([(inside, days)], exp.Null())
        tree = self.try_cast(value, kind)
        if kind != "text":
            return tree
        return case([(self._is_text(tree), tree)], exp.Null())

    def _is_text(self, value: Tree) -> Tree:
        """Condition that every engine can work with a text."""
        size = exp.Anonymous(this=self.bytes_of, expressions=[fresh(value)])
        return compare(exp.LTE, size, whole(LONGEST_TEXT))

    def _read_number(self, value: Tree, own: str) -> Tree:
        return self._pulled_in(self.try_cast(value, "number"), self.nan, self.double)

    def _pulled_in(self, value: Tree, nan: Callable[[Tree], Tree], number: Callable[[float], Tree]) -> Tree:
        """A double between -LARGE and LARGE, NaN as NULL; the cast happens where nothing is out of range."""
        absolute = exp.Anonymous(this="ABS", expressions=[fresh(value)])
        usual = both(compare(exp.GTE, absolute, number(1 / LARGE)), compare(exp.LTE, absolute, number(LARGE)))
        return case(
            [
                (usual, self.cast(value, "number")),
                (exp.Or(this=missing(value), expression=nan(value)), exp.Null()),
                (compare(exp.GT, value, number(LARGE)), self.double(LARGE)),
                (compare(exp.LT, value, number(-LARGE)), self.double(-LARGE)),
            ],
            self.double(0.0),
        )

    def divide(self, left: Tree, right: Tree) -> Tree:
        """Integer division of non-negative 64-bit integers."""
        return exp.Paren(this=exp.IntDiv(this=fresh(left), expression=fresh(right)))

    def matches(self, text: Tree, pattern: str) -> Tree:
        """Condition that a text fits a regular expression of sets, counts and choices, which mean the same everywhere.

        No wonder of an engine's: no backslash, no dot, no dollar.
        """
        return exp.Anonymous(this="REGEXP_FULL_MATCH", expressions=[fresh(text), exp.Literal.string(pattern)])

    def days_between(self, last: Tree, first: Tree) -> Tree:
        """Days from the first date to the last."""
        return self.cast(compare(exp.Sub, last, first), "integer")

    def days_later(self, date: Tree, days: Tree) -> Tree:
        """A date some days later; the days fit in 32 bits."""
        return compare(exp.Add, date, self.cast(days, "small"))

    def months_later(self, date: Tree, months: int) -> Tree:
        """A date some months later, which is in the calendar; the last day where the month is too short."""
        step = exp.Interval(this=exp.Literal.string(str(months)), unit=exp.var("MONTH"))
        return self.cast(compare(exp.Add, date, step), "date")

    def trimmed(self, text: Tree, function: str) -> Tree:
        """Text without the spaces at its start (LTRIM) or its end (RTRIM)."""
        return exp.Anonymous(this=function, expressions=[fresh(text)])

    def first_day(self, date: Tree, unit: str) -> Tree:
        """The first day of a date's year, quarter, month or week."""
        day = exp.Cast(this=fresh(date), to=_type("TIMESTAMP"))
        return self.cast(exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(unit), day]), "date")

    def digest(self, salt: str, pieces: Sequence[tuple[Tree, str]]) -> Tree:
        """The md5 of salt and pieces, each with its type, as 32 digits, over a text that only they can give.

        A text stands after its length; anything else holds no colon and stands before one.
        """
        text = functools.reduce(lambda a, b: exp.DPipe(this=a, expression=b), _unambiguous(self, salt, pieces))
        return exp.Anonymous(this="MD5", expressions=[text])

    def digits(self, digest: Tree, start: int) -> Tree:
        """Eight hexadecimal digits of a digest as a 64-bit integer."""
        prefixed = exp.DPipe(this=exp.Literal.string(self.hexadecimal), expression=_eight(digest, start))
        return self.cast(prefixed, "integer")

    def apart(self, rows: exp.Select) -> exp.Select:
        """Rows whose columns are computed once, for all uses further out."""
        return rows

    def in_share(self, unit: Tree, i: int, n: int) -> Tree:
        """Condition that a unit belongs to the i-th of n disjoint sets; only engines that work in shares need it."""
        raise NotImplementedError

    def kth_smallest(self, value: Tree, k: int) -> Tree:
        """The k-th smallest value of a group, which has at least k."""
        raise NotImplementedError

    def sum(self, value: Tree, most: int, peak: int) -> Tree:
        """A 64-bit sum of values up to ``peak`` (in size) that stops at ``most`` and is 0 for no rows."""
        total = exp.Coalesce(this=exp.Sum(this=fresh(value)), expressions=[whole(0)])
        return self.cast(exp.Anonymous(this="LEAST", expressions=[total, whole(most)]), "integer")

    def render(self, tree: Tree) -> str:
        """The SQL text; what was written may have been changed by that, and is not written again."""
        return tree.sql(dialect=self.name, copy=False)


def _eight(digest: Tree, start: int) -> Tree:
    return exp.Anonymous(this="SUBSTR", expressions=[fresh(digest), whole(start + 1), whole(8)])


def _unambiguous(words: Words, salt: str, pieces: Sequence[tuple[Tree, str]]) -> list[Tree]:
    written: list[Tree] = [exp.Literal.string(f"{salt}:")]
    for piece, kind in pieces:
        text, colon = words.cast(piece, "text"), exp.Literal.string(":")
        length = words.cast(exp.Anonymous(this="LENGTH", expressions=[fresh(text)]), "text")
        written += [length, colon, text] if kind == "text" else [text, colon]
    return written


class DuckWords(Words):
    """DuckDB."""

    name = "duckdb"
    bytes_of = "STRLEN"
    sorts = True

    def read(self, value: Tree, kind: str, own: str = "") -> Tree:
        tree = Words.read(self, value, kind, own)
        if kind == "text" and own == UNCHECKED:
            tree = functools.reduce(lambda inner, word: exp.Anonymous(this=word, expressions=[inner]), _CHECK, tree)
        return _byte_by_byte(tree) if kind == "text" else tree

    def trimmed(self, text: Tree, function: str) -> Tree:
        # without the second argument every blank of Unicode goes
        return exp.Anonymous(this=function, expressions=[fresh(text), exp.Literal.string(" ")])

    def kth_smallest(self, value: Tree, k: int) -> Tree:
        listed = exp.Anonymous(this="MIN", expressions=[fresh(value), whole(k)])
        return exp.Anonymous(this="LIST_EXTRACT", expressions=[listed, whole(k)])

    def apart(self, rows: exp.Select) -> exp.Select:
        # Over a join the optimizer writes columns out wherever they are used, as PostgreSQL's does: ten additions
        # inside each other took gigabytes. The rows stream through it at no cost that can be measured.
        return rows.offset(0, copy=False)

    def in_share(self, unit: Tree, i: int, n: int) -> Tree:
        # two arguments: the hash of the unit alone is what the engine's own hash tables use
        mixed = exp.Anonymous(this="HASH", expressions=[fresh(unit), whole(n)])
        return exp.EQ(this=exp.Mod(this=mixed, expression=whole(n)), expression=whole(i))


class SparkWords(Words):
    """Spark SQL."""

    name = "spark"
    dear = True

    def _is_text(self, value: Tree) -> Tree:
        # Spark keeps bytes that are not UTF-8, tells texts apart by them, and then hands them out as one
        spelled = exp.Anonymous(this="ENCODE", expressions=[fresh(value), exp.Literal.string("UTF-8")])
        stored = exp.Cast(this=fresh(value), to=_type("BINARY"))
        return both(Words._is_text(self, value), compare(exp.EQ, spelled, stored))

    def matches(self, text: Tree, pattern: str) -> Tree:
        # a dollar also matches before a last line end, so nothing may come behind it
        whole_text = exp.Literal.string(f"(?s)^(?:{pattern})$(?!.)")
        return exp.Paren(this=exp.RegexpLike(this=fresh(text), expression=whole_text))

    def days_between(self, last: Tree, first: Tree) -> Tree:
        return self.cast(exp.Anonymous(this="DATEDIFF", expressions=[fresh(last), fresh(first)]), "integer")

    def days_later(self, date: Tree, days: Tree) -> Tree:
        return exp.Anonymous(this="DATE_ADD", expressions=[fresh(date), self.cast(days, "small")])

    def months_later(self, date: Tree, months: int) -> Tree:
        return exp.Anonymous(this="ADD_MONTHS", expressions=[fresh(date), whole(months)])

    def first_day(self, date: Tree, unit: str) -> Tree:
        return exp.Anonymous(this="TRUNC", expressions=[fresh(date), exp.Literal.string(unit)])

    def digits(self, digest: Tree, start: int) -> Tree:
        decimal = exp.Anonymous(this="CONV", expressions=[_eight(digest, start), whole(16), whole(10)])
        return self.cast(decimal, "integer")

    def sum(self, value: Tree, most: int, peak: int) -> Tree:
        # A 64-bit sum would wrap around silently; it cannot with fewer than 2^35 cells, four for everybody on Earth.
        if peak > 1 << 27:
            value = exp.Cast(this=fresh(value), to=_type("DECIMAL(20, 0)"))
        return Words.sum(self, value, most, peak)


class PostgresWords(Words):
    """PostgreSQL."""

    name = "postgres"

    def nan(self, value: Tree) -> Tree:
        return compare(exp.EQ, value, self.cast(exp.Literal.string("NaN"), "number"))

    def try_cast(self, value: Tree, kind: str) -> Tree:
        return self.cast(value, kind)  # only between types where it cannot fail

    def text(self, value: str) -> Tree:
        return _byte_by_byte(exp.Literal.string(value))

    def read(self, value: Tree, kind: str, own: str = "") -> Tree:
        tree = Words.read(self, value, kind, own)
        return _byte_by_byte(tree) if kind == "text" else tree

    def _read_number(self, value: Tree, own: str) -> Tree:
        if own != "numeric":
            return self._pulled_in(self.cast(value, "number"), self.nan, self.double)
        # numeric holds what a double cannot, and the cast would raise: compare before casting
        not_a_number = compare(exp.EQ, value, _numeric(exp.Literal.string("NaN")))
        return self._pulled_in(value, lambda _: not_a_number, lambda x: _numeric(exp.Literal.string(repr(x))))

    def matches(self, text: Tree, pattern: str) -> Tree:
        return exp.Paren(this=exp.RegexpLike(this=fresh(text), expression=exp.Literal.string(f"^(?:{pattern})$")))

    def apart(self, rows: exp.Select) -> exp.Select:
        # without it the planner writes columns out wherever they are used, again and again where steps are nested
        return rows.offset(0, copy=False)

    def divide(self, left: Tree, right: Tree) -> Tree:
        # on bigint the plain operator truncates, which is the floor for non-negative numbers
        division = exp.Anonymous(this="DIV", expressions=[fresh(left), fresh(right)])
        return self.cast(division, "integer")

    def kth_smallest(self, value: Tree, k: int) -> Tree:
        ordered = exp.Order(this=fresh(value), expressions=[exp.Ordered(this=fresh(value), nulls_first=False)])
        gathered = exp.Paren(this=exp.ArrayAgg(this=ordered))
        return exp.Bracket(this=gathered, expressions=[whole(k)], offset=1)

    def digits(self, digest: Tree, start: int) -> Tree:
        prefixed = exp.Paren(this=exp.DPipe(this=exp.Literal.string("x"), expression=_eight(digest, start)))
        return self.cast(exp.Cast(this=prefixed, to=exp.DataType.build("BIT(32)", dialect="postgres")), "integer")


def _byte_by_byte(text: Tree) -> Tree:
    """Text under the one order and equality that all engines have; a column may carry one that merges what differs."""
    return exp.Paren(this=exp.Collate(this=fresh(text), expression=exp.to_identifier("C", quoted=True)))


def _numeric(value: Tree) -> Tree:
    return exp.Cast(this=value, to=_type("DECIMAL"))


_CHECK: Final = ("ENCODE", "DECODE", "TRY")
"""Applied to text in DuckDB: missing where it is not UTF-8."""

DIALECTS: Final[dict[str, Words]] = {words.name: words for words in (DuckWords(), SparkWords(), PostgresWords())}


def constant(value: Any, words: Words) -> Tree:
    """A public constant as SQL."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return words.double(value)
    if isinstance(value, datetime.date):
        return words.cast(exp.Literal.string(value.isoformat()), "date")
    return words.text(value)


def alike(words: Words, values: list[Tree], kinds: list[str]) -> list[Tree]:
    """Values of one type: whole numbers among others become doubles."""
    if "number" not in kinds:
        return values
    return [words.number(value, kind) for value, kind in zip(values, kinds, strict=True)]


def wide(words: Words, value: Tree) -> Tree:
    """A whole constant in 64 bits. Engines hold it in as few as it needs, and so all that is chosen among such: there
    the size of the least of them is an error, after the charge, where a row has it.
    """
    number = value.this if isinstance(value, exp.Neg) else value
    return words.cast(value, "integer") if isinstance(number, exp.Literal) and number.is_int else value


def choices(words: Words, values: list[Tree], kinds: list[str]) -> list[Tree]:
    """Values of one type, of which one is taken."""
    return [wide(words, value) for value in alike(words, values, kinds)]
