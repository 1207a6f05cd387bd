"""The population share behind a noisy count, by exact inversion (docs/theory/inference.md).

Y = Binomial(n, p) + noise grows with p in the likelihood-ratio order (the noise is log-concave), also when it is shown
only from a threshold on. So {p : Pr[Y <= y] >= a/2 and Pr[Y >= y] >= a/2} is an interval, and it holds p with
probability at least 1 - a for every n. Both inequalities include y: the noise lives on a lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tallystick.inference.noise import Floats, Noise

SLACK = 1.0 + 1e-6
"""More than the relative error of the probabilities here: a share in doubt is kept."""
_OUTSIDE = math.log(2e14)  # a binomial leaves its window with probability at most 1e-14


@dataclass(frozen=True, slots=True)
class NoisyBinomial:
    """Binomial(n, p) plus noise, conditional on reaching ``shown_from`` where that is given."""

    n: int
    noise: Noise
    shown_from: float | None = None

    def at_most(self, y: float, p: float) -> float:
        """Pr[Y <= y]."""
        k, mass = binomial(self.n, p, self.shown_from)
        if self.shown_from is None:
            return float(mass @ self.noise.at_most(y - k))
        beyond = y + self.noise.step + 2.0 * self.noise.rounding
        return 1.0 - float(mass @ self.noise.at_least(beyond - k)) / self._shown(k, mass)

    def at_least(self, y: float, p: float) -> float:
        """Pr[Y >= y]."""
        k, mass = binomial(self.n, p, self.shown_from)
        found = float(mass @ self.noise.at_least(y - k))
        return found if self.shown_from is None else min(1.0, found / self._shown(k, mass))

    def middle(self, p: float) -> float:
        """About the median of Y; whole, and at least half of the mass is at or below it."""
        low = -math.inf if self.shown_from is None else self.shown_from
        guess = max(low, math.floor(self.n * p))
        reach = 60.0 * self.noise.deviation + self.n + abs(guess)
        return bisected(lambda y: self.at_most(y, p) < 0.5, guess - 1.0, guess + reach, steps=80)[1]

    def _shown(self, k: Floats, mass: Floats) -> float:
        assert self.shown_from is not None
        shown = float(mass @ self.noise.at_least(self.shown_from + 2.0 * self.noise.rounding - k))
        return max(shown, 1e-300)


def kept_shares(y: float, law: NoisyBinomial, miss: float) -> tuple[float, float]:
    """The ends of the shares that a test of level ``miss`` keeps.

    A count below 0 (or above n) is read as what is usual for p = 0 (p = 1): the far end grows with y, so this only
    widens the interval, and noise alone never makes it empty.
    """
    wanted = miss / 2.0 / SLACK
    high = max(y, law.middle(0.0)) if y < 0 or law.shown_from is not None else y
    low = min(y, law.middle(1.0)) if y > law.n or law.shown_from is not None else y
    upper, lower = 1.0, 0.0
    if law.at_most(high, 1.0) < wanted:
        upper = bisected(lambda p: law.at_most(high, p) >= wanted, 0.0, 1.0)[1]
    if law.at_least(low, 0.0) < wanted:
        lower = bisected(lambda p: law.at_least(low, p) < wanted, 0.0, 1.0)[0]
    return min(lower, upper), max(lower, upper)


def noise_then_sampling(y: float, half: float, n: int, miss: float) -> tuple[float, float]:
    """Always valid, for any noise: |noise| <= half but for miss / 5, then Clopper and Pearson at the rest."""
    least = max(0, min(n, math.ceil(y - half - 1e-9)))
    most = max(0, min(n, math.floor(y + half + 1e-9)))
    return clopper_pearson(least, n, 0.8 * miss)[0], clopper_pearson(max(least, most), n, 0.8 * miss)[1]


def clopper_pearson(k: int, n: int, miss: float) -> tuple[float, float]:
    """The exact interval of a share without noise.

    >>> tuple(round(end, 4) for end in clopper_pearson(5, 10, 0.05))
    (0.1871, 0.8129)
    """
    from scipy.special import betaincinv

    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, miss / 2.0))
    return low, 1.0 if k == n else float(betaincinv(k + 1, n - k, 1.0 - miss / 2.0))


def binomial(n: int, p: float, also: float | None = None) -> tuple[Floats, Floats]:
    """Points and masses of Binomial(n, p) in a window that it leaves with probability at most 1e-14 (Bernstein).

    The window reaches past ``also``, where a condition Y >= also makes far points likely.
    """
    centre = n * p
    reach = _OUTSIDE / 3.0 + math.sqrt((_OUTSIDE / 3.0) ** 2 + 2.0 * _OUTSIDE * centre * (1.0 - p))
    first, last = max(0, math.floor(centre - reach)), min(n, math.ceil(centre + reach))
    if also is not None:
        last = min(n, max(last, math.ceil(also + 2.0 * reach + 50.0)))
    k = np.arange(first, last + 1, dtype=np.float64)
    if p <= 0.0 or p >= 1.0:
        return k, (k == (0.0 if p <= 0.0 else float(n))).astype(np.float64)
    # Ratios of neighbours, added up from the left: exact to doubles however large n is.
    steps = np.log((n - k[:-1]) / (k[:-1] + 1.0)) + (math.log(p) - math.log1p(-p))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    with np.errstate(under="ignore"):
        mass = np.exp(logs - logs.max())
    return k, mass / mass.sum()


def bisected(holds: Callable[[float], bool], low: float, high: float, *, steps: int = 48) -> tuple[float, float]:
    """Two neighbours between which ``holds`` turns from true (at ``low``) to false; both ends are returned."""
    for _ in range(steps):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
