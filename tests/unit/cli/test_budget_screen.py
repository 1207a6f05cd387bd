"""The screen of a budget says which charges it shows, and speaks of several people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick as ts


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
