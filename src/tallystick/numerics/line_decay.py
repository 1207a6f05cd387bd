"""How fast the transform of a (sampled) Gaussian decays: by moving the path of integration off the real line.

For a line with B(x) = 1 - q + q e^{mu x - mu^2/2}, M(z) = int phi(x) B(x)^{1+z} dx may be integrated along x + ia for
any 0 < a < pi/mu. There B has an argument in [0, mu a], and with z = theta + it

    |M(theta + it)|  <=  e^{a^2/2} int phi(x) |B(x + ia)|^{1 + theta} e^{-t arg B(x + ia)} dx,

a real integral that does not increase with t. The reflected line, M(z) = int phi(x) B(x)^{-z} dx, is moved the other
way and has |B|^{-theta} instead. The integral is a trapezoid sum; its error is bounded in closed form (``_error``), so
the result is a bound at every larger t, and it falls faster than any power of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import Array, Line

SHIFTS: Array = np.geomspace(0.005, 1.0, 16)
"""Shifts that are tried, relative to the largest: four, or three fifths of the way to where B vanishes."""

MOST = 40_000
"""Largest number of points on one path."""

NARROWEST = 0.9
"""The strip in which the integrand is followed, in units of pi/mu, both shifts together."""


@dataclass(frozen=True, slots=True, eq=False)
class LineDecay:
    """log-moduli and arguments of the integrand along several shifted paths, one after another."""

    log_sizes: Array
    arguments: Array
    starts: npt.NDArray[np.int64]
    errors: Array
    log_norm: float

    @staticmethod
    def of(line: Line, theta: float) -> LineDecay:
        power = 1.0 + theta if line.sign > 0 else -theta
        far = line.reach(theta)
        sizes, arguments, errors = [], [], []
        log_norm = 0.0
        for shift in (0.0, *(min(4.0, 0.6 * math.pi / line.mu) * SHIFTS).tolist()):
            strip = min(max(shift, 0.7), NARROWEST * math.pi / line.mu - shift)
            spacing = 2.0 * math.pi * strip / 48.0
            if shift > 0.0 and 2.0 * far > MOST * spacing:
                continue
            x = spacing * np.arange(math.floor(-far / spacing), math.ceil((far + line.mu) / spacing) + 1)
            modulus, argument = _moved(line, x, shift)
            size = power * modulus - 0.5 * x * x + math.log(spacing) - 0.5 * math.log(2.0 * math.pi)
            top = float(np.max(size))
            kept = size > top - 50.0
            size, argument = size[kept] + 0.5 * shift * shift, argument[kept]
            if shift == 0.0:
                log_norm = top + math.log(float(np.sum(np.exp(size - top))))
                continue
            sizes.append(size - log_norm)
            arguments.append(argument)
            # What is left out is lighter than its number times e^{-50} of the peak.
            light = math.log(x.size) + top + 0.5 * shift * shift - 50.0 - log_norm
            errors.append(math.exp(_error(line, theta, shift, strip, spacing)) + math.exp(min(light, 0.0)))
        if not sizes:
            # Too strong a step to follow: no decay is claimed.
            return LineDecay(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1), log_norm)
        return LineDecay(
            np.concatenate(sizes),
            np.concatenate(arguments),
            np.cumsum([0, *(part.size for part in sizes[:-1])]),
            np.array(errors),
            log_norm,
        )

    def bound(self, time: float) -> float:
        """Upper bound on |M(theta + it)| / M(theta) for every t >= ``time``."""
        # Whatever is above one says nothing, so it need not be followed to where it overflows.
        exponents = np.minimum(self.log_sizes - time * self.arguments, 100.0)
        sums = np.add.reduceat(np.exp(exponents), self.starts)
        return min(1.0, float(np.min(sums * (1.0 + 1e-12) + self.errors)))


def _moved(line: Line, x: Array, shift: float) -> tuple[Array, Array]:
    """log |B(x + i shift)| and its argument, without overflow."""
    log_rest = math.log1p(-line.rate) if line.rate < 1.0 else -math.inf
    log_part = math.log(line.rate) + line.mu * x - 0.5 * line.mu**2
    top = np.maximum(log_part, log_rest)
    part = np.exp(log_part - top)
    real = np.exp(log_rest - top) + part * math.cos(line.mu * shift)
    imaginary = part * math.sin(line.mu * shift)
    return top + np.log(np.hypot(real, imaginary)), np.arctan2(imaginary, real)


def _error(line: Line, theta: float, shift: float, strip: float, spacing: float) -> float:
    """log of the trapezoid error relative to M(theta), at every t.

    On x + iy, |y| <= strip, the integrand is phi(x + iy) (B(x + iy + ia) B(x + iy - ia))^{power / 2} times
    e^{-t (arg B(x + iy + ia) - arg B(x + iy - ia)) / 2}. The argument of B increases with the imaginary part, so the
    last factor is at most one. |B| is at most B on the real line, and at least cos(mu (a + strip) / 2) times that.
    """
    growth = 0.5 * (shift**2 + strip**2)
    if line.sign < 0:
        growth -= theta * math.log(math.cos(0.5 * line.mu * (shift + strip)))
    return math.log(4.0) + min(growth - 2.0 * math.pi * strip / spacing, 0.0)
