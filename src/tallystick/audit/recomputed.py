"""Somebody's number against ours: a claimed epsilon that is certainly too small is falsified without a single draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.leaf import all_inside
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.evidence import APPROXIMATE, Evidence
from tallystick.digits import ACCOUNTANT, decimal_down, decimal_up, down, typed, up

MOST_DIGITS = 20
"""Digits that distinguish any two doubles, and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed(Evidence):
    """A claim about a loss that is known: certified arithmetic in place of a test, so nothing is left to chance."""

    loss: PrivacyLoss
    epsilon: float
    delta: float
    truth: Bounds

    @property
    def refutes(self) -> str | None:
        return APPROXIMATE if self.falsified else None

    def epsilon_at_least(self, *, delta: float) -> float:
        known = all(leaf.attained for leaf in all_inside(self.loss.terms))
        return self.loss.epsilon_bounds(delta=check.probability("delta", delta)).lower if known else 0.0

    def to_dict(self) -> dict[str, Any]:
        own = {"loss": str(self.loss), "epsilon": self.epsilon, "delta": self.delta}
        return {**Evidence.to_dict(self), **own, "lower": self.truth.lower, "upper": self.truth.upper}


def claimed_epsilon(loss: PrivacyLoss, *, epsilon: float, delta: float) -> Recomputed:
    """Is (epsilon, delta) a valid claim for this loss?

    >>> from tallystick.accounting.losses import gaussian
    >>> run = 1000 * gaussian(sigma=1).sampled(rate=0.01)
    >>> claimed_epsilon(run, epsilon=1.5, delta=1e-5).verdict, claimed_epsilon(run, epsilon=2, delta=1e-5).verdict
    ('FALSIFIED', 'NOT FALSIFIED')
    """
    promise, level = check.nonnegative("epsilon", epsilon), check.probability("delta", delta)
    truth = loss.epsilon_bounds(delta=level)
    if not all(leaf.attained for leaf in all_inside(loss.terms)):
        truth = Bounds(0.0, truth.upper)  # what is proved to be enough says nothing from below
    shown = f"the truth is between {down(truth.lower, ACCOUNTANT)} and {up(truth.upper, ACCOUNTANT)}"
    return Recomputed(
        attack=f"recomputed: {shown}",
        claim=f"epsilon {typed(promise)} at delta {typed(level)} for {loss}",
        significance=0.0,
        p_value=0.0 if promise < truth.lower else 1.0,
        mu_at_least=0.0,
        assumes=("that the record says what was done: sampling as it says, steps fixed beforehand",),
        detects=f"any claim below {down(truth.lower, ACCOUNTANT)}",
        loss=loss,
        epsilon=promise,
        delta=level,
        truth=truth,
    )


def worth(claimed: float, truth: Bounds) -> str:
    """What a claimed epsilon is worth against the certified enclosure.

    >>> worth(5.0, Bounds(4.0, 4.1)), worth(3.0, Bounds(4.0, 4.1))
    ('valid, and 22 % above the certified bound', 'too small: the truth is at least 4')
    """
    if claimed < truth.lower:
        return f"too small: the truth is at least {down(truth.lower, telling_digits(claimed, truth))}"
    if claimed < truth.upper:
        return "inside the enclosure: no finer answer exists"
    if claimed == truth.upper:
        return "valid: it is the certified bound"
    if truth.upper == 0.0:
        return "valid"
    return f"valid, and {100.0 * (claimed / truth.upper - 1.0):.2g} % above the certified bound"


def telling_digits(claimed: float, bounds: Bounds) -> int:
    """How many digits of both ends show on which side of them a claim is: outward rounding may pass it by.

    A claim that is an end itself needs none: printed ends are beyond it whatever their digits.

    >>> telling_digits(2.5, Bounds(2.3816897, 2.3816898)), telling_digits(2.381689, Bounds(2.3816897, 2.3816898))
    (6, 8)
    """
    said = Decimal(typed(claimed))
    for digits in range(ACCOUNTANT, MOST_DIGITS):
        below = claimed >= bounds.lower or math.isinf(bounds.lower) or said < decimal_down(bounds.lower, digits)
        above = claimed <= bounds.upper or said >= decimal_up(bounds.upper, digits)
        if below and above:
            return digits
    return MOST_DIGITS
