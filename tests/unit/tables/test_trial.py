"""What an engine cannot compute fails before the charge, also where only some people's rows need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import tallystick as ts
from tallystick.errors import Unavailable
from tallystick.ledger import Account
from tallystick.tables import dialects
from tallystick.tables import run as tables_run
from tallystick.tables.dialects import DIALECTS, Words
from tallystick.tables.program import compiled
from unit.tables.servers import run, schema


@pytest.fixture(autouse=True)
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep programs with a changed digest from other tests."""
    monkeypatch.setattr(tables_run, "_programs", {})


ROWS = pa.table({"who": [1, 2, 3], "ward": ["a", "b", "a"], "cost": [1.0, 2.0, 3.0]})


def _is_missing(words: Words, salt: str, pieces: Sequence[tuple[Any, str]]) -> exp.Expr:
    """A digest that fails wherever it is called, as MD5 does in FIPS mode."""
    text = exp.DPipe(this=exp.Literal.string("no number "), expression=words.cast(pieces[0][0], "text"))
    return words.cast(words.cast(text, "integer"), "text")


def _count(source: Any, account: Account, table: str | None = None) -> Any:
    private = ts.Private(source, account=account)
    rows = private.table(table, unit="who") if table else private.table(unit="who")
    rows = rows.per_unit(max_groups=1, max_rows_per_group=1)
    return rows.group_by("ward", keys=["a", "b"]).agg(n=ts.count()).plan(rho=0.001)


def test_a_digest_that_no_row_needs_is_called_before_the_charge(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects.DuckWords, "digest", _is_missing)
    with pytest.raises(Unavailable, match="made-up constants; nothing was charged"):
        _count(ROWS, account).release(why="test")
    assert account.used.a0 == 0


def test_a_server_without_a_digest_is_refused_before_the_charge(
    account: Account, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects.PostgresWords, "digest", _is_missing)
    with schema(postgres) as name:
        run(postgres, f"CREATE TABLE {name}.visits AS SELECT 1 AS who, 'a'::text AS ward")
        with pytest.raises(Unavailable, match="made-up constants; nothing was charged"):
            _count(postgres, account, f"{name}.visits").release(why="test")
    assert account.used.a0 == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_functions_behind_a_condition_and_behind_a_filter_are_called(dialect: str) -> None:
    table = ts.Private(ROWS).table(unit="who").filter(ts.col("cost") > 1e9)
    low = ts.when(ts.col("cost") > 2e9, ts.col("ward").lower(), "other")
    grouped = table.derive(low=low).per_unit(max_groups=1, max_rows_per_group=1).group_by("low", keys=["a", "other"])
    plan = grouped.agg(n=ts.count(), s=ts.sum("cost", lower=0, upper=1)).plan(rho=0.1)
    [sql] = compiled(plan.query, DIALECTS[dialect], "salt").trial
    for function in ("TRANSLATE(", "MD5(", "FLOOR("):
        assert function in sql.upper()
    assert "cost" not in sql
