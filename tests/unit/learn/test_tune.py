"""Tuning: the law of the number of runs, the price before anything runs, the winner's law, and one charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.errors import IdempotencyConflict, InvalidInput, Refused
from tallystick.learn.estimator import Estimator
from tallystick.learn.kng import KNormGradient
from tallystick.learn.logistic import LogisticRegression
from tallystick.learn.records import given
from tallystick.learn.tuning import MARK, Runs, geometric, logarithmic, marked, poisson, tune
from tallystick.mechanisms.exact.randomness import SeededSource


def probabilities(runs: Runs, most: int) -> np.ndarray:
    """Pr[K = k] for k = 0, 1, ... by its recursion, from the definition."""
    if runs.mean_count is not None:
        return np.array([math.exp(-runs.mean) * runs.mean**k / math.factorial(k) for k in range(most)])
    terms = [0.0, 1.0]
    for k in range(1, 3000):
        terms.append(terms[-1] * (1 - runs.gamma) * (k + runs.eta) / (k + 1))
    return np.array(terms[:most]) / sum(terms)


@pytest.mark.parametrize(
    "runs", [geometric(mean=3), logarithmic(mean=3), poisson(mean=2.5), Runs(-0.5, 0.1), Runs(2.5, 0.4)]
)
def test_the_number_of_runs_has_its_law(runs: Runs) -> None:
    source, draws = SeededSource(3), 4000
    seen = np.bincount([min(runs.draw(source), 12) for _ in range(draws)], minlength=13)[:13]
    law = probabilities(runs, 12)
    law = np.append(law, 1 - law.sum())
    some = law > 0
    chi = float(((seen[some] - draws * law[some]) ** 2 / (draws * law[some])).sum())
    assert chi < some.sum() + 5 * math.sqrt(2 * some.sum())
    assert seen[~some].sum() == 0


@dataclass(frozen=True, slots=True)
class Coin:
    """A toy run: tells whether there are rows, by randomized response."""

    epsilon: float

    @property
    def privacy(self) -> Any:
        return ts.pure_dp(epsilon=self.epsilon)

    def train(self, data: Any, source: Any) -> dict[str, Any]:
        lie = 1 / (1 + math.exp(self.epsilon))
        return {"told": int((len(data.rows) > 0) != (source.bits(53) * 2.0**-53 < lie))}


class Toy(Estimator):
    def __init__(self, epsilon=1.0, target_bound=1.0, rows_per_unit=1):
        self.epsilon, self.target_bound, self.rows_per_unit = epsilon, target_bound, rows_per_unit

    def _recipe(self):
        return Coin(float(self.epsilon))

    def _keep(self, answer):
        self.told_ = answer["told"]

    def predict(self, X):
        return np.full(len(X), 1.0 - self.told_)


def test_the_price_is_that_of_the_best_of_runs_of_the_worst_candidate() -> None:
    plan = tune(Toy(), candidates=[{"epsilon": 0.5}, {"epsilon": 1.0}], runs=geometric(mean=8), score_epsilon=0.25)
    run = plan._recipe().run_privacy
    assert run.epsilon(delta=0) == pytest.approx(1.0)
    assert plan.privacy == ts.selected(run, eta=1, gamma=1 / 8)
    assert plan.privacy.epsilon(delta=1e-6) > 1.5 * run.epsilon(delta=1e-6)  # one run's price would be a lie
    assert plan.privacy.epsilon(delta=0) <= 3.0 * (1 + 1e-9)


def test_the_winner_has_the_law_the_price_is_about() -> None:
    """A truthful toy scores higher, so a lie comes out only if every run lied: phi(chance of a lie), phi of K."""
    lie, gamma = 1 / (1 + math.e), 1 / 4
    recipe = tune(Toy(epsilon=1.0), candidates=[{}], runs=geometric(mean=4), score_epsilon=20.0, share=0.5)._recipe()
    data, source, draws = given(np.ones((60, 1)), np.zeros(60)), SeededSource(5), 800
    lies = sum(1 - recipe.train(data, source)["model"]["told"] for _ in range(draws))
    expected = gamma * lie / (1 - (1 - gamma) * lie)
    assert abs(lies / draws - expected) < 4.5 * math.sqrt(expected * (1 - expected) / draws)
    assert abs(lies / draws - lie) > 0.1  # one run lies more often


def test_one_charge_pays_for_all_runs_and_nothing_of_the_others_is_kept(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (3000, 1))
    targets = np.clip(0.8 * rows[:, 0], -1, 1)
    settings = [{"coefficient_bound": bound} for bound in (0.1, 1.0)]
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=3), unit="patient")
        plan = tune(
            KNormGradient(epsilon=0.5, feature_bound=1, target_bound=1, unit="patient"),
            candidates=settings,
            runs=geometric(mean=12),
            score_epsilon=0.5,
        )
        model = plan.fit(rows, targets, account=account, why="a slope", key="k")
        first = model.best_params_, model.best_estimator_.coef_
        again = plan.fit(rows[:9], targets[:9], account=account, why="a slope", key="k")
        assert len(list(account.history())) == 1
        assert again.best_params_ == first[0]
        assert np.allclose(again.best_estimator_.coef_, first[1])
        assert model.predict([[1.0]]).shape == (1,)
        assert not any("run" in name for name in vars(model) if name.endswith("_"))


def test_a_classifier_is_tuned_by_its_accuracy() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(1500, 2))
    labels = (rows[:, 0] > 0).astype(int)
    plan = tune(
        LogisticRegression(epsilon=1.0, delta=1e-6, row_norm=2.0, classes=[0, 1]),
        candidates=[{"epsilon": 0.01}, {"epsilon": 1.0}],
        runs=poisson(mean=6),
        score_epsilon=1.0,
        share=0.3,
    )
    assert plan.privacy == ts.selected(plan._recipe().run_privacy, poisson=6)
    model = plan.fit(rows, labels)
    if model.best_params_ == {"epsilon": 1.0}:  # one time in twenty no run draws it
        assert np.mean(model.predict(rows) == labels) > 0.6


def test_marks_are_whole_numbers_within_their_bounds_for_any_data() -> None:
    odd = given(np.ones((4, 1)), np.array([np.nan, 1.0, 1e308, -1.0]))
    marks = marked(Toy_with(0), odd)
    assert marks.tolist() == [0, MARK, MARK, 0]


def Toy_with(told: int) -> Any:
    model = Toy()
    model._keep({"told": told})
    return model


def test_no_run_at_all_is_an_answer() -> None:
    plan = tune(Toy(), candidates=[{}], runs=poisson(mean=1.0001), score_epsilon=1.0)
    for _ in range(60):
        model = plan.fit(np.ones((3, 1)), np.ones(3))
        if model.best_estimator_ is None:
            with pytest.raises(Refused, match="no run"):
                model.predict([[1.0]])
            return
    pytest.fail("e^-1 of the fits have no run")


@pytest.mark.parametrize(
    "bad",
    [
        {"runs": 10},
        {"candidates": []},
        {"candidates": [{"no_such": 1}]},
        {"candidates": 3},
        {"score_epsilon": 0},
        {"share": 1.0},
        {"candidates": [{"epsilon": -1}]},
    ],
)
def test_bad_requests_cost_nothing(bad: dict[str, Any]) -> None:
    given_ = {"candidates": [{}], "runs": geometric(mean=2), "score_epsilon": 1.0, **bad}
    with pytest.raises(InvalidInput):
        _ = tune(KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1), **given_).privacy


def test_only_estimators_of_this_room_and_neighbours_that_add_or_remove() -> None:
    with pytest.raises(InvalidInput):
        _ = tune(object(), candidates=[{}], runs=geometric(mean=2), score_epsilon=1.0).privacy
    with pytest.raises(InvalidInput, match="add or remove"):
        _ = tune(
            KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1, adjacency="replace"),
            candidates=[{}],
            runs=geometric(mean=2),
            score_epsilon=1.0,
        ).privacy
    for mean in (1.0, 0, math.inf, 1e9):
        with pytest.raises(InvalidInput):
            geometric(mean=mean)


def test_targets_with_bounds_of_their_own_are_scored_by_them(tmp_path) -> None:
    """It failed after its charge: target_bound was there, and None."""
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.pure_dp(epsilon=50), unit="person")
        model = ts.learn.LinearRegression(epsilon=1, row_norm=1, target_bounds=(0, 1))
        plan = ts.learn.tune(
            model, candidates=[{"ridge": 1.0}], runs=ts.learn.geometric(mean=2), score_epsilon=1
        )  # fmt: skip
        plan.fit(np.linspace(-1, 1, 50)[:, None], np.linspace(0, 1, 50), account=account, why="tuned")
        assert plan.best_params_ == {"ridge": 1.0}


def test_what_cannot_be_scored_is_refused_before_the_charge(tmp_path) -> None:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.pure_dp(epsilon=50), unit="person")
        chooser = ts.learn.select_model(
            models=[[0], [0, 1]], epsilon=1, feature_bound=1, target_bound=1, coefficient_bound=1
        )
        plan = ts.learn.tune(chooser, candidates=[{"epsilon": 1}], runs=ts.learn.geometric(mean=2), score_epsilon=1)
        with pytest.raises(InvalidInput, match="predicts"):
            plan.fit(np.zeros((9, 2)), np.zeros(9), account=account, why="tuned")
        assert not account.history()


def test_no_public_name_is_that_of_a_file() -> None:
    """``ts.learn.tune`` was the module as soon as somebody had imported it."""
    import pkgutil

    assert not {module.name for module in pkgutil.iter_modules(ts.learn.__path__)} & set(ts.learn._HOMES)


def test_mistakes_are_named_and_a_tuned_model_says_why_it_has_no_card(tmp_path) -> None:
    from tallystick.cards import fit_card

    common = {"runs": geometric(mean=2), "candidates": [{}]}
    with pytest.raises(InvalidInput, match=r"^score_epsilon = 0"):
        _ = tune(
            KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1), **common, score_epsilon=0
        ).privacy
    with pytest.raises(InvalidInput, match="parameters that the estimator has"):
        _ = tune(
            KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1),
            **(common | {"candidates": [{"C": 1}]}),
            score_epsilon=1,
        ).privacy
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=9), unit="patient")
        plan = tune(
            KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1, unit="patient"),
            **common,
            score_epsilon=1.0,
        )
        plan.fit(np.linspace(-1, 1, 50)[:, None], np.linspace(0, 1, 50), account=account, why="tuned")
        with pytest.raises(Refused, match="tuned model has no card"):
            fit_card(plan, account, dataset="visits")
        with pytest.raises(Refused, match="paid by its search"):
            fit_card(plan.best_estimator_, account, dataset="visits")


def test_other_candidates_are_another_question(tmp_path) -> None:
    """Found from outside: a ridge is free to read, so the stored winner of one list was shown as that of another."""
    rows, targets = np.linspace(-1, 1, 50)[:, None], np.linspace(0, 1, 50)
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.pure_dp(epsilon=50), unit="person")

        def fitted(*ridges: float) -> Any:
            model = ts.learn.LinearRegression(epsilon=1, row_norm=1, target_bounds=(0, 1))
            plan = tune(model, candidates=[{"ridge": r} for r in ridges], runs=geometric(mean=2), score_epsilon=1)
            return plan.fit(rows, targets, account=account, why="tuned", key="k")

        assert fitted(0.0, 1e6).best_score_ == fitted(0.0, 1e6).best_score_
        with pytest.raises(IdempotencyConflict):
            fitted(1e6, 0.0)


def test_epsilon_and_score_epsilon_protect_a_whole_person() -> None:
    bounds = {"feature_bound": 1, "target_bound": 1, "coefficient_bound": 1}
    common = {"candidates": [{}], "runs": geometric(mean=5)}
    prices = []
    for rows in (1, 3):
        model = KNormGradient(epsilon=0.5, **bounds, rows_per_unit=rows)
        for score in (0.1, 0.5, 1.0):
            plan = tune(model, **common, score_epsilon=score, rows_per_unit=rows)
            prices.append(plan.privacy.epsilon(delta=0))
    assert prices[3:] == pytest.approx(prices[:3], rel=0.1)
    assert prices[2] > prices[1] * 1.5  # a score that costs more than a fit counts


def test_rows_per_unit_is_the_same_in_the_search_and_in_the_estimator() -> None:
    bounds = {"feature_bound": 1, "target_bound": 1, "coefficient_bound": 1}
    plan = tune(
        KNormGradient(epsilon=0.5, **bounds), candidates=[{}], runs=geometric(mean=5), score_epsilon=1, rows_per_unit=3
    )
    with pytest.raises(InvalidInput, match="rows_per_unit=3 in the estimator"):
        _ = plan.privacy
