"""The same number has the same digits on every screen: terminal, card, notebook and error."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import BudgetExceeded

ROWS = [f"p{i},{'ns'[i % 2]},{20 + i % 60}.5" for i in range(3000)]
QUERY = ("query", "visits", "--measures", "count_units,mean(age)", "--by", "ward", "--keys", "wards.csv")
STATEMENT = "SELECT COUNT(DISTINCT patient) AS n, AVG(age) AS age FROM visits"
CELL = re.compile(r"\d+\.\d+ \(\d+\.\d+ to \d+\.\d+\)")


@pytest.fixture
def clinic(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("visits.csv").write_text("\n".join(["patient,ward,age", *ROWS, ""]))
    Path("wards.csv").write_text("ward\nn\ns\n")
    limits = "--max-groups 1 --max-rows-per-group 1 --bounds age=0:110 --limit rho=0.1"
    added = run(*f"dataset add visits.csv --population patients --unit patient {limits}".split())
    assert added.code == 0, added.errors
    return run


def test_a_released_number_has_the_same_digits_on_every_screen(clinic: Any) -> None:
    """The notebook had ten digits of a mean, the terminal five and the card four."""
    done = clinic("sql", STATEMENT, "--rho", "0.0123", "--why", "x", "--key", "k", "--card", "card.html")
    assert done.code == 0, done.errors
    [terminal] = CELL.findall(done.out)

    made = ts.sql(STATEMENT, ledger=ts.Ledger("tallystick.db"), rho=0.0123, why="x", key="k")
    assert not made.fresh
    notebook = html.unescape(made._repr_html_())
    card = {chart["field"]: chart["shown"] for chart in json.loads(Path("card.json").read_text())["chart"]}
    assert CELL.findall(str(made)) == CELL.findall(str(made.release)) == CELL.findall(notebook) == [terminal]
    assert card["age_limited"] == [terminal.split(" ")[0]]

    [count] = card["n"]
    [error] = re.findall(r"n ±(\S+)", done.out)
    for screen in (done.out, str(made), notebook):
        assert f"n ±{error}" in screen
        assert re.search(rf"[^0-9.,]{re.escape(count)}[^0-9.,]", screen), screen


def test_cost_and_what_is_left_have_the_same_digits_in_an_error_as_on_the_screens(clinic: Any) -> None:
    """A charge was rho 0.0123 in one place and 0.01230 in another; epsilon was 0.701 and 0.7006."""
    done = clinic(*QUERY, "--rho", "0.0123", "--why", "x", "--card", "card.html")
    left = re.search(r"[Ll]eft:? rho ([0-9.]+[0-9])", done.out + done.errors)[1]
    epsilon = re.search(r"epsilon ([0-9.]+) at delta", done.out + done.errors)[1]
    account = ts.Ledger("tallystick.db").open("patients")
    with pytest.raises(BudgetExceeded) as denied:
        account.pay(ts.zcdp(rho=0.09), why="too much")
    assert f"rho {left} of 0.1 is left" in str(denied.value)
    assert f"rho {left}" in account._repr_html_()
    shown = clinic("card", "show", "card.html").out
    assert "rho 0.0123" in shown
    assert f"epsilon {epsilon}" in shown
    denial = clinic(*QUERY, "--rho", "0.09", "--why", "x")
    assert denial.code == 3
    assert f"left rho {left} of 0.1" in " ".join(denial.errors.split())
