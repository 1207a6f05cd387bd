"""Losses of mechanisms that test before they answer: sparse vector, and propose-test-release.

Both are made of leaves that exist; their theorems are in docs/theory/sparse-vector.md and propose-test-release.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.leaves.laplace import Laplace
from tallystick.accounting.leaves.nested import worst
from tallystick.accounting.leaves.pure import ApproxDp, PureDp
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.errors import InvalidInput
from tallystick.rounding import double_above


@constructor
def sparse_vector(
    *,
    threshold_scale: float,
    answer_scale: float,
    hits: int = 1,
    monotone: bool = False,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """Sparse vector with Laplace noise, ended by the ``hits``-th "above": pure, however many answers were below.

    Scales are in units of the answers' sensitivity: epsilon = 1/threshold_scale + 2 hits/answer_scale, and half of the
    second part where all answers move the same way (``monotone``). No noisy number is released.

    >>> sparse_vector(threshold_scale=4, answer_scale=16, hits=2).epsilon(delta=0)
    0.5
    """
    first, each = check.scale("threshold_scale", threshold_scale), check.scale("answer_scale", answer_scale)
    if not isinstance(monotone, bool):
        raise InvalidInput("monotone", monotone, "True or False")
    moves = check.count("hits", hits, least=1) * (1 if monotone else 2)
    exact = 1 / Fraction(first) + moves / Fraction(each)
    epsilon = double_above(exact)
    return loss_of(PureDp(epsilon, epsilon != exact), adjacency, unit)


@constructor
def propose_test_release(release: PrivacyLoss, *, scale: float, delta: float) -> PrivacyLoss:
    """Propose-test-release: ``release`` at a proposed sensitivity, if the data are noisily far from breaking it.

    The test adds Laplace noise of ``scale`` to the number of units that must change before the proposal is wrong for
    some neighbour, and passes above scale * log(1/(2 delta)). The worse of two cases: the proposal holds for the two
    neighbours (test and release), or for neither (they differ with probability ``delta`` only).

    >>> import tallystick as ts
    >>> step = propose_test_release(ts.laplace(scale=2), scale=2, delta=1e-6)
    >>> round(step.epsilon(delta=1e-6), 4)
    1.0
    """
    if not isinstance(release, PrivacyLoss) or release.group != 1:
        raise InvalidInput("release", release, "the loss of what is released when the test passes, for single units")
    if release.adjacency is not Adjacency.ADD_REMOVE:
        raise InvalidInput("adjacency", release.adjacency.value, "a release about added and removed units")
    chance = check.inside("delta", delta)
    test = PrivacyLoss(((Laplace(check.scale("scale", scale)), 1),), release.protects)
    return worst(test + release, PrivacyLoss(((ApproxDp(0.0, chance), 1),), release.protects))
