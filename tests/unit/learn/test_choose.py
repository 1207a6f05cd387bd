"""Choosing a model: scores against brute force, their sensitivity, and the law of the choice on neighbouring data."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.learn.choose import SLACK, least_squares, select_model
from tallystick.learn.erm import doubles
from tallystick.learn.records import given

MODELS = [[], [0], [1], [0, 1]]
UNIT = {"feature_bound": 1.0, "target_bound": 1.0, "coefficient_bound": 1.0}


@functools.cache
def grid(bound: float, width: int) -> np.ndarray:
    """Coefficients that are not too long, one column each."""
    line = np.linspace(-bound, bound, 41)
    kept = [t for t in itertools.product(line, repeat=width) if sum(map(abs, t)) <= bound + 1e-9]
    return np.array(kept).reshape(len(kept), width).T


def scores(recipe: Any, rows: Any, targets: Any) -> list[float]:
    """Scores by a fine grid of coefficients, from the definition."""
    rows, targets = np.asarray(rows, dtype=float).reshape(-1, 2), np.asarray(targets, dtype=float)
    found = []
    for model in recipe.models:
        fits = rows[:, list(model)] @ grid(recipe.bound, len(model))
        found.append(float(((targets[:, None] - fits) ** 2).sum(axis=0).min()))
    return found


def test_scores_are_least_sums_of_squares_to_within_the_slack() -> None:
    recipe = select_model(models=MODELS, epsilon=1.0, **UNIT)._recipe()
    rng = np.random.default_rng(0)
    for size in (1, 5, 60):
        rows, targets = rng.uniform(-1, 1, (size, 2)), rng.uniform(-1, 1, size)
        gram, cross = doubles(recipe.moments(given(rows, targets)))
        for model, exact in zip(recipe.models, scores(recipe, rows, targets), strict=True):
            part = least_squares(gram[np.ix_(model, model)], cross[list(model)], recipe.bound, 1e-6)
            assert part + float((targets**2).sum()) == pytest.approx(exact, abs=0.01 * size)


def test_the_minimum_is_reached_surely_also_where_it_is_badly_conditioned() -> None:
    for gram in (np.ones((3, 3)) * 1e6, np.diag([1e6, 1e-6, 0.0]), np.zeros((2, 2))):
        cross = gram @ np.ones(len(gram)) * 2.0
        found = least_squares(gram, cross, 1.0, 0.002)
        rough = min(float(t @ gram @ t - 2 * cross @ t) for t in np.vstack([np.eye(len(gram)), -np.eye(len(gram))]))
        assert found <= rough + 0.002


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("how", ["permute_and_flip", "gumbel"])
def test_no_model_is_more_than_e_to_the_epsilon_likelier(adjacency: str, how: str) -> None:
    recipe = select_model(models=MODELS, epsilon=1.5, **UNIT, adjacency=adjacency, how=how)._recipe()
    twin = select_model(models=MODELS, epsilon=3.0, **UNIT, adjacency=adjacency, how=how)._recipe()
    law = ts.select.exponential if how == "gumbel" else ts.select.permute_and_flip
    extreme = [(np.array(x), y) for x in itertools.product((-1.0, 1.0), repeat=2) for y in (-1.0, 1.0)]
    largest = caught = 0.0
    for seed in range(4 if adjacency == "replace" else 6):
        rng = np.random.default_rng(seed)
        common = [extreme[i] for i in rng.choice(len(extreme), 6 + 30 * (seed % 2), p=[0.65, *[0.05] * 7])]
        for one, two in itertools.product(extreme, extreme[-2:] if adjacency == "replace" else [None]):
            first, second = [*common, one], [*common, two] if two is not None else common
            tables = [scores(recipe, [x for x, _ in d], [y for _, y in d]) for d in (first, second)]
            for which, made in ((0, recipe), (1, twin)):
                chooser = law(epsilon=made.epsilon, sensitivity=made.chooser.sensitivity)
                p, q = (chooser.probabilities([-s for s in table]) for table in tables)
                ratio = float(np.abs(np.log(p / q)).max())
                largest, caught = (max(largest, ratio), caught) if which == 0 else (largest, max(caught, ratio))
    assert largest <= 1.5 * (1 + 1e-6)
    assert caught > largest
    if adjacency == "add_remove":
        assert caught > 1.5  # half the noise is seen


def test_the_sensitivity_is_that_of_the_notes_and_half_of_it_where_a_record_only_adds() -> None:
    replaced = select_model(
        models=MODELS,
        epsilon=1.0,
        feature_bound=1.0,
        target_bound=2.0,
        coefficient_bound=3.0,
        adjacency="replace",
    )
    # in units of r^2: (r + R)^2 / r^2 = 25/4
    assert replaced._recipe().chooser.sensitivity == pytest.approx(6.25 * (1 + float(SLACK)))
    added = select_model(models=MODELS, epsilon=1.0, feature_bound=1.0, target_bound=2.0, coefficient_bound=3.0)
    assert added._recipe().chooser.sensitivity == pytest.approx(6.25 * (0.5 + float(SLACK)))


@pytest.mark.parametrize("how", ["permute_and_flip", "laplace", "gumbel"])
def test_it_finds_the_model_and_is_charged_once(how: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    rows = rng.choice([-1.0, 1.0], (4000, 3))
    targets = 0.6 * rows[:, 2] + rng.uniform(-0.2, 0.2, 4000)
    models = [list(m) for k in range(4) for m in itertools.combinations(range(3), k)]
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=2), unit="patient")
        choice = select_model(models=models, epsilon=1.0, **UNIT, penalty=100.0, how=how, unit="patient")
        assert choice.privacy.epsilon(delta=0) == pytest.approx(1.0)
        assert choice.fit(rows, targets, account=account, why="which columns", key="k").model_ == (2,)
        again = choice.fit(rows[:5], targets[:5], account=account, why="which columns", key="k")
        assert again.model_ == (2,)
        assert len(list(account.history())) == 1


@pytest.mark.parametrize(
    "bad",
    [{"models": []}, {"models": [[0, 0]]}, {"models": 3}, {"how": "best"}, {"penalty": math.nan}, {"epsilon": -1}],
)
def test_bad_requests_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        _ = select_model(**{"models": MODELS, "epsilon": 1.0, **UNIT, **bad}).privacy


def test_a_column_that_is_not_there_and_predictions_are_refused() -> None:
    with pytest.raises(InvalidInput, match="column"):
        select_model(models=[[5]], epsilon=1.0, **UNIT).fit(np.ones((3, 2)), np.ones(3))
    odd = select_model(models=MODELS, epsilon=1.0, **UNIT).fit(np.array([[np.nan, 1.0], [1e308, -np.inf]]), ["a", None])
    with pytest.raises(InvalidInput):
        odd.predict([[1.0, 2.0]])


def test_the_bounds_are_declared() -> None:
    with pytest.raises(InvalidInput, match=r"^target_bound = None"):
        _ = select_model(models=MODELS, epsilon=1.0, feature_bound=1.0, coefficient_bound=1.0).privacy


@pytest.mark.parametrize("how", ["permute_and_flip", "gumbel"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_epsilon_protects_all_rows_of_a_person(how: str, adjacency: str) -> None:
    """Scores come from a grid and probabilities from the selection mechanism, for data that differ in three rows."""
    options = {"models": MODELS, "epsilon": 1.5, **UNIT, "adjacency": adjacency, "how": how}
    honest, per_row = select_model(**options, rows_per_unit=3), select_model(**options)
    assert 1.49 < honest.privacy.epsilon(delta=0) <= 1.5
    law = ts.select.exponential if how == "gumbel" else ts.select.permute_and_flip
    extreme = [(np.array(x), y) for x in itertools.product((-1.0, 1.0), repeat=2) for y in (-1.0, 1.0)]
    largest = [0.0, 0.0]
    for background, one, two in itertools.product(extreme[:2], extreme, extreme):
        person = [one, one, two]
        other = [extreme[0]] * 3 if adjacency == "replace" else []
        common = [background] * 40
        tables = [[*common, *person], [*common, *other]]
        exact = [scores(honest._recipe(), [x for x, _ in d], [y for _, y in d]) for d in tables]
        for which, made in enumerate((honest._recipe(), per_row._recipe())):
            chooser = law(epsilon=made.epsilon, sensitivity=made.chooser.sensitivity)
            p, q = (chooser.probabilities([-s for s in table]) for table in exact)
            largest[which] = max(largest[which], float(np.abs(np.log(p / q)).max()))
    assert largest[0] <= 1.5 * (1 + 1e-6)
    assert largest[1] > 1.5
