"""Every charge is priced again from its plan's text; too low a price is told apart from tampering."""

from __future__ import annotations

import pytest

import tallystick as ts
from tallystick.ledger.pay import Charge, Terms

PLANS = [
    (ts.gaussian(sigma=4), None),
    (ts.laplace(scale=8), None),
    (100 * ts.gaussian(sigma=20).sampled(rate=0.01), 1e-7),
    (ts.approx_dp(epsilon=0.1, delta=1e-8), None),
    (ts.gaussian(sigma=3) + ts.laplace(scale=9), 1e-9),
    (ts.no_loss(), None),
]


@pytest.mark.parametrize("budget", [ts.zcdp(rho=5, delta=1e-5), ts.approx_dp(epsilon=9, delta=1e-5)])
def test_what_the_ledger_charged_is_enough_today(ledger, budget):
    account = ledger.open("people", budget=budget, unit="person")
    paid = 0
    for loss, delta in PLANS:
        try:
            account.charge(loss, why="x", delta=delta).begin()
            paid += 1
        except ts.errors.Refused:  # no finite price in this currency
            continue
    account.reserve(ts.laplace(scale=8), why="given back").refund()
    assert paid >= 4
    assert ledger.underpriced() == []


@pytest.mark.parametrize("short", [1, 31_250_000_000 - 1])
def test_a_charge_that_paid_less_is_named_and_the_record_is_whole(ledger, short):
    account = ledger.open("people", budget=ts.zcdp(rho=5), unit="person")
    plan = ts.gaussian(sigma=4).to_json()
    cheap = Charge(ledger, Terms.of(((account, short, 0),), plan), why="cheap").begin()
    Charge(ledger, Terms.of(((account, 31_250_000_000, 0),), plan), why="right").begin()
    assert ledger.verify().problems == ()
    (told,) = ledger.underpriced()
    assert told.startswith(f"ledger entry {cheap.id} on people: paid rho")
    assert "rho 0.03125 today" in told


def test_a_plan_that_cannot_be_priced_is_named(ledger):
    account = ledger.open("people", budget=ts.zcdp(rho=5), unit="person")
    for plan in ("{}", "nonsense", ts.gaussian(sigma=4, adjacency="replace").to_json()):
        Charge(ledger, Terms.of(((account, 10**12, 0),), plan), why="x").begin()
    assert [line.split("(")[1] for line in ledger.underpriced()] == [
        "InvalidInput)",
        "InvalidInput)",
        "AdjacencyMismatch)",
    ]


def test_the_shell_says_it_and_does_not_call_it_tampering(tmp_path, config, monkeypatch, capsys):
    from tallystick.cli import main

    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.zcdp(rho=5), unit="person")
        Charge(ledger, Terms.of(((account, 1, 0),), ts.gaussian(sigma=4).to_json()), why="cheap").begin()
    monkeypatch.setattr("sys.argv", ["tallystick", "ledger", "verify", "--ledger", str(tmp_path / "budget.db")])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main())
    said = capsys.readouterr().out
    assert not ended.value.code
    assert "intact" in said
    assert "charged less than today's accountant requires: ledger entry 3" in said
