"""Assertions for the tests of any project: a function is as private as it says, a plan costs no more than it may.

Installed with tallystick they are pytest fixtures (``assert_private``, ``assert_costs``); they are functions, too.
A test of something random must say how often it fails for nothing: ``flake`` is that probability, at most.
"""

from __future__ import annotations

from typing import Any

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.accounting.losses import approx_dp, pure_dp
from tallystick.audit.two_sample import DRAWS, TwoSample, mechanism
from tallystick.errors import InvalidInput

FLAKE = 1e-9
ROUNDING = 1e-12  # ten times 0.1 is a little more than 1 when it is rounded up


def assert_private(
    f: Any, neighbours: Any, claim: Any = None, *, flake: float = FLAKE, draws: int = DRAWS
) -> TwoSample:
    """Fail if draws of ``f`` on neighbouring datasets contradict ``claim``.

    ``claim`` is a PrivacyLoss, an epsilon, or a pair (epsilon, delta). An assertion about a claim that holds fails with
    probability ``flake`` at most: exact limits, one event, chosen from other draws than those that test it. What it
    would have caught is in the evidence that is returned.

    >>> import numpy as np
    >>> def leaky(data):
    ...     return sum(data)
    >>> assert_private(leaky, ([1, 0], [1, 1]), 1.0, draws=2000)
    Traceback (most recent call last):
    ...
    AssertionError: The claim is false: pure_dp(epsilon=1) ...
    """
    level = check.inside("flake", flake)
    evidence = mechanism(f, neighbours=neighbours, claim=_claim(claim), draws=draws, significance=level)
    if evidence.falsified:
        raise AssertionError(str(evidence))
    if evidence.toothless:
        raise InvalidInput(
            "draws", draws, f"more of them, or a larger flake than {level:g}: so few cannot falsify {evidence.claim} "
            "by any draw, and a test that cannot fail says nothing"
        )  # fmt: skip
    return evidence


def assert_costs(plan: Any, at_most: Any, *, delta: float | None = None) -> None:
    """Fail if a loss, or anything with a ``privacy``, costs more than ``at_most``: deterministic, never flaky.

    ``at_most`` is a PrivacyLoss, a pair (epsilon, delta), or an epsilon at ``delta`` (0 unless said).

    >>> from tallystick.accounting.losses import gaussian
    >>> assert_costs(100 * gaussian(sigma=10), (4.4, 1e-5))
    >>> assert_costs(100 * gaussian(sigma=10), (4.3, 1e-5))
    Traceback (most recent call last):
    ...
    AssertionError: 100 * gaussian(sigma=10) costs more than approx_dp(epsilon=4.3, delta=1e-05): epsilon is 4.37717...
    """
    loss = getattr(plan, "privacy", plan)
    if not isinstance(loss, PrivacyLoss):
        raise InvalidInput("plan", type(plan).__name__, "a PrivacyLoss, or something with a privacy")
    if isinstance(at_most, PrivacyLoss):
        if not loss <= at_most:
            raise AssertionError(f"{loss} is not shown to cost at most {at_most}")
        return
    if delta is not None and isinstance(at_most, tuple):
        raise InvalidInput("delta", delta, "a pair (epsilon, delta), or an epsilon and delta=, not both")
    epsilon, allowed = at_most if isinstance(at_most, tuple) else (at_most, 0.0 if delta is None else delta)
    limit, slack = check.nonnegative("at_most", epsilon), check.probability("delta", allowed)
    found = float(loss.epsilon(delta=slack))
    if found > limit * (1.0 + ROUNDING):
        raise AssertionError(
            f"{loss} costs more than {approx_dp(epsilon=limit, delta=slack)}: epsilon is {found!r} at delta {slack!r}"
        )


def _claim(value: Any) -> PrivacyLoss | None:
    if value is None or isinstance(value, PrivacyLoss):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return approx_dp(epsilon=value[0], delta=value[1])
    return pure_dp(epsilon=check.nonnegative("claim", value))
