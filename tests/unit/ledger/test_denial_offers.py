"""What a denial proposes fits: every loss it names is charged, and the command it prints raises the limit enough."""

from __future__ import annotations

import shlex

import pytest

import tallystick as ts
from tallystick.accounting.expression import read_loss
from tallystick.cli.app import run
from tallystick.cli.wording import Command, way_in_shell

SGD = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01)


def denied(account, loss, **options):
    with pytest.raises(ts.errors.BudgetExceeded) as caught, account.charge(loss, why="too much", **options):
        pass
    return caught.value


def raised(problem, ledger):
    """Type the command that the shell prints for a denial."""
    limits = [remedy for remedy in problem.remedies if remedy.kind == "raise_limit"]
    command = way_in_shell(limits[0], Command(values={"ledger": str(ledger)})).action
    words = ["agreed" if word == "..." else word for word in shlex.split(command)]  # a reason is a person's
    assert run(words[1:]) == 0


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("budget", "asked"),
    [
        (lambda near: ts.zcdp(rho=0.01, **near), lambda near: ts.gaussian(sigma=1, **near)),
        (lambda near: ts.gdp(mu=0.5, **near), lambda near: ts.gaussian(sigma=1, **near)),
        (lambda near: ts.pure_dp(epsilon=0.5, **near), lambda near: ts.laplace(scale=1, **near)),
        (lambda near: ts.renyi_dp({8: 0.1}, **near), lambda near: ts.gaussian(sigma=1, **near)),
        (lambda near: ts.approx_dp(epsilon=0.5, delta=1e-6, **near), lambda near: ts.laplace(scale=1, **near)),
    ],
)
def test_what_a_denial_proposes_fits(tmp_path, adjacency, budget, asked):
    near, place = {"adjacency": adjacency}, tmp_path / "budget.db"
    with ts.Ledger(place) as ledger:
        account = ledger.open("study", budget=budget(near), unit="person")
        problem = denied(account, asked(near))
        proposed = next(line for line in problem.fits if line.startswith(("gaussian(", "laplace(")))
        loss = read_loss(proposed[: proposed.index(")") + 1])
        assert account.price(loss).fits(account.remaining)
    raised(problem, place)
    with ts.Ledger(place) as ledger, ledger.open("study").charge(asked(near), why="now it fits"):
        pass


def test_a_training_run_without_delta_is_told_what_a_delta_saves(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("study", budget=ts.zcdp(rho=0.5, delta=1e-6), unit="person")
        problem = denied(account, SGD)
        assert problem.asked.first > 100
        assert problem.fits[0].startswith("delta=1e-6, for rho 0.16")
        assert not [line for line in problem.fits if "sensitivity" in line]  # noise of one release is not an answer
        with account.charge(SGD, why="as told", delta=problem.remedies[0]["delta"]):
            pass


def test_a_denial_does_not_offer_a_limit_whose_delta_is_refused(tmp_path):
    """The raise itself refuses a delta above 0.01."""
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("study", budget=ts.approx_dp(epsilon=1, delta=1e-6), unit="person")
        problem = denied(account, ts.approx_dp(epsilon=0.1, delta=0.02))
        for remedy in problem.remedies:
            if remedy.kind == "raise_limit":
                account.raise_limit(read_loss(remedy["budget"]), why="as offered")


def test_where_no_delta_is_left_the_higher_limit_has_one(tmp_path):
    place = tmp_path / "budget.db"
    with ts.Ledger(place) as ledger:
        problem = denied(ledger.open("study", budget=ts.zcdp(rho=0.01), unit="person"), SGD)
    assert "rho=500" not in str(problem)
    assert "0% of" not in str(problem)
    raised(problem, place)
    with ts.Ledger(place) as ledger, ledger.open("study").charge(SGD, why="as told", delta=1e-6):
        pass


def test_a_missing_delta_is_not_answered_with_another_rho(tmp_path):
    import pyarrow

    rows = pyarrow.table({"who": [1, 2, 3], "ward": ["a", "b", "a"]})
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("study", budget=ts.zcdp(rho=0.5), unit="person")
        table = ts.Private(rows, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
        plan = table.group_by("ward", keys=ts.private_keys(delta=1e-8)).agg(n=ts.count()).plan(rho=0.1)
        with pytest.raises(ts.errors.BudgetExceeded) as caught:
            plan.release(why="groups of the data")
    fits = caught.value.fits
    assert fits[0].startswith("public keys")
    assert "delta=1e-8" in fits[-1]
    assert len(fits) == 2


def test_a_budget_of_other_neighbours_is_refused_in_its_own_words(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("study", budget=ts.zcdp(rho=0.5, adjacency="replace"), unit="person")
        with pytest.raises(ts.errors.Refused, match="adjacency='replace'"):
            account.raise_limit(ts.zcdp(rho=1), why="more")
