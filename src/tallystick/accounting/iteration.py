"""Noisy iterations of which only the last iterate is released: the shift walk, and its closed forms.

A step is x -> project(phi(x) + noise): phi is Lipschitz with constant ``contraction``, one record moves phi(x) by at
most ``displacement``, and the Gaussian noise has standard deviation ``noise``. A shift z between the two iterations is
walked to zero, z_t = c_t z_{t-1} + D_t - a_t >= 0 with z_T = 0, and step t hides a_t: mu^2 = sum (a_t/s_t)^2. With
weights w_t = product of the contractions after t, the least such sum is a greatest convex minorant: that of the points
(sum of (w s)^2, sum of w D). docs/theory/last-iterate.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import double_above, up

LEAST_MU = 1e-30
"""No smaller mu is claimed: below it the squares of weights leave the range of doubles."""
LIGHT = 1e-100
"""Steps of less weight are not walked: what they displaced is where the walk starts."""
SURE = 1e-9
"""The relative difference from which two slopes count as different; keeping a point in doubt costs nothing."""
MOST_STEPS = 10**6
"""Up to here the rounding of the walked sums stays below SURE."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its Lipschitz constant, how far one record moves it, and its noise, in one unit of length.

    >>> Step(contraction=0.9, displacement=0, noise=1)
    Step(contraction=0.9, displacement=0.0, noise=1.0)
    """

    contraction: float
    displacement: float
    noise: float

    def __post_init__(self) -> None:
        check.keep(self, contraction=check.between("contraction", self.contraction, 0.0, 1.0))
        check.keep(self, displacement=check.between("displacement", self.displacement, 0.0, check.LARGEST_SCALE))
        check.keep(self, noise=check.scale("noise", self.noise))


def walk(steps: Sequence[Step], *, start: float = 0.0) -> float:
    """The least mu for which the shift walk proves the last iterate mu-GDP, rounded up; O(number of steps).

    ``start`` bounds how far apart the iterations are before the first step: 0 where they start at one point.

    >>> steady = [Step(contraction=0.9, displacement=0.02, noise=1)] * 50
    >>> round(walk(steady), 10)
    0.086729835
    """
    if not 1 <= len(steps) <= MOST_STEPS or not all(isinstance(step, Step) for step in steps):
        raise InvalidInput("steps", len(steps), f"1 to {MOST_STEPS} values of Step")
    distance, weight, first = check.between("start", start, 0.0, check.LARGEST_SCALE), 1.0, len(steps)
    increments: list[tuple[float, float]] = []
    while first > 0 and weight >= LIGHT:
        first -= 1
        step = steps[first]
        increments.append(((weight * step.noise) ** 2, weight * step.displacement))
        weight *= step.contraction
    for step in steps[:first]:
        distance = step.contraction * distance + step.displacement
    increments.append((0.0, weight * distance))
    return _rounded(minorant(reversed(increments)), 16 * len(steps))


def minorant(increments: Iterable[tuple[float, float]]) -> float:
    """The sum of A^2/V over the greatest convex minorant of a path with these increments (V, A), all >= 0.

    Neighbours whose slopes fall are pooled, so that no difference is ever taken; the last V is positive.

    >>> minorant([(1.0, 2.0), (1.0, 0.0)]), minorant([(1.0, 0.0), (1.0, 2.0)])
    (2.0, 4.0)
    """
    pooled: list[tuple[float, float]] = []
    for width, height in increments:
        while pooled and pooled[-1][1] * width >= height * pooled[-1][0] * (1.0 + SURE):
            before = pooled.pop()
            width, height = width + before[0], height + before[1]
        pooled.append((width, height))
    return math.fsum(height / width * height for width, height in pooled if height > 0.0)


def recurring(
    *, uses: int, every: int, after: int, contraction: float, sigma: float, diameter: float | None = None
) -> float:
    """mu of a record that is used ``uses`` times, once in ``every`` steps, with ``after`` steps to go after the last.

    sigma and the diameter of the domain are in units of the displacement. Every tail of the iteration may be walked
    from where a domain, or the drift until there, leaves it: the best of many tails is taken.

    >>> round(recurring(uses=5, every=10, after=0, contraction=0.98, sigma=10), 6)
    0.114691
    """

    def square(r: int) -> float:
        return _tail(r, uses, every, after, contraction, sigma, diameter)

    if diameter is None:
        return _rounded(square(uses), 64)
    grid = {uses, *(min(uses, round(1.02**k)) for k in range(math.ceil(math.log(uses, 1.02)) + 1))}
    best = min(grid, key=square)
    near = range(max(1, int(best * 0.98)), min(uses, int(best * 1.02) + 1) + 1)
    tails = [uses, best, *near[:: len(near) // 64 + 1], *([0] if after else [])]
    return _rounded(min(map(square, tails)), 64)


def _tail(r: int, uses: int, every: int, after: int, c: float, sigma: float, diameter: float | None) -> float:
    """mu^2 of a walk over the last r uses: what was before them, all but the last of them, and the last."""
    rate = math.log(c) if c > 0.0 else -math.inf
    if r == 0:  # only the steps after the last use
        apart = min(math.inf if diameter is None else diameter, powers(every * rate, uses))
        return minorant([(sigma * sigma * powers(2.0 * rate, after), apart * c**after)])
    last = (sigma * sigma * powers(2.0 * rate, after + 1), c**after)
    scale = sigma * sigma * c ** (2 * (after + 1))
    middle = (scale * powers(2.0 * rate, every * (r - 1)), c ** (after + every) * powers(every * rate, r - 1))
    if r == uses:
        return minorant([middle, last])
    apart = min(math.inf if diameter is None else diameter, powers(every * rate, uses - r))
    quiet = scale * c ** (2 * every * (r - 1)) * powers(2.0 * rate, every - 1)
    return minorant([(quiet, apart * c ** (after + every * r)), middle, last])


def tail_walk(*, tail: int, steps: int, contraction: float, sigma: float, diameter: float | None) -> float:
    """mu of walking to zero, in the last ``tail`` of ``steps`` steps, what the steps before can have displaced.

    >>> round(tail_walk(tail=4, steps=10, contraction=1.0, sigma=2.0, diameter=3.0), 9)
    0.75
    """
    rate = math.log(contraction) if contraction > 0.0 else -math.inf
    apart = min(math.inf if diameter is None else diameter, powers(rate, steps - tail))
    return _rounded((apart * contraction**tail) ** 2 / (sigma * sigma * powers(2.0 * rate, tail)), 64)


def gradient_step_lipschitz(*, step_size: float, smoothness: float, strong_convexity: float = 0.0) -> float:
    """The Lipschitz constant of x -> x - step_size gradient(x), rounded up: the ``contraction`` of a gradient step.

    Of a convex objective whose gradient has Lipschitz constant ``smoothness``; steps beyond 2/smoothness are refused.

    >>> round(gradient_step_lipschitz(step_size=0.5, smoothness=1, strong_convexity=0.1), 9)
    0.95
    """
    steep = check.positive("smoothness", smoothness)
    flat = check.between("strong_convexity", strong_convexity, 0.0, steep)
    size = check.positive("step_size", step_size)
    if Fraction(size) * Fraction(steep) > 2:
        raise InvalidInput(
            "step_size", step_size, f"at most 2/smoothness = {2.0 / steep:g}: longer steps do not contract"
        )
    return double_above(max(1 - Fraction(size) * Fraction(flat), Fraction(size) * Fraction(steep) - 1))


def powers(rate: float, count: int) -> float:
    """1 + e^rate + ... + e^(rate (count - 1)) for rate <= 0, to a few units in the last place.

    >>> powers(0.0, 5), round(powers(math.log(0.5), 3), 12), powers(-math.inf, 4), powers(-1.0, 0)
    (5.0, 1.75, 1.0, 0.0)
    """
    if count <= 1 or rate == 0.0:
        return float(count)
    return math.expm1(count * rate) / math.expm1(rate)


def _rounded(square: float, operations: int) -> float:
    return max(LEAST_MU, up(math.sqrt(square), slack=1e-12 + operations * 2.0**-52))
