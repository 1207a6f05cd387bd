"""One way to fit: check what is public, charge, fit, store; searches over private fits are refused."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.learn.estimator import Estimator
from tallystick.mechanisms import base


@dataclass(frozen=True, slots=True)
class Counting:
    """Counts rows with Laplace noise; a toy."""

    scale: float
    fails: bool

    @property
    def privacy(self) -> Any:
        return ts.laplace(scale=self.scale)

    def train(self, data: Any, source: Any) -> dict[str, Any]:
        if self.fails:
            raise RuntimeError("toy failure")
        return {"count": ts.noise.add_laplace(scale=self.scale, sensitivity=1).release(len(data.rows), source=source)}


class Counter(Estimator):
    def __init__(self, scale=1.0, rows_per_unit=1, fails=False):
        self.scale, self.rows_per_unit, self.fails = scale, rows_per_unit, fails

    def _recipe(self):
        return Counting(self.scale, self.fails)

    def _keep(self, answer):
        self.count_ = answer["count"]


X, y = np.zeros((5, 2)), [0, 1, 0, 1, 0]


@pytest.fixture
def account(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.pure_dp(epsilon=3), unit="patient")


def test_introspection_goes_on_where_an_attribute_is_refused():
    model, wrong = Counter(), Counter(rows_per_unit=0)
    assert "covariance_" in dir(model)
    assert "privacy" in dir(wrong)  # though asking for it is an error
    assert not hasattr(model, "covariance_")
    assert "fit" in dict(inspect.getmembers(model))
    with pytest.raises(Refused, match="no covariance"):
        _ = model.covariance_


def test_the_price_is_known_before_data_and_counts_every_row_of_a_unit():
    assert Counter().privacy.epsilon(delta=0) == pytest.approx(1.0)
    assert Counter(rows_per_unit=3).privacy.epsilon(delta=0) == pytest.approx(3.0)
    with pytest.raises(InvalidInput, match="rows_per_unit"):
        _ = Counter(rows_per_unit=0).privacy


def test_a_fit_without_an_account_warns_once():
    base.unrecorded.forget()
    with pytest.warns(base.UnrecordedRelease, match="recorded nowhere"):
        Counter().fit(X, y)
    model = Counter().fit(X, y)
    assert model.receipt_ is None
    assert model.privacy_.epsilon(delta=0) == pytest.approx(1.0)


def test_a_paid_fit_is_charged_once_per_key_and_gives_the_same_model(account):
    first = Counter().fit(X, y, account=account, why="a count", key="k")
    again = Counter().fit(np.ones((9, 2)), [0] * 9, account=account, why="a count", key="k")
    assert first.count_ == again.count_
    assert first.receipt_ == again.receipt_
    assert len(list(account.history())) == 1


def test_the_same_key_for_another_recipe_is_refused(account):
    Counter().fit(X, y, account=account, why="a count", key="k")
    with pytest.raises(ts.errors.IdempotencyConflict):  # other columns are another question; other rows are not
        Counter().fit(X[:, :1], y, account=account, why="a count", key="k")
    with pytest.raises(ts.errors.IdempotencyConflict):
        Counter(scale=2.0).fit(X, y, account=account, why="a count", key="k")


@pytest.mark.parametrize("bad", [{"X": np.array([["a"]]), "y": [0]}, {"X": X, "y": [0]}, {"X": X, "y": None}])
def test_bad_containers_cost_nothing(account, bad):
    with pytest.raises(InvalidInput):
        Counter().fit(bad["X"], bad["y"], account=account, why="x")
    assert not list(account.history())


def test_a_failure_after_the_start_keeps_the_charge(account):
    with pytest.raises(RuntimeError):
        Counter(fails=True).fit(X, y, account=account, why="x")
    assert [event.state for event in account.history()] == ["BURNED"]


def test_a_fit_needs_a_reason_and_the_options_of_an_account_need_one(account):
    with pytest.raises(InvalidInput, match="why"):
        Counter().fit(X, y, account=account)
    for option in ({"why": "x"}, {"key": "x"}, {"delta": 0.1}):
        with pytest.raises(InvalidInput, match="account"):
            Counter().fit(X, y, **option)


def test_searches_and_cross_validation_are_refused_and_say_what_works():
    search = GridSearchCV(Counter(), {"scale": [1.0, 2.0]}, cv=2, scoring=lambda *_: 0.0, error_score="raise")
    with pytest.raises(Refused, match="Try: "):
        search.fit(X, y)
    with pytest.raises(Refused, match="Try: "):
        cross_val_score(Counter(), X, y, cv=2, scoring=lambda *_: 0.0, error_score="raise")


def test_a_score_of_private_data_is_refused():
    with pytest.raises(Refused):
        Counter().score(X, y)


def test_clones_and_pickles():
    model = Counter(scale=3.0).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    back = pickle.loads(pickle.dumps(model))
    assert back.count_ == model.count_
    assert back.privacy_ == model.privacy_
