"""Paid scores, and releases at an epsilon alone: the caller says which epsilon is meant before anything is charged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tallystick as ts
from tallystick.errors import EpsilonWithoutDelta, InvalidInput, Refused
from tallystick.learn import scoring
from tallystick.learn.records import given
from tallystick.mechanisms.noise import add_discrete_laplace, add_laplace

ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 2))
LABELS = (ROWS[:, 0] > 0).astype(int)
BOUNDS: dict[str, Any] = {"feature_bound": 1, "target_bound": 1, "coefficient_bound": 1}
BUDGETS = {
    "rho": lambda: ts.zcdp(rho=5),
    "mu": lambda: ts.gdp(mu=4),
    "Renyi": lambda: ts.renyi_dp({16: 9}),
}
COUNTING_OTHERWISE = pytest.mark.parametrize("budget", BUDGETS)


def logistic(**more: Any) -> Any:
    return ts.learn.LogisticRegression(**{"epsilon": 1, "row_norm": 1, "classes": [0, 1], "most_rows": 1000, **more})


def linear(**more: Any) -> Any:
    return ts.learn.LinearRegression(**{"epsilon": 1, "row_norm": 1, "target_bounds": (0, 1), **more})


def pure_only() -> dict[str, Any]:
    """Estimators that exist with pure epsilon alone."""
    small = ts.learn.KNormGradient(epsilon=0.5, **BOUNDS)
    runs = ts.learn.geometric(mean=2)
    return {
        "select_model": ts.learn.select_model(models=[[0], [1]], epsilon=0.5, **BOUNDS),
        "tune": ts.learn.tune(small, candidates=[{"coefficient_bound": 1.0}], runs=runs, score_epsilon=0.5),
        "KNormGradient": small,
    }


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[Any], Any]:
    return lambda budget: ts.Ledger(tmp_path / "budget.db").open("clinic", budget=budget)


@COUNTING_OTHERWISE
@pytest.mark.parametrize("make", [logistic, linear])
def test_a_score_at_an_epsilon_alone_is_refused_with_both_costs(make: Any, budget: str, opened: Any) -> None:
    account = opened(BUDGETS[budget]())
    model = make(delta=1e-6).fit(ROWS, LABELS, account=account, why="model")
    asked = {"account": account, "why": "how good", "epsilon": 0.3}
    with pytest.raises(EpsilonWithoutDelta, match=r"add pure=True\.\n.*: add delta="):
        model.score(ROWS, LABELS, **asked)
    assert len(account.history()) == 1
    assert math.isfinite(model.score(ROWS, LABELS, pure=True, **asked))
    assert math.isfinite(model.score(ROWS, LABELS, delta=1e-6, **asked))
    assert len(account.history()) == 3


def test_a_stored_score_is_given_whatever_its_price_was_called(opened: Any) -> None:
    account = opened(ts.zcdp(rho=5))
    model = logistic(delta=1e-6).fit(ROWS, LABELS, account=account, why="model")
    asked = {"account": account, "why": "how good", "epsilon": 0.3, "key": "s"}
    first = model.score(ROWS, LABELS, pure=True, **asked)
    assert model.score(ROWS, LABELS, **asked) == first


def test_a_score_on_an_account_of_epsilon_needs_no_word_and_takes_a_delta(opened: Any) -> None:
    account = opened(ts.approx_dp(epsilon=5, delta=1e-5))
    model = logistic(delta=1e-6).fit(ROWS, LABELS, account=account, why="model")
    asked = {"account": account, "why": "how good", "epsilon": 0.5}
    model.score(ROWS, LABELS, **asked)
    model.score(ROWS, LABELS, delta=1e-6, **asked)
    with pytest.raises(InvalidInput, match=r"^pure = True"):
        model.score(ROWS, LABELS, delta=1e-6, pure=True, **asked)
    assert len(account.history()) == 3


@COUNTING_OTHERWISE
@pytest.mark.parametrize("name", pure_only())
def test_an_estimator_with_pure_epsilon_alone_is_refused_until_the_caller_means_it(
    name: str, budget: str, opened: Any
) -> None:
    account = opened(BUDGETS[budget]())
    model = pure_only()[name]
    with pytest.raises(EpsilonWithoutDelta, match=r"is pure epsilon here.*\n.*add pure=True\.\n"):
        model.fit(ROWS, LABELS, account=account, why="x")
    assert not account.history()
    model.fit(ROWS, LABELS, account=account, why="x", pure=True)
    assert len(account.history()) == 1


@pytest.mark.parametrize("make", [logistic, linear])
def test_the_delta_that_a_refused_fit_names_works_as_it_is_written(make: Any, opened: Any) -> None:
    account = opened(ts.zcdp(rho=5))
    with pytest.raises(EpsilonWithoutDelta) as told:
        make().fit(ROWS, LABELS, account=account, why="x")
    name, delta = re.search(r"(\w+)\(\.\.\., delta=([-\d.e]+)\)", str(told.value)).groups()  # type: ignore[union-attr]
    assert name == type(make()).__name__
    make(delta=float(delta)).fit(ROWS, LABELS, account=account, why="x")
    assert len(account.history()) == 1


@pytest.mark.parametrize("make", [logistic, linear])
@pytest.mark.parametrize("more", [{}, {"delta": 1e-6}])
def test_a_model_of_replaced_rows_is_scored_on_its_account(make: Any, more: Any, opened: Any) -> None:
    account = opened(ts.approx_dp(epsilon=5, delta=1e-4, adjacency="replace"))
    model = make(delta=1e-6, adjacency="replace").fit(ROWS, LABELS, account=account, why="model")
    asked = {"account": account, "why": "how good", "epsilon": 1.0}
    assert math.isfinite(model.score(ROWS, LABELS, **asked, **more))


def released(model: Any, rows: Any, labels: Any, monkeypatch: Any, **more: Any) -> Any:
    """The release that a score would pay for."""
    kept: list[Any] = []
    monkeypatch.setattr(scoring, "stored_answer", lambda asked, *_, **__: kept.append(asked))
    monkeypatch.setattr(scoring, "pay", lambda *_, **__: pytest.skip("paid"))
    with pytest.raises(pytest.skip.Exception):
        model.score(rows, labels, **more)
    return kept[0]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_no_unit_moves_the_sums_further_than_the_noise_was_made_for(
    adjacency: str, opened: Any, monkeypatch: Any
) -> None:
    """The farthest two neighbours, by L1 for Laplace and L2 for Gaussian noise; half the noise would not do."""
    account = opened(ts.approx_dp(epsilon=5, delta=1e-4, adjacency=adjacency))
    model = linear(delta=1e-6, adjacency=adjacency, rows_per_unit=3)
    model.n_features_in_, model.coef_, model.intercept_ = 1, np.array([1.0]), 0.0
    rows = [[-9.0], [0.0], [0.5], [1.0], [9.0]]
    units = [(np.array([row] * 3), np.array([target] * 3)) for row in rows for target in (0.0, 0.5, 1.0)]
    asked = {"account": account, "why": "x", "epsilon": 1.0}
    plain = released(model, *units[0], monkeypatch, **asked)
    gaussian = released(model, *units[0], monkeypatch, delta=1e-6, **asked)
    sums = [np.array(scoring.Fitted(model, given(*u), plain.noise, 3, (0, 1)).exact(), dtype=float) for u in units]
    others = sums if adjacency == "replace" else [np.zeros(4)]
    l1 = max(np.abs(one - other).sum() for one in sums for other in others)
    l2 = max(np.linalg.norm(one - other) for one in sums for other in others)
    scale = add_laplace(epsilon=1.0, sensitivity=float(l1), dimension=4, adjacency=adjacency)
    assert plain.noise.variance >= scale.variance * (1 - 1e-4)
    alone = ts.gaussian(sigma=math.sqrt(gaussian.noise.variance) / float(l2), adjacency=adjacency)
    assert 0.9 < alone.epsilon(delta=1e-6) <= 1.0


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_no_unit_moves_an_accuracy_further_than_the_noise_was_made_for(
    adjacency: str, opened: Any, monkeypatch: Any
) -> None:
    account = opened(ts.approx_dp(epsilon=5, delta=1e-4, adjacency=adjacency))
    model = logistic(delta=1e-6, adjacency=adjacency, rows_per_unit=3).fit(ROWS, LABELS)
    asked = {"account": account, "why": "x", "epsilon": 1.0}
    plain = released(model, ROWS, LABELS, monkeypatch, **asked)
    gaussian = released(model, ROWS, LABELS, monkeypatch, delta=1e-6, **asked)
    farthest = np.array([3, -3]) if adjacency == "replace" else np.array([3, 0])
    least = add_discrete_laplace(
        epsilon=1.0, sensitivity=int(np.abs(farthest).sum()), dimension=2, changed=2, adjacency=adjacency
    )
    assert plain.noise.variance == pytest.approx(least.variance)
    alone = ts.gaussian(sigma=math.sqrt(gaussian.noise.variance) / np.linalg.norm(farthest), adjacency=adjacency)
    assert 0.99 < alone.epsilon(delta=1e-6) <= 1.0


def test_the_refusal_of_a_pipelines_score_names_what_works(opened: Any) -> None:
    account = opened(ts.approx_dp(epsilon=5, delta=1e-4))
    step = FunctionTransformer(lambda rows: np.nan_to_num(rows).clip(-1, 1))
    pipe = make_pipeline(step, logistic(delta=1e-6)).fit(
        ROWS, LABELS, logisticregression__account=account, logisticregression__why="model"
    )
    with pytest.raises(Refused) as told:
        pipe.score(ROWS, LABELS)
    works = re.search(r"pipe\[-1\]\.score\(.*?\.\.\.\)", str(told.value))[0]  # type: ignore[index]
    call = works.replace("account=...", "account=account").replace("why=...", "why='x'").replace("=...", "=0.5")
    assert 0.0 <= eval(call, {"pipe": pipe, "X": ROWS, "y": LABELS, "account": account}) <= 1.0
