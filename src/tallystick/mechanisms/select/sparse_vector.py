"""Sparse vector: which of many answers are above a threshold, paying only for those that are.

Standard form of Lyu, Su and Li 2017: the threshold gets Lap(D / eps1) once, each answer Lap(2 c D / eps2) (c D / eps2
for monotone answers), c answers "above" end it, no numbers come out. Six published variants that change one of these
are not private; tests compute their laws and reject them. Noise is continuous and compared exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.base import Mechanism, OnlyOne, Seeded
from tallystick.mechanisms.exact.intervals import Digits, Enclosure
from tallystick.mechanisms.exact.lazy_noise import LazyNoise, Noise
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.mechanisms.inputs import LARGEST, Number, budget, monotone_scores, numbers, scalar

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_DOUBT = 2.0**-38


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveThreshold(Mechanism[list[Number], tuple[bool, ...]]):
    """The sparse vector technique; built by :func:`above_threshold`.

    Called with all answers at once it gives True or False for each until ``hits`` were True. For answers that depend
    on earlier results, :meth:`start` opens a stream.
    """

    threshold: float
    epsilon: float
    hits: int
    sensitivity: float
    monotone: bool
    threshold_share: float
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """Pure epsilon however many answers are asked about (Lyu, Su and Li 2017, Theorems 2 and 4)."""
        return losses.pure_dp(epsilon=self.epsilon, **self.protects.about)

    @property
    def threshold_scale(self) -> Fraction:
        """Scale of the threshold's noise, D / eps1."""
        return Fraction(self.sensitivity) / (Fraction(self.epsilon) * Fraction(self.threshold_share))

    @property
    def answer_scale(self) -> Fraction:
        """Scale of each answer's noise, 2 c D / eps2."""
        times = self.hits * (1 if self.monotone else 2)
        return times * Fraction(self.sensitivity) / (Fraction(self.epsilon) * (1 - Fraction(self.threshold_share)))

    def prepare(self, value: Any, *, strict: bool) -> list[Number]:
        return numbers("answers", value, strict=strict).exact()

    def draw(self, prepared: list[Number], source: Source) -> tuple[bool, ...]:
        comparison, results, left = self._comparison(source), [], self.hits
        for answer in prepared:
            results.append(comparison.above(answer, LazyNoise.fresh(Noise.LAPLACE, source)))
            left -= results[-1]
            if left == 0:
                break
        return tuple(results)

    def start(self, *, source: Source = SYSTEM) -> Stream:
        """A stream of adaptively chosen answers; its whole life costs ``privacy``, so record that first."""
        return Stream(self._comparison(source), self.hits)

    def _comparison(self, source: Source) -> NoisyThreshold:
        return NoisyThreshold(
            threshold=Fraction(self.threshold),
            noise=LazyNoise.fresh(Noise.LAPLACE, source),
            scales=(self.threshold_scale, self.answer_scale),
            source=source,
        )

    def error(self, *, confidence: float, queries: int) -> float:
        """With this confidence every "above" was at least threshold - error and every "below" at most + error.

        |threshold noise| + max |answer noise|, each with half of the failure probability.
        """
        failure = 1 - check.inside("confidence", confidence)
        count = check.count("queries", queries, least=1)
        return float(self.threshold_scale) * math.log(2 / failure) + float(self.answer_scale) * math.log(
            2 * count / failure
        )


class Stream(OnlyOne):
    """One run of the sparse vector technique, opened by :meth:`AboveThreshold.start`.

    Threads may share it; it cannot be copied, pickled or carried through a fork. ``hits_left`` is how often it may
    still say "above", ``questions`` how often it was asked.
    """

    __slots__ = ("_comparison", "_hits_left", "_questions")

    def __init__(self, comparison: NoisyThreshold, hits: int) -> None:
        super().__init__()
        self._comparison, self._hits_left, self._questions = comparison, hits, 0

    @property
    def hits_left(self) -> int:
        """How many answers "above" are left."""
        return self._hits_left

    @property
    def questions(self) -> int:
        """How many answers were given."""
        return self._questions

    def ask(self, answer: float) -> bool | Seeded[bool]:
        """Is this answer, noisily, at least the noisy threshold?

        Anything that is not a number is refused by its type. The run is paid for, so NaN counts as 0 and what is beyond
        4e307 as that: no content of an answer makes it fail.
        """
        exact = scalar("answer", answer, strict=False)
        value = 0.0 if exact != exact else min(max(exact, -LARGEST), LARGEST)
        with self._mine():
            if self._hits_left == 0:
                raise Refused("this run has given all its answers 'above'; start (and pay for) a new one")
            source = self._comparison.source
            above = self._comparison.above(value, LazyNoise.fresh(Noise.LAPLACE, source))
            self._questions, self._hits_left = self._questions + 1, self._hits_left - above
        return above if source.private else Seeded(above)


@dataclass(slots=True, kw_only=True)
class NoisyThreshold:
    """The noisy threshold of one run, to which answers are compared exactly."""

    threshold: Fraction
    noise: LazyNoise = field(repr=False)
    scales: tuple[Fraction, Fraction]
    source: Source = field(repr=False)

    def above(self, answer: Number, mine: LazyNoise) -> bool:
        """Is answer + its noise at least threshold + its noise?"""
        near = float(answer)
        above = self._clear(near, mine) if near == answer else None
        return self._compare(Fraction(answer) - self.threshold, mine) if above is None else above

    def _clear(self, answer: float, mine: LazyNoise) -> bool | None:
        """The comparison in float64, where rounding cannot decide it; None where it could."""
        threshold, noises = float(self.threshold), (self.noise.near(), mine.near())
        wide = [float(scale) for scale in self.scales]
        lead = answer - threshold + wide[1] * noises[1] - wide[0] * noises[0]
        # each noise is within 2^-40 (1 + its size), everything else within a few units in the last place
        doubt = abs(answer) + abs(threshold) + sum(w * (1 + abs(n)) for w, n in zip(wide, noises, strict=True))
        return lead > 0 if abs(lead) > doubt * _DOUBT else None  # NaN and infinities are None

    def _compare(self, lead: Fraction, mine: LazyNoise) -> bool:
        """Is lead + answer noise >= threshold noise? Both get more bits until it is certain."""
        theirs = self.noise
        while True:
            digits = Digits(max(mine.bits, theirs.bits) // 2)
            left = digits.add(digits.of(lead), _scaled(digits, self.scales[1], mine))
            right = _scaled(digits, self.scales[0], theirs)
            if right.below(left):
                return True
            if left.below(right):
                return False
            mine.refine(self.source)
            theirs.refine(self.source)


def _scaled(digits: Digits, scale: Fraction, noise: LazyNoise) -> Enclosure:
    return digits.multiply(digits.of(scale), noise.enclose())


def best_threshold_share(hits: int, *, monotone: bool) -> float:
    """The split of epsilon with the least variance of the comparison: eps1 : eps2 = 1 : (2c)^{2/3}, monotone c^{2/3}.

    >>> round(best_threshold_share(4, monotone=False), 3)
    0.2
    """
    return float(1 / (1 + ((1 if monotone else 2) * hits) ** (2 / 3)))


def above_threshold(
    *,
    threshold: float,
    epsilon: float,
    hits: int = 1,
    sensitivity: float = 1.0,
    monotone: bool = False,
    threshold_share: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> AboveThreshold:
    """Sparse vector (Lyu, Su and Li 2017): True/False per answer until ``hits`` answers were above.

    docs/theory/sparse-vector.md

    >>> alarm = above_threshold(threshold=100, epsilon=1.0, hits=2)
    >>> alarm.release([0, 0, 1e6, 0, 1e6, 0])
    (False, False, True, False, True)
    """
    protects = Protects(adjacency, unit)
    price, step = budget(epsilon, sensitivity)
    rising = monotone_scores(monotone, protects.adjacency)
    wanted = check.count("hits", hits, least=1)
    share = best_threshold_share(wanted, monotone=rising) if threshold_share is None else threshold_share
    if not 0 < check.finite("threshold_share", share) < 1:
        raise InvalidInput("threshold_share", threshold_share, "a number strictly between 0 and 1")
    return AboveThreshold(
        threshold=check.finite("threshold", threshold),
        epsilon=price,
        hits=wanted,
        sensitivity=step,
        monotone=rising,
        threshold_share=share,
        protects=protects,
    )
