"""A row expression of SQL as an expression of ``tallystick.tables``: what may be computed from one row, and no more."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.expressions import Call, Expression, Literal, lift, missing, when
from tallystick.tables.schema import Schema, day
from tallystick.tables.sql.tree import Text, children, spelled

Find = Callable[[exp.Column], Expression]


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads expressions about one row; ``find`` knows what a column's name means here."""

    text: Text
    schema: Schema
    find: Find

    def read(self, node: exp.Expr) -> Expression:
        """The expression a tree stands for, its types checked."""
        return self.typed(node)[0]

    def typed(self, node: exp.Expr) -> tuple[Expression, str]:
        """The expression and its type."""
        made = self._read(node)
        return made, self.type_of(made, node)

    def condition(self, node: exp.Expr) -> Expression:
        """A condition on the row."""
        made, kind = self.typed(node)
        if kind != "boolean":
            raise self.text.wrong(f"a condition of type {kind}", node, "a condition, such as year = 2026")
        return made

    def type_of(self, made: Expression, node: exp.Expr) -> str:
        """The type of what was read from a node; what does not fit is said with its position."""
        try:
            return made.type_in(self.schema)
        except InvalidInput as problem:
            raise self._misfit(problem, node) from None

    def _misfit(self, problem: InvalidInput, node: exp.Expr) -> InvalidInput:
        """Words of SQL for what does not fit a function."""
        if not problem.argument.startswith("arguments of "):
            wrong = f"{problem.argument} {problem.value}"
            return self.text.wrong(wrong, node, problem.allowed, code=problem.code, remedies=problem.remedies)
        name = problem.argument.removeprefix("arguments of ")
        word, allowed = _SIGNS.get(name, name.upper()), str(problem.allowed)
        if problem.code == "types_differ":
            allowed = "values of one type: a text in single quotes, a number without, DATE '2026-02-28', or CAST"
        several = isinstance(problem.value, list | tuple)
        given = ", ".join(map(str, problem.value)) if several else problem.value
        return self.text.wrong(f"{word} of {given}", node, allowed, code=problem.code)

    def _read(self, node: exp.Expr) -> Expression:
        reader = _READERS.get(type(node))
        if reader is None:
            raise self._refuse(node)
        try:
            return reader(self, node)
        except InvalidInput as problem:
            if problem.argument == "sql":
                raise
            raise self._misfit(problem, node) from None

    def _refuse(self, node: exp.Expr) -> Refused:
        said = spelled(node)
        if isinstance(node, exp.Window):
            return self.text.refused(
                "a window", node, "PARTITION BY the unit, in a subquery; or a window over released rows"
            )
        if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
            return self.text.refused(
                f"a subquery here{' (EXISTS)' if isinstance(node, exp.Exists) else ''}", node,
                "IN or EXISTS with the unit as a separate condition in WHERE", why="it looks at other people's rows",
            )  # fmt: skip
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup):
            return self.text.refused(
                f"the aggregate {said} inside a row or another aggregate", node, "a separate aggregate in SELECT"
            )
        if isinstance(node, exp.Interval):
            return self.text.refused("INTERVAL alone", node, "a date + INTERVAL, or a date - INTERVAL")
        if isinstance(node, exp.Distinct):
            inside = f" in {spelled(node.parent)}" if isinstance(node.parent, exp.Func) else ""
            return self.text.refused(
                f"DISTINCT{inside}", node, "all values, or SELECT DISTINCT with the unit in a subquery"
            )
        if isinstance(node, exp.Star):
            return self.text.refused("*", node, "aggregates such as COUNT(*)", why="it shows rows of people")
        return self.text.refused(said, node, "columns, constants and the functions listed in the guide 'Ask in SQL'")

    # One small reader for each node.

    def _column(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Column)
        return self.find(node)

    def _literal(self, node: exp.Expr) -> Expression:
        said = str(node.this)
        if node.args.get("is_string"):
            return lift(said)
        return lift(int(said) if said.isdigit() else float(said))

    def _negative(self, node: exp.Expr) -> Expression:
        inner = self._read(node.this)
        if isinstance(inner, Literal) and type(inner.value) in (int, float):
            return lift(-inner.value)  # type: ignore[operator]
        return 0 - inner

    def _case(self, node: exp.Expr) -> Expression:
        """CASE; NULL as a result is not a value of the type that the other results have."""
        assert isinstance(node, exp.Case)
        branches, default = children(node, "ifs"), node.args.get("default")
        results = [None if _null(each) else self._read(each) for each in (*(b.args["true"] for b in branches), default)]
        kinds = {made.type_in(self.schema) for made in results if made is not None}
        if not kinds:
            raise self.text.refused("CASE without a result", node, "a value after THEN")
        nothing = missing("number" if kinds == {"integer", "number"} else kinds.pop())
        made = results[-1]
        for branch, result in reversed(list(zip(branches, results, strict=False))):
            condition = self._read(branch.this) if node.this is None else self._compared("==", node.this, branch.this)
            made = when(condition, nothing if result is None else result, made)
        assert made is not None
        return made

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query") is not None:
            raise self._refuse(node.args["query"])
        left = self._read(node.this)
        values = [self._like(left, each, node) for each in children(node, "expressions")]
        return Call("in", (left, *values))

    def _between(self, node: exp.Expr) -> Expression:
        low, high = (self._compared(sign, node.this, node.args[end]) for sign, end in ((">=", "low"), ("<=", "high")))
        return low & high

    def _is(self, node: exp.Expr) -> Expression:
        value, about = self._read(node.this), node.expression
        if isinstance(about, exp.Null):
            made = value.is_missing()
        elif isinstance(about, exp.Boolean):
            made = when(value if about.this else ~value, True, False)
        else:
            raise self._refuse(node)
        return ~made if node.args.get("negate") else made

    def _compared(self, sign: str, left: exp.Expr, right: exp.Expr) -> Expression:
        """A comparison; a text beside a date is the date it names."""
        one, two = self._read(left), self._read(right)
        return Call(sign, (self._dated(one, two), self._dated(two, one)))

    def _like(self, left: Expression, node: exp.Expr, within: exp.Expr) -> Expression:
        value = self._dated(self._read(node), left)
        if not isinstance(value, Literal):
            raise self.text.refused(
                "IN with what is not a constant", within, "IN with constants, or conditions with OR"
            )
        return value

    def _dated(self, value: Expression, beside: Expression) -> Expression:
        text = isinstance(value, Literal) and isinstance(value.value, str)
        if text and not isinstance(beside, Literal) and beside.type_in(self.schema) == "date":
            return lift(day(value.value))  # type: ignore[attr-defined]
        return value

    def _cast(self, node: exp.Expr) -> Expression:
        inner, wanted = self._read(node.this), node.args["to"]
        kind = _TYPES.get(wanted.this.value)
        if kind is None or wanted.expressions:
            raise self.text.refused(f"CAST to {wanted.sql()}", node, "INTEGER, DOUBLE PRECISION, TEXT or DATE")
        if kind == "date" and isinstance(inner, Literal) and isinstance(inner.value, str):
            return lift(day(inner.value))
        own = inner.type_in(self.schema)
        if own == kind:
            return inner
        if (own, kind) == ("boolean", "number"):
            inner = inner.cast("integer")
        return inner.cast(kind)

    def _added(self, node: exp.Expr) -> Expression:
        """+ and -, of numbers, or of a date and an interval, or of two dates."""
        sign = "+" if isinstance(node, exp.Add) else "-"
        left = self._read(node.this)
        step = node.expression.unnest()
        if isinstance(step, exp.Interval):
            return self._moved(left, step, node, -1 if sign == "-" else 1)
        right = self._read(node.expression)
        if sign == "-" and {left.type_in(self.schema), right.type_in(self.schema)} == {"date"}:
            return left.days_since(right)
        return _folded(sign, left, right)

    def _multiplied(self, node: exp.Expr) -> Expression:
        return _folded("*", self._read(node.this), self._read(node.expression))

    def _moved(self, date: Expression, interval: exp.Interval, node: exp.Expr, sign: int) -> Expression:
        said, unit = str(interval.this.name), str(interval.args.get("unit") or "").upper().rstrip("S")
        if unit not in _STEPS or not said.lstrip("+-").isdigit() or len(said) > 6:
            raise self.text.refused(
                f"INTERVAL {said} {unit}", interval, "a whole number of days, weeks, months or years"
            )
        months, times = _STEPS[unit]
        number = sign * int(said) * times
        if isinstance(date, Literal) and isinstance(date.value, datetime.date):
            return lift(_shifted(date.value, number, months=months))
        return date.add_months(number) if months else date.add_days(number)

    def _moved_by(self, node: exp.Expr) -> Expression:
        """DATE_ADD(date, INTERVAL 1 MONTH) and DATE_SUB."""
        step = node.expression.unnest()
        if not isinstance(step, exp.Interval):
            raise self.text.refused(spelled(node), node, "date + INTERVAL '1' MONTH")
        return self._moved(self._read(node.this), step, node, -1 if isinstance(node, exp.DateSub) else 1)

    def _apart(self, node: exp.Expr) -> Expression:
        """DATE_DIFF: how often a new day, month, quarter or year begins on the way from the one to the other."""
        last, first = (self._dated_text(self._read(node.args[key])) for key in ("this", "expression"))
        unit = node.args["unit"].name.lower()
        if unit == "day":
            return last.days_since(first)
        steps = {"month": 12, "quarter": 4, "year": 1}
        if unit not in steps:
            raise self.text.refused(f"DATE_DIFF by {unit}", node, "day, month, quarter or year; weeks as days / 7")
        years = (last.year() - first.year()) * steps[unit]
        made = years if unit == "year" else years + (Call(unit, (last,)) - Call(unit, (first,)))
        return made.cast("integer")

    def _dated_text(self, value: Expression) -> Expression:
        """A text constant where a date must stand."""
        text = isinstance(value, Literal) and isinstance(value.value, str)
        return lift(day(value.value)) if text else value  # type: ignore[attr-defined]

    def _trimmed(self, node: exp.Expr) -> Expression:
        sides = {"LEADING": "start", "TRAILING": "end"}
        return self._read(node.this).trim(sides.get(str(node.args.get("position") or "").upper(), "both"))

    def _first_letters(self, node: exp.Expr) -> Expression:
        number = self._read(node.expression)
        if not isinstance(number, Literal) or type(number.value) is not int or number.value < 0:
            raise self.text.refused("LEFT", node, "LEFT(column, 3) with a constant that is not negative")
        return self._read(node.this).substr(1, number.value)

    def _extract(self, node: exp.Expr) -> Expression:
        return self._part_of_date(str(node.this.name).lower(), node.expression, node)

    def _part_of_date(self, part: str, of: exp.Expr, node: exp.Expr) -> Expression:
        date = self.read(of)
        if part == "dow":  # PostgreSQL's week begins with Sunday as 0
            return date.weekday() % 7
        if part == "doy":
            return (date.days_since(date.date_trunc("year")) + 1).cast("integer")
        if part == "week":  # of ISO: that of its Thursday, counted in the Thursday's year
            thursday = date.date_trunc("week").add_days(3)
            return ((thursday.days_since(thursday.date_trunc("year")) / 7).floor() + 1).cast("integer")
        if part not in _PARTS:
            why = "a moment counts as its day in UTC" if part in _OF_A_DAY else ""
            raise self.text.refused(f"EXTRACT({part})", node, f"one of {', '.join(_PARTS)}, dow, doy, week", why=why)
        return Call(_PARTS[part], (date,))

    def _truncated(self, node: exp.Expr) -> Expression:
        return self._read(node.this).date_trunc(node.args["unit"].name.lower())

    def _bucket(self, node: exp.Expr) -> Expression:
        low, high, number = (self._read(node.args[key]) for key in ("min_value", "max_value", "num_buckets"))
        values = [each.value for each in (low, high, number) if isinstance(each, Literal)]
        if len(values) != 3 or type(values[2]) is not int or not 1 <= values[2] <= 1000:
            raise self.text.refused("WIDTH_BUCKET", node, "WIDTH_BUCKET(column, low, high, number) with constants")
        start, end, count = float(values[0]), float(values[1]), values[2]  # type: ignore[arg-type]
        width = (end - start) / count
        return self._read(node.this).cut([start + i * width for i in range(count)] + [end])

    def _rounded(self, node: exp.Expr) -> Expression:
        digits = node.args.get("decimals")
        number = lift(0) if digits is None else self._read(digits)
        if not isinstance(number, Literal) or type(number.value) is not int:
            raise self.text.refused("ROUND", node, "ROUND(value, 2) with a constant")
        return self._read(node.this).round(number.value)

    def _matched(self, node: exp.Expr) -> Expression:
        return self._pattern(node, {})

    def _escaped(self, node: exp.Expr) -> Expression:
        """LIKE ... ESCAPE."""
        like, escape = node.this, node.expression
        if not isinstance(like, exp.Like | exp.ILike) or not escape.is_string:
            raise self.text.refused("ESCAPE", node, "LIKE 'pattern' ESCAPE '!'")
        return self._pattern(like, {"escape": escape.name or None})

    def _pattern(self, node: exp.Expr, said: dict[str, Any]) -> Expression:
        """LIKE, ILIKE and NOT of them: the parser hangs the NOT on the node itself."""
        pattern = self._read(node.expression)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self.text.refused("LIKE with what is not a constant", node, "LIKE 'pattern'")
        made = self._read(node.this).like(pattern.value, ignore_case=isinstance(node, exp.ILike), **said)
        return ~made if node.args.get("negate") else made

    def _put_together(self, node: exp.Expr) -> Expression:
        """CONCAT, which passes over what is missing."""
        pieces = [self._read(each).fill_missing("") for each in children(node, "expressions")]
        return pieces[0].concat(*pieces[1:]) if len(pieces) > 1 else pieces[0]

    def _part_of_text(self, node: exp.Expr) -> Expression:
        ends = [self._read(node.args[key]) for key in ("start", "length") if node.args.get(key) is not None]
        numbers = [end.value for end in ends if isinstance(end, Literal) and type(end.value) is int]
        if len(numbers) != len(ends) or not ends:
            raise self.text.refused("SUBSTRING", node, "SUBSTRING(column, 1, 3) with constants")
        return self._read(node.this).substr(*numbers)

    def _remainder(self, node: exp.Expr) -> Expression:
        return self._read(node.this) % self._read(node.expression)


def _folded(sign: str, left: Expression, right: Expression) -> Expression:
    """Arithmetic; between constants in decimals, as they are written: 0.06 + 0.01 is 0.07."""
    constants = [each.value for each in (left, right) if isinstance(each, Literal) and type(each.value) in (int, float)]
    if len(constants) < 2:
        return Call(sign, (left, right))
    one, two = (Decimal(repr(value)) for value in constants)
    made = one + two if sign == "+" else one - two if sign == "-" else one * two
    return lift(int(made) if all(type(value) is int for value in constants) else float(made))


def _null(node: exp.Expr | None) -> bool:
    return node is None or isinstance(node.unnest(), exp.Null)


def _shifted(date: datetime.date, number: int, *, months: bool) -> datetime.date:
    """A date some days or months later; the day of the month is pulled back where a month is short, as SQL does."""
    try:
        if not months:
            return date + datetime.timedelta(days=number)
        year, month = divmod(date.year * 12 + date.month - 1 + number, 12)
        last = (datetime.date(year + month // 11, (month + 1) % 12 + 1, 1) - datetime.timedelta(days=1)).day
        return datetime.date(year, month + 1, min(date.day, last))
    except (OverflowError, ValueError):
        raise InvalidInput("interval", number, "dates of the years 1 to 9999") from None


_SIGNS = {"==": "=", "!=": "<>", "and": "AND", "or": "OR", "not": "NOT", "concat": "||", "mod": "%", "when": "CASE"}
_STEPS = {"DAY": (False, 1), "WEEK": (False, 7), "MONTH": (True, 1), "YEAR": (True, 12)}
_PARTS = {**{part: part for part in ("year", "quarter", "month", "day")}, "isodow": "weekday"}
_OF_A_DAY = ("hour", "minute", "second", "millisecond", "milliseconds", "microsecond", "microseconds", "epoch")
_TYPES = {
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT"), "integer"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "number"),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR"), "text"),
    "BOOLEAN": "boolean",
    "DATE": "date",
}


def _sign(sign: str) -> Callable[[RowReader, exp.Expr], Expression]:
    return lambda reader, node: reader._compared(sign, node.this, node.expression)


def _plain(function: str) -> Callable[[RowReader, exp.Expr], Expression]:
    """Every argument in order, as they stand."""

    def read(reader: RowReader, node: exp.Expr) -> Expression:
        keys = ("this", "expression")
        nodes = [node.args[key] for key in keys if isinstance(node.args.get(key), exp.Expr)]
        return Call(function, tuple(reader._read(each) for each in (*nodes, *children(node, "expressions"))))

    return read


_READERS: dict[type[exp.Expr], Callable[[RowReader, exp.Expr], Expression]] = {
    exp.Column: RowReader._column,
    exp.Literal: RowReader._literal,
    exp.Boolean: lambda reader, node: lift(bool(node.this)),
    exp.Paren: lambda reader, node: reader._read(node.this),
    exp.Neg: RowReader._negative,
    exp.Add: RowReader._added,
    exp.Sub: RowReader._added,
    exp.Mul: RowReader._multiplied,
    exp.Div: _plain("/"),
    exp.Mod: RowReader._remainder,
    exp.And: _plain("and"),
    exp.Or: _plain("or"),
    exp.Not: _plain("not"),
    exp.EQ: _sign("=="),
    exp.NEQ: _sign("!="),
    exp.LT: _sign("<"),
    exp.LTE: _sign("<="),
    exp.GT: _sign(">"),
    exp.GTE: _sign(">="),
    exp.In: RowReader._in,
    exp.Between: RowReader._between,
    exp.Is: RowReader._is,
    exp.Case: RowReader._case,
    exp.If: lambda reader, node: reader._case(
        exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false"))
    ),
    exp.Escape: RowReader._escaped,
    exp.Concat: RowReader._put_together,
    exp.Cast: RowReader._cast,
    exp.Extract: RowReader._extract,
    exp.TimestampTrunc: RowReader._truncated,
    exp.DateDiff: RowReader._apart,
    **dict.fromkeys((exp.DateAdd, exp.DateSub), RowReader._moved_by),
    exp.Year: _plain("year"),
    exp.Quarter: _plain("quarter"),
    exp.Month: _plain("month"),
    exp.Day: _plain("day"),
    exp.DayOfYear: lambda reader, node: reader._part_of_date("doy", node.this, node),
    exp.Trim: RowReader._trimmed,
    exp.Left: RowReader._first_letters,
    exp.WidthBucket: RowReader._bucket,
    exp.Like: RowReader._matched,
    exp.ILike: RowReader._matched,
    exp.Round: RowReader._rounded,
    exp.Coalesce: _plain("coalesce"),
    exp.Nullif: _plain("nullif"),
    exp.Greatest: _plain("greatest"),
    exp.Least: _plain("least"),
    exp.Abs: _plain("abs"),
    exp.Floor: _plain("floor"),
    exp.Ceil: _plain("ceil"),
    exp.Lower: _plain("lower"),
    exp.Upper: _plain("upper"),
    exp.Length: _plain("length"),
    exp.Substring: RowReader._part_of_text,
    exp.DPipe: _plain("concat"),
}


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that AND connects at the top."""
    waiting = [] if node is None else [node]
    while waiting:
        one = waiting.pop().unnest()
        if isinstance(one, exp.And):
            waiting += [one.expression, one.this]
        else:
            yield one
