"""Each accounting method applied to a whole expression; ``compare`` puts them in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.loss import PrivacyLoss
from tallystick.digits import ACCOUNTANT, down
from tallystick.digits import up as digits_up
from tallystick.rounding import TINY, up
from tallystick.theorems import clt, composition, conversions
from tallystick.theorems.clt import LossMoments
from tallystick.theorems.minimise import least
from tallystick.theorems.moments import HISTORICAL_MOMENTS, moments_epsilon
from tallystick.theorems.optimal import optimal_composition_epsilon
from tallystick.theorems.stepwise import StepProfile, step_profile
from tallystick.theorems.unlike import heterogeneous_optimal_composition

Steps = list[tuple[StepProfile, int]]


class DoesNotApply(Exception):
    """Why a method has no number for this composition."""


@dataclass(frozen=True, slots=True)
class MethodAnswer:
    """An epsilon and a word about how it was reached."""

    epsilon: float
    note: str


@dataclass(frozen=True, slots=True)
class Composition:
    """``times * loss``, with what is read from ``loss`` alone shared between all values of ``times``."""

    loss: PrivacyLoss
    times: int

    @property
    def whole(self) -> PrivacyLoss:
        """The composed loss."""
        return self.times * self.loss

    def steps(self) -> Steps:
        """Every leaf as a single release, with its count."""
        if self.loss.group > 1:
            raise DoesNotApply("a loss for groups: read it for single units, then apply group privacy")
        return [
            (step_profile(PrivacyLoss(((leaf, 1),), self.loss.protects)), self.times * count)
            for leaf, count in self.loss.terms
        ]

    def renyi(self, order: float) -> float:
        """Upper bound on the Renyi divergence of the whole."""
        return up(self.times * _renyi(self.loss, order))


@lru_cache(maxsize=100_000)
def _renyi(loss: PrivacyLoss, order: float) -> float:
    return float(loss.renyi(order=order))


def basic(whole: Composition, delta: float) -> MethodAnswer:
    """Return one delta_0 for all steps, or 0 for the pure ones if that is better."""
    steps = whole.steps()
    total = sum(count for _, count in steps)
    impure = sum(count for step, count in steps if math.isinf(step.pure))
    if impure and delta == 0.0:
        raise DoesNotApply("at delta = 0 a step has no finite epsilon")
    plans = []
    for spread, pure_at_zero in ((total, False), (max(impure, 1), True)):
        each = delta / spread
        parts = [
            count * (step.pure if pure_at_zero and math.isfinite(step.pure) else step.exact_epsilon(each))
            for step, count in steps
        ]
        plans.append((up(math.fsum(parts)), 0.0 if pure_at_zero and not impure else each, pure_at_zero))
    epsilon, each, pure_at_zero = min(plans)
    if math.isinf(epsilon):
        raise DoesNotApply("some step gives everything away more often than delta allows")
    if pure_at_zero and 0 < impure < total:  # at delta0 each, all the steps together would have more than delta
        rest = "the one step that is not pure" if impure == 1 else f"each of the {impure:,} steps that are not pure"
        return MethodAnswer(epsilon, f"delta0 = {each:.3g} for {rest}, 0 for the others")
    return MethodAnswer(epsilon, f"delta0 = {each:.3g} per step")


def advanced(whole: Composition, delta: float) -> MethodAnswer:
    """The smallest of the printed forms (exact mean), delta split between the steps and delta' by search."""
    steps = whole.steps()
    if delta == 0.0:
        raise DoesNotApply("advanced composition needs delta > 0")
    if delta == 1.0:
        return MethodAnswer(0.0, "delta = 1 allows everything")
    total = sum(count for _, count in steps)
    counts = [count for _, count in steps]

    def value(share: float, read: Callable[[StepProfile, float], float]) -> float:
        each, slack = share * delta / total, (1.0 - share) * delta
        parts = [read(step, each) for step, _ in steps]
        if not all(map(math.isfinite, parts)):
            return math.inf
        epsilon, _ = composition.advanced_composition_tight_mean(epsilons=parts, counts=counts, delta_slack=slack)
        return epsilon

    return _searched(steps, value, delta, total, wording="delta0 = {each:.3g} per step, delta' = {slack:.3g}")


def optimal(whole: Composition, delta: float) -> MethodAnswer:
    """Kairouz-Oh-Viswanath for the steps at the best delta_0; unlike steps by their certified enclosure."""
    steps = whole.steps()
    if delta == 0.0:
        return basic(whole, delta)
    if delta == 1.0:
        return MethodAnswer(0.0, "delta = 1 allows everything")
    total = sum(count for _, count in steps)

    def value(share: float, read: Callable[[StepProfile, float], float]) -> float:
        each = share * delta / total
        parts = [read(step, each) for step, _ in steps]
        return _optimal_of(parts, [count for _, count in steps], each, delta)

    # all of delta may go to the steps: this method needs no slack of its own
    return _searched(
        steps, value, delta, total, wording="delta0 = {each:.3g} per step", coarse=len(steps) > 1, whole=[1.0 - 1e-9]
    )


def moments(whole: Composition, delta: float) -> MethodAnswer:
    """Whole moments up to 32 and the tail bound, as in 2016."""
    _needs_renyi(whole, delta)

    def log_moment(lam: int) -> float:
        return lam * whole.renyi(1.0 + lam)

    epsilon = moments_epsilon(log_moment, delta=delta)
    return _finite(MethodAnswer(epsilon, f"whole moments up to {HISTORICAL_MOMENTS}"))


def rdp_printed(whole: Composition, delta: float) -> MethodAnswer:
    """Renyi DP, Mironov's conversion at the best real order."""
    return _rdp(whole, delta, conversions.rdp_to_approx_printed)


def rdp_better(whole: Composition, delta: float) -> MethodAnswer:
    """Renyi DP, the better conversion at the best real order."""
    return _rdp(whole, delta, conversions.rdp_to_approx)


def zcdp(whole: Composition, delta: float) -> MethodAnswer:
    """The least rho known for each leaf, added, then converted at the best order."""
    steps = whole.steps()
    if not 0.0 < delta < 1.0:
        raise DoesNotApply("the conversion needs 0 < delta < 1")
    rho = up(math.fsum(count * step_rho(step.loss) for step, count in steps))
    if math.isinf(rho):
        raise DoesNotApply("a step's Renyi curve is not under rho * order for any rho that is known")
    return MethodAnswer(conversions.zcdp_to_approx(rho=rho, delta=delta), f"rho = {rho:.5g}")


def limit(whole: Composition, delta: float) -> MethodAnswer:
    """The Gaussian limit of the sum of losses, worse direction, and the Berry-Esseen band around the truth."""
    steps = whole.steps()
    if not 0.0 < delta < 1.0:
        raise DoesNotApply("the limit is computed for 0 < delta < 1")
    forward = [_moments_of(step.loss.terms[0][0], Direction.REMOVE) for step, _ in steps]
    backward = [_moments_of(step.loss.terms[0][0], Direction.ADD) for step, _ in steps]
    counts = [count for _, count in steps]
    ways = ((forward, backward), (backward, forward))
    widest = max((_limit_of(one, other, counts) for one, other in ways), key=lambda gauss: gauss.mu)
    bands = [_band_of(one, other, counts).epsilon_band(delta=delta) for one, other in ways]
    low, high = max(band[0] for band in bands), max(band[1] for band in bands)
    note = f"mu = {widest.mu:.5g}, gamma = {widest.gamma:.3g}, Berry-Esseen band [{low:.4g}, {high:.4g}]"
    return MethodAnswer(widest.epsilon(delta=delta), note)


def tight(whole: Composition, delta: float) -> MethodAnswer:
    """Return the certified bounds of this package."""
    bounds = whole.whole.epsilon_bounds(delta=delta)
    ends = f"{down(bounds.lower, ACCOUNTANT)} and {digits_up(bounds.upper, ACCOUNTANT)}"
    return MethodAnswer(bounds.upper, f"certified between {ends}")


@lru_cache(maxsize=512)
def step_rho(loss: PrivacyLoss) -> float:
    """The least rho with D_a <= rho a at every order that is known for one release; infinite if none is.

    >>> import tallystick as ts
    >>> round(step_rho(ts.gaussian(sigma=2)), 6), round(step_rho(ts.exponential(epsilon=1)), 6)
    (0.125, 0.125)
    """
    leaf = loss.terms[0][0]
    known = leaf.concentrated()
    if known is not None:
        return up(float(known[0])) if known[1] == 0 else math.inf
    if leaf.only_renyi:
        return math.inf
    pure = float(loss.epsilon(delta=0.0))
    if math.isfinite(pure):
        return min(conversions.pure_to_zcdp(epsilon=pure), _ladder_rho(loss, pure))
    mu = float(loss.gdp_bound())
    return up(mu * mu / 2.0)


def _ladder_rho(loss: PrivacyLoss, pure: float) -> float:
    """sup over orders of D_a/a <= max over a ladder of D_{next}/a, and pure/a_max beyond it: D increases with a."""
    if pure == 0.0:
        return 0.0
    order, worst = 1.0, 0.0
    for _ in range(2000):
        following = order * 1.01
        worst = max(worst, _renyi(loss, following) / order)
        order = following
        if pure / order <= worst:
            break
    return up(max(worst, pure / order))


def _rdp(whole: Composition, delta: float, convert: Callable[..., float]) -> MethodAnswer:
    _needs_renyi(whole, delta)

    def value(log_gap: float) -> float:
        order = 1.0 + math.exp(log_gap)
        divergence = whole.renyi(order)
        return convert(order=order, epsilon=divergence, delta=delta) if math.isfinite(divergence) else math.inf

    # a curve given at a few orders is finite only up to the last of them, usually a whole number
    whole_orders = [math.log(order - 1.0) for order in range(2, HISTORICAL_MOMENTS + 2)]
    best = min(least(value, math.log(1e-2), math.log(1e5), scan=50, refine=16), *whole_orders, key=value)
    return _finite(MethodAnswer(value(best), f"order {1.0 + math.exp(best):.4g}"))


def _needs_renyi(whole: Composition, delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise DoesNotApply("the conversion needs 0 < delta < 1")
    if math.isinf(_renyi(whole.loss, 1.0 + 1e-2)):
        raise DoesNotApply(
            "the pair has mass at infinity (an outcome that gives everything away), so no Renyi divergence is finite"
        )


def _finite(answer: MethodAnswer) -> MethodAnswer:
    if math.isinf(answer.epsilon):
        raise DoesNotApply("no order of the curve is finite")
    return answer


def _searched(
    steps: Steps,
    value: Callable[[float, Callable[[StepProfile, float], float]], float],
    delta: float,
    total: int,
    *,
    wording: str,
    coarse: bool = False,
    whole: Sequence[float] = (),
) -> MethodAnswer:
    """Search the share of delta that the steps get, on the tables; then read the steps exactly at the best share."""
    shares = [*whole, *([0.0] if all(math.isfinite(step.pure) for step, _ in steps) else [])]
    best = least(
        lambda s: value(math.exp(s), StepProfile.estimate),
        math.log(1e-9),
        math.log(0.999),
        scan=10 if coarse else 30,
        refine=2 if coarse else 12,
    )
    # a step that leaks is best read at its leak, a single point that no search hits
    leak = max(step.leak for step, _ in steps) * total / delta * (1.0 + 1e-9)
    shares += [math.exp(best), *([leak] if 1e-9 < leak < 1.0 else [])]
    epsilon, share = min((value(s, StepProfile.exact_epsilon), s) for s in shares)
    if math.isinf(epsilon):
        raise DoesNotApply("some step gives everything away more often than delta allows")
    return MethodAnswer(epsilon, wording.format(each=share * delta / total, slack=(1.0 - share) * delta))


def _optimal_of(parts: list[float], counts: list[int], each: float, delta: float) -> float:
    if not all(map(math.isfinite, parts)):
        return math.inf
    if len(parts) == 1 and delta >= TINY:
        return optimal_epsilon(parts[0], counts[0], each, delta)
    bounds = heterogeneous_optimal_composition(
        epsilons=parts, counts=counts, deltas=[each] * len(parts), total_delta=delta
    )
    return bounds.upper


def optimal_epsilon(epsilon: float, steps: int, each: float, delta: float) -> float:
    """Kairouz-Oh-Viswanath in closed form.

    >>> round(optimal_epsilon(0.1, 1000, 0.0, 1e-6), 4)
    19.3447
    """
    return optimal_composition_epsilon(epsilon=epsilon, steps=steps, delta=each, total_delta=delta)


def _moments_of(leaf: Leaf, direction: Direction) -> LossMoments:
    import numpy as np

    if leaf.only_renyi:
        raise DoesNotApply("only a Renyi curve is known, not the loss itself")
    law = leaf.pair(direction).upper
    if law.infinity > TINY:
        raise DoesNotApply("the pair has mass at infinity: its loss has no moments")
    values, logs = law.nodes()
    masses = np.exp(logs)
    masses = masses / masses.sum()
    mean = float(np.dot(masses, values))
    return LossMoments(
        kl=mean,
        k2=float(np.dot(masses, values**2)),
        k3=float(np.dot(masses, np.abs(values) ** 3)),
        k3_bar=float(np.dot(masses, np.abs(values - mean) ** 3)),
    )


def _limit_of(one: list[LossMoments], other: list[LossMoments], counts: list[int]) -> clt.GaussianLimit:
    """mu = (KL one way + KL the other way)/standard deviation: 2 kl/s for symmetric steps."""
    kl = math.fsum(n * (a.kl + b.kl) for a, b, n in zip(one, other, counts, strict=True))
    variance = math.fsum(n * a.variance for a, n in zip(one, counts, strict=True))
    third = math.fsum(n * a.k3_bar for a, n in zip(one, counts, strict=True))
    _, deviation, gamma = clt.normal_sum(kl, variance, third, steps=sum(counts))
    return clt.GaussianLimit(kl / deviation if deviation > 0.0 else 0.0, gamma)


def _band_of(one: list[LossMoments], other: list[LossMoments], counts: list[int]) -> clt.LossBand:
    return clt.LossBand(_scaled_sum(one, counts), _scaled_sum(other, counts))


def _scaled_sum(steps: list[LossMoments], counts: list[int]) -> tuple[float, float, float]:
    mean = math.fsum(n * a.kl for a, n in zip(steps, counts, strict=True))
    variance = math.fsum(n * a.variance for a, n in zip(steps, counts, strict=True))
    third = math.fsum(n * a.k3_bar for a, n in zip(steps, counts, strict=True))
    return clt.normal_sum(mean, variance, third, steps=sum(counts))
