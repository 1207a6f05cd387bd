"""What subsample-and-aggregate costs, and whether a statistic is what its theorem assumes (chapter 8, Remark 1.3).

The notes say "no asymptotic cost". With their widening of .1 and epsilon = 1 the noise reaches the sampling error at
n = 10^55.7 records: predict it before you use the mechanism. Nothing here is private or draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.mechanisms.aggregate.subsample import blocks_for
from tallystick.mechanisms.aggregate.winsorized import noise_over_sampling

_NEVER = 1.0 / 6.0  # a range widened by k^{1/3 + 1/6} and more: the noise stays above the sampling error


@dataclass(frozen=True, slots=True)
class SubsampleNoise:
    """Standard deviations of the noise and of the statistic itself, for a statistic that is asymptotically normal."""

    blocks: int
    noise: float
    sampling: float
    equal_at: float
    """log10 of the number of records from which on the noise is below the sampling error; infinite if it never is."""

    @property
    def ratio(self) -> float:
        """Noise over sampling error: above 1 privacy is most of the error."""
        return self.noise / self.sampling

    def __str__(self) -> str:
        return f"noise {self.noise:.3g}, sampling error {self.sampling:.3g}: {self.ratio:.3g} times; " + (
            f"equal from 10^{self.equal_at:.1f} records on" if math.isfinite(self.equal_at) else "never equal"
        )


def subsample_exponent(*, widening: float = 0.1) -> float:
    """The noise falls as n to this power: (1/2 - eta)(eta - 2/3) - (1/2 + eta)/2, for k = n^{1/2 - eta} blocks.

    Remark 8.4 of the notes prints -.57 for eta = .1 (erratum 25); anything below -.5 wins in the end.

    >>> round(subsample_exponent(), 4), round(subsample_exponent(widening=0.01), 4)
    (-0.5267, -0.5768)
    """
    eta = _widening(widening)
    return (0.5 - eta) * (eta - 2.0 / 3.0) - (0.5 + eta) / 2.0


def subsample_noise(
    *, records: int, epsilon: float, deviation: float = 1.0, widening: float = 0.1, blocks: int | None = None
) -> SubsampleNoise:
    """What Theorem 8.2 costs for a finite n: the predicted noise beside deviation/sqrt(n).

    Blocks of n/k records have quartiles 1.349 deviation sqrt(k/n) apart; the range is 8 k^{1/3 + eta} of that, and
    the mean of k clamped numbers gets Laplace noise of scale 2 range/(k epsilon): noise over sampling error is
    30.5/epsilon k^{eta - 1/6}. Bounds narrower than the range make it less; bounds so wide that epsilon/4 and k numbers
    do not find the quartiles make it much more. docs/theory/winsorized-mean.md

    >>> print(subsample_noise(records=1_000_000, epsilon=1.0))
    noise 0.0211, sampling error 0.001: 21.1 times; equal from 10^55.7 records on
    """
    n, e = check.count("records", records, least=1), check.positive("epsilon", epsilon)
    eta, spread = _widening(widening), check.positive("deviation", deviation)
    k = blocks_for(n, widening=eta) if blocks is None else check.count("blocks", blocks, least=4, most=max(4, n))
    sampling = spread / math.sqrt(n)
    at_one = noise_over_sampling(count=1, widening=eta, epsilon=e)
    equal = math.log10(at_one) / (_NEVER - eta) / (0.5 - eta) if eta < _NEVER else math.inf
    ratio = noise_over_sampling(count=k, widening=eta, epsilon=e)
    return SubsampleNoise(k, ratio * sampling, sampling, max(0.0, equal))


def _widening(widening: float) -> float:
    eta = check.nonnegative("widening", widening)
    if eta >= 0.5:
        raise InvalidInput("widening", widening, "a number from 0 to below 1/2")
    return eta


@dataclass(frozen=True, slots=True)
class Normality:
    """One size of sample: what Definition 8.1 asks of a statistic, measured, each with its standard error.

    ``bias`` is n times the mean error (it should stay bounded), ``spread`` the standard deviation times sqrt(n) (it
    should settle), ``third`` the mean cube of the size of the standardised error (bounded; 1.596 for a normal law),
    ``distance`` the largest distance of the standardised errors' distribution function from the normal one.
    """

    size: int
    bias: float
    bias_error: float
    spread: float
    third: float
    third_error: float
    distance: float


def asymptotic_normality(
    statistic: Callable[[NDArray[Any]], float],
    sample: Callable[[int, np.random.Generator], NDArray[Any]],
    *,
    truth: float,
    sizes: Sequence[int],
    repeats: int = 1000,
    rng: np.random.Generator | None = None,
) -> list[Normality]:
    """Is a statistic generically asymptotically normal at a law that you can simulate (Definition 8.1)?

    ``sample(n, rng)`` draws n records, ``truth`` is T(P). The third moment is that of the whole quotient: the notes
    cube its numerator only (erratum 56), which nothing fails. docs/theory/winsorized-mean.md

    >>> rows = asymptotic_normality(np.mean, lambda n, rng: rng.exponential(size=n), truth=1.0, sizes=[400],
    ...     repeats=2000, rng=np.random.default_rng(1))
    >>> abs(rows[0].third - 1.596) < 5 * rows[0].third_error + 0.05, rows[0].distance < 0.05
    (True, True)
    """
    from scipy.special import ndtr

    center, count = check.finite("truth", truth), check.count("repeats", repeats, least=10)
    source, rows = rng or np.random.default_rng(), []
    for size in sizes:
        n = check.count("sizes", size, least=2)
        errors = np.array([float(statistic(sample(n, source))) - center for _ in range(count)])
        deviation = float(errors.std(ddof=1))
        if not np.isfinite(errors).all() or deviation == 0.0:
            raise InvalidInput("statistic", "no spread, or not a number", "one that varies with the sample")
        standard = np.sort(errors) / deviation
        cubes = np.abs(standard) ** 3
        steps = np.arange(count + 1) / count
        above, below = steps[1:] - ndtr(standard), ndtr(standard) - steps[:-1]
        rows.append(
            Normality(
                size=n,
                bias=float(n * errors.mean()),
                bias_error=n * deviation / math.sqrt(count),
                spread=deviation * math.sqrt(n),
                third=float(cubes.mean()),
                third_error=float(cubes.std(ddof=1)) / math.sqrt(count),
                distance=float(max(above.max(), below.max())),
            )
        )
    return rows


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """The error falls as n to the power ``slope``; 95 % of such intervals hold it, if it is a power at all."""

    slope: float
    lower: float
    upper: float


def error_rate(error: Callable[[int], float], *, sizes: Sequence[int], repeats: int = 1) -> ErrorRate:
    """The rate of an error in n, by a line through log root mean square errors (Remark 1.3: noise should beat -1/2).

    ``error(n)`` is one error at n records, random or not; each size is tried ``repeats`` times.

    >>> error_rate(lambda n: 2 / n, sizes=[100, 1000, 10_000]).slope.__round__(6)
    -1.0
    """
    tries = check.count("repeats", repeats, least=1)
    places = [check.count("sizes", size, least=1) for size in sizes]
    if len(set(places)) < 2:
        raise InvalidInput("sizes", sizes, "at least two different numbers of records")
    squares = np.array([[float(error(n)) ** 2 for _ in range(tries)] for n in places])
    means = squares.mean(axis=1)
    if not (np.isfinite(means).all() and (means > 0).all()):
        raise InvalidInput("error", "zero or not a number", "a function whose errors are positive numbers")
    # log of a root mean square: half the relative error of the mean of squares
    wrong = squares.std(axis=1, ddof=1) / (2 * means * math.sqrt(tries)) if tries > 1 else np.zeros(len(places))
    across = np.log(places) - np.mean(np.log(places))
    slope = float(across @ np.log(means) / 2 / (across @ across))
    half = 1.96 * math.sqrt(float((across**2) @ (wrong**2))) / float(across @ across)
    return ErrorRate(slope, slope - half, slope + half)
