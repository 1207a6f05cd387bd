"""Who pays in a ledger with roles: allowances by default, colleagues who read stored answers, and what cards say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick as ts
from contracts.other_users import acting_as
from tallystick.cards.card import card
from tallystick.cards.check import check_card
from tallystick.cards.page import view_of
from tallystick.cli.app import run
from tallystick.errors import InvalidInput, NotAuthorised, Refused
from tallystick.ledger import Ledger

COUNTS = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
SUMS = "SELECT region, SUM(cost) AS total FROM visits GROUP BY region"


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Ledger]]:
    """A ledger with registered visits: its owner, two analysts with allowances, and two approvers."""
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{number % 400},{'ns'[number % 2]},{number % 100},{number % 80}\n" for number in range(1000))
    Path("visits.csv").write_text(f"patient_id,region,cost,age\n{rows}")
    Path("regions.csv").write_text("region\nn\ns\n")
    limits = [
        "--max-groups",
        "2",
        "--max-rows-per-group",
        "3",
        "--bounds",
        "cost=0:100",
        "--bounds",
        "age=0:100",
        "--keys",
        "region=regions.csv",
    ]
    added = ["dataset", "add", "visits.csv", "--population", "clinic", "--unit", "patient_id", "--limit", "rho=1"]
    assert run([*added, *limits, "--keys", "region=regions.csv"]) == 0
    with Ledger(os.path.abspath("tallystick.db")) as ledger:
        ledger.govern(why="a team uses it")
        ledger.team.begin(why="a team uses it")
        for name in ("ann", "ben"):
            ledger.team.grant(name, "analyst", "clinic", why="works here")
            ledger.team.allow(name, "clinic", ts.zcdp(rho=0.3), why="a share", called=f"{name}-share")
        for name in ("cora", "dan"):  # with two approvers the owner no longer acts alone
            ledger.team.grant(name, "approver", "clinic", why="decides")
        people = {member.name: ledger.acting_for(member.id) for member in ledger.team.members()}
        yield {"owner": ledger, **people}


def test_an_analyst_pays_from_the_own_allowance_by_default(team: dict[str, Ledger]) -> None:
    ts.sql(COUNTS, ledger=team["ann"], rho=0.1, why="count")
    assert str(team["owner"].open("ann-share").used) == "rho 0.1"
    assert str(team["owner"].open("clinic").used) == "rho 0.1"
    [event] = team["owner"].open("ann-share").history()
    assert event.by == "ann"


def test_a_colleague_gets_the_stored_answer_and_nobody_pays_again(team: dict[str, Ledger]) -> None:
    first = ts.sql(COUNTS, ledger=team["ann"], rho=0.1, why="count")
    for name in ("ben", "owner"):
        again = ts.sql(COUNTS, ledger=team[name], rho=0.1, why="count")
        assert list(again.rows) == list(first.rows)
    assert str(team["owner"].open("clinic").used) == "rho 0.1"
    own = ts.sql(SUMS, ledger=team["owner"], rho=0.1, why="sum")
    assert list(ts.sql(SUMS, ledger=team["ben"], rho=0.1, why="sum").rows) == list(own.rows)
    assert str(team["owner"].open("clinic").used) == "rho 0.2"
    assert not team["owner"].open("ben-share").history()


def test_a_key_that_a_colleague_chose_is_not_found(team: dict[str, Ledger]) -> None:
    first = ts.sql(COUNTS, ledger=team["ann"], rho=0.1, why="count", key="mine")
    other = ts.sql(COUNTS, ledger=team["ben"], rho=0.1, why="count", key="mine")
    assert first.release.receipt.charge != other.release.receipt.charge


def test_nobody_pays_from_the_population_or_the_allowance_of_somebody_else(team: dict[str, Ledger]) -> None:
    for account in ("ann-share", "clinic"):
        with pytest.raises(NotAuthorised):
            ts.sql(COUNTS, ledger=team["ben"], rho=0.1, why="count", account=account)
    with pytest.raises(NotAuthorised):
        ts.sql(COUNTS, ledger=team["cora"], rho=0.1, why="count")
    assert str(team["owner"].open("clinic").used) == "rho 0"


def test_of_several_allowances_one_is_named(team: dict[str, Ledger]) -> None:
    team["owner"].team.allow("ann", "clinic", ts.zcdp(rho=0.1), why="a second one", called="ann-extra")
    with pytest.raises(InvalidInput, match="ann-extra"):
        ts.sql(COUNTS, ledger=team["ann"], rho=0.05, why="count")
    ts.sql(COUNTS, ledger=team["ann"], rho=0.05, why="count", account="ann-extra")
    assert str(team["owner"].open("ann-extra").used) == "rho 0.05"


def test_an_account_of_another_population_does_not_pay(team: dict[str, Ledger]) -> None:
    team["owner"].open("other", budget=ts.zcdp(rho=1), unit="patient_id")
    with pytest.raises(Refused, match="would not be paid for"):
        ts.sql(COUNTS, ledger=team["owner"], rho=0.05, why="count", account="other")


def test_the_card_promises_the_limit_of_the_population_and_says_who_raised_it(team: dict[str, Ledger]) -> None:
    before = card(ts.sql(COUNTS, ledger=team["ann"], rho=0.1, why="count"))
    assert before.facts["promise"]["limit"] == "rho 1"
    number = team["owner"].team.request(
        lambda book: book.open("clinic").raise_limit(ts.zcdp(rho=2), why="a year more"), why="a year more"
    )
    assert team["cora"].team.approve(number, why="it is needed").state == "EXECUTED"
    after = card(ts.sql(SUMS, ledger=team["ann"], rho=0.1, why="sum"))
    [shown] = after.facts["approvals"]["raises"]
    ids = {name: book.actor for name, book in team.items()}
    assert (shown["asked_by"], shown["approved_by"]) == (ids["owner"], [ids["cora"]])
    [sentence] = view_of(after.facts)["raises"]
    assert "from rho 1 to rho 2" in sentence
    assert ids["cora"][:8] in sentence
    assert "approvals" not in before.facts
    for each in (before, after):
        assert not [finding for finding in check_card(each, team["owner"]) if finding.problem]


def test_a_broken_glass_is_on_every_later_card(team: dict[str, Ledger]) -> None:
    before = card(ts.sql(COUNTS, ledger=team["ann"], rho=0.1, why="count"))
    team["owner"].team.break_glass("eve", "clinic", why="all approvers have left")
    after = card(ts.sql(SUMS, ledger=team["ann"], rho=0.1, why="sum"))
    assert "approvals" not in before.facts
    [sentence] = view_of(after.facts)["without_approval"]
    assert sentence in after.to_html()
    assert "without approval" in sentence


def test_the_budget_says_who_spent_what(team: dict[str, Ledger], capsys: pytest.CaptureFixture[str]) -> None:
    ts.sql(COUNTS, ledger=team["ann"], rho=0.1, why="count")
    ts.sql(SUMS, ledger=team["ben"], rho=0.05, why="sum")
    spenders = team["owner"].open("clinic").spent_by()
    assert [(each.name, each.charges, str(each.amount)) for each in spenders] == [
        ("ann", 1, "rho 0.1"),
        ("ben", 1, "rho 0.05"),
    ]
    capsys.readouterr()
    assert run(["budget", "clinic", "--plot", "spent.svg"]) == 0
    out = capsys.readouterr().out
    assert "spent by" in out
    assert "ann" in Path("spent.svg").read_text()
    assert run(["charge", "list"]) == 0
    assert "ann" in capsys.readouterr().out


def test_a_key_from_before_roles_still_finds_its_answer(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db", config=tmp_path) as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        first = clinic.pay(ts.zcdp(rho=0.1), why="a report", key="report")
        ledger.govern(why="a team uses it")
        ledger.team.begin(why="a team uses it")
        again = clinic.pay(ts.zcdp(rho=0.1), why="a report", key="report")
        assert again.charge == first.charge
        assert str(clinic.used) == "rho 0.1"


def test_a_running_charge_of_a_person_who_ends_can_finish(team: dict[str, Ledger]) -> None:
    charge = team["ann"].open("ann-share").charge(ts.zcdp(rho=0.1), why="x", source="visits").begin()
    team["owner"].team.end("ann", why="left")
    charge.commit(1)
    assert team["owner"].open("clinic").failures() == []
    with pytest.raises(NotAuthorised):
        team["ann"].open("ann-share").pay(ts.zcdp(rho=0.01), why="later")
    assert not team["owner"].verify().problems


@pytest.fixture
def extra(team: dict[str, Ledger]) -> Iterator[Ledger]:
    """The ledger after ann got a second allowance. Commands run as her."""
    team["owner"].team.allow("ann", "clinic", ts.zcdp(rho=0.2), why="a second one", called="ann-extra")
    team["owner"].team.allow("ann", "clinic", ts.zcdp(rho=0.2), why="for one model", called="ann-models")
    with acting_as("ann"):
        yield team["owner"]


PLAN = [*("publish", "plan", "visits", "--by", "region", "--keys", "regions.csv"), *("--measures", "count")]


def test_a_plan_and_its_table_are_paid_by_the_allowance_that_is_named(
    extra: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--account", "ann-extra"]
    assert run([*PLAN, "--rho", "0.05", "--out", "plan.json"]) == 2
    assert "--account is missing. Give one of your allowances: ann-share, ann-extra" in capsys.readouterr().err
    assert run([*PLAN, "--rho", "0.05", "--out", "plan.json", *named]) == 0
    printed = capsys.readouterr()
    assert "rho 0.05 of the 0.2 left" in printed.out
    assert "--account ann-extra" in printed.err
    assert "--key" not in printed.err  # a key of her own would hide the answer from colleagues
    assert run(["publish", "run", "plan.json", "--why", "count", *named]) == 0
    assert str(extra.open("ann-extra").used) == "rho 0.05"
    assert str(extra.open("ann-share").used) == "rho 0"


def test_models_and_suggestions_are_paid_by_the_allowance_that_is_named(extra: Ledger) -> None:
    paid = ["--account", "ann-models", "--why", "a model"]
    linear = ["fit", "linear", "visits", "--target", "cost", "--features", "age"]
    assert run([*linear, "--rho", "0.05", *paid]) == 0
    assert run(["dataset", "suggest", "visits", "--by", "region", "--rho", "0.1", *paid]) == 0
    assert str(extra.open("ann-models").used) == "rho 0.15"


def test_a_model_is_paid_by_the_only_allowance(team: dict[str, Ledger]) -> None:
    scores = ["fit", "logistic", "visits", "--target", "region", "--features", "cost", "--labels", "n,s"]
    with acting_as("ben"):
        assert run([*scores, "--epsilon", "0.2", "--delta", "1e-6", "--why", "a model"]) == 0
    assert float(team["owner"].open("ben-share").used.first) > 0
