"""What cannot be proved private is refused, mistakes are told before anything is charged, and no message holds data."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from tallystick.errors import InvalidInput, Refused, TallystickError, Unavailable
from tallystick.ledger import Account
from tallystick.mechanisms.exact.randomness import SystemSource
from tallystick.tables import expressions, run
from tallystick.tables.parts import Total
from tallystick.tables.reader import open_engine
from tallystick.tables.release import Release
from tallystick.tables.table import Table
from unit.tables.tables import awkward

HOSTILE = [
    "'; DROP TABLE visits; --",
    'a" OR ""="',
    "`x` --",
    "${jndi:ldap://x}",
    "col\\",
    "*/ SELECT 1 /*",
    "{{7*7}}",
    "名前 ☂",
    "select",
    "_unit",
    "_key0",
]


def visits() -> Table:
    return ts.Private(awkward(100)).table(unit="pid")


def test_without_caps_nothing_can_be_proved() -> None:
    for ask in (
        lambda: visits().agg(n=ts.count()),
        lambda: visits().per_unit(max_groups=2).group_by("ward", keys=["a"]).agg(n=ts.count()),
        lambda: visits().per_unit(max_rows_per_group=2).group_by("ward", keys=["a"]).agg(n=ts.count()),
    ):
        with pytest.raises(Refused, match="per_unit"):
            ask()


def test_groups_need_keys_and_joins_need_public_tables() -> None:
    capped = visits().per_unit(max_groups=2, max_rows_per_group=2)
    with pytest.raises(Refused, match="private_keys"):
        capped.group_by("ward")
    with pytest.raises(Refused, match="public tables only"):
        capped.join(visits(), on="ward")
    with pytest.raises(Refused, match="condition"):
        capped.filter(lambda row: True)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="integers or text"):
        ts.Private(awkward(100)).table(unit="cost")


@pytest.mark.parametrize(
    "ask",
    [
        lambda v: v.filter(ts.col("nope") == 1),
        lambda v: v.filter(ts.col("days") + 1),
        lambda v: v.filter(ts.col("ward") > 1),
        lambda v: v.filter(ts.col("ward") == float("nan")),
        lambda v: v.derive(ward=ts.col("days")),
        lambda v: v.group_by("cost", keys=[1.0]),
        lambda v: v.group_by("ward", keys="abc"),
        lambda v: v.group_by("ward", keys=[]),
        lambda v: v.group_by("ward", keys=["a", "a"]),
        lambda v: v.group_by("ward", keys=[1]),
        lambda v: v.group_by("ward", keys=[None]),
        lambda v: v.group_by("ward", "ward", keys=[("a", "a")]),
        lambda v: v.group_by(keys=["a"]),
        lambda v: v.agg(),
        lambda v: v.agg(n=3),
        lambda v: v.agg(n=ts.sum("ward", 0, 1)),
        lambda v: v.agg(n=ts.sum("cost")),
        lambda v: v.agg(n=ts.sum("cost", 1, 0)),
        lambda v: v.agg(n=ts.sum("cost", 0, float("inf"))),
        lambda v: v.agg(n=ts.sum("cost", 0, 1e300)),
        lambda v: v.agg(n=ts.sum("cost", 0, 1, missing=2)),
        lambda v: v.agg(n=ts.quantile("cost", 1.5, 0, 1)),
        lambda v: v.agg(n=ts.median("cost", 0, 1, bins=10**9)),
        lambda v: v.agg(n=ts.histogram("cost", [3, 2, 1])),
        lambda v: v.agg(n=ts.count()).plan(),
        lambda v: v.agg(n=ts.count()).plan(rho=1, epsilon=1),
        lambda v: v.agg(n=ts.count()).plan(rho=-1),
        lambda v: v.agg(n=ts.count()).plan(rho=float("nan")),
        lambda v: v.agg(n=ts.count()).plan(rho=1e-300),
        lambda v: v.agg(n=ts.count()).plan(epsilon=1, delta=2),
        lambda v: v.agg(n=ts.count()).plan(error=0),
        lambda v: v.group_by("ward", keys=ts.private_keys(delta=1e-6)).agg(n=ts.count()).plan(rho=1, delta=1e-9),
        lambda v: v.per_unit(max_groups=0),
        lambda v: v.per_unit(max_rows_per_group=10**9),
        lambda v: v.bounds(ward=(0, 1)),
        lambda v: v.bounds(cost=3),
        lambda v: ts.private_keys(delta=0),
        lambda v: v.join([{"ward": "a", "x": 1}], on="x"),
        lambda v: v.join([{"ward": "a", "x": 1}, {"ward": "b", "x": "y"}], on="ward"),
    ],
)
def test_bad_questions_name_what_is_wrong(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidInput):
        ask(visits().per_unit(max_groups=2, max_rows_per_group=2))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_texts_are_only_names_and_texts(name: str, tmp_path: Path) -> None:
    table = pa.table({"u": [1, 2, 3], name: ["x", name, name], "v": [1.0, 2.0, 3.0]})
    path = tmp_path / "it's; --.parquet"
    pq.write_table(table, path)
    private = ts.Private(path).table(unit="u")
    plan = (
        private.filter(ts.col(name) != "x")
        .derive(**{f"{name}2": ts.col("v") * 2})
        .join([{name: name, f"{name}3": name}], on=name)
        .per_unit(max_groups=1, max_rows_per_group=1)
        .group_by(name, f"{name}3", keys=[(name, name), ("x", "x")])
        .agg(**{f"{name}n": ts.count(), f"{name}s": ts.sum(f"{name}2", 0, 8)})
        .plan(rho=1)
    )
    numbers = {part.kind: held[:, 0].tolist() for part, held in run.integers(plan).numbers.items()}
    assert numbers["rows"] == [2, 0]
    assert numbers["total"][1] == 0


def test_hostile_table_names_are_not_found_and_nothing_else(tmp_path: Path) -> None:
    import duckdb

    place = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(place) as connection:
        connection.execute("create table visits as select 1 as u")
    for name in [*HOSTILE, "visits; drop table visits", "nope"]:
        with pytest.raises(InvalidInput):
            ts.Private(place).table(name, unit="u")
    assert ts.Private(place).table("visits", unit="u").schema.names == ("u",)
    with pytest.raises(InvalidInput):
        ts.Private(tmp_path / "absent.parquet").table(unit="u")
    for source in ("x.exe", "http://x/y.parquet", 3, None, "\0.csv"):
        with pytest.raises(InvalidInput):
            ts.Private(source)


def test_values_too_large_for_any_integer_follow_the_public_rule(account: Account) -> None:
    table = pa.table({"u": [1, 2, 3, 4], "v": [1e308, -1e308, 2.0**70, float("nan")], "w": [2**62, -(2**62), 3, 4]})
    plan = (
        ts.Private(table, account=account)
        .table(unit="u")
        .derive(product=ts.col("v") * ts.col("v") * ts.col("w"))
        .per_unit(max_rows_per_group=1000)
        .agg(v=ts.sum("v", -1, 1), w=ts.sum("w", 0, 1e15), p=ts.mean("product", 0, 1), q=ts.variance("w", 0, 10))
        .plan(rho=0.1)
    )
    held = run.integers(plan).numbers
    totals = {part.column: int(numbers[0, 0]) for part, numbers in held.items() if isinstance(part, Total)}
    tops = {part.column: part.grid.top for part in plan.query.parts if isinstance(part, Total)}
    assert totals["v"] == 2 * tops["v"]  # 1e308 and 2^70 at the upper bound, -1e308 at the lower, NaN left out
    assert totals["product"] == 2 * tops["product"]
    assert len(plan.release(why="report")) == 1


def _outcome(table: pa.Table, condition: expressions.Expression, keys: Any) -> str:
    """What the user of a whole release sees, but for its numbers. The source is that of a new process."""
    try:
        asked = ts.Private(table).table(unit="u").filter(condition).per_unit(max_groups=1, max_rows_per_group=2)
        plan = asked.group_by("g", keys=keys).agg(n=ts.count(), v=ts.mean("v", 0, 1)).plan(rho=1)
        run.preflight(plan)
        Release(plan, run.noisy(plan, run.integers(plan), SystemSource())).to_csv()
    except TallystickError as error:
        return f"{type(error).__name__}: {error}"
    return "released"


def _called(name: str, arguments: tuple[expressions.Expression, ...]) -> expressions.Expression:
    """A call, or where there is no such call a condition that never holds."""
    try:
        return expressions.Call(name, arguments)
    except InvalidInput:
        return expressions.lift(False)


_LEAVES = st.sampled_from(["u", "v", "g", "ok", "zz"]).map(ts.col) | st.sampled_from(
    [0, 1, -3.5, 1e308, "a", "secret-cell", True]
).map(expressions.lift)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.tuples(
        st.sampled_from(["+", "-", "*", "/", "<", ">=", "==", "!=", "and", "or", "not", "missing", "cut", "year"]),
        inner,
        inner,
    ).map(lambda t: _called(t[0], (t[1],) if t[0] in ("not", "missing", "year") else (t[1], t[2]))),
    max_leaves=6,
)


@given(condition=_TREES, keys=st.sampled_from([["a"], ts.private_keys(delta=0.4)]))
def test_outcomes_are_the_same_on_neighbouring_tables_and_hold_no_data(
    condition: expressions.Expression, keys: Any
) -> None:
    one = pa.table({"u": [1, 1], "g": ["a", "b"], "v": [0.5, 1.0], "ok": [True, False]})
    rows = {
        "u": [2, 2, None],
        "g": ["secret-cell", "a", None],
        "v": [float("inf"), 0.0, None],
        "ok": [None, True, None],
    }
    two = pa.concat_tables([one, pa.table(rows, schema=one.schema)])
    outcomes = {_outcome(table, condition, keys) for table in (one.slice(0, 0), one, two)}
    assert len(outcomes) == 1
    assert "failed" not in outcomes.pop()


def test_engine_messages_do_not_reach_the_user() -> None:
    with pytest.raises(Unavailable) as hidden, open_engine(visits().source) as engine:
        engine.connection.execute("select cast('row of Ann' as integer)")  # type: ignore[attr-defined]
    assert "Ann" not in str(hidden.value)
    assert "Ann" not in "".join(traceback.format_exception(hidden.value)).replace("cast('row of Ann'", "")
