"""Private logistic regression: ``ts.learn.LogisticRegression``.

    objective    Gaussian noise in the objective, then its minimiser          (epsilon, delta)
    knorm        the same with noise of density e^{-rate |b|}                 pure epsilon
    noisy_gd     full-batch gradient descent, each step's gradient noised     (epsilon, delta); any number of classes;
                 with a strong ridge only the last iterate is paid for

Every recipe is public numbers only and knows its price; ``train`` is all that sees rows. The longest row counts the
constant column. docs/theory/objective-perturbation.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.calibrate import calibrate
from tallystick.accounting.leaves.objective import SMALLEST_SIGMA
from tallystick.errors import InvalidInput
from tallystick.learn import descent, last_iterate
from tallystick.learn.asymptotics import minimiser_covariance
from tallystick.learn.estimator import MINIMISER, OBJECTIVE, Answer, Estimator, NoisePart
from tallystick.learn.minimise import Objective, SoftmaxObjective, reach, rounding
from tallystick.learn.records import Array, Given, along, labelled, matrix, scaled
from tallystick.learn.scikit import ClassifierMixin, check_is_fitted
from tallystick.learn.scoring import accuracy
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise import add_gaussian
from tallystick.mechanisms.noise.knorm import NORMAL_ERROR, add_knorm, near_normals

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

SHARE = 0.02
"""Noise that hides the minimiser's last digits: its mu (or epsilon) as a share of the objective's."""
FAR = 40.0
"""Noise is longer than sqrt(d) + FAR deviations with a probability below 1e-340."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How rows and labels are read: the declared norm and classes, and whether a constant column is added."""

    norm: float
    intercept: bool
    classes: tuple[Any, ...]

    @property
    def constant(self) -> float:
        """The entry of the constant column: as long as the features may be, so that the two weigh alike."""
        return self.norm if self.intercept else 0.0

    @property
    def longest(self) -> float:
        """Norm of the longest row, the constant column included."""
        return math.hypot(self.norm, self.constant) * (1.0 + 2.0**-50)

    @property
    def problems(self) -> int:
        """Two-class problems, one against the rest."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def extended(self, rows: Array) -> Array:
        """Rows no longer than declared, with the constant column."""
        short = scaled(rows, self.norm)
        return np.column_stack([short, np.full(len(short), self.constant)]) if self.intercept else short

    def read(self, data: Given) -> tuple[Array, np.ndarray[Any, Any]]:
        """Usable rows and the places of their labels."""
        assert data.targets is not None
        places = labelled(data.targets, self.classes)
        known = places >= 0
        return self.extended(data.rows[known]), places[known]

    def signed(self, rows: Array, places: np.ndarray[Any, Any], problem: int) -> Array:
        """Rows times +1 where the label is the problem's class, -1 elsewhere."""
        positive = places == (1 if self.problems == 1 else problem)
        return rows * np.where(positive, 1.0, -1.0)[:, None]


@dataclass(frozen=True, slots=True)
class Perturbed:
    """Noise in the objective. ``sigma`` and ``ridge`` are in units of the longest row and of its square.

    ``sigma`` is the deviation of Gaussian noise, or, where ``pure``, the scale of noise of density e^{-|b| / sigma}.
    """

    rows: Rows
    sigma: float
    ridge: float
    pure: bool
    regularization: float
    most_rows: int
    adjacency: str
    gaussian: bool = False
    """Whether the price is that of a Gaussian above it: groups and replaced rows then have closed forms."""
    softmax: bool = False
    """One objective for all classes, with its own bound, instead of one per class."""

    @property
    def privacy(self) -> PrivacyLoss:
        """One release per problem, and the noise on the minimiser."""
        if self.softmax:
            return softmax_loss(self.sigma, self.ridge, len(self.rows.classes))
        return _perturbed_loss(self.sigma, self.ridge, self.pure, self.rows.problems, self.adjacency, self.gaussian)

    def strength(self, width: int) -> float:
        """The regularization of rows that wide: as asked, as the price needs, and so that noise alone stays tame."""
        longest = self.rows.longest
        noise = self.sigma * longest * (width if self.pure else math.sqrt(width))
        return max(self.regularization, self.ridge * longest**2, longest * noise / descent.SWING)

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        """What a card says of the noise."""
        kind = "e^{-|b|} (Euclidean norm)" if self.pure else "Gaussian"
        hiding = kind if self.pure else "discrete Gaussian"
        apart, price = self.hidden(columns + self.rows.intercept)
        share = SHARE / (1.0 + SHARE) if self.pure else SHARE**2 / ((2.0 if self.softmax else 1.0) + SHARE**2)
        return (
            NoisePart(OBJECTIVE, kind, self.sigma, share=1.0 - share),
            NoisePart(MINIMISER, hiding, apart / price, sensitivity=apart, share=share),
        )

    def train(self, data: Given, source: Source) -> Answer:
        rows, places = self.rows.read(data)
        width, longest = rows.shape[1], self.rows.longest
        ridge, tolerance, classes = self.strength(width), self.tolerance(width), self.rows.problems
        if self.softmax:
            tilt = self.noise(width * classes, source)
            found = [SoftmaxObjective.of(rows, places, classes, longest, ridge, tilt).minimum(tolerance)]
        else:
            found = [
                Objective.of(self.rows.signed(rows, places, k), longest, ridge, self.noise(width, source)).minimum(
                    tolerance
                )
                for k in range(classes)
            ]
        hiding = self.hiding(width)
        theta = hiding.draw(hiding.prepare(np.concatenate(found), strict=False), source)
        return {"theta": np.asarray(theta).reshape(classes, width)}

    def noise_covariance(self, curvature: Array, answer: Mapping[str, Any]) -> Array:
        """Of the minimiser's columns, to first order, where their curvature is this."""
        width, scale, hiding = len(curvature), self.sigma * self.rows.longest, self.hiding(len(curvature))
        variance = scale**2 * (width + 1 if self.pure else 1)
        hidden = hiding.variance(dimension=width) if self.pure else hiding.variance
        found = minimiser_covariance(curvature, ridge=self.strength(width), variance=variance)
        return np.asarray(found + hidden * np.eye(width))

    def noise(self, width: int, source: Source) -> Array:
        """Real noise of the exact law, known within ``noise_error``."""
        scale = self.sigma * self.rows.longest
        if not self.pure:
            return scale * near_normals(width, source)
        step = 2.0 ** (math.floor(math.log2(scale)) - 26)
        mechanism = add_knorm(epsilon=1.0, norm="l2", sensitivity=scale, granularity=step)
        return np.asarray(mechanism.draw(mechanism.prepare([0.0] * width, strict=False), source))

    def noise_error(self, width: int) -> float:
        """How far the noise that was used is from the noise that it stands for."""
        each = NORMAL_ERROR if not self.pure else 2.0**-26
        return self.sigma * self.rows.longest * math.sqrt(width * (self.rows.problems if self.softmax else 1)) * each

    def tolerance(self, width: int) -> float:
        """What the minimiser surely reaches: four times the rounding of the longest gradient, from public numbers."""
        longest, ridge = self.rows.longest, self.strength(width)
        classes = len(self.rows.classes) if self.softmax else 2
        drawn = width * (classes if self.softmax else 1)
        tilt = self.sigma * longest * (2.0 * width + 40.0 * FAR if self.pure else math.sqrt(drawn) + FAR)
        farthest = reach(self.most_rows, ridge, tilt, classes=classes)
        return 4.0 * rounding(self.most_rows + 64, width, longest, ridge, farthest, tilt, classes=classes)

    def hidden(self, width: int) -> tuple[float, float]:
        """How far errors can move the minimisers, and the mu or epsilon of the noise that hides it."""
        error = (self.tolerance(width) + self.noise_error(width)) / self.strength(width)
        parts = 1 if self.softmax else self.rows.problems
        return 2.0 * error * math.sqrt(parts), _hiding(self.sigma, self.pure, parts)

    def hiding(self, width: int) -> Any:
        """The noise that hides the errors of all minimisers; made before the charge too, as it needs no data."""
        apart, price = self.hidden(width)
        if self.pure:
            return add_knorm(epsilon=price, norm="l2", sensitivity=apart)
        return add_gaussian(mu=price, sensitivity=apart, dimension=width * self.rows.problems)

    def ready(self, width: int) -> None:
        """Refuse what public numbers cannot do, before anything is charged."""
        self.hiding(width)


def _hiding(sigma: float, pure: bool, problems: int) -> float:
    """The mu, or the epsilon, of the noise on the minimisers."""
    return SHARE * (problems if pure else math.sqrt(problems)) / sigma


@lru_cache(maxsize=256)
def _perturbed_loss(
    sigma: float, ridge: float, pure: bool, problems: int, adjacency: str, gaussian: bool
) -> PrivacyLoss:
    if pure:
        # At most c/sigma + log(1 + c (1 - c)/ridge) for c in [0, 1], which is largest at c = 1 when ridge >= sigma.
        assert ridge >= sigma
        loss = losses.pure_dp(epsilon=problems * (1.0 + SHARE) / sigma * (1.0 + 1e-15))
    else:
        one = losses.objective_perturbation(sigma=sigma, ridge=ridge)
        if gaussian:
            one = losses.gdp(mu=one.gdp_bound())
        loss = problems * one + losses.gdp(mu=_hiding(sigma, False, problems))
    return loss if Adjacency(adjacency) is Adjacency.ADD_REMOVE else loss.as_replace()


@lru_cache(maxsize=256)
def softmax_loss(sigma: float, ridge: float, classes: int) -> PrivacyLoss:
    """(K - 1) G(epsilon - kappa; sqrt 2/sigma), which holds for both directions, and the noise on the minimiser."""
    kappa = (classes - 1) * math.log1p(1.0 / (classes * ridge)) * (1.0 + 1e-12)
    plain, knots = losses.gdp(mu=math.sqrt(2.0) / sigma * (1.0 + 1e-15)), []
    for step in np.linspace(0.0, 14.0, 141):  # in deviations of the loss: at the last one 1e-40 is left
        epsilon = kappa + float(step) * math.sqrt(2.0) / sigma
        knots.append((epsilon, min(1.0, (classes - 1) * plain.delta(epsilon=epsilon - kappa) * (1.0 + 1e-12))))
    return losses.from_profile(knots) + losses.gdp(mu=_hiding(sigma, False, 1))


@lru_cache(maxsize=64)
def softmax_sigma(epsilon: float, delta: float, ridge: float, classes: int) -> float:
    """The least noise, nearly, whose published loss meets (epsilon, delta)."""
    goal = losses.approx_dp(epsilon=epsilon, delta=delta)
    kappa = (classes - 1) * math.log1p(1.0 / (classes * ridge))
    inner = losses.approx_dp(epsilon=epsilon - kappa, delta=delta / (classes - 1))
    least = calibrate(lambda s: losses.gaussian(sigma=s / math.sqrt(2.0 + SHARE**2)), inner)
    for wider in (1.001, 1.01, 1.03, 1.1):
        if softmax_loss(least * wider, ridge, classes) <= goal:
            return float(least * wider)
    return float(
        calibrate(lambda s: softmax_loss(s, ridge, classes), goal, low=least, high=100.0 * least, relative=1e-2)
    )


@lru_cache(maxsize=64)
def gaussian_sigma(epsilon: float, delta: float, ridge: float, problems: int, adjacency: str, rows: int) -> float:
    """The least noise whose published loss, for a unit of that many rows, meets (epsilon, delta)."""
    goal = losses.approx_dp(epsilon=epsilon, delta=delta, adjacency=adjacency)
    plain = rows > 1 or adjacency != "add_remove"

    def loss(sigma: float) -> PrivacyLoss:
        found = _perturbed_loss(sigma, ridge, False, problems, adjacency, plain)
        return found if rows == 1 else found.for_groups(rows)

    rate = math.sqrt(problems * (1.0 + SHARE**2)) * rows * (1 if adjacency == "add_remove" else 2)
    least = max(SMALLEST_SIGMA, calibrate(lambda s: losses.gaussian(sigma=s / rate, adjacency=adjacency), goal))
    for wider in (1.0, 1.001, 1.003, 1.01):  # the theorem: from epsilon = 1/ridge on it is one Gaussian release
        if loss(least * wider) <= goal:
            return float(least * wider)
    return float(calibrate(loss, goal, low=least, high=100.0 * least, relative=2e-3))


class LogisticRegression(ClassifierMixin, Estimator):  # type: ignore[misc]  # scikit-learn has no types
    """Logistic regression whose coefficients are (epsilon, delta)-private for every person in the data.

    ``row_norm`` bounds the Euclidean norm of a row's features (longer rows are scaled down, at fitting and predicting
    alike) and ``classes`` are the labels; both are declared, never read from data. ``delta=None`` is pure privacy.
    ``solver`` is "objective", "knorm" (pure) or "noisy_gd"; by default "knorm" without delta, "noisy_gd" for more than
    two classes or where ``most_rows * epsilon`` is at most 5,000, and "objective" elsewhere. With a strong
    ``regularization`` "noisy_gd" has the cost of its last iterate (``learn/last_iterate.py``). ``most_rows`` is
    declared too: more rows are refused. A unit may have ``rows_per_unit`` rows; epsilon and delta protect the whole
    unit.

    >>> import numpy as np
    >>> model = LogisticRegression(epsilon=1, delta=1e-6, row_norm=1, classes=[0, 1])
    >>> model.privacy.epsilon(delta=1e-6) <= 1
    True
    >>> X = np.concatenate([np.full((5000, 1), -0.9), np.full((5000, 1), 0.9)])
    >>> model.fit(X, np.repeat([0, 1], 5000)).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        epsilon: float,
        *,
        delta: float | None = None,
        row_norm: float,
        classes: Sequence[Any],
        solver: str | None = None,
        multiclass: str | None = None,
        regularization: float | None = None,
        fit_intercept: bool = True,
        steps: int = 100,
        most_rows: int = 1_000_000,
        rows_per_unit: int = 1,
        adjacency: str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.classes = classes
        self.solver = solver
        self.multiclass = multiclass
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.most_rows = most_rows
        self.rows_per_unit = rows_per_unit
        self.adjacency = adjacency

    def _recipe(self) -> Perturbed | descent.NoisyDescent | last_iterate.LastIterate:
        epsilon, delta = check.positive("epsilon", self.epsilon), check.probability("delta", self.delta or 0.0)
        if delta >= 1.0:
            raise InvalidInput("delta", self.delta, "a number below 1, or None for pure privacy")
        if epsilon > 100.0:
            raise InvalidInput("epsilon", self.epsilon, "a number up to 100")
        rows = Rows(
            check.between("row_norm", self.row_norm, 1e-9, 1e9), bool(self.fit_intercept), _labels(self.classes)
        )
        adjacency = check.adjacency(self.adjacency).value
        solver = self._solver(epsilon, delta, len(rows.classes))
        strength = check.nonnegative("regularization", self.regularization or 0.0)
        units = check.count("rows_per_unit", self.rows_per_unit, least=1, most=1000)
        most = check.count("most_rows", self.most_rows, least=1, most=2**31)
        if solver == "noisy_gd":
            softmax = self._softmax(len(rows.classes), "softmax")
            asked: Any = {"softmax": softmax, "ridge": strength, "units": units, "adjacency": adjacency}
            asked["steps"] = check.count("steps", self.steps, least=1, most=descent.MOST_STEPS)
            return last_iterate.plan(rows, epsilon, delta, **asked, most_rows=most) or descent.plan(
                rows, epsilon, delta, **asked
            )
        softmax = self._softmax(len(rows.classes), "ovr")
        if softmax and (solver == "knorm" or units > 1 or adjacency != "add_remove"):
            allowed = 'multiclass="ovr" or solver="noisy_gd" for pure privacy, units of several rows or replaced rows'
            raise InvalidInput("multiclass", "softmax", allowed)
        if solver == "knorm":
            whole = epsilon / (units * (1 if adjacency == "add_remove" else 2))
            sigma = rows.problems * (1.0 + SHARE) / whole * (1.0 + 1e-12)
            return Perturbed(rows, sigma, max(sigma, strength / rows.longest**2), True, strength, most, adjacency)
        if softmax:  # a fifth of epsilon for the curvature
            cost = math.expm1(epsilon / 5.0 / (len(rows.classes) - 1))
            ridge = max(1.0 / (len(rows.classes) * cost), strength / rows.longest**2)
            sigma = softmax_sigma(epsilon, delta, ridge, len(rows.classes))
            return Perturbed(rows, sigma, ridge, False, strength, most, adjacency, False, True)
        apart = units * (1 if adjacency == "add_remove" else 2)
        ridge = max(rows.problems * apart / epsilon, strength / rows.longest**2)
        sigma = gaussian_sigma(epsilon, delta, ridge, rows.problems, adjacency, units)
        return Perturbed(rows, sigma, ridge, False, strength, most, adjacency, apart > 1)

    def _solver(self, epsilon: float, delta: float, classes: int) -> str:
        allowed = '"objective" or "noisy_gd" (they need a delta above 0), "knorm" (delta 0)'
        if self.solver is None:
            if delta == 0.0:
                return "knorm"
            small = check.count("most_rows", self.most_rows, least=1) * epsilon <= 5000.0
            return "noisy_gd" if small or classes > 2 else "objective"
        if self.solver not in ("objective", "knorm", "noisy_gd") or (self.solver == "knorm") != (delta == 0.0):
            raise InvalidInput("solver", self.solver, allowed)
        return self.solver

    def _softmax(self, classes: int, default: str) -> bool:
        if self.multiclass not in (None, "ovr", "softmax"):
            raise InvalidInput("multiclass", self.multiclass, '"ovr", "softmax" or None')
        return classes > 2 and (self.multiclass or default) == "softmax"

    def _check(self, data: Given) -> None:
        super()._check(data)
        if len(data.rows) > self.most_rows:
            raise InvalidInput("most_rows", self.most_rows, "a larger number: X has more rows (how many is private)")
        self._recipe().ready(data.width + bool(self.fit_intercept))

    def _target_kind(self) -> str:
        return "text" if isinstance(_labels(self.classes)[0], str) else "numbers"

    def _keep(self, answer: Mapping[str, Any]) -> None:
        self._answer = dict(answer)
        theta = np.asarray(answer["theta"], dtype=np.float64)
        self.classes_ = np.asarray(list(self.classes))
        constant = self._rows().constant
        self.coef_ = theta[:, : self.n_features_in_]
        self.intercept_ = theta[:, -1] * constant if constant else np.zeros(len(theta))

    def _rows(self) -> Rows:
        return Rows(float(self.row_norm), bool(self.fit_intercept), _labels(self.classes))

    # ---- what is free: functions of what was released ----

    def decision_function(self, X: Any) -> Array:
        """Scores: one number per row for two classes (positive: the second one), else one per class."""
        rows = self._like_fitted(X)
        if not np.isfinite(rows).all():
            raise InvalidInput("X", "an array with NaN or infinity", "finite numbers")
        scores: Array = along(scaled(rows, float(self.row_norm)), self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def noise_covariance(self, curvature: Any) -> Array:
        """Covariance of coefficients and intercept (last) over the privacy noise alone, to first order; two classes.

        ``curvature`` is sum of p (1 - p) x x' over the rows (x with a 1 last, where there is an intercept), p their
        predicted probabilities. That of private rows is private: take public rows like them, or zeros for the largest
        noise there can be. It says nothing about sampling, nor about the bias of a regularization.

        >>> model = LogisticRegression(epsilon=1, delta=1e-6, row_norm=1, classes=[0, 1]).fit([[0.5]] * 9, [1] * 9)
        >>> model.noise_covariance(np.zeros((2, 2))).shape
        (2, 2)
        """
        check_is_fitted(self, "coef_")
        size = self.n_features_in_ + bool(self.fit_intercept)
        given = matrix("curvature", curvature)
        if len(self.coef_) > 1:
            raise InvalidInput("classes", len(self.classes_), "two: with more the noise of one class moves the others")
        if given.shape != (size, size) or not np.isfinite(given).all() or np.linalg.eigvalsh(given)[0] < -1e-9:
            raise InvalidInput("curvature", f"shape {given.shape}", f"a positive semi-definite {size} by {size} matrix")
        units = np.ones(size)
        if self.fit_intercept:
            units[-1] = self._rows().constant  # released columns carry this constant instead of 1
        scale = np.outer(units, units)
        return self._recipe().noise_covariance(given * scale, self._answer) * scale

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The likeliest class of each row."""
        scores = self.decision_function(X)
        places = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: np.ndarray[Any, Any] = self.classes_[places]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, one column per class; one-against-the-rest scores are normalised."""
        from scipy.special import expit, softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        if self._softmax(len(self.classes_), "softmax" if self._noisy() else "ovr"):
            return np.asarray(softmax(scores, axis=1))
        each = expit(scores) + 1e-300
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    def _noisy(self) -> bool:
        return self._solver(float(self.epsilon), float(self.delta or 0.0), len(self.classes_)) == "noisy_gd"

    def score(self, X: Any, y: Any, *, public: bool = False, **options: Any) -> float:
        """Accuracy: plain on public data (``public=True``), else a release that is paid for.

        ``score(X, y, account=..., why=..., epsilon=...)`` charges ``epsilon`` and answers a noisy share.
        With ``delta=`` the noise is Gaussian. An account in rho or mu needs ``delta=`` or ``pure=True``.
        """
        self._like_fitted(X)
        return accuracy(self, X, y, public=public, options=options)


def _labels(classes: Any) -> tuple[Any, ...]:
    """The declared labels: at least two, distinct, numbers or text."""
    allowed = "a list of at least two different labels (all numbers or all text), which are public"
    if classes is None or isinstance(classes, (str, bytes)):
        raise InvalidInput("classes", classes, allowed)
    try:
        labels = tuple(entry.item() if isinstance(entry, np.generic) else entry for entry in classes)
        distinct = len(set(labels))
    except TypeError:
        raise InvalidInput("classes", classes, allowed) from None
    if distinct < 2 or distinct != len(labels) or not all(isinstance(label, (str, int, float)) for label in labels):
        raise InvalidInput("classes", classes, allowed)
    if any(label != label for label in labels) or len({isinstance(label, str) for label in labels}) > 1:
        raise InvalidInput("classes", classes, allowed)
    return labels
