"""The nouns: constructors of privacy losses. Scales are in units of the sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.discrete import DiscreteGaussian, DiscreteLaplace
from tallystick.accounting.leaves.exponential import Exponential
from tallystick.accounting.leaves.gaussian import Gaussian, Gdp
from tallystick.accounting.leaves.laplace import Laplace
from tallystick.accounting.leaves.pure import ApproxDp, PureDp
from tallystick.accounting.leaves.renyi import RenyiDp, Zcdp
from tallystick.accounting.leaves.response import RandomizedResponse
from tallystick.accounting.leaves.tabulated import discrete_pair_leaf, profile_leaf, tradeoff_leaf
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput

LARGEST_EPSILON = 1e6
SMALLEST_SCALE = 1e-6
LARGEST_SCALE = 1e15


def _loss(leaf: Leaf | None, adjacency: Any, unit: str | None) -> PrivacyLoss:
    terms = ((leaf, 1),) if leaf is not None else ()
    return PrivacyLoss(terms, check.adjacency(adjacency), check.unit(unit))


def _epsilon(value: Any) -> float:
    number = check.nonnegative("epsilon", value, f"a number from 0 to {LARGEST_EPSILON:g}")
    if number > LARGEST_EPSILON:
        raise InvalidInput("epsilon", value, f"a number from 0 to {LARGEST_EPSILON:g}")
    return number


def _scale(name: str, value: Any) -> float:
    allowed = f"a number from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}"
    number = check.positive(name, value, allowed)
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:
        raise InvalidInput(name, value, allowed)
    return number


def no_loss(*, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Nothing was released.

    >>> no_loss().epsilon(delta=0)
    0.0
    """
    return _loss(None, adjacency, unit)


def pure_dp(*, epsilon: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Any epsilon-DP mechanism; exactly the loss of binary randomized response (Kairouz, Oh, Viswanath 2015).

    >>> (2 * pure_dp(epsilon=0.5)).epsilon(delta=0)
    1.0
    """
    return _loss(PureDp(_epsilon(epsilon)), adjacency, unit)


def approx_dp(
    *, epsilon: float, delta: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Any (epsilon, delta)-DP mechanism. Also a goal: ``loss <= approx_dp(epsilon=2, delta=1e-6)``.

    >>> approx_dp(epsilon=1, delta=1e-6).delta(epsilon=1) >= 1e-6
    True
    """
    return _loss(ApproxDp(_epsilon(epsilon), check.probability("delta", delta)), adjacency, unit)


def gdp(*, mu: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """mu-Gaussian differential privacy; mu = 0 is no loss.

    >>> gdp(mu=0).delta(epsilon=0)
    0.0
    """
    number = check.nonnegative("mu", mu, "a number from 0 to 1e6")
    if number > 1e6:
        raise InvalidInput("mu", mu, "a number from 0 to 1e6")
    return _loss(Gdp(number) if number > 0 else None, adjacency, unit)


def gaussian(*, sigma: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Gaussian noise of standard deviation sigma times the sensitivity; 1/sigma-GDP exactly.

    >>> 4 * gaussian(sigma=2) <= gdp(mu=1)
    True
    """
    return _loss(Gaussian(_scale("sigma", sigma)), adjacency, unit)


def laplace(*, scale: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Laplace noise of the given scale times the sensitivity; (1/scale)-DP.

    >>> laplace(scale=2).epsilon(delta=0)
    0.5
    """
    return _loss(Laplace(_scale("scale", scale)), adjacency, unit)


def discrete_gaussian(
    *, sigma: float, sensitivity: int = 1, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Discrete Gaussian noise on the integers, sigma and sensitivity in lattice steps; the exact lattice pair.

    >>> round(discrete_gaussian(sigma=1).delta(epsilon=1), 4)  # a continuous Gaussian has 0.1269
    0.1414
    """
    shift = check.count("sensitivity", sensitivity, least=0, most=10**15)
    return _loss(DiscreteGaussian(_scale("sigma", sigma), shift) if shift else None, adjacency, unit)


def discrete_laplace(
    *, scale: float, sensitivity: int = 1, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Two-sided geometric noise on the integers, scale and sensitivity in lattice steps; the exact lattice pair.

    >>> discrete_laplace(scale=4, sensitivity=2).epsilon(delta=0)
    0.5
    """
    shift = check.count("sensitivity", sensitivity, least=0, most=10**15)
    return _loss(DiscreteLaplace(_scale("scale", scale), shift) if shift else None, adjacency, unit)


def randomized_response(
    *,
    epsilon: float | None = None,
    flip_prob: float | None = None,
    choices: int = 2,
    adjacency: Any = Adjacency.REPLACE,
    unit: str | None = None,
) -> PrivacyLoss:
    """k-ary randomized response. ``flip_prob`` is the probability of not telling the truth (p/2 of the notes).

    One person's answer is changed, so the adjacency is REPLACE unless you say otherwise.

    >>> round(randomized_response(flip_prob=0.25).epsilon(delta=0), 6)
    1.098612
    """
    options = check.count("choices", choices, least=2, most=10**9)
    if (epsilon is None) == (flip_prob is None):
        raise InvalidInput("epsilon", epsilon, "either epsilon or flip_prob, not both")
    if flip_prob is not None:
        lie = check.probability("flip_prob", flip_prob)
        if not 0.0 < lie <= (options - 1) / options:
            raise InvalidInput("flip_prob", flip_prob, f"a number above 0 and at most {(options - 1) / options:g}")
        # log((1 - f)(k - 1) / f), accurate near zero and rounded up.
        strength = max(0.0, math.log1p(((options - 1) - options * lie) / lie)) * (1.0 + 1e-15)
    else:
        strength = _epsilon(epsilon)
    return _loss(RandomizedResponse(strength, options), adjacency, unit)


def exponential(*, epsilon: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """The exponential mechanism: bounded range epsilon. Tight for one release, valid under composition.

    >>> exponential(epsilon=1).delta(epsilon=0) < pure_dp(epsilon=1).delta(epsilon=0)
    True
    """
    return _loss(Exponential(_epsilon(epsilon)), adjacency, unit)


def zcdp(
    *, rho: float, delta: float = 0.0, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """delta-approximate rho-zCDP. Only a Renyi curve is known, so read-outs are conversions: upper bounds.

    >>> round(zcdp(rho=0.5).epsilon(delta=1e-6), 2)  # a Gaussian of that rho: 4.89
    5.22
    """
    number = check.nonnegative("rho", rho, "a number from 0 to 1e12")
    if number > 1e12:
        raise InvalidInput("rho", rho, "a number from 0 to 1e12")
    slack = check.probability("delta", delta)
    return _loss(Zcdp(number, slack) if number > 0 or slack > 0 else None, adjacency, unit)


def renyi_dp(
    curve: Mapping[Any, Any], *, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Renyi differential privacy at the given ``{order: epsilon}``. Lossy in the same way as ``zcdp``.

    >>> renyi_dp({2: 0.1, 16: 0.9}).renyi(order=2) >= 0.1
    True
    """
    allowed = "a dictionary {order > 1: epsilon >= 0} with at least one entry"
    if not isinstance(curve, Mapping) or not curve:
        raise InvalidInput("curve", curve, allowed)
    table = []
    for order, value in curve.items():
        number = check.finite("order", order, "orders > 1")
        if number <= 1.0 or number > 1e9:
            raise InvalidInput("order", order, "orders above 1 and at most 1e9")
        table.append((number, check.nonnegative(f"curve[{order}]", value)))
    table.sort()
    return _loss(RenyiDp(tuple(o for o, _ in table), tuple(e for _, e in table)), adjacency, unit)


def from_tradeoff(
    f: Callable[[float], Any] | Iterable[tuple[Any, Any]],
    *,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """f-differential privacy for a trade-off function, given as a callable or as knots (alpha, beta).

    >>> round(from_tradeoff([(0, 1), (0.25, 0.25), (1, 0)]).epsilon(delta=0), 6)  # log 3
    1.098612
    """
    return _loss(tradeoff_leaf(f), adjacency, unit)


def from_profile(
    f: Callable[[float], Any] | Iterable[tuple[Any, Any]],
    *,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """(epsilon, delta(epsilon))-DP along a curve, given as a callable on [0, 100] or as knots (epsilon, delta).

    >>> from_profile([(1.0, 1e-6)]).delta(epsilon=1.0) >= 1e-6
    True
    """
    return _loss(profile_leaf(f), adjacency, unit)


def discrete_pair(
    p: Iterable[Any], q: Iterable[Any], *, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """A finite dominating pair: outcome probabilities with the unit (p) and without it (q).

    Under REPLACE both orders of the pair can occur, so the hull of both is taken.

    >>> round(discrete_pair([0.75, 0.25], [0.25, 0.75]).delta(epsilon=0), 9)
    0.5
    """
    relation = check.adjacency(adjacency)
    return _loss(discrete_pair_leaf(p, q, symmetric=relation is Adjacency.REPLACE), relation, unit)
