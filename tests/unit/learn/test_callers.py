"""Callers of a private fit: whatever is not allowed by name is refused before a charge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    GradientBoostingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (it adds a name)
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.impute import IterativeImputer
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import learning_curve
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

import tallystick as ts
from tallystick.errors import Refused
from tallystick.learn.estimator import Estimator
from tallystick.ledger.account import Account

ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)
TARGETS = ROWS[:, 0]
TWO = np.column_stack([TARGETS, TARGETS])
TWO_LABELS = np.column_stack([LABELS, LABELS])
HALF_LABELLED = np.where(np.arange(60) % 2, LABELS, -1)
HOLES = np.where(ROWS > 0.4, np.nan, ROWS)


def classifier() -> Any:
    return ts.learn.LogisticRegression(1.0, delta=1e-6, row_norm=1.0, classes=[0, 1])


def regressor() -> Any:
    return ts.learn.LinearRegression(1.0, delta=1e-6, row_norm=1, target_bound=1)


class Own(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator of another package that fits ours."""

    def fit(self, X: Any, y: Any) -> Own:
        """Fit on labels that were encoded by looking at them."""
        classifier().fit(X, np.unique(y, return_inverse=True)[1])
        return self


OTHERS = [
    (VotingClassifier([("a", classifier())]), ROWS, LABELS),
    (VotingClassifier([("a", classifier())], n_jobs=2), ROWS, LABELS),
    (VotingClassifier([("a", make_pipeline(classifier()))]), ROWS, LABELS),
    (VotingRegressor([("a", regressor())]), ROWS, TARGETS),
    (StackingRegressor([("a", regressor())]), ROWS, TARGETS),
    (StackingClassifier([("a", classifier())]), ROWS, LABELS),
    (OneVsRestClassifier(classifier()), ROWS, LABELS),
    (OneVsRestClassifier(classifier(), n_jobs=2), ROWS, LABELS),
    (OneVsOneClassifier(classifier()), ROWS, LABELS),
    (OutputCodeClassifier(classifier(), code_size=4), ROWS, LABELS),
    (MultiOutputRegressor(regressor()), ROWS, TWO),
    (MultiOutputClassifier(classifier()), ROWS, TWO_LABELS),
    (RegressorChain(regressor()), ROWS, TWO),
    (ClassifierChain(classifier()), ROWS, TWO_LABELS),
    (SelfTrainingClassifier(classifier(), max_iter=2), ROWS, HALF_LABELLED),
    (RANSACRegressor(regressor(), min_samples=50, max_trials=5), ROWS, TARGETS),
    (IterativeImputer(regressor(), max_iter=2), HOLES, None),
    (SelectFromModel(classifier()), ROWS, LABELS),
    (SequentialFeatureSelector(classifier(), n_features_to_select=1), ROWS, LABELS),
    (RFE(classifier()), ROWS, LABELS),
    (BaggingRegressor(regressor(), n_estimators=2), ROWS, TARGETS),
    (AdaBoostRegressor(regressor(), n_estimators=2), ROWS, TARGETS),
    (GradientBoostingRegressor(init=regressor(), n_estimators=2), ROWS, TARGETS),
    (make_pipeline(OneVsRestClassifier(classifier())), ROWS, LABELS),
    (TransformedTargetRegressor(RANSACRegressor(regressor(), min_samples=50)), ROWS, TARGETS),
    (Own(), ROWS, LABELS),
]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Private fits that came to their end."""
    ended: list[str] = []
    plain = Estimator.fit

    def fit(self: Any, *given: Any, **options: Any) -> Any:
        made = plain(self, *given, **options)
        ended.append(type(self).__name__)
        return made

    monkeypatch.setattr(Estimator, "fit", fit)
    return ended


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("other", "rows", "targets"), OTHERS, ids=lambda value: type(value).__name__)
def test_an_estimator_that_fits_others_is_refused(other: Any, rows: Any, targets: Any, fits: list[str]) -> None:
    """Found from outside: a vote learned its labels from private rows, at the price of a fit that does not."""
    with pytest.raises(Refused, match=r"ts\.learn\.tune"):
        other.fit(rows, targets)
    assert fits == []


@pytest.mark.filterwarnings("ignore")
def test_a_function_of_a_search_is_refused(fits: list[str]) -> None:
    with pytest.raises(Refused, match=r"ts\.learn\.tune"):
        learning_curve(classifier(), ROWS, LABELS, error_score="raise", scoring="accuracy")
    assert fits == []


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.approx_dp(epsilon=9, delta=1e-5), unit="patient")


def test_routed_options_reach_no_account(account: Account) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        routed = classifier().set_fit_request(account=True, why=True)
        for other in (VotingClassifier([("a", routed)]), OneVsRestClassifier(routed)):
            with pytest.raises(Refused, match=f"^{type(other).__name__} "):
                other.fit(ROWS, LABELS, account=account, why="triage")
    assert not account.history()


def test_a_pipeline_a_tuned_estimator_and_a_copy_are_allowed(account: Account) -> None:
    paid = {"logisticregression__account": account, "logisticregression__why": "triage"}
    make_pipeline(classifier()).fit(ROWS, LABELS, **paid)
    runs = ts.learn.geometric(mean=2)
    search = ts.learn.tune(classifier(), candidates=[{}], runs=runs, score_epsilon=1.0)
    search.fit(ROWS, LABELS, account=account, why="triage", delta=1e-6)
    assert len(account.history()) == 2
    copied = clone(VotingClassifier([("a", classifier())]))
    assert copied.estimators[0][1].epsilon == 1.0
