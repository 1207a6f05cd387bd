"""The card of a fit: made from hyper-parameters and ledger, checked by building the estimator anew."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.cards import check_card, fit_card, read_card
from tallystick.cards.card import Card
from tallystick.errors import Refused
from tallystick.learn import (
    ExponentialERM,
    KNormGradient,
    LinearRegression,
    LogisticRegression,
    QuantileRegression,
)
from tallystick.learn.estimator import MINIMISER, OBJECTIVE

ROWS = np.linspace(-1, 1, 60)[:, None]


@pytest.fixture
def account(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.approx_dp(epsilon=9, delta=1e-5), unit="patient")


def models():
    return [
        (LinearRegression(1.0, delta=1e-6, row_norm=1, target_bounds=(-1, 1), rows_per_unit=2), ROWS[:, 0]),
        (LinearRegression(1.0, row_norm=np.float64(1.0), target_bound=1), ROWS[:, 0]),
        (LogisticRegression(1.0, row_norm=1, classes=["no", "yes"]), np.where(ROWS[:, 0] > 0, "yes", "no")),
        (LogisticRegression(1.0, delta=1e-6, row_norm=1, classes=[0, 1], solver="noisy_gd"), ROWS[:, 0] > 0),
        (QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1), ROWS[:, 0]),
        (KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1), ROWS[:, 0]),
        (ExponentialERM(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1), ROWS[:, 0]),
    ]


@pytest.mark.filterwarnings("ignore::tallystick.learn.erm.SlowNoise")
@pytest.mark.parametrize("place", range(7))
def test_a_card_of_a_paid_fit_agrees_with_the_ledger(account, tmp_path, place):
    model, targets = models()[place]
    model.fit(ROWS, targets, account=account, why="forecast", delta=getattr(model, "delta", None) or 0.0)
    path = fit_card(model, account, dataset="visits of 2026").save(tmp_path / "card.html")[0]
    card, page = read_card(path)
    findings = check_card(card, account.ledger, page=page)
    assert [finding.problem for finding in findings] == [""] * len(findings)
    assert len([finding for finding in findings if finding.is_checked]) >= 6
    facts = card.facts
    assert facts["released"]["measures"][0] == {"name": "model", "kind": type(model).__name__}
    assert facts["decisions"]["purpose"] == "forecast"
    assert facts["protected"]["max_rows_per_group"] == model.rows_per_unit
    assert "A model fitted to the rows" in page
    assert len(facts["not_protected"]) >= 6


def edited(card, change):
    facts = json.loads(card.to_json())
    change(facts)
    return Card(facts)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["again"]["plan"]["parameters"].update(row_norm=2),
        lambda facts: facts["again"]["plan"]["parameters"].update(epsilon=0.5),
        lambda facts: facts["again"]["plan"]["parameters"].update(ridge=5.0),
        lambda facts: facts["again"]["plan"]["parameters"].update(method="adassp"),
        lambda facts: facts["again"]["plan"].update(columns=2),
        lambda facts: facts["again"]["plan"].update(estimator="GridSearchCV"),
        lambda facts: facts["again"]["plan"].update(rows={}),
        lambda facts: facts["again"]["plan"].update(units=True),
        lambda facts: facts["again"]["plan"].update(more=1),
        lambda facts: facts["protected"].update(max_rows_per_group=1),
        lambda facts: facts["mechanisms"]["parts"][0].update(scale=99.0),
        lambda facts: facts["accounting"].update(plan_hash="0" * 64),
        lambda facts: facts["promise"].update(price="epsilon 0.1"),
    ],
)
def test_a_changed_card_is_found(account, change):
    model, targets = models()[0]
    model.fit(ROWS, targets, account=account, why="forecast", delta=1e-6)
    card = fit_card(model, account, dataset="visits")
    assert all(finding.holds for finding in check_card(card, account.ledger))
    assert not all(finding.holds for finding in check_card(edited(card, change), account.ledger))


def test_a_card_promises_whole_people_only_where_fit_was_told_whose_rows_they_are(account):
    """Found from outside: without units it promised patients, whose rows nobody had capped, and was verified."""
    told = []
    for units in (None, ["ann", "bob"] * 30):
        model, targets = models()[0]
        model.fit(ROWS, targets, account=account, why="forecast", delta=1e-6, units=units)
        card = fit_card(model, account, dataset="visits")
        assert all(finding.holds for finding in check_card(card, account.ledger))
        told.append(card)
    assert [card.facts["protected"]["row_level"] for card in told] == [True, False]
    assert any("Each row is protected by itself" in line for line in told[0].facts["not_protected"])
    forged = json.loads(told[0].to_json())
    forged["again"]["plan"]["units"] = True
    assert not all(finding.holds for finding in check_card(Card(forged), account.ledger))


def test_a_model_that_was_changed_or_never_paid_for_gets_no_card(account):
    model, targets = models()[0]
    model.fit(ROWS, targets, account=account, why="forecast", delta=1e-6)
    with pytest.raises(Refused, match="paid for"):
        fit_card(model.set_params(epsilon=0.1), account, dataset="visits")
    with pytest.raises(Refused, match="not paid"):
        fit_card(models()[0][0], account, dataset="visits")


def test_the_parts_of_the_noise_are_all_on_the_card_and_add_up(account):
    model = LogisticRegression(2.0, delta=1e-6, row_norm=1, classes=[0, 1], solver="noisy_gd")
    model.fit(ROWS, ROWS[:, 0] > 0, account=account, why="forecast", delta=1e-6)
    card = fit_card(model, account, dataset="visits")
    first, steps = card.facts["mechanisms"]["parts"]
    assert first["part"] == "number of rows, their sum and their squared lengths"
    assert f"gaussian(sigma={first['scale']:.5g}"[:18] in str(model.privacy)
    assert first["share"] == pytest.approx(1 / 11)
    assert first["share"] + steps["share"] == pytest.approx(1.0)
    assert {first["noise"], steps["noise"]} == {"discrete Gaussian"}
    page = card.to_html()
    assert "9.09 %" in page
    assert "most one row can change it" in page
    assert "most one patient can change it" not in page
    assert "The account protects each patient. It was not checked that each patient has only one row." in page
    assert "The figures are for everything published up to the limit, epsilon 9, delta 1e-5." in page
    assert "At the time of this charge" in page
    assert "An (epsilon, delta) filter" in page


def test_noise_that_is_not_discrete_is_not_called_discrete(account):
    model = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1)
    model.fit(ROWS, ROWS[:, 0], account=account, why="forecast", delta=1e-6)
    mechanisms = fit_card(model, account, dataset="visits").facts["mechanisms"]
    assert mechanisms["parts"][0]["noise"] == "Gaussian"
    assert "discrete" not in mechanisms["randomness"]


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(1.0, delta=1e-6, row_norm=1, classes=[0, 1, 2], solver="objective", multiclass="ovr"),
        LogisticRegression(1.0, row_norm=1, classes=[0, 1], solver="knorm"),
        QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1),
    ],
)
def test_the_small_noise_on_a_minimiser_is_on_the_card(account, model):
    """It was added and paid for, and no card named it."""
    targets = ROWS[:, 0] if isinstance(model, QuantileRegression) else ROWS[:, 0] > 0
    model.fit(ROWS, targets, account=account, why="forecast", delta=getattr(model, "delta", None) or 0.0)
    made = fit_card(model, account, dataset="visits")
    objective, minimiser = made.facts["mechanisms"]["parts"]
    assert (objective["part"], minimiser["part"]) == (OBJECTIVE, MINIMISER)
    assert objective["share"] + minimiser["share"] == pytest.approx(1.0)
    hiding = model._recipe().hiding(2)
    is_pure = getattr(model, "delta", None) is None
    variance = hiding.variance(dimension=2) if is_pure else hiding.variance
    assert minimiser["scale"] == pytest.approx(math.sqrt(variance / (3 if is_pure else 1)), rel=1e-4)
    assert minimiser["sensitivity"] < minimiser["scale"]
    assert MINIMISER in made.to_html()
    older = json.loads(made.to_json())
    older["accounting"]["software"] = "tallystick 0.1.0"
    older["mechanisms"]["parts"] = [{**objective, "share": 1.0}]
    assert not any(finding.problem for finding in check_card(Card(older), account.ledger))
    older["mechanisms"]["parts"] = [{**objective, "share": 1.0, "scale": 99.0}]
    assert any(finding.problem for finding in check_card(Card(older), account.ledger))
