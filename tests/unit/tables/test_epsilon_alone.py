"""An epsilon without a delta, on an account in rho or mu: both costs are shown, and nothing is charged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest

import tallystick as ts
from tallystick.cli.app import run
from tallystick.errors import EpsilonWithoutDelta, InvalidInput
from tallystick.learn import LinearRegression, LogisticRegression
from tallystick.tables.plan import Plan

ROWS = pyarrow.table({"who": list(range(50)), "ward": ["a", "b"] * 25})
BUDGETS = {"rho": ts.zcdp(rho=0.712), "mu": ts.gdp(mu=3), "renyi": ts.renyi_dp({16: 20})}


def visits_of(account):
    return ts.Private(ROWS, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)


@pytest.fixture
def ledger(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as book:
        yield book


@pytest.fixture
def clinic(ledger):
    return ledger.open("clinic", budget=BUDGETS["rho"], unit="person")


@pytest.mark.parametrize("name", BUDGETS)
def test_a_table_at_a_bare_epsilon_is_refused_and_charges_nothing(ledger, name):
    account = ledger.open("clinic", budget=BUDGETS[name], unit="person")
    query = visits_of(account).group_by("ward", keys=["a", "b"]).agg(n=ts.count())
    with pytest.raises(EpsilonWithoutDelta, match=r"Pure epsilon 1 costs .* add pure=True"):
        query.plan(epsilon=1).release(why="x")
    assert account.history() == []
    query.plan(epsilon=1, pure=True).release(why="x")
    assert len(account.history()) == 1


def test_both_costs_are_those_that_would_be_charged(clinic):
    query = visits_of(clinic).agg(n=ts.count())
    with pytest.raises(EpsilonWithoutDelta) as told:
        query.plan(epsilon=1).release(why="x")
    text = str(told.value)
    pure = re.search(r"Pure epsilon 1 costs rho (\S+) \((\S+) % of what is left\): add pure=True", text)
    other = re.search(r"Epsilon 1 at delta 1e-6 costs rho (\S+): add delta=1e-6", text)
    assert pure is not None
    assert other is not None
    assert float(pure[1]) > 10 * float(other[1])
    for shown, words in ((pure[1], {"pure": True}), (other[1], {"delta": 1e-6})):
        plan = query.plan(epsilon=1, **words)
        cost = float(clinic.price(plan.privacy).first)
        assert cost <= float(shown) <= 1.01 * cost  # rounded up, to three digits
    share = 100 * float(clinic.price(query.plan(epsilon=1, pure=True).privacy).first) / 0.712
    assert share <= float(pure[2]) <= 1.01 * share
    query.plan(epsilon=1, delta=1e-6).release(why="x")
    assert clinic.used.first <= told.value.with_delta.first


def test_private_keys_offer_a_delta_above_their_own(ledger):
    account = ledger.open("clinic", budget=ts.zcdp(rho=9, delta=1e-5), unit="person")
    query = visits_of(account).group_by("ward", keys=ts.private_keys(delta=1e-5)).agg(n=ts.count())
    with pytest.raises(EpsilonWithoutDelta, match=r"at delta 2e-5 costs rho"):
        query.plan(epsilon=1).release(why="x")
    query.plan(epsilon=1, delta=2e-5).release(why="x")


def test_a_cost_above_what_is_left_is_said_to_be_that(ledger):
    account = ledger.open("clinic", budget=ts.zcdp(rho=0.01), unit="person")
    with pytest.raises(EpsilonWithoutDelta, match="more than what is left"):
        visits_of(account).agg(n=ts.count()).plan(epsilon=1).release(why="x")


@pytest.mark.parametrize("budget", [ts.pure_dp(epsilon=2), ts.approx_dp(epsilon=2, delta=1e-6)])
def test_on_an_account_in_epsilon_a_bare_epsilon_is_pure_and_costs_itself(ledger, budget):
    account = ledger.open("clinic", budget=budget, unit="person")
    visits_of(account).agg(n=ts.count()).plan(epsilon=1).release(why="x")
    assert (account.used.a0, account.used.a1) == (10**12, 0)


def test_an_answer_that_is_stored_is_returned_whatever_its_price_is_called(clinic):
    query = visits_of(clinic).agg(n=ts.count())
    first = query.plan(epsilon=0.5, pure=True).release(why="x", key="k")
    again = query.plan(epsilon=0.5).release(why="x", key="k")
    assert again.answer == first.answer
    assert not again.fresh
    with pytest.raises(EpsilonWithoutDelta):
        query.plan(epsilon=0.5).release(why="x", key="another")


def test_the_word_pure_changes_neither_hash_nor_noise_and_is_kept_in_a_plan_file(clinic):
    query = visits_of(clinic).agg(n=ts.count())
    bare, pure = query.plan(epsilon=0.5), query.plan(epsilon=0.5, pure=True)
    assert (bare.hash, bare.noises, bare.budget) == (pure.hash, pure.noises, pure.budget)
    assert "pure" not in bare.to_json()
    assert not Plan.from_json(bare.to_json(), source=ROWS).pure
    kept = Plan.from_json(pure.to_json(), source=ROWS)
    assert kept.pure
    assert kept.with_account(clinic).pure


def test_a_plan_without_an_account_is_refused_where_an_account_pays_for_it(clinic):
    plan = visits_of(None).agg(n=ts.count()).plan(epsilon=1)
    with pytest.raises(EpsilonWithoutDelta):
        plan.with_account(clinic).release(why="x")
    assert clinic.history() == []


@pytest.mark.parametrize("words", [{"rho": 1}, {"epsilon": 1, "delta": 1e-6}, {"error": 20}])
def test_pure_goes_with_an_epsilon_alone(clinic, words):
    with pytest.raises(InvalidInput, match="pure means that the delta is 0"):
        visits_of(clinic).agg(n=ts.count()).plan(**words, pure=True)
    with pytest.raises(InvalidInput, match="True or False"):
        visits_of(clinic).agg(n=ts.count()).plan(epsilon=1, pure="yes")


def test_a_statement_at_a_bare_epsilon_is_refused(clinic):
    source = ts.Private({"visits": ROWS}, account=clinic)
    table = source.table("visits", unit="who").per_unit(max_rows_per_group=1)
    count = "COUNT(*) AS n FROM visits"
    for text, words in (
        (f"SELECT {count}", {"epsilon": 1}),
        (f"EXPLAIN SELECT {count}", {"epsilon": 1}),
        (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) {count}", {}),
        (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, pure=false) {count}", {}),
    ):
        with pytest.raises(EpsilonWithoutDelta, match="costs rho"):
            source.sql(text, table, why="x", **words)
    assert clinic.history() == []
    for text, words in (
        (f"SELECT {count}", {"epsilon": 0.1, "pure": True}),
        (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.1, pure=true) {count}", {}),
        (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.1) {count}", {"pure": True}),
        (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.1, delta=1e-6) {count}", {}),
    ):
        source.sql(text, table, why="x", **words)
    assert len(clinic.history()) == 4


X = np.linspace(-1, 1, 40)[:, None]


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (LinearRegression(1.0, row_norm=2, target_bound=1), X[:, 0]),
        (LogisticRegression(1.0, row_norm=2, classes=[0, 1]), (X[:, 0] > 0).astype(int)),
    ],
)
def test_a_fit_at_a_bare_epsilon_is_refused_unless_it_is_said_to_be_pure(clinic, model, targets):
    with pytest.raises(EpsilonWithoutDelta) as told:
        model.fit(X, targets, account=clinic, why="x")
    assert clinic.history() == []
    assert told.value.with_delta.a0 < told.value.pure.a0
    model.fit(X, targets, account=clinic, why="x", key="k", pure=True)
    model.fit(X, targets, account=clinic, why="x", key="k")  # stored
    assert [event.amount for event in clinic.history()] == [told.value.pure]


def test_a_fit_with_a_delta_is_not_pure(clinic):
    model = LinearRegression(1.0, delta=1e-6, row_norm=2, target_bound=1)
    with pytest.raises(InvalidInput, match="pure means that the delta is 0"):
        model.fit(X, X[:, 0], account=clinic, why="x", pure=True)
    assert clinic.history() == []


def test_a_method_that_is_pure_by_its_name_is_not_asked_again(clinic):
    LinearRegression(0.5, row_norm=2, target_bound=1, method="laplace").fit(X, X[:, 0], account=clinic, why="x")
    assert len(clinic.history()) == 1


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    lines = [f"p{i % 40},{'ns'[i % 2]},{i % 9},{i % 7}\n" for i in range(400)]
    Path("visits.csv").write_text("patient,ward,cost,days\n" + "".join(lines))

    def call(*words, code=0):
        found = run([*words])
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        return said.out + said.err

    caps = ["--max-groups", "2", "--max-rows-per-group", "2", "--type", "cost=number,days=number"]
    bounds = ["--bounds", "cost=0:10,days=0:7"]
    add = ["dataset", "add", "visits.csv", "--unit", "patient", "--population", "clinic", "--limit", "rho=0.712"]
    call(*add, *caps, *bounds)
    return call


COMMANDS = {
    "query": "query visits --measures count --why x",
    "publish plan": "publish plan visits --measures count",
    "sql": "sql 'SELECT_COUNT' --why x",
    "sql --explain": "sql 'SELECT_COUNT' --why x --explain",
    "query --dry-run": "query visits --measures count --why x --dry-run",
    "fit linear": "fit linear visits --target cost --features days --why x",
    "fit logistic": "fit logistic visits --target ward --features cost --labels n,s --why x",
    "dataset suggest": "dataset suggest visits --range cost=0:100 --why x",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_bare_epsilon_with_both_costs(shell, name):
    words = [word.replace("'SELECT_COUNT'", "SELECT COUNT(*) AS n FROM visits") for word in COMMANDS[name].split()]
    said = shell(*words, "--epsilon", "1", code=2)
    assert re.search(r"pure epsilon 1 +add --pure +costs rho [0-9.]+, [0-9.]+ % of what is left\n", said)
    assert re.search(r"epsilon 1 at delta 1e-6 +add --delta 1e-6 +costs rho [0-9.]+\n", said)
    assert "no charges yet" in shell("charge", "list")
    shell(*words, "--epsilon", "0.1", "--pure")


def test_a_plan_file_keeps_that_pure_epsilon_is_meant(shell):
    words = ["publish", "plan", "visits", "--measures", "count", "--epsilon", "0.5", "--out", "plan.json"]
    shell(*words, code=2)
    assert not Path("plan.json").exists()
    shell(*words, "--pure")
    assert "Charged  rho" in shell("publish", "run", "plan.json", "--why", "x")


def test_a_fraction_is_a_price_in_the_shell(shell):
    said = shell("publish", "plan", "visits", "--measures", "count", "--rho", "0.712/12", "--json")
    assert f'"a0": {712 * 10**9 // 12},' in said
    assert "such as 1/24" in shell("publish", "plan", "visits", "--measures", "count", "--rho", "1/0", code=2)
