"""One training run with many canaries: how many guesses about their coins were right?

docs/theory/one-run-audit.md has the proof. W of k guesses among m fair coins are correct; flipping one coin turns "this
guess is correct and W >= c" into "this guess is wrong and W >= c - 1" with the same output, so that f-DP bounds

    sum over w >= c of (w/m) Pr[W = w]   by   g(sum over w >= c - 1 of ((k - w)/m) Pr[W = w]),     g = 1 - f,

for every c. The largest Pr[W >= v] that these allow is found by a recursion; a claim is refuted at level s where Pr = s
is more than they allow. The number of guesses is declared before anything is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, ndtri

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.curves import LARGEST_EPSILON, least_alarm, tangents
from tallystick.audit.evidence import NOTHING, Evidence, leak
from tallystick.audit.inclusion import coins_of
from tallystick.errors import InvalidInput

Inverse = Callable[[float], float]
"""The least h with g(h) >= r, rounded down."""

IN, BOTH = "in", "both"
MOST_GUESSES = 10**5
LARGEST_MU = 40.0
_DOWN = 1.0 - 1e-12
NEARLY = 1.02  # a number of guesses may catch this much less, and refute more of a claim that is exactly true
ASSUMED_DELTA = 1e-5
"""Where a claim is matched to a Gaussian when the number of guesses is planned; any number of guesses is valid."""

REPLACED = "that each coin chose between two canaries, one of which was always there: the claim is about replacing"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun(Evidence):
    """Evidence from declared guesses: ``correct`` of ``guesses`` among ``canaries``, in the worst of ``runs``."""

    canaries: int
    guesses: int
    correct: int
    runs: int
    side: str

    def epsilon_at_least(self, *, delta: float) -> float:
        level = check.probability("delta", delta)
        return _largest(lambda e: self._refuted(approximate_inverse(e, level)), LARGEST_EPSILON)

    def _refuted(self, inverse: Inverse) -> bool:
        level = self.significance ** (1.0 / self.runs)
        return refuted(self.canaries, self.guesses, self.correct, level, sided(inverse, self.side))

    def to_dict(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("canaries", "guesses", "correct", "runs", "side")}
        return {**Evidence.to_dict(self), **own}


def one_run(
    scores: Any,
    coins: Any,
    *,
    claim: PrivacyLoss,
    guesses: int | None = None,
    significance: float = 0.05,
    side: str = BOTH,
    runs: int | None = None,
) -> OneRun:
    """Evidence against ``claim`` from one training run (or a few) in which canaries were included by coins.

    ``scores`` is one number per canary, larger where it looks included; ``coins`` is what ``ts.audit.coins`` drew. The
    ``guesses`` scores furthest from their median are guessed ("in" above, "out" below; with ``side="in"`` the
    largest are guessed "in"). Their number is declared here, before the coins are looked at: by default what
    :func:`plan_one_run` says for the claim. For several independent runs pass a list of scores and a list of coins:
    the run with the fewest correct guesses counts, at a separate level.

    >>> from tallystick.accounting.losses import gdp
    >>> from tallystick.audit.inclusion import coins
    >>> drawn = coins(1000, seed=1)
    >>> leaky = 6.0 * drawn.included + np.random.default_rng(2).normal(size=1000)
    >>> found = one_run(leaky, drawn, claim=gdp(mu=1), guesses=100)
    >>> found.verdict, found.mu_at_least > 1
    ('FALSIFIED', True)
    """
    every_scores, every_coins = _runs(scores, coins, runs)
    level = check.inside("significance", significance)
    if side not in (IN, BOTH):
        raise InvalidInput("side", side, f"{IN!r} or {BOTH!r}")
    if not isinstance(claim, PrivacyLoss):
        raise InvalidInput("claim", claim, "a PrivacyLoss: what was promised")
    canaries = every_scores[0].size
    tossed = [coins_of(one, canaries) for one in every_coins]
    if guesses is None:
        guesses = plan_one_run(claim, canaries=canaries, significance=level, side=side, runs=len(every_coins)).guesses
    count = check.count("guesses", guesses, least=1, most=min(canaries, MOST_GUESSES))
    assumed = [REPLACED] if claim.adjacency is Adjacency.REPLACE else []
    assumed += dict.fromkeys(text for _, told in tossed for text in told)
    correct = [_correct(values, one[0], count, side) for values, one in zip(every_scores, tossed, strict=True)]
    if len(correct) > 1:
        assumed.append("that the runs are independent, each with its own coins")
    worst, each = min(correct), level ** (1.0 / len(correct))
    claimed = sided(claim_inverse(claim), side)
    p = _least_level(lambda s: refuted(canaries, count, worst, s, claimed)) ** len(correct)
    return OneRun(
        attack=f"{worst} of {count} guesses correct among {canaries} canaries"
        + (f", worst of {len(correct)} runs" if len(correct) > 1 else ""),
        claim=str(claim),
        significance=level,
        p_value=p,
        mu_at_least=_largest(
            lambda mu: refuted(canaries, count, worst, each, sided(gaussian_inverse(mu), side)), LARGEST_MU
        ),
        assumes=tuple(assumed),
        detects=_said(least_caught(canaries, count, len(correct), each, claimed, side)),
        canaries=canaries,
        guesses=count,
        correct=worst,
        runs=len(correct),
        side=side,
    )


def _runs(scores: Any, coins: Any, runs: int | None) -> tuple[list[NDArray[np.float64]], list[Any]]:
    several = isinstance(coins, list | tuple) and len(coins) > 0 and not isinstance(coins[0], bool | np.bool_)
    every_scores = list(scores) if several else [scores]
    every_coins: list[Any] = list(coins) if several else [coins]
    if len(every_scores) != len(every_coins) or (runs is not None and runs != len(every_coins)):
        raise InvalidInput("runs", runs or len(every_scores), f"as many scores as coins ({len(every_coins)})")
    arrays = [_scores(values) for values in every_scores]
    if any(array.size != arrays[0].size for array in arrays):
        raise InvalidInput("scores", [array.size for array in arrays], "as many canaries in every run")
    named = [tossed.commitment for tossed in every_coins if hasattr(tossed, "commitment")]
    if len(set(named)) != len(named):
        raise InvalidInput("coins", "the same coins twice", "coins drawn anew for every run")
    return arrays, every_coins


def _scores(values: Any) -> NDArray[np.float64]:
    allowed = "one finite number per canary"
    if np.iscomplexobj(values):
        raise InvalidInput("scores", "complex numbers", allowed)
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("scores", type(values).__name__, allowed) from None
    if array.ndim != 1 or array.size == 0 or not bool(np.isfinite(array).all()):
        raise InvalidInput("scores", f"shape {array.shape}, {int((~np.isfinite(array)).sum())} not finite", allowed)
    return array


def _correct(scores: NDArray[np.float64], included: NDArray[np.bool_], guesses: int, side: str) -> int:
    """How many declared guesses are right. Which ones are made depends on the scores alone, never on the coins."""
    if side == IN:
        chosen = np.argsort(-scores, kind="stable")[:guesses]
        return int(included[chosen].sum())
    moved = np.ldexp(scores, -2)  # so that no difference overflows
    moved = moved - _middle(moved)
    chosen = np.argsort(-np.abs(moved), kind="stable")[:guesses]
    return int((included[chosen] == (moved[chosen] > 0)).sum())


def _middle(scores: NDArray[np.float64]) -> float:
    """The median; where many scores are equal to it, the nearer gap beside them, so that equals are guessed alike."""
    ordered, half = np.sort(scores), scores.size // 2
    median = float(np.median(scores))
    first, after = (int(np.searchsorted(ordered, median, side=side)) for side in ("left", "right"))
    gaps = [place for place in (first, after) if 0 < place < scores.size]
    if after - first <= 1 or not gaps:
        return median
    place = min(gaps, key=lambda at: abs(at - half))
    return float(ordered[place - 1] + ordered[place]) / 2.0


def refuted(canaries: int, guesses: int, correct: int, level: float, inverse: Inverse) -> bool:
    """Is Pr[W >= correct] = level more than the constraints allow?

    >>> refuted(8, 4, 4, 0.46, gaussian_inverse(1.0)), refuted(8, 4, 4, 0.45, gaussian_inverse(1.0))
    (True, False)
    """
    m, k = canaries, guesses
    right, wrong = level * correct / m, level * (k - correct) / m
    for i in range(correct - 1, -1, -1):
        needed = inverse(right)
        if needed <= wrong:
            break
        right, wrong = min(1.0, right + i / (k - i) * (needed - wrong)), needed
        if right + wrong > k / m * (1.0 + 1e-9):
            return True
    return right + wrong > k / m * (1.0 + 1e-9)


def sided(inverse: Inverse, side: str) -> Inverse:
    """With "in" guesses only g(2h)/2 takes the place of g(h): it is smaller, and the test stronger."""
    return inverse if side == BOTH else lambda r: 0.5 * inverse(min(1.0, 2.0 * r))


def gaussian_inverse(mu: float) -> Inverse:
    """g^{-1} of mu-GDP: Phi(Phi^{-1}(r) - mu)."""
    return lambda r: float(ndtr(ndtri(min(1.0, r)) - mu)) * _DOWN if r > 0.0 else 0.0


def approximate_inverse(epsilon: float, delta: float) -> Inverse:
    """g^{-1} of (epsilon, delta)-DP: the larger of its two lines."""
    factor = math.exp(epsilon)
    return lambda r: max(0.0, (r - delta) / factor, 1.0 - delta - (1.0 - r) * factor) * _DOWN


def claim_inverse(claim: PrivacyLoss) -> Inverse:
    """g^{-1} of any loss, from tangents of its symmetrised curve, as guesses of both kinds need."""
    lines = tangents(claim)
    return lambda r: least_alarm(lines, r) * _DOWN


def _largest(is_refuted: Callable[[float], bool], most: float) -> float:
    """The largest parameter that is refuted, rounded down; 0 if not even the smallest is."""
    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, most
    for _ in range(44):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def _least_level(is_refuted: Callable[[float], bool]) -> float:
    """The least level at which a claim is refuted: the p-value, rounded up."""
    if not is_refuted(1.0 - 1e-12):
        return 1.0
    low, high = math.log(1e-300), 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_refuted(math.exp(middle)) else (middle, high)
    return min(1.0, math.exp(high) * (1.0 + 1e-9))


@dataclass(frozen=True, slots=True)
class OneRunPlan:
    """How many guesses to declare, and what they can show.

    ``expected`` is the mu that would be refuted in half of the audits if the claim is exactly true; ``caught`` the
    least mu of a run that half of the audits would find to break the claim, None where nothing can be. Both are
    strengths, not evidence.
    """

    canaries: int
    guesses: int
    side: str
    expected: float
    caught: float | None

    def __str__(self) -> str:
        shown = f"Half of the audits would catch {_said(self.caught)}" if self.caught else f"They can catch {NOTHING}"
        return (
            f"Declare {self.guesses} guesses among {self.canaries} canaries. {shown}. "
            f"If the claim is exactly true, up to {leak(self.expected)} will be refuted."
        )


def plan_one_run(
    claim: PrivacyLoss, *, canaries: int, significance: float = 0.05, side: str = BOTH, runs: int = 1
) -> OneRunPlan:
    """The number of guesses that catches the least violation, chosen from the claim alone: before there are scores.

    Among numbers that catch nearly as much it is the one that refutes most where the claim is exactly true.

    >>> from tallystick.accounting.losses import gdp
    >>> 150 <= plan_one_run(gdp(mu=1), canaries=10_000).guesses <= 600
    True
    """
    if not isinstance(claim, PrivacyLoss):
        raise InvalidInput("claim", claim, "a PrivacyLoss: what was promised")
    m, times = check.count("canaries", canaries, least=1), check.count("runs", runs, least=1)
    level = check.inside("significance", significance) ** (1.0 / times)
    if side not in (IN, BOTH):
        raise InvalidInput("side", side, f"{IN!r} or {BOTH!r}")
    mu, claimed = _gaussian_like(claim), sided(claim_inverse(claim), side)
    ladder = sorted({min(m, MOST_GUESSES, max(1, round(1.25**j))) for j in range(60)})

    def strength(k: int) -> float:
        correct = usually_correct(mu, k, m, side, times)
        return _largest(lambda x: refuted(m, k, correct, level, sided(gaussian_inverse(x), side)), 2.0 * mu + 1.0)

    caught = {k: least_caught(m, k, times, level, claimed, side) for k in ladder if k >= min(m, 5)}
    least = min((found for found in caught.values() if found), default=None)
    near = [k for k, found in caught.items() if least is None or (found and found <= NEARLY * least)]
    strengths = {k: strength(k) for k in near}
    best = max(near, key=lambda k: (strengths[k], -k))
    return OneRunPlan(m, best, side, strengths[best], caught[best])


def usually_correct(mu: float, guesses: int, canaries: int, side: str, runs: int) -> int:
    """The median, over audits, of the fewest correct guesses in any of the runs, if a run leaks like mu.

    >>> [usually_correct(1.0, 100, 1000, BOTH, runs) for runs in (1, 8)]
    [90, 86]
    """
    share = accuracy(mu, guesses / canaries, side)
    low, high = 0, guesses
    while low < high:
        middle = (low + high) // 2
        at_most = float(bdtr(float(middle), guesses, share)) if share < 1.0 else 0.0
        low, high = (low, middle) if 1.0 - (1.0 - at_most) ** runs >= 0.5 else (middle + 1, high)
    return low


def _gaussian_like(claim: PrivacyLoss) -> float:
    """The mu of a Gaussian with the claim's epsilon at a usual delta: for planning only."""
    wanted = float(claim.epsilon(delta=ASSUMED_DELTA))
    low, high = 1e-3, LARGEST_MU
    if not math.isfinite(wanted):
        return 1.0
    from tallystick.accounting import gdp

    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if gdp.epsilon_bounds(middle, ASSUMED_DELTA).lower < wanted else (low, middle)
    return low


def accuracy(mu: float, share: float, side: str) -> float:
    """The expected share of correct guesses, if scores are +-mu/2 plus standard normal noise.

    >>> round(accuracy(1.0, 0.03, BOTH), 3)
    0.939
    """

    def tails(cut: float) -> tuple[float, float]:
        return float(ndtr(mu / 2.0 - cut)), float(ndtr(-mu / 2.0 - cut))

    low, high = -mu - 40.0 if side == IN else 0.0, mu + 40.0
    for _ in range(80):
        middle = (low + high) / 2.0
        right, wrong = tails(middle)
        guessed = (right + wrong) / (2.0 if side == IN else 1.0)
        low, high = (middle, high) if guessed > share else (low, middle)
    right, wrong = tails(low)
    return right / (right + wrong) if right + wrong > 0.0 else 1.0


def least_caught(canaries: int, guesses: int, runs: int, level: float, claimed: Inverse, side: str) -> float | None:
    """The least mu of a run by which half of the audits would refute the claim; None where not even k of k would."""
    if not refuted(canaries, guesses, guesses, level, claimed):
        return None
    low, high = 0.0, LARGEST_MU
    for _ in range(20):
        middle = (low + high) / 2.0
        correct = usually_correct(middle, guesses, canaries, side, runs)
        low, high = (low, middle) if refuted(canaries, guesses, correct, level, claimed) else (middle, high)
    return high


def _said(mu: float | None) -> str:
    return f"a run that leaks like {leak(mu)}" if mu else f"{NOTHING}: more canaries or guesses are needed"
