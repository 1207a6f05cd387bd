"""The screen of a budget says which charges it shows, and speaks of several people."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import tallystick as ts
from tallystick.cli import output
from tallystick.ledger.stream import AnswerStream, Cost


@pytest.mark.parametrize(("charges", "is_said"), [(10, False), (12, True)])
def test_the_budget_says_that_it_shows_the_last_ten(run: Any, tmp_path: Path, charges: int, is_said: bool) -> None:
    place = str(tmp_path / "b.db")
    with ts.Ledger(place) as ledger:
        account = ledger.open("the men", budget=ts.zcdp(rho=1), unit="man")
        for month in range(charges):
            account.pay(ts.zcdp(rho=0.01), why=f"month {month + 1}")
    shown = run("budget", "the men", "--ledger", place).out
    assert ("last 10 of 12 charges; all of them: tallystick charge list 'the men'" in shown) == is_said
    assert ("with an error of ±3 men" in shown, "mans" in shown) == (True, False)
    assert shown.count("month ") == 10


def test_steps_of_a_run_that_is_paid_as_a_whole_are_not_charges_with_a_cost(run: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "b.db")
    with ts.Ledger(place) as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=1))
        part = Cost(ts.zcdp(rho=0.01), None, "part")
        stream = AnswerStream(
            account, key="run", items=10, block=1, why="train",
            whole=Cost(ts.zcdp(rho=0.1), None, "whole"), each=lambda first, last: part,
        )  # fmt: skip
        stream.open()
        for _ in range(10):
            stream.take()
    assert run("budget", "clinic", "--ledger", place).out.count("train") == 1
    listed = run("charge", "list", "--ledger", place)
    assert listed.out.count("COMMITTED") == 1
    assert "10 steps of runs that were paid as a whole are left out; see --json" in listed.out
    assert len(run("charge", "list", "--ledger", place, "--json").document["found"]["charges"]) == 11
    assert "1 charge and 10 that cost nothing" in run("ledger", "verify", "--ledger", place).out


def test_progress_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(output, "console", lambda **_: screen)
    with output.working("publishing") as tell:
        tell("a long stage " * 20)
    written = screen.file.getvalue()
    assert "publishing" in written
    assert written.count("a long stage") < 7 * written.count("publishing")


@pytest.mark.parametrize(
    ("limits", "is_shown"), [(("--max-groups", "1", "--max-rows-per-group", "2"), True), ((), False)]
)
def test_the_budget_shows_a_sum_that_fits_if_a_column_has_bounds(run, tmp_path, monkeypatch, limits, is_shown) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient,age\n" + "".join(f"p{i},40\n" for i in range(20)))
    words = "--population patients --unit patient --bounds age=0:110 --limit rho=0.5".split()
    assert run("dataset", "add", "visits.csv", *words, *limits).code == 0
    found = run("budget", "--json").document["found"]["fitting_sum"]
    shown = run("budget").out
    assert (found is not None) == is_shown
    assert ("1 sum of age over all rows of visits with an error of ±" in shown) == is_shown
    if is_shown:
        planned = run("publish", "plan", "visits", "--measures", "sum(age)", "--rho", "0.5", "--json")
        assert found["error"] == pytest.approx(planned.document["found"]["plan"]["error"]["sum_age"])


def test_what_is_left_is_printed_by_one_rule(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some commands printed the limit beside it, others did not, and some left delta out."""
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient\n" + "".join(f"p{i}\n" for i in range(20)))
    words = "--population patients --unit patient --limit rho=0.5,delta=1e-6".split()
    left = "rho {} of 0.5, delta 1e-6 of 1e-6"
    assert left.format("0.5") in run("dataset", "add", "visits.csv", *words).out
    query = "query visits --measures count_units --rho 0.1 --why people".split()
    assert f"Left now: {left.format('0.5')}." in run(*query, "--dry-run").out
    assert f"Left: {left.format('0.4')}." in run(*query).errors
    assert left.format("0.4") in run("budget").out
    assert left.format("0.4") in run("account", "show", "patients").out
    assert left.format("0.4") in run("dataset", "show", "visits").out
    assert f"Left: {left.format('0.395')}." in run("charge", "add", "gaussian(sigma=10)", "--why", "more").out
    assert f"left     {left.format('0.395')}" in run(*query[:-4], "--rho", "0.4", "--why", "too much").errors
    statement = ("sql", "SELECT COUNT(DISTINCT patient) AS n FROM visits", "--rho", "0.01", "--why", "again")
    assert f"Left: {left.format('0.385')}." in run(*statement).errors
