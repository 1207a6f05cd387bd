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
    assert "1 charge and 10 that cost nothing" in run("ledger", "verify", "--ledger", place).out


def test_progress_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(output, "console", lambda **_: screen)
    with output.working("publishing") as tell:
        tell("a long stage " * 20)
    written = screen.file.getvalue()
    assert "publishing" in written
    assert written.count("a long stage") < 7 * written.count("publishing")
