"""Powers and products of grid laws by FFT, tilted so that tiny tails keep their relative accuracy.

Tilting multiplies the masses by e^{theta x - K(theta)}. The FFT then works on a probability whose bulk
sits where the answer is, its rounding is relative to that bulk, and delta = 1e-100 is as accurate
as 0.1. Three errors remain; each is bounded here and added on the safe side by ``TiltedSum``:

- rounding of the transforms and powers: ``rounding`` bounds the error of every entry;
- mass above the window wraps down and is lost there: ``above`` bounds its untilted mass (Chernoff at theta' > theta),
  which the upper bound adds;
- mass from outside the window, above or below, appears inside it: ``wrapped`` bounds its tilted mass (Chernoff at
  theta' on either side), which the lower bound subtracts with the largest weight it can have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tallystick.numerics.grid import GridLaw, scaled_tails
from tallystick.numerics.law import UNIT, Above, Array, Below, certain, log_sum, lost_mass
from tallystick.numerics.saddle import log_peak_weight

FFT_ULPS = 8.0
"""Error of one transform of a vector of 1-norm one is below FFT_ULPS * log2(size) * UNIT per coefficient."""

SUMMATION = 1e-12
"""Relative error of the running sums and of their scaling, with room to spare."""

FAINTEST = -100.0
"""Log of a coefficient that is left out of a power: far below the rounding of the transform, and counted with it."""

ABOVE = np.array([1.02, 1.06, 1.15, 1.3, 1.6, 2.2, 3.5, 6.0])
BELOW = np.array([0.98, 0.9, 0.75, 0.5, 0.2, 0.0])
"""Other tilts, relative to the chosen one, at which Chernoff's bound of what leaves the window is tried."""


@dataclass(frozen=True, slots=True, eq=False)
class TiltedSum:
    """The sum of independent grid laws near one place, with certified errors.

    The true mass at ``values[i]`` is ``exp(log_scale - theta * values[i])`` times ``tilted[i]`` up to
    ``rounding``.
    """

    theta: float
    step: float
    log_scale: float
    values: Array
    tilted: Array
    rounding: float
    above: float
    wrapped: float
    infinity: float
    location: float
    _cache: dict[int, tuple[Array, Array]] = field(default_factory=dict)

    def excess_upper(self, threshold: float) -> Above:
        """Upper bound of E[(1 - e^{threshold - X})_+]; trivial below the window, where mass may be missing."""
        if threshold - self.location < self.values[0]:
            return Above(1.0)
        finite = self._finite(threshold - self.location, self._suffixes(1), 1)
        return Above(min(1.0, finite + self.above + self.infinity * (1.0 + 8.0 * UNIT)))

    def excess_lower(self, threshold: float) -> Below:
        """Lower bound of E[(1 - e^{threshold - X})_+]."""
        shifted = threshold + self.location
        scale = self.log_scale - self.theta * shifted
        # Wrapped mass can enter with at most the largest weight e^{-theta y}(1 - e^{-y}), y >= 0.
        worst = math.exp(min(700.0, scale + log_peak_weight(self.theta)))
        finite = self._finite(shifted, self._suffixes(-1), -1)
        # Next to nothing is what rounding leaves of nothing.
        finite = certain(max(0.0, finite - self.wrapped * worst))
        return Below(finite + certain(self.infinity) * (1.0 - 8.0 * UNIT))

    def excess_about(self, threshold: float) -> float:
        """The sum as computed, which is not a bound."""
        return self._finite(threshold, self._suffixes(0), 0) + self.infinity

    def _suffixes(self, side: int) -> tuple[Array, Array]:
        """Sums over s >= r of entries_s e^{-theta (v_s - v_r)}, and the same with theta + 1."""
        if side not in self._cache:
            step = self.step
            entries = np.maximum(self.tilted + side * self.rounding, 0.0)
            self._cache[side] = (
                entries + scaled_tails(entries, self.theta * step),
                entries + scaled_tails(entries, (self.theta + 1.0) * step),
            )
        return self._cache[side]

    def _finite(self, threshold: float, suffixes: tuple[Array, Array], side: int) -> float:
        first = int(np.searchsorted(self.values, threshold, side="right"))
        if first == self.values.size:
            return 0.0
        start = float(self.values[first])
        whole = float(suffixes[0][first])
        total = whole - math.exp(threshold - start) * float(suffixes[1][first]) + side * SUMMATION * whole
        if total <= 0.0:
            return 0.0
        # In logs: under a strong tilt both factors leave the doubles, and an upper bound must not underflow to zero.
        log_total = math.log(total) + self.log_scale - self.theta * start
        rounding = side * 4.0 * UNIT * (abs(self.log_scale) + abs(self.theta * start))
        return math.exp(min(max(log_total + rounding, -744.0 if side > 0 else -math.inf), 1.0))


def sum_of_laws(
    terms: Sequence[tuple[GridLaw, int]], *, theta: float, reach: float, max_size: int = 2**22, leaks: bool = True
) -> TiltedSum:
    """The law of the independent sum of ``count`` copies of each grid law, tilted by ``theta``.

    ``reach`` is half the wanted window in units of the value; the window is centred on the tilted mean. Without
    ``leaks`` the caller bounds what leaves the window.
    """
    step = terms[0][0].step
    tilts = [_Tilt.of(law, count, theta) for law, count in terms]
    centre = sum(t.count * t.mean for t in tilts)
    size = _fft_size(int(min(max_size, 2 * reach / step + 4)), terms)
    entries, rounding = _power(tilts, size)
    base = sum(t.count * t.law.first for t in tilts)
    # Exact arithmetic: the offset and the index times the step are large and cancel.
    offset = sum((t.count * Fraction(t.law.offset) for t in tilts), Fraction(0))
    low_index = math.floor((centre - float(offset)) / step) - size // 2
    # Room beyond the largest value is wasted: move the window down, but not below the smallest.
    length = sum(t.count * (t.law.masses.size - 1) for t in tilts) + 1
    low_index = max(min(low_index, base + length - size), base) if length > size else base
    turned = np.roll(entries, -((low_index - base) % size))  # whole numbers beyond 64 bits are reduced first
    values = float(offset + low_index * Fraction(step)) + step * np.arange(size, dtype=np.float64)
    above, wrapped = _leaks(tilts, theta, float(values[0]), float(values[-1]) + step) if leaks else (1.0, 1.0)
    farthest = sum(t.count * t.law.value_ulps * max(abs(t.values[0]), abs(t.values[-1])) for t in tilts)
    return TiltedSum(
        theta=theta,
        step=step,
        log_scale=sum(t.count * t.log_norm for t in tilts),
        values=values,
        tilted=turned,
        rounding=rounding,
        above=above,
        wrapped=wrapped,
        infinity=lost_mass([(t.law.infinity, t.count) for t in tilts]),
        location=UNIT * farthest,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tilt:
    law: GridLaw
    count: int
    values: Array
    log_masses: Array
    weights: Array
    log_norm: float
    mean: float

    @staticmethod
    def of(law: GridLaw, count: int, theta: float) -> _Tilt:
        values = law.values
        with np.errstate(divide="ignore"):
            log_masses = np.log(law.masses)
        logs = log_masses + theta * values
        norm = log_sum(logs)
        weights = np.exp(logs - norm)
        return _Tilt(law, count, values, log_masses, weights, norm, float(np.dot(weights, values)))


def _power(tilts: Sequence[_Tilt], size: int) -> tuple[Array, float]:
    """The tilted law of the sum on a circle of ``size`` points, and a bound on the error of every entry."""
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    magnitude = np.zeros(size // 2 + 1)
    blurred = np.zeros(size // 2 + 1)
    some = np.ones(size // 2 + 1, dtype=np.bool_)
    error = FFT_ULPS * math.log2(size) * UNIT
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for tilt in tilts:
            transform = np.fft.rfft(_folded(tilt.weights, size), size)
            absolute = np.abs(transform)
            magnitude += tilt.count * np.log(absolute)
            absolute += error
            blurred += tilt.count * np.log(absolute, out=absolute)
            # Complex powers are slow, and those of a long sum are nearly all next to nothing: left out, they are error.
            some &= magnitude > FAINTEST
            spectrum[some] *= transform[some] ** tilt.count
        spectrum[~some] = 0.0
        entries: Array = np.fft.irfft(spectrum, size)
        total = sum(t.count for t in tilts)
        height = np.where(some, np.exp(magnitude), 0.0)
        power_error = np.exp(blurred) - height + 8.0 * UNIT * (total + len(tilts)) * height
        # The half spectrum stands for all of it: at most twice its mean.
        rounding = float(2.0 * np.sum(power_error) / size) + error * float(2.0 * np.sum(height) / size)
    if not math.isfinite(rounding):
        # Weights sum to one only as far as doubles go, here to a high power: all that is known is that they are shares.
        return np.zeros(size), 1.0
    return entries, rounding


def _folded(weights: Array, size: int) -> Array:
    if weights.size <= size:
        return weights
    padded = np.zeros(-(-weights.size // size) * size)
    padded[: weights.size] = weights
    folded: Array = padded.reshape(-1, size).sum(axis=0)
    return folded


def _fft_size(wanted: int, terms: Sequence[tuple[GridLaw, int]]) -> int:
    longest = sum(count * (law.masses.size - 1) for law, count in terms) + 1
    wanted = max(8, min(wanted, longest))
    return 1 << (wanted - 1).bit_length()


def _log_mgf(tilts: Sequence[_Tilt], theta: float) -> float:
    """Sum of count times log of the sum of masses times e^{theta value}."""
    return sum(t.count * log_sum(t.log_masses + theta * t.values) for t in tilts)


def _leaks(tilts: Sequence[_Tilt], theta: float, bottom: float, top: float) -> tuple[float, float]:
    """Untilted mass at or above ``top``, and tilted mass outside [bottom, top), by Chernoff's bound."""
    here = sum(t.count * t.log_norm for t in tilts)
    highest = sum(t.count * t.values[-1] for t in tilts)
    lowest = sum(t.count * t.values[0] for t in tilts)
    above = wrapped = 0.0
    if highest >= top:
        levels = [(float(s), _log_mgf(tilts, float(s))) for s in theta * ABOVE]
        above = min(_bounded_exp(level - s * top) for s, level in levels)
        wrapped = min(_bounded_exp(level - here - (s - theta) * top) for s, level in levels)
    if lowest < bottom:
        wrapped += min(_bounded_exp(_log_mgf(tilts, s) - here + (theta - s) * bottom) for s in theta * BELOW - 0.5)
    return above, wrapped


def _bounded_exp(value: float) -> float:
    return 1.0 if value > 0 else math.exp(value)
