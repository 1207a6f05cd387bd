"""The one noun of tallystick: a privacy loss, as an immutable expression."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tallystick import strict_json
from tallystick.accounting import check
from tallystick.accounting.adjacency import ANY_UNIT, Adjacency, Direction, Protects
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.leaf import Leaf, Terms, check_terms, merged, read_leaf, written_sum
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array

if TYPE_CHECKING:
    from tallystick.accounting.certificate import Certificate
    from tallystick.accounting.readout import Reader
    from tallystick.accounting.rigorous import RigorousReader
    from tallystick.accounting.variable import PrivacyLossVariable

LARGEST_GROUP = 10**6
LONGEST_SHOWN = 400
"""Characters of a loss that a person is shown; stored texts have all of them."""
FORMAT = "tallystick.loss/1"
FIELDS = {"format", "adjacency", "unit", "group", "terms"}


@dataclass(frozen=True)
class PrivacyLoss:
    """Privacy loss of a release: a sum of ``(leaf, count)`` terms under one adjacency.

    Losses add under (adaptive) composition; nothing is turned into a number before it is read.

    >>> import tallystick as ts
    >>> training = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    >>> print(training + ts.laplace(scale=2))
    1000 * gaussian(sigma=1).sampled(rate=0.01) + laplace(scale=2)
    """

    terms: Terms
    protects: Protects = ANY_UNIT
    group: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.protects, Protects):
            raise InvalidInput("protects", self.protects, "Protects(adjacency, unit)")
        if type(self.group) is not int or not 1 <= self.group <= LARGEST_GROUP:
            check.keep(self, group=check.count("group", self.group, least=1, most=LARGEST_GROUP))
        check_terms(self.terms, self.adjacency)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation that this loss is about."""
        return self.protects.adjacency

    @property
    def unit(self) -> str | None:
        """The name of the protected unit, where there is one."""
        return self.protects.unit

    # ---- algebra ----

    def __add__(self, other: Any) -> PrivacyLoss:
        if other == 0:
            return self
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        if not self.terms and other.adjacency is not self.adjacency:
            return other
        if not other.terms and other.adjacency is not self.adjacency:
            return self
        if self.group != other.group and self.terms and other.terms:
            raise InvalidInput("for_groups", (self.group, other.group), "losses of one group size; group the sum")
        protects = self.protects.joined(other.protects)
        return PrivacyLoss(merged(self.terms + other.terms), protects, max(self.group, other.group))

    __radd__ = __add__

    def __mul__(self, times: Any) -> PrivacyLoss:
        if isinstance(times, PrivacyLoss):
            return NotImplemented
        number = check.count("count", times)
        terms = tuple((leaf, check.count("count", count * number)) for leaf, count in self.terms) if number else ()
        return PrivacyLoss(terms, self.protects, self.group)

    __rmul__ = __mul__

    def sampled(
        self, *, rate: float, largest: int | None = None, population: int | None = None, cut: str | None = None
    ) -> PrivacyLoss:
        """The loss when each unit takes part with probability ``rate``, independently (Poisson sampling).

        Rate 0 loses nothing, rate 1 changes nothing; others are at least 1e-300. Only for add/remove neighbours: about
        replaced units say ``.sampled(...).as_replace()``, and ``subset`` for batches of a fixed size.
        With ``largest`` a bigger batch is cut to that size; ``population`` then bounds the number of units. ``cut``
        then says how, and has no default: "anyhow"; "ranked", where units are ranked without looking at their data
        and the first are kept; or
        "random", all rankings equally likely, where ``population`` is the size of the data itself
        (docs/theory/truncated-poisson.md).

        >>> import tallystick as ts
        >>> round(ts.pure_dp(epsilon=1).sampled(rate=0.1).epsilon(delta=0), 6)
        0.158565
        """
        if largest is None and population is None and cut is None:
            from tallystick.accounting.leaves.sampled import sampled

            return sampled(self, check.probability("rate", rate))
        from tallystick.accounting.leaves.truncated import truncated

        return truncated(self, check.probability("rate", rate), largest, population, cut)

    def allocated(self, *, steps: int) -> PrivacyLoss:
        """The loss of an epoch of ``steps`` steps where each unit takes part in exactly one, drawn uniformly.

        Each unit draws its step independently of the others ("balls and bins"); add/remove neighbours. This is
        not Poisson sampling at rate 1/steps, and can be worse (docs/theory/random-allocation.md).

        >>> import tallystick as ts
        >>> ts.gaussian(sigma=1).allocated(steps=1) == ts.gaussian(sigma=1)
        True
        """
        from tallystick.accounting.leaves.allocated import allocated

        return allocated(self, steps)

    def subset(self, *, batch: int, population: int, replacement: bool = False) -> PrivacyLoss:
        """The loss on a random subset of exactly ``batch`` of ``population`` units, REPLACE neighbours.

        With ``replacement`` the batch is that many independent draws, and one unit may be drawn several times; for
        losses whose groups have a closed form (docs/theory/subset-sampling.md).
        """
        from tallystick.accounting.leaves.sampled import subset

        return subset(self, batch, population, replacement)

    def for_groups(self, k: int) -> PrivacyLoss:
        """The loss for any group of ``k`` units; outermost, because sampling a group is not sampling a unit.

        >>> import tallystick as ts
        >>> ts.gdp(mu=1).for_groups(2).epsilon(delta=1e-5) == ts.gdp(mu=2).epsilon(delta=1e-5)
        True
        """
        size = check.count("k", k, least=1, most=LARGEST_GROUP)
        return PrivacyLoss(self.terms, self.protects, self.group * size)

    def split(self, parts: int) -> PrivacyLoss:
        """One of ``parts`` equal shares of a budget, rounded down to the ledger's unit.

        Charges round up and a limit rounds down, so twelve charges of rho 0.5/12 do not fit a limit of 0.5. Twelve
        charges of ``zcdp(rho=0.5).split(12)`` do. A budget in mu is split so that the squares add up.

        >>> import tallystick as ts
        >>> print(ts.zcdp(rho=0.5).split(12), ts.approx_dp(epsilon=1, delta=1e-6).split(3), ts.gdp(mu=1).split(4))
        zcdp(rho=0.041666666666, delta=0) approx_dp(epsilon=0.333333333333, delta=3.33333333333e-07) gdp(mu=0.5)
        """
        from tallystick.accounting.splitting import split

        return split(self, parts)

    def as_replace(self) -> PrivacyLoss:
        """The loss for replacing one unit, from a loss for adding or removing one.

        pure epsilon -> 2 epsilon; mu -> 2 mu; in general the larger of f_ADD(1 - f_REMOVE) and f_REMOVE(1 - f_ADD), a
        record less or a record more in between (docs/theory/adjacency.md; erratum 20).

        >>> import tallystick as ts
        >>> round(ts.laplace(scale=1).sampled(rate=0.1).as_replace().delta(epsilon=0), 4)
        0.0632
        """
        from tallystick.accounting.leaves.nested import replaced

        return replaced(self)

    # ---- order ----

    def __le__(self, other: Any) -> bool:
        """True only when certified: no test separates neighbours better under ``self`` than under ``other``."""
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        from tallystick.accounting.order import at_most

        return at_most(self, other)

    def __ge__(self, other: Any) -> bool:
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        return other <= self

    # ---- read-outs ----

    def epsilon(self, *, delta: Any, direction: Direction | str | None = None) -> Any:
        """The smallest epsilon that is certainly valid at ``delta``: an upper bound, never below the truth.

        Infinite only where it is true: at ``delta`` below the mass of outcomes that give everything away, or at
        delta = 0 for unbounded losses such as the Gaussian's. Arrays in, arrays out. With a ``direction`` ("remove" or
        "add") only that order of the two neighbours is read: never a guarantee by itself.

        >>> import tallystick as ts
        >>> round(ts.gaussian(sigma=1).epsilon(delta=1e-5), 4)
        4.3772
        """
        way = _way(direction)
        return self._each(
            "delta", delta, self._reader.epsilon_upper if way is None else self._reader.in_direction(way).epsilon_upper
        )

    def delta(self, *, epsilon: Any, direction: Direction | str | None = None) -> Any:
        """An upper bound on delta at ``epsilon``, in one ``direction`` or (None) the worse. Arrays in, arrays out.

        Below zero it is what the other direction says: 1 - e^epsilon + e^epsilon delta(-epsilon).

        >>> import tallystick as ts
        >>> step = ts.gaussian(sigma=1).sampled(rate=0.1)
        >>> [round(step.delta(epsilon=0.05, direction=way), 4) for way in ("remove", "add")]
        [0.0261, 0.0106]
        """
        way = _way(direction)
        return self._each("epsilon", epsilon, lambda e: self._reader.delta_at(e, way, above=True).upper)

    def epsilon_bounds(self, *, delta: float, rigorous: bool = False) -> Bounds:
        """Certified enclosure of epsilon at ``delta``.

        With ``rigorous`` both ends are proved by interval arithmetic (docs/theory/rigorous.md): slower, about 1e-15
        wide, and not for every composition. Needs ``tallystick[rigorous]``.
        """
        return self._bounds_reader(rigorous).epsilon_bounds(check.probability("delta", delta))

    def delta_bounds(
        self, *, epsilon: float, rigorous: bool = False, direction: Direction | str | None = None
    ) -> Bounds:
        """Certified enclosure of delta at ``epsilon``; proved by interval arithmetic with ``rigorous``."""
        way = _way(direction)
        if not _said(rigorous):
            return self._reader.delta_at(check.between("epsilon", epsilon, -1e300, 1e300), way)
        if way is not None:
            raise InvalidInput("direction", direction, "None: rigorous bounds are of the worse direction")
        return self._bounds_reader(True).delta_bounds(check.nonnegative("epsilon", epsilon))

    def tradeoff(self, *, alpha: Any) -> Any:
        """The attacker's least type-II error at false-positive rate ``alpha``: a lower bound.

        >>> import tallystick as ts
        >>> round(ts.gdp(mu=1).tradeoff(alpha=0.05), 4)
        0.7405
        """
        return self._each("alpha", alpha, self._reader.tradeoff)

    def power(self, *, alpha: Any) -> Any:
        """The largest power of an attacker at false-positive rate ``alpha``: an upper bound."""
        return self._each("alpha", alpha, self._reader.power)

    def renyi(self, *, order: Any) -> Any:
        """Renyi divergence of the given order (>= 1, 1 is KL, inf the largest loss): an upper bound.

        Infinite where it is true (mass that gives everything away; order inf of an unbounded loss).
        """
        array = check.numbers_in("order", order, 1.0, float("inf"), "orders >= 1 (inf allowed)")
        # Divergence grows with the order.
        return _like(np.where(array > check.LARGEST_DIVERGENCE, np.inf, array), self._reader.renyi)

    def total_variation(self) -> float:
        """Total variation distance, delta at epsilon 0: an upper bound."""
        return self._reader.delta_upper(0.0)

    def kl(self) -> float:
        """Kullback-Leibler divergence, the mean of the privacy loss: an upper bound."""
        return self._reader.renyi(1.0)

    def posterior(self, *, prior: Any, delta: float = 0.0) -> Any:
        """The belief that a ``prior`` can grow to, except with probability ``delta``: an upper bound.

        At delta 0 it is 1.0 for unbounded losses, which is true: a rare outcome can convince.

        >>> import tallystick as ts
        >>> round(ts.pure_dp(epsilon=1).posterior(prior=0.01), 4)
        0.0267
        """
        slack = check.probability("delta", delta)
        return self._each("prior", prior, lambda p: self._reader.posterior(p, slack))

    def bayes_risk(self, *, prior: Any) -> Any:
        """The least share of wrong guesses of an attacker who believes with ``prior`` that the unit is there.

        A lower bound: min(prior, 1 - prior) times 1 - delta at epsilon = |log odds|. At prior 1/2 it is
        (1 - total variation)/2.

        >>> import tallystick as ts
        >>> round(ts.pure_dp(epsilon=1).bayes_risk(prior=0.5), 4)
        0.2689
        """
        return self._each("prior", prior, self._reader.bayes_risk)

    def gdp_bound(self) -> float:
        """The smallest mu found for which this loss is certainly mu-GDP; infinite if no such mu was found."""
        return self._reader.gdp_bound()

    def privacy_loss(self, direction: Direction = Direction.REMOVE) -> PrivacyLossVariable:
        """The privacy-loss random variable in one direction."""
        from tallystick.accounting.variable import PrivacyLossVariable

        way = _way(direction)
        if way is None:
            raise InvalidInput("direction", direction, "'remove' or 'add': a loss variable has one direction")
        return PrivacyLossVariable(self, way)

    def explain_computation(self) -> str:
        """Return the route by which values of this loss are computed, in words."""
        return self._reader.explain()

    def certificate(self, *, delta: float | None = None, epsilon: float | None = None) -> Certificate:
        """A claim (epsilon, delta) about this loss that a stranger can check, without this library's accountant.

        At ``delta`` it claims an epsilon, at ``epsilon`` a delta: what the checker proves, a little above ``epsilon()``
        for long compositions (docs/guides/certificates.md). Needs ``tallystick[rigorous]``, takes up to some seconds.

        >>> import tallystick as ts
        >>> proof = (1000 * ts.randomized_response(epsilon=0.1)).certificate(delta=1e-6)
        >>> round(proof.epsilon, 6)
        19.344671
        """
        from tallystick.accounting.certificate import certificate

        return certificate(self, epsilon=epsilon, delta=delta)

    # ---- representation ----

    def to_json(self) -> str:
        """Canonical, versioned JSON: sorted keys, no spaces, shortest floats that read back exactly.

        The meaning of a written text never changes; new leaves get new kinds.

        >>> import tallystick as ts
        >>> ts.PrivacyLoss.from_json(ts.laplace(scale=2).to_json()) == ts.laplace(scale=2)
        True
        """
        body = {
            "format": FORMAT,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "group": self.group,
            "terms": [[leaf.to_record(), count] for leaf, count in self.terms],
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)

    @staticmethod
    def from_json(text: str) -> PrivacyLoss:
        """The loss written by ``to_json``; what no constructor makes is refused with the field named."""
        from tallystick.accounting import losses  # noqa: F401  (it defines the leaves)

        body = strict_json.read(text, allowed=f"JSON written by to_json ({FORMAT})")
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise InvalidInput("format", body.get("format") if isinstance(body, dict) else body, FORMAT)
        if set(body) != FIELDS:
            raise InvalidInput("text", sorted(body), "the fields " + ", ".join(sorted(FIELDS)))
        if not isinstance(body["terms"], list):
            raise InvalidInput("terms", body["terms"], "a list of [leaf, count]")
        terms = []
        for item in body["terms"]:
            if not isinstance(item, list) or len(item) != 2:
                raise InvalidInput("terms", item, "[leaf, count]")
            terms.append((read_leaf(item[0]), check.count("count", item[1], least=1)))
        return PrivacyLoss(merged(terms), Protects(body["adjacency"], body["unit"]), body["group"])

    def __str__(self) -> str:
        if not self.terms:
            text = f"no_loss({', '.join(self.protects.arguments(Adjacency.ADD_REMOVE))})"
            return text if self.group == 1 else f"{text}.for_groups({self.group})"
        text = written_sum(self.terms, self.protects)
        return text if self.group == 1 else f"({text}).for_groups({self.group})"

    def __repr__(self) -> str:
        unit = f", unit={self.unit!r}" if self.unit else ""
        return f"<PrivacyLoss {self._shown()} [{self.adjacency}{unit}]>"

    def _shown(self) -> str:
        """Text for people: a curve with hundreds of knots is cut, and ``str`` has all of it."""
        text = str(self)
        if len(text) <= LONGEST_SHOWN:
            return text
        half = LONGEST_SHOWN // 2
        return f"{text[:half]} ... {text[-half:]}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy what a loss is; a read-out that was kept is computed again."""
        return PrivacyLoss, (self.terms, self.protects, self.group)

    def _repr_html_(self) -> str:
        from tallystick.printing import html_text

        return f"<code>{html_text(self._shown())}</code> <small>({self.adjacency})</small>"

    @cached_property
    def _reader(self) -> Reader:
        from tallystick.accounting.readout import reader

        return reader(self)

    def _bounds_reader(self, rigorous: bool) -> Reader | RigorousReader:
        if not _said(rigorous):
            return self._reader
        from tallystick.accounting.rigorous import RigorousReader

        return RigorousReader(self)

    def _each(self, name: str, values: Any, read: Callable[[float], float]) -> Any:
        any_size = name == "epsilon"
        allowed = "finite numbers" if any_size else "numbers between 0 and 1"
        array = check.numbers_in(name, values, -1e300 if any_size else 0.0, 1e300 if any_size else 1.0, allowed)
        return _like(array, read)


def _said(rigorous: Any) -> bool:
    if not isinstance(rigorous, bool | np.bool_):
        raise InvalidInput("rigorous", rigorous, "True or False")
    return bool(rigorous)


def _way(direction: Direction | str | None) -> Direction | None:
    try:
        return None if direction is None else Direction(direction)
    except (ValueError, TypeError):
        raise InvalidInput("direction", direction, "'remove', 'add', or None for the worse of both") from None


def _like(array: Array, read: Callable[[float], float]) -> Any:
    if array.ndim == 0:
        return float(read(float(array)))
    return np.array([read(float(v)) for v in array.ravel()]).reshape(array.shape)


Maker = TypeVar("Maker", bound=Callable[..., Any])
CONSTRUCTORS: dict[str, Callable[..., Any]] = {}
"""What makes a loss, or an argument of one, by the name it has in expressions."""


def constructor(function: Maker) -> Maker:
    """Make a function that returns a loss, or an argument of one, a word of the expression language."""
    CONSTRUCTORS[function.__name__] = function
    return function


def loss_of(leaf: Leaf | None, adjacency: Any, unit: str | None) -> PrivacyLoss:
    """One release of one leaf; nothing at all for None."""
    usual = adjacency is Adjacency.ADD_REMOVE and unit is None
    return PrivacyLoss(() if leaf is None else ((leaf, 1),), ANY_UNIT if usual else Protects(adjacency, unit))


def as_leaf(loss: PrivacyLoss, operation: str) -> Leaf:
    """All of a loss as one leaf, for an operation that puts it inside another."""
    if loss.group != 1:
        raise InvalidInput(
            operation, str(loss), "a loss for single units; for_groups is outermost: sample first, then group"
        )
    if len(loss.terms) == 1 and loss.terms[0][1] == 1:
        return loss.terms[0][0]
    from tallystick.accounting.leaves.nested import Composed

    return Composed(loss.terms)
