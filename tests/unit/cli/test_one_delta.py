"""Epsilon of one population is shown at one delta: on every screen, on cards and in JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tallystick as ts
from tallystick.cli.app import run
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
    call.expected = {"rho=0.5,delta=1e-6": 1e-5, "rho=0.5,delta=1e-4": 1e-3}.get(request.param, 1e-6)
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
    assert listed == used
    assert float(alone) <= float(listed)  # its own loss may be less than what it is charged


@pytest.mark.parametrize(
    ("kind", "delta", "expected"),
    [
        ("zcdp", 0, 1e-6),
        ("zcdp", 10**11, 1e-6),
        ("zcdp", 10**12, 1e-5),
        ("zcdp", 5 * 10**17, 0.75),
        ("gdp", 0, 1e-6),
        ("approx", 0, 0.0),
        ("approx", 10**13, 1e-5),
    ],
)
def test_the_delta_follows_from_the_limit(kind, delta, expected):
    assert quoted_delta(Amount(Filter(kind), 10**12, delta)) == expected
