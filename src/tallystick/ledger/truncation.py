"""zCDP price of a plan by cutting off the rare large losses, so that sampled Gaussians keep their amplification.

A sampled-Gaussian plan's Renyi curve is not under rho * order for any useful rho: at high orders the amplification is
gone. Let E = {-t <= L <= t} with delta >= max(P(not E), Q(not E)), and condition both P and Q on E (conditioning P
alone would leave D(Q||P') infinite). The conditioned pair has losses of about t at most, so its curve bends away from
high orders, and the plan is delta-approximate rho-zCDP with rho = sup over orders of D_a / a
(docs/theory/truncated-zcdp.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.accounting.loss import PrivacyLoss

GAP: Final = 1e-3  # relative width at which refining the ladder of orders stops
ROUNDING: Final = 1 + 1e-9
LARGEST_ORDER: Final = 1e6
ORDERS: Final = tuple(1.7**n for n in range(-8, 20))  # orders less one that the cut is looked for at


def truncated_rho(loss: PrivacyLoss, *, delta: float) -> float:
    """An upper bound on rho such that the plan is delta-approximate rho-zCDP; infinite where none is found.

    At delta = 0 nothing is cut off and a bounded loss is needed.

    >>> import tallystick as ts
    >>> rho = truncated_rho(ts.laplace(scale=2), delta=0.0)
    >>> bool(math.exp(-0.5) + 0.5 - 1 <= rho <= 1.01 * (math.exp(-0.5) + 0.5 - 1))
    True
    """
    if not loss.terms:
        return 0.0
    top = float(loss.renyi(order=math.inf)) if delta == 0 else cut(loss, delta)
    if not math.isfinite(top):
        return math.inf
    if top <= 0:
        return 0.0
    lost = -math.log1p(-delta)
    curve = _curve(loss, top, lost)
    return _supremum(curve, top + lost, first=_first_order(curve)) * ROUNDING


def cut(loss: PrivacyLoss, delta: float) -> float:
    """A t with P(|L| > t) <= delta and Q(|L| > t) <= delta: Chernoff, P(L > t) <= exp(s D_{1+s} - s t).

    It holds in both directions, and P(L < -t) <= e^{-t} Q(L < -t), so each tail may have delta / (1 + e^{-t}).
    (The exact tail would lower t by about log(10) / s; the supremum below is rarely reached there.)
    """
    curve = [(s, float(loss.renyi(order=1.0 + s))) for s in ORDERS]

    def within(tail: float) -> float:
        return min(divergence - math.log(tail) / s for s, divergence in curve)

    least = 0.9 * within(delta / 2.0)
    return max(least, within(delta / (1.0 + math.exp(-least))))


def _first_order(curve: Callable[[float], float]) -> float:
    """The lowest a - 1 on the ladder, where D_a, which bounds all lower orders, is least: lost / theta grows below."""
    return min((math.pow(10.0, n / 2) for n in range(-6, 1)), key=lambda theta: curve(theta) / theta)


def _curve(loss: PrivacyLoss, top: float, lost: float) -> Callable[[float], float]:
    """theta -> a convex bound on theta * D_{1 + theta} of the conditioned pair, both directions.

    min over s <= theta of s D_{1+s}(P||Q) + (theta - s) top, plus (1 + theta) lost, where lost = -log P(E) at most.
    The minimum is attained at theta until the slope reaches ``top`` and stays at that point from there on.
    """
    known: dict[float, float] = {0.0: 0.0}

    def at(theta: float) -> float:
        if theta not in known:
            value = float(loss.renyi(order=1.0 + theta)) * theta if theta <= LARGEST_ORDER else math.inf
            known[theta] = value if value == value else math.inf
        # every known point s <= theta gives a valid bound; at theta itself it is the plain curve
        return min(value + (theta - s) * top for s, value in known.items() if s <= theta) + (1.0 + theta) * lost

    return at


def _supremum(curve: Callable[[float], float], top: float, *, first: float) -> float:
    """sup over a > 1 of D_a / a, certified: chords of a convex curve between the rungs, ``top`` / a beyond the last."""
    rungs = [first]
    while True:
        theta = rungs[-1]
        if theta > LARGEST_ORDER or (len(rungs) > 3 and top / (1.0 + theta) <= _best(curve, rungs)):
            break
        rungs.append(theta * 1.6)
    values = [curve(theta) for theta in rungs]
    for _ in range(60):
        heights = [_chord(rungs[i], rungs[i + 1], values[i], values[i + 1]) for i in range(len(rungs) - 1)]
        reached = max(_ratio(theta, value) for theta, value in zip(rungs, values, strict=True))
        worst = max(range(len(heights)), key=heights.__getitem__)
        ends = max(values[0] / rungs[0], top / (1.0 + rungs[-1]))
        highest = max(heights[worst], ends)
        if heights[worst] <= reached * (1.0 + GAP) or heights[worst] <= ends:
            break
        middle = math.sqrt(rungs[worst] * rungs[worst + 1])
        rungs.insert(worst + 1, middle)
        values.insert(worst + 1, curve(middle))
    return highest


def _best(curve: Callable[[float], float], rungs: list[float]) -> float:
    return max(_ratio(theta, curve(theta)) for theta in rungs)


def _ratio(theta: float, value: float) -> float:
    return value / (theta * (1.0 + theta))


def _chord(left: float, right: float, low: float, high: float) -> float:
    """sup over [left, right] of (A + B theta) / (theta (1 + theta)) for the chord A + B theta, by its derivative."""
    if not math.isfinite(high):
        return math.inf
    slope = (high - low) / (right - left)
    start = low - slope * left
    best = max(_ratio(left, low), _ratio(right, high))
    if slope > 0 and start < 0:  # B x^2 + 2 A x + A = 0
        root = (-start + math.sqrt(start * start - start * slope)) / slope
        if left < root < right:
            best = max(best, _ratio(root, start + slope * root))
    return best
