"""Epsilon of one population is shown at one delta: on every screen, on cards and in JSON."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Protects
from tallystick.cli.app import run
from tallystick.errors import InvalidInput, LargeDelta
from tallystick.ledger import opening
from tallystick.ledger.filters import Amount, Filter, quoted_delta

VISITS = "patient,ward\n" + "".join(f"p{i % 40},{'ns'[i % 2]}\n" for i in range(400))
SHOWN = re.compile(r"epsilon ([0-9.]+) at delta ([0-9.e-]+[0-9])")


@pytest.fixture(params=["rho=0.5,delta=1e-6", "rho=0.5", "rho=0.5,delta=1e-4", "mu=1"])
def shell(request, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("visits.csv").write_text(VISITS)

    def call(*words):
        code = run([*words])
        said = capsys.readouterr()
        assert code == 0, said.out + said.err
        return said.out if "--json" in words else said.out + said.err

    add = ["dataset", "add", "visits.csv", "--unit", "patient", "--population", "clinic", "--limit", request.param]
    call(*add, "--max-groups", "2", "--max-rows-per-group", "1")
    call.expected = {"rho=0.5,delta=1e-6": 2e-6, "rho=0.5,delta=1e-4": 1.1e-4}.get(request.param, 1e-6)
    return call


def test_every_screen_and_file_shows_epsilon_at_the_same_delta(shell):
    query = ["query", "visits", "--measures", "count_units", "--rho", "0.0001", "--why", "x"]
    screens = {
        "publish plan": shell("publish", "plan", *query[1:6]),
        "query": shell(*query, "--card", "card.html"),
        "charge list": shell("charge", "list"),
        "budget": shell("budget", "clinic"),
        "account show": shell("account", "show", "clinic"),
        "notebook": ts.Ledger("tallystick.db").open("clinic")._repr_html_(),
    }
    for name, text in screens.items():
        deltas = {float(delta) for _, delta in SHOWN.findall(text)}
        assert deltas == {shell.expected}, (name, text)
    card = json.loads(Path("card.json").read_text())
    assert card["words"]["limit"]["delta"] == card["words"]["table"]["delta"] == shell.expected
    assert json.loads(shell("account", "show", "clinic", "--json"))["found"]["quoted_delta"] == shell.expected
    last = json.loads(shell(*query, "--json"))["found"]["price_epsilon"]
    assert float(SHOWN.search(last)[2]) == shell.expected


def test_one_release_has_one_epsilon_on_every_screen(shell):
    released = shell("query", "visits", "--measures", "count_units", "--rho", "0.0001", "--why", "x")
    [(alone, _)] = SHOWN.findall(released)
    [(listed, _)] = SHOWN.findall(shell("charge", "list"))
    used = SHOWN.findall(shell("account", "show", "clinic"))[-1][0]
    assert listed == alone
    assert float(alone) <= float(used)  # its own loss may be less than what it is charged


def test_a_release_in_epsilon_is_listed_with_the_epsilon_that_was_asked(shell):
    words = ["query", "visits", "--measures", "count_units", "--epsilon", "0.1", "--pure", "--why", "x"]
    assert " (epsilon 0.1) as ledger entry " in shell(*words)
    assert "(epsilon 0.1)" in shell("charge", "list")


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_a_fit_has_one_epsilon_on_every_screen(shell, kind):
    pytest.importorskip("sklearn")
    rows = "".join(f"p{i},{i % 90},{i % 2},{'ns'[i % 2]}\n" for i in range(80))
    Path("rows.csv").write_text("patient,age,cost,ward\n" + rows)
    add = ["dataset", "add", "rows.csv", "--unit", "patient", "--population", "clinic", "--max-groups", "1"]
    shell(*add, "--max-rows-per-group", "1", "--bounds", "age=0:110,cost=0:1")
    words = {
        "linear": ["--target", "cost", "--rho", "0.0001"],
        "logistic": ["--target", "ward", "--labels", "n,s", "--epsilon", "0.1", "--delta", "1e-7"],
    }
    fitted = shell("fit", kind, "rows", "--features", "age", *words[kind], "--why", "x")
    [(alone, _)] = SHOWN.findall(fitted)
    [(listed, _)] = SHOWN.findall(shell("charge", "list"))
    assert listed == alone


def test_a_charge_without_a_loss_is_converted_from_its_cost_and_says_so(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=1))
        account.pay(ts.zcdp(rho=0.005), why="x")
        [event] = account.history()
        assert account.release_epsilon(event.amount, event.loss) == "epsilon 0.43 at delta 1e-6"
        unread = account.release_epsilon(event.amount, replace(event, plan="").loss)
        assert unread == "epsilon 0.43 at delta 1e-6, converted from its cost"


@pytest.mark.parametrize(
    ("kind", "delta", "expected"),
    [
        ("zcdp", 0, 1e-6),
        ("zcdp", 10**11, 1e-6),
        ("zcdp", 10**12, 2e-6),
        ("zcdp", 10**13, 2e-5),
        ("zcdp", 10**16, 0.01001),
        ("zcdp", 5 * 10**17, 0.50001),
        ("gdp", 0, 1e-6),
        ("approx", 0, 0.0),
        ("approx", 10**13, 1e-5),
    ],
)
def test_the_delta_follows_from_the_limit(kind, delta, expected):
    assert quoted_delta(Amount(Filter(kind), 10**12, delta)) == expected


@pytest.mark.parametrize("delta", [1e-7, 1e-4, 0.01, 0.09, 0.5, 0.999999])
def test_the_limit_is_never_shown_as_epsilon_zero(delta):
    limit = Amount(Filter("zcdp"), 5 * 10**11, round(delta * 10**18))
    at = quoted_delta(limit)
    assert delta < at <= max(1e-6, delta + 1.0001e-5)
    assert 4 < limit.filter.guarantee(limit.a0, limit.a1, Protects()).epsilon(delta=at) < 6


def test_a_limit_that_allows_to_publish_people_as_they_are_is_refused_or_warned_of(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        with pytest.raises(InvalidInput, match="one person in 20 may be published as is"):
            ledger.open("a", budget=ts.zcdp(rho=0.5, delta=0.05))
        assert ledger.accounts() == []
        with pytest.warns(LargeDelta, match="one person in 1,000 may"):
            small = ledger.open("b", budget=ts.zcdp(rho=0.5, delta=0.001))
        with pytest.raises(InvalidInput, match="one person in 10 may"):
            small.raise_limit(ts.zcdp(rho=0.5, delta=0.1), why="more")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ledger.open("c", budget=ts.zcdp(rho=0.5, delta=1e-4))
            ledger.open("b", budget=ts.zcdp(rho=0.5, delta=0.001))  # it exists


def test_an_account_with_a_larger_delta_still_opens_pays_and_verifies(tmp_path, monkeypatch):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(opening, "MOST_DELTA", 1)
            with pytest.warns(LargeDelta):
                ledger.open("old", budget=ts.zcdp(rho=0.5, delta=0.05))
        account = ledger.open("old", budget=ts.zcdp(rho=0.5, delta=0.05))
        account.pay(ts.zcdp(rho=0.1), why="x")
        account.raise_limit(ts.zcdp(rho=0.6, delta=0.05), why="more rho, and no more delta")
        assert ledger.verify().intact
