"""Choose among finitely many candidates by score: exponential mechanism, noisy maximum, permute-and-flip, the k best.

Only indices come out. The sensitivity is the most one unit can change any one score (the scores as passed, in
exact arithmetic). ``monotone=True`` says that adding a unit never lowers any score (counts do this): then half the
noise is enough, under ADD_REMOVE only.

The k best are k exponential mechanisms without replacement, drawn as one race: the k largest of score + Gumbel noise
have exactly the law of picking one, removing it and picking again (Durfee and Rogers 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.coins import exp_probability, exp_word_bounds, flip_words
from tallystick.mechanisms.exact.lazy_noise import Noise, largest
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integer
from tallystick.mechanisms.exact.weighted_choice import Scores, choose
from tallystick.mechanisms.inputs import budget, monotone_scores, scores
from tallystick.mechanisms.select import accuracy

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser(Mechanism[Scores, int]):
    """What the three ways to choose have in common."""

    epsilon: float
    sensitivity: float
    monotone: bool
    protects: Protects

    def __post_init__(self) -> None:
        budget(self.epsilon, self.sensitivity)
        monotone_scores(self.monotone, self.protects.adjacency)

    @property
    def rate(self) -> Fraction:
        """Exponent per unit of score: epsilon / (2 sensitivity), or twice that for monotone scores."""
        return Fraction(self.epsilon) / Fraction(self.sensitivity) / (1 if self.monotone else 2)

    def prepare(self, value: Any, *, strict: bool) -> Scores:
        return scores("scores", value, strict=strict)

    def error(self, *, confidence: float, candidates: int) -> float:
        """With this confidence the chosen score is at most this far below the best (Theorem 7.2, Corollary 7.1).

        Proved for the exponential mechanism; permute-and-flip is never worse (McKenna and Sheldon 2020).
        """
        return accuracy.exponential_gap(
            candidates=candidates,
            epsilon=self.epsilon * (2 if self.monotone else 1),
            sensitivity=self.sensitivity,
            confidence=check.inside("confidence", confidence),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialMechanism(Chooser):
    """Index i with probability proportional to exp(rate * score_i); built by :func:`exponential`."""

    @property
    def privacy(self) -> PrivacyLoss:
        """Bounded range epsilon (Dong, Durfee and Rogers 2020), so zCDP epsilon^2 / 8: stronger than pure epsilon."""
        return losses.exponential(epsilon=self.epsilon, **self.protects.about)

    def draw(self, prepared: Scores, source: Source) -> int:
        return choose(prepared.weights(self.rate), source)

    def probabilities(self, scores: Any) -> NDArray[np.float64]:
        """The law of the choice, in float64. A function of the data: for planning on public scores, not for release."""
        weight = np.exp(-self.prepare(scores, strict=True).weights(self.rate).exponents)
        return np.asarray(weight / weight.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMax(Chooser):
    """Index of the largest score + noise; built by :func:`noisy_max`."""

    noise: Noise

    @property
    def privacy(self) -> PrivacyLoss:
        """Gumbel noise is the exponential mechanism itself (Proposition 7.1); otherwise pure epsilon and no more."""
        price = losses.exponential if self.noise is Noise.GUMBEL else losses.pure_dp
        return price(epsilon=self.epsilon, **self.protects.about)

    def draw(self, prepared: Scores, source: Source) -> int:
        return int(largest(prepared, scale=1 / self.rate, noise=self.noise, source=source)[0])

    def error(self, *, confidence: float, candidates: int) -> float:
        """As for the other choosers; for Laplace noise by a union bound on the largest noise."""
        if self.noise is Noise.LAPLACE:
            return accuracy.laplace_max_gap_at(
                candidates=candidates, scale=float(1 / self.rate), confidence=check.inside("confidence", confidence)
            )
        return Chooser.error(self, confidence=confidence, candidates=candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(Chooser):
    """Candidates in random order, each taken with probability exp(-rate * gap); built by :func:`permute_and_flip`."""

    @property
    def privacy(self) -> PrivacyLoss:
        """Pure epsilon; not bounded-range, so the exponential leaf would understate it."""
        return losses.pure_dp(epsilon=self.epsilon, **self.protects.about)

    def draw(self, prepared: Scores, source: Source) -> int:
        chances = prepared.weights(self.rate)
        least, most = exp_word_bounds(chances.exponents, chances.error)
        taken = flip_words(least, most, lambda i: exp_probability(chances.exact(i)[1]), source)
        # The first taken candidate in a uniform order is a uniform one of the taken; the best is always taken.
        return int(np.flatnonzero(taken)[integer(int(taken.sum()), source)])

    def probabilities(self, scores: Any) -> NDArray[np.float64]:
        """The law of the choice, in float64: p_i times the integral of prod over j != i of (1 - t p_j), t in [0, 1]."""
        keep = np.exp(-self.prepare(scores, strict=True).weights(self.rate).exponents)
        node, weight = np.polynomial.legendre.leggauss(keep.size // 2 + 1)  # exact for that polynomial
        factors = 1 - (node[:, None] + 1) / 2 * keep[None, :]
        others = np.exp(np.log(factors).sum(axis=1, keepdims=True)) / factors
        return np.asarray(keep * (weight / 2 @ others))


def exponential(
    *,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool = False,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> ExponentialMechanism:
    """The exponential mechanism (McSherry and Talwar 2007; Theorem 7.1): P(i) proportional to exp(eps u_i / (2 Delta)).

    Sampled exactly (docs/theory/selection-exponential.md).

    >>> mechanism = exponential(epsilon=1.0)
    >>> mechanism.probabilities([0, 0, 2]).round(3).tolist()
    [0.212, 0.212, 0.576]
    """
    return ExponentialMechanism(**_common(epsilon, sensitivity, monotone, adjacency, unit))


def noisy_max(
    *,
    epsilon: float,
    sensitivity: float = 1.0,
    noise: Noise | str = Noise.LAPLACE,
    monotone: bool = False,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> NoisyMax:
    """Report noisy max (Propositions 5.1 and 7.1): noise of scale 2 Delta / epsilon, index of the largest.

    ``noise`` is "laplace", "exponential" (the same law as permute-and-flip, Ding et al. 2021) or "gumbel" (the same
    law as the exponential mechanism). docs/theory/selection-noisy-max.md

    >>> noisy_max(epsilon=1.0, noise="gumbel").noise.value
    'gumbel'
    """
    try:
        kind = Noise(noise)
    except ValueError:
        raise InvalidInput("noise", noise, "one of " + ", ".join(kind.value for kind in Noise)) from None
    return NoisyMax(noise=kind, **_common(epsilon, sensitivity, monotone, adjacency, unit))


def permute_and_flip(
    *,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool = False,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PermuteAndFlip:
    """Permute-and-flip (McKenna and Sheldon 2020): expected score never below the exponential mechanism's.

    docs/theory/selection-permute-and-flip.md

    >>> permute_and_flip(epsilon=1.0).probabilities([0, 0, 2]).round(3).tolist()
    [0.161, 0.161, 0.677]
    """
    return PermuteAndFlip(**_common(epsilon, sensitivity, monotone, adjacency, unit))


def _common(epsilon: Any, sensitivity: Any, monotone: Any, adjacency: Any, unit: Any) -> dict[str, Any]:
    """The checked arguments every chooser takes, as plain numbers."""
    price, step = budget(epsilon, sensitivity)
    protects = Protects(adjacency, unit)
    return {
        "epsilon": price,
        "sensitivity": step,
        "monotone": monotone_scores(monotone, protects.adjacency),
        "protects": protects,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Mechanism[Scores, tuple[int, ...]]):
    """The k best candidates; built by :func:`top_k`."""

    k: int
    epsilon: float
    sensitivity: float
    monotone: bool
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """k exponential mechanisms of epsilon / k: pure epsilon, and far less than that at a small delta."""
        return self.k * losses.exponential(epsilon=self.epsilon / self.k, **self.protects.about)

    @property
    def rate(self) -> Fraction:
        """Exponent per unit of score in each of the k choices."""
        return Fraction(self.epsilon / self.k) / Fraction(self.sensitivity) / (1 if self.monotone else 2)

    def prepare(self, value: Any, *, strict: bool) -> Scores:
        return scores("scores", value, strict=strict, least=self.k)

    def draw(self, prepared: Scores, source: Source) -> tuple[int, ...]:
        picked = largest(prepared, scale=1 / self.rate, noise=Noise.GUMBEL, how_many=self.k, source=source)
        return tuple(int(index) for index in picked)

    def error(self, *, confidence: float, candidates: int) -> float:
        """With this confidence no candidate left out beats a chosen one by more than this (k times Corollary 7.1)."""
        return accuracy.exponential_gap(
            candidates=candidates,
            epsilon=2 * float(self.rate),
            confidence=1 - (1 - check.inside("confidence", confidence)) / self.k,
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
    protects = Protects(adjacency, unit)
    price, step = budget(epsilon, sensitivity)
    rising = monotone_scores(monotone, protects.adjacency)
    return TopK(
        k=check.count("k", k, least=1),
        epsilon=price,
        sensitivity=step,
        monotone=rising,
        protects=protects,
    )
