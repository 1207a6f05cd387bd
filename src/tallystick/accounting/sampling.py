"""Operations that change who is protected: sampling, subsets, replace instead of add/remove, worst of several."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.accounting.leaf import Leaf, merged
from tallystick.accounting.leaves.allocated import MOST_STEPS, Allocated
from tallystick.accounting.leaves.nested import Composed, Replaced, Worst
from tallystick.accounting.leaves.sampled import Sampled, Subset
from tallystick.accounting.leaves.truncated import Truncated
from tallystick.accounting.loss import PrivacyLoss, constructor
from tallystick.errors import AdjacencyMismatch, InvalidInput


def _single_leaf(loss: PrivacyLoss, operation: str) -> Leaf:
    if loss.group != 1:
        raise InvalidInput(
            operation, str(loss), "a loss for single units; for_groups is outermost: sample first, then group"
        )
    if len(loss.terms) == 1 and loss.terms[0][1] == 1:
        return loss.terms[0][0]
    return Composed(loss.terms)


def sampled(loss: PrivacyLoss, rate: float) -> PrivacyLoss:
    """Poisson sampling of a loss (see ``PrivacyLoss.sampled``)."""
    if loss.adjacency is not Adjacency.ADD_REMOVE:
        raise InvalidInput(
            "adjacency", loss.adjacency.value, "an add/remove loss for Poisson sampling; use .subset() for REPLACE"
        )
    leaf = _single_leaf(loss, "sampled") if loss.terms else None
    if rate == 0.0 or leaf is None:
        return PrivacyLoss((), loss.protects)
    if rate == 1.0:
        return loss
    if isinstance(leaf, Sampled):
        # Sampling twice is sampling at the product rate.
        return PrivacyLoss(((Sampled(leaf.base, _product(leaf.rate, rate)), 1),), loss.protects)
    return PrivacyLoss(((Sampled(leaf, max(rate, check.SMALLEST_RATE)), 1),), loss.protects)


def _product(first: float, second: float) -> float:
    """The product of two rates, rounded up."""
    product = max(first * second, check.SMALLEST_RATE)
    return product if Fraction(product) >= Fraction(first) * Fraction(second) else math.nextafter(product, 1.0)


def truncated(loss: PrivacyLoss, rate: float, largest: int | None, population: int | None) -> PrivacyLoss:
    """Poisson sampling with batches cut at ``largest`` (see ``PrivacyLoss.sampled``)."""
    if largest is None or population is None:
        missing = "largest" if largest is None else "population"
        raise InvalidInput(missing, None, "both largest= and population=: the cut is rare only among so many units")
    most = check.count("largest", largest, least=1)
    whole = check.count("population", population, least=1)
    plain = sampled(loss, rate)
    if not plain.terms or most >= whole:
        return plain
    leaf = Truncated(_single_leaf(loss, "sampled"), max(rate, check.SMALLEST_RATE), most, whole)
    return PrivacyLoss(((leaf, 1),), loss.protects)


def allocated(loss: PrivacyLoss, steps: int) -> PrivacyLoss:
    """Random allocation of a loss (see ``PrivacyLoss.allocated``)."""
    number = check.count("steps", steps, least=1, most=MOST_STEPS)
    if loss.adjacency is not Adjacency.ADD_REMOVE:
        raise InvalidInput("adjacency", loss.adjacency.value, "an add/remove loss for random allocation")
    if not loss.terms:
        return loss
    leaf = _single_leaf(loss, "allocated")
    if number == 1:
        return loss
    return PrivacyLoss(((Allocated(leaf, number), 1),), loss.protects)


def subset(loss: PrivacyLoss, batch: int, population: int) -> PrivacyLoss:
    """Fixed-size subset sampling of a REPLACE loss (see ``PrivacyLoss.subset``)."""
    whole = check.count("population", population, least=1)
    part = check.count("batch", batch, least=0, most=whole)
    if loss.adjacency is not Adjacency.REPLACE:
        raise InvalidInput(
            "adjacency", loss.adjacency.value, "a REPLACE loss for subset sampling; construct with adjacency='replace'"
        )
    if part == 0 or not loss.terms:
        return PrivacyLoss((), loss.protects)
    leaf = _single_leaf(loss, "subset")
    if part == whole:
        return loss
    return PrivacyLoss(((Subset(leaf, part, whole), 1),), loss.protects)


def replaced(loss: PrivacyLoss) -> PrivacyLoss:
    """add/remove -> replace (see ``PrivacyLoss.as_replace``)."""
    if loss.adjacency is Adjacency.REPLACE:
        return loss
    if loss.group != 1:
        raise InvalidInput("as_replace", str(loss), "a loss for single units; convert first, then group")
    closed: list[tuple[Leaf, int]] = []
    rest: list[tuple[Leaf, int]] = []
    for leaf, count in loss.terms:
        other = leaf.replaced()
        if other is None:
            rest.append((leaf, count))
        else:
            closed.append((other, count))
    if rest:
        closed.append((Replaced(tuple(rest)), 1))
    return PrivacyLoss(merged(closed), Protects(Adjacency.REPLACE, loss.unit))


@constructor
def worst(*losses: PrivacyLoss) -> PrivacyLoss:
    """Pointwise worst of several losses: parallel composition over disjoint parts, add/remove only.

    Valid when each unit is in one part and the part is a function of the unit alone (errata 49).

    >>> import tallystick as ts
    >>> round(ts.worst(ts.pure_dp(epsilon=1), ts.pure_dp(epsilon=2)).epsilon(delta=0), 9)
    2.0
    """
    if not losses:
        raise InvalidInput("losses", losses, "at least one loss")
    for loss in losses:
        if not isinstance(loss, PrivacyLoss):
            raise InvalidInput("losses", loss, "PrivacyLoss objects")
        if loss.adjacency is not Adjacency.ADD_REMOVE:
            raise AdjacencyMismatch(loss.adjacency, Adjacency.ADD_REMOVE)
        if loss.group != 1:
            raise InvalidInput("worst", str(loss), "losses for single units; group the result")
    protects = reduce(Protects.joined, (loss.protects for loss in losses))
    members = tuple(sorted({loss.terms for loss in losses}, key=str))
    if len(members) > 1:
        members = tuple(m for m in members if m)
    return PrivacyLoss(members[0] if len(members) == 1 else ((Worst(members), 1),), protects)
