"""Noisy contractive iterations that release their last iterate only: mu-GDP by the shift walk.

docs/theory/last-iterate.md has the proofs; ``accounting.iteration`` computes mu, rounded up.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.accounting import check, iteration
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.iteration import LEAST_MU
from tallystick.accounting.leaf import Leaf, Read, shown, written_call
from tallystick.accounting.leaves import sampled
from tallystick.accounting.leaves.gaussian import LARGEST_MU, Gaussian, Gdp, gaussian, gaussian_between
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.rounding import as_written, down

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw


@dataclass(frozen=True, slots=True)
class Cyclic:
    """``batches`` batches in a fixed order, pass after pass; ``position`` is the record's batch, None the worst."""

    batches: int
    position: int | None = None

    def __post_init__(self) -> None:
        check.keep(self, batches=check.count("batches", self.batches, least=1))
        if self.position is not None:
            check.keep(self, position=check.count("position", self.position, least=1, most=self.batches))

    def __str__(self) -> str:
        return f"cyclic(batches={self.batches}{'' if self.position is None else f', position={self.position}'})"


@dataclass(frozen=True, slots=True)
class Shuffled:
    """``batches`` batches, in an order that is drawn without looking at the data, once or for every pass."""

    batches: int

    def __post_init__(self) -> None:
        check.keep(self, batches=check.count("batches", self.batches, least=1))

    def __str__(self) -> str:
        return f"shuffled(batches={self.batches})"


@dataclass(frozen=True, slots=True)
class Poisson:
    """Every record is in every batch with probability ``rate``, independently."""

    rate: float

    def __post_init__(self) -> None:
        check.keep(self, rate=check.strict_rate(self.rate))

    def of(self, one: PrivacyLoss) -> PrivacyLoss:
        """One step's loss, sampled this way."""
        return one.sampled(rate=self.rate)

    @property
    def share(self) -> float:
        """How likely one record takes part."""
        return self.rate


@dataclass(frozen=True, slots=True)
class Subset:
    """Every batch is a fresh uniform subset of ``batch`` out of ``population`` records; replace-one neighbours."""

    batch: int
    population: int

    def __post_init__(self) -> None:
        check.keep(self, population=check.count("population", self.population, least=2))
        check.keep(self, batch=check.count("batch", self.batch, least=1, most=self.population - 1))

    def of(self, one: PrivacyLoss) -> PrivacyLoss:
        """One step's loss, sampled this way."""
        return one.subset(batch=self.batch, population=self.population)

    @property
    def share(self) -> float:
        """How likely one record takes part."""
        return self.batch / self.population


ROUNDED_UP = 5e-12
"""No mu is further above what its walk or its sensitivity proves: twice they are rounded up by 1e-12, of sums that are
off by no more."""

USUAL_DELTA = 1e-6
"""For which the noise of sampled batches is split, where no other delta is named."""

ORDERS: dict[str, type[Cyclic] | type[Shuffled]] = {"cyclic": Cyclic, "shuffled": Shuffled}


@constructor
def cyclic(*, batches: int, position: int | None = None) -> Cyclic:
    """Fixed batches in a fixed order: for ``last_iterate``. The record is in the worst batch, or at ``position``.

    Slots belong to records: the slot of a removed one stays empty, and the batch size is public.

    >>> print(cyclic(batches=10))
    cyclic(batches=10)
    """
    return Cyclic(batches, position)


@constructor
def shuffled(*, batches: int) -> Shuffled:
    """Batches of a random order, drawn once or for every pass without looking at the data: for ``last_iterate``.

    >>> print(shuffled(batches=10))
    shuffled(batches=10)
    """
    return Shuffled(batches)


@constructor
def poisson(*, rate: float) -> Poisson:
    """Batches by Poisson sampling: for ``last_iterate``.

    A step must be contractive for every sample: divide by a public batch size B and keep step size <= 2 B/(n M).

    >>> poisson(rate=0.1)
    Poisson(rate=0.1)
    """
    return Poisson(rate)


@constructor
def subset(*, batch: int, population: int) -> Subset:
    """Batches of exactly ``batch`` out of ``population`` records: for ``last_iterate`` about replaced records.

    >>> subset(batch=10, population=1000)
    Subset(batch=10, population=1000)
    """
    return Subset(batch, population)


class Walked(Leaf):
    """What a shift walk proves: the Gaussian pair of a mu that was computed and rounded up."""

    __slots__ = ()

    @property
    @abstractmethod
    def mu(self) -> float:
        """What the walk proves, rounded up."""

    def pair(self, direction: Direction) -> DominatingPair:
        return gaussian_between(self.gaussian_below, self.mu)

    @property
    def gaussian_below(self) -> float:
        """mu without what it was rounded up by, twice over; nothing where it is the least that is claimed."""
        return self.mu * (1.0 - ROUNDED_UP) if self.mu > LEAST_MU else 0.0

    @property
    def enclosed(self) -> bool:
        return True

    @property
    def attained(self) -> bool:
        return False

    @property
    def gaussian_mu(self) -> float:
        return self.mu

    def replaced(self) -> Leaf | None:
        """Return the walk in units of two displacements: neither of the two records moves a step by more than one.

        So it is still one of which only the end is seen, and only proved to be enough.
        """
        units = {name: getattr(self, name, None) for name in ("sigma", "diameter")}
        try:
            return dataclasses.replace(self, **{name: size / 2.0 for name, size in units.items() if size})  # type: ignore[type-var]
        except InvalidInput:
            return None  # too little noise for a leaf of its own; the general rule holds

    def grouped(self, size: int) -> Leaf | None:
        return Gdp(self.mu).grouped(size)

    def squared_mu(self, read: Read = as_written) -> Fraction:
        return Fraction(self.mu) ** 2

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import gaussian_law

        mu = self.mu if ask.upper else self.gaussian_below
        return gaussian_law(ask.ball(mu), ask.rate, ask.removing) if mu > 0.0 else ask.nothing()

    def text(self, protects: Protects) -> str:
        given = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return written_call(self, protects, *(f"{name}={shown(value)}" for name, value in given if value is not None))


@dataclass(frozen=True, slots=True)
class ShiftWalk(Walked):
    """The first ``steps - tail`` steps, hidden by noise of ``sigma`` displacements in each of the last ``tail``."""

    kind: ClassVar[str] = "shift_walk"
    tail: int
    steps: int
    contraction: float
    sigma: float
    diameter: float | None = None

    def __post_init__(self) -> None:
        check.keep(self, steps=check.count("steps", self.steps, least=2))
        check.keep(self, tail=check.count("tail", self.tail, least=1, most=self.steps - 1))
        check.keep(self, contraction=check.between("contraction", self.contraction, 0.0, 1.0))
        check.keep(self, sigma=check.scale("sigma", self.sigma))
        if self.diameter is not None:
            check.keep(self, diameter=check.scale("diameter", self.diameter))
        if self.mu > LARGEST_MU:
            raise InvalidInput("sigma", self.sigma, f"noise that makes the walk {typed(LARGEST_MU)}-GDP at least")

    @property
    def only_the_last(self) -> bool:
        return True

    @property
    def mu(self) -> float:
        return _tail_mu(self)

    def conditions(self) -> str:
        domain = "unbounded" if self.diameter is None else f"domain of {shown(self.diameter)} displacements"
        return (
            f"last iterate ({domain}, sampled batches): what {self.steps - self.tail} steps left is walked to zero in "
            f"the last {self.tail}, {self.mu:.6g}-GDP, if for every sample a step without the record is Lipschitz with "
            f"constant {shown(self.contraction)}; the record moves it by at most one displacement; every step has "
            "fresh Gaussian noise, inside the projection if there is one; nothing but the last iterate is released"
        )


@constructor
def shift_walk(
    *,
    tail: int,
    steps: int,
    contraction: float,
    sigma: float,
    diameter: float | None = None,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """The part of ``last_iterate`` with sampled batches that hides what the steps before its tail displaced.

    ``sigma`` is the part of the noise that is spent on this, in units of one record's displacement.

    >>> round(shift_walk(tail=4, steps=10, contraction=1, sigma=2, diameter=3).gdp_bound(), 9)
    0.75
    """
    return loss_of(ShiftWalk(tail, steps, contraction, sigma, diameter), adjacency, unit)


@dataclass(frozen=True, slots=True)
class LastIterate(Walked):
    """``sigma`` (noise of a step) and ``diameter`` (of the domain) in units of one record's displacement."""

    kind: ClassVar[str] = "last_iterate"
    steps: int
    contraction: float
    sigma: float
    diameter: float | None = None
    batches: Cyclic | Shuffled | None = None

    def __post_init__(self) -> None:
        check.keep(self, steps=check.count("steps", self.steps, least=1))
        check.keep(self, contraction=check.between("contraction", self.contraction, 0.0, 1.0))
        check.keep(self, sigma=check.scale("sigma", self.sigma))
        if self.diameter is not None:
            check.keep(self, diameter=check.scale("diameter", self.diameter))
        if self.batches is not None and not isinstance(self.batches, Cyclic | Shuffled):
            raise InvalidInput(
                "batches",
                self.batches,
                "cyclic(...), shuffled(...), poisson(...), subset(...), or None for full batches",
            )
        if self.steps % self.every:
            raise InvalidInput("steps", self.steps, f"whole passes over {self.every} batches")
        if self.mu > LARGEST_MU:
            raise InvalidInput("sigma", self.sigma, f"noise that makes the iteration {typed(LARGEST_MU)}-GDP at least")

    @property
    def every(self) -> int:
        """One record is used once in this many steps."""
        return 1 if self.batches is None else self.batches.batches

    @property
    def attained(self) -> bool:
        return self.batches is None and self.diameter is None

    @property
    def only_the_last(self) -> bool:
        return True

    @property
    def mu(self) -> float:
        return _mu(self)

    def squared_mu(self, read: Read = as_written) -> Fraction:
        # Plain composition of the uses always holds, and is not rounded.
        return min(Fraction(self.mu) ** 2, self.steps // self.every / read("sigma", self.sigma) ** 2)

    def conditions(self) -> str:
        case = "strongly convex" if self.contraction < 1.0 else "convex"
        domain = "unbounded" if self.diameter is None else f"domain of {shown(self.diameter)} displacements"
        batches = "full batches" if self.batches is None else str(self.batches)
        needs = [
            f"without the record a step is Lipschitz with constant {shown(self.contraction)}",
            "the record moves it by at most one displacement",
            "every step has fresh Gaussian noise, inside the projection if there is one",
            "nothing but the last iterate is released",
        ]
        if self.batches is not None:
            needs.append("a removed record leaves its slot empty, and the order does not look at the data")
        proved = f"{self.mu:.6g}-GDP by the shift walk"
        return f"last iterate ({case}, {domain}, {batches}): {proved}, if " + "; ".join(needs)

    def to_record(self) -> dict[str, Any]:
        names = ("steps", "contraction", "sigma", "diameter")
        order = None
        if self.batches is not None:
            order = {"order": type(self.batches).__name__.lower(), **dataclasses.asdict(self.batches)}
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}, "batches": order}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Leaf:
        names = [f.name for f in dataclasses.fields(cls)]
        if set(record) - {"kind"} != set(names):
            raise InvalidInput(cls.kind, sorted(set(record) - {"kind"}), "the fields " + ", ".join(names))
        given = {name: record[name] for name in names}
        return cls(**{**given, "batches": _order_of(given["batches"])})


def _order_of(record: Any) -> Cyclic | Shuffled | None:
    if record is None:
        return None
    name = record.get("order") if isinstance(record, dict) else None
    if not isinstance(name, str) or name not in ORDERS:
        raise InvalidInput("batches", record, "null, or an object whose order is one of " + ", ".join(ORDERS))
    kind = ORDERS[name]
    names = {f.name for f in dataclasses.fields(kind)}
    if set(record) != names | {"order"}:
        raise InvalidInput("batches", sorted(record), "the fields " + ", ".join(sorted(names)))
    return kind(**{field: record[field] for field in names})


@lru_cache(maxsize=256)
def _mu(leaf: LastIterate) -> float:
    position = leaf.batches.position if isinstance(leaf.batches, Cyclic) else None
    return iteration.recurring(
        uses=leaf.steps // leaf.every,
        every=leaf.every,
        after=0 if position is None else leaf.every - position,
        contraction=leaf.contraction,
        sigma=leaf.sigma,
        diameter=leaf.diameter,
    )


@lru_cache(maxsize=256)
def _tail_mu(leaf: ShiftWalk) -> float:
    return iteration.tail_walk(
        tail=leaf.tail,
        steps=leaf.steps,
        contraction=leaf.contraction,
        sigma=leaf.sigma,
        diameter=leaf.diameter,
    )


@constructor
def last_iterate(
    *,
    steps: int,
    contraction: float,
    sigma: float,
    diameter: float | None = None,
    batches: Any = None,
    delta: float | None = None,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """Noisy contractive steps of which only the last iterate is released: privacy amplification by iteration.

    ``contraction`` is the Lipschitz constant of a step, at most 1; ``sigma`` (the noise of a step) and ``diameter``
    (of the domain that every step projects to) are in units of the displacement that one record causes.
    ``batches`` is None for full batches, or ``cyclic(...)``, ``shuffled(...)``, ``poisson(...)`` or ``subset(...)``.
    With the last two the loss is a sum, a walk and the sampled steps after it (or plain composition), whose tail and
    split of the noise are the best that were found for ``delta`` (1e-6 unless said). Never above plain composition
    (there: at ``delta``).

    >>> loss = last_iterate(steps=1000, contraction=0.99, sigma=50)
    >>> round(loss.gdp_bound(), 4), loss <= 1000 * gaussian(sigma=50)
    (0.2821, True)
    """
    if isinstance(batches, Poisson | Subset):
        target = (
            USUAL_DELTA if delta is None else check.inside("delta", delta, "the delta for which the noise is split")
        )
        shape = LastIterate(steps, contraction, sigma, diameter)
        return _sampled_batches(shape, batches, target, Protects(adjacency, unit))
    if delta is not None:
        raise InvalidInput("delta", delta, "None: only sampled batches choose a split of their noise for a delta")
    return loss_of(LastIterate(steps, contraction, sigma, diameter, batches), adjacency, unit)


def _sampled_batches(shape: LastIterate, batches: Poisson | Subset, delta: float, who: Protects) -> PrivacyLoss:
    """A part of the noise walks what earlier steps left to zero, the rest hides the sampled displacements of a tail."""
    plain = shape.steps * batches.of(gaussian(sigma=shape.sigma, **who.about))
    best, least = plain, plain.epsilon(delta=delta)
    for tail, hiding, mu in _splits(shape, batches.share):
        walking, rest = (down(shape.sigma * math.sqrt(part)) for part in (1.0 - hiding, hiding))
        if mu > 0.99 * LARGEST_MU or min(walking, rest) < check.SMALLEST_SCALE:
            continue
        walk = ShiftWalk(tail, shape.steps, shape.contraction, walking, shape.diameter)
        loss = loss_of(walk, who.adjacency, who.unit) + tail * batches.of(gaussian(sigma=rest, **who.about))
        epsilon = loss.epsilon(delta=delta)
        if epsilon < least:
            best, least = loss, epsilon
    return best


def _splits(shape: LastIterate, share: float) -> list[tuple[int, float, float]]:
    """(steps of the tail, part of the variance that hides displacements, mu of the walk): the most promising ones.

    Any choice is a bound; the rule, mu^2 = tail (share/sigma)^2 e^{1/sigma^2}, only says which ones to compute.
    """
    ranked = []
    for tail in sorted({min(shape.steps - 1, round(1.3**k)) for k in range(80)} - {0}):
        for hiding in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98):
            walked = iteration.tail_walk(
                tail=tail,
                steps=shape.steps,
                contraction=shape.contraction,
                sigma=shape.sigma * math.sqrt(1.0 - hiding),
                diameter=shape.diameter,
            )
            each = 1.0 / (shape.sigma**2 * hiding)
            ranked.append((walked**2 + tail * share**2 * each * math.exp(min(each, 50.0)), tail, hiding, walked))
    return [best[1:] for best in sorted(ranked)[:6]]


@dataclass(frozen=True, slots=True)
class Iteration:
    """What a ``last_iterate`` loss is about: to be read for other numbers of steps, or as if all were seen."""

    shape: LastIterate
    sampling: Poisson | Subset | None
    protects: Protects

    def last(self, passes: int, *, delta: float) -> PrivacyLoss:
        """The loss of this many passes (steps, where batches are sampled), of which the last iterate is released."""
        return last_iterate(
            steps=passes * self.shape.every,
            contraction=self.shape.contraction,
            sigma=self.shape.sigma,
            diameter=self.shape.diameter,
            batches=self.sampling or self.shape.batches,
            delta=None if self.sampling is None else delta,
            **self.protects.about,
        )

    def positions(self) -> list[PrivacyLoss]:
        """The loss of a record in the first, second, ... batch of a fixed order.

        Where batches are shuffled, the worst position is what the loss says; these are what it would be at each.
        """
        if self.shape.batches is None:
            raise InvalidInput("loss", str(self.shape), "a last_iterate with cyclic(...) or shuffled(...) batches")
        orders = (Cyclic(self.shape.every, position) for position in range(1, self.shape.every + 1))
        leaves = (dataclasses.replace(self.shape, batches=order) for order in orders)
        return [loss_of(leaf, self.protects.adjacency, self.protects.unit) for leaf in leaves]

    def every(self, passes: int) -> PrivacyLoss:
        """The loss if every iterate were released: plain composition of what uses the record."""
        one = gaussian(sigma=self.shape.sigma, **self.protects.about)
        return passes * (one if self.sampling is None else self.sampling.of(one))

    @property
    def passes(self) -> int:
        """How often the record is used; the steps, where batches are sampled."""
        return self.shape.steps // self.shape.every


def iteration_of(loss: PrivacyLoss) -> Iteration | None:
    """The iteration behind a loss that ``last_iterate`` made; None for all others.

    >>> found = iteration_of(last_iterate(steps=1000, contraction=0.99, sigma=50))
    >>> print(found.every(found.passes))
    1000 * gaussian(sigma=50)
    >>> iteration_of(gaussian(sigma=50)) is None
    True
    """
    if loss.group != 1:
        return None
    match sorted(loss.terms, key=lambda term: not isinstance(term[0], Walked)):
        case [(LastIterate() as leaf, 1)]:
            return Iteration(leaf, None, loss.protects)
        case [(ShiftWalk() as walk, 1), (sampled.Sampled(base=Gaussian() as one) as leaf, tail)] if tail == walk.tail:
            return _sampled_iteration(walk, one, Poisson(leaf.rate), loss.protects)
        case [(ShiftWalk() as walk, 1), (sampled.Subset(base=Gaussian() as one) as leaf, tail)] if tail == walk.tail:
            return _sampled_iteration(walk, one, Subset(leaf.batch, leaf.population), loss.protects)
    return None


def _sampled_iteration(walk: ShiftWalk, one: Gaussian, sampling: Poisson | Subset, protects: Protects) -> Iteration:
    sigma = down(math.hypot(walk.sigma, one.sigma))  # the noise was split into these two parts
    return Iteration(LastIterate(walk.steps, walk.contraction, sigma, walk.diameter), sampling, protects)
