"""The privacy-loss random variable L = log dP/dQ under P, of a whole composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tallystick.accounting import check
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.beside import MOST_OUTCOMES
from tallystick.accounting.compose import enumerated
from tallystick.accounting.direction import OneDirection
from tallystick.accounting.jumps import Jumps
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.gaussian import gaussian_pair
from tallystick.accounting.leaves.nested import Composed, Replaced, Worst
from tallystick.accounting.leaves.sampled import Sampled
from tallystick.accounting.loss import PrivacyLoss
from tallystick.accounting.pair import unmixed_loss
from tallystick.accounting.waves import BIAS, HEAVY, Cumulants, Waves, moved
from tallystick.errors import InvalidInput, NotComputable
from tallystick.numerics.convolve import sum_of_laws
from tallystick.numerics.grid import GridLaw, discretise_above
from tallystick.numerics.law import DUST as LEFT_OUT
from tallystick.numerics.law import UNIT, Array, Law

DUST = 1e-20
"""Share of a law that no grid is made for."""
LONG, LONG_LISTED = 100, 10_000
"""Releases of one kind from which rare large losses are separated from small ones; of atoms alone a grid is better."""
FEW_JUMP = 2e-3
"""Share of jumps up to which taking their number for a Poisson one is better than any grid."""
MOST_POINTS = 1_000_000
"""Of one law on a grid."""
STEPS = 2000
"""Grid points per standard deviation where a sum is not known in closed form or outcome by outcome."""


@dataclass(frozen=True)
class PrivacyLossVariable:
    """The law of L. Estimates, not bounds: use ``epsilon`` and ``delta`` where a bound is needed.

    Moments and the characteristic function err by about 1e-12 of the size of the losses, on either side: a mean that is
    far smaller than losses are has fewer digits. ``cdf`` and ``quantile`` are as exact where all terms are Gaussian,
    for one release, and where every joint outcome is listed; an atom within rounding of x counts as at most x. Long
    sums, which a grid would move, are read by their characteristic function (to 1e-6, and to a jump of their atoms);
    those in which rare releases lose much as small losses and jumps of every size (to 1e-4, to the share of releases
    that jump, at most 3e-2, and to a 256th of a jump). Other sums are put on a grid of at most 1/2000 standard
    deviation, which blurs n releases by about sqrt(n) steps: ``quantile`` errs by that, and ``cdf`` is that of a
    place as near to x, so it errs where an atom or a narrow peak is nearer, and by 1e-4 at most elsewhere.
    ``cdf`` and ``quantile`` of a sampled sum are those of the sum. Discrete Gaussian noise too wide to list is held in
    blocks (its characteristic function to 1e-6). Sampled sums, ``as_replace`` and ``worst`` are known at knots only:
    their moments and characteristic functions are refused, and ``cdf`` of sums that contain them errs by up to 1e-3.
    Mass at plus infinity counts in ``cdf`` (which then stays below one) and makes mean and variance infinite.

    >>> import tallystick as ts
    >>> L = (4 * ts.gaussian(sigma=2)).privacy_loss(ts.Direction.REMOVE)
    >>> round(L.mean, 9), round(L.variance, 9), round(L.cdf(0.5), 3)
    (0.5, 1.0, 0.5)
    >>> (2 * ts.pure_dp(epsilon=1)).privacy_loss().cdf(2)
    1.0
    """

    loss: PrivacyLoss
    direction: Direction

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the parts that are kept; they are computed again."""
        return PrivacyLossVariable, (self.loss, self.direction)

    @cached_property
    def _side(self) -> OneDirection:
        if self.loss.group != 1:
            raise InvalidInput("privacy_loss", str(self.loss), "a loss for single units")
        side = OneDirection.of(self.loss.terms, self.direction)
        if side.curves:
            raise InvalidInput("privacy_loss", str(self.loss), "a loss whose pair is known (not zcdp or renyi_dp)")
        return side

    @cached_property
    def _nodes(self) -> list[tuple[Array, Array, int]]:
        """Values, masses and counts of all terms but the Gaussian ones, which are known in closed form."""
        others = self._side.saddle_pairs
        return [(values, np.exp(logs), n) for (values, logs), n in ((p.upper.nodes(), n) for p, n in others)]

    @property
    def _known(self) -> list[tuple[float, float] | None]:
        """Mean and variance of the same terms where they are in closed form."""
        return [leaf.moments() for leaf, _ in self._side.others]

    @property
    def mean(self) -> float:
        """E[L], the Kullback-Leibler divergence."""
        self._require_moments()
        if self._gives_away:
            return math.inf
        means = [
            known[0] if known else _mean(pair.upper, pair.upper is pair.lower)
            for known, (pair, _) in zip(self._known, self._side.saddle_pairs, strict=True)
        ]
        return 0.5 * self._side.mu**2 + math.fsum(
            count * mean for mean, (_, count) in zip(means, self._side.saddle_pairs, strict=True)
        )

    @property
    def variance(self) -> float:
        """Variance of L."""
        self._require_moments()
        return math.inf if self._gives_away else self._spread(1.0)

    def _require_moments(self) -> None:
        if any(_at_knots(leaf) for leaf, _ in self._side.others):
            raise NotComputable(
                "moments of sampled sums, of as_replace() and of worst(...) are not known well enough to be said; "
                "Try: cdf and quantile, or epsilon and delta, which are bounds"
            )

    @property
    def _gives_away(self) -> bool:
        return self._side.infinity > 0.0  # without the dust of laws that are cut far out

    def _spread(self, share: float) -> float:
        """Variance of the finite part, whose masses may sum to less than one; ``share`` 0 makes them sum to one."""
        total = self._side.mu**2
        for known, (values, masses, count) in zip(self._known, self._nodes, strict=True):
            if known:
                total += count * known[1]
                continue
            weight = masses if share else masses / float(np.sum(masses))
            centre = float(np.dot(weight, values))
            total += count * float(np.dot(weight, (values - centre) ** 2))
        return total

    def characteristic_function(self, t: Any) -> Any:
        """E[e^{itL}] over the finite part; products over terms (Proposition 14.2)."""
        most = check.LARGEST_DIVERGENCE
        points = check.numbers_in("t", t, -most, most, f"finite numbers of size at most {most:g}")
        self._require_moments()
        flat = points.ravel()
        square = self._side.mu**2
        out: npt.NDArray[np.complex128] = np.exp(0.5 * square * (1j * flat - np.minimum(np.abs(flat), 1e100) ** 2))
        for values, weight, count in self._nodes:
            out *= np.array([np.dot(weight, np.exp(1j * x * values)) for x in flat]) ** count
        return complex(out[0]) if points.ndim == 0 else out.reshape(points.shape)

    # ---- the distribution function ----

    def cdf(self, x: Any) -> Any:
        """P(L <= x)."""
        points = check.numbers_in("x", x, -math.inf, math.inf, "numbers")
        shares = np.array([self._below(float(v)) for v in points.ravel()])
        return float(shares[0]) if points.ndim == 0 else shares.reshape(points.shape)

    def quantile(self, probability: Any) -> Any:
        """The smallest x with P(L <= x) >= probability (infinite beyond the finite mass); of 1 the largest loss.

        >>> import tallystick as ts
        >>> (50 * ts.laplace(scale=2)).privacy_loss().quantile([0.5, 1])
        array([ 5.36057692, 25.        ])
        """
        points = check.numbers_in("probability", probability, 0.0, 1.0, "numbers between 0 and 1")
        losses = np.array([self._place(float(v)) for v in points.ravel()])
        return float(losses[0]) if points.ndim == 0 else losses.reshape(points.shape)

    @cached_property
    def _single(self) -> Law | None:
        """One smooth release that is the whole composition, other than a Gaussian."""
        direct = self._side.direct
        return direct.law if direct is not None and direct.mu == 0.0 and direct.law.segments else None

    @cached_property
    def _beside_gaussian(self) -> Callable[[float], float] | None:
        """The distribution function where listed outcomes are beside one Gaussian: each leaves it its own place."""
        direct = self._side.direct
        if direct is None or direct.mu == 0.0:
            return None
        from scipy.special import ndtr

        mu, atoms, masses = direct.mu, direct.law.atoms, np.exp(direct.law.log_masses)
        return lambda x: min(1.0, float(np.dot(masses, ndtr((x - atoms) / mu - 0.5 * mu))))

    @cached_property
    def _beside_one(self) -> tuple[Callable[[float], float], float, float] | None:
        """The excess beside one release of any law but a Gaussian, with the ends of the sum."""
        laws = [(pair.upper, count) for pair, count in self._side.saddle_pairs]
        single = [law for law, count in laws if count == 1]
        if self._side.mu > 0.0 or not single or len(laws) == 1 or any(_at_knots(leaf) for leaf, _ in self._side.others):
            return None
        law = max(single, key=lambda one: (len(one.segments), one.atoms.size))
        listed = enumerated([term for term in laws if term[0] is not law])
        if listed is None or listed.law.atoms.size > MOST_OUTCOMES:
            return None
        others = listed.law
        masses, places = np.exp(others.log_masses).tolist(), others.atoms.tolist()

        def below(x: float) -> float:
            # An atom within rounding of x counts as at most x.
            room = listed.location + 4.0 * UNIT * abs(x)
            return math.fsum(
                mass * (1.0 - law.tail(x - place + room + 4.0 * UNIT * abs(x - place)))
                for mass, place in zip(masses, places, strict=True)
            )

        ends = law.lowest + min(places), law.highest + max(places)
        return (lambda x: min(1.0, max(0.0, below(x))), *ends)

    @cached_property
    def _table(self) -> tuple[Array, Array, Array]:
        """Values in order, the mass up to each, and what of its own mass is smooth and stands for losses around it.

        Listed outcomes where they are few, else a grid.
        """
        direct = self._side.direct
        if not self._side.pairs:
            return np.zeros(1), np.ones(1), np.zeros(1)
        if direct is None or direct.mu > 0.0:
            return self._grid()
        order = np.argsort(direct.law.atoms, kind="stable")
        below = np.cumsum(np.exp(direct.law.log_masses[order]))
        if direct.law.infinity == 0.0 and below.size:
            below /= below[-1]  # nothing else is possible
        return direct.law.atoms[order], below, np.zeros(below.size)

    @cached_property
    def _deviation(self) -> float:
        # Losses that differ in their last digits alone are one for a grid, whose points must be apart.
        size = sum(count * abs(float(np.dot(masses, values))) for values, masses, count in self._nodes)
        return max(math.sqrt(max(self._spread(0.0), 1e-30)), 1e-11 * size)

    @cached_property
    def _spans(self) -> list[tuple[float, float]]:
        """Where each term has mass that a grid is made for, the Gaussian last."""
        seen = [values[masses > DUST * float(np.sum(masses))] for values, masses, _ in self._nodes]
        ends = [(float(np.min(values)), float(np.max(values))) for values in seen]
        means = [float(np.dot(masses, values)) for values, masses, _ in self._nodes]
        if self._side.mu > 0.0:  # of a Gaussian no more than that share lies further out than ten deviations
            means.append(0.5 * self._side.mu**2)
            ends.append((means[-1] - 10.0 * self._side.mu, means[-1] + 10.0 * self._side.mu))
        most = 150.0 * self._deviation
        # Where a law has hardly any mass before that, points are work for nothing.
        return [(max(low, mean - most), min(high, mean + most)) for (low, high), mean in zip(ends, means, strict=True)]

    @cached_property
    def _rare(self) -> bool:
        """Whether some releases lose much more than most."""
        return Cumulants.of(self._nodes, self._side.mu).heavy > HEAVY

    @cached_property
    def _steps(self) -> tuple[float, float]:
        """The step that a grid should have, and one with no more than ``MOST_POINTS`` to a law."""
        # Beside rare large losses the others crowd.
        narrowest = 0.0 if self._rare else self._narrowest(self._deviation)
        wanted = max(narrowest, self._deviation / 64.0) / STEPS
        return wanted, max(high - low for low, high in self._spans) / MOST_POINTS

    @cached_property
    def _laws(self) -> tuple[list[tuple[GridLaw, int]], list[tuple[GridLaw, int]]]:
        """All terms on one grid, and those of them that have atoms without their smooth parts."""
        step = self._side.grid._aligned(max(self._steps))
        laws, atoms = [], []
        parts = [(pair.upper, count) for pair, count in self._side.saddle_pairs]
        if self._side.mu > 0.0:
            parts.append((gaussian_pair(self._side.mu).upper, 1))
        for (law, count), (low, high) in zip(parts, self._spans, strict=True):
            low, high = low - 2.0 * step, high + 2.0 * step
            laws.append((_on_grid(law, step, low, high), count))
            if np.any((law.atoms >= low) & (law.atoms <= high)):
                atoms.append((_on_grid(law.without_segments(), step, low, high), count))
        return laws, atoms

    @cached_property
    def _jumps(self) -> Jumps | None:
        """A sum in which rare releases lose much, where it is long or a grid fine enough would be too large."""
        laws = [(pair.upper, count) for pair, count in self._side.saddle_pairs]
        if not laws or (self._side.direct is not None and self._side.direct.mu == 0.0):
            return None
        wanted, least = self._steps
        smooth = self._side.mu > 0.0 or any(law.segments for law, _ in laws)
        long = max(count for _, count in laws) >= (LONG if smooth else LONG_LISTED)
        found = Jumps.of(laws, self._side.mu) if (long and self._rare) or wanted < least else None
        if found is None or found.share <= FEW_JUMP:
            return found
        # A grid is better, unless it blurs the small losses.
        blur = math.sqrt(max(count for _, count in laws)) * max(wanted, least)
        return found if blur > 0.01 * found.width else None

    @cached_property
    def _waves(self) -> Waves | None:
        """A sum so long that a grid would move it; one whose waves do not die away is put on the grid all the same."""
        if not self._side.pairs or (self._side.direct is not None and self._side.direct.mu == 0.0):
            return None
        on_grid = [(law.values, law.masses, count) for law, count in self._laws[0][: len(self._nodes)]]
        shift, wider = moved(on_grid, self._nodes)
        if abs(shift) <= BIAS * self._deviation and abs(wider) <= 2.0 * BIAS * self._deviation**2:
            return None
        return Waves.of(self._nodes, self._side.mu)

    def _grid(self) -> tuple[Array, Array, Array]:
        laws, atoms = self._laws
        # Three of the largest losses at once have their place: what leaves the window comes back on the other side.
        farthest = max(max(abs(low), abs(high)) for low, high in self._spans)
        values, masses = _summed(laws, max(14.0 * self._deviation, 3.2 * farthest))
        # What is off the grid is rare, and not at infinity.
        masses *= self._finite / float(np.sum(masses))
        return values, np.cumsum(masses), _smooth(values, masses, atoms if len(atoms) == len(laws) else [])

    def _narrowest(self, most: float) -> float:
        """The deviation of the narrowest smooth part: beside atoms the sum is as steep as that.

        Beside a Gaussian nothing is steeper than the Gaussian, however narrow it is itself.
        """
        if self._side.mu > 0.0:
            return self._side.mu
        found = [most]
        for (pair, count), (values, masses, _) in zip(self._side.saddle_pairs, self._nodes, strict=True):
            if pair.upper.segments:
                share = masses / float(np.sum(masses))
                variance = float(np.dot(share, (values - float(np.dot(share, values))) ** 2))
                found.append(math.sqrt(max(count * variance, 1e-30)))
        return min(found)

    @cached_property
    def _sum(self) -> _SampledSum | None:
        """What is inside, where this is one sample of several releases."""
        leaf = self._side.alone
        if not isinstance(leaf, Sampled) or not isinstance(leaf.base, Composed):
            return None
        whole = PrivacyLoss(leaf.base.terms, self.loss.protects)
        remove, add = (PrivacyLossVariable(whole, way) for way in (Direction.REMOVE, Direction.ADD))
        return _SampledSum(remove, add, leaf.rate)

    def _below(self, x: float) -> float:
        if self._sum is not None:
            return self._sum.below(x, self.direction)
        if self._side.gaussian:
            from scipy.special import ndtr

            mu = self._side.mu
            return float(ndtr(x / mu - 0.5 * mu))
        if math.isinf(x) or self._side.infinity >= 1.0:
            return 0.0 if x < 0.0 else max(0.0, 1.0 - self._side.infinity)
        if self._single is not None:
            return min(1.0, max(0.0, 1.0 - self._single.tail(x + 4.0 * UNIT * abs(x))))
        if self._beside_gaussian is not None:
            return self._beside_gaussian(x)
        if self._beside_one is not None:
            return self._beside_one[0](x)
        if x >= self._largest or x < self._smallest - 1e-12 * abs(self._smallest):
            return self._finite if x >= self._largest else 0.0  # whatever a blur says
        summed = self._jumps or self._waves
        if summed is not None:
            return self._finite * summed.below(x)
        values, below, smooth = self._table
        index = int(np.searchsorted(values, x + self._rounding(x), side="right")) - 1
        if index < 0:
            return 0.0
        found = float(below[index]) - _beyond(smooth, index)
        if index + 1 < values.size and smooth[index + 1] > 0.0:
            # What is smooth grows between two points; what is an atom is there at once.
            growth = _beyond(smooth, index) + float(smooth[index + 1]) - _beyond(smooth, index + 1)
            step = float(values[index + 1] - values[index])  # none at all where doubles do not tell the points apart
            found += (min(1.0, max(0.0, x - float(values[index])) / step) if step > 0.0 else 1.0) * growth
        return min(1.0, found)

    def _rounding(self, x: float) -> float:
        """How far a listed sum of losses may be from its value."""
        direct = self._side.direct
        if direct is None:
            return 4.0 * UNIT * abs(x) + 1e-9 * self._grid_step
        # Losses that are no sums are off by units of their own size: a huge one says nothing about those near zero.
        off = direct.relative * abs(x) if math.isfinite(direct.relative) else direct.location
        return 4.0 * UNIT * abs(x) + min(off, direct.location)

    @cached_property
    def _grid_step(self) -> float:
        values = self._table[0]
        return float(values[1] - values[0]) if values.size > 1 else 0.0

    def _place(self, probability: float) -> float:
        if self._side.infinity >= 1.0:
            return math.inf
        if probability >= 1.0:
            return math.inf if self._gives_away else self._largest
        if probability <= 0.0:
            return self._smallest
        if self._side.gaussian:
            from scipy.special import ndtri

            mu = self._side.mu
            return mu * (float(ndtri(probability)) + 0.5 * mu)
        wanted = probability * (1.0 - 1e-12)
        if self._sum is not None:
            return self._searched(self._side.pairs[0][0].upper, wanted)
        if self._single is not None:
            return self._searched(self._single, wanted)
        if self._beside_gaussian is not None:
            return self._between(self._beside_gaussian, wanted)
        if self._beside_one is not None:
            share, low, high = self._beside_one
            high += 8.0 * UNIT * abs(high)
            return _crossed(share, wanted, low, high) if share(high) >= wanted else math.inf
        if wanted > self._finite:
            return math.inf
        summed = self._jumps or self._waves
        if summed is not None:
            found = _crossed(self._below, wanted, *summed.reach)
        else:
            values, below, _ = self._table
            found = float(values[min(int(np.searchsorted(below, wanted, side="left")), values.size - 1)])
        return min(max(found, self._smallest), self._largest)

    @cached_property
    def _largest(self) -> float:
        """The largest loss, infinite where losses have no end."""
        side = self._side
        if any(pair.upper.infinity > 0.0 for pair, _ in side.pairs):  # dust of a law that was cut: it may have an end
            return side.highest
        return math.fsum(count * pair.upper.highest for pair, count in side.pairs)

    @cached_property
    def _smallest(self) -> float:
        """The smallest loss, minus infinity where losses have no end."""
        side = self._side
        if side.mu > 0.0 or any(0.0 < pair.upper.zero <= LEFT_OUT for pair, _ in side.pairs):
            return -OneDirection.of(self.loss.terms, self.direction.other).highest
        return math.fsum(count * pair.upper.lowest for pair, count in side.pairs)

    @cached_property
    def _finite(self) -> float:
        return max(0.0, 1.0 - self._side.infinity)

    def _between(self, below: Callable[[float], float], wanted: float) -> float:
        """The quantile of outcomes beside one Gaussian: 40 of its deviations around the outcomes hold everything."""
        if wanted <= 0.0:
            return -math.inf
        direct = self._side.direct
        assert direct is not None
        mu, atoms = direct.mu, direct.law.atoms
        low, high = float(np.min(atoms)) + mu * (0.5 * mu - 40.0), float(np.max(atoms)) + mu * (0.5 * mu + 40.0)
        return _crossed(below, wanted, low, high) if below(high) >= wanted else math.inf

    def _searched(self, law: Law, wanted: float) -> float:
        """The quantile of one release by bisection; atoms are met exactly."""
        low, high = law.lowest, law.highest
        if self._below(low) >= wanted:
            return low
        if self._below(high) < wanted:
            return math.inf
        high = _crossed(self._below, wanted, low, high)
        near = law.atoms[np.abs(law.atoms - high) <= 1e-9 * np.abs(law.atoms)]
        return float(near[0]) if near.size else high


@dataclass(frozen=True)
class _SampledSum:
    """L' = log(1 - q + q e^L) for a sum of losses L, under the mixture (REMOVE), or -L' under Q (ADD)."""

    remove: PrivacyLossVariable
    add: PrivacyLossVariable
    rate: float

    def below(self, x: float, direction: Direction) -> float:
        """P(L' <= x) or Q(-L' <= x)."""
        # An atom within rounding of x counts as at most x.
        x += 16.0 * UNIT * abs(x)
        if direction is Direction.ADD:
            return 1.0 if -x <= math.log1p(-self.rate) else self.add._below(-self._back(-x))
        if x < math.log1p(-self.rate):
            return 0.0
        inside = self._back(x)
        # Q(L <= l) is all but Q(-L < -l), without the atom there.
        just = 1e-9 * (abs(inside) + math.sqrt(self.add._spread(0.0)))
        rest = 0.0 if inside == math.inf else self.add._below(-inside - just)
        return (1.0 - self.rate) * (1.0 - rest) + self.rate * self.remove._below(inside)

    def _back(self, x: float) -> float:
        return x if math.isinf(x) else float(unmixed_loss(np.array([x]), self.rate)[0])


def _mean(law: Law, exact: bool) -> float:
    """E[L]; of a pair with masses one as E[L - 1 + e^-L], where nothing cancels however small the losses are."""
    values, logs = law.nodes()
    masses = np.exp(logs)
    if not exact:
        return float(np.dot(masses, values))
    small = np.abs(values) < 0.01
    x = np.where(small, values, 0.0)
    near = x * x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0 - x * (1.0 / 120.0 - x / 720.0))))
    far = masses * (values - 1.0) + np.exp(np.minimum(logs - values, 0.0))
    return float(np.sum(np.where(small, masses * near, far))) + (law.zero if law.zero > LEFT_OUT else 0.0)


def _crossed(below: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a distribution function first has the mass wanted, by bisection."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if below(middle) >= wanted else (middle, high)
    return high


def _on_grid(law: Law, step: float, low: float, high: float) -> GridLaw:
    """The part of a law between two values, on a grid that meets its atoms."""
    kept = (law.atoms >= low) & (law.atoms <= high)
    segments = tuple(part for part in (s.restricted(low, high) for s in law.segments) if part is not None)
    offset = float(law.atoms[0]) if law.lattice is not None and law.atoms.size else 0.0
    near = Law(law.atoms[kept], law.log_masses[kept], segments, lattice=law.lattice)
    return discretise_above(near, step=step, offset=offset, low=near.lowest, high=near.highest)


def _summed(laws: Sequence[tuple[GridLaw, int]], reach: float) -> tuple[Array, Array]:
    """Grid points and their masses, of a sum of laws."""
    total = sum_of_laws(laws, theta=0.0, reach=reach, leaks=False)
    return total.values, np.maximum(total.tilted, 0.0) * math.exp(total.log_scale)


def _smooth(values: Array, masses: Array, atoms: Sequence[tuple[GridLaw, int]]) -> Array:
    """What of the masses of a grid is smooth: all but the sums of atoms."""
    if not atoms:
        return masses
    step = float(values[1] - values[0])
    places, those = _summed(atoms, 0.5 * step * values.size)
    index = np.rint((places - float(values[0])) / step).astype(np.int64)
    inside = (index >= 0) & (index < values.size)
    return np.maximum(masses - np.bincount(index[inside], those[inside], values.size), 0.0)


def _beyond(smooth: Array, index: int) -> float:
    """What of a point's smooth mass is beyond it: half a step of the density there, which the next point tells."""
    return min(float(smooth[index]), 0.5 * float(smooth[index + 1])) if index + 1 < smooth.size else 0.0


def _at_knots(leaf: Leaf) -> bool:
    """True if the law of a leaf stands for a curve that was read at knots, between which it is a bound only."""
    base = getattr(leaf, "base", None)
    return isinstance(leaf, Composed | Replaced | Worst) or (base is not None and _at_knots(base))
