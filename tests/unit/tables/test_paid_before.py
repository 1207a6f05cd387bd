"""A question that was paid for before: whoever would pay for it again without a key is told first."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import ChargedAgain
from tallystick.ledger import Account
from tallystick.tables.plan import Plan

ROWS = pa.table({"who": [1, 2, 3], "ward": ["a", "b", "a"], "age": [30, 40, 50]})


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.zcdp(rho=10))


def counts(account: Account, rows: Any = ROWS, rho: float = 0.1) -> Plan:
    visits = ts.Private(rows, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    return visits.group_by("ward", keys=["a", "b"]).agg(n=ts.count()).plan(rho=rho)


def test_the_second_time_says_which_key_gives_the_stored_answer_and_it_does(account: Account) -> None:
    plan = counts(account)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = plan.release(why="x")
        counts(account, rho=0.2).release(why="x")  # another price is another question
    with pytest.warns(ChargedAgain) as told:
        plan.release(why="x")
    with pytest.warns(ChargedAgain) as named:
        plan.release(why="x", key="m8")  # a new key is a new charge, too
    (said,) = {str(each.message) for each in (*told, *named)}
    assert first.receipt is not None
    assert said.startswith(f"ledger entry {first.receipt.charge} paid for the same question")
    key = said.split("key='")[1].split("'")[0]
    spent = account.used
    assert plan.release(why="x", key=key).data == first.data
    assert account.used == spent


def test_a_filter_that_makes_it_an_error_keeps_the_price(account: Account) -> None:
    plan = counts(account)
    plan.release(why="x")
    spent = account.used
    with warnings.catch_warnings():
        warnings.simplefilter("error", ChargedAgain)
        with pytest.raises(ChargedAgain):
            plan.release(why="x")
        with pytest.raises(ChargedAgain):
            plan.release(why="x", key="new")
    assert account.used == spent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChargedAgain)
        assert counts(account).release(why="x", key="new").fresh


def test_a_loop_is_told_once(account: Account) -> None:
    plan = counts(account)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(4):
            plan.release(why="x")
    assert len(told) == 1
    assert told[0].filename == __file__


def test_nobody_is_told_of_what_others_paid_or_of_what_failed(tmp_path: Path, account: Account) -> None:
    plan = counts(account)
    other = account.ledger.open("school", budget=ts.zcdp(rho=10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.release(why="x")
        counts(other).release(why="x")
        rows = pa.table({"who": [1], "ward": ["a"], "age": [3]})
        rows.to_pandas().to_csv(tmp_path / "visits.csv", index=False)
        counts(account, str(tmp_path / "visits.csv")).release(why="x")


def test_a_file_and_its_registered_name_are_one_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    """A program names the file and the shell names the dataset; each is charged, and the second one is warned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "visits.csv").write_text("who,ward\n1,a\n2,b\n")
    add = "dataset add visits.csv --population people --unit who --max-groups 1 --max-rows-per-group 1 --limit rho=5"
    assert run(*add.split()).code == 0
    (tmp_path / "wards.csv").write_text("ward\na\nb\n")
    ask = ["query", "visits", "--by", "ward", "--keys", "wards.csv", "--measures", "count", "--why", "x"]

    def in_python(rho: float) -> Plan:
        visits = ts.Private("visits.csv", account=ledger.open("people")).table(unit="who")
        capped = visits.per_unit(max_groups=1, max_rows_per_group=1)
        return capped.group_by("ward", keys=["a", "b"]).agg(count=ts.count()).plan(rho=rho)

    with ts.Ledger("tallystick.db") as ledger:
        asked = run(*ask, "--rho", "0.1", "--json").document["found"]
        with pytest.warns(ChargedAgain, match=f"the same source in other words, under key '{asked['key']}'"):
            in_python(0.1).release(why="x")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first = in_python(0.2).release(why="x", key="mine")
        assert first.fresh
    for more in (["--dry-run"], []):
        assert "in other words, under key 'mine'" in run(*ask, "--rho", "0.2", *more).errors
    assert "note:" not in run(*ask, "--rho", "0.3").errors


def test_the_shell_says_it_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "visits.csv").write_text("who,ward\n1,a\n2,b\n")
    add = "dataset add visits.csv --population people --unit who --max-groups 1 --max-rows-per-group 1 --limit rho=5"
    assert run(*add.split()).code == 0
    ask = ["query", "visits", "--measures", "count", "--rho", "0.1", "--why", "x"]
    first = run(*ask, "--json")
    assert "note:" not in first.errors
    key = first.document["found"]["key"]
    for more in (["--dry-run"], []):
        assert f"--key {key} (reuses that answer, no charge)" in run(*ask, *more).errors
    assert f"--key {key} (reuses that answer, no charge)" in run(*ask, "--key", "mine").errors
    again = run(*ask, "--key", key, "--json")
    assert (again.document["found"]["again"], again.document["found"]["rows"]) == (
        True,
        first.document["found"]["rows"],
    )


def registered(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "visits.csv").write_text("who,ward\n1,a\n2,b\n")
    (tmp_path / "wards.csv").write_text("ward\nb\na\n")
    add = "dataset add visits.csv --population people --unit who --max-groups 1 --max-rows-per-group 1 --limit rho=5"
    assert run(*add.split(), "--keys", "ward=wards.csv").code == 0


TABLE = ["visits", "--by", "ward", "--keys", "wards.csv", "--measures", "count", "--rho", "0.1"]


def test_a_query_that_is_published_is_not_charged_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    registered(run, tmp_path, monkeypatch)
    key = run("query", *TABLE, "--why", "x", "--json").document["found"]["key"]
    offered = run("publish", "plan", *TABLE, "--out", "p.json")
    assert f"under a new key it is charged again. Unless its data have changed: --key {key} (reuses" in offered.out
    for more in (["--dry-run"], []):
        assert "paid for the same question" in run("publish", "run", "p.json", "--why", "x", *more).errors
    assert "has the answer already. Nothing would be charged." in run("publish", "plan", *TABLE).out
    assert "note:" not in run("publish", "run", "p.json", "--why", "x").errors


def test_the_statement_that_a_query_prints_is_not_charged_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    registered(run, tmp_path, monkeypatch)
    printed = run("query", *TABLE, "--why", "x", "--details").errors
    statement = printed.split("In SQL: ")[1].split(" -- ")[0].splitlines()[0]
    explained = run("sql", f"EXPLAIN {statement}", "--rho", "0.1")
    assert "paid for the same question" in explained.out
    for more in (["--dry-run"], []):
        assert "paid for the same question" in run("sql", statement, "--rho", "0.1", "--why", "x", *more).errors
    assert "Asked before: ledger entry" in run("sql", f"EXPLAIN {statement}", "--rho", "0.1").out
    assert "note:" not in run("sql", statement, "--rho", "0.1", "--why", "x").errors


def test_a_statement_that_is_asked_as_a_query_is_not_charged_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    registered(run, tmp_path, monkeypatch)
    statement = "SELECT COUNT(*) AS n, ward AS w FROM visits GROUP BY ward"
    assert "note:" not in run("sql", statement, "--rho", "0.1", "--why", "x").errors
    said = run("query", *TABLE, "--why", "x").errors
    assert "paid for the same question of the same source in other words" in said
    assert "--key" not in said  # the key of a statement answers that statement alone
