"""A table paid by a block keeps to the rows of its block, wherever the plan comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger import Account, Ledger
from tallystick.tables import run
from tallystick.tables.plan import Plan

ROWS = pa.table({"pid": list(range(400)), "ward": ["east"] * 100 + ["west"] * 250 + [None] * 50, "n": [1] * 400})


def cut(column: str, *values: Any) -> ts.Partition:
    return ts.Partition(column, by="public attribute", one_block_per_unit=True, column=column, values=values)


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger(tmp_path / "budget.db") as opened:
        opened.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        yield opened


def block(ledger: Ledger, name: str, partition: ts.Partition | None, parent: str = "clinic") -> Account:
    return ledger.open(name, budget=ts.zcdp(rho=0.9), unit="patient", parent=parent, partition=partition)


def asked(account: Account | None) -> Any:
    visits = ts.Private(ROWS, account=account).table(unit="pid").per_unit(max_groups=1, max_rows_per_group=1)
    return visits.agg(n=ts.count())


def total(plan: Plan) -> int:
    return int(next(iter(run.integers(plan).numbers.values()))[0, 0])


def test_each_block_counts_its_own_rows_only(ledger: Ledger) -> None:
    east, west = block(ledger, "east", cut("ward", "east")), block(ledger, "west", cut("ward", "west", "north"))
    plans = [asked(account).plan(rho=0.5) for account in (east, west)]
    assert [total(plan) for plan in plans] == [100, 250]
    for plan in plans:
        assert abs(plan.release(why="report").rows[0]["n"] - total(plan)) < 50
    assert float(ledger.open("clinic").used.first) == 0.5  # the largest, and now that is what was seen of anybody


def test_blocks_of_the_whole_table_are_refused(ledger: Ledger) -> None:
    """Found from outside: thirty of them asked about everybody, and the population paid once."""
    declared = ts.Partition("ward", by="unit id", one_block_per_unit=True)
    for number in range(3):
        account = block(ledger, f"block {number}", declared)
        with pytest.raises(Refused, match="which rows are its own"):
            asked(account).plan(rho=0.5)
    below = block(ledger, "below", None, parent="block 0")
    with pytest.raises(Refused, match="which rows are its own"):
        asked(below).plan(rho=0.5)
    assert float(ledger.open("clinic").used.first) == 0


def test_a_plan_from_elsewhere_gets_the_filter_too(ledger: Ledger) -> None:
    east = block(ledger, "east", cut("ward", "east"))
    free = asked(None).plan(rho=0.5)
    assert total(free) == 400
    moved = free.with_account(east)
    again = Plan.from_json(moved.to_json(), account=east, source=ROWS)
    assert (total(moved), total(again)) == (100, 100)
    assert again.hash == moved.hash != free.hash
    with pytest.raises(Refused, match="edited"):
        Plan.from_json(free.to_json(), account=east, source=ROWS)


@pytest.mark.parametrize(("column", "value"), [("wing", "east"), ("n", "one"), ("ward", 3)])
def test_a_column_or_type_that_the_table_does_not_have_is_said(ledger: Ledger, column: str, value: Any) -> None:
    with pytest.raises((InvalidInput, Refused)):
        asked(block(ledger, "block", cut(column, value))).plan(rho=0.5)


def test_blocks_in_blocks_keep_to_both(ledger: Ledger) -> None:
    block(ledger, "east", cut("ward", "east"))
    assert total(asked(block(ledger, "east 2", cut("n", 2), parent="east")).plan(rho=0.5)) == 0
    assert total(asked(block(ledger, "east 1", cut("n", 1), parent="east")).plan(rho=0.5)) == 100


def test_a_block_without_a_partition_pays_the_sum_and_may_ask_everything(ledger: Ledger) -> None:
    assert total(asked(block(ledger, "window", None)).plan(rho=0.1)) == 400


def test_a_filter_that_only_python_takes_for_the_blocks_own_does_not_open_another_block(ledger: Ledger) -> None:
    """Found from outside: 2**53 and 2**53 + 1 are one double, and 2.0**53 == 2**53 to Python."""
    rows = pa.table({"pid": list(range(100)), "shop": [2**53] * 30 + [2**53 + 1] * 70})
    account = block(ledger, "first", cut("shop", 2**53))
    block(ledger, "second", cut("shop", 2**53 + 1))
    visits = ts.Private(rows, account=account).table(unit="pid").filter(ts.col("shop").isin([2.0**53]))
    plan = visits.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.5)
    assert total(plan) == 30


def test_texts_and_numbers_do_not_tell_blocks_apart(ledger: Ledger, tmp_path: Path) -> None:
    """Found from outside: on a CSV file the type is the asker's word, so "1" and 1 were the same rows twice."""
    block(ledger, "one", cut("shop", "1"))
    with pytest.raises(Refused, match="share no value"):
        block(ledger, "two", cut("shop", 1))
    with pytest.raises(InvalidInput):
        cut("shop", "1", 2)
    file = tmp_path / "shops.csv"
    file.write_text("pid,shop\n1,1\n2,01\n")
    table = ts.Private(str(file), account=ledger.open("one")).table(unit="pid", types={"shop": "integer"})
    with pytest.raises(Refused, match="distinguished by text values"):
        table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.5)
