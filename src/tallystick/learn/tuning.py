"""Try settings privately and keep the best run: one price for all runs, known before any of them.

    runs     how many there will be is drawn from a public law and stays secret
    a run    a setting drawn from the candidates, a private fit on one part of the rows, a noisy score on the other
    answer   the run with the best score: its setting, its model, its score; nothing of the other runs

Which rows score is decided by a coin per row, so a record is in one part only and a run costs the worse of both.
docs/theory/selected.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.leaves.selected import mean_runs
from tallystick.digits import typed
from tallystick.errors import InvalidInput, Refused
from tallystick.learn.choose import ModelSelection
from tallystick.learn.erm import of_one_row
from tallystick.learn.estimator import Answer, Estimator, Recipe
from tallystick.learn.records import Given, labelled, numbers
from tallystick.learn.scikit import clone
from tallystick.mechanisms.exact.coins import flip
from tallystick.mechanisms.exact.intervals import ZERO, Digits, Enclosure
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integer
from tallystick.mechanisms.noise import add_discrete_laplace

if TYPE_CHECKING:
    from decimal import Decimal

    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.mechanisms.noise.additive import AdditiveNoise

MARK = 1 << 20
"""A row's mark is a whole number from 0 to this, so that sums are exact and one row moves them by no more."""

MOST_CANDIDATES = 10_000
LONGEST_MEAN = 10_000.0


@dataclass(frozen=True, slots=True)
class Runs:
    """A public law of the number of runs; built by :func:`geometric`, :func:`logarithmic` and :func:`poisson`."""

    eta: float | None = None
    gamma: float | None = None
    mean_count: float | None = None

    @property
    def mean(self) -> float:
        """The average number of runs."""
        if self.mean_count is not None:
            return self.mean_count
        assert self.eta is not None
        assert self.gamma is not None
        return mean_runs(self.eta, self.gamma)

    def price(self, run: PrivacyLoss) -> PrivacyLoss:
        """The loss of the best of this many runs."""
        return losses.selected(run, eta=self.eta, gamma=self.gamma, poisson=self.mean_count)

    def draw(self, source: Source) -> int:
        """A number of runs with exactly this law: a uniform number placed among the sums of probabilities."""
        numerator, bits, digits = source.bits(64), 64, 40
        while (found := self._placed(Digits(digits), numerator, bits)) is None:
            numerator, bits, digits = (numerator << 64) | source.bits(64), bits + 64, digits + 25
        return found

    def _placed(self, digits: Digits, numerator: int, bits: int) -> int | None:
        one = digits.of(1 << bits)
        place = Enclosure(
            digits.divide(digits.of(numerator), one).low, digits.divide(digits.of(numerator + 1), one).high
        )
        count, mass, total = self._first(digits)
        while True:
            total = digits.add(total, mass)
            if place.high <= total.low:
                return count
            if place.low < total.high or not _positive(mass.low):
                return None
            mass = digits.multiply(mass, digits.of(self._ratio(count)))
            count += 1

    def _first(self, digits: Digits) -> tuple[int, Enclosure, Enclosure]:
        """The least number of runs, its probability, and the sum before it."""
        nothing = Enclosure(ZERO, ZERO)
        if self.mean_count is not None:
            return 0, digits.exp(-digits.of(Fraction(self.mean_count))), nothing
        assert self.eta is not None
        assert self.gamma is not None
        eta, gamma = Fraction(self.eta), Fraction(self.gamma)
        log = -digits.ln(digits.of(gamma))
        if eta == 0:
            return 1, digits.divide(digits.of(1 - gamma), log), nothing
        power = digits.exp(digits.multiply(digits.of(eta), log))
        whole = digits.subtract(power, digits.of(1))
        top = eta * (1 - gamma)
        return 1, digits.divide(digits.of(abs(top)), whole if eta > 0 else -whole), nothing

    def _ratio(self, count: int) -> Fraction:
        """Pr[K = count + 1] / Pr[K = count]."""
        if self.mean_count is not None:
            return Fraction(self.mean_count) / (count + 1)
        assert self.eta is not None
        assert self.gamma is not None
        return (1 - Fraction(self.gamma)) * (count + Fraction(self.eta)) / (count + 1)


def _positive(mass: Decimal) -> bool:
    return mass > 0


def geometric(*, mean: float) -> Runs:
    """At least one run, and each followed by another with probability 1 - 1/mean: three epsilons for pure runs.

    >>> geometric(mean=10).price(losses.pure_dp(epsilon=1)).epsilon(delta=0) < 3
    True
    """
    return Runs(eta=1.0, gamma=1.0 / _mean(mean))


def logarithmic(*, mean: float) -> Runs:
    """The cheapest law with this mean that the theory knows: two epsilons for pure runs, but often one run only.

    >>> round(logarithmic(mean=10).mean, 6)
    10.0
    """
    wanted = _mean(mean)
    low, high = 1e-6, 1.0 - 1e-9
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean_runs(0.0, middle) > wanted else (low, middle)
    return Runs(eta=0.0, gamma=high)


def poisson(*, mean: float) -> Runs:
    """Well concentrated around its mean, and sometimes no run at all: then nothing comes out.

    >>> poisson(mean=10).mean
    10.0
    """
    return Runs(mean_count=_mean(mean))


def _mean(mean: Any) -> float:
    allowed = f"a number above 1, at most {typed(LONGEST_MEAN)}"
    number = check.positive("mean", mean, allowed)
    if not 1.0 < number <= LONGEST_MEAN:
        raise InvalidInput("mean", mean, allowed)
    return number


@dataclass(frozen=True, slots=True)
class TuningRecipe:
    """All runs together, as one release."""

    recipes: tuple[Recipe, ...]
    runs: Runs
    share: float
    score: AdditiveNoise
    models: tuple[Any, ...] = field(repr=False, compare=False)
    settings: tuple[str, ...] = ()
    """Every parameter of every candidate, in their order: the winner is stored by its place among them."""

    @property
    def run_privacy(self) -> PrivacyLoss:
        """One run: a record is fitted on or scored on, never both; candidates differ, so the worst of them."""
        each = [recipe.privacy for recipe in self.recipes]
        for loss in each:
            if loss.adjacency is not Adjacency.ADD_REMOVE:
                raise InvalidInput("adjacency", loss.adjacency.value, "candidates whose neighbours add or remove a row")
        return losses.worst(*each, self.score.privacy)

    @property
    def privacy(self) -> PrivacyLoss:
        """The best of the runs."""
        return self.runs.price(self.run_privacy)

    def train(self, data: Given, source: Source) -> Answer:
        """Runs, of which only the best is remembered."""
        held = flip(lambda digits: digits.of(Fraction(self.share)), len(data.rows), source)
        fitted, scored = _part(data, ~held), _part(data, held)
        best: Answer = {"candidate": -1}
        for _ in range(self.runs.draw(source)):
            place = integer(len(self.recipes), source)
            answer = self.recipes[place].train(fitted, source)
            model = kept(self.models[place], answer, data.width)
            marks = int(marked(model, scored).sum())
            noisy = int(self.score.draw(self.score.prepare(marks, strict=False), source))
            # The first of equals stays: runs are exchangeable, so that is a fair choice.
            if best["candidate"] < 0 or noisy > best["score"]:
                best = {"candidate": place, "score": noisy, "model": answer}
        return best


def _part(data: Given, taken: Any) -> Given:
    return Given(data.rows[taken], None if data.targets is None else data.targets[taken], None)


def kept(model: Any, answer: Mapping[str, Any], width: int) -> Any:
    """A model with these settings and what was released for it."""
    fresh = clone(model)
    fresh.n_features_in_ = width
    fresh._keep(answer)
    return fresh


def marked(model: Any, data: Given) -> Any:
    """A mark per row, from 0 to MARK: right or wrong for classes, else one minus the squared error over its largest."""
    assert data.targets is not None
    predicted = np.asarray(model.predict(data.rows)) if len(data.rows) else np.zeros(0)
    classes = getattr(model, "classes", None)
    if classes is not None:
        truth, guess = labelled(data.targets, classes), labelled(predicted, classes)
        return np.where((truth >= 0) & (truth == guess), MARK, 0)
    low, high = target_range(model)
    with np.errstate(all="ignore"):
        error = np.clip(predicted, low, high) - numbers(data.targets, low, high)
        share = 1.0 - (error / (high - low)) ** 2
    return np.rint(MARK * np.clip(np.nan_to_num(share, nan=0.0), 0.0, 1.0)).astype(np.int64)


def target_range(model: Any) -> tuple[float, float]:
    """The declared range of the targets, by which a squared error is measured."""
    bounds, bound = getattr(model, "target_bounds", None), getattr(model, "target_bound", None)
    if bounds is not None:
        return float(bounds[0]), float(bounds[1])
    allowed = "an estimator that predicts, and declares classes or the range of its targets, to be scored by it"
    if bound is None or isinstance(model, ModelSelection):
        raise InvalidInput("estimator", type(model).__name__, allowed)
    return -float(bound), float(bound)


class Tuned(Estimator):
    """The best of a secret number of private fits: ``.privacy`` before anything runs, then ``.fit(X, y, account=...)``.

    Every run draws one of the ``candidates`` (settings of ``estimator``), fits it and scores it with noise of
    ``score_epsilon`` on a ``share`` of the rows. One charge pays for all runs. How long it takes tells how many runs
    there were: hide that where it can be observed. ``score_epsilon``, like the epsilon of the estimator, protects a
    whole person, who may have ``rows_per_unit`` rows. The estimator must declare the same ``rows_per_unit``.

    ``best_score_`` is no accuracy: how many rows there are is private. It is a noisy sum over the rows that scored: 1
    for a right label, else 1 minus the squared error over that of the whole target range. Of one run it is off by at
    most 3 * ``rows_per_unit`` / ``score_epsilon`` in 95 of 100 cases; the best of many runs is rather too high.

    >>> from tallystick.learn.kng import KNormGradient
    >>> settings = [{"coefficient_bound": bound} for bound in (0.5, 1.0, 2.0)]
    >>> model = KNormGradient(epsilon=0.5, feature_bound=1, target_bound=1)
    >>> plan = tune(model, candidates=settings, runs=geometric(mean=5), score_epsilon=0.5)
    >>> 1.0 < plan.privacy.epsilon(delta=0) <= 1.5
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        candidates: Sequence[Mapping[str, Any]],
        runs: Runs,
        score_epsilon: float,
        share: float = 0.2,
        rows_per_unit: int = 1,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.runs = runs
        self.score_epsilon = score_epsilon
        self.share = share
        self.rows_per_unit = rows_per_unit

    def _models(self) -> list[Any]:
        allowed = f"a list of 1 to {MOST_CANDIDATES} settings such as {{'ridge': 1.0}}"
        if not isinstance(self.estimator, Estimator) or isinstance(self.estimator, Tuned):
            raise InvalidInput("estimator", self.estimator, "an estimator of ts.learn")
        if not isinstance(self.candidates, Sequence) or not 1 <= len(self.candidates) <= MOST_CANDIDATES:
            raise InvalidInput("candidates", self.candidates, allowed)
        models = []
        for settings in self.candidates:
            if not isinstance(settings, Mapping):
                raise InvalidInput("candidates", settings, allowed)
            try:
                models.append(clone(self.estimator).set_params(**settings))
            except ValueError:
                known = ", ".join(sorted(self.estimator.get_params()))
                raise InvalidInput("candidates", settings, f"parameters that the estimator has: {known}") from None
        for model in models:
            if getattr(model, "classes", None) is None:
                target_range(model)
            if model.rows_per_unit != self.rows_per_unit:
                allowed = f"rows_per_unit={self.rows_per_unit} in the estimator and in tune(...): epsilon is per person"
                raise InvalidInput("rows_per_unit", model.rows_per_unit, allowed)
        return models

    def _recipe(self) -> TuningRecipe:
        if not isinstance(self.runs, Runs):
            raise InvalidInput("runs", self.runs, "ts.learn.geometric(mean=10), logarithmic(...) or poisson(...)")
        share = check.between("share", self.share, 0.01, 0.99)
        models = self._models()
        rows = check.count("rows_per_unit", self.rows_per_unit, least=1)
        epsilon = of_one_row(check.positive("score_epsilon", self.score_epsilon), rows)
        noise = add_discrete_laplace(epsilon=epsilon, sensitivity=MARK)
        settings = tuple(repr(sorted(model.get_params().items())) for model in models)
        return TuningRecipe(tuple(m._recipe() for m in models), self.runs, share, noise, tuple(models), settings)

    def _check(self, data: Given) -> None:
        super()._check(data)
        for model in self._models():
            model._check(data)

    @property
    def _stated_epsilon(self) -> float:
        return self.score_epsilon

    def _target_kind(self) -> None:
        """Every candidate says it."""

    def _keep(self, answer: Mapping[str, Any]) -> None:
        place = int(answer["candidate"])
        self.best_estimator_: Any = None
        self.best_params_: Mapping[str, Any] | None = None
        self.best_score_: float | None = None
        if place >= 0:
            self.best_params_ = dict(self.candidates[place])
            self.best_estimator_ = kept(self._models()[place], answer["model"], self.n_features_in_)
            self.best_estimator_._name(getattr(self, "feature_names_in_", None))
            self.best_score_ = float(answer["score"]) / MARK

    def predict(self, X: Any) -> Any:
        """Predictions of the best model."""
        if self.best_estimator_ is None:
            raise Refused("there was no run, as the law of the number of runs allows; fit (and pay) again")
        return self.best_estimator_.predict(X)


tune = Tuned
