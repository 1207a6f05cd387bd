"""An answer in a terminal, in a notebook and on a card: the table, the message, and the statement's own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.cards import card, check_card, read_card
from tallystick.cli import notebook
from tallystick.cli.app import run
from tallystick.errors import BudgetExceeded, Contradiction, NotAnswered, TallystickError

ASKED = "SELECT AVG(age) AS mean_age, ward AS where_seen, COUNT(*) FROM visits GROUP BY ward"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = [f"{unit},{'ab'[unit % 2]},{unit % 7}" for unit in range(400)]
    Path("visits.csv").write_text("patient,ward,age\n" + "\n".join(lines) + "\n")
    Path("wards.csv").write_text("ward\na\nb\n")
    words = "dataset add visits.csv --population clinic --unit patient --bounds age=0:10 --max-groups 1"
    more = "--max-rows-per-group 1 --limit rho=1 --keys ward=wards.csv --per-query rho=0.02 --version 1"
    about = ["--about", "window=one year", "--ledger", "budget.db"]
    assert run([*words.split(), *more.split(), *about]) == 0
    return "budget.db"


def test_a_terminal_shows_the_table_and_the_price(ledger: str) -> None:
    answer = ts.sql(ASKED, ledger=ledger, why="x")
    assert repr(answer) == str(answer)
    assert repr(answer).splitlines()[0].split() == [
        "mean_age_limited", "(95", "%", "interval)", "where_seen", "count_limited", "±25",
    ]  # fmt: skip
    explained = ts.sql(f"EXPLAIN {ASKED}", ledger=ledger)
    assert repr(explained) == str(explained)
    assert repr(explained).startswith("Cost     rho 0.02 of the ")


def test_the_card_of_an_answer_has_its_names_and_is_verified(ledger: str) -> None:
    with ts.Ledger(ledger, create=False) as book:
        answer = ts.sql(ASKED, ledger=book, why="weekly")
        made = card(answer)
        assert made.facts["released"]["group_by"] == ["where_seen"]
        assert {each["name"] for each in made.facts["released"]["measures"]} == {"mean_age_limited", "count_limited"}
        assert {each["field"] for each in made.facts["chart"]} == {"mean_age_limited", "count_limited"}
        assert made.facts["decisions"]["purpose"] == "weekly"
        assert made.facts["protected"]["window"] == "one year"
        findings = check_card(made, book)
        assert not [each for each in findings if each.problem]
        edited = type(made)({**made.facts, "again": {**made.facts["again"], "names": {}}})
        assert [each for each in check_card(edited, book) if each.problem]


def test_a_card_is_made_of_an_answer_whose_ledger_was_closed(ledger: str) -> None:
    answer = ts.sql(ASKED, ledger=ledger, why="weekly")
    assert card(answer).facts["released"]["dataset"] == "visits"


def test_the_shell_writes_a_card_that_it_verifies(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", ASKED, "--why", "x", "--card", "card.html", "--ledger", ledger]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "Wrote    card.html, card.json"
    assert read_card("card.html")[0].facts["released"]["group_by"] == ["where_seen"]
    assert run(["card", "verify", "card.html", "--ledger", ledger]) == 0
    assert run(["sql", ASKED, "--why", "x", "--card", "visits.csv", "--ledger", ledger]) == 2


class _Shell:
    """As much of a notebook as ``load`` needs."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, *, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_name] = function


def test_the_magic_says_what_it_takes_and_keeps_its_answer(ledger: str) -> None:
    shell = _Shell()
    notebook.load(shell)
    magic = shell.magics["tallystick"]
    for word in ("dict named ``public``", *(option for option in notebook._parser()._option_string_actions)):
        assert word in magic.__doc__
    magic(f'kept --why "x" --ledger {ledger}', ASKED)
    assert shell.user_ns["kept"].columns[0] == "mean_age"


@pytest.mark.parametrize("problem", [NotAnswered("MAX at 1:8 cannot be answered"), BudgetExceeded("asked 2\nleft 1")])
def test_a_notebook_shows_the_message_of_a_refusal_alone(problem: TallystickError) -> None:
    assert problem._render_traceback_() == [f"{type(problem).__name__}: {problem}"]


def test_a_defect_keeps_its_traceback() -> None:
    with pytest.raises(Contradiction) as raised:
        raise Contradiction("two bounds")
    assert any("test_shown_to_people" in line for line in raised.value._render_traceback_())
