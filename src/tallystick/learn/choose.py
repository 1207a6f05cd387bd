"""Choose a linear model privately: the columns that explain the targets best, by noisy maximum (Examples 5.3 and 5.4).

The score of a model is its least sum of squared residuals over coefficients of bounded absolute sum, plus a public
penalty per column. One record adds between 0 and (r + R)^2 to every score, whatever the model.
docs/theory/model-selection.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.learn.erm import ExponentialERM, SquaredLossRecipe, doubles
from tallystick.learn.estimator import Answer
from tallystick.learn.records import Array, Given
from tallystick.mechanisms.exact.lattice import rounded_up
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.select import noisy_max, permute_and_flip

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.mechanisms.select.candidates import Chooser

MOST_MODELS = 4096
SLACK = Fraction(1, 1024)
"""Scores are computed to within this share of what one record can change."""

WAYS = ("permute_and_flip", "laplace", "gumbel")


@dataclass(frozen=True, slots=True)
class ChoiceRecipe(SquaredLossRecipe):
    """The models, as columns, with the bounds of their scores; scores are in units of the target bound squared."""

    models: tuple[tuple[int, ...], ...] = ()
    penalty: float = 0.0
    how: str = WAYS[0]

    @property
    def largest_change(self) -> Fraction:
        """(r + R)^2 in those units."""
        return self.largest_residual**2

    @property
    def chooser(self) -> Chooser:
        """Noise for scores known to within SLACK.

        REPLACE: two scores differ by at most (1 + SLACK)(r + R)^2. ADD_REMOVE: all scores move the same way, between
        -SLACK and 1 + SLACK of it, and a constant added to all of them changes no choice: half of 1 + 2 SLACK.
        """
        adding = self.protects.adjacency is Adjacency.ADD_REMOVE
        share = (1 + 2 * SLACK) / 2 if adding else 1 + SLACK
        given = {"epsilon": self.epsilon, "sensitivity": rounded_up(self.largest_change * share), **self.protects.about}
        return permute_and_flip(**given) if self.how == WAYS[0] else noisy_max(noise=self.how, **given)

    @property
    def privacy(self) -> PrivacyLoss:
        """That of the choice."""
        return self.chooser.privacy

    def train(self, data: Given, source: Source) -> Answer:
        """The place of the chosen model."""
        gram, cross = doubles(self.moments(data))
        tolerance = float(self.largest_change * SLACK) / 2.0
        fee = self.penalty / self.target_bound**2
        scores = [
            -least_squares(gram[np.ix_(m, m)], cross[list(m)], self.bound, tolerance) - fee * len(m)
            for m in self.models
        ]  # the sum of squared targets is common to all and changes no choice
        chooser = self.chooser
        return {"chosen": chooser.draw(chooser.prepare(scores, strict=False), source)}


def least_squares(gram: Array, cross: Array, bound: float, tolerance: float) -> float:
    """min of t'Gt - 2 c't over |t_1| + ... <= bound, at most ``tolerance`` too large whatever the numbers are.

    Accelerated projected gradient steps: after k of them the excess is at most 2 L bound^2/(k + 1)^2 with L twice the
    trace of G, so their number is known beforehand; a gap that proves the same ends them sooner.

    >>> round(least_squares(np.array([[1.0]]), np.array([2.0]), 1.0, 1e-9), 6)
    -3.0
    """
    size = len(cross)
    smooth = 2.0 * float(np.trace(gram))
    if size == 0 or smooth <= 0.0:
        return 0.0
    steps = math.ceil(math.sqrt(2.0 * smooth * bound * bound / tolerance)) + 1
    here, ahead, weight = np.zeros(size), np.zeros(size), 1.0
    for _ in range(steps):
        there = _projected(ahead - 2.0 * (gram @ ahead - cross) / smooth, bound)
        slope = 2.0 * (gram @ there - cross)
        if slope @ there + bound * float(np.abs(slope).max()) <= tolerance:
            return float(there @ (gram @ there - 2.0 * cross))
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * weight * weight))
        here, ahead, weight = there, there + (weight - 1.0) / following * (there - here), following
    return float(here @ (gram @ here - 2.0 * cross))


def _projected(point: Array, bound: float) -> Array:
    """The nearest point of the ball |t_1| + ... <= bound (Duchi et al. 2008)."""
    sizes = np.abs(point)
    if sizes.sum() <= bound:
        return point
    falling = np.sort(sizes)[::-1]
    excess = (np.cumsum(falling) - bound) / np.arange(1, len(point) + 1)
    cut = excess[np.count_nonzero(falling > excess) - 1]
    return np.asarray(np.sign(point) * np.maximum(sizes - cut, 0.0))


class ModelSelection(ExponentialERM):
    """A choice among sets of columns, priced before data is seen: ``.privacy``, then ``.fit(X, y, account=...)``.

    Bounds and ``epsilon`` as for ``ExponentialERM``: you declare the bounds, and ``epsilon`` protects a whole person.

    ``penalty`` is added per column and is public (2 is AIC and log n BIC for residuals of variance one; n must then be
    public). ``how`` is "permute_and_flip", "laplace" (report noisy max, Example 5.4) or "gumbel".

    >>> import numpy as np
    >>> bounds = {"feature_bound": 1, "target_bound": 1, "coefficient_bound": 1}
    >>> choice = select_model(models=[[], [0], [1]], epsilon=2.0, **bounds)
    >>> choice.privacy.epsilon(delta=0)
    2.0
    >>> rows = np.random.default_rng(0).choice([-1.0, 1.0], (3000, 2))
    >>> choice.fit(rows, 0.5 * rows[:, 1]).model_
    (1,)
    """

    _slow = False

    def __init__(
        self,
        *,
        models: Sequence[Sequence[int]],
        epsilon: float,
        penalty: float = 0.0,
        how: str = WAYS[0],
        feature_bound: float | None = None,
        target_bound: float | None = None,
        coefficient_bound: float | None = None,
        rows_per_unit: int = 1,
        adjacency: Any = "add_remove",
        unit: str | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            feature_bound=feature_bound,
            target_bound=target_bound,
            coefficient_bound=coefficient_bound,
            rows_per_unit=rows_per_unit,
            adjacency=adjacency,
            unit=unit,
        )
        self.models = models
        self.penalty = penalty
        self.how = how

    def _recipe(self) -> ChoiceRecipe:
        if self.how not in WAYS:
            raise InvalidInput("how", self.how, "one of " + ", ".join(WAYS))
        penalty = check.nonnegative("penalty", self.penalty)
        return ChoiceRecipe(**self._checked(), models=_models(self.models), penalty=penalty, how=self.how)

    def _check(self, data: Given) -> None:
        super(ExponentialERM, self)._check(data)
        furthest = max((column for model in _models(self.models) for column in model), default=-1)
        if furthest >= data.width:
            raise InvalidInput("models", f"column {furthest}", f"columns from 0 to {data.width - 1}")

    def _keep(self, answer: Mapping[str, Any]) -> None:
        self.chosen_ = int(answer["chosen"])
        self.model_ = _models(self.models)[self.chosen_]

    def predict(self, X: Any) -> Any:
        """Refused: columns were chosen, not coefficients."""
        raise InvalidInput("predict", "columns only", "a private fit of the chosen columns, model_")


select_model = ModelSelection


def _models(models: Any) -> tuple[tuple[int, ...], ...]:
    allowed = f"1 to {MOST_MODELS} lists of different column numbers, such as [[], [0], [0, 2]]"
    try:
        found = tuple(tuple(check.count("models", column) for column in model) for model in models)
    except TypeError:
        raise InvalidInput("models", models, allowed) from None
    if not 1 <= len(found) <= MOST_MODELS or any(len(set(model)) < len(model) for model in found):
        raise InvalidInput("models", models, allowed)
    return found
