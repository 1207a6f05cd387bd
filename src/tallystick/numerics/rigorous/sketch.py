"""Doubles that choose a lattice for a sum of losses: where they are, how far to tilt them, and how long a period is.

Nothing here is proved: a bad choice makes an enclosure wide, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb

from tallystick.errors import NotComputable
from tallystick.numerics.law import Array
from tallystick.numerics.rigorous.laws import Ball
from tallystick.numerics.rigorous.polygon import masses_above

KNOTS = 160
LEFT_OUT = 1e-11
"""Relative error of delta by which the cuts at both ends of a lattice are planned."""
FARTHEST = 1e12
"""Largest loss that is followed."""

Height = Callable[[Ball], Ball]


@dataclass(frozen=True)
class Sketch:
    """About where one term's losses are, and about its law."""

    count: int
    low: float
    high: float
    losses: Array
    logs: Array

    def tilted(self, tilt: float) -> tuple[float, float, float, Array]:
        """log E[e^{tilt loss}], mean and variance of the tilted law, and its distribution function at the losses."""
        exponents = self.logs + tilt * self.losses
        most = float(np.max(exponents))
        if most == -math.inf:
            raise NotComputable("a term whose losses are all at infinity")
        weights = np.exp(exponents - most)
        moment = float(np.sum(weights))
        weights /= moment
        mean = float(np.dot(weights, self.losses))
        return most + math.log(moment), mean, float(np.dot(weights, (self.losses - mean) ** 2)), np.cumsum(weights)


def sketched(height: Height, total: Ball, count: int, tiny: float, delta: float, infinite: float = 0.0) -> Sketch:
    """One term, from its H; what is above ``high`` is at most tiny * delta, what is lost below ``low`` tiny."""

    def above(x: float) -> float:
        return float(height(arb(x)).upper())

    high = _edge(lambda x: above(x) <= infinite + tiny * delta)
    low = -_edge(lambda x: float((height(arb(-x)) - total + arb(-x).exp()).upper()) <= tiny)
    scale = max(2.0 * above(0.0), 1e-9 * (high - low))
    losses = scale * np.sinh(np.linspace(-math.asinh(-low / scale), math.asinh(high / scale), KNOTS))
    levels = [arb(float(x)) for x in losses]
    masses, _ = masses_above([height(x) for x in levels], [x.exp() for x in levels], arb(total))
    logs = np.array([float(mass.log()) if mass > 0 else -math.inf for mass in masses])
    return Sketch(count, low, high, losses, logs)


def _edge(beyond: Callable[[float], bool]) -> float:
    """About the least x > 0 from which on something holds."""
    low, high = 0.0, 1e-9
    while not beyond(high):
        low, high = high, 4.0 * high
        if high > FARTHEST:
            raise NotComputable(f"losses beyond {FARTHEST:g}")
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high


STRONGEST = 60.0
"""Logarithm of how much larger than delta the moment of a tilt may be."""


def tilt_and_period(sketches: Sequence[Sketch], epsilon: float, delta: float) -> tuple[float, float, float]:
    """The tilt whose mean is epsilon, or one that reaches a little further; the period to tell it in; its spread."""
    top = sum(one.count * one.high for one in sketches)
    bottom = sum(one.count * one.low for one in sketches)
    if epsilon >= top:
        return 1.0 / (top - bottom), top - bottom, top - bottom  # nothing is left to compute there

    def moments(tilt: float) -> tuple[float, float, float]:
        sums = np.array([[one.count * value for value in one.tilted(tilt)[:3]] for one in sketches]).sum(axis=0)
        return float(sums[0]), float(sums[1]), math.sqrt(float(sums[2]))

    low, high = math.log(1e-5), math.log(1e5)
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if moments(math.exp(middle))[1] < epsilon else (low, middle)
    tilt = math.exp(high)
    tilt = min(max(tilt, 2.5 / max(moments(tilt)[2], 1e-300)), 1e5)
    log_moment, mean, spread = moments(tilt)
    # Rare losses may be so large that reaching further is reaching for them alone: then everything is rounding.
    while log_moment - tilt * epsilon > math.log(max(delta, 1e-300)) + STRONGEST:
        weaker = moments(0.5 * tilt)
        if weaker[0] - 0.5 * tilt * epsilon >= log_moment - tilt * epsilon:
            break  # it is convex in the tilt: no weaker one is better, and delta is larger than was thought
        tilt *= 0.5
        log_moment, mean, spread = weaker
    # What is added for losses beyond the period is e^{log_moment - tilt (epsilon + period)}.
    beyond = (log_moment - tilt * epsilon - math.log(max(delta, 1e-300)) - math.log(1e-9)) / tilt
    return tilt, max(max(mean - epsilon, 0.0) + 8.0 * spread, beyond), spread
