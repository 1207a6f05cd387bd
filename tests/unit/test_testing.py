"""Deterministic noise for tests, which nothing real accepts."""

from __future__ import annotations

import dataclasses

import pyarrow
import pytest

import tallystick as ts
from tallystick.cards import card
from tallystick.errors import InvalidInput, Refused

ROWS = pyarrow.table({"who": list(range(50)), "ward": ["a", "b"] * 25, "age": [30 + i for i in range(50)]})


def plan(source=ROWS, **options):
    table = ts.Private(source, **options).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    return table.group_by("ward", keys=["a", "b"]).agg(n=ts.count(), age=ts.mean("age", 0, 110)).plan(rho=0.1)


def test_a_seed_decides_the_table_and_another_seed_another():
    first, again, other = (ts.testing.released(plan(), seed=seed) for seed in (1, 1, 2))
    assert first.data == again.data != other.data
    assert first.receipt is None
    assert "over the limits" in str(first)


def test_private_keys_work_too():
    table = ts.Private(ROWS).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    asked = table.group_by("ward", keys=ts.private_keys(delta=1e-4)).agg(n=ts.count_units()).plan(rho=2)
    assert ts.testing.released(asked, seed=3).keys == [("a",), ("b",)]


def test_nothing_real_takes_it(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="person")
        with pytest.raises(Refused, match="no account pays"):
            ts.testing.released(plan(account=account), seed=1)
        noisy = ts.testing.deterministic(ts.noise.add_gaussian(sigma=3, sensitivity=1), seed=1)
        with pytest.raises(Refused, match="no account pays"):
            account.release(noisy, 100, why="by mistake")
        assert account.used.a0 == 0
    with pytest.raises(Refused, match="not paid by an account"):
        card(ts.testing.released(plan(), seed=1))


def test_files_are_refused(tmp_path):
    import pyarrow.parquet

    pyarrow.parquet.write_table(ROWS, tmp_path / "rows.parquet")
    with pytest.raises(InvalidInput, match="made up"):
        ts.testing.released(plan(str(tmp_path / "rows.parquet")), seed=1)


def test_a_mechanism_repeats_itself():
    noisy = ts.testing.deterministic(ts.noise.add_laplace(epsilon=1, sensitivity=1), seed=5)
    assert noisy(10) == noisy(10)
    with pytest.raises(InvalidInput):
        ts.testing.deterministic(ts.noise.add_laplace(epsilon=1, sensitivity=1), seed=-1)


def test_no_account_and_no_card_is_talked_into_it(tmp_path):
    noisy = ts.testing.deterministic(ts.noise.add_gaussian(sigma=3, sensitivity=1), seed=1)
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="person")
        with pytest.raises(InvalidInput, match="a mechanism"):
            account.release(noisy.__call__, 100, why="by mistake")
        with pytest.raises(Refused, match="no account pays"):
            account.charge(noisy.privacy, why="by mistake")
        assert account.used.a0 == 0
        paid = plan(account=account).release(why="a release", key="k")
        for made in (paid, plan(account=account).release(why="a release", key="k")):
            assert card(made)
        swapped = dataclasses.replace(paid, answer=ts.testing.released(plan(), seed=1).answer)
        with pytest.raises(Refused, match="not the numbers that were paid for"):
            card(swapped)
