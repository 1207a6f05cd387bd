"""Read-outs proved by ball arithmetic: from leaves to ``numerics.rigorous``. Needs ``tallystick[rigorous]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.leaf import Leaf
from tallystick.errors import NotComputable, Unavailable

try:
    from flint import arb

    from tallystick.numerics import rigorous, rigorous_continuous, rigorous_exact, rigorous_laws
except ImportError as problem:
    raise Unavailable(
        "rigorous=True needs ball arithmetic, which is not installed: pip install tallystick[rigorous]"
    ) from problem

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Law = rigorous_laws.BallLaw
Ball = Any


@dataclass(frozen=True, slots=True)
class Ask:
    """What a leaf's law is wanted for."""

    rate: Ball | None
    removing: bool
    log_tiny: float
    """Mass of an infinite lattice that may be left out and is added as an error."""
    upper: bool
    """The dominating pair, or (bounded range composed) the one that is dominated."""


def _discrete(base: Callable[[Any, Ask], Any]) -> Callable[[Any, Ask], Law]:
    return lambda leaf, ask: rigorous_laws.discrete_law(base(leaf, ask), ask.rate, ask.removing)


def _gaussian(mu: Callable[[Any], Ball]) -> Callable[[Any, Ask], Law]:
    return lambda leaf, ask: rigorous_continuous.gaussian_law(mu(leaf), ask.rate, ask.removing)


def _bounded_range(leaf: Any, ask: Ask) -> Law:
    if ask.upper and leaf.epsilon > 0.0:
        return rigorous_continuous.bounded_range_law(arb(leaf.epsilon), ask.rate, ask.removing)
    half = rigorous_laws.two_points(arb(leaf.epsilon) / 2, arb(0))
    return rigorous_laws.discrete_law(half, ask.rate, ask.removing)


LAWS: dict[str, Callable[[Any, Ask], Law]] = {
    "gaussian": _gaussian(lambda leaf: 1 / arb(leaf.sigma)),
    "gdp": _gaussian(lambda leaf: arb(leaf.mu)),
    "laplace": lambda leaf, ask: rigorous_continuous.laplace_law(arb(leaf.scale), ask.rate, ask.removing),
    "exponential": _bounded_range,
    "pure_dp": _discrete(lambda leaf, ask: rigorous_laws.two_points(arb(leaf.epsilon), arb(0))),
    "approx_dp": _discrete(lambda leaf, ask: rigorous_laws.two_points(arb(leaf.epsilon), arb(leaf.delta))),
    "randomized_response": _discrete(
        lambda leaf, ask: rigorous_laws.two_points(arb(leaf.epsilon), arb(0), leaf.choices)
    ),
    "discrete_gaussian": _discrete(
        lambda leaf, ask: rigorous_laws.discrete_gaussian_base(arb(leaf.sigma), leaf.sensitivity, ask.log_tiny)
    ),
    "discrete_laplace": _discrete(
        lambda leaf, ask: rigorous_laws.discrete_laplace_base(arb(leaf.scale), leaf.sensitivity)
    ),
    "discrete_pair": _discrete(lambda leaf, ask: rigorous_laws.listed_pair(leaf.p, leaf.q)),
}
"""Every leaf that is covered, by its ``kind``."""


def law_of(leaf: Leaf, ask: Ask) -> Law:
    """The law of one leaf; Poisson sampling is unwrapped."""
    if leaf.kind == "sampled" and ask.rate is None:
        inner: Any = leaf
        return law_of(inner.base, Ask(arb(inner.rate), ask.removing, ask.log_tiny, ask.upper))
    if leaf.kind not in LAWS:
        raise NotComputable(f"no rigorous read-out of {leaf.kind}; covered are {', '.join(sorted(LAWS))} and .sampled")
    return LAWS[leaf.kind](leaf, ask)


@dataclass(frozen=True, slots=True)
class RigorousReader:
    """Both read-outs of one loss, the worse of its directions."""

    loss: PrivacyLoss

    def delta_bounds(self, epsilon: float) -> Bounds:
        """delta at epsilon, proved on both sides."""
        return self._worst(lambda side: side.delta(epsilon))

    def epsilon_bounds(self, delta: float) -> Bounds:
        """epsilon at delta, proved on both sides."""
        return self._worst(lambda side: side.epsilon(delta))

    def _worst(self, read: Callable[[rigorous.BallSum], tuple[float, float]]) -> Bounds:
        if self.loss.group != 1:
            raise NotComputable("no rigorous read-out of losses for groups")
        if not self.loss.terms:
            return Bounds(0.0, 0.0)
        found = [read(self._side(way, True)) for way in self._ways]
        upper = max(pair[1] for pair in found)
        if self._bracketed:
            found = [read(self._side(way, False)) for way in self._ways]
        return Bounds(max(pair[0] for pair in found), upper)

    @property
    def _ways(self) -> tuple[Direction, ...]:
        both = self.loss.adjacency is Adjacency.ADD_REMOVE and not all(leaf.symmetric for leaf, _ in self.loss.terms)
        return tuple(Direction) if both else (Direction.REMOVE,)

    @property
    def _bracketed(self) -> bool:
        """Several steps of bounded range have no single worst pair: the lower end comes from another one."""
        kinds = [getattr(leaf, "base", leaf).kind for leaf, _ in self.loss.terms]
        return "exponential" in kinds and sum(count for _, count in self.loss.terms) > 1

    def _side(self, way: Direction, upper: bool) -> rigorous.BallSum:
        count = sum(times for _, times in self.loss.terms)
        removing = way is Direction.REMOVE

        def laws(log_delta: float) -> list[tuple[Law, int]]:
            tiny = rigorous_exact.log_tiny(log_delta, count)
            return [(law_of(leaf, Ask(None, removing, tiny, upper)), times) for leaf, times in self.loss.terms]

        return rigorous.BallSum(laws, count)
