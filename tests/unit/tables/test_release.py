"""A release is charged before data is opened, stored before it is handed out, and the same for the same key."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import tallystick as ts
from sweeps import ALL
from tallystick.errors import BudgetExceeded, IdempotencyConflict, InvalidInput, Refused, Unavailable
from tallystick.ledger import Account, Ledger
from tallystick.mechanisms.exact.randomness import SystemSource
from tallystick.tables import run
from tallystick.tables.dialects import DuckWords
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.tables.plan import Plan
from unit.tables.tables import awkward


def plan_for(account: Account, source: object, rho: float = 0.2) -> Plan:
    visits = ts.Private(source, account=account).table(unit="pid").per_unit(max_groups=2, max_rows_per_group=3)
    return visits.group_by("ward", keys=["a", "none"]).agg(n=ts.count(), days=ts.mean("days", 0, 60)).plan(rho=rho)


def test_the_same_key_returns_the_same_bytes_and_one_charge(account: Account) -> None:
    plan = plan_for(account, awkward())
    first = plan.release(why="annual report", key="t1")
    second = plan.release(why="annual report", key="t1")
    assert first.to_csv().encode() == second.to_csv().encode()
    assert (first.fresh, second.fresh) == (True, False)
    assert first.to_json() == second.to_json()
    assert [event.state for event in account.history()] == ["COMMITTED"]
    assert float(account.used.first) == 0.2
    assert first.receipt is not None
    assert account.ledger.verify(receipts=[first.receipt])


def test_the_same_key_returns_the_same_bytes_after_reopening_with_the_data_gone(tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pq.write_table(awkward(), path)
    with Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
        plan = plan_for(account, path)
        first, text = plan.release(why="report", key="t1").to_csv(), plan.to_json()
    path.unlink()
    with Ledger(tmp_path / "budget.db") as ledger:
        again = Plan.from_json(text, account=ledger.open("clinic"))
        assert again.release(why="report", key="t1").to_csv() == first


def test_the_key_of_another_plan_is_a_conflict(account: Account) -> None:
    plan_for(account, awkward()).release(why="report", key="t1")
    with pytest.raises(IdempotencyConflict):
        plan_for(account, awkward(), rho=0.1).release(why="report", key="t1")


def test_a_plan_that_does_not_fit_is_denied_with_plans_that_do(account: Account) -> None:
    plan_for(account, awkward(), rho=0.3).release(why="first")
    with pytest.raises(BudgetExceeded, match="Nothing was charged and no data was read") as denied:
        plan_for(account, awkward(), rho=0.3).release(why="second")
    assert float(account.used.first) == 0.3
    assert denied.value.fits[0].startswith("rho=0.2 (n ±")
    assert any("with n alone (drops 1 of 2 measures" in fit for fit in denied.value.fits)
    assert any(fit.startswith("max_groups=1") for fit in denied.value.fits)
    plan_for(account, awkward(), rho=0.2).release(why="what was proposed")


def test_a_failure_after_the_start_keeps_the_charge_and_hides_the_reason(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, table: object) -> object:
        raise ValueError("row of Ann: 37")

    plan = plan_for(account, awkward())
    monkeypatch.setattr(DuckEngine, "stored_rows", broken)  # asked of the rows, so only after the start
    with pytest.raises(Unavailable, match="stays spent") as failed:
        plan.release(why="report", key="t1")
    assert "Ann" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    assert [event.state for event in account.history()] == ["CLOSED"]
    monkeypatch.undo()
    with pytest.raises(Unavailable, match="withheld"):
        plan.release(why="report", key="t1")
    account.clear(why="looked at the log")
    with pytest.raises(IdempotencyConflict, match="burned"):
        plan.release(why="report", key="t1")


def test_an_interrupt_after_the_start_keeps_the_charge_and_says_so(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object, table: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(DuckEngine, "stored_rows", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stays paid"):
        plan_for(account, awkward()).release(why="report")
    assert [event.state for event in account.history()] == ["CLOSED"]


def test_a_missing_file_or_column_costs_nothing(account: Account, tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pq.write_table(awkward(), path)
    plan = plan_for(account, path)
    path.unlink()
    with pytest.raises(InvalidInput, match="an existing file"):
        plan.release(why="report", key="t1")
    pq.write_table(awkward().rename_columns(["pid", "station", "day", "ok", "cost", "days"]), path)
    with pytest.raises(InvalidInput, match="column 'ward'"):
        plan.release(why="report", key="t1")
    path.write_bytes(b"not parquet")
    with pytest.raises(InvalidInput, match="readable"):
        plan.release(why="report", key="t1")
    assert float(account.used.first) == 0
    pq.write_table(awkward(), path)
    plan.release(why="report", key="t1")  # the key was never used


CAPPED = [([1, 1, 0], 1, 0), ([3, 4], 1, 1), ([4, 4, None], 2, 0), ([4, 4, None], 2, 2), ([4] * 9 + [None], 3, 0)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
@pytest.mark.parametrize(("rows", "most", "lower"), CAPPED)
def test_rows_over_the_cap_keep_their_weight(kind: pa.DataType, rows: list[int | None], most: int, lower: int) -> None:
    """In whole rows and numbers all of it was rounded away: a mean of 0 for 0.67, and one of 54 for 40."""
    data = pa.table({"u": [u for u in range(500) for _ in rows], "x": pa.array(rows * 500, kind)})
    table = ts.Private(data).table(unit="u").per_unit(max_rows_per_group=most)
    plan = table.agg(mean=ts.mean("x", lower, 5), sum=ts.sum("x", lower, 5), spread=ts.variance("x", lower, 5)).plan(
        rho=1e4
    )
    there = [row for row in rows if row is not None]
    mean, spread = np.mean(there), np.var(there)
    [found] = ts.testing.released(plan, seed=1).rows
    assert found["mean"] == pytest.approx(mean, abs=0.01)
    assert found["sum"] == pytest.approx(500 * most * sum(there) / len(rows), rel=0.01)
    assert found["spread"] == pytest.approx(spread, abs=0.05)


def test_stages_are_told_as_they_begin(account: Account) -> None:
    told: list[str] = []
    plan_for(account, awkward()).release(why="report", progress=told.append)
    assert told == ["cells", "totals", "limits and bounds"]


def test_stages_do_not_tell_how_large_a_table_is(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[str]] = []
    for most, small in ((10**7, 1 << 22), (400, 1 << 22), (10**7, 0), (400, 0)):
        monkeypatch.setattr(run, "ROWS_PER_SHARE", most)
        monkeypatch.setattr(run, "MOST_BYTES", 24 * most)
        monkeypatch.setattr("tallystick.tables.engines.duckdb._SMALL", small)
        told.append([])
        plan_for(account, awkward(), rho=0.01).release(why="report", progress=told[-1].append)
    assert told[1:] == told[:-1]


def test_what_the_engine_would_not_run_costs_nothing(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_for(account, awkward())
    monkeypatch.setattr(DuckWords, "nan", lambda self, value: exp.Anonymous(this="NO_SUCH_WORD", expressions=[value]))
    for remembered in ("_texts", "_programs", "_rehearsed"):
        monkeypatch.setattr(run, remembered, {})  # as in a new process
    wrong = replace(plan, query=plan.query.table.agg(v=ts.mean("cost", 0, 1)).plan(rho=0.1).query)
    with pytest.raises(Unavailable):
        wrong.release(why="report")
    assert account.history() == []
    assert float(account.used.first) == 0


def test_without_an_account_nothing_is_released() -> None:
    visits = ts.Private(awkward(100)).table(unit="pid").per_unit(max_rows_per_group=1)
    with pytest.raises(Refused, match="account"):
        visits.agg(n=ts.count()).plan(rho=0.1).release(why="report")


def test_an_approximate_account_pays_epsilon_and_delta(tmp_path: Path) -> None:
    with Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.approx_dp(epsilon=2, delta=1e-5), unit="patient")
        visits = ts.Private(awkward(), account=account).table(unit="pid").per_unit(max_rows_per_group=2)
        visits.agg(n=ts.count()).plan(epsilon=1, delta=1e-6).release(why="report")
        assert 0.99 <= float(account.used.first) <= 1
        assert float(account.used.delta) == 1e-6
        visits.agg(n=ts.count()).plan(epsilon=0.5).release(why="pure")
        assert float(account.used.first) <= 1.5


def test_a_gaussian_account_pays_for_gaussian_plans_and_refuses_the_others_with_what_works(tmp_path: Path) -> None:
    with Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.gdp(mu=1), unit="patient")
        visits = ts.Private(awkward(), account=account).table(unit="pid").per_unit(max_groups=2, max_rows_per_group=5)
        asked = visits.group_by("ward", keys=["a", "b"]).agg(n=ts.count(), days=ts.mean("days", 0, 60))
        plan = asked.plan(rho=0.005)
        plan.release(why="report")
        assert 0.01 <= account.used.a0 / account.limit.a0 <= 0.0101  # mu^2 = 2 rho, and a little for the lattice
        visits.group_by("ward", keys=["a"]).agg(n=ts.count()).plan(epsilon=0.1, pure=True).release(why="pure")
        with pytest.raises(Refused, match=r"sigma .* a GDP account cannot pay") as refused:
            asked.plan(rho=1)
        [remedy] = refused.value.remedies
        asked.plan(rho=remedy["value"]).release(why="what is offered is answered")
        with pytest.raises(Refused, match="public keys"):
            visits.group_by("ward", keys=ts.private_keys(delta=1e-8)).agg(n=ts.count()).plan(rho=0.001)
        elsewhere = ts.Private(awkward()).table(unit="pid").per_unit(max_rows_per_group=5).agg(n=ts.count())
        with pytest.raises(Refused, match="a GDP account cannot pay"):
            elsewhere.plan(rho=0.4).with_account(account)


def test_a_release_reads_as_csv_arrow_and_rows(account: Account, tmp_path: Path) -> None:
    released = plan_for(account, awkward()).release(why="report")
    assert released.columns == ("ward", "n", "n_lower", "n_upper", "days", "days_lower", "days_upper")
    assert [row["ward"] for row in released.rows] == ["a", "none"]
    text = released.to_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text
    assert released.to_arrow().num_rows == 2
    assert pa.table(released).column_names == list(released.headers.values())
    assert all(value >= 0 for name in ("n", "n_lower") for value in released.nonnegative()[name])
    for row in released.rows:
        assert row["n_lower"] <= row["n"] <= row["n_upper"]


def test_which_of_too_many_groups_are_shown_does_not_depend_on_the_order_they_were_found_in(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ts.Private(pa.table({"u": [1], "g": ["a"]}), account=account).table(unit="u")
    asked = table.per_unit(max_groups=1).group_by("g", keys=ts.private_keys(delta=1e-6))
    plan = asked.agg(n=ts.count_units()).plan(rho=0.1)
    monkeypatch.setattr(run, "MOST_NUMBERS", 2)
    assert plan.threshold is not None
    found = [("b", 1), ("c", 0), ("a", 0), ("d", -9)]
    for order in itertools.permutations(found):
        units = np.array([plan.threshold + more for _, more in order])
        assert [order[i][0] for i in run.shown_groups(plan, units, [(key,) for key, _ in order])] == ["a", "b"]


def test_private_keys_come_in_the_order_of_the_keys_and_never_below_the_threshold(account: Account) -> None:
    table = pa.table(
        {"u": list(range(3000)), "g": [("b", "a", "c")[i % 3] if i < 2999 else "lone" for i in range(3000)]}
    )
    visits = ts.Private(table, account=account).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("g", keys=ts.private_keys(delta=1e-10)).agg(people=ts.count_units()).plan(rho=0.4)
    released = plan.release(why="report")
    assert [row["g"] for row in released.rows] == ["a", "b", "c"]
    assert plan.threshold is not None
    assert min(row["people"] for row in released.rows) >= plan.threshold


def test_an_empty_table_gives_noise_around_zero(account: Account) -> None:
    empty = awkward(100).slice(0, 0)
    released = plan_for(account, empty).release(why="report")
    assert all(abs(row["n"]) < 500 for row in released.rows)
    visits = ts.Private(empty, account=account).table(unit="pid").per_unit(max_groups=1, max_rows_per_group=1)
    private = visits.group_by("ward", keys=ts.private_keys(delta=1e-8)).agg(n=ts.count()).plan(rho=0.1)
    assert private.release(why="report").rows == []
    # a process whose first draw is of no numbers at all: its outcome must be that of any other
    assert run.noisy(private, run.integers(private), SystemSource())["keys"] == [[]]


def test_very_many_groups_are_released(account: Account) -> None:
    import numpy as np

    count = 1_000_000 if ALL else 100_000
    groups = np.arange(count)
    table = pa.table({"u": groups, "g": groups})
    visits = ts.Private(table, account=account).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("g", keys=ts.private_keys(delta=1e-16)).agg(n=ts.count()).plan(rho=0.1)
    assert len(plan.release(why="all of one person")) == 0
    exact = run.integers(plan)
    assert exact.keys is not None
    assert len(exact.keys) == count


def test_registered_data_answer_only_about_those_they_protect(tmp_path: Path, account: Account) -> None:
    """Found by a newcomer: the unit of a registration was a word, and Python could name another."""
    from tallystick.publish.datasets import Dataset, register

    file = tmp_path / "bills.parquet"
    pq.write_table(pa.table({"patient": [1, 1, 2], "region": ["a", "a", "b"]}), file)
    private = ts.Private(str(file), account=account)
    bills = private.table(unit="patient").per_unit(max_groups=1, max_rows_per_group=2)
    register(Dataset("bills", "clinic", bills.to_data()), account)
    other = private.table(unit="region").per_unit(max_rows_per_group=1)
    with pytest.raises(Refused, match="would protect other people"):
        other.agg(n=ts.count()).plan(rho=0.01).release(why="x")
    assert not account.history()
    with pytest.raises(Refused, match="does not depend on the name"):
        register(Dataset("rows", "clinic", private.table(unit="region").to_data()), account)
    assert bills.agg(n=ts.count()).plan(rho=0.01).release(why="x").fresh
