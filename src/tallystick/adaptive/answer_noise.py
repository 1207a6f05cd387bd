"""Largest distance of a noisy mean of one number per record from the population: what an answer is certified to.

Every record's number is rounded to a multiple of 2^-24 and the sum, a whole number of steps, gets exact integer noise;
so the sensitivity is 1 / n exactly, and the cost is the accountant's. What the rounding and the lattice can add to the
error is ``ROUNDING`` and ``LATTICE`` (docs/theory/transfer.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.generalization import (
    answers_error,
    curve_deviation,
    laplace_mean_tail,
    loss_deviation,
    normal_mean_tail,
)
from tallystick.errors import InvalidInput
from tallystick.mechanisms.noise.additive import AdditiveNoise
from tallystick.mechanisms.noise.gaussian import add_discrete_gaussian
from tallystick.mechanisms.noise.laplace import add_discrete_laplace
from tallystick.rounding import down

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

STEPS = 2**24
"""So many steps make a record's number of 1."""

ROUNDING = 1.0 / STEPS
"""What rounding a record's number (half a step) and an answer to a double adds to an error, generously."""

LATTICE = 1.0 + 2.0**-20
"""By what lattice noise of at least 2^20 steps can be further out than continuous noise."""

LAWS = ("gaussian", "laplace")


@dataclass(frozen=True, slots=True)
class AnswerNoise:
    """Noise on means of ``samples`` records: ``scale`` is its standard deviation, or the scale of Laplace noise.

    >>> noise = AnswerNoise("gaussian", 0.02, 20_000)
    >>> round(noise.error(answers=202, covered=202, failure=0.05), 3)
    0.106
    """

    law: str
    scale: float
    samples: int

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise InvalidInput("law", self.law, "gaussian or laplace")
        check.positive("noise", self.scale)
        check.count("records", self.samples, least=1, most=10**13)
        if not 1.0 / 16.0 <= self.scale * self.samples <= 2.0**25:
            least, most = 1.0 / 16.0 / self.samples, 2.0**25 / self.samples
            raise InvalidInput("noise", self.scale, f"between {least:g} and {most:g} for {self.samples} records")

    @property
    def mechanism(self) -> AdditiveNoise:
        """Noise for the sum in steps."""
        size = self.scale * self.samples * STEPS
        if self.law == "gaussian":
            return add_discrete_gaussian(sigma=size, sensitivity=STEPS, adjacency=Adjacency.REPLACE)
        return add_discrete_laplace(scale=size, sensitivity=STEPS, adjacency=Adjacency.REPLACE)

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one answer."""
        return self.mechanism.privacy

    def tail(self, failure: float) -> float:
        """Bound that the noise of one answer, given the transcript, exceeds with at most this probability."""
        of = normal_mean_tail if self.law == "gaussian" else laplace_mean_tail
        return self.scale * of(failure=failure) * LATTICE

    def error(self, *, answers: int, covered: int, failure: float) -> float:
        """Largest distance of ``covered`` of the first ``answers`` answers from the population, all at once."""
        transcript = answers * self.privacy
        if self.law == "gaussian":
            mu = transcript.gdp_bound()
            return ROUNDING + answers_error(
                lambda b: self.tail(b / (2 * covered)), lambda a: curve_deviation(mu=mu, failure=a), failure=failure
            )
        # e-DP answers lose no more than the worst e-DP answers, whose composition is quick to read and hardly more
        worst = answers * losses.pure_dp(epsilon=self.privacy.epsilon(delta=0.0), adjacency=Adjacency.REPLACE)
        return ROUNDING + answers_error(
            lambda b: self.tail(b / (2 * covered)), lambda a: loss_deviation(worst, failure=a), failure=failure
        )


def failure_of(number: int, beta: float) -> float:
    """The share of answer ``number`` in the failure of answers without end: 6 beta/(pi^2 j^2), which sum to beta.

    >>> round(failure_of(1, 0.05), 5)
    0.0304
    """
    return down(6.0 * beta / (math.pi * number) ** 2)
