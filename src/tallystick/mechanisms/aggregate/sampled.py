"""A mechanism on a secret Poisson sample of its records (Algorithm 6 of the notes): draws, not only accounting.

Every record is kept by its own coin with exactly the stated probability, and the mechanism sees the sample only. Nobody
learns who was kept, so the price is the mechanism's, amplified: ``mechanism.privacy.sampled(rate=rate)``. What comes
out is about the sample: a count or a total is to be divided by the rate.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.aggregate.subsample import SmallSample, SubsampleAndAggregate
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.coins import flip
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import records
from tallystick.mechanisms.noise.additive import AdditiveNoise
from tallystick.mechanisms.noise.sensitivity import Clamp, exact_sum
from tallystick.mechanisms.select.order_statistics import Quantile, Quantiles

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss


# Their value is a list with one entry per record, which may be empty; elsewhere one record changes every entry.
_OF_RECORDS = (Quantile, Quantiles, SubsampleAndAggregate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Mechanism[NDArray[np.float64], Any]):
    """A mechanism on a Poisson sample; built by :func:`sampled`."""

    mechanism: Mechanism[Any, Any]
    rate: float
    total: Clamp | None

    @property
    def privacy(self) -> PrivacyLoss:
        """The mechanism's loss, amplified by the sampling (add/remove)."""
        return self.mechanism.privacy.sampled(rate=self.rate)

    def prepare(self, value: Any, *, strict: bool) -> NDArray[np.float64]:
        """Check the records. Without ``strict`` a warning does not raise, because an account may have charged."""
        if isinstance(self.mechanism, SubsampleAndAggregate):
            with nullcontext() if strict else suppress(SmallSample):
                self.mechanism.warn_of_noise(stacklevel=4)
        return records("value", value, strict=strict, least=0)

    def draw(self, prepared: NDArray[np.float64], source: Source) -> Any:
        rate = Fraction(self.rate)
        kept = prepared[flip(lambda digits: digits.of(rate), prepared.size, source)]
        prepare = getattr(self.mechanism, "checked", self.mechanism.prepare)  # a warning may raise, after a charge
        return self.mechanism.draw(prepare(self._given(kept), strict=False), source)

    def _given(self, kept: NDArray[np.float64]) -> Any:
        if self.total is None:
            return kept
        whole = exact_sum(kept, lower=self.total.lower, upper=self.total.upper)
        return int(whole) if whole.denominator == 1 else whole

    def error(self, *, confidence: float, **more: float) -> float:
        """How far the answer may be from that of the sample; how far the sample is from everybody is not part of it."""
        return float(self.mechanism.error(confidence=confidence, **more))  # type: ignore[attr-defined]


def sampled(mechanism: Any, *, rate: float, total: Clamp | None = None) -> Sampled:
    """Run a mechanism on a secret Poisson sample of the records, at the amplified cost.

    ``mechanism`` is one of records that may be few or none (``ts.select.median``, ``quantile``, ``quantiles``,
    ``ts.aggregate.subsample_and_aggregate``), or with ``total=ts.noise.clamp(low, high)`` noise on a number
    (``ts.noise.add_laplace``, ...), which then gets the sum of the clamped records that were kept; clamp(1, 1) counts
    them. Add/remove neighbours only.
    docs/theory/amplification.md

    >>> from tallystick.mechanisms.noise import add_discrete_laplace, clamp
    >>> counted = sampled(add_discrete_laplace(epsilon=1.0), rate=0.1, total=clamp(1, 1))
    >>> round(counted.privacy.epsilon(delta=0.0), 6)
    0.158565
    >>> 50 < counted.release([0.0] * 1000) < 160
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidInput("mechanism", type(mechanism).__name__, "a mechanism such as ts.select.median(...)")
    chance = check.probability("rate", rate)
    if chance == 0.0:
        raise InvalidInput("rate", rate, "a probability above 0")
    if mechanism.privacy.protects.adjacency is not Adjacency.ADD_REMOVE:
        raise Refused(
            "a Poisson sample amplifies privacy against adding or removing a record; use adjacency='add_remove'"
        )
    if total is not None:
        _hides_a_term(mechanism, total)
    elif not isinstance(mechanism, _OF_RECORDS):
        allowed = "a mechanism of records that may be none (median, quantile, quantiles), or total=ts.noise.clamp(...)"
        raise InvalidInput("mechanism", type(mechanism).__name__, allowed)
    return Sampled(mechanism=mechanism, rate=chance, total=total)


def _hides_a_term(mechanism: Mechanism[Any, Any], total: Any) -> None:
    """The noise must be made for what one clamped record can add."""
    if type(total) is not Clamp:
        raise InvalidInput("total", type(total).__name__, "ts.noise.clamp(lower, upper), or nothing")
    if not isinstance(mechanism, AdditiveNoise) or mechanism.dimension is not None:
        raise InvalidInput("mechanism", type(mechanism).__name__, "noise on one number, where total= is given")
    if mechanism.lattice is None and not (total.lower == total.upper and float(total.lower).is_integer()):
        raise InvalidInput(
            "total", total, "clamp(1, 1) for noise on integers; other sums need add_laplace or add_gaussian"
        )
    exact_sum([], lower=total.lower, upper=total.upper)  # refuses bounds that no sum may have, before any charge
    most = max(abs(total.lower), abs(total.upper))
    if mechanism.move.norm < most:
        raise InvalidInput("mechanism", f"sensitivity {mechanism.move.norm:g}", f"a sensitivity of at least {most:g}")
