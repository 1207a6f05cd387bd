"""The two loss variables of a sampled Gaussian, as objects (Remark 11.6)."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from enum import StrEnum

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.theorems.normal import cdf

_REACH = 40.0


class Way(StrEnum):
    """Is the record removed, or added?

    >>> Way("remove").value
    'remove'
    """

    REMOVE = "remove"
    ADD = "add"


@dataclass(frozen=True, slots=True)
class SampledGaussianLoss:
    """The privacy loss of one Gaussian release on a Poisson sample, one direction of add/remove.

    With W = N(0, sigma^2) without the record and the mixture (1 - q) W + q N(1, sigma^2) with it, removing compares the
    mixture with W, adding W with the mixture: two laws, not one (erratum 3 is about the printed second one). Numbers
    are estimates to about 1e-9: the accountant's certified ones are ``ts.gaussian(sigma=...).sampled(rate=...)``.

    >>> removed = SampledGaussianLoss(rate=0.01, sigma=1.0)
    >>> added = SampledGaussianLoss(rate=0.01, sigma=1.0, way="add")
    >>> round(removed.loss(3.0), 6), round(added.loss(3.0), 6)
    (0.106003, -0.106003)
    >>> round(removed.cdf(0.0), 6), round(added.cdf(0.0), 6)
    (0.687633, 0.308538)
    """

    rate: float
    sigma: float
    way: str = Way.REMOVE

    def __post_init__(self) -> None:
        check.between("rate", self.rate, 1e-12, 1.0)
        check.between("sigma", self.sigma, 1e-3, 1e6)
        if self.way not in tuple(Way):
            raise InvalidInput("way", self.way, "'remove' or 'add'")

    def loss(self, output: float) -> float:
        """log of the ratio of densities at an output: log(1 - q + q e^((2x - 1)/(2 sigma^2))), or minus that."""
        tilt = (2.0 * check.finite("output", output) - 1.0) / (2.0 * self.sigma * self.sigma)
        if tilt > 700.0:
            found = math.log(self.rate) + tilt
        elif self.rate == 1.0:
            found = tilt
        else:
            found = math.log1p(self.rate * math.expm1(tilt))
        return found if self.way == Way.REMOVE else -found

    def cdf(self, loss: float) -> float:
        """Pr[L <= loss], in closed form: the loss is monotone in the output."""
        value = check.finite("loss", loss)
        edge = self._output(value if self.way == Way.REMOVE else -value)
        if self.way == Way.ADD:
            return 1.0 - cdf(edge / self.sigma) if edge > -math.inf else 1.0
        return (1.0 - self.rate) * cdf(edge / self.sigma) + self.rate * cdf((edge - 1.0) / self.sigma)

    def characteristic_function(self, t: float) -> complex:
        """E[e^(i t L)] by quadrature."""
        from scipy.integrate import quad

        s, q = self.sigma, self.rate if self.way == Way.REMOVE else 0.0

        def part(x: float) -> complex:
            weight = (1.0 - q) * math.exp(-x * x / (2 * s * s)) + q * math.exp(-((x - 1.0) ** 2) / (2 * s * s))
            return weight / (s * math.sqrt(2 * math.pi)) * cmath.exp(1j * t * self.loss(x))

        low, high = -_REACH * s, 1.0 + _REACH * s
        points = [0.0, 1.0]
        real = quad(lambda x: part(x).real, low, high, points=points, limit=400)[0]
        return complex(real, quad(lambda x: part(x).imag, low, high, points=points, limit=400)[0])

    def _output(self, loss: float) -> float:
        """The output whose removing loss is this; minus infinity where every one is larger."""
        ratio = math.expm1(min(loss, 700.0)) / self.rate
        if ratio <= -1.0:
            return -math.inf
        tilt = math.log1p(ratio) if loss < 700.0 else loss - math.log(self.rate)
        return 0.5 + self.sigma * self.sigma * tilt
