"""Better numbers from numbers that were paid for: averages by precision, consistent margins, posterior means.

All of it is post-processing and free. Weights are those of least squares (``linear``, docs/theory/inference.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Interval
from tallystick.inference.linear import half_width, least_squares
from tallystick.inference.noise import Floats
from tallystick.inference.released import Released
from tallystick.inference.shares import NoisyBinomial, noise_then_sampling

MOST_SUMMED = 10**6


@dataclass(frozen=True, slots=True)
class Combined:
    """A weighted sum of independent releases; made by :func:`combine` and :func:`consistent_table`."""

    value: float
    deviation: float
    parts: tuple[Released, ...]
    about: str
    of: int | None = None
    half_step: float = 0.0
    """Half of the largest step that one of the noises makes in it: sums of lattice noise are spread over steps."""

    @property
    def population_value(self) -> float:
        """The share, pulled into [0, 1]."""
        return min(1.0, max(0.0, self.value / self._size))

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The number that all of them are about, over their noises."""
        half = self._half(1.0 - check.inside("confidence", confidence))
        return Interval(self.value - half, self.value + half, confidence, self.about, "noise", ASYMPTOTIC)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The share of the population, where ``of`` is public: the noise first, then Clopper and Pearson."""
        miss = 1.0 - check.inside("confidence", confidence)
        low, high = noise_then_sampling(self.value, self._half(miss / 5.0), self._size, miss)
        about = f"share of {self.about}"
        return Interval(low, high, confidence, about, "population", ASYMPTOTIC, limits=(0.0, 1.0))

    def _half(self, miss: float) -> float:
        deviations = max(one.noise.deviations(1.0 - miss) for one in self.parts)
        return float(half_width(deviations, (self.deviation,), self.half_step))

    @property
    def _size(self) -> int:
        if self.of is None:
            raise Refused("no population interval: it needs of=, the public number of units, in every release")
        return self.of


def combine(*answers: Released) -> Combined:
    """Several independent releases of one quantity as one number: each counts by one over its variance.

    >>> from tallystick.inference.noise import Noise
    >>> both = combine(Released(100, Noise.gaussian(sigma=10)), Released(110, Noise.gaussian(sigma=20)))
    >>> both.value, round(both.deviation, 3)
    (102.0, 8.944)
    """
    if not answers or any(not isinstance(one, Released) or one.shown_from is not None for one in answers):
        raise InvalidInput("answers", answers, "releases of one quantity, none of them suppressed")
    if len({one.of for one in answers}) > 1:
        raise InvalidInput("answers", "different sizes", "releases of one quantity: the same of= in all of them")
    named = [one.sample for one in answers if one.sample]
    if len({id(one) for one in answers}) < len(answers) or len(set(named)) < len(named):
        allowed = "independent releases of one quantity, each with its own noise: not one of them twice"
        raise InvalidInput("answers", "one answer twice, or two cells of one release", allowed)
    one = _solve(np.ones((len(answers), 1)), answers)[0]
    return replace(one, about=answers[0].about, of=answers[0].of)


def consistent_table(
    table: Sequence[Sequence[Released]],
    *,
    rows: Sequence[Released] | None = None,
    columns: Sequence[Released] | None = None,
    total: Released | None = None,
) -> list[list[Combined]]:
    """The cells of a table that agree with its separately released margins: least squares by precision.

    Their sums over rows and columns are the best estimates of the margins too.

    >>> from tallystick.inference.noise import Noise
    >>> noise = Noise.gaussian(sigma=3)
    >>> cells = [[Released(10, noise), Released(20, noise)], [Released(30, noise), Released(44, noise)]]
    >>> better = consistent_table(cells, total=Released(100, noise))
    >>> round(sum(cell.value for row in better for cell in row), 2)
    100.8
    """
    height, width = len(table), len(table[0]) if table else 0
    if not width or any(len(row) != width for row in table):
        raise InvalidInput("table", f"{height} rows", "rows of released cells, all of one length")
    ids = np.arange(height * width).reshape(height, width)
    wanted: list[tuple[Released, Any]] = [(table[i][j], ids[i, j]) for i in range(height) for j in range(width)]
    for name, margin, groups in (("rows", rows, list(ids)), ("columns", columns, list(ids.T))):
        if margin is not None:
            if len(margin) != len(groups):
                raise InvalidInput(name, f"{len(margin)} totals", f"{len(groups)} totals")
            wanted += list(zip(margin, groups, strict=True))
    wanted += [] if total is None else [(total, ids)]
    if any(not isinstance(one, Released) or one.shown_from is not None for one, _ in wanted):
        raise InvalidInput("table", "a suppressed cell or a plain number", "released cells, none of them suppressed")
    design = np.zeros((len(wanted), ids.size))
    for line, (_, members) in enumerate(wanted):
        design[line, np.ravel(members)] = 1.0
    cells = iter(_solve(design, tuple(one for one, _ in wanted)))
    better = []
    for row in table:
        better.append([replace(next(cells), about=cell.about) for cell in row])
    return better


def _solve(design: Floats, answers: tuple[Released, ...]) -> list[Combined]:
    """Return the best estimate of each unknown; a row of ``design`` says which of them an answer adds up."""
    values = np.array([one.value for one in answers])
    variances = np.array([max(one.noise.deviation, 1e-150) ** 2 for one in answers])
    steps = np.array([one.noise.step for one in answers])
    estimates, covariance = least_squares(design, values, variances)
    weights = covariance @ design.T / variances
    deviations, half_steps = np.sqrt(np.diag(covariance)), np.max(np.abs(weights) * steps, axis=1) / 2.0
    numbers = zip(estimates.tolist(), deviations.tolist(), half_steps.tolist(), strict=True)
    return [Combined(value, deviation, answers, "", half_step=step) for value, deviation, step in numbers]


def posterior_share(
    answer: Released, *, prior: tuple[float, float], confidence: float = 0.95
) -> tuple[float, Interval]:
    """Mean and credible interval of a share under the stated Beta prior: exact, over sampling and noise.

    Given k of n the share is Beta(a + k, b + n - k); k has the beta-binomial law times the chance of the noise.

    >>> from tallystick.inference.noise import Noise
    >>> mean, interval = posterior_share(Released(-3, Noise.gaussian(sigma=5), of=100), prior=(1, 1))
    >>> round(mean, 4), 0 < interval.lower < mean < interval.upper < 0.2
    (0.0365, True)
    """
    from scipy.special import betainc, betaln, gammaln

    a, b = (check.positive("prior", one) for one in prior)
    law: NoisyBinomial = answer.law
    if law.n > MOST_SUMMED:
        raise InvalidInput("of", law.n, f"at most {MOST_SUMMED}: the posterior is summed over all counts")
    miss = 1.0 - check.inside("confidence", confidence)
    k = np.arange(law.n + 1, dtype=np.float64)
    choose = gammaln(law.n + 1.0) - gammaln(k + 1.0) - gammaln(law.n - k + 1.0)
    steps = np.clip(np.rint((answer.value - k) / law.noise.step), -(2.0**62), 2.0**62).astype(np.int64)
    with np.errstate(divide="ignore", under="ignore"):
        logs = choose + betaln(a + k, b + law.n - k) + np.log(law.noise.law.mass(steps))
    if answer.shown_from is not None or not np.any(np.isfinite(logs)):
        raise Refused("no posterior: the cell is suppressed, or its value is beyond every count and its noise")
    with np.errstate(under="ignore"):
        weights = np.exp(logs - logs[np.isfinite(logs)].max())
    weights /= weights.sum()
    mean = float(weights @ ((a + k) / (a + b + law.n)))
    seen = weights > 1e-12 * weights.max()
    k, weights = k[seen], weights[seen] / weights[seen].sum()

    def end(wanted: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2.0
            below = float(weights @ betainc(a + k, b + law.n - k, middle))
            low, high = (middle, high) if below < wanted else (low, middle)
        return (low + high) / 2.0

    about = f"share of {answer.about}, believed under Beta({a:g}, {b:g})"
    return mean, Interval(end(miss / 2.0), end(1.0 - miss / 2.0), confidence, about, "population", FINITE)
