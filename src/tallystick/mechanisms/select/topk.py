"""The k best candidates, in order: k exponential mechanisms without replacement, drawn as one Gumbel race.

The k largest of score + Gumbel noise have exactly the law of picking one, removing it and picking again (Durfee and
Rogers 2019), so one pass over the scores does the work of k.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.mechanisms.base import Mechanism, confidence_level
from tallystick.mechanisms.exact.lazy_noise import Noise, largest
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import budget, monotone_scores, vector
from tallystick.mechanisms.select import accuracy
from tallystick.mechanisms.select.candidates import Scores

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Mechanism[Scores, tuple[int, ...]]):
    """The k best candidates; built by :func:`top_k`."""

    k: int
    epsilon: float
    sensitivity: float
    monotone: bool
    adjacency: Adjacency
    unit: str | None

    @property
    def privacy(self) -> PrivacyLoss:
        """k exponential mechanisms of epsilon / k: pure epsilon, and far less than that at a small delta."""
        return self.k * losses.exponential(epsilon=self.epsilon / self.k, adjacency=self.adjacency, unit=self.unit)

    @property
    def rate(self) -> Fraction:
        """Exponent per unit of score in each of the k choices."""
        return Fraction(self.epsilon / self.k) / Fraction(self.sensitivity) / (1 if self.monotone else 2)

    def prepare(self, value: Any, *, strict: bool) -> Scores:
        return vector("scores", value, strict=strict, least=self.k)

    def draw(self, prepared: Scores, source: Source) -> tuple[int, ...]:
        picked = largest(prepared, scale=1 / self.rate, noise=Noise.GUMBEL, how_many=self.k, source=source)
        return tuple(int(index) for index in picked)

    def error(self, *, confidence: float, candidates: int) -> float:
        """With this confidence no candidate left out beats a chosen one by more than this (k times Corollary 7.1)."""
        return accuracy.exponential_gap(
            candidates=candidates,
            epsilon=2 * float(self.rate),
            confidence=1 - (1 - confidence_level(confidence)) / self.k,
        )


def top_k(
    *,
    k: int,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool = False,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> TopK:
    """The indices of k good candidates, best first, for epsilon in all (docs/theory/selection-top-k.md).

    ``sensitivity`` is the most one unit changes any one score.

    >>> top_k(k=3, epsilon=1.0).release([5, 1000, 2, 2000, 3000])[0]
    4
    """
    relation = check.adjacency(adjacency)
    price, step = budget(epsilon, sensitivity)
    rising = monotone_scores(monotone, relation)
    return TopK(
        k=check.count("k", k, least=1),
        epsilon=price,
        sensitivity=step,
        monotone=rising,
        adjacency=relation,
        unit=check.unit(unit),
    )
