"""Functions of one row: what they mean, on values chosen to hurt, by Python; the same on every engine."""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.tables import expressions
from tallystick.tables.expressions import from_data
from tallystick.tables.table import Table
from unit.tables.relations import rows_of
from worlds.tables import DAYS, INTEGERS, TEXTS

WRITTEN = [
    *TEXTS, " 12 ", "+7", "-0", "0012", "999999999999999999", "9223372036854775807", "12.5", ".5", "5.", "1e3", "1E-3",
    "1e99", "1e100", "1e-400", "0x10", "1_000", "1,5", "12\n", "\n12", "１２", "+", "-", ".", "e5", "Infinity", "-nan",
    "0" * 250 + "1", "9" * 200, "9" * 201, "1" * 20, "0.1", "-0.0", "123456789.123456789",
    "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-04-31",
    "2024-13-01", "2024-1-1", "2024-01-01 00:00", " 2024-12-31 ", "2024-01-01\n", "20240101", "today", "a%b", "a_b",
    "  a ", "\u00a0b\u2003 ", " \t", "\u3000", "a!b", "A\\%", "Straße", "ÀÉ", "ababab",
]  # fmt: skip
NUMBERS = [
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, -0.49999999999999994, 4503599627370495.5, 2.0**53,
    2.0**52, -(2.0**63), 2.0**63, 9.2e18, -9.3e18, 1e300, -1e300, 5e-324, math.inf, math.nan, 1e-20, -1e-20, 0.1,
    1e15 + 0.5,
]  # fmt: skip


Rule = Callable[..., Any]


def table() -> pa.Table:
    """Every text, number and day there is, and mixtures of them."""
    draw = random.Random(1)
    count = 3 * len(WRITTEN)

    def some(values: list[Any]) -> list[Any]:
        return [values[i] if i < len(values) else draw.choice([*values, None]) for i in range(count)]

    return pa.table(
        {
            "u": pa.array(range(count), pa.int64()),
            "t": pa.array(some(WRITTEN), pa.string()),
            "s": pa.array(some(TEXTS[:6])[::-1], pa.string()),
            "x": pa.array(some(NUMBERS), pa.float64()),
            "i": pa.array(some(INTEGERS), pa.int64()),
            "j": pa.array(some([*INTEGERS, 5, -5])[::-1], pa.int64()),
            "b": pa.array(some([True, False]), pa.bool_()),
            "d": pa.array(some(DAYS), pa.date32()),
            "e": pa.array(some(DAYS)[::-1], pa.date32()),
        }
    )


def _whole(text: str) -> int | None:
    found = re.fullmatch("[ ]*([+-]?)0*([0-9]{1,18})[ ]*", text)
    return int(found[1] + found[2]) if found else None


def _number(text: str) -> float | None:
    found = re.fullmatch("[+-]?([0-9]*)[.]?([0-9]*)([eE][+-]?[0-9]{1,2})?", text.strip(" "))
    if not found or not found[1] + found[2] or max(len(found[1]), len(found[2])) > 200:
        return None
    return float(text) + 0.0


def _day(text: str) -> datetime.date | None:
    if not re.fullmatch("[ ]*[0-9]{4}-[0-9]{2}-[0-9]{2}[ ]*", text):
        return None
    try:
        return datetime.date.fromisoformat(text.strip(" "))
    except ValueError:
        return None


def _rounded(x: float) -> int:
    exact = Decimal(x)
    return int(exact.copy_abs().to_integral_value(rounding="ROUND_HALF_UP").copy_sign(exact))


def _remainder(a: int, b: int) -> int | None:
    return None if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


def _later(day: datetime.date, days: int) -> datetime.date | None:
    try:
        return day + datetime.timedelta(days=days)
    except OverflowError:
        return None


def _months_later(day: datetime.date, months: int) -> datetime.date | None:
    """Day by day back from the 31st until the month has it."""
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    for last in range(day.day, 0, -1):
        try:
            return datetime.date(year, month + 1, last)
        except ValueError:
            continue
    return None


def _first(day: datetime.date, unit: str) -> datetime.date:
    if unit == "week":
        return day - datetime.timedelta(days=day.weekday())
    month = {"year": 1, "quarter": 1 + (day.month - 1) // 3 * 3}.get(unit, day.month)
    return day.replace(month=month, day=1)


def _fits(text: str, pattern: str) -> bool:
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _low(text: str) -> str:
    return "".join(c.lower() if "A" <= c <= "Z" else c for c in text)


def _high(text: str) -> str:
    return "".join(c.upper() if "a" <= c <= "z" else c for c in text)


def _there(chosen: Rule, values: tuple[Any, ...]) -> Any:
    return chosen((value for value in values if value is not None), default=None)


t, s, x, i, j, b, d, e = (ts.col(name) for name in "tsxijbde")
MEANINGS: list[tuple[expressions.Expression, str, Rule]] = [
    (t.cast("integer"), "t", _whole),
    (t.cast("number"), "t", _number),
    (t.cast("date"), "t", _day),
    (i.cast("text"), "i", str),
    (i.cast("number"), "i", float),
    (b.cast("text"), "b", lambda b: str(b).lower()),
    (b.cast("integer"), "b", int),
    (d.cast("text"), "d", lambda d: d.isoformat()),
    (x.cast("integer"), "x", lambda x: _rounded(x) if abs(x) < 2**63 else None),
    (x.floor(), "x", lambda x: float(math.floor(x))),
    (x.ceil(), "x", lambda x: float(math.ceil(x)) + 0.0),
    (x.round(), "x", lambda x: float(_rounded(x))),
    (i.floor(), "i", lambda i: i),
    (abs(x), "x", abs),
    (abs(i), "i", lambda i: abs(i) if i > -(2**63) else None),
    (i % j, "ij", _remainder),
    (i % 7, "i", lambda i: _remainder(i, 7)),
    (t.lower(), "t", _low),
    (t.upper(), "t", _high),
    (t.length(), "t", len),
    (t.substr(2, 3), "t", lambda t: t[1:4]),
    (t.substr(3), "t", lambda t: t[2:]),
    (t.concat("-", s), "ts", lambda t, s: f"{t}-{s}"),
    (t.like("a%b"), "t", lambda t: _fits(t, "a.*b")),
    (t.like("_"), "t", lambda t: _fits(t, ".")),
    (t.like("%\\%%"), "t", lambda t: "%" in t),
    (t.like("a!__", escape="!"), "t", lambda t: _fits(t, "a_.")),
    (t.like("%!%", escape=None), "t", lambda t: "!" in t),
    (t.like("%\\\\%"), "t", lambda t: "\\" in t),
    (t.like("%\\%", escape=None), "t", lambda t: "\\" in t),
    (t.like("sTrA_e", ignore_case=True), "t", lambda t: _fits(_low(t), "stra.e")),
    (d.day(), "d", lambda d: d.day),
    (d.quarter(), "d", lambda d: (d.month + 2) // 3),
    (d.weekday(), "d", lambda d: d.isoweekday()),
    *((d.date_trunc(unit), "d", lambda d, unit=unit: _first(d, unit)) for unit in ("year", "quarter", "month", "week")),
    (d.date_trunc("day"), "d", lambda d: d),
    (d.days_since(e), "de", lambda d, e: (d - e).days),
    (d.add_days(i), "di", _later),
    (d.add_days(-400), "d", lambda d: _later(d, -400)),
    *((d.add_months(m), "d", lambda d, m=m: _months_later(d, m)) for m in (0, 1, -1, 11, -13, 600, 119_987, -119_988)),
    (t.trim(), "t", lambda t: t.strip(" ")),
    (t.trim("start"), "t", lambda t: t.lstrip(" ")),
    (t.concat("  ", s, " \t ").trim("end"), "ts", lambda t, s: f"{t}  {s} \t"),
]
OF_MISSING: list[tuple[expressions.Expression, str, Rule]] = [
    (t.fill_missing(s, "none"), "ts", lambda t, s: t if t is not None else s if s is not None else "none"),
    (i.fill_missing(x), "ix", lambda i, x: float(i) if i is not None else x),
    (i.null_if(j), "ij", lambda i, j: None if i == j else i),
    (x.null_if(0), "x", lambda x: None if x == 0 else x),
    (ts.when(b, t), "bt", lambda b, t: t if b else None),
    (ts.when(b, ts.missing("integer"), 3), "b", lambda b: None if b else 3),
    (abs(ts.when(b, -(2**31), 0)), "b", lambda b: 2**31 if b else 0),  # which is too much for 32 bits
    (abs(ts.when(b, 3).fill_missing(-(2**31))), "b", lambda b: 3 if b else 2**31),
    (abs(ts.when(b, 5, -(2**31)).null_if(5).least(-(2**31))), "b", lambda b: 2**31),
    (ts.missing("text"), "b", lambda b: None),
    (ts.missing("date").fill_missing(d), "d", lambda d: d),
    (i.greatest(j), "ij", lambda *v: _there(max, v)),
    (x.least(i), "xi", lambda x, i: _there(min, (x, None if i is None else float(i)))),
    (t.least(s, "b"), "ts", lambda *v: min((w for w in (*v, "b") if w is not None), key=str.encode)),
]


def _read(value: Any) -> Any:
    """A stored value as it is read: NaN is missing, numbers are pulled in."""
    if not isinstance(value, float) or math.isnan(value):
        return value if not isinstance(value, float) else None
    return max(-1e300, min(1e300, value)) if abs(value) >= 1e-300 else 0.0


def functions_mean(private: Table) -> None:
    """Every function, on every row, means what Python says."""
    meanings = [*((made, uses, rule, False) for made, uses, rule in MEANINGS)]
    meanings += [(made, uses, rule, True) for made, uses, rule in OF_MISSING]
    derived = private.derive(**{f"f{n}": made for n, (made, *_) in enumerate(meanings)})
    found = {row[0]: row[1:] for row in rows_of(derived, ["u", *(f"f{n}" for n in range(len(meanings)))])}
    given = table().to_pylist()
    assert len(found) == len(given)
    for row in given:
        for n, (made, uses, rule, whatever) in enumerate(meanings):
            values = [_read(row[name]) for name in uses]
            wanted = rule(*values) if whatever or None not in values else None
            got = found[row["u"]][n]
            assert (type(got), str(got)) == (type(wanted), str(wanted)), (made.to_data(), values)
            assert derived.schema.type_of(f"f{n}") in (*_kinds(wanted),)


def _kinds(value: Any) -> tuple[str, ...]:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text", datetime.date: "date"}
    return tuple(kinds.values()) if value is None else (kinds[type(value)],)


def test_functions_mean_what_python_says_on_duckdb() -> None:
    functions_mean(ts.Private(table()).table(unit="u"))


def test_functions_mean_what_python_says_on_postgresql(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    columns = "u bigint, t text, s text, x float8, i bigint, j bigint, b boolean, d date, e date"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"create table functions ({columns})")
        with connection.cursor() as cursor, cursor.copy("copy functions from stdin") as copy:
            for row in table().to_pylist():
                copy.write_row(tuple(row.values()))
        try:
            functions_mean(ts.Private(postgres).table("functions", unit="u"))
        finally:
            connection.execute("drop table functions")


def test_functions_are_read_back_as_they_were_written() -> None:
    for made, *_ in (*MEANINGS, *OF_MISSING):
        assert from_data(made.to_data()).to_data() == made.to_data()


def test_every_day_that_can_be_written_is_read_and_no_other() -> None:
    texts = [
        f"{y:04}-{m:02}-{day:02}" for y in (0, 4, 1900, 2000, 2023, 2024, 9996) for m in range(14) for day in range(33)
    ]
    private = ts.Private(pa.table({"u": range(len(texts)), "t": texts})).table(unit="u")
    found = dict(rows_of(private.derive(day=t.cast("date")), ["t", "day"]))
    assert found == {text: _day(text) for text in texts}


def test_texts_put_together_stay_short() -> None:
    private = ts.Private(pa.table({"u": [1], "t": ["x" * 4_000]})).table(unit="u")
    for _ in range(30):  # 2^30 times as long without the cut
        private = private.derive(
            **{f"t{len(private.steps)}": ts.col(private.schema.names[-1]).concat(ts.col(private.schema.names[-1]))}
        )
    [(text,)] = rows_of(private, [private.schema.names[-1]])
    assert len(text) == 10_000


@pytest.mark.parametrize(
    "made",
    [
        lambda: t.like("a\\b"),
        lambda: t.like("a\\"),
        lambda: t.like(3),
        lambda: t.like("a", escape="ab"),
        lambda: t.substr(0, 1),
        lambda: t.substr(1, -1),
        lambda: t.substr(1, 10_001),
        lambda: d.date_trunc("hour"),
        lambda: d.add_months(1.0),
        lambda: d.add_months(119_989),
        lambda: t.trim("x"),
        lambda: expressions.Call("add_months", (d, i)),
        lambda: x.cast("double"),
        lambda: ts.missing("bytes"),
        lambda: x.round(16),
        lambda: expressions.Call("substr", (t, i, i)),
        lambda: expressions.Call("cast", (t, s)),
        lambda: expressions.Call("coalesce", (t,)),
        lambda: expressions.Call("length", (t, t)),
        lambda: from_data(["null", "number", 1]),
        lambda: from_data(["like", ["col", "t"], ["lit", "\\a"]]),
    ],
)
def test_what_no_function_takes_is_refused(made: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput):
        made()


@pytest.mark.parametrize(
    "made",
    [
        x % 2, t.add_months(1), d.trim(),
        t.floor(), abs(t), t.add_days(1), d.add_days(x), d.days_since(t), i.lower(), t.fill_missing(1),
        x.cast("text"), i.cast("boolean"), d.cast("integer"), b.least(True), t.concat(i), t.year(), i.like("1%"),
        ts.when(b, t, 1), x.null_if("a"),
    ],
)  # fmt: skip
def test_types_that_do_not_fit_are_refused(made: expressions.Expression) -> None:
    with pytest.raises(InvalidInput):
        ts.Private(table()).table(unit="u").derive(y=made)
